//! Plug-in for unmodified noq. Applications use it through the crate `fathom-noq`.

mod adapter;
#[path = "per_stack/crypto.rs"]
mod crypto;
mod handshake_data;
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
/// its controller is not one of ours, or if its first path no longer exists.
pub fn monitor(connection: &noq::Connection) -> Option<ConnectionMonitor> {
    adapter::monitor(connection.congestion_state(noq::PathId::ZERO)?)
}

/// Capabilities of noq: forward one-way delay through the timestamp frames, ECN counts, and a
/// pacing rate. Controllers cannot set noq's datagram size.
pub const PROVIDED: Capabilities =
    Capabilities { one_way: true, ecn: true, pacing: true, ..Capabilities::NONE };

/// noq, as a stack that takes plug-ins.
#[derive(Clone, Copy, Debug)]
pub struct Noq;
