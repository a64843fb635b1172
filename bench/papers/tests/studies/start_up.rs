//! Ways to start a connection (`docs/start-up.md`).

use fathom_metrics::{Estimate, round};

use crate::common::{Row, by_seed, cell, named, table, values};
use crate::{Measure, Page, Stored};

const NAMED_PATHS: [&str; 7] = ["dsl", "cable", "fibre", "wifi", "lte", "leo", "geo"];
const TRAFFIC: [&str; 4] = ["100 kB", "1 MB", "10 MB", "pages"];
const BASELINE: &str = "slow start";

pub(crate) const PAGE: Page = Page {
    path: "docs/start-up.md",
    studies: &[&STUDY, &BESIDE],
    tables: &[
        ("ranking", ranking),
        ("100 kB", || changes("100 kB")),
        ("1 MB", || changes("1 MB")),
        ("10 MB", || changes("10 MB")),
        ("pages", || changes("pages")),
        ("beside", || beside("mean_ms", 0)),
        ("long", || beside("long_mbps", 2)),
        ("drops beside", || beside("drops_percent", 2)),
        ("drops", drops),
        ("times", times),
    ],
    figures: &[],
};

const MEASURES: &[Measure] = &[
    ("mean_ms", |o| round(o.groups["responses"].times.as_ref().expect("responses").mean_ms, 3)),
    ("drops_percent", |o| o.links["left-right"].drops_percent),
    ("responses", |o| o.groups["responses"].responses as f64),
];

const STUDY: Stored = Stored {
    name: "start-up",
    folder: "start-up",
    axes: &["path", "start", "traffic"],
    measures: MEASURES,
    over_time: None,
    checked: ("path", "dsl"),
};

/// The same downloads of 1 MB beside a long download.
const BESIDE: Stored = Stored {
    name: "start-up-beside",
    folder: "start-up",
    axes: &["path", "start"],
    measures: &[
        ("mean_ms", |o| round(o.groups["responses"].times.as_ref().expect("responses").mean_ms, 3)),
        ("long_mbps", |o| round(o.groups["long"].throughput_bps / 1e6, 4)),
        ("drops_percent", |o| o.links["left-right"].drops_percent),
    ],
    over_time: None,
    checked: ("path", "lte"),
};

/// Returns a table of a measure beside the long download: start-ups down, paths across.
fn beside(column: &str, digits: usize) -> String {
    let rows = BESIDE.rows();
    let paths = ["dsl", "lte", "geo"];
    let row = |start: String| {
        let cells = paths
            .map(|path| cell(&rows, &[("start", start.as_str()), ("path", path)], column, digits));
        named(start, cells)
    };
    table(named("", paths.map(str::to_owned)), starts().into_iter().map(row))
}

/// Returns the names of the start-ups, the baseline first.
fn starts() -> Vec<String> {
    values(&STUDY.rows(), "start")
}

/// Returns the change of the mean time against slow start in percent, paired by seed.
fn change(rows: &[Row], start: &str, path: &str, traffic: &str) -> Estimate {
    let times = |start: &str| {
        by_seed(rows, &[("start", start), ("path", path), ("traffic", traffic)], "mean_ms")
    };
    let base = times(BASELINE);
    let of = |(seed, ms): (String, f64)| 100.0 * (ms / base[&seed] - 1.0);
    let changes: Vec<f64> = times(start).into_iter().map(of).collect();
    Estimate::of(&changes).expect("seeds")
}

fn without_baseline() -> impl Iterator<Item = String> {
    starts().into_iter().filter(|start| start != BASELINE)
}

/// Returns the changes of one kind of traffic: start-ups down, paths across.
fn changes(traffic: &str) -> String {
    let rows = STUDY.rows();
    let row = |start: String| {
        let cells = NAMED_PATHS.map(|path| format!("{:.1}", change(&rows, &start, path, traffic)));
        named(start, cells)
    };
    table(named("", NAMED_PATHS.map(str::to_owned)), without_baseline().map(row))
}

/// Returns the mean change over all paths for each kind of traffic, and the worst change of a path.
fn ranking() -> String {
    let rows = STUDY.rows();
    let row = |start: String| {
        let mut worst = f64::MIN;
        let mut cells: Vec<String> = TRAFFIC
            .into_iter()
            .map(|traffic| {
                let means = NAMED_PATHS.map(|path| change(&rows, &start, path, traffic).mean);
                worst = means.into_iter().fold(worst, f64::max);
                format!("{:.1}", means.iter().sum::<f64>() / means.len() as f64)
            })
            .collect();
        cells.push(format!("{worst:.1}"));
        named(start, cells)
    };
    let head = named("", TRAFFIC.map(str::to_owned)).into_iter().chain(["worst path".to_owned()]);
    table(head, without_baseline().map(row))
}

/// Returns the drops of downloads of 10 MB in percent.
fn drops() -> String {
    by_path("10 MB", "drops_percent", 2)
}

/// Returns the mean times of pages in ms.
fn times() -> String {
    by_path("pages", "mean_ms", 0)
}

fn by_path(traffic: &str, column: &str, digits: usize) -> String {
    let rows = STUDY.rows();
    let row = |start: String| {
        let cells = NAMED_PATHS.map(|path| {
            let key = [("start", start.as_str()), ("path", path), ("traffic", traffic)];
            cell(&rows, &key, column, digits)
        });
        named(start, cells)
    };
    table(named("", NAMED_PATHS.map(str::to_owned)), starts().into_iter().map(row))
}
