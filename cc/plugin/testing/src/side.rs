//! One side of a connection, on the stack that `super::names` selects. This file is compiled once
//! for each stack.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::ControllerConfig;
use fathom_plugin::{ConnectionMonitor, TrailerRegistry};

use super::names::plugin::{Plugin, ShapingSocket};
use super::names::stack::{
    self, AsyncUdpSocket, Connection, ConnectionError, Endpoint, EndpointConfig, Runtime,
    ServerConfig, TokioRuntime, TransportConfig,
};
use super::names::{Pointer, marked_endpoint, set_paths};
use crate::recording_socket::{RecordingSocket, Sizes};
use crate::{ALPN, Identity, Outcome, PATIENCE, SideConfig, body};

fn runtime() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime)
}

/// Returns a socket that records what it sends.
pub fn socket(to: SocketAddr, sizes: &Sizes) -> Pointer<dyn AsyncUdpSocket> {
    let socket = std::net::UdpSocket::bind(to).expect("a socket");
    let inner = runtime().wrap_udp_socket(socket).expect("wrapped");
    Pointer::new(RecordingSocket::new(inner, sizes.clone(), None))
}

/// Returns a shaping socket over a socket that records what it sends.
pub fn bind(to: SocketAddr, sizes: &Sizes) -> ShapingSocket {
    ShapingSocket::new(socket(to, sizes), &runtime())
}

/// Returns another socket for the same registry.
pub fn with_registry(
    registry: &Arc<TrailerRegistry>,
    to: SocketAddr,
    sizes: &Sizes,
) -> ShapingSocket {
    ShapingSocket::with_registry(registry, socket(to, sizes), &runtime())
}

/// Creates an endpoint on this socket. Without `config`, the endpoint is a client.
pub fn shaping_endpoint(
    config: Option<ServerConfig>,
    socket: Pointer<dyn AsyncUdpSocket>,
) -> Endpoint {
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), config, socket, runtime())
        .expect("an endpoint")
}

/// Returns a plug-in with the extension, for the shaping socket of a registry.
pub fn shaping_plugin(
    registry: &Arc<TrailerRegistry>,
    controller_config: Arc<dyn ControllerConfig>,
) -> Plugin {
    Plugin::new_with_shaping(registry, controller_config).expect("a plug-in")
}

fn plugin(side: &SideConfig, shaping_socket: Option<&ShapingSocket>) -> Option<Plugin> {
    let controller_config = Arc::clone(side.controller_config.as_ref()?);
    let plugin = match shaping_socket {
        Some(shaping_socket) => {
            Plugin::new_with_shaping(shaping_socket.registry(), controller_config)
        }
        None => Plugin::new(controller_config),
    };
    let plugin = plugin.expect("a plug-in");
    let plugin = plugin.with_extension(side.extension).expect("an extension");
    let plugin = match side.parameter {
        Some(bytes) => plugin.with_raw_parameter(bytes),
        None => plugin,
    };
    Some(match side.stamp {
        Some(bytes) => plugin.with_raw_stamp(bytes),
        None => plugin,
    })
}

fn transport(side: &SideConfig) -> TransportConfig {
    let mut transport = TransportConfig::default();
    // A short initial RTT lets failed handshakes end sooner.
    transport.initial_rtt(Duration::from_millis(20)).initial_mtu(side.mtu);
    transport.max_idle_timeout(Some(PATIENCE.try_into().expect("a timeout")));
    if !side.discovery {
        transport.mtu_discovery_config(None);
    }
    set_paths(&mut transport, side.paths);
    transport
}

fn error(e: &ConnectionError) -> Option<(u64, bool)> {
    match e {
        ConnectionError::TransportError(e) => Some((e.code.into(), true)),
        ConnectionError::ConnectionClosed(e) => Some((e.error_code.into(), false)),
        ConnectionError::ApplicationClosed(_) => None,
        other => panic!("{other}"),
    }
}

/// Waits until the peer knows of the error, and returns the result.
async fn failed(endpoint: &Endpoint, e: &ConnectionError) -> Outcome {
    endpoint.wait_idle().await;
    Outcome { error: error(e), ..Outcome::default() }
}

