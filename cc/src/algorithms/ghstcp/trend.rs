//! Three tests of whether the RTTs of one round trip rise. They take departure times and RTTs,
//! return a verdict, and use bounded memory.
//!
//! The correlation needs only sums. The sums are integers, so differences of large sums lose no
//! precision. Mann-Kendall compares every pair of samples and keeps at most [`KEPT`] samples. When
//! the list is full, every second sample is dropped, and from then on, only every second sample is
//! kept. The other tests can use the same samples (`samples=spread`). This is useful because
//! neighbouring samples of one queue are not independent, and with thousands of samples, any rise
//! is significant.

use std::time::Duration;

use crate::options::option_values;
use crate::units::Time;

option_values! {
    /// Test that recognises a rise.
    pub enum Test {
        /// Pearson's r of departure time and RTT is positive, which follows the plain words of
        /// gHSTCP §3.2.
        Correlation = "correlation",
        /// Pearson's r is significantly positive by Student's t.
        TTest = "t-test",
        /// Later RTTs are significantly larger by the Mann-Kendall test.
        MannKendall = "mann-kendall",
    }
}

option_values! {
    /// Samples of a round trip that the correlation and the t-test use.
    pub enum Samples {
        /// All of them.
        All = "all",
        /// At most [`KEPT`] samples, evenly spaced, as for Mann-Kendall.
        Spread = "spread",
    }
}

/// Number of samples kept of one round trip. Mann-Kendall then compares 2 016 pairs, once per round
/// trip.
pub const KEPT: usize = 64;
/// Smallest number of samples for a result of the t-test.
pub const MIN_T_SAMPLES: u64 = 5;
/// Upper 5 % point of the normal distribution.
const Z: f64 = 1.644_853_626_951_472_7;
/// Largest number of samples counted in one round trip. Later samples are ignored, so that no sum
/// can overflow.
const MAX_SAMPLES: i128 = 1 << 20;
/// Upper bound of differences in nanoseconds (69 s), also to avoid overflow.
const MAX_DIFFERENCE: i64 = 1 << 36;

/// Returns the upper 5 % point of Student's t with `freedom` degrees of freedom. It is computed
/// from the normal distribution's point by an expansion in 1 / freedom, and is accurate to 0.002
/// from three degrees of freedom on.
pub fn student_t(freedom: f64) -> f64 {
    let z2 = Z * Z;
    let terms = [
        (z2 + 1.0) / 4.0,
        ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        ((((79.0 * z2 + 776.0) * z2 + 1_482.0) * z2 - 1_920.0) * z2 - 945.0) / 92_160.0,
    ];
    Z * (1.0 + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom))
}

/// Square of [`Z`], rounded as in tables to 1.645², in millionths.
const Z_SQUARED_MILLIONTHS: i128 = 2_706_025;

/// Returns whether Mann-Kendall's z = (S - 1) / sqrt(Var S) is above 1.645, with Var S = n (n - 1)
/// (2n + 5) / 18. There is no correction for ties.
pub fn mann_kendall_rises(s: i64, n: u64) -> bool {
    // The comparison is squared, so that it needs only integers.
    let (s, n) = (i128::from(s), i128::from(n));
    s > 1 && (s - 1) * (s - 1) * 18 * 1_000_000 > Z_SQUARED_MILLIONTHS * n * (n - 1) * (2 * n + 5)
}

/// Sums for Pearson's r. x and y are in nanoseconds, relative to the first sample.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    n: i128,
    x: i128,
    y: i128,
    xx: i128,
    yy: i128,
    xy: i128,
}

impl Sums {
    fn add(&mut self, (x, y): Sample) {
        if self.n < MAX_SAMPLES {
            let (x, y) = (i128::from(x), i128::from(y));
            self.n += 1;
            self.x += x;
            self.y += y;
            self.xx += x * x;
            self.yy += y * y;
            self.xy += x * y;
        }
    }

    /// Returns n² times the covariance, which has the sign of r.
    fn covariance(&self) -> i128 {
        self.n * self.xy - self.x * self.y
    }

