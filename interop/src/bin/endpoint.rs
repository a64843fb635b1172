//! `fathom-endpoint`: a client or a server as the quic-interop-runner wants it. What it does, its environment says.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use fathom_interop::endpoint::{Choice, Outcome, Setup, Stack, run};
use fathom_interop::usage;

/// A client or server as the quic-interop-runner wants it: ROLE, TESTCASE, REQUESTS, WWW, DOWNLOADS, CERTS, LOGS, PORT and IP in the
/// environment say what it does. docs/interop.md has them all.
#[derive(Parser)]
#[command(name = "fathom-endpoint", version)]
struct Cli {
    /// Stack: quinn, noq, stock-quinn; with --features quiche also quiche and stock-quiche. [env: FATHOM_STACK]
    #[arg(long)]
    stack: Option<Stack>,
    /// Controller, such as sync:signal=either or native:cubic. [env: FATHOM_CONTROLLER]
    #[arg(long)]
    controller: Option<String>,
}

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(cli) => work(Choice { stack: cli.stack, controller: cli.controller }),
        Err(e) => match usage(&e, "fathom-endpoint") {
            Some(line) => Outcome::Wrong(line),
            None => return ExitCode::SUCCESS,
        },
    };
    if let Some(line) = outcome.line() {
        // That nobody reads it any more is no reason to end otherwise.
        let _ = writeln!(std::io::stderr(), "fathom-endpoint: {}", line.replace('\n', "; "));
    }
    ExitCode::from(outcome.code())
}

fn work(choice: Choice) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        // A second signal ends the process at once.
        let armed = signal_hook::flag::register_conditional_shutdown(*signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(*signal, Arc::clone(&stop)));
        if let Err(e) = armed {
            return Outcome::Failed(format!("cannot wait for signals: {e}"));
        }
    }
    match Setup::read(&choice, |name| std::env::var(name).ok()) {
        Ok(setup) => run(setup, stop),
        Err(outcome) => outcome,
    }
}
