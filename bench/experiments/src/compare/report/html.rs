//! The comparison as one self-contained HTML file: nothing in it is loaded from anywhere.

use fathom_metrics::{Distribution, WindowPoint};
use fathom_netsim::backend::Backend;
use fathom_netsim::queue::QueueSpec;
use fathom_report::{Axis, Figure, Series, svg};
use maud::{Markup, PreEscaped, html};

use super::table::{cautions, full, more, ranking, settings};
use crate::compare::{ComparedRun, Comparison};
use crate::scenario::SharesOverTime;

/// UDP payload of a full packet, for windows in packets as the paper draws them.
const PACKET: f64 = 1392.0;
/// Points of a line of the queue.
const BINS: usize = 200;

/// A switch between two plots without scripts, beside the style that all reports share.
const STYLE: &str = "\
.switch input{position:absolute;opacity:0}.switch label{display:inline-block;padding:.2em .8em;border:1px solid #8888;\
border-radius:6px;margin:0 .4em .5em 0;cursor:pointer}.switch input:focus-visible+label{outline:2px solid #06c}\
.switch input:checked+label{background:#0072b2;color:#fff}.switch .log{display:none}\
.switch .to-log:checked~.log{display:block}.switch .to-log:checked~.linear{display:none}";

/// The page.
pub fn html(c: &Comparison) -> String {
    let all = c;
    let c = &first_seed(c);
    let body = html! {
        @for line in settings(all).into_iter().chain(all.ranking().conclusion()) { p { (line) } }
        (ranking(all).html())
        (more(all).html())
        (full(all).html())
        @for line in cautions(all) { p.note { (line) } }
        (distribution(c, "Response times", "all", ComparedRun::times))
        (distribution(c, "Response times of responses larger than 25 kB", "large", ComparedRun::times_large))
        (queue(c))
        (windows(c))
        (shares(c))
        (notes(c))
    };
    fathom_report::page(&format!("Fathom: {}", c.plan.controllers.join(" against ")), STYLE, &body)
}

/// The runs of each controller's first seed, and the uncongested network.
fn columns(c: &Comparison) -> Vec<(String, &ComparedRun)> {
    let runs = c.runs.iter().map(|r| (r.label.clone(), r));
    let reference = c.reference.iter().map(|r| (format!("at {}", r.run.link), &r.run));
    runs.chain(reference).collect()
}

/// The comparison with the first seed of each controller only.
fn first_seed(c: &Comparison) -> Comparison {
    let first = c.candidates().into_iter().filter_map(|candidate| candidate.runs.first().copied().cloned());
    Comparison { runs: first.collect(), ..c.clone() }
}

fn figure(x: Axis, y: Axis, series: Vec<Series>) -> Option<Markup> {
    svg(&Figure { x, y, series }).map(PreEscaped)
}

/// A plot with what to know of it; nothing where there is nothing to draw.
fn section(title: &str, note: &str, plot: Option<Markup>) -> Markup {
    html! { @if let Some(plot) = plot { h2 { (title) } p.note { (note) } (plot) } }
}

/// A distribution with a linear and a logarithmic time axis; a switch without scripts shows one of them.
fn distribution(c: &Comparison, title: &str, id: &str, of: fn(&ComparedRun) -> Option<&Distribution>) -> Markup {
    let columns = columns(c);
    let all = || columns.iter().filter_map(|(_, r)| of(r));
    let curve =
        |(name, r): &(String, &ComparedRun)| Series::line(name, of(r).map(|d| steps(&d.cdf)).unwrap_or_default());
    let low = all().filter_map(|d| d.cdf.first()).map(|p| p.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|d| d.p95_ms).fold(0.0, f64::max);
    let top = all().map(|d| d.max_ms).fold(0.0, f64::max);
    let draw = |range, log| {
        let x = Axis { log, range: Some(range), ..Axis::linear("response time (ms)") };
        let y = Axis::linear("fraction of responses no slower").over(0.0, 1.0);
        figure(x, y, columns.iter().map(curve).collect())
    };
    let plots = draw((0.0, high), false).zip(draw((low.max(0.1), top), true));
    html! {
        @if let Some((linear, log)) = plots {
            h2 { (title) }
            p.note {
                "Nearer to the top left is better. The linear axis ends where the slowest column has 95 % of its responses; the \
                 logarithmic one shows all."
            }
            div.switch {
                input type="radio" name=(id) id={ (id) "-linear" } checked;
                label for={ (id) "-linear" } { "linear time" }
                input.to-log type="radio" name=(id) id={ (id) "-log" };
                label for={ (id) "-log" } { "logarithmic time" }
                div.linear { (linear) }
                div.log { (log) }
            }
        }
    }
}

/// A CDF as the staircase it is.
fn steps(cdf: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let below = std::iter::once(0.0).chain(cdf.iter().map(|p| p.1));
    cdf.iter().zip(below).flat_map(|(&(x, y), below)| [(x, below), (x, y)]).collect()
}

/// The middle of a bin, and its value.
fn at(bin: usize, seconds: f64, value: f64) -> (f64, f64) {
    ((bin as f64 + 0.5) * seconds, value)
}

