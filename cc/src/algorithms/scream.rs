//! SCReAMv2 (draft-johansson-ccwg-rfc8298bis-screamv2-07): congestion control for live media.
//!
//! The controller computes a reference window, from which the media source gets its bit rate: the
//! window per round trip. The window grows with every acknowledgement, and shrinks in proportion to
//! the queueing delay above half a target of 60 ms. Data in flight may exceed the reference window, so that a
//! large frame leaves at once. If other flows keep the queue filled, the target rises.
//!
//! # Departures
//! - **Window**: the window of [`Aimd`], which limits the data in flight, is [`OVERHEAD`] times the
//!   reference window. In the draft, this factor is between 1.5 and 3, and larger while the delay
//!   is steady.
//! - **Initial and smallest window**: those of QUIC (RFC 9002 §7.2). The draft has 3000 bytes.
//! - **Losses and marks** reduce the window once per recovery period (RFC 9002 §7.3.2), in which it
//!   neither grows nor shrinks for delay. The draft has at most one reduction per min(25 ms, RTT)
//!   and grows all the time. Lost bytes do not count as acknowledged. A spurious loss is undone.
//! - **L4S** is not implemented: a mark has the effect of a mark by a classic queue, which is the
//!   draft's default.
//! - **Queueing delay**: the smallest of the last four delays minus the base delay, as in
//!   [`crate::ledbat`]. If no delay was reported for a second, delay does not reduce the window.
//! - **Competition**: the draft leaves open how often a delay enters the history (here every 50 ms)
//!   and how the share of round trips with losses is averaged (with a weight of 0.01, as the authors
//!   do in their implementation, so that
//!   one of them counts for 160 round trips).
//! - **Application-limited sender**: media are nearly always the limit, so the window also grows
//!   then, if enough data were in flight (as in the draft). While the window is the limit, it
//!   grows in any case, because stacks report the data in flight only with acknowledgements.
//! - **Bit rate**: the draft lowers it further while frames wait at the sender and if their sizes
//!   vary, which a controller does not see, and by 2 % for headers of RTP. It has a smallest bit
//!   rate, below which the source does not go anyway, and paces faster near the largest one. It stops
//!   growth at the encoder's largest rate, which a controller does not know; the condition on the
//!   data in flight has the same effect.
//! - **Clock drift** is not estimated. As in RFC 6817, the base delay is that of the last ten
//!   minutes.

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::controller::{ControllerMetrics, Pacing};
use crate::event::{AckEvent, Cause, CongestionEvent};
use crate::ledbat::{Queue, WholeBytes};
use crate::options::{Values, option_values, options};
use crate::round::RoundTrip;
use crate::rule::{RuleConfig, RuleOptions, WindowRule};
use crate::signal::{Signal, capabilities_by_signal};
use crate::units::{Rate, Ratio, Time};

