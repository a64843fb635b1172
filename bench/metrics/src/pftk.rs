//! Send rate of a TCP connection at a given loss rate: the model of Padhye, Firoiu, Towsley and
//! Kurose (SIGCOMM 1998), as used by DCA §3.3.
//!
//! The model is given below in the paper's form, where p is the loss rate, R the round trip, T0 the
//! timeout, b the packets per ACK and Wm the maximum window:
//!
//! approximate: B = min(Wm/R, 1 / (R sqrt(2bp/3) + T0 min(1, 3 sqrt(3bp/8)) p (1 + 32 p^2)));
//!
//! full: W < Wm: B = ((1-p)/p + W + Q/(1-p)) / (R (bW/2 + 1) + Q T0 f(p)/(1-p)),
//! else: B = ((1-p)/p + Wm + Q/(1-p)) / (R (b Wm/8 + (1-p)/(p Wm) + 2) + Q T0 f(p)/(1-p)).
//!
//! # Departures
//! - **Two loss rates**: DCA §3.3 uses one rate, p-TD, for the terms of windows and triple
//!   duplicates, and another rate, p-timeout, for the terms of timeouts. The paper gives no formula
//!   for this. Its reactions count in p-TD but never end in a timeout. [`Timeouts`] names the two
//!   possible readings. With equal rates, both are the formula above.
//! - **No loss**: the rate is Wm/R. There is no rate without a maximum window, and for loss rates
//!   outside `[0, 1)`.

use std::time::Duration;

/// Parameters of a connection in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendRate {
    /// Mean round trip, R.
    pub rtt: Duration,
    /// First timeout of a series, T0.
    pub timeout: Duration,
    /// Number of packets acknowledged by one ACK, b. It is 2 with delayed acknowledgements.
    pub packets_per_ack: f64,
    /// Receiver's window in packets, Wm; at least 1. `None` for no limit.
    pub max_window: Option<f64>,
}

/// Meaning of p-timeout in the full model if p-timeout differs from p-TD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timeouts {
    /// Only losses can become timeouts. The fraction p-timeout / p-TD of all indications that end a
    /// triple-duplicate period are losses, and a fraction Q(p-timeout, W) of these losses become
    /// timeouts. Reactions never become timeouts, because they are "equivalent to the TCP reaction
    /// of a loss event [...] recovered [...] via a triple duplicate acknowledgement" (DCA §3.3).
    /// The approximate model always has this meaning.
    #[default]
    OfLosses,
    /// Every indication can become a timeout. p-timeout replaces p only in Q, f and 1/(1-p), so
    /// every indication, including a reaction, becomes a timeout with probability Q(p-timeout, W).
    OfIndications,
}

impl SendRate {
    /// Returns the rate in packets per second at loss rate `p`, by the full model.
    pub fn full(&self, p: f64) -> Option<f64> {
        self.full_of_two(p, p, Timeouts::OfLosses)
    }

    /// Returns the rate in packets per second at loss rate `p`, by the approximate model.
    pub fn approximate(&self, p: f64) -> Option<f64> {
        self.approximate_of_two(p, p)
    }

    /// Evaluates the full model with one loss rate for windows and another for timeouts (DCA §3.3).
    pub fn full_of_two(&self, p_td: f64, p_timeout: f64, timeouts: Timeouts) -> Option<f64> {
        let limit = self.window_rate();
        if !in_model(p_td) || !in_model(p_timeout) {
            return None;
        }
        if p_td == 0.0 {
            return limit;
        }
        let (r, b) = (self.rtt.as_secs_f64(), self.packets_per_ack);
        let unlimited = self.window(p_td);
        // Mean window at the end of a triple-duplicate period, and the duration of the period.
        let (w, duration) = match self.max_window {
            Some(wm) if unlimited >= wm => {
                (wm, r * (b * wm / 8.0 + (1.0 - p_td) / (p_td * wm) + 2.0))
            }
            _ => (unlimited, r * (b * unlimited / 2.0 + 1.0)),
        };
        let share = match timeouts {
            Timeouts::OfLosses => (p_timeout / p_td).min(1.0),
            Timeouts::OfIndications => 1.0,
        };
        let q = share * timeout_probability(p_timeout, w) / (1.0 - p_timeout);
        let packets = (1.0 - p_td) / p_td + w + q;
        finite(packets / (duration + q * self.timeout.as_secs_f64() * backoff(p_timeout)))
    }

