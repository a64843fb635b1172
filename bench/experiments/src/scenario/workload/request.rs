//! The tasks of clients, and sequences of tasks.

use std::time::Duration;

use fathom_cc::Time;
use fathom_netsim::hash::StableHash;
use fathom_traffic::{MediaStream, Visit, WebRequest};

use super::Period;
use crate::scenario::MediaTransport;

/// Task of one client.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// One request, on a new connection or an idle one.
    Web(WebRequest),
    /// One upload. The length of its body is `request_bytes`.
    Upload(WebRequest),
    /// A visit: page views one after the other.
    Visit(Visit, Browsing),
    /// A live stream. Each frame is due this time after its capture.
    Media(MediaStream, Duration, MediaTransport),
}

/// Settings with which a client loads pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Browsing {
    /// Maximum number of open requests.
    pub(crate) in_flight: u32,
    /// Whether requests carry their priority.
    pub(crate) priorities: bool,
}

impl Request {
    /// Returns the time at which the task starts.
    pub(crate) const fn start(&self) -> Time {
        match self {
            Self::Web(request) | Self::Upload(request) => request.start,
            Self::Visit(visit, _) => visit.start,
            Self::Media(stream, ..) => stream.start,
        }
    }
}

/// Requests in the order of their starts. The sequence keeps no requests, so memory does not grow
/// with the run.
pub(crate) trait Requests: Iterator<Item = Request> + Send {
    /// Returns how many of the first requests to hash: as many as every run has begun when it has
    /// completed `responses` responses.
    fn hashed(&self, responses: u64) -> u64;

    /// Returns the same sequence again.
    fn again(&self) -> Source;
}

/// The requests of one group of traffic.
pub(crate) type Source = Box<dyn Requests>;

/// Returns the number, from 0, and the bytes of the largest response among the first `count`.
pub(in crate::scenario) fn largest(source: &Source, count: u64) -> Option<(usize, u64)> {
    let first = source.again().take(usize::try_from(count).unwrap_or(usize::MAX)).enumerate();
    let sizes = first.filter_map(|(i, request)| match request {
        Request::Web(request) => Some((i, request.response_bytes)),
        _ => None,
    });
    sizes.max_by_key(|&(i, bytes)| (bytes, std::cmp::Reverse(i)))
}

/// Shifts a start of the model into the part of the run in which requests are made. Returns `None`
/// after the end of this part.
pub(super) fn in_period(start: Time, period: Period) -> Option<Time> {
    let start = start + period.from;
    let ended = period.until.is_some_and(|until| start >= Time::ZERO + until);
    (!ended).then_some(start)
}

/// Adds a request to a hash over requests. Two runs have equal hashes if their requests are equal.
pub(crate) fn note(hash: &mut StableHash, request: &Request) {
    match request {
        Request::Web(r) | Request::Upload(r) => {
            let durations =
                [r.client_rtt, r.server_rtt, r.server_delay].map(|d| d.as_nanos() as u64);
            for word in
                [r.start.as_nanos(), r.request_bytes, r.response_bytes].into_iter().chain(durations)
            {
                hash.add(word);
            }
        }
        Request::Visit(visit, _) => {
            // A visit's pages follow from its seed. The size of the first page makes the hash
            // depend on the page model, too.
            let page = visit.view(visit.first).bytes();
            for word in
                [visit.start.as_nanos(), visit.seed, visit.first.into(), visit.views.into(), page]
            {
                hash.add(word);
            }
        }
        Request::Media(stream, ..) => {
            let first = stream.sizes().next().map_or(0, |frame| frame.bytes);
            let (fps, frames) = (stream.fps.into(), stream.frames.unwrap_or(u64::MAX));
            for word in [
                stream.start.as_nanos(),
                stream.rate.bits_per_sec(),
                fps,
                frames,
                stream.seed,
                first,
            ] {
                hash.add(word);
            }
            for time in stream.pause.into_iter().flat_map(|(from, to)| [from, to]) {
                hash.add(time.as_nanos() as u64);
            }
        }
    }
}
