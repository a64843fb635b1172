//! quinn adapter.
