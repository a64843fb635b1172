//! Workloads: sequences of requests.
//!
//! A workload is an iterator of [`WebRequest`]s in order of their start. Arrivals never wait for
//! completions (open loop). They do not depend on the controllers, the queues or the load of the
//! links, so every controller of a comparison gets the same requests.
//!
//! | file | contents |
//! |---|---|
//! | `pages.rs` | pages as browsers load them: visits, page views, objects in waves |
//! | `media.rs` | live media: frames at a fixed rate, with sizes that add up to a bit rate |
//! | `packmime.rs` | PackMime-HTTP as an iterator: arrivals, sizes, delays for a connection rate |
//! | `distributions.rs` | distributions of PackMime as pure inverse CDFs, one function each |
//! | `tables.rs` | piecewise-linear tables (`packmime.json`) |
//! | `rate.rs` | errors for rates outside a model's range |
//! | `fsd.rs` | unit normal with long-range dependence, for arrivals, request sizes and RTTs |

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

/// One request and its response on their own connection (HTTP/1.0 style, Sync-TCP §4.2), as all
/// workloads produce them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebRequest {
    /// Time at which the client opens the connection. Response times count from here, including the
    /// handshake.
    pub start: Time,
    /// Size of the request in bytes, at least 1.
    pub request_bytes: u64,
    /// Size of the response in bytes, at least 1.
    pub response_bytes: u64,
    /// Round-trip delay on the client's side of the network. A delay box adds half of it in each
    /// direction.
    pub client_rtt: Duration,
    /// Round-trip delay on the server's side of the network. A delay box adds half of it in each
    /// direction.
    pub server_rtt: Duration,
    /// Processing time of the server before it responds; zero if the workload does not model this
    /// time.
    pub server_delay: Duration,
}

impl WebRequest {
    /// Returns the request's round-trip time, without the propagation delay of the topology.
    pub fn rtt(&self) -> Duration {
        self.client_rtt.saturating_add(self.server_rtt)
    }
}
