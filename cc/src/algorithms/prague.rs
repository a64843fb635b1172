//! Prague (draft-briscoe-iccrg-prague-congestion-control-04): DCTCP for the Internet. Its packets ask
//! the network for marks at a low threshold (L4S, RFC 9331), so that its queue stays below a few
//! milliseconds.
//!
//! Packets leave as ECT(1). Once per round, Prague measures the share of marked packets and averages
//! it in alpha, and a mark reduces the window by alpha / 2, as in DCTCP. In contrast to DCTCP, the
//! window also grows while Prague recovers from a mark, and a flow with a short round trip behaves
//! like one with a round trip of 25 ms (the draft's virtual round trip).
//!
//! # Departures
//! - **Packets instead of bytes**: QUIC's ECN counts are packets, so alpha is the average share of
//!   packets. The share of an ACK frame's bytes that were marked is not known, so its packets all
//!   count with the frame's share.
//! - **Losses** halve the window (RFC 9002 §7.3.2), and growth is Reno's. The draft also allows
//!   CUBIC.
//! - **Classic ECN queues are not detected**, although RFC 9331 asks senders on the Internet to
//!   detect them. If such a queue marks packets, this controller reduces its window too little.
//! - **Two more requirements of RFC 9331 are not met**: The window is never below two packets, and
//!   the stack detects losses by counting packets, not only by time.
//! - **Bursts**: The stack paces a window over a round trip. The draft limits bursts to 250 us.

use std::time::Duration;

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

/// Denominator of the growth per round trip.
const PARTS: u32 = 1 << 20;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "prague",
    summary: "Prague: sends ECT(1), and keeps the queue of an L4S network below a few milliseconds",
    source: "draft-briscoe-iccrg-prague-congestion-control-04",
    required: Capabilities { ecn: true, l4s: true, ..Capabilities::NONE },
    page: PAGE,
    ..Algorithm::of_rule::<PragueConfig>()
};

rule_options! {
    /// The configuration `prague`.
    pub struct PragueConfig {
        /// weight of the last round in the average share of marked packets
        gain: Ratio = "0.0625" in Values::Fraction { min: Ratio::new(1, 1_000), max: Ratio::ONE },
        /// shortest round trip that counts; flows with shorter ones behave as if they had this one
        virtual_rtt: Duration = "25ms" in Values::Duration { min: Duration::ZERO, max: Duration::from_millis(100) },
    }
}

impl RuleConfig for PragueConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Prague;

    fn rule(&self, _window: &Aimd, now: Time) -> Prague {
        Prague {
            virtual_rtt: self.virtual_rtt,
            share: MarkShare::new(self.gain),
            round: RoundTrip::default(),
            marked: false,
            measured_from: now,
            rtt: Duration::ZERO,
            reduced: None,
            after_mark: false,
        }
    }

    fn hint(&self) -> &'static str {
        "run this controller on a stack that sends ECT(1) ('fathom stacks' lists the stacks)"
    }
}

/// The rule of Prague.
#[derive(Clone, Debug)]
pub struct Prague {
    virtual_rtt: Duration,
    share: MarkShare,
    round: RoundTrip,
    /// Whether any packet has been marked.
    marked: bool,
    /// Time since which the present share is measured.
    measured_from: Time,
    /// Last round-trip time.
    rtt: Duration,
    /// Time of the last reaction to a mark.
    reduced: Option<Time>,
    /// Whether the last reduction was for a mark.
    after_mark: bool,
}

impl Prague {
    /// Returns the growth per real round trip in datagrams: one datagram per virtual round trip in
    /// each virtual round trip, so that the rate grows as fast as with this round trip.
    fn growth(&self) -> Ratio {
        let ratio = self.rtt.as_secs_f64() / self.rtt.max(self.virtual_rtt).as_secs_f64();
        Ratio::new((ratio * ratio * f64::from(PARTS)).round() as u32, PARTS)
    }
}

impl WindowRule for Prague {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        self.rtt = acks.rtt.latest;
        let marked = self.share.on_ack(acks);
        self.marked |= marked > 0.0;
        if self.round.on_ack(acks) && acks.now >= self.measured_from + self.virtual_rtt {
            // Before the first mark, the share stays 1, so that the first mark halves the window.
            if self.marked {
                self.share.end_round();
            }
            self.measured_from = acks.now;
        }
        let left = window.grow_slow_start(acked);
        if window.in_slow_start() {
            return;
        }
        // Growth does not pause after a mark.
        let bytes = if self.after_mark && !acks.app_limited { acks.bytes() } else { left };
        window.grow_additive(self.growth(), (bytes as f64 * (1.0 - marked)) as u64);
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        let mark = event.cause == Cause::Mark;
        if mark && self.reduced.is_some_and(|at| event.now < at + self.virtual_rtt) {
            return;
        }
        let kept = if mark { self.share.kept() } else { LOSS_REDUCTION };
        if window.on_congestion_event(event, kept) {
            self.after_mark = mark;
            if mark {
                self.reduced = Some(event.now);
            }
        }
    }
}

const PAGE: Page = Page {
    about: "Prague sends its packets as ECT(1). A network with L4S (RFC 9330), for example the queue
`dualpi2`, marks such packets as soon as they wait for about a millisecond. Prague averages the share
of marked packets and reduces its window by half of this share, so many small reductions keep the
queue short and the link full. Flows with short round trips grow and react as if theirs took 25 ms.",
    departures: "Shares count packets. Losses halve the window. Queues with classic ECN are not detected.",
    figure: "Prague and the scripted queue",
    to_see: "No packet is marked in this figure except the first one. So the window grows by one packet per
round trip, whatever the queue does, as Reno's.",
    weakness: "If a queue without L4S marks packets (classic ECN), Prague takes more than its share from other
flows, so do not use it on the Internet. Without marks and with round trips above 25 ms, Prague grows
as Reno. quinn and noq cannot send ECT(1).",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Acked, EcnDelta, Rtt, Start};

    /// Acknowledges `frames` frames of two packets each, `rtt_ms` after they were sent, of which
    /// `ce` packets are marked. Returns the window's growth in bytes.
    fn growth(rtt_ms: u64, frames: u64, ce: u64) -> u64 {
        let start = Start { now: Time::ZERO, datagram: 1_200, provided: Capabilities::ALL };
        let mut window = Aimd::new(&start);
        let mut rule = PragueConfig::default().rule(&window, Time::ZERO);
        window.end_slow_start();
        let before = window.window();
        for n in 0..frames {
            let sent = Time::from_millis(n);
            let packets = [Acked { sent, bytes: 1_200 }; 2];
            let acks = AckEvent {
                now: sent + Duration::from_millis(rtt_ms),
                packets: &packets,
                in_flight: 0,
                rtt: Rtt::first(Duration::from_millis(rtt_ms)),
                one_way: None,
                ecn: Some(EcnDelta { ect0: 0, ect1: 2 - ce, ce }),
                app_limited: false,
            };
            let acked = window.on_ack(&acks);
            rule.on_ack(&mut window, &acks, acked);
        }
        window.window() - before
    }

    #[test]
    fn prague_grows_less_per_round_if_round_trips_are_short() {
        // The initial window is ten datagrams: five frames acknowledge it.
        let one = growth(50, 5, 0);
        assert!((1_100..=1_200).contains(&one), "{one}");
        let short = growth(5, 5, 0);
        assert!((40..=48).contains(&short), "a twenty-fifth: {short}");
        assert_eq!(growth(50, 5, 2), 0, "marked packets do not count");
    }
}
