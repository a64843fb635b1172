//! Copa (Arun, Balakrishnan: "Copa: Practical Delay-Based Congestion Control for the Internet",
//! NSDI 2018).
//!
//! Copa aims at a rate of 1 / (delta dq) packets per second, where dq is the queueing delay. The
//! window moves towards this target with every ACK, by v / (delta W) packets per acknowledged
//! packet. The velocity v doubles while the window keeps its direction. With delta = 0.5, a lone
//! flow keeps about two and a half packets in the queue, which it empties every five round trips.
//!
//! If the queue has not been nearly empty for five round trips, Copa takes it for the queue of a
//! flow that fills it, and competes: 1 / delta grows by one per round trip and halves at a loss,
//! which is additive increase and multiplicative decrease of Copa's packets in the queue.
//!
//! # Departures
//! - **Pacing**: Copa paces at 2 W / RTTstanding. quinn does not honour a rate and paces by its own
//!   rule, at 1.25 W per round trip.
//! - **Losses and marks** do not change the window, as in the paper, except in competition. They end
//!   slow start, and no growth counts until a packet sent afterwards is acknowledged.
//! - **Velocity**: if a step goes against the direction of the window, the velocity is 1 at once, as
//!   in the authors' code and in mvfst. In the paper, it is 1 only from the next round trip on. A
//!   step never exceeds the acknowledged bytes, so the window at most doubles per round trip.
//! - **Application-limited sender**: round trips in which the application was the limit change
//!   neither the velocity nor 1 / delta, because they say nothing about the target.
//! - **One-way delay** (`signal=one-way`, `signal=either`): the paper uses RTTs.

use std::cmp::Ordering;
use std::time::Duration;

use crate::aimd::{Aimd, initial_window};
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::controller::{ControllerMetrics, Pacing};
use crate::event::{AckEvent, CongestionEvent};
use crate::ledbat::WholeBytes;
use crate::options::{Values, option_values};
use crate::round::RoundTrip;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::signal::{Delays, Signal, capabilities_by_signal};
use crate::sliding::Sliding;
use crate::units::{OneWayDelay, Rate, Ratio, Time};

/// Time over which the smallest delay is the base delay (Copa §2.1).
pub const BASE_WINDOW: Duration = Duration::from_secs(10);
/// Round trips in one direction after which the velocity doubles (Copa §2.1).
pub const ROUNDS_TO_DOUBLE: u32 = 3;
/// Round trips without a nearly empty queue after which Copa competes (Copa §2.2).
pub const ROUNDS_TO_COMPETE: u32 = 5;
/// Round trips whose largest delay counts as that of a full queue (Copa §2.2).
pub const MAX_ROUNDS: usize = 4;
/// Share of the largest queueing delay below which the queue counts as nearly empty (Copa §2.2).
pub const NEARLY_EMPTY: f64 = 0.1;
/// Packets per round trip that are paced, in windows (Copa §2.1).
pub const PACING_GAIN: u64 = 2;

option_values! {
    /// Whether to compete with flows that fill the queue.
    pub enum Compete {
        /// Compete if the queue is never nearly empty.
        Detect = "detect",
        /// Never compete.
        Never = "never",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "copa",
    summary: "Copa: keeps a few packets in the queue, empties it regularly, and competes if others \
        fill it",
    source: "Copa §2.1",
    // A loss does not change the window. Steps depend on the velocity.
    contract: Contract {
        loss: Ratio::ONE,
        one_per_round: false,
        least: initial_window,
        ..Contract::AS_RENO
    },
    page: PAGE,
    ..Algorithm::of_rule::<CopaConfig>()
};

rule_options! {
    /// The configuration `copa`.
    pub struct CopaConfig {
        /// target: 1/delta packets in the queue; smaller values give a higher rate and a longer queue
        delta: Ratio = "0.5" in Values::Fraction { min: Ratio::new(1, 100), max: Ratio::ONE },
        /// compete with flows that fill the queue: if the queue is never nearly empty (detect), or
        /// never
        compete: Compete,
        /// delay to use: RTT, one-way, or (either) RTT until the peer reports one-way delays
        signal: Signal = "rtt" in Values::Choice(Signal::NAMES),
    }
}

impl RuleConfig for CopaConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Copa;

    fn rule(&self, window: &Aimd, now: Time) -> Copa {
        Copa {
            config: *self,
            queue: Queue::new(self.signal),
            round: RoundTrip::default(),
            window_before: window.window(),
            velocity: Velocity::default(),
            packets: self.packets(),
            last_empty: now,
            lost: false,
            steps: WholeBytes::default(),
            pacing: Pacing::Window,
        }
    }

    capabilities_by_signal!("copa", Capabilities { pacing: true, ..Capabilities::NONE });
}

