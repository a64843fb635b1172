//! Tests of the shaping socket under real quinn and noq in virtual time: packets on the path have
//! the sizes and times that a controller requests, and the controller receives correct signals.

use std::sync::Arc;
use std::time::Duration;

use fathom_cc::testing::{Event, Log, Record, RecordingConfig};
use fathom_cc::{
    AckEvent, Controller, ControllerConfig, Missing, Pacing, PathChange, Phase, Rate, SendParams,
};
use fathom_cc::{Capabilities, CongestionEvent, ControllerMetrics, Sent, Start, Time};
use fathom_experiments::http::Identity;
use fathom_experiments::stack::HostClock;
use fathom_netsim::link::Link;
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::sim::{Executor, Group, Hop, Path, server_address};
use parking_lot::Mutex;

const ONE_WAY: Duration = Duration::from_millis(20);
const MTU: u16 = 1_200;

/// A fixed window whose packet sizes and send delays change in turns. Each turn lasts for a number
/// of acknowledgement batches.
#[derive(Clone, Debug)]
struct Turns {
    window: u64,
    turns: Vec<(u32, u16, Duration)>,
    batches: u32,
}

impl Turns {
    fn turn(&self) -> (u16, Duration) {
        let mut left = self.batches;
        let mut turns = self.turns.iter().cycle();
        loop {
            let (batches, size, hold) = *turns.next().expect("turns");
            if left < batches {
                return (size, hold);
            }
            left -= batches;
        }
    }
}

impl Controller for Turns {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_ack(&mut self, _: &AckEvent<'_>) {
        self.batches += 1;
    }
    fn on_congestion_event(&mut self, _: &CongestionEvent) {}
    fn on_spurious_congestion_event(&mut self, _: Time) {}
    fn on_path(&mut self, _: Time, _: PathChange) {}
    fn send_params(&self) -> SendParams {
        let (size, hold) = self.turn();
        let pace = if hold.is_zero() { Pacing::Window } else { Pacing::Delay(hold) };
        SendParams { datagram: Some(size), pacing: pace, ..SendParams::window(self.window) }
    }
    fn metrics(&self) -> ControllerMetrics {
        let (size, hold) = self.turn();
        ControllerMetrics {
            window: self.window,
            threshold: None,
            phase: Phase::Avoidance,
            queueing: None,
            hold: Some(hold),
            datagram: Some(size),
            media_rate: None,
            reductions: 0,
            early_reductions: 0,
        }
    }
    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl ControllerConfig for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }
    fn spec(&self) -> String {
        self.name().into()
    }
    fn required(&self) -> Capabilities {
        Capabilities { datagram: true, pacing: true, ..Capabilities::NONE }
    }
    fn start(&self, _: &Start) -> Result<Box<dyn Controller>, Missing> {
        Ok(Box::new(self.clone()))
    }
}

fn turns(window: u64, turns: &[(u32, u16, u64)]) -> Turns {
    let turns =
        turns.iter().map(|(n, size, hold)| (*n, *size, Duration::from_millis(*hold))).collect();
    Turns { window, turns, batches: 0 }
}

/// Parameters of a test: the server's controller, and the bytes in each direction.
struct Setup {
    turns: Turns,
    down: usize,
    up: usize,
}

struct Outcome {
    /// Events that the server's controller received.
    log: Vec<Record>,
    /// The stack's own RTT at the server (`rtt`), and its count of lost packets (`lost`).
    rtt: Duration,
    lost: u64,
    /// Time at which the client had received everything.
    done: Time,
}

impl Outcome {
    fn rtts(&self) -> impl Iterator<Item = fathom_cc::Rtt> {
        self.log.iter().filter_map(|r| {
            if let Event::AckEvent { rtt, .. } = r.event { Some(rtt) } else { None }
        })
    }
}

