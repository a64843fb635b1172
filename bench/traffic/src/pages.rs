//! Pages as browsers load them over HTTP/3: visits to one origin, page views with time to read between them, objects in waves.
//!
//! How many objects of each type a page has, and how many bytes they are together, is lognormal: its median and 90th percentile are those
//! that HTTP Archive measured (Web Almanac 2024, chapter Page Weight, desktop, October 2024; KB are 1,024 bytes), cut off at the 1st and 99th
//! percentile. Types of one page go together: their normals share a factor, so that requests and weight of whole pages come near the
//! published ones, too. `docs/traffic.md` has the figures beside what the model gives.
//!
//! # Departures
//! - One origin: third parties' objects come from it, too. One connection carries a visit.
//! - HTTP Archive publishes no depth of discovery: which part of a type is found in which wave is ours (`WAVE_OF`).
//! - A wave begins when all documents, style sheets and scripts of the wave before are there and parsed; browsers find some objects before.
//! - Nothing is cached: a following view costs as much as the first.

use std::time::Duration;

use fathom_cc::Time;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64;

use super::rate::{Range, RateOutOfRange};

/// Requests that a browser has open on a connection at most: what HTTP/3 servers grant at least (RFC 9114 §6.1) and most do grant.
pub const IN_FLIGHT: u32 = 100;
/// Chromium closes a QUIC connection that has been idle for this long (`net/quic`, `kIdleConnectionTimeout`, 30 s).
pub const KEPT_IDLE: Duration = Duration::from_secs(30);
/// Waves of a page at most.
pub const WAVES: usize = 4;
/// The quantiles by which sizes of objects are given: those of the body of a distribution, and of its tail.
pub const SIZE_QUANTILES: [f64; 6] = [0.05, 0.25, 0.5, 0.75, 0.9, 0.99];
/// Objects of a page of sampled sizes at most.
pub const MOST_OBJECTS: u32 = 1_000;
/// Page views of a visit at most.
pub const MOST_VIEWS: u32 = 20;
/// Bytes of a request's header, as PackMime's median request (421 bytes).
const REQUEST: u64 = 421;
/// Page views of a visit on average: between the 1.5 to 2.5 of media and the 3 to 5 of shops (Sublim Analytics, 2026).
const VIEWS: f64 = 3.0;
/// Mean of the exponential time to parse a wave's documents, style sheets and scripts (IEEE 802.16m Evaluation Methodology, 2008, HTTP
/// traffic model: 0.13 s).
const PARSE: f64 = 0.13;
/// Mean of the exponential time that a user reads a page (same source: 30 s).
const READING: f64 = 30.0;
/// Visits that began this long before the run still go on in it: page views come at their rate from the start.
const BEFORE: f64 = 300.0;
/// How much the types of a page go together: with it requests and weight of whole pages are near the published percentiles.
const TOGETHER: f64 = 0.7;
/// How much bytes of a type go with its objects.
const BYTES_WITH_COUNT: f64 = 0.8;
/// Standard deviation of the logarithm of an object's size within its type and page; ours.
const WITHIN: f64 = 1.0;
/// Normals are cut off here: the 1st and 99th percentile.
const CUT: f64 = 2.326;
/// The 90th percentile of the unit normal.
const P90: f64 = 1.281_55;
/// The smallest object in bytes.
const SMALLEST: u64 = 64;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A document: the page itself, and frames in it.
    Html,
    /// A style sheet.
    Css,
    /// A script.
    Script,
    /// A font.
    Font,
    /// An image.
    Image,
    /// Data, audio and video.
    Other,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Html, Self::Css, Self::Script, Self::Font, Self::Image, Self::Other];

    /// RFC 9218's urgency, 0 first, as Chromium sends it: its `HIGHEST` is 0, `MEDIUM` 1, `LOWEST` 3 (`net/quic`).
    pub const fn urgency(self) -> u8 {
        match self {
            Self::Html | Self::Css => 0,
            Self::Script | Self::Font => 1,
            Self::Image | Self::Other => 3,
        }
    }

    /// RFC 9218's incremental: it is of use before it is complete.
    pub const fn incremental(self) -> bool {
        matches!(self, Self::Html | Self::Image | Self::Other)
    }

    /// The next wave is found in it.
    pub const fn finds_more(self) -> bool {
        matches!(self, Self::Html | Self::Css | Self::Script)
    }
}

/// Lognormal by median and 90th percentile.
#[derive(Clone, Copy)]
struct LogNormal {
    median: f64,
    p90: f64,
}

