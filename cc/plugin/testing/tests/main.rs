//! The integration tests of both plug-ins as one program, which links only once. Each file here is
//! a module.

mod ecn;
mod real;
mod sealing;
mod shaping_socket;
#[path = "shared_config/main.rs"]
mod shared_config;
