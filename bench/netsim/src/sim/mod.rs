//! The network simulator: clock, timers, tasks and UDP sockets for QUIC stacks.
//!
//! Stacks reach their runtime through their own runtime traits. In production the runtime is tokio.
//! Here it is [`SimHandle`], a deterministic single-threaded executor whose events are ordered by
//! (time, sequence). TLS and QUIC are real; no wall clock is read in virtual time.
//!
//! | file | contents |
//! |---|---|
//! | `executor.rs` | tasks, and the loop that advances time |
//! | `handle.rs` | the handle that tasks and stacks hold |
//! | `core.rs` | the state that time advances, behind one lock; the agents' view of it |
//! | `event_queue.rs` | events in order of (time, sequence) |
//! | `network.rs` | links, sockets, groups, flows, and the store of packets |
//! | `direction.rs` | direction of a packet: from the client or from the server |
//! | `flow_counts.rs` | counts of a flow's datagrams by span of time |
//! | `forward.rs` | forwarding of packets from sender to receiver |
//! | `bundles.rs`, `open_bundles.rs` | datagrams that leave their sender together (GSO) |
//! | `scheduled.rs` | forwarding over a link whose queue schedules |
//! | `needs.rs` | bytes that flows need to send, to recognise duplicates |
//! | `socket.rs` | sockets, and all functions of the handle that concern the network |
//! | `timers.rs`, `sleep.rs` | timers, and the futures that wait for them |
//! | `agent.rs` | traffic sources inside the network instead of in tasks |

mod agent;
mod bundles;
pub(crate) mod core;
mod direction;
mod event_queue;
mod executor;
mod flow_counts;
mod forward;
mod handle;
mod needs;
pub(crate) mod network;
mod open_bundles;
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
