//! DCA: what round trips say of losses, and what a delay-based connection costs its user and spares the network.
//!
//! | file | what is in it |
//! |---|---|
//! | `measured.rs` | tables 3-4 and 3-5, figures 3-1 to 3-3, from the tcpRTT series of a Reno connection |
//! | `simulated.rs` | the models of the paths, tables 4-1 to 4-5, §4.5 and figure 4-7 |
//! | `claims.rs`, `predicates.rs` | what the paper says of them, and the predicates on the numbers |
//! | `judge.rs` | verdicts over estimates |

mod claims;
mod measured;
mod predicates;
mod simulated;
#[cfg(test)]
mod tests;
mod verdicts;

use std::collections::BTreeMap;

use fathom_metrics::Estimate;

use crate::scenario::Outcome;

use super::{Artefact, ArtefactSpec, Body, Entry, Paper, Results, Row, Table};

const EMORY: &str = "dca-measured-emory";
const ASU: &str = "dca-measured-asu";
const ALTERED: &str = "dca-measured-altered";
const MEASURED: &[&str] = &[EMORY, ASU, ALTERED];
const PAIRED: &str = "dca-paired";
const PAIRED_ALTERED: &str = "dca-altered";
const ALONE: &str = "dca-alone";
const SHARES: &str = "dca-figure-4-7";

/// Levels of background in place of times of day, in percent of the tuned number of web users.
const LEVELS: [&str; 5] = ["80%", "90%", "100%", "110%", "120%"];
/// The level that was tuned.
const TUNED: &str = "100%";
/// Congestion reduction levels as the paper prints them, and our controllers.
const REDUCTIONS: [(&str, &str); 3] = [("50%", "dca"), ("25%", "dca:reduction=0.25"), ("12.5%", "dca:reduction=0.125")];

pub(super) const PAPER: Paper = Paper {
    name: "dca",
    citation: "J. Martin, A. Nilsson, I. Rhee: The Incremental Deployability of RTT-Based Congestion Avoidance for High Speed TCP \
               Internet Connections, ACM SIGMETRICS 2000",
    artefacts: &[
        ArtefactSpec {
            id: "models",
            shows: "losses and delays of the models beside the wanted ones",
            studies: MEASURED,
        },
        ArtefactSpec {
            id: "table 3-4",
            shows: "losses that a rise of the round trip comes before: the indication metric",
            studies: MEASURED,
        },
        ArtefactSpec { id: "table 3-5", shows: "throughput that DCA would lose, predicted", studies: MEASURED },
        ArtefactSpec { id: "figure 3-1", shows: "delay before and after losses, path 1 (Emory)", studies: &[EMORY] },
        ArtefactSpec { id: "figure 3-2", shows: "delay before and after losses, path 7 (ASU)", studies: &[ASU] },
        ArtefactSpec {
            id: "figure 3-3",
            shows: "round trips of all packets and of those before losses",
            studies: &[EMORY],
        },
        ArtefactSpec {
            id: "table 4-1",
            shows: "throughput of DCA against Reno by reduction level",
            studies: &[PAIRED],
        },
        ArtefactSpec { id: "table 4-2", shows: "losses of DCA against Reno by reduction level", studies: &[PAIRED] },
        ArtefactSpec {
            id: "table 4-3",
            shows: "throughput of DCA against Reno, altered Emory model",
            studies: &[PAIRED_ALTERED],
        },
        ArtefactSpec { id: "table 4-4", shows: "throughput of Vegas and DUAL against Reno", studies: &[PAIRED] },
        ArtefactSpec {
            id: "table 4-5",
            shows: "throughput of Vegas against Reno, altered Emory model",
            studies: &[PAIRED_ALTERED],
        },
        ArtefactSpec { id: "section 4.5", shows: "what one DCA connection changes for the links", studies: &[ALONE] },
        ArtefactSpec { id: "figure 4-7", shows: "loss rate over the share of DCA in the traffic", studies: &[SHARES] },
    ],
    figures,
    claims: |results| claims::CLAIMS.iter().filter_map(|claim| claim.claim(results)).collect(),
    departures: DEPARTURES,
};

