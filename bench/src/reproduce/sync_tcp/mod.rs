//! Sync-TCP: web traffic over one or several bottlenecks, with Reno, with ECN and Adaptive RED, and with Sync-TCP.
//!
//! | file | what is in it |
//! |---|---|
//! | `curves.rs` | distributions of response times of a set of runs |
//! | `detection.rs` | figure 2 from a traced sender |
//! | `claims.rs`, `several.rs` | what the text says: of one bottleneck; of several, of drift and of mixes |

mod claims;
mod curves;
mod detection;
mod several;
#[cfg(test)]
mod tests;

use crate::scenario::Outcome;

use super::{Artefact, ArtefactSpec, Axis, Body, Claim, Entry, Figure, Paper, Results, Row, Series, Table};
use curves::{Curve, LARGE, RESPONSES};

const ONE: &str = "sync-tcp-one-bottleneck";
const LARGEST: &str = "sync-tcp-largest";
const SEVERAL: &str = "sync-tcp-bottlenecks";
const DRIFT: &str = "sync-tcp-drift";
const MIX: &str = "sync-tcp-mix";
const DETECTION: &str = "sync-tcp-detection";
/// Sync-TCP's part of a mix: the paper's, for receivers here tell the truth.
const MIXED_SYNC: &str = "forward/sync:trust=full";

/// Values of the axis `system`.
const RENO: &str = "Reno";
const ARED: &str = "SACK-ARED-ECN";
const SYNC: &str = "Sync-TCP";
const FREE: &str = "100 Mbps";
/// Values of the axis `mix`, the least Reno first.
const MIXES: [&str; 4] = ["20% Reno", "40% Reno", "60% Reno", "80% Reno"];

pub(super) const PAPER: Paper = Paper {
    name: "sync-tcp",
    citation: "M. C. Weigle, K. Jeffay, F. D. Smith: Delay-based early congestion detection and adaptation in TCP: impact on web \
               performance, Computer Communications 28 (2005) 837-850",
    artefacts: &[
        ArtefactSpec {
            id: "figure 2",
            shows: "Sync-TCP's congestion detection beside the queue",
            studies: &[DETECTION],
        },
        ArtefactSpec { id: "figure 6", shows: "response times at 75 % load, one bottleneck", studies: &[ONE] },
        ArtefactSpec { id: "figure 7", shows: "response times at 90 % load, one bottleneck", studies: &[ONE] },
        ArtefactSpec { id: "figure 8", shows: "response times at 95 % load, one bottleneck", studies: &[ONE] },
        ArtefactSpec { id: "table 1", shows: "summary at 90 % load, one bottleneck", studies: &[ONE] },
        ArtefactSpec { id: "figure 9", shows: "response times of responses above 25 kB at 90 % load", studies: &[ONE] },
        ArtefactSpec { id: "figure 10", shows: "window of the largest response at 85 % load", studies: &[LARGEST] },
        ArtefactSpec { id: "figure 11", shows: "response times at 75 % load, two bottlenecks", studies: &[SEVERAL] },
        ArtefactSpec { id: "figure 12", shows: "response times at 75 % load, three bottlenecks", studies: &[SEVERAL] },
        ArtefactSpec { id: "figure 13", shows: "response times at 90 % load, two bottlenecks", studies: &[SEVERAL] },
        ArtefactSpec { id: "figure 14", shows: "response times at 90 % load, three bottlenecks", studies: &[SEVERAL] },
        ArtefactSpec {
            id: "figure 15",
            shows: "response times of Sync-TCP with drifting clocks",
            studies: &[ONE, DRIFT],
        },
        ArtefactSpec {
            id: "figure 16",
            shows: "response times of Reno and Sync-TCP mixed, at 95 % load",
            studies: &[ONE, MIX],
        },
        ArtefactSpec { id: "figure 17", shows: "the Reno connections of these mixes", studies: &[ONE, MIX] },
        ArtefactSpec { id: "figure 18", shows: "the Sync-TCP connections of these mixes", studies: &[ONE, MIX] },
    ],
    figures,
    claims,
    departures: DEPARTURES,
};

