//! A peer delays acknowledgements while the window is small. The sender must deduct the delay that
//! the peer reports, because the wait would otherwise look like a queue.
//!
//! In virtual time, the link has 10 Mbps and 5 ms each way. The peer acknowledges every tenth
//! packet, or after 25 ms, as s2n-quic does. For one second the application sends eight packets at
//! a time, which queue behind each other. Then everything is lost for a while, so that the window
//! is two packets, and there is much to send.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_cc::{Capabilities, Cause};
use fathom_plugin::{
    AckBatch, Clock, ConnectionConfig, ConnectionState, ControllerDriver, SystemClock,
};
use parking_lot::Mutex;

const DATAGRAM: u64 = 1_200;
/// Delay of the link, each way.
const DELAY: Duration = Duration::from_millis(5);
/// Transmission time of a packet on the link.
const SENDING: Duration = Duration::from_micros(960);
/// Maximum time, and number of packets, that the peer waits before it acknowledges.
const HOLD: Duration = Duration::from_millis(25);
const EVERY: usize = 10;
/// Time during which there is little to send.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum lateness of the peer's timer, in microseconds.
const LATE: u64 = 1_000;

struct ManualClock(Mutex<Instant>);

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        *self.0.lock()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet reaches the peer.
    Data(u64),
    /// The peer has waited long enough since this packet.
    Timer(u64),
    /// An acknowledgement of all packets so far reaches the sender. Contains the largest packet,
    /// and the time for which the peer held the acknowledgement.
    Ack(u64, Duration),
}

/// Function from the time for which a peer held an acknowledgement to the time it reports.
type Reports = fn(Duration) -> Duration;

struct Simulation {
    clock: Arc<ManualClock>,
    state: Arc<ConnectionState>,
    driver: ControllerDriver,
    start: Instant,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, Event)>>,
    reports: Reports,
    next: u64,
    in_flight: BTreeMap<u64, Instant>,
    link_free: Instant,
    smoothed: Duration,
    /// Packets that the peer has received but not acknowledged, and when the last of them arrived.
    waiting: Vec<u64>,
    arrived: Instant,
    acks: u64,
    random: u64,
    app_limited: bool,
}

impl Simulation {
    fn new(controller: &str, reports: Reports) -> Self {
        let start = SystemClock.now();
        let clock = Arc::new(ManualClock(Mutex::new(start)));
        let setup = ConnectionConfig {
            controller_config: Some(fathom_cc::catalogue::parse(controller).expect("known")),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..ConnectionConfig::default()
        };
        let provided = Capabilities { one_way: true, ecn: true, ..Capabilities::NONE };
        let state = ConnectionState::for_stack(setup, provided).expect("a state");
        // The peer has no extension, so the exponent of 3 and the maximum delay of 25 ms are the
        // defaults.
        state.negotiate(&[]).expect("negotiated");
        Self {
            driver: ControllerDriver::start(Arc::clone(&state), Some(0), start, DATAGRAM as u16),
            clock,
            state,
            start,
            now: start,
            events: BinaryHeap::new(),
            reports,
            next: 0,
            in_flight: BTreeMap::new(),
            link_free: start,
            smoothed: Duration::from_millis(333),
            waiting: Vec::new(),
            arrived: start,
            acks: 0,
            random: 1,
            app_limited: true,
        }
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.events.push(Reverse((when, event)));
    }

    fn fill_window(&mut self) {
        let window = if self.app_limited { 8 * DATAGRAM } else { self.driver.send_params().window };
        while (self.in_flight.len() as u64 + 1) * DATAGRAM <= window {
            let packet = self.next;
            self.next += 1;
            self.state.finish_packet(packet, true, &mut [], 0);
            self.driver.on_sent(self.now, DATAGRAM);
            self.in_flight.insert(packet, self.now);
            self.link_free = self.link_free.max(self.now) + SENDING;
            self.at(self.link_free + DELAY, Event::Data(packet));
        }
    }

    fn acknowledge(&mut self, largest: u64) {
        self.waiting.clear();
        let held = self.now - self.arrived;
        self.at(self.now + DELAY, Event::Ack(largest, held));
    }

