//! CUBIC (RFC 9438).
//!
//! After a reduction, the window follows a cubic function of time. It returns quickly towards the
//! window at the loss, stays nearly constant around this size, and then grows faster and faster. If
//! Reno's window would be larger (short round trips, small windows), CUBIC uses Reno's window.
//!
//! All windows here are in bytes. The RFC counts segments, so C becomes `C * datagram` bytes/s³ and
//! alpha becomes `alpha * datagram` bytes.
//!
//! Departures:
//! - **Cut**: RFC 9438 §4.6 takes beta of the bytes in flight. This implementation takes beta of
//!   the window, as RFC 9002 §7.3.2 does.
//! - **Per byte, not per ACK**: the growth `(target - cwnd) / cwnd` applies to each acknowledged
//!   datagram, however many datagrams an ACK frame acknowledges.
//! - **Epoch**: an epoch starts with the first acknowledgement that may grow the window, so it
//!   includes neither recovery nor slow start. K is computed once, at this time.
//! - **W_max below the window**: an epoch that starts at or above W_max has K = 0 and W_max = cwnd,
//!   which is the rule of RFC 9438 §4.8.
//! - **Friendly region**: `cwnd = W_est` never lowers the window.
//! - **Idle**: RFC 9438 §5.8 excludes application-limited periods from the elapsed time. This
//!   implementation excludes the time between each application-limited ACK frame and the previous
//!   frame, and silences that begin with nothing in flight.
//! - **Datagram size**: a change starts a new epoch from the window and the W_max in bytes.
//! - **Slow start**: HyStart++ ends slow start only with `hystart=on`. RFC 9438 §4.10 recommends
//!   HyStart++.

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::event::{AckEvent, CongestionEvent, Sent};
use crate::math::cube_root;
use crate::options::option_values;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::undo::Undo;
use crate::units::{Ratio, Time};

/// C in segments per second³ (RFC 9438 §5).
pub const C: f64 = 0.4;
/// Fraction of the window that remains after a loss or a mark, beta_cubic (RFC 9438 §4.6).
pub const BETA: Ratio = Ratio::new(7, 10);
/// Factor by which fast convergence reduces W_max, (1 + beta_cubic) / 2 (RFC 9438 §4.7).
pub const CONVERGENCE: Ratio = Ratio::new(BETA.num() + BETA.den(), 2 * BETA.den());
/// Number of segments per round trip that give the average window of Reno with a decrease to beta:
/// alpha_cubic = 3 (1 - beta) / (1 + beta) (RFC 9438 §4.3).
pub const ALPHA: f64 = {
    let beta = BETA.num() as f64 / BETA.den() as f64;
    3.0 * (1.0 - beta) / (1.0 + beta)
};
/// Upper bound of the target, as a multiple of the window (RFC 9438 §4.2).
pub const TARGET_LIMIT: f64 = 1.5;

option_values! {
    /// Fast convergence: a flow whose window no longer reaches W_max releases more of it
    /// (RFC 9438 §4.7).
    pub enum FastConvergence {
        /// W_max becomes lower than the window at the loss.
        On = "on",
        /// W_max becomes the window at the loss.
        Off = "off",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "cubic",
    summary: "CUBIC: keeps 0.7 of the window on a loss or mark, then grows with the time since the \
        loss",
    source: "RFC 9438 §4",
    // CUBIC keeps 0.7 of the window, and its growth depends on the time since the loss
    // (RFC 9438 §4).
    contract: Contract { loss: BETA, one_per_round: false, ..Contract::AS_RENO },
    page: PAGE,
    ..Algorithm::of_rule::<CubicConfig>()
};

rule_options! {
    /// The configuration `cubic`.
    pub struct CubicConfig {
        /// level off earlier if the window at a loss is smaller than at the previous loss; use off
        /// for a lone flow
        fast_convergence: FastConvergence,
    }
}

impl RuleConfig for CubicConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Cubic;

    fn rule(&self, _window: &Aimd, now: Time) -> Cubic {
        Cubic {
            fast_convergence: self.fast_convergence,
            curve: Curve::default(),
            undo: Undo::default(),
            last: now,
            drained: false,
        }
    }
}

/// Returns K = cbrt((W_max - cwnd_epoch) / C): the time in seconds until the curve is back at W_max
/// (RFC 9438 §4.2). `c` is in bytes/s³.
pub const fn k(w_max: f64, cwnd_epoch: f64, c: f64) -> f64 {
    cube_root((w_max - cwnd_epoch) / c)
}

