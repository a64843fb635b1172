//! Runs runs on all cores, the longest first. A finished run is stored at once; a stored one is not run again.

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

/// When a process first says what it is making.
const FIRST_BEAT: Duration = Duration::from_secs(1);

/// How runs are run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Threads; `None`: one per core.
    pub jobs: Option<NonZero<usize>>,
    /// Where this study's results are; `None`: nothing is stored, nothing resumed.
    pub results: Option<Location>,
    /// Ends all runs once it is set: those under way end without a result, and no other begins.
    pub interrupt: Arc<AtomicBool>,
    /// Runs begin in the order in which they are given, not the longest first.
    pub in_order: bool,
}

/// What happens while runs run, for progress bars.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many results were there before; so many runs are left to run.
    Starts {
        /// Taken from the folder.
        stored: usize,
        /// Left to run.
        left: usize,
    },
    /// A stored result cannot be read; the run runs again.
    Broken {
        /// Where it is.
        place: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A run begins.
    Begins {
        /// Which.
        run: &'a StudyRun,
        /// What `progress` counts up to.
        of: u64,
        /// Its count.
        progress: Progress,
    },
    /// A run is done, and stored.
    Ends {
        /// Which.
        run: &'a StudyRun,
        /// What it cost.
        cost: Cost,
    },
    /// A run failed. The others go on.
    Fails {
        /// Which.
        run: &'a StudyRun,
        /// Why.
        error: &'a ScenarioError,
    },
}

/// A run that failed.
#[derive(Debug)]
pub struct Failed {
    /// Which.
    pub label: String,
    /// Why.
    pub error: ScenarioError,
}

/// What executed runs bring.
#[derive(Debug, Default)]
pub struct Executed {
    /// Results of the runs that have one, in the order of the runs.
    pub results: Vec<StudyRunResult>,
    /// Runs that failed or were interrupted: their places among the runs, and why. Runs that never
    /// began are in neither list.
    pub failed: Vec<(usize, ScenarioError)>,
}

/// Why a study has no results.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Results cannot be stored or read: the user can fix it.
    #[error("cannot keep results in '{location}': {}; {}", one_line(error), location.hint())]
    Store {
        /// Where.
        location: Location,
        /// Why.
        error: std::io::Error,
    },
    /// A run came out otherwise than another process stored it, which a pure function of scenario and seed cannot.
    #[error("{} of {of} runs came out otherwise than they are stored; the first is {} ('{}'): \
        runs must not depend on machine or build; use one build of fathom, or another --results", differ.len(), differ[0].label, differ[0].place)]
    Differ {
        /// Those that did, at least one.
        differ: Vec<Differs>,
        /// Runs that were requested.
        of: usize,
    },
    /// Runs failed; those that did not are stored.
    #[error("{} of {of} runs failed; the first ({}): {}; the others are kept, the same command runs these again",
        failed.len(), failed[0].label, failed[0].error)]
    Runs {
        /// Those that failed, at least one.
        failed: Vec<Failed>,
        /// Runs that were requested.
        of: usize,
    },
}

/// A run that came out otherwise than it is stored.
#[derive(Debug)]
pub struct Differs {
    /// Which.
    pub label: String,
    /// Where the stored result is.
    pub place: String,
}

fn one_line(error: &std::io::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Executes runs on all cores and returns their results in the order of the runs. Runs in real time
/// would disturb each other: they follow one by one. `watch` is called with every event, from several
/// threads.
///
/// # Errors
/// Results cannot be stored (all stops then), or runs failed (the others are run and stored first).
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
/// As [`run_study`].
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

/// Executes runs as [`run_study`] does, each by `runner`; runs that fail are part of the answer.
///
/// # Errors
/// Results cannot be stored.
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
        // A panic of a run is the study's.
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    });
    work.gather(options)
}

/// The results of runs that are stored in a study's folder, in the order of the runs. Nothing runs and nothing is written; a folder or
/// a file that is not there, or that cannot be read, holds no results.
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

/// What the threads share.
struct Work<'a> {
    runs: &'a [StudyRun],
    store: Option<&'a Store>,
    /// Runs to execute. Of runs with one fingerprint only the first is executed.
    in_virtual_time: Queue,
    in_real_time: Queue,
    interrupt: &'a AtomicBool,
    /// Results cannot be stored: no thread begins another run.
    over: AtomicBool,
    running: RunningNow,
    results: Mutex<BTreeMap<String, StudyRunResult>>,
    failed: Mutex<Vec<(usize, ScenarioError)>>,
    differ: Mutex<Vec<usize>>,
    unstored: Mutex<Option<std::io::Error>>,
}

/// Runs in the order in which they begin.
#[derive(Default)]
struct Queue {
    runs: Vec<usize>,
    next: AtomicUsize,
}

/// The runs that are being made, for whoever asks how the study stands.
#[derive(Default)]
struct RunningNow {
    /// Their fingerprints, and whether no more will come.
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

    /// Records them in the store again and again until the end. What takes less than a second is not worth it.
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
    /// Looks at what is stored.
    fn find(
        runs: &'a [StudyRun],
        store: Option<&'a Store>,
        options: &'a RunOptions,
        watch: &(dyn Fn(Event<'_>) + Sync),
    ) -> std::io::Result<Self> {
        // Of runs with one fingerprint the first.
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

    /// Executes runs of a queue until none is left.
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
                // In real time, or without a seed, no two runs are equal: the first is the result.
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
