//! Runs cells on all cores, the longest first. A finished cell is stored at once; a stored one is not run again.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::estimate::estimate;
use super::store::{Store, Stored};
use crate::experiment::{Cost, Progress};
use crate::scenario::{self, Outcome, RunError};

/// What a cell brought. Nothing in it depends on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellResult {
    /// Axis to value, or name of the variant.
    pub key: BTreeMap<String, String>,
    /// Seed.
    pub seed: u64,
    /// The cell's fingerprint.
    pub fingerprint: String,
    /// What the run says.
    pub outcome: Outcome,
}

/// How cells are run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Threads; `None`: one per core.
    pub jobs: Option<NonZero<usize>>,
    /// Folder of this study's results; `None`: nothing is stored, nothing resumed.
    pub results: Option<PathBuf>,
}

/// What happens while cells run, for progress bars.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many results were there before; so many cells are left to run.
    Starts {
        /// Taken from the folder.
        stored: usize,
        /// Left to run.
        left: usize,
    },
    /// A stored result cannot be read; the cell runs again.
    Broken {
        /// Its file.
        file: &'a Path,
        /// Why.
        reason: &'a str,
    },
    /// A cell begins.
    Begins {
        /// Which.
        cell: &'a Cell,
        /// What `progress` counts up to.
        of: u64,
        /// Its count.
        progress: Progress,
    },
    /// A cell is done, and stored.
    Ends {
        /// Which.
        cell: &'a Cell,
        /// What it cost.
        cost: Cost,
    },
    /// A cell failed. The others go on.
    Fails {
        /// Which.
        cell: &'a Cell,
        /// Why.
        error: &'a RunError,
    },
}

/// A cell that failed.
#[derive(Debug)]
pub struct Failed {
    /// Which.
    pub label: String,
    /// Why.
    pub error: RunError,
}

/// Why a study has no results.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Results cannot be stored: the user mends it.
    #[error("cannot write results in '{}': {error}; name a folder you can write to", folder.display())]
    Store {
        /// Where.
        folder: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Cells failed; those that did not are stored.
    #[error("{} of {of} cells failed; the first ({}): {}; the others are kept, the same command runs these again",
        failed.len(), failed[0].label, failed[0].error)]
    Cells {
        /// Those that failed, at least one.
        failed: Vec<Failed>,
        /// Cells that were asked for.
        of: usize,
    },
}

/// Runs cells and gathers the results, in the order of the cells. `watch` hears what happens, from several threads.
///
/// # Errors
/// Results cannot be stored (all stops then), or cells failed (the others are run and stored first).
pub fn run_study(
    cells: &[Cell],
    options: &RunOptions,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Vec<CellResult>, StudyError> {
    run_study_with(cells, options, watch, &|cell, progress| scenario::run(&cell.scenario, cell.seed, progress))
}

/// [`run_study`] with another way to run a cell.
///
/// # Errors
/// As [`run_study`].
pub fn run_study_with<R>(
    cells: &[Cell],
    options: &RunOptions,
    watch: &(dyn Fn(Event<'_>) + Sync),
    runner: &R,
) -> Result<Vec<CellResult>, StudyError>
where
    R: Fn(&Cell, &Progress) -> Result<(Outcome, Cost), RunError> + Sync,
{
    let store = match &options.results {
        Some(folder) => Some(Store::open(folder).map_err(|error| cannot_store(folder, error))?),
        None => None,
    };
    let work = Work::find(cells, store.as_ref(), watch);
    let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    // In real time cells would disturb each other.
    let real = cells.iter().any(|cell| !cell.scenario.world.is_virtual());
    let threads = if real { 1 } else { options.jobs.unwrap_or_else(cores).get() }.min(work.queue.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work.pull(runner, watch));
        }
    });
    work.gather(options)
}

/// The results of cells that are stored in a study's folder, in the order of the cells. Nothing runs and nothing is written; a folder or
/// a file that is not there, or that cannot be read, holds no results.
pub fn stored(cells: &[Cell], folder: &Path) -> Vec<CellResult> {
    let store = Store::read_only(folder);
    let load = |cell: &Cell| match store.load(cell) {
        Stored::Result(result) => Some(*result),
        Stored::Nothing | Stored::Broken(_) => None,
    };
    cells.iter().filter_map(load).collect()
}

fn cannot_store(folder: &Path, error: std::io::Error) -> StudyError {
    StudyError::Store { folder: folder.to_owned(), error }
}

