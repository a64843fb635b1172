//! gHSTCP: Reno flows on slow access links beside HighSpeed TCP or gHSTCP flows on fast ones, over drop-tail, Adaptive RED and gARED.
//!
//! The paper's figures are bars without numbers, so what can be compared are the statements of its text: `claims.rs`.

mod claims;
#[cfg(test)]
mod tests;

use fathom_metrics::Estimate;
use fathom_netsim::link::jain;

use crate::scenario::Outcome;

use super::{Artefact, ArtefactSpec, Axis, Body, Entry, Figure, Paper, Results, Row, Series, Table};

const DROPTAIL: &str = "ghstcp-droptail";
const RED: &str = "ghstcp-red";
/// Propagation delays of the bottleneck (gHSTCP §3.1).
const DELAYS: [&str; 3] = ["25ms", "50ms", "100ms"];
/// Part of a run that is warm-up, in both studies: 20 of 100 s.
const WARM_UP: f64 = 0.2;

pub(super) const PAPER: Paper = Paper {
    name: "ghstcp",
    citation: "Z. Zhang, G. Hasegawa, M. Murata: Performance Analysis and Improvement of HighSpeed TCP with TailDrop/ARED Routers, \
               Osaka University, 2004",
    artefacts: &[
        ArtefactSpec {
            id: "figure 2",
            shows: "throughput of Reno beside Reno and HighSpeed TCP, drop-tail",
            studies: &[DROPTAIL],
        },
        ArtefactSpec {
            id: "figure 3",
            shows: "throughput of Reno beside HighSpeed TCP and gHSTCP, drop-tail",
            studies: &[DROPTAIL],
        },
        ArtefactSpec {
            id: "figure 4",
            shows: "throughput with Adaptive RED beside drop-tail",
            studies: &[DROPTAIL, RED],
        },
        ArtefactSpec {
            id: "figure 7",
            shows: "throughput of HighSpeed TCP with Adaptive RED and gHSTCP with gARED",
            studies: &[RED],
        },
        ArtefactSpec { id: "fairness", shows: "Jain's index over all ten flows", studies: &[DROPTAIL, RED] },
        ArtefactSpec { id: "queue", shows: "how steady the queue is with Adaptive RED and gARED", studies: &[RED] },
    ],
    figures,
    claims: |results| claims::CLAIMS.iter().filter_map(|claim| claim.claim(results)).collect(),
    departures: DEPARTURES,
};

const DEPARTURES: &[&str] = &[
    "QUIC always has selective acknowledgements, so the cases without and with SACK are one run; the first Reno flows have them too, \
     which in the paper they do not.",
    "That gHSTCP without SACK does as well as with it (gHSTCP §4.4) cannot be tested for the same reason.",
    "The paper says neither how long it simulates nor from when it counts: 100 s, of which the first 20 s are not counted.",
    "A probe timeout does not reset the window as TCP's retransmission timeout does (RFC 9002 §6.2); only persistent congestion does.",
    "QUIC starts with ten packets instead of ns-2's one, and acknowledges every second packet or after 25 ms.",
    "Throughput counts UDP payload: 1472 of a packet's 1500 bytes.",
    "The access links have no delay and never drop; the paper does not describe their queues.",
    "The paper calls cases fair without a measure: here it is Jain's index over all ten flows.",
    "The test for a rising round trip is not published: it is the sign of Pearson's correlation over the samples of one round trip. The \
     choice is not what decides: at 100 ms gHSTCP over gARED fills 68 % of the link with it, 68 % with Student's t and 78 % with Mann-Kendall \
     (`trend=`, seed 1), HighSpeed TCP 84 %.",
    "The paper's cases 6 to 9 change controller and queue at once; HighSpeed TCP over gARED and gHSTCP over Adaptive RED are added.",
];

/// A set of runs that is a case of the paper, or two, which differ by SACK only.
#[derive(Clone, Copy)]
struct System {
    study: &'static str,
    controller: &'static str,
    queue: Option<&'static str>,
    name: &'static str,
}

