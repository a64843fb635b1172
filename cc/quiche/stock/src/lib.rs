//! Unchanged quiche under a name of its own.
//!
//! The derived one (`cc/quiche`) takes its place everywhere else in this workspace, since Cargo allows one of the two per package:
//! whoever compares them depends on this crate for the other. It also has Cargo fetch the sources that the derived one is made from.

pub use quiche;
