//! Fathom's controllers and the one-way-delay frame for unmodified quinn.
//!
//! A [`Plugin`] is a controller chosen by name. [`Plugin::server`](fathom_plugin::Plugin::server) and
//! [`Plugin::client`](fathom_plugin::Plugin::client) put it under a rustls configuration;
//! [`ServerPlugin::accept`](fathom_plugin::ServerPlugin::accept) and [`ClientPlugin::connect`](fathom_plugin::ClientPlugin::connect) wire one
//! connection: its controller, its frame layer and the [`ConnectionMonitor`] that shows both. Everything else of quinn stays as it is.
//!
//! ```no_run
//! # async fn serve(tls: std::sync::Arc<rustls::ServerConfig>) -> Result<(), Box<dyn std::error::Error>> {
//! let plugin = fathom_quinn::Plugin::named("sync:signal=either")?.server(tls)?;
//! let endpoint = quinn::Endpoint::server(plugin.config(), "[::]:443".parse()?)?;
//! while let Some(incoming) = endpoint.accept().await {
//!     // An attempt that fails, such as a junk Initial packet, must not end the server.
//!     let Ok((connecting, _monitor)) = plugin.accept(incoming, quinn::TransportConfig::default()) else { continue };
//!     tokio::spawn(async move { connecting.await });
//! }
//! # Ok(())
//! # }
//! ```
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
#[path = "../../plugin/per_stack/crypto.rs"]
mod crypto;
#[path = "../../plugin/per_stack/shaping_socket.rs"]
mod shaping_socket;
mod stack;
#[path = "../../plugin/per_stack/wiring.rs"]
mod wiring;

use fathom_cc::Capabilities;
pub use fathom_plugin::{
    Clock, ConnectionMonitor, EnableTimestamp, Extension, InUse, Observer, Offer, PluginError, Report, SystemClock,
    TrailerRegistry, with_shaping_socket,
};

pub use shaping_socket::ShapingSocket;

/// What quinn delivers and honours: forward one-way delay through our frame and ECN counts. It does not read a controller's pacing
/// rate and has no datagram size of the controller's choice.
pub const PROVIDED: Capabilities = Capabilities { one_way: true, ecn: true, pacing: false, datagram: false };

/// A controller and the way its connections exchange one-way delays. Cheap to clone.
pub type Plugin = fathom_plugin::Plugin<Quinn>;
/// A [`Plugin`] for outgoing connections.
pub type ClientPlugin = fathom_plugin::ClientPlugin<Quinn>;
/// A [`Plugin`] for incoming connections.
pub type ServerPlugin = fathom_plugin::ServerPlugin<Quinn>;

/// quinn, as a stack that takes plug-ins.
#[derive(Clone, Copy, Debug)]
pub struct Quinn;
