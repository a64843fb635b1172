//! Executes runs on all cores, the longest first. Each result is stored as soon as its run ends; a
//! run with a stored result is not repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::estimate::estimate;
use super::store::{BEAT, Location, Saved, Store, Stored};
use super::study_run::{StudyRun, StudyRunResult};
use crate::scenario::{self, Cost, Outcome, Progress, RunControl, RunError, ScenarioError};

/// Time that passes before a process first reports its runs in progress.
const FIRST_BEAT: Duration = Duration::from_secs(1);

/// Options for the execution of runs.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Number of threads; `None` for one thread per core.
    pub jobs: Option<NonZero<usize>>,
    /// Location of the results of this study. If `None`, nothing is stored and every run is
    /// executed.
    pub results: Option<Location>,
    /// Interrupts all runs once set to `true`: runs in progress end without a result, and no other
    /// run begins.
    pub interrupt: Arc<AtomicBool>,
    /// Whether runs begin in the given order instead of the longest first.
    pub in_order: bool,
}

/// Progress of the runs, for progress bars.
#[derive(Debug)]
pub enum Event<'a> {
    /// Execution begins.
    Starts {
        /// Number of results that were stored before.
        stored: usize,
        /// Number of runs left to execute.
        left: usize,
    },
    /// A stored result cannot be read; its run is executed again.
    Broken {
        /// Location of the stored result.
        place: &'a str,
        /// Reason why the stored result cannot be read.
        reason: &'a str,
    },
    /// A run begins.
    Begins {
        /// Run that begins.
        run: &'a StudyRun,
        /// Final value of `progress`.
        of: u64,
        /// Counter that the run advances.
        progress: Progress,
    },
    /// A run is complete; its result is stored if results have a location.
    Ends {
        /// Run that is complete.
        run: &'a StudyRun,
        /// Cost of the run.
        cost: Cost,
    },
    /// A run failed. The other runs continue.
    Fails {
        /// Run that failed.
        run: &'a StudyRun,
        /// Error of the run.
        error: &'a ScenarioError,
    },
}

/// A run that failed or was interrupted.
#[derive(Debug)]
pub struct Failed {
    /// Name of the run.
    pub label: String,
    /// Error of the run.
    pub error: ScenarioError,
}

/// Outcome of the execution.
#[derive(Debug, Default)]
pub struct Executed {
    /// Results of the runs that have one, in the order of the runs.
    pub results: Vec<StudyRunResult>,
    /// Runs that failed or were interrupted: their indices and errors. Runs that never began are in
    /// neither `results` nor `failed`.
    pub failed: Vec<(usize, ScenarioError)>,
}

/// Reason why a study has no complete results.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Results cannot be stored or read. The user can correct this.
    #[error("cannot store results in '{location}': {}; {}", one_line(error), location.hint())]
    Store {
        /// Location of the results.
        location: Location,
        /// Error of the file system or object store.
        error: std::io::Error,
    },
    /// The result of a run differs from the result that another process stored, although a run in
    /// virtual time depends only on its scenario and seed.
    #[error("{} of {of} runs differ from their stored results; the first is {} ('{}'). Results of \
        different builds must not be mixed: use one build of fathom, or another folder with \
        --results", differ.len(), differ[0].label, differ[0].place)]
    Differ {
        /// Runs that differ, at least one.
        differ: Vec<Differs>,
        /// Number of requested runs.
        of: usize,
    },
    /// Runs failed or were interrupted. The results of the other runs are stored.
    #[error("{} of {of} runs failed; the first is {}: {}; other results are stored, and the same \
        command repeats only the failed runs",
        failed.len(), failed[0].label, failed[0].error)]
    Runs {
        /// Runs that failed or were interrupted, at least one.
        failed: Vec<Failed>,
        /// Number of requested runs.
        of: usize,
    },
}

/// A run whose result differs from the stored one.
#[derive(Debug)]
pub struct Differs {
    /// Name of the run.
    pub label: String,
    /// Location of the stored result.
    pub place: String,
}