/// Data in flight that the reference window allows, in windows (SCReAMv2 §4.3.1: at least 1.5).
pub const OVERHEAD: f64 = 1.5;
/// Fraction of the window that remains after a loss (SCReAMv2 §4.2.2).
pub const KEPT_AFTER_LOSS: Ratio = Ratio::new(7, 10);
/// Fraction of the window that remains after a mark (SCReAMv2 §4.2.2).
pub const KEPT_AFTER_MARK: Ratio = Ratio::new(8, 10);
/// Smallest target of the queueing delay (SCReAMv2 §4.2.2).
pub const LOW_TARGET: Duration = Duration::from_millis(60);
/// Largest target, in competition, in smallest targets (SCReAMv2 §4.2.2: 400 ms).
pub const HIGH_TARGET: f64 = 400.0 / 60.0;
/// Round trip that counts for flows with a shorter one (SCReAMv2 §4.2.2).
pub const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// Weight of a larger queueing delay in the average (SCReAMv2 §4.2.1).
pub const AVERAGE_GAIN: f64 = 0.25;
/// Weight of a sample in the deviation of the queueing delay (SCReAMv2 §4.2.1).
pub const DEVIATION_GAIN: f64 = 1.0 / 64.0;
/// Queueing delay that the deviation is divided by, in seconds (SCReAMv2 §4.2.1).
pub const DEVIATION_NORM: f64 = 0.025;
/// Share of the window by which it may grow per round trip in addition to one packet
/// (SCReAMv2 §4.2.2).
pub const PROPORTIONAL_GROWTH: f64 = 0.02;
/// Round trips after a loss or a mark until growth in proportion to the window is complete
/// (SCReAMv2 §4.2.2).
pub const CAUTIOUS_ROUNDS: f64 = 100.0;
/// Reference window that the data in flight justify, in their largest number of bytes in the last
/// two round trips (SCReAMv2 §4.2.2).
pub const HEADROOM: f64 = 1.5;
/// Round trips between two updates of the inflection point (SCReAMv2 §4.2.2).
pub const INFLECTION_ROUNDS: u32 = 10;
/// Pacing rate in bit rates of the media (SCReAMv2 §4.3.2).
pub const PACING_GAIN: f64 = 1.5;
/// Smallest bit rate for pacing, in bytes per second (SCReAMv2 §4.3.2: 50 kbps).
const LEAST_PACED: f64 = 6_250.0;
/// Divisor of the bit rate, which leaves room for frames of different sizes (SCReAMv2 §4.4).
pub const RATE_DIVISOR: f64 = 1.2;
/// Time without a delay after which delay no longer reduces the window (ours).
const OUTDATED: Duration = Duration::from_secs(1);
/// Delays from which the variance is computed, and those of the average (SCReAMv2 §4.2.1).
const HISTORY: usize = 200;
const RECENT: usize = 50;
/// Time between two delays of the history (ours), which then covers 10 s.
const HISTORY_INTERVAL: Duration = Duration::from_millis(50);
/// Share of round trips with losses above which the target follows the queue (SCReAMv2 §4.2.1).
const LOSSY: f64 = 0.002;
/// Weight of a round trip in this share (as in the authors' implementation, `lossEventRate`).
const LOSS_GAIN: f64 = 0.01;
/// Variance of the delay, in squared smallest targets, below which the queue counts as steady
/// (SCReAMv2 §4.2.1).
const STEADY: f64 = 0.2;

option_values! {
    /// Whether the target rises beside flows that fill the queue.
    pub enum Compete {
        /// The target follows a queue that other flows keep filled.
        Detect = "detect",
        /// The target stays at its smallest value.
        Never = "never",
    }
}

option_values! {
    /// Use of the restriction of growth by the deviation of the queueing delay.
    pub enum Steady {
        /// Growth is down to a tenth while packets wait.
        On = "on",
        /// Growth does not depend on the deviation.
        Off = "off",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "scream",
    summary: "SCReAMv2: for live media; sets the bit rate of the source, and keeps the queueing delay \
        below a target",
    source: "draft-johansson-ccwg-rfc8298bis-screamv2-07",
    contract: Contract {
        loss: KEPT_AFTER_LOSS,
        mark: Some(KEPT_AFTER_MARK),
        doubles: false,
        one_per_round: false,
        grows_app_limited: true,
        after_collapse: Ratio::new(25, 8),
        ..Contract::AS_RENO
    },
    page: PAGE,
    ..Algorithm::of_rule::<ScreamConfig>()
};

options! {
    /// The configuration `scream`.
    pub struct ScreamConfig {
        /// raise the target of the queueing delay beside flows that fill the queue (detect), or
        /// never
        compete: Compete,
        /// grow more slowly while packets wait in the queue, for a steadier rate (optional in the
        /// draft)
        steady: Steady,
        /// delay to use: one-way, RTT, or (either) RTT until the peer reports one-way delays
        signal: Signal = "either" in Values::Choice(Signal::NAMES),
    }
}

// There is no slow start.
impl RuleOptions for ScreamConfig {}

impl RuleConfig for ScreamConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Scream;

    fn rule(&self, _window: &Aimd, _now: Time) -> Scream {
        Scream {
            delays: QueueDelays::new(self.signal),
            steady: self.steady,
            target: Target::new(self.compete),
            round: RoundTrip::default(),
            flight: Flight::default(),
            inflection: None,
            congested: None,
            reacted: None,
            before: None,
            smoothed: Duration::ZERO,
            steps: WholeBytes::default(),
            rate: None,
        }
    }

    capabilities_by_signal!(
        "scream",
        Capabilities { pacing: true, ecn: true, ..Capabilities::NONE }
    );
}