impl CopaConfig {
    /// Returns 1 / delta without competition.
    fn packets(&self) -> f64 {
        f64::from(self.delta.den()) / f64::from(self.delta.num())
    }
}

/// The queue of a path, as Copa sees it.
#[derive(Clone, Debug)]
struct Queue {
    delays: Delays,
    /// Delays of the last ten seconds.
    base: Sliding<OneWayDelay, 10>,
    /// Delays of the last half of a round trip.
    standing: Sliding<OneWayDelay, 4>,
    /// Delays of the last four round trips.
    recent: Sliding<OneWayDelay, MAX_ROUNDS>,
    /// RTTs of the last half of a round trip, whose smallest is RTTstanding.
    rtts: Sliding<Duration, 4>,
    /// Queueing delay dq.
    queueing: Option<Duration>,
    /// Whether the newest delay is nearly that of an empty queue.
    nearly_empty: bool,
}

impl Queue {
    fn new(signal: Signal) -> Self {
        Self {
            delays: Delays::new(signal),
            base: Sliding::default(),
            standing: Sliding::default(),
            recent: Sliding::default(),
            rtts: Sliding::default(),
            queueing: None,
            nearly_empty: true,
        }
    }

    /// Records the delay of an ACK frame, if it has one.
    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        self.rtts.record(acks.now, acks.rtt.smoothed / 8, acks.rtt.latest);
        let Some(sample) = self.delays.sample(acks) else { return };
        if sample.restarts {
            *self = Self { delays: self.delays, rtts: self.rtts, ..Self::new(Signal::Either) };
        }
        let (now, smoothed, delay) = (acks.now, acks.rtt.smoothed, sample.delay);
        self.base.record(now, BASE_WINDOW / 10, delay);
        self.standing.record(now, smoothed / 8, delay);
        self.recent.record(now, smoothed, delay);
        let base = self.base.min().unwrap_or(delay);
        self.queueing = self.standing.min().map(|standing| standing.above(base));
        let most = self.recent.max().unwrap_or(delay).above(base);
        self.nearly_empty = delay.above(base) <= most.mul_f64(NEARLY_EMPTY);
    }
}

/// Direction in which the window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Size and direction of steps.
#[derive(Clone, Copy, Debug)]
struct Velocity {
    size: f64,
    direction: Direction,
    /// Round trips in this direction.
    rounds: u32,
}

impl Default for Velocity {
    fn default() -> Self {
        Self { size: 1.0, direction: Direction::Up, rounds: 0 }
    }
}

impl Velocity {
    /// Handles the end of a round trip in which the window moved in `direction`.
    fn on_round(&mut self, direction: Direction) {
        if direction != self.direction {
            *self = Self { direction, ..Self::default() };
            return;
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds >= ROUNDS_TO_DOUBLE {
            // The cap keeps the product with any window finite. Steps are limited anyway.
            self.size = (self.size * 2.0).min(1e9);
        }
    }

    /// Returns the size of a step in `direction`.
    fn step(&mut self, direction: Direction) -> f64 {
        if direction != self.direction {
            *self = Self { direction, ..Self::default() };
        }
        self.size
    }
}

/// The rule of Copa.
#[derive(Clone, Debug)]
pub struct Copa {
    config: CopaConfig,
    queue: Queue,
    round: RoundTrip,
    /// Window in bytes when the round trip began.
    window_before: u64,
    velocity: Velocity,
    /// Current 1 / delta.
    packets: f64,
    /// Time when the queue was last nearly empty.
    last_empty: Time,
    /// Whether packets were lost in this round trip.
    lost: bool,
    steps: WholeBytes,
    pacing: Pacing,
}

/// Returns whether the current rate is at most the target: W / RTT <= 1 / (delta dq). `packets` is
/// 1 / delta, and the window is in packets.
pub fn below_target(window: f64, rtt: Duration, packets: f64, queueing: Duration) -> bool {
    window * queueing.as_secs_f64() <= packets * rtt.as_secs_f64()
}

impl Copa {
    /// Ends a round trip, after which the window has `window` bytes.
    fn end_round(&mut self, window: u64, acks: &AckEvent<'_>) {
        match window.cmp(&self.window_before) {
            _ if acks.app_limited => self.velocity = Velocity::default(),
            Ordering::Greater => self.velocity.on_round(Direction::Up),
            Ordering::Less => self.velocity.on_round(Direction::Down),
            Ordering::Equal => self.velocity = Velocity::default(),
        }
        self.window_before = window;
        if !acks.app_limited {
            self.choose_mode(acks);
        }
    }

    /// Chooses between the default mode and competition, at the end of a round trip.
    fn choose_mode(&mut self, acks: &AckEvent<'_>) {
        let since = acks.now.since(self.last_empty);
        let competes = self.config.compete == Compete::Detect
            && since > acks.rtt.smoothed.saturating_mul(ROUNDS_TO_COMPETE);
        self.packets = match (competes, self.lost) {
            (false, _) => self.config.packets(),
            (true, false) => self.packets + 1.0,
            (true, true) => (self.packets / 2.0).max(self.config.packets()),
        };
        self.lost = false;
    }

