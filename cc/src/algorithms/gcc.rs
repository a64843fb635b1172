//! GCC (draft-ietf-rmcat-gcc-02): the congestion control of video calls in browsers, as far as the
//! draft describes it.
//!
//! GCC controls a bit rate. A Kalman filter estimates by how much the delay grows from one group of
//! packets to the next. If the delay grows faster than an adaptive threshold, the path is overused
//! and the rate falls to 0.85 of the received rate. Otherwise the rate rises, and more slowly near
//! the rate at which the path was last overused. A second limit of the rate follows the share of
//! lost packets.
//!
//! # Departures
//! - **Window**: a stack needs a window; the draft has none. The window is the rate times the RTT
//!   and 100 ms, so that it hardly ever limits media. A sender that fills the window sends faster
//!   than the rate, so a decrease starts from the rate if the received rate is larger, and the rate
//!   falls at most once per response time. The draft measures the received rate instead.
//! - **Pacing** at 2.5 times the rate, as in libwebrtc. The draft paces at the rate.
//! - **Growth of the delay**: the estimate is multiplied by the number of groups, up to 60, before
//!   it is compared with the threshold, as in libwebrtc. The draft does not say so, but its values
//!   of the threshold fit only this product.
//! - **Samples**: ACK frames tell the delay of their newest packet. The delay of a group is that of
//!   the newest packet of which it is known, and only send times decide which packets are a group.
//!   With RTTs (`signal=rtt`), a queue on the way back counts too. A gap of a second starts over.
//! - **Weight of the noise**: the draft takes the shortest interval between the last groups; here,
//!   it is the interval between these two groups, and the power is its first-order approximation.
//!   The threshold follows these intervals, too, and not the times of arrival.
//! - **Growth near convergence** has no minimum of 1000 bits per update, because updates come with
//!   every ACK frame. The deviation of the received rates counts as at least 5 % of their mean.
//! - **Largest rate**: at 1.5 received rates, the rate stops to grow; it is not lowered.
//! - **Losses** are evaluated once per second, by bytes, and limit the rate only after more than a
//!   tenth was lost, until the limit is 1.5 times the rate. The draft evaluates every report.
//!   Persistent congestion reduces the window to two packets (RFC 9002 §7.6), and the rate
//!   accordingly. Marks have no effect.
//! - **Recovery**: neither the window nor the rate grows.
//! - **First rate**: the one that fits QUIC's first window (RFC 9002 §7.2).

use std::time::Duration;

use crate::aimd::{Aimd, initial_window};
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::controller::{ControllerMetrics, Pacing};
use crate::event::{AckEvent, Cause, CongestionEvent};
use crate::options::{Values, options};
use crate::rule::{RuleConfig, RuleOptions, WindowRule};
use crate::signal::{Delays, Signal, capabilities_by_signal};
use crate::units::{OneWayDelay, Rate, Ratio, Time};

