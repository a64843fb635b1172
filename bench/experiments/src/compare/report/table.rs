//! Report for the terminal: the conclusion, the ranking, then the other measures. Controllers are
//! rows.

use fathom_metrics::Estimate;
use fathom_report::{Column, Grid, NOTHING, Unit, estimate, estimate_within, wrapped};

use fathom_netsim::path::PathSpec;

use crate::compare::{Candidate, Comparison, Ranked};
use crate::measures::{MEASURES, Measure};
use crate::scenario::Connections;

/// Maximum number of characters in a line.
const WIDTH: usize = 100;

/// Decimals of times in seconds, minutes or hours: most then have three digits.
const DECIMALS: usize = 1;

/// Measures in the ranking besides the primary one.
const BESIDE: [&str; 4] =
    ["response_time_p50_ms", "response_time_p95_ms", "response_time_p99_ms", "drops_percent"];
/// Measures of the second table.
const MORE: [&str; 17] = [
    "requests_failed",
    "path_losses_percent",
    "first_byte_p50_ms",
    "critical_time_mean_ms",
    "media_rate_kbps",
    "freezes",
    "frame_delay_p95_ms",
    "response_time_p90_ms",
    "large_response_time_p50_ms",
    "large_response_time_p95_ms",
    "goodput_per_response_kbps",
    "queue_mean_packets",
    "marks_percent",
    "utilisation_percent",
    "one_way_delay_percent",
    "window_cuts_early",
    "window_cuts_after_loss",
];
/// Measures that are left out if they are zero in every row.
const OFTEN_NONE: [&str; 4] =
    ["requests_failed", "marks_percent", "path_losses_percent", "freezes"];

/// Returns a mean without its interval.
fn mean(value: Option<Estimate>, digits: usize) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{:.digits$}", value.mean))
}

fn column(over: &str, name: &str, cells: Vec<String>) -> Column {
    Column { over: over.to_owned(), name: name.to_owned(), cells }
}

/// Returns the run on the uncongested network as a row below the controllers.
fn reference(c: &Comparison) -> Option<(String, Candidate<'_>)> {
    let reference = c.reference.as_ref()?;
    Some((
        format!("uncongested, {}", reference.run.link),
        Candidate { label: &reference.run.label, runs: vec![&reference.run] },
    ))
}

/// Returns the names and candidates of the rows: the controllers in the order of the ranking, then
/// the uncongested network.
fn rows(c: &Comparison) -> Vec<(String, Candidate<'_>)> {
    let ranked = c
        .ranking()
        .entries
        .into_iter()
        .map(|entry| (entry.candidate.label.to_owned(), entry.candidate));
    ranked.chain(reference(c)).collect()
}

/// Returns the ranking: ranks, the primary measure with its interval, its change from the baseline,
/// and other measures.
pub(super) fn ranking(c: &Comparison) -> Grid {
    let ranking = c.ranking();
    let rows = rows(c);
    let n = ranking.entries.len();
    let places = (0..rows.len()).map(|i| match ranking.entries.get(i) {
        Some(Ranked { place: Some(place), tied, .. }) => {
            format!("{place}{}", if *tied { " ~" } else { "  " })
        }
        _ => String::new(),
    });
    let measure = ranking.measure;
    let unpaired = c.unpaired_labels();
    let (head, unit) = head(measure, &rows);
    let cell = |e: Estimate| estimate_within(&unit.of_estimate(&e), &measure.bounds());
    let primary =
        rows.iter().map(|(_, of)| of.estimate(measure).map_or_else(|| NOTHING.to_owned(), cell));
    let change = (0..rows.len()).map(|i| match ranking.entries.get(i) {
        Some(entry) if entry.candidate.label == ranking.baseline => "baseline".to_owned(),
        Some(entry) => {
            let mark = if unpaired.contains(&entry.candidate.label) { " *" } else { "" };
            entry.change.map_or_else(|| NOTHING.to_owned(), |change| change.text() + mark)
        }
        None => String::new(),
    });
    let mut columns = vec![
        column("", "rank", places.collect()),
        column("", &head, primary.collect()),
        column("", &against(c), change.collect()),
    ];
    columns.extend(beside(&rows, &BESIDE));
    let mbps = Measure::named("throughput_bps");
    let throughput = rows.iter().map(|(_, of)| {
        let value = mbps.and_then(|mbps| of.estimate(mbps));
        value.map_or_else(|| NOTHING.to_owned(), |value| format!("{:.2}", value.mean / 1e6))
    });
    columns.push(column("", "Mbps", throughput.collect()));
    columns.retain(|column| n > 0 || !column.cells.is_empty());
    Grid {
        corner: String::new(),
        labels: rows.into_iter().map(|(name, _)| name).collect(),
        columns,
    }
}

