//! Sync-TCP: web traffic over one or several bottlenecks, with Reno, with ECN and Adaptive RED, and
//! with Sync-TCP.
//!
//! | file | contents |
//! |---|---|
//! | `curves.rs` | distributions of response times of a set of runs |
//! | `detection.rs` | figure 2 from a traced sender: its numbers and claims |
//! | `model.rs` | figures 4 and 5 from the model of web traffic |
//! | `claims.rs`, `several.rs` | claims about one bottleneck; about several, drift and mixes |

mod claims;
mod curves;
mod detection;
mod model;
mod several;
#[cfg(test)]
mod tests;

use fathom_experiments::scenario::Outcome;
use fathom_report::{Axis, Entry, Row, Series};

use crate::results::{BySeed, Measure};
use crate::{Artefact, Change, Paper, Results, spec};
pub(crate) use claims::{largest_lost, largest_seconds};
use curves::{Curve, LARGE, RESPONSES, View};

const ONE: &str = "sync-tcp-one-bottleneck";
const LARGEST: &str = "sync-tcp-largest";
const SEVERAL: &str = "sync-tcp-bottlenecks";
const DRIFT: &str = "sync-tcp-drift";
const MIX: &str = "sync-tcp-mix";
const DETECTION: &str = "sync-tcp-detection";
/// Group of the Sync-TCP connections of a mix. They trust receivers as in the paper, because
/// receivers here do not misreport.
const MIXED_SYNC: &str = "forward/sync:trust=full";

/// Values of the axis `system`.
const RENO: &str = "Reno";
const ARED: &str = "SACK-ARED-ECN";
const SYNC: &str = "Sync-TCP";
const FREE: &str = "100 Mbps";
pub(crate) const SYSTEMS: [&str; 4] = [RENO, ARED, SYNC, FREE];
/// Loads in percent that differ, here and in the paper. Short QUIC connections congest a link at lower loads than
/// the paper's TCP (`sync-tcp-one-bottleneck.toml`).
const PAPERS_LOADS: [(&str, &str); 3] = [("78", "85"), ("80", "90"), ("85", "95")];
/// Values of the axis `case`.
const TWO_AT_75: &str = "75 %, 2 bottlenecks";
const THREE_AT_75: &str = "75 %, 3 bottlenecks";
const TWO_AT_80: &str = "80 %, 2 bottlenecks";
const THREE_AT_80: &str = "80 %, 3 bottlenecks";
/// Values of the axis `mix`, the smallest share of Reno first.
const MIXES: [&str; 4] = ["20% Reno", "40% Reno", "60% Reno", "80% Reno"];