/// Queueing delays and their average and deviation (SCReAMv2 §4.2.1).
#[derive(Clone, Debug)]
struct QueueDelays {
    queue: Queue,
    /// Average in seconds, which falls at once and rises slowly.
    average: f64,
    /// Average of the delays, less a margin, in parts of [`DEVIATION_NORM`].
    deviation: f64,
    updated: Option<Time>,
}

impl QueueDelays {
    fn new(signal: Signal) -> Self {
        Self { queue: Queue::new(signal), average: 0.0, deviation: 0.0, updated: None }
    }

    /// Records the delay of an ACK frame. `wide` is the reference window in datagrams.
    fn on_ack(&mut self, acks: &AckEvent<'_>, wide: f64) {
        let Some(delay) = self.queue.sample(acks) else {
            if self.updated.is_some_and(|at| acks.now.since(at) > OUTDATED) {
                self.average = 0.0;
            }
            return;
        };
        let interval = VIRTUAL_RTT.min(acks.rtt.smoothed);
        if self.updated.is_some_and(|at| acks.now.since(at) < interval) {
            return;
        }
        self.updated = Some(acks.now);
        let delay = delay.as_secs_f64();
        self.average = average(self.average, delay);
        let excess = (delay - DEVIATION_NORM / 4.0) / DEVIATION_NORM;
        let sample = excess.clamp(0.0, 1.5 * deviation_threshold(wide));
        self.deviation += DEVIATION_GAIN * (sample - self.deviation);
    }

    /// Returns the share of growth that the deviation leaves, from 0.1 to 1.
    fn calm(&self, wide: f64) -> f64 {
        let threshold = deviation_threshold(wide);
        ((threshold - self.deviation) / threshold).clamp(0.1, 1.0)
    }
}

/// Returns the average queueing delay in seconds after a delay: it falls at once, and rises by a
/// quarter of the difference (SCReAMv2 §4.2.1).
pub fn average(average: f64, delay: f64) -> f64 {
    if delay < average { delay } else { average + AVERAGE_GAIN * (delay - average) }
}

/// Returns the deviation at which growth is slowest, for a reference window in datagrams: 0.05 up to
/// 20 datagrams, and up to 0.1 above (SCReAMv2 §4.2.1).
fn deviation_threshold(wide: f64) -> f64 {
    (0.1 * (1.0 - 10.0 * (1.0 / wide).min(1.0))).max(0.05)
}

/// The target of the queueing delay (SCReAMv2 §4.2.1).
#[derive(Clone, Debug)]
struct Target {
    compete: Compete,
    /// Target in smallest targets.
    value: f64,
    /// Queueing delays in smallest targets, in no order.
    history: [f32; HISTORY],
    /// Number of delays recorded so far.
    recorded: usize,
    updated: Option<Time>,
    /// Average share of round trips with losses.
    lossy: f64,
    /// Whether a packet was lost in this round trip.
    lost: bool,
}

impl Target {
    const fn new(compete: Compete) -> Self {
        Self {
            compete,
            value: 1.0,
            history: [0.0; HISTORY],
            recorded: 0,
            updated: None,
            lossy: 0.0,
            lost: false,
        }
    }

    fn seconds(&self) -> f64 {
        self.value * LOW_TARGET.as_secs_f64()
    }

    fn end_round(&mut self) {
        self.lossy += LOSS_GAIN * (f64::from(u8::from(self.lost)) - self.lossy);
        self.lost = false;
    }

