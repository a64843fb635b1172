//! The distributions of PackMime-HTTP as pure inverse CDFs. Each function converts a probability to
//! bytes or a duration.
//!
//! The tails of web traffic matter, and computing with 1 - p would lose their precision. Therefore,
//! all functions here take the probability of lying *above* a value.

use std::f64::consts::SQRT_2;
use std::time::Duration;

use statrs::function::erf::erfc;
use statrs::function::gamma::gamma;

use super::tables::TABLES;

/// Probability of lying above a value, in (0, 1]: 1 - p for the quantile p.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Above(f64);

impl Above {
    /// Converts a uniform random number p in \[0, 1).
    pub(super) fn uniform(p: f64) -> Self {
        Self::new(1.0 - p)
    }

    /// Converts a unit normal random number: 1 - Phi(z), accurate far into the upper tail.
    pub(super) fn normal(z: f64) -> Self {
        Self::new(0.5 * erfc(z / SQRT_2))
    }

    fn new(probability: f64) -> Self {
        Self(probability.clamp(f64::MIN_POSITIVE, 1.0))
    }

    fn log2(self) -> f64 {
        self.0.log2()
    }

    fn minus_log10(self) -> f64 {
        -self.0.log10()
    }
}

/// A Weibull distribution. Quantiles have the unit of `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weibull {
    pub(super) shape: f64,
    pub(super) scale: f64,
}

impl Weibull {
    /// Returns the Weibull distribution with this shape and mean: scale = mean / G(1 + 1/shape).
    pub(super) fn with_mean(shape: f64, mean: f64) -> Self {
        Self { shape, scale: mean / gamma(1.0 + 1.0 / shape) }
    }

    /// Returns the quantile, scale (-ln(1-p))^(1/shape).
    pub(super) fn quantile(&self, above: Above) -> f64 {
        self.scale * (-above.0.ln()).powf(1.0 / self.shape)
    }
}

/// Returns a request size in bytes. One table covers sizes up to the median, and a second one, in
/// logarithms, covers sizes above it.
pub(super) fn request_size(above: Above) -> u64 {
    if above.0 >= 0.5 {
        bytes(TABLES.request_size_body.at((1.0 - above.0) / 0.5))
    } else {
        bytes(TABLES.request_size_tail.at(Above(above.0 / 0.5).log2()).exp2())
    }
}

/// Returns the size in bytes of a response that carries a document.
pub(super) fn download_size(above: Above) -> u64 {
    bytes(TABLES.response_size_download.at(above.log2()).exp2())
}

/// Returns the size in bytes of a response that only validates a cache entry.
pub(super) fn validation_size(above: Above) -> u64 {
    bytes(TABLES.response_size_cache_validation.at(1.0 - above.0))
}

/// Returns the client's part of the round-trip time: (table of -log10(1-p))^5 ms.
pub(super) fn client_rtt(above: Above) -> Duration {
    seconds(TABLES.client_rtt.at(above.minus_log10()).powi(5) * 1e-3)
}

/// Returns the server's part of the round-trip time: (table of -log10(1-p))^3 ms.
pub(super) fn server_rtt(above: Above) -> Duration {
    seconds(TABLES.server_rtt.at(above.minus_log10()).powi(3) * 1e-3)
}

/// Returns the server's processing time: 1/v seconds with v = max(Weibull(0.63, 305), 10), which is
/// at most 0.1 s. The time decreases as the random number p increases.
pub(super) fn server_delay(above: Above) -> Duration {
    let v = Weibull { shape: 0.63, scale: 305.0 }.quantile(above).max(10.0);
    seconds(1.0 / v)
}

/// Rounds down to whole bytes, at least one.
fn bytes(size: f64) -> u64 {
    (size as u64).max(1)
}