    fn on_ack(&mut self, largest: u64, held: Duration) {
        let mut frame = vec![0x02];
        let eighths = (self.reports)(held).as_micros() as u64 / 8;
        for field in [largest, eighths, 0, largest] {
            frame.extend_from_slice(&(field | 0x80_00_00_00).to_be_bytes()[4..]);
        }
        self.state.on_packet_received(self.acks, &mut frame).expect("nothing of ours in it");
        self.acks += 1;
        let later = self.in_flight.split_off(&(largest + 1));
        let acked = std::mem::replace(&mut self.in_flight, later);
        let Some(newest) = acked.values().last() else { return };
        let sample = self.now - *newest;
        for sent in acked.values() {
            self.driver.on_ack(*sent, DATAGRAM, self.smoothed);
        }
        let in_flight = self.in_flight.len() as u64 * DATAGRAM;
        self.driver.on_end_acks(AckBatch {
            now: self.now,
            in_flight,
            app_limited: self.app_limited,
            largest: Some(largest),
        });
        let quiet = self.now < self.start + QUIET;
        if std::mem::replace(&mut self.app_limited, quiet) && !quiet {
            self.driver.on_congestion_event(
                self.now,
                self.now,
                Cause::Loss { bytes: DATAGRAM, persistent: true },
            );
        }
        self.smoothed = if self.acks == 1 { sample } else { (self.smoothed * 7 + sample) / 8 };
    }

    /// Runs for `seconds`. Returns the packets in the window at the end of each second.
    fn run(mut self, seconds: u64) -> Vec<u64> {
        let mut windows = Vec::new();
        self.fill_window();
        while let Some(Reverse((now, event))) = self.events.pop() {
            while windows.len() < seconds as usize
                && now >= self.start + Duration::from_secs(windows.len() as u64 + 1)
            {
                windows.push(self.driver.send_params().window / DATAGRAM);
            }
            if windows.len() == seconds as usize {
                break;
            }
            self.now = now;
            *self.clock.0.lock() = now;
            match event {
                Event::Data(packet) => {
                    self.arrived = now;
                    self.waiting.push(packet);
                    // The peer acknowledges the first packet at once, as in a handshake.
                    if self.waiting.len() >= EVERY || packet == 0 {
                        self.acknowledge(packet);
                    } else if self.waiting.len() == 1 {
                        // Knuth's multiplier (MMIX).
                        self.random =
                            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let late = Duration::from_micros((self.random >> 33) % LATE);
                        self.at(now + HOLD + late, Event::Timer(packet));
                    }
                }
                Event::Timer(since) => {
                    if self.waiting.first() == Some(&since) {
                        let largest = self.waiting[self.waiting.len() - 1];
                        self.acknowledge(largest);
                    }
                }
                Event::Ack(largest, held) => self.on_ack(largest, held),
            }
            self.fill_window();
        }
        windows
    }
}

fn honest(held: Duration) -> Duration {
    held
}

#[test]
fn delayed_acks_are_not_mistaken_for_queueing() {
    for controller in ["sync:signal=either", "sync:signal=rtt"] {
        let windows = Simulation::new(controller, honest).run(10);
        println!("{controller}: {windows:?}");
        assert!(windows[1..].iter().all(|packets| *packets > 4), "{controller}: {windows:?}");
    }
}

#[test]
fn ack_delay_is_capped_at_max_ack_delay() {
    let most = |held: Duration| held.min(HOLD);
    let overstating = |held: Duration| if held < HOLD { held } else { held * 100 };
    assert_eq!(
        Simulation::new("sync:signal=rtt", overstating).run(5),
        Simulation::new("sync:signal=rtt", most).run(5)
    );
}

#[test]
fn unreported_ack_delay_counts_as_queueing() {
    // Nothing distinguishes such a wait from a queue. This shows that the peer above could keep the
    // window small.
    let windows = Simulation::new("sync:signal=either", |_| Duration::ZERO).run(10);
    println!("{windows:?}");
    assert!(windows[1..].iter().all(|packets| *packets <= 4), "{windows:?}");
}