/// Returns the heading of the column of changes, which names the baseline.
pub(super) fn against(c: &Comparison) -> String {
    let base = c.ranking().baseline;
    match c.plan.backends.len() {
        0 | 1 if base.chars().count() <= 20 => format!("against {base}"),
        0 | 1 => "against baseline".to_owned(),
        _ => "against the first".to_owned(),
    }
}

/// Returns a column of means for each measure.
fn beside(rows: &[(String, Candidate<'_>)], keys: &[&str]) -> Vec<Column> {
    let measures = keys.iter().filter_map(|key| Measure::named(key));
    let of = |measure: &Measure| {
        let (head, unit) = head(measure, rows);
        let values: Vec<Option<Estimate>> =
            rows.iter().map(|(_, of)| of.estimate(measure)).collect();
        let digits = match unit.name == measure.unit {
            true => measure.decimals(values.iter().flatten().map(|value| value.mean)),
            false => DECIMALS,
        };
        let cells = values
            .into_iter()
            .map(|value| mean(value.map(|value| unit.of_estimate(&value)), digits));
        column("", &head, cells.collect())
    };
    measures.map(of).collect()
}

/// Returns the heading of a measure's column, and the unit that suits its largest value: 247,000 ms
/// become 247 s.
fn head(measure: &Measure, rows: &[(String, Candidate<'_>)]) -> (String, Unit) {
    let largest =
        rows.iter().filter_map(|(_, of)| of.estimate(measure)).map(|e| e.mean).fold(0.0, f64::max);
    match measure.head.strip_suffix("ms") {
        Some(name) if measure.unit == "ms" => {
            let unit = Unit::suiting("ms", largest);
            (format!("{name}{}", unit.name), unit)
        }
        // Every other heading keeps its unit.
        _ => (measure.head.to_owned(), Unit { name: measure.unit, factor: 1.0 }),
    }
}

/// Returns the other measures, as means over the seeds.
pub(super) fn more(c: &Comparison) -> Grid {
    let rows = rows(c);
    let some = |key: &&str| {
        let measure = Measure::named(key);
        let value = |(_, of): &(String, Candidate<'_>)| {
            measure.and_then(|m| of.estimate(m)).map_or(0.0, |e| e.mean)
        };
        !OFTEN_NONE.contains(key) || rows.iter().any(|row| value(row) > 0.0)
    };
    let keys: Vec<&str> = MORE.iter().filter(|key| some(key)).copied().collect();
    let mut columns = beside(&rows, &keys);
    if c.runs.iter().any(|run| run.outcome.punctuality.is_some()) {
        columns.extend(punctuality(&rows));
    }
    columns.retain(|column| column.cells.iter().any(|cell| cell != NOTHING));
    Grid {
        corner: String::new(),
        labels: rows.into_iter().map(|(name, _)| name).collect(),
        columns,
    }
}

/// Returns the machine's lateness and the datagrams that loopback lost, if runs are in real time:
/// the worst of all seeds.
fn punctuality(rows: &[(String, Candidate<'_>)]) -> [Column; 2] {
    let worst = |of: &dyn Fn(&fathom_netsim::backend::Punctuality) -> f64, digits: usize| {
        let cell = |candidate: &Candidate<'_>| {
            let values =
                candidate.runs.iter().filter_map(|run| run.outcome.punctuality.as_ref()).map(of);
            values
                .reduce(f64::max)
                .map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.digits$}"))
        };
        rows.iter().map(|(_, candidate)| cell(candidate)).collect::<Vec<_>>()
    };
    [
        column("", "late p99 ms", worst(&|p| p.p99_ms, 1)),
        column("", "lost by loopback", worst(&|p| p.lost as f64, 0)),
    ]
}

/// Returns every measure with its interval and its difference from the baseline, for HTML pages.
pub(super) fn full(c: &Comparison) -> Grid {
    let candidates = c.candidates();
    let order = c.ranking();
    let ranked = || order.entries.iter().map(|entry| &entry.candidate);
    let mut columns = Vec::new();
    for measure in MEASURES {
        let cells: Vec<String> = ranked()
            .map(|of| {
                of.estimate(measure)
                    .map_or_else(|| NOTHING.to_owned(), |e| estimate_within(&e, &measure.bounds()))
            })
            .collect();
        if cells.iter().all(|cell| cell == NOTHING) {
            continue;
        }
        let over = if measure.unit.is_empty() {
            measure.name.to_owned()
        } else {
            format!("{} ({})", measure.name, measure.unit)
        };
        columns.push(column(&over, "mean", cells));
        let against = ranked().map(|of| {
            let base = c.baseline_of(of, &candidates).filter(|base| base.label != of.label);
            let enough = of.estimate(measure).is_some();
            let difference =
                base.filter(|_| enough).and_then(|base| of.difference_from(base, measure));
            difference.map_or_else(
                || NOTHING.to_owned(),
                |e| if e.mean > 0.0 { format!("+{}", estimate(&e)) } else { estimate(&e) },
            )
        });
        columns.push(column(&over, "difference", against.collect()));
    }
    Grid {
        corner: String::new(),
        labels: ranked().map(|of| of.label.to_owned()).collect(),
        columns,
    }
}

/// Returns explanations of intervals and marks, and the outlying seeds.
pub(super) fn cautions(c: &Comparison) -> Vec<String> {
    let rows = c.candidates();
    let few = MEASURES.iter().any(|measure| {
        let samples = |of: &Candidate<'_>| {
            of.runs.iter().map(|run| measure.samples(run.group())).sum::<u64>()
        };
        rows.iter().any(|of| (1..measure.samples_needed()).contains(&samples(of)))
    });
    let several = c.ranking().entries.iter().any(|entry| entry.tied);
    let intervals = (c.plan.seeds > 1 && !c.seeds_are_one_run() && !rows.is_empty()).then(|| {
        let tied = if several {
            " ~ marks controllers that cannot be told apart from the best."
        } else {
            ""
        };
        format!(
            "Values are means over the seeds. +- and ranges in brackets are 95 % intervals; \
            changes are paired by seed.{tied}"
        )
        .replace("+-", "±")
    });
    let few = few.then(|| {
        "- marks percentiles with too few samples (p99 needs 1000 over all seeds, p95 \
            200, p90 100)."
            .to_owned()
    });
    let unequal = (!c.unpaired_labels().is_empty()).then(|| {
        "* marks changes over fewer seeds than the means: only the seeds in which both controllers \
         have a value."
            .to_owned()
    });
    let outlying = c.outlying_seeds().into_iter().map(|line| sentence(&line));
    intervals.into_iter().chain(few).chain(unequal).chain(outlying).collect()
}

/// Returns a line as a sentence, with a capital letter and a full stop.
fn sentence(line: &str) -> String {
    let mut characters = line.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

/// Returns the settings of the runs as the lines of one paragraph.
pub(super) fn settings(c: &Comparison) -> Vec<String> {
    let p = &c.plan;
    let mut lines = Vec::new();
    let last = p.seed.saturating_add(p.seeds.saturating_sub(1));
    let place = match path_in_words(&p.path) {
        Some(path) => format!("{path} ({}, {})", p.link, p.queue),
        None => format!("{} bottleneck, {}", p.link, p.queue),
    };
    let beside = if p.beside.is_empty() {
        String::new()
    } else {
        format!(" beside {}", p.beside.join(" and "))
    };
    lines.push(format!(
        "{place}{beside}, {}, {} connections, {}, window limit {}",
        p.workload,
        if p.connections == Connections::Fresh { "fresh" } else { "persistent" },
        if p.seeds > 1 {
            format!("seeds {} to {last}", p.seed)
        } else {
            format!("seed {}", p.seed)
        },
        p.max_window,
    ));
    if p.has_load() {
        lines.push(format!(
            "offered load {} of the link; {} responses per run",
            p.load, p.responses
        ));
    }
    if let Some(r) = &c.reference {
        lines.push(format!(
            "(the uncongested network carried {:.1}% of the link forward and {:.1}% in reverse)",
            r.carried_percent[0], r.carried_percent[1],
        ));
    }
    lines
}

/// Returns a path as its user wrote it; `None` if nothing is set.
pub fn path_in_words(path: &PathSpec) -> Option<String> {
    let said: Vec<String> = path.said().map(|(name, value)| format!("{name} {value}")).collect();
    let words = said.into_iter().chain(path.events.iter().cloned()).collect::<Vec<_>>();
    (!words.is_empty()).then(|| format!("path: {}", words.join(", ")))
}

/// Returns the warnings and the conclusion. Warnings are missing runs, failed requests and notes.
pub(super) fn answer(c: &Comparison) -> (Vec<String>, Vec<String>) {
    let failed = c.failed_requests().into_iter().map(|line| format!("FAILED: {line}."));
    let notes = c.notes().into_iter().map(|line| format!("NOTE: {line}."));
    (c.missing().into_iter().chain(failed).chain(notes).collect(), c.ranking().conclusion())
}

/// Returns a line with the limits of each controller, in the order of the ranking.
pub(super) fn limits(c: &Comparison) -> Vec<String> {
    let limits = c.limits();
    let order = c.ranking();
    let of = |label: &str| limits.iter().find(|limit| limit.label == label);
    let lines = order.entries.iter().filter_map(|entry| of(entry.candidate.label));
    lines.map(|limit| format!("{}: {}.", limit.label, limit.line)).collect()
}

/// Returns the heading of the lines of [`limits`].
pub(super) fn limits_head(c: &Comparison) -> String {
    match c.candidates().iter().map(|of| of.runs.len()).max() {
        Some(seeds) if seeds > 1 => {
            format!("What limited each controller (counts cover all {seeds} seeds)")
        }
        _ => "What limited each controller".to_owned(),
    }
}

fn limits_with_head(c: &Comparison) -> Vec<String> {
    let lines = limits(c);
    if lines.is_empty() { lines } else { [vec![limits_head(c) + ":"], lines].concat() }
}

/// Returns the report: warnings, conclusion, settings, ranking, limits, other measures and
/// cautions.
pub fn table(c: &Comparison) -> String {
    let said = |lines: Vec<String>| {
        lines
            .iter()
            .flat_map(|line| wrapped(line, WIDTH))
            .map(|line| line + "\n")
            .collect::<String>()
    };
    let (warnings, conclusion) = answer(c);
    let parts = [
        said(warnings),
        said(conclusion),
        said(settings(c)),
        ranking(c).text(WIDTH),
        said(limits_with_head(c)),
        more(c).text(WIDTH),
        said(cautions(c)),
    ];
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n")
}
