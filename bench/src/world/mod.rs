//! Worlds: where stacks run. A world gives a clock, timers, tasks and UDP sockets.
//!
//! quinn's own [`quinn::Runtime`] is that seam for quinn: in the real world it is tokio's, here it is [`Virtual`]: a deterministic
//! single-threaded executor whose events are ordered by (time, sequence). Real TLS, real QUIC, no wall clock.

mod executor;
mod net;
mod socket;
mod timer;

pub use executor::{Ended, Executor, Virtual};
pub use net::{Group, GroupId, Hop, LinkId, NetStats, Path, SocketId, WIRE_OVERHEAD};
pub(crate) use socket::flow_of;
pub use socket::server_address;
pub use timer::Sleep;