pub(crate) const PAPER: Paper = Paper {
    name: "sync-tcp",
    citation: "M. C. Weigle, K. Jeffay, F. D. Smith: Delay-based early congestion detection and adaptation in TCP: impact on web \
               performance, Computer Communications 28 (2005) 837-850",
    artefacts: &[
        spec(
            "figure 2",
            "Sync-TCP's congestion detection compared with the queue",
            &[DETECTION],
            detection::figure,
        ),
        spec("figure 4", "sizes of responses in the model of web traffic", &[], model::sizes),
        spec("figure 5", "minimum round trips in this model", &[], model::round_trips),
        spec("figure 6", "response times at 75 % load, one bottleneck", &[ONE], |r| {
            one_bottleneck(r, "75")
        }),
        spec(
            "figure 7",
            "response times at 80 % load (paper: 90 %), one bottleneck",
            &[ONE],
            |r| one_bottleneck(r, "80"),
        ),
        spec(
            "figure 8",
            "response times at 85 % load (paper: 95 %), one bottleneck",
            &[ONE],
            |r| one_bottleneck(r, "85"),
        ),
        spec("table 1", "summary at 80 % load (paper: 90 %), one bottleneck", &[ONE], table_1),
        spec(
            "figure 9",
            "response times of responses above 25 kB at 80 % load (paper: 90 %)",
            &[ONE],
            |r| {
                of_systems(
                    r,
                    "HTTP response times, 80 % load (paper: 90 %), responses > 25 kB",
                    "80",
                    &LARGE,
                )
            },
        ),
        spec(
            "figure 10",
            "window of the largest response at 78 % load (paper: 85 %)",
            &[LARGEST],
            largest,
        ),
        spec("figure 11", "response times at 75 % load, two bottlenecks", &[SEVERAL], |r| {
            several(r, TWO_AT_75)
        }),
        spec("figure 12", "response times at 75 % load, three bottlenecks", &[SEVERAL], |r| {
            several(r, THREE_AT_75)
        }),
        spec(
            "figure 13",
            "response times at 80 % load (paper: 90 %), two bottlenecks",
            &[SEVERAL],
            |r| several(r, TWO_AT_80),
        ),
        spec(
            "figure 14",
            "response times at 80 % load (paper: 90 %), three bottlenecks",
            &[SEVERAL],
            |r| several(r, THREE_AT_80),
        ),
        spec("figure 15", "response times of Sync-TCP with drifting clocks", &[ONE, DRIFT], drift),
        spec(
            "figure 16",
            "response times of Reno and Sync-TCP mixed, at 85 % load (paper: 95 %)",
            &[ONE, MIX],
            |r| mixes(r, "Reno/Sync-TCP mix", "forward", true),
        ),
        spec("figure 17", "the Reno connections of these mixes", &[ONE, MIX], |r| {
            mixes(r, "Reno connections of the mix", "forward/reno", false)
        }),
        spec("figure 18", "the Sync-TCP connections of these mixes", &[ONE, MIX], |r| {
            mixes(r, "Sync-TCP connections of the mix", MIXED_SYNC, true)
        }),
    ],
    claims: &[detection::CLAIMS, claims::CLAIMS, several::CLAIMS],
    departures: DEPARTURES,
    changes: CHANGES,
};

const CHANGES: &[Change] = &[Change {
    id: "failures-do-not-count",
    says: "Failed requests counted towards the number of responses after which a run ends, so \
           fewer responses completed. Each figure states the number of failed requests.",
}];

const DEPARTURES: &[&str] = &[
    "QUIC always has selective acknowledgements; in the paper's ns-2, only the system with ECN has \
     them. Reno on QUIC therefore stands for the paper's Reno and for the paper's SACK.",
    "A connection begins with a TLS handshake, in which the server sends a certificate. TCP has no \
     such handshake. Response times include the handshake.",
    "QUIC starts with a window of ten packets, TCP with one or two. More responses are therefore \
     sent completely before the first acknowledgement arrives.",
    "A probe timeout sends a probe and does not change the window. TCP's retransmission timeout \
     resets the window, and is at least 1 s or 200 ms.",
    "Receivers acknowledge every second packet or after 25 ms (ns-2: 100 ms). Every packet has 28 \
     bytes of IP and UDP headers (ns-2: 40 bytes of IP and TCP headers).",
    "Sync-TCP runs as in the paper (`sync:trust=full`), because receivers here are honest. By \
     default, the window of `sync` grows no faster than Reno's after a loss, whatever a receiver \
     reports.",
    "One-way delays are sent in a frame beside ACK frames (`lean`), not in every packet as in \
     §3.2.",
    "The rate of new connections for a load is computed from the sizes of requests and responses \
     in the model, and from their overhead on the wire per connection and per byte. Two downloads \
     without queueing measure this overhead. The paper instead runs its network at 100 Mbps and \
     counts the traffic.",
    "The load counts the bytes of both directions of a connection, because the links in the \
     paper's calibration carry both.",
    "The paper does not say which part of the load is cross traffic if there are several \
     bottlenecks. Here it is half with two bottlenecks and one sixth with three.",
    "Figure 10 here shows the largest response to the first half of the requests; the paper's \
     figure shows the largest completed response (49 MB). The laboratory does not store the \
     minimum RTT of the response, so the paper's remark on that RTT is not judged.",
    "The loads are 75, 78, 80 and 85 %, where the paper has 75, 85, 90 and 95 %. At 90 % and above, \
     the drops of short QUIC connections run away (docs/collapse.md): with Reno on quinn, 38 % of \
     the packets were dropped over 250,000 responses, and 3.9 % with the paper's TCP. No \
     controller then matters much. At 80 and 85 %, drops are near those of the paper's 90 %. \
     docs/validation.md has the same claims with TCP, at the paper's loads.",
    "Runs end after 30,000 responses (20,000 with several bottlenecks), the paper's after 250,000 \
     (150,000). Only the runs of figure 10 have 250,000 responses.",
    "The Adaptive RED queue holds up to 340 packets, five times the bandwidth-delay product of 10 \
     Mbps and 77 ms (68 packets).",
    "In a mix, each connection gets a random controller; every run makes the same choices.",
    "With drift, each connection gets one of 32 clocks at random. The drifts of these clocks are \
     evenly spaced from 0 to 500 us/s.",
    "Studies have five seeds, and that of figure 10 has three. The paper has one. Runs with the same seed have the same requests, \
     so differences are paired by seed.",
];

