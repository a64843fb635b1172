//! Distributions of durations in bounded memory: response times, the packet delivery latency of
//! SDC §3.3, queueing delays.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Number of steps of a cumulative distribution in reports.
const POINTS: usize = 400;
/// Longest duration that is distinguished, in microseconds: ten hours. Longer durations count as
/// ten hours.
const LONGEST: u64 = 36_000_000_000;

/// A histogram of durations in microseconds. It takes about 200 kB for any number of durations, and
/// its quantiles are accurate to 0.1%.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Exact sum of the durations in seconds.
    seconds: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        // The histogram keeps three significant digits.
        let histogram = Histogram::new_with_max(LONGEST, 3).expect("these bounds are allowed");
        Self { histogram, seconds: 0.0 }
    }
}

impl Latencies {
    /// Adds a duration. A duration below one microsecond counts as zero in quantiles, but with its
    /// exact value in the mean.
    pub fn record(&mut self, took: Duration) {
        self.histogram.saturating_record(whole_micros(took));
        self.seconds += took.as_secs_f64();
    }

    /// Adds all durations of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.seconds += other.seconds;
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the exact mean; `None` without durations.
    pub fn mean(&self) -> Option<Duration> {
        let mean = Duration::try_from_secs_f64(self.seconds / self.count() as f64);
        (self.count() > 0).then_some(mean.ok()).flatten()
    }

    /// Returns the duration that a fraction `q` of the durations does not exceed, accurate to 0.1%;
    /// `None` without durations.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_micros(self.histogram.value_at_quantile(q)))
    }

    /// Returns the fraction of durations up to `budget`, accurate to 0.1%. SDC §3.3 uses this
    /// fraction for packets delivered within a latency budget. Returns `None` without durations.
    pub fn within(&self, budget: Duration) -> Option<f64> {
        let no_longer = || self.histogram.count_between(0, whole_micros(budget)) as f64;
        (self.count() > 0).then(|| no_longer() / self.count() as f64)
    }

    /// Returns quantiles, mean and cumulative distribution for reports. All values are zero if
    /// there are no durations.
    pub fn distribution(&self) -> Distribution {
        let h = &self.histogram;
        let ms = |micros: u64| round(micros as f64 / 1e3, 3);
        let quantile = |q| if h.is_empty() { 0.0 } else { ms(h.value_at_quantile(q)) };
        Distribution {
            count: h.len(),
            mean_ms: round(self.seconds * 1e3 / h.len().max(1) as f64, 3),
            median_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            max_ms: if h.is_empty() { 0.0 } else { ms(h.max()) },
            cdf: cdf(h),
        }
    }

    /// Returns the mean of the histogram's bins in milliseconds, within 0.1% of the exact mean;
    /// zero without durations.
    pub(super) fn binned_mean_ms(&self) -> f64 {
        self.histogram.mean() / 1e3
    }
}

/// A distribution of durations, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of durations.
    pub count: u64,
    /// Mean duration in milliseconds.
    pub mean_ms: f64,
    /// Median duration in milliseconds.
    pub median_ms: f64,
    /// 90th percentile in milliseconds.
    pub p90_ms: f64,
    /// 95th percentile in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
    /// Largest duration in milliseconds.
    pub max_ms: f64,
    /// Points of the cumulative distribution. Each has a duration in milliseconds and the fraction
    /// of durations up to this one.
    pub cdf: Vec<(f64, f64)>,
}

impl Distribution {
    /// Returns the fraction of durations up to `ms`, interpolated linearly between points.
    pub fn within_ms(&self, ms: f64) -> f64 {
        let next = self.cdf.partition_point(|(at, _)| *at <= ms);
        match (next.checked_sub(1).map(|last| self.cdf[last]), self.cdf.get(next)) {
            (Some((t0, p0)), Some((t1, p1))) => p0 + (p1 - p0) * (ms - t0) / (t1 - t0),
            (Some((_, p)), None) => p,
            (None, _) => 0.0,
        }
    }
}

fn whole_micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).map_or(LONGEST, |us| us.min(LONGEST))
}

/// Returns at most [`POINTS`] + 2 points, evenly spaced in probability, including both ends.
fn cdf(h: &Histogram<u64>) -> Vec<(f64, f64)> {
    let total = h.len();
    if total == 0 {
        return Vec::new();
    }
    let mut points = vec![(h.min() as f64 / 1e3, 0.0)];
    let mut seen = 0;
    let mut next = 0.0;
    for v in h.iter_recorded() {
        seen += v.count_since_last_iteration();
        let p = seen as f64 / total as f64;
        if p >= next || seen == total {
            points.push((round(v.value_iterated_to() as f64 / 1e3, 3), round(p, 6)));
            next = p + 1.0 / POINTS as f64;
        }
    }
    points
}

