//! Runs runs on all cores, the longest first. A finished run is stored at once; a stored one is not run again.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use parking_lot::{Mutex, MutexGuard};

use super::estimate::estimate;
use super::store::{Store, Stored};
use super::study_run::{StudyRun, StudyRunResult};
use crate::scenario::{self, Cost, Outcome, Progress, ScenarioError};

/// How runs are run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Threads; `None`: one per core.
    pub jobs: Option<NonZero<usize>>,
    /// Folder of this study's results; `None`: nothing is stored, nothing resumed.
    pub results: Option<PathBuf>,
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
        /// Its file.
        file: &'a Path,
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

/// Why a study has no results.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Results cannot be stored: the user can fix it.
    #[error("cannot write results in '{}': {error}; name a folder you can write to", folder.display())]
    Store {
        /// Where.
        folder: PathBuf,
        /// Why.
        error: std::io::Error,
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

/// Runs runs and gathers the results, in the order of the runs. `watch` is called with every event, from several threads.
///
/// # Errors
/// Results cannot be stored (all stops then), or runs failed (the others are run and stored first).
pub fn run_study(
    runs: &[StudyRun],
    options: &RunOptions,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Vec<StudyRunResult>, StudyError> {
    run_study_with(runs, options, watch, &|run, progress| scenario::run(&run.scenario, run.seed, progress))
}

/// [`run_study`] with another way to run a run.
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
    let store = match &options.results {
        Some(folder) => Some(Store::open(folder).map_err(|error| cannot_store(folder, error))?),
        None => None,
    };
    let work = Work::find(runs, store.as_ref(), watch);
    let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    // In real time runs would disturb each other.
    let real = runs.iter().any(|run| !run.scenario.backend.is_virtual());
    let threads = if real { 1 } else { options.jobs.unwrap_or_else(cores).get() }.min(work.queue.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work.pull(runner, watch));
        }
    });
    work.gather(options)
}

/// The results of runs that are stored in a study's folder, in the order of the runs. Nothing runs and nothing is written; a folder or
/// a file that is not there, or that cannot be read, holds no results.
pub fn stored(runs: &[StudyRun], folder: &Path) -> Vec<StudyRunResult> {
    let store = Store::read_only(folder);
    let load = |run: &StudyRun| match store.load(run) {
        Stored::Result(result) => Some(*result),
        Stored::Nothing | Stored::Broken(_) => None,
    };
    runs.iter().filter_map(load).collect()
}

fn cannot_store(folder: &Path, error: std::io::Error) -> StudyError {
    StudyError::Store { folder: folder.to_owned(), error }
}

/// What the threads share.
struct Work<'a> {
    runs: &'a [StudyRun],
    store: Option<&'a Store>,
    /// Runs to run, the longest first. Of runs with one fingerprint only the first runs.
    queue: Vec<usize>,
    next: AtomicUsize,
    /// Results cannot be stored: no thread begins another run.
    over: AtomicBool,
    results: Mutex<BTreeMap<String, StudyRunResult>>,
    failed: Mutex<Vec<(usize, ScenarioError)>>,
    unstored: Mutex<Option<std::io::Error>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl<'a> Work<'a> {
    /// Looks at what is stored.
    fn find(runs: &'a [StudyRun], store: Option<&'a Store>, watch: &(dyn Fn(Event<'_>) + Sync)) -> Self {
        let mut results = BTreeMap::new();
        let mut queue: BTreeMap<&str, usize> = BTreeMap::new();
        if let Some(store) = store {
            store.sweep(runs);
        }
        for (i, run) in runs.iter().enumerate() {
            if results.contains_key(&run.fingerprint) || queue.contains_key(run.fingerprint.as_str()) {
                continue;
            }
            match store.map_or(Stored::Nothing, |store| store.load(run)) {
                Stored::Result(result) => {
                    results.insert(run.fingerprint.clone(), *result);
                    continue;
                }
                Stored::Broken(reason) => {
                    let file = store.map(|s| s.path(&run.fingerprint)).unwrap_or_default();
                    watch(Event::Broken { file: &file, reason: &reason });
                }
                Stored::Nothing => {}
            }
            queue.insert(&run.fingerprint, i);
        }
        watch(Event::Starts { stored: results.len(), left: queue.len() });
        let mut queue: Vec<(f64, usize)> =
            queue.into_values().map(|i| (estimate(&runs[i].scenario).cpu_seconds, i)).collect();
        queue.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Self {
            runs,
            store,
            queue: queue.into_iter().map(|(_, i)| i).collect(),
            next: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            results: Mutex::new(results),
            failed: Mutex::default(),
            unstored: Mutex::default(),
        }
    }

    /// Runs runs until none is left.
    fn pull<R>(&self, runner: &R, watch: &(dyn Fn(Event<'_>) + Sync))
    where
        R: Fn(&StudyRun, &Progress) -> Result<(Outcome, Cost), ScenarioError> + Sync,
    {
        while !self.over.load(Ordering::Relaxed) {
            let Some(&i) = self.queue.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let run = &self.runs[i];
            let progress = Progress::default();
            watch(Event::Begins { run, of: scenario::goal(&run.scenario), progress: Arc::clone(&progress) });
            match runner(run, &progress) {
                Ok((outcome, cost)) => match self.keep(run, outcome) {
                    Ok(()) => watch(Event::Ends { run, cost }),
                    Err(e) => {
                        self.over.store(true, Ordering::Relaxed);
                        locked(&self.unstored).get_or_insert(e);
                    }
                },
                Err(error) => {
                    watch(Event::Fails { run, error: &error });
                    locked(&self.failed).push((i, error));
                }
            }
        }
    }

    fn keep(&self, run: &StudyRun, outcome: Outcome) -> std::io::Result<()> {
        let result =
            StudyRunResult { key: run.key.clone(), seed: run.seed, fingerprint: run.fingerprint.clone(), outcome };
        if let Some(store) = self.store {
            store.save(&result)?;
        }
        locked(&self.results).insert(run.fingerprint.clone(), result);
        Ok(())
    }

    fn gather(self, options: &RunOptions) -> Result<Vec<StudyRunResult>, StudyError> {
        if let Some(error) = self.unstored.into_inner() {
            return Err(cannot_store(options.results.as_deref().unwrap_or(Path::new(".")), error));
        }
        let mut failed = self.failed.into_inner();
        if !failed.is_empty() {
            failed.sort_by_key(|(i, _)| *i);
            let failed = failed.into_iter().map(|(i, error)| Failed { label: self.runs[i].label(), error }).collect();
            return Err(StudyError::Runs { failed, of: self.runs.len() });
        }
        let results = self.results.into_inner();
        let of = |run: &StudyRun| {
            results.get(&run.fingerprint).map(|r| StudyRunResult { key: run.key.clone(), ..r.clone() })
        };
        Ok(self.runs.iter().filter_map(of).collect())
    }
}
