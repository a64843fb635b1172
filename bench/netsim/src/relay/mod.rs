//! The lab's links in real time: a relay between UDP sockets of this host that delays, queues, loses, reorders, duplicates and corrupts
//! datagrams. No privileges, no kernel modules.
//!
//! | file | what is in it |
//! |---|---|
//! | `line.rs` | one direction: what becomes of each datagram, by the same links and queues as in virtual time. Pure |
//! | `scheduled.rs` | the same where the queue schedules, so that a datagram's fate is known later |
//! | `held.rs` | the datagrams that wait for it |
//! | `rebindings.rs` | when clients get new ports |
//! | `control.rs` | changes of the path while it runs |
//! | `timing.rs` | how long datagrams take, how late the machine makes them, and whether the relay was the limit |
//! | `forwarder.rs` | sockets, clients, the clock, the loop |
//!
//! Each client gets a socket of its own towards the server, as behind a NAT. ECN codepoints pass through, and queues that mark do mark.

mod control;
mod forwarder;
mod held;
mod line;
#[cfg(test)]
mod parity;
mod rebindings;
mod scheduled;
mod timing;

pub use control::{COMMANDS, CommandError, Reply, Request};
pub use forwarder::{Passing, Relay, RelayError, RelayStats};
pub use line::{Copies, Copy, Incoming, Line, LineStats};
pub use timing::{LATE, LineTiming, RelayLimit, RelayLoad};

use crate::path::{DirectedPath, PathEvent};

/// What a relay does to both directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelaySpec {
    /// Server to client.
    pub down: DirectedPath,
    /// Client to server.
    pub up: DirectedPath,
    /// What changes for both directions, beside what theirs say: blackouts, MTU, RTT, rebindings. A link's rate is its own.
    pub events: Vec<PathEvent>,
    /// Seed of everything random.
    pub seed: u64,
}
