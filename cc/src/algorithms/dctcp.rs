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
use crate::options::Values;
use crate::reno::LOSS_REDUCTION;
use crate::round::RoundTrip;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// Denominator of the fraction of the window that remains after a mark.
const PARTS: u32 = 1 << 20;

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
        Dctcp {
            gain: f64::from(self.gain.num()) / f64::from(self.gain.den()),
            alpha: 1.0,
            round: RoundTrip::default(),
            marked: 0,
            packets: 0,
        }
    }

    fn hint(&self) -> &'static str {
        "run this controller on a stack that reports ECN counts ('fathom stacks' lists the stacks)"
    }
}

/// The rule of DCTCP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    gain: f64,
    /// Average share of marked packets.
    alpha: f64,
    round: RoundTrip,
    /// Packets with CE marks in this round trip.
    marked: u64,
    /// Packets with any ECN mark in this round trip.
    packets: u64,
}

impl Dctcp {
    /// Ends a round trip: alpha = (1 - gain) alpha + gain M, where M is the share of marked packets
    /// (RFC 8257 §3.3).
    fn end_round(&mut self) {
        if self.packets > 0 {
            let share = self.marked as f64 / self.packets as f64;
            self.alpha += self.gain * (share - self.alpha);
        }
        (self.marked, self.packets) = (0, 0);
    }

    /// Returns the fraction of the window that remains after a mark: 1 - alpha / 2
    /// (RFC 8257 §3.3).
    fn kept_after_mark(&self) -> Ratio {
        let kept = (1.0 - self.alpha / 2.0).clamp(0.5, 1.0);
        Ratio::new((kept * f64::from(PARTS)).round() as u32, PARTS)
    }
}

impl WindowRule for Dctcp {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        if let Some(ecn) = acks.ecn {
            self.marked = self.marked.saturating_add(ecn.ce);
            let all = ecn.ce.saturating_add(ecn.ect0).saturating_add(ecn.ect1);
            self.packets = self.packets.saturating_add(all);
        }
        if self.round.on_ack(acks) {
            self.end_round();
        }
        window.grow_as_reno(acked);
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        let kept = match event.cause {
            Cause::Mark => self.kept_after_mark(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn dctcp(gain: f64) -> Dctcp {
        Dctcp { gain, alpha: 1.0, round: RoundTrip::default(), marked: 0, packets: 0 }
    }

    #[test]
    fn alpha_averages_the_share_of_marked_packets() {
        let mut rule = dctcp(0.25);
        for (marked, packets, alpha) in [(0, 10, 0.75), (5, 10, 0.6875), (0, 0, 0.6875)] {
            (rule.marked, rule.packets) = (marked, packets);
            rule.end_round();
            assert!((rule.alpha - alpha).abs() < 1e-12, "{}", rule.alpha);
        }
    }

    #[test]
    fn mark_takes_half_of_alpha() {
        let kept = |alpha: f64| Dctcp { alpha, ..dctcp(0.0625) }.kept_after_mark().of(1_000_000);
        assert_eq!(
            [kept(1.0), kept(0.5), kept(0.25), kept(0.0)],
            [500_000, 750_000, 875_000, 1_000_000]
        );
    }
}
