//! Prints the first table of `make demo` before the rest of the program is built: the default
//! comparison of `fathom compare` on one stack, with two seeds of 2,000 responses.
//!
//! This program needs only the laboratory and has no options; use `fathom compare` to set options.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_experiments::compare::{Plan, Stage, compare, report};

fn main() -> ExitCode {
    let plan = Plan { seeds: 2, responses: 2_000, ..Plan::default() };
    let all = plan.validate().unwrap_or_default();
    let done = AtomicU64::new(0);
    let watch = |stage| match stage {
        Stage::Ends { name, .. } => {
            eprintln!(
                "first look: {name} done, {} of {all} runs",
                done.fetch_add(1, Ordering::Relaxed) + 1
            );
        }
        Stage::Begins { .. } => {}
    };
    match compare(&plan, &watch) {
        Ok(comparison) => {
            println!("{}", report::table(&comparison));
            println!(
                "This first look uses two seeds on one stack. `fathom compare` uses five seeds \
                 with twice as many responses, on any stack."
            );
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("fathom: {e}");
            ExitCode::FAILURE
        }
    }
}
