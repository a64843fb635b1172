//! Outcomes of an endpoint and their exit codes.

use fathom_cc::Invalid;

/// Outcome of an endpoint, which determines the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All files arrived, and the test's requirements are met as far as this endpoint knows.
    Success,
    /// The test failed, for this reason.
    Failed(String),
    /// The stack does not support the test, for this reason.
    Unsupported(String),
    /// An environment variable or argument is invalid. The message is one line with a hint.
    InvalidInput(String),
}

impl From<Invalid> for Outcome {
    fn from(error: Invalid) -> Self {
        Self::InvalidInput(error.to_string())
    }
}

impl Outcome {
    /// Returns the exit code.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed(_) => 1,
            Self::Unsupported(_) => 127,
            Self::InvalidInput(_) => 2,
        }
    }

    /// Returns the message for standard error.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Success => None,
            Self::Failed(why) | Self::Unsupported(why) | Self::InvalidInput(why) => Some(why),
        }
    }
}