    /// Adjusts the target to the queueing delays of the last ten seconds.
    fn adjust(&mut self, now: Time, queueing: Duration) {
        if self.compete == Compete::Never
            || self.updated.is_some_and(|at| now.since(at) < HISTORY_INTERVAL)
        {
            return;
        }
        self.updated = Some(now);
        let delay = queueing.as_secs_f64() / LOW_TARGET.as_secs_f64();
        // A delay of an hour and one of a minute mean the same.
        self.history[self.recorded % HISTORY] = delay.min(1_000.0) as f32;
        self.recorded = self.recorded.wrapping_add(1);
        let last = |n: usize| {
            let n = n.min(self.recorded).max(1);
            let samples = (1..=n)
                .map(|back| f64::from(self.history[self.recorded.wrapping_sub(back) % HISTORY]));
            (n as f64, samples)
        };
        let mean = |n: usize| {
            let (n, samples) = last(n);
            samples.sum::<f64>() / n
        };
        let (all, (n, samples)) = (mean(HISTORY), last(HISTORY));
        let variance = samples.map(|sample| (sample - all).powi(2)).sum::<f64>() / n;
        let queue = mean(RECENT) + variance.sqrt();
        self.value = adjusted(self.value, queue, variance, self.lossy).clamp(1.0, HIGH_TARGET);
    }
}

/// Returns the target before its limits. `queue` is the queueing delay that other flows may keep
/// up, and `variance` the variance of the delay; `lossy` is the share of round trips with losses.
/// All delays are in smallest targets (SCReAMv2 §4.2.1).
pub fn adjusted(target: f64, queue: f64, variance: f64, lossy: f64) -> f64 {
    if lossy > LOSSY {
        1.5 * queue
    } else if variance < STEADY {
        queue
    } else if queue < 1.0 {
        queue.max(target * 0.5)
    } else {
        target * 0.9
    }
}

/// Largest numbers of bytes in flight in this round trip and the previous one.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    now: u64,
    before: u64,
}

impl Flight {
    /// Returns the reference window in bytes that the data in flight justify (SCReAMv2 §4.2.2).
    fn justifies(self, datagram: f64) -> f64 {
        datagram + self.now.max(self.before) as f64 * HEADROOM
    }
}

/// The reference window when congestion last began.
#[derive(Clone, Copy, Debug)]
struct Inflection {
    bytes: f64,
    at: Time,
}

/// The rule of SCReAMv2.
#[derive(Clone, Debug)]
pub struct Scream {
    delays: QueueDelays,
    steady: Steady,
    target: Target,
    round: RoundTrip,
    flight: Flight,
    inflection: Option<Inflection>,
    /// Time of the last loss or mark.
    congested: Option<Time>,
    /// Time of the last reduction.
    reacted: Option<Time>,
    /// `congested` and `inflection` before the last loss or mark.
    before: Option<(Option<Time>, Option<Inflection>)>,
    /// Smoothed RTT.
    smoothed: Duration,
    steps: WholeBytes,
    /// Bit rate of the media.
    rate: Option<Rate>,
}

/// Returns how far a reference window is from the window at which congestion last began, from 0.1
/// (the same) to 1 (SCReAMv2 §4.2.2).
pub fn distance(window: f64, inflection: f64) -> f64 {
    (8.0 * (window - inflection) / inflection).powi(2).clamp(0.1, 1.0)
}

/// Returns the fraction by which a queueing delay reduces the window, with all times in seconds:
/// from 0 at half the target to a half at the target, and less on paths with a long round trip
/// (SCReAMv2 §4.2.2).
pub fn backoff(average: f64, target: f64, rtt: f64) -> f64 {
    let half = target / 2.0;
    let alpha = ((average - half) / half).clamp(0.0, 1.0);
    alpha / 2.0 / (rtt / VIRTUAL_RTT.as_secs_f64()).max(1.0)
}

/// Returns the bit rate of the media in bytes per second. Windows are in bytes, and `rtt` in
/// seconds (SCReAMv2 §4.4).
pub fn media_rate(reference: f64, datagram: f64, rtt: f64) -> f64 {
    let small = (datagram / reference - 0.1).clamp(0.0, 0.2);
    (1.0 - small) / RATE_DIVISOR * reference / rtt
}

fn reference(window: &Aimd) -> f64 {
    window.window() as f64 / OVERHEAD
}

impl Scream {
    fn distance(&self, window: &Aimd) -> f64 {
        self.inflection.map_or(1.0, |inflection| distance(reference(window), inflection.bytes))
    }