/// Converts seconds to a duration. Returns the longest duration if the value does not fit.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles at which sizes and times were computed independently from the same tables.
    const P: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];
    const REQUEST: [u64; 10] = [122, 216, 279, 350, 421, 514, 869, 1062, 3061, 14449];
    const DOWNLOAD: [u64; 10] = [283, 324, 386, 690, 2258, 8895, 20310, 35870, 93108, 604295];
    const VALIDATION: [u64; 10] = [22, 64, 74, 118, 140, 197, 249, 266, 271, 272];
    const CLIENT_MS: [f64; 10] =
        [0.530, 0.574, 0.635, 0.882, 1.470, 5.732, 35.97, 84.35, 598.8, 1506.7];
    const SERVER_MS: [f64; 10] =
        [0.597, 1.164, 2.336, 11.45, 57.96, 89.69, 114.05, 214.3, 670.0, 3121.0];

    #[test]
    fn web_object_sizes_have_the_reference_quantiles() {
        for (i, &p) in P.iter().enumerate() {
            let above = Above::uniform(p);
            assert_eq!(request_size(above), REQUEST[i], "request at {p}");
            assert_eq!(download_size(above), DOWNLOAD[i], "download at {p}");
            assert_eq!(validation_size(above), VALIDATION[i], "validation at {p}");
        }
    }

    #[test]
    fn web_delays_have_the_reference_quantiles() {
        for (i, &p) in P.iter().enumerate() {
            for (rtt, expected) in [
                (client_rtt(Above::uniform(p)), CLIENT_MS[i]),
                (server_rtt(Above::uniform(p)), SERVER_MS[i]),
            ] {
                let ms = rtt.as_secs_f64() * 1e3;
                assert!((ms / expected - 1.0).abs() < 1e-3, "{ms} ms for {expected} at {p}");
            }
        }
    }

    #[test]
    fn server_delay_has_the_published_median_mean_and_cap() {
        let n = 100_000;
        let delays: Vec<f64> = (0..n)
            .map(|i| {
                server_delay(Above::uniform((f64::from(i) + 0.5) / f64::from(n))).as_secs_f64()
            })
            .collect();
        let mean = delays.iter().sum::<f64>() / f64::from(n);
        assert!(
            (delays[n as usize / 2] - 5.87e-3).abs() < 1e-5,
            "median {}",
            delays[n as usize / 2]
        );
        assert!((mean - 21.96e-3).abs() < 2e-5, "mean {mean}");
        assert_eq!(server_delay(Above::uniform(0.0)), Duration::from_millis(100));
    }

    #[test]
    fn normal_distribution_tails_are_accurate() {
        for (z, above) in [
            (0.0, 0.5),
            (1.0, 0.158655253931457),
            (-1.0, 0.841344746068543),
            (6.0, 9.86587645037698e-10),
        ] {
            let found = Above::normal(z).0;
            assert!((found / above - 1.0).abs() < 1e-10, "{found} for {above}");
        }
    }

    #[test]
    fn quantile_functions_are_monotonic_and_finite_in_far_tails() {
        let mut before = (0, 0, 0, Duration::ZERO, Duration::ZERO);
        for z in -400..=400 {
            let above = Above::normal(f64::from(z) * 0.1);
            let now = (
                request_size(above),
                download_size(above),
                validation_size(above),
                client_rtt(above),
                server_rtt(above),
            );
            assert!(
                now.0 >= before.0 && now.1 >= before.1 && now.2 >= before.2,
                "{before:?} then {now:?}"
            );
            assert!(now.3 >= before.3 && now.4 >= before.4, "{before:?} then {now:?}");
            assert!(
                now.0 >= 1
                    && now.1 >= 1
                    && now.2 >= 1
                    && now.4 < Duration::MAX
                    && now.3 < Duration::MAX
            );
            before = now;
        }
    }

    #[test]
    fn weibull_built_from_a_mean_has_that_mean() {
        let weibull = Weibull::with_mean(0.884, 0.01);
        let n = 1_000_000;
        let mean = (0..n)
            .map(|i| weibull.quantile(Above::uniform((f64::from(i) + 0.5) / f64::from(n))))
            .sum::<f64>()
            / f64::from(n);
        assert!((mean / 0.01 - 1.0).abs() < 1e-4, "{mean}");
    }
}
