//! Web pages, as browsers load them: visits of page views. A response is a page view.

use fathom_cc::Invalid;
use fathom_traffic::pages::{IN_FLIGHT, MOST_OBJECTS, MOST_VIEWS, SIZE_QUANTILES, WAVES};
use fathom_traffic::{PageShape, RateOutOfRange, Visit};

use super::model::{Form, Model, OwnFields, Work};
use super::request::in_period;
use super::syntax::{
    parse_bytes, parse_part, parse_per_second, parse_period, resumes, set_resumption,
};
use super::{Browsing, Period, Request, Requests, Source, WebLoad};
use crate::scenario::{ResponseKind, Resumption};

/// Bytes of a page view: the mean of the model of HTTP Archive's pages.
const BYTES_PER_PAGE: f64 = 4.3e6;
/// Mean number of page views per visit.
const VIEWS_PER_VISIT: f64 = 3.0;

pub(super) const FORMS: &[Form<Pages>] =
    &[Form { name: "pages", read, examples: &["pages:2/s", "pages:60% of 10Mbps"] }];

/// Web pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Amount of traffic; for `Connections`, page views per second.
    pub load: WebLoad,
    /// Objects of the pages and their sizes.
    pub shape: PageShape,
    /// Part of the run in which visits begin.
    pub period: Period,
    /// Whether clients send the `priority` header and servers send urgent objects first (RFC 9218).
    pub priorities: bool,
    /// Maximum number of requests that a client has open at once.
    pub in_flight: u32,
    /// How the connections resume sessions.
    pub resumption: Resumption,
}

/// Parses `2/s` or `60% of 10Mbps`, optionally with the objects of the pages:
/// `2/s with 20kB,4x50kB,20x30kB`.
fn read(whole: &str, rest: &str) -> Result<Pages, Invalid> {
    let help = || {
        Invalid::value(whole, "is not a workload").hint(
            "write pages:2/s (page views), pages:60% of 10Mbps, pages:2/s with 20kB,4x50kB,20x30kB \
             (the objects of each wave, at most 4 waves), or pages:2/s with \
             3.5x1kB..4kB..9kB..40kB..200kB..2MB (the average number of objects of a page, and the \
             5th, 25th, 50th, 75th, 90th and 99th percentile of their sizes)",
        )
    };
    let (rest, period) = parse_period(whole, rest)?;
    let (rest, shape) = match rest.split_once(" with ") {
        None => (rest, PageShape::Archive),
        Some((rest, sizes)) if sizes.contains("..") => (rest, parse_sizes(sizes).ok_or_else(help)?),
        Some((rest, waves)) => (rest, parse_waves(waves).ok_or_else(help)?),
    };
    let load = match parse_part(rest) {
        Some(load) => load?,
        None => parse_per_second(rest).ok_or_else(help)?,
    };
    let resumption = Resumption::default();
    Ok(Pages { load, shape, period, priorities: true, in_flight: IN_FLIGHT, resumption })
}

/// Parses `20kB,4x50kB,20x30kB`. The first wave must be one object, the page itself.
fn parse_waves(text: &str) -> Option<PageShape> {
    let mut waves = [(0, 0); WAVES];
    for (number, wave) in text.split(',').enumerate() {
        let (count, size) = wave.trim().split_once('x').unwrap_or(("1", wave.trim()));
        let count = count.parse::<u32>().ok().filter(|count| (1..=1_000).contains(count))?;
        *waves.get_mut(number)? =
            (count, parse_bytes(size).filter(|bytes| *bytes <= 1_000_000_000)?);
    }
    (waves[0].0 == 1).then_some(PageShape::Waves(waves))
}

/// Parses `3.5x1kB..4kB..9kB..40kB..200kB..2MB`: the mean number of objects, and quantiles of their
/// sizes in ascending order.
fn parse_sizes(text: &str) -> Option<PageShape> {
    let (mean, sizes) = text.trim().split_once('x')?;
    let mean = mean
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|mean| (1.0..=f64::from(MOST_OBJECTS)).contains(mean))?;
    let sizes = sizes
        .split("..")
        .map(|size| parse_bytes(size.trim()).filter(|bytes| *bytes <= 1_000_000_000));
    let bytes: [u64; SIZE_QUANTILES.len()] =
        sizes.collect::<Option<Vec<u64>>>()?.try_into().ok()?;
    bytes.is_sorted().then_some(PageShape::Sizes { objects: (1e3 * mean).round() as u32, bytes })
}

impl Model for Pages {
    fn source(&self, rate: f64, seed: u64) -> Result<Source, RateOutOfRange> {
        let visits = Box::new(fathom_traffic::Pages::new(rate, seed, self.shape)?);
        let browsing = Browsing { in_flight: self.in_flight, priorities: self.priorities };
        Ok(Box::new(Visits { visits, period: self.period, browsing }))
    }

    fn response_kind(&self) -> ResponseKind {
        ResponseKind::Page
    }

    fn words(&self) -> String {
        let Self { load, shape, period, priorities, in_flight, resumption } = *self;
        let load = load.words("page views");
        let known = match shape {
            PageShape::Archive => "",
            PageShape::Waves(_) => " of known objects",
            PageShape::Sizes { .. } => " of objects with given sizes",
        };
        let order = if priorities { "urgent objects first" } else { "no priorities" };
        let resumes = resumes(resumption);
        format!("pages{known}, {load}, {in_flight} requests at once, {order}{period}{resumes}")
    }

    fn question(&self) -> &'static str {
        "Which controller loads these pages fastest?"
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        set_resumption(&mut self.resumption, name, value)
    }

    fn own_fields(&self) -> &'static [&'static str] {
        &["priorities", "in-flight"]
    }

    fn take(&mut self, fields: &OwnFields) {
        self.priorities = fields.priorities.unwrap_or(self.priorities);
        self.in_flight = fields.in_flight.unwrap_or(self.in_flight);
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

    fn scale(&mut self, scale: f64) {
        self.period = self.period.scaled(scale);
    }

    fn bits_per_second(&self) -> Option<f64> {
        Some(self.load.bits_per_second(BYTES_PER_PAGE))
    }

    fn responses_per_second(&self, rate: f64) -> f64 {
        rate / 8.0 / BYTES_PER_PAGE
    }

    fn work(&self, rate: f64, seconds: f64) -> Work {
        let connections = self.responses_per_second(rate) * seconds / VIEWS_PER_VISIT;
        let bytes = rate / 8.0 * seconds;
        Work { connections, at_once: connections.min(10_000.0), bytes, few_packets: false }
    }
}

#[derive(Clone)]
struct Visits {
    visits: Box<fathom_traffic::Pages>,
    period: Period,
    browsing: Browsing,
}

impl Iterator for Visits {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let visit = self.visits.next()?;
        let start = in_period(visit.start, self.period)?;
        Some(Request::Visit(Visit { start, ..visit }, self.browsing))
    }
}

impl Requests for Visits {
    /// Counts a response for each page view. A visit has up to `MOST_VIEWS` page views.
    fn hashed(&self, responses: u64) -> u64 {
        responses / u64::from(MOST_VIEWS)
    }

    fn again(&self) -> Source {
        Box::new(self.clone())
    }
}
