//! Integration tests of this crate, built as one program so that they link only once. Each file is
//! a module.

mod common;
mod controllers;
mod delays;
mod ecn;
mod migration;
mod pace;
mod size;
mod sources;
mod streams;
