//! The `fathom` command. It parses, calls and prints; the work is done in the crates.

mod analyze;
mod compare;
mod controllers;
mod kernel;
mod link;
mod load;
mod output;
mod plan;
mod probe;
mod qlog;
mod reproduce;
mod serve;
mod stacks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fathom_bench::reproduce::PAPERS;

/// A short connection makes hundreds of small allocations; this allocator saves a tenth of its CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Delay-based congestion controllers for QUIC, and the laboratory that compares them.
#[derive(Parser)]
#[command(name = "fathom", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
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

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(Cli { command: Command::Analyze(args) }) => analyze::run(&args),
        Ok(Cli { command: Command::Compare(args) }) => compare::run(&args),
        Ok(Cli { command: Command::Controllers(args) }) => controllers::run(&args),
        Ok(Cli { command: Command::Link(args) }) => link::run(&args),
        Ok(Cli { command: Command::Load(args) }) => load::run(&args),
        Ok(Cli { command: Command::Plan(args) }) => plan::run(&args),
        Ok(Cli { command: Command::Probe(args) }) => probe::run(&args),
        Ok(Cli { command: Command::Qlog(args) }) => qlog::run(&args),
        Ok(Cli { command: Command::Reproduce(args) }) => reproduce::run(PAPERS, &args),
        Ok(Cli { command: Command::Serve(args) }) => serve::run(&args),
        Ok(Cli { command: Command::Stacks(args) }) => stacks::run(&args),
        Err(e) => return usage(&e),
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

/// Help and version as clap prints them; errors in one line that says where the help is.
fn usage(e: &clap::Error) -> ExitCode {
    if !e.use_stderr() || e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = e.print();
        return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
    }
    let text = e.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let first = lines.next().unwrap_or("the arguments are wrong").trim_start_matches("error: ").to_owned();
    let more: Vec<&str> =
        lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more information")).collect();
    let detail = if more.is_empty() { String::new() } else { format!(" {}", more.join(" ")) };
    output::say(format!("fathom: {first}{detail}; see 'fathom --help'"));
    ExitCode::from(2)
}
