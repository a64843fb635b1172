//! Links emulated by the kernel: network namespaces, veth, and tc's queues.
//!
//! | file | contents |
//! |---|---|
//! | `namespace.rs` | unnamed network namespaces, removed by the kernel with their last user |
//! | `wire.rs` | one link: namespaces of a sender, of a router with the queue, and of a receiver |
//! | `qdisc.rs` | the queues of the laboratory as qdiscs of tc |
//! | `error.rs` | reasons why the links are not available |
//! | `user_mode_linux.rs` | User-Mode Linux, a kernel for machines whose own kernel lacks netem |
//!
//! The kernel removes everything when the process ends, whatever the reason, because these
//! resources have no name outside the process.

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

/// Checks that the kernel has an equivalent of this queue.
///
/// # Errors
/// Returns an error if the kernel has no equivalent.
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

/// Checks that this kernel has netem and that this process may use it. To do so, builds one link.
///
/// # Errors
/// Returns the error of the step that failed.
pub fn available() -> Result<(), NetemError> {
    Wire::new(
        Rate::from_bits_per_sec(100_000_000),
        &QueueSpec::droptail_packets(10),
        Duration::from_millis(1),
    )
    .map(drop)
}
