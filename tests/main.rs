//! Integration tests of this crate, built as one program so that they link only once. Each file is
//! a module.

mod advise;
mod analyze;
mod attack;
mod attack_proxy;
mod backends;
mod browser;
mod build;
mod cli;
mod common;
mod dependencies;
mod documentation;
mod files;
mod fixed_runs;
mod imports;
mod input;
mod judge;
mod link;
mod load;
mod memory;
mod new_controller;
#[path = "packages/main.rs"]
mod packages;
mod probe;
mod public_cases;
mod response_times;
mod results;
mod serve;
mod shell;
mod soak;
mod sweeps;
