//! An endpoint for the quic-interop-runner: a client or server, on any stack, configured by
//! environment variables.
//!
//! | file | contents |
//! |---|---|
//! | `setup.rs` | the configuration from the environment |
//! | `test_name.rs` | values of TESTCASE |
//! | `outcome.rs` | outcomes and their exit codes |
//! | `error.rs` | reasons why an endpoint cannot be set up, or why its test fails |
//! | `facts.rs` | facts about each connection, written to `facts.json` |
//! | `hq.rs` | HTTP/0.9: the request line |
//! | `request.rs` | requested URLs and the files for their responses |
//! | `tls.rs` | TLS configurations for the tests |
//! | `stack_endpoint.rs` | creates an endpoint on a stack, and records its facts |
//! | `client.rs`, `server.rs` | client and server |

mod client;
mod error;
pub mod facts;
mod hq;
mod outcome;
mod request;
mod server;
mod setup;
mod stack_endpoint;
mod test_name;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use facts::Facts;
pub use outcome::Outcome;
pub use setup::{EndpointStack, Overrides, Role, Setup};
pub use test_name::TestName;

#[cfg(feature = "quiche")]
use fathom_stacks::quiche;
use fathom_stacks::{Endpoint, SetupError, Stack, noq, quinn};
#[cfg(feature = "quiche")]
use fathom_stacks_stock as stock_quiche;

use error::InputError;
use facts::FactsLog;
#[cfg(feature = "quiche")]
use stack_endpoint::on_quiche;
use stack_endpoint::{OpenEndpoint, on_rustls};

/// Runs the endpoint until it is done or `stop` is set.
pub fn run(setup: Setup, stop: Arc<AtomicBool>) -> Outcome {
    if let Some(why) = setup.unsupported() {
        return Outcome::Unsupported(why);
    }
    let setup = Arc::new(setup);
    let facts_log = match FactsLog::create(&setup) {
        Ok(facts_log) => facts_log,
        Err(error) => return Outcome::InvalidInput(error.to_string()),
    };
    let outcome = match setup.stack.stack {
        Stack::Quinn => {
            on_tokio(|setup| on_rustls(quinn::Endpoint::on_tokio, setup), &setup, &facts_log, stop)
        }
        Stack::Noq => {
            on_tokio(|setup| on_rustls(noq::Endpoint::on_tokio, setup), &setup, &facts_log, stop)
        }
        #[cfg(feature = "quiche")]
        Stack::Quiche if setup.stack.stock => on_tokio(
            |setup| on_quiche(stock_quiche::Endpoint::on_tokio, setup),
            &setup,
            &facts_log,
            stop,
        ),
        #[cfg(feature = "quiche")]
        Stack::Quiche => {
            on_tokio(|setup| on_quiche(quiche::Endpoint::on_tokio, setup), &setup, &facts_log, stop)
        }
        stack => Outcome::Unsupported(SetupError::Stack(stack).to_string()),
    };
    match (facts_log.write(), outcome) {
        (Err(error), Outcome::Success) => Outcome::Failed(error.to_string()),
        (_, outcome) => outcome,
    }
}

fn on_tokio<E: Endpoint>(
    open: impl FnOnce(&Setup) -> Result<OpenEndpoint<E>, InputError>,
    setup: &Arc<Setup>,
    facts_log: &Arc<FactsLog>,
    stop: Arc<AtomicBool>,
) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return Outcome::Failed(format!("cannot start the runtime: {e}")),
    };
    let outcome = runtime.block_on(async {
        match setup.role {
            Role::Client => {
                tokio::select! {
                    outcome = client::run(open, setup, facts_log) => outcome,
                    () = stopped(stop) => Outcome::Failed("interrupted before all files arrived".into()),
                }
            }
            Role::Server => server::run(open, setup, facts_log, stopped(stop)).await,
        }
    });
    // Remaining tasks have had time to finish.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Waits until `stop` is set.
async fn stopped(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
