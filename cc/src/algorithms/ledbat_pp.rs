//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01): LEDBAT with slower growth, a faster decrease,
//! and regular slowdowns in which the queue drains.
//!
//! LEDBAT++ repairs what LEDBAT (RFC 6817) was found to lack. The gain is smaller on paths with a
//! short round trip, so that LEDBAT++ also yields if the queue is shorter than the target. Above
//! the target, the window shrinks in proportion to its size. From time to time, the window is two
//! packets for two round trips. All flows then see the base delay, so that a latecomer gets its
//! share.
//!
//! Windows shrink and grow with every ACK, as in [`crate::ledbat`], which also estimates the
//! queueing delay. The reaction to losses and marks is exactly Reno's.
//!
//! # Departures
//! - **Base delay of the gain**: the smallest RTT of the path. The draft takes the base delay of
//!   the last ten minutes, which is the same unless the route changed. A one-way delay of two
//!   clocks has no absolute value.
//! - **Slow start** grows by the acknowledged bytes times the gain, also after a slowdown. The first
//!   one ends when the queueing delay exceeds three quarters of the target. A loss or a mark ends
//!   it, too, and the first slowdown follows in each case. The draft leaves open whether the gain
//!   applies after slowdowns; it does in ns-3.
//! - **Losses in a slowdown** halve the size that slow start restores. The draft does not mention
//!   them. Without this rule, a packet from before the slowdown that is lost in it would leave a
//!   window of two packets.
//! - **Initial window**: that of RFC 9002 §7.2. The draft has two packets.
//! - **Application-limited sender**: such a sender leaves the queue empty anyway. No slowdown begins
//!   until it has had data for two round trips, and a slowdown counts as over.
//! - **Recovery**: the window does not grow, and no slowdown begins.
//! - **One-way delay** (`signal=one-way`, `signal=either`): the draft uses RTTs, because TCP has no
//!   one-way delays on most systems.

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::controller::ControllerMetrics;
use crate::event::{AckEvent, CongestionEvent};
use crate::ledbat::{Control, Queue, TARGETS};
use crate::options::Values;
use crate::reno::LOSS_REDUCTION;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::signal::{Signal, capabilities_by_signal};
use crate::units::{Ratio, Time};

/// Largest divisor of the gain (LEDBAT++ §4).
pub const LARGEST_DIVISOR: u32 = 16;
/// Share of the target above which the first slow start ends (LEDBAT++ §4).
pub const SLOW_START_EXIT: f64 = 0.75;
/// Round trips between the end of the first slow start and the first slowdown (LEDBAT++ §4).
pub const ROUNDS_TO_FIRST_SLOWDOWN: u32 = 2;
/// Round trips for which a slowdown keeps the window at two packets (LEDBAT++ §4).
pub const SLOWDOWN_ROUNDS: u32 = 2;
/// Time between two slowdowns, in durations of the last slowdown (LEDBAT++ §4). Slowdowns thus
/// take at most a tenth of the time.
pub const SLOWDOWN_INTERVAL: u32 = 9;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "ledbat-pp",
    summary: "LEDBAT++: LEDBAT that yields sooner, shares fairly, and empties the queue from time to \
        time",
    source: "LEDBAT++ §4",
    // The gain slows growth on short paths: on a path of 100 ms, by half.
    contract: Contract {
        doubles: false,
        one_per_round: false,
        after_collapse: Ratio::new(5, 2),
        ..Contract::AS_RENO
    },
    page: PAGE,
    ..Algorithm::of_rule::<LedbatPpConfig>()
};

rule_options! {
    /// The configuration `ledbat-pp`.
    pub struct LedbatPpConfig {
        /// queueing delay that the controller aims at
        target: Duration = "60ms" in TARGETS,
        /// delay to use: RTT, one-way, or (either) RTT until the peer reports one-way delays
        signal: Signal = "rtt" in Values::Choice(Signal::NAMES),
        /// whether the window is two packets from time to time, so that the queue drains
        slowdowns: Slowdowns,
    }
}

