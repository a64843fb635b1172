//! Network simulator for QUIC stacks: links with a rate and a queue, in virtual or real time.
//!
//! A QUIC application runs over the simulated network unmodified: its stack takes clock, timers,
//! tasks and UDP sockets from [`sim::SimHandle`] instead of tokio. In virtual time, the same
//! program and seed give the same packets at the same nanoseconds ([`sim::SimHandle::trace_hash`]).
//!
//! | folder | contents |
//! |---|---|
//! | [`sim`] | clock, event queue, tasks, timers, sockets, flows, and the forwarding of packets |
//! | [`link`] | a link: rate, counts and time series |
//! | [`queue`] | queue disciplines, one file each |
//! | [`path`] | paths as users write them; effects besides queueing: loss, jitter, traces, events |
//! | [`backend`] | virtual time, the kernel's loopback, or the kernel's own links (netem) |
//! | [`relay`] | the same links between UDP sockets of this host, for unsimulated programs |
//! | [`udp`], [`kernel`] | kernel UDP sockets with ECN; kernel counts of UDP drops and CPU time |
//! | [`runtime`] | clock, timers, tasks and sockets for a stack without I/O: in the simulation, on tokio |
//! | `adapters` | the simulation as a runtime for quinn and noq; one feature each |

mod adapters;
pub mod backend;
pub mod hash;
pub mod kernel;
pub mod link;
mod nanos;
pub mod path;
pub mod queue;
pub mod relay;
pub mod runtime;
pub mod sim;
pub mod udp;

pub use fathom_units::{Invalid, Rate, Time};
