//! Worlds: where stacks run. A world gives a clock, timers, tasks and UDP sockets.
//!
//! The stacks' own runtime traits are that seam: in the real world they get tokio's, here [`Virtual`]: a deterministic
//! single-threaded executor whose events are ordered by (time, sequence). Real TLS, real QUIC, no wall clock.

mod agenda;
mod agent;
mod executor;
mod ground;
mod net;
mod noq;
mod quinn;
mod real;
mod socket;
mod timer;

pub(crate) use agent::{Agent, AgentId, AgentTimer, Arrived, Wire};
pub use executor::{Ended, Executor, Virtual};
pub use ground::Ground;
pub use net::{Ecn, FlowCounts, Group, GroupId, Hop, LinkId, NetStats, Path, SocketId, Tap, WIRE_OVERHEAD};
pub(crate) use real::KernelLink;
pub use real::Punctuality;
#[cfg(feature = "quiche")]
pub(crate) use socket::Received;
pub(crate) use socket::flow_of;
pub use socket::{VirtualSocket, server_address};
pub use timer::Sleep;