/// Returns W_cubic(t) = C (t - K)³ + W_max, in bytes (RFC 9438 §4.2). `t` and `k` are in seconds,
/// and `c` is in bytes/s³.
pub const fn w_cubic(t: f64, k: f64, w_max: f64, c: f64) -> f64 {
    let d = t - k;
    c * d * d * d + w_max
}

/// Returns the target for the window after the next round trip, in bytes: W_cubic(t + RTT), limited
/// to the range from cwnd to 1.5 cwnd (RFC 9438 §4.2).
pub const fn target(w_cubic: f64, cwnd: f64) -> f64 {
    w_cubic.max(cwnd).min(TARGET_LIMIT * cwnd)
}

/// Returns alpha. It is Reno's 1 if W_est has reached the window before the last reduction, and
/// alpha_cubic otherwise (RFC 9438 §4.3).
pub const fn alpha(w_est: f64, cwnd_prior: f64) -> f64 {
    if w_est >= cwnd_prior { 1.0 } else { ALPHA }
}

/// Returns W_max after a reduction from a window of `cwnd` bytes (RFC 9438 §4.7).
pub const fn next_w_max(cwnd: u64, w_max: Option<u64>, fast_convergence: FastConvergence) -> u64 {
    match (w_max, fast_convergence) {
        (Some(w_max), FastConvergence::On) if cwnd < w_max => CONVERGENCE.of(cwnd),
        _ => cwnd,
    }
}

/// CUBIC's own state that a reduction changes.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// W_max in bytes; `None` before the first loss and after a timeout.
    w_max: Option<u64>,
    /// cwnd_prior in bytes: the window before the last reduction.
    cwnd_prior: Option<u64>,
    /// The current congestion avoidance stage.
    epoch: Option<Epoch>,
}

/// One congestion avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Start of the epoch, t_epoch, moved forward by the periods that do not count as time.
    start: Time,
    /// K in seconds.
    k: f64,
    /// W_max in bytes.
    w_max: f64,
    /// C in bytes/s³.
    c: f64,
    /// W_est in bytes.
    w_est: f64,
    /// cwnd_prior in bytes.
    cwnd_prior: f64,
    /// Fraction of a byte that growth has earned but not yet added to the window.
    carry: f64,
}

impl Curve {
    /// Ends the epoch because of a reduction from a window of `cwnd` bytes.
    fn reduce(&mut self, cwnd: u64, fast_convergence: FastConvergence) {
        let w_max = next_w_max(cwnd, self.w_max, fast_convergence);
        *self = Self { w_max: Some(w_max), cwnd_prior: Some(cwnd), epoch: None };
    }

    /// Ends the epoch because of a timeout. The next epoch starts from its own window
    /// (RFC 9438 §4.8).
    fn collapse(&mut self) {
        (self.w_max, self.epoch) = (None, None);
    }

    /// Returns the current epoch, or starts one now with a window of `cwnd` bytes (RFC 9438 §4.2;
    /// without W_max RFC 9438 §4.10).
    fn epoch(&mut self, now: Time, cwnd: u64, datagram: u64) -> &mut Epoch {
        let Self { w_max, cwnd_prior, epoch } = self;
        epoch.get_or_insert_with(|| {
            let w_max = *w_max.insert(w_max.unwrap_or(cwnd).max(cwnd)) as f64;
            let cwnd_prior = *cwnd_prior.get_or_insert(cwnd) as f64;
            let c = C * datagram as f64;
            Epoch {
                start: now,
                k: k(w_max, cwnd as f64, c),
                w_max,
                c,
                w_est: cwnd as f64,
                cwnd_prior,
                carry: 0.0,
            }
        })
    }

    /// Excludes `time` from the elapsed time (RFC 9438 §5.8).
    fn pause(&mut self, time: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += time;
        }
    }
}

impl Epoch {
    /// Returns the bytes by which the window grows if `acked` bytes are acknowledged at `now`. The
    /// window is `cwnd` bytes, and the smoothed RTT is `rtt` seconds.
    fn growth(&mut self, now: Time, rtt: f64, acked: u64, cwnd: u64, datagram: u64) -> u64 {
        let t = now.as_nanos().saturating_sub(self.start.as_nanos()) as f64 * 1e-9;
        let window = cwnd as f64;
        // A frame counts for at most one window.
        let share = acked.min(cwnd) as f64 / window;
        self.w_est += alpha(self.w_est, self.cwnd_prior) * datagram as f64 * share;
        if w_cubic(t, self.k, self.w_max, self.c) < self.w_est {
            self.carry = 0.0;
            return (self.w_est - window).max(0.0) as u64;
        }
        let wanted = target(w_cubic(t + rtt, self.k, self.w_max, self.c), window);
        let earned = (wanted - window) * share + self.carry;
        let whole = earned as u64;
        self.carry = earned - whole as f64;
        whole
    }
}

