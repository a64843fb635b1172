//! A value over time in a limited number of bins, so that memory does not grow with the run.

use fathom_units::Time;
use serde::Serialize;

/// Maximum number of bins. When time passes the last bin, pairs of neighbouring bins merge, and
/// bins become twice as wide.
const BINS: usize = 1024;
/// Initial width of a bin: 1 ms, in nanoseconds.
const FIRST_WIDTH: u64 = 1_000_000;

/// One bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bin {
    /// Integral of the value over the bin, in value-seconds.
    pub sum: f64,
    /// Largest value in the bin.
    pub max: f64,
}

/// A value over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    width: u64,
    bins: Vec<Bin>,
}

impl Default for Series {
    fn default() -> Self {
        Self::new()
    }
}

impl Series {
    /// Returns an empty series.
    pub fn new() -> Self {
        Self { width: FIRST_WIDTH, bins: Vec::new() }
    }

    /// Returns the width of a bin in seconds.
    pub fn width(&self) -> f64 {
        self.width as f64 * 1e-9
    }

    /// Returns the bins, from time zero.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Adds a `value` that was held over `[from, to)` to the integrals of the bins.
    pub fn add_span(&mut self, from: Time, to: Time, value: f64) {
        let (from, to) = (from.as_nanos(), to.as_nanos());
        if value == 0.0 || to <= from {
            if to > from {
                self.bin(to - 1);
            }
            return;
        }
        self.bin(to - 1); // widen first, so that the width does not change below
        let mut at = from;
        while at < to {
            let end = ((at / self.width + 1) * self.width).min(to);
            let bin = self.bin(at);
            bin.sum += value * (end - at) as f64 * 1e-9;
            bin.max = bin.max.max(value);
            at = end;
        }
    }

    fn bin(&mut self, at: u64) -> &mut Bin {
        while at / self.width >= BINS as u64 {
            self.bins = self
                .bins
                .chunks(2)
                .map(|pair| Bin {
                    sum: pair.iter().map(|b| b.sum).sum(),
                    max: pair.iter().map(|b| b.max).fold(0.0, f64::max),
                })
                .collect();
            self.width *= 2;
        }
        let index = (at / self.width) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_series_bins_keeps_sums_and_maxima() {
        let mut s = Series::new();
        let mut total = 0.0;
        for i in 0..5_000u64 {
            s.add_span(Time::from_millis(i), Time::from_millis(i + 1), (i % 7) as f64);
            total += (i % 7) as f64 * 1e-3;
        }
        assert!(s.bins().len() <= BINS);
        assert!((s.bins().iter().map(|b| b.sum).sum::<f64>() - total).abs() < 1e-9);
        assert_eq!(s.bins().iter().map(|b| b.max).fold(0.0, f64::max), 6.0);
    }

    #[test]
    fn time_span_is_spread_over_the_bins_it_covers() {
        let mut s = Series::new();
        s.add_span(Time::from_micros(500), Time::from_micros(2_500), 4.0);
        let sums: Vec<f64> = s.bins().iter().map(|b| (b.sum * 1e6).round()).collect();
        assert_eq!(sums, [2_000.0, 4_000.0, 2_000.0]);
    }
}
