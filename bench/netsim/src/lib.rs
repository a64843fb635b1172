//! A network for QUIC stacks: links with a rate and a queue, in virtual time or in real time.
//!
//! A QUIC application runs over it unmodified: its stack takes clock, timers, tasks and UDP sockets from [`sim::SimHandle`] instead of
//! tokio. In virtual time the same program and seed give the same packets at the same nanoseconds ([`sim::SimHandle::trace_hash`]).
//!
//! | folder | what is in it |
//! |---|---|
//! | [`sim`] | clock, event queue, tasks, timers, sockets, flows and the way of a packet |
//! | [`link`] | a link: rate, counts and series |
//! | [`queue`] | queue disciplines; one file each |
//! | [`path`] | a path as users write it, and what it does besides queueing: loss, jitter, traces, events |
//! | [`backend`] | what carries the packets: nothing (virtual time), the kernel's loopback, the kernel's own links (netem) |
//! | [`relay`] | the same links between UDP sockets of this host, for programs that are not part of a simulation |
//! | [`udp`], [`kernel`] | the kernel's sockets, with ECN; what it counts of them and of CPU time |
//! | `adapters` | the simulation as quinn, noq and quiche see it; one feature each |

mod adapters;
pub mod backend;
pub mod hash;
pub mod kernel;
pub mod link;
pub mod path;
pub mod queue;
pub mod relay;
pub mod sim;
pub mod udp;
