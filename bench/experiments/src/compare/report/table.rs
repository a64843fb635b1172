//! The comparison as a table for a terminal: the rows of Sync-TCP's Table 1, and more.

use fathom_metrics::Distribution;
use fathom_report::{Column, Grid, NOTHING};

use crate::compare::{ComparedRun, Comparison};
use crate::scenario::Connections;

/// A row: its name, its head where it is a column, and its cell for a run.
type Row = (&'static str, Option<&'static str>, fn(&ComparedRun) -> String);

/// Rows in order.
const ROWS: &[Row] = &[
    ("responses completed", None, |r| r.group().responses.to_string()),
    (FAILED, Some("failed"), |r| r.group().failed.to_string()),
    ("packet drops at bottleneck (%)", Some("drops %"), |r| format!("{:.2}", r.forward().drops_percent)),
    (MARKED, Some("marks %"), |r| format!("{:.2}", r.forward().marks_percent())),
    ("mean queue (packets)", Some("queue p"), |r| format!("{:.1}", r.forward().mean_queue)),
    ("mean response size (B)", None, |r| format!("{:.0}", r.group().mean_size)),
    ("goodput per response (kbps)", None, |r| format!("{:.1}", r.group().goodput_per_response_kbps)),
    ("response time, median (ms)", Some("median ms"), |r| time(r.times(), |t| t.median_ms, 1)),
    ("response time, mean (ms)", Some("mean ms"), |r| time(r.times(), |t| t.mean_ms, 1)),
    ("response time, p90 (ms)", None, |r| time(r.times(), |t| t.p90_ms, FOR_P90)),
    ("response time, p95 (ms)", Some("p95 ms"), |r| time(r.times(), |t| t.p95_ms, FOR_P95)),
    ("response time, p99 (ms)", Some("p99 ms"), |r| time(r.times(), |t| t.p99_ms, FOR_P99)),
    ("above 25 kB, median (ms)", Some(">25kB med"), |r| time(r.times_large(), |t| t.median_ms, 1)),
    ("above 25 kB, p95 (ms)", None, |r| time(r.times_large(), |t| t.p95_ms, FOR_P95)),
    ("link utilisation (%)", Some("link %"), |r| format!("{:.1}", r.forward().utilisation_percent)),
    ("senders with one-way delay (%)", None, |r| format!("{:.1}", r.group().one_way_percent())),
    ("window cuts, early", Some("cuts early"), |r| r.group().early_reductions.to_string()),
    ("window cuts, after loss", Some("after loss"), |r| r.group().loss_reductions.to_string()),
    (LATE, None, |r| r.outcome.punctuality.map_or_else(String::new, |p| format!("{:.1}", p.p99_ms))),
    (LOST, None, |r| r.outcome.punctuality.map_or_else(String::new, |p| p.lost.to_string())),
    (HASH, None, |r| r.outcome.trace_hash.clone()),
];
const FAILED: &str = "requests failed";
const MARKED: &str = "packet marks at bottleneck (%)";
/// A page has it among its notes: it is wider than any number.
const HASH: &str = "trace hash";
const LATE: &str = "machine late by, p99 (ms)";
const LOST: &str = "lost by loopback (packets)";

fn millis(ms: f64) -> String {
    if ms >= 100.0 { format!("{ms:.0}") } else { format!("{ms:.1}") }
}

/// Responses from which on a percentile is more than one of the slowest of them.
const FOR_P90: u64 = 10;
const FOR_P95: u64 = 20;
const FOR_P99: u64 = 100;

/// A number of a distribution, where there are enough responses for it.
fn time(times: Option<&Distribution>, of: fn(&Distribution) -> f64, enough: u64) -> String {
    times.filter(|times| times.count >= enough).map_or_else(|| NOTHING.to_owned(), |times| millis(of(times)))
}

fn count(times: Option<&Distribution>) -> u64 {
    times.map_or(0, |times| times.count)
}

