//! What runs are compared by: one table, which the ranking, the reports and the data files read. A line adds a measure.

use crate::scenario::{GroupOutcome, LinkOutcome, Outcome, Workload};
use fathom_metrics::{Bounds, Distribution};

/// Which of two values is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// Neither: it describes a run and judges nothing.
    Neither,
}

/// How a measure is read.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// From a group of traffic.
    Group(fn(&GroupOutcome) -> Option<f64>),
    /// From a link.
    Link(fn(&LinkOutcome) -> Option<f64>),
}

/// One measure.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name in data files, with its unit: `response_time_mean_ms`.
    pub key: &'static str,
    /// Its name in words, without the unit.
    pub name: &'static str,
    /// Its unit; empty: it has none.
    pub unit: &'static str,
    /// Its name over a column of a table, with its unit.
    pub head: &'static str,
    /// Which of two values is preferred.
    pub better: Better,
    /// Decimals that are shown.
    pub digits: usize,
    /// Responses of all seeds together from which on it is shown: ten lie beyond the percentile.
    pub enough: u64,
    source: Source,
}

impl Measure {
    const fn group(key: &'static str, name: &'static str, of: fn(&GroupOutcome) -> Option<f64>) -> Self {
        let (unit, head, better) = ("", name, Better::Neither);
        Self { key, name, unit, head, better, digits: 1, enough: 0, source: Source::Group(of) }
    }

    const fn link(key: &'static str, name: &'static str, of: fn(&LinkOutcome) -> Option<f64>) -> Self {
        let (unit, head, better) = ("", name, Better::Neither);
        Self { key, name, unit, head, better, digits: 1, enough: 0, source: Source::Link(of) }
    }

    const fn shown(self, unit: &'static str, head: &'static str, better: Better, digits: usize) -> Self {
        Self { unit, head, better, digits, ..self }
    }

    const fn of_at_least(self, enough: u64) -> Self {
        Self { enough, ..self }
    }

    /// The measure with this key.
    pub fn named(key: &str) -> Option<&'static Self> {
        MEASURES.iter().find(|measure| measure.key == key)
    }

    /// It is read from a group of traffic; otherwise from a link.
    pub fn is_of_group(&self) -> bool {
        matches!(self.source, Source::Group(_))
    }

    /// Values that it can take: no measure here is below zero, and no percentage above 100.
    pub fn bounds(&self) -> Bounds {
        if self.unit == "%" { Bounds::PERCENT } else { Bounds::NOT_NEGATIVE }
    }

    /// Decimals that show values that stand side by side: of times below 10 ms two digits of the shortest, but no less than a microsecond.
    pub(crate) fn decimals(&self, values: impl IntoIterator<Item = f64>) -> usize {
        let least = values.into_iter().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        if self.unit != "ms" || !least.is_finite() {
            return self.digits;
        }
        self.digits.max((1 - least.log10().floor() as i32).clamp(0, 3) as usize)
    }

    /// Its value for a group of traffic.
    pub fn of_group(&self, group: &GroupOutcome) -> Option<f64> {
        let Source::Group(of) = self.source else { return None };
        of(group).filter(|value| value.is_finite())
    }

    /// Its value for a link.
    pub fn of_link(&self, link: &LinkOutcome) -> Option<f64> {
        let Source::Link(of) = self.source else { return None };
        of(link).filter(|value| value.is_finite())
    }

    /// Its value for the group and the link of a run that have these names.
    pub fn of(&self, outcome: &Outcome, group: &str, link: &str) -> Option<f64> {
        match self.source {
            Source::Group(_) => self.of_group(outcome.groups.get(group)?),
            Source::Link(_) => self.of_link(outcome.links.get(link)?),
        }
    }
}

/// A number of the response times, where responses were completed.
fn time(group: &GroupOutcome, of: fn(&Distribution) -> f64) -> Option<f64> {
    group.times.as_ref().filter(|times| times.count > 0).map(of)
}

/// The same of responses larger than 25 kB.
fn large(group: &GroupOutcome, of: fn(&Distribution) -> f64) -> Option<f64> {
    group.times_large.as_ref().filter(|times| times.count > 0).map(of)
}

/// A number of each connection.
fn per_connection(group: &GroupOutcome, number: u64) -> Option<f64> {
    (group.connections > 0).then(|| number as f64 / group.connections as f64)
}

use Better::{Higher, Lower, Neither};

