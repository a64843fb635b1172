//! Counts the ends of requests over time, in bounded memory.

use std::time::Duration;

/// Maximum number of bins, and their initial width. The bins become wider only after a minute.
const MOST: usize = 240;
const WIDTH: Duration = Duration::from_millis(250);

/// Numbers of requests that ended in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Complete responses.
    pub completed: u64,
    /// Failures.
    pub failed: u64,
}

/// Ends of requests over the measured time, in bins of equal width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverTime {
    width: Duration,
    bins: Vec<Ended>,
}

impl Default for OverTime {
    fn default() -> Self {
        Self { width: WIDTH, bins: Vec::new() }
    }
}

impl OverTime {
    /// Counts a request that ended at this time after the start of the measured time.
    pub(super) fn record(&mut self, at: Duration, completed: bool) {
        let mut bin = self.bin(at);
        while bin >= MOST as u128 {
            // Merge each pair of bins.
            self.bins = self
                .bins
                .chunks(2)
                .map(|pair| pair.iter().copied().fold(Ended::default(), sum))
                .collect();
            self.width *= 2;
            bin = self.bin(at);
        }
        let bin = bin as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, Ended::default());
        }
        *if completed { &mut self.bins[bin].completed } else { &mut self.bins[bin].failed } += 1;
    }

    fn bin(&self, at: Duration) -> u128 {
        at.as_nanos() / self.width.as_nanos()
    }

    /// Returns the bins that end within `window`, each with the second of its middle. Later bins
    /// are left out, because their requests ran without the load of new requests. Bins in which no
    /// request ended are empty.
    pub fn within(&self, window: Duration) -> impl Iterator<Item = (f64, Ended)> {
        let width = self.width.as_secs_f64();
        let whole = (window.as_nanos() / self.width.as_nanos()) as usize;
        (0..whole.min(MOST))
            .map(move |i| ((i as f64 + 0.5) * width, self.bins.get(i).copied().unwrap_or_default()))
    }

    /// Returns the width of a bin.
    pub fn width(&self) -> Duration {
        self.width
    }
}

fn sum(a: Ended, b: Ended) -> Ended {
    Ended { completed: a.completed + b.completed, failed: a.failed + b.failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_bins_widen_without_losing_counts() {
        let mut over_time = OverTime::default();
        for ms in (0..600_000).step_by(100) {
            over_time.record(Duration::from_millis(ms), ms % 1_000 != 0);
        }
        assert_eq!((over_time.width(), over_time.bins.len()), (Duration::from_secs(4), 150));
        let all = over_time
            .within(Duration::from_secs(600))
            .fold(Ended::default(), |all, (_, bin)| sum(all, bin));
        assert_eq!(all, Ended { completed: 5_400, failed: 600 });
        assert!(
            over_time
                .within(Duration::from_secs(600))
                .all(|(_, bin)| bin == Ended { completed: 36, failed: 4 })
        );
    }

    #[test]
    fn only_complete_time_bins_are_shown_and_empty_bins_are_zero() {
        let mut over_time = OverTime::default();
        over_time.record(Duration::from_millis(300), true);
        over_time.record(Duration::from_millis(1_900), true);
        let shown: Vec<(f64, u64)> = over_time
            .within(Duration::from_millis(1_100))
            .map(|(at, bin)| (at, bin.completed))
            .collect();
        assert_eq!(shown, [(0.125, 0), (0.375, 1), (0.625, 0), (0.875, 0)]);
        assert_eq!(OverTime::default().within(Duration::from_secs(1)).count(), 4);
        // A request that ends long after the run must not cause a panic.
        over_time.record(Duration::from_secs(1 << 40), false);
    }
}