    /// Returns whether t = r sqrt((n - 2) / (1 - r²)) is above its 5 % point. Both sides are
    /// squared.
    fn significant(&self) -> bool {
        let covariance = self.covariance();
        if self.n < i128::from(MIN_T_SAMPLES) || covariance <= 0 {
            return false;
        }
        let variances = (self.n * self.xx - self.x * self.x) as f64
            * (self.n * self.yy - self.y * self.y) as f64;
        let square = covariance as f64 * covariance as f64;
        let freedom = (self.n - 2) as f64;
        let t = student_t(freedom);
        square * freedom > t * t * (variances - square)
    }
}

/// A departure time and its RTT, in nanoseconds relative to the first sample.
type Sample = (i64, i64);

/// At most [`KEPT`] samples in order, evenly spaced over all samples.
#[derive(Clone, Debug)]
struct Kept {
    list: [Sample; KEPT],
    len: usize,
    /// Distance between kept samples: every `stride`-th sample is kept.
    stride: u64,
    seen: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self { list: [(0, 0); KEPT], len: 0, stride: 1, seen: 0 }
    }
}

impl Kept {
    fn add(&mut self, sample: Sample) {
        if self.seen.is_multiple_of(self.stride) {
            if self.len == KEPT {
                for at in 0..KEPT / 2 {
                    self.list[at] = self.list[2 * at];
                }
                self.len = KEPT / 2;
                self.stride *= 2;
            }
            self.list[self.len] = sample;
            self.len += 1;
        }
        self.seen += 1;
    }

    /// Returns S: the number of rising pairs minus the number of falling pairs.
    fn score(&self) -> i64 {
        let list = self.samples();
        list.iter()
            .enumerate()
            .flat_map(|(at, (_, first))| {
                list[at + 1..].iter().map(move |(_, later)| later.cmp(first) as i64)
            })
            .sum()
    }

    fn samples(&self) -> &[Sample] {
        &self.list[..self.len]
    }
}

/// Detector of a trend in the samples of one round trip.
#[derive(Clone, Debug)]
pub struct TrendDetector {
    test: Test,
    samples: Samples,
    first: Option<(Time, u64)>,
    sums: Sums,
    kept: Kept,
}

impl TrendDetector {
    /// Creates a detector without samples.
    pub fn new(test: Test, samples: Samples) -> Self {
        Self { test, samples, first: None, sums: Sums::default(), kept: Kept::default() }
    }

    /// Records that a packet sent at `departure` was acknowledged after `rtt`.
    pub fn on_sample(&mut self, departure: Time, rtt: Duration) {
        let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        let (departure0, rtt0) = *self.first.get_or_insert((departure, rtt));
        let sample =
            (difference(departure.as_nanos(), departure0.as_nanos()), difference(rtt, rtt0));
        match (self.test, self.samples) {
            (Test::MannKendall, _) | (_, Samples::Spread) => self.kept.add(sample),
            (_, Samples::All) => self.sums.add(sample),
        }
    }

    /// Returns whether the RTTs rise, by the chosen test.
    pub fn rising(&self) -> bool {
        match self.test {
            Test::Correlation => self.sums().covariance() > 0,
            Test::TTest => self.sums().significant(),
            Test::MannKendall => mann_kendall_rises(self.kept.score(), self.kept.len as u64),
        }
    }

    fn sums(&self) -> Sums {
        let mut sums = self.sums;
        if self.samples == Samples::Spread {
            self.kept.samples().iter().for_each(|sample| sums.add(*sample));
        }
        sums
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        (self.first, self.sums) = (None, Sums::default());
        (self.kept.len, self.kept.stride, self.kept.seen) = (0, 1, 0);
    }
}

