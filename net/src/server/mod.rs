//! Accepting connections, serving their requests, ending in good order.
//!
//! | file | what is in it |
//! |---|---|
//! | `admission.rs` | which clients get a place |
//! | `door.rs` | what a stack must do to be served through |
//! | `rustls_doors.rs` | how quinn and noq do it |
//! | `connection.rs` | the requests of one connection |
//! | `outgoing.rs` | their streams, where responses reach them |
//! | `reply.rs` | a response, from its request to the acknowledgement of its last byte, on any stack |
//! | `budget.rs` | memory for what is not acknowledged, and whom to give up for it |
//! | `quiche/` | quiche, which has its own HTTP/3 and no runtime |
//! | `scrape.rs` | the metrics, over HTTP/1.1 |

mod admission;
mod budget;
mod connection;
mod door;
mod outgoing;
#[cfg(feature = "quiche")]
mod quiche;
mod reply;
mod rustls_doors;
mod scrape;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fathom_qlog::Folder;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::identity::{Identity, IdentityError};
use crate::limits::Limits;
use crate::metrics::{Controller, Metrics};
use crate::shares::Shares;
use crate::site::Site;
use crate::timestamps::Timestamps;
use crate::udp::SocketBuffers;
use admission::{Admission, Verdict};
use budget::Budget;
pub(crate) use connection::NO_ERROR;
use door::Door;
#[cfg(feature = "quiche")]
pub use quiche::{Tokens, behind_handshake};
use rustls_doors::{noq, quinn};
pub use scrape::Scrape;

/// Bytes that a client may send ahead on a connection. Requests are small, and bodies of theirs are not read.
const WINDOW: u32 = 256 << 10;

/// The same on one stream: what a request may bring without a body.
fn stream_window(limits: &Limits) -> u32 {
    u32::try_from(limits.request_bytes()).unwrap_or(WINDOW).clamp(16 << 10, WINDOW)
}

/// A QUIC stack that serves. All but quiche also ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stack {
    /// quinn with rustls.
    #[default]
    Quinn,
    /// noq with rustls.
    Noq,
    /// quiche with BoringSSL.
    #[cfg(feature = "quiche")]
    Quiche,
}

impl Stack {
    /// Every stack that is built in.
    pub const ALL: &'static [Self] = &[
        Self::Quinn,
        Self::Noq,
        #[cfg(feature = "quiche")]
        Self::Quiche,
    ];
    /// Those on rustls, which [`crate::load`] asks through, too.
    pub const RUSTLS: &'static [Self] = &[Self::Quinn, Self::Noq];

    /// The name users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quinn => "quinn",
            Self::Noq => "noq",
            #[cfg(feature = "quiche")]
            Self::Quiche => "quiche",
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stack {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = || Self::ALL.iter().map(|s| s.name()).collect::<Vec<_>>().join(" or ");
        let found = Self::ALL.iter().copied().find(|stack| stack.name() == s);
        found.ok_or_else(|| match s {
            "quiche" => format!(
                "this build has no quiche; build with --features quiche (needs cmake and libclang-dev), or write {}",
                known()
            ),
            _ => format!("'{}' is not a stack that is built in; write {}", s.escape_debug(), known()),
        })
    }
}

/// What a server is made from.
#[derive(Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Stack.
    pub stack: Stack,
    /// Controllers, and how connections divide among them.
    pub shares: Shares,
    /// Certificate and key.
    pub identity: Identity,
    /// What is served.
    pub site: Site,
    /// What peers may take.
    pub limits: Limits,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// How one-way delays are exchanged with clients, under controllers that are not a stack's own.
    pub timestamps: Timestamps,
}

/// Why a server cannot be set up. Each message is one line that names the mend.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Certificate or key.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A controller.
    #[error("controller '{0}': {1}")]
    Controller(String, String),
    /// 0-RTT where a stack cannot tell a request that somebody sends again.
    #[error(
        "{0} takes no 0-RTT: BoringSSL does not keep it from being replayed; leave it out, or serve through quinn or noq"
    )]
    EarlyData(Stack),
    /// The address.
    #[error("cannot listen at {0}: {1}; choose another address or a free port")]
    Listen(SocketAddr, std::io::Error),
}

/// What all connections of a server share.
pub(crate) struct Context {
    pub(crate) site: Site,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    /// Labels of the controllers, in the order of the shares.
    pub(crate) labels: Vec<Controller>,
    pub(crate) shares: Shares,
    /// Where connections are logged.
    pub(crate) logs: Option<Arc<Folder>>,
    /// Memory for responses.
    budget: Arc<Budget>,
}