/// Send time that the packets of a group span (GCC §5.2).
pub const BURST: Duration = Duration::from_millis(5);
/// Variance of the state noise in ms² (GCC §5.6: q).
pub const STATE_NOISE: f64 = 1e-3;
/// First variance of the estimate in ms² (GCC §5.6: e(0)).
pub const FIRST_ERROR: f64 = 0.1;
/// Coefficient of the variance of the noise, at 30 groups per second (GCC §5.6: chi, from 0.001
/// to 0.1).
pub const NOISE_COEFFICIENT: f64 = 0.01;
/// First threshold in ms (GCC §5.6: `del_var_th(0)`), and its limits (GCC §5.4).
pub const FIRST_THRESHOLD: f64 = 12.5;
const THRESHOLDS: (f64, f64) = (6.0, 600.0);
/// Distance in ms beyond which an estimate does not change the threshold (GCC §5.4).
const OUTLIER: f64 = 15.0;
/// Gain of the threshold per ms, for estimates above it (GCC §5.6: `K_u`).
pub const GAIN_UP: f64 = 0.01;
/// Gain of the threshold per ms, for estimates below it (GCC §5.6: `K_d`).
pub const GAIN_DOWN: f64 = 0.00018;
/// Time for which the delay must grow until the path counts as overused (GCC §5.6).
pub const OVERUSE_TIME: Duration = Duration::from_millis(10);
/// Largest number of groups by which an estimate is multiplied (libwebrtc, `kMinNumDeltas`).
const MOST_GROUPS: u32 = 60;
/// Share of the received rate that remains after overuse (GCC §5.6: beta).
pub const KEPT: f64 = 0.85;
/// Growth per second far from convergence, compounded with every ACK frame: ln 1.08 (GCC §5.5: by
/// 8 % per second).
pub const GROWTH: f64 = 0.077;
/// Rate at which growth stops, in received rates (GCC §5.5).
pub const MOST_OF_RECEIVED: f64 = 1.5;
/// Weight of a received rate at overuse in their average (GCC §5.5: the smoothing factor is 0.95).
const AVERAGE_GAIN: f64 = 0.05;
/// Distance from the average in standard deviations within which the rate is near convergence
/// (GCC §5.5).
const NEAR: f64 = 3.0;
/// Time that the response time adds to the RTT, in seconds (GCC §5.5).
const RESPONSE: f64 = 0.1;
/// Frames per second and bytes per packet that near-convergence growth assumes (GCC §5.5).
const FRAMES: f64 = 30.0;
const PACKET: f64 = 1_200.0;
/// Gap without groups or acknowledgements after which estimates start over (ours).
const GAP: Duration = Duration::from_secs(1);
/// Time over which the received rate is measured (GCC §5.5: 0.5 to 1 s), in parts.
const RECEIVED_PARTS: usize = 10;
const RECEIVED_PART: Duration = Duration::from_millis(50);
/// Interval between evaluations of losses.
const LOSS_INTERVAL: Duration = Duration::from_secs(1);
/// Share of lost packets below which the rate rises (GCC §6).
pub const FEW_LOST: f64 = 0.02;
/// Share of lost packets above which the rate falls (GCC §6).
pub const MANY_LOST: f64 = 0.1;
/// Factor of the rate if few packets are lost (GCC §6).
pub const LOSS_GROWTH: f64 = 1.05;
/// Time that the window adds to the round trip: three frames at 30 frames per second (ours).
const WINDOW_TIME: f64 = 0.1;
/// Pacing rate in bit rates (libwebrtc, `kDefaultPaceMultiplier`).
const PACING_GAIN: f64 = 2.5;
/// Smallest and largest rate, in bytes per second: 20 kbps and 80 Gbps (ours).
const RATES: (f64, f64) = (2_500.0, 1e10);

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "gcc",
    summary: "GCC: for live media; sets the bit rate of the source by the growth of the delay, as in \
        video calls in browsers",
    source: "draft-ietf-rmcat-gcc-02",
    contract: Contract {
        loss: Ratio::ONE,
        doubles: false,
        one_per_round: false,
        grows_app_limited: true,
        least: initial_window,
        after_collapse: Ratio::new(2_419, 1_200),
        ..Contract::AS_RENO
    },
    page: PAGE,
    ..Algorithm::of_rule::<GccConfig>()
};

options! {
    /// The configuration `gcc`.
    pub struct GccConfig {
        /// delay to use: one-way, RTT, or (either) RTT until the peer reports one-way delays
        signal: Signal = "either" in Values::Choice(Signal::NAMES),
    }
}

// There is no slow start.
impl RuleOptions for GccConfig {}

impl RuleConfig for GccConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Gcc;

    fn rule(&self, _window: &Aimd, _now: Time) -> Gcc {
        Gcc {
            groups: Groups::new(self.signal),
            measured: None,
            detector: Detector::default(),
            received: Received::default(),
            losses: Losses::default(),
            state: State::Increase,
            converged: None,
            decreased: None,
            rate: None,
            before_collapse: None,
            updated: None,
            rtt: 0.0,
        }
    }

    capabilities_by_signal!("gcc", Capabilities { pacing: true, ..Capabilities::NONE });
}

/// A group of packets that were sent within [`BURST`].
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Time,
    /// Send time and delay of the newest packet with a delay.
    sent: Time,
    delay: OneWayDelay,
}

/// Groups of packets and the differences of their delays.
#[derive(Clone, Copy, Debug)]
struct Groups {
    delays: Delays,
    current: Option<Group>,
    before: Option<Group>,
}

/// Two successive groups.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Difference of the delays in ms.
    delay: f64,
    /// Difference of the send times in ms.
    sent: f64,
}

impl Groups {
    const fn new(signal: Signal) -> Self {
        Self { delays: Delays::new(signal), current: None, before: None }
    }