const fn droptail(controller: &'static str, name: &'static str) -> System {
    System { study: DROPTAIL, controller, queue: None, name }
}

const fn red(controller: &'static str, queue: &'static str, name: &'static str) -> System {
    System { study: RED, controller, queue: Some(queue), name }
}

const RENO: System = droptail("reno", "case 1, Reno");
const HIGHSPEED: System = droptail("highspeed", "cases 2 and 3, HighSpeed TCP");
const GENTLE: System = droptail("gentle", "cases 4 and 5, gHSTCP");
const HIGHSPEED_ARED: System = red("highspeed", "ARED", "cases 6 and 7, HighSpeed TCP, ARED");
const GENTLE_GARED: System = red("gentle", "gARED", "cases 8 and 9, gHSTCP, gARED");
const HIGHSPEED_GARED: System = red("highspeed", "gARED", "HighSpeed TCP, gARED (ours)");
const GENTLE_ARED: System = red("gentle", "ARED", "gHSTCP, ARED (ours)");

impl System {
    /// Its axes at a delay.
    fn key(&self, delay: &'static str) -> Vec<(&'static str, &'static str)> {
        let queue = self.queue.map(|queue| ("queue", queue));
        [("delay", delay), ("controller", self.controller)].into_iter().chain(queue).collect()
    }

    fn estimate(&self, results: &Results, delay: &'static str, of: Measure) -> Option<Estimate> {
        results.estimate(self.study, &self.key(delay), of)
    }
}

/// A number of a run.
type Measure = fn(&Outcome) -> Option<f64>;

/// Flows of each group.
const FLOWS: usize = 5;

/// Mbit/s of a group's flows together. `None` where one of them failed: the rest would stand for all.
fn group(o: &Outcome, name: &str) -> Option<f64> {
    o.groups.get(name).filter(|g| g.flows.len() == FLOWS).map(|g| g.throughput_bps / 1e6)
}

fn s1(o: &Outcome) -> Option<f64> {
    group(o, "S1")
}

fn s2(o: &Outcome) -> Option<f64> {
    group(o, "S2")
}

fn total(o: &Outcome) -> Option<f64> {
    Some(s1(o)? + s2(o)?)
}

/// Percent of the time that the bottleneck sends.
fn utilisation(o: &Outcome) -> Option<f64> {
    o.links.get("left-right").map(|l| l.utilisation_percent)
}

/// Jain's index over the ten flows. `None` where one of them failed: the rest would look fairer than they are.
fn fairness(o: &Outcome) -> Option<f64> {
    let flows = ["S1", "S2"].iter().filter_map(|name| o.groups.get(*name)).flat_map(|g| &g.flows);
    let rates: Vec<f64> = flows.map(|f| f.throughput_bps).collect();
    (rates.len() == 2 * FLOWS).then(|| jain(&rates)).flatten()
}

/// The queue's bins after the warm-up, in packets. A run of another scale has its warm-up scaled.
fn queue_bins(o: &Outcome) -> Option<&[f64]> {
    let link = o.links.get("left-right")?;
    let first = (WARM_UP * o.seconds / link.bin_seconds).ceil();
    first.is_finite().then(|| link.queue_mean.get(first as usize..)).flatten().filter(|bins| bins.len() > 1)
}

fn queue_mean(o: &Outcome) -> Option<f64> {
    queue_bins(o).map(|bins| bins.iter().sum::<f64>() / bins.len() as f64)
}

/// Standard deviation of the queue over time, in packets.
fn queue_deviation(o: &Outcome) -> Option<f64> {
    Estimate::of(queue_bins(o)?)?.deviation
}

fn figures(results: &Results) -> Vec<Artefact> {
    let figures: [(&str, &str, &[System]); 4] = [
        ("figure 2", "Throughput, drop-tail: Reno beside Reno and HighSpeed TCP", &[RENO, HIGHSPEED]),
        ("figure 3", "Throughput, drop-tail: Reno beside HighSpeed TCP and gHSTCP", &[HIGHSPEED, GENTLE]),
        ("figure 4", "Throughput of HighSpeed TCP: drop-tail and Adaptive RED", &[HIGHSPEED, HIGHSPEED_ARED]),
        ("figure 7", "Throughput: HighSpeed TCP with Adaptive RED, gHSTCP with gARED", &[HIGHSPEED_ARED, GENTLE_GARED]),
    ];
    let mut artefacts: Vec<Artefact> =
        figures.iter().map(|(id, title, systems)| throughput(results, id, title, systems)).collect();
    artefacts.push(fairness_table(results));
    artefacts.push(queue_table(results));
    artefacts
}

