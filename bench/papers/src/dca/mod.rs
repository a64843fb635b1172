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

pub(crate) use simulated::throughput_change;

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

/// Reason why Vegas loses more than in the paper.
pub(crate) const NS2_VEGAS: &str = "The paper used ns-2's Vegas, which counts packets in flight \
                                    and forgets its base RTT after a round trip of one packet. \
                                    With TCP, these two rules reduce its loss of throughput from \
                                    41 and 33 to 25 and 9 % over Emory and ASU \
                                    (`validation-dca-causes`, three seeds); they were not tried on \
                                    the altered model.";

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
            "losses that a rise of the round trip comes before: the indication metric",
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
        says: "Round-trip times that a controller gets included the peer's acknowledgement delay \
               (RFC 9002 §5.3), so single samples were up to 25 ms larger.",
    },
    Change {
        id: "background-after-warm-up",
        says: "Packets of the background traffic were counted from the beginning of a run, \
               including its 20 s of warm-up; these are 4 % more than without the warm-up.",
    },
];

const DEPARTURES: &[&str] = &[
    "Tables 3-4 and 3-5 and figures 3-1 to 3-3 are from connections over the Internet of 1999, \
     which cannot be measured again. Here a Reno connection crosses our models of two of the seven \
     paths. Five levels of background traffic stand for times of day, and seeds for days.",
    "The paper has no figure of the Emory path. The rates and delays of its links are ours, \
     derived from the paper's text.",
    "As in the paper, the background traffic is tuned with a Reno connection alone, until the \
     links have the required losses. The numbers of users, their windows and round trips, and the \
     times of the UDP sources are ours.",
    "The altered Emory model has 470 (heavy) and 580 (light) web users instead of 2200, who would \
     offer our link five times its rate. Idle times are the paper's.",
    "The measured connections are QUIC, which always has selective acknowledgements and loss \
     recovery without coarse timeouts, so Reno does better after losses than the paper's Reno.",
    "A probe timeout does not reset the window as TCP's retransmission timeout does (RFC 9002 §6.2); only persistent congestion does.",
    "QUIC starts with ten packets, and acknowledges every second packet or after 25 ms.",
    "Vegas-CAM is our `vegas`: congestion avoidance only, with QUIC's loss recovery. The paper's \
     statements about Vegas's own recovery and about NewReno (DCA §4.4: 70 and 76 % more \
     throughput) cannot be tested.",
    "Background users are packet-level senders with QUIC's loss detection and one connection per \
     transfer. The smallest round trip of a Vegas user is that of its small first packet, only 0.3 \
     ms less than that of a full packet at 45 Mbit/s.",
    "For the first timeout, the prediction of table 3-5 uses QUIC's (mean round trip, four mean \
     deviations and 25 ms) instead of the measured timeouts of TCP.",
    "The measured connections start after 20 s, when the background traffic has filled the queues, \
     and are counted for the next 500 s. The paper does not say when its connections start. This \
     was changed after the first run of each system, because a Vegas connection that starts with \
     the background traffic measures the empty path once. Its results changed little.",
    "Figure 4-7 places its points by the measured share of the packets on the link, and has ten \
     shares.",
];

/// Returns `(a - b) / b` in percent, for the seeds that have both and a nonzero `b`.
fn relative(a: &BySeed, b: &BySeed) -> BySeed {
    a.zip(b, |a, b| (b != 0.0).then(|| 100.0 * (a - b) / b))
}
