//! Sets a scenario up, runs it, checks its books.

use super::{Outcome, Scenario};
use crate::experiment::{CellError, Cost, PlanError, Progress};

/// Why a scenario has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario asks for something that cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run failed.
    #[error(transparent)]
    Cell(#[from] CellError),
}

/// Runs a scenario on the calling thread. `progress` counts completed responses, or milliseconds of virtual time where the run ends at
/// a time ([`goal`]).
///
/// # Errors
/// The run could not be set up, did not end, or failed its own checks.
pub fn run(_scenario: &Scenario, _seed: u64, _progress: &Progress) -> Result<(Outcome, Cost), RunError> {
    Err(PlanError("being written".into()).into())
}

/// What `progress` counts up to.
pub fn goal(scenario: &Scenario) -> u64 {
    match scenario.stop {
        super::Stop::Responses(n) => n,
        super::Stop::At(end) => end.as_millis() as u64,
    }
}
