//! Plots over time, with the first seed: the queue, the window of one sender, and how flows share
//! the bottleneck.

use fathom_metrics::WindowPoint;
use fathom_netsim::queue::QueueSpec;
use fathom_report::{Axis, Figure, Pen, Series, figure_with};
use maud::{Markup, html};

use super::pen::pen;
use crate::compare::{ComparedRun, Comparison};
use crate::scenario::SharesOverTime;

/// UDP payload of a full packet in bytes. It converts windows to packets, as the paper draws them.
const PACKET: f64 = 1392.0;
/// Maximum number of points in the line of a queue.
const BINS: usize = 200;

/// Returns all plots over time.
pub(super) fn sections(c: &Comparison) -> Markup {
    html! { (queue(c)) (windows(c)) (shares(c)) }
}

/// Returns the first run of each candidate.
fn first_runs(c: &Comparison) -> Vec<&ComparedRun> {
    c.candidates().into_iter().filter_map(|candidate| candidate.runs.first().copied()).collect()
}

/// Returns a plot with its note; empty if there is nothing to draw.
fn section(c: &Comparison, title: &str, note: &str, y: &str, lines: Vec<Series>) -> Markup {
    if lines.iter().all(|line| line.points.is_empty()) {
        return html! {};
    }
    let pens: Vec<Pen> = lines
        .iter()
        .map(|line| if line.name == LIMIT { Pen::Dotted } else { pen(c, &line.name) })
        .collect();
    let figure = Figure { x: Axis::linear("time (s)"), y: Axis::linear(y), series: lines };
    let seed = c.plan.seed;
    html! {
        h2 { (title) }
        p.note { (note) @if c.plan.seeds > 1 { " Seed " (seed) "." } }
        (figure_with(title, &figure, &pens))
    }
}

/// Returns the time in the middle of a bin, with the value of the bin.
fn at(bin: usize, seconds: f64, value: f64) -> (f64, f64) {
    ((bin as f64 + 0.5) * seconds, value)
}

/// Name of the line at the largest possible queue.
const LIMIT: &str = "limit";

fn queue(c: &Comparison) -> Markup {
    let curve = |r: &&ComparedRun| {
        let bins = r.forward().queue_mean.iter().enumerate();
        Series::line(
            &r.label,
            smoothed(&bins.map(|(i, v)| at(i, r.forward().bin_seconds, *v)).collect::<Vec<_>>()),
        )
    };
    let runs = first_runs(c);
    let mut lines: Vec<Series> = runs.iter().map(curve).collect();
    let end = runs.iter().map(|r| r.outcome.seconds).fold(0.0, f64::max);
    let queue = c.plan.queue.parse::<QueueSpec>().ok().zip(c.plan.link.parse().ok());
    let limit = queue.and_then(|(queue, rate)| queue.packet_limit(rate));
    if let Some(limit) = limit.filter(|_| lines.iter().any(|line| !line.points.is_empty())) {
        lines.push(Series::line(LIMIT, vec![(0.0, limit as f64), (end, limit as f64)]));
    }
    let note = format!(
        "Each point is the mean of one of at most {BINS} bins; peaks within a bin are higher."
    );
    section(c, "Queue over time", &note, "queue at the bottleneck (packets)", lines)
}

/// Returns at most [`BINS`] points, each the mean of consecutive points.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |chunk: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        chunk.iter().map(of).sum::<f64>() / chunk.len() as f64
    };
    let chunks = points.chunks(points.len().div_ceil(BINS).max(1));
    chunks.map(|chunk| (mean(chunk, |p| p.0), mean(chunk, |p| p.1))).collect()
}

/// Selector of a quantity of a window trace.
type Part = fn(&WindowPoint) -> Option<f64>;

/// Plots of one sender, its window and other quantities of its controller: heading, note, label of
/// the axis, quantity.
const PARTS: [(&str, &str, &str, Part); 4] = [
    (
        "Window over time",
        "Shows the sender of one response: the largest response requested in the first half of the \
         run, the same one in every run. The line ends when the response is complete or the run is \
         over.",
        "congestion window (packets)",
        |p| Some(p.window as f64 / PACKET),
    ),
    (
        "Queueing delay measured by the same sender",
        "Shows only controllers that react to delay.",
        "averaged queueing delay (ms)",
        |p| p.queueing_ms,
    ),
    (
        "Delay added by the same sender",
        "SDC delays packets at the sender instead of reducing a small window.",
        "added delay (ms)",
        |p| p.hold_ms,
    ),
    (
        "Packet size of the same sender",
        "Shows the UDP payload of a full packet.",
        "packet size (bytes)",
        |p| p.datagram.map(f64::from),
    ),
];

fn windows(c: &Comparison) -> Markup {
    let curve = |r: &ComparedRun, of: Part| {
        Series::line(
            &r.label,
            r.group().window.iter().filter_map(|p| Some((p.at, of(p)?))).collect(),
        )
    };
    let lines = |of: Part| first_runs(c).into_iter().map(|r| curve(r, of)).collect();
    html! { @for (title, note, y, of) in PARTS { (section(c, title, note, y, lines(of))) } }
}

/// Selector of a quantity that shows how flows share the bottleneck, per bin.
type Quantity = fn(&SharesOverTime) -> Vec<Option<f64>>;

/// Plots of how flows share the bottleneck, if they are few and long: heading, note, label of the
/// axis, quantity.
const SHARES: [(&str, &str, &str, Quantity); 3] = [
    (
        "Fairness over time",
        "Shows Jain's index of the rates of all flows in each second. At 1, all flows have equal \
         rates.",
        "Jain's index",
        |s| s.jain.clone(),
    ),
    (
        "Flows that starve",
        "Shows the percentage of flows that got less than 5 % of the fair rate in each second.",
        "starving flows (%)",
        |s| s.starved_percent.clone(),
    ),
    (
        "Packet sizes at the bottleneck",
        "Shows the size up to which packets carry half of the bytes of each second.",
        "UDP payload (bytes)",
        |s| s.size_median.iter().map(|v| Some(*v)).collect(),
    ),
];

fn shares(c: &Comparison) -> Markup {
    let curve = |r: &ComparedRun, of: Quantity| {
        let bins = r.forward().shares.iter().flat_map(|s| {
            of(s)
                .into_iter()
                .enumerate()
                .filter_map(|(bin, value)| Some(at(bin, s.bin_seconds, value?)))
        });
        Series::line(&r.label, bins.collect())
    };
    let lines = |of: Quantity| first_runs(c).into_iter().map(|r| curve(r, of)).collect();
    html! { @for (title, note, y, of) in SHARES { (section(c, title, note, y, lines(of))) } }
}
