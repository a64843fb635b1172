//! The comparison as one self-contained HTML file: nothing in it is loaded from anywhere.

use std::fmt::Write;

use fathom_metrics::Distribution;
use fathom_netsim::backend::Backend;
use fathom_netsim::queue::QueueSpec;

use super::plot::{Line, Plot, svg};
use super::table::{cautions, columns, rows, settings, verdicts};
use crate::experiment::{Comparison, RunResult};
use crate::scenario::SharesOverTime;

/// UDP payload of a full packet, for windows in packets as the paper draws them.
const PACKET: f64 = 1392.0;

pub(super) const STYLE: &str = "\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em}\
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid #8884}th:first-child,td:first-child{text-align:left}\
.wide{overflow-x:auto}svg{width:100%;height:auto;background:#fff;border-radius:6px}.note{color:#777}\
.switch input{position:absolute;opacity:0}.switch label{display:inline-block;padding:.2em .8em;border:1px solid #8888;\
border-radius:6px;margin:0 .4em .5em 0;cursor:pointer}.switch input:focus-visible+label{outline:2px solid #06c}\
.switch input:checked+label{background:#0072b2;color:#fff}.switch .log{display:none}\
.switch .to-log:checked~.log{display:block}.switch .to-log:checked~.linear{display:none}";

/// Text made safe for HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The page.
pub fn html(c: &Comparison) -> String {
    let names: Vec<String> = columns(c).into_iter().map(|(name, _)| name).collect();
    let title = escape(&format!("Fathom: {}", c.plan.controllers.join(" against ")));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    for line in settings(c) {
        paragraph(&mut page, "", &line);
    }
    for line in verdicts(c) {
        paragraph(&mut page, "", &line);
    }
    table(&mut page, c, &names);
    for line in cautions(c) {
        paragraph(&mut page, "note", &line);
    }
    cdf_section(&mut page, c, "Response times", "all", |r| &r.times);
    cdf_section(&mut page, c, "Response times of responses larger than 25 kB", "large", |r| &r.times_large);
    queue_section(&mut page, c);
    window_section(&mut page, c);
    shares_section(&mut page, c);
    notes(&mut page, c);
    page.push_str("</body></html>\n");
    page
}

fn paragraph(page: &mut String, class: &str, text: &str) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "<p class=\"{class}\">{}</p>", escape(text));
}