impl LogNormal {
    fn at(self, normal: f64) -> f64 {
        self.median * ((self.p90 / self.median).ln() / P90 * normal.clamp(-CUT, CUT)).exp()
    }
}

const fn of(median: f64, p90: f64) -> LogNormal {
    LogNormal { median, p90 }
}

/// Objects of a type per page: Web Almanac 2024, desktop. Of scripts the chart's text has a slip at the 90th percentile; 72 is mobile's 69
/// in the proportion of the 75th percentiles. Others: what makes the 71 and 176 requests of the whole.
const COUNTS: [LogNormal; 6] =
    [of(2.0, 12.0), of(8.0, 26.0), of(24.0, 72.0), of(4.0, 11.0), of(18.0, 60.0), of(6.0, 18.0)];

/// KB of a type per page: Web Almanac 2024, desktop. Of HTML and fonts the medians are published; their 90th percentiles are ours, fonts' in
/// proportion to their number. Others: the median of pages with video, 194 KB, and what makes the 2,652 KB of the whole.
const KILOBYTES: [LogNormal; 6] = [
    of(18.0, 65.0),
    of(80.0, 269.0),
    of(620.0, 1_834.0),
    of(131.0, 360.0),
    of(1_054.0, 6_526.0),
    of(194.0, 1_000.0),
];

/// The part of a type that is found in waves 1, 2 and 3. Of documents it is the frames; the page itself is wave 0.
const WAVE_OF: [[f64; 3]; 6] = [
    [0.0, 1.0, 0.0],
    [1.0, 0.0, 0.0],
    [0.7, 0.3, 0.0],
    [0.0, 1.0, 0.0],
    [0.5, 0.35, 0.15],
    [0.0, 0.7, 0.3],
];

/// An object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// The wave in which it is found; the page itself is in wave 0.
    pub wave: u8,
    /// Bytes of its body.
    pub bytes: u64,
    /// Bytes of its request.
    pub request_bytes: u64,
}

/// One page view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageView {
    /// The page first, then by wave and urgency: the order in which a browser asks.
    pub objects: Vec<Object>,
    /// How long each wave takes to parse.
    pub parse: [Duration; WAVES],
    /// How long the user reads before the next view.
    pub reading: Duration,
}

impl PageView {
    /// Bytes of all bodies.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }
}

/// What pages consist of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageShape {
    /// As HTTP Archive measured.
    #[default]
    Archive,
    /// In each wave so many objects of so many bytes; a visit is one view, and nothing is parsed.
    Waves([(u32, u64); WAVES]),
    /// A geometric number of objects whose sizes are drawn: the first, then all others at once. A visit is one view, and nothing is parsed.
    Sizes {
        /// Thousandths of an object per page on average, 1,000 or more.
        objects: u32,
        /// Bytes at each of [`SIZE_QUANTILES`]; between two the logarithm is even, and none is below the first or above the last.
        bytes: [u64; SIZE_QUANTILES.len()],
    },
}

/// A user's visit to the origin: page views one after the other, over a connection that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// When its first view begins.
    pub start: Time,
    /// Number of the first view: visits that began before the run have views behind them.
    pub first: u32,
    /// Views in all.
    pub views: u32,
    /// What its pages are drawn from.
    pub seed: u64,
    /// What its pages consist of.
    pub shape: PageShape,
}

impl Visit {
    /// The view with this number, from `first` up to `views`.
    pub fn view(&self, number: u32) -> PageView {
        match self.shape {
            PageShape::Archive => archive_page(self.seed, number),
            PageShape::Waves(waves) => known_page(&waves),
            PageShape::Sizes { objects, bytes } => {
                sampled_page(f64::from(objects) / 1e3, &bytes, &mut generator(self.seed, number, 4))
            }
        }
    }
}

/// Visits in order of their start, without end.
#[derive(Clone, Debug)]
pub struct Pages {
    shape: PageShape,
    seed: u64,
    number: u64,
    gaps: Pcg64,
    /// Mean gap between visits in seconds.
    gap: f64,
    next: f64,
    /// Visits that began before the run, the last one first.
    earlier: Vec<Visit>,
}

/// Rates of page views that a run can have (ours).
const RATES: Range =
    Range { counts: "page views", of: "", decimals: 6, least: 0.001, most: 100_000.0 };