/// What the threads share.
struct Work<'a> {
    cells: &'a [Cell],
    store: Option<&'a Store>,
    /// Cells to run, the longest first. Of cells with one fingerprint only the first runs.
    queue: Vec<usize>,
    next: AtomicUsize,
    /// Results cannot be stored: no thread begins another cell.
    over: AtomicBool,
    results: Mutex<BTreeMap<String, CellResult>>,
    failed: Mutex<Vec<(usize, RunError)>>,
    unstored: Mutex<Option<std::io::Error>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Work<'a> {
    /// Looks at what is stored.
    fn find(cells: &'a [Cell], store: Option<&'a Store>, watch: &(dyn Fn(Event<'_>) + Sync)) -> Self {
        let mut results = BTreeMap::new();
        let mut queue: BTreeMap<&str, usize> = BTreeMap::new();
        if let Some(store) = store {
            store.sweep(cells);
        }
        for (i, cell) in cells.iter().enumerate() {
            if results.contains_key(&cell.fingerprint) || queue.contains_key(cell.fingerprint.as_str()) {
                continue;
            }
            match store.map_or(Stored::Nothing, |store| store.load(cell)) {
                Stored::Result(result) => {
                    results.insert(cell.fingerprint.clone(), *result);
                    continue;
                }
                Stored::Broken(reason) => {
                    let file = store.map(|s| s.path(&cell.fingerprint)).unwrap_or_default();
                    watch(Event::Broken { file: &file, reason: &reason });
                }
                Stored::Nothing => {}
            }
            queue.insert(&cell.fingerprint, i);
        }
        watch(Event::Starts { stored: results.len(), left: queue.len() });
        let mut queue: Vec<(f64, usize)> =
            queue.into_values().map(|i| (estimate(&cells[i].scenario).cpu_seconds, i)).collect();
        queue.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Self {
            cells,
            store,
            queue: queue.into_iter().map(|(_, i)| i).collect(),
            next: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            results: Mutex::new(results),
            failed: Mutex::default(),
            unstored: Mutex::default(),
        }
    }

    /// Runs cells until none is left.
    fn pull<R>(&self, runner: &R, watch: &(dyn Fn(Event<'_>) + Sync))
    where
        R: Fn(&Cell, &Progress) -> Result<(Outcome, Cost), RunError> + Sync,
    {
        while !self.over.load(Ordering::Relaxed) {
            let Some(&i) = self.queue.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let cell = &self.cells[i];
            let progress = Progress::default();
            watch(Event::Begins { cell, of: scenario::goal(&cell.scenario), progress: Arc::clone(&progress) });
            match runner(cell, &progress) {
                Ok((outcome, cost)) => match self.keep(cell, outcome) {
                    Ok(()) => watch(Event::Ends { cell, cost }),
                    Err(e) => {
                        self.over.store(true, Ordering::Relaxed);
                        locked(&self.unstored).get_or_insert(e);
                    }
                },
                Err(error) => {
                    watch(Event::Fails { cell, error: &error });
                    locked(&self.failed).push((i, error));
                }
            }
        }
    }

    fn keep(&self, cell: &Cell, outcome: Outcome) -> std::io::Result<()> {
        let result =
            CellResult { key: cell.key.clone(), seed: cell.seed, fingerprint: cell.fingerprint.clone(), outcome };
        if let Some(store) = self.store {
            store.save(&result)?;
        }
        locked(&self.results).insert(cell.fingerprint.clone(), result);
        Ok(())
    }

    fn gather(self, options: &RunOptions) -> Result<Vec<CellResult>, StudyError> {
        let inner = |e: PoisonError<_>| e.into_inner();
        if let Some(error) = self.unstored.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(cannot_store(options.results.as_deref().unwrap_or(Path::new(".")), error));
        }
        let mut failed = self.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !failed.is_empty() {
            failed.sort_by_key(|(i, _)| *i);
            let failed = failed.into_iter().map(|(i, error)| Failed { label: self.cells[i].label(), error }).collect();
            return Err(StudyError::Cells { failed, of: self.cells.len() });
        }
        let results = self.results.into_inner().unwrap_or_else(inner);
        let of =
            |cell: &Cell| results.get(&cell.fingerprint).map(|r| CellResult { key: cell.key.clone(), ..r.clone() });
        Ok(self.cells.iter().filter_map(of).collect())
    }
}