    /// Evaluates the approximate model with one loss rate for windows and another for timeouts
    /// (DCA §3.3).
    pub fn approximate_of_two(&self, p_td: f64, p_timeout: f64) -> Option<f64> {
        if !in_model(p_td) || !in_model(p_timeout) {
            return None;
        }
        let (r, t0, b) = (self.rtt.as_secs_f64(), self.timeout.as_secs_f64(), self.packets_per_ack);
        let windows = r * (2.0 * b * p_td / 3.0).sqrt();
        let timeouts = t0
            * (3.0 * (3.0 * b * p_timeout / 8.0).sqrt()).min(1.0)
            * p_timeout
            * (1.0 + 32.0 * p_timeout * p_timeout);
        let unlimited = 1.0 / (windows + timeouts);
        finite(self.window_rate().map_or(unlimited, |limit| limit.min(unlimited)))
    }

    /// Returns the rate Wm/R in packets per second.
    fn window_rate(&self) -> Option<f64> {
        finite(self.max_window? / self.rtt.as_secs_f64())
    }

    /// Returns W(p), the mean window in packets when a loss ends a triple-duplicate period, without
    /// the limit Wm.
    fn window(&self, p: f64) -> f64 {
        let b = self.packets_per_ack;
        let c = (2.0 + b) / (3.0 * b);
        c + (8.0 * (1.0 - p) / (3.0 * b * p) + c * c).sqrt()
    }
}

fn in_model(p: f64) -> bool {
    (0.0..1.0).contains(&p)
}

fn finite(rate: f64) -> Option<f64> {
    rate.is_finite().then_some(rate)
}

/// Returns Q(p, w), the probability that a loss in a window of `w` packets leads to a timeout:
/// min(1, (1 - (1-p)^3) (1 + (1-p)^3 (1 - (1-p)^(w-3))) / (1 - (1-p)^w)).
fn timeout_probability(p: f64, w: f64) -> f64 {
    if p == 0.0 {
        // This is the limit of Q for p = 0. Differences of powers near 1 would lose all significant
        // digits, so `exp_m1` is used below.
        return (3.0 / w).min(1.0);
    }
    // Returns 1 - (1-p)^n.
    let any_of = |n: f64| -(n * (-p).ln_1p()).exp_m1();
    let q = any_of(3.0) * (1.0 + (1.0 - p).powi(3) * any_of(w - 3.0)) / any_of(w);
    q.min(1.0)
}

