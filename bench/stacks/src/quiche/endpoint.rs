//! The endpoint and the trait implementations.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fathom_cc::Time;
use fathom_netsim::runtime::{Runtime, TokioRuntime, TokioSocket, UdpSocket};
use fathom_netsim::sim::{SimHandle, SimSocket};
use fathom_plugin::Observer;
use parking_lot::Mutex;

use super::connection::{Connection, Role};
use super::native::Quic;
use super::router::{Incoming, LARGEST, Route, Router};
use super::stack::{self, ConnectionId, RetryConnectionIds};
use super::stream::{RecvStream, SendStream};
use super::{ConnectionRng, Share};
use crate::native::{NativeClock, NativeMonitor, NativeWatch};
use crate::settings::{BoringTls, EndpointSettings, Sessions, SetupError, TransportSettings};
use crate::steering::Place;
use crate::traits::{
    self, Close, ConnectError, ConnectionStats, DatagramError, EarlyDataAccepted, Monitor,
    ReadOrder,
};

/// Largest UDP payload that is sent, in bytes. It is tokio-quiche's value and leaves room for
/// tunnel headers in an Ethernet frame. Path MTU discovery goes from 1200 bytes up to this size.
const PACKET: usize = 1350;
/// Initial receive windows of a stream and of a connection in bytes, if the settings have none.
/// quiche has no defaults for these windows, so the values are tokio-quiche's. quiche then doubles
/// the windows up to its own defaults of 16 and 24 MiB.
const STREAM_WINDOW: u64 = 1_000_000;
const WINDOW: u64 = 10_000_000;
/// Values of quinn for settings without a default in quiche: idle timeout, and number of streams of
/// each kind.
const IDLE: Duration = Duration::from_secs(30);
const STREAMS: u32 = 100;
/// Number of connection IDs that a peer may issue. The value is quinn's.
const CONNECTION_IDS: u64 = 5;

/// A client or a server.
pub struct Endpoint {
    router: Arc<Router>,
    /// Configuration of connections, which all endpoints at the address share.
    config: Arc<Mutex<stack::Config>>,
    shares: Arc<[Share]>,
    server: bool,
    early_data: bool,
    /// Maximum number of bytes of datagrams that a connection queues until it can send them.
    datagrams: usize,
    sessions: Option<Arc<Sessions>>,
    watch_natives: Option<NativeClock>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("local", &self.router.local).finish_non_exhaustive()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.router.abandon();
    }
}

impl Endpoint {
    /// Creates an endpoint. With a seed, quiche takes its time from the runtime and its random
    /// numbers from the seed.
    fn new(
        socket: Arc<dyn UdpSocket>,
        runtime: Arc<dyn Runtime>,
        settings: EndpointSettings<BoringTls>,
    ) -> Result<Self, SetupError> {
        let EndpointSettings {
            tls,
            controllers,
            extension,
            clock,
            watch_natives,
            seed,
            place,
            transport,
            ..
        } = settings;
        let shares = controllers.iter().map(|controller| {
            Share::new(controller, extension, clock.as_ref())
                .map_err(|reason| SetupError::Controller { spec: controller.spec(), reason })
        });
        let shares = shares.collect::<Result<Vec<_>, _>>()?;
        if shares.is_empty() {
            return Err(SetupError::NoController);
        }
        let BoringTls { server, context, protocol, early_data, sessions } = tls;
        let mut config =
            stack::Config::with_boring_ssl_ctx_builder(stack::PROTOCOL_VERSION, context)
                .map_err(SetupError::tls)?;
        config.set_application_protos(&[&protocol]).map_err(SetupError::tls)?;
        if early_data {
            config.enable_early_data();
        }
        set_transport(&mut config, &transport);
        let datagrams = transport.datagrams.unwrap_or(0);
        if seed.is_none() {
            // This is needed for paths to which the peer moves. In a simulation, paths do not move.
            config.set_active_connection_id_limit(CONNECTION_IDS);
        }
        let router = Router::new(socket, runtime, server, seed, place)?;
        Ok(Self {
            router,
            config: Arc::new(Mutex::new(config)),
            shares: shares.into(),
            server,
            early_data,
            datagrams,
            sessions,
            watch_natives,
        })
    }

