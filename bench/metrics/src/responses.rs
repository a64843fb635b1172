//! Response times. A response time lasts from the opening of the connection to the last byte of the
//! response, including the handshake (Sync-TCP §4.2).

use std::time::Duration;

use super::latency::{Distribution, Latencies, round};

/// Size in bytes above which responses use early congestion detection in the paper (Sync-TCP §5.1:
/// nine ACKs of two segments, about 25 KB).
const LARGE: u64 = 25_000;

/// One completed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Size of the body in bytes.
    pub bytes: u64,
    /// Time from the start to the last byte.
    pub took: Duration,
    /// Time from the start to the first byte of the header.
    pub first_byte: Duration,
}

/// Completed responses of a run, in bounded memory.
#[derive(Clone, Debug, Default)]
pub struct Responses {
    times: Latencies,
    large_times: Latencies,
    first_bytes: Latencies,
    bytes: u64,
    goodput: f64,
}

impl Responses {
    /// Adds a complete response.
    pub fn add(&mut self, c: Completed) {
        let took = c.took.max(Duration::from_micros(1));
        self.times.record(took);
        self.first_bytes.record(c.first_byte.max(Duration::from_micros(1)));
        if c.bytes > LARGE {
            self.large_times.record(took);
        }
        self.bytes += c.bytes;
        self.goodput += c.bytes as f64 * 8.0 / took.as_secs_f64();
    }

    /// Adds the responses of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.large_times.merge(&other.large_times);
        self.first_bytes.merge(&other.first_bytes);
        self.bytes += other.bytes;
        self.goodput += other.goodput;
    }

    /// Returns the number of responses.
    pub fn count(&self) -> u64 {
        self.times.count()
    }

    /// Returns the mean body size in bytes.
    pub fn mean_size(&self) -> f64 {
        self.bytes as f64 / self.count().max(1) as f64
    }

    /// Returns the mean over responses of size divided by time, in kbit/s (Sync-TCP §5.1: "average
    /// goodput per response").
    pub fn goodput_kbps(&self) -> f64 {
        self.goodput / self.count().max(1) as f64 / 1e3
    }

    /// Returns the sum of body bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the response times of all responses.
    pub fn all(&self) -> Distribution {
        self.times.distribution()
    }

    /// Returns, for all responses, the times to the first byte.
    pub fn first_bytes(&self) -> Distribution {
        self.first_bytes.distribution()
    }

    /// Returns the response times of responses larger than 25 kB. The mean is computed from the
    /// histogram, for consistency with all earlier results.
    pub fn large(&self) -> Distribution {
        Distribution {
            mean_ms: round(self.large_times.binned_mean_ms(), 3),
            ..self.large_times.distribution()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_time_quantiles_and_means_match_the_samples() {
        let mut r = Responses::default();
        for i in 1..=1000u64 {
            r.add(Completed {
                bytes: 1000,
                took: Duration::from_millis(i),
                first_byte: Duration::from_millis(i / 2),
            });
        }
        let d = r.all();
        assert_eq!(d.count, 1000);
        assert!((d.mean_ms - 500.5).abs() < 1e-6, "{}", d.mean_ms);
        assert!((d.median_ms - 500.0).abs() < 1.0, "{}", d.median_ms);
        assert!((d.p99_ms - 990.0).abs() < 2.0, "{}", d.p99_ms);
        assert!((r.first_bytes().median_ms - 250.0).abs() < 1.0, "{}", r.first_bytes().median_ms);
        assert!(d.cdf.last().unwrap().1 == 1.0);
        assert!(d.cdf.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1));
        // Mean of 8 kbit / i ms over i.
        let expected: f64 =
            (1..=1000).map(|i| 8_000.0 / (f64::from(i) * 1e-3) / 1e3).sum::<f64>() / 1000.0;
        assert!((r.goodput_kbps() - expected).abs() < 1e-6 * expected);
    }

    #[test]
    fn responses_above_25_kilobytes_count_as_large() {
        let mut r = Responses::default();
        let first_byte = Duration::from_millis(1);
        r.add(Completed { bytes: 25_000, took: Duration::from_millis(1), first_byte });
        r.add(Completed { bytes: 25_001, took: Duration::from_millis(100), first_byte });
        assert_eq!((r.all().count, r.large().count), (2, 1));
        assert_eq!((r.all().mean_ms, r.bytes()), (50.5, 50_001));
        assert!((r.large().mean_ms - 100.0).abs() < 0.1, "{}", r.large().mean_ms);
        assert_eq!(Responses::default().large().mean_ms, 0.0);
    }
}
