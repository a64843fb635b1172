//! One side of a connection on quinn.

/// quinn under the names that `side.rs` uses.
mod names {
    pub(crate) use std::sync::Arc as Pointer;

    pub(crate) use fathom_quinn as plugin;
    pub(crate) use quinn as stack;

    pub(crate) use super::super::marking::on_quinn as marked_endpoint;

    /// Does nothing, because quinn has only one path.
    pub(crate) fn set_paths(_: &mut quinn::TransportConfig, _: u32) {}
}

#[allow(clippy::duplicate_mod, reason = "one source, compiled for each stack")]
#[path = "side.rs"]
mod side;

pub(crate) use side::*;