    /// Starts a connection under this controller. `open` creates the connection from the
    /// configuration.
    fn start(
        &self,
        share: &Share,
        observer: Option<Arc<dyn Observer>>,
        mut rng: ConnectionRng,
        route: Route,
        open: impl FnOnce(&mut stack::Config) -> stack::Result<Quic>,
    ) -> Result<Connecting, ConnectError> {
        let quic = {
            let mut config = self.config.lock();
            share.apply(&mut config, observer.clone());
            let quic = self.router.clock.run(&mut rng, || open(&mut config));
            // Remove the observer, because it belongs to this connection and not to the next one.
            share.apply(&mut config, None);
            quic.map_err(ConnectError::stack)?
        };
        let send_watch =
            self.watch_natives.as_ref().filter(|_| observer.is_some()).map(|clock| NativeWatch {
                clock: Arc::clone(clock),
                observer: observer.clone(),
                monitor: Arc::default(),
            });
        let native = share.is_native().then(|| {
            let monitor = Arc::<NativeMonitor>::default();
            match &self.watch_natives {
                Some(clock) => (NativeWatch { clock: Arc::clone(clock), observer, monitor }, true),
                None => {
                    (NativeWatch { clock: Arc::new(|| Time::ZERO), observer: None, monitor }, false)
                }
            }
        });
        let role = if self.server { Role::Server } else { Role::Client(self.sessions.clone()) };
        let connection =
            Connection::start(quic, rng, role, native, &self.router, route, self.datagrams);
        let connection = connection?;
        if let Some(watch) = send_watch {
            connection.watch_sending(watch);
        }
        let over = connection.clone();
        let over = Box::pin(async move { over.established().await });
        Ok(Connecting { over, connection: Some(connection), early: self.server })
    }
}

fn set_transport(config: &mut stack::Config, settings: &TransportSettings) {
    // `send_window` is not used, because quiche buffers no more written data than the congestion
    // window permits.
    let TransportSettings {
        idle,
        bidi_streams,
        uni_streams,
        stream_window,
        window,
        send_window: _,
        datagram,
        mtu_discovery,
        datagrams,
    } = *settings;
    if datagrams.is_some() {
        config.enable_dgram(true, DATAGRAMS, DATAGRAMS);
    }
    config
        .set_max_idle_timeout(u64::try_from(idle.unwrap_or(IDLE).as_millis()).unwrap_or(u64::MAX));
    config.set_initial_max_streams_bidi(bidi_streams.unwrap_or(STREAMS).into());
    config.set_initial_max_streams_uni(uni_streams.unwrap_or(STREAMS).into());
    // Windows from the settings stay fixed, because the other stacks do not change their windows.
    if let Some(bytes) = stream_window {
        config.set_max_stream_window(bytes);
    }
    if let Some(bytes) = window {
        config.set_max_connection_window(bytes);
    }
    let stream_window = stream_window.unwrap_or(STREAM_WINDOW);
    config.set_initial_max_stream_data_bidi_local(stream_window);
    config.set_initial_max_stream_data_bidi_remote(stream_window);
    config.set_initial_max_stream_data_uni(stream_window);
    config.set_initial_max_data(window.unwrap_or(WINDOW));
    config.set_max_send_udp_payload_size(datagram.map_or(PACKET, usize::from));
    config.discover_pmtu(datagram.is_none() || mtu_discovery);
    config.set_max_recv_udp_payload_size(LARGEST);
    config.grease(false);
}

/// Maximum number of datagrams that quiche queues in each direction. The limit in bytes applies
/// first unless the datagrams are small.
const DATAGRAMS: usize = 10_000;

impl traits::Endpoint for Endpoint {
    type Tls = BoringTls;
    type Incoming = Incoming;
    type Connecting = Connecting;
    type Connection = Connection;

    fn on_tokio(
        socket: net::UdpSocket,
        settings: EndpointSettings<BoringTls>,
    ) -> Result<Self, SetupError> {
        Self::new(Arc::new(TokioSocket::new(socket)?), Arc::new(TokioRuntime), settings)
    }

    fn sibling(&self, socket: net::UdpSocket, place: Place) -> Result<Self, SetupError> {
        let socket = Arc::new(TokioSocket::new(socket)?);
        let router = Router::new(socket, Arc::new(TokioRuntime), self.server, None, Some(place))?;
        Ok(Self {
            router,
            config: Arc::clone(&self.config),
            shares: Arc::clone(&self.shares),
            sessions: self.sessions.clone(),
            watch_natives: self.watch_natives.clone(),
            ..*self
        })
    }

