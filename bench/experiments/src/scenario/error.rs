//! Why a run has no outcome.

use std::fmt;

use fathom_netsim::backend::BackendError;
use fathom_netsim::path::PathEvent;
use fathom_traffic::RateOutOfRange;

use crate::http::IdentityError;
use crate::stack::SetupError;

/// What is wrong with a plan, and how to fix it, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No TLS identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The backend is not available.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The stack could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The run did not end in time.
    #[error(
        "{controller}: only {done} of {wanted} responses were complete after {seconds} virtual seconds, {failed} requests had failed; {hint}",
        hint = collapse_hint(*event)
    )]
    Collapsed {
        /// The controller.
        controller: String,
        /// The event after which the path carries no full packet, if there is one.
        event: Option<PathEvent>,
        /// Responses completed.
        done: u64,
        /// Requests that failed.
        failed: u64,
        /// Responses wanted.
        wanted: u64,
        /// Virtual seconds.
        seconds: f64,
    },
    /// Its responses could not be kept.
    #[error(
        "the responses could not be kept in a temporary file: {0}; name a folder with room in TMPDIR"
    )]
    Responses(String),
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The run's counters are inconsistent: a bug in the lab, not in the plan.
    #[error("{controller}: the run failed its own checks, please report this: {errors}")]
    FailedChecks {
        /// The controller.
        controller: String,
        /// What is wrong.
        errors: String,
    },
}

/// What ends a run that did not end in time.
fn collapse_hint(event: Option<PathEvent>) -> String {
    match event {
        None => "lower the load or the number of responses".into(),
        Some(event) => format!(
            "after event '{event}' packets of full size vanish, and a sender that finds no smaller size never goes on: write a larger MTU or \
             another stack; if all stacks stop here, lower the load or the number of responses"
        ),
    }
}

impl RunError {
    /// The same error of a run that reports call `label`.
    pub(crate) fn named(mut self, label: &str) -> Self {
        if let Self::Collapsed { controller, .. } | Self::FailedChecks { controller, .. } =
            &mut self
        {
            label.clone_into(controller);
        }
        self
    }
}

/// Why a scenario has no outcome, or a comparison no result.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The request cannot be met: the user can fix it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A group's load makes a rate that its model of traffic does not have: the user can fix it.
    #[error("traffic '{traffic}': workload: {error}")]
    Rate {
        /// The group.
        traffic: String,
        /// The rate, and those that there are.
        error: RateOutOfRange,
    },
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}
