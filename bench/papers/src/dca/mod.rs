//! DCA: prediction of losses by round trips, and the cost of a delay-based connection for its user
//! and its benefit for the network.
//!
//! | file | contents |
//! |---|---|
//! | `measured.rs` | tables 3-4, 3-5, figures 3-1 to 3-3, from a Reno connection's tcpRTT series |
//! | `simulated.rs` | the models of the paths, tables 4-1 to 4-5, §4.5 and figure 4-7 |
//! | `claims.rs` | claims of the paper |

mod claims;
mod measured;
mod simulated;
#[cfg(test)]
mod tests;

pub(crate) use simulated::{throughput_change, timeout_change};

use crate::results::BySeed;
use crate::{Change, Paper, spec};

const EMORY: &str = "dca-measured-emory";
const ASU: &str = "dca-measured-asu";
const ALTERED: &str = "dca-measured-altered";
const MEASURED: &[&str] = &[EMORY, ASU, ALTERED];
const PAIRED: &str = "dca-paired";
const PAIRED_ALTERED: &str = "dca-altered";
const ALONE: &str = "dca-alone";
const SHARES: &str = "dca-figure-4-7";

/// Levels of background instead of times of day, in percent of the tuned number of web users.
const LEVELS: [&str; 5] = ["80%", "90%", "100%", "110%", "120%"];
/// Tuned level.
const TUNED: &str = "100%";
/// Congestion reduction levels as the paper prints them, with our controllers.
const REDUCTIONS: [(&str, &str); 3] =
    [("50%", "dca"), ("25%", "dca:reduction=0.25"), ("12.5%", "dca:reduction=0.125")];

/// Vegas with the two rules of ns-2 that the default leaves out.
const VEGAS: &str = "vegas:transit=flight,base=lone";

/// Reason why Vegas loses more than in the paper.
const VEGAS_ON_QUIC: &str = "Vegas loses about a third of its throughput on both paths. With TCP and \
                             the same two rules of ns-2, it loses 25 and 12 % (docs/validation.md). \
                             One of the rules forgets the base RTT after a round trip of one packet. \
                             TCP's timeouts cause such round trips, and QUIC's probe timeouts do not.";

pub(crate) const PAPER: Paper = Paper {
    name: "dca",
    citation: "J. Martin, A. Nilsson, I. Rhee: The Incremental Deployability of RTT-Based Congestion Avoidance for High Speed TCP \
               Internet Connections, ACM SIGMETRICS 2000",
    artefacts: &[
        spec(
            "models",
            "losses and delays of the models beside the wanted ones",
            MEASURED,
            simulated::models,
        ),
        spec(
            "table 3-4",
            "losses preceded by a rise in the round-trip time: the indication metric",
            MEASURED,
            measured::table_3_4,
        ),
        spec(
            "table 3-5",
            "throughput that DCA would lose, predicted",
            MEASURED,
            measured::table_3_5,
        ),
        spec(
            "figure 3-1",
            "delay before and after losses, path 1 (Emory)",
            &[EMORY],
            measured::figure_3_1,
        ),
        spec(
            "figure 3-2",
            "delay before and after losses, path 7 (ASU)",
            &[ASU],
            measured::figure_3_2,
        ),
        spec(
            "figure 3-3",
            "round trips of all packets and of those before losses",
            &[EMORY],
            measured::figure_3_3,
        ),
        spec(
            "table 4-1",
            "throughput of DCA against Reno by reduction level",
            &[PAIRED],
            simulated::table_4_1,
        ),
        spec(
            "table 4-2",
            "losses of DCA against Reno by reduction level",
            &[PAIRED],
            simulated::table_4_2,
        ),
        spec(
            "table 4-3",
            "throughput of DCA against Reno, altered Emory model",
            &[PAIRED_ALTERED],
            simulated::table_4_3,
        ),
        spec(
            "table 4-4",
            "throughput of Vegas and DUAL against Reno",
            &[PAIRED],
            simulated::table_4_4,
        ),
        spec(
            "table 4-5",
            "throughput of Vegas against Reno, altered Emory model",
            &[PAIRED_ALTERED],
            simulated::table_4_5,
        ),
        spec(
            "section 4.5",
            "what one DCA connection changes for the links",
            &[ALONE],
            simulated::section_4_5,
        ),
        spec(
            "figure 4-7",
            "loss rate over the share of DCA in the traffic",
            &[SHARES],
            simulated::figure_4_7,
        ),
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
        id: "background-after-warm-up",
        says: "Packets of the background traffic were counted from the beginning of a run, \
               including its warm-up of 20 s. So the counts were 4 % larger than without the \
               warm-up.",
    },
];

const DEPARTURES: &[&str] = &[
    "The paper's tables 3-4 and 3-5 and figures 3-1 to 3-3 are from connections over the Internet \
     of 1999, which cannot be measured again. Here a Reno connection crosses our models of two of \
     the paper's seven paths. Five levels of background traffic stand for times of day, and seeds \
     stand for days.",
    "The paper has no figure of the Emory path. We derived the rates and delays of its links from \
     the paper's text.",
    "As in the paper, the background traffic is tuned with one Reno connection until the links \
     have the required losses. We chose the numbers of users, their windows and round trips, and \
     the times of the UDP sources.",
    "The altered Emory model has 470 web users under heavy congestion and 580 under light \
     congestion. The paper's 2200 web users would offer our link five times its rate. Idle times \
     are the same as in the paper.",
    "The measured connections use QUIC, which always has selective acknowledgements and recovers \
     from losses without coarse timeouts. So Reno recovers faster from losses than the paper's \
     Reno.",
    "TCP's retransmission timeout resets the window. In QUIC, a probe timeout does not reset the \
     window (RFC 9002 §6.2). Only persistent congestion resets the window of a QUIC sender.",
    "QUIC senders start with a window of ten packets. QUIC receivers acknowledge every second \
     packet, or acknowledge after 25 ms.",
    "Vegas-CAM is our controller `vegas` with two rules of ns-2 (`transit=flight,base=lone`) and the \
     loss recovery of QUIC. QUIC has no other recovery, so the paper's statements about Vegas's own \
     recovery and about NewReno (DCA §4.4: 70 and 76 % more throughput) cannot be tested. \
     docs/validation.md has NewReno with TCP.",
    "Background users are packet-level senders with QUIC's loss detection and one connection per \
     transfer. The base RTT of a Vegas user is the round trip of its small first packet. At 45 \
     Mbit/s, this round trip is only 0.3 ms shorter than the round trip of a full packet.",
    "The prediction of table 3-5 uses the length of the first timeout. Here this length is QUIC's \
     probe timeout (mean round trip, four mean deviations and 25 ms). The paper uses the measured \
     timeouts of TCP.",
    "The measured connections start after 20 s, when the background traffic has filled the queues. \
     The following 500 s are counted. The paper does not say when its connections start. In our \
     first runs, the connections started at the same time as the background traffic. The start was \
     changed, because a Vegas connection then measured the empty path once. The results of Vegas \
     changed little.",
    "Figure 4-7 has ten shares of delay-based traffic. A point is at the measured share of the \
     packets on the link.",
];

/// Returns `(a - b) / b` in percent, for the seeds that have both and a nonzero `b`.
fn relative(a: &BySeed, b: &BySeed) -> BySeed {
    a.zip(b, |a, b| (b != 0.0).then(|| 100.0 * (a - b) / b))
}
