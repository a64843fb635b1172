//! Load generator: sends requests to an HTTP/3 server and measures response times.
//!
//! A closed loop keeps a fixed number of requests in flight: when one request ends, the next one
//! starts. A stalled server then gets fewer requests, and the percentiles lack the requests that
//! were not sent during the stall (coordinated omission). An open loop starts requests at scheduled
//! times. It measures from the scheduled times even if the client is late.
//!
//! | file | contents |
//! |---|---|
//! | `target.rs` | URLs: the server and its address |
//! | `arrivals.rs` | arrival times of an open loop: rates, traces |
//! | `client.rs` | a client on any stack: its sockets and connections |
//! | `session.rs` | one HTTP/3 connection, one request |
//! | `context.rs` | state of a run that all requests share; connecting, 0-RTT |
//! | `pool.rs` | persistent connections |
//! | `closed_loop.rs`, `open_loop.rs`, `pacer.rs` | the loops |
//! | `request.rs` | one request |
//! | `load_stats.rs`, `latency.rs`, `over_time.rs` | statistics |
//! | `request_csv.rs` | a file with a line for each request |
//! | `uplink_delay.rs` | queueing delay towards the server |
//! | `saturation.rs` | whether the client was the bottleneck |
//! | `run.rs` | a run from start to end |
//! | `clock.rs` | the only place that reads clocks |

mod arrivals;
mod client;
mod clock;
mod closed_loop;
mod context;
mod latency;
mod load_stats;
mod open_loop;
mod over_time;
mod pacer;
mod pool;
mod request;
mod request_csv;
mod run;
mod saturation;
mod session;
mod target;
mod uplink_delay;

use std::fmt;
use std::io;
use std::num::NonZeroU8;
use std::time::Duration;

use http::Uri;

use crate::handshake_error::HandshakeError;
pub use crate::timestamps::Timestamps;
use crate::trust::{Trust, TrustError};
pub use arrivals::{Arrival, Spacing, at_rate, trace};
use fathom_stacks::Stack;
pub use latency::LatencyHistogram;
pub use load_stats::{ConnectionTotals, PhaseTimes, RequestCounts};
pub use over_time::{Ended, OverTime};
pub use request::FailureKind;
pub use request_csv::COLUMNS;
pub use run::run;
pub use saturation::ClientSaturation;
pub use target::{Origin, choose_address, host, port, urls, wildcard_address};

/// Size of a pool of persistent connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of concurrent requests on each connection.
    pub streams: usize,
}

/// Start times of requests and their connections.
pub enum Traffic {
    /// Closed loop: each stream slot starts a request when its previous request has ended. The
    /// requests cycle through the URLs.
    Closed(PoolSize, Vec<Uri>),
    /// Open loop: arrivals sorted by time, on pooled connections. Without a pool, each arrival uses
    /// a fresh connection.
    Open(Box<dyn Iterator<Item = Arrival> + Send>, Option<PoolSize>),
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(kept, urls) => f.debug_tuple("Closed").field(kept).field(urls).finish(),
            Self::Open(_, kept) => f.debug_tuple("Open").field(kept).finish_non_exhaustive(),
        }
    }
}

/// Configuration of a load run.
#[derive(Debug)]
pub struct LoadConfig {
    /// Stack.
    pub stack: Stack,
    /// The server.
    pub origin: Origin,
    /// Number of threads, each with an event loop and a UDP socket. Connections are divided among
    /// the threads. More threads than connections are not used.
    pub threads: NonZeroU8,
    /// Requests.
    pub traffic: Traffic,
    /// Duration of the warm-up. Requests that start in this time are not measured.
    pub warm_up: Duration,
    /// Time after the warm-up during which requests start.
    pub duration: Option<Duration>,
    /// Maximum number of measured requests; `None` for no limit.
    pub requests: Option<u64>,
    /// Timeout of a request, including the handshake and waiting for a connection.
    pub timeout: Duration,
    /// Timestamp extension to negotiate.
    pub timestamps: Timestamps,
    /// Certificates to accept.
    pub trust: Trust,
    /// Whether fresh connections send their request in 0-RTT if they have a ticket.
    pub zero_rtt: bool,
    /// Whether to request a digest of each body. A digest that does not match is a failure.
    pub check_digests: bool,
    /// Header fields of each request.
    pub headers: http::HeaderMap,
    /// Flow control window of a response in bytes, usually [`STREAM_WINDOW`].
    pub stream_window: u64,
}

/// Usual flow control window of a response in bytes. This window is enough for 1 Gbps over 100 ms,
/// so that flow control does not limit the measurement.
pub const STREAM_WINDOW: u64 = 16 << 20;

/// Detailed outputs that are written during a run.
#[derive(Default)]
pub struct Outputs {
    /// A line for each request: CSV with the columns [`COLUMNS`].
    pub rows: Option<Box<dyn io::Write + Send>>,
    /// The response times of each second, as HdrHistogram's interval log.
    pub intervals: Option<Box<dyn io::Write + Send>>,
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, intervals) = (self.rows.is_some(), self.intervals.is_some());
        f.debug_struct("Outputs").field("rows", &rows).field("intervals", &intervals).finish()
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Time since the end of the warm-up; `None` during the warm-up.
    pub measured: Option<Duration>,
    /// Finished requests.
    pub done: u64,
    /// Finished requests that failed.
    pub failed: u64,
    /// Measured requests that have started and not finished.
    pub open: u64,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Whether the run was an open loop.
    pub open_loop: bool,
    /// Measured time, to which rates refer.
    pub window: Duration,
    /// Request counts.
    pub counts: RequestCounts,
    /// Latencies of complete responses.
    pub phases: PhaseTimes,
    /// Ends of requests over the measured time.
    pub over_time: OverTime,
    /// Connection statistics.
    pub connections: ConnectionTotals,
    /// CPU usage and lateness of the client.
    pub saturation: ClientSaturation,
    /// Lines of [`Outputs::rows`] that were dropped because the disk was too slow.
    pub rows_lost: u64,
    /// Names of the [`Outputs`] that could not be written completely, and the reasons.
    pub unwritten: Vec<(&'static str, String)>,
}

impl LoadReport {
    /// Returns the number of complete responses per second.
    pub fn rate(&self) -> f64 {
        per_second(self.counts.in_time as f64, self.window)
    }

    /// Returns the rate of the bodies of complete responses, in bits per second.
    pub fn goodput(&self) -> f64 {
        per_second(self.counts.bytes_in_time as f64 * 8.0, self.window)
    }
}

fn per_second(what: f64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { what / time.as_secs_f64() }
}

/// Reason why a run has no results. Each message is one line with a hint.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration is inconsistent.
    #[error("{0}")]
    Config(&'static str),
    /// The stack does not generate load.
    #[error("{0} cannot generate load; write {others}", others = Stack::names(Stack::on_rustls))]
    Stack(Stack),
    /// Certificates cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No socket can be opened.
    #[error("cannot set up the client: {0}")]
    Socket(#[from] io::Error),
    /// The stack cannot be set up.
    #[error("cannot set up the client: {0}")]
    Setup(#[from] fathom_stacks::SetupError),
    /// No connection to the server could be made.
    #[error("cannot reach {0}: {1}{hint}", hint = if matches!(**.1, HandshakeError::TimedOut(_)) {
        "; check that a server speaks HTTP/3 there"
    } else {
        ""
    })]
    Unreachable(Origin, Box<HandshakeError>),
    /// The run was stopped before the first connection was established.
    #[error("cannot reach {0}: the run was stopped before the server answered")]
    Stopped(Origin),
}
