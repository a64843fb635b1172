//! Tests whether the round-trip time predicts losses: the three metrics of DCA §3.2 on a tcpRTT
//! series.
//!
//! A loss event is a sample after which a packet was lost. A burst between two samples is one
//! event, and losses after different samples are separate events (DCA §3.1).
//!
//! # Departures
//! The paper leaves the following points open:
//! - **The beginning**: sampledRTT(x) and windowAVG(w) both end with the sample before the loss. A
//!   loss with too few earlier samples for one of these averages is left out. It counts neither as
//!   predicted nor as a loss.
//! - **The ends** of the lags: a loss counts at a lag if the series has a sample there. Lags
//!   without any loss are left out.
//! - **Lag 0** does not exist: -1 is the last sample before the lost packet was sent, +1 the first
//!   sample after it (DCA §3.2.2).
//! - **Standard deviation** of the w samples themselves (divided by w, not by w - 1), as in the
//!   controller.
//! - Sums are in whole nanoseconds. The comparison is the same as the controller's, so equal
//!   samples are never a rise.

use fathom_cc::dca::{MAX_RTT, Mean, delay_event};
use serde::{Deserialize, Serialize};

use super::latency::{Distribution, Latencies, round};
use super::rtt_series::RttSample;

/// Largest lag of the paper's figures (DCA §3.2.2).
pub const LAGS: usize = 300;
/// Largest values of x and w. The squared sums then fit in 128 bits.
const MOST: usize = 1_024;

/// The event sampledRTT(x) > windowAVG(w) + std (DCA §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayEvent {
    x: usize,
    w: usize,
}

impl Default for DelayEvent {
    /// Returns (2, 20): "generally most effective in predicting loss events" (DCA §3.2.1).
    fn default() -> Self {
        Self { x: 2, w: 20 }
    }
}

/// Values that a delay event compares at one sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    /// The average sampledRTT(x).
    pub(super) sampled: Mean,
    /// The average windowAVG(w).
    pub(super) window: Mean,
    /// Sum of the squares of the w samples.
    squares: u128,
}

impl Compared {
    pub(super) fn is_event(&self) -> bool {
        delay_event(self.sampled, self.window, self.squares)
    }
}

impl DelayEvent {
    /// Returns the event if x and w are both from 1 to 1024, otherwise `None`.
    pub fn new(x: usize, w: usize) -> Option<Self> {
        let allowed = 1..=MOST;
        (allowed.contains(&x) && allowed.contains(&w)).then_some(Self { x, w })
    }

    /// Returns the comparison over the last x and w samples up to and including the sample at
    /// `index`. Returns `None` if there are fewer samples. RTTs above 18 minutes are capped.
    pub(super) fn at(&self, samples: &[RttSample], index: usize) -> Option<Compared> {
        let so_far = samples.get(..=index)?;
        let last = |n: usize| so_far.len().checked_sub(n).map(|from| &so_far[from..]);
        let mean = |part: &[RttSample]| Mean {
            total: part.iter().map(nanos).sum(),
            count: part.len() as u32,
        };
        let window = last(self.w)?;
        let squares = window.iter().map(|s| nanos(s) * nanos(s)).sum();
        Some(Compared { sampled: mean(last(self.x)?), window: mean(window), squares })
    }
}

fn nanos(sample: &RttSample) -> u128 {
    sample.rtt.min(MAX_RTT).as_nanos()
}

fn losses(samples: &[RttSample]) -> impl Iterator<Item = usize> {
    samples.iter().enumerate().filter(|(_, s)| s.loss_follows).map(|(index, _)| index)
}

/// Returns for each sample whether it is a delay event; `None` if there are too few earlier
/// samples.
pub fn events(samples: &[RttSample], event: DelayEvent) -> Vec<Option<bool>> {
    (0..samples.len())
        .map(|index| event.at(samples, index).map(|compared| compared.is_event()))
        .collect()
}

/// The correlation indication metric, P\[sampledRTT(x) > windowAVG(w) + std\] (DCA §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Indication {
    /// Number of samples of sampledRTT.
    pub x: usize,
    /// Number of samples of windowAVG.
    pub w: usize,
    /// Loss events with enough samples before them.
    pub losses: u64,
    /// Losses with enough earlier samples that came just after a rise in the round-trip time.
    #[serde(rename = "foretold")]
    pub predicted: u64,
    /// `predicted` divided by `losses`, rounded to six digits; `None` without losses.
    pub probability: Option<f64>,
}

/// Counts the losses preceded by a rise in the round-trip time.
pub fn indication(samples: &[RttSample], event: DelayEvent) -> Indication {
    let (mut judged, mut predicted) = (0, 0);
    for compared in losses(samples).filter_map(|index| event.at(samples, index)) {
        judged += 1;
        predicted += u64::from(compared.is_event());
    }
    let probability = (judged > 0).then(|| round(predicted as f64 / judged as f64, 6));
    Indication { x: event.x, w: event.w, losses: judged, predicted, probability }
}