    /// Moves the window by one step. `acked` is the number of bytes that may count as growth.
    fn step(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, direction: Direction, acked: u64) {
        let size = self.velocity.step(direction);
        let (bytes, sign) = match direction {
            Direction::Up => (acked, 1.0),
            Direction::Down => (acks.bytes(), -1.0),
        };
        let share = size * self.packets * window.datagram() as f64 / window.window() as f64;
        let change = self.steps.add(sign * share.min(1.0) * bytes as f64);
        if change < 0 {
            window.lower_by(change.unsigned_abs());
        } else {
            window.grow_by(change.unsigned_abs());
        }
    }
}

impl WindowRule for Copa {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        self.queue.on_ack(acks);
        if self.queue.nearly_empty {
            self.last_empty = acks.now;
        }
        let queueing = self.queue.queueing.unwrap_or_default();
        let standing = self.queue.rtts.min().unwrap_or(acks.rtt.latest);
        if self.round.on_ack(acks) {
            self.end_round(window.window(), acks);
        }
        let packets = window.window() as f64 / window.datagram() as f64;
        let below = below_target(packets, standing, self.packets, queueing);
        if window.in_slow_start() && below {
            window.grow_slow_start(acked);
        } else if window.in_slow_start() {
            window.end_slow_start();
        } else {
            self.step(window, acks, if below { Direction::Up } else { Direction::Down }, acked);
        }
        let rate =
            u128::from(PACING_GAIN * window.window()) * 1_000_000_000 / standing.as_nanos().max(1);
        self.pacing =
            Pacing::Rate(Rate::from_bytes_per_sec(u64::try_from(rate).unwrap_or(u64::MAX).max(1)));
    }

    fn kept(&self, _window: &Aimd) -> Ratio {
        Ratio::ONE
    }

    fn on_reduction(&mut self, _event: &CongestionEvent) {
        self.lost = true;
    }

    fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// Adds `queueing`: dq.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        ControllerMetrics { queueing: self.queue.queueing, ..window }
    }
}

const PAGE: Page = Page {
    about: "Copa (Arun, Balakrishnan) keeps about two and a half packets of each flow in the queue, and empties
the queue every five round trips. The window moves towards its target with every ACK, and faster the
longer it has moved in the same direction. If the queue is not nearly empty for five round trips,
Copa competes as Reno does, by the number of packets that it keeps in the queue.",
    departures: "Losses and marks do not change the window, as in the paper, unless Copa competes. quinn does
not honour Copa's pacing rate. By default `copa` uses round-trip times, as the paper does. With
`signal=one-way` it uses one-way delays.",
    figure: "Copa and the scripted queue",
    to_see: "While nothing waits, Copa's target rate has no limit, and the window doubles with every round trip,
up to the 2,000 packets that this sender has. The ramp turns the window within half a second, and
the velocity takes it down to a few packets. The plateau of 40 ms then counts as the queue of another
flow: Copa competes, and 1 / delta grows by one packet per round trip.",
    weakness: "Copa often competes although it is alone, and then keeps several times as many packets in the
queue as with `compete=never`. The test for other flows looks at the flow's own queue, which is
sometimes not nearly empty for five round trips. With `compete=never`, `copa` gets little beside a
flow that fills the queue.

**Do not use `copa` on the Internet.** Losses do not slow Copa down unless it competes, and its window
doubles with every round trip while nothing seems to wait. Behind a policer, in a queue that is too
short for 1 / delta packets of each flow, or with a receiver that reports false delays, Copa
therefore drops packets without limit.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_a_number_of_packets_in_the_queue() {
        let ms = Duration::from_millis;
        // 2 of 100 packets in 50 ms wait for 1 ms.
        assert!(below_target(100.0, ms(50), 2.0, ms(1)));
        assert!(!below_target(101.0, ms(50), 2.0, ms(1)));
        assert!(below_target(1e9, ms(50), 2.0, Duration::ZERO), "nothing waits");
    }

    #[test]
    fn velocity_doubles_after_three_rounds_and_is_reset_by_a_turn() {
        let mut velocity = Velocity::default();
        let sizes: Vec<f64> = (0..5)
            .map(|_| {
                velocity.on_round(Direction::Up);
                velocity.size
            })
            .collect();
        assert_eq!(sizes, [1.0, 1.0, 2.0, 4.0, 8.0]);
        assert_eq!(velocity.step(Direction::Down), 1.0);
        velocity.on_round(Direction::Up);
        assert_eq!((velocity.size, velocity.rounds), (1.0, 0));
    }
}