/// Returns a load and, if the paper's is another, the paper's.
fn load_title(load: &str) -> String {
    match PAPERS_LOADS.iter().find(|(here, _)| *here == load) {
        Some((_, paper)) => format!("{load} % load (paper: {paper} %)"),
        None => format!("{load} % load"),
    }
}

/// Draws the systems' curves over one bottleneck.
fn of_systems(results: &Results, title: &str, load: &'static str, view: &View) -> Artefact {
    curves::figure(results, title, &SYSTEMS.map(|system| Curve::one(load, system)), view)
}

fn one_bottleneck(results: &Results, load: &'static str) -> Artefact {
    of_systems(
        results,
        &format!("HTTP response times, {}, 1 bottleneck", load_title(load)),
        load,
        &RESPONSES,
    )
}

/// Draws the response times of the paper's systems in another study at a load, with the axes of the
/// paper's figure 7.
pub(crate) fn response_times_of(
    results: &Results,
    study: &'static str,
    load: &'static str,
    title: &str,
) -> Artefact {
    curves::figure(
        results,
        title,
        &SYSTEMS.map(|system| Curve::one_of(study, load, system)),
        &RESPONSES,
    )
}

fn several(results: &Results, case: &'static str) -> Artefact {
    let curves = [RENO, ARED, SYNC].map(|system| Curve::several(case, system));
    let (load, bottlenecks) = case.split_once(" %, ").unwrap_or((case, ""));
    let title = format!("HTTP response times, {}, {bottlenecks}", load_title(load));
    curves::figure(results, &title, &curves, &RESPONSES)
}

fn drift(results: &Results) -> Artefact {
    let curves = ["75", "80", "85"].map(|load| {
        let steady = Curve::one(load, SYNC).named(format!("{load} %, no drift"));
        [steady, Curve::drift(load).named(format!("{load} %, drift"))]
    });
    curves::figure(
        results,
        "HTTP response times, Sync-TCP with clock drift",
        curves.as_flattened(),
        &RESPONSES,
    )
}

/// Draws figures 16 to 18: connections of the mixes, those of Reno alone and, unless the figure
/// shows Reno's own, those of Sync-TCP alone.
fn mixes(results: &Results, title: &str, group: &'static str, with_sync: bool) -> Artefact {
    let alone = |system| Curve::one("85", system).named(format!("100% {system}"));
    let mixes = MIXES.iter().map(|mix| Curve::mix(mix, group));
    let curves: Vec<Curve> =
        with_sync.then(|| alone(SYNC)).into_iter().chain(mixes).chain([alone(RENO)]).collect();
    curves::figure(
        results,
        &format!("HTTP response times, {}, {title}", load_title("85")),
        &curves,
        &RESPONSES,
    )
}

pub(crate) fn drops(o: &Outcome) -> Option<f64> {
    o.links.get("r0-r1").map(|l| l.drops_percent)
}

pub(crate) fn queue(o: &Outcome) -> Option<f64> {
    o.links.get("r0-r1").map(|l| l.mean_queue)
}

