//! Rule for showing percentiles in the tables of all commands: enough samples must lie beyond a
//! percentile.

/// Minimum number of samples beyond a percentile. With fewer samples, the percentile is one of the
/// largest samples, and its value may be several times as large in another run. The relative error
/// of the number of samples beyond the percentile is 1 / sqrt(10), about a third.
pub const BEYOND: f64 = 10.0;

/// Returns the minimum number of samples for which the percentile `q`, from 0 to 1, is shown: 100
/// for the 90th, 200 for the 95th, 1,000 for the 99th. Percentiles from the 25th to the 75th, such
/// as the median, need only one sample.
pub fn samples_for(q: f64) -> u64 {
    if (0.25..=0.75).contains(&q) {
        return 1;
    }
    // This tolerance is far larger than the errors of nearest ranks.
    (BEYOND / q.min(1.0 - q).max(1e-9) - 1e-6).ceil() as u64
}

/// Returns `value`, which is the percentile `q` of `samples` samples, if there are enough samples
/// to show it.
pub fn shown(value: f64, q: f64, samples: u64) -> Option<f64> {
    (samples >= samples_for(q) && value.is_finite()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_needs_ten_samples_beyond_it() {
        let needed: Vec<u64> =
            [0.5, 0.25, 0.75, 0.9, 0.95, 0.99, 0.999, 0.05].map(samples_for).to_vec();
        assert_eq!(needed, [1, 1, 1, 100, 200, 1_000, 10_000, 200]);
        assert_eq!((shown(3.0, 0.99, 999), shown(3.0, 0.99, 1_000)), (None, Some(3.0)));
        assert_eq!((shown(3.0, 0.5, 0), shown(3.0, 0.5, 1)), (None, Some(3.0)));
        assert_eq!(shown(f64::NAN, 0.5, 10), None);
        assert_eq!(samples_for(1.0), 10_000_000_000, "the maximum is not a percentile");
    }
}