    /// Records the delay of an ACK frame. Returns a step if the frame completes a group.
    fn on_ack(&mut self, acks: &AckEvent<'_>) -> Option<Step> {
        let (sample, sent) = (self.delays.sample(acks)?, acks.newest_sent()?);
        let delay = sample.delay;
        if sample.restarts {
            (self.current, self.before) = (None, None);
        }
        match &mut self.current {
            Some(group) if sent < group.sent => return None,
            Some(group) if sent.since(group.first_sent) < BURST => {
                (group.sent, group.delay) = (sent, delay);
                return None;
            }
            _ => {}
        }
        let complete = self.current.replace(Group { first_sent: sent, sent, delay });
        let before = std::mem::replace(&mut self.before, complete);
        let (before, complete) = before.zip(complete)?;
        if complete.sent.since(before.sent) > GAP {
            return None;
        }
        let delay = complete.delay.as_nanos() as f64 - before.delay.as_nanos() as f64;
        let sent = complete.sent.since(before.sent).as_secs_f64() * 1e3;
        Some(Step { delay: delay / 1e6, sent })
    }
}

/// Use of the path as the detector sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Usage {
    /// The delay neither grows nor falls.
    #[default]
    Normal,
    /// The delay grows.
    Over,
    /// The delay falls.
    Under,
}

/// The arrival-time filter and the detector of overuse (GCC §5.3 and GCC §5.4). All times are in
/// ms.
#[derive(Clone, Copy, Debug)]
struct Detector {
    /// Estimated growth of the delay from group to group, and the variance of the estimate.
    growth: f64,
    error: f64,
    /// Variance of the noise.
    noise: f64,
    groups: u32,
    threshold: f64,
    /// Time for which the product has been above the threshold.
    above: f64,
    usage: Usage,
}

impl Default for Detector {
    fn default() -> Self {
        Self {
            growth: 0.0,
            error: FIRST_ERROR,
            noise: 1.0,
            groups: 0,
            threshold: FIRST_THRESHOLD,
            above: 0.0,
            usage: Usage::Normal,
        }
    }
}

impl Detector {
    fn on_step(&mut self, step: Step) {
        let before = self.growth;
        self.estimate(step);
        self.groups = (self.groups + 1).min(MOST_GROUPS);
        let product = self.growth * f64::from(self.groups);
        self.above = if product > self.threshold { self.above + step.sent } else { 0.0 };
        let lasts = self.above > OVERUSE_TIME.as_secs_f64() * 1e3;
        self.usage = if product < -self.threshold {
            Usage::Under
        } else if lasts && self.growth >= before {
            // Growth that slows down does not count (GCC §5.4).
            Usage::Over
        } else {
            Usage::Normal
        };
        self.threshold = threshold(self.threshold, product, step.sent);
    }

    /// Updates the Kalman filter (GCC §5.3).
    fn estimate(&mut self, step: Step) {
        let residual = step.delay - self.growth;
        let limit = 3.0 * self.noise.sqrt();
        let clipped = residual.clamp(-limit, limit);
        // At 30 groups per second, the exponent 30 / (1000 f) is 1.
        let weight = (NOISE_COEFFICIENT * 0.03 * step.sent).min(1.0);
        self.noise = (self.noise + weight * (clipped * clipped - self.noise)).max(1.0);
        let variance = self.error + STATE_NOISE;
        let gain = variance / (self.noise + variance);
        self.growth += gain * residual;
        self.error = (1.0 - gain) * variance;
    }
}

/// Returns the threshold after a product of the estimate, `ms` after the last one (GCC §5.4).
pub fn threshold(threshold: f64, product: f64, ms: f64) -> f64 {
    let distance = product.abs() - threshold;
    if distance > OUTLIER {
        return threshold;
    }
    let gain = if distance < 0.0 { GAIN_DOWN } else { GAIN_UP };
    (threshold + ms.min(100.0) * gain * distance).clamp(THRESHOLDS.0, THRESHOLDS.1)
}

/// Bytes acknowledged in the last half second.
#[derive(Clone, Copy, Debug, Default)]
struct Received {
    parts: [u64; RECEIVED_PARTS],
    /// Number of the newest part since time zero.
    newest: u64,
    began: Option<Time>,
    last: Option<Time>,
}

