//! Tests with noq.

use {fathom_plugin::noq as plugin, noq as stack};

#[allow(clippy::duplicate_mod, reason = "one source, compiled for each stack")]
#[path = "connections.rs"]
mod connections;