const DEPARTURES: &[&str] = &[
    "QUIC instead of TCP: selective acknowledgements always, so Reno stands for the paper's Reno and for its SACK; in ns-2 only the one \
     with ECN has them.",
    "A connection opens with a TLS handshake whose certificate crosses the network, which TCP's has not; response times include it.",
    "QUIC starts with ten packets instead of TCP's one or two, so more responses are sent before any acknowledgement.",
    "A probe timeout sends a probe and leaves the window alone, where TCP's retransmission timeout, a second or 200 ms at least, resets it.",
    "An acknowledgement comes for every second packet or after 25 ms, in ns-2 after 100 ms; every packet has 28 bytes of IP and UDP, in \
     ns-2 40 of IP and TCP.",
    "Sync-TCP is run by the letter (`sync:trust=full`), for receivers here tell the truth. The catalogue's `sync` grows no faster after a \
     loss than Reno does, whatever a receiver says.",
    "One-way delays travel in a frame beside acknowledgements (lean), not in every packet as in §3.2.",
    "Rates of new connections for a load are reckoned: two downloads on a network that does not queue say what a connection and each \
     byte cost on the wire, the model's requests say the rest. The paper runs its network at 100 Mbps and counts.",
    "Load counts both directions of a connection, as the links of the paper's calibration carry both.",
    "How the load of several bottlenecks divides is not published: with two, half is cross traffic, with three, one sixth.",
    "The largest response of figure 10 is the largest among the first half of the requests; the paper's is the largest that completed, \
     49 MB. Its smallest round trip is not kept, so the paper's remark on it is not judged.",
    "Over a whole run, near 90 % and above, QUIC collapses where the paper's TCP did not. Arrivals come in bursts of minutes; while they \
     exceed the link, lost handshake packets, of 1200 bytes each, are sent again in pairs, acknowledgements are lost on their way back, and \
     so much arrives twice that the load stays above the link's rate: a third of all packets is dropped from then on. It is no matter of \
     one stack (Reno, 90 %, 50,000 responses: 18 % of packets lost with quinn, 24 % with quiche, 54 % with noq), and no controller can \
     prevent it, for most responses end within the initial window. The first 10,000 responses have the paper's drops (4.0 %, paper 3.9 %) \
     and queue (55 packets, paper 64).",
    "A request fails after two minutes of silence. Some do in a collapse: probe timeouts double each time, and quinn divides them between \
     handshake packets and data that the server cannot read before them.",
    "The Adaptive RED queue holds 340 packets, which is five times the product of 10 Mbps and 77 ms (68 packets).",
    "Each connection of a mix gets a random controller, the same in every run.",
    "With drift, each connection gets one of 32 clocks at random, evenly spaced from 0 to 500 us/s.",
    "One seed, as in the paper; a difference then counts from half a percent of all responses on, or 5 % of the larger mean (both ours).",
];

fn figures(results: &Results) -> Vec<Artefact> {
    let mut artefacts = vec![
        detection::figure(results),
        one_bottleneck(results, "figure 6", "75"),
        one_bottleneck(results, "figure 7", "90"),
        one_bottleneck(results, "figure 8", "95"),
        table_1(results),
        large(results),
        largest(results),
    ];
    let several = [("figure 11", "75 %, 2 bottlenecks"), ("figure 12", "75 %, 3 bottlenecks")].into_iter();
    for (id, case) in several.chain([("figure 13", "90 %, 2 bottlenecks"), ("figure 14", "90 %, 3 bottlenecks")]) {
        let curves: Vec<Curve> = [RENO, ARED, SYNC].iter().map(|system| Curve::several(case, system)).collect();
        artefacts.push(curves::figure(results, id, &format!("HTTP response times, {case}"), &curves, &RESPONSES));
    }
    artefacts.push(drift(results));
    artefacts.extend(mixes(results));
    artefacts
}

fn claims(results: &Results) -> Vec<Claim> {
    let checks = detection::CLAIMS.iter().chain(claims::CLAIMS).chain(several::CLAIMS);
    checks.filter_map(|check| check.claim(results)).collect()
}

fn one_bottleneck(results: &Results, id: &str, load: &'static str) -> Artefact {
    let curves: Vec<Curve> = [RENO, ARED, SYNC, FREE].iter().map(|system| Curve::one(load, system)).collect();
    curves::figure(results, id, &format!("HTTP response times, {load} % load, 1 bottleneck"), &curves, &RESPONSES)
}

fn large(results: &Results) -> Artefact {
    let curves: Vec<Curve> = [RENO, ARED, SYNC, FREE].iter().map(|system| Curve::one("90", system)).collect();
    curves::figure(results, "figure 9", "HTTP response times, 90 % load, responses > 25 kB", &curves, &LARGE)
}

fn drift(results: &Results) -> Artefact {
    let curves: Vec<Curve> = (["75", "90", "95"].iter())
        .flat_map(|load| {
            let named = |curve: Curve, what: &str| Curve { name: format!("{load} %, {what}"), ..curve };
            [named(Curve::one(load, SYNC), "no drift"), named(Curve::drift(load), "drift")]
        })
        .collect();
    curves::figure(results, "figure 15", "HTTP response times, Sync-TCP with clock drift", &curves, &RESPONSES)
}

/// Figures 16 to 18: all connections of a mix, those of Reno, those of Sync-TCP.
fn mixes(results: &Results) -> [Artefact; 3] {
    let of = |group: &'static str| MIXES.iter().map(move |mix| Curve::mix(mix, group));
    let alone = |system, name: &str| Curve { name: name.into(), ..Curve::one("95", system) };
    let (reno, sync) = (|| alone(RENO, "100% Reno"), || alone(SYNC, "100% Sync-TCP"));
    let all: Vec<Curve> = [sync()].into_iter().chain(of("forward")).chain([reno()]).collect();
    let renos: Vec<Curve> = of("forward/reno").chain([reno()]).collect();
    let syncs: Vec<Curve> = [sync()].into_iter().chain(of(MIXED_SYNC)).chain([reno()]).collect();
    let figure = |id, title, curves: &[Curve]| curves::figure(results, id, title, curves, &RESPONSES);
    [
        figure("figure 16", "HTTP response times, 95 % load, Reno/Sync-TCP mix", &all),
        figure("figure 17", "HTTP response times, 95 % load, Reno connections of the mix", &renos),
        figure("figure 18", "HTTP response times, 95 % load, Sync-TCP connections of the mix", &syncs),
    ]
}