/// Rounds to `digits` decimals, for output only.
pub fn round(x: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (x * scale).round() / scale
}

/// Rounds to `digits` significant digits, for output of numbers of unknown size.
pub fn significant(x: f64, digits: i32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let decimals = digits - 1 - x.abs().log10().floor() as i32;
    // Outside this range, a double has no digits to round off.
    if (-300..=300).contains(&decimals) { round(x, decimals) } else { x }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Latencies {
        let mut l = Latencies::default();
        micros.into_iter().for_each(|us| l.record(Duration::from_micros(us)));
        l
    }

    #[test]
    fn empty_latency_histogram_has_no_quantiles() {
        let none = Latencies::default();
        assert_eq!((none.count(), none.mean(), none.quantile(0.5)), (0, None, None));
        assert_eq!(none.within(Duration::MAX), None);
        let d = none.distribution();
        assert_eq!((d.count, d.mean_ms, d.median_ms, d.max_ms, d.cdf.len()), (0, 0.0, 0.0, 0.0, 0));
    }

    #[test]
    fn small_latencies_are_stored_exactly() {
        // Up to 2 ms, every microsecond has its own bin.
        let l = of([100, 200, 300, 400]);
        assert_eq!(l.mean(), Some(Duration::from_micros(250)));
        assert_eq!(l.quantile(0.5), Some(Duration::from_micros(200)));
        assert_eq!(l.within(Duration::from_micros(300)), Some(0.75));
        assert_eq!(l.within(Duration::from_micros(299)), Some(0.5));
        assert_eq!(l.within(Duration::ZERO), Some(0.0));
        assert_eq!(
            l.distribution().cdf,
            [(0.1, 0.0), (0.1, 0.25), (0.2, 0.5), (0.3, 0.75), (0.4, 1.0)]
        );
    }

    #[test]
    fn latencies_of_zero_are_counted() {
        let l = of([0, 0, 0, 1_000]);
        assert_eq!(l.quantile(0.5), Some(Duration::ZERO));
        assert_eq!(l.within(Duration::ZERO), Some(0.75));
        assert_eq!(l.distribution().cdf, [(0.0, 0.0), (0.0, 0.75), (1.0, 1.0)]);
    }

    #[test]
    fn latencies_are_capped_at_ten_hours() {
        let mut l = of([1]);
        l.record(Duration::MAX);
        let max = l.distribution().max_ms;
        assert!((max / 36e6 - 1.0).abs() < 1e-3, "{max}");
        assert_eq!(l.within(Duration::MAX), Some(1.0));
    }

    #[test]
    fn latency_distributions_round_trip_through_json() {
        let d = of((1..5_000).map(|n| n * n)).distribution();
        let text = serde_json::to_string(&d).unwrap();
        assert_eq!(serde_json::from_str::<Distribution>(&text).unwrap(), d);
        assert!(d.cdf.len() <= POINTS + 2, "{}", d.cdf.len());
    }

    #[test]
    fn stored_values_are_rounded_to_significant_digits() {
        assert_eq!(significant(123_456.7, 3), 123_000.0);
        assert_eq!(significant(-0.001_234_56, 3), -0.001_23);
        assert_eq!((significant(0.0, 3), significant(f64::INFINITY, 3)), (0.0, f64::INFINITY));
    }

    proptest! {
        #[test]
        fn latency_quantiles_match_sorted_samples(mut micros in prop::collection::vec(0_u64..10_000_000, 1..200), q in 0.01..1.0_f64) {
            let l = of(micros.iter().copied());
            micros.sort_unstable();
            let rank = (q * micros.len() as f64).ceil() as usize;
            let (ours, exact) = (l.quantile(q).unwrap().as_micros() as f64, micros[rank.max(1) - 1] as f64);
            prop_assert!((ours - exact).abs() <= 1e-3 * exact, "{} {}", ours, exact);
        }

        #[test]
        fn merged_histograms_equal_a_histogram_of_all_samples(
            a in prop::collection::vec(0_u64..1_000_000, 0..50),
            b in prop::collection::vec(0_u64..1_000_000, 0..50),
        ) {
            let mut merged = of(a.iter().copied());
            merged.merge(&of(b.iter().copied()));
            let all = of(a.into_iter().chain(b));
            prop_assert!((merged.seconds - all.seconds).abs() < 1e-9);
            prop_assert_eq!(Distribution { mean_ms: 0.0, ..merged.distribution() }, Distribution { mean_ms: 0.0, ..all.distribution() });
        }
    }
}
