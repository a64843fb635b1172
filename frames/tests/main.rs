//! The integration tests of this crate as one program, which links once: a file here is a module of it.

mod codec;
mod common;
mod estimator;
mod walker;
