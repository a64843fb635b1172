//! One side of a connection on noq.

/// noq under the names that `side.rs` uses.
mod names {
    pub(crate) use std::boxed::Box as Pointer;

    pub(crate) use fathom_noq as plugin;
    pub(crate) use noq as stack;

    pub(crate) use super::super::marking::on_noq as marked_endpoint;

    /// Sets the maximum number of open paths.
    pub(crate) fn set_paths(transport: &mut noq::TransportConfig, paths: u32) {
        transport.max_concurrent_multipath_paths(paths);
    }
}

#[allow(clippy::duplicate_mod, reason = "one source, compiled for each stack")]
#[path = "side.rs"]
mod side;

pub(crate) use side::*;
