//! PackMime-HTTP: web traffic for one rate of new connections per second (Sync-TCP §4.2).
//!
//! The model is the one of Cao, Cleveland, Gao, Jeffay, Smith and Weigle, "Stochastic models for
//! generating synthetic HTTP source traffic", INFOCOM 2004, with the parameters and tables of the
//! public ns-2.35 distribution. The rate is the model's only parameter. With more connections per
//! second, arrivals, request sizes and round-trip times become more independent (`Fit`).
//!
//! # Randomness
//! Every quantity has its own random generator, derived from the seed (`stream`). Consequences:
//! - The same seed gives the same requests to every controller.
//! - An option changes only the quantity that it names.
//! - The same seed at another rate keeps all underlying random numbers. The k-th download, gap or
//!   round-trip time always comes from the k-th number of its stream. The load therefore rises
//!   smoothly with the rate, and the rate can be calibrated for a seed.
//!
//! The download sizes have a tail index of about 1.2. Even over 100,000 requests, their mean
//! differs considerably between seeds. Compare controllers on the same seed, and calibrate the rate
//! for the seed that will be used.
//!
//! # Departures
//! - There is one generator per quantity, and one per kind of response. ns-2 has a different set of
//!   generators.
//! - The server's processing time is off unless requested, because Sync-TCP §4.2 does not list it
//!   among the distributions.
//! - Tails are evaluated on 1 - p rather than p, which keeps their precision. Beyond the tables,
//!   the slopes at the ends continue without a limit, as in ns-2. [`Options::max_response`] can set
//!   a limit.

use std::time::Duration;

use fathom_cc::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::WebRequest;
use super::distributions::{self, Above, Weibull};
use super::fsd::{CorrelatedNormal, Fsd};
use super::rate::{Range, RateOutOfRange};

/// Distribution of the start times of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Weibull gaps with long-range dependence, the model's default.
    #[default]
    Packmime,
    /// Independent exponential gaps with the same mean: a Poisson process.
    Poisson,
}

/// Choices that the model leaves open. The defaults are those of Sync-TCP §4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether servers wait before they respond, for 5.87 ms in the median, 22 ms on average and at
    /// most 100 ms. They do not in Sync-TCP.
    pub server_delay: bool,
    /// Maximum response size in bytes; larger responses are truncated. `None`, as in the paper,
    /// does not limit the tail.
    pub max_response: Option<u64>,
    /// Distribution of the start times of requests.
    pub arrivals: Arrivals,
}

/// Range of supported rates. Far below one connection per second, the fitted Weibull shapes become
/// absurd. The upper bound is far above the rates of the traces behind the model, and all
/// quantities are already independent there.
const RATES: Range = Range {
    counts: "new connections",
    of: " for PackMime",
    decimals: 4,
    least: 0.1,
    most: 1_000_000.0,
};

/// An endless stream of web requests in order of their start. The first starts at time zero.
#[derive(Clone)]
pub struct PackMime {
    options: Options,
    next_start: Time,
    gap: Weibull,
    gaps: CorrelatedNormal,
    /// Mean gap in seconds and the random generator, if arrivals are independent.
    poisson: Option<(f64, Pcg64)>,
    requests: CorrelatedNormal,
    client_rtts: CorrelatedNormal,
    server_rtts: CorrelatedNormal,
    kinds: Runs,
    downloads: Pcg64,
    validations: Pcg64,
    server_delays: Pcg64,
}

impl PackMime {
    /// Creates the traffic of `rate` new connections per second. The call takes about 10 ms,
    /// because it generates the past values of the long-memory series.
    ///
    /// # Errors
    /// Returns an error if the rate is not a number from 0.1 to 1,000,000.
    pub fn new(rate: f64, seed: u64, options: Options) -> Result<Self, RateOutOfRange> {
        let fit = Fit::new(rate)?;
        Ok(Self {
            options,
            next_start: Time::ZERO,
            gap: Weibull::with_mean(fit.gap_shape(), 1.0 / rate),
            gaps: CorrelatedNormal::new(fit.gaps(), stream(seed, Quantity::Gaps)),
            poisson: match options.arrivals {
                Arrivals::Packmime => None,
                Arrivals::Poisson => Some((1.0 / rate, stream(seed, Quantity::PoissonGaps))),
            },
            requests: CorrelatedNormal::new(fit.requests(), stream(seed, Quantity::Requests)),
            client_rtts: CorrelatedNormal::new(
                fit.client_rtts(),
                stream(seed, Quantity::ClientRtts),
            ),
            server_rtts: CorrelatedNormal::new(
                fit.server_rtts(),
                stream(seed, Quantity::ServerRtts),
            ),
            kinds: Runs::new(&fit, stream(seed, Quantity::Runs)),
            downloads: stream(seed, Quantity::Downloads),
            validations: stream(seed, Quantity::Validations),
            server_delays: stream(seed, Quantity::ServerDelays),
        })
    }

    /// Checks whether the model has parameters for `rate` new connections per second.
    ///
    /// # Errors
    /// Returns an error if the rate is not a number from 0.1 to 1,000,000.
    pub fn check(rate: f64) -> Result<(), RateOutOfRange> {
        Fit::new(rate).map(|_| ())
    }

