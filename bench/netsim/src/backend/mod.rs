//! What carries the packets of a simulation, and which clock it runs by.
//!
//! | file | what is in it |
//! |---|---|
//! | `name.rs` | the backends by name |
//! | `router_link.rs` | a link that a kernel may take over |
//! | `attach.rs` | connects a simulation that is set up to its backend |
//! | `real_time.rs` | the wall clock and the kernel's sockets |
//! | `kernel_hop.rs` | two sockets, and the packets in transit between them |
//! | `transit.rs` | packets on their kernel hops |
//! | `netem/` | links that are the kernel's |

mod attach;
mod kernel_hop;
mod name;
#[cfg(target_os = "linux")]
pub mod netem;
pub(crate) mod real_time;
mod router_link;
#[cfg(test)]
mod tests;
mod transit;

pub use attach::{BackendError, attach};
pub use name::Backend;
pub use real_time::{KernelLink, Punctuality};
pub use router_link::RouterLink;