/// Defines the test setup of a stack. Both stacks have the same structure; only their types differ.
macro_rules! lab {
    ($module:ident, $stack:ident, $plugin:ident, $pointer:ident, $rtt:expr, $lost:expr) => {
        mod $module {
            use super::*;
            use $plugin::{Clock, Plugin, ShapingSocket};
            use $stack::{Endpoint, EndpointConfig, Runtime, ServerConfig, TransportConfig};

            fn endpoint(
                runtime: &Arc<dyn Runtime>,
                socket: $pointer<dyn $stack::AsyncUdpSocket>,
                server: Option<ServerConfig>,
                seed: u8,
            ) -> Endpoint {
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[seed; 32]);
                let mut config = EndpointConfig::new(Arc::new(key));
                config.rng_seed(Some([seed; 32]));
                Endpoint::new_with_abstract_socket(config, server, socket, Arc::clone(runtime))
                    .expect("an endpoint")
            }

            fn transport() -> TransportConfig {
                let mut t = TransportConfig::default();
                t.initial_mtu(MTU).mtu_discovery_config(None);
                t
            }

            pub(super) fn run(setup: &Setup) -> Outcome {
                let mut executor = Executor::new();
                let sim = executor.sim();
                let runtime: Arc<dyn Runtime> = Arc::new(sim.clone());
                let clock: Arc<dyn Clock> =
                    Arc::new(HostClock { sim: sim.clone(), offset: 0, drift: 0 });
                let identity = Identity::generate().expect("an identity");
                let (near, far) = (sim.client_socket(), sim.server_socket());
                let rate = Rate::from_bits_per_sec(100_000_000);
                let link = sim
                    .add_link(Link::new(rate, QueueSpec::droptail_packets(10_000).build(rate, 0)));
                let group = sim.add_group(Group {
                    client: near.id(),
                    server: far.id(),
                    down: Path { hops: vec![Hop { delay: Duration::ZERO, link }], tail: ONE_WAY },
                    up: Path { hops: Vec::new(), tail: ONE_WAY },
                });
                let log = Log::new(1_000_000);
                let shaping = ShapingSocket::new($pointer::new(far), &runtime);
                let controller_config =
                    Needy(RecordingConfig::new(Arc::new(setup.turns.clone()), log.clone()));
                let server =
                    Plugin::new_with_shaping(shaping.registry(), Arc::new(controller_config))
                        .expect("a plug-in")
                        .with_clock(Arc::clone(&clock));
                let server = server.server(identity.server).expect("a server");
                let client = Plugin::named("reno")
                    .expect("a plug-in")
                    .with_clock(clock)
                    .client(identity.client)
                    .expect("a client");
                let serving = endpoint(&runtime, shaping.socket(), Some(server.config()), 1);
                let opening = endpoint(&runtime, $pointer::new(near), None, 2);
                let (down, up) = (setup.down, setup.up);

                let seen = Arc::new(Mutex::new(None));
                let tell = Arc::clone(&seen);
                sim.spawn(async move {
                    let incoming = serving.accept().await.expect("a client");
                    let (connecting, _probe) =
                        server.accept(incoming, transport()).expect("accepted");
                    let connection = connecting.await.expect("a handshake");
                    let (mut send, mut recv) = connection.accept_bi().await.expect("a stream");
                    let body = vec![7; down];
                    let write = async {
                        send.write_all(&body).await.expect("written");
                        send.finish().expect("open");
                    };
                    let (read, ()) = tokio::join!(recv.read_to_end(usize::MAX), write);
                    assert_eq!(read.expect("read").len(), up);
                    connection.closed().await;
                    *tell.lock() = Some(($rtt(&connection), $lost(&connection)));
                });
                let finished = Arc::new(Mutex::new(None));
                let (tell, w) = (Arc::clone(&finished), sim.clone());
                sim.spawn(async move {
                    let flow = w.add_flow(group);
                    let (connecting, _probe) = client
                        .connect(&opening, transport(), server_address(flow), "lab.test")
                        .expect("begun");
                    let connection = connecting.await.expect("a handshake");
                    let (mut send, mut recv) = connection.open_bi().await.expect("a stream");
                    let body = vec![9; up];
                    let write = async {
                        send.write_all(&body).await.expect("written");
                        send.finish().expect("open");
                    };
                    let (read, ()) = tokio::join!(recv.read_to_end(usize::MAX), write);
                    assert!(read.expect("read") == vec![7; down]);
                    *tell.lock() = Some(w.time());
                    // Wait until the last acknowledgements arrive.
                    w.sleep_until(w.time() + Duration::from_millis(500)).await;
                    connection.close(0u32.into(), b"");
                    opening.wait_idle().await;
                });
                executor.run(Time::from_millis(200_000));
                let (rtt, lost) = seen.lock().take().expect("the server ended");
                let done = finished.lock().take().expect("the client ended");
                Outcome { log: log.records(), rtt, lost, done }
            }
        }
    };
}

/// A recording configuration that requires datagram sizes and pacing, as [`Turns`] does.
#[derive(Debug)]
struct Needy(RecordingConfig);

impl ControllerConfig for Needy {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn spec(&self) -> String {
        self.0.spec()
    }
    fn required(&self) -> Capabilities {
        Capabilities { datagram: true, pacing: true, ..Capabilities::NONE }
    }
    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.0.start(start)
    }
}

lab!(on_quinn, quinn, fathom_quinn, Arc, quinn::Connection::rtt, |c: &quinn::Connection| c
    .stats()
    .path
    .lost_packets);
lab!(
    on_noq,
    noq,
    fathom_noq,
    Box,
    |c: &noq::Connection| c.rtt(noq::PathId::ZERO).expect("path 0"),
    |c: &noq::Connection| c.stats().lost_packets
);

