//! One side of a connection on noq.

/// noq under the names that `side.rs` uses.
mod names {
    pub(super) use std::boxed::Box as Pointer;

    pub(super) use fathom_plugin::noq as plugin;
    pub(super) use noq as stack;

    pub(super) use crate::marked_endpoint::on_noq as marked_endpoint;

    /// Sets the maximum number of open paths.
    pub(super) fn set_paths(transport: &mut noq::TransportConfig, paths: u32) {
        transport.max_concurrent_multipath_paths(paths);
    }
}

#[path = "side.rs"]
mod side;

pub use side::*;