/// Every measure, in the order of data files.
pub const MEASURES: &[Measure] = &[
    Measure::group("response_time_mean_ms", "mean response time", |g| time(g, |t| t.mean_ms))
        .shown("ms", "mean ms", Lower, 0),
    Measure::group("response_time_p50_ms", "median response time", |g| time(g, |t| t.median_ms))
        .shown("ms", "p50 ms", Lower, 0),
    Measure::group("response_time_p90_ms", "90th percentile of response times", |g| time(g, |t| t.p90_ms))
        .shown("ms", "p90 ms", Lower, 0)
        .of_at_least(100),
    Measure::group("response_time_p95_ms", "95th percentile of response times", |g| time(g, |t| t.p95_ms))
        .shown("ms", "p95 ms", Lower, 0)
        .of_at_least(200),
    Measure::group("response_time_p99_ms", "99th percentile of response times", |g| time(g, |t| t.p99_ms))
        .shown("ms", "p99 ms", Lower, 0)
        .of_at_least(1_000),
    Measure::group("large_response_time_p50_ms", "median response time above 25 kB", |g| large(g, |t| t.median_ms))
        .shown("ms", ">25kB p50", Lower, 0),
    Measure::group("large_response_time_p95_ms", "95th percentile above 25 kB", |g| large(g, |t| t.p95_ms))
        .shown("ms", ">25kB p95", Lower, 0)
        .of_at_least(1_000),
    Measure::group("first_byte_p50_ms", "median time to the first byte", |g| {
        g.first_byte.as_ref().filter(|t| t.count > 0).map(|t| t.median_ms)
    })
    .shown("ms", "ttfb p50", Lower, 0),
    Measure::group("first_byte_p95_ms", "95th percentile of times to the first byte", |g| {
        g.first_byte.as_ref().filter(|t| t.count > 0).map(|t| t.p95_ms)
    })
    .shown("ms", "ttfb p95", Lower, 0)
    .of_at_least(200),
    Measure::group("critical_time_mean_ms", "mean time to the last critical object", |g| {
        g.pages.as_ref()?.critical_time.as_ref().filter(|t| t.count > 0).map(|t| t.mean_ms)
    })
    .shown("ms", "critical ms", Lower, 0),
    Measure::group("object_time_p50_ms", "median time of objects", |g| {
        g.pages.as_ref()?.object_times.as_ref().filter(|t| t.count > 0).map(|t| t.median_ms)
    })
    .shown("ms", "object p50", Lower, 0),
    Measure::group("deadline_misses_percent", "frames that miss their deadline", |g| {
        g.media.as_ref().filter(|m| m.frames > 0).map(|m| 100.0 * m.missed_fraction)
    })
    .shown("%", "missed %", Lower, 2),
    Measure::group("frames_never_complete_percent", "frames that are never complete", |g| {
        g.media.as_ref().filter(|m| m.frames > 0).map(|m| 100.0 * m.never as f64 / m.frames as f64)
    })
    .shown("%", "never complete %", Lower, 2),
    Measure::group("freezes", "freezes", |g| g.media.as_ref().map(|m| m.freezes as f64)).shown("", "freezes", Lower, 1),
    Measure::group("frozen_ms", "time frozen", |g| g.media.as_ref().map(|m| m.frozen_ms)).shown(
        "ms",
        "frozen ms",
        Lower,
        0,
    ),
    Measure::group("frame_delay_p95_ms", "95th percentile of frame delays", |g| {
        g.media.as_ref()?.frame_delay.as_ref().filter(|t| t.count > 0).map(|t| t.p95_ms)
    })
    .shown("ms", "frame p95", Lower, 0),
    Measure::group("goodput_per_response_kbps", "goodput per response", |g| {
        (g.responses > 0).then_some(g.goodput_per_response_kbps)
    })
    .shown("kbps", "goodput kbps", Higher, 1),
    Measure::group("responses", "responses completed", |g| Some(g.responses as f64)).shown("", "responses", Neither, 0),
    Measure::group("requests_failed", "requests failed", |g| Some(g.failed as f64)).shown("", "failed", Lower, 1),
    Measure::group("response_size_mean_bytes", "mean response size", |g| (g.responses > 0).then_some(g.mean_size))
        .shown("B", "size B", Neither, 0),
    Measure::group("throughput_bps", "throughput", |g| Some(g.throughput_bps)).shown("bps", "bps", Higher, 0),
    Measure::group("datagrams_lost_percent", "datagrams lost", |g| {
        (g.sent > 0).then(|| 100.0 * g.lost as f64 / g.sent as f64)
    })
    .shown("%", "lost %", Lower, 2),
    Measure::group("start_up_loss_percent", "datagrams lost in the first 5 s of connections", |g| {
        (g.start_up_sent > 0).then(|| 100.0 * g.start_up_lost as f64 / g.start_up_sent as f64)
    })
    .shown("%", "start-up lost %", Lower, 2),
    Measure::group("timeouts_per_connection", "timeouts per connection", |g| per_connection(g, g.timeouts())).shown(
        "",
        "timeouts/conn",
        Lower,
        2,
    ),
    Measure::group("window_cuts_early", "window cuts before loss", |g| Some(g.early_reductions as f64)).shown(
        "",
        "early cuts",
        Neither,
        0,
    ),
    Measure::group("window_cuts_after_loss", "window cuts after loss", |g| Some(g.loss_reductions as f64)).shown(
        "",
        "loss cuts",
        Neither,
        0,
    ),
    Measure::group("one_way_delay_percent", "senders with one-way delay", |g| {
        (g.accepted > 0).then(|| g.one_way_percent())
    })
    .shown("%", "one-way %", Neither, 1),
    Measure::link("drops_percent", "packets dropped at the bottleneck", |l| (l.arrived > 0).then_some(l.drops_percent))
        .shown("%", "drops %", Lower, 2),
    Measure::link("path_losses_percent", "packets lost on the path beside the queue's drops", |l| {
        let did = l.impairments.filter(|did| did.arrived > 0)?;
        Some(100.0 * (did.lost + did.policed + did.cut_off) as f64 / did.arrived as f64)
    })
    .shown("%", "path loss %", Lower, 2),
    Measure::link("marks_percent", "packets marked at the bottleneck", |l| (l.arrived > 0).then(|| l.marks_percent()))
        .shown("%", "marks %", Neither, 2),
    Measure::link("queue_mean_packets", "mean queue", |l| (l.arrived > 0).then_some(l.mean_queue))
        .shown("packets", "queue p", Lower, 1),
    Measure::link("utilisation_percent", "link utilisation", |l| (l.arrived > 0).then_some(l.utilisation_percent))
        .shown("%", "link %", Neither, 1),
    Measure::link("link_throughput_bps", "throughput of the link", |l| (l.arrived > 0).then_some(l.throughput_bps))
        .shown("bps", "link bps", Higher, 0),
];

