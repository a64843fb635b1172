//! The requests of one group of traffic, one after the other: nothing is kept, so memory does not grow with the run.

use std::time::Duration;

use fathom_cc::Time;
use fathom_netsim::hash::StableHash;
use fathom_traffic::{Options, PackMime, RateOutOfRange, WebRequest};

use super::{Period, Workload};

/// A body that outlasts every run: 100 Gbps for an hour.
const ENDLESS: u64 = 45_000_000_000_000;
/// Bytes of a bulk request.
const BULK_REQUEST: u64 = 100;

/// Requests in order of their start.
#[derive(Clone)]
pub(crate) enum Source {
    Web { model: Box<PackMime>, period: Period },
    Bulk { next: u32, flows: u32, bytes: u64, spread: Duration, after: Duration },
}

impl Source {
    /// The requests of a workload; `rate` is that of new connections per second of web traffic.
    ///
    /// # Errors
    /// The model has no parameters for such a rate.
    pub(crate) fn new(workload: Workload, rate: f64, seed: u64) -> Result<Self, RateOutOfRange> {
        Ok(match workload {
            Workload::Web { server_delay, arrivals, period, .. } => {
                let options = Options { server_delay, arrivals, ..Options::default() };
                Self::Web { model: Box::new(PackMime::new(rate, seed, options)?), period }
            }
            Workload::Bulk { flows, bytes, spread, after } => {
                Self::Bulk { next: 0, flows, bytes: bytes.unwrap_or(ENDLESS), spread, after }
            }
        })
    }

    /// Number, counted from 0, of the largest response among the first `count`.
    pub(super) fn largest(&self, count: u64) -> Option<(usize, u64)> {
        let first = self.clone().take(usize::try_from(count).unwrap_or(usize::MAX)).enumerate();
        first.map(|(i, r)| (i, r.response_bytes)).max_by_key(|&(i, bytes)| (bytes, std::cmp::Reverse(i)))
    }
}

impl Iterator for Source {
    type Item = WebRequest;

    fn next(&mut self) -> Option<WebRequest> {
        match self {
            Self::Web { model, period } => {
                let request = model.next()?;
                let start = request.start + period.from;
                let ended = period.until.is_some_and(|until| start >= Time::ZERO + until);
                (!ended).then_some(WebRequest { start, ..request })
            }
            Self::Bulk { next, flows, bytes, spread, after } => {
                let number = *next;
                *next = next.saturating_add(1);
                let nanos = spread.as_nanos() * u128::from(number) / u128::from((*flows - 1).max(1));
                (number < *flows).then(|| WebRequest {
                    start: Time::ZERO + *after + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
                    request_bytes: BULK_REQUEST,
                    response_bytes: *bytes,
                    client_rtt: Duration::ZERO,
                    server_rtt: Duration::ZERO,
                    server_delay: Duration::ZERO,
                })
            }
        }
    }
}

/// Adds a request to a hash over requests: equal for two runs exactly when their requests are the same.
pub(crate) fn note(hash: &mut StableHash, r: &WebRequest) {
    let durations = [r.client_rtt, r.server_rtt, r.server_delay].map(|d| d.as_nanos() as u64);
    for word in [r.start.as_nanos(), r.request_bytes, r.response_bytes].into_iter().chain(durations) {
        hash.add(word);
    }
}
