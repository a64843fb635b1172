//! Links that are the kernel's: network namespaces, veth, and tc's queues.
//!
//! | file | what is in it |
//! |---|---|
//! | `namespace.rs` | network namespaces without a name: the kernel removes them with the last who uses them, however that ends |
//! | `wire.rs` | one link: a sender's namespace, a router's with the queue, a receiver's |
//! | `qdisc.rs` | the lab's queues in tc's words |
//! | `error.rs` | why they cannot be had |
//! | `user_mode_linux.rs` | a kernel that has all of it, where this machine's has not: User-Mode Linux |
//!
//! Everything is undone by the kernel when the process ends: nothing here has a name outside it.

mod error;
#[cfg(test)]
mod kernel_queues;
mod namespace;
mod qdisc;
mod user_mode_linux;
mod wire;

use std::time::Duration;

use fathom_units::Rate;

use crate::backend::real_time::KernelLink;
use crate::backend::router_link::RouterLink;
use crate::queue::QueueSpec;

pub use error::NetemError;
pub use qdisc::NoQdisc;
pub use user_mode_linux::{GuestError, run_in_guest};
use wire::Wire;

/// Whether the kernel has such a queue.
///
/// # Errors
/// It has not.
pub fn has(queue: &QueueSpec) -> Result<(), NoQdisc> {
    qdisc::qdiscs(Rate::from_bits_per_sec(100_000_000), queue, Duration::ZERO).map(drop)
}

/// Builds a link.
pub(crate) fn build(router: &RouterLink) -> Result<KernelLink, NetemError> {
    let Wire { from, others, to, keep } = Wire::new(router.rate, &router.queue, router.delay)?;
    Ok(KernelLink {
        link: router.link,
        delay: router.delay,
        from,
        others,
        to,
        keep: Box::new(keep),
    })
}

/// Whether this kernel has netem, and this process may use it: tried once, for real.
///
/// # Errors
/// What was refused.
pub fn available() -> Result<(), NetemError> {
    Wire::new(
        Rate::from_bits_per_sec(100_000_000),
        &QueueSpec::droptail_packets(10),
        Duration::from_millis(1),
    )
    .map(drop)
}