/// Bars of the paper as points over the delay.
fn throughput(results: &Results, id: &str, title: &str, systems: &[System]) -> Artefact {
    let groups: [(&str, Measure); 2] = [("S1", s1), ("S2", s2)];
    let series = systems.iter().flat_map(|system| {
        groups.map(|(name, of)| {
            let points = DELAYS.iter().filter_map(|delay| {
                let ms: f64 = delay.strip_suffix("ms")?.parse().ok()?;
                Some((ms, system.estimate(results, delay, of)?))
            });
            let points: Vec<(f64, Estimate)> = points.collect();
            Series {
                name: format!("{}: {name}", system.name),
                spread: points.iter().map(|(_, e)| e.half_width).collect(),
                points: points.iter().map(|(ms, e)| (*ms, e.mean)).collect(),
                scatter: false,
            }
        })
    });
    let axis = |label: &str| Axis { label: label.into(), log: false, range: None };
    Artefact {
        id: id.into(),
        title: title.into(),
        body: Body::Figure(Figure {
            x: axis("Propagation delay of the bottleneck (ms)"),
            y: Axis { range: Some((0.0, 2_500.0)), ..axis("Throughput of five flows (Mbit/s)") },
            series: series.collect(),
        }),
        note: "The paper draws bars without numbers. S1 are Reno flows behind 100 Mbps each, S2 flows behind 1 Gbps each. Cases without \
               and with SACK are one run here."
            .into(),
    }
}

fn delays_table(results: &Results, id: &str, title: &str, rows: &[(System, &str, Measure)], note: &str) -> Artefact {
    let entries = |system: &System, of: Measure| {
        DELAYS.iter().map(|delay| Entry { ours: system.estimate(results, delay, of), paper: None }).collect()
    };
    let rows = rows
        .iter()
        .map(|(system, what, of)| Row { label: format!("{}: {what}", system.name), entries: entries(system, *of) });
    let columns = DELAYS.iter().map(|d| d.replace("ms", " ms")).collect();
    let body = Body::Table(Table { columns, rows: rows.collect() });
    Artefact { id: id.into(), title: title.into(), body, note: note.into() }
}

fn fairness_table(results: &Results) -> Artefact {
    let systems = [RENO, HIGHSPEED, GENTLE, HIGHSPEED_ARED, GENTLE_GARED, HIGHSPEED_GARED, GENTLE_ARED];
    let rows: Vec<(System, &str, Measure)> = systems
        .iter()
        .flat_map(|s| [(*s, "Jain's index", fairness as Measure), (*s, "utilisation (%)", utilisation as Measure)])
        .collect();
    let note = "Not in the paper, which calls cases fair without a number. Five flows at 100 Mbps beside five that share the rest evenly \
                would have an index of .74.";
    delays_table(results, "fairness", "Fairness between all ten flows, and use of the bottleneck", &rows, note)
}

fn queue_table(results: &Results) -> Artefact {
    let systems = [HIGHSPEED_ARED, HIGHSPEED_GARED, GENTLE_ARED, GENTLE_GARED];
    let rows: Vec<(System, &str, Measure)> = systems
        .iter()
        .flat_map(|s| {
            [
                (*s, "mean queue (packets)", queue_mean as Measure),
                (*s, "its standard deviation", queue_deviation as Measure),
            ]
        })
        .collect();
    let note = "Not in the paper, whose figures 5 and 6 are sketches. Means over bins of about 0.13 s, from the end of the warm-up. The \
                target is 4500 to 5500 packets.";
    delays_table(results, "queue", "The bottleneck's queue over time", &rows, note)
}