const DEPARTURES: &[&str] = &[
    "Tables 3-4 and 3-5 and figures 3-1 to 3-3 come from connections over the Internet of 1999, which nobody can measure again: here a \
     Reno connection crosses our models of two of the seven paths, five levels of background standing for times of day and seeds for days.",
    "The paper has no figure of the Emory path: rates and delays of its links are ours, from the facts of its text.",
    "The background is tuned, as the paper's was, until the links lose what they should, with a Reno connection alone; numbers of users, \
     their windows and round trips, and the times of the UDP sources are ours.",
    "The altered Emory model has 470 (heavy) and 580 (light) web users instead of 2200, who would offer our link five times what it \
     carries; idle times are the paper's.",
    "The measured connections are QUIC: selective acknowledgements and loss recovery without coarse timeouts are always there, so Reno \
     itself does better after losses than the paper's Reno.",
    "A probe timeout does not reset the window as TCP's retransmission timeout does (RFC 9002 §6.2); only persistent congestion does.",
    "QUIC starts with ten packets, and acknowledges every second packet or after 25 ms.",
    "Vegas-CAM is our vegas: congestion avoidance only, with QUIC's loss recovery; what the paper says of Vegas's own recovery and of \
     NewReno (DCA §4.4: 70 and 76 % more throughput) cannot be tested.",
    "Background users are packet-level senders with QUIC's loss detection on connections of their own for each transfer; the smallest round \
     trip that a Vegas user sees is that of its small first packet, 0.3 ms less than a full one takes at 45 Mbit/s, which matters little.",
    "The prediction of table 3-5 takes for the first timeout QUIC's own: mean round trip, four mean deviations and 25 ms, in place of the \
     measured timeouts of TCP.",
    "The measured connections start after 20 s, on queues that the background has filled, and are counted for 500 s from then on; the \
     paper does not say when its own start. This was changed after a first run of each system had been seen: a Vegas connection that \
     starts with the background sees the path empty once. What it got changed little.",
    "Figure 4-7 places its points by the packets that are sent over the link, as measured, and is made of ten shares.",
];

/// A number for each seed.
type BySeed = BTreeMap<u64, f64>;

/// A number of every seed of a combination; seeds that do not have it are left out.
fn by_seed(results: &Results, study: &str, key: &[(&str, &str)], of: impl Fn(&Outcome) -> Option<f64>) -> BySeed {
    results.outcomes(study, key).filter_map(|(seed, outcome)| Some((seed, of(outcome)?))).collect()
}

fn estimate(values: &BySeed) -> Option<Estimate> {
    Estimate::of(&values.values().copied().collect::<Vec<_>>())
}

/// The mean of `a - b` over the seeds that have both.
fn difference(a: &BySeed, b: &BySeed) -> Option<Estimate> {
    let pairs: Vec<f64> = a.iter().filter_map(|(seed, a)| Some(a - b.get(seed)?)).collect();
    Estimate::of(&pairs)
}

/// The mean of `(a - b) / b` in percent over the seeds that have both and a `b` that is not zero.
fn relative(a: &BySeed, b: &BySeed) -> Option<Estimate> {
    let pairs = a.iter().filter_map(|(seed, a)| b.get(seed).filter(|b| **b != 0.0).map(|b| 100.0 * (a - b) / b));
    Estimate::of(&pairs.collect::<Vec<_>>())
}

/// The mean over several combinations, seed by seed: seeds that all of them have.
fn mean_of(parts: &[BySeed]) -> BySeed {
    let Some((first, rest)) = parts.split_first() else { return BySeed::new() };
    let all = first.iter().filter_map(|(seed, value)| {
        let others: Option<Vec<f64>> = rest.iter().map(|part| part.get(seed).copied()).collect();
        Some((*seed, (value + others?.iter().sum::<f64>()) / parts.len() as f64))
    });
    all.collect()
}

fn entry(ours: Option<Estimate>, paper: &str) -> Entry {
    Entry { ours, paper: (!paper.is_empty()).then(|| paper.to_owned()) }
}

fn row(label: &str, entries: Vec<Entry>) -> Row {
    Row { label: label.to_owned(), entries }
}

fn table(id: &str, title: &str, columns: &[&str], rows: Vec<Row>, note: &str) -> Artefact {
    let columns = columns.iter().map(|c| (*c).to_owned()).collect();
    Artefact { id: id.into(), title: title.into(), body: Body::Table(Table { columns, rows }), note: note.into() }
}

fn figures(results: &Results) -> Vec<Artefact> {
    // In the order of `PAPER.artefacts`.
    let makers: [fn(&Results) -> Artefact; 13] = [
        simulated::models,
        measured::table_3_4,
        measured::table_3_5,
        measured::figure_3_1,
        measured::figure_3_2,
        measured::figure_3_3,
        simulated::table_4_1,
        simulated::table_4_2,
        simulated::table_4_3,
        simulated::table_4_4,
        simulated::table_4_5,
        simulated::section_4_5,
        simulated::figure_4_7,
    ];
    let there = PAPER.artefacts.iter().zip(makers).filter(|(wanted, _)| results.have(wanted.studies));
    there.map(|(_, make)| make(results)).collect()
}
