//! State of the runs of a study: from the stored results, and from the reports of processes that
//! share the location.

use super::executor::StudyError;
use super::store::{Location, Store, Stored};
use super::study_run::StudyRun;

/// State of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run is done: its result is stored.
    Done,
    /// The run is in progress: within the last minute, the process `HOST-PID` reported that it is
    /// executing the run.
    Running(String),
    /// The last attempt to execute the run failed, for this reason.
    Failed(String),
    /// The file stored for the run is not a result of the run, for this reason.
    Broken(String),
    /// The run has neither a result nor a report.
    Missing,
}

impl RunState {
    /// Returns `done`, `running`, `failed`, `broken` or `missing`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Running(_) => "running",
            Self::Failed(_) => "failed",
            Self::Broken(_) => "broken",
            Self::Missing => "missing",
        }
    }

    /// Returns the process that is executing the run, or the reason why the run has no result.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Running(reason) | Self::Failed(reason) | Self::Broken(reason) => Some(reason),
            Self::Done | Self::Missing => None,
        }
    }
}

/// Returns the state of each run, in the order of the runs. Does not execute or write anything.
///
/// # Errors
/// Returns an error if the location cannot be read. A missing folder is not an error, but
/// counts as a folder without results.
pub fn status(runs: &[StudyRun], results: &Location) -> Result<Vec<RunState>, StudyError> {
    let read = || {
        let store = Store::read_only(results)?;
        // Read the reports before the results, so that a run that ends between the two reads counts
        // as done.
        let reports = store.reports(runs)?;
        let mut states = Vec::with_capacity(runs.len());
        store.load(&runs.iter().collect::<Vec<_>>(), &mut |run, stored| {
            let running = reports.running.get(&run.fingerprint);
            states.push(match (stored, running) {
                (Stored::Result(_), _) => RunState::Done,
                (_, Some(process)) => RunState::Running(process.clone()),
                (Stored::Broken(reason), None) => RunState::Broken(reason),
                (Stored::Nothing, None) => reports
                    .failed
                    .get(&run.fingerprint)
                    .map_or(RunState::Missing, |e| RunState::Failed(e.clone())),
            });
        })?;
        Ok(states)
    };
    read().map_err(|error| StudyError::Store { location: results.clone(), error })
}

/// Returns the processes that are executing some of these runs, one for each such run. Reads only
/// the reports of processes, no results.
///
/// # Errors
/// Returns the errors of [`status`].
pub fn executing(runs: &[StudyRun], results: &Location) -> Result<Vec<String>, StudyError> {
    let reports = Store::read_only(results).and_then(|store| store.reports(runs));
    let reports =
        reports.map_err(|error| StudyError::Store { location: results.clone(), error })?;
    Ok(reports.running.into_values().collect())
}