/// Returns `a - b`, limited to [`MAX_DIFFERENCE`] in both directions.
fn difference(a: u64, b: u64) -> i64 {
    let difference = i128::from(a) - i128::from(b);
    difference.clamp(i128::from(-MAX_DIFFERENCE), i128::from(MAX_DIFFERENCE)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a detector with one sample per millisecond and RTTs in microseconds.
    fn detector(test: Test, rtts: impl IntoIterator<Item = u64>) -> TrendDetector {
        spread_or_all(test, Samples::All, rtts)
    }

    fn spread_or_all(
        test: Test,
        samples: Samples,
        rtts: impl IntoIterator<Item = u64>,
    ) -> TrendDetector {
        let mut detector = TrendDetector::new(test, samples);
        for (n, rtt) in rtts.into_iter().enumerate() {
            detector.on_sample(Time::from_millis(7_000 + n as u64), Duration::from_micros(rtt));
        }
        detector
    }

    /// Returns Pearson's r of these RTTs against 0, 1, 2, ..., by its definition.
    fn pearson(rtts: &[u64]) -> f64 {
        let n = rtts.len() as f64;
        let xs = || (0..rtts.len()).map(|x| x as f64 - (n - 1.0) / 2.0);
        let mean = rtts.iter().sum::<u64>() as f64 / n;
        let ys = || rtts.iter().map(|y| *y as f64 - mean);
        let sum = |terms: &mut dyn Iterator<Item = f64>| terms.sum::<f64>();
        let xy = sum(&mut xs().zip(ys()).map(|(x, y)| x * y));
        xy / (sum(&mut xs().map(|x| x * x)) * sum(&mut ys().map(|y| y * y))).sqrt()
    }

    /// Returns RTTs with a slow rise under pseudo-random noise: `slope` per sample and `noise` in
    /// microseconds.
    fn noisy(n: u64, slope: u64, noise: u64) -> Vec<u64> {
        // The mixing steps of SplitMix64.
        let mix = |i: u64| {
            let z = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33
        };
        (0..n).map(|i| 40_000 + slope * i + mix(i) % noise).collect()
    }

    #[test]
    fn ghstcp_critical_values_match_students_t() {
        // This is the usual table of one-sided 5 % values.
        let table = [
            (3, 2.353),
            (4, 2.132),
            (5, 2.015),
            (8, 1.860),
            (10, 1.812),
            (18, 1.734),
            (28, 1.701),
            (120, 1.658),
        ];
        for (freedom, t) in table {
            assert!(
                (student_t(f64::from(freedom)) - t).abs() < 0.002,
                "{freedom}: {}",
                student_t(f64::from(freedom))
            );
        }
    }

    #[test]
    fn ghstcp_t_test_matches_known_critical_correlations() {
        // The critical r is 0.549 with 10 samples, 0.378 with 20 and 0.306 with 30. The test's
        // verdicts on many noisy rises are compared with r, computed by its definition.
        for (n, critical) in [(10, 0.549), (20, 0.378), (30, 0.306)] {
            let mut seen = [0; 2];
            for slope in (0..300).step_by(5) {
                for noise in [997, 3_001, 6_007] {
                    let rtts = noisy(n, slope, noise);
                    let r = pearson(&rtts);
                    if (r - critical).abs() < 0.001 {
                        continue;
                    }
                    let rises = detector(Test::TTest, rtts).rising();
                    assert_eq!(rises, r > critical, "n {n} slope {slope} noise {noise}: r {r}");
                    seen[usize::from(rises)] += 1;
                }
            }
            assert!(seen.iter().all(|count| *count >= 10), "{seen:?}");
        }
    }

    #[test]
    fn correlation_test_detects_a_rise_whenever_r_is_positive() {
        for slope in 0..8 {
            let mut rtts = noisy(24, slope, 997);
            for _ in 0..2 {
                assert_eq!(
                    detector(Test::Correlation, rtts.clone()).rising(),
                    pearson(&rtts) > 0.0,
                    "{rtts:?}"
                );
                rtts.reverse();
            }
        }
    }

    #[test]
    fn mann_kendall_test_matches_its_formula() {
        // n = 10: Var S = 10 * 9 * 25 / 18 = 125, so the test requires S - 1 > 18.39. n = 4: Var
        // S = 8.667, and S = 6 gives 1.698. n = 3 gives at most 1.04.
        assert!(mann_kendall_rises(20, 10) && !mann_kendall_rises(19, 10));
        assert!(mann_kendall_rises(6, 4) && !mann_kendall_rises(3, 3));
        assert!(
            !mann_kendall_rises(-40, 10) && !mann_kendall_rises(0, 0) && !mann_kendall_rises(1, 2)
        );
        // Ten samples in order, with three pairs of neighbours swapped: S = 45 - 6.
        let swapped = [1, 0, 3, 2, 5, 4, 6, 7, 8, 9];
        assert_eq!(detector(Test::MannKendall, swapped).kept.score(), 39);
    }

    #[test]
    fn significance_tests_detect_only_clear_rises() {
        for &test in Test::ALL {
            for n in [0, 1, 2, 10, 63, 64, 65, 1_000] {
                assert!(!detector(test, vec![40_000; n]).rising(), "{test:?} {n} level");
                assert!(
                    !detector(test, (0..n as u64).map(|i| 90_000 - i)).rising(),
                    "{test:?} {n} falling"
                );
                if n >= 10 {
                    assert!(
                        detector(test, (0..n as u64).map(|i| 40_000 + i)).rising(),
                        "{test:?} {n} rising"
                    );
                }
            }
        }
    }

    #[test]
    fn only_the_correlation_test_detects_weak_rises() {
        // S and r by their definitions: neither is near its 5 % point with 30 samples (S 94, r
        // 0.306).
        let rtts = noisy(30, 90, 6_007);
        let pairs = (0..30).flat_map(|i| (i + 1..30).map(move |j| (i, j)));
        let s: i64 = pairs.map(|(i, j)| (rtts[j] as i64 - rtts[i] as i64).signum()).sum();
        let r = pearson(&rtts);
        assert!((0.05..0.25).contains(&r) && s < 80, "r {r}, S {s}");
        let rising: Vec<bool> =
            Test::ALL.iter().map(|test| detector(*test, rtts.clone()).rising()).collect();
        assert_eq!(rising, [true, false, false]);
    }

    #[test]
    fn trend_of_a_subset_of_samples_is_judged_by_its_own_size() {
        // The rise is significant with all 1,000 noisy samples, but not with 63 of them. The
        // critical r is 0.052 with 1,000 samples and 0.209 with 63.
        let rtts = noisy(1_000, 2, 20_011);
        let spread: Vec<u64> = rtts.iter().copied().step_by(16).collect();
        let (all, few) = (pearson(&rtts), pearson(&spread));
        assert!(all > 0.06 && (0.0..0.2).contains(&few), "r {all} and {few}");
        for (test, samples, rises) in [
            (Test::Correlation, Samples::All, true),
            (Test::Correlation, Samples::Spread, true),
            (Test::TTest, Samples::All, true),
            (Test::TTest, Samples::Spread, false),
        ] {
            let mut detector = spread_or_all(test, samples, rtts.iter().copied());
            assert_eq!(detector.rising(), rises, "{test:?} {samples:?}");
            detector.clear();
            assert!(!detector.rising(), "{test:?} {samples:?}");
        }
        // Up to the number of samples that are kept, both choices give the same result.
        for slope in (0..300).step_by(7) {
            let rtts = noisy(64, slope, 6_007);
            let rises =
                |samples| spread_or_all(Test::TTest, samples, rtts.iter().copied()).rising();
            let [all, few] = [Samples::All, Samples::Spread].map(rises);
            assert_eq!(all, few, "slope {slope}");
        }
    }

    #[test]
    fn kept_rtt_samples_are_spread_evenly() {
        let kept = detector(Test::MannKendall, 0..1_000).kept;
        assert_eq!((kept.len, kept.stride), (63, 16), "1000 / 16, the first included");
        for at in 0..kept.len {
            assert_eq!(kept.list[at], (16_000_000 * at as i64, 16_000 * at as i64));
        }
        let mut again = detector(Test::MannKendall, 0..1_000);
        again.clear();
        assert_eq!((again.kept.len, again.kept.stride, again.rising()), (0, 1, false));
    }

    #[test]
    fn trend_detector_does_not_overflow_on_extreme_samples() {
        for &test in Test::ALL {
            let mut detector = TrendDetector::new(test, Samples::All);
            detector.on_sample(Time::ZERO, Duration::ZERO);
            for _ in 0..2_000 {
                detector.on_sample(Time::from_nanos(u64::MAX), Duration::MAX);
                detector.on_sample(Time::ZERO, Duration::ZERO);
            }
            detector.sums.n = MAX_SAMPLES;
            detector.on_sample(Time::ZERO, Duration::MAX);
            detector.rising();
        }
    }
}