    fn response_bytes(&mut self) -> u64 {
        let size = match self.kinds.next_kind() {
            Kind::Download => distributions::download_size(uniform(&mut self.downloads)),
            Kind::Validation => distributions::validation_size(uniform(&mut self.validations)),
        };
        self.options.max_response.map_or(size, |max| size.min(max.max(1)))
    }

    /// Returns the seconds to the next request.
    fn gap(&mut self) -> f64 {
        match &mut self.poisson {
            None => self.gap.quantile(Above::normal(self.gaps.sample())),
            // An exponential distribution is a Weibull distribution with shape 1.
            Some((mean, rng)) => Weibull { shape: 1.0, scale: *mean }.quantile(uniform(rng)),
        }
    }

    fn server_delay(&mut self) -> Duration {
        if !self.options.server_delay {
            return Duration::ZERO;
        }
        distributions::server_delay(uniform(&mut self.server_delays))
    }
}

impl Iterator for PackMime {
    type Item = WebRequest;

    fn next(&mut self) -> Option<WebRequest> {
        let start = self.next_start;
        let gap = self.gap();
        self.next_start += distributions::seconds(gap);
        Some(WebRequest {
            start,
            request_bytes: distributions::request_size(Above::normal(self.requests.sample())),
            response_bytes: self.response_bytes(),
            client_rtt: distributions::client_rtt(Above::normal(self.client_rtts.sample())),
            server_rtt: distributions::server_rtt(Above::normal(self.server_rtts.sample())),
            server_delay: self.server_delay(),
        })
    }
}

/// Parameters that depend on the rate. All fits have the same form: [`logistic2`] of a linear
/// function of log2 of the rate.
struct Fit {
    log2_rate: f64,
}

impl Fit {
    fn new(rate: f64) -> Result<Self, RateOutOfRange> {
        RATES.check(rate).map(|rate| Self { log2_rate: rate.log2() })
    }

    /// Returns L(a + b l), with l = log2 of the rate.
    fn line(&self, a: f64, b: f64) -> f64 {
        logistic2(a + b * self.log2_rate)
    }

    fn gaps(&self) -> Fsd {
        Fsd { d: 0.33, n: 1000, nu: self.line(0.333, 0.414) }
    }

    fn requests(&self) -> Fsd {
        Fsd { d: 0.31, n: 5000, nu: self.line(0.123, 0.494) }
    }

    fn client_rtts(&self) -> Fsd {
        Fsd { d: 0.31, n: 1000, nu: self.line(-0.445, 0.554) }
    }

    fn server_rtts(&self) -> Fsd {
        Fsd { d: 0.32, n: 1000, nu: self.line(-0.053, 0.396) }
    }

    /// Returns the shape of the Weibull gaps between connections. The mean gap is 1/rate.
    fn gap_shape(&self) -> f64 {
        self.line(0.352, 0.388)
    }

    /// Returns the distribution of the lengths of download runs, in responses, before rounding up.
    fn download_runs(&self) -> Weibull {
        Weibull { shape: self.line(1.293, 0.316), scale: 3.11 }
    }

    /// Returns the distribution of the lengths of cache validation runs, in responses, before
    /// rounding up.
    fn validation_runs(&self) -> Weibull {
        Weibull { shape: self.line(0.718, 0.357), scale: 0.775 }
    }
}

/// Returns L(x) = 2^x / (1 + 2^x).
fn logistic2(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp2())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Download,
    Validation,
}

/// Alternating runs of downloads and cache validations, downloads first.
#[derive(Clone)]
struct Runs {
    rng: Pcg64,
    downloads: Weibull,
    validations: Weibull,
    kind: Kind,
    left: u64,
}

impl Runs {
    fn new(fit: &Fit, rng: Pcg64) -> Self {
        // Start with an empty run of validations, so that the first actual run is a run of
        // downloads.
        Self {
            rng,
            downloads: fit.download_runs(),
            validations: fit.validation_runs(),
            kind: Kind::Validation,
            left: 0,
        }
    }

    fn next_kind(&mut self) -> Kind {
        if self.left == 0 {
            let lengths = match self.kind {
                Kind::Download => {
                    self.kind = Kind::Validation;
                    self.validations
                }
                Kind::Validation => {
                    self.kind = Kind::Download;
                    self.downloads
                }
            };
            self.left = (lengths.quantile(uniform(&mut self.rng)).ceil() as u64).max(1);
        }
        self.left -= 1;
        self.kind
    }
}

/// Quantities with their own random generator. The meaning of a seed depends on these numbers, so
/// never reuse or reorder them.
#[derive(Clone, Copy, Debug)]
enum Quantity {
    Gaps = 1,
    Requests = 2,
    Runs = 3,
    Downloads = 4,
    Validations = 5,
    ServerDelays = 6,
    ClientRtts = 7,
    ServerRtts = 8,
    PoissonGaps = 9,
}

/// Returns the random generator of one quantity for one seed. The odd multiplier spreads the few
/// quantity numbers over all bits, and `seed_from_u64` scrambles the result. Neighbouring seeds and
/// quantities therefore have unrelated random numbers.
fn stream(seed: u64, quantity: Quantity) -> Pcg64 {
    Pcg64::seed_from_u64(seed ^ (quantity as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn uniform(rng: &mut Pcg64) -> Above {
    Above::uniform(rng.random())
}

#[cfg(test)]
mod tests;