/// A server that listens and does not serve yet.
pub struct Server {
    address: SocketAddr,
    buffers: SocketBuffers,
    serving: Serving,
    context: Arc<Context>,
}

enum Serving {
    Quinn(quinn::Door),
    Noq(noq::Door),
    #[cfg(feature = "quiche")]
    Quiche(quiche::Door),
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Begins to listen. Needs a tokio runtime.
    ///
    /// # Errors
    /// The address is taken, a controller is unknown or lacks something, certificate and key do not go together.
    pub fn bind(settings: Settings) -> Result<Self, SetupError> {
        let Settings { listen, stack, shares, identity, site, limits, metrics, timestamps } = settings;
        let extension = timestamps.extension();
        let tls = if limits.early_data { identity.server_with_early_data()? } else { identity.server()? };
        let (address, buffers, serving) = match stack {
            Stack::Quinn => {
                let door = quinn::Door::open(listen, &shares, tls, &limits, extension)?;
                (door.address(), door.buffers(), Serving::Quinn(door))
            }
            Stack::Noq => {
                let door = noq::Door::open(listen, &shares, tls, &limits, extension)?;
                (door.address(), door.buffers(), Serving::Noq(door))
            }
            #[cfg(feature = "quiche")]
            Stack::Quiche => {
                let door = quiche::Door::open(listen, &shares, &identity, &limits, extension)?;
                (Ok(door.address()), door.buffers(), Serving::Quiche(door))
            }
        };
        let address = address.map_err(|e| SetupError::Listen(listen, e))?;
        let labels =
            shares.controllers().map(|c| Controller { stack: stack.name(), controller: c.to_owned() }).collect();
        let budget = Budget::new(&limits, metrics.budgeted());
        let context = Arc::new(Context { site, limits, metrics, labels, shares, logs: None, budget });
        Ok(Self { address, buffers, serving, context })
    }

    /// Logs every connection there.
    #[must_use]
    pub fn logging(mut self, logs: Arc<Folder>) -> Self {
        // Nobody else has it before it serves.
        if let Some(context) = Arc::get_mut(&mut self.context) {
            context.metrics.logged(Arc::clone(&logs));
            context.logs = Some(logs);
        }
        self
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the system granted its socket of the [`udp::BUFFER`](crate::udp::BUFFER) bytes that it asks for.
    pub const fn buffers(&self) -> SocketBuffers {
        self.buffers
    }

    /// Serves until `stop` becomes true; then takes no new connection or request, lets those that are open end for at most `grace`, and
    /// closes what is left.
    pub async fn serve(self, stop: watch::Receiver<bool>, grace: Duration) {
        self.buffers.warn_if_small();
        match self.serving {
            Serving::Quinn(door) => serve(door, self.context, stop, grace).await,
            Serving::Noq(door) => serve(door, self.context, stop, grace).await,
            #[cfg(feature = "quiche")]
            Serving::Quiche(door) => door.serve(self.context, stop, grace).await,
        }
    }
}

async fn serve<D: Door>(door: D, context: Arc<Context>, mut stop: watch::Receiver<bool>, grace: Duration) {
    let door = Arc::new(door);
    let mut connections = JoinSet::new();
    let admission = Admission::new(context.limits, Arc::clone(&context.metrics));
    loop {
        tokio::select! {
            incoming = door.accept() => {
                let Some(incoming) = incoming else { break };
                let place = match admission.of(D::from(&incoming), D::validated(&incoming), Instant::now()) {
                    Verdict::Accept(place) => place,
                    Verdict::Retry => {
                        D::retry(incoming);
                        continue;
                    }
                    Verdict::Refuse => {
                        D::refuse(incoming);
                        continue;
                    }
                };
                let share = context.shares.pick(rand::random::<f64>());
                let (door, context, stop) = (Arc::clone(&door), Arc::clone(&context), stop.clone());
                connections.spawn(async move { connection::run(&*door, incoming, share, &context, stop, place).await });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stopped(&mut stop) => break,
        }
    }
    // Who comes now hears at once that there is nothing more, while those who are there are served.
    let all = async {
        while !connections.is_empty() {
            tokio::select! {
                Some(incoming) = door.accept() => D::refuse(incoming),
                _ = connections.join_next() => {}
            }
        }
    };
    let _ = tokio::time::timeout(grace, all).await;
    connections.abort_all();
    door.close();
    // Peers hear of it; their answers are not worth a long wait.
    let _ = tokio::time::timeout(Duration::from_secs(1), door.idle()).await;
}

/// Waits until the server is to end; nobody left to say so means the same.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
