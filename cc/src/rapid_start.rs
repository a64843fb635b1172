//! Rapid Start (draft-kazuho-ccwg-rapid-start, read in November 2026): triples the window per round
//! trip until a queue builds up, and converges on the path's capacity after the first congestion.
//!
//! Rapid Start is an option (`rapid-start=on`) of every controller that has a slow start, and it is
//! part of [`crate::aimd::Aimd`]. It watches only the first slow start of a path and the recovery
//! after it. HyStart++ may be on, too.
//!
//! Departures:
//! - **Pacing** is the stack's. The draft asks for pacing over the whole round trip, and for an
//!   initial window up to twice as large.
//! - **CUBIC** keeps its own W_max at the first congestion. By the draft, it is twice the window at
//!   the end of recovery divided by beta.
//! - **Frames**: the smallest RTT of a round trip is that of a sliding window as long as the smallest
//!   RTT of the path, one of the two ways that the draft names.

use std::time::Duration;

use crate::event::AckEvent;
use crate::options::option_values;
use crate::sliding::Sliding;
use crate::units::Ratio;

/// Largest rise of the RTT that does not count as a queue: the additive term (Rapid Start §3.2).
pub const RISE: Duration = Duration::from_millis(4);
/// The multiplicative term: a tenth of the smallest RTT (Rapid Start §3.2).
pub const RISE_DIVISOR: u32 = 10;
/// Bytes of growth per acknowledged byte while no queue builds up (Rapid Start §3.2).
pub const GROWTH: u64 = 2;
/// Divisor of the smallest window after convergence: the window before times beta, divided by this
/// number (Rapid Start §3.3).
pub const LEAST_DIVISOR: u64 = 3;

option_values! {
    /// Use of Rapid Start on the first slow start.
    pub enum Use {
        /// The window doubles per round trip.
        Off = "off",
        /// The window triples per round trip until a queue builds up.
        On = "on",
    }
}

/// The state of Rapid Start during one slow start.
#[derive(Clone, Debug, Default)]
pub struct RapidStart {
    /// RTTs of the last round trip.
    floor: Sliding<Duration, 4>,
    /// Whether a queue builds up.
    queue: bool,
}

impl RapidStart {
    /// Processes the RTT of one ACK frame.
    pub fn on_ack(&mut self, acks: &AckEvent<'_>) {
        let min = acks.rtt.min;
        self.floor.record(acks.now, min / 4, acks.rtt.latest);
        let most = min.saturating_add(RISE.min(min / RISE_DIVISOR));
        self.queue = self.floor.min().is_some_and(|floor| floor > most);
    }

    /// Returns the bytes of growth per acknowledged byte.
    pub const fn growth(&self) -> u64 {
        if self.queue { 1 } else { GROWTH }
    }
}

/// Reduction of the window during the first recovery, in proportion to acknowledged and lost bytes.
///
/// After the recovery, the window is beta times the bytes that the path and its queue held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convergence {
    /// Factor by which the window shrinks at once, and bytes of reduction per lost byte
    /// (silence_factor and loss_factor of Rapid Start §3.3.1).
    pub silence: Ratio,
    /// Bytes of reduction per acknowledged byte (ack_factor of Rapid Start §3.3.1).
    pub acked: Ratio,
    /// Smallest window in bytes.
    pub least: u64,
}

impl Convergence {
    /// Returns the reduction for a decrease factor `beta` of a window of `window` bytes. The window
    /// does not fall below beta times `initial`, the initial window in bytes.
    pub fn new(beta: Ratio, window: u64, initial: u64) -> Self {
        // K = 2/3: silence = beta + K (1 - beta), and acked = K (1 - beta).
        let (num, den) = (beta.num(), beta.den());
        Self {
            silence: Ratio::new(num + 2 * den, 3 * den),
            acked: Ratio::new(2 * (den - num.min(den)), 3 * den),
            least: (beta.of(window) / LEAST_DIVISOR).max(beta.of(initial)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Acked, Rtt};
    use crate::units::Time;

    #[test]
    fn factors_match_those_of_the_draft() {
        let factors = |beta| {
            let Convergence { silence, acked, .. } = Convergence::new(beta, 0, 0);
            [silence, acked].map(|r| f64::from(r.num()) / f64::from(r.den()))
        };
        for (beta, silence, acked) in [
            (Ratio::new(1, 2), 5.0 / 6.0, 1.0 / 3.0),
            (Ratio::new(7, 10), 0.9, 0.2),
            (Ratio::new(4, 5), 14.0 / 15.0, 2.0 / 15.0),
        ] {
            let [s, a] = factors(beta);
            assert!((s - silence).abs() < 1e-9 && (a - acked).abs() < 1e-9, "{s} {a}");
        }
        assert_eq!(Convergence::new(Ratio::new(1, 2), 600_000, 12_000).least, 100_000);
        assert_eq!(Convergence::new(Ratio::new(1, 2), 12_000, 12_000).least, 6_000);
    }

    #[test]
    fn window_triples_until_the_rtt_rises_by_a_tenth_or_4_ms() {
        let growth = |min: u64, rtts: &[u64]| {
            let mut rapid = RapidStart::default();
            for (n, rtt) in (0..).zip(rtts) {
                let us = Duration::from_micros;
                rapid.on_ack(&AckEvent {
                    now: Time::from_millis(n * min),
                    packets: &[Acked { sent: Time::ZERO, bytes: 1_200 }],
                    in_flight: 0,
                    rtt: Rtt { min: us(min * 1_000), ..Rtt::first(us(*rtt)) },
                    one_way: None,
                    ecn: None,
                    app_limited: false,
                });
            }
            rapid.growth()
        };
        assert_eq!(growth(20, &[20_000; 3]), 2);
        assert_eq!(growth(20, &[22_000; 3]), 2);
        assert_eq!(growth(20, &[20_000, 22_001, 22_001]), 1);
        assert_eq!(growth(100, &[104_000; 3]), 2);
        assert_eq!(growth(100, &[104_001; 3]), 1);
    }
}
