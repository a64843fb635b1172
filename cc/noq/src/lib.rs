//! Fathom's controllers and timestamp frames for unmodified noq.
//!
//! A [`Plugin`] is a controller chosen by name. [`Plugin::server`](fathom_plugin::Plugin::server)
//! and [`Plugin::client`](fathom_plugin::Plugin::client) combine it with a rustls configuration.
//! [`ServerPlugin::config`](fathom_plugin::ServerPlugin::config) and
//! [`ClientPlugin::shared_config`](fathom_plugin::ClientPlugin::shared_config) replace noq's own
//! configurations. Each connection then has its own controller and frame layer, and [`monitor`]
//! shows both. Everything else in noq stays as it is.
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
//! [`ServerPlugin::accept`](fathom_plugin::ServerPlugin::accept) and
//! [`ClientPlugin::connect`](fathom_plugin::ClientPlugin::connect) give one connection its own
//! transport settings. [`Plugin::controller_factory`](fathom_plugin::Plugin::controller_factory)
//! makes controllers for programs whose TLS cannot be replaced.
//!
//! # Pacing
//!
//! noq paces with a token bucket. Without a rate from the controller
//! ([`fathom_cc::Pacing::Window`]), the bucket refills at 1.25 windows per smoothed RTT. With a
//! rate ([`fathom_cc::Pacing::Rate`]), it refills at exactly that rate. In both cases the window
//! bounds the bytes in flight.
//!
//! The bucket holds 2 ms at the rate, or at least 10 and at most 256 datagrams if 2 ms is outside
//! this range. It never holds more than 10 ms at the rate, or one datagram if 10 ms are less.
//! Packets therefore leave in bursts as large as the bucket, and only their average follows the
//! rate. Credit beyond the bucket is lost, so a sender that was idle starts with one burst.
//! `TransportConfig::max_outgoing_bytes_per_second` is an upper bound of the
//! rate. [`fathom_cc::SendParams::burst`] becomes noq's `send_quantum`: the most that leaves in one
//! call to the socket, rounded down to whole datagrams, but at least one. It bounds a batch, not
//! the bucket.
//!
//! noq cannot delay a packet for a given time. A [`fathom_cc::Pacing::Delay`] of `D` therefore
//! becomes the rate of a sender that can delay packets: `window / (RTT + D)`. See
//! [`fathom_plugin::ControllerDriver::pacing_rate`]. noq takes a packet's send time when the packet
//! leaves the bucket, so noq's RTT does not include `D`. At this rate, `window * RTT / (RTT + D)`
//! bytes are in flight, so sending is limited by the rate and not by the window. noq reads the rate
//! before every send, so a new rate takes effect at once. The bucket shrinks with the rate.
//!
//! # ECN in noq
//!
//! As in quinn, every packet is ECT(0). On each path, marking stops permanently if an ACK frame has
//! no ECN counts or if validation (RFC 9000 §13.4.2.1) fails. noq uses the counts only if the
//! largest acknowledged packet number rises. If the CE count has grown, noq calls
//! `on_congestion_event` with `is_ecn` set and zero lost bytes, once per ACK frame, after the
//! frame's acknowledgements and losses. This plug-in turns the call into
//! [`fathom_cc::Cause::Mark`].
//!
//! Unlike quinn, noq compares the counts with the number of newly acknowledged *ranges*, not
//! packets. noq thus tolerates a path that clears the marks of some packets of a range. The
//! controller receives the counts of each path from the ACK or PATH_ACK frame, with the batch and
//! before the mark, with or without the extension.
//!
//! # Other calls from noq to a controller
//!
//! - `on_spurious_congestion_event`: all packets that noq declared lost were acknowledged. The call
//!   becomes [`fathom_cc::Controller::on_spurious_congestion_event`], unless a mark followed the
//!   loss, because the mark was not spurious.
//! - Three calls are not used. `on_packet_lost` reports the bytes of `on_congestion_event` again,
//!   one packet at a time. `on_cwnd_limited` is not needed because the acknowledgements contain
//!   `app_limited`. Controllers have no event for `on_ack_frequency_update`.
//!
//! # Multipath
//!
//! Each path has its own controller. noq does not tell the factory the path; the first packet sent
//! determines it. PATH_ACK frames are read like ACK frames. In `paper` mode, delays are available
//! only if the peer acknowledges packets on the path on which they arrived. In `lean` mode, the
//! peer may use any path.
//!
//! Packets of a second path need a crypto provider that can seal them. rustls leaves this to the
//! provider, and `ring` and `aws-lc-rs` support it. With any other provider, multipath is off
//! whatever the transport settings say. n0's NAT traversal is then also off, because it needs
//! multipath. A warning is logged.
//!
//! # Handshake data
//!
//! `Connection::handshake_data` returns noq's own
//! `HandshakeData` (`noq::crypto::rustls`), as it does without a plug-in. Code
//! outside noq cannot create this type, so the plug-in takes an empty value from one of noq's own
//! sessions and fills it in.

#[doc(inline)]
pub use fathom_plugin::noq::*;
#[doc(inline)]
pub use fathom_plugin::{
    Clock, ConnectionMonitor, EnableTimestamp, Extension, InUse, Observer, Offer, PluginError,
    ReceiveTimestamps, Report, SystemClock, TrailerRegistry, with_shaping_socket,
};

/// Tests the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
