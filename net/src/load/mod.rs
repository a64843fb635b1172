//! Load: requests at a server over HTTP/3, and how long their responses take.
//!
//! A closed loop keeps so many requests open and begins one when another ends: a server that stalls is asked less, and its percentiles
//! do not know of the requests that were not sent meanwhile (coordinated omission). An open loop begins requests at their times, and
//! counts from those times even where the client is late.
//!
//! | file | what is in it |
//! |---|---|
//! | `target.rs` | URLs: the server, and where its packets go |
//! | `arrivals.rs` | when requests begin in an open loop: rates, traces |
//! | `trust.rs` | TLS: whom a client believes, and its tickets |
//! | `dialer.rs` | what a stack must do to be asked through |
//! | `rustls_dialers.rs` | how quinn and noq do it |
//! | `session.rs` | one connection with HTTP/3, one request |
//! | `shared.rs` | what all requests share; connecting, 0-RTT |
//! | `slots.rs` | connections that are kept |
//! | `closed.rs`, `open.rs`, `pacer.rs` | the loops |
//! | `books.rs`, `times.rs`, `rows.rs`, `uplink.rs` | what is counted, and how it is written down |
//! | `strain.rs` | whether the client was the limit |
//! | `run.rs` | a run from beginning to end |
//! | `clock.rs` | reading clocks |

mod arrivals;
mod books;
mod clock;
mod closed;
mod dialer;
mod open;
mod pacer;
mod rows;
mod run;
mod rustls_dialers;
mod session;
mod shared;
mod slots;
mod strain;
mod target;
mod times;
mod trust;
mod uplink;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

pub use crate::server::Stack;
pub use crate::timestamps::Timestamps;
pub use arrivals::{Arrival, Spacing, at_rate, trace};
pub use books::{Connections, Counts, Kind, Phases};
pub use rows::COLUMNS;
pub use run::run;
pub use strain::Strain;
pub use target::{Origin, any_port, choose, host, port, urls};
pub use times::Times;
pub use trust::{Tickets, Trust};

/// Connections that serve several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// At most so many.
    pub connections: usize,
    /// Requests at once on each.
    pub streams: usize,
}

/// Who begins a request, and when.
pub enum Traffic {
    /// Each place on a connection begins one when the one before is over; URLs in turn.
    Closed(Kept, Vec<Uri>),
    /// Each begins at its time: in order of time, on connections that are kept or, where there are none, on one of its own.
    Open(Box<dyn Iterator<Item = Arrival> + Send>, Option<Kept>),
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(kept, urls) => f.debug_tuple("Closed").field(kept).field(urls).finish(),
            Self::Open(_, kept) => f.debug_tuple("Open").field(kept).finish_non_exhaustive(),
        }
    }
}

/// A load.
#[derive(Debug)]
pub struct Plan {
    /// Stack.
    pub stack: Stack,
    /// The server.
    pub origin: Origin,
    /// Requests.
    pub traffic: Traffic,
    /// Requests that begin in this time are not measured.
    pub warm_up: Duration,
    /// Requests begin for so long after the warm-up.
    pub duration: Option<Duration>,
    /// So many requests are measured at most.
    pub requests: Option<u64>,
    /// The longest that a request may take, connecting and waiting for room included.
    pub timeout: Duration,
    /// One-way delays.
    pub timestamps: Timestamps,
    /// Certificates.
    pub trust: Trust,
    /// Connections of one request send it in 0-RTT where they can.
    pub zero_rtt: bool,
    /// The server is asked for a digest of each body, and a body that does not match its own has failed.
    pub check_digests: bool,
}

/// Where details go while a run goes on.
#[derive(Default)]
pub struct Outputs {
    /// A line for each request: CSV with the columns [`COLUMNS`].
    pub rows: Option<Box<dyn io::Write + Send>>,
    /// The response times of each second: HdrHistogram's interval log.
    pub intervals: Option<Box<dyn io::Write + Send>>,
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, intervals) = (self.rows.is_some(), self.intervals.is_some());
        f.debug_struct("Outputs").field("rows", &rows).field("intervals", &intervals).finish()
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Time since the warm-up was over; `None` before.
    pub measured: Option<Duration>,
    /// Requests over.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Requests that are measured and not over.
    pub open: u64,
}

/// What a run brought.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Requests began at their times, not after each other.
    pub open_loop: bool,
    /// How long it measured: rates are over this time.
    pub window: Duration,
    /// What became of requests.
    pub counts: Counts,
    /// How long they took.
    pub phases: Phases,
    /// Their connections.
    pub connections: Connections,
    /// Whether the client was the limit.
    pub strain: Strain,
    /// Lines of [`Outputs::rows`] that were lost, as the disk was too slow.
    pub rows_lost: u64,
    /// The [`Outputs`] that could not be written to their end, and why.
    pub unwritten: Vec<(&'static str, String)>,
}

impl Outcome {
    /// Whole responses per second.
    pub fn rate(&self) -> f64 {
        per_second(self.counts.in_time as f64, self.window)
    }

    /// Bits per second of their bodies.
    pub fn goodput(&self) -> f64 {
        per_second(self.counts.bytes_in_time as f64 * 8.0, self.window)
    }
}

fn per_second(what: f64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { what / time.as_secs_f64() }
}

/// Why there is no outcome. Each message is one line that names the mend.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan contradicts itself.
    #[error("{0}")]
    Plan(&'static str),
    /// Certificates.
    #[error("{0}")]
    Trust(String),
    /// Sockets, or the stack.
    #[error("cannot set up the client: {0}")]
    Setup(String),
    /// No connection to the server could be made.
    #[error("cannot reach {0}: {1}")]
    Unreachable(Origin, String),
}

/// What connections of a run have in common.
struct Dialing {
    origin: Origin,
    tls: Arc<rustls::ClientConfig>,
    timestamps: Timestamps,
    /// Sockets that connections divide among.
    sockets: usize,
    /// A connection on which nothing happens for so long ends.
    idle: Duration,
}
