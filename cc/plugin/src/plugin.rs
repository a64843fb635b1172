//! A plug-in: a controller chosen by name, with a TLS configuration, on a QUIC stack.

use std::fmt;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use fathom_cc::{Capabilities, ControllerConfig};
use rustls::pki_types::ServerName;
use rustls::quic::{Connection, Suite, Version};

use crate::clock::{Clock, RuntimeClock, SystemClock};
use crate::config::PluginError;
use crate::connection_state::ConnectionState;
use crate::core::{Core, with_shaping_socket};
use crate::endpoint::{ControllerSource, SharedEndpoint};
use crate::extension::Extension;
use crate::monitor::ConnectionMonitor;
use crate::report::Observer;
use crate::session::{self, KeySet, Tls, UnknownVersion, initial_keys, initial_suite};
use crate::shaping_socket::TrailerRegistry;

/// A QUIC stack: its types, and functions that configure a connection on it.
pub trait Stack: Clone + Send + Sync + 'static {
    /// Signals that the stack delivers to controllers, and send parameters that it honours.
    const PROVIDED: Capabilities;
    /// Whether the stack can send on several paths at once. The crypto provider must then be able
    /// to seal packets of all paths.
    const MULTIPATH: bool = false;
    /// Transport settings.
    type Transport;
    /// Type that makes the controllers for transport settings.
    type ControllerFactory: ?Sized;
    /// Configuration of an outgoing connection.
    type ClientConfig;
    /// Configuration of an accepting endpoint or of one accepted connection.
    type ServerConfig: Clone;
    /// Socket and driver of connections.
    type Endpoint;
    /// Connection attempt of a client.
    type Incoming;
    /// Connection during its handshake.
    type Connecting;
    /// Reason why a connection cannot begin.
    type ConnectError;
    /// Reason why a connection ended.
    type ConnectionError;
    /// Runtime of an endpoint, which has the stack's clock.
    type Runtime: ?Sized + Send + Sync + 'static;

    /// Returns the current time of a runtime.
    fn now(runtime: &Self::Runtime) -> Instant;

    /// Turns multipath off, on a stack that supports it. Plug-ins call this function for
    /// configurations that several connections share. They also call it if the crypto provider
    /// cannot seal packets of a second path, because the peer could not read such packets.
    fn disable_multipath(_: &mut Self::Transport) {}
    /// Returns a factory that makes the controllers of `source`.
    fn controller_factory(source: ControllerSource) -> Arc<Self::ControllerFactory>;
    /// Returns the configuration of outgoing connections. The connections take their cryptography
    /// from `setup` and their controllers from [`ClientCryptoConfig::source`].
    fn client_config(setup: ClientCryptoConfig, transport: Self::Transport) -> Self::ClientConfig;
    /// Returns the configuration of an endpoint, with multipath turned off. Its connections take
    /// their cryptography from `setup` and their controllers from [`ServerCryptoConfig::source`].
    fn server_config(setup: ServerCryptoConfig) -> Self::ServerConfig;
    /// Changes `config` to the configuration of one accepted connection.
    fn configure_accepted(
        config: &mut Self::ServerConfig,
        setup: ServerCryptoConfig,
        transport: Self::Transport,
    );
    /// Opens a connection.
    ///
    /// # Errors
    /// Returns the stack's own error.
    fn connect(
        endpoint: &Self::Endpoint,
        config: Self::ClientConfig,
        to: SocketAddr,
        server_name: &str,
    ) -> Result<Self::Connecting, Self::ConnectError>;
    /// Accepts a connection.
    ///
    /// # Errors
    /// Returns the stack's own error.
    fn accept(
        incoming: Self::Incoming,
        config: Arc<Self::ServerConfig>,
    ) -> Result<Self::Connecting, Self::ConnectionError>;
}

/// A controller on the stack `S`, and the exchange of one-way delays by its connections. Cloning is
/// cheap.
#[derive(Clone)]
pub struct Plugin<S> {
    core: Core,
    stack: PhantomData<S>,
}

