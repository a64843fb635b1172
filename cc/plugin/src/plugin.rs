//! A controller chosen by name, under a TLS configuration, on a stack.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use fathom_cc::{Capabilities, ControllerConfig};
use rustls::pki_types::ServerName;
use rustls::quic::{Connection, Suite, Version};

use crate::clock::{Clock, SystemClock};
use crate::config::PluginError;
use crate::connection_state::ConnectionState;
use crate::core::{Core, with_shaping_socket};
use crate::endpoint::{ControllerSource, SharedEndpoint};
use crate::extension::Extension;
use crate::monitor::ConnectionMonitor;
use crate::packet_key::{HeaderProtection, PacketProtection};
use crate::report::Observer;
use crate::session::{self, KeySet, Tls, UnknownVersion, initial_keys, initial_suite};
use crate::shaping_socket::TrailerRegistry;

/// A QUIC stack: its types, and how a connection is wired on it. Implemented by the plug-in's own crate.
pub trait Stack: Clone + Send + Sync + 'static {
    /// What the stack delivers to controllers, and which of their parameters it honours.
    const PROVIDED: Capabilities;
    /// It can send on several paths at once, whose packets the crypto provider must be able to seal.
    const MULTIPATH: bool = false;
    /// Transport settings.
    type Transport;
    /// What makes controllers for transport settings.
    type ControllerFactory: ?Sized;
    /// Configuration of an outgoing connection.
    type ClientConfig;
    /// Configuration of an endpoint that accepts, or of one accepted connection.
    type ServerConfig: Clone;
    /// Socket and driver.
    type Endpoint;
    /// A connection attempt of a client.
    type Incoming;
    /// A connection in its handshake.
    type Connecting;
    /// Why a connection cannot begin.
    type ConnectError;
    /// Why a connection ended.
    type ConnectionError;

    /// Turns several paths off, for a stack that has them: the crypto provider cannot seal packets of a second one, and junk would leave.
    fn disable_multipath(_: &mut Self::Transport) {}
    /// Makes the controllers of `source`.
    fn controller_factory(source: ControllerSource) -> Arc<Self::ControllerFactory>;
    /// The configuration of outgoing connections: `setup` is their crypto, their controllers come from [`ClientCryptoConfig::source`].
    fn client_config(setup: ClientCryptoConfig, transport: Self::Transport) -> Self::ClientConfig;
    /// An endpoint's configuration with this crypto and the controllers of [`ServerCryptoConfig::source`], and without multipath.
    fn server_config(setup: ServerCryptoConfig) -> Self::ServerConfig;
    /// Makes `config` that of one accepted connection.
    fn configure_accepted(
        config: &mut Self::ServerConfig,
        setup: ServerCryptoConfig,
        transport: Self::Transport,
    );
    /// Opens a connection.
    ///
    /// # Errors
    /// The stack's own.
    fn connect(
        endpoint: &Self::Endpoint,
        config: Self::ClientConfig,
        to: SocketAddr,
        server_name: &str,
    ) -> Result<Self::Connecting, Self::ConnectError>;
    /// Accepts a connection.
    ///
    /// # Errors
    /// The stack's own.
    fn accept(
        incoming: Self::Incoming,
        config: Arc<Self::ServerConfig>,
    ) -> Result<Self::Connecting, Self::ConnectionError>;
}

/// A controller and the way its connections exchange one-way delays, on the stack `S`. Cheap to clone.
#[derive(Clone)]
pub struct Plugin<S> {
    core: Core,
    stack: PhantomData<S>,
}

impl<S: Stack> Plugin<S> {
    /// The controller of this name and options, such as `sync:signal=either`.
    ///
    /// # Errors
    /// The name or an option is wrong, or the stack lacks what the controller needs.
    pub fn named(spec: &str) -> Result<Self, PluginError> {
        Self::new(fathom_cc::catalogue::parse(spec)?)
    }