/// A number of a run.
type Measure = fn(&Outcome) -> Option<f64>;

/// A row of table 1: its label, what it is of a run, and the paper's numbers for Reno, SACK-ARED-ECN, Sync-TCP and 100 Mbps.
struct Summary {
    label: &'static str,
    of: Measure,
    paper: [&'static str; 4],
}

fn drops(o: &Outcome) -> Option<f64> {
    o.links.get("r0-r1").map(|l| l.drops_percent)
}

fn queue(o: &Outcome) -> Option<f64> {
    o.links.get("r0-r1").map(|l| l.mean_queue)
}

fn size(o: &Outcome) -> Option<f64> {
    o.groups.get("forward").map(|g| g.mean_size)
}

fn goodput(o: &Outcome) -> Option<f64> {
    o.groups.get("forward").map(|g| g.goodput_per_response_kbps)
}

fn median(o: &Outcome) -> Option<f64> {
    curves::times(o, "forward").map(|t| t.median_ms)
}

fn mean(o: &Outcome) -> Option<f64> {
    curves::times(o, "forward").map(|t| t.mean_ms)
}

/// Sync-TCP table 1.
const TABLE_1: [Summary; 6] = [
    Summary { label: "Packet drops at R0 (%)", of: drops, paper: ["3.9", "13.9", "2.0", "0"] },
    Summary { label: "Mean queue at R0 (packets)", of: queue, paper: ["64.4", "19.4", "53.9", "0"] },
    Summary { label: "Mean completed response (B)", of: size, paper: ["6960", "6353", "7202", "7256"] },
    Summary { label: "Goodput per response (kbps)", of: goodput, paper: ["89.4", "83.9", "99.6", "226.8"] },
    Summary { label: "Median response time (ms)", of: median, paper: ["430", "810", "390", "230"] },
    Summary { label: "Mean response time (ms)", of: mean, paper: ["1268.1", "4654.7", "943.6", "406.1"] },
];

fn table_1(results: &Results) -> Artefact {
    let systems = [RENO, ARED, SYNC, FREE];
    let rows = TABLE_1.iter().map(|row| {
        let entry = |(system, paper): (&&str, &&str)| Entry {
            ours: results.estimate(ONE, &[("load", "90"), ("system", system)], row.of),
            paper: Some((*paper).to_owned()),
        };
        Row { label: row.label.into(), entries: systems.iter().zip(&row.paper).map(entry).collect() }
    });
    Artefact {
        id: "table 1".into(),
        title: "90 % total load, 1 bottleneck".into(),
        body: Body::Table(Table { columns: systems.map(str::to_owned).into(), rows: rows.collect() }),
        note: "Ours beside the paper's. Queue and drops are of the link from R0 to R1, over all time.".into(),
    }
}

/// Figure 10: the window of the largest response.
fn largest(results: &Results) -> Artefact {
    // What the paper's window counts: packets of 1392 bytes of UDP payload.
    let packets = |bytes: u64| bytes as f64 / 1_392.0;
    let first = |system| results.outcomes(LARGEST, &[("system", system)]).next().map(|(_, o)| o.clone());
    let mut ends = Vec::new();
    let series = [RENO, SYNC].into_iter().filter_map(|system| {
        let outcome = first(system)?;
        let group = outcome.groups.get("forward")?;
        ends.push(match group.traced_end {
            Some(end) => format!(
                "{system}: {} bytes in {} s, {} of {} packets lost",
                group.traced, end.seconds, end.lost, end.sent
            ),
            None => format!("{system}: {} bytes, not complete when the run ended", group.traced),
        });
        // Runs of earlier versions go on with other connections that came to have the flow's number: their times begin anew.
        let points = group.window.chunk_by(|a, b| a.at <= b.at).next().unwrap_or_default();
        let points = points.iter().map(|p| (p.at, packets(p.window))).collect();
        Some(Series { name: system.into(), points, spread: None, scatter: false })
    });
    let series = series.collect();
    Artefact {
        id: "figure 10".into(),
        title: "Congestion window of the largest response, 85 % load".into(),
        body: Body::Figure(Figure {
            x: Axis { label: "Time (s)".into(), log: false, range: None },
            y: Axis { label: "Congestion window (packets)".into(), log: false, range: Some((0.0, 80.0)) },
            series,
        }),
        note: format!(
            "The first seed. {}. The paper: 49 MB, Sync-TCP over 200 s faster with a fifth of the drops.",
            ends.join("; ")
        ),
    }
}
