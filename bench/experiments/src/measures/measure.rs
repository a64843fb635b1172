//! Measures by which runs are compared. The ranking, the reports and the data files all use the
//! table [`MEASURES`]; a new measure is one more line of the table.

use crate::scenario::{GroupOutcome, LinkOutcome, Outcome, Workload};
use fathom_metrics::{Bounds, Distribution, percentile};

/// Direction in which a measure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The lower value is better.
    Lower,
    /// The higher value is better.
    Higher,
    /// Neither direction is better. The measure describes a run without judging it.
    Neither,
}

/// Part of a run over which a measure is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From the end of the warm-up to the end of the run; without a warm-up, the whole run.
    Counted,
    /// The first five seconds of each connection, whatever the warm-up
    /// ([`START_UP`](fathom_netsim::sim::START_UP)).
    StartUp,
    /// The whole run. The measure is not a count of events, and the warm-up does not affect it.
    Whole,
}

impl Span {
    /// Returns the span in the words of the documentation's tables.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Counted => "after the warm-up",
            Self::StartUp => "first 5 s of each connection",
            Self::Whole => "whole run",
        }
    }
}

/// Items that a measure describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// Completed responses, by the time at which their request began. Failed and unfinished
    /// requests have no time and are left out.
    Completed,
    /// Completed responses larger than 25 kB.
    CompletedLarge,
    /// Completed page views, by the time at which the navigation began.
    Views,
    /// Completed objects of pages, including those of failed views.
    Objects,
    /// Requests, by the time at which they began.
    Requests,
    /// Frames that were captured after the warm-up and due before the end of the run.
    Frames,
    /// Completed frames among those of [`Frames`](Self::Frames).
    FramesThere,
    /// Datagrams from the senders of bodies, by the time of sending, until the client closes the
    /// connection.
    Datagrams,
    /// Bytes that arrive.
    Bytes,
    /// Connections that were open at some time of the span, with their senders.
    Connections,
    /// Packets that arrive at the link.
    Packets,
    /// Time.
    Time,
}

impl Population {
    /// Returns the population in the words of the documentation's tables.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Completed => "completed responses",
            Self::CompletedLarge => "completed responses above 25 kB",
            Self::Views => "completed page views",
            Self::Objects => "completed objects",
            Self::Requests => "requests that began within the span",
            Self::Frames => "frames captured and due within the span",
            Self::FramesThere => "completed frames among those captured and due within the span",
            Self::Datagrams => "datagrams that the senders of bodies sent within the span",
            Self::Bytes => "UDP payload that arrives within the span",
            Self::Connections => "connections open at some time within the span",
            Self::Packets => "packets that arrive at the link within the span",
            Self::Time => "time",
        }
    }

    /// Returns whether the measure leaves failed requests out. Such a measure looks better when
    /// more requests fail.
    pub const fn leaves_failures_out(self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::CompletedLarge
                | Self::Views
                | Self::Objects
                | Self::FramesThere
        )
    }
}

/// Source of a measure's value.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A value of a group of traffic.
    Group(fn(&GroupOutcome) -> Option<f64>),
    /// A statistic of a distribution of a group.
    Times(fn(&GroupOutcome) -> Option<&Distribution>, Statistic),
    /// A value of a link.
    Link(fn(&LinkOutcome) -> Option<f64>),
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug)]
enum Statistic {
    Mean,
    P50,
    P90,
    P95,
    P99,
}

impl Statistic {
    /// Returns the share of samples that a percentile does not exceed; `None` for the mean.
    const fn quantile(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
        }
    }

    const fn of(self, times: &Distribution) -> f64 {
        match self {
            Self::Mean => times.mean_ms,
            Self::P50 => times.median_ms,
            Self::P90 => times.p90_ms,
            Self::P95 => times.p95_ms,
            Self::P99 => times.p99_ms,
        }
    }
}

/// A measure.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Name in data files, with the unit: `response_time_mean_ms`.
    pub key: &'static str,
    /// Name in words, without the unit.
    pub name: &'static str,
    /// Unit; empty if the measure has none.
    pub unit: &'static str,
    /// Column heading in tables, with the unit.
    pub head: &'static str,
    /// Direction in which the measure improves.
    pub better: Better,
    /// Number of decimals shown.
    pub digits: usize,
    /// Part of a run over which the measure is counted.
    pub span: Span,
    /// Items that the measure describes.
    pub population: Population,
    source: Source,
}

