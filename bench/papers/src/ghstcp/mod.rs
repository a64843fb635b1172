//! gHSTCP: Reno flows on slow access links beside HighSpeed TCP or gHSTCP flows on fast ones, over
//! drop-tail, Adaptive RED and gARED.
//!
//! The paper's figures are bars without numbers, so only the statements of its text can be
//! compared: `claims.rs`.

mod claims;
#[cfg(test)]
mod tests;

use fathom_experiments::scenario::Outcome;
use fathom_metrics::Estimate;
use fathom_report::{Axis, Entry, Row};

use crate::results::{BySeed, Measure, with};
use crate::{Artefact, Change, Paper, Reason, Results, spec};

const DROPTAIL: &str = "ghstcp-droptail";
const RED: &str = "ghstcp-red";
const TREND: &str = "ghstcp-trend";
/// Propagation delays of the bottleneck (gHSTCP §3.1).
const DELAYS: [&str; 3] = ["25ms", "50ms", "100ms"];
/// Fraction of a run that is warm-up, in all studies: 100 of 200 s.
const WARM_UP: f64 = 0.5;

pub(crate) const PAPER: Paper = Paper {
    name: "ghstcp",
    citation: "Z. Zhang, G. Hasegawa, M. Murata: Performance Analysis and Improvement of HighSpeed TCP with TailDrop/ARED Routers, \
               Osaka University, 2004",
    artefacts: &[
        spec(
            "figure 2",
            "throughput of Reno beside Reno and HighSpeed TCP, drop-tail",
            &[DROPTAIL],
            |r| {
                throughput(
                    r,
                    "Throughput, drop-tail: Reno beside Reno and HighSpeed TCP",
                    [RENO, HIGHSPEED],
                )
            },
        ),
        spec(
            "figure 3",
            "throughput of Reno beside HighSpeed TCP and gHSTCP, drop-tail",
            &[DROPTAIL],
            |r| {
                throughput(
                    r,
                    "Throughput, drop-tail: Reno beside HighSpeed TCP and gHSTCP",
                    [HIGHSPEED, GENTLE],
                )
            },
        ),
        spec("figure 4", "throughput with Adaptive RED beside drop-tail", &[DROPTAIL, RED], |r| {
            throughput(
                r,
                "Throughput of HighSpeed TCP: drop-tail and Adaptive RED",
                [HIGHSPEED, HIGHSPEED_ARED],
            )
        }),
        spec(
            "figure 7",
            "throughput of HighSpeed TCP with Adaptive RED and gHSTCP with gARED",
            &[RED],
            |r| {
                let title = "Throughput: HighSpeed TCP with Adaptive RED, gHSTCP with gARED";
                throughput(r, title, [HIGHSPEED_ARED, GENTLE_GARED])
            },
        ),
        spec("fairness", "S1's share of the total throughput", &[DROPTAIL, RED], |r| {
            let systems = [
                RENO,
                HIGHSPEED,
                GENTLE,
                HIGHSPEED_ARED,
                GENTLE_GARED,
                HIGHSPEED_GARED,
                GENTLE_ARED,
            ];
            let note = "S1's share of the total is one number for the two bars of a case in the \
                        paper's figures. The paper calls a case fairer if S1's bar is higher \
                        relative to S2's bar. S1's five access links of 10 Mbps together have a \
                        fifth of the bottleneck's rate, so the maximum is 20 %.";
            let measures: [(_, Measure); 2] =
                [("S1's share of the total (%)", share), ("utilisation (%)", utilisation)];
            by_delay(
                r,
                "Fairness between the groups, and use of the bottleneck",
                &systems,
                measures,
                note,
            )
        }),
        spec(
            "trend",
            "gHSTCP with other tests of a rising round trip, 100 ms",
            &[TREND],
            trend_table,
        ),
        spec("queue", "how steady the queue is with Adaptive RED and gARED", &[RED], |r| {
            let systems = [HIGHSPEED_ARED, HIGHSPEED_GARED, GENTLE_ARED, GENTLE_GARED];
            let note = "The paper has no such table, because its figures 5 and 6 are sketches. The \
                        mean and the standard deviation are computed from the mean queues of bins \
                        of about 0.26 s, after the warm-up. The target of the queue is 450 to 550 \
                        packets.";
            let measures: [(_, Measure); 2] = [
                ("mean of the queue (packets)", queue_mean),
                ("standard deviation of the queue (packets)", queue_deviation),
            ];
            by_delay(r, "The bottleneck's queue over time", &systems, measures, note)
        }),
    ],
    claims: &[claims::CLAIMS],
    departures: DEPARTURES,
    changes: CHANGES,
};