/// What a reader must know of the numbers.
pub(super) fn cautions(c: &Comparison) -> Vec<String> {
    let few = columns(c).iter().any(|(_, r)| count(r.times()) < FOR_P99 || count(r.times_large()) < FOR_P95);
    let few = few.then(|| "-: too few responses for this percentile (p99 needs 100, p95 20, p90 10).".to_owned());
    few.into_iter().collect()
}

/// The comparison's columns: every controller, then the uncongested network.
pub(super) fn columns(c: &Comparison) -> Vec<(String, &ComparedRun)> {
    let runs = c.runs.iter().map(|r| (r.label.clone(), r));
    let reference = c.reference.iter().map(|r| (format!("at {}", r.run.link), &r.run));
    runs.chain(reference).collect()
}

/// With more columns than this a run becomes a row.
const MAX_COLUMNS: usize = 5;

/// The numbers: a column per run, or, where these are many, a row per run with the rows that have a head.
pub(super) fn grid(c: &Comparison, wide: bool) -> Grid {
    let runs = columns(c);
    let any = |of: fn(&ComparedRun) -> bool| runs.iter().any(|(_, r)| of(r));
    let failed = any(|r| r.group().failed > 0);
    let really = any(|r| r.outcome.punctuality.is_some());
    let marked = any(|r| r.forward().marked > 0);
    let shown = |name: &str| match name {
        FAILED => failed,
        MARKED => marked,
        LATE | LOST => really,
        HASH => !wide,
        _ => true,
    };
    let rows = ROWS.iter().filter(|(name, ..)| shown(name));
    let column = |name: &str, cells| Column { over: String::new(), name: name.to_owned(), cells };
    let labels = |names: &[(String, &ComparedRun)]| names.iter().map(|(name, _)| name.clone()).collect();
    if wide || runs.len() <= MAX_COLUMNS {
        let columns = runs.iter().map(|(name, r)| column(name, rows.clone().map(|(_, _, cell)| cell(r)).collect()));
        let columns = columns.collect();
        return Grid { labels: rows.map(|(name, ..)| (*name).to_owned()).collect(), columns, ..Grid::default() };
    }
    let heads = rows.filter_map(|(_, head, cell)| Some((head.as_ref()?, cell)));
    let columns = heads.map(|(head, cell)| column(head, runs.iter().map(|(_, r)| cell(r)).collect())).collect();
    Grid { labels: labels(&runs), columns, ..Grid::default() }
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
        if p.connections == Connections::Fresh { "fresh" } else { "persistent" },
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
    let base_of = |r: &ComparedRun| {
        let same = |b: &&ComparedRun| b.backend == first.backend && b.controller == r.controller && b.stack == r.stack;
        if backends { c.runs.iter().find(same).unwrap_or(first) } else { first }
    };
    let change = |r: &ComparedRun, base: &ComparedRun, of: fn(&Distribution) -> f64, enough: u64| {
        let value = |r: &ComparedRun| r.times().filter(|times| times.count >= enough).map(of);
        match (value(r), value(base)) {
            (Some(new), Some(old)) if old > 0.0 => format!("{:+.1} %", 100.0 * (new / old - 1.0)),
            _ => "n/a".to_owned(),
        }
    };
    others
        .iter()
        .map(|r| (r, base_of(r)))
        .filter(|(r, base)| r.label != base.label)
        .map(|(r, base)| {
            format!(
                "{} against {}: response time median {}, mean {}, p99 {}; drops {:.2} % against {:.2} %.",
                r.label,
                base.label,
                change(r, base, |t| t.median_ms, 1),
                change(r, base, |t| t.mean_ms, 1),
                change(r, base, |t| t.p99_ms, FOR_P99),
                r.forward().drops_percent,
                base.forward().drops_percent,
            )
        })
        .collect()
}

/// The table, with what was run above it and what it says below.
pub fn table(c: &Comparison) -> String {
    let one_seed = (c.runs.len() > 1).then(|| "One seed is one sample: try others.".to_owned());
    let below = verdicts(c).into_iter().chain(cautions(c)).chain(one_seed);
    let below: String = below.map(|line| line + "\n").collect();
    format!("{}\n\n{}\n{below}", settings(c).join("\n"), grid(c, false).text(usize::MAX))
}
