//! The study of what one-way delays are worth (`docs/one-way-delay.md`).

use fathom_metrics::round;

use crate::by_signal::{by_controller, by_queue, pairs};
use crate::common::cell;
use crate::{Measure, Page, Stored};

pub(crate) const PAGE: Page = Page {
    path: "docs/one-way-delay.md",
    studies: &[&UPLINK, &PATHS],
    tables: &[
        ("with", || by_path("CUBIC", "download_mbps", 2)),
        ("pairs with", || differences("CUBIC")),
        ("pairs without", || differences("none")),
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

fn by_path(upload: &str, column: &str, digits: usize) -> String {
    let rows = PATHS.rows();
    by_controller(&rows, ("upload", upload), |key| cell(&rows, key, column, digits))
}

/// Returns the differences of the download rates, one-way minus RTT, paired by seed.
fn differences(upload: &str) -> String {
    let controllers = ["Sync-TCP", "LEDBAT", "LEDBAT++", "Copa", "plumb"];
    pairs(&PATHS.rows(), ("upload", upload), &controllers, "download_mbps", 2)
}

/// Returns the download rate by the length of the queue on the way back.
fn figure() -> String {
    by_queue(&UPLINK.rows(), "download_mbps", "download rate in Mbps")
}
