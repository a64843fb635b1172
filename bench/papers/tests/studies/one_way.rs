//! The study of what one-way delays are worth (`docs/one-way-delay.md`).

use fathom_metrics::{Bounds, Estimate, round};
use fathom_report::{Axis, Figure, Series, standalone};

use crate::common::{Row, by_seed, cell, estimate, named, table, values};
use crate::{Measure, Page, Stored};

const NAMED_PATHS: [&str; 5] = ["dsl", "cable", "wifi", "lte", "leo"];

pub(crate) const PAGE: Page = Page {
    path: "docs/one-way-delay.md",
    studies: &[&UPLINK, &PATHS],
    tables: &[
        ("with", || by_path("CUBIC", "download_mbps", 2)),
        ("pairs with", || pairs("CUBIC")),
        ("pairs without", || pairs("none")),
        ("without", || by_path("none", "download_mbps", 2)),
        ("queue with", || by_path("CUBIC", "queue_packets", 0)),
        ("queue without", || by_path("none", "queue_packets", 0)),
        ("upload", || by_path("CUBIC", "upload_mbps", 2)),
    ],
    figures: &[("bench/results/one-way/uplink.svg", figure)],
};

const MEASURES: &[Measure] = &[
    ("download_mbps", |o| round(o.groups["download"].throughput_bps / 1e6, 4)),
    ("queue_packets", |o| o.links["left-right"].mean_queue),
    ("drops_percent", |o| o.links["left-right"].drops_percent),
    ("upload_mbps", |o| round(o.groups["upload"].throughput_bps / 1e6, 4)),
];

const UPLINK: Stored = Stored {
    name: "one-way-uplink",
    folder: "one-way",
    axes: &["up-queue", "controller"],
    measures: MEASURES,
    over_time: None,
    checked: ("up-queue", "320"),
};
const PATHS: Stored = Stored {
    name: "one-way-paths",
    folder: "one-way",
    axes: &["path", "upload", "controller"],
    measures: MEASURES,
    over_time: None,
    checked: ("path", "lte"),
};

/// Returns the controllers as in the file and as on the page.
fn controllers(rows: &[Row]) -> Vec<(String, String)> {
    let names = values(rows, "controller").into_iter();
    names.map(|name| (name.clone(), name.replace(';', ","))).collect()
}

/// Returns a table with the paths across and the controllers down.
fn by_path(upload: &str, column: &str, digits: usize) -> String {
    let rows = PATHS.rows();
    let row = |(file, name): (String, String)| {
        let cells = NAMED_PATHS.map(|path| {
            let key = [("path", path), ("upload", upload), ("controller", file.as_str())];
            cell(&rows, &key, column, digits)
        });
        named(name, cells)
    };
    table(named("", NAMED_PATHS.map(str::to_owned)), controllers(&rows).into_iter().map(row))
}

/// Returns the differences of the download rates, one-way minus RTT, paired by seed.
fn pairs(upload: &str) -> String {
    let rows = PATHS.rows();
    let rates = |path: &str, controller: &str| {
        let key = [("path", path), ("upload", upload), ("controller", controller)];
        by_seed(&rows, &key, "download_mbps")
    };
    let row = |controller: &str| {
        let cells = NAMED_PATHS.map(|path| {
            let [one_way, rtt] =
                ["one-way", "RTT"].map(|signal| rates(path, &format!("{controller}; {signal}")));
            let of = |(seed, rate): (&String, &f64)| rate - rtt[seed];
            let differences: Vec<f64> = one_way.iter().map(of).collect();
            format!("{:.2}", Estimate::of(&differences).expect("pairs"))
        });
        named(controller, cells)
    };
    let controllers = ["Sync-TCP", "LEDBAT", "LEDBAT++", "Copa"];
    table(named("", NAMED_PATHS.map(str::to_owned)), controllers.map(row))
}

/// Returns the download rate by the length of the queue on the way back.
fn figure() -> String {
    let rows = UPLINK.rows();
    let queues = values(&rows, "up-queue");
    let curve = |(file, name): (String, String)| {
        let point = |queue: &String| {
            let key = [("up-queue", queue.as_str()), ("controller", file.as_str())];
            Some((queue.parse::<f64>().ok()?, estimate(&rows, &key, "download_mbps")?))
        };
        Series::of_estimates(name, queues.iter().filter_map(point))
    };
    let series = controllers(&rows).into_iter().map(curve).collect();
    let x = Axis::logarithmic("queue on the way back in packets");
    let y = Axis::linear("download rate in Mbps").within(Bounds::NOT_NEGATIVE);
    standalone(&Figure { x, y, series }).expect("curves")
}