    /// The controller of this configuration.
    ///
    /// # Errors
    /// The stack lacks what the controller needs.
    pub fn new(config: Arc<dyn ControllerConfig>) -> Result<Self, PluginError> {
        Self::build(config, None)
    }

    /// The controller of this configuration, on endpoints that send through the shaping socket of this registry: there every stack honours
    /// [`fathom_cc::Pacing::Delay`] and [`fathom_cc::SendParams::datagram`]. Turn MTU discovery off in the transport settings: its probes pass
    /// what is held.
    ///
    /// # Errors
    /// The stack lacks what the controller needs, even so.
    pub fn new_with_shaping(
        registry: &Arc<TrailerRegistry>,
        config: Arc<dyn ControllerConfig>,
    ) -> Result<Self, PluginError> {
        Self::build(config, Some(Arc::clone(registry)))
    }

    /// As [`Plugin::new_with_shaping`], by name and options.
    ///
    /// # Errors
    /// The name or an option is wrong, or the stack lacks what the controller needs.
    pub fn named_with_shaping(
        registry: &Arc<TrailerRegistry>,
        spec: &str,
    ) -> Result<Self, PluginError> {
        Self::new_with_shaping(registry, fathom_cc::catalogue::parse(spec)?)
    }

    fn build(
        config: Arc<dyn ControllerConfig>,
        registry: Option<Arc<TrailerRegistry>>,
    ) -> Result<Self, PluginError> {
        let clock = Arc::new(SystemClock);
        let core = Core {
            controller_config: config,
            clock,
            extension: Extension::default(),
            parameter: None,
            stamp: None,
            registry,
            monitors_acks: false,
        };
        core.controller_config.check(core.provided(S::PROVIDED)).map_err(|missing| {
            PluginError::Missing {
                shaping_socket_suffices: core
                    .controller_config
                    .check(with_shaping_socket(S::PROVIDED))
                    .is_ok(),
                missing,
            }
        })?;
        Ok(Self { core, stack: PhantomData })
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.core.clock = clock;
        self
    }

    /// With another way of exchanging one-way delays.
    ///
    /// # Errors
    /// The extension is turned off under a controller that needs it, or the application sends DATAGRAM frames under one that steers
    /// the packet size.
    pub fn with_extension(mut self, extension: Extension) -> Result<Self, PluginError> {
        if extension.is_off() && self.core.controller_config.required().one_way {
            return Err(PluginError::ExtensionOff(self.core.controller_config.name()));
        }
        if extension.datagrams && self.core.controller_config.required().datagram {
            return Err(PluginError::DatagramsInUse(self.core.controller_config.name()));
        }
        self.core.extension = extension;
        Ok(self)
    }

    /// Sends these bytes in place of our transport parameters (id, length, value): tests send what no honest endpoint does.
    #[doc(hidden)]
    #[must_use]
    pub fn with_raw_parameter(mut self, bytes: &[u8]) -> Self {
        self.core.parameter = Some(bytes.into());
        self
    }

    /// Sends these bytes in place of our frame, for the same purpose.
    #[doc(hidden)]
    #[must_use]
    pub fn with_raw_stamp(mut self, bytes: &[u8]) -> Self {
        self.core.stamp = Some(bytes.into());
        self
    }

    /// The controller's configuration.
    pub fn controller_config(&self) -> &Arc<dyn ControllerConfig> {
        &self.core.controller_config
    }

    /// Reads every ACK frame, so that [`Report`](crate::Report) has ECN counts and how the peer acknowledges, even where no controller needs
    /// them.
    #[must_use]
    pub fn with_ack_monitoring(mut self) -> Self {
        self.core.monitors_acks = true;
        self
    }

    /// Makes controllers for transport settings where TLS is not ours to replace, as under frameworks that bring their own. Such
    /// controllers know round-trip times, losses and marks as the stack reports them: without an extension there are no one-way delays, and ACK delays stay in
    /// the round trip. A `TransportConfig` with it serves any number of connections, and any number of paths.
    ///
    /// # Errors
    /// The controller needs one-way delays or ECN counts.
    pub fn controller_factory(&self) -> Result<Arc<S::ControllerFactory>, PluginError> {
        Ok(S::controller_factory(ControllerSource::without_sessions(&self.core, S::PROVIDED)?))
    }

