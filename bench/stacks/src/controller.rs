//! Congestion controllers as users write them.

use std::fmt;
use std::sync::Arc;

use fathom_cc::catalogue::{self, SpecError};
use fathom_cc::{ControllerConfig, Invalid};
use fathom_plugin::PluginError;

use crate::stack::Stack;

/// A controller as users write it, before a stack is chosen. Neither the name nor the options are
/// checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerSpec {
    /// One of the stack's own controllers, written `native:cubic`.
    Native(String),
    /// One of our controllers with its options, such as `sync:floor=1ms`.
    Fathom(String),
}

/// Prefix of the name of a stack's own controller.
const NATIVE: &str = "native:";

impl ControllerSpec {
    /// Returns whether this is a stack's own controller.
    pub const fn is_native(&self) -> bool {
        matches!(self, Self::Native(_))
    }
}

impl From<&str> for ControllerSpec {
    fn from(text: &str) -> Self {
        let text = text.trim();
        match text.strip_prefix(NATIVE) {
            Some(name) => Self::Native(name.to_owned()),
            None => Self::Fathom(text.to_owned()),
        }
    }
}

impl fmt::Display for ControllerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(name) => write!(f, "{NATIVE}{name}"),
            Self::Fathom(spec) => f.write_str(spec),
        }
    }
}

/// A congestion controller: one of ours, or one of the stack's own controllers.
#[derive(Clone, Debug)]
pub enum Controller {
    /// One of our controllers, which runs through the stack's plug-in.
    Fathom(Arc<dyn ControllerConfig>),
    /// The stack's own controller of this name. It runs on the unmodified stack, which offers no
    /// extension.
    Native(&'static str),
}

/// Reason why a stack cannot run a controller. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// None of our controllers has this name, or an option is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The stack itself has no controller of this name.
    #[error(
        "{stack} has no native controller '{}'; its native controllers are {}",
        name.escape_debug(),
        natives(*stack)
    )]
    UnknownNative {
        /// The stack.
        stack: Stack,
        /// The name that was given.
        name: String,
    },
    /// The name is that of a stack's own controller, but was written without `native:`.
    #[error(
        "'{name}' is a native controller of a stack; write {NATIVE}{name}{} ('fathom stacks' lists \
         native controllers)",
        elsewhere.map_or(String::new(), |stack| format!(" on {stack}"))
    )]
    NativeUnmarked {
        /// The name that was given without `native:`.
        name: String,
        /// A stack that has the controller; `None` if the chosen stack has it.
        elsewhere: Option<Stack>,
    },
    /// The stack or its plug-in cannot run the controller as configured.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The stack is unmodified and runs only its own controllers.
    #[error("stock quiche runs only its native controllers, such as native:cubic")]
    Stock,
}

impl From<ControllerError> for Invalid {
    fn from(error: ControllerError) -> Self {
        Self::because(error.to_string())
    }
}

impl Controller {
    /// Parses a spec such as `sync:floor=1ms` or `native:cubic`.
    ///
    /// # Errors
    /// Returns an error if neither our controllers nor the stack's own controllers include one with
    /// this name and these options.
    pub fn read(spec: &str, stack: Stack) -> Result<Self, ControllerError> {
        let name = match ControllerSpec::from(spec) {
            ControllerSpec::Fathom(_) => {
                return catalogue::parse(spec).map(Self::Fathom).map_err(|e| unmarked(e, stack));
            }
            ControllerSpec::Native(name) => name,
        };
        let natives = stack.natives();
        let named = natives.iter().find(|native| **native == name);
        // Accept the same name on all stacks, because each stack has its own version of BBR and its
        // own name for Reno.
        let alike = || natives.iter().find(|native| is_like(&name, native));
        match named.or_else(alike) {
            Some(native) => Ok(Self::Native(native)),
            None => Err(ControllerError::UnknownNative { stack, name }),
        }
    }

    /// Returns Reno. It is for runs whose queues stay empty, so that the choice of the controller
    /// does not matter.
    ///
    /// # Errors
    /// Returns the errors of [`Controller::read`].
    pub fn reference(stack: Stack) -> Result<Self, ControllerError> {
        Self::read("reno", stack)
    }

    /// Returns whether this stack needs a shaping socket to set packet sizes or to delay packets as
    /// the controller requires. Without a shaping socket, noq turns a delay into a pacing rate.
    /// quiche sets packet sizes and pacing in its own code and has no shaping socket.
    pub fn needs_shaping(&self, stack: Stack) -> bool {
        let Self::Fathom(config) = self else { return false };
        stack.on_rustls() && (config.required().pacing || config.required().datagram)
    }

    /// Returns whether the same seed gives the same packets on `stack`. This is the case for our
    /// controllers. Some stacks seed their own controllers from the operating system.
    pub fn is_repeatable(&self, stack: Stack) -> bool {
        !matches!(self, Self::Native(name) if stack.is_unseeded(name))
    }

    /// Returns the spec that [`Controller::read`] parses.
    pub fn spec(&self) -> String {
        match self {
            Self::Fathom(config) => config.spec(),
            Self::Native(name) => format!("{NATIVE}{name}"),
        }
    }
}

/// Returns the specs of a stack's own controllers as a list.
fn natives(stack: Stack) -> String {
    if stack.natives().is_empty() {
        return "none".into();
    }
    stack.natives().iter().map(|name| format!("{NATIVE}{name}")).collect::<Vec<_>>().join(", ")
}

/// Returns whether `name` means a stack's own controller `native` on all stacks: `bbr` means bbr,
/// bbr2 or bbr3, and `reno` and `new-reno` mean the same controller.
fn is_like(name: &str, native: &str) -> bool {
    match name {
        "bbr" => native
            .strip_prefix("bbr")
            .is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit())),
        "reno" | "new-reno" => native == "reno" || native == "new-reno",
        _ => false,
    }
}

/// Returns the error for an invalid spec. The error tells whether the name is that of a stack's own
/// controller.
fn unmarked(error: SpecError, stack: Stack) -> ControllerError {
    let SpecError::UnknownController { given: name } = &error else { return error.into() };
    let has = |stack: &&Stack| stack.natives().contains(&name.as_str());
    match std::iter::once(&stack).chain(Stack::ALL).find(has) {
        Some(own) => ControllerError::NativeUnmarked {
            name: name.clone(),
            elsewhere: Some(*own).filter(|own| *own != stack),
        },
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdc_and_packet_size_use_a_shaping_socket_where_possible() {
        for stack in Stack::ALL {
            for (spec, shaped) in
                [("sdc", true), ("packet-size", true), ("reno", false), ("native:cubic", false)]
            {
                let controller = Controller::read(spec, *stack).unwrap();
                assert_eq!(
                    controller.needs_shaping(*stack),
                    shaped && stack.on_rustls(),
                    "{spec} on {stack}"
                );
            }
        }
    }

    #[test]
    fn controller_specs_round_trip_through_display() {
        let native = ControllerSpec::Native("cubic".into());
        assert_eq!(ControllerSpec::from(" native:cubic"), native);
        assert_eq!(native.to_string(), "native:cubic");
        assert!(native.is_native());
        let ours = ControllerSpec::from("sync:floor=1ms");
        assert_eq!(ours, ControllerSpec::Fathom("sync:floor=1ms".into()));
        assert_eq!(ours.to_string(), "sync:floor=1ms");
    }
}