crate::options::option_values! {
    /// Use of slowdowns.
    pub enum Slowdowns {
        /// Slowdowns, as in the draft.
        On = "on",
        /// No slowdowns.
        Off = "off",
    }
}

impl RuleConfig for LedbatPpConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = LedbatPp;

    fn rule(&self, _window: &Aimd, _now: Time) -> LedbatPp {
        LedbatPp {
            config: *self,
            queue: Queue::new(self.signal),
            control: Control::default(),
            state: State::FirstSlowStart,
            acked: 0,
        }
    }

    capabilities_by_signal!("ledbat-pp");
}

/// Returns the divisor of the gain. The gain is 1 / min(16, ceil(2 target / base))
/// (LEDBAT++ §4).
pub fn gain_divisor(target: Duration, base: Duration) -> u32 {
    let divisor = target.saturating_mul(2).as_nanos().div_ceil(base.as_nanos().max(1));
    u32::try_from(divisor).unwrap_or(u32::MAX).clamp(1, LARGEST_DIVISOR)
}

/// Returns the change of a window per round trip, in packets: the gain below the target, and
/// max(gain - W (delay / target - 1), -W / 2) above (LEDBAT++ §4).
pub fn change_per_round(window: f64, gain: f64, target: Duration, queueing: Duration) -> f64 {
    let above = queueing.as_secs_f64() / target.as_secs_f64() - 1.0;
    if above <= 0.0 { gain } else { (gain - window * above).max(-window / 2.0) }
}

/// Phase of the alternation between normal control and slowdowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first slow start.
    FirstSlowStart,
    /// Normal control until the next slowdown begins.
    Normal { until: Time },
    /// A slowdown with a window of two packets.
    Minimum { began: Time, until: Time },
    /// A slowdown whose slow start restores the window.
    Restoring { began: Time },
}

/// The rule of LEDBAT++.
#[derive(Clone, Debug)]
pub struct LedbatPp {
    config: LedbatPpConfig,
    queue: Queue,
    control: Control,
    state: State,
    /// Acknowledged bytes of slow start that the divisor of the gain has left over.
    acked: u64,
}

impl LedbatPp {
    /// Begins and ends slowdowns.
    fn alternate(&mut self, window: &mut Aimd, acks: &AckEvent<'_>) {
        let now = acks.now;
        let rounds = |rounds: u32| acks.rtt.smoothed.saturating_mul(rounds);
        self.state = match self.state {
            State::FirstSlowStart if !window.in_slow_start() => {
                State::Normal { until: now + rounds(ROUNDS_TO_FIRST_SLOWDOWN) }
            }
            State::Normal { until } if acks.app_limited => {
                State::Normal { until: until.max(now + rounds(ROUNDS_TO_FIRST_SLOWDOWN)) }
            }
            State::Minimum { .. } | State::Restoring { .. } if acks.app_limited => {
                State::Normal { until: now + rounds(SLOWDOWN_ROUNDS * SLOWDOWN_INTERVAL) }
            }
            State::Normal { until } if now >= until && self.may_slow_down(window) => {
                window.slow_down();
                State::Minimum { began: now, until: now + rounds(SLOWDOWN_ROUNDS) }
            }
            State::Minimum { began, until } if now >= until => State::Restoring { began },
            State::Restoring { began } if !window.in_slow_start() => {
                State::Normal { until: now + now.since(began).saturating_mul(SLOWDOWN_INTERVAL) }
            }
            state => state,
        };
    }

    fn may_slow_down(&self, window: &Aimd) -> bool {
        self.config.slowdowns == Slowdowns::On && !window.in_recovery() && !window.in_slow_start()
    }

