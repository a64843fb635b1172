//! Integration tests of both plug-ins, built as one program so that they link only once. Each file
//! is a module.

mod ecn;
mod real;
mod sealing;
mod shaping_socket;
#[path = "shared_config/main.rs"]
mod shared_config;