const CHANGES: &[Change] = &[
    Change {
        id: "ack-delay-taken-off",
        says: "The round-trip times reported to controllers included the peer's acknowledgement \
               delay (RFC 9002 §5.3), so single samples were up to 25 ms longer.",
    },
    Change {
        id: "round-trip-ends-an-ack-earlier",
        says: "Controllers decide once per round trip. Each round trip ended one acknowledgement \
               later than now.",
    },
];

const DEPARTURES: &[&str] = &[
    "QUIC always has selective acknowledgements, so the cases without and with SACK are the same \
     run. The Reno flows of S1 also have selective acknowledgements, unlike in the paper.",
    "Rates and buffers are a tenth of the paper's, so that runs reach a steady state. Windows have \
     hundreds of packets instead of thousands. HighSpeed TCP grows by 5 to 10 packets per round \
     trip instead of 20 to 30.",
    "The paper gives neither the length of its runs nor a warm-up. Here runs take 200 s, and the \
     first 100 s are not counted.",
    "HyStart++ ends the first slow start, so that the first overshoot of a flow does not determine \
     the result. The start times of flows are spread over ten seconds.",
    "TCP's retransmission timeout resets the window. In QUIC, a probe timeout does not reset the \
     window (RFC 9002 §6.2). Only persistent congestion resets it.",
    "QUIC senders start with a window of ten packets, whereas ns-2's senders start with one \
     packet. QUIC receivers acknowledge every second packet, or acknowledge after 25 ms.",
    "Throughput includes only UDP payload, which is 1472 of the 1500 bytes of a packet.",
    "Each host draws a delay of its access link of up to 0.1 ms, so that every seed gives another \
     run. The queues of the access links have 50 packets, which is ns-2's default. The paper does \
     not describe the access links.",
    "The paper has no measure of fairness. Here the measure is S1's share of the total throughput \
     of both groups. The paper's bars show this share.",
    "The paper does not publish its test for rising round-trip times. The test here is the sign of \
     Pearson's correlation over the samples of one round trip. The table `trend` has the results \
     of other tests, with 64 samples per round trip.",
    "The paper's cases 6 to 9 change the controller and the queue together. We added HighSpeed TCP \
     over gARED, and gHSTCP over Adaptive RED.",
];

/// A set of runs that represents one case of the paper, or two cases that differ only in SACK.
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
    /// Returns the axes other than the delay.
    fn axes(&self) -> Vec<(&'static str, &'static str)> {
        [("controller", self.controller)]
            .into_iter()
            .chain(self.queue.map(|queue| ("queue", queue)))
            .collect()
    }

    /// Returns how most of the runs at a delay missed the regime: nothing was dropped, or the flows
    /// of S2, which differ only in their start times, still have throughputs in the order of their
    /// starts. Returns `None` if they did not miss it or nothing is known.
    fn missed(&self, results: &Results, delay: &str) -> Option<Reason> {
        let axes = self.axes();
        let key = with(&axes, "delay", delay);
        let runs: Vec<&Outcome> = results.outcomes(self.study, &key).map(|(_, o)| o).collect();
        let most =
            |of: fn(&Outcome) -> bool| 2 * runs.iter().filter(|o| of(o)).count() > runs.len();
        let controller = self
            .name
            .split(", ")
            .find(|part| part.contains("TCP") || *part == "Reno")
            .unwrap_or_default();
        let run = format!("{controller} over {} at {delay}", self.queue.unwrap_or("drop-tail"));
        if most(idle) {
            let queue =
                self.at(results, delay, |o| o.links.get("left-right").map(|l| l.mean_queue));
            let queue = queue.estimate().map_or(0.0, |e| e.mean);
            Some(Reason::of(
                format!("{run} (mean queue {queue:.1} packets)"),
                "nothing was dropped or marked in the counted time",
            ))
        } else if most(by_start) {
            Some(Reason::of(
                run,
                "the flows behind 100 Mbps still stand in the order of their starts",
            ))
        } else {
            None
        }
    }

    /// Returns a number at a delay.
    fn at(&self, results: &Results, delay: &str, of: Measure) -> BySeed {
        results.by_seed(self.study, &with(&self.axes(), "delay", delay), of)
    }
}

/// Flows per group.
const FLOWS: usize = 5;

/// Returns whether the bottleneck dropped and marked nothing after the warm-up.
fn idle(o: &Outcome) -> bool {
    o.links.get("left-right").is_some_and(|l| l.arrived > 0 && l.dropped + l.marked == 0)
}

/// The order of the starts still shows if the earlier flow gets more in at least this number of the
/// ten pairs of five flows. By chance, 5 of 120 orders, or 4%, reach it. Our choice.
const BY_START: usize = 9;