fn one_line(error: &std::io::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Executes runs on all cores and returns their results in the order of the runs. Runs in real time
/// are executed one after the other, because they would disturb each other. Calls `watch` with
/// every event, from several threads.
///
/// # Errors
/// Returns an error if results cannot be stored, if a result differs from the stored one, or if
/// runs failed. If results cannot be stored, no other run begins. If runs fail, the other runs are
/// executed and stored first.
pub fn run_study(
    runs: &[StudyRun],
    options: &RunOptions,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Vec<StudyRunResult>, StudyError> {
    run_study_with(runs, options, watch, &|run, progress| {
        let control = RunControl {
            progress: Arc::clone(progress),
            interrupt: Arc::clone(&options.interrupt),
            responses: None,
        };
        scenario::run_with(&run.scenario, run.seed, &control)
    })
}

/// Executes runs as [`run_study`] does, each by `runner`.
///
/// # Errors
/// Returns the errors of [`run_study`].
pub(crate) fn run_study_with<R>(
    runs: &[StudyRun],
    options: &RunOptions,
    watch: &(dyn Fn(Event<'_>) + Sync),
    runner: &R,
) -> Result<Vec<StudyRunResult>, StudyError>
where
    R: Fn(&StudyRun, &Progress) -> Result<(Outcome, Cost), ScenarioError> + Sync,
{
    let Executed { results, failed } = execute(runs, options, watch, runner)?;
    if failed.is_empty() {
        return Ok(results);
    }
    let failed =
        failed.into_iter().map(|(i, error)| Failed { label: runs[i].label(), error }).collect();
    Err(StudyError::Runs { failed, of: runs.len() })
}

/// Executes runs as [`run_study`] does, each by `runner`. Failed runs are not an error, but a part
/// of the outcome.
///
/// # Errors
/// Returns an error if results cannot be stored, or if a result differs from the stored one.
pub(crate) fn execute<R>(
    runs: &[StudyRun],
    options: &RunOptions,
    watch: &(dyn Fn(Event<'_>) + Sync),
    runner: &R,
) -> Result<Executed, StudyError>
where
    R: Fn(&StudyRun, &Progress) -> Result<(Outcome, Cost), ScenarioError> + Sync,
{
    let store = match &options.results {
        Some(location) => {
            Some(Store::open(location, runs).map_err(|error| cannot_store(location, error))?)
        }
        None => None,
    };
    let work = Work::find(runs, store.as_ref(), options, watch)
        .map_err(|error| cannot_store_in(options, error))?;
    let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let threads = options.jobs.unwrap_or_else(cores).get().min(work.in_virtual_time.runs.len());
    thread::scope(|scope| {
        let beats = store.as_ref().map(|store| scope.spawn(|| work.running.record(store)));
        let threads: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work.pull(&work.in_virtual_time, runner, watch)))
            .collect();
        let mut ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ended.push(scope.spawn(|| work.pull(&work.in_real_time, runner, watch)).join());
        work.running.end();
        let panic = ended.into_iter().chain(beats.map(|beats| beats.join())).find_map(Result::err);
        // Pass the panic of a run on to the caller.
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    });
    work.gather(options)
}

/// Returns the results of runs that are stored in the folder of a study, in the order of the runs.
/// Does not execute or write anything. Skips files that are missing or unreadable, and treats an
/// unreadable folder as empty.
pub fn stored(runs: &[StudyRun], folder: &Path) -> Vec<StudyRunResult> {
    let mut results = Vec::new();
    let read = Store::read_only(&folder.into()).and_then(|store| {
        store.load(&runs.iter().collect::<Vec<_>>(), &mut |_, stored| {
            if let Stored::Result(result) = stored {
                results.push(*result);
            }
        })
    });
    if read.is_err() {
        results.clear();
    }
    results
}

fn cannot_store(location: &Location, error: std::io::Error) -> StudyError {
    StudyError::Store { location: location.clone(), error }
}

fn cannot_store_in(options: &RunOptions, error: std::io::Error) -> StudyError {
    let nowhere = Location::Folder(".".into());
    cannot_store(options.results.as_ref().unwrap_or(&nowhere), error)
}

/// State that the threads share.
struct Work<'a> {
    runs: &'a [StudyRun],
    store: Option<&'a Store>,
    /// Runs to execute, by backend. If several runs have the same fingerprint, only the first is
    /// executed.
    in_virtual_time: Queue,
    in_real_time: Queue,
    interrupt: &'a AtomicBool,
    /// Whether execution is over because results cannot be stored. No other run then begins.
    over: AtomicBool,
    running: RunningNow,
    /// Results by fingerprint.
    results: Mutex<BTreeMap<String, StudyRunResult>>,
    /// Indices and errors of runs that failed or were interrupted.
    failed: Mutex<Vec<(usize, ScenarioError)>>,
    /// Indices of runs whose result differs from the stored one.
    differ: Mutex<Vec<usize>>,
    /// First error in storing a result.
    unstored: Mutex<Option<std::io::Error>>,
}

/// Indices of runs in the order in which they begin, and the position of the next one.
#[derive(Default)]
struct Queue {
    runs: Vec<usize>,
    next: AtomicUsize,
}

/// Runs in progress, for `fathom plan status`.
#[derive(Default)]
struct RunningNow {
    /// Fingerprints of the runs, and whether all runs have ended.
    state: Mutex<(BTreeSet<String>, bool)>,
    over: Condvar,
}

impl RunningNow {
    fn begins(&self, run: &StudyRun) {
        self.state.lock().0.insert(run.fingerprint.clone());
    }

    fn ends(&self, run: &StudyRun) {
        self.state.lock().0.remove(&run.fingerprint);
    }

    fn end(&self) {
        self.state.lock().1 = true;
        self.over.notify_all();
    }

    /// Writes the runs in progress to the store at regular intervals until all runs have ended.
    /// Writes nothing in the first second, so short executions leave no record.
    fn record(&self, store: &Store) {
        let (name, mut said) = (Store::beat_name(), false);
        let mut state = self.state.lock();
        while !state.1 {
            let timed_out =
                self.over.wait_for(&mut state, if said { BEAT } else { FIRST_BEAT }).timed_out();
            if timed_out && !state.1 && !state.0.is_empty() {
                let running = state.0.clone();
                MutexGuard::unlocked(&mut state, || store.record_running(&name, &running));
                said = true;
            }
        }
        drop(state);
        if said {
            store.record_running(&name, &BTreeSet::new());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl<'a> Work<'a> {
    /// Reads the stored results and queues the runs without one.
    fn find(
        runs: &'a [StudyRun],
        store: Option<&'a Store>,
        options: &'a RunOptions,
        watch: &(dyn Fn(Event<'_>) + Sync),
    ) -> std::io::Result<Self> {
        // Keep the first of several runs with the same fingerprint.
        let mut distinct: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, run) in runs.iter().enumerate() {
            distinct.entry(&run.fingerprint).or_insert(i);
        }
        let mut results = BTreeMap::new();
        if let Some(store) = store {
            let of: Vec<&StudyRun> = distinct.values().map(|i| &runs[*i]).collect();
            store.load(&of, &mut |run, stored| match stored {
                Stored::Result(result) => {
                    results.insert(run.fingerprint.clone(), *result);
                }
                Stored::Broken(reason) => {
                    watch(Event::Broken { place: &store.place(&run.fingerprint), reason: &reason });
                }
                Stored::Nothing => {}
            })?;
        }
        distinct.retain(|fingerprint, _| !results.contains_key(*fingerprint));
        watch(Event::Starts { stored: results.len(), left: distinct.len() });
        let mut queue: Vec<(f64, usize)> =
            distinct.into_values().map(|i| (estimate(&runs[i].scenario).cpu_seconds, i)).collect();
        if options.in_order {
            queue.sort_by_key(|(_, i)| *i);
        } else {
            queue.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        let (in_virtual_time, in_real_time): (Vec<usize>, Vec<usize>) =
            queue.into_iter().map(|(_, i)| i).partition(|i| runs[*i].scenario.backend.is_virtual());
        let queue = |runs| Queue { runs, next: AtomicUsize::new(0) };
        Ok(Self {
            runs,
            store,
            in_virtual_time: queue(in_virtual_time),
            in_real_time: queue(in_real_time),
            interrupt: &options.interrupt,
            over: AtomicBool::new(false),
            running: RunningNow::default(),
            results: Mutex::new(results),
            failed: Mutex::default(),
            differ: Mutex::default(),
            unstored: Mutex::default(),
        })
    }

    /// Executes runs of a queue until none is left, or until the execution is interrupted.
    fn pull<R>(&self, queue: &Queue, runner: &R, watch: &(dyn Fn(Event<'_>) + Sync))
    where
        R: Fn(&StudyRun, &Progress) -> Result<(Outcome, Cost), ScenarioError> + Sync,
    {
        let over = || self.over.load(Ordering::Relaxed) || self.interrupt.load(Ordering::Relaxed);
        while !over() {
            let Some(&i) = queue.runs.get(queue.next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let run = &self.runs[i];
            let progress = Progress::default();
            watch(Event::Begins {
                run,
                of: scenario::goal(&run.scenario),
                progress: Arc::clone(&progress),
            });
            self.running.begins(run);
            match runner(run, &progress) {
                Ok((outcome, cost)) => match self.keep(i, outcome) {
                    Ok(()) => watch(Event::Ends { run, cost }),
                    Err(e) => {
                        self.over.store(true, Ordering::Relaxed);
                        locked(&self.unstored).get_or_insert(e);
                    }
                },
                Err(error) => {
                    let interrupted = matches!(error, ScenarioError::Run(RunError::Interrupted));
                    if !interrupted {
                        watch(Event::Fails { run, error: &error });
                    }
                    if let Some(store) = self.store.filter(|_| !interrupted) {
                        store.record_failure(run, &error);
                    }
                    locked(&self.failed).push((i, error));
                }
            }
            self.running.ends(run);
        }
    }

    fn keep(&self, i: usize, outcome: Outcome) -> std::io::Result<()> {
        let run = &self.runs[i];
        let result = StudyRunResult {
            key: run.key.clone(),
            seed: run.seed,
            fingerprint: run.fingerprint.clone(),
            outcome,
        };
        let result = match self.store.map(|store| store.save(run, &result)).transpose()? {
            Some(Saved::Other(first)) => {
                // In real time, or with a controller without a seed, each result is different. The
                // first result counts.
                if run.scenario.is_repeatable() {
                    locked(&self.differ).push(i);
                }
                *first
            }
            Some(Saved::Kept) | None => result,
        };
        locked(&self.results).insert(run.fingerprint.clone(), result);
        Ok(())
    }

    fn gather(self, options: &RunOptions) -> Result<Executed, StudyError> {
        if let Some(error) = self.unstored.into_inner() {
            return Err(cannot_store_in(options, error));
        }
        let mut differ = self.differ.into_inner();
        if let (Some(store), false) = (self.store, differ.is_empty()) {
            differ.sort_unstable();
            let differs = |i: usize| {
                let run = &self.runs[i];
                Differs { label: run.label(), place: store.place(&run.fingerprint) }
            };
            return Err(StudyError::Differ {
                differ: differ.into_iter().map(differs).collect(),
                of: self.runs.len(),
            });
        }
        let mut failed = self.failed.into_inner();
        failed.sort_by_key(|(i, _)| *i);
        let results = self.results.into_inner();
        let of = |run: &StudyRun| {
            results
                .get(&run.fingerprint)
                .map(|r| StudyRunResult { key: run.key.clone(), ..r.clone() })
        };
        Ok(Executed { results: self.runs.iter().filter_map(of).collect(), failed })
    }
}
