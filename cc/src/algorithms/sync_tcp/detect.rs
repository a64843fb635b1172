//! Congestion detection: Sync-TCP Algorithm 1 and Sync-TCP §3.3. The detector takes delays and
//! occasionally returns a verdict.

use std::time::Duration;

use crate::units::{OneWayDelay, Ratio};

/// Number of average queueing delays from which a trend is computed.
pub const SAMPLES: usize = 9;
/// Number of samples between two verdicts: the three newest samples replace the three oldest of the
/// nine.
pub const STEP: usize = 3;

/// Weight of the old average in the new average queueing delay: 0.875. The sample has the remaining
/// weight (Sync-TCP §3.3).
pub const AVERAGE_KEPT: Ratio = Ratio::new(7, 8);
/// Lower borders of low, moderate and heavy congestion, as shares of the largest queueing delay
/// seen (Sync-TCP §3.3).
pub const REGIONS: [Ratio; 3] = [Ratio::percent(25), Ratio::percent(50), Ratio::percent(75)];

/// Direction of the average queueing delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// The average queueing delay increases: m0 < m2.
    Increasing,
    /// The average queueing delay stays the same: m0 = m2. The paper does not mention this case.
    Level,
    /// The average queueing delay decreases: m0 > m2.
    Decreasing,
}

/// Region of the average queueing delay, by [`REGIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// 0-25 %: negligible congestion.
    Negligible,
    /// 25-50 %: low congestion.
    Low,
    /// 50-75 %: moderate congestion.
    Moderate,
    /// 75-100 %: heavy congestion.
    Heavy,
}

/// Result of the detector once it has enough samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Direction of the average queueing delay.
    pub trend: Trend,
    /// Region of the average queueing delay.
    pub region: Region,
}

/// Returns the median of three numbers.
pub fn median(group: [u64; 3]) -> u64 {
    let [a, b, c] = group;
    a.min(b).max(a.max(b).min(c))
}

/// Returns the trend of nine samples, oldest first: compares the medians of the first and the last
/// group of three (Sync-TCP §3.3).
pub fn trend(samples: &[u64; SAMPLES]) -> Trend {
    let [a, b, c, _, _, _, x, y, z] = *samples;
    let (m0, m2) = (median([a, b, c]), median([x, y, z]));
    match m0.cmp(&m2) {
        std::cmp::Ordering::Less => Trend::Increasing,
        std::cmp::Ordering::Equal => Trend::Level,
        std::cmp::Ordering::Greater => Trend::Decreasing,
    }
}

/// Returns the region of `average` between zero and `max`. A delay on a border belongs to the
/// higher region. While `max` is zero, the region is negligible.
pub fn region(average: u64, max: u64) -> Region {
    let reached = |border: &Ratio| {
        u128::from(average) * u128::from(border.den()) >= u128::from(max) * u128::from(border.num())
    };
    match REGIONS.iter().filter(|border| max > 0 && reached(border)).count() {
        0 => Region::Negligible,
        1 => Region::Low,
        2 => Region::Moderate,
        _ => Region::Heavy,
    }
}

/// Returns AvgQDelay <- 0.875 AvgQDelay + 0.125 CurQDelay, in nanoseconds, rounded down
/// (Sync-TCP §3.3).
pub fn average(average: u64, current: u64) -> u64 {
    let (kept, parts) = (u128::from(AVERAGE_KEPT.num()), u128::from(AVERAGE_KEPT.den()));
    ((u128::from(average) * kept + u128::from(current) * (parts - kept)) / parts) as u64
}

/// The state of Algorithm 1. Delays are in nanoseconds above the smallest delay seen.
#[derive(Clone, Debug)]
pub struct Detector {
    /// Smallest delay seen, MinOTT.
    min: Option<OneWayDelay>,
    /// Largest queueing delay seen, MaxQDelay.
    max: u64,
    /// Average queueing delay, AvgQDelay. It starts at zero. The first CurQDelay is zero by
    /// definition, so any other start would make no sense.
    average: u64,
    /// The last nine averages, oldest first.
    samples: [u64; SAMPLES],
    /// Number of samples still needed for the next verdict.
    wanted: usize,
}

impl Default for Detector {
    fn default() -> Self {
        Self { min: None, max: 0, average: 0, samples: [0; SAMPLES], wanted: SAMPLES }
    }
}

