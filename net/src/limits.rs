//! What one peer, and all of them together, may take.

use std::time::Duration;

/// Bytes besides DATA frames that a response may bring to a client: its header and trailers, and frames that nobody knows. Header fields
/// may take as many when they are unpacked.
pub(crate) const RESPONSE_BYTES: u64 = 64 << 10;

/// Limits of a server. The defaults suit a public server on a small machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more are refused.
    pub connections: usize,
    /// Handshakes at once; while there are more, clients prove their address with a Retry (RFC 9000 §8.1.2) first.
    pub handshakes: usize,
    /// Requests at once on a connection.
    pub streams: u32,
    /// Bytes of a request's header fields (RFC 9114 §4.2.2).
    pub header_bytes: u64,
    /// A connection on which nothing happens for so long ends.
    pub idle: Duration,
    /// A response of which the peer takes nothing for so long is given up.
    pub stall: Duration,
    /// Bytes that a response may have unacknowledged or unsent: what a slow reader can make the server hold, per connection.
    pub send_buffer: u64,
    /// The longest delay that `/delay/MS/` grants.
    pub delay: Duration,
    /// Requests are taken in 0-RTT: somebody may send them again, which GET and HEAD bear (RFC 9001 §9.2).
    pub early_data: bool,
    /// The largest body that `/bytes/N` grants.
    pub body: u64,
}

impl Limits {
    /// Bytes besides DATA frames that a request may bring: its header fields, and as much again for frames that nobody knows.
    pub(crate) const fn request_bytes(&self) -> u64 {
        self.header_bytes.saturating_mul(2)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            handshakes: 256,
            streams: 100,
            header_bytes: 16 << 10,
            idle: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            send_buffer: 8 << 20,
            delay: Duration::from_secs(60),
            early_data: false,
            body: 1 << 40,
        }
    }
}
