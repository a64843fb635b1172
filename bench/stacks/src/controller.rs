//! Congestion controllers as users write them.

use std::sync::Arc;

use fathom_cc::ControllerConfig;
use fathom_cc::catalogue::{self, SpecError};

use crate::stack::Stack;

/// A congestion controller: one of ours or one of the stack's own.
#[derive(Clone, Debug)]
pub enum Controller {
    /// One of our controllers, through the stack's plug-in.
    Fathom(Arc<dyn ControllerConfig>),
    /// The stack's own controller of this name, on the unmodified stack: no extension is offered.
    Native(&'static str),
}

/// Written before the name of a stack's own controller.
const NATIVE: &str = "native:";

/// Returns the name of a stack's own controller, if `spec` names one: `cubic` of `native:cubic`.
pub fn native_name(spec: &str) -> Option<&str> {
    spec.trim().strip_prefix(NATIVE)
}

impl Controller {
    /// Parses a spec such as `sync:floor=1ms` or `native:cubic`.
    ///
    /// # Errors
    /// Returns one line that says what is wrong and what to write instead.
    pub fn read(spec: &str, stack: Stack) -> Result<Self, String> {
        let natives = stack.natives();
        let known =
            || natives.iter().map(|n| format!("{NATIVE}{n}")).collect::<Vec<_>>().join(", ");
        let Some(name) = native_name(spec) else {
            return catalogue::parse(spec)
                .map(Self::Fathom)
                .map_err(|e| hint_at_natives(&e, stack));
        };
        let named = natives.iter().find(|native| **native == name);
        // Accept one name on all stacks: each stack has its own version of BBR and its own name for
        // Reno.
        let alike = || natives.iter().find(|native| is_like(name, native));
        named.or_else(alike).map(|native| Self::Native(native)).ok_or_else(|| {
            let known = known();
            format!(
                "{stack} has no controller '{}' of its own; it has {known}",
                name.escape_debug()
            )
        })
    }

    /// Returns Reno, for runs whose queues stay empty, where the choice does not matter.
    ///
    /// # Errors
    /// Returns the errors of [`Controller::read`].
    pub fn reference(stack: Stack) -> Result<Self, String> {
        Self::read("reno", stack)
    }

    /// Returns whether this stack needs a shaping socket to set packet sizes or to delay packets as
    /// the controller requires. Without this socket, noq turns a delay into a pacing rate. quiche
    /// sets sizes and pace in its own code and has no such socket.
    pub fn needs_shaping(&self, stack: Stack) -> bool {
        let Self::Fathom(config) = self else { return false };
        stack.on_rustls() && (config.required().pacing || config.required().datagram)
    }

    /// Returns whether the same seed gives the same packets on `stack`. It does for ours; some stacks
    /// seed their own controllers from the operating system.
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

/// Returns whether `name` means a stack's own controller `native` on all stacks: `bbr` means bbr,
/// bbr2 or bbr3; `reno` and `new-reno` mean each other.
fn is_like(name: &str, native: &str) -> bool {
    match name {
        "bbr" => native
            .strip_prefix("bbr")
            .is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit())),
        "reno" | "new-reno" => native == "reno" || native == "new-reno",
        _ => false,
    }
}

/// Returns the text of a spec error. If the name is that of a stack's own controller, the text says
/// how to write it.
fn hint_at_natives(e: &SpecError, stack: Stack) -> String {
    let SpecError::UnknownController { given } = e else { return e.to_string() };
    let has = |stack: &Stack| stack.natives().contains(&given.as_str());
    let on = match std::iter::once(&stack).chain(Stack::ALL).find(|stack| has(stack)) {
        Some(own) if *own == stack => String::new(),
        Some(other) => format!(" on {other}"),
        None => return e.to_string(),
    };
    format!(
        "'{given}' is none of ours, but a stack's own; write native:{given}{on} ('fathom stacks' lists them)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdc_and_packet_size_are_shaped_wherever_a_socket_can() {
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
}