/// The measure that the ranking is by. Live media: frames that miss their deadline, as nothing else is seen. Pages: how long they take to load. Web and bulk: how long responses take on average, which is what a user waits for and what a
/// transfer takes to complete.
pub(crate) fn primary(workload: Workload) -> &'static Measure {
    let key = match workload {
        Workload::Media { .. } => "deadline_misses_percent",
        _ => "response_time_mean_ms",
    };
    Measure::named(key).unwrap_or(&MEASURES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_carry_their_unit() {
        for (i, measure) in MEASURES.iter().enumerate() {
            assert!(MEASURES[..i].iter().all(|other| other.key != measure.key), "{}", measure.key);
            let suffix = match measure.unit {
                "" => "",
                "%" => "_percent",
                "B" => "_bytes",
                unit => &format!("_{unit}"),
            };
            assert!(measure.key.ends_with(suffix), "{} is in {}", measure.key, measure.unit);
            assert!(measure.key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        }
    }

    #[test]
    fn short_times_have_decimals() {
        let mean = Measure::named("response_time_mean_ms").unwrap();
        for (values, decimals) in
            [(&[670.0, 17.0][..], 0), (&[12.0, 9.4], 1), (&[0.715, 2.9], 2), (&[0.004], 3), (&[0.0, 20.0], 0), (&[], 0)]
        {
            assert_eq!(mean.decimals(values.iter().copied()), decimals, "{values:?}");
        }
        assert_eq!(Measure::named("drops_percent").unwrap().decimals([0.001]), 2);
    }

    #[test]
    fn nothing_is_measured_of_nothing() {
        let of = |key: &str| Measure::named(key).unwrap().of(&Outcome::default(), "forward", "left-right");
        assert_eq!((of("response_time_mean_ms"), of("drops_percent")), (None, None));
        assert_eq!(Measure::named("response_time_p50_ms").unwrap().of_group(&GroupOutcome::default()), None);
    }
}