/// Returns f(p). The mean length of a series of timeouts, which double up to six times, is T0 f(p)
/// / (1-p).
fn backoff(p: f64) -> f64 {
    // 1 + p + 2p^2 + 4p^3 + 8p^4 + 16p^5 + 32p^6.
    1.0 + p * (1.0 + p * (2.0 + p * (4.0 + p * (8.0 + p * (16.0 + p * 32.0)))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATH: SendRate = SendRate {
        rtt: Duration::from_millis(100),
        timeout: Duration::from_secs(1),
        packets_per_ack: 2.0,
        max_window: None,
    };
    const LIMITED: SendRate = SendRate { max_window: Some(12.0), ..PATH };

    fn near(ours: f64, reference: f64, digits: f64) -> bool {
        (ours / reference - 1.0).abs() < digits
    }

    #[test]
    fn pftk_rates_match_reference_vectors() {
        for (p, w, q, full, approximate) in [
            (0.001, 37.1693, 0.08485, 265.573, 267.835),
            (0.01, 12.1751, 0.27992, 69.5245, 70.6544),
            (0.1, 4.1943, 0.82408, 9.1060, 6.8983),
        ] {
            assert!(near(PATH.window(p), w, 1e-5), "W({p}) = {}", PATH.window(p));
            assert!(near(timeout_probability(p, PATH.window(p)), q, 6e-5), "Q({p})");
            assert!(near(PATH.full(p).unwrap(), full, 6e-6), "full {p}: {:?}", PATH.full(p));
            assert!(
                near(PATH.approximate(p).unwrap(), approximate, 8e-6),
                "{p}: {:?}",
                PATH.approximate(p)
            );
        }
        assert!(near(LIMITED.full(0.001).unwrap(), 111.385, 5e-6), "{:?}", LIMITED.full(0.001));
        // The approximate model is limited to Wm/R, 120 packets per second.
        assert_eq!(LIMITED.approximate(0.001), Some(12.0 / 0.1));
        assert_eq!(LIMITED.approximate(0.1), PATH.approximate(0.1));
    }

    #[test]
    fn pftk_rates_match_an_independent_evaluation() {
        // Expected values were computed with plain powers in another language.
        assert!(near(
            PATH.full_of_two(0.04, 0.005, Timeouts::OfLosses).unwrap(),
            38.158_489_053,
            1e-10
        ));
        assert!(near(
            PATH.full_of_two(0.04, 0.005, Timeouts::OfIndications).unwrap(),
            25.193_630_270,
            1e-10
        ));
        assert!(near(PATH.approximate_of_two(0.04, 0.005).unwrap(), 41.643_581_776, 1e-10));
        // Without timeouts: 24 packets and a window per triple-duplicate period.
        let w = PATH.window(0.04);
        assert!(near(
            PATH.full_of_two(0.04, 0.0, Timeouts::OfLosses).unwrap(),
            (24.0 + w) / (0.1 * (w + 1.0)),
            1e-12
        ));
        assert!(near(
            PATH.full_of_two(0.04, 0.0, Timeouts::OfIndications).unwrap(),
            25.529_895_714,
            1e-10
        ));
    }

    #[test]
    fn pftk_rates_stay_valid_at_extreme_loss() {
        for rate in [SendRate::full, SendRate::approximate] {
            assert_eq!((rate(&PATH, 0.0), rate(&LIMITED, 0.0)), (None, Some(12.0 / 0.1)));
            for p in [1.0, 1.5, -0.1, f64::NAN, f64::INFINITY] {
                assert_eq!(rate(&LIMITED, p), None, "{p}");
            }
            // With hardly any loss: the limit, or the square root of 3 / (2 b p) per round trip.
            assert!(near(rate(&LIMITED, 1e-18).unwrap(), 120.0, 1e-9));
            assert!(near(
                rate(&PATH, 1e-18).unwrap(),
                (3.0 / (4.0 * 1e-18_f64)).sqrt() / 0.1,
                1e-6
            ));
            assert_eq!(
                rate(&SendRate { rtt: Duration::ZERO, ..LIMITED }, 0.0),
                None,
                "no round trip, no rate"
            );
        }
        // With hardly anything but loss: one packet per 64 timeouts.
        assert!(near(PATH.full(1.0 - 1e-9).unwrap(), 1.0 / 64.0, 1e-6));
        assert_eq!(PATH.full_of_two(0.1, 1.0, Timeouts::OfLosses), None);
    }

    #[test]
    fn timeout_probability_is_accurate_at_rare_losses() {
        for w in [4.0, 37.0, 1e4] {
            assert!(near(timeout_probability(1e-15, w), 3.0 / w, 1e-9));
            assert!(near(timeout_probability(0.0, w), 3.0 / w, 1e-15));
        }
        assert_eq!(timeout_probability(0.0, 2.0), 1.0);
        assert_eq!(timeout_probability(0.5, 1.5), 1.0);
    }

    proptest! {
        #[test]
        fn pftk_rate_falls_as_loss_rises(p in 1e-6..0.9_f64, more in 1.01..1.1_f64, window in prop::option::of(2.0..200.0_f64)) {
            let path = SendRate { max_window: window, ..PATH };
            prop_assert!(path.approximate(p * more) <= path.approximate(p));
            // The full model is continuous except for the step to the window limit; without a
            // limit, it decreases everywhere.
            prop_assert!(PATH.full(p * more) < PATH.full(p));
            prop_assert!(path.full(p) <= window.map(|w| w / 0.1).or(Some(f64::INFINITY)));
            prop_assert_eq!(path.full(p), path.full_of_two(p, p, Timeouts::OfIndications));
        }

        #[test]
        fn dca_reactions_lower_the_rate_and_avoided_timeouts_raise_it(p in 1e-4..0.1_f64, reactions in 1e-4..0.1_f64, avoided in 0.0..1.0_f64) {
            let left = p * (1.0 - avoided);
            let dca = |timeouts| PATH.full_of_two(left + reactions, left, timeouts);
            prop_assert!(dca(Timeouts::OfIndications) <= dca(Timeouts::OfLosses));
            prop_assert!(dca(Timeouts::OfLosses) <= PATH.full_of_two(left, left, Timeouts::OfLosses));
        }
    }
}