impl Received {
    fn on_ack(&mut self, now: Time, bytes: u64) {
        if now.since(self.last.unwrap_or(now)) > GAP {
            *self = Self::default();
        }
        self.last = Some(now);
        let part = now.as_nanos() / RECEIVED_PART.as_nanos() as u64;
        let passed = part.saturating_sub(self.newest).min(RECEIVED_PARTS as u64);
        for back in 0..passed {
            self.parts[((part - back) % RECEIVED_PARTS as u64) as usize] = 0;
        }
        self.newest = self.newest.max(part);
        self.began.get_or_insert(now);
        let newest = &mut self.parts[(self.newest % RECEIVED_PARTS as u64) as usize];
        *newest = newest.saturating_add(bytes);
    }

    /// Returns the rate in bytes per second; `None` in the first half second.
    fn rate(&self, now: Time) -> Option<f64> {
        let whole = RECEIVED_PART * RECEIVED_PARTS as u32;
        self.began.filter(|began| now.since(*began) >= whole)?;
        let bytes = self.parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
        // The newest part is not complete yet.
        let ahead = (self.newest + 1).saturating_mul(RECEIVED_PART.as_nanos() as u64);
        let missing = Time::from_nanos(ahead).since(now).min(RECEIVED_PART);
        Some(bytes as f64 / (whole - missing).as_secs_f64())
    }
}

/// Loss-based control (GCC §6).
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    acked: u64,
    lost: u64,
    since: Option<Time>,
    /// Limit of the rate in bytes per second; `None` unless many packets were lost.
    limit: Option<f64>,
}

impl Losses {
    /// Evaluates the losses once per second. `rate` is the present rate.
    fn evaluate(&mut self, now: Time, rate: f64) {
        let since = *self.since.get_or_insert(now);
        if now.since(since) < LOSS_INTERVAL {
            return;
        }
        let all = self.acked.saturating_add(self.lost).max(1) as f64;
        let limit = after_losses(self.limit.unwrap_or(rate), self.lost as f64 / all);
        let limits = limit < rate || self.limit.is_some() && limit < rate * MOST_OF_RECEIVED;
        let limit = limits.then(|| limit.clamp(RATES.0, RATES.1));
        *self = Self { since: Some(now), limit, ..Self::default() };
    }
}

/// Returns the limit of the rate after an interval with this share of lost packets (GCC §6).
pub fn after_losses(limit: f64, share: f64) -> f64 {
    if share > MANY_LOST {
        limit * (1.0 - 0.5 * share)
    } else if share < FEW_LOST {
        limit * LOSS_GROWTH
    } else {
        limit
    }
}

/// State of the rate control (GCC §5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Increase,
    Hold,
    Decrease,
}

/// Average and variance of the received rates at overuse.
#[derive(Clone, Copy, Debug)]
struct Converged {
    mean: f64,
    variance: f64,
}

impl Converged {
    fn add(this: Option<Self>, rate: f64) -> Self {
        let Some(Self { mean, variance }) = this else {
            return Self { mean: rate, variance: 0.0 };
        };
        let from = rate - mean;
        let variance = (1.0 - AVERAGE_GAIN) * (variance + AVERAGE_GAIN * from * from);
        Self { mean: mean + AVERAGE_GAIN * from, variance }
    }

    /// Returns whether a rate is within three standard deviations. A deviation counts as at least
    /// 5 % of the mean, because the first one is zero.
    fn is_near(&self, rate: f64) -> bool {
        (rate - self.mean).abs() < NEAR * self.variance.sqrt().max(0.05 * self.mean)
    }
}

/// The rule of GCC.
#[derive(Clone, Debug)]
pub struct Gcc {
    groups: Groups,
    /// Time of the last step of the detector.
    measured: Option<Time>,
    detector: Detector,
    received: Received,
    losses: Losses,
    state: State,
    converged: Option<Converged>,
    /// Time of the last decrease.
    decreased: Option<Time>,
    /// Rate in bytes per second; `None` before the first RTT.
    rate: Option<f64>,
    /// Rate before the last persistent congestion.
    before_collapse: Option<f64>,
    /// Time of the last ACK frame.
    updated: Option<Time>,
    /// Smoothed RTT in seconds.
    rtt: f64,
}

/// Returns the growth of a rate near convergence, in bytes per second: half a packet per response
/// time, which is the RTT and 100 ms (GCC §5.5). All times are in seconds.
pub fn growth_near_convergence(rate: f64, rtt: f64, seconds: f64) -> f64 {
    let frame = rate / FRAMES;
    let packet = frame / (frame / PACKET).ceil().max(1.0);
    0.5 * (seconds / (RESPONSE + rtt)).min(1.0) * packet
}

