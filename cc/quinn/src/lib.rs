//! Plugs Fathom's controllers and the one-way-delay frame into unmodified quinn.
//!
//! A [`Plug`] is a controller chosen by name. [`Plug::server`] and [`Plug::client`] put it under a rustls configuration;
//! [`ServerPlug::accept`] and [`ClientPlug::connect`] wire one connection: its controller, its frame layer and the [`Probe`] that
//! shows both. Everything else of quinn stays as it is.
//!
//! ```no_run
//! # async fn serve(tls: std::sync::Arc<rustls::ServerConfig>) -> Result<(), Box<dyn std::error::Error>> {
//! let plug = fathom_quinn::Plug::named("sync:signal=either")?.server(tls)?;
//! let endpoint = quinn::Endpoint::server(plug.config(), "[::]:443".parse()?)?;
//! while let Some(incoming) = endpoint.accept().await {
//!     let (connecting, _probe) = plug.accept(incoming, quinn::TransportConfig::default())?;
//!     tokio::spawn(async move { connecting.await });
//! }
//! # Ok(())
//! # }
//! ```

mod adapter;
mod cell;
mod clock;
mod key;
mod session;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use fathom_cc::catalogue::SpecError;
use fathom_cc::{Missing, Recipe, Signals};
pub use fathom_frames::Offer;
use quinn::{ConnectError, Connecting, ConnectionError, Endpoint, Incoming, TransportConfig};

use adapter::Factory;
use cell::Cell;
pub use cell::{Observer, Probe, Report};
pub use clock::{Clock, SystemClock};
use session::{ClientCrypto, ServerCrypto, initial_suite};

/// What quinn delivers and honours: forward one-way delay through our frame and ECN counts. It does not read a controller's pacing
/// rate and has no datagram size of the controller's choice.
pub const OFFERS: Signals = Signals { one_way: true, ecn: true, pacing: false, datagram: false };

/// A controller and the way its connections exchange one-way delays. Cheap to clone.
#[derive(Clone)]
pub struct Plug {
    recipe: Arc<dyn Recipe>,
    clock: Arc<dyn Clock>,
    extension: Extension,
}

/// How connections exchange one-way delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// What the transport parameter says; `None`: the extension is not offered at all.
    pub offer: Option<Offer>,
    /// The application sends DATAGRAM frames (RFC 9221): the room for the frame is then reserved in every packet, so that the largest
    /// datagram that fits does not change from packet to packet.
    pub datagrams: bool,
}

impl Default for Extension {
    fn default() -> Self {
        Self { offer: Some(Offer::Lean), datagrams: false }
    }
}

/// Why a plug cannot be made.
#[derive(Debug)]
pub enum PlugError {
    /// The controller's name or options.
    Spec(SpecError),
    /// The controller needs what quinn does not offer.
    Missing(Missing),
    /// The controller needs one-way delays and the extension is off.
    ExtensionOff(&'static str),
    /// The TLS configuration has no TLS 1.3 suite that protects Initial packets.
    NoInitialSuite,
    /// QUIC allows only 0 or `u32::MAX` here (RFC 9001 §4.6.1).
    EarlyDataSize(u32),
}

impl fmt::Display for PlugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(e) => e.fmt(f),
            Self::Missing(e) => e.fmt(f),
            Self::ExtensionOff(name) => {
                write!(f, "controller '{name}' needs one-way delay, but the extension is off; give it a mode")
            }
            Self::NoInitialSuite => {
                f.write_str("the TLS configuration lacks TLS13_AES_128_GCM_SHA256, which QUIC needs; add it")
            }
            Self::EarlyDataSize(n) => write!(f, "max_early_data_size is {n}; QUIC allows only 0 or u32::MAX"),
        }
    }
}

impl std::error::Error for PlugError {}

impl From<SpecError> for PlugError {
    fn from(e: SpecError) -> Self {
        Self::Spec(e)
    }
}

impl Plug {
    /// The controller of this name and options, such as `sync:signal=either`.
    ///
    /// # Errors
    /// The name or an option is wrong, or quinn lacks what the controller needs.
    pub fn named(spec: &str) -> Result<Self, PlugError> {
        Self::new(fathom_cc::catalogue::recipe(spec)?)
    }