/// Average delay conditioned on a loss, at one lag (DCA §3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagDelay {
    /// Distance from the loss in samples: negative before the loss, never 0.
    pub lag: i32,
    /// Mean of the samples at this lag divided by the mean of all samples, rounded to six digits.
    pub relative: f64,
    /// Number of losses with a sample at this lag.
    pub losses: u64,
}

/// Returns the loss conditioned delay correlation metric for lags up to `lags` on either side, in
/// order. The result is empty if there are no losses, or if all round trips are zero.
pub fn lagged(samples: &[RttSample], lags: usize) -> Vec<LagDelay> {
    let all: u128 = samples.iter().map(nanos).sum();
    if all == 0 {
        return Vec::new();
    }
    let mean = all as f64 / samples.len() as f64;
    // Lags beyond the series have no samples.
    let lags = lags.min(samples.len()) as i32;
    let at_lag = |lag: i32| {
        // Lag -1 is the sample after which the packet was lost.
        let place =
            |index: usize| index.checked_add_signed(if lag < 0 { lag + 1 } else { lag } as isize);
        let (mut total, mut count) = (0, 0);
        for sample in losses(samples).filter_map(|index| samples.get(place(index)?)) {
            total += nanos(sample);
            count += 1;
        }
        (count > 0).then(|| LagDelay {
            lag,
            relative: round(total as f64 / count as f64 / mean, 6),
            losses: count,
        })
    };
    (-lags..=lags).filter(|lag| *lag != 0).filter_map(at_lag).collect()
}

/// All three metrics for a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossDelay {
    /// Loss events, including those with too few earlier samples for the indication.
    pub losses: u64,
    /// P\[sampledRTT(x) > windowAVG(w) + std\].
    pub indication: Indication,
    /// Delay by lag.
    pub lags: Vec<LagDelay>,
    /// Distribution of all samples (DCA §3.2.3).
    pub all: Distribution,
    /// Distribution of sampledRTT(x) before each loss that has x earlier samples.
    pub before_loss: Distribution,
}