    /// Under this TLS configuration, for outgoing connections.
    ///
    /// # Errors
    /// The configuration cannot carry QUIC.
    pub fn client(&self, tls: Arc<rustls::ClientConfig>) -> Result<ClientPlugin<S>, PluginError> {
        let initial = initial_suite(tls.crypto_provider()).ok_or(PluginError::NoInitialSuite)?;
        self.client_with_initial(tls, initial)
    }

    /// As [`Plugin::client`], for a configuration that does not offer the suite that protects Initial packets, which is always
    /// TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2).
    ///
    /// # Errors
    /// `initial` is another suite, or the configuration cannot carry QUIC.
    pub fn client_with_initial(
        &self,
        tls: Arc<rustls::ClientConfig>,
        initial: Suite,
    ) -> Result<ClientPlugin<S>, PluginError> {
        check_initial(initial)?;
        // rustls checks a configuration with each connection; this one goes nowhere.
        let nowhere = ServerName::from(Ipv4Addr::UNSPECIFIED);
        rustls::quic::ClientConnection::new(Arc::clone(&tls), Version::V1, nowhere, Vec::new())
            .map_err(PluginError::Tls)?;
        let seals_paths = seals_paths::<S>(tls.crypto_provider());
        Ok(ClientPlugin { plugin: self.clone(), tls, initial, seals_paths })
    }

    /// Under this TLS configuration, for incoming connections.
    ///
    /// # Errors
    /// The configuration cannot carry QUIC.
    pub fn server(&self, tls: Arc<rustls::ServerConfig>) -> Result<ServerPlugin<S>, PluginError> {
        let initial = initial_suite(tls.crypto_provider()).ok_or(PluginError::NoInitialSuite)?;
        self.server_with_initial(tls, initial)
    }

    /// As [`Plugin::server`], for a configuration that does not offer the suite that protects Initial packets, which is always
    /// TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2).
    ///
    /// # Errors
    /// `initial` is another suite, or the configuration cannot carry QUIC.
    pub fn server_with_initial(
        &self,
        tls: Arc<rustls::ServerConfig>,
        initial: Suite,
    ) -> Result<ServerPlugin<S>, PluginError> {
        if tls.max_early_data_size != 0 && tls.max_early_data_size != u32::MAX {
            return Err(PluginError::EarlyDataSize(tls.max_early_data_size));
        }
        check_initial(initial)?;
        // Accepting a connection cannot fail for what the configuration lacks: rustls checks it now.
        rustls::quic::ServerConnection::new(Arc::clone(&tls), Version::V1, Vec::new())
            .map_err(PluginError::Tls)?;
        let seals_paths = seals_paths::<S>(tls.crypto_provider());
        let source = self.shared_source();
        let base = S::server_config(ServerCryptoConfig {
            tls: Arc::clone(&tls),
            initial,
            source: source.clone(),
        });
        Ok(ServerPlugin { plugin: self.clone(), tls, initial, seals_paths, source, base })
    }

    fn shared_source(&self) -> ControllerSource {
        ControllerSource::Endpoint(Arc::new(SharedEndpoint::new(self.core.clone(), S::PROVIDED)))
    }

    fn new_state(&self, observer: Option<Arc<dyn Observer>>) -> Arc<ConnectionState> {
        Arc::new(self.core.connection(S::PROVIDED, observer))
    }
}

/// Initial packets have one suite (RFC 9001 §5.2).
fn check_initial(initial: Suite) -> Result<(), PluginError> {
    match initial.suite.common.suite {
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => Ok(()),
        other => Err(PluginError::InitialSuite(other)),
    }
}

