//! Pages as browsers load them over HTTP/3: visits to one origin, page views separated by reading
//! time, and objects in waves.
//!
//! The number of objects of each type on a page, and their total bytes, are lognormal. The medians
//! and 90th percentiles were measured by HTTP Archive (Web Almanac 2024, chapter Page Weight,
//! desktop, October 2024; 1 KB is 1,024 bytes), and the distribution is truncated at the 1st and
//! 99th percentiles. The types of a page are correlated by a common factor of their normal
//! variables. As a result, the numbers of requests and the weights of whole pages are also close to
//! the published figures. `docs/traffic.md` compares the published figures with those of the model.
//!
//! # Departures
//! - There is only one origin, from which objects of third parties also come. One connection
//!   carries a visit.
//! - HTTP Archive publishes no discovery depths, so the fraction of a type found in each wave is
//!   our choice (`WAVE_OF`).
//! - A wave begins when all documents, style sheets and scripts of the previous wave have arrived
//!   and are parsed. Browsers find some objects earlier.
//! - Nothing is cached, so a later view takes as many bytes as the first.

use std::time::Duration;

use fathom_cc::Time;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64;

use super::rate::{Range, RateOutOfRange};

/// Maximum number of requests that a browser has open on a connection. HTTP/3 servers grant at
/// least this many (RFC 9114 §6.1), and most grant exactly this number.
pub const IN_FLIGHT: u32 = 100;
/// Idle timeout of a QUIC connection in Chromium (`net/quic`, `kIdleConnectionTimeout`, 30 s).
pub const KEPT_IDLE: Duration = Duration::from_secs(30);
/// Maximum number of waves of a page.
pub const WAVES: usize = 4;
/// Quantiles at which object sizes are given: five for the body of the distribution and one for its
/// tail.
pub const SIZE_QUANTILES: [f64; 6] = [0.05, 0.25, 0.5, 0.75, 0.9, 0.99];
/// Maximum number of objects on a page of sampled sizes.
pub const MOST_OBJECTS: u32 = 1_000;
/// Maximum number of page views of a visit.
pub const MOST_VIEWS: u32 = 20;
/// Size of a request header in bytes, which is that of PackMime's median request (421 bytes).
const REQUEST: u64 = 421;
/// Mean number of page views of a visit. It lies between the 1.5 to 2.5 views of media sites and
/// the 3 to 5 views of shops (Sublim Analytics, 2026).
const VIEWS: f64 = 3.0;
/// Mean seconds of the exponential time to parse the documents, style sheets and scripts of a wave
/// (IEEE 802.16m Evaluation Methodology, 2008, HTTP traffic model: 0.13 s).
const PARSE: f64 = 0.13;
/// Mean seconds of the exponential time that a user reads a page (same source: 30 s).
const READING: f64 = 30.0;
/// Time in seconds for which visits are simulated before the run, so that page views have their
/// full rate from the start of the run.
const BEFORE: f64 = 300.0;
/// Weight of the normal factor that the types of a page share. With this value, the numbers of
/// requests and the weights of whole pages are close to the published percentiles.
const TOGETHER: f64 = 0.7;
/// Correlation between the bytes of a type and its number of objects.
const BYTES_WITH_COUNT: f64 = 0.8;
/// Standard deviation of the logarithm of an object's size within its type and page; our choice.
const WITHIN: f64 = 1.0;
/// Bound at which normal variables are truncated, which corresponds to the 1st and 99th
/// percentiles.
const CUT: f64 = 2.326;
/// 90th percentile of the unit normal.
const P90: f64 = 1.281_55;
/// Minimum size of an object in bytes.
const SMALLEST: u64 = 64;

/// Type of an object.
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

    /// Returns the urgency of RFC 9218 as Chromium sends it, where 0 is sent first: `HIGHEST` is
    /// 0, `MEDIUM` 1, `LOWEST` 3 (`net/quic`).
    pub const fn urgency(self) -> u8 {
        match self {
            Self::Html | Self::Css => 0,
            Self::Script | Self::Font => 1,
            Self::Image | Self::Other => 3,
        }
    }

    /// Returns the incremental parameter of RFC 9218, which tells whether the object is useful
    /// before it is complete.
    pub const fn incremental(self) -> bool {
        matches!(self, Self::Html | Self::Image | Self::Other)
    }

    /// Returns whether browsers find objects of the next wave in objects of this type.
    pub const fn finds_more(self) -> bool {
        matches!(self, Self::Html | Self::Css | Self::Script)
    }
}

/// A lognormal distribution, given by its median and 90th percentile.
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

/// Objects per page by type: Web Almanac 2024, desktop. The chart's text has an error at the 90th
/// percentile of scripts. The value 72 is mobile's 69, scaled by the ratio of the 75th percentiles.
/// The values of `Other` are chosen so that whole pages have the published 71 (median) and 176
/// (90th percentile) requests.
const COUNTS: [LogNormal; 6] =
    [of(2.0, 12.0), of(8.0, 26.0), of(24.0, 72.0), of(4.0, 11.0), of(18.0, 60.0), of(6.0, 18.0)];

