//! Links that are the kernel's: network namespaces, veth, and tc's queues.
//!
//! | file | what is in it |
//! |---|---|
//! | `namespace.rs` | network namespaces without a name: the kernel removes them with the last who uses them, however that ends |
//! | `wire.rs` | one link: a sender's namespace, a router's with the queue, a receiver's |
//! | `qdisc.rs` | the lab's queues in tc's words |
//! | `uml.rs` | a kernel that has all of it, where this machine's has not: User-Mode Linux |
//!
//! Everything is undone by the kernel when the process ends: nothing here has a name outside it.

mod namespace;
mod qdisc;
mod uml;
mod wire;

use std::time::Duration;

use fathom_units::Rate;

use crate::backend::attach::RouterLink;
use crate::backend::real_time::KernelLink;
use crate::queue::QueueSpec;

pub use qdisc::NoQdisc;
pub use uml::{GuestError, run_in_guest};
use wire::Wire;

/// Why a kernel's links cannot be had. Each message is one line that says how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum NetemError {
    /// Namespaces need privileges.
    #[error("cannot make a network namespace: {0}; run as root, or with --kernel uml, which needs no privileges")]
    Namespace(std::io::Error),
    /// A tool that is not there or refuses.
    #[error("'{tool} {what}' failed: {why}; {hint}")]
    Tool {
        /// `ip` or `tc`.
        tool: &'static str,
        /// Its arguments.
        what: String,
        /// What it said.
        why: String,
        /// How to fix it.
        hint: &'static str,
    },
    /// A queue that tc does not have.
    #[error(transparent)]
    Queue(#[from] NoQdisc),
    /// A socket in a namespace.
    #[error("a socket in a namespace: {0}; see whether another program limits this one's sockets")]
    Socket(#[from] std::io::Error),
    /// What was built does not carry a datagram.
    #[error("the link that was built carries nothing: see whether a firewall filters in new namespaces")]
    Silent,
}

/// Whether the kernel has such a queue.
///
/// # Errors
/// It has not.
pub fn has(queue: &QueueSpec) -> Result<(), NoQdisc> {
    qdisc::qdiscs(Rate::from_bits_per_sec(100_000_000), queue, Duration::ZERO).map(drop)
}

/// Builds a link.
pub(crate) fn build(router: &RouterLink) -> Result<KernelLink, NetemError> {
    let Wire { from, to, keep } = Wire::new(router.rate, &router.queue, router.delay)?;
    Ok(KernelLink { link: router.link, delay: router.delay, from, to, keep: Box::new(keep) })
}

/// Whether this kernel has netem, and this process may use it: tried once, for real.
///
/// # Errors
/// What was refused.
pub fn available() -> Result<(), NetemError> {
    Wire::new(Rate::from_bits_per_sec(100_000_000), &QueueSpec::droptail_packets(10), Duration::from_millis(1))
        .map(drop)
}