impl Pages {
    /// `views_per_second` page views on average; visits arrive as a Poisson process.
    ///
    /// # Errors
    /// The rate is not a number from 0.001 to 100,000.
    pub fn new(views_per_second: f64, seed: u64, shape: PageShape) -> Result<Self, RateOutOfRange> {
        RATES.check(views_per_second)?;
        let views = if shape == PageShape::Archive { mean_views() } else { 1.0 };
        let mut pages = Self {
            shape,
            seed,
            number: 0,
            gaps: Pcg64::seed_from_u64(seed ^ 0x7061_6765_7321),
            gap: views / views_per_second,
            next: 0.0,
            earlier: Vec::new(),
        };
        if shape == PageShape::Archive {
            pages.next = -BEFORE;
            while pages.next < 0.0 {
                let (start, visit) = pages.make();
                pages.earlier.extend(joined(visit, start));
            }
            pages.earlier.sort_by_key(|visit| std::cmp::Reverse((visit.start, visit.seed)));
        }
        Ok(pages)
    }

    /// The next visit, and the second of its start.
    fn make(&mut self) -> (f64, Visit) {
        let start = self.next;
        let gap: f64 = Exp1.sample(&mut self.gaps);
        self.next += gap * self.gap;
        self.number += 1;
        let seed = self.seed ^ self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let views = if self.shape == PageShape::Archive { views(seed) } else { 1 };
        let at = Time::ZERO + Duration::from_secs_f64(start.max(0.0));
        (start, Visit { start: at, first: 0, views, seed, shape: self.shape })
    }
}

impl Iterator for Pages {
    type Item = Visit;

    fn next(&mut self) -> Option<Visit> {
        let next = Time::ZERO + Duration::from_secs_f64(self.next.max(0.0));
        match self.earlier.last() {
            Some(visit) if visit.start <= next => self.earlier.pop(),
            _ => Some(self.make().1),
        }
    }
}

/// What a visit that began at `start` seconds, before the run, still has to view in it: its pages took no time so far.
fn joined(visit: Visit, start: f64) -> Option<Visit> {
    let mut at = start;
    for number in 0..visit.views {
        if at >= 0.0 {
            return Some(Visit {
                first: number,
                start: Time::ZERO + Duration::from_secs_f64(at),
                ..visit
            });
        }
        at += reading(visit.seed, number).as_secs_f64();
    }
    None
}

/// Views of a visit: geometric, cut off at [`MOST_VIEWS`].
fn views(seed: u64) -> u32 {
    let mut rng = generator(seed, 0, 1);
    let mut views = 1;
    while views < MOST_VIEWS && rng.random::<f64>() >= 1.0 / VIEWS {
        views += 1;
    }
    views
}

fn mean_views() -> f64 {
    let go_on = 1.0 - 1.0 / VIEWS;
    (0..MOST_VIEWS).map(|n| go_on.powi(n as i32)).sum()
}

fn exponential(rng: &mut Pcg64, mean: f64) -> Duration {
    let sample: f64 = Exp1.sample(rng);
    Duration::from_secs_f64(sample * mean)
}

fn reading(seed: u64, view: u32) -> Duration {
    exponential(&mut generator(seed, view, 2), READING)
}

/// A generator for each view and purpose: none depends on how much another draws.
fn generator(seed: u64, view: u32, purpose: u64) -> Pcg64 {
    Pcg64::seed_from_u64(
        seed.rotate_left(17) ^ (u64::from(view) << 8 | purpose).wrapping_mul(0xd134_2543_de82_ef95),
    )
}

fn archive_page(seed: u64, view: u32) -> PageView {
    let mut rng = generator(seed, view, 3);
    let normal = |rng: &mut Pcg64| -> f64 { StandardNormal.sample(rng) };
    let page = normal(&mut rng);
    let mut objects = Vec::with_capacity(96);
    let mut weights = Vec::with_capacity(96);
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let many = TOGETHER * page + (1.0 - TOGETHER * TOGETHER).sqrt() * normal(&mut rng);
        let heavy = BYTES_WITH_COUNT * many
            + (1.0 - BYTES_WITH_COUNT * BYTES_WITH_COUNT).sqrt() * normal(&mut rng);
        let least = u32::from(kind == Kind::Html);
        let count = (COUNTS[index].at(many).round() as u32).max(least);
        let bytes = KILOBYTES[index].at(heavy) * 1_024.0;
        weights.clear();
        weights.extend((0..count).map(|_| (WITHIN * normal(&mut rng).clamp(-CUT, CUT)).exp()));
        let sum: f64 = weights.iter().sum();
        for (number, weight) in weights.iter().enumerate() {
            let main = kind == Kind::Html && number == 0;
            let wave = if main { 0 } else { wave(index, rng.random()) };
            let bytes = ((bytes * weight / sum) as u64).max(SMALLEST);
            objects.push(Object { kind, wave, bytes, request_bytes: REQUEST });
        }
    }
    // Stable: what is equal stays in the order in which it was drawn.
    objects.sort_by_key(|object| (object.wave, object.kind.urgency()));
    PageView {
        objects,
        parse: std::array::from_fn(|_| exponential(&mut rng, PARSE)),
        reading: reading(seed, view),
    }
}