/// Returns whether the throughputs of S2, whose flows differ only in their start times, fall in the
/// order of the starts.
fn by_start(o: &Outcome) -> bool {
    let rates: Vec<f64> =
        o.groups.get("S2").into_iter().flat_map(|g| &g.flows).map(|f| f.throughput_bps).collect();
    let falls =
        rates.iter().enumerate().map(|(i, a)| rates[i + 1..].iter().filter(|b| a > b).count());
    rates.len() == FLOWS && falls.sum::<usize>() >= BY_START
}

/// Returns the total throughput of a group's flows in Mbit/s; `None` if one of the flows failed,
/// because the total would then lack its share.
fn group(o: &Outcome, name: &str) -> Option<f64> {
    o.groups.get(name).filter(|g| g.flows.len() == FLOWS).map(|g| g.throughput_bps / 1e6)
}

pub(crate) fn s1(o: &Outcome) -> Option<f64> {
    group(o, "S1")
}

pub(crate) fn s2(o: &Outcome) -> Option<f64> {
    group(o, "S2")
}

fn total(o: &Outcome) -> Option<f64> {
    Some(s1(o)? + s2(o)?)
}

/// Returns the percentage of time in which the bottleneck sends.
fn utilisation(o: &Outcome) -> Option<f64> {
    o.links.get("left-right").map(|l| l.utilisation_percent)
}

/// Returns S1's share of both groups together, in percent.
fn share(o: &Outcome) -> Option<f64> {
    total(o).filter(|total| *total > 0.0).and_then(|total| Some(100.0 * s1(o)? / total))
}

/// Returns the queue's bins after the warm-up, in packets. The warm-up is scaled with the length of
/// the run.
fn settled(o: &Outcome) -> Option<&[f64]> {
    let link = o.links.get("left-right")?;
    let first = (WARM_UP * o.seconds / link.bin_seconds).ceil();
    first
        .is_finite()
        .then(|| link.queue_mean.get(first as usize..))
        .flatten()
        .filter(|bins| bins.len() > 1)
}

fn queue_mean(o: &Outcome) -> Option<f64> {
    settled(o).map(|bins| bins.iter().sum::<f64>() / bins.len() as f64)
}

/// Returns the standard deviation of the queue over time, in packets.
fn queue_deviation(o: &Outcome) -> Option<f64> {
    Estimate::of(settled(o)?)?.deviation
}

/// Shows the paper's bars as points over the delay.
fn throughput(results: &Results, title: &str, systems: [System; 2]) -> Artefact {
    let groups: [(&str, Measure); 2] = [("S1", s1), ("S2", s2)];
    let series = systems.map(|system| {
        let curve = |(group, of)| {
            let name = format!("{}: {group}", system.name);
            results.curve(system.study, "delay", &system.axes(), &name, of)
        };
        groups.map(curve)
    });
    let axes = [
        Axis::linear("Propagation delay of the bottleneck (ms)"),
        Axis::linear("Throughput of five flows (Mbit/s)").over(0.0, 250.0),
    ];
    let note = "The paper's figure has bars without numbers. Group S1 has five Reno flows with \
                access links of 10 Mbps each. Group S2 has five flows with access links of 100 \
                Mbps each. The bottleneck has 250 Mbps. The cases without and with SACK are the \
                same run here.";
    Artefact::figure(title, axes, series.as_flattened(), note)
}

/// Shows gHSTCP by test and queue.
fn trend_table(results: &Results) -> Artefact {
    let columns: [(&str, Measure); 4] = [
        ("S1 (Mbit/s)", s1),
        ("S2 (Mbit/s)", s2),
        ("S1's share (%)", share),
        ("utilisation (%)", utilisation),
    ];
    let tests = results.axis(TREND, "trend");
    let rows = ["drop-tail", "gARED"].iter().flat_map(|queue| {
        tests.iter().map(move |test| {
            let of = |(_, of)| {
                Entry::new(results.estimate(TREND, &[("queue", queue), ("trend", test)], of), "")
            };
            Row::new(format!("{queue}, {test}"), columns.map(of))
        })
    });
    let note = "Each test uses 64 evenly spaced samples of a round trip. The default test is the \
                sign of Pearson's r over all samples. The results of the default test and of \
                HighSpeed TCP are in the other tables.";
    Artefact::table(
        "gHSTCP by the test of a rising round trip, 100 ms",
        columns.map(|(head, _)| head),
        rows,
        note,
    )
}

/// Shows two numbers of each of these systems at every delay.
fn by_delay(
    results: &Results,
    title: &str,
    systems: &[System],
    of: [(&str, Measure); 2],
    note: &str,
) -> Artefact {
    let rows = systems.iter().flat_map(|system| {
        of.map(|(what, of)| {
            let ours = DELAYS.map(|delay| Entry::new(system.at(results, delay, of).estimate(), ""));
            Row::new(format!("{}: {what}", system.name), ours)
        })
    });
    Artefact::table(title, ["25 ms", "50 ms", "100 ms"], rows, note)
}