impl Gcc {
    /// Returns the bytes in flight that a rate may have.
    fn window_of(&self, rate: f64) -> f64 {
        rate * (self.rtt + WINDOW_TIME)
    }

    /// Returns the rate that fits a window.
    fn rate_of(&self, window: &Aimd) -> f64 {
        window.window() as f64 / (self.rtt + WINDOW_TIME)
    }

    /// Returns the next rate by the state of the path, `seconds` after the last one.
    fn by_delay(&mut self, now: Time, rate: f64, seconds: f64) -> f64 {
        let received = self.received.rate(now);
        let response = self.rtt + RESPONSE;
        let recent = self.decreased.is_some_and(|at| now.since(at).as_secs_f64() < response);
        self.state = match (self.detector.usage, self.state) {
            (Usage::Over, _) if recent => State::Hold,
            (Usage::Over, _) => State::Decrease,
            (Usage::Under, _) | (Usage::Normal, State::Decrease) => State::Hold,
            (Usage::Normal, _) => State::Increase,
        };
        match self.state {
            State::Hold => rate,
            State::Decrease => {
                let Some(received) = received else { return rate };
                self.converged = Some(Converged::add(self.converged, received));
                self.decreased = Some(now);
                KEPT * rate.min(received)
            }
            State::Increase => {
                let near = self.converged.zip(received).map(|(c, rate)| (c.is_near(rate), c, rate));
                if let Some((false, converged, received)) = near
                    && received > converged.mean
                {
                    self.converged = None;
                }
                let grown = match near {
                    Some((true, ..)) => rate + growth_near_convergence(rate, self.rtt, seconds),
                    _ => rate * (1.0 + GROWTH * seconds.min(1.0)),
                };
                let most = received.map_or(f64::INFINITY, |received| MOST_OF_RECEIVED * received);
                grown.min(most.max(rate))
            }
        }
    }
}

impl WindowRule for Gcc {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, _acked: u64) {
        self.rtt = acks.rtt.smoothed.as_secs_f64();
        let seconds = self.updated.map_or(0.0, |at| acks.now.since(at).as_secs_f64());
        self.updated = Some(acks.now);
        self.received.on_ack(acks.now, acks.bytes());
        self.losses.acked = self.losses.acked.saturating_add(acks.bytes());
        if let Some(step) = self.groups.on_ack(acks) {
            self.detector.on_step(step);
            self.measured = Some(acks.now);
        } else if self.measured.is_some_and(|at| acks.now.since(at) > GAP) {
            self.detector = Detector::default();
            self.measured = None;
        }
        let rate = self.rate.unwrap_or_else(|| self.rate_of(window));
        let wanted = self.by_delay(acks.now, rate, seconds);
        self.losses.evaluate(acks.now, wanted);
        let limit = self.losses.limit.unwrap_or(f64::INFINITY);
        let most = if window.in_recovery() { rate } else { f64::INFINITY };
        let rate = wanted.min(limit).min(most).clamp(RATES.0, RATES.1);
        self.rate = Some(rate);
        let (target, now) = (self.window_of(rate) as u64, window.window());
        if target < now && self.state == State::Decrease {
            window.cut_by(now - target);
        } else if target < now {
            window.lower_by(now - target);
        } else if !window.in_recovery() {
            window.grow_by(target - now);
        }
    }

    fn kept(&self, _window: &Aimd) -> Ratio {
        Ratio::ONE
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        let Cause::Loss { bytes, persistent } = event.cause else {
            return;
        };
        self.losses.lost = self.losses.lost.saturating_add(bytes);
        window.on_congestion_event(event, self.kept(window));
        if persistent {
            self.before_collapse = self.rate;
            self.rate = Some(self.rate_of(window).clamp(RATES.0, RATES.1));
        }
    }

    fn on_spurious_congestion_event(&mut self, restored: bool) {
        if let Some(before) = self.before_collapse.take().filter(|_| restored) {
            self.rate = Some(before);
        }
    }

    fn pacing(&self) -> Pacing {
        self.rate.map_or(Pacing::Window, |rate| {
            Pacing::Rate(Rate::from_bytes_per_sec((PACING_GAIN * rate) as u64))
        })
    }

    /// Adds `media_rate`.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        let media_rate = self.rate.map(|rate| Rate::from_bytes_per_sec(rate as u64));
        ControllerMetrics { media_rate, ..window }
    }
}

