//! Web traffic after PackMime: one request per connection, as in the papers' experiments.

use fathom_cc::Invalid;
use fathom_traffic::{Arrivals, Options, PackMime, RateOutOfRange, WebRequest};

use super::model::{Form, Model, OwnFields, Work};
use super::request::in_period;
use super::syntax::{parse_part, parse_per_second, parse_period, resumes, set_resumption};
use super::{Period, Request, Requests, Source, WebLoad, not_a_workload};
use crate::scenario::{ResponseKind, Resumption};

/// Bytes of a web connection on the wire. This laboratory measured 9 Mbps with 87.2 connections per
/// second (README).
const BYTES_PER_CONNECTION: f64 = 12_900.0;
const EXAMPLES: &[&str] =
    &["web:90% of 10Mbps", "web:110/s", "web:95% of 10Mbps from 200s to 400s"];

pub(super) const FORMS: &[Form<Web>] = &[Form { name: "web", read, examples: EXAMPLES }];

/// Web traffic (PackMime).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Web {
    /// Amount of traffic.
    pub load: WebLoad,
    /// Whether servers delay their responses (PackMime's server delay).
    pub server_delay: bool,
    /// Arrivals of the requests.
    pub arrivals: Arrivals,
    /// Part of the run in which requests arrive.
    pub period: Period,
    /// How the connections resume sessions.
    pub resumption: Resumption,
}

fn read(whole: &str, rest: &str) -> Result<Web, Invalid> {
    let (rest, period) = parse_period(whole, rest)?;
    let load = match parse_part(rest) {
        Some(load) => load?,
        None => parse_per_second(rest).ok_or_else(|| not_a_workload(whole, EXAMPLES))?,
    };
    Ok(Web {
        load,
        server_delay: false,
        arrivals: Arrivals::Packmime,
        period,
        resumption: Resumption::default(),
    })
}

impl Model for Web {
    fn source(&self, rate: f64, seed: u64) -> Result<Source, RateOutOfRange> {
        let options = Options {
            server_delay: self.server_delay,
            arrivals: self.arrivals,
            ..Options::default()
        };
        let model = Box::new(PackMime::new(rate, seed, options)?);
        Ok(Box::new(WebRequests { model, period: self.period }))
    }

    fn response_kind(&self) -> ResponseKind {
        ResponseKind::Response
    }

    fn words(&self) -> String {
        let load = self.load.words("connections");
        let arrivals = if self.arrivals == Arrivals::Poisson { ", Poisson arrivals" } else { "" };
        format!("web traffic, {load}{arrivals}{}{}", self.period, resumes(self.resumption))
    }

    fn question(&self) -> &'static str {
        "Which controller serves these requests fastest?"
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        set_resumption(&mut self.resumption, name, value)
    }

    fn own_fields(&self) -> &'static [&'static str] {
        &["server-delay", "arrivals", "connections", "streams"]
    }

    fn take(&mut self, fields: &OwnFields) {
        (self.server_delay, self.arrivals) = (fields.server_delay, fields.arrivals);
    }

    fn load(&self) -> Option<WebLoad> {
        Some(self.load)
    }

    fn period(&self) -> Period {
        self.period
    }

    fn resumption(&self) -> Resumption {
        self.resumption
    }

    fn runs_on_tcp(&self) -> bool {
        true
    }

    fn traces_largest(&self) -> bool {
        true
    }

    fn scale(&mut self, scale: f64) {
        self.period = self.period.scaled(scale);
    }

    fn bits_per_second(&self) -> Option<f64> {
        Some(self.load.bits_per_second(BYTES_PER_CONNECTION))
    }

    fn responses_per_second(&self, rate: f64) -> f64 {
        rate / 8.0 / BYTES_PER_CONNECTION
    }

    fn work(&self, rate: f64, seconds: f64) -> Work {
        let until = self.period.until.map_or(seconds, |until| until.as_secs_f64().min(seconds));
        let active = (until - self.period.from.as_secs_f64()).max(0.0);
        let per_second = self.responses_per_second(rate);
        Work {
            connections: per_second * active,
            at_once: per_second,
            bytes: per_second * active * BYTES_PER_CONNECTION,
            few_packets: true,
        }
    }
}

#[derive(Clone)]
struct WebRequests {
    model: Box<PackMime>,
    period: Period,
}

impl Iterator for WebRequests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let request = self.model.next()?;
        let start = in_period(request.start, self.period)?;
        Some(Request::Web(WebRequest { start, ..request }))
    }
}

impl Requests for WebRequests {
    fn hashed(&self, responses: u64) -> u64 {
        responses
    }

    fn again(&self) -> Source {
        Box::new(self.clone())
    }
}