fn queue(c: &Comparison) -> Markup {
    let curve = |r: &ComparedRun| {
        let bins = r.forward().queue_mean.iter().enumerate();
        Series::line(&r.label, smoothed(&bins.map(|(i, v)| at(i, r.forward().bin_seconds, *v)).collect::<Vec<_>>()))
    };
    let mut lines: Vec<Series> = c.runs.iter().map(curve).collect();
    let end = c.runs.iter().map(|r| r.outcome.seconds).fold(0.0, f64::max);
    let queue = c.plan.queue.parse::<QueueSpec>().ok().zip(c.plan.link.parse().ok());
    let limit = queue.and_then(|(queue, rate)| queue.packet_limit(rate));
    if let Some(limit) = limit.filter(|_| lines.iter().any(|line| !line.points.is_empty())) {
        lines.push(Series::line("limit", vec![(0.0, limit as f64), (end, limit as f64)]));
    }
    let peaks: Vec<String> = c.runs.iter().map(|r| format!("{} {}", r.label, r.forward().max_queue)).collect();
    let note = format!(
        "Mean per bin over at most {BINS} bins; peaks within a bin are higher (the largest: {}).",
        peaks.join(", ")
    );
    let y = Axis::linear("queue at the bottleneck (packets)");
    section("Queue over time", &note, figure(Axis::linear("time (s)"), y, lines))
}

/// At most [`BINS`] points, each the mean of its neighbours.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean =
        |chunk: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| chunk.iter().map(of).sum::<f64>() / chunk.len() as f64;
    let chunks = points.chunks(points.len().div_ceil(BINS).max(1));
    chunks.map(|chunk| (mean(chunk, |p| p.0), mean(chunk, |p| p.1))).collect()
}

/// One quantity of a window trace.
type Part = fn(&WindowPoint) -> Option<f64>;

/// The window of one sender and whatever else its controller steers: heading, what to know, axis.
const PARTS: [(&str, &str, &str, Part); 4] = [
    (
        "Window over time",
        "The sender of one response: the largest requested in the first half, at the same time in every run. Its line ends when the \
         response is complete or the run is over.",
        "congestion window (packets)",
        |p| Some(p.window as f64 / PACKET),
    ),
    (
        "Queueing delay as that sender sees it",
        "Controllers that steer by delay only.",
        "averaged queueing delay (ms)",
        |p| p.queueing_ms,
    ),
    (
        "Delay added by that sender",
        "SDC keeps packets back instead of cutting a small window.",
        "added delay (ms)",
        |p| p.hold_ms,
    ),
    ("Packet size of that sender", "UDP payload of a full packet.", "packet size (bytes)", |p| {
        p.datagram.map(f64::from)
    }),
];

fn windows(c: &Comparison) -> Markup {
    let curve = |r: &ComparedRun, of: Part| {
        Series::line(&r.label, r.group().window.iter().filter_map(|p| Some((p.at, of(p)?))).collect())
    };
    let plot = |y, of| {
        let lines = c.runs.iter().map(|r| curve(r, of)).collect();
        figure(Axis::linear("time (s)"), Axis::linear(y), lines)
    };
    html! { @for (title, note, y, of) in PARTS { (section(title, note, plot(y, of))) } }
}

/// A quantity of how flows shared the bottleneck, per bin.
type Quantity = fn(&SharesOverTime) -> Vec<Option<f64>>;

/// How the flows shared the bottleneck, where flows are few and long: heading, what to know, axis.
const SHARES: [(&str, &str, &str, Quantity); 3] = [
    (
        "Fairness over time",
        "Jain's index of the rates of all flows, per second: 1 is an equal share for each.",
        "Jain's index",
        |s| s.jain.clone(),
    ),
    ("Flows that starve", "Flows with less than 5 % of the fair rate in a second.", "starving flows (%)", |s| {
        s.starved_percent.clone()
    }),
    (
        "Packet sizes at the bottleneck",
        "Half of each second's bytes travelled in packets no larger than this.",
        "UDP payload (bytes)",
        |s| s.size_median.iter().map(|v| Some(*v)).collect(),
    ),
];

fn shares(c: &Comparison) -> Markup {
    let curve = |r: &ComparedRun, of: Quantity| {
        let bins = r.forward().shares.iter().flat_map(|s| {
            of(s).into_iter().enumerate().filter_map(|(bin, value)| Some(at(bin, s.bin_seconds, value?)))
        });
        Series::line(&r.label, bins.collect())
    };
    let plot = |y, of| {
        let lines = c.runs.iter().map(|r| curve(r, of)).collect();
        figure(Axis::linear("time (s)"), Axis::linear(y), lines)
    };
    html! { @for (title, note, y, of) in SHARES { (section(title, note, plot(y, of))) } }
}

fn notes(c: &Comparison) -> Markup {
    let stacks: Vec<&str> = c.plan.stacks.iter().map(|s| s.name()).collect();
    let time = match c.plan.backends[..] {
        [Backend::Virtual] => "in virtual time: no second of it passed.",
        _ => {
            "in virtual time, over loopback and the lab's links in real time (relay), or over the kernel's own links (netem), as named."
        }
    };
    let hashes: Vec<String> = columns(c).iter().map(|(name, r)| format!("{name} {}", r.outcome.trace_hash)).collect();
    html! {
        h2 { "How this was measured" }
        ul {
            li { "Real " (stacks.join(" and ")) ", TLS and HTTP/3 at both ends, " (time) }
            li { "Response time runs from opening the connection to the last byte, QUIC and TLS handshake included." }
            li { "Traffic runs in both directions; all figures are of the forward direction." }
            li { "Every controller got the same requests at the same times; which of them complete first differs." }
            li { "One seed is one sample of heavy-tailed traffic: differences of a few percent mean nothing yet." }
            li { "Request sequence " (c.request_hash) "." }
            li { "Trace hashes, over every step of every packet: " (hashes.join(", ")) "." }
        }
        h2 { "The plan" }
        pre { (toml::to_string(&c.plan).unwrap_or_default()) }
    }
}