impl<S: Stack> Plugin<S> {
    /// Creates a plug-in with the controller of this name and options, such as
    /// `sync:signal=either`.
    ///
    /// # Errors
    /// Returns an error if the name or an option is invalid, or if the stack lacks capabilities
    /// that the controller requires.
    pub fn named(spec: &str) -> Result<Self, PluginError> {
        Self::new(fathom_cc::catalogue::parse(spec)?)
    }

    /// Creates a plug-in with the controller of this configuration.
    ///
    /// # Errors
    /// Returns an error if the stack lacks capabilities that the controller requires.
    pub fn new(config: Arc<dyn ControllerConfig>) -> Result<Self, PluginError> {
        Self::build(config, None)
    }

    /// Creates a plug-in with the controller of this configuration, for endpoints that send through
    /// the shaping socket of this registry. Such endpoints honour [`fathom_cc::Pacing::Delay`] and
    /// [`fathom_cc::SendParams::datagram`] on every stack. Turn MTU discovery off in the transport
    /// settings, because its probes overtake delayed packets.
    ///
    /// # Errors
    /// Returns an error if the stack lacks capabilities that the controller requires, even with the
    /// shaping socket.
    pub fn new_with_shaping(
        registry: &Arc<TrailerRegistry>,
        config: Arc<dyn ControllerConfig>,
    ) -> Result<Self, PluginError> {
        Self::build(config, Some(Arc::clone(registry)))
    }

    /// Creates a plug-in like [`Plugin::new_with_shaping`], from a name and options.
    ///
    /// # Errors
    /// Returns an error if the name or an option is invalid, or if the stack lacks capabilities
    /// that the controller requires.
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

    /// Takes the time from the endpoint's runtime instead of the system's clock.
    ///
    /// This is required if the stack's time is not the system's time, as in a simulation. The
    /// timestamp frames are written while a packet is sealed, and the stack does not pass its time
    /// to the packet keys. If the clocks differ, the plug-in logs a warning, and
    /// [`Report`](crate::Report) has the difference.
    ///
    /// ```ignore
    /// let sim = executor.sim(); // fathom_netsim::sim::SimHandle
    /// let plugin = Plugin::named("sync:signal=either")?.with_runtime(Arc::new(sim.clone()));
    /// let endpoint = Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(sim))?;
    /// ```
    #[must_use]
    pub fn with_runtime(self, runtime: Arc<S::Runtime>) -> Self {
        self.with_clock(Arc::new(RuntimeClock::<S>(runtime)))
    }

