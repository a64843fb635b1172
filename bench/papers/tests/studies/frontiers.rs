//! The study of what each controller gives for what it takes (`docs/frontiers.md`).

use fathom_metrics::{Bounds, Estimate, round};
use fathom_report::{Axis, Figure, Series, standalone};

use crate::common::{Row, by_seed, cell, estimate, named, table, values};
use crate::{Measure, Page, Stored};

pub(crate) const PAGE: Page = Page {
    path: "docs/frontiers.md",
    studies: &[&WEB, &BULK, &RADIO],
    tables: &[("web", web), ("radio", radio)],
    figures: &[
        ("bench/results/frontiers/web.svg", web_figure),
        ("bench/results/frontiers/wifi.svg", || radio_figure("wifi")),
        ("bench/results/frontiers/lte.svg", || radio_figure("lte")),
    ],
};

/// The standard with which all controllers are compared.
const STANDARD: &str = "CUBIC";
/// Controllers that one curve connects: plumb with several targets.
const PLUMB: &str = "plumb ";

const WEB: Stored = Stored {
    name: "frontier-web",
    folder: "frontiers",
    axes: &["controller"],
    measures: &[
        ("mean_ms", |o| round(o.groups["web"].times.as_ref().expect("responses").mean_ms, 3)),
        ("p95_ms", |o| round(o.groups["web"].times.as_ref().expect("responses").p95_ms, 3)),
        ("drops_percent", |o| o.links["left-right"].drops_percent),
    ],
    over_time: None,
    checked: ("controller", "CUBIC"),
};

const FLOW: &[Measure] = &[
    ("mbps", |o| round(o.groups["bulk"].throughput_bps / 1e6, 4)),
    ("used_percent", |o| o.links["left-right"].utilisation_percent),
    ("queue_packets", |o| o.links["left-right"].mean_queue),
];

const BULK: Stored = Stored {
    name: "frontier-bulk",
    folder: "frontiers",
    axes: &["rate", "rtt", "controller"],
    measures: FLOW,
    over_time: None,
    checked: ("rate", "5Mbps"),
};

const RADIO: Stored = Stored {
    name: "frontier-radio",
    folder: "frontiers",
    axes: &["path", "controller"],
    measures: FLOW,
    over_time: None,
    checked: ("path", "lte"),
};

/// Returns the percentages of the standard's values with the same seed, in the rows with this key.
fn of_standard(rows: &[Row], key: &[(&str, &str)], controller: &str, column: &str) -> Estimate {
    let of = |controller| by_seed(rows, &[key, &[("controller", controller)]].concat(), column);
    let (standard, own) = (of(STANDARD), of(controller));
    let ratios: Vec<f64> = own.iter().map(|(seed, value)| 100.0 * value / standard[seed]).collect();
    Estimate::of(&ratios).expect("seeds")
}

/// Returns the part of the link that a long flow uses, as a mean over all paths.
fn used(rows: &[Row], controller: &str) -> Estimate {
    estimate(rows, &[("controller", controller)], "used_percent").expect("runs")
}

/// Returns the smallest part of a link that a long flow uses on average, and the path.
fn least_used(rows: &[Row], controller: &str) -> (f64, String) {
    let paths = values(rows, "rate")
        .into_iter()
        .flat_map(|rate| values(rows, "rtt").into_iter().map(move |rtt| (rate.clone(), rtt)));
    let of = |(rate, rtt): (String, String)| {
        let key = [("rate", &*rate), ("rtt", &*rtt), ("controller", controller)];
        let used = estimate(rows, &key, "used_percent").expect("runs").mean;
        (used, format!("{rate}, {rtt}"))
    };
    paths.map(of).min_by(|a, b| a.0.total_cmp(&b.0)).expect("paths")
}

fn web() -> String {
    let (web, bulk) = (WEB.rows(), BULK.rows());
    let rows = values(&web, "controller").into_iter().map(|name| {
        let (least, path) = least_used(&bulk, &name);
        let key = [("controller", &*name)];
        let cells = [
            format!("{:.0}", of_standard(&web, &[], &name, "mean_ms")),
            format!("{:.0}", of_standard(&web, &[], &name, "p95_ms")),
            cell(&web, &key, "drops_percent", 2),
            format!("{:.0}", used(&bulk, &name).mean),
            format!("{least:.0} ({path})"),
            format!("{:.0}", estimate(&bulk, &key, "queue_packets").expect("runs").mean),
        ];
        named(name, cells)
    });
    let head = [
        "mean response time (% of CUBIC's)",
        "95th percentile (% of CUBIC's)",
        "drops (%)",
        "long flow: link used (%)",
        "least on a path (%)",
        "queue (packets)",
    ];
    table(named("", head.map(str::to_owned)), rows)
}

fn radio() -> String {
    let rows = RADIO.rows();
    let body = values(&rows, "controller").into_iter().map(|name| {
        let cells = ["wifi", "lte"].map(|path| {
            let key = [("path", path)];
            let of = |column| of_standard(&rows, &key, &name, column);
            [format!("{:.0}", of("mbps")), format!("{:.0}", of("queue_packets"))]
        });
        named(name, cells.into_iter().flatten())
    });
    let head = ["Wi-Fi: rate", "Wi-Fi: queue", "LTE: rate", "LTE: queue"];
    table(named("% of CUBIC's", head.map(str::to_owned)), body)
}

/// Returns a figure with a point per controller; the targets of plumb are one curve. `at` returns
/// the point of a controller.
fn points(x: Axis, y: Axis, controllers: &[String], at: impl Fn(&str) -> (f64, f64)) -> String {
    let (plumb, others): (Vec<&String>, Vec<&String>) =
        controllers.iter().partition(|name| name.starts_with(PLUMB));
    let series = |name: &str, points: Vec<(f64, f64)>, scatter| Series {
        name: name.to_owned(),
        points,
        spread: None,
        scatter,
    };
    let curve = plumb.iter().map(|name| at(name)).collect();
    let ends =
        [plumb.first(), plumb.last()].map(|name| name.expect("plumb")[PLUMB.len()..].to_owned());
    let mut all = vec![series(&format!("plumb, {} to {}", ends[0], ends[1]), curve, false)];
    all.extend(others.iter().map(|name| series(name, vec![at(name)], true)));
    standalone(&Figure { x, y, series: all }).expect("points")
}

fn web_figure() -> String {
    let (web, bulk) = (WEB.rows(), BULK.rows());
    points(
        Axis::linear("link used by one long flow (%)"),
        Axis::logarithmic("mean web response time (% of CUBIC's)"),
        &values(&web, "controller"),
        |name| (used(&bulk, name).mean, of_standard(&web, &[], name, "mean_ms").mean),
    )
}

fn radio_figure(path: &str) -> String {
    let rows = RADIO.rows();
    let of = |name: &str, column| of_standard(&rows, &[("path", path)], name, column).mean;
    points(
        Axis::linear("rate (% of CUBIC's)").within(Bounds::NOT_NEGATIVE),
        Axis::logarithmic("mean queue (% of CUBIC's)"),
        &values(&rows, "controller"),
        |name| (of(name, "mbps"), of(name, "queue_packets")),
    )
}
