//! Packet size (Wilson 2008): fairness among flows of one packet size (§4.3.1) and of two (§4.3.2),
//! and questions that the thesis leaves open: adaptive sizes, and active queues (§1.4, §4.5.3, §5).
//!
//! | file | contents |
//! |---|---|
//! | `figures.rs` | figures and tables |
//! | `claims.rs` | claims of the thesis |

mod claims;
mod figures;
#[cfg(test)]
mod tests;

pub(crate) use claims::PHASE;
pub(crate) use figures::SIZES;

use fathom_experiments::scenario::Outcome;
use fathom_metrics::{ShareDistribution, WindowFairness};

use crate::{Change, Paper};

const ALIKE: &str = "packet-size-4.3.1";
const MIXED: &str = "packet-size-4.3.2";
const ADAPTIVE: &str = "packet-size-adaptive";
const BESIDE: &str = "packet-size-adaptive-mixed";

pub(crate) const PAPER: Paper = Paper {
    name: "packet-size",
    citation: "S. Wilson: An Adaptive Packet Size Approach to TCP Congestion Control. MSc thesis, University of British Columbia, 2008",
    artefacts: figures::ARTEFACTS,
    claims: &[claims::CLAIMS],
    departures: DEPARTURES,
    changes: CHANGES,
};

const CHANGES: &[Change] = &[
    Change {
        id: "round-trip-ends-an-ack-earlier",
        says: "A round trip, after which the controller decides again, ended one acknowledgement \
               later.",
    },
    Change {
        id: "losses-after-warm-up",
        says: "Datagrams sent and lost were counted from the beginning of a run, including the \
               losses in ten seconds of warm-up.",
    },
];

const DEPARTURES: &[&str] = &[
    "The flows are QUIC connections of a real stack with NewReno's window, not ns-2's TCP agents.",
    "A probe timeout (RFC 9002 §6.2) sends probes and does not change the window, whereas a TCP \
     timeout reduces it to one packet. Only persistent congestion reduces it, to two packets. So \
     flows starve less than in the thesis.",
    "Losses are detected by packet number, which has the effect of both selective acknowledgements \
     and limited transmit. The initial window is 10 packets, the smallest 2. Receivers acknowledge \
     every second packet or after 25 ms.",
    "The smallest packets have 278 bytes on the wire instead of 250, because the sender's shaping \
     socket does not trim below 250 bytes of UDP payload.",
    "Every packet has 28 bytes of IP and UDP and about 25 of QUIC headers and tag; TCP's has 40 \
     bytes. ACK frames are sent even if a small packet has no room for them, so a few packets are \
     larger than requested.",
    "A flow begins with a TLS handshake in packets of 1200 bytes or more, whatever its packet size.",
    "The thesis does not give the length of a run. Here it is 110 s, of which the first 10 s are \
     not counted. Starts are spread over the first second.",
    "The fair share counts bytes on the wire. In round two it is that of equal packet rates; the \
     thesis calls this the natural penalty of small packets, and does not say how it accounts for \
     it.",
    "Flows below 5 % of their share count as starved; the thesis has no number.",
    "The receiver's window has 500 of the stack's own packets of 1200 bytes or more; it limits no \
     flow.",
    "A quarter of 50 flows are 12 flows, three quarters 38.",
    "Figures 4.12 and 4.13 do not give the size of their small packets. Here they are those of \
     figures 4.14 and 4.15.",
    "The rule for adapting sizes is this project's, because the thesis has none: at least eight \
     packets in the window, with UDP payloads from the path's size down to 250 bytes.",
    "The parameters of the active queues are this project's; they drop and do not mark.",
    "The experiments on Emulab (Packet size §4.4) are not reproduced, because the thesis draws no \
     conclusion from them.",
];

/// Returns the fairness in windows of this length.
fn fairness(outcome: &Outcome, seconds: f64) -> Option<&WindowFairness> {
    outcome.fairness.as_ref()?.windows.iter().find(|w| w.seconds == seconds)
}

/// Returns the shares of all flows in windows of this length.
fn everyone(outcome: &Outcome, seconds: f64) -> Option<&ShareDistribution> {
    Some(&fairness(outcome, seconds)?.all)
}

/// Returns the percentage of flows below 5% of their share in windows of this length.
pub(crate) fn starved(outcome: &Outcome, seconds: f64) -> Option<f64> {
    Some(everyone(outcome, seconds)?.starved_percent)
}

/// Returns the shares of a group's flows in windows of this length.
fn members<'a>(outcome: &'a Outcome, seconds: f64, group: &str) -> Option<&'a ShareDistribution> {
    fairness(outcome, seconds)?.groups.iter().find(|g| g.name == group).map(|g| &g.shares)
}

/// Returns the percentage of flows that got at most this percentage of their share.
fn at_most(shares: &ShareDistribution, percent: f64) -> Option<f64> {
    shares.cdf.iter().find(|(x, _)| *x == percent).map(|(_, y)| *y)
}

/// Returns the percentage of flows that got at most half their share.
fn half_or_less(shares: &ShareDistribution) -> Option<f64> {
    at_most(shares, 50.0)
}

/// Returns the percentage of flows that got at most half, or more than one and a half times, their
/// share.
fn off(shares: &ShareDistribution) -> Option<f64> {
    Some(at_most(shares, 50.0)? + 100.0 - at_most(shares, 150.0)?)
}
