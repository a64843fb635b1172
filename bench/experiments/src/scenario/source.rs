//! The requests of one group of traffic, one after the other. The source keeps no requests, so
//! memory does not grow with the run.

use std::time::Duration;

use fathom_cc::Time;
use fathom_netsim::hash::{StableHash, mix};
use fathom_traffic::media::GROUP_OF_PICTURES;
use fathom_traffic::pages::MOST_VIEWS;
use fathom_traffic::{MediaStream, Options, PackMime, Pages, RateOutOfRange, Visit, WebRequest};

use super::{Period, Workload};

/// Bytes of a body that outlasts every run: 100 Gbps for an hour.
const ENDLESS: u64 = 45_000_000_000_000;
/// Bytes of the request of a download.
const BULK_REQUEST: u64 = 100;

/// Bytes of the response to an upload.
const UPLOAD_ANSWER: u64 = 100;

/// Task of one client.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// One request, on a connection of its own or an idle one.
    Web(WebRequest),
    /// One upload. The length of its body is `request_bytes`.
    Upload(WebRequest),
    /// A visit: page views one after the other.
    Visit(Visit),
    /// A live stream.
    Media(MediaStream),
}

impl Request {
    /// Returns the time at which the task starts.
    pub(crate) const fn start(&self) -> Time {
        match self {
            Self::Web(request) | Self::Upload(request) => request.start,
            Self::Visit(visit) => visit.start,
            Self::Media(stream) => stream.start,
        }
    }
}

/// Iterator over requests in the order of their starts.
#[derive(Clone)]
pub(crate) enum Source {
    Web { model: Box<PackMime>, period: Period },
    Bulk { next: u32, flows: u32, bytes: u64, spread: Duration, after: Duration, upload: bool },
    Pages { visits: Box<Pages>, period: Period },
    Media { next: u32, streams: u32, stream: MediaStream },
}

impl Source {
    /// Returns the requests of a workload. `rate` is the number of new connections (for pages, page
    /// views) per second; other workloads ignore it.
    ///
    /// # Errors
    /// Returns an error if the model has no parameters for this rate.
    pub(crate) fn new(workload: Workload, rate: f64, seed: u64) -> Result<Self, RateOutOfRange> {
        Ok(match workload {
            Workload::Web { server_delay, arrivals, period, .. } => {
                let options = Options { server_delay, arrivals, ..Options::default() };
                Self::Web { model: Box::new(PackMime::new(rate, seed, options)?), period }
            }
            Workload::Bulk { flows, bytes, spread, after } => Self::Bulk {
                next: 0,
                flows,
                bytes: bytes.unwrap_or(ENDLESS),
                spread,
                after,
                upload: false,
            },
            Workload::Uploads { count, bytes, spread } => Self::Bulk {
                next: 0,
                flows: count,
                bytes,
                spread,
                after: Duration::ZERO,
                upload: true,
            },
            Workload::Pages { shape, period, .. } => {
                Self::Pages { visits: Box::new(Pages::new(rate, seed, shape)?), period }
            }
            Workload::Media { streams, rate, fps, .. } => {
                let frames = workload.frames();
                Self::Media {
                    next: 0,
                    streams,
                    stream: MediaStream { start: Time::ZERO, rate, fps, frames, seed },
                }
            }
        })
    }

    /// Returns the number, from 0, and the bytes of the largest response among the first `count`.
    pub(super) fn largest(&self, count: u64) -> Option<(usize, u64)> {
        let first = self.clone().take(usize::try_from(count).unwrap_or(usize::MAX)).enumerate();
        let sizes = first.filter_map(|(i, request)| match request {
            Request::Web(request) => Some((i, request.response_bytes)),
            _ => None,
        });
        sizes.max_by_key(|&(i, bytes)| (bytes, std::cmp::Reverse(i)))
    }

    /// Returns the number of first requests to hash: as many as every run has begun when it has
    /// completed `responses` responses.
    pub(crate) fn hashed(&self, responses: u64) -> u64 {
        match self {
            Self::Web { .. } | Self::Bulk { .. } => responses,
            // A response is a page view, and a visit has up to `MOST_VIEWS` of them.
            Self::Pages { .. } => responses / u64::from(MOST_VIEWS),
            // A response is a frame. The first stream begins at the start of the run.
            Self::Media { .. } => 1,
        }
    }
}

impl Iterator for Source {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        match self {
            Self::Web { model, period } => {
                let request = model.next()?;
                let start = in_period(request.start, *period)?;
                Some(Request::Web(WebRequest { start, ..request }))
            }
            Self::Pages { visits, period } => {
                let visit = visits.next()?;
                let start = in_period(visit.start, *period)?;
                Some(Request::Visit(Visit { start, ..visit }))
            }
            Self::Bulk { next, flows, bytes, spread, after, upload } => {
                let number = *next;
                *next = next.saturating_add(1);
                let nanos =
                    spread.as_nanos() * u128::from(number) / u128::from((*flows - 1).max(1));
                let (request_bytes, response_bytes) =
                    if *upload { (*bytes, UPLOAD_ANSWER) } else { (BULK_REQUEST, *bytes) };
                (number < *flows).then(|| {
                    let request = WebRequest {
                        start: Time::ZERO
                            + *after
                            + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
                        request_bytes,
                        response_bytes,
                        client_rtt: Duration::ZERO,
                        server_rtt: Duration::ZERO,
                        server_delay: Duration::ZERO,
                    };
                    if *upload { Request::Upload(request) } else { Request::Web(request) }
                })
            }
            Self::Media { next, streams, stream } => {
                let number = *next;
                *next = next.saturating_add(1);
                // Spreads the I-frames of the streams evenly over the interval between I-frames.
                let start = Time::ZERO + GROUP_OF_PICTURES * number / (*streams).max(1);
                let seed = mix(&[stream.seed, u64::from(number)]);
                (number < *streams).then_some(Request::Media(MediaStream {
                    start,
                    seed,
                    ..*stream
                }))
            }
        }
    }
}

/// Shifts a start of the model into the part of the run in which requests are made. Returns `None`
/// after the end of this part.
fn in_period(start: Time, period: Period) -> Option<Time> {
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
        Request::Visit(visit) => {
            // The pages of a visit follow from its seed. The bytes of the first page make the hash
            // depend on the page model, too.
            let page = visit.view(visit.first).bytes();
            for word in
                [visit.start.as_nanos(), visit.seed, visit.first.into(), visit.views.into(), page]
            {
                hash.add(word);
            }
        }
        Request::Media(stream) => {
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
        }
    }
}