    /// The controller of this recipe.
    ///
    /// # Errors
    /// quinn lacks what the controller needs.
    pub fn new(recipe: Arc<dyn Recipe>) -> Result<Self, PlugError> {
        recipe.check(OFFERS).map_err(PlugError::Missing)?;
        Ok(Self { recipe, clock: Arc::new(SystemClock), extension: Extension::default() })
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// With another way of exchanging one-way delays.
    ///
    /// # Errors
    /// The extension is turned off under a controller that needs it.
    pub fn with_extension(self, extension: Extension) -> Result<Self, PlugError> {
        if extension.offer.is_none() && self.recipe.needs().one_way {
            return Err(PlugError::ExtensionOff(self.recipe.name()));
        }
        Ok(Self { extension, ..self })
    }

    /// The controller's recipe.
    pub fn recipe(&self) -> &Arc<dyn Recipe> {
        &self.recipe
    }

    /// Under this TLS configuration, for outgoing connections.
    ///
    /// # Errors
    /// The configuration cannot carry QUIC.
    pub fn client(&self, tls: Arc<rustls::ClientConfig>) -> Result<ClientPlug, PlugError> {
        let initial = initial_suite(tls.crypto_provider()).ok_or(PlugError::NoInitialSuite)?;
        Ok(ClientPlug { plug: self.clone(), tls, initial })
    }

    /// Under this TLS configuration, for incoming connections.
    ///
    /// # Errors
    /// The configuration cannot carry QUIC.
    pub fn server(&self, tls: Arc<rustls::ServerConfig>) -> Result<ServerPlug, PlugError> {
        let initial = initial_suite(tls.crypto_provider()).ok_or(PlugError::NoInitialSuite)?;
        if tls.max_early_data_size != 0 && tls.max_early_data_size != u32::MAX {
            return Err(PlugError::EarlyDataSize(tls.max_early_data_size));
        }
        let crypto = ServerCrypto { tls: Arc::clone(&tls), initial, cell: None };
        let base = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        Ok(ServerPlug { plug: self.clone(), tls, initial, base })
    }

    fn wire(
        &self,
        mut transport: TransportConfig,
        observer: Option<Arc<dyn Observer>>,
    ) -> (TransportConfig, Arc<Cell>) {
        let cell = Arc::new(Cell::new(self, observer));
        let factory = Factory { recipe: Arc::clone(&self.recipe), cell: Arc::clone(&cell) };
        transport.congestion_controller_factory(Arc::new(factory));
        (transport, cell)
    }
}

impl fmt::Debug for Plug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plug({})", self.recipe.spec())
    }
}

/// A [`Plug`] for outgoing connections.
#[derive(Clone)]
pub struct ClientPlug {
    plug: Plug,
    tls: Arc<rustls::ClientConfig>,
    initial: rustls::quic::Suite,
}

impl ClientPlug {
    /// Opens a connection with its own controller and frame layer.
    ///
    /// # Errors
    /// As [`Endpoint::connect_with`].
    pub fn connect(
        &self,
        endpoint: &Endpoint,
        transport: TransportConfig,
        to: SocketAddr,
        server_name: &str,
    ) -> Result<(Connecting, Probe), ConnectError> {
        let (config, probe) = self.config(transport, None);
        Ok((endpoint.connect_with(config, to, server_name)?, probe))
    }

    /// The configuration of one connection, for [`Endpoint::connect_with`]; never use it for a second one. The observer, if any,
    /// hears of every acknowledgement and setback.
    pub fn config(
        &self,
        transport: TransportConfig,
        observer: Option<Arc<dyn Observer>>,
    ) -> (quinn::ClientConfig, Probe) {
        let (transport, cell) = self.plug.wire(transport, observer);
        let crypto = ClientCrypto { tls: Arc::clone(&self.tls), initial: self.initial, cell: Arc::clone(&cell) };
        let mut config = quinn::ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        (config, Probe::new(cell))
    }
}

/// A [`Plug`] for incoming connections.
#[derive(Clone)]
pub struct ServerPlug {
    plug: Plug,
    tls: Arc<rustls::ServerConfig>,
    initial: rustls::quic::Suite,
    base: quinn::ServerConfig,
}

impl ServerPlug {
    /// The endpoint's configuration. Connections get their controller from [`ServerPlug::accept`].
    pub fn config(&self) -> quinn::ServerConfig {
        self.base.clone()
    }

    /// Replaces the endpoint's configuration that accepted connections start from, for settings such as
    /// [`quinn::ServerConfig::max_incoming`]; its `crypto` and `transport` are not used for them.
    #[must_use]
    pub fn with_config(self, change: impl FnOnce(&mut quinn::ServerConfig)) -> Self {
        let mut base = self.base;
        change(&mut base);
        Self { base, ..self }
    }

    /// Accepts a connection with its own controller and frame layer.
    ///
    /// # Errors
    /// As [`Incoming::accept_with`].
    pub fn accept(
        &self,
        incoming: Incoming,
        transport: TransportConfig,
    ) -> Result<(Connecting, Probe), ConnectionError> {
        self.accept_observed(incoming, transport, None)
    }

    /// As [`ServerPlug::accept`]; the observer, if any, hears of every acknowledgement and setback.
    ///
    /// # Errors
    /// As [`Incoming::accept_with`].
    pub fn accept_observed(
        &self,
        incoming: Incoming,
        transport: TransportConfig,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<(Connecting, Probe), ConnectionError> {
        let (transport, cell) = self.plug.wire(transport, observer);
        let crypto = ServerCrypto { tls: Arc::clone(&self.tls), initial: self.initial, cell: Some(Arc::clone(&cell)) };
        let mut config = self.base.clone();
        config.crypto = Arc::new(crypto);
        config.transport = Arc::new(transport);
        Ok((incoming.accept_with(Arc::new(config))?, Probe::new(cell)))
    }
}