fn both(setup: &Setup) -> [(&'static str, Outcome); 2] {
    [("quinn", on_quinn::run(setup)), ("noq", on_noq::run(setup))]
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

#[test]
fn send_delay_appears_only_in_the_rtt_of_the_stack() {
    for (hold, from, to) in [(0, 40.0, 48.0), (20, 59.0, 68.0)] {
        for (stack, o) in
            both(&Setup { turns: turns(24_000, &[(1, MTU, hold)]), down: 600_000, up: 0 })
        {
            assert!(
                (from..to).contains(&ms(o.rtt)),
                "{stack} {hold}: the stack's RTT is {:?}",
                o.rtt
            );
            let last = o.rtts().last().expect("acknowledgements");
            // The delay is 20 ms in each direction, and the peer may wait a little before it
            // acknowledges.
            assert!((40.0..41.0).contains(&ms(last.min)), "{stack} {hold}: {last:?}");
            assert!((40.0..48.0).contains(&ms(last.smoothed)), "{stack} {hold}: {last:?}");
            // The sender sends at most one window per 40 + `hold` ms, because delayed packets count
            // as in flight.
            let least = 600_000.0 / 24_000.0 * (40 + hold) as f64 * 0.8;
            assert!(o.done.as_secs_f64() * 1e3 > least, "{stack} {hold}: done after {:?}", o.done);
            assert_eq!(o.lost, 0, "{stack} {hold}");
        }
    }
}

#[test]
fn changing_send_delays_never_shorten_rtt_samples() {
    let t = turns(24_000, &[(30, MTU, 0), (30, MTU, 20), (10, MTU, 5), (30, MTU, 60)]);
    for (stack, o) in both(&Setup { turns: t, down: 1_500_000, up: 0 }) {
        let least = o.rtts().map(|r| r.latest).min().expect("acknowledgements");
        assert!((40.0..41.0).contains(&ms(least)), "{stack}: {least:?}");
        // While the send delay changes, a sample may be wrong by the send delay.
        let long = o.rtts().filter(|r| ms(r.latest) > 70.0).count();
        assert!(long * 20 < o.rtts().count(), "{stack}: {long} of {}", o.rtts().count());
        assert_eq!(o.lost, 0, "{stack}");
    }
}

/// If bare acknowledgements overtook delayed packets, the peer would report gaps.
#[test]
fn packets_stay_in_order_when_both_sides_send() {
    let t = turns(24_000, &[(20, MTU, 30), (20, 600, 10), (20, MTU, 0)]);
    for (stack, o) in both(&Setup { turns: t, down: 1_000_000, up: 1_000_000 }) {
        assert_eq!(o.lost, 0, "{stack}");
        assert!(!o.log.iter().any(|r| matches!(r.event, Event::CongestionEvent(_))), "{stack}");
    }
}

/// Returns, after each event, the bytes in flight (as last reported to the controller, plus the
/// bytes sent since) and the controller's window.
fn in_flight(log: &[Record]) -> Vec<(u64, u64)> {
    let mut bytes = 0u64;
    log.iter()
        .filter_map(|r| {
            match &r.event {
                Event::Sent(sent) => bytes += sent.bytes,
                Event::AckEvent { in_flight, .. } => bytes = *in_flight,
                _ => return None,
            }
            Some((bytes, r.params.window))
        })
        .collect()
}

#[test]
fn shaped_sender_exceeds_the_window_by_less_than_a_packet() {
    for t in [
        &[(1, MTU, 0)][..],
        &[(1, 250, 0)],
        &[(15, MTU, 0), (15, 250, 0), (15, 700, 0)],
        &[(25, 250, 0), (25, MTU, 10)],
    ] {
        for (stack, o) in both(&Setup { turns: turns(36_000, t), down: 800_000, up: 0 }) {
            let levels = in_flight(&o.log);
            let most = levels.iter().map(|l| l.0).max().expect("packets");
            assert!(most <= 36_000 + u64::from(MTU), "{stack} {t:?}: {most} bytes in flight");
            // Between start-up and the end of the data, the window is full before each batch of
            // acknowledgements.
            let mut peaks: Vec<u64> =
                levels.windows(2).filter(|w| w[1].0 < w[0].0).map(|w| w[0].0).collect();
            peaks.sort_unstable();
            let median = peaks[peaks.len() / 2];
            assert!(median + 4 * u64::from(MTU) > 36_000, "{stack} {t:?}: median {median}");
            assert_eq!(o.lost, 0, "{stack}");
        }
    }
}

#[test]
fn shaped_sender_sends_one_window_of_small_packets_per_rtt() {
    for (size, overhead) in [(MTU, 45.0), (500, 45.0), (250, 45.0)] {
        for (stack, o) in
            both(&Setup { turns: turns(30_000, &[(1, size, 0)]), down: 1_500_000, up: 0 })
        {
            // The sender sends 30 kB per 40 ms. The header and tag of each packet (about 30 to
            // 45 bytes) are not data.
            let data = 1.0 - overhead / f64::from(size);
            let expected = 1_500_000.0 / 30_000.0 * 0.040 / data;
            let took = o.done.as_secs_f64();
            assert!(
                (0.8 * expected..1.25 * expected + 0.2).contains(&took),
                "{stack} {size}: {took} s, not {expected}"
            );
        }
    }
}
