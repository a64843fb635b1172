//! Response times: from opening the connection to the last byte of the response, handshake included (Sync-TCP §4.2).

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Responses larger than this use early congestion detection in the paper (Sync-TCP §5.1: nine ACKs of two segments, about 25 KB).
const LARGE: u64 = 25_000;
/// Points of a CDF as written to reports.
const POINTS: usize = 400;

/// One completed response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
}

/// Completed responses of a run, in bounded memory.
#[derive(Clone, Debug)]
pub struct Responses {
    times: Histogram<u64>,
    large_times: Histogram<u64>,
    bytes: u64,
    seconds: f64,
    goodput: f64,
}

impl Default for Responses {
    fn default() -> Self {
        // Three significant digits: quantiles are within 0.1 %. Longer than ten hours counts as ten hours.
        let histogram = || Histogram::new_with_max(36_000_000_000, 3).expect("these bounds are allowed");
        Self { times: histogram(), large_times: histogram(), bytes: 0, seconds: 0.0, goodput: 0.0 }
    }
}

impl Responses {
    pub(crate) fn add(&mut self, c: Completed) {
        let micros = u64::try_from(c.took.as_micros()).unwrap_or(u64::MAX).max(1);
        self.times.saturating_record(micros);
        if c.bytes > LARGE {
            self.large_times.saturating_record(micros);
        }
        self.bytes += c.bytes;
        self.seconds += c.took.as_secs_f64();
        self.goodput += c.bytes as f64 * 8.0 / c.took.as_secs_f64().max(1e-6);
    }

    /// Adds another's responses.
    pub(crate) fn merge(&mut self, other: &Self) {
        // Histograms of the same bounds always fit into each other.
        let fits = self.times.add(&other.times).and_then(|()| self.large_times.add(&other.large_times));
        debug_assert!(fits.is_ok());
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        self.goodput += other.goodput;
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// Mean body size in bytes.
    pub fn mean_size(&self) -> f64 {
        self.bytes as f64 / self.count().max(1) as f64
    }

    /// Mean over responses of each one's size / time, in kbit/s (Sync-TCP §5.1: "average goodput per response").
    pub fn goodput_kbps(&self) -> f64 {
        self.goodput / self.count().max(1) as f64 / 1e3
    }

    /// Sum of body bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All responses.
    pub fn all(&self) -> Distribution {
        Distribution::of(&self.times, Some(self.seconds))
    }

    /// Those larger than 25 kB.
    pub fn large(&self) -> Distribution {
        Distribution::of(&self.large_times, None)
    }
}

/// A distribution of response times, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Responses in it.
    pub count: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub median_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Largest.
    pub max_ms: f64,
    /// Points of the cumulative distribution: milliseconds, fraction of responses no slower.
    pub cdf: Vec<(f64, f64)>,
}

impl Distribution {
    fn of(h: &Histogram<u64>, exact_sum: Option<f64>) -> Self {
        let ms = |micros: u64| round(micros as f64 / 1e3, 3);
        let mean = match exact_sum {
            Some(seconds) => seconds * 1e3 / h.len().max(1) as f64,
            None => h.mean() / 1e3,
        };
        let quantile = |q| if h.is_empty() { 0.0 } else { ms(h.value_at_quantile(q)) };
        Self {
            count: h.len(),
            mean_ms: round(mean, 3),
            median_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            max_ms: if h.is_empty() { 0.0 } else { ms(h.max()) },
            cdf: cdf(h),
        }
    }
}

/// At most [`POINTS`] points, evenly spaced in probability, with both ends.
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

/// Rounds for output: figures that are read, not computed with.
pub(crate) fn round(x: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (x * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_means_are_those_of_the_samples() {
        let mut r = Responses::default();
        for i in 1..=1000u64 {
            r.add(Completed { bytes: 1000, took: Duration::from_millis(i) });
        }
        let d = r.all();
        assert_eq!(d.count, 1000);
        assert!((d.mean_ms - 500.5).abs() < 1e-6, "{}", d.mean_ms);
        assert!((d.median_ms - 500.0).abs() < 1.0, "{}", d.median_ms);
        assert!((d.p99_ms - 990.0).abs() < 2.0, "{}", d.p99_ms);
        assert!(d.cdf.len() <= POINTS + 2 && d.cdf.last().unwrap().1 == 1.0);
        assert!(d.cdf.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1));
        // Harmonic: the mean of 8 kbit / i ms over i.
        let expected: f64 = (1..=1000).map(|i| 8_000.0 / (f64::from(i) * 1e-3) / 1e3).sum::<f64>() / 1000.0;
        assert!((r.goodput_kbps() - expected).abs() < 1e-6 * expected);
    }
}
