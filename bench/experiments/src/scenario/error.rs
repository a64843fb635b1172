//! Errors of plans, scenarios and runs.

use std::borrow::Cow;

use fathom_cc::Invalid;
use fathom_netsim::backend::BackendError;
use fathom_netsim::path::PathEvent;
use fathom_traffic::RateOutOfRange;

use crate::http::IdentityError;
use crate::stack::SetupError;

/// Adds the name of the field to an error.
pub(crate) trait InField<T> {
    /// Adds this name as the outer field of the error; a value stays as it is.
    fn in_field(self, name: impl Into<Cow<'static, str>>) -> Result<T, Invalid>;
}

impl<T, E: Into<Invalid>> InField<T> for Result<T, E> {
    fn in_field(self, name: impl Into<Cow<'static, str>>) -> Result<T, Invalid> {
        self.map_err(|error| error.into().in_field(name))
    }
}

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The TLS identity could not be generated.
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
        "{controller}: only {done} of {wanted} responses were complete after {seconds} virtual \
         seconds, and {failed} requests had failed; {hint}",
        hint = collapse_hint(*event)
    )]
    Collapsed {
        /// Controllers of the run.
        controller: String,
        /// Event after which the path carries no full packet, if there is one.
        event: Option<PathEvent>,
        /// Completed responses.
        done: u64,
        /// Failed requests.
        failed: u64,
        /// Responses that the run was to complete.
        wanted: u64,
        /// Virtual time at the end of the run in seconds.
        seconds: f64,
    },
    /// The responses of the run could not be kept.
    #[error(
        "the responses could not be written to a temporary file: {0}; set TMPDIR to a folder with \
         free space"
    )]
    Responses(String),
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The run's counters are inconsistent: a bug in the laboratory, not in the plan.
    #[error(
        "{controller}: the counters of the run contradict each other ({errors}); please report \
        this bug"
    )]
    FailedChecks {
        /// Controllers of the run.
        controller: String,
        /// The inconsistencies.
        errors: String,
    },
}

/// Returns advice for a run that did not end in time.
fn collapse_hint(event: Option<PathEvent>) -> String {
    match event {
        None => "lower the load or the number of responses".into(),
        Some(event) => format!(
            "event '{event}' drops packets of full size, so a sender that finds no smaller size \
             stalls forever: write a larger MTU or another stack; if all stacks stall, lower the \
             load or the number of responses"
        ),
    }
}

impl RunError {
    /// Replaces the controllers in the error by the label of the run in reports.
    pub(crate) fn named(mut self, label: &str) -> Self {
        if let Self::Collapsed { controller, .. } | Self::FailedChecks { controller, .. } =
            &mut self
        {
            label.clone_into(controller);
        }
        self
    }
}

/// Error of a scenario or of a comparison.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The plan is invalid. The user can fix it.
    #[error(transparent)]
    Plan(#[from] Invalid),
    /// A group's load needs a rate outside the range of its traffic model. The user can fix it.
    #[error("traffic '{traffic}': workload: {error}")]
    Rate {
        /// Name of the group.
        traffic: String,
        /// The rate and the range of the model.
        error: RateOutOfRange,
    },
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
}