fn table(page: &mut String, c: &Comparison, names: &[String]) {
    page.push_str("<div class=\"wide\"><table><tr><th></th>");
    for name in names {
        let _ = write!(page, "<th>{}</th>", escape(name));
    }
    page.push_str("</tr>\n");
    for (name, cells) in rows(c) {
        let _ = write!(page, "<tr><td>{}</td>", escape(name));
        for cell in cells {
            let _ = write!(page, "<td>{}</td>", escape(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

/// A distribution with a linear and a logarithmic time axis; a switch without scripts shows one of them.
fn cdf_section(page: &mut String, c: &Comparison, title: &str, id: &str, of: fn(&RunResult) -> &Distribution) {
    let columns = columns(c);
    let lines: Vec<Line> = columns
        .iter()
        .enumerate()
        .map(|(i, (name, r))| {
            let cdf = &of(r).cdf;
            Line { name: name.clone(), colour: i, points: steps(cdf) }
        })
        .collect();
    let all = || columns.iter().map(|(_, r)| of(r)).filter(|d| d.count > 0);
    let high = all().map(|d| d.p95_ms).fold(0.0, f64::max);
    let low = all().filter_map(|d| d.cdf.first()).map(|p| p.0).fold(f64::INFINITY, f64::min);
    let top = all().map(|d| d.max_ms).fold(0.0, f64::max);
    let draw = |x_range, log_x| {
        svg(&Plot {
            x: if log_x { "response time (ms, logarithmic)" } else { "response time (ms)" },
            y: "fraction of responses no slower",
            x_range,
            y_range: (0.0, 1.0),
            log_x,
            mark: None,
            legend_low: true,
            lines: &lines,
        })
    };
    let (Some(linear), Some(log)) = (draw((0.0, high), false), draw((low.max(0.1), top), true)) else { return };
    let _ = write!(
        page,
        "<h2>{title}</h2>\n<p class=\"note\">Nearer to the top left is better. The linear axis ends where the slowest column has \
         95 % of its responses; the logarithmic one shows all.</p>\n<div class=\"switch\">\
         <input type=\"radio\" name=\"{id}\" id=\"{id}-linear\" checked><label for=\"{id}-linear\">linear time</label>\
         <input type=\"radio\" name=\"{id}\" id=\"{id}-log\" class=\"to-log\"><label for=\"{id}-log\">logarithmic time</label>\
         <div class=\"linear\">{linear}</div><div class=\"log\">{log}</div></div>\n"
    );
}

/// A CDF as the staircase it is.
fn steps(cdf: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(2 * cdf.len());
    let mut height = 0.0;
    for &(x, y) in cdf {
        points.push((x, height));
        points.push((x, y));
        height = y;
    }
    points
}

fn queue_section(page: &mut String, c: &Comparison) {
    let mut lines = Vec::new();
    for (i, r) in c.runs.iter().enumerate() {
        let at = |bins: &[f64]| -> Vec<(f64, f64)> {
            bins.iter().enumerate().map(|(n, v)| ((n as f64 + 0.5) * r.bin_seconds, *v)).collect()
        };
        lines.push(Line { name: r.label.clone(), colour: i, points: smoothed(&at(&r.queue_mean)) });
    }
    let end = c.runs.iter().map(|r| r.seconds).fold(0.0, f64::max);
    let queue = c.plan.queue.parse::<QueueSpec>().ok().zip(c.plan.link.parse().ok());
    let limit = queue.and_then(|(queue, rate)| queue.packet_limit(rate));
    let top = c.runs.iter().map(|r| r.max_queue as f64).fold(1.0, f64::max).max(limit.unwrap_or(0) as f64);
    let Some(plot) = svg(&Plot {
        x: "time (s)",
        y: "queue at the bottleneck (packets)",
        x_range: (0.0, end),
        y_range: (0.0, top * 1.25),
        log_x: false,
        mark: limit.map(|n| (n as f64, "limit")),
        legend_low: false,
        lines: &lines,
    }) else {
        return;
    };
    let _ = write!(
        page,
        "<h2>Queue over time</h2>\n<p class=\"note\">Mean per bin over at most 200 bins; peaks within a bin are higher \
         (the largest: {}).</p>\n{plot}\n",
        escape(&c.runs.iter().map(|r| format!("{} {}", r.label, r.max_queue)).collect::<Vec<_>>().join(", ")),
    );
}

/// At most 200 points, each the mean of its neighbours.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points
        .chunks(points.len().div_ceil(200).max(1))
        .map(|chunk| {
            let n = chunk.len() as f64;
            (chunk.iter().map(|p| p.0).sum::<f64>() / n, chunk.iter().map(|p| p.1).sum::<f64>() / n)
        })
        .collect()
}

fn window_section(page: &mut String, c: &Comparison) {
    let Some(first) = c.runs.first() else { return };
    let lines = |of: Part| -> Vec<Line> {
        c.runs
            .iter()
            .enumerate()
            .map(|(i, r)| Line {
                name: r.label.clone(),
                colour: i,

                points: r.window.iter().filter_map(|p| Some((p.at, of(p)?))).collect(),
            })
            .collect()
    };
    let draw = |y: &str, lines: &[Line]| {
        let points = || lines.iter().flat_map(|l| &l.points);
        let (from, to) = points().fold((f64::INFINITY, 0.0_f64), |(a, b), p| (a.min(p.0), b.max(p.0)));
        let top = points().map(|p| p.1).fold(0.0, f64::max);
        svg(&Plot {
            x: "time (s)",
            y,
            x_range: (from, to),
            y_range: (0.0, top * 1.25),
            log_x: false,
            mark: None,
            legend_low: false,
            lines,
        })
    };
    let Some(window) = draw("congestion window (packets)", &lines(|p| Some(p.window as f64 / PACKET))) else { return };
    let _ = write!(
        page,
        "<h2>Window over time</h2>\n<p class=\"note\">The sender of one response: the largest requested in the first half \
         ({:.0} kB), requested at the same time in every run. Its line ends when the response is complete or the run is over.</p>\n{window}\n",
        first.traced_bytes as f64 / 1e3,
    );
    steering(page, &draw, &lines);
}

/// What a controller steers besides its window, where one of the comparison does.
fn steering(page: &mut String, draw: &dyn Fn(&str, &[Line]) -> Option<String>, lines: &dyn Fn(Part) -> Vec<Line>) {
    let parts: [(&str, &str, &str, Part); 3] = [
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
    for (title, note, axis, part) in parts {
        let with: Vec<Line> = lines(part).into_iter().filter(|l| !l.points.is_empty()).collect();
        if let Some(plot) = draw(axis, &with) {
            let _ = write!(page, "<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n{plot}\n");
        }
    }
}

/// How the flows shared the bottleneck, where flows are few and long.
fn shares_section(page: &mut String, c: &Comparison) {
    type Quantity = fn(&SharesOverTime) -> Vec<Option<f64>>;
    let parts: [(&str, &str, &str, Quantity); 3] = [
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
    for (title, note, axis, of) in parts {
        let mut lines = Vec::new();
        for (colour, run) in c.runs.iter().enumerate() {
            let Some(shares) = &run.shares else { continue };
            let at = |(bin, value): (usize, Option<f64>)| Some(((bin as f64 + 0.5) * shares.bin_seconds, value?));
            let points = of(shares).into_iter().enumerate().filter_map(at).collect();
            lines.push(Line { name: run.label.clone(), colour, points });
        }
        let points = || lines.iter().flat_map(|l| &l.points);
        let end = points().map(|p| p.0).fold(0.0, f64::max);
        let top = points().map(|p| p.1).fold(0.0, f64::max);
        let plot = Plot {
            x: "time (s)",
            y: axis,
            x_range: (0.0, end),
            y_range: (0.0, top * 1.25),
            log_x: false,
            mark: None,
            legend_low: false,
            lines: &lines,
        };
        if let Some(plot) = svg(&plot) {
            let _ = write!(page, "<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n{plot}\n");
        }
    }
}

/// One quantity of a window trace.
type Part = fn(&fathom_metrics::WindowPoint) -> Option<f64>;

fn notes(page: &mut String, c: &Comparison) {
    page.push_str("<h2>How this was measured</h2>\n<ul>\n");
    let stacks: Vec<&str> = c.plan.stacks.iter().map(|s| s.name()).collect();
    let time = match c.plan.backends[..] {
        [Backend::Virtual] => "in virtual time: no second of it passed.",
        _ => {
            "in virtual time, over loopback and the lab's links in real time (relay), or over the kernel's own links (netem), as named."
        }
    };
    let real = format!("Real {}, TLS and HTTP/3 at both ends, {time}", stacks.join(" and "));
    let lines = [
        real.as_str(),
        "Response time runs from opening the connection to the last byte, QUIC and TLS handshake included.",
        "Traffic runs in both directions; all figures are of the forward direction.",
        "Every controller got the same requests at the same times; which of them complete first differs.",
        "One seed is one sample of heavy-tailed traffic: differences of a few percent mean nothing yet.",
    ];
    for line in lines {
        let _ = writeln!(page, "<li>{line}</li>");
    }
    let _ = writeln!(page, "<li>Request sequence {}.</li>", escape(&c.request_hash));
    let plan = toml::to_string(&c.plan).unwrap_or_default();
    let _ = write!(page, "</ul>\n<h2>The plan</h2>\n<pre>{}</pre>\n", escape(&plan));
}
