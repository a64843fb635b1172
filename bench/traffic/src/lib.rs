//! Workloads: sequences of requests.
//!
//! A workload is an iterator of [`WebRequest`]s in order of their start. It knows nothing of the controllers, the queues or the
//! load on the links: arrivals never wait for completions (open loop), so every controller of a comparison meets the same requests.
//!
//! | file | what it holds |
//! |---|---|
//! | `pages.rs` | pages as browsers load them: visits, page views, objects in waves |
//! | `media.rs` | live media: frames at a fixed rate whose sizes make a bit rate |
//! | `packmime.rs` | the PackMime-HTTP model as an iterator: arrivals, sizes and delays for one connection rate |
//! | `distributions.rs` | its distributions as pure inverse CDFs, one function each |
//! | `tables.rs` | piecewise-linear tables (`packmime.json`) |
//! | `rate.rs` | rates that a model does not have |
//! | `fsd.rs` | the long-range dependent unit normal that drives arrivals, request sizes and round-trip times |

mod distributions;
mod fsd;
pub mod media;
pub mod packmime;
pub mod pages;
mod rate;
mod tables;

use std::time::Duration;

use fathom_cc::Time;

pub use media::{Frame, Frames, MediaStream};
pub use packmime::{Arrivals, Options, PackMime};
pub use pages::{Kind, Object, PageShape, PageView, Pages, Visit};
pub use rate::RateOutOfRange;

/// One request-response pair on a connection of its own (HTTP/1.0 style, Sync-TCP §4.2), whatever the workload it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebRequest {
    /// When the client opens the connection. Response times count from here, handshake included.
    pub start: Time,
    /// Size of the request in bytes, at least 1.
    pub request_bytes: u64,
    /// Size of the response in bytes, at least 1.
    pub response_bytes: u64,
    /// Round-trip delay on the client's side of the network; a delay box adds half of it in each direction.
    pub client_rtt: Duration,
    /// Round-trip delay on the server's side of the network; a delay box adds half of it in each direction.
    pub server_rtt: Duration,
    /// Time the server thinks before it answers; zero when the workload does not model it.
    pub server_delay: Duration,
}

impl WebRequest {
    /// The round-trip time that the request brings with it; the propagation delay of the topology comes on top.
    pub fn rtt(&self) -> Duration {
        self.client_rtt.saturating_add(self.server_rtt)
    }
}
