//! `fathom-endpoint`: a client or server for the quic-interop-runner, configured by environment
//! variables.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use fathom_interop::endpoint::{EndpointStack, Outcome, Overrides, Setup, run};
use fathom_interop::usage;

/// Run a client or server for the quic-interop-runner. The environment variables ROLE, TESTCASE,
/// REQUESTS, WWW, DOWNLOADS, CERTS, LOGS, PORT and IP configure it; docs/interop.md describes them.
#[derive(Parser)]
#[command(name = "fathom-endpoint", version)]
struct Cli {
    /// QUIC stack: quinn, noq, stock-quinn; with --features quiche also quiche and stock-quiche.
    /// [env: FATHOM_STACK]
    #[arg(long)]
    stack: Option<EndpointStack>,
    /// Congestion controller, such as sync:signal=either or native:cubic. [env: FATHOM_CONTROLLER]
    #[arg(long)]
    controller: Option<String>,
}

fn main() -> ExitCode {
    let outcome = match Cli::try_parse() {
        Ok(cli) => start(Overrides { stack: cli.stack, controller: cli.controller }),
        Err(e) => match usage(&e, "fathom-endpoint") {
            Some(line) => Outcome::InvalidInput(line),
            None => return ExitCode::SUCCESS,
        },
    };
    if let Some(line) = outcome.message() {
        // A closed standard error does not change the exit code.
        let _ = writeln!(std::io::stderr(), "fathom-endpoint: {}", line.replace('\n', "; "));
    }
    ExitCode::from(outcome.exit_code())
}

fn start(overrides: Overrides) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        // A second signal ends the process at once.
        let armed =
            signal_hook::flag::register_conditional_shutdown(*signal, 130, Arc::clone(&stop))
                .and_then(|_| signal_hook::flag::register(*signal, Arc::clone(&stop)));
        if let Err(e) = armed {
            return Outcome::Failed(format!("cannot wait for signals: {e}"));
        }
    }
    match Setup::read(&overrides, |name| std::env::var(name).ok()) {
        Ok(setup) => run(setup, stop),
        Err(outcome) => outcome,
    }
}
