//! How a study stands: what is stored, and what processes that share the place say.

use super::executor::StudyError;
use super::store::{Location, Store, Stored};
use super::study_run::StudyRun;

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Its result is stored.
    Done,
    /// A process said within the last minute that it is making it: its host and number.
    Running(String),
    /// It failed the last time: why.
    Failed(String),
    /// What is stored is no result of it: why.
    Broken(String),
    /// Nothing is known of it.
    Missing,
}

impl RunState {
    /// `done`, `running`, `failed`, `broken` or `missing`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Running(_) => "running",
            Self::Failed(_) => "failed",
            Self::Broken(_) => "broken",
            Self::Missing => "missing",
        }
    }

    /// Where, or why.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Running(reason) | Self::Failed(reason) | Self::Broken(reason) => Some(reason),
            Self::Done | Self::Missing => None,
        }
    }
}

/// How each run stands, in the order of the runs. Nothing runs and nothing is written.
///
/// # Errors
/// The place cannot be read. A folder that is not there holds no results.
pub fn status(runs: &[StudyRun], results: &Location) -> Result<Vec<RunState>, StudyError> {
    let read = || {
        let store = Store::read_only(results)?;
        // Before the results: what ends in between is done.
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
