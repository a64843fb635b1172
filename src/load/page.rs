//! Results of a load run as one self-contained HTML page: the answer, then times, the rate over
//! time and all numbers.

use std::time::Duration;

use fathom_http::load::{LatencyHistogram, LoadReport};
use fathom_report::{Axis, Column, Figure, Grid, NOTHING, Series, capitalised, figure};
use maud::{Markup, html};

use super::report::{OMISSION, QUANTILES, bits, ms, percentile, phases, table};

/// Returns the page. `load` describes the run in one line. `waited` describes how long the run
/// continued after its measured time.
pub(super) fn html(
    load: &str,
    urls: &[String],
    outcome: &LoadReport,
    waited: Option<&str>,
) -> String {
    let body = html! {
        @for line in answer(outcome) { p.answer { (line) } }
        @for line in cautions(outcome) { p.note { (line) } }
        @if let Some(waited) = waited { p.note { "Waited " (waited) "." } }
        h2 { "Times" }
        (times(outcome).html())
        p.note { (meanings(outcome)) }
        (distribution(outcome))
        (rate(outcome))
        h2 { "What was run" }
        p { (load) "." }
        ul { @for url in urls { li { code { (url) } } } }
        details {
            summary { "All numbers, as on a terminal" }
            pre { (table(load, outcome, waited)) }
        }
    };
    fathom_report::page("How long do these responses take?", "", &body)
}

/// Start and end of each measured time.
const MEANINGS: [(&str, &str); 4] = [
    (
        "response",
        "from the intended start of the request to the last byte, even if the client was late",
    ),
    (
        "service",
        "from the actual start of the request to the last byte, including a handshake if there was \
         one",
    ),
    ("first byte", "from the actual start of the request to the header of the response"),
    ("connect", "handshakes"),
];

fn meanings(outcome: &LoadReport) -> String {
    let shown = phases(outcome);
    let said = MEANINGS.iter().filter(|(name, _)| shown.iter().any(|(phase, _)| phase == name));
    let said: Vec<String> = said.map(|(name, meaning)| format!("{name}: {meaning}")).collect();
    said.join("; ") + "."
}

/// Returns the times that answer the question: response times in an open loop, service times in a
/// closed loop.
fn answering(outcome: &LoadReport) -> &LatencyHistogram {
    if outcome.open_loop { &outcome.phases.response } else { &outcome.phases.service }
}

fn answer(outcome: &LoadReport) -> Vec<String> {
    let counts = &outcome.counts;
    let times = answering(outcome);
    let parts = [(0.5, "half take"), (0.9, "9 in 10"), (0.99, "99 in 100"), (0.999, "999 in 1000")];
    let shown: Vec<String> = parts
        .iter()
        .filter_map(|(part, words)| {
            percentile(times, *part).map(|time| format!("{words} at most {} ms", ms(Some(time))))
        })
        .collect();
    let first = match (&shown[..], ms(times.max())) {
        ([], _) if times.count() == 0 => "No response was complete.".to_owned(),
        ([], slowest) => {
            format!(
                "There are too few responses for percentiles; the slowest response took \
                {slowest} ms."
            )
        }
        (_, slowest) => {
            format!("Responses: {}; the slowest response took {slowest} ms.", shown.join(", "))
        }
    };
    let failed = match counts.failed() {
        0 => "none failed".to_owned(),
        n => format!("{n} failed ({:.2} %)", 100.0 * n as f64 / (n + counts.completed) as f64),
    };
    let rate = format!(
        "{} requests in {:.1} s: {} complete, {failed}; {:.1} responses per second, goodput {}.",
        counts.started,
        outcome.window.as_secs_f64(),
        counts.completed,
        outcome.rate(),
        bits(outcome.goodput()),
    );
    vec![first, rate]
}

