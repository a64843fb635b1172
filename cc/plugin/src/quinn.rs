//! Plug-in for unmodified quinn. Applications use it through the crate `fathom-quinn`.

mod adapter;
#[path = "per_stack/crypto.rs"]
mod crypto;
mod packet_key;
#[path = "per_stack/shaping_socket.rs"]
mod shaping_socket;
mod socket;
mod stack;
#[path = "per_stack/wiring.rs"]
mod wiring;

use fathom_cc::Capabilities;

use crate::monitor::ConnectionMonitor;
pub use shaping_socket::ShapingSocket;
pub use wiring::{ClientPlugin, Plugin, ServerPlugin};

/// Returns a view of a live connection, whatever the source of its configuration. Returns `None` if
/// its controller is not one of ours.
pub fn monitor(connection: &quinn::Connection) -> Option<ConnectionMonitor> {
    adapter::monitor(connection.congestion_state())
}

/// Capabilities of quinn: forward one-way delay through the timestamp frames, and ECN counts. quinn
/// does not read a controller's pacing rate, and controllers cannot set its datagram size.
pub const PROVIDED: Capabilities = Capabilities { one_way: true, ecn: true, ..Capabilities::NONE };

/// quinn, as a stack that takes plug-ins.
#[derive(Clone, Copy, Debug)]
pub struct Quinn;
