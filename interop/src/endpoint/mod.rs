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
use fathom_stacks::BoringTls;
use fathom_stacks::{Endpoint, SetupError, Tls, UseOfStack};

use error::InputError;
use facts::FactsLog;
#[cfg(feature = "quiche")]
use stack_endpoint::on_boring;
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
    let stack = setup.stack.stack;
    let outcome = stack.with(Run { setup: &setup, facts_log: &facts_log, stop });
    match (facts_log.write(), outcome) {
        (Err(error), Outcome::Success) => Outcome::Failed(error.to_string()),
        (_, outcome) => outcome,
    }
}

/// Runs the endpoint of `setup` on its stack.
struct Run<'a> {
    setup: &'a Arc<Setup>,
    facts_log: &'a Arc<FactsLog>,
    stop: Arc<AtomicBool>,
}

impl UseOfStack for Run<'_> {
    type Output = Outcome;

    /// If the controller is the stack's own, the stack runs without the plug-in.
    fn on_rustls<E: Endpoint<Tls = Tls>>(self) -> Outcome {
        on_tokio(on_rustls::<E>, self.setup, self.facts_log, self.stop)
    }

    #[cfg(feature = "quiche")]
    fn on_boring<E: Endpoint<Tls = BoringTls>>(self) -> Outcome {
        let Self { setup, facts_log, stop } = self;
        if setup.stack.stock {
            // quiche is the only stack on BoringSSL.
            on_tokio(on_boring::<fathom_stacks_stock::Endpoint>, setup, facts_log, stop)
        } else {
            on_tokio(on_boring::<E>, setup, facts_log, stop)
        }
    }

    fn on_tcp(self) -> Outcome {
        Outcome::Unsupported(SetupError::Stack(self.setup.stack.stack).to_string())
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
    // The remaining tasks have had time to finish.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Waits until `stop` is set.
async fn stopped(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
