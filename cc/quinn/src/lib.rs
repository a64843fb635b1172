//! Fathom's controllers and timestamp frames for unmodified quinn.
//!
//! A [`Plugin`] is a controller chosen by name. [`Plugin::server`](fathom_plugin::Plugin::server)
//! and [`Plugin::client`](fathom_plugin::Plugin::client) combine it with a rustls configuration.
//! [`ServerPlugin::config`](fathom_plugin::ServerPlugin::config) and
//! [`ClientPlugin::shared_config`](fathom_plugin::ClientPlugin::shared_config) replace quinn's own
//! configurations. Each connection then has its own controller and frame layer, and [`monitor`]
//! shows both. Everything else in quinn stays as it is.
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
//! [`ServerPlugin::accept`](fathom_plugin::ServerPlugin::accept) and
//! [`ClientPlugin::connect`](fathom_plugin::ClientPlugin::connect) give one connection its own
//! transport settings. [`Plugin::controller_factory`](fathom_plugin::Plugin::controller_factory)
//! makes controllers for programs whose TLS cannot be replaced.
//!
//! # ECN in quinn
//!
//! quinn marks every packet ECT(0). On a path, quinn stops marking permanently if an ACK frame has
//! no ECN counts or if validation (RFC 9000 §13.4.2.1) fails. Validation fails if the counts grow
//! by less than the number of newly acknowledged packets, if ECT(1) is counted, or if a count
//! decreases. quinn uses only the counts of ACK frames that raise the largest acknowledged number.
//! If the CE count has grown, quinn calls `on_congestion_event` with zero lost bytes, once per ACK
//! frame, after that frame's acknowledgements and losses. This plug-in turns the call into
//! [`fathom_cc::Cause::Mark`].
//!
//! quinn does not report how many packets were marked. The frame layer therefore reads the counts
//! from the ACK frame itself, with or without the extension. The controller receives them with the
//! batch, before the mark.

#[doc(inline)]
pub use fathom_plugin::quinn::*;
#[doc(inline)]
pub use fathom_plugin::{
    Clock, ConnectionMonitor, EnableTimestamp, Extension, InUse, Observer, Offer, PluginError,
    ReceiveTimestamps, Report, SystemClock, TrailerRegistry, with_shaping_socket,
};

/// Tests the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
