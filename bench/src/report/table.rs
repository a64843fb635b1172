//! The comparison as a table for a terminal: the rows of Sync-TCP's Table 1, and more.

use std::fmt::Write;

use crate::experiment::{Comparison, RunResult};

/// A row: its name, and its cell for a run.
type Row = (&'static str, fn(&RunResult) -> String);

/// Rows in order.
const ROWS: &[Row] = &[
    ("responses completed", |r| r.responses.to_string()),
    ("requests failed", |r| r.failed.to_string()),
    ("packet drops at bottleneck (%)", |r| format!("{:.2}", r.drops_percent)),
    ("packet marks at bottleneck (%)", |r| format!("{:.2}", r.marks_percent)),
    ("mean queue (packets)", |r| format!("{:.1}", r.mean_queue)),
    ("mean response size (B)", |r| format!("{:.0}", r.mean_size)),
    ("goodput per response (kbps)", |r| format!("{:.1}", r.goodput_per_response_kbps)),
    ("response time, median (ms)", |r| millis(r.times.median_ms)),
    ("response time, mean (ms)", |r| millis(r.times.mean_ms)),
    ("response time, p90 (ms)", |r| tail(r.times.p90_ms, r.times.count, FOR_P90)),
    ("response time, p95 (ms)", |r| tail(r.times.p95_ms, r.times.count, FOR_P95)),
    ("response time, p99 (ms)", |r| tail(r.times.p99_ms, r.times.count, FOR_P99)),
    ("  above 25 kB, median (ms)", |r| millis(r.times_large.median_ms)),
    ("  above 25 kB, p95 (ms)", |r| tail(r.times_large.p95_ms, r.times_large.count, FOR_P95)),
    ("link utilisation (%)", |r| format!("{:.1}", r.utilisation_percent)),
    ("senders with one-way delay (%)", |r| format!("{:.1}", r.one_way_percent)),
    ("window cuts, early", |r| r.early_reductions.to_string()),
    ("window cuts, after loss", |r| r.loss_reductions.to_string()),
    (LATE, |r| r.punctuality.map_or_else(String::new, |p| format!("{:.1}", p.p99_ms))),
    (LOST, |r| r.punctuality.map_or_else(String::new, |p| p.lost.to_string())),
    ("trace hash", |r| r.trace_hash.clone()),
];
const LATE: &str = "machine late by, p99 (ms)";
const LOST: &str = "lost by loopback (packets)";

fn millis(ms: f64) -> String {
    if ms >= 100.0 { format!("{ms:.0}") } else { format!("{ms:.1}") }
}

/// Responses from which on a percentile is more than one of the slowest of them.
const FOR_P90: u64 = 10;
const FOR_P95: u64 = 20;
const FOR_P99: u64 = 100;

/// A percentile, where there are enough responses for one.
fn tail(ms: f64, responses: u64, enough: u64) -> String {
    if responses < enough { "-".to_owned() } else { millis(ms) }
}

/// What a reader must know of the numbers.
pub(super) fn cautions(c: &Comparison) -> Vec<String> {
    let few = columns(c).iter().any(|(_, r)| r.times.count < FOR_P99 || r.times_large.count < FOR_P95);
    let few = few.then(|| "-: too few responses for this percentile (p99 needs 100, p95 20, p90 10).".to_owned());
    few.into_iter().collect()
}

/// The comparison's columns: every controller, then the uncongested network.
pub(super) fn columns(c: &Comparison) -> Vec<(String, &RunResult)> {
    let runs = c.runs.iter().map(|r| (r.label.clone(), r));
    let reference = c.reference.iter().map(|r| (format!("at {}", r.run.link), &r.run));
    runs.chain(reference).collect()
}

/// The rows as text: name, then one cell per column of [`columns`].
pub(super) fn rows(c: &Comparison) -> Vec<(&'static str, Vec<String>)> {
    let columns = columns(c);
    let failed = columns.iter().any(|(_, r)| r.failed > 0);
    let really = columns.iter().any(|(_, r)| r.punctuality.is_some());
    let marked = columns.iter().any(|(_, r)| r.marks_percent > 0.0);
    ROWS.iter()
        .filter(|(name, _)| failed || *name != "requests failed")
        .filter(|(name, _)| really || ![LATE, LOST].contains(name))
        .filter(|(name, _)| marked || *name != "packet marks at bottleneck (%)")
        .map(|(name, cell)| (*name, columns.iter().map(|(_, r)| cell(r)).collect()))
        .collect()
}

/// What was run, in one paragraph of lines.
pub(super) fn settings(c: &Comparison) -> Vec<String> {
    let p = &c.plan;
    let missing = c.incomplete.iter().map(|run| format!("INCOMPLETE: no results of {} ({})", run.label, run.why));
    let mut lines: Vec<String> = missing.collect();
    lines.push(format!(
        "{} bottleneck, {}, {} workload, {} connections, seed {}, window limit {}",
        p.link,
        p.queue,
        p.workload,
        if p.connections == crate::scenario::Connections::Fresh { "fresh" } else { "persistent" },
        p.seed,
        p.max_window,
    ));
    if let Some(r) = &c.reference {
        lines.push(format!(
            "offered load {} wanted; {:.1}% forward and {:.1}% reverse reached, measured on the uncongested network ({:.1} and {:.1} connections/s)",
            p.load, r.offered_percent[0], r.offered_percent[1], r.rates[0], r.rates[1],
        ));
    }
    lines
}

/// What the numbers say of each controller against the first, or of each backend against the first, and no more.
pub(super) fn verdicts(c: &Comparison) -> Vec<String> {
    let Some((first, others)) = c.runs.split_first() else { return Vec::new() };
    let backends = c.plan.backends.len() > 1;
    let base_of = |r: &RunResult| {
        let same = |b: &&RunResult| b.backend == first.backend && b.controller == r.controller && b.stack == r.stack;
        if backends { c.runs.iter().find(same).unwrap_or(first) } else { first }
    };
    let change = |new: f64, old: f64| {
        if old > 0.0 { format!("{:+.1} %", 100.0 * (new / old - 1.0)) } else { "n/a".to_owned() }
    };
    others
        .iter()
        .map(|r| (r, base_of(r)))
        .filter(|(r, base)| r.label != base.label)
        .map(|(r, base)| {
            let enough = r.times.count.min(base.times.count) >= FOR_P99;
            format!(
                "{} against {}: response time median {}, mean {}, p99 {}; drops {:.2} % against {:.2} %.",
                r.label,
                base.label,
                change(r.times.median_ms, base.times.median_ms),
                change(r.times.mean_ms, base.times.mean_ms),
                if enough { change(r.times.p99_ms, base.times.p99_ms) } else { "n/a".to_owned() },
                r.drops_percent,
                base.drops_percent,
            )
        })
        .collect()
}

/// With more columns than this a run becomes a row.
const MAX_COLUMNS: usize = 5;
/// The rows of [`ROWS`] that then become columns, with their heads.
const HEADS: &[(&str, &str)] = &[
    ("requests failed", "failed"),
    ("packet drops at bottleneck (%)", "drops %"),
    ("packet marks at bottleneck (%)", "marks %"),
    ("mean queue (packets)", "queue p"),
    ("response time, median (ms)", "median ms"),
    ("response time, mean (ms)", "mean ms"),
    ("response time, p95 (ms)", "p95 ms"),
    ("response time, p99 (ms)", "p99 ms"),
    ("  above 25 kB, median (ms)", ">25kB med"),
    ("link utilisation (%)", "link %"),
    ("window cuts, early", "cuts early"),
    ("window cuts, after loss", "after loss"),
];

/// The table, with what was run above it and what it says below.
pub fn table(c: &Comparison) -> String {
    let columns = columns(c);
    let rows = rows(c);
    let body = if columns.len() > MAX_COLUMNS { runs_down(&columns, &rows) } else { runs_across(&columns, &rows) };
    let mut text = settings(c).join("\n") + "\n\n" + &body + "\n";
    for verdict in verdicts(c) {
        text += &verdict;
        text.push('\n');
    }
    for caution in cautions(c) {
        text += &caution;
        text.push('\n');
    }
    if c.runs.len() > 1 {
        text += "One seed is one sample: try others.\n";
    }
    text
}

/// A line per run.
fn runs_down(columns: &[(String, &RunResult)], rows: &[(&'static str, Vec<String>)]) -> String {
    let shown: Vec<(&str, &Vec<String>)> =
        HEADS.iter().filter_map(|(name, head)| Some((*head, &rows.iter().find(|(row, _)| row == name)?.1))).collect();
    let first = columns.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = |(head, cells): &(&str, &Vec<String>)| {
        cells.iter().map(|cell| cell.chars().count()).chain([head.chars().count()]).max().unwrap_or(0)
    };
    let mut text = format!("{:<first$}", "");
    for column in &shown {
        let _ = write!(text, "  {:>1$}", column.0, width(column));
    }
    text.push('\n');
    for (i, (name, _)) in columns.iter().enumerate() {
        let _ = write!(text, "{name:<first$}");
        for column in &shown {
            let _ = write!(text, "  {:>1$}", column.1[i], width(column));
        }
        text.push('\n');
    }
    text
}

/// A column per run.
fn runs_across(columns: &[(String, &RunResult)], rows: &[(&'static str, Vec<String>)]) -> String {
    let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(i, (name, _))| {
            rows.iter().map(|(_, cells)| cells[i].chars().count()).chain([name.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
        let mut text = format!("{name:<first$}");
        for (cell, width) in cells.zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
        text
    };
    let mut text = line("", &mut columns.iter().map(|(name, _)| name.as_str()));
    for (name, cells) in rows {
        text += &line(name, &mut cells.iter().map(String::as_str));
    }
    text
}
