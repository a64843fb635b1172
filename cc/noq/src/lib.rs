//! Fathom's controllers and the one-way-delay frame for unmodified noq.
//!
//! A [`Plugin`] is a controller chosen by name. [`Plugin::server`](fathom_plugin::Plugin::server) and
//! [`Plugin::client`](fathom_plugin::Plugin::client) put it under a rustls configuration;
//! [`ServerPlugin::config`](fathom_plugin::ServerPlugin::config) and [`ClientPlugin::shared_config`](fathom_plugin::ClientPlugin::shared_config)
//! take the place of noq's own configurations: each connection then has its controller and its frame layer, and [`monitor`] shows both. Everything
//! else of noq stays as it is.
//!
//! ```no_run
//! # async fn serve(tls: std::sync::Arc<rustls::ServerConfig>) -> Result<(), Box<dyn std::error::Error>> {
//! let config = fathom_noq::Plugin::named("sync:signal=either")?.server(tls)?.config();
//! let endpoint = noq::Endpoint::server(config, "[::]:443".parse()?)?;
//! while let Some(incoming) = endpoint.accept().await {
//!     tokio::spawn(async move {
//!         let connection = incoming.await?;
//!         println!("{:?}", fathom_noq::monitor(&connection).map(|monitor| monitor.report()));
//!         Ok::<_, noq::ConnectionError>(())
//!     });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`ServerPlugin::accept`](fathom_plugin::ServerPlugin::accept) and [`ClientPlugin::connect`](fathom_plugin::ClientPlugin::connect) give one connection
//! transport settings of its own, [`Plugin::controller_factory`](fathom_plugin::Plugin::controller_factory) makes controllers where TLS is not ours to replace.
//!
//! # Pacing
//!
//! noq lets packets out of a token bucket. Without a rate from the controller ([`fathom_cc::Pacing::Window`]) it refills at 1.25 windows
//! per smoothed RTT. With one ([`fathom_cc::Pacing::Rate`]) it refills at exactly that rate; the window still bounds the bytes in
//! flight. The bucket holds 2 ms at the rate, but at least 10 and at most 256 datagrams, and never more than 10 ms or one datagram,
//! whichever is more: so packets leave in bursts of that size, and only their average follows the rate. Credit beyond the bucket is
//! lost, so a sender that was idle starts with one burst. `TransportConfig::max_outgoing_bytes_per_second` bounds the rate from above.
//! [`fathom_cc::SendParams::burst`] goes to noq as `send_quantum`: the most that leaves in one call to the socket, rounded down to
//! datagrams, at least one. It bounds a batch, not the bucket.
//!
//! noq cannot keep a packet back for a given time, so [`fathom_cc::Pacing::Delay`] of `D` becomes the rate of a sender that does:
//! `window / (RTT + D)`, see [`fathom_plugin::ControllerDriver::pacing_rate`]. noq stamps a packet when it leaves the bucket, so its RTT does not
//! hold `D`. At this rate `window * RTT / (RTT + D)` bytes are in flight: the rate binds and the window does not.
//! noq reads the rate before every send, so a new one acts at once; the bucket shrinks with it.
//!
//! # What noq does with ECN
//!
//! As quinn: every packet is ECT(0); on each path marking stops for good when an ACK frame has no counts or validation (RFC 9000
//! §13.4.2.1) fails; counts are looked at when the largest acknowledged number rises; a grown CE count becomes one
//! `on_congestion_event` per ACK frame, after its acknowledgements and losses, with `is_ecn` set and zero bytes lost: here
//! [`fathom_cc::Cause::Mark`]. One difference: noq compares the counts with the number of newly acknowledged *ranges*, not packets,
//! so it tolerates marks that are wiped from some packets of a range. The controller gets the counts themselves from the ACK or
//! PATH_ACK frame, per path, with the batch and before the mark. Without the extension they are read when the controller needs or
//! wants ECN.
//!
//! # What else noq reports to a controller
//!
//! - `on_spurious_congestion_event`: everything noq took for lost was acknowledged. It becomes [`fathom_cc::Controller::on_spurious_congestion_event`],
//!   unless a mark came after the loss: that one was not spurious.
//! - `on_packet_lost` reports the same bytes as `on_congestion_event` again, a packet at a time; it is not used. Nor are
//!   `on_cwnd_limited` (the acknowledgements say `app_limited`) and `on_ack_frequency_update`: controllers have no event for them.
//!
//! # Multipath
//!
//! Each path has its own controller; noq does not name the path it builds one for; the first packet sent shows it. PATH_ACK frames
//! are read as ACK frames are. In `paper` mode delays need the peer to acknowledge packets on the path they came on; in `lean` mode
//! any path will do.
//!
//! Packets of a second path need a crypto provider that seals them, which rustls leaves to the provider (`ring` and `aws-lc-rs` do). Under
//! one that does not, multipath and n0's NAT traversal, which needs it, are off whatever the transport settings say, and a warning is logged.
//!
//! # Handshake data
//!
//! `Connection::handshake_data` is noq's own [`HandshakeData`](noq::crypto::rustls::HandshakeData), as without a plug-in. Its type cannot
//! be built outside noq, so an empty one is taken from a session of noq's own and filled in.

mod adapter;
mod crypto;
mod handshake_data;
mod shaping_socket;
mod stack;
mod wiring;

use fathom_cc::Capabilities;
pub use fathom_plugin::{
    Clock, ConnectionMonitor, EnableTimestamp, Extension, InUse, Observer, Offer, PluginError,
    ReceiveTimestamps, Report, SystemClock, TrailerRegistry, with_shaping_socket,
};

pub use shaping_socket::ShapingSocket;

/// A view of a live connection, wherever its configuration came from; `None`: its controller is not one of ours, or its first path is gone.
pub fn monitor(connection: &noq::Connection) -> Option<ConnectionMonitor> {
    adapter::monitor(connection.congestion_state(noq::PathId::ZERO)?)
}

/// What noq delivers and honours: forward one-way delay through our frame, ECN counts, and a pacing rate. It has no datagram size of
/// the controller's choice.
pub const PROVIDED: Capabilities =
    Capabilities { one_way: true, ecn: true, pacing: true, datagram: false };

/// A controller and the way its connections exchange one-way delays. Cheap to clone.
pub type Plugin = fathom_plugin::Plugin<Noq>;
/// A [`Plugin`] for outgoing connections.
pub type ClientPlugin = fathom_plugin::ClientPlugin<Noq>;
/// A [`Plugin`] for incoming connections.
pub type ServerPlugin = fathom_plugin::ServerPlugin<Noq>;

/// noq, as a stack that takes plug-ins.
#[derive(Clone, Copy, Debug)]
pub struct Noq;

/// The code of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
