//! Configurations of controllers, and the error that is reported if a stack lacks a required
//! signal.

use std::fmt;

use crate::capabilities::Capabilities;
use crate::controller::Controller;
use crate::event::Start;

/// Error of a controller that needs signals that the stack or the peer does not provide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("controller '{controller}' needs {}, which this stack or peer does not provide; {hint}", signals.names().join(" and "))]
pub struct Missing {
    /// Name of the controller.
    pub controller: &'static str,
    /// Missing signals.
    pub signals: Capabilities,
    /// Advice for the user.
    pub hint: &'static str,
}

/// Hint that [`ControllerConfig::hint`] returns by default.
pub(crate) const DEFAULT_HINT: &str = "choose another controller or stack";

/// A controller's configuration with all options chosen and checked, ready to start controllers.
pub trait ControllerConfig: fmt::Debug + Send + Sync {
    /// Returns the controller's name.
    fn name(&self) -> &'static str;
    /// Returns the name and every option that differs from its default, in the syntax of
    /// [`crate::catalogue::parse`].
    fn spec(&self) -> String;
    /// Returns the signals without which the controller does not start.
    fn required(&self) -> Capabilities;
    /// Returns the signals that the controller uses if they are provided. The set may include
    /// required signals.
    fn optional(&self) -> Capabilities {
        Capabilities::NONE
    }
    /// Returns advice for users if [`ControllerConfig::required`] is not met.
    fn hint(&self) -> &'static str {
        DEFAULT_HINT
    }
    /// Starts a controller on a new path.
    ///
    /// # Errors
    /// Returns [`Missing`] if the stack does not provide [`ControllerConfig::required`].
    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing>;

    /// Checks that `provided` covers [`ControllerConfig::required`].
    ///
    /// # Errors
    /// Returns [`Missing`], with the missing signals and a hint, if `provided` does not cover the
    /// required signals.
    fn check(&self, provided: Capabilities) -> Result<(), Missing> {
        let signals = self.required().lacking_in(provided);
        if signals.is_none() {
            Ok(())
        } else {
            Err(Missing { controller: self.name(), signals, hint: self.hint() })
        }
    }
}