    /// Records that congestion begins at this window, at most every ten round trips.
    fn inflect(&mut self, window: &Aimd, now: Time) {
        let interval = self.smoothed.saturating_mul(INFLECTION_ROUNDS);
        if self.inflection.is_none_or(|inflection| now.since(inflection.at) > interval) {
            self.inflection = Some(Inflection { bytes: reference(window), at: now });
        }
    }

    /// Reduces the window if the queueing delay is above half the target.
    fn yield_to_queue(&mut self, window: &mut Aimd, now: Time) {
        let interval = VIRTUAL_RTT.min(self.smoothed);
        let (average, target) = (self.delays.average, self.target.seconds());
        if average <= target / 2.0
            || self.reacted.is_some_and(|at| now.since(at) < interval)
            || window.in_recovery()
        {
            return;
        }
        self.inflect(window, now);
        self.reacted = Some(now);
        let share = backoff(average, target, self.smoothed.as_secs_f64());
        window.cut_by((window.window() as f64 * share) as u64);
    }

    /// Grows the window for acknowledged bytes.
    fn grow(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, distance: f64) {
        let (reference, datagram) = (reference(window), window.datagram() as f64);
        let marked = acks.ecn.map_or(0.0, |ecn| ecn.marked());
        let acked = if window.in_recovery() { 0 } else { acks.bytes() };
        let acked = acked as f64 * (1.0 - marked);
        let calm = match self.steady {
            Steady::On => self.delays.calm(reference / datagram),
            Steady::Off => 1.0,
        };
        let rtt = self.smoothed.as_secs_f64();
        let short = (rtt / VIRTUAL_RTT.as_secs_f64()).min(1.0);
        let cautious = self.congested.map_or(1.0, |at| {
            let rounds = self.smoothed.max(VIRTUAL_RTT).as_secs_f64() * CAUTIOUS_ROUNDS;
            (acks.now.since(at).as_secs_f64() / rounds).min(1.0)
        });
        let proportional = PROPORTIONAL_GROWTH * reference / datagram * cautious * distance;
        let growth = acked
            * (datagram / reference).min(1.0)
            * short
            * distance.max(0.25)
            * calm
            * (1.0 + proportional);
        let justified = reference + growth <= self.flight.justifies(datagram);
        if justified || !acks.app_limited {
            window.grow_by(self.steps.add(growth * OVERHEAD).unsigned_abs());
        }
    }
}

impl WindowRule for Scream {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, _acked: u64) {
        self.smoothed = acks.rtt.smoothed.max(Duration::from_micros(1));
        self.flight.now = self.flight.now.max(acks.in_flight.saturating_add(acks.bytes()));
        self.delays.on_ack(acks, reference(window) / window.datagram() as f64);
        self.target.adjust(acks.now, self.delays.queue.queueing().unwrap_or_default());
        let distance = self.distance(window);
        self.yield_to_queue(window, acks.now);
        self.grow(window, acks, distance);
        if self.round.on_ack(acks) {
            self.flight = Flight { now: 0, before: self.flight.now };
            self.target.end_round();
        }
        let rtt = self.smoothed.as_secs_f64();
        let rate = media_rate(reference(window), window.datagram() as f64, rtt);
        self.rate = Some(Rate::from_bytes_per_sec((rate as u64).max(1)));
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if window.begins_recovery(event) {
            self.before = Some((self.congested, self.inflection));
        }
        self.congested = Some(event.now);
        self.target.lost |= matches!(event.cause, Cause::Loss { .. });
        if window.begins_recovery(event) {
            self.inflect(window, event.now);
        }
        let kept = if event.cause == Cause::Mark { KEPT_AFTER_MARK } else { KEPT_AFTER_LOSS };
        if window.on_congestion_event(event, kept) {
            self.reacted = Some(event.now);
        }
    }

    fn on_spurious_congestion_event(&mut self, restored: bool) {
        if let Some(before) = self.before.take().filter(|_| restored) {
            (self.congested, self.inflection) = before;
        }
    }

    fn pacing(&self) -> Pacing {
        self.rate.map_or(Pacing::Window, |rate| {
            let paced = PACING_GAIN * LEAST_PACED.max(rate.bits_per_sec() as f64 / 8.0);
            Pacing::Rate(Rate::from_bytes_per_sec(paced as u64))
        })
    }

    /// Adds `queueing`: the newest queueing delay; and `media_rate`.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        let queueing = self.delays.queue.queueing();
        ControllerMetrics { queueing, media_rate: self.rate, ..window }
    }
}