/// Sends all datagrams and receives most datagrams of the other side. Some may be lost, because a
/// socket buffer may overflow.
async fn exchange(side: &SideConfig, connection: &Connection) -> usize {
    let send = async {
        for i in 0..side.datagrams {
            let room = connection.max_datagram_size().expect("datagrams");
            let datagram = vec![i as u8; room];
            connection.send_datagram_wait(datagram.into()).await.expect("sent");
        }
    };
    let receive = async {
        let mut got = 0;
        while got <= side.datagrams * 2 / 3
            && side.datagrams > 0
            && connection.read_datagram().await.is_ok()
        {
            got += 1;
        }
        got
    };
    tokio::join!(send, receive).1
}

/// Binds, accepts one connection and echoes its streams.
pub fn serve(
    side: SideConfig,
    identity: &Identity,
) -> (SocketAddr, tokio::task::JoinHandle<Outcome>) {
    let tls = Arc::clone(&identity.server);
    let any = "0.0.0.0:0".parse().expect("an address");
    let shaping_socket = side.shaping_socket.as_ref().map(|sizes| bind(any, sizes));
    let server = plugin(&side, shaping_socket.as_ref())
        .map(|plugin| plugin.server(Arc::clone(&tls)).expect("a server"));
    let config = match &server {
        Some(server) => server.config(),
        None => {
            let crypto = stack::crypto::rustls::QuicServerConfig::try_from(tls).expect("a server");
            let mut config = stack::ServerConfig::with_crypto(Arc::new(crypto));
            config.transport_config(Arc::new(transport(&side)));
            config
        }
    };
    let endpoint = match (side.marks.clone(), shaping_socket) {
        (Some(marks), _) => marked_endpoint(config, any, marks),
        (None, Some(shaping_socket)) => shaping_endpoint(Some(config), shaping_socket.socket()),
        (None, None) => Endpoint::server(config, any).expect("an endpoint"),
    };
    let port = endpoint.local_addr().expect("bound").port();
    let task = tokio::spawn(async move {
        let incoming = endpoint.accept().await.expect("a client");
        let (connecting, monitor): (_, Option<ConnectionMonitor>) = match &server {
            Some(server) => {
                match server.accept_observed(incoming, transport(&side), side.observer.clone()) {
                    Ok((connecting, monitor)) => (connecting, Some(monitor)),
                    // The first packet already contained the client's transport parameters.
                    Err(e) => return failed(&endpoint, &e).await,
                }
            }
            None => (incoming.accept().expect("accepted"), None),
        };
        let connection = match connecting.await {
            Ok(connection) => connection,
            Err(e) => return failed(&endpoint, &e).await,
        };
        let mut outcome = Outcome::default();
        if let Some(enough) = &side.enough {
            enough.by(monitor.as_ref());
        }
        let echo = async {
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                let got = recv.read_to_end(side.bytes).await.expect("read");
                send.write_all(&got).await.expect("written");
                send.finish().expect("open");
            }
        };
        let datagrams = async {
            let got = exchange(&side, &connection).await;
            if side.datagrams > 0 {
                // The client waits for this stream before it ends.
                connection
                    .open_uni()
                    .await
                    .expect("a stream")
                    .write_all(b"!")
                    .await
                    .expect("written");
            }
            got
        };
        outcome.datagrams = tokio::join!(datagrams, echo).0;
        connection.closed().await;
        outcome.reports.extend(monitor.map(|p| p.report()));
        outcome
    });
    (SocketAddr::from(([127, 0, 0, 1], port)), task)
}

/// Binds, accepts one connection and echoes a stream if possible. Returns how the connection ended.
pub fn serve_to_the_end(
    side: &SideConfig,
    identity: &Identity,
) -> (SocketAddr, tokio::task::JoinHandle<Option<(u64, bool)>>) {
    let server = plugin(side, None)
        .expect("a plug-in")
        .server(Arc::clone(&identity.server))
        .expect("a server");
    let any = "127.0.0.1:0".parse().expect("an address");
    let endpoint = Endpoint::server(server.config(), any).expect("an endpoint");
    let (to, transport) = (endpoint.local_addr().expect("bound"), transport(side));
    let task = tokio::spawn(async move {
        let incoming = endpoint.accept().await.expect("a client");
        let connecting = match server.accept(incoming, transport) {
            Ok((connecting, _)) => connecting,
            Err(e) => return error(&e),
        };
        let connection = match connecting.await {
            Ok(connection) => connection,
            Err(e) => return error(&e),
        };
        if let Ok((mut send, mut recv)) = connection.accept_bi().await {
            let got = recv.read_to_end(1 << 20).await.unwrap_or_default();
            let _ = send.write_all(&got).await;
            let _ = send.finish();
        }
        let ended = error(&connection.closed().await);
        endpoint.wait_idle().await;
        ended
    });
    (to, task)
}

