//! Backends. A backend provides the clock of a run and carries its packets.
//!
//! | file | contents |
//! |---|---|
//! | `name.rs` | the backends by name |
//! | `router_link.rs` | a link that the kernel may replace |
//! | `attach.rs` | attaches a configured simulation to its backend |
//! | `real_time.rs` | the wall clock and the kernel's sockets |
//! | `run.rs` | the executor's loop in real time |
//! | `kernel_hop.rs` | two sockets, and the packets in transit between them |
//! | `transit.rs` | packets on their kernel hops |
//! | `netem/` | links emulated by the kernel |

mod attach;
mod kernel_hop;
mod name;
#[cfg(target_os = "linux")]
pub mod netem;
pub(crate) mod real_time;
mod router_link;
mod run;
#[cfg(test)]
mod tests;
mod transit;

pub use attach::{BackendError, attach};
pub use name::Backend;
pub use real_time::{KernelLink, Punctuality};
pub use router_link::RouterLink;
