//! Configuration of a connection's controller and crypto on this stack.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use fathom_cc::Capabilities;

use super::adapter::Factory;
use super::stack::{
    self, ClientConfig, ConnectError, Connecting, ConnectionError, ControllerFactory, Endpoint,
    Incoming, Runtime, ServerConfig, ThisStack, TransportConfig,
};
use crate::endpoint::ControllerSource;
use crate::plugin::{self, ClientCryptoConfig, ServerCryptoConfig, Stack};

/// A controller, and the exchange of one-way delays by its connections. Cloning is cheap.
pub type Plugin = plugin::Plugin<ThisStack>;
/// A [`Plugin`] for outgoing connections.
pub type ClientPlugin = plugin::ClientPlugin<ThisStack>;
/// A [`Plugin`] for incoming connections.
pub type ServerPlugin = plugin::ServerPlugin<ThisStack>;

impl Stack for ThisStack {
    const PROVIDED: Capabilities = super::PROVIDED;
    const MULTIPATH: bool = stack::MULTIPATH;
    type Transport = TransportConfig;
    type ControllerFactory = dyn ControllerFactory + Send + Sync;
    type ClientConfig = ClientConfig;
    type ServerConfig = ServerConfig;
    type Endpoint = Endpoint;
    type Incoming = Incoming;
    type Connecting = Connecting;
    type ConnectError = ConnectError;
    type ConnectionError = ConnectionError;
    type Runtime = dyn Runtime;

    fn now(runtime: &dyn Runtime) -> Instant {
        runtime.now()
    }

    fn disable_multipath(transport: &mut TransportConfig) {
        stack::disable_multipath(transport);
    }

    fn controller_factory(source: ControllerSource) -> Arc<Self::ControllerFactory> {
        Arc::new(Factory(source))
    }

    fn client_config(setup: ClientCryptoConfig, mut transport: TransportConfig) -> ClientConfig {
        transport.congestion_controller_factory(Self::controller_factory(setup.source().clone()));
        let mut config = ClientConfig::new(Arc::new(setup));
        config.transport_config(Arc::new(transport));
        config
    }

    fn server_config(setup: ServerCryptoConfig) -> ServerConfig {
        let mut transport = TransportConfig::default();
        stack::disable_multipath(&mut transport);
        transport.congestion_controller_factory(Self::controller_factory(setup.source().clone()));
        let mut config = ServerConfig::with_crypto(Arc::new(setup));
        config.transport_config(Arc::new(transport));
        config
    }

    fn configure_accepted(
        config: &mut ServerConfig,
        setup: ServerCryptoConfig,
        mut transport: TransportConfig,
    ) {
        transport.congestion_controller_factory(Self::controller_factory(setup.source().clone()));
        config.crypto = Arc::new(setup);
        config.transport = Arc::new(transport);
    }

    fn connect(
        endpoint: &Endpoint,
        config: ClientConfig,
        to: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        endpoint.connect_with(config, to, server_name)
    }

    fn accept(
        incoming: Incoming,
        config: Arc<ServerConfig>,
    ) -> Result<Connecting, ConnectionError> {
        incoming.accept_with(config)
    }
}