/// Returns the responses of a group above 25 kB, in percent of all.
fn large_percent(o: &Outcome, group: &str) -> Option<f64> {
    let large = o.groups.get(group)?.times_large.as_ref().map_or(0, |t| t.count);
    Some(100.0 * large as f64 / o.groups.get("forward")?.responses as f64)
}

pub(crate) fn size(o: &Outcome) -> Option<f64> {
    o.groups.get("forward").map(|g| g.mean_size)
}

fn goodput(o: &Outcome) -> Option<f64> {
    o.groups.get("forward").map(|g| g.goodput_per_response_kbps)
}

pub(crate) fn median(o: &Outcome) -> Option<f64> {
    curves::times(o, "forward").map(|t| t.median_ms)
}

pub(crate) fn mean(o: &Outcome) -> Option<f64> {
    curves::times(o, "forward").map(|t| t.mean_ms)
}

/// A row of table 1: its label, the function of a run, and the paper's numbers for [`SYSTEMS`].
type Summary = (&'static str, Measure, [&'static str; 4]);

/// Sync-TCP table 1.
const TABLE_1: [Summary; 6] = [
    ("Packet drops at R0 (%)", drops, ["3.9", "13.9", "2.0", "0"]),
    ("Mean queue at R0 (packets)", queue, ["64.4", "19.4", "53.9", "0"]),
    ("Mean completed response (B)", size, ["6960", "6353", "7202", "7256"]),
    ("Goodput per response (kbps)", goodput, ["89.4", "83.9", "99.6", "226.8"]),
    ("Median response time (ms)", median, ["430", "810", "390", "230"]),
    ("Mean response time (ms)", mean, ["1268.1", "4654.7", "943.6", "406.1"]),
];

fn table_1(results: &Results) -> Artefact {
    let title = format!("{}, 1 bottleneck", load_title("80"));
    table_1_of(&title, |system, of| Curve::one("80", system).by_seed(results, of))
}

/// Builds table 1 with this title from a number for each of [`SYSTEMS`].
pub(crate) fn table_1_of(title: &str, ours: impl Fn(&'static str, Measure) -> BySeed) -> Artefact {
    let rows = TABLE_1.map(|(label, of, paper)| {
        let ours = SYSTEMS.map(|system| ours(system, of).estimate());
        Row::new(label, ours.into_iter().zip(paper).map(|(ours, paper)| Entry::new(ours, paper)))
    });
    let note = "Each number stands beside the paper's. Queue and drops are those of the link from \
                R0 to R1 during the whole run.";
    Artefact::table(title, SYSTEMS, rows, note)
}

/// Draws figure 10: the window of the largest response.
fn largest(results: &Results) -> Artefact {
    // Packets as counted by the paper's window: 1392 bytes of UDP payload each.
    let packets = |bytes: u64| bytes as f64 / 1_392.0;
    let (mut series, mut ends) = (Vec::new(), Vec::new());
    for system in [RENO, SYNC] {
        let key = [("system", system)];
        let first =
            results.outcomes(LARGEST, &key).next().and_then(|(_, o)| o.groups.get("forward"));
        let Some(group) = first else { continue };
        ends.push(match group.traced_end {
            Some(end) => format!(
                "{system}: {} bytes took {} s, and {} of {} packets were lost",
                group.traced, end.seconds, end.lost, end.sent
            ),
            None => {
                format!("{system}: {} bytes were not complete when the run ended", group.traced)
            }
        });
        // Runs of earlier versions continue with other connections that reused the flow's number;
        // their times start again from zero.
        let points = group.window.chunk_by(|a, b| a.at <= b.at).next().unwrap_or_default();
        series
            .push(Series::line(system, points.iter().map(|p| (p.at, packets(p.window))).collect()));
    }
    let axes =
        [Axis::linear("Time (s)"), Axis::linear("Congestion window (packets)").over(0.0, 80.0)];
    let note = format!(
        "The figure shows the first seed. {}. In the paper, the response has 49 MB, and Sync-TCP is \
         over 200 s faster, with a fifth of the drops.",
        ends.join("; ")
    );
    let title = format!("Congestion window of the largest response, {}", load_title("78"));
    Artefact::figure(title, axes, series, note)
}