/// The rule of CUBIC.
#[derive(Clone, Debug)]
pub struct Cubic {
    fast_convergence: FastConvergence,
    curve: Curve,
    /// Curve before the last loss.
    undo: Undo<Curve>,
    /// Time up to which the elapsed time has been counted: the last ACK frame, or the end of a
    /// silence.
    last: Time,
    /// Whether nothing was in flight after the last ACK frame.
    drained: bool,
}

impl Cubic {
    /// Starts a new epoch with the next growth, whose W_max is `window` bytes, as after a loss with
    /// this window.
    pub(crate) fn aim(&mut self, window: u64) {
        self.curve = Curve { w_max: Some(window), cwnd_prior: Some(window), epoch: None };
    }
}

impl WindowRule for Cubic {
    fn on_sent(&mut self, sent: &Sent) {
        if self.drained {
            self.curve.pause(sent.now.since(self.last));
            (self.last, self.drained) = (sent.now, false);
        }
    }

    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        if acks.app_limited {
            self.curve.pause(acks.now.since(self.last));
        }
        (self.last, self.drained) = (acks.now, acks.in_flight == 0);
        let acked = window.grow_slow_start(acked);
        if acked > 0 {
            let (cwnd, datagram) = (window.window(), window.datagram());
            let epoch = self.curve.epoch(acks.now, cwnd, datagram);
            window.grow_by(epoch.growth(
                acks.now,
                acks.rtt.smoothed.as_secs_f64(),
                acked,
                cwnd,
                datagram,
            ));
        }
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if window.begins_recovery(event) {
            if event.is_loss() {
                self.undo.save(&self.curve);
            }
            self.curve.reduce(window.window(), self.fast_convergence);
        }
        if window.on_congestion_event(event, BETA) && event.is_persistent() {
            self.curve.collapse();
        }
    }

    fn on_spurious_congestion_event(&mut self, restored: bool) {
        // A window that has outgrown the one at the loss keeps all its values, including the curve
        // (RFC 9438 §4.9.2). After a mark, there is nothing to restore. `restored` is false in
        // both cases.
        if let Some(curve) = self.undo.take().filter(|_| restored) {
            self.curve = curve;
        }
    }

    fn on_datagram(&mut self, _bytes: u16) {
        self.curve.epoch = None;
    }
}

