//! Fathom's controllers and the one-way-delay frame for unmodified quinn.
//!
//! A [`Plugin`] is a controller chosen by name. [`Plugin::server`](fathom_plugin::Plugin::server) and
//! [`Plugin::client`](fathom_plugin::Plugin::client) put it under a rustls configuration;
//! [`ServerPlugin::config`](fathom_plugin::ServerPlugin::config) and [`ClientPlugin::shared_config`](fathom_plugin::ClientPlugin::shared_config)
//! take the place of quinn's own configurations: each connection then has its controller and its frame layer, and [`monitor`] shows both. Everything
//! else of quinn stays as it is.
//!
//! ```no_run
//! # async fn serve(tls: std::sync::Arc<rustls::ServerConfig>) -> Result<(), Box<dyn std::error::Error>> {
//! let config = fathom_quinn::Plugin::named("sync:signal=either")?.server(tls)?.config();
//! let endpoint = quinn::Endpoint::server(config, "[::]:443".parse()?)?;
//! while let Some(incoming) = endpoint.accept().await {
//!     tokio::spawn(async move {
//!         let connection = incoming.await?;
//!         println!("{:?}", fathom_quinn::monitor(&connection).map(|monitor| monitor.report()));
//!         Ok::<_, quinn::ConnectionError>(())
//!     });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`ServerPlugin::accept`](fathom_plugin::ServerPlugin::accept) and [`ClientPlugin::connect`](fathom_plugin::ClientPlugin::connect) give one connection
//! transport settings of its own, [`Plugin::controller_factory`](fathom_plugin::Plugin::controller_factory) makes controllers where TLS is not ours to replace.
//!
//! # What quinn does with ECN
//!
//! quinn marks every packet ECT(0) and stops for good (on that path) when an ACK frame has no counts, or when its validation (RFC
//! 9000 §13.4.2.1) fails: fewer counts than packets newly acknowledged, ECT(1) counted, or a count that fell. It looks at the counts
//! of ACK frames that raise the largest acknowledged number only. When the CE count grew it calls `on_congestion_event` with zero
//! lost bytes, once per ACK frame, after that frame's acknowledgements and losses: here it becomes [`fathom_cc::Cause::Mark`]. quinn
//! does not report how many packets were marked; the frame layer reads the counts from the ACK frame itself, and the controller gets
//! them with the batch, before the mark. Without the extension they are read when the controller needs or wants ECN.

mod adapter;
mod crypto;
mod shaping_socket;
mod stack;
mod wiring;

use fathom_cc::Capabilities;
pub use fathom_plugin::{
    Clock, ConnectionMonitor, EnableTimestamp, Extension, InUse, Observer, Offer, PluginError,
    ReceiveTimestamps, Report, SystemClock, TrailerRegistry, with_shaping_socket,
};

pub use shaping_socket::ShapingSocket;

/// A view of a live connection, wherever its configuration came from; `None`: its controller is not one of ours.
pub fn monitor(connection: &quinn::Connection) -> Option<ConnectionMonitor> {
    adapter::monitor(connection.congestion_state())
}

/// What quinn delivers and honours: forward one-way delay through our frame and ECN counts. It does not read a controller's pacing
/// rate and has no datagram size of the controller's choice.
pub const PROVIDED: Capabilities =
    Capabilities { one_way: true, ecn: true, pacing: false, datagram: false };

/// A controller and the way its connections exchange one-way delays. Cheap to clone.
pub type Plugin = fathom_plugin::Plugin<Quinn>;
/// A [`Plugin`] for outgoing connections.
pub type ClientPlugin = fathom_plugin::ClientPlugin<Quinn>;
/// A [`Plugin`] for incoming connections.
pub type ServerPlugin = fathom_plugin::ServerPlugin<Quinn>;

/// quinn, as a stack that takes plug-ins.
#[derive(Clone, Copy, Debug)]
pub struct Quinn;

/// The code of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
