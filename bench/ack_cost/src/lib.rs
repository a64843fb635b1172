//! The load of ACK frames of [`fathom_cc::testing::ack_load`], for quinn's own controllers. The
//! benchmark `ack_cost` of this crate and `fathom judge --cpu` use it.
//!
//! These controllers need an `RttEstimator`, which has no public constructor. Therefore a client
//! and a server in memory exchange packets, and a controller stores the estimator that it gets for
//! each delay.

use std::any::Any;
use std::hint::black_box;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fathom_cc::testing::ack_load::{FRAMES, GAP, MSS, PERIOD, RTT, queued};
use quinn_proto::congestion::{Controller, ControllerFactory};
use quinn_proto::{
    ClientConfig, Connection, DatagramEvent, Endpoint, EndpointConfig, RttEstimator, ServerConfig,
    TransportConfig,
};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;

/// Start time of the path, and its estimators after each queueing delay.
pub struct QuinnLoad {
    origin: Instant,
    rtts: Vec<RttEstimator>,
}

impl QuinnLoad {
    /// Creates the load.
    ///
    /// # Panics
    /// Panics if the estimators do not follow the delays of the path.
    #[allow(clippy::new_without_default, reason = "it runs a connection")]
    pub fn new() -> Self {
        let (origin, rtts) = estimators((0..PERIOD).map(queued));
        let spread = || rtts.iter().map(RttEstimator::get);
        assert!(
            spread().max() > spread().min().map(|min| min + Duration::from_millis(15)),
            "RTTs rise and fall"
        );
        Self { origin, rtts }
    }

    /// Returns a controller that has left its first slow start.
    pub fn fresh(&self, factory: Arc<dyn ControllerFactory + Send + Sync>) -> Box<dyn Controller> {
        let mut fresh = factory.build(self.origin, MSS as u16);
        fresh.on_congestion_event(self.origin, self.origin + Duration::from_nanos(1), false, MSS);
        fresh
    }

    /// Delivers [`FRAMES`] ACK frames and one loss, and returns the window afterwards.
    pub fn run(&self, mut controller: Box<dyn Controller>) -> u64 {
        let mut now = self.origin + Duration::from_secs(1);
        for n in 0..FRAMES {
            now += GAP;
            let sent = now - RTT - queued(n);
            let rtt = &self.rtts[(n % PERIOD) as usize];
            controller.on_ack(now, sent, MSS, false, rtt);
            controller.on_ack(now, sent, MSS, false, rtt);
            controller.on_end_acks(now, 20 * MSS, false, Some(2 * n));
            black_box(controller.window());
        }
        controller.on_congestion_event(now, now, false, MSS);
        controller.window()
    }
}

/// Forward delay and return delay of the path in memory.
const LATENCY: Duration = Duration::from_millis(20);

type Slot = Arc<Mutex<Vec<RttEstimator>>>;

/// A controller that only stores the estimators that it gets.
#[derive(Clone, Default)]
struct Keeper(Slot);

impl Controller for Keeper {
    fn on_ack(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _bytes: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.lock().expect("one thread").push(*rtt);
    }

    fn on_congestion_event(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _persistent: bool,
        _lost: u64,
    ) {
    }

    fn on_mtu_update(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.initial_window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        12_000
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Keeper {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new((*self).clone())
    }
}

/// Returns all datagrams that `connection` has to send now.
fn datagrams(connection: &mut Connection, now: Instant) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    loop {
        let mut buffer = Vec::new();
        match connection.poll_transmit(now, 1, &mut buffer) {
            Some(transmit) => sent.push(buffer[..transmit.size].to_vec()),
            None => return sent,
        }
    }
}

fn configs(keeper: Keeper) -> (ClientConfig, ServerConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let server = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a server configuration");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let mut client =
        ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client configuration");
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(keeper));
    client.transport_config(Arc::new(transport));
    (client, server)
}

/// Two ends of a connection and the path between them.
struct Pair {
    client: (Endpoint, Connection),
    server: Endpoint,
    accepted: Option<Connection>,
}

impl Pair {
    fn new(now: Instant, keeper: Keeper) -> Self {
        let (client_config, server_config) = configs(keeper);
        let endpoint_config = Arc::new(EndpointConfig::default());
        let mut client = Endpoint::new(Arc::clone(&endpoint_config), None, true, None);
        let server = Endpoint::new(endpoint_config, Some(Arc::new(server_config)), true, None);
        let (_, connection) =
            client.connect(now, client_config, address(2), "localhost").expect("a connection");
        Self { client: (client, connection), server, accepted: None }
    }

    /// Delivers the client's datagrams to the server after [`LATENCY`] and `queued`, and the
    /// server's answer to the client after [`LATENCY`].
    fn round_trip(&mut self, now: Instant, queued: Duration) {
        let there = now + LATENCY + queued;
        for datagram in datagrams(&mut self.client.1, now) {
            match self.server.handle(
                there,
                address(1),
                None,
                None,
                datagram[..].into(),
                &mut Vec::new(),
            ) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.accepted = self
                        .server
                        .accept(incoming, there, &mut Vec::new(), None)
                        .ok()
                        .map(|(_, c)| c);
                }
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    self.accepted.as_mut().expect("the first datagram made it").handle_event(event);
                }
                _ => {}
            }
        }
        let answer = datagrams(self.accepted.as_mut().expect("the server accepts"), there);
        for datagram in answer {
            let back = there + LATENCY;
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = self.client.0.handle(
                back,
                address(2),
                None,
                None,
                datagram[..].into(),
                &mut Vec::new(),
            ) {
                self.client.1.handle_event(event);
            }
        }
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)
}

/// Returns the start time of the path, and its estimators after round trips of 40 ms plus each of
/// these queueing delays.
fn estimators(queued: impl IntoIterator<Item = Duration>) -> (Instant, Vec<RttEstimator>) {
    #[allow(
        clippy::disallowed_methods,
        reason = "quinn's times can only be made from the clock; it is read once"
    )]
    let origin = Instant::now();
    let keeper = Keeper::default();
    let mut pair = Pair::new(origin, keeper.clone());
    let mut now = origin;
    for _ in 0..5 {
        pair.round_trip(now, Duration::ZERO);
        now += 3 * LATENCY;
    }
    assert!(!pair.client.1.is_handshaking(), "five round trips are enough");
    let mut each = Vec::new();
    for queued in queued {
        keeper.0.lock().expect("one thread").clear();
        // Two packets are acknowledged at once; a single packet would wait for the delayed
        // acknowledgement.
        for _ in 0..2 {
            pair.client.1.ping();
            pair.round_trip(now, queued);
        }
        each.push(*keeper.0.lock().expect("one thread").last().expect("the server acknowledged"));
        now += 2 * LATENCY + queued;
    }
    (origin, each)
}
