//! quinn under the lab's HTTP/3.

use std::sync::Arc;

use fathom_quinn::{ClientPlugin, Observer, Plugin, PluginError, ServerPlugin, ShapingSocket, TrailerRegistry};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connecting, Endpoint, EndpointConfig, Incoming, TransportConfig, VarInt};

use super::native::{Counts, Watched};
use super::{
    BoxFuture, Client, Close, Connector, Control, EndpointPair, EndpointSettings, Host, IDLE, OpenConnection, Sender,
    SetupError, Side,
};
use crate::http::{HttpError, NO_ERROR, Requests, serve};
use fathom_netsim::sim::{SimHandle, SimSocket, flow_of, server_address};

/// quinn's own controllers.
pub(crate) const NATIVES: &[&str] = &["new-reno", "cubic", "bbr"];

fn native(name: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match name {
        "cubic" => Arc::new(CubicConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        _ => Arc::new(NewRenoConfig::default()),
    }
}

/// An endpoint's socket, behind a shaping socket or not.
struct EndpointSocket {
    socket: Arc<dyn quinn::AsyncUdpSocket>,
    gate: Option<Arc<TrailerRegistry>>,
}

impl EndpointSocket {
    fn new(socket: Arc<dyn quinn::AsyncUdpSocket>, runtime: &Arc<dyn quinn::Runtime>, shaping: bool) -> Self {
        if !shaping {
            return Self { socket, gate: None };
        }
        let shaping = ShapingSocket::new(socket, runtime);
        let gate = Some(Arc::clone(shaping.registry()));
        Self { socket: shaping.socket(), gate }
    }
}

/// How connections of one side are begun: with our plug-in, or on quinn as it comes.
#[derive(Clone)]
enum ClientKind {
    Plugged(ClientPlugin),
    Native(quinn::ClientConfig, &'static str),
}

#[derive(Clone)]
enum ServerKind {
    Plugged(ServerPlugin),
    Native(quinn::ServerConfig, &'static str),
}

/// Settings of every connection.
#[derive(Clone)]
struct Common {
    sim: SimHandle,
    stream_window: Option<u32>,
    send_window: Option<u64>,
    datagram: u16,
}

impl Common {
    fn transport(&self) -> TransportConfig {
        let mut t = TransportConfig::default();
        t.initial_mtu(self.datagram);
        // The emulated path carries this size and no other: nothing to discover.
        t.mtu_discovery_config(None);
        t.max_idle_timeout(Some(IDLE.try_into().expect("two minutes fit a varint")));
        t.datagram_receive_buffer_size(None);
        if let Some(bytes) = self.stream_window {
            t.stream_receive_window(VarInt::from_u32(bytes));
        }
        if let Some(bytes) = self.send_window {
            t.send_window(bytes);
        }
        t
    }
}

pub(super) fn ends(
    settings: &EndpointSettings<'_>,
    client: SimSocket,
    server: SimSocket,
    host: Arc<dyn Host>,
) -> Result<EndpointPair, SetupError> {
    let identity = settings.identity;
    let runtime: Arc<dyn quinn::Runtime> = Arc::new(settings.sim.clone());
    let client = EndpointSocket::new(Arc::new(client), &runtime, settings.shaping);
    let server = EndpointSocket::new(Arc::new(server), &runtime, settings.shaping);
    let (client_kind, server_kind, server_config) = match settings.control {
        Control::Ours(controller_config) => {
            let plug = |socket: &EndpointSocket| match &socket.gate {
                Some(gate) => Plugin::new_with_shaping(gate, Arc::clone(controller_config)),
                None => Plugin::new(Arc::clone(controller_config)),
            };
            let plug = |socket, side| -> Result<Plugin, PluginError> {
                plug(socket)?.with_clock(settings.clock(side)).with_extension(settings.extension)
            };
            let server = plug(&server, Side::Server)?.server(Arc::clone(&identity.server))?;
            let config = server.config();
            let client = plug(&client, Side::Client)?.client(Arc::clone(&identity.client))?;
            (ClientKind::Plugged(client), ServerKind::Plugged(server), config)
        }
        Control::Native(name) => {
            let tls = |e: &dyn std::fmt::Display| SetupError::Tls(e.to_string());
            let client = QuicClientConfig::try_from(Arc::clone(&identity.client)).map_err(|e| tls(&e))?;
            let server = QuicServerConfig::try_from(Arc::clone(&identity.server)).map_err(|e| tls(&e))?;
            let server = quinn::ServerConfig::with_crypto(Arc::new(server));
            let client = ClientKind::Native(quinn::ClientConfig::new(Arc::new(client)), name);
            (client, ServerKind::Native(server.clone(), name), server)
        }
    };
    let server = Endpoint::new_with_abstract_socket(
        endpoint_config(settings.seed_of(Side::Server)),
        Some(server_config),
        server.socket,
        Arc::clone(&runtime),
    )?;
    let endpoint = Endpoint::new_with_abstract_socket(
        endpoint_config(settings.seed_of(Side::Client)),
        None,
        client.socket,
        runtime,
    )?;
    let common = Common {
        sim: settings.sim.clone(),
        stream_window: settings.stream_window(),
        send_window: settings.send_window(),
        datagram: settings.datagram,
    };
    Ok(EndpointPair {
        connector: Arc::new(QuinnConnector { endpoint, kind: client_kind, common: common.clone() }),
        accept: Box::pin(accept(server, server_kind, common, host)),
    })
}

/// Seeds everything random in an endpoint: packet numbers skipped, spin and grease bits, connection ids, reset tokens.
fn endpoint_config(seed: [u8; 32]) -> EndpointConfig {
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &seed);
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config.rng_seed(Some(seed));
    let [a, b, c, d, e, f, _, _, direction, side, ..] = seed;
    let key = u64::from_le_bytes([a, b, c, d, e, f, direction, side]);
    config.cid_generator(move || Box::new(quinn_proto::HashedConnectionIdGenerator::from_key(key)));
    config
}

struct QuinnConnector {
    endpoint: Endpoint,
    kind: ClientKind,
    common: Common,
}

impl QuinnConnector {
    fn begin(&self, flow: u32) -> Result<Connecting, HttpError> {
        let config = match &self.kind {
            ClientKind::Plugged(plug) => plug.config(self.common.transport(), None).0,
            ClientKind::Native(config, name) => {
                let mut transport = self.common.transport();
                transport.congestion_controller_factory(native(name));
                let mut config = config.clone();
                config.transport_config(Arc::new(transport));
                config
            }
        };
        let connecting = self.endpoint.connect_with(config, server_address(flow), "lab.test");
        connecting.map_err(|e| HttpError::Connect(e.to_string()))
    }
}

impl Connector for QuinnConnector {
    fn open(&self, flow: u32) -> BoxFuture<'static, Result<Box<dyn Client>, HttpError>> {
        let connecting = self.begin(flow);
        let sim = self.common.sim.clone();
        Box::pin(async move {
            let connection = connecting?.await.map_err(|e| HttpError::Connection(e.to_string()))?;
            let requests = Requests::open(h3_quinn::Connection::new(connection.clone()), sim).await?;
            Ok(Box::new(OpenConnection { connection, requests }) as Box<dyn Client>)
        })
    }
}

impl Close for quinn::Connection {
    fn close_quietly(&self) {
        self.close(NO_ERROR.into(), b"");
    }
}

async fn accept(endpoint: Endpoint, kind: ServerKind, common: Common, host: Arc<dyn Host>) {
    while let Some(incoming) = endpoint.accept().await {
        let flow = incoming.local_ip().and_then(flow_of);
        // A refused attempt shows on the client's side.
        let Some((connecting, sender)) = kind.accept(incoming, &common, host.observer(flow)) else { continue };
        let id = host.began(sender);
        let host = Arc::clone(&host);
        common.sim.spawn(async move {
            if let Ok(connection) = connecting.await {
                let transport = h3_quinn::Connection::new(connection.clone());
                // The client reports what fails.
                let _ = serve(transport, || host.think(flow)).await;
                connection.close_quietly();
            }
            host.ended(id);
        });
    }
}

impl ServerKind {
    fn accept(
        &self,
        incoming: Incoming,
        common: &Common,
        observer: Option<Arc<dyn Observer>>,
    ) -> Option<(Connecting, Arc<dyn Sender>)> {
        match self {
            Self::Plugged(plug) => {
                let (connecting, probe) = plug.accept_observed(incoming, common.transport(), observer).ok()?;
                Some((connecting, Arc::new(probe)))
            }
            Self::Native(config, name) => {
                let counts = Arc::new(Counts::default());
                let mut transport = common.transport();
                transport.congestion_controller_factory(Arc::new(WatchedFactory {
                    inner: native(name),
                    watch: Watched { sim: common.sim.clone(), observer, counts: Arc::clone(&counts) },
                }));
                let mut config = config.clone();
                config.transport = Arc::new(transport);
                Some((incoming.accept_with(Arc::new(config)).ok()?, counts))
            }
        }
    }
}

/// quinn's own controller, watched.
struct WatchedFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    watch: Watched,
}

impl ControllerFactory for WatchedFactory {
    fn build(self: Arc<Self>, now: std::time::Instant, current_mtu: u16) -> Box<dyn quinn::congestion::Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        Box::new(WatchedController { inner, watch: self.watch.clone() })
    }
}

struct WatchedController {
    inner: Box<dyn quinn::congestion::Controller>,
    watch: Watched,
}

impl WatchedController {
    fn record(&self) {
        let metrics = self.inner.metrics();
        self.watch.record(self.inner.window(), metrics.ssthresh);
    }
}

impl quinn::congestion::Controller for WatchedController {
    fn on_sent(&mut self, now: std::time::Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: std::time::Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        self.record();
    }

    fn on_congestion_event(
        &mut self,
        now: std::time::Instant,
        sent: std::time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let before = self.inner.window();
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.watch.reduced(before, self.inner.window());
        self.record();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> quinn::congestion::ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn quinn::congestion::Controller> {
        Box::new(Self { inner: self.inner.clone_box(), watch: self.watch.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self.inner.into_any()
    }
}