impl Measure {
    const fn new(
        key: &'static str,
        name: &'static str,
        population: Population,
        source: Source,
    ) -> Self {
        let (unit, head, better, span) = ("", name, Better::Neither, Span::Counted);
        Self { key, name, unit, head, better, digits: 1, span, population, source }
    }

    const fn group(
        key: &'static str,
        name: &'static str,
        population: Population,
        of: fn(&GroupOutcome) -> Option<f64>,
    ) -> Self {
        Self::new(key, name, population, Source::Group(of))
    }

    const fn times(
        key: &'static str,
        name: &'static str,
        population: Population,
        of: fn(&GroupOutcome) -> Option<&Distribution>,
        statistic: Statistic,
    ) -> Self {
        Self::new(key, name, population, Source::Times(of, statistic)).shown(
            "ms",
            name,
            Better::Lower,
            0,
        )
    }

    const fn link(
        key: &'static str,
        name: &'static str,
        population: Population,
        of: fn(&LinkOutcome) -> Option<f64>,
    ) -> Self {
        Self::new(key, name, population, Source::Link(of))
    }

    const fn shown(
        self,
        unit: &'static str,
        head: &'static str,
        better: Better,
        digits: usize,
    ) -> Self {
        Self { unit, head, better, digits, ..self }
    }

    const fn headed(self, head: &'static str) -> Self {
        Self { head, ..self }
    }

    const fn over(self, span: Span) -> Self {
        Self { span, ..self }
    }

    /// Returns the measure with this key.
    pub fn named(key: &str) -> Option<&'static Self> {
        MEASURES.iter().find(|measure| measure.key == key)
    }

    /// Returns whether the measure is read from a group of traffic; otherwise it is read from a
    /// link.
    pub const fn is_of_group(&self) -> bool {
        !matches!(self.source, Source::Link(_))
    }

    /// Returns the minimum number of samples for which the measure is shown: a percentile needs ten
    /// samples beyond it.
    pub fn samples_needed(&self) -> u64 {
        match self.source {
            Source::Times(_, statistic) => statistic.quantile().map_or(1, percentile::samples_for),
            Source::Group(_) | Source::Link(_) => 0,
        }
    }

    /// Returns the number of samples behind the measure in a group; 0 if the measure has no
    /// distribution.
    pub fn samples(&self, group: &GroupOutcome) -> u64 {
        match self.source {
            Source::Times(of, _) => of(group).map_or(0, |times| times.count),
            Source::Group(_) | Source::Link(_) => 0,
        }
    }

    /// Returns whether the measure hides too many failures of a group: it leaves failed requests
    /// out, and more than [`MOST_LEFT_OUT`] of all requests failed.
    pub fn misses_failures(&self, failed: u64, completed: u64) -> bool {
        self.population.leaves_failures_out()
            && failed as f64 > MOST_LEFT_OUT * (failed + completed) as f64
    }

    /// Returns the bounds of the measure: no measure is below zero, and no percentage is above 100.
    pub fn bounds(&self) -> Bounds {
        if self.unit == "%" { Bounds::PERCENT } else { Bounds::NOT_NEGATIVE }
    }

    /// Returns the number of decimals for values shown side by side. Times below 10 ms have two
    /// significant digits of the shortest time, but at most three decimals (1 µs).
    pub(crate) fn decimals(&self, values: impl IntoIterator<Item = f64>) -> usize {
        let least = values.into_iter().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        if self.unit != "ms" || !least.is_finite() {
            return self.digits;
        }
        self.digits.max((1 - least.log10().floor() as i32).clamp(0, 3) as usize)
    }

    /// Returns the value for a group of traffic, however few samples there are.
    pub fn of_group(&self, group: &GroupOutcome) -> Option<f64> {
        let value = match self.source {
            Source::Group(of) => of(group),
            Source::Times(of, statistic) => {
                of(group).filter(|t| t.count > 0).map(|times| statistic.of(times))
            }
            Source::Link(_) => None,
        };
        value.filter(|value| value.is_finite())
    }

    /// Returns the value for a link.
    pub fn of_link(&self, link: &LinkOutcome) -> Option<f64> {
        let Source::Link(of) = self.source else { return None };
        of(link).filter(|value| value.is_finite())
    }

    /// Returns the value for a run, from the group and the link with these names.
    pub fn of(&self, outcome: &Outcome, group: &str, link: &str) -> Option<f64> {
        match self.source {
            Source::Link(_) => self.of_link(outcome.links.get(link)?),
            Source::Group(_) | Source::Times(..) => self.of_group(outcome.groups.get(group)?),
        }
    }
}

