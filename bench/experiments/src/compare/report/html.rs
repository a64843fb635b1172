//! HTML page of a comparison: one self-contained file that loads nothing. Warnings, conclusion and
//! ranking come first, then limits and settings, distributions, plots over time, and all numbers.

use fathom_metrics::Distribution;
use fathom_netsim::backend::Backend;
use fathom_report::{
    Axis, Figure, Pen, Series, Unit, Whisker, Whiskers, estimate_within, figure_with, shown,
};
use maud::{Markup, html};

use super::pen::pen;
use super::table::{cautions, full, limits, limits_head, more, ranking, settings};
use super::{over_time, table};
use crate::compare::{Candidate, ComparedRun, Comparison, Ranked};
use crate::measures::Better;
use crate::scenario::ResponseKind;

/// Maximum number of points in the curve of a distribution, without its last point.
const POINTS: usize = 240;
/// Smallest start of a logarithmic axis, because distributions have a resolution of 1 us.
const SHORTEST_MS: f64 = 0.001;
/// Style of a switch between two plots that needs no scripts. It is added to the style of all
/// reports.
const STYLE: &str = "\
.switch input{position:absolute;opacity:0}.switch>label{display:inline-block;padding:.2em .8em;border:1px solid #8888;\
border-radius:6px;margin:0 .4em .5em 0;cursor:pointer}.switch input:focus-visible+label{outline:2px solid #06c}\
.switch input:checked+label{background:#0072b2;color:#fff}.switch .log{display:none}\
.switch .to-log:checked~.log{display:block}.switch .to-log:checked~.linear{display:none}";

/// Returns the page.
pub fn html(c: &Comparison) -> String {
    let (warnings, conclusion) = table::answer(c);
    let body = html! {
        @for line in warnings { p { strong { (line) } } }
        @for line in conclusion { p.answer { (line) } }
        (answer(c))
        (ranking(c).html())
        @for line in cautions(c) { p.note { (line) } }
        @if !limits(c).is_empty() {
            h2 { (limits_head(c)) }
            ul { @for line in limits(c) { li { (line) } } }
        }
        h2 { "What was run" }
        p { (settings(c).join("; ")) "." }
        (distribution(c, "Response times", "all", ComparedRun::times))
        @if !views(c) {
            (distribution(c, "Response times of responses larger than 25 kB", "large", ComparedRun::times_large))
        }
        (over_time::sections(c))
        h2 { "More measures" }
        p.note { "Means over the seeds." }
        (more(c).html())
        details {
            summary { "All measures with their intervals and differences from the baseline" }
            p.note { "95 % intervals; differences are paired by seed." }
            (full(c).html())
        }
        (notes(c))
    };
    fathom_report::page(title(c), STYLE, &body)
}

/// Returns whether responses are page views or frames, whose sizes are not informative.
fn views(c: &Comparison) -> bool {
    let kind = c.workload().map(|workload| workload.model().response_kind());
    matches!(kind, Some(ResponseKind::Page | ResponseKind::Frame))
}

/// Returns the question that the page answers.
fn title(c: &Comparison) -> &'static str {
    match (c.candidates().len(), c.plan.backends.len()) {
        (_, 2..) => "Do the backends agree?",
        (0 | 1, _) => "How long do these responses take?",
        _ => match c.workload() {
            Some(workload) => workload.model().question(),
            None => "Which controller serves these requests fastest?",
        },
    }
}

/// Returns the plot of the ranking: dots with their intervals.
fn answer(c: &Comparison) -> Markup {
    let order = c.ranking();
    let measure = order.measure;
    let changes = order.entries.iter().any(|entry| entry.change.is_some());
    let means = order.entries.iter().filter_map(|entry| entry.value).map(|value| value.mean);
    let unit = Unit::suiting(measure.unit, means.fold(0.0, f64::max));
    let of = |entry: &Ranked<'_>| {
        let is_base = entry.candidate.label == order.baseline;
        let scaled = entry.value.map(|value| unit.of_estimate(&value));
        let value = scaled
            .as_ref()
            .map(|value| format!("{} {}", estimate_within(value, &measure.bounds()), unit.name));
        let (dot, interval) = match (changes, entry.change) {
            (true, Some(change)) => (Some(change.percent), change.interval_percent),
            (true, None) => (is_base.then_some(0.0), None),
            (false, _) => {
                (scaled.map(|value| value.mean), scaled.and_then(|value| value.interval()))
            }
        };
        let samples = if changes { seeds_of(c, &entry.candidate) } else { Vec::new() };
        Whisker {
            name: entry.candidate.label.to_owned(),
            value: dot,
            interval,
            samples,
            note: value.unwrap_or_default(),
            pen: pen(c, entry.candidate.label),
        }
    };
    let base = if c.plan.backends.len() > 1 { "the first backend" } else { &*order.baseline };
    let axis = match changes {
        true => {
            let unit = order
                .entries
                .iter()
                .find_map(|entry| entry.change)
                .map_or("%", |change| change.unit());
            Axis::linear(format!("{} against {base} ({unit})", measure.name))
        }
        false => Axis::linear(format!("{} ({})", measure.name, unit.name)).within(measure.bounds()),
    };
    let plot = Whiskers {
        axis,
        mark: changes.then(|| (0.0, base.to_owned())),
        rows: order.entries.iter().map(of).collect(),
    };
    let better = if measure.better == Better::Higher { "worse" } else { "better" };
    html! {
        @if let Some(drawing) = plot.svg() {
            (shown(&format!("Ranking by {}", measure.name), &drawing, &plot.csv()))
            @if changes && c.plan.seeds > 1 && order.one_run.is_none() {
                p.note {
                    "A dot is the change, a bar its 95 % interval, and a thin stroke a single \
                     seed. A controller whose bar crosses the vertical line cannot be told apart \
                     from " (base) ". Values to the left are " (better) "."
                }
            }
        }
    }
}