fn cautions(outcome: &LoadReport) -> Vec<String> {
    let sentence = |text: &str| capitalised(text) + ".";
    let counts = &outcome.counts;
    let omission = (!outcome.open_loop).then(|| sentence(OMISSION));
    let limit =
        outcome.saturation.is_limit().then(|| sentence(&format!("client: {}", outcome.saturation)));
    let left_out = (counts.failed() + counts.unfinished > 0)
        .then(|| "Percentiles exclude failed and unfinished requests.".to_owned());
    [omission, limit, left_out].into_iter().flatten().collect()
}

fn times(outcome: &LoadReport) -> Grid {
    let phases = phases(outcome);
    let column = |name: &str, cell: &dyn Fn(&LatencyHistogram) -> Option<Duration>| Column {
        name: name.to_owned(),
        cells: phases
            .iter()
            .map(|(_, times)| cell(times).map_or(NOTHING.to_owned(), |time| ms(Some(time))))
            .collect(),
        ..Column::default()
    };
    let quantiles =
        QUANTILES.iter().map(|(name, part)| column(name, &|times| percentile(times, *part)));
    let mut columns: Vec<Column> = quantiles.collect();
    // On a telephone, the 50th, 90th and 99th percentiles are visible without scrolling.
    columns.push(column("max", &LatencyHistogram::max));
    columns.push(column("mean", &LatencyHistogram::mean));
    let cells = phases.iter().map(|(_, times)| times.count().to_string()).collect();
    columns.push(Column { name: "count".into(), cells, ..Column::default() });
    Grid {
        corner: "ms".into(),
        labels: phases.iter().map(|(name, _)| (*name).to_owned()).collect(),
        columns,
    }
}

/// Minimum number of times for the curve of a phase. With fewer times, the table is more
/// informative. The first phase always has a curve.
const ENOUGH: u64 = 100;

/// Returns a plot of the fraction of times that took no longer, by phase.
fn distribution(outcome: &LoadReport) -> Markup {
    let curve = |(name, times): (&'static str, &LatencyHistogram)| {
        let points = times.curve().into_iter().map(|(time, part)| (time.as_secs_f64() * 1e3, part));
        Series::line(name, points.collect())
    };
    let drawn = Figure {
        x: Axis::logarithmic("ms"),
        y: Axis::linear("fraction of times at or below").over(0.0, 1.0),
        series: phases(outcome)
            .into_iter()
            .enumerate()
            .filter(|(i, (_, times))| times.count() >= if *i == 0 { 1 } else { ENOUGH })
            .map(|(_, phase)| curve(phase))
            .collect(),
    };
    html! { h2 { "Distribution of times" } (figure("Distribution of times", &drawn)) }
}

/// Returns a plot of responses and failures per second over the measured time. The plot is empty if
/// there are fewer than two bins or no responses.
fn rate(outcome: &LoadReport) -> Markup {
    let width = outcome.over_time.width().as_secs_f64();
    let bins: Vec<_> = outcome.over_time.within(outcome.window).collect();
    let of = |count: fn(&fathom_http::load::Ended) -> u64| -> Vec<(f64, f64)> {
        bins.iter().map(|(at, bin)| (*at, count(bin) as f64 / width)).collect()
    };
    let (completed, failed) = (of(|bin| bin.completed), of(|bin| bin.failed));
    let any_failed = failed.iter().any(|(_, rate)| *rate > 0.0);
    let most = completed.iter().chain(&failed).map(|(_, rate)| *rate).fold(0.0, f64::max);
    if bins.len() < 2 || most == 0.0 {
        return html! {};
    }
    let mut series = vec![Series::line("complete", completed)];
    series.extend(any_failed.then(|| Series::line("failed", failed)));
    let drawn = Figure {
        x: Axis::linear("s").over(0.0, outcome.window.as_secs_f64()),
        y: Axis::linear("responses per second").over(0.0, most * 1.05),
        series,
    };
    html! {
        h2 { "Rate over time" }
        (figure("Rate over time", &drawn))
        p.note { "In bins of " (format!("{width}")) " s." }
    }
}