/// Whether packets of several paths can be sealed, on a stack that sends such; true on others.
fn seals_paths<S: Stack>(provider: &rustls::crypto::CryptoProvider) -> bool {
    if !S::MULTIPATH {
        return true;
    }
    let seals = session::seals_paths(provider);
    if !seals {
        tracing::warn!(
            "the crypto provider cannot seal packets of a second path: multipath is off"
        );
    }
    seals
}

impl<S> fmt::Debug for Plugin<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({})", self.core.controller_config.spec())
    }
}

/// A [`Plugin`] for outgoing connections.
#[derive(Clone)]
pub struct ClientPlugin<S> {
    plugin: Plugin<S>,
    tls: Arc<rustls::ClientConfig>,
    initial: Suite,
    seals_paths: bool,
}

impl<S: Stack> ClientPlugin<S> {
    /// Opens a connection with its own controller and frame layer.
    ///
    /// # Errors
    /// As the stack's `Endpoint::connect_with`.
    pub fn connect(
        &self,
        endpoint: &S::Endpoint,
        transport: S::Transport,
        to: SocketAddr,
        server_name: &str,
    ) -> Result<(S::Connecting, ConnectionMonitor), S::ConnectError> {
        let (config, monitor) = self.config(transport, None);
        Ok((S::connect(endpoint, config, to, server_name)?, monitor))
    }

    /// The configuration of one connection, for the stack's `Endpoint::connect_with`; never use it for a second one. The observer,
    /// if any, is called after every acknowledgement and congestion event.
    pub fn config(
        &self,
        mut transport: S::Transport,
        observer: Option<Arc<dyn Observer>>,
    ) -> (S::ClientConfig, ConnectionMonitor) {
        let state = self.plugin.new_state(observer);
        if !self.seals_paths {
            S::disable_multipath(&mut transport);
        }
        (
            S::client_config(
                self.crypto(ControllerSource::Connection(Arc::clone(&state))),
                transport,
            ),
            ConnectionMonitor::new(state),
        )
    }

    /// One configuration for any number of connections, for whoever opens them by itself: a framework, or `Endpoint::set_default_client_config`.
    /// Each has its own controller and frame layer; the plug-in crate's `monitor` shows them. Multipath is off.
    pub fn shared_config(&self, mut transport: S::Transport) -> S::ClientConfig {
        S::disable_multipath(&mut transport);
        S::client_config(self.crypto(self.plugin.shared_source()), transport)
    }

    fn crypto(&self, source: ControllerSource) -> ClientCryptoConfig {
        ClientCryptoConfig { tls: Arc::clone(&self.tls), initial: self.initial, source }
    }
}

/// A [`Plugin`] for incoming connections.
#[derive(Clone)]
pub struct ServerPlugin<S: Stack> {
    plugin: Plugin<S>,
    tls: Arc<rustls::ServerConfig>,
    initial: Suite,
    seals_paths: bool,
    /// What `base` makes controllers of.
    source: ControllerSource,
    base: S::ServerConfig,
}

impl<S: Stack> ServerPlugin<S> {
    /// The endpoint's configuration: whoever accepts connections with it, a framework or `incoming.await`, has a controller and a frame layer for
    /// each. The plug-in crate's `monitor` shows them. Its transport settings are the stack's defaults, without multipath; others take
    /// [`ServerPlugin::controller_factory`].
    ///
    /// [`ServerPlugin::accept`] gives a connection transport settings, or an observer, of its own.
    pub fn config(&self) -> S::ServerConfig {
        self.base.clone()
    }

    /// Makes controllers for transport settings that take the place of those in [`ServerPlugin::config`].
    pub fn controller_factory(&self) -> Arc<S::ControllerFactory> {
        S::controller_factory(self.source.clone())
    }

    /// Changes the endpoint's configuration that accepted connections start from, for settings such as `max_incoming`.
    /// [`ServerPlugin::accept`] does not use its `crypto` and `transport`.
    #[must_use]
    pub fn with_config(mut self, change: impl FnOnce(&mut S::ServerConfig)) -> Self {
        change(&mut self.base);
        self
    }

