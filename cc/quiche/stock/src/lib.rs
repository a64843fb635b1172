//! Unchanged quiche under another crate name.
//!
//! Elsewhere in this workspace, the derived crate (`cc/quiche`) replaces quiche, because Cargo
//! allows only one of the two per package. A package that compares the two uses this crate for
//! stock quiche. This crate also makes Cargo fetch the sources from which the derived crate is
//! assembled.

pub use quiche;
