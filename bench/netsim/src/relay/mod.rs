//! The lab's links in real time: a relay between UDP sockets of this host. It delays, queues,
//! drops, reorders, duplicates and corrupts datagrams. It needs no privileges and no kernel
//! modules.
//!
//! | file | contents |
//! |---|---|
//! | `line.rs` | one direction: a pure state machine with the links and queues of virtual time |
//! | `scheduled.rs` | lines whose queue schedules, and which therefore decide on a datagram later |
//! | `passage.rs` | a datagram's passage: its direction, its client and its ECN field |
//! | `held.rs` | datagrams that wait in a line |
//! | `rebindings.rs` | times at which clients get new ports |
//! | `command.rs` | commands for a running relay, and their answers |
//! | `control.rs` | changes of the path while the relay runs |
//! | `timing.rs` | delay and lateness of datagrams, and whether the relay was the limit |
//! | `stats.rs` | counts of a relay |
//! | `forwarder.rs` | sockets, clients, the clock, the loop |
//!
//! Each client gets its own socket towards the server, as behind a NAT. ECN codepoints pass
//! unchanged, except that queues may set CE.

mod command;
mod control;
mod forwarder;
mod held;
mod line;
#[cfg(test)]
mod parity;
mod passage;
mod rebindings;
mod scheduled;
mod stats;
mod timing;

pub use command::{COMMANDS, CommandError, Reply, Request};
pub use forwarder::{Passing, Relay, RelayError};
pub use line::{Copies, Copy, Incoming, Line, LineStats};
pub use stats::RelayStats;
pub use timing::{LATE, LineTiming, RelayLimit, RelayLoad};

use crate::path::{DirectedPath, PathEvent};

/// Effects of a relay on datagrams in both directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelaySpec {
    /// Direction from server to client.
    pub down: DirectedPath,
    /// Direction from client to server.
    pub up: DirectedPath,
    /// Events of both directions, in addition to each direction's own events: blackouts, MTU, RTT,
    /// rebindings. Changes of a link's rate are events of the link.
    pub events: Vec<PathEvent>,
    /// Seed of all random numbers.
    pub seed: u64,
}
