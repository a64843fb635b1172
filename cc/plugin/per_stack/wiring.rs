//! How one connection gets its controller and its crypto.

use std::net::SocketAddr;
use std::sync::Arc;

use fathom_cc::Capabilities;
use fathom_plugin::{ClientCryptoConfig, ConnectionState, ServerCryptoConfig, Stack};

use crate::adapter::Factory;
use crate::crypto::{ClientCrypto, ServerCrypto};
use crate::stack::{
    self, ClientConfig, ConnectError, Connecting, ConnectionError, Endpoint, Incoming, ServerConfig, ThisStack,
    TransportConfig,
};

impl Stack for ThisStack {
    const PROVIDED: Capabilities = crate::PROVIDED;
    const MULTIPATH: bool = stack::MULTIPATH;
    type Transport = TransportConfig;
    type ClientConfig = ClientConfig;
    type ServerConfig = ServerConfig;
    type Endpoint = Endpoint;
    type Incoming = Incoming;
    type Connecting = Connecting;
    type ConnectError = ConnectError;
    type ConnectionError = ConnectionError;

    fn disable_multipath(transport: &mut TransportConfig) {
        stack::disable_multipath(transport);
    }

    fn client_config(setup: ClientCryptoConfig, mut transport: TransportConfig) -> ClientConfig {
        transport.congestion_controller_factory(Arc::new(Factory(Arc::clone(setup.state()))));
        let mut config = ClientConfig::new(Arc::new(ClientCrypto(setup)));
        config.transport_config(Arc::new(transport));
        config
    }

    fn server_config(setup: ServerCryptoConfig) -> ServerConfig {
        ServerConfig::with_crypto(Arc::new(ServerCrypto(setup)))
    }

    fn configure_accepted(
        config: &mut ServerConfig,
        setup: ServerCryptoConfig,
        state: Arc<ConnectionState>,
        mut transport: TransportConfig,
    ) {
        transport.congestion_controller_factory(Arc::new(Factory(state)));
        config.crypto = Arc::new(ServerCrypto(setup));
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

    fn accept(incoming: Incoming, config: Arc<ServerConfig>) -> Result<Connecting, ConnectionError> {
        incoming.accept_with(config)
    }
}
