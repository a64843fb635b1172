//! The network simulator: clock, timers, tasks and UDP sockets for the stacks.
//!
//! Stacks take their runtime through their own runtime traits. Elsewhere that is tokio; here it is [`SimHandle`], a deterministic
//! single-threaded executor whose events are ordered by (time, sequence). TLS and QUIC are real; no wall clock is read.

mod agent;
mod backend;
mod event_queue;
mod executor;
mod net;
mod noq;
mod quinn;
mod realtime;
mod socket;
mod timer;

pub(crate) use agent::{Agent, AgentId, AgentTimer, Arrived, Wire};
pub use backend::Backend;
pub use executor::{Ended, Executor, SimHandle};
pub use net::{Ecn, FlowCounts, Group, GroupId, Hop, LinkId, NetStats, Path, SocketId, Tap, WIRE_OVERHEAD};
pub(crate) use realtime::KernelLink;
pub use realtime::Punctuality;
#[cfg(feature = "quiche")]
pub(crate) use socket::Received;
pub(crate) use socket::flow_of;
pub use socket::{SimSocket, server_address};
pub use timer::Sleep;
