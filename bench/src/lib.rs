//! The laboratory.
pub mod workload;
