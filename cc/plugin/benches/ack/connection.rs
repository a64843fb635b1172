//! A connection without a stack, with the calls that a stack makes for sent packets and received
//! ACK frames.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_cc::Capabilities;
use fathom_frames::SyncTimestamp;
use fathom_plugin::{
    AckBatch, ClientCryptoConfig, Clock, ConnectionState, ControllerDriver, ControllerSource,
    Extension, Offer, Plugin, ServerCryptoConfig, Stack, SystemClock, TrailerRegistry,
};

const DATAGRAM: u64 = 1_200;
/// Time between two ACK frames: 10 Mbps in packets of [`DATAGRAM`] bytes, two per frame.
const GAP: Duration = Duration::from_micros(1_920);
/// Number of ACK frames in one round trip.
pub(crate) const ROUND_TRIP: u64 = 20;

/// Clock that shows the time it was set to.
struct Manual {
    start: Instant,
    nanos: AtomicU64,
}

impl Clock for Manual {
    fn now(&self) -> Instant {
        self.start + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// Stack that opens no connections; its configuration is the plug-in's own.
#[derive(Clone)]
struct NoStack;

impl Stack for NoStack {
    const PROVIDED: Capabilities = Capabilities { one_way: true, ecn: true, ..Capabilities::NONE };
    type Transport = ();
    type ControllerFactory = ControllerSource;
    type ClientConfig = ClientCryptoConfig;
    type ServerConfig = ();
    type Endpoint = ();
    type Incoming = ();
    type Connecting = ();
    type ConnectError = Infallible;
    type ConnectionError = Infallible;
    type Runtime = Manual;

    fn now(clock: &Manual) -> Instant {
        clock.now()
    }
    fn controller_factory(source: ControllerSource) -> Arc<ControllerSource> {
        Arc::new(source)
    }
    fn client_config(setup: ClientCryptoConfig, (): ()) -> ClientCryptoConfig {
        setup
    }
    fn server_config(_: ServerCryptoConfig) {}
    fn configure_accepted((): &mut (), _: ServerCryptoConfig, (): ()) {}
    fn connect((): &(), _: ClientCryptoConfig, _: SocketAddr, _: &str) -> Result<(), Infallible> {
        Ok(())
    }
    fn accept((): (), _: Arc<()>) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Sender whose packets all arrive; each pair is acknowledged one round trip after it left.
pub(crate) struct Connection {
    clock: Arc<Manual>,
    state: Arc<ConnectionState>,
    driver: ControllerDriver,
    stamped: bool,
    /// Number of pairs of packets sent so far.
    sent: u64,
}

impl Connection {
    /// Creates a connection. `offer`: offer of both sides. `shaping_socket`: whether the endpoint
    /// has a shaping socket, which the controller does not use.
    pub(crate) fn new(offer: Option<Offer>, shaping_socket: bool) -> Self {
        let clock = Arc::new(Manual { start: SystemClock.now(), nanos: AtomicU64::new(0) });
        let registry = Arc::new(TrailerRegistry::new(clock.now()));
        let plugin = if shaping_socket {
            Plugin::<NoStack>::named_with_shaping(&registry, "reno")
        } else {
            Plugin::named("reno")
        };
        let plugin = plugin
            .and_then(|p| p.with_extension(Extension { offer, ..Extension::OFF }))
            .expect("a plug-in")
            .with_runtime(Arc::clone(&clock));
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
        let (config, _) = plugin.client(Arc::new(tls)).expect("a client").config((), None);
        let state = config.source().connection();
        // The peer offers the same.
        let mut parameters = Vec::new();
        state.append_parameters(&mut parameters);
        state.negotiate(&parameters).expect("negotiated");
        let driver =
            ControllerDriver::start(Arc::clone(&state), Some(0), clock.now(), DATAGRAM as u16);
        Self { clock, state, driver, stamped: offer.is_some(), sent: 0 }
    }

    /// Runs until `pairs` more pairs of packets are sent. Returns the window after that.
    #[inline(never)]
    pub(crate) fn run(&mut self, pairs: u64) -> u64 {
        for n in self.sent..self.sent + pairs {
            self.clock.nanos.fetch_add(GAP.as_nanos() as u64, Ordering::Relaxed);
            let now = self.clock.now();
            for packet in [2 * n, 2 * n + 1] {
                let mut room = [0; 16];
                let room = &mut room[..self.state.frame_room(false)];
                let len = room.len();
                self.state.finish_packet(packet, true, room, len);
                self.driver.on_sent(now, DATAGRAM);
            }
            if let Some(acked) = n.checked_sub(ROUND_TRIP) {
                self.acknowledge(now, acked, 2 * acked + 1);
            }
        }
        self.sent += pairs;
        self.driver.send_params().window
    }

    /// Processes the peer's packet `number`, which acknowledges the two packets up to `largest`.
    fn acknowledge(&mut self, now: Instant, number: u64, largest: u64) {
        // SYNC_TIMESTAMP; ACK: largest in four bytes, no delay, one range of two packets.
        let mut payload = [0; 16];
        let [stamp, frame] = &mut payload.as_chunks_mut::<8>().0[..] else { unreachable!() };
        SyncTimestamp { sent: (now - self.clock.start).as_micros() as u32, echo: None }
            .encode(stamp);
        frame[0] = 0x02;
        frame[1..5].copy_from_slice(&(largest as u32 | 0x8000_0000).to_be_bytes());
        frame[7] = 0x01;
        let payload = if self.stamped { &mut payload[..] } else { &mut payload[8..] };
        let lead =
            self.state.on_packet_received(number, black_box(payload)).expect("as negotiated");
        black_box(lead);
        let sent = now - GAP * ROUND_TRIP as u32;
        for _ in 0..2 {
            self.driver.on_ack(sent, DATAGRAM, GAP * ROUND_TRIP as u32);
        }
        let in_flight = 2 * ROUND_TRIP * DATAGRAM;
        self.driver.on_end_acks(AckBatch {
            now,
            in_flight,
            app_limited: false,
            largest: Some(largest),
        });
    }
}
