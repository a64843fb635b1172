//! DCTCP (RFC 8257): reduces the window in proportion to the share of marked packets, for queues
//! that mark at a low threshold.
//!
//! Once per round trip, DCTCP measures the share of packets with CE marks, and averages it in alpha.
//! A mark reduces the window by alpha / 2, at most once per round trip. Growth and the reaction to
//! losses are exactly Reno's.
//!
//! # Departures
//! - **Packets instead of bytes**: QUIC's ECN counts are packets, so alpha is the average share of
//!   packets. RFC 8257 §3.3 counts bytes, which the receiver's echoes delimit in TCP.
//! - **Recovery after a mark**: the window does not grow until a packet sent after the mark is
//!   acknowledged (RFC 9002 §7.3.2). RFC 8257 §3.3 only forbids a second reduction.
//! - **Mark before any measurement**: alpha is 1, as RFC 8257 §3.3 recommends, so the first mark
//!   halves the window.

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Page};
use crate::capabilities::Capabilities;
use crate::event::{AckEvent, Cause, CongestionEvent};
use crate::mark_share::MarkShare;
use crate::options::Values;
use crate::reno::LOSS_REDUCTION;
use crate::round::RoundTrip;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "dctcp",
    summary: "DCTCP: reduces the window by half of the share of marked packets, in data centres",
    source: "RFC 8257 §3.3",
    required: Capabilities { ecn: true, ..Capabilities::NONE },
    page: PAGE,
    ..Algorithm::of_rule::<DctcpConfig>()
};

rule_options! {
    /// The configuration `dctcp`.
    pub struct DctcpConfig {
        /// weight of the last round trip in the average share of marked packets
        gain: Ratio = "0.0625" in Values::Fraction { min: Ratio::new(1, 1_000), max: Ratio::ONE },
    }
}

impl RuleConfig for DctcpConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Dctcp;

    fn rule(&self, _window: &Aimd, _now: Time) -> Dctcp {
        Dctcp { share: MarkShare::new(self.gain), round: RoundTrip::default() }
    }

    fn hint(&self) -> &'static str {
        "run this controller on a stack that reports ECN counts ('fathom stacks' lists the stacks)"
    }
}

/// The rule of DCTCP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    share: MarkShare,
    round: RoundTrip,
}

impl WindowRule for Dctcp {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        self.share.on_ack(acks);
        if self.round.on_ack(acks) {
            self.share.end_round();
        }
        window.grow_as_reno(acked);
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        let kept = match event.cause {
            Cause::Mark => self.share.kept(),
            Cause::Loss { .. } => LOSS_REDUCTION,
        };
        window.on_congestion_event(event, kept);
    }
}

const PAGE: Page = Page {
    about: "DCTCP (RFC 8257) is Reno with a smaller reaction to ECN marks. DCTCP averages the share of marked
packets per round trip, and a mark reduces the window by half of this share. With a queue that marks
every packet above a low threshold, the queue stays at this threshold.",
    departures: "The share counts packets, because QUIC's ECN counts do. After a mark, the window does not
grow for a round trip.",
    figure: "DCTCP and the scripted queue",
    to_see: "No packet is marked in this figure except the first one. So the window grows by one packet per
round trip, whatever the queue does, as Reno's.",
    weakness: "Do not use DCTCP on the Internet (RFC 8257 §5). Beside Reno, it takes more than its share of a
queue that marks, and a queue that drops instead of marking gets no smaller windows than with Reno.",
};
