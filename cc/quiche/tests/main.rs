//! The integration tests of this crate as one program, which links once: a file here is a module of it.

mod common;
mod controllers;
mod delays;
mod ecn;
mod migration;
mod pace;
mod size;
mod sources;
mod streams;