fn wave(kind: usize, sample: f64) -> u8 {
    let [first, second, _] = WAVE_OF[kind];
    if sample < first {
        1
    } else if sample < first + second {
        2
    } else {
        3
    }
}

/// The page is a document, the next wave's objects are style sheets, all others images; the first of each wave leads to the next.
fn known_page(waves: &[(u32, u64); WAVES]) -> PageView {
    let kind = |wave: usize| match wave {
        0 => Kind::Html,
        1 => Kind::Css,
        2 => Kind::Script,
        _ => Kind::Image,
    };
    let objects = waves.iter().enumerate().flat_map(|(wave, (count, bytes))| {
        let object =
            Object { kind: kind(wave), wave: wave as u8, bytes: *bytes, request_bytes: REQUEST };
        (0..*count).map(move |_| object)
    });
    PageView { objects: objects.collect(), parse: [Duration::ZERO; WAVES], reading: Duration::ZERO }
}

/// The page is a document, the others are data.
fn sampled_page(mean: f64, quantiles: &[u64; SIZE_QUANTILES.len()], rng: &mut Pcg64) -> PageView {
    let object = |kind, wave, rng: &mut Pcg64| Object {
        kind,
        wave,
        bytes: size_at(quantiles, rng.random()),
        request_bytes: REQUEST,
    };
    let mut objects = vec![object(Kind::Html, 0, rng)];
    while objects.len() < MOST_OBJECTS as usize && rng.random::<f64>() * mean >= 1.0 {
        objects.push(object(Kind::Other, 1, rng));
    }
    PageView { objects, parse: [Duration::ZERO; WAVES], reading: Duration::ZERO }
}

