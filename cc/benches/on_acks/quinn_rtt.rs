//! An `RttEstimator`: it has no public constructor, so a client's handshake in memory runs until its controller is handed one.

use std::any::Any;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quinn_proto::congestion::{Controller, ControllerFactory};
use quinn_proto::{
    ClientConfig, Connection, DatagramEvent, Endpoint, EndpointConfig, RttEstimator, ServerConfig, TransportConfig,
};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;

/// Forward and return delay of the path in memory.
const LATENCY: Duration = Duration::from_millis(20);

type Slot = Arc<Mutex<Option<RttEstimator>>>;

/// A controller that only keeps the estimator it is shown.
#[derive(Clone, Default)]
struct Keeper(Slot);

impl Controller for Keeper {
    fn on_ack(&mut self, _now: Instant, _sent: Instant, _bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        *self.0.lock().expect("one thread") = Some(*rtt);
    }

    fn on_congestion_event(&mut self, _now: Instant, _sent: Instant, _persistent: bool, _lost: u64) {}

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

/// All datagrams that `connection` has to send now.
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
    let server = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key).expect("a server configuration");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client configuration");
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(keeper));
    client.transport_config(Arc::new(transport));
    (client, server)
}

/// The moment the path begins, and its estimator after one round trip of 40 ms.
pub(crate) fn estimator() -> (Instant, RttEstimator) {
    #[allow(clippy::disallowed_methods, reason = "quinn's times can only be made from the clock; it is read once")]
    let origin = Instant::now();
    let keeper = Keeper::default();
    let (client_config, server_config) = configs(keeper.clone());
    let address = |port| SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port);
    let endpoint_config = Arc::new(EndpointConfig::default());
    let mut client = Endpoint::new(Arc::clone(&endpoint_config), None, true, None);
    let mut server = Endpoint::new(endpoint_config, Some(Arc::new(server_config)), true, None);

    let (_, mut ours) = client.connect(origin, client_config, address(2), "localhost").expect("a connection");
    let mut theirs = None;
    let mut now = origin + LATENCY;
    for datagram in datagrams(&mut ours, origin) {
        match server.handle(now, address(1), None, None, datagram[..].into(), &mut Vec::new()) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                theirs = server.accept(incoming, now, &mut Vec::new(), None).ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                theirs.as_mut().expect("the first datagram made it").1.handle_event(event);
            }
            _ => {}
        }
    }
    let (_, mut theirs) = theirs.expect("the server accepts");
    let answer = datagrams(&mut theirs, now);
    now += LATENCY;
    for datagram in answer {
        if let Some(DatagramEvent::ConnectionEvent(_, event)) =
            client.handle(now, address(2), None, None, datagram[..].into(), &mut Vec::new())
        {
            ours.handle_event(event);
        }
    }
    let rtt = keeper.0.lock().expect("one thread").expect("the server acknowledged the client's first packet");
    (origin, rtt)
}