impl Detector {
    /// Processes the one-way delay of one ACK. Returns a verdict with the ninth sample and with
    /// every third sample after it.
    pub fn on_sample(&mut self, delay: OneWayDelay) -> Option<Verdict> {
        let min = self.min.map_or(delay, |min| min.min(delay));
        self.min = Some(min);
        let current = u64::try_from(delay.above(min).as_nanos()).unwrap_or(u64::MAX);
        self.max = self.max.max(current);
        self.average = average(self.average, current);
        self.samples.copy_within(1.., 0);
        self.samples[SAMPLES - 1] = self.average;
        self.wanted -= 1;
        if self.wanted > 0 {
            return None;
        }
        self.wanted = STEP;
        Some(Verdict { trend: trend(&self.samples), region: region(self.average, self.max) })
    }

    /// Returns the average queueing delay; `None` before the first sample.
    pub fn average(&self) -> Option<Duration> {
        self.min.map(|_| Duration::from_nanos(self.average))
    }

    /// Returns the largest queueing delay seen.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: i64) -> OneWayDelay {
        OneWayDelay::from_nanos(nanos)
    }

    #[test]
    fn median_of_three_is_the_middle_value() {
        for group in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            assert_eq!(median(group), 2, "{group:?}");
        }
        assert_eq!(median([5, 5, 1]), 5);
        assert_eq!(median([1, 5, 1]), 1);
    }

    #[test]
    fn sync_delay_trend_depends_only_on_the_outer_medians() {
        assert_eq!(trend(&[1, 1, 9, 9, 9, 9, 2, 2, 0]), Trend::Increasing);
        assert_eq!(trend(&[2, 2, 0, 0, 0, 0, 1, 1, 9]), Trend::Decreasing);
        assert_eq!(trend(&[3, 0, 9, 1, 2, 3, 9, 3, 0]), Trend::Level);
    }

    #[test]
    fn sync_delay_regions_have_the_borders_of_the_paper() {
        let expected = [
            (0, Region::Negligible),
            (249, Region::Negligible),
            (250, Region::Low),
            (499, Region::Low),
            (500, Region::Moderate),
            (749, Region::Moderate),
            (750, Region::Heavy),
            (1_000, Region::Heavy),
        ];
        for (average, expected) in expected {
            assert_eq!(region(average, 1_000), expected, "average {average}");
        }
        assert_eq!(region(0, 0), Region::Negligible);
        assert_eq!(region(u64::MAX, u64::MAX), Region::Heavy);
    }

    #[test]
    fn sync_weighted_average_follows_the_formula() {
        let mut a = 0;
        let mut formula = 0.0_f64;
        for current in [8_000_000_u64, 16_000_000, 0, 4_000_000, 1, 999_999_999] {
            a = average(a, current);
            formula = 0.875 * formula + 0.125 * current as f64;
            assert!((a as f64 - formula).abs() < 8.0, "{a} against {formula}");
        }
    }

    #[test]
    fn sync_weighted_average_returns_to_zero() {
        let mut a = 1_000_000_000;
        for _ in 0..200 {
            a = average(a, 0);
        }
        assert_eq!(a, 0);
    }

    #[test]
    fn sync_verdicts_come_at_ninth_sample_and_every_third_after() {
        let mut d = Detector::default();
        let verdicts: Vec<_> = (1..=18).filter(|_| d.on_sample(at(5)).is_some()).collect();
        assert_eq!(verdicts, [9, 12, 15, 18]);
    }

    #[test]
    fn sync_detection_depends_only_on_differences_of_delays() {
        let (mut near, mut far) = (Detector::default(), Detector::default());
        for n in 0..60_i64 {
            let delay = (n * 7_919) % 5_000_000;
            assert_eq!(near.on_sample(at(delay)), far.on_sample(at(delay - 3_600_000_000_000)));
        }
        assert_eq!(near.average(), far.average());
    }

    #[test]
    fn lower_minimum_delay_changes_the_base_but_not_the_maximum() {
        let mut d = Detector::default();
        d.on_sample(at(100));
        d.on_sample(at(180));
        assert_eq!(d.max(), Duration::from_nanos(80));
        d.on_sample(at(50));
        assert_eq!(d.max(), Duration::from_nanos(80));
        d.on_sample(at(150));
        assert_eq!(d.max(), Duration::from_nanos(100));
    }
}