const PAGE: Page = Page {
    about: "SCReAMv2 (Johansson, Westerlund, Kühlewind) is for live media, such as video calls and remote
control. It tells the media source which bit rate to send: its reference window per round trip,
divided by 1.2. The reference window shrinks while more than half of the target of 60 ms waits in the
queue. A longer queue shrinks it faster. It grows by one packet and up to 2 % per round trip, and more
slowly near the window at which the queue last built up. If other flows keep the queue filled, the
target rises to up to 400 ms.",
    departures: "The data in flight are limited to 1.5 reference windows. L4S is not implemented. The
window also grows while the application is the limit, if at least two thirds of the reference window
were in flight. By default, `scream` uses one-way delays if the peer reports them, and RTTs otherwise.",
    figure: "SCReAMv2 and the scripted queue",
    to_see: "The window shrinks while more than 30 ms wait, and stays small as long as the queue lasts. The
spike of 30 ms does not reduce the window.",
    weakness: "The queue may have 30 ms before the window shrinks. Growth is slow: from the initial window,
SCReAMv2 needs many seconds to fill a fast path, so it is not for downloads. Beside flows that fill
the queue, media nearly starve unless `steady=off` is set. With it, the target and the delay rise, also
because of SCReAMv2's own queue.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_reduces_the_window_between_half_the_target_and_the_target() {
        for (average, rtt, share) in
            [(0.030, 0.025, 0.0), (0.045, 0.025, 0.25), (0.060, 0.010, 0.5), (0.090, 0.100, 0.125)]
        {
            assert!((backoff(average, 0.060, rtt) - share).abs() < 1e-12, "{average} s, {rtt} s");
        }
    }

    #[test]
    fn average_falls_at_once_and_rises_by_a_quarter() {
        assert_eq!((average(0.04, 0.01), average(0.04, 0.08)), (0.01, 0.05));
    }

    #[test]
    fn target_follows_a_queue_that_others_fill() {
        assert!((adjusted(1.0, 3.0, 0.1, 0.0) - 3.0).abs() < 1e-12, "the queue is steady");
        assert!((adjusted(1.0, 3.0, 0.5, 0.01) - 4.5).abs() < 1e-12, "packets are lost");
        assert!((adjusted(4.0, 3.0, 0.5, 0.0) - 3.6).abs() < 1e-12, "the queue varies");
        assert!((adjusted(4.0, 0.5, 0.5, 0.0) - 2.0).abs() < 1e-12, "the queue is short");
    }

    #[test]
    fn history_keeps_the_last_two_hundred_delays() {
        let mut target = Target::new(Compete::Detect);
        let mut at = |n: u64, ms| {
            target.adjust(Time::from_millis(50 * n), Duration::from_millis(ms));
            target.value
        };
        let high = (0..200).map(|n| at(n, 180)).last();
        assert!(high.is_some_and(|high| (high - 3.0).abs() < 1e-6), "{high:?}");
        let low = (200..450).map(|n| at(n, 0)).last();
        assert_eq!(low, Some(1.0));
    }

    #[test]
    fn growth_is_slow_near_the_inflection_point() {
        for (window, share) in [(100.0, 0.1), (105.0, 0.16), (112.5, 1.0), (60.0, 1.0)] {
            assert!((distance(window, 100.0) - share).abs() < 1e-12, "{window}");
        }
    }

    #[test]
    fn media_get_five_sixths_of_the_window_per_round_trip() {
        assert!((media_rate(120_000.0, 1_200.0, 0.1) - 1_000_000.0).abs() < 1e-6);
        let small = media_rate(2_400.0, 1_200.0, 0.1) / (2_400.0 / 0.12);
        assert!((small - 0.8).abs() < 1e-12, "{small}");
    }
}