const PAGE: Page = Page {
    about: "CUBIC (RFC 9438) is the default of most stacks, so delay-based controllers have to share links with
it. After a loss or a mark, CUBIC keeps 0.7 of the window. Growth then depends on the time since the
loss. The window first grows fast, then slowly while it is near its size before the loss, and then
fast again. If Reno's window would be larger, as with short round trips or small windows, CUBIC uses
Reno's window.",
    departures: "A cut leaves 0.7 of the window, not 0.7 of the bytes in flight. Growth depends
on the number of acknowledged bytes, not on the number of ACKs. An epoch begins with the first
acknowledgement that may grow the window. The time of an epoch excludes periods in which the
application limits the sender or no packet is in flight. HyStart++, which the RFC recommends, is off
by default.",
    figure: "CUBIC and the scripted queue",
    to_see: "A mark reduces the window from 200 to 140 packets. After K = cbrt(60 / 0.4) = 5.3 s
the window is back at 200 packets. The window then stays nearly constant for a while, and grows
further afterwards. The growth depends on time, not on the RTT.",
    weakness: "CUBIC's queue is longer than Reno's, because CUBIC stays longer near the window at which
packets are lost. The queueing delay of a lone flow is 29 ms on average with CUBIC, and 22 ms with
Reno.",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 5e-4, "{value} against {expected}");
    }

    #[test]
    fn cubic_k_is_the_time_until_the_window_returns_to_w_max() {
        // In segments, after a cut to 70 %: cbrt(30 / 0.4) = cbrt(75), cbrt(3 / 0.4) = cbrt(7.5),
        // cbrt(3000 / 0.4) = cbrt(7500).
        near(k(100.0, 70.0, C), 4.2172);
        near(k(10.0, 7.0, C), 1.9574);
        near(k(10_000.0, 7_000.0, C), 19.5743);
        assert_eq!(k(100.0, 100.0, C), 0.0);
        // In bytes, both W_max - cwnd and C are multiplied by the datagram size, so K is the same.
        near(k(120_000.0, 84_000.0, C * 1_200.0), 4.2172);
    }

    #[test]
    fn cubic_window_after_t_seconds_follows_rfc_9438() {
        // W_max 100, K = cbrt(75): 0.4 (t - 4.21716)^3 + 100.
        let w = |t| w_cubic(t, cube_root(75.0), 100.0, C);
        for (t, window) in [
            (0.0, 70.0),
            (1.0, 86.6808),
            (2.0, 95.6406),
            (4.217_163_326, 100.0),
            (8.434_326_653, 130.0),
        ] {
            near(w(t), window);
        }
        near(w_cubic(5.0, 0.0, 20.0, C), 70.0);
    }

    #[test]
    fn cubic_target_lies_between_one_and_one_and_a_half_windows() {
        for (w_cubic, expected) in
            [(90.0, 100.0), (100.0, 100.0), (120.0, 120.0), (150.0, 150.0), (1e9, 150.0)]
        {
            assert_eq!(target(w_cubic, 100.0), expected);
        }
    }

    #[test]
    fn cubic_alpha_becomes_1_at_the_window_before_the_reduction() {
        near(ALPHA, 0.5294);
        assert_eq!((alpha(99.9, 100.0), alpha(100.0, 100.0)), (ALPHA, 1.0));
    }

    #[test]
    fn fast_convergence_lowers_a_falling_w_max() {
        use FastConvergence::{Off, On};
        assert_eq!(next_w_max(100_000, None, On), 100_000);
        assert_eq!(next_w_max(100_000, Some(100_000), On), 100_000);
        assert_eq!(next_w_max(100_000, Some(100_001), On), 85_000);
        assert_eq!(next_w_max(100_000, Some(100_001), Off), 100_000);
    }

    /// Returns an epoch with datagrams of one byte, so that windows are in segments.
    fn epoch(w_max: u64, cwnd: u64) -> Epoch {
        let mut curve = Curve { w_max: Some(w_max), cwnd_prior: Some(w_max), epoch: None };
        *curve.epoch(Time::ZERO, cwnd, 1)
    }

    #[test]
    fn cubic_growth_per_segment_is_target_minus_window_over_window() {
        // At t = 2 s with RTT 0.1 s, W_max 1000 and cwnd 700: K = cbrt(750) = 9.0856;
        // W_cubic(2.1) = 1000 - 0.4 * 6.9856^3 = 863.6448.
        let mut e = epoch(1_000, 700);
        near(e.k, 9.0856);
        assert_eq!(e.growth(Time::from_millis(2_000), 0.1, 1, 700, 1), 0);
        near(e.carry, 163.6448 / 700.0);
        // The rest of the window in one frame, starting from the carried fraction.
        let rest = e.growth(Time::from_millis(2_000), 0.1, 699, 700, 1);
        assert_eq!(rest, 163);
        near(e.carry, 0.6448);
    }

    #[test]
    fn cubic_uses_w_est_when_the_curve_is_lower() {
        // cwnd 7, W_max 10, at t = 0: W_cubic = 7. Seven acknowledged segments add alpha: W_est =
        // 7.5294.
        let mut e = epoch(10, 7);
        assert_eq!(e.growth(Time::ZERO, 0.1, 7, 7, 1), 0);
        near(e.w_est, 7.5294);
        // Five more such rounds take W_est to 10.18 at window 7. From 10 on, alpha is 1: one whole
        // segment per round.
        for _ in 0..5 {
            e.growth(Time::ZERO, 0.1, 7, 7, 1);
        }
        near(e.w_est, 10.1765);
        assert_eq!(e.growth(Time::ZERO, 0.1, 7, 7, 1), 4, "to W_est 11.18");
        near(e.w_est, 11.1765);
        // At two seconds, W_cubic(2) = 10.00 is still below W_est. At six seconds W_cubic is 36.4,
        // and the curve determines growth.
        assert_eq!(e.growth(Time::from_millis(2_000), 0.1, 1, 11, 1), 0);
        let mut at_six = e;
        at_six.growth(Time::from_millis(6_000), 0.1, 11, 11, 1);
        near(at_six.carry, 0.5);
    }

    #[test]
    fn cubic_epoch_without_w_max_starts_at_the_current_window() {
        let mut curve = Curve::default();
        let e = *curve.epoch(Time::from_millis(5), 50, 1);
        assert_eq!((e.k, e.w_max, e.cwnd_prior), (0.0, 50.0, 50.0));
        assert_eq!((curve.w_max, curve.cwnd_prior), (Some(50), Some(50)));
        curve.collapse();
        assert_eq!(curve.epoch(Time::from_millis(5), 20, 1).w_max, 20.0);
    }
}