const PAGE: Page = Page {
    about: "GCC (Holmer, Lundin, Carlucci, De Cicco, Mascolo) is the congestion control of video calls in
browsers. It sets the bit rate of the media source. A filter estimates whether the delay grows from
one group of packets to the next. If it grows, the rate falls to 0.85 of the received rate. Otherwise
the rate grows by 8 % per second, or by half a packet per response time near the rate at which the
delay last grew. If more than 10 % of the packets are lost, the rate also falls.",
    departures: "The window is the rate times the sum of the RTT and 100 ms, because the draft has no window. Marks
have no effect. By default, `gcc` uses one-way delays if the peer reports them, and RTTs otherwise.
The draft is from 2016; the browsers' own code has changed since.",
    figure: "GCC and the scripted queue",
    to_see: "The window shrinks while the delay grows, on the ramp. On the plateau, the delay is constant,
and the window grows again although 40 ms wait.",
    weakness: "GCC reacts to growth of the delay, not to the delay. A queue of constant length does not
slow it down, but beside a download, whose queue rises and falls, GCC nearly starves. Below 10 %, losses only pause the growth. From the first window, the rate needs half a
minute to become ten times as high.

**Do not use `gcc` for downloads.** It is for a source that follows its bit rate.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_follows_the_estimate_up_faster_than_down() {
        assert!((threshold(12.5, 20.0, 33.0) - (12.5 + 33.0 * 0.01 * 7.5)).abs() < 1e-12);
        assert!((threshold(12.5, 0.0, 33.0) - (12.5 - 33.0 * 0.00018 * 12.5)).abs() < 1e-12);
        assert!((threshold(12.5, 50.0, 33.0) - 12.5).abs() < 1e-12, "an outlier");
        assert!((threshold(6.0, 0.0, 33.0) - 6.0).abs() < 1e-12, "the smallest one");
    }

    #[test]
    fn losses_change_the_limit_below_two_and_above_ten_percent() {
        for (share, limit) in [(0.0, 105.0), (0.05, 100.0), (0.2, 90.0)] {
            assert!((after_losses(100.0, share) - limit).abs() < 1e-9, "{share}");
        }
    }

    #[test]
    fn growth_near_convergence_is_half_a_packet_per_response_time() {
        // 36,000 bytes per second are one packet of 1200 bytes per frame.
        let grown = |rtt, seconds| growth_near_convergence(36_000.0, rtt, seconds);
        assert!((grown(0.1, 0.2) - 600.0).abs() < 1e-9 && (grown(0.1, 0.02) - 60.0).abs() < 1e-9);
    }

    /// Returns the number of groups, one per 33 ms, until a delay that grows by `ms` per group
    /// counts as overuse.
    fn groups_to_overuse(ms: f64) -> Option<usize> {
        let mut detector = Detector::default();
        for _ in 0..60 {
            detector.on_step(Step { delay: 0.0, sent: 33.0 });
        }
        (1..=60).find(|_| {
            detector.on_step(Step { delay: ms, sent: 33.0 });
            detector.usage == Usage::Over
        })
    }

    #[test]
    fn growing_delay_is_detected() {
        assert_eq!(groups_to_overuse(0.0), None);
        let (slow, fast) = (groups_to_overuse(1.0), groups_to_overuse(5.0));
        assert!(slow.is_some() && fast < slow, "{slow:?} {fast:?}");
    }

    #[test]
    fn received_rate_covers_the_last_half_second() {
        let mut received = Received::default();
        let ms = Time::from_millis;
        for n in 0..100 {
            received.on_ack(ms(1_000 + 10 * n), 1_000);
        }
        assert_eq!(received.rate(ms(1_400)), None);
        let rate = received.rate(ms(1_990)).expect("a second has passed");
        assert!((rate - 100_000.0).abs() < 2_100.0, "{rate}");
        received.on_ack(ms(2_000), 1_000);
        let rate = received.rate(ms(2_000)).expect("a second has passed");
        assert!((rate - 100_000.0).abs() < 2_500.0, "{rate}");
        received.on_ack(ms(60_000), 0);
        assert_eq!(received.rate(ms(60_000)), None, "starts over after a gap");
    }
}
