//! The study of live media whose encoder adapts to the sender (`docs/media.md`).

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{Estimate, MediaOutcome, round};

use crate::by_signal::{by_controller, by_queue, over_paths, pairs};
use crate::common::{by_seed, cell, estimate, readme_says, values};
use crate::{Measure, Page, Stored};

/// Other traffic of the path.
const ALONE: &str = "nothing";
const UP: &str = "an upload";
const DOWN: &str = "a download";

pub(crate) const PAGE: Page = Page {
    path: "docs/media.md",
    studies: &[&UPLINK, &PATHS, &SIGNALS],
    tables: &[
        ("rate upload", || by_path(UP, "met_kbps", 0)),
        ("missed upload", || by_path(UP, "missed_percent", 1)),
        ("pairs upload", || differences(UP)),
        ("rate alone", || by_path(ALONE, "met_kbps", 0)),
        ("missed alone", || by_path(ALONE, "missed_percent", 1)),
        ("pairs alone", || differences(ALONE)),
        ("rate download", || by_path(DOWN, "met_kbps", 0)),
        ("missed download", || by_path(DOWN, "missed_percent", 1)),
        ("signals", signals),
        ("delay upload", || delays(UP)),
        ("delay alone", || delays(ALONE)),
        ("delay download", || delays(DOWN)),
        ("frozen upload", || by_path(UP, "frozen_s", 1)),
        ("frozen alone", || by_path(ALONE, "frozen_s", 1)),
        ("frozen download", || by_path(DOWN, "frozen_s", 1)),
        ("freezes upload", || by_path(UP, "freezes", 1)),
        ("freezes alone", || by_path(ALONE, "freezes", 1)),
        ("freezes download", || by_path(DOWN, "freezes", 1)),
        ("other upload", || by_path(UP, "other_mbps", 2)),
        ("other download", || by_path(DOWN, "other_mbps", 2)),
    ],
    figures: &[("bench/results/media/uplink.svg", figure)],
};

/// Returns the outcome of the live stream.
fn media(outcome: &Outcome) -> &MediaOutcome {
    outcome.groups["media"].media.as_ref().expect("a live stream")
}

/// Measures of the studies of which only rates and missed frames are shown.
const RATES: &[Measure] = &[
    ("met_kbps", |o| media(o).met_kbps),
    ("missed_percent", |o| round(100.0 * media(o).missed_fraction, 3)),
];

const MEASURES: &[Measure] = &[
    RATES[0],
    RATES[1],
    ("frame_p95_ms", |o| media(o).frame_delay.as_ref().map_or(f64::NAN, |delay| delay.p95_ms)),
    ("freezes", |o| media(o).freezes as f64),
    ("frozen_s", |o| round(media(o).frozen_ms / 1e3, 3)),
    ("other_mbps", |o| round(o.groups["other"].throughput_bps / 1e6, 4)),
];

const UPLINK: Stored = Stored {
    name: "media-uplink",
    folder: "media",
    axes: &["up-queue", "controller"],
    measures: RATES,
    over_time: None,
    checked: ("up-queue", "320"),
};
const PATHS: Stored = Stored {
    name: "media-paths",
    folder: "media",
    axes: &["path", "other", "controller"],
    measures: MEASURES,
    over_time: None,
    checked: ("path", "lte"),
};
const SIGNALS: Stored = Stored {
    name: "media-signals",
    folder: "media",
    axes: &["path", "controller", "signal"],
    measures: RATES,
    over_time: None,
    checked: ("path", "wifi"),
};

fn by_path(other: &str, column: &str, digits: usize) -> String {
    let rows = PATHS.rows();
    by_controller(&rows, ("other", other), |key| cell(&rows, key, column, digits))
}

/// Returns the table of the frames' delays. A cell says how many seeds have no frame that arrived.
fn delays(other: &str) -> String {
    let rows = PATHS.rows();
    by_controller(&rows, ("other", other), |key| {
        let delays: Vec<f64> = by_seed(&rows, key, "frame_p95_ms").into_values().collect();
        match delays.iter().filter(|delay| delay.is_nan()).count() {
            0 => format!("{:.0}", Estimate::of(&delays).expect("numbers")),
            none => format!("no frame with {none} of {} seeds", delays.len()),
        }
    })
}

/// Returns the differences of the bit rates, one-way minus RTT, paired by seed.
fn differences(other: &str) -> String {
    let controllers = ["SCReAM", "GCC", "Sync-TCP", "Copa"];
    pairs(&PATHS.rows(), ("other", other), &controllers, "met_kbps", 0)
}

/// Returns the bit rates by the signal.
fn signals() -> String {
    let rows = &SIGNALS.rows();
    let signals = &values(rows, "signal");
    let both = ["SCReAM", "GCC"].into_iter();
    let all = both.flat_map(|controller| signals.iter().map(move |signal| (controller, signal)));
    over_paths(all.map(|(controller, signal)| {
        let of = move |path: &str| {
            let key = [("path", path), ("controller", controller), ("signal", signal.as_str())];
            cell(rows, &key, "met_kbps", 0)
        };
        (format!("{controller}, {signal}"), of)
    }))
}

/// Returns the bit rate by the length of the queue on the way back.
fn figure() -> String {
    by_queue(&UPLINK.rows(), "met_kbps", "kbps in frames that meet their deadline")
}

#[test]
fn readme_has_the_rates_of_live_media_beside_an_upload() {
    let rows = PATHS.rows();
    let [one_way, rtt] = ["SCReAM; one-way", "SCReAM; RTT"].map(|controller| {
        let key = [("path", "dsl"), ("other", UP), ("controller", controller)];
        estimate(&rows, &key, "met_kbps").expect("runs").mean / 1e3
    });
    readme_says(&format!(
        "SCReAM delivers [media](docs/media.md) at {one_way:.1} and {rtt:.2} Mbps."
    ));
}
