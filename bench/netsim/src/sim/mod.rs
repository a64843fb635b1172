//! The network simulator: clock, timers, tasks and UDP sockets for QUIC stacks.
//!
//! Stacks take their runtime through their own runtime traits. Elsewhere that is tokio; here it is [`SimHandle`], a deterministic
//! single-threaded executor whose events are ordered by (time, sequence). TLS and QUIC are real; no wall clock is read.
//!
//! | file | what is in it |
//! |---|---|
//! | `executor.rs` | tasks, and the loop that moves time |
//! | `handle.rs` | the handle that tasks and stacks hold |
//! | `core.rs` | what time moves, behind one lock; what agents see of it |
//! | `event_queue.rs` | events in order of (time, sequence) |
//! | `network.rs` | links, sockets, groups, flows, and the store of packets |
//! | `forward.rs` | the way of a packet |
//! | `bundles.rs` | datagrams that leave their sender together (GSO) |
//! | `scheduled.rs` | its way over a link whose queue schedules |
//! | `needs.rs` | what flows need to send, to tell it from what they send again |
//! | `socket.rs` | sockets, and everything about the network that the handle offers |
//! | `timers.rs`, `sleep.rs` | timers, and the futures that wait for them |
//! | `agent.rs` | traffic that lives inside the network instead of in tasks |

mod agent;
mod bundles;
pub(crate) mod core;
mod event_queue;
mod executor;
mod flow_counts;
mod forward;
mod handle;
mod needs;
pub(crate) mod network;
mod scheduled;
mod sleep;
mod socket;
mod timers;

pub use agent::AgentTimer;
pub use core::{Agent, Arrived, Wire};
pub use executor::{Ended, Executor};
pub use flow_counts::{FlowCounts, FlowSpans, START_UP};
pub use handle::SimHandle;
pub use network::{
    AgentId, Ecn, Group, GroupId, Hop, LinkId, NetStats, Path, SocketId, Tap, WIRE_OVERHEAD,
};
pub use sleep::Sleep;
pub use socket::{Received, SEGMENTS, SimSocket, flow_of, server_address};
