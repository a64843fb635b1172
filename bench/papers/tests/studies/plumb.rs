//! The study of what each mechanism of plumb brings (`docs/plumb.md`).

use fathom_experiments::scenario::Outcome;
use fathom_metrics::round;

use crate::common::{cell, named, table, values};
use crate::{Page, Stored};

pub(crate) const PAGE: Page = Page {
    path: "docs/plumb.md",
    studies: &[&ABLATION],
    tables: &[("ablation", ablation)],
    figures: &[],
};

const ABLATION: Stored = Stored {
    name: "plumb-ablation",
    folder: "plumb",
    axes: &["scene", "controller"],
    measures: &[
        ("mean_ms", |o| o.groups["subject"].times.as_ref().map_or(NONE, |t| round(t.mean_ms, 3))),
        ("p95_ms", |o| o.groups["subject"].times.as_ref().map_or(NONE, |t| round(t.p95_ms, 3))),
        ("share_percent", share),
        ("jain_percent", jain),
        ("used_percent", |o| o.links["left-right"].utilisation_percent),
        ("queue_packets", |o| o.links["left-right"].mean_queue),
    ],
    over_time: None,
    checked: ("scene", "alone"),
};

/// Returns the subject's share of the throughput.
fn share(outcome: &Outcome) -> f64 {
    let of = |group: &str| outcome.groups[group].throughput_bps;
    round(100.0 * of("subject") / (of("subject") + of("other")), 4)
}

/// Value of a measure that a scene does not have.
const NONE: f64 = f64::NAN;

/// Returns Jain's index of the subject's flows, which web traffic does not have.
fn jain(outcome: &Outcome) -> f64 {
    let flows = &outcome.groups["subject"].flows;
    let rates: Vec<f64> = flows.iter().map(|flow| flow.throughput_bps).collect();
    fathom_netsim::link::jain(&rates).map_or(NONE, |jain| round(100.0 * jain, 4))
}

fn ablation() -> String {
    let rows = ABLATION.rows();
    let body = values(&rows, "controller").into_iter().map(|name| {
        let cell = |scene: &str, column, digits| {
            cell(&rows, &[("scene", scene), ("controller", &*name)], column, digits)
        };
        let cells = [
            cell("alone", "used_percent", 1),
            cell("alone", "queue_packets", 0),
            cell("eight", "jain_percent", 0),
            cell("eight", "queue_packets", 0),
            cell("beside CUBIC", "share_percent", 0),
            cell("web", "mean_ms", 0),
            cell("web", "p95_ms", 0),
        ];
        named(name.clone(), cells)
    });
    let head = [
        "alone: link used (%)",
        "alone: queue (packets)",
        "eight: Jain (%)",
        "eight: queue (packets)",
        "beside CUBIC: share (%)",
        "web: mean (ms)",
        "web: p95 (ms)",
    ];
    table(named("", head.map(str::to_owned)), body)
}
