//! The integration tests of this crate as one program, which links only once. Each file here is a
//! module.

mod common;
mod controllers;
mod delays;
mod ecn;
mod migration;
mod pace;
mod size;
mod sources;
mod streams;