    /// Changes the window by delay. `acked` is the number of bytes that may count as growth.
    fn adjust(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, queueing: Duration, acked: u64) {
        let target = self.config.target;
        let divisor = gain_divisor(target, acks.rtt.min);
        if window.threshold().is_none() && queueing > target.mul_f64(SLOW_START_EXIT) {
            window.end_slow_start();
        }
        if window.in_slow_start() {
            let divisor = u64::from(divisor);
            let total = self.acked.saturating_add(acked);
            self.acked = total % divisor;
            window.grow_slow_start(total / divisor);
            return;
        }
        let datagram = window.datagram() as f64;
        let packets = window.window() as f64 / datagram;
        let change = change_per_round(packets, 1.0 / f64::from(divisor), target, queueing);
        let bytes = if change < 0.0 { acks.bytes() } else { acked };
        self.control.step(window, change * datagram, bytes);
    }
}

impl WindowRule for LedbatPp {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        let queueing = self.queue.on_ack(acks).unwrap_or_default();
        if !matches!(self.state, State::Minimum { .. }) {
            self.adjust(window, acks, queueing, acked);
        }
        self.alternate(window, acks);
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        let slows_down = matches!(self.state, State::Minimum { .. } | State::Restoring { .. });
        // In a slowdown, the threshold is the window that slow start restores.
        let size = window.threshold().filter(|_| slows_down);
        let reduced = window.on_congestion_event(event, LOSS_REDUCTION);
        if let Some(size) = size.filter(|_| reduced) {
            window.restore_to(LOSS_REDUCTION.of(size));
        }
    }

    /// Adds `queueing`: the queueing delay that is compared with the target.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        ControllerMetrics { queueing: self.queue.queueing(), ..window }
    }
}

const PAGE: Page = Page {
    about: "LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01) is the form of LEDBAT that Windows uses for
background transfers. LEDBAT++ aims at a queueing delay of 60 ms. Below the target, the window grows
by a part of a packet per round trip, the smaller the shorter the path is. Above the target, the
window shrinks in proportion to its size. In a slowdown, the window is two packets for two round
trips, so that the queue drains and all flows see the base delay. Slowdowns take a tenth of the
time.",
    departures: "The initial window is QUIC's. No slowdown begins while the application is the limit. By
default `ledbat-pp` uses round-trip times, as the draft does. With `signal=one-way` it uses one-way
delays, which queues on the way back do not disturb.",
    figure: "LEDBAT++ with a target of 20 ms and the scripted queue",
    to_see: "The target in this figure is 20 ms. Above the target, the window halves with every round trip
until it is two packets. The slowdowns at the beginning and at 10 s last two round trips, after which
slow start restores the window. The window is also two packets from 3.6 to 7.5 s, because twice the
target waits.",
    weakness: "A slowdown empties the link of a lone flow for two round trips and the slow start after them.
On long paths, the window grows as slowly as Reno's. If other flows keep more than the target
waiting, `ledbat-pp` sends two packets per round trip for as long as this lasts.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_is_smaller_on_shorter_paths() {
        let ms = Duration::from_millis;
        for (base, divisor) in
            [(0, 16), (7, 16), (8, 15), (20, 6), (59, 3), (60, 2), (120, 1), (600, 1)]
        {
            assert_eq!(gain_divisor(ms(60), ms(base)), divisor, "{base} ms");
        }
    }

    #[test]
    fn window_shrinks_in_proportion_to_its_size_above_the_target() {
        let ms = Duration::from_millis;
        let change = |window, queueing| change_per_round(window, 0.5, ms(60), ms(queueing));
        assert_eq!((change(100.0, 0), change(100.0, 60)), (0.5, 0.5));
        assert_eq!(change(100.0, 75), 0.5 - 25.0);
        assert_eq!(change(100.0, 120), -50.0, "at most half");
        assert_eq!(change(2.0, 66), 0.5 - 2.0 * (66.0 / 60.0 - 1.0), "a small window still grows");
    }
}
