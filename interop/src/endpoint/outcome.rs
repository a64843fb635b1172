//! How an endpoint ended.

/// The outcome of an endpoint, which determines its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All files arrived and, as far as this endpoint knows, the test's requirements are met.
    Success,
    /// The test failed; the reason.
    Failed(String),
    /// The stack does not support the test; the reason.
    Unsupported(String),
    /// An environment variable or argument is invalid; a one-line message with a hint.
    InvalidInput(String),
}

impl Outcome {
    /// The exit code.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed(_) => 1,
            Self::Unsupported(_) => 127,
            Self::InvalidInput(_) => 2,
        }
    }

    /// The message for standard error.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Success => None,
            Self::Failed(why) | Self::Unsupported(why) | Self::InvalidInput(why) => Some(why),
        }
    }
}