    /// Sets the clock, for tests and for hosts whose timestamp counter has an offset or drift. The
    /// clock must agree with the time that the stack passes to controllers. In all other cases,
    /// [`Plugin::with_runtime`] suffices.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.core.clock = clock;
        self
    }

    /// Sets how connections exchange one-way delays.
    ///
    /// # Errors
    /// Returns an error if the extension is off and the controller requires one-way delays, or if
    /// the application sends DATAGRAM frames and the controller sets the packet size.
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

    /// Sends these bytes instead of the extension's transport parameters (id, length, value). Tests
    /// use this to send bytes that no honest endpoint sends.
    #[doc(hidden)]
    #[must_use]
    pub fn with_raw_parameter(mut self, bytes: &[u8]) -> Self {
        self.core.parameter = Some(bytes.into());
        self
    }

    /// Sends these bytes instead of the timestamp frame. Tests use this to send bytes that no
    /// honest endpoint sends.
    #[doc(hidden)]
    #[must_use]
    pub fn with_raw_stamp(mut self, bytes: &[u8]) -> Self {
        self.core.stamp = Some(bytes.into());
        self
    }

    /// Returns the controller's configuration.
    pub fn controller_config(&self) -> &Arc<dyn ControllerConfig> {
        &self.core.controller_config
    }

    /// Reads every ACK frame, even if no controller needs this, so that [`Report`](crate::Report)
    /// contains ECN counts and ACK delays.
    #[must_use]
    pub fn with_ack_monitoring(mut self) -> Self {
        self.core.monitors_acks = true;
        self
    }

    /// Returns a factory of controllers for transport settings, for frameworks that bring their own
    /// TLS. Such controllers receive round-trip times, losses and marks as the stack reports them.
    /// Because these connections have no extension, there are no one-way delays, and the round-trip
    /// times include ACK delays. A `TransportConfig` with this factory serves any number of
    /// connections and paths.
    ///
    /// # Errors
    /// Returns an error if the controller requires one-way delays, ECN counts or a shaping socket.
    pub fn controller_factory(&self) -> Result<Arc<S::ControllerFactory>, PluginError> {
        Ok(S::controller_factory(ControllerSource::without_sessions(&self.core, S::PROVIDED)?))
    }

    /// Adds a TLS configuration, for outgoing connections.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot carry QUIC.
    pub fn client(&self, tls: Arc<rustls::ClientConfig>) -> Result<ClientPlugin<S>, PluginError> {
        let initial = initial_suite(tls.crypto_provider()).ok_or(PluginError::NoInitialSuite)?;
        self.client_with_initial(tls, initial)
    }

    /// Adds a TLS configuration as [`Plugin::client`] does, but takes the suite that protects
    /// Initial packets from `initial`, for a configuration that does not offer this suite. The
    /// suite is always TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2).
    ///
    /// # Errors
    /// Returns an error if `initial` is another suite, or if the configuration cannot carry QUIC.
    pub fn client_with_initial(
        &self,
        tls: Arc<rustls::ClientConfig>,
        initial: Suite,
    ) -> Result<ClientPlugin<S>, PluginError> {
        check_initial(initial)?;
        // rustls checks a configuration when a connection is created. This connection is never
        // used.
        let nowhere = ServerName::from(Ipv4Addr::UNSPECIFIED);
        rustls::quic::ClientConnection::new(Arc::clone(&tls), Version::V1, nowhere, Vec::new())
            .map_err(PluginError::Tls)?;
        let seals_paths = seals_paths::<S>(tls.crypto_provider());
        Ok(ClientPlugin { plugin: self.clone(), tls, initial, seals_paths })
    }

    /// Adds a TLS configuration, for incoming connections.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot carry QUIC.
    pub fn server(&self, tls: Arc<rustls::ServerConfig>) -> Result<ServerPlugin<S>, PluginError> {
        let initial = initial_suite(tls.crypto_provider()).ok_or(PluginError::NoInitialSuite)?;
        self.server_with_initial(tls, initial)
    }

    /// Adds a TLS configuration as [`Plugin::server`] does, but takes the suite that protects
    /// Initial packets from `initial`, for a configuration that does not offer this suite. The
    /// suite is always TLS13_AES_128_GCM_SHA256 (RFC 9001 §5.2).
    ///
    /// # Errors
    /// Returns an error if `initial` is another suite, or if the configuration cannot carry QUIC.
    pub fn server_with_initial(
        &self,
        tls: Arc<rustls::ServerConfig>,
        initial: Suite,
    ) -> Result<ServerPlugin<S>, PluginError> {
        if tls.max_early_data_size != 0 && tls.max_early_data_size != u32::MAX {
            return Err(PluginError::EarlyDataSize(tls.max_early_data_size));
        }
        check_initial(initial)?;
        // rustls checks the configuration now, so that accepting a connection cannot fail because
        // of it.
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

/// Checks that `initial` is the only suite allowed for Initial packets (RFC 9001 §5.2).
fn check_initial(initial: Suite) -> Result<(), PluginError> {
    match initial.suite.common.suite {
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => Ok(()),
        other => Err(PluginError::InitialSuite(other)),
    }
}

/// Returns whether packets of several paths can be sealed. The result is always true on stacks
/// without multipath.
fn seals_paths<S: Stack>(provider: &rustls::crypto::CryptoProvider) -> bool {
    if !S::MULTIPATH {
        return true;
    }
    let seals = session::seals_paths(provider);
    if !seals {
        tracing::warn!(
            "the crypto provider cannot seal packets of a second path, so multipath is off"
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
    /// Returns the errors of the stack's `Endpoint::connect_with`.
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

    /// Returns the configuration of one connection, for the stack's `Endpoint::connect_with`. Never
    /// use this configuration for a second connection. The observer, if any, is called after every
    /// acknowledgement and congestion event.
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

    /// Returns a configuration for any number of connections, for code that opens connections
    /// itself: a framework, or `Endpoint::set_default_client_config`. Each connection has its own
    /// controller and frame layer, which `monitor` of the stack's module shows. Multipath is off.
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
    /// Source of the controllers in `base`.
    source: ControllerSource,
    base: S::ServerConfig,
}

impl<S: Stack> ServerPlugin<S> {
    /// Returns the endpoint's configuration. Each connection that a framework or `incoming.await`
    /// accepts with this configuration has its own controller and frame layer, which `monitor` of
    /// the stack's module shows. The transport settings are the stack's defaults, without
    /// multipath. To replace them, use [`ServerPlugin::controller_factory`].
    ///
    /// [`ServerPlugin::accept`] gives a connection its own transport settings.
    /// [`ServerPlugin::accept_observed`] also gives it an observer.
    pub fn config(&self) -> S::ServerConfig {
        self.base.clone()
    }

    /// Returns a factory of controllers for transport settings that replace those in
    /// [`ServerPlugin::config`].
    pub fn controller_factory(&self) -> Arc<S::ControllerFactory> {
        S::controller_factory(self.source.clone())
    }

    /// Changes the endpoint's configuration from which accepted connections start, for settings
    /// such as `max_incoming`. [`ServerPlugin::accept`] does not use the `crypto` and `transport`
    /// of this configuration.
    #[must_use]
    pub fn with_config(mut self, change: impl FnOnce(&mut S::ServerConfig)) -> Self {
        change(&mut self.base);
        self
    }

    /// Accepts a connection with its own controller and frame layer.
    ///
    /// # Errors
    /// Returns the errors of the stack's `Incoming::accept_with`.
    pub fn accept(
        &self,
        incoming: S::Incoming,
        transport: S::Transport,
    ) -> Result<(S::Connecting, ConnectionMonitor), S::ConnectionError> {
        self.accept_observed(incoming, transport, None)
    }

    /// Accepts a connection like [`ServerPlugin::accept`]. The observer, if any, is called after
    /// every acknowledgement and congestion event.
    ///
    /// # Errors
    /// Returns the errors of the stack's `Incoming::accept_with`.
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

/// Settings for the crypto of outgoing connections.
pub struct ClientCryptoConfig {
    tls: Arc<rustls::ClientConfig>,
    initial: Suite,
    source: ControllerSource,
}

impl ClientCryptoConfig {
    /// Returns the source of the connections' controllers.
    pub const fn source(&self) -> &ControllerSource {
        &self.source
    }

    /// Starts TLS with the server `server_name` and the encoded transport parameters `parameters`.
    /// Returns `None` if `server_name` is not a valid name.
    ///
    /// # Errors
    /// Returns [`UnknownVersion`] for a QUIC version other than 1.
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

/// Settings for the crypto of a server, for one connection or for an endpoint.
pub struct ServerCryptoConfig {
    tls: Arc<rustls::ServerConfig>,
    initial: Suite,
    source: ControllerSource,
}

impl ServerCryptoConfig {
    /// Returns the source of the connections' controllers.
    pub const fn source(&self) -> &ControllerSource {
        &self.source
    }

    /// Returns the server's keys of Initial packets.
    ///
    /// # Errors
    /// Returns [`UnknownVersion`] for a QUIC version other than 1.
    pub fn initial_keys(&self, version: u32, dst_cid: &[u8]) -> Result<KeySet, UnknownVersion> {
        UnknownVersion::check(version)?;
        Ok(initial_keys(&self.initial, dst_cid, rustls::Side::Server))
    }

    /// Starts TLS with the encoded transport parameters `parameters`.
    ///
    /// # Panics
    /// Never panics, because rustls checked the configuration when the plug-in was built.
    pub fn start(&self, mut parameters: Vec<u8>) -> Tls {
        let state = self.source.start_connection();
        state.complete_parameters(&mut parameters);
        let tls =
            rustls::quic::ServerConnection::new(Arc::clone(&self.tls), Version::V1, parameters)
                // rustls only checks the configuration here, and it has already accepted it.
                .expect("TLS configuration checked when the plug-in was made");
        Tls::new(Connection::Server(tls), self.initial, state)
    }
}