/// Maximum fraction of requests that may fail before a measure that leaves failed requests out
/// stops describing the controller. The limit is Fathom's own. At 0.01, failures hide no more than
/// the 99th percentile and the values beyond it.
pub const MOST_LEFT_OUT: f64 = 0.01;

fn all(group: &GroupOutcome) -> Option<&Distribution> {
    group.times.as_ref()
}

fn large(group: &GroupOutcome) -> Option<&Distribution> {
    group.times_large.as_ref()
}

fn first_byte(group: &GroupOutcome) -> Option<&Distribution> {
    group.first_byte.as_ref()
}

/// Returns a number per connection.
fn per_connection(group: &GroupOutcome, number: u64) -> Option<f64> {
    (group.connections > 0).then(|| number as f64 / group.connections as f64)
}

/// Returns the ratio of a part to a whole in percent.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

use Better::{Higher, Lower, Neither};
use Population::{
    Bytes, Completed, CompletedLarge, Connections, Datagrams, Frames, FramesThere, Objects,
    Packets, Requests, Time, Views,
};
use Statistic::{Mean, P50, P90, P95, P99};

/// Every measure, in the order of data files.
pub const MEASURES: &[Measure] = &[
    Measure::times("response_time_mean_ms", "mean response time", Completed, all, Mean)
        .headed("mean ms"),
    Measure::times("response_time_p50_ms", "median response time", Completed, all, P50)
        .headed("p50 ms"),
    Measure::times(
        "response_time_p90_ms",
        "90th percentile of response times",
        Completed,
        all,
        P90,
    )
    .headed("p90 ms"),
    Measure::times(
        "response_time_p95_ms",
        "95th percentile of response times",
        Completed,
        all,
        P95,
    )
    .headed("p95 ms"),
    Measure::times(
        "response_time_p99_ms",
        "99th percentile of response times",
        Completed,
        all,
        P99,
    )
    .headed("p99 ms"),
    Measure::times(
        "large_response_time_p50_ms",
        "median response time above 25 kB",
        CompletedLarge,
        large,
        P50,
    )
    .headed(">25kB p50"),
    Measure::times(
        "large_response_time_p95_ms",
        "95th percentile of response times above 25 kB",
        CompletedLarge,
        large,
        P95,
    )
    .headed(">25kB p95"),
    Measure::times(
        "first_byte_p50_ms",
        "median time to the first byte",
        Completed,
        first_byte,
        P50,
    )
    .headed("ttfb p50"),
    Measure::times(
        "first_byte_p95_ms",
        "95th percentile of times to the first byte",
        Completed,
        first_byte,
        P95,
    )
    .headed("ttfb p95"),
    Measure::times(
        "critical_time_mean_ms",
        "mean time to the last critical object",
        Views,
        |g| g.pages.as_ref()?.critical_time.as_ref(),
        Mean,
    )
    .headed("critical ms"),
    Measure::times(
        "object_time_p50_ms",
        "median time of objects",
        Objects,
        |g| g.pages.as_ref()?.object_times.as_ref(),
        P50,
    )
    .headed("object p50"),
    Measure::group("deadline_misses_percent", "frames that miss their deadline", Frames, |g| {
        g.media.as_ref().filter(|m| m.frames > 0).map(|m| 100.0 * m.missed_fraction)
    })
    .shown("%", "missed %", Lower, 2),
    Measure::group(
        "frames_never_complete_percent",
        "frames that are never complete",
        Frames,
        |g| g.media.as_ref().and_then(|m| percent(m.never, m.frames)),
    )
    .shown("%", "never complete %", Lower, 2),
    Measure::group(
        "media_rate_kbps",
        "bit rate of the frames that meet their deadline",
        Frames,
        |g| g.media.as_ref().filter(|m| m.frames > 0).map(|m| m.met_kbps),
    )
    .shown("kbps", "media kbps", Higher, 0),
    Measure::group("freezes", "freezes", Frames, |g| g.media.as_ref().map(|m| m.freezes as f64))
        .shown("", "freezes", Lower, 1),
    Measure::group("frozen_ms", "time frozen", Frames, |g| g.media.as_ref().map(|m| m.frozen_ms))
        .shown("ms", "frozen ms", Lower, 0),
    Measure::times(
        "frame_delay_p95_ms",
        "95th percentile of frame delays",
        FramesThere,
        |g| g.media.as_ref()?.frame_delay.as_ref(),
        P95,
    )
    .headed("frame p95"),
    Measure::group("goodput_per_response_kbps", "goodput per response", Completed, |g| {
        (g.responses > 0).then_some(g.goodput_per_response_kbps)
    })
    .shown("kbps", "goodput kbps", Higher, 1),
    Measure::group("responses", "responses completed", Requests, |g| Some(g.responses as f64))
        .shown("", "responses", Neither, 0),
    Measure::group("requests_failed", "requests failed", Requests, |g| Some(g.failed as f64))
        .shown("", "failed", Lower, 1),
    Measure::group(
        "requests_unfinished",
        "requests unfinished at the end of the run",
        Requests,
        |g| Some(g.unfinished as f64),
    )
    .shown("", "unfinished", Neither, 1),
    Measure::group("response_size_mean_bytes", "mean response size", Completed, |g| {
        (g.responses > 0).then_some(g.mean_size)
    })
    .shown("B", "size B", Neither, 0),
    Measure::group("throughput_bps", "throughput", Bytes, |g| Some(g.throughput_bps))
        .shown("bps", "bps", Higher, 0),
    Measure::group("datagrams_lost_percent", "datagrams lost", Datagrams, |g| {
        percent(g.lost, g.sent)
    })
    .shown("%", "lost %", Lower, 2),
    Measure::group(
        "start_up_loss_percent",
        "datagrams lost in the first 5 s of each connection",
        Datagrams,
        |g| percent(g.start_up_lost, g.start_up_sent),
    )
    .shown("%", "start-up lost %", Lower, 2)
    .over(Span::StartUp),
    Measure::group("timeouts_per_connection", "timeouts per connection", Connections, |g| {
        per_connection(g, g.timeouts())
    })
    .shown("", "timeouts/conn", Lower, 2),
    Measure::group("window_cuts_early", "window cuts before loss", Connections, |g| {
        Some(g.early_reductions as f64)
    })
    .shown("", "early cuts", Neither, 0),
    Measure::group("window_cuts_after_loss", "window cuts after loss", Connections, |g| {
        Some(g.loss_reductions as f64)
    })
    .shown("", "loss cuts", Neither, 0),
    Measure::group("one_way_delay_percent", "senders with one-way delay", Connections, |g| {
        (g.accepted > 0).then(|| g.one_way_percent())
    })
    .shown("%", "one-way %", Neither, 1)
    .over(Span::Whole),
    Measure::link("drops_percent", "packets dropped at the bottleneck", Packets, |l| {
        (l.arrived > 0).then_some(l.drops_percent)
    })
    .shown("%", "drops %", Lower, 2),
    Measure::link(
        "path_losses_percent",
        "packets lost on the path but not in the queue",
        Packets,
        |l| {
            let did = l.impairments.filter(|did| did.arrived > 0)?;
            percent(did.lost + did.policed + did.cut_off, did.arrived)
        },
    )
    .shown("%", "path loss %", Lower, 2),
    Measure::link("marks_percent", "packets marked at the bottleneck", Packets, |l| {
        (l.arrived > 0).then(|| l.marks_percent())
    })
    .shown("%", "marks %", Neither, 2),
    Measure::link("queue_mean_packets", "mean queue", Time, |l| {
        (l.arrived > 0).then_some(l.mean_queue)
    })
    .shown("packets", "queue p", Lower, 1),
    Measure::link("utilisation_percent", "link utilisation", Time, |l| {
        (l.arrived > 0).then_some(l.utilisation_percent)
    })
    .shown("%", "link %", Neither, 1),
    Measure::link("link_throughput_bps", "throughput of the link", Packets, |l| {
        (l.arrived > 0).then_some(l.throughput_bps)
    })
    .shown("bps", "link bps", Higher, 0),
];

