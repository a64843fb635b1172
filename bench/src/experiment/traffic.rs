//! The sequence of requests of one direction: generated once, shared by all runs of a comparison, so that every controller is asked
//! exactly the same.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fathom_cc::Time;

use super::plan::{Checked, Workload};
use crate::workload::{Options, PackMime, RateOutOfRange, WebRequest};
use fathom_netsim::hash::StableHash;

/// Requests in order of their start, generated as far as anybody asked.
pub(crate) struct Traffic(Mutex<State>);

struct State {
    source: Source,
    known: Vec<WebRequest>,
}

enum Source {
    Web(Box<PackMime>),
    Bulk { count: u64, bytes: u64, every_ns: u64 },
    Nothing,
}

impl Traffic {
    /// The requests of a plan at `rate` new connections per second (PackMime). Direction 0 is forward, 1 reverse; each has a seed of
    /// its own.
    ///
    /// # Errors
    /// The model has no parameters for such a rate.
    pub(crate) fn of(plan: &Checked, direction: usize, rate: f64) -> Result<Self, RateOutOfRange> {
        let source = match plan.workload {
            Workload::PackMime => {
                let seed = plan.seed.wrapping_mul(2).wrapping_add(direction as u64);
                let options = Options { server_delay: plan.server_delay, ..Options::default() };
                Source::Web(Box::new(PackMime::new(rate, seed, options)?))
            }
            Workload::Bulk { count, bytes, every_ns } if direction == 0 => Source::Bulk { count, bytes, every_ns },
            Workload::Bulk { .. } => Source::Nothing,
        };
        Ok(Self(Mutex::new(State { source, known: Vec::new() })))
    }

    /// The request with this number, counted from 0; `None` after the last.
    pub(crate) fn get(&self, index: usize) -> Option<WebRequest> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.known.len() <= index {
            let request = state.generate()?;
            state.known.push(request);
        }
        Some(state.known[index])
    }

    /// Hash over the first `count` requests: equal for two runs exactly when they were asked the same.
    pub(crate) fn hash(&self, count: u64) -> u64 {
        let mut hash = StableHash::default();
        (0..count as usize).map_while(|i| self.get(i)).for_each(|r| note(&mut hash, &r));
        hash.value()
    }

    /// The request with the largest response among the first `count`.
    pub(crate) fn largest(&self, count: u64) -> Option<usize> {
        (0..count as usize)
            .map_while(|i| Some((i, self.get(i)?.response_bytes)))
            .max_by_key(|&(i, bytes)| (bytes, std::cmp::Reverse(i)))
            .map(|(i, _)| i)
    }
}

/// Adds a request to a hash over requests.
pub(crate) fn note(hash: &mut StableHash, r: &WebRequest) {
    let durations = [r.client_rtt, r.server_rtt, r.server_delay].map(|d| d.as_nanos() as u64);
    for word in [r.start.as_nanos(), r.request_bytes, r.response_bytes].into_iter().chain(durations) {
        hash.add(word);
    }
}

impl State {
    fn generate(&mut self) -> Option<WebRequest> {
        match &mut self.source {
            Source::Web(model) => model.next(),
            Source::Bulk { count, bytes, every_ns } => {
                let next = self.known.len() as u64;
                (next < *count).then(|| WebRequest {
                    start: Time::from_nanos(next * *every_ns),
                    request_bytes: 100,
                    response_bytes: *bytes,
                    client_rtt: Duration::ZERO,
                    server_rtt: Duration::ZERO,
                    server_delay: Duration::ZERO,
                })
            }
            Source::Nothing => None,
        }
    }
}