    fn in_simulation(
        socket: SimSocket,
        sim: &SimHandle,
        settings: EndpointSettings<BoringTls>,
    ) -> Result<Self, SetupError> {
        Self::new(Arc::new(socket), Arc::new(sim.clone()), settings)
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.router.local)
    }

    fn connect(
        &self,
        to: SocketAddr,
        server_name: &str,
        initial_rtt: Option<Duration>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Connecting, ConnectError> {
        if self.server {
            return Err(ConnectError::IsServer);
        }
        let (id, rng, route) = self.router.open(None);
        let local = self.router.local;
        let ticket = self.sessions.as_ref().and_then(|sessions| sessions.take());
        let connecting = self.start(&self.shares[0], observer, rng, route, |config| {
            config.set_initial_rtt(initial_rtt.unwrap_or(INITIAL_RTT));
            let mut quic =
                stack::connect_with_buffer_factory(Some(server_name), &id.id(), local, to, config)?;
            ticket.as_ref().map_or(Ok(()), |ticket| quic.set_session(ticket))?;
            Ok(quic)
        })?;
        Ok(Connecting { early: self.early_data && ticket.is_some(), ..connecting })
    }

    async fn accept(&self) -> Option<Incoming> {
        self.router.accept().await
    }

    fn begin(
        &self,
        incoming: Incoming,
        controller: usize,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Connecting, ConnectError> {
        let Incoming { header, original, id, rng, path, route } = incoming;
        self.start(&self.shares[controller], observer, rng, route, |config| match &original {
            Some(original) => {
                let original = ConnectionId::from_ref(original);
                let ids = RetryConnectionIds {
                    original_destination_cid: &original,
                    retry_source_cid: &header.dcid,
                };
                stack::accept_with_retry(&id.id(), ids, path.to, path.from, config)
            }
            None => stack::accept_with_buf_factory(&id.id(), None, path.to, path.from, config),
        })
    }

    fn close(&self, code: u32) {
        self.router.close(code);
    }

    async fn wait_idle(&self) {
        self.router.wait_idle().await;
    }
}

/// Initial RTT of quiche by default (RFC 9002 §6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);

impl traits::Incoming for Incoming {
    fn remote_address(&self) -> SocketAddr {
        self.path.from
    }

    fn local_ip(&self) -> Option<IpAddr> {
        Some(self.path.to.ip()).filter(|ip| !ip.is_unspecified())
    }

    fn remote_address_validated(&self) -> bool {
        self.original.is_some()
    }

    fn may_retry(&self) -> bool {
        self.original.is_none()
    }

    fn original_dcid(&self) -> String {
        self.original
            .as_deref()
            .unwrap_or(&self.header.dcid)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn refuse(self) {
        self.route.router().refuse(&self.header, self.path);
    }

    fn retry(self) {
        if self.may_retry() {
            self.route.router().retry(&self.header, self.path);
        }
    }
}

/// A connection in its handshake.
pub struct Connecting {
    /// The connection; `None` once the handshake is over.
    connection: Option<Connection>,
    /// Whether the connection may send before the handshake is over. A server always may. A client
    /// may if its ticket permits it.
    early: bool,
    over: Pin<Box<dyn Future<Output = Result<(), Close>> + Send>>,
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Future for Connecting {
    type Output = Result<Connection, Close>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.over
            .as_mut()
            .poll(cx)
            .map_ok(|()| self.connection.take().expect("polled after its end"))
    }
}

impl traits::Connecting for Connecting {
    type Connection = Connection;

    fn into_0rtt(mut self) -> Result<(Connection, EarlyDataAccepted), Self> {
        if !self.early {
            return Err(self);
        }
        let Some(connection) = self.connection.take() else { return Err(self) };
        let accepted = connection.clone();
        Ok((
            connection,
            Box::pin(async move { self.over.await.is_ok() && accepted.early_data_accepted() }),
        ))
    }

    fn monitor(&self) -> Option<&Monitor> {
        self.connection.as_ref().and_then(Connection::monitor)
    }
}

impl traits::Connection for Connection {
    type Send = SendStream;
    type Recv = RecvStream;
    type Http = Self;

    /// Ignores the order. quiche buffers any number of chunks, so the order makes no difference.
    fn http(&self, _: ReadOrder) -> Self {
        self.clone()
    }

    async fn open_bi(&self) -> io::Result<(SendStream, RecvStream, bool)> {
        self.open_stream().await.map_err(io::Error::other)
    }

    async fn accept_bi(&self) -> Option<(SendStream, RecvStream, bool)> {
        self.accept_stream().await.ok()
    }

    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        Self::send_datagram(self, &data)
    }

    fn datagram_room(&self) -> usize {
        Self::datagram_room(self)
    }

    fn max_datagram_size(&self) -> Option<usize> {
        self.shared().state().quic.dgram_max_writable_len()
    }

    async fn read_datagram(&self) -> Option<Bytes> {
        Self::read_datagram(self).await
    }

    fn reset(stream: &mut SendStream, code: u32) {
        let _ = stream.reset(code.into());
    }

    fn close(&self, code: u32) {
        Self::close(self, code.into(), b"");
    }

    fn close_reason(&self) -> Option<Close> {
        self.shared().state().over.clone()
    }

    async fn closed(&self) -> Close {
        Self::closed(self).await
    }

    /// Does nothing, because quiche cannot start a key update.
    fn update_keys(&self) {}

    fn handshake_confirmed(&self) -> bool {
        self.shared().state().quic.is_established()
    }

    fn protocol(&self) -> Option<String> {
        Self::protocol(self)
    }

    fn resumed(&self) -> Option<bool> {
        Self::resumed(self)
    }

    fn monitor(&self) -> Option<&Monitor> {
        Self::monitor(self)
    }

    fn stats(&self) -> ConnectionStats {
        Self::stats(self)
    }
}
