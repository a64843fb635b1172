//! Capabilities of stacks in a comparison.

use fathom_cc::Capabilities;

use crate::scenario::{Shaping, TcpSettings, Timestamps, provided};
use crate::stack::Stack;

/// Returns the capabilities that a stack provides in a comparison, where TCP has its default
/// settings.
pub(super) fn provided_to(stack: Stack, timestamps: Timestamps, shaping: Shaping) -> Capabilities {
    let mut provided = provided(stack, timestamps, shaping);
    provided.ecn &= stack != Stack::Tcp || TcpSettings::default().provided().ecn;
    provided
}