/// Returns the change of each single seed, in percent; in points for measures in percent.
fn seeds_of(c: &Comparison, of: &Candidate<'_>) -> Vec<f64> {
    let candidates = c.candidates();
    let Some(base) = c.baseline_of(of, &candidates).filter(|base| base.label != of.label) else {
        return Vec::new();
    };
    let measure = c.primary();
    let of_base = base.values(measure);
    let change = |(seed, value): (u64, f64)| {
        let base = *of_base.get(&seed)?;
        if measure.unit == "%" {
            return Some(value - base);
        }
        (base > 0.0).then(|| 100.0 * (value / base - 1.0))
    };
    of.values(measure).into_iter().filter_map(change).collect()
}

/// Returns the plots of a distribution with a linear and a logarithmic time axis. A switch without
/// scripts shows one of them.
fn distribution(
    c: &Comparison,
    title: &str,
    id: &str,
    of: fn(&ComparedRun) -> Option<&Distribution>,
) -> Markup {
    let candidates = c.candidates();
    let mut series: Vec<Series> = candidates
        .iter()
        .map(|candidate| Series::line(candidate.label, pooled(&candidate.runs, of)))
        .collect();
    let mut pens: Vec<Pen> = (0..series.len()).map(Pen::Of).collect();
    if let Some(reference) = &c.reference {
        series.push(Series::line(
            format!("uncongested, {}", reference.run.link),
            pooled(&[&reference.run], of),
        ));
        pens.push(Pen::Dotted);
    }
    let all = || c.runs.iter().filter_map(of);
    let low = all().filter_map(|d| d.cdf.first()).map(|p| p.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|d| d.p95_ms).fold(0.0, f64::max);
    let top = all().map(|d| d.max_ms).fold(0.0, f64::max);
    if !(low < top && high > 0.0) {
        return html! {};
    }
    // Both plots have the same unit: 300,000 ms are 300 s.
    let unit = Unit::suiting("ms", high);
    let series: Vec<Series> = (series.into_iter())
        .map(|line| Series {
            points: line.points.iter().map(|(ms, part)| (unit.of(*ms), *part)).collect(),
            ..line
        })
        .collect();
    let draw = |(from, to): (f64, f64), log, name: &str| {
        let range = Some((unit.of(from), unit.of(to)));
        let x = Axis { log, range, ..Axis::linear(format!("response time ({})", unit.name)) };
        let y = Axis::linear("fraction of responses at or below").over(0.0, 1.0);
        figure_with(&format!("{title}, {name}"), &Figure { x, y, series: series.clone() }, &pens)
    };
    html! {
        h2 { (title) }
        p.note {
            "The curves pool all seeds. A curve nearer to the top left is better. The linear axis \
             ends at the time within which the slowest run has 95 % of its responses; the \
             logarithmic axis shows all responses."
        }
        div.switch {
            input type="radio" name=(id) id={ (id) "-linear" } checked;
            label for={ (id) "-linear" } { "linear time" }
            input.to-log type="radio" name=(id) id={ (id) "-log" };
            label for={ (id) "-log" } { "logarithmic time" }
            div.linear { (draw((0.0, high), false, "linear time")) }
            div.log { (draw((low.max(SHORTEST_MS), top), true, "logarithmic time")) }
        }
    }
}

/// Pools the distributions of several runs: at each time, the mean of their fractions.
fn pooled(runs: &[&ComparedRun], of: fn(&ComparedRun) -> Option<&Distribution>) -> Vec<(f64, f64)> {
    let all: Vec<&Distribution> = runs.iter().filter_map(|run| of(run)).collect();
    let mut times: Vec<f64> = all.iter().flat_map(|d| d.cdf.iter().map(|p| p.0)).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let every = times.len().div_ceil(POINTS).max(1);
    let last = times.last().copied();
    let chosen = times.iter().copied().step_by(every).chain(last);
    let mean = |ms: f64| all.iter().map(|d| d.within_ms(ms)).sum::<f64>() / all.len() as f64;
    chosen.map(|ms| (ms, mean(ms))).collect()
}

fn notes(c: &Comparison) -> Markup {
    let stacks: Vec<&str> = c.plan.stacks.iter().map(|s| s.name()).collect();
    let time = match c.plan.backends[..] {
        [Backend::Virtual] => "in simulated (virtual) time.",
        _ => {
            "in virtual time, in real time over loopback, or in real time over the kernel's own \
             links (netem), as each label says."
        }
    };
    html! {
        h2 { "How this was measured" }
        ul {
            li { "Real " (stacks.join(" and ")) ", TLS and HTTP/3 at both ends, " (time) }
            li { "Response time runs from the opening of the connection to the last byte, \
                including the QUIC and TLS handshake." }
            li { "All values describe the direction in which bodies travel. On the built-in \
                network, web traffic travels in both directions, and the values describe the \
                forward direction." }
            li { "With the same seed, every controller gets the same requests at the same times. \
                Only the order in which they complete differs." }
            li { "A change is the mean of the ratios over the seeds, computed from their \
                logarithms. Its interval is Student's t." }
            li { "fathom " (env!("CARGO_PKG_VERSION")) "." }
        }
        details { summary { "The plan" } pre { (toml::to_string(&c.plan).unwrap_or_default()) } }
        details {
            summary { "Hashes for checking a repetition" }
            p { "Hash of the requests of the first seed: " code { (c.request_hash) } "." }
            p { "Hash of every step of every packet, by run:" }
            ul {
                @for run in &c.runs { li { (run.label) ", seed " (run.seed) ": " code { (run.outcome.trace_hash) } } }
            }
        }
    }
}
