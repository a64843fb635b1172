//! The integration tests of this crate as one program, so that they link only once. Each file here
//! is a module of the program.

mod codec;
mod common;
mod estimator;
mod walker;
