//! Configurations: a controller's name, options and needs; what a stack offers; the clear error when the two do not meet.

use std::fmt;

use crate::capabilities::Capabilities;
use crate::controller::Controller;
use crate::event::Start;

/// A controller needs signals that the stack or the peer does not offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("controller '{controller}' needs {}, which is not offered here; {hint}", signals.names().join(" and "))]
pub struct Missing {
    /// The controller.
    pub controller: &'static str,
    /// What it lacks.
    pub signals: Capabilities,
    /// What the user may do about it.
    pub hint: &'static str,
}

/// [`ControllerConfig::hint`] of controllers that know nothing better.
pub(crate) const DEFAULT_HINT: &str = "choose another controller or stack";

/// A controller ready to be started, options chosen and checked.
pub trait ControllerConfig: fmt::Debug + Send + Sync {
    /// The controller's name.
    fn name(&self) -> &'static str;
    /// Name and every option that differs from its default, as [`crate::catalogue::parse`] reads it.
    fn spec(&self) -> String;
    /// Signals without which it does not start.
    fn required(&self) -> Capabilities;
    /// Signals it uses when they are there, beyond what it needs.
    fn optional(&self) -> Capabilities {
        Capabilities::NONE
    }
    /// What a user may do when [`ControllerConfig::required`] is not met.
    fn hint(&self) -> &'static str {
        DEFAULT_HINT
    }
    /// A controller for a new path.
    ///
    /// # Errors
    /// [`Missing`] when the stack does not offer what [`ControllerConfig::required`] names.
    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing>;

    /// [`Missing`] unless `provided` covers [`ControllerConfig::required`].
    ///
    /// # Errors
    /// [`Missing`], which names the capabilities and a hint.
    fn check(&self, provided: Capabilities) -> Result<(), Missing> {
        let signals = self.required().lacking_in(provided);
        if signals.is_none() {
            Ok(())
        } else {
            Err(Missing { controller: self.name(), signals, hint: self.hint() })
        }
    }
}
