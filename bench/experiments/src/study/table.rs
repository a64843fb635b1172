//! Results by key, and their table for a terminal.

use std::collections::{BTreeMap, BTreeSet};

use fathom_metrics::{Bounds, Estimate};
use fathom_report::{Column, Grid, NOTHING, estimate_within};

use super::Axis;
use super::study_run::StudyRunResult;
use crate::scenario::{GroupOutcome, LinkOutcome};

/// Results of one key: those of its seeds.
pub(crate) type Keyed<'a> = (&'a BTreeMap<String, String>, Vec<&'a StudyRunResult>);

/// Results by key, in the order in which keys first come.
pub(crate) fn by_key(results: &[StudyRunResult]) -> Vec<Keyed<'_>> {
    let mut places: BTreeMap<&BTreeMap<String, String>, usize> = BTreeMap::new();
    let mut groups: Vec<Keyed<'_>> = Vec::new();
    for result in results {
        let place = *places.entry(&result.key).or_insert_with(|| {
            groups.push((&result.key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(result);
    }
    groups
}

type Measure<T> = (&'static str, fn(&T) -> Option<f64>, usize);

/// Measures of a group of traffic: name, value, digits.
const GROUP: &[Measure<GroupOutcome>] = &[
    (OFFERED, |g| g.load.as_ref().map(|load| load.computed_percent), 1),
    ("responses", |g| g.times.as_ref().filter(|t| t.count > 0).map(|_| g.responses as f64), 0),
    (FAILED, |g| Some(g.failed as f64), 1),
    ("median ms", |g| g.times.as_ref().filter(|t| t.count > 0).map(|t| t.median_ms), 1),
    ("mean ms", |g| g.times.as_ref().filter(|t| t.count > 0).map(|t| t.mean_ms), 1),
    ("Mbps", |g| Some(g.throughput_bps / 1e6), 3),
    ("lost %", |g| (g.sent > 0).then(|| 100.0 * g.lost as f64 / g.sent as f64), 2),
    ("missed %", |g| g.media.as_ref().map(|m| 100.0 * m.missed_fraction), 2),
    ("freezes", |g| g.media.as_ref().map(|m| m.freezes as f64), 1),
    ("critical ms", |g| g.pages.as_ref()?.critical_time.as_ref().filter(|t| t.count > 0).map(|t| t.median_ms), 1),
    ("timeouts/conn", |g| (g.connections > 0).then(|| g.timeouts() as f64 / g.connections as f64), 2),
];

/// Measures of the bottleneck.
const LINK: &[Measure<LinkOutcome>] = &[
    ("drops %", |l| Some(l.drops_percent), 2),
    ("marks %", |l| (l.arrived > 0 && l.marked > 0).then(|| 100.0 * l.marked as f64 / l.arrived as f64), 2),
    ("queue p", |l| Some(l.mean_queue), 1),
    ("busy %", |l| Some(l.utilisation_percent), 1),
];

/// One row per key: means over its seeds of each group's measures and of the bottleneck's, which is the busiest link.
pub fn table(axes: &[Axis], results: &[StudyRunResult]) -> String {
    grid(axes, results).text(usize::MAX)
}

/// The same as cells.
pub(super) fn grid(axes: &[Axis], results: &[StudyRunResult]) -> Grid {
    let rows = by_key(results);
    let column = |over: &str, name: &str, cell: &dyn Fn(&Keyed<'_>) -> String| Column {
        over: over.to_owned(),
        name: name.to_owned(),
        cells: rows.iter().map(cell).collect(),
    };
    let mut columns: Vec<Column> = axes
        .iter()
        .map(|axis| column("", &axis.name, &|(key, _)| key.get(&axis.name).cloned().unwrap_or_default()))
        .collect();
    columns.push(column("", "seeds", &|(_, of)| of.len().to_string()));
    let groups: BTreeSet<&String> = results.iter().flat_map(|r| r.outcome.groups.keys()).collect();
    for group in groups {
        for (name, measure, digits) in GROUP {
            let of = |r: &&StudyRunResult| r.outcome.groups.get(group).and_then(measure);
            columns.push(column(group, name, &|(_, of_key)| mean(name, of_key.iter().filter_map(of), *digits)));
        }
    }
    let bottlenecks: Vec<Option<String>> = rows.iter().map(|(_, of)| busiest(of)).collect();
    columns.push(Column {
        over: "bottleneck".into(),
        name: "link".into(),
        cells: bottlenecks.iter().map(|b| b.clone().unwrap_or_default()).collect(),
    });
    for (name, measure, digits) in LINK {
        let cells = rows.iter().zip(&bottlenecks).map(|((_, of), link)| {
            let value = |r: &&StudyRunResult| link.as_ref().and_then(|l| r.outcome.links.get(l)).and_then(measure);
            mean(name, of.iter().filter_map(value), *digits)
        });
        columns.push(Column { over: "bottleneck".into(), name: (*name).into(), cells: cells.collect() });
    }
    // What nobody has needs no column.
    columns.retain(|c| c.cells.iter().any(|cell| cell != NOTHING && (c.name != FAILED || cell != "0.0")));
    Grid { corner: String::new(), labels: vec![String::new(); rows.len()], columns }
}

/// Load that is computed beforehand, whatever the network then made of it: it may be above 100 %.
const OFFERED: &str = "load % computed";
/// Requests that failed; no column where none did.
const FAILED: &str = "failed";

/// A mean; with its 95 % interval where several seeds have a value. The interval ends where the measure of this name does.
fn mean(name: &str, values: impl Iterator<Item = f64>, digits: usize) -> String {
    match Estimate::of(&values.collect::<Vec<_>>()) {
        None => NOTHING.to_owned(),
        Some(of) if of.half_width.is_some_and(|half| half > 0.0) => {
            let bounds = if name.contains('%') && name != OFFERED { Bounds::PERCENT } else { Bounds::NOT_NEGATIVE };
            estimate_within(&of, &bounds)
        }
        Some(of) => format!("{:.digits$}", of.mean),
    }
}

/// The link that was sending for the largest part of the time, over all seeds.
pub(super) fn busiest(results: &[&StudyRunResult]) -> Option<String> {
    let mut busy: BTreeMap<&String, f64> = BTreeMap::new();
    for (name, link) in results.iter().flat_map(|r| &r.outcome.links) {
        *busy.entry(name).or_default() += link.utilisation_percent;
    }
    busy.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name.clone())
}
