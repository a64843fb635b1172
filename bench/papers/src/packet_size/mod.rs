//! Packet size (Wilson 2008): fairness among flows of one packet size (§4.3.1) and of two (§4.3.2),
//! and questions that the thesis leaves open: adaptive sizes, and active queues (§1.4, §4.5.3, §5).
//!
//! | file | contents |
//! |---|---|
//! | `figures.rs` | figures and tables of the runs |
//! | `formulas.rs` | figures 1.1 and 1.2, which need no run |
//! | `claims.rs` | claims of the thesis |

mod claims;
mod figures;
mod formulas;
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
        says: "A round trip, after which the controller makes its next decision, ended one \
               acknowledgement later than it should.",
    },
    Change {
        id: "losses-after-warm-up",
        says: "Sent and lost datagrams were counted from the beginning of a run, including the ten \
               seconds of warm-up.",
    },
];

const DEPARTURES: &[&str] = &[
    "The flows are QUIC connections of a real stack with NewReno's window, not ns-2's TCP agents.",
    "A probe timeout (RFC 9002 §6.2) sends probes and does not change the window, whereas a TCP \
     timeout reduces the window to one packet. In QUIC, only persistent congestion reduces the \
     window in this way, to two packets. Fewer flows therefore starve than in the thesis.",
    "QUIC detects losses by packet number, which has the effect of both selective acknowledgements \
     and limited transmit. The initial window is 10 packets, the minimum window 2 packets. \
     Receivers acknowledge every second packet or after 25 ms.",
    "The smallest packets have 278 bytes on the wire instead of 250, because the sender's shaping \
     socket does not trim below 250 bytes of UDP payload.",
    "Every packet has 28 bytes of IP and UDP headers and about 25 bytes of QUIC header and tag. A \
     TCP packet has 40 bytes of headers. ACK frames are sent even if a small packet has no room \
     for them, so a few packets are larger than requested.",
    "A flow begins with a TLS handshake in packets of 1200 bytes or more, whatever its packet size.",
    "The thesis does not give the length of a run. A run here takes 110 s, and its first 10 s are \
     not counted. The starts of the flows are spread over the first second.",
    "The fair share counts bytes on the wire. In round two, the fair share of a flow is its share \
     at equal packet rates. The thesis calls the smaller share of small packets their natural \
     penalty, and does not say how it accounts for the penalty.",
    "A flow counts as starved if it gets less than 5 % of its share; the thesis gives no limit.",
    "The receiver's window is 500 packets of the stack's own size (1200 bytes or more) and limits \
     no flow.",
    "A quarter of 50 flows is rounded to 12 flows, and three quarters are rounded to 38.",
    "The thesis does not give the size of the small packets in figures 4.12 and 4.13. Here it is \
     the size in figures 4.14 and 4.15.",
    "The thesis has no rule for adapting packet sizes, so the rule is this project's. It keeps at \
     least eight packets in the window by reducing UDP payloads from the path's size down to 250 \
     bytes.",
    "The parameters of the active queues are this project's. The queues drop packets and do not \
     mark them.",
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