    /// Accepts a connection with its own controller and frame layer.
    ///
    /// # Errors
    /// As the stack's `Incoming::accept_with`.
    pub fn accept(
        &self,
        incoming: S::Incoming,
        transport: S::Transport,
    ) -> Result<(S::Connecting, ConnectionMonitor), S::ConnectionError> {
        self.accept_observed(incoming, transport, None)
    }

    /// As [`ServerPlugin::accept`]; the observer, if any, is called after every acknowledgement and congestion event.
    ///
    /// # Errors
    /// As the stack's `Incoming::accept_with`.
    pub fn accept_observed(
        &self,
        incoming: S::Incoming,
        mut transport: S::Transport,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<(S::Connecting, ConnectionMonitor), S::ConnectionError> {
        let state = self.plugin.new_state(observer);
        let source = ControllerSource::Connection(Arc::clone(&state));
        let setup =
            ServerCryptoConfig { tls: Arc::clone(&self.tls), initial: self.initial, source };
        if !self.seals_paths {
            S::disable_multipath(&mut transport);
        }
        let mut config = self.base.clone();
        S::configure_accepted(&mut config, setup, transport);
        Ok((S::accept(incoming, Arc::new(config))?, ConnectionMonitor::new(state)))
    }
}

/// What the crypto of outgoing connections starts from.
pub struct ClientCryptoConfig {
    tls: Arc<rustls::ClientConfig>,
    initial: Suite,
    source: ControllerSource,
}

impl ClientCryptoConfig {
    /// Where their controllers come from.
    pub const fn source(&self) -> &ControllerSource {
        &self.source
    }

    /// Starts TLS towards `server_name` with the encoded transport parameters `parameters`; `None` when that is not a name.
    ///
    /// # Errors
    /// [`UnknownVersion`] for a QUIC version other than 1.
    pub fn start(
        &self,
        version: u32,
        server_name: &str,
        mut parameters: Vec<u8>,
    ) -> Result<Option<Tls>, UnknownVersion> {
        UnknownVersion::check(version)?;
        let state = self.source.start_connection();
        state.complete_parameters(&mut parameters);
        let tls = ServerName::try_from(server_name).ok().and_then(|name| {
            let config = Arc::clone(&self.tls);
            rustls::quic::ClientConnection::new(config, Version::V1, name.to_owned(), parameters)
                .ok()
        });
        Ok(tls.map(|tls| Tls::new(Connection::Client(tls), self.initial, state)))
    }
}

/// What a server's crypto starts from: that of one connection, or of an endpoint.
pub struct ServerCryptoConfig {
    tls: Arc<rustls::ServerConfig>,
    initial: Suite,
    source: ControllerSource,
}

impl ServerCryptoConfig {
    /// Where the connections' controllers come from.
    pub const fn source(&self) -> &ControllerSource {
        &self.source
    }

    /// The server's keys of Initial packets.
    ///
    /// # Errors
    /// [`UnknownVersion`] for a QUIC version other than 1.
    pub fn initial_keys<H: From<HeaderProtection>, P: From<PacketProtection>>(
        &self,
        version: u32,
        dst_cid: &[u8],
    ) -> Result<KeySet<H, P>, UnknownVersion> {
        UnknownVersion::check(version)?;
        Ok(initial_keys(&self.initial, dst_cid, rustls::Side::Server))
    }

    /// Starts TLS with the encoded transport parameters `parameters`.
    ///
    /// # Panics
    /// Never: rustls has checked the configuration when the plug-in was made.
    pub fn start(&self, mut parameters: Vec<u8>) -> Tls {
        let state = self.source.start_connection();
        state.complete_parameters(&mut parameters);
        let tls =
            rustls::quic::ServerConnection::new(Arc::clone(&self.tls), Version::V1, parameters)
                // rustls looks at the configuration only, and has taken this one once.
                .expect("TLS configuration checked when the plug-in was made");
        Tls::new(Connection::Server(tls), self.initial, state)
    }
}
