//! The study of live media whose encoder adapts to the sender (`docs/media.md`).

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{Bounds, Estimate, MediaOutcome, round};
use fathom_report::{Axis, Figure, Series, standalone};

use crate::common::{Row, by_seed, cell, estimate, named, table, values};
use crate::{Measure, Page, Stored};

const NAMED_PATHS: [&str; 5] = ["dsl", "cable", "wifi", "lte", "leo"];

pub(crate) const PAGE: Page = Page {
    path: "docs/media.md",
    studies: &[&UPLINK, &PATHS],
    tables: &[
        ("rate with", || by_path("CUBIC", "met_kbps", 0)),
        ("missed with", || by_path("CUBIC", "missed_percent", 1)),
        ("pairs with", || pairs("CUBIC")),
        ("rate without", || by_path("none", "met_kbps", 0)),
        ("missed without", || by_path("none", "missed_percent", 1)),
        ("pairs without", || pairs("none")),
        ("delay with", || delays("CUBIC")),
        ("delay without", || delays("none")),
        ("frozen with", || by_path("CUBIC", "frozen_s", 1)),
        ("frozen without", || by_path("none", "frozen_s", 1)),
        ("freezes with", || by_path("CUBIC", "freezes", 1)),
        ("freezes without", || by_path("none", "freezes", 1)),
    ],
    figures: &[("bench/results/media/uplink.svg", figure)],
};

/// Returns the outcome of the live stream.
fn media(outcome: &Outcome) -> &MediaOutcome {
    outcome.groups["media"].media.as_ref().expect("a live stream")
}

const MEASURES: &[Measure] = &[
    ("met_kbps", |o| media(o).met_kbps),
    ("missed_percent", |o| round(100.0 * media(o).missed_fraction, 3)),
    ("frame_p95_ms", |o| media(o).frame_delay.as_ref().map_or(f64::NAN, |delay| delay.p95_ms)),
    ("freezes", |o| media(o).freezes as f64),
    ("frozen_s", |o| round(media(o).frozen_ms / 1e3, 3)),
    ("upload_mbps", |o| round(o.groups["upload"].throughput_bps / 1e6, 4)),
];

const UPLINK: Stored = Stored {
    name: "media-uplink",
    folder: "media",
    axes: &["up-queue", "controller"],
    measures: MEASURES,
    over_time: None,
    checked: ("up-queue", "320"),
};
const PATHS: Stored = Stored {
    name: "media-paths",
    folder: "media",
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
fn paths(cell: impl Fn(&[Row], &[(&str, &str)]) -> String, upload: &str) -> String {
    let rows = PATHS.rows();
    let row = |(file, name): (String, String)| {
        let cells = NAMED_PATHS.map(|path| {
            cell(&rows, &[("path", path), ("upload", upload), ("controller", file.as_str())])
        });
        named(name, cells)
    };
    table(named("", NAMED_PATHS.map(str::to_owned)), controllers(&rows).into_iter().map(row))
}

fn by_path(upload: &str, column: &str, digits: usize) -> String {
    paths(|rows, key| cell(rows, key, column, digits), upload)
}

/// Returns the table of the frames' delays. A cell says how many seeds have no frame that arrived.
fn delays(upload: &str) -> String {
    let cell = |rows: &[Row], key: &[(&str, &str)]| {
        let delays: Vec<f64> = by_seed(rows, key, "frame_p95_ms").into_values().collect();
        match delays.iter().filter(|delay| delay.is_nan()).count() {
            0 => format!("{:.0}", Estimate::of(&delays).expect("numbers")),
            none => format!("no frame with {none} of {} seeds", delays.len()),
        }
    };
    paths(cell, upload)
}

/// Returns the differences of the bit rates, one-way minus RTT, paired by seed.
fn pairs(upload: &str) -> String {
    let rows = PATHS.rows();
    let rates = |path: &str, controller: &str| {
        let key = [("path", path), ("upload", upload), ("controller", controller)];
        by_seed(&rows, &key, "met_kbps")
    };
    let row = |controller: &str| {
        let cells = NAMED_PATHS.map(|path| {
            let [one_way, rtt] =
                ["one-way", "RTT"].map(|signal| rates(path, &format!("{controller}; {signal}")));
            let of = |(seed, rate): (&String, &f64)| rate - rtt[seed];
            let differences: Vec<f64> = one_way.iter().map(of).collect();
            format!("{:.0}", Estimate::of(&differences).expect("pairs"))
        });
        named(controller, cells)
    };
    let controllers = ["SCReAM", "GCC", "Sync-TCP", "Copa"];
    table(named("", NAMED_PATHS.map(str::to_owned)), controllers.map(row))
}

/// Returns the bit rate by the length of the queue on the way back.
fn figure() -> String {
    let rows = UPLINK.rows();
    let queues = values(&rows, "up-queue");
    let curve = |(file, name): (String, String)| {
        let point = |queue: &String| {
            let key = [("up-queue", queue.as_str()), ("controller", file.as_str())];
            Some((queue.parse::<f64>().ok()?, estimate(&rows, &key, "met_kbps")?))
        };
        Series::of_estimates(name, queues.iter().filter_map(point))
    };
    let series = controllers(&rows).into_iter().map(curve).collect();
    let x = Axis::logarithmic("queue on the way back in packets");
    let y = Axis::linear("kbps in frames that meet their deadline").within(Bounds::NOT_NEGATIVE);
    standalone(&Figure { x, y, series }).expect("curves")
}
