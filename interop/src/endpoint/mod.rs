//! An endpoint that obeys the quic-interop-runner: client or server, on any stack, told what to do by its environment.
//!
//! | file | what is in it |
//! |---|---|
//! | `setup.rs` | the environment, read once |
//! | `case.rs` | test cases |
//! | `facts.rs` | what is known of each connection, as `facts.json` |
//! | `hq.rs` | HTTP/0.9: the request line |
//! | `downloads.rs` | where clients put what they fetch |
//! | `tls.rs` | TLS for a test case, on rustls |
//! | `stack.rs` | what a stack on rustls must do |
//! | `stacks.rs` | how quinn and noq do it |
//! | `client.rs`, `server.rs` | both roles, on those stacks |
//! | `quiche/` | quiche, which does no I/O |

mod case;
mod client;
mod downloads;
pub mod facts;
mod hq;
#[cfg(feature = "quiche")]
mod quiche;
mod server;
mod setup;
mod stack;
mod stacks;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use case::Case;
pub use facts::Facts;
pub use setup::{Choice, Role, Setup, Stack};

use facts::Books;

/// How an endpoint ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is there, and what the test asks has happened as far as this side can tell.
    Done,
    /// It has not, and why.
    Failed(String),
    /// The stack cannot do it, and why.
    Unsupported(String),
    /// The environment is wrong: one line that names the mend.
    Wrong(String),
}

impl Outcome {
    /// What the runner is told.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed(_) => 1,
            Self::Unsupported(_) => 127,
            Self::Wrong(_) => 2,
        }
    }

    /// What a person is told.
    pub fn line(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Failed(why) | Self::Unsupported(why) | Self::Wrong(why) => Some(why),
        }
    }
}

/// Does what the setup says. `stop` ends a server.
pub fn run(setup: Setup, stop: Arc<AtomicBool>) -> Outcome {
    if let Some(why) = setup.unsupported() {
        return Outcome::Unsupported(why);
    }
    let setup = Arc::new(setup);
    let books = match Books::open(&setup) {
        Ok(books) => books,
        Err(why) => return Outcome::Wrong(why),
    };
    let outcome = match setup.stack {
        Stack::Quinn | Stack::StockQuinn => on_tokio::<stacks::quinn::Endpoint>(&setup, &books, stop),
        Stack::Noq => on_tokio::<stacks::noq::Endpoint>(&setup, &books, stop),
        #[cfg(feature = "quiche")]
        Stack::Quiche | Stack::StockQuiche => quiche::run(&setup, &books, &stop),
    };
    match (books.write(), outcome) {
        (Err(why), Outcome::Done) => Outcome::Failed(why),
        (_, outcome) => outcome,
    }
}

fn on_tokio<S: stack::Stack>(setup: &Arc<Setup>, books: &Arc<Books>, stop: Arc<AtomicBool>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return Outcome::Failed(format!("no threads: {e}")),
    };
    let outcome = runtime.block_on(async {
        match setup.role {
            Role::Client => {
                tokio::select! {
                    outcome = client::run::<S>(setup, books) => outcome,
                    () = stopped(stop) => Outcome::Failed("told to end before all was there".into()),
                }
            }
            Role::Server => server::run::<S>(setup, books, stopped(stop)).await,
        }
    });
    // What still waits has had its time.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Waits until `stop` is set.
async fn stopped(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
