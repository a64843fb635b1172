//! Implementation of the traits for a stack with quinn's interface. This file is compiled once per
//! such stack. `super` names the stack's types and handles the differences between the stacks.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fathom_netsim::sim::{SimHandle, SimSocket};
use fathom_plugin::{Observer, PluginError};

use super::adapter::{ClientPlugin, Plugin, ServerPlugin, ShapingSocket};
use super::stack::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use super::stack::{
    self, ClientConfig, ConnectionError, EndpointConfig, MtuDiscoveryConfig, SendDatagramError,
    ServerConfig, TokioRuntime, TransportConfig,
};
use super::{
    Socket, http, native, own_stats, set_connection_ids, set_steered_connection_ids, simulated,
    watched,
};
use crate::controller::Controller;
use crate::native::{NativeClock, NativeMonitor, NativeWatch};
use crate::settings::{EndpointSettings, SetupError, Tls, TransportSettings};
use crate::steering::Place;
use crate::traits::{
    self, Close, CloseKind, Closer, ConnectError, ConnectionStats, DatagramError,
    EarlyDataAccepted, Monitor, ReadOrder,
};

/// Configuration with which connections under one controller start.
enum Share {
    Client(ClientPlugin),
    Server(ServerPlugin),
    NativeClient(ClientConfig, &'static str),
    NativeServer(ServerConfig, &'static str),
}

/// A client or a server.
pub struct Endpoint {
    endpoint: stack::Endpoint,
    shares: Arc<[Share]>,
    transport: TransportSettings,
    /// Whether packets leave through a shaping socket. The socket sets their size, so MTU discovery
    /// must be off.
    shaping: bool,
    watch_natives: Option<NativeClock>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl Endpoint {
    fn new(
        socket: Socket,
        runtime: Arc<dyn stack::Runtime>,
        settings: EndpointSettings,
    ) -> Result<Self, SetupError> {
        let (trailers, socket) = if settings.shaping {
            let shaping_socket = ShapingSocket::new(socket, &runtime);
            (Some(Arc::clone(shaping_socket.registry())), shaping_socket.socket())
        } else {
            (None, socket)
        };
        let mut shares = Vec::new();
        for controller in &settings.controllers {
            let wrong = |reason: PluginError| SetupError::Controller {
                spec: controller.spec(),
                reason: reason.into(),
            };
            let config = match controller {
                Controller::Fathom(config) => Arc::clone(config),
                Controller::Native(name) => {
                    shares.push(native_share(&settings, name).map_err(wrong)?);
                    continue;
                }
            };
            let plugin = match &trailers {
                Some(trailers) => Plugin::new_with_shaping(trailers, config),
                None => Plugin::new(config),
            };
            let mut plugin = plugin
                .and_then(|plugin| plugin.with_extension(settings.extension))
                .map_err(wrong)?;
            if let Some(clock) = &settings.clock {
                plugin = plugin.with_clock(Arc::clone(clock));
            }
            if settings.monitor_acks {
                plugin = plugin.with_ack_monitoring();
            }
            shares.push(
                match (&settings.tls, settings.initial) {
                    (Tls::Client(tls), None) => plugin.client(Arc::clone(tls)).map(Share::Client),
                    (Tls::Client(tls), Some(suite)) => {
                        plugin.client_with_initial(Arc::clone(tls), suite).map(Share::Client)
                    }
                    (Tls::Server(tls), None) => plugin.server(Arc::clone(tls)).map(Share::Server),
                    (Tls::Server(tls), Some(suite)) => {
                        plugin.server_with_initial(Arc::clone(tls), suite).map(Share::Server)
                    }
                }
                .map_err(wrong)?,
            );
        }
        let EndpointSettings { transport, watch_natives, seed, place, .. } = settings;
        let mut config = endpoint_config(seed);
        if let Some(place) = place {
            set_steered_connection_ids(&mut config, place);
        }
        let endpoint = open(config, &shares, socket, runtime)?;
        let (shares, shaping) = (shares.into(), trailers.is_some());
        Ok(Self { endpoint, shares, transport, shaping, watch_natives })
    }

    fn transport(&self) -> TransportConfig {
        let mut t = TransportConfig::default();
        let TransportSettings {
            idle,
            bidi_streams,
            uni_streams,
            stream_window,
            window,
            send_window,
            datagram,
            mtu_discovery,
            datagrams,
        } = self.transport;
        match datagrams {
            Some(bytes) => drop(t.datagram_send_buffer_size(bytes)),
            None => drop(t.datagram_receive_buffer_size(None)),
        }
        if let Some(idle) = idle {
            t.max_idle_timeout(idle.try_into().ok());
        }
        if let Some(streams) = bidi_streams {
            t.max_concurrent_bidi_streams(streams.into());
        }
        if let Some(streams) = uni_streams {
            t.max_concurrent_uni_streams(streams.into());
        }
        if let Some(bytes) = stream_window {
            t.stream_receive_window(window_size(bytes));
        }
        if let Some(bytes) = window {
            t.receive_window(window_size(bytes));
        }
        if let Some(bytes) = send_window {
            t.send_window(bytes);
        }
        let discovered = datagram.filter(|_| mtu_discovery && !self.shaping);
        if let Some(bytes) = discovered {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(bytes);
            t.mtu_discovery_config(Some(discovery));
        } else if let Some(bytes) = datagram {
            t.initial_mtu(bytes);
        }
        if (datagram.is_some() || self.shaping) && discovered.is_none() {
            t.mtu_discovery_config(None);
        }
        t
    }

    /// Sets the stack's own controller. Returns its monitor if `watch_natives` is set.
    fn set_native(
        &self,
        transport: &mut TransportConfig,
        name: &str,
        observer: Option<Arc<dyn Observer>>,
    ) -> Option<Monitor> {
        let Some(clock) = &self.watch_natives else {
            transport.congestion_controller_factory(native(name));
            return None;
        };
        let monitor = Arc::new(NativeMonitor::default());
        let watch =
            NativeWatch { clock: Arc::clone(clock), observer, monitor: Arc::clone(&monitor) };
        transport.congestion_controller_factory(watched(native(name), watch));
        Some(Monitor::Native(monitor))
    }
}

/// Opens an endpoint whose connections start under one of these shares.
fn open(
    config: EndpointConfig,
    shares: &[Share],
    socket: Socket,
    runtime: Arc<dyn stack::Runtime>,
) -> Result<stack::Endpoint, SetupError> {
    let base = match shares.first() {
        None => return Err(SetupError::NoController),
        Some(Share::Server(plugin)) => Some(plugin.config()),
        Some(Share::NativeServer(config, _)) => Some(config.clone()),
        Some(Share::Client(_) | Share::NativeClient(..)) => None,
    };
    Ok(stack::Endpoint::new_with_abstract_socket(config, base, socket, runtime)?)
}

/// Returns a window as a QUIC integer. A window that is too large becomes the largest QUIC integer.
fn window_size(bytes: u64) -> stack::VarInt {
    stack::VarInt::from_u64(bytes).unwrap_or(stack::VarInt::MAX)
}

fn native_share(settings: &EndpointSettings, name: &'static str) -> Result<Share, PluginError> {
    let refused = |_| match settings.initial {
        Some(suite) => PluginError::InitialSuite(suite.suite.common.suite),
        None => PluginError::NoInitialSuite,
    };
    Ok(match &settings.tls {
        Tls::Client(tls) => {
            let crypto = match settings.initial {
                None => QuicClientConfig::try_from(Arc::clone(tls)),
                Some(suite) => QuicClientConfig::with_initial(Arc::clone(tls), suite),
            };
            Share::NativeClient(ClientConfig::new(Arc::new(crypto.map_err(refused)?)), name)
        }
        Tls::Server(tls) => {
            let crypto = match settings.initial {
                None => QuicServerConfig::try_from(Arc::clone(tls)),
                Some(suite) => QuicServerConfig::with_initial(Arc::clone(tls), suite),
            };
            Share::NativeServer(ServerConfig::with_crypto(Arc::new(crypto.map_err(refused)?)), name)
        }
    })
}

fn endpoint_config(seed: Option<[u8; 32]>) -> EndpointConfig {
    let Some(seed) = seed else { return EndpointConfig::default() };
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &seed);
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config.rng_seed(Some(seed));
    let [a, b, c, d, e, f, _, _, direction, side, ..] = seed;
    set_connection_ids(&mut config, u64::from_le_bytes([a, b, c, d, e, f, direction, side]));
    config
}

impl traits::Endpoint for Endpoint {
    type Tls = Tls;
    type Incoming = Incoming;
    type Connecting = Connecting;
    type Connection = Connection;

    fn on_tokio(socket: UdpSocket, settings: EndpointSettings) -> Result<Self, SetupError> {
        let runtime: Arc<dyn stack::Runtime> = Arc::new(TokioRuntime);
        let socket = runtime.wrap_udp_socket(socket)?;
        Self::new(socket, runtime, settings)
    }

    fn sibling(&self, socket: UdpSocket, place: Place) -> Result<Self, SetupError> {
        if self.shaping {
            return Err(SetupError::Shaping);
        }
        let runtime: Arc<dyn stack::Runtime> = Arc::new(TokioRuntime);
        let socket = runtime.wrap_udp_socket(socket)?;
        let mut config = EndpointConfig::default();
        set_steered_connection_ids(&mut config, place);
        let endpoint = open(config, &self.shares, socket, runtime)?;
        let (shares, watch_natives) = (Arc::clone(&self.shares), self.watch_natives.clone());
        let Self { transport, shaping, .. } = *self;
        Ok(Self { endpoint, shares, transport, shaping, watch_natives })
    }

    fn in_simulation(
        socket: SimSocket,
        sim: &SimHandle,
        settings: EndpointSettings,
    ) -> Result<Self, SetupError> {
        Self::new(simulated(socket), Arc::new(sim.clone()), settings)
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    fn connect(
        &self,
        to: SocketAddr,
        server_name: &str,
        initial_rtt: Option<Duration>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Connecting, ConnectError> {
        let mut transport = self.transport();
        if let Some(rtt) = initial_rtt {
            // The initial RTT of RFC 9002 §6.2.2. noq paces by this value, also in 0-RTT.
            transport.initial_rtt(rtt);
        }
        let (config, monitor) = match self.shares.first() {
            Some(Share::Client(plugin)) => {
                let (config, monitor) = plugin.config(transport, observer);
                (config, Some(Monitor::Fathom(monitor)))
            }
            Some(Share::NativeClient(config, name)) => {
                let monitor = self.set_native(&mut transport, name, observer);
                let mut config = config.clone();
                config.transport_config(Arc::new(transport));
                (config, monitor)
            }
            Some(Share::Server(_) | Share::NativeServer(..)) | None => {
                return Err(ConnectError::IsServer);
            }
        };
        let connecting = self.endpoint.connect_with(config, to, server_name);
        let connecting = connecting.map_err(ConnectError::stack)?;
        Ok(Connecting { connecting, monitor })
    }

    async fn accept(&self) -> Option<Incoming> {
        self.endpoint.accept().await.map(Incoming)
    }

    fn begin(
        &self,
        Incoming(incoming): Incoming,
        controller: usize,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Connecting, ConnectError> {
        let mut transport = self.transport();
        let accepted = match &self.shares[controller] {
            Share::Server(plugin) => plugin
                .accept_observed(incoming, transport, observer)
                .map(|(connecting, monitor)| (connecting, Some(Monitor::Fathom(monitor)))),
            Share::NativeServer(config, name) => {
                let monitor = self.set_native(&mut transport, name, observer);
                let mut config = config.clone();
                config.transport = Arc::new(transport);
                incoming.accept_with(Arc::new(config)).map(|connecting| (connecting, monitor))
            }
            Share::Client(_) | Share::NativeClient(..) => return Err(ConnectError::IsClient),
        };
        accepted
            .map(|(connecting, monitor)| Connecting { connecting, monitor })
            .map_err(|e| close(&e).into())
    }

    fn close(&self, code: u32) {
        self.endpoint.close(code.into(), b"");
    }

    async fn wait_idle(&self) {
        self.endpoint.wait_idle().await;
    }
}

/// A client's connection attempt.
#[derive(Debug)]
pub struct Incoming(stack::Incoming);

impl traits::Incoming for Incoming {
    fn remote_address(&self) -> SocketAddr {
        self.0.remote_address()
    }

    fn local_ip(&self) -> Option<IpAddr> {
        self.0.local_ip()
    }

    fn remote_address_validated(&self) -> bool {
        self.0.remote_address_validated()
    }

    fn may_retry(&self) -> bool {
        self.0.may_retry()
    }

    fn original_dcid(&self) -> String {
        self.0.orig_dst_cid().to_string()
    }

    fn refuse(self) {
        self.0.refuse();
    }

    fn retry(self) {
        let _ = self.0.retry();
    }
}

/// A connection in its handshake.
#[derive(Debug)]
pub struct Connecting {
    connecting: stack::Connecting,
    monitor: Option<Monitor>,
}

impl Future for Connecting {
    type Output = Result<Connection, Close>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.connecting).poll(cx).map(|done| match done {
            Ok(connection) => Ok(Connection { connection, monitor: self.monitor.take() }),
            Err(e) => Err(close(&e)),
        })
    }
}

impl traits::Connecting for Connecting {
    type Connection = Connection;

    fn into_0rtt(self) -> Result<(Connection, EarlyDataAccepted), Self> {
        let Self { connecting, monitor } = self;
        match connecting.into_0rtt() {
            Ok((connection, accepted)) => {
                Ok((Connection { connection, monitor }, Box::pin(accepted)))
            }
            Err(connecting) => Err(Self { connecting, monitor }),
        }
    }

    fn monitor(&self) -> Option<&Monitor> {
        self.monitor.as_ref()
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Connection {
    connection: stack::Connection,
    monitor: Option<Monitor>,
}

impl traits::Connection for Connection {
    type Send = stack::SendStream;
    type Recv = stack::RecvStream;
    type Http = http::Connection;

    fn http(&self, order: ReadOrder) -> http::Connection {
        http::Connection::new(self.connection.clone(), order)
    }

    async fn open_bi(&self) -> io::Result<(stack::SendStream, stack::RecvStream, bool)> {
        let (send, recv) = self.connection.open_bi().await?;
        let early = recv.is_0rtt();
        Ok((send, recv, early))
    }

    async fn accept_bi(&self) -> Option<(stack::SendStream, stack::RecvStream, bool)> {
        let (send, recv) = self.connection.accept_bi().await.ok()?;
        let early = recv.is_0rtt();
        Some((send, recv, early))
    }

    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        self.connection.send_datagram(data).map_err(|e| match e {
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled => {
                DatagramError::Unsupported
            }
            SendDatagramError::TooLarge => DatagramError::TooLarge,
            SendDatagramError::ConnectionLost(e) => close(&e).into(),
        })
    }

    fn datagram_room(&self) -> usize {
        self.connection.datagram_send_buffer_space()
    }

    fn max_datagram_size(&self) -> Option<usize> {
        self.connection.max_datagram_size()
    }

    async fn read_datagram(&self) -> Option<Bytes> {
        self.connection.read_datagram().await.ok()
    }

    fn reset(stream: &mut stack::SendStream, code: u32) {
        let _ = stream.reset(code.into());
    }

    fn close(&self, code: u32) {
        self.connection.close(code.into(), b"");
    }

    fn close_reason(&self) -> Option<Close> {
        self.connection.close_reason().map(|e| close(&e))
    }

    async fn closed(&self) -> Close {
        close(&self.connection.closed().await)
    }

    fn update_keys(&self) {
        self.connection.force_key_update();
    }

    fn handshake_confirmed(&self) -> bool {
        self.connection.stats().frame_rx.handshake_done > 0
    }

    fn protocol(&self) -> Option<String> {
        let data = self.connection.handshake_data()?.downcast::<HandshakeData>().ok()?;
        data.protocol.map(|name| String::from_utf8_lossy(&name).into_owned())
    }

    fn monitor(&self) -> Option<&Monitor> {
        self.monitor.as_ref()
    }

    fn stats(&self) -> ConnectionStats {
        own_stats(&self.connection).with_report(self.monitor.as_ref().and_then(Monitor::report))
    }
}

fn close(e: &ConnectionError) -> Close {
    use {CloseKind as Kind, Closer as By};
    let (by, kind, code, reason) = match e {
        ConnectionError::TransportError(e) => (
            By::Us,
            Kind::Transport,
            Some(u64::from(e.code)),
            Bytes::copy_from_slice(e.reason.as_bytes()),
        ),
        ConnectionError::ConnectionClosed(c) => {
            (By::Peer, Kind::Transport, Some(c.error_code.into()), c.reason.clone())
        }
        ConnectionError::ApplicationClosed(c) => {
            (By::Peer, Kind::Application, Some(c.error_code.into_inner()), c.reason.clone())
        }
        ConnectionError::LocallyClosed => (By::Us, Kind::Application, Some(0), Bytes::new()),
        ConnectionError::TimedOut => (By::Nobody, Kind::Timeout, None, Bytes::new()),
        ConnectionError::Reset => (By::Peer, Kind::Reset, None, Bytes::new()),
        other => (By::Us, Kind::Other, None, other.to_string().into()),
    };
    Close { by, kind, code, reason, text: e.to_string() }
}
