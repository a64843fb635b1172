//! The network simulator: clock, timers, tasks and UDP sockets for QUIC stacks.
//!
//! Stacks access their runtime through their own runtime traits. In production, the runtime is
//! tokio. Here, it is [`SimHandle`], a deterministic single-threaded executor whose events are
//! ordered by (time, sequence). TLS and QUIC are real. In virtual time, no wall clock is read.
//!
//! # Flows and addresses
//!
//! A [`Group`] names two sockets and the path between them in each direction: links, then a fixed
//! delay. A flow is one connection of a group. All connections of a group share its two sockets, so
//! the flow is encoded in the address. The client opens flow `n` to
//! [`server_address(n)`](server_address). The server sees in [`Received::to`] at which address it
//! was contacted, and answers from this address. Stacks do this by themselves.
//!
//! | address | belongs to |
//! |---|---|
//! | `[fd00:0:0:5e::N]:443`, the low 32 bits are the flow | the server of flow `N` |
//! | `[fd00:0:0:c1::S]:443`, the low 16 bits are the socket | the client socket `S`, for all its flows. [`SimHandle::rebind`] changes the port |
//!
//! - Add a flow for each connection ([`SimHandle::add_flow`]). Several connections can use the same
//!   flow if counts and queues need not distinguish them.
//! - A flow may have its own delays in addition to those of the group's path, half of each in each
//!   direction ([`SimHandle::add_flow_with_delays`]; PackMime's use of DelayBox, ns-2).
//! - A socket may be the client of some groups and the server of others.
//! - A datagram is lost if its address belongs to no flow of its socket, as in a real network. The
//!   stack's handshake then times out. [`NetStats::unroutable`] counts such datagrams.
//! - A [`Path`] is a list of links with delays. [`SimHandle::add_path`] makes the two paths of a
//!   group from a [`CheckedPath`](crate::path::CheckedPath), which is a path as users write it.
//!
//! | file | contents |
//! |---|---|
//! | `executor.rs` | tasks, and the loop that advances time |
//! | `handle.rs` | the handle that tasks and stacks hold |
//! | `add_path.rs` | a path as users write it, as links of the simulation |
//! | `addresses.rs` | addresses of servers and clients |
//! | `core.rs` | the state that time advances, behind one lock; the agents' access to it |
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
//! | `virtual_only.rs` | replacement of real time in builds without the feature `real-time` |
//! | `agent.rs` | traffic sources that are part of the network rather than tasks |

mod add_path;
mod addresses;
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
#[cfg(not(feature = "real-time"))]
mod virtual_only;

pub use crate::ecn::Ecn;
pub use addresses::{flow_of, server_address};
pub use agent::AgentTimer;
pub use core::{Agent, Arrived, Wire};
#[cfg(feature = "real-time")]
pub(crate) use executor::MainTask;
pub use executor::{Ended, Executor};
pub use flow_counts::{FlowCounts, FlowSpans, START_UP};
pub use handle::SimHandle;
pub use network::{
    AgentId, Group, GroupId, Hop, LinkId, NetStats, Path, SocketId, Tap, WIRE_OVERHEAD,
};
pub use sleep::Sleep;
pub use socket::{Received, SEGMENTS, SimSocket};
