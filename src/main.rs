//! The `fathom` command. It parses, calls and prints; the work is done in the crates.

mod allocator;
mod analyze;
mod compare;
mod controllers;
mod diagnostics;
mod kernel;
mod link;
mod load;
mod numbers;
mod output;
mod plan;
mod plan_file;
mod probe;
mod qlog;
mod reproduce;
mod serve;
mod signals;
mod stacks;
mod usage;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use fathom_bench::reproduce::PAPERS;

/// A short connection makes hundreds of small allocations; this allocator saves a tenth of its CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FILES: &str = "\
Options that name a file take '-' for standard output, one of a command's. Links
are followed, modes kept, devices and FIFOs written as they are. Exit codes:
1: it failed, 2: wrong input, 130: interrupted.";

/// Delay-based congestion controllers for QUIC, and the laboratory that compares them.
#[derive(Parser)]
#[command(name = "fathom", version, arg_required_else_help = true, after_help = FILES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    verbosity: diagnostics::Verbosity,
}

#[derive(Subcommand)]
enum Command {
    /// Ask measurements of yours: did delay predict loss, how long did responses take, which of several is better?
    Analyze(Box<analyze::Args>),
    /// Run the same web traffic under several controllers in virtual time and compare response times.
    Compare(Box<compare::Args>),
    /// List every controller with its options, needs and source.
    Controllers(controllers::Args),
    /// Delay, queue, lose, reorder or damage the datagrams between clients and a server, in real time.
    Link(Box<link::Args>),
    /// Ask an HTTP/3 server for things, and measure how long its responses take.
    Load(Box<load::Args>),
    /// List, show, check and run studies: one question each, asked of many runs.
    Plan(plan::Args),
    /// Ask servers what they make of our transport parameters, and how they acknowledge.
    Probe(probe::Args),
    /// Turn a qlog file into the form that qvis draws.
    Qlog(qlog::Args),
    /// Run a paper's experiments again: its tables and figures beside the paper's, and whether its claims hold.
    Reproduce(reproduce::Args),
    /// Serve files and synthetic bodies over HTTP/3, with controllers of your choice.
    Serve(Box<serve::Args>),
    /// List every QUIC stack: what it offers to controllers, which run on it, and its own.
    Stacks(stacks::Args),
}

/// A failure as the user sees it: one line, and the exit code.
struct Failure {
    line: String,
    code: u8,
}

impl Failure {
    /// Bad input: the line names what is wrong and how to mend it.
    fn input(line: impl std::fmt::Display) -> Self {
        Self { line: line.to_string(), code: 2 }
    }

    /// Something else went wrong.
    fn run(line: impl std::fmt::Display) -> Self {
        Self { line: line.to_string(), code: 1 }
    }
}

impl Command {
    fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Analyze(args) => analyze::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Controllers(args) => controllers::run(args),
            Self::Link(args) => link::run(args),
            Self::Load(args) => load::run(args),
            Self::Plan(args) => plan::run(args),
            Self::Probe(args) => probe::run(args),
            Self::Qlog(args) => qlog::run(args),
            Self::Reproduce(args) => reproduce::run(PAPERS, args),
            Self::Serve(args) => serve::run(args),
            Self::Stacks(args) => stacks::run(args),
        }
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(Cli { command, verbosity }) => verbosity.apply().and_then(|()| command.run()),
        Err(e) => return usage::tell(&e, &Cli::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // One line, whatever is in it.
            output::say(format!("fathom: {}", failure.line.replace('\n', "; ")));
            ExitCode::from(failure.code)
        }
    }
}
