//! Downloads, either of a fixed size or longer than the run. Their starts are spread evenly.

use std::time::Duration;

use fathom_cc::units::{parse_duration, parse_whole};
use fathom_cc::{Invalid, Time};
use fathom_traffic::{RateOutOfRange, WebRequest};

use super::model::{Form, Model, Work};
use super::syntax::{parse_bytes, parse_transfers, plural, starts_over};
use super::{Request, Requests, Source, in_text, not_a_workload};
use crate::scenario::{InField, ResponseKind};

/// Size in bytes of a body that outlasts every run: 100 Gbps for an hour.
const ENDLESS: u64 = 45_000_000_000_000;
/// Size in bytes of the request for a download.
const REQUEST: u64 = 100;
const EXAMPLES: &[&str] =
    &["flows:100", "flows:100@2s", "flows:4x10MB", "flows:1 after 20s", "bulk:4x10MB@100ms"];

pub(super) const FORMS: &[Form<Bulk>] = &[
    Form { name: "flows", read: read_flows, examples: EXAMPLES },
    Form { name: "bulk", read: read_bulk, examples: &[] },
];

/// Downloads. Their starts are spread evenly over `spread`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bulk {
    /// Number of downloads.
    pub flows: u32,
    /// Size of each download in bytes; `None` if downloads last as long as the run.
    pub bytes: Option<u64>,
    /// Time from the first start to the last.
    pub spread: Duration,
    /// Start of the first download. By this time, background traffic may have filled the network.
    pub after: Duration,
}

/// Parses `100@2s`, `4x10MB`, `1 after 20s`.
fn read_flows(whole: &str, rest: &str) -> Result<Bulk, Invalid> {
    let (rest, after) = rest.split_once(" after ").unwrap_or((rest, "0s"));
    let (rest, spread) = rest.split_once('@').unwrap_or((rest, "0s"));
    let (count, size) =
        rest.split_once('x').map_or((rest, None), |(count, size)| (count, Some(size)));
    let flows = parse_whole(count, 1..=10_000).in_field("flows").map_err(in_text(whole))? as u32;
    let bytes = |size| parse_bytes(size).ok_or_else(|| not_a_workload(whole, EXAMPLES));
    let bytes = size.map(bytes).transpose()?;
    Ok(Bulk { flows, bytes, spread: parse_duration(spread)?, after: parse_duration(after)? })
}

fn read_bulk(whole: &str, rest: &str) -> Result<Bulk, Invalid> {
    let of = parse_transfers(whole, rest, "bulk")?;
    let (flows, bytes, spread) = (of.count, Some(of.bytes), of.spread);
    Ok(Bulk { flows, bytes, spread, after: Duration::ZERO })
}

impl Bulk {
    /// Returns the time over which flows start in a run that is shorter by `scale`. For transfers
    /// of a fixed size, the starts determine the load, which a shorter run keeps.
    fn spread(&self, scale: f64) -> Duration {
        if self.bytes.is_some() { self.spread } else { self.spread.mul_f64(scale) }
    }
}

impl Model for Bulk {
    fn source(&self, _rate: f64, _seed: u64) -> Result<Source, RateOutOfRange> {
        let first = transfer(self.after, REQUEST, self.bytes.unwrap_or(ENDLESS));
        Ok(Box::new(Spread::new(first, self.flows, self.spread, Request::Web)))
    }

    fn response_kind(&self) -> ResponseKind {
        ResponseKind::Response
    }

    fn words(&self) -> String {
        let Self { flows, bytes, spread, after } = *self;
        let size =
            bytes.map_or("that outlast the run".to_owned(), |bytes| format!("of {bytes} bytes"));
        let after = if after.is_zero() { String::new() } else { format!(", from {after:?} on") };
        format!("{flows} flow{} {size}{after}{}", plural(flows), starts_over(spread))
    }

    fn question(&self) -> &'static str {
        "Which controller completes these transfers fastest?"
    }

    fn own_fields(&self) -> &'static [&'static str] {
        &["connections", "streams"]
    }

    fn flows(&self) -> Option<u32> {
        Some(self.flows)
    }

    fn runs_on_tcp(&self) -> bool {
        true
    }

    fn ends(&self) -> bool {
        self.bytes.is_some()
    }

    fn is_long(&self) -> bool {
        true
    }

    fn measure(&self) -> &'static str {
        if self.ends() { "response_time_mean_ms" } else { "throughput_bps" }
    }

    fn span(&self, _: u64, _: f64, transfer: &dyn Fn(u64) -> Duration) -> Duration {
        let all = |bytes: u64| transfer(bytes.saturating_mul(self.flows.into()));
        let starts = self.spread.saturating_add(self.after);
        self.bytes.map_or(Duration::ZERO, |bytes| all(bytes).saturating_add(starts))
    }

    fn begins(&self) -> Duration {
        self.after
    }

    fn starts(&self, scale: f64) -> Duration {
        self.spread(scale) + self.after.mul_f64(scale)
    }

    fn has_scaled_starts(&self) -> bool {
        self.bytes.is_none() && !self.spread.is_zero()
    }

    fn scale(&mut self, scale: f64) {
        self.spread = self.spread(scale);
        self.after = self.after.mul_f64(scale);
    }

    fn bits_per_second(&self) -> Option<f64> {
        None
    }

    fn responses_per_second(&self, rate: f64) -> f64 {
        self.bytes.map_or(0.0, |bytes| rate / 8.0 / bytes as f64)
    }

    fn work(&self, rate: f64, seconds: f64) -> Work {
        let flows = f64::from(self.flows);
        let most = self.bytes.map_or(f64::INFINITY, |bytes| flows * bytes as f64);
        let bytes = (rate / 8.0 * seconds).min(most);
        Work { connections: flows, at_once: flows, bytes, few_packets: false }
    }
}

/// Returns a request that starts after this time. The request adds no delays to those of its path.
pub(super) fn transfer(after: Duration, request_bytes: u64, response_bytes: u64) -> WebRequest {
    WebRequest {
        start: Time::ZERO + after,
        request_bytes,
        response_bytes,
        client_rtt: Duration::ZERO,
        server_rtt: Duration::ZERO,
        server_delay: Duration::ZERO,
    }
}

/// Equal requests whose starts are spread evenly.
#[derive(Clone)]
pub(super) struct Spread {
    first: WebRequest,
    count: u32,
    spread: Duration,
    kind: fn(WebRequest) -> Request,
    next: u32,
}

impl Spread {
    /// Returns `count` requests like `first`, the last one `spread` later.
    pub(super) const fn new(
        first: WebRequest,
        count: u32,
        spread: Duration,
        kind: fn(WebRequest) -> Request,
    ) -> Self {
        Self { first, count, spread, kind, next: 0 }
    }
}

impl Iterator for Spread {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let number = self.next;
        self.next = number.saturating_add(1);
        let nanos =
            self.spread.as_nanos() * u128::from(number) / u128::from((self.count - 1).max(1));
        let after = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        (number < self.count)
            .then(|| (self.kind)(WebRequest { start: self.first.start + after, ..self.first }))
    }
}

impl Requests for Spread {
    fn hashed(&self, responses: u64) -> u64 {
        responses
    }

    fn again(&self) -> Source {
        Box::new(self.clone())
    }
}
