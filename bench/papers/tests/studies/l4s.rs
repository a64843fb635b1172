//! Prague through DualPI2, beside CUBIC and on paths without L4S (`docs/l4s.md`).

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{Bounds, round};
use fathom_report::{Axis, Figure, Series, standalone};

use crate::common::{cell, estimate, named, table, values};
use crate::{Measure, Page, Stored};

pub(crate) const PAGE: Page = Page {
    path: "docs/l4s.md",
    studies: &[&BESIDE, &PATHS],
    tables: &[
        ("rates", || beside("subject_mbps", 1)),
        ("rates of cubic", || beside("cubic_mbps", 1)),
        ("queue mean", || beside("queue_mean_ms", 2)),
        ("queue p99", || beside("queue_p99_ms", 2)),
        ("queue of cubic", || beside("cubic_queue_mean_ms", 1)),
        ("paths", paths),
    ],
    figures: &[("bench/results/l4s/queue.svg", figure)],
};

/// Time in ns from which packets count: the warm-up of both studies.
const WARM_UP: u64 = 20_000_000_000;

/// Returns the times in ms that packets spent at the link, in ascending order: packets that arrived
/// there as ECT(1) or CE, or all others.
fn delays(outcome: &Outcome, l4s: bool) -> Vec<f64> {
    let packets = outcome.links["left-right"].delays.iter();
    let counted = packets.filter(|p| p.at_nanos >= WARM_UP && p.l4s == l4s);
    let mut all: Vec<f64> = counted.map(|p| p.delay_nanos as f64 / 1e6).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Returns the delays of the subject's packets. Only Prague has packets of its own kind.
fn of_subject(outcome: &Outcome) -> Vec<f64> {
    let l4s = delays(outcome, true);
    if l4s.is_empty() { delays(outcome, false) } else { l4s }
}

fn mean(of: &[f64]) -> f64 {
    round(of.iter().sum::<f64>() / of.len() as f64, 3)
}

const SUBJECT: [Measure; 3] = [
    ("subject_mbps", |o| round(o.groups["subject"].throughput_bps / 1e6, 4)),
    ("queue_mean_ms", |o| mean(&of_subject(o))),
    ("queue_p99_ms", |o| {
        let all = of_subject(o);
        round(all[all.len() * 99 / 100], 3)
    }),
];

const BESIDE: Stored = Stored {
    name: "l4s-beside",
    folder: "l4s",
    axes: &["rate", "rtt", "controller"],
    measures: &[
        SUBJECT[0],
        SUBJECT[1],
        SUBJECT[2],
        ("cubic_mbps", |o| round(o.groups["cubic"].throughput_bps / 1e6, 4)),
        ("cubic_queue_mean_ms", |o| mean(&delays(o, false))),
    ],
    over_time: None,
    checked: ("rtt", if cfg!(feature = "quiche") { "10ms" } else { "" }),
};

const PATHS: Stored = Stored {
    name: "l4s-paths",
    folder: "l4s",
    axes: &["stack", "controller", "path"],
    measures: &SUBJECT,
    over_time: None,
    checked: ("stack", "tcp"),
};

/// Returns a table of a measure beside CUBIC: rates and RTTs across, controllers down.
fn beside(column: &str, digits: usize) -> String {
    let rows = BESIDE.rows();
    let places: Vec<(String, String)> = values(&rows, "rate")
        .into_iter()
        .flat_map(|rate| values(&rows, "rtt").into_iter().map(move |rtt| (rate.clone(), rtt)))
        .collect();
    let heads = places.iter().map(|(rate, rtt)| format!("{rate}, {rtt}"));
    let row = |controller: String| {
        let cells = places.iter().map(|(rate, rtt)| {
            let key = [("rate", &**rate), ("rtt", &**rtt), ("controller", &*controller)];
            cell(&rows, &key, column, digits)
        });
        named(controller.clone(), cells.collect::<Vec<_>>())
    };
    table(named("", heads.collect::<Vec<_>>()), values(&rows, "controller").into_iter().map(row))
}

/// Returns the throughput and the mean queueing delay on each path.
fn paths() -> String {
    let rows = PATHS.rows();
    let columns = [("prague", "quiche"), ("prague", "tcp"), ("cubic", "quiche"), ("cubic", "tcp")];
    let heads = columns.iter().flat_map(|(controller, stack)| {
        ["Mbps", "queue in ms"].map(|what| format!("{controller}, {stack}: {what}"))
    });
    let row = |path: String| {
        let cells = columns.iter().flat_map(|(controller, stack)| {
            let key = [("path", &*path), ("controller", *controller), ("stack", *stack)];
            [("subject_mbps", 1), ("queue_mean_ms", 1)]
                .map(|(column, digits)| cell(&rows, &key, column, digits))
        });
        named(path.replace(';', ","), cells.collect::<Vec<_>>())
    };
    table(named("", heads.collect::<Vec<_>>()), values(&rows, "path").into_iter().map(row))
}

/// Returns the mean queueing delay of each controller by the base RTT, at 40 Mbps.
fn figure() -> String {
    let rows = BESIDE.rows();
    let curve = |controller: String| {
        let point = |rtt: String| {
            let key = [("rate", "40Mbps"), ("rtt", &*rtt), ("controller", &*controller)];
            let ms = rtt.trim_end_matches("ms").parse::<f64>().ok()?;
            Some((ms, estimate(&rows, &key, "queue_mean_ms")?))
        };
        let points: Vec<_> = values(&rows, "rtt").into_iter().filter_map(point).collect();
        Series::of_estimates(controller.clone(), points)
    };
    let series = values(&rows, "controller").into_iter().map(curve).collect();
    let x = Axis::linear("base round-trip time in ms");
    let y = Axis::linear("mean queueing delay in ms").within(Bounds::NOT_NEGATIVE);
    standalone(&Figure { x, y, series }).expect("curves")
}