/// Returns the measure that ranks controllers under this workload.
pub(crate) fn primary(workload: &Workload) -> &'static Measure {
    Measure::named(workload.model().measure()).unwrap_or(&MEASURES[0])
}

/// Returns the Markdown table of docs/compare.md: every measure with its span and its population.
pub fn measures_table() -> String {
    let mut text = String::from("| measure | span | population |\n|---|---|---|\n");
    for Measure { key, span, population, .. } in MEASURES {
        text += &format!("| `{key}` | {} | {} |\n", span.text(), population.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measure_keys_are_unique_and_end_with_their_unit() {
        for (i, measure) in MEASURES.iter().enumerate() {
            assert!(MEASURES[..i].iter().all(|other| other.key != measure.key), "{}", measure.key);
            let suffix = match measure.unit {
                "" => "",
                "%" => "_percent",
                "B" => "_bytes",
                unit => &format!("_{unit}"),
            };
            assert!(measure.key.ends_with(suffix), "{} is in {}", measure.key, measure.unit);
            assert!(
                measure
                    .key
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            );
        }
    }

    #[test]
    fn short_times_are_printed_with_decimals() {
        let mean = Measure::named("response_time_mean_ms").unwrap();
        for (values, decimals) in [
            (&[670.0, 17.0][..], 0),
            (&[12.0, 9.4], 1),
            (&[0.715, 2.9], 2),
            (&[0.004], 3),
            (&[0.0, 20.0], 0),
            (&[], 0),
        ] {
            assert_eq!(mean.decimals(values.iter().copied()), decimals, "{values:?}");
        }
        assert_eq!(Measure::named("drops_percent").unwrap().decimals([0.001]), 2);
    }

    #[test]
    fn compare_page_contains_the_generated_table_of_measures() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compare.md");
        let text = std::fs::read_to_string(page).unwrap();
        assert!(
            text.contains(&measures_table()),
            "put this table into docs/compare.md:\n{}",
            measures_table()
        );
    }

    #[test]
    fn each_percentile_states_the_samples_it_needs() {
        let needed = |key: &str| Measure::named(key).unwrap().samples_needed();
        let keys = ["p50", "p90", "p95", "p99"].map(|p| needed(&format!("response_time_{p}_ms")));
        assert_eq!(keys, [1, 100, 200, 1_000]);
        assert_eq!(
            (needed("frame_delay_p95_ms"), needed("first_byte_p95_ms"), needed("throughput_bps")),
            (200, 200, 0)
        );
        let of = |count| {
            Some(Distribution { count, ..fathom_metrics::Latencies::default().distribution() })
        };
        let group =
            GroupOutcome { times: of(5_000), times_large: of(12), ..GroupOutcome::default() };
        assert_eq!(Measure::named("large_response_time_p95_ms").unwrap().samples(&group), 12);
        assert_eq!(Measure::named("response_time_p95_ms").unwrap().samples(&group), 5_000);
        for measure in MEASURES.iter().filter(|m| m.key.contains("_p9")) {
            assert!(measure.samples_needed() >= 100, "{} is shown of any sample", measure.key);
        }
    }

    #[test]
    fn response_times_are_invalid_above_1_percent_failed_requests() {
        let misses = |key: &str, failed, completed| {
            Measure::named(key).unwrap().misses_failures(failed, completed)
        };
        assert!(!misses("response_time_mean_ms", 1, 99) && misses("response_time_mean_ms", 2, 98));
        assert!(misses("critical_time_mean_ms", 1, 0) && misses("frame_delay_p95_ms", 5, 5));
        assert!(!misses("requests_failed", 50, 50) && !misses("deadline_misses_percent", 50, 50));
        assert!(!misses("response_time_mean_ms", 0, 0));
    }

    #[test]
    fn empty_run_outcome_has_no_measurements() {
        let of = |key: &str| {
            Measure::named(key).unwrap().of(&Outcome::default(), "forward", "left-right")
        };
        assert_eq!((of("response_time_mean_ms"), of("drops_percent")), (None, None));
        assert_eq!(
            Measure::named("response_time_p50_ms").unwrap().of_group(&GroupOutcome::default()),
            None
        );
    }
}
