//! The integration tests of this crate as one program, which links only once. Each file here is a
//! module.

mod common;
mod ecn;
mod examples;
mod pages;
mod real;
mod sealing;
mod shaping_socket;
#[path = "shared_config/main.rs"]
mod shared_config;