/// KB per page by type: Web Almanac 2024, desktop. For HTML and fonts, only the medians are
/// published, and the 90th percentiles are our choice, for fonts in proportion to their number. The
/// median of `Other` is that of pages with video, 194 KB. It is chosen so that whole pages have the
/// published 2,652 KB.
const KILOBYTES: [LogNormal; 6] = [
    of(18.0, 65.0),
    of(80.0, 269.0),
    of(620.0, 1_834.0),
    of(131.0, 360.0),
    of(1_054.0, 6_526.0),
    of(194.0, 1_000.0),
];

/// Fraction of a type that is found in waves 1, 2 and 3. For documents, the fraction applies to the
/// frames, because the page itself is wave 0.
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
    /// Type of the object.
    pub kind: Kind,
    /// Wave in which the object is found. The page itself is in wave 0.
    pub wave: u8,
    /// Bytes of the body.
    pub bytes: u64,
    /// Bytes of the request.
    pub request_bytes: u64,
}

/// One page view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageView {
    /// Objects in the order in which a browser requests them: the page first, then by wave and
    /// urgency.
    pub objects: Vec<Object>,
    /// Parse time of each wave.
    pub parse: [Duration; WAVES],
    /// Reading time before the next view.
    pub reading: Duration,
}

impl PageView {
    /// Returns the bytes of all bodies.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }
}

/// Composition of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageShape {
    /// The composition that HTTP Archive measured.
    #[default]
    Archive,
    /// Number and size in bytes of the objects of each wave. A visit has one view, and nothing is
    /// parsed.
    Waves([(u32, u64); WAVES]),
    /// A geometric number of objects of random sizes. The first object is loaded alone, and then
    /// all other objects at once. A visit has one view, and nothing is parsed.
    Sizes {
        /// Mean number of objects per page in thousandths, at least 1,000.
        objects: u32,
        /// Object size in bytes at each of [`SIZE_QUANTILES`]. Sizes between two quantiles are
        /// interpolated in the logarithm. No size is below the first value or above the last one.
        bytes: [u64; SIZE_QUANTILES.len()],
    },
}

/// A user's visit to the origin: consecutive page views over one persistent connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Start of the first view.
    pub start: Time,
    /// Number of the first view. A visit that began before the run has already had earlier views.
    pub first: u32,
    /// Total number of views.
    pub views: u32,
    /// Seed of the pages.
    pub seed: u64,
    /// Composition of the pages.
    pub shape: PageShape,
}

impl Visit {
    /// Returns the view with this number, which must be at least `first` and below `views`.
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

/// An endless sequence of visits in order of their start.
#[derive(Clone, Debug)]
pub struct Pages {
    shape: PageShape,
    seed: u64,
    number: u64,
    gaps: Pcg64,
    /// Mean gap between visits in seconds.
    gap: f64,
    next: f64,
    /// Visits that began before the run, latest start first.
    earlier: Vec<Visit>,
}

/// Supported rates of page views (our choice).
const RATES: Range =
    Range { counts: "page views", of: "", decimals: 6, least: 0.001, most: 100_000.0 };

impl Pages {
    /// Creates visits that arrive as a Poisson process, with `views_per_second` page views on
    /// average.
    ///
    /// # Errors
    /// Returns an error if the rate is not a number from 0.001 to 100,000.
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

    /// Returns the next visit and its start in seconds.
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

/// Returns the remaining part of a visit that began at `start` seconds, before the run; `None` if
/// no views remain. Earlier views are assumed to take no time to load.
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

/// Returns the number of views of a visit, which has a geometric distribution and is at most
/// [`MOST_VIEWS`].
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

/// Returns a separate random generator for each view and purpose. No generator thus depends on how
/// many numbers another one has used.
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
    // The sort is stable, so equal objects keep their original order.
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

/// Builds a page of known objects. The page itself is a document. The following waves are style
/// sheets, scripts and images.
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

/// Builds a page with random sizes. The page itself is a document, and all other objects are data.
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

/// Returns the size below which this fraction of all objects lies.
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
    fn object_counts_and_bytes_have_the_published_percentiles() {
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
    fn pages_have_roughly_the_published_requests_and_weight() {
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
    fn html_comes_first_and_later_objects_are_in_order_of_waves() {
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
    fn page_views_keep_the_requested_rate_from_the_start() {
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
    fn same_seed_gives_the_same_pages() {
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
    fn sampled_page_objects_have_the_given_quantiles_and_mean() {
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
    fn pages_with_fixed_objects_have_exactly_those_objects() {
        let shape = PageShape::Waves([(1, 20_000), (4, 50_000), (20, 30_000), (0, 0)]);
        let visit = Pages::new(1.0, 1, shape).unwrap().next().unwrap();
        let view = visit.view(0);
        assert_eq!(
            (visit.start, visit.views, view.objects.len(), view.bytes()),
            (Time::ZERO, 1, 25, 820_000)
        );
    }
}