impl LossDelay {
    /// Computes the metrics of these samples, with lags up to `lags`.
    pub fn of(samples: &[RttSample], event: DelayEvent, lags: usize) -> Self {
        let (mut all, mut before_loss) = (Latencies::default(), Latencies::default());
        samples.iter().for_each(|s| all.record(s.rtt));
        let x_only = DelayEvent { x: event.x, w: event.x };
        for sampled in
            losses(samples).filter_map(|index| x_only.at(samples, index)).map(|c| c.sampled)
        {
            let mean = sampled.total / u128::from(sampled.count);
            before_loss.record(std::time::Duration::from_nanos(mean as u64));
        }
        Self {
            losses: losses(samples).count() as u64,
            indication: indication(samples, event),
            lags: lagged(samples, lags),
            all: all.distribution(),
            before_loss: before_loss.distribution(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use fathom_cc::Time;
    use proptest::prelude::*;

    use super::*;

    /// Returns samples 10 ms apart with these round trips in milliseconds. A loss follows each
    /// sample whose index is in `losses`.
    pub(in super::super) fn series(
        rtts: impl IntoIterator<Item = u64>,
        losses: &[usize],
    ) -> Vec<RttSample> {
        let sample = |(n, ms): (usize, u64)| RttSample {
            at: Time::from_millis(10 * n as u64),
            rtt: Duration::from_millis(ms),
            loss_follows: losses.contains(&n),
        };
        rtts.into_iter().enumerate().map(sample).collect()
    }

    #[test]
    fn loss_after_a_delay_rise_counts_as_predicted() {
        // 2 4 4 4 5 5 7 9: mean 5, deviation 2. At the 9, the mean of the last two is 8 > 7; at the
        // 7, the window is not full.
        let event = DelayEvent::new(2, 8).unwrap();
        let s = series([2, 4, 4, 4, 5, 5, 7, 9], &[6, 7]);
        let i = indication(&s, event);
        assert_eq!((i.losses, i.predicted, i.probability), (1, 1, Some(1.0)));
        // The last two samples are 5 and 9, with a mean of exactly 7: no rise.
        let i = indication(&series([2, 4, 4, 4, 5, 7, 5, 9], &[7]), event);
        assert_eq!((i.losses, i.predicted, i.probability), (1, 0, Some(0.0)));
        // 4 4 4 5 5 7 9 9 (mean 5.875, deviation 2.03; mean of the last two 9), then 4 4 5 5 7 9 9
        // 2 (mean of the last two 5.5, below the mean 5.625), and finally 4 5 5 7 9 9 2 2.
        let i = indication(&series([2, 4, 4, 4, 5, 5, 7, 9, 9, 2, 2], &[8, 9, 10]), event);
        assert_eq!((i.x, i.w, i.losses, i.predicted, i.probability), (2, 8, 3, 1, Some(0.333_333)));
    }

    #[test]
    fn delay_rise_windows_default_to_2_and_20_samples() {
        let rise = |losses: &[usize]| {
            let s = series((0..20).map(|n| if n < 19 { 50 } else { 52 }), losses);
            let i = indication(&s, DelayEvent::default());
            (i.losses, i.predicted)
        };
        assert_eq!((rise(&[19]), rise(&[18]), rise(&[])), ((1, 1), (0, 0), (0, 0)));
        assert_eq!(
            (DelayEvent::new(0, 5), DelayEvent::new(5, 0), DelayEvent::new(1, 1_025)),
            (None, None, None)
        );
    }

    #[test]
    fn equal_rtts_do_not_count_as_a_delay_rise() {
        let mut s = series([0; 400], &(0..400).collect::<Vec<_>>());
        s.iter_mut().for_each(|s| s.rtt = Duration::from_micros(50_300));
        let m = LossDelay::of(&s, DelayEvent::default(), LAGS);
        assert_eq!((m.losses, m.indication.losses, m.indication.predicted), (400, 381, 0));
        assert_eq!(m.lags.len(), 600);
        assert!(m.lags.iter().all(|l| l.relative == 1.0));
        assert_eq!(Distribution { count: 400, ..m.before_loss.clone() }.median_ms, m.all.median_ms);
    }

    #[test]
    fn rtts_by_lag_around_losses_match_hand_calculation() {
        // The mean is 30. Losses follow the 20 and the 50, which is the last sample.
        let s = series([10, 20, 30, 40, 50], &[1, 4]);
        let by_lag: Vec<(i32, f64, u64)> =
            lagged(&s, 3).iter().map(|l| (l.lag, l.relative, l.losses)).collect();
        let expected = [
            (-3, 1.0, 1),       // 30, before the second loss only
            (-2, 0.833_333, 2), // (10 + 40) / 2 / 30
            (-1, 1.166_667, 2), // (20 + 50) / 2 / 30
            (1, 1.0, 1),        // 30, after the first loss only
            (2, 1.333_333, 1),
            (3, 1.666_667, 1),
        ];
        assert_eq!(by_lag, expected);
        // Beyond the series there are no lags.
        assert_eq!(
            lagged(&s, LAGS).iter().map(|l| l.lag).collect::<Vec<_>>(),
            [-5, -4, -3, -2, -1, 1, 2, 3]
        );
    }

    #[test]
    fn rtt_distributions_cover_all_samples_and_those_before_losses() {
        let s = series([10, 20, 30, 40, 50], &[0, 1, 4]);
        let m = LossDelay::of(&s, DelayEvent::default(), 1);
        // Before the first loss there is only one sample; the other two values are means of two
        // samples: 15 and 45.
        assert_eq!((m.losses, m.indication.losses), (3, 0));
        assert_eq!(
            (m.all.count, m.all.mean_ms, m.before_loss.count, m.before_loss.mean_ms),
            (5, 30.0, 2, 30.0)
        );
        assert!(
            (m.before_loss.median_ms - 15.0).abs() < 0.02
                && (m.before_loss.max_ms - 45.0).abs() < 0.05
        );
        let text = serde_json::to_string(&m).unwrap();
        assert_eq!(serde_json::from_str::<LossDelay>(&text).unwrap(), m);
    }

    #[test]
    fn empty_and_lossless_rtt_series_have_no_loss_distribution() {
        let m = LossDelay::of(&[], DelayEvent::default(), LAGS);
        assert_eq!(
            (m.losses, m.indication.probability, m.lags.len(), m.all.count),
            (0, None, 0, 0)
        );
        let m = LossDelay::of(&series(1..100, &[]), DelayEvent::default(), LAGS);
        assert_eq!(
            (m.losses, m.indication.probability, m.lags.len(), m.all.count),
            (0, None, 0, 99)
        );
        assert!(lagged(&series([0, 0], &[0]), 1).is_empty(), "no time passes");
    }

    proptest! {
        #[test]
        fn integer_delay_rise_test_agrees_with_floating_point(
            rtts in prop::collection::vec(20_u64..100, 30..200), x in 1_usize..10, w in 1_usize..30, step in 1_usize..5,
        ) {
            let lost: Vec<usize> = (0..rtts.len()).step_by(step).collect();
            let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
            let (mut judged, mut predicted, mut close) = (0, 0, 0);
            for end in lost.iter().map(|i| i + 1).filter(|end| *end >= x.max(w)) {
                let window = &rtts[end - w..end];
                let std = (window.iter().map(|v| (*v as f64 - mean(window)).powi(2)).sum::<f64>() / w as f64).sqrt();
                let margin = mean(&rtts[end - x..end]) - mean(window) - std;
                judged += 1;
                close += u64::from(margin.abs() < 1e-9);
                predicted += u64::from(margin >= 1e-9);
            }
            let i = indication(&series(rtts, &lost), DelayEvent::new(x, w).unwrap());
            prop_assert_eq!(i.losses, judged);
            prop_assert!(predicted <= i.predicted && i.predicted <= predicted + close);
        }
    }
}
