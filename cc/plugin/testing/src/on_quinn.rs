//! One side of a connection on quinn.

/// quinn under the names that `side.rs` uses.
mod names {
    pub(super) use std::sync::Arc as Pointer;

    pub(super) use fathom_plugin::quinn as plugin;
    pub(super) use quinn as stack;

    pub(super) use crate::marked_endpoint::on_quinn as marked_endpoint;

    /// Does nothing, because quinn has only one path.
    pub(super) fn set_paths(_: &mut quinn::TransportConfig, _: u32) {}
}

#[path = "side.rs"]
mod side;

pub use side::*;