/// Connects, sends a body if the server permits it, and waits for the end.
pub async fn fetch_to_the_end(side: SideConfig, identity: Identity, to: SocketAddr) {
    let Ok((endpoint, connection, _)) = connect(&side, &identity, to).await else { return };
    if let Ok((mut send, mut recv)) = connection.open_bi().await {
        let _ = send.write_all(&body(side.bytes)).await;
        let _ = send.finish();
        let _ = recv.read_to_end(1 << 20).await;
    }
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
}

/// Connects. Returns the connection and its monitor.
pub async fn connect(
    side: &SideConfig,
    identity: &Identity,
    to: SocketAddr,
) -> Result<(Endpoint, Connection, Option<ConnectionMonitor>), (u64, bool)> {
    let any = "0.0.0.0:0".parse().expect("an address");
    let shaping_socket = side.shaping_socket.as_ref().map(|sizes| bind(any, sizes));
    let tls = Arc::clone(&identity.client);
    let plugin = plugin(side, shaping_socket.as_ref());
    let endpoint = match shaping_socket {
        Some(shaping_socket) if !side.unwired => shaping_endpoint(None, shaping_socket.socket()),
        _ => Endpoint::client(any).expect("a client"),
    };
    let (config, monitor) = match plugin
        .map(|plugin| plugin.client(Arc::clone(&tls)).expect("a client"))
    {
        Some(client) => {
            let (config, monitor) = client.config(transport(side), side.observer.clone());
            (config, Some(monitor))
        }
        None => {
            let crypto = stack::crypto::rustls::QuicClientConfig::try_from(tls).expect("a client");
            let mut config = stack::ClientConfig::new(Arc::new(crypto));
            config.transport_config(Arc::new(transport(side)));
            (config, None)
        }
    };
    let connecting = endpoint.connect_with(config, to, "localhost").expect("a connection begun");
    match connecting.await {
        Ok(connection) => Ok((endpoint, connection, monitor)),
        Err(e) => {
            endpoint.wait_idle().await;
            Err(error(&e).expect("a transport error"))
        }
    }
}

/// Connects, sends bodies and compares the echoes.
pub async fn fetch(side: SideConfig, identity: Identity, to: SocketAddr) -> Outcome {
    let mut outcome = Outcome::default();
    let (endpoint, connection, monitor) = match connect(&side, &identity, to).await {
        Ok(connected) => connected,
        Err(error) => return Outcome { error: Some(error), ..outcome },
    };
    let data = connection.handshake_data().expect("a handshake");
    let data =
        data.downcast::<stack::crypto::rustls::HandshakeData>().expect("the stack's own type");
    assert_eq!(data.protocol.as_deref(), Some(ALPN));
    if let Some(enough) = &side.enough {
        enough.by(monitor.as_ref());
    }
    let sent = body(side.bytes);
    let rounds = async {
        let mut round = 0;
        while round < side.rounds || side.enough.as_ref().is_some_and(|enough| !enough.is_seen()) {
            if side.key_updates && round > 0 {
                connection.force_key_update();
            }
            let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
            let write = async {
                send.write_all(&sent).await.expect("written");
                send.finish().expect("open");
            };
            let (got, ()) = tokio::join!(recv.read_to_end(side.bytes), write);
            assert!(got.expect("read") == sent, "the body came back changed");
            outcome.reports.extend(monitor.as_ref().map(ConnectionMonitor::report));
            round += 1;
        }
    };
    let datagrams = tokio::join!(exchange(&side, &connection), rounds).0;
    if side.datagrams > 0 {
        connection.accept_uni().await.expect("the server's word");
    }
    outcome.datagrams = datagrams;
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    outcome.reports.extend(monitor.map(|p| p.report()));
    outcome
}
