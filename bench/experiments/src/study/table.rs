//! Results by combination, and their table for a terminal.

use std::collections::{BTreeMap, BTreeSet};

use fathom_metrics::{Bounds, Estimate};
use fathom_report::{Column, Grid, NOTHING, estimate_within};

use super::Axis;
use super::study_run::StudyRunResult;
use crate::measures::Measure;

/// Results of one combination, one per seed.
pub(crate) type Keyed<'a> = (&'a BTreeMap<String, String>, Vec<&'a StudyRunResult>);

/// Returns the results by combination, in the order in which combinations first appear.
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

/// Column of the table: its heading, the key of its measure, the factor for its values, and the
/// number of decimal places.
type Shown = (&'static str, &'static str, f64, usize);

/// Columns for each group of traffic.
const GROUP: &[Shown] = &[
    (RESPONSES, "responses", 1.0, 0),
    (FAILED, "requests_failed", 1.0, 1),
    ("median ms", "response_time_p50_ms", 1.0, 1),
    ("mean ms", "response_time_mean_ms", 1.0, 1),
    ("Mbps", "throughput_bps", 1e-6, 3),
    ("lost %", "datagrams_lost_percent", 1.0, 2),
    (START_UP, "start_up_loss_percent", 1.0, 2),
    ("missed %", "deadline_misses_percent", 1.0, 2),
    ("freezes", "freezes", 1.0, 1),
    ("critical ms", "critical_time_mean_ms", 1.0, 1),
    ("timeouts/conn", "timeouts_per_connection", 1.0, 2),
];

/// Columns for the bottleneck.
const LINK: &[Shown] = &[
    ("drops %", "drops_percent", 1.0, 2),
    (MARKS, "marks_percent", 1.0, 2),
    ("queue p", "queue_mean_packets", 1.0, 1),
    ("busy %", "utilisation_percent", 1.0, 1),
];

/// Returns the table, with one row per combination: the means over the seeds for each group and for
/// the bottleneck. The bottleneck is the busiest link.
pub fn table(axes: &[Axis], results: &[StudyRunResult]) -> String {
    grid(axes, results).text(usize::MAX)
}

/// Returns the table as cells.
pub(super) fn grid(axes: &[Axis], results: &[StudyRunResult]) -> Grid {
    let rows = by_key(results);
    let column = |over: &str, name: &str, cell: &dyn Fn(&Keyed<'_>) -> String| Column {
        over: over.to_owned(),
        name: name.to_owned(),
        cells: rows.iter().map(cell).collect(),
    };
    let mut columns: Vec<Column> = axes
        .iter()
        .map(|axis| {
            column("", &axis.name, &|(key, _)| key.get(&axis.name).cloned().unwrap_or_default())
        })
        .collect();
    columns.push(column("", "seeds", &|(_, of)| of.len().to_string()));
    let groups: BTreeSet<&String> = results.iter().flat_map(|r| r.outcome.groups.keys()).collect();
    for group in groups {
        // This load is computed in advance and does not depend on the network.
        let computed = |r: &&StudyRunResult| {
            Some(r.outcome.groups.get(group)?.load.as_ref()?.computed_percent)
        };
        columns.push(column(group, OFFERED, &|(_, of_key)| {
            mean(OFFERED, of_key.iter().filter_map(computed), 1)
        }));
        for (name, key, scale, digits) in GROUP {
            let Some(measure) = Measure::named(key) else { continue };
            let of =
                |r: &&StudyRunResult| Some(scale * measure.of_group(r.outcome.groups.get(group)?)?);
            columns.push(column(group, name, &|(_, of_key)| {
                mean(name, of_key.iter().filter_map(of), *digits)
            }));
        }
    }
    let bottlenecks: Vec<Option<String>> = rows.iter().map(|(_, of)| busiest(of)).collect();
    columns.push(Column {
        over: "bottleneck".into(),
        name: "link".into(),
        cells: bottlenecks.iter().map(|b| b.clone().unwrap_or_default()).collect(),
    });
    for (name, key, scale, digits) in LINK {
        let Some(measure) = Measure::named(key) else { continue };
        let cells = rows.iter().zip(&bottlenecks).map(|((_, of), link)| {
            let value = |r: &&StudyRunResult| {
                Some(scale * measure.of_link(r.outcome.links.get(link.as_ref()?)?)?)
            };
            mean(name, of.iter().filter_map(value), *digits)
        });
        columns.push(Column {
            over: "bottleneck".into(),
            name: (*name).into(),
            cells: cells.collect(),
        });
    }
    // Drop columns without values, and columns of responses, failures or marks that are all zero.
    let is_none = |name: &str, cell: &str| {
        cell == NOTHING
            || ([RESPONSES, FAILED, MARKS].contains(&name) && cell.parse::<f64>() == Ok(0.0))
    };
    columns.retain(|c| c.cells.iter().any(|cell| !is_none(&c.name, cell)));
    Grid { corner: String::new(), labels: vec![String::new(); rows.len()], columns }
}

/// Heading of the load that is computed in advance and does not depend on the network. This load
/// may exceed 100 %.
const OFFERED: &str = "load % computed";
/// Heading of completed responses. The column is left out if there are none.
const RESPONSES: &str = "responses";
/// Heading of failed requests. The column is left out if there are none.
const FAILED: &str = "failed";
/// Heading of marked packets. The column is left out if there are none.
const MARKS: &str = "marks %";
/// Heading of datagrams lost in the first five seconds of connections.
const START_UP: &str = "start-up lost %";

/// Returns the mean, with its 95 % interval if the values differ between seeds. The interval is
/// clipped to the bounds of the column's measure.
fn mean(name: &str, values: impl Iterator<Item = f64>, digits: usize) -> String {
    match Estimate::of(&values.collect::<Vec<_>>()) {
        None => NOTHING.to_owned(),
        Some(of) if of.half_width.is_some_and(|half| half > 0.0) => {
            let bounds = if name.contains('%') && name != OFFERED {
                Bounds::PERCENT
            } else {
                Bounds::NOT_NEGATIVE
            };
            estimate_within(&of, &bounds)
        }
        Some(of) => format!("{:.digits$}", of.mean),
    }
}

/// Returns the link with the highest utilisation, summed over these results.
pub(super) fn busiest(results: &[&StudyRunResult]) -> Option<String> {
    let mut busy: BTreeMap<&String, f64> = BTreeMap::new();
    for (name, link) in results.iter().flat_map(|r| &r.outcome.links) {
        *busy.entry(name).or_default() += link.utilisation_percent;
    }
    busy.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name.clone())
}