/// The size below which this part of all objects is.
fn size_at(quantiles: &[u64; SIZE_QUANTILES.len()], part: f64) -> u64 {
    let above = SIZE_QUANTILES.partition_point(|quantile| *quantile <= part);
    let (Some(low), Some(high)) = (above.checked_sub(1), quantiles.get(above)) else {
        return quantiles[above.min(quantiles.len() - 1)].max(1);
    };
    let along = (part - SIZE_QUANTILES[low]) / (SIZE_QUANTILES[above] - SIZE_QUANTILES[low]);
    let (from, to) = (quantiles[low].max(1) as f64, (*high).max(1) as f64);
    (from * (to / from).powf(along)).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantile(values: &mut [f64], q: f64) -> f64 {
        values.sort_by(f64::total_cmp);
        values[(values.len() as f64 * q) as usize]
    }

    fn views(n: u64) -> Vec<PageView> {
        (0..n).map(|seed| archive_page(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0)).collect()
    }

    fn near(found: f64, published: f64, part: f64, what: &str) {
        assert!(
            (found / published - 1.0).abs() < part,
            "{what}: {found:.1}, published {published}"
        );
    }

    #[test]
    fn counts_and_bytes_of_types_have_the_published_percentiles() {
        let views = views(20_000);
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            let of = |view: &PageView| {
                let objects = view.objects.iter().filter(|object| object.kind == kind);
                objects.fold((0.0, 0.0), |(n, bytes), object| {
                    (n + 1.0, bytes + object.bytes as f64 / 1_024.0)
                })
            };
            let (mut counts, mut bytes): (Vec<f64>, Vec<f64>) = views.iter().map(of).unzip();
            bytes.retain(|bytes| *bytes > 0.0);
            near(quantile(&mut counts, 0.5), COUNTS[index].median, 0.1, "median count");
            near(
                quantile(&mut counts, 0.9),
                COUNTS[index].p90,
                0.1,
                "90th percentile of the count",
            );
            near(quantile(&mut bytes, 0.5), KILOBYTES[index].median, 0.1, "median of KB");
            near(quantile(&mut bytes, 0.9), KILOBYTES[index].p90, 0.1, "90th percentile of KB");
        }
    }

    #[test]
    fn whole_pages_are_near_the_published_requests_and_weight() {
        let views = views(20_000);
        let mut requests: Vec<f64> = views.iter().map(|view| view.objects.len() as f64).collect();
        let mut weight: Vec<f64> = views.iter().map(|view| view.bytes() as f64 / 1_024.0).collect();
        // Web Almanac 2024, desktop: 24, 42, 71, 115 and 176 requests, 2,652 KB.
        near(quantile(&mut requests, 0.5), 71.0, 0.08, "median of requests");
        near(quantile(&mut requests, 0.75), 115.0, 0.1, "75th percentile of requests");
        near(quantile(&mut requests, 0.9), 176.0, 0.1, "90th percentile of requests");
        near(quantile(&mut weight, 0.5), 2_652.0, 0.08, "median weight in KB");
    }

    #[test]
    fn the_page_comes_first_and_waves_never_go_back() {
        for view in views(500) {
            assert_eq!((view.objects[0].kind, view.objects[0].wave), (Kind::Html, 0));
            let waves: Vec<u8> = view.objects.iter().map(|object| object.wave).collect();
            assert!(
                waves.is_sorted() && waves.iter().filter(|wave| **wave == 0).count() == 1,
                "{waves:?}"
            );
            assert!(
                view.objects
                    .iter()
                    .all(|object| object.bytes >= SMALLEST && usize::from(object.wave) < WAVES)
            );
        }
    }

    #[test]
    fn views_come_at_their_rate_from_the_start_on() {
        let visits = Pages::new(20.0, 7, PageShape::Archive).unwrap();
        let mut starts = Vec::new();
        for visit in visits.take_while(|visit| visit.start < Time::from_millis(600_000)) {
            let mut at = visit.start;
            for number in visit.first..visit.views {
                starts.push(at.as_secs_f64());
                at += reading(visit.seed, number);
            }
        }
        for range in [0.0..100.0, 100.0..200.0, 400.0..600.0] {
            let count = starts.iter().filter(|at| range.contains(*at)).count() as f64;
            near(count / (range.end - range.start), 20.0, 0.1, "views per second");
        }
    }

    #[test]
    fn a_seed_gives_its_pages_and_starts_never_fall() {
        let visits =
            |seed| Pages::new(3.0, seed, PageShape::Archive).unwrap().take(300).collect::<Vec<_>>();
        let (first, again, other) = (visits(1), visits(1), visits(2));
        assert!(first == again && first != other && first.is_sorted_by_key(|visit| visit.start));
        assert_eq!(first[5].view(0), again[5].view(0));
        assert!(first.iter().all(|visit| visit.first < visit.views && visit.views <= MOST_VIEWS));
        assert!(
            Pages::new(0.0, 1, PageShape::Archive).is_err()
                && Pages::new(f64::NAN, 1, PageShape::Archive).is_err()
        );
    }

    #[test]
    fn sampled_pages_have_the_given_quantiles_and_mean() {
        let bytes = [500, 2_000, 10_000, 40_000, 200_000, 3_000_000];
        let shape = PageShape::Sizes { objects: 3_500, bytes };
        let visits = Pages::new(10.0, 3, shape).unwrap().take(20_000);
        let pages: Vec<PageView> = visits.map(|visit| visit.view(visit.first)).collect();
        let mut sizes: Vec<f64> =
            pages.iter().flat_map(|page| &page.objects).map(|o| o.bytes as f64).collect();
        near(sizes.len() as f64 / pages.len() as f64, 3.5, 0.03, "objects");
        for (part, wanted) in SIZE_QUANTILES.into_iter().zip(bytes) {
            near(quantile(&mut sizes, part), wanted as f64, 0.06, "size");
        }
        assert!(
            pages
                .iter()
                .all(|page| page.objects.iter().filter(|object| object.wave == 0).count() == 1)
        );
        let one = PageShape::Sizes { objects: 1_000, bytes: [7; 6] };
        let mut visits = Pages::new(10.0, 3, one).unwrap().take(100);
        assert!(visits.all(|visit| visit.view(0).objects.iter().map(|o| o.bytes).eq([7])));
    }

    #[test]
    fn known_pages_are_what_was_asked_for() {
        let shape = PageShape::Waves([(1, 20_000), (4, 50_000), (20, 30_000), (0, 0)]);
        let visit = Pages::new(1.0, 1, shape).unwrap().next().unwrap();
        let view = visit.view(0);
        assert_eq!(
            (visit.start, visit.views, view.objects.len(), view.bytes()),
            (Time::ZERO, 1, 25, 820_000)
        );
    }
}
