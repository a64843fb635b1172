//! Tests with quinn.

use {fathom_plugin::quinn as plugin, quinn as stack};

#[allow(clippy::duplicate_mod, reason = "one source, compiled for each stack")]
#[path = "connections.rs"]
mod connections;
