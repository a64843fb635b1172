//! TCP/DUAL (Wang, Crowcroft: "Eliminating Periodic Packet Losses in the 4.3-Tahoe BSD TCP
//! Congestion Control Algorithm", Computer Communication Review, April 1992), in the form that the
//! DCA paper uses for comparison (DCA §4.4).
//!
//! Reno with a check of the RTT in every second round trip. If the RTT is above the midpoint
//! between the smallest and the largest RTT seen so far, the window is cut by one eighth. The
//! reaction to losses and marks is exactly Reno's.
//!
//! # Departures
//! The 1992 paper was not at hand. The rule comes from the description by Brakmo, O'Malley and
//! Peterson in their paper on Vegas (1994).
//! - **Current RTT**: the sample of the ACK frame that ends the second round trip.
//! - **Smallest and largest RTT** include the sample of every ACK frame, also in recovery, because
//!   QUIC never confuses a retransmission with its original. The acknowledgement delay that the
//!   peer reports is not part of a sample ([`crate::Rtt`]); TCP's samples include this delay.
//! - **Reset** (`reset=never`): "seen so far" is taken literally, so one long delay raises the
//!   midpoint permanently. With `timeout`, both extremes are reset on persistent congestion. With
//!   `loss`, they are reset with every reaction to a loss or a mark, so that the full queue before
//!   the reaction is no longer the reference. A change of path always resets them.
//! - **Recovery**: no decision is made, and the count of two round trips restarts afterwards.
//! - **Slow start**: the rule also applies in slow start, where a cut ends slow start. With
//!   `threshold=keep`, slow start continues.
//! - **Windows below two datagrams** do not exist (RFC 9002 §7.2).

use std::time::Duration;

use crate::aimd::{Aimd, Threshold};
use crate::algorithm::{Algorithm, Page};
use crate::controller::ControllerMetrics;
use crate::event::{AckEvent, CongestionEvent};
use crate::options::option_values;
use crate::round::RoundTrip;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// Fraction of the window that remains after a cut (DCA §4.4).
pub const DELAY_REDUCTION: Ratio = Ratio::new(7, 8);
/// Round trips per decision (DCA §4.4).
pub const ROUNDS: u32 = 2;

option_values! {
    /// Event at which the controller resets the smallest and largest RTT, in addition to a change
    /// of path.
    pub enum Reset {
        /// No event.
        Never = "never",
        /// Persistent congestion.
        Timeout = "timeout",
        /// Every reaction to a loss or a mark.
        Loss = "loss",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "dual",
    summary: "TCP/DUAL: Reno that gives up an eighth of the window every second round trip while \
        the RTT is above the middle of its range",
    source: "DCA §4.4",
    page: PAGE,
    ..Algorithm::of_rule::<DualConfig>()
};

rule_options! {
    /// The configuration `dual`.
    pub struct DualConfig {
        /// when to forget the smallest and the largest RTT, in addition to a change of path
        reset: Reset,
        /// slow-start threshold at a cut because of delay: the reduced window, or as before
        threshold: Threshold,
    }
}

impl RuleConfig for DualConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Dual;

    fn rule(&self, _window: &Aimd, _now: Time) -> Dual {
        Dual {
            reset: self.reset,
            threshold: self.threshold,
            round: RoundTrip::default(),
            rounds: 0,
            seen: None,
            latest: Duration::ZERO,
        }
    }
}

/// The smallest and largest RTT seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Smallest RTT.
    pub min: Duration,
    /// Largest RTT.
    pub max: Duration,
}

impl Range {
    /// Returns the range extended to include `rtt`.
    #[must_use]
    pub fn and(self, rtt: Duration) -> Self {
        Self { min: self.min.min(rtt), max: self.max.max(rtt) }
    }
}

/// Returns whether RTT > (min RTT + max RTT) / 2.
pub fn above_middle(rtt: Duration, seen: Range) -> bool {
    rtt.saturating_sub(seen.min) > seen.max.saturating_sub(rtt)
}

/// The rule of TCP/DUAL.
#[derive(Clone, Debug)]
pub struct Dual {
    reset: Reset,
    threshold: Threshold,
    round: RoundTrip,
    /// Round trips since the last decision.
    rounds: u32,
    seen: Option<Range>,
    latest: Duration,
}

impl Dual {
    /// Records a sample and returns the range that includes it.
    fn sample(&mut self, rtt: Duration) -> Range {
        let seen = self.seen.map_or(Range { min: rtt, max: rtt }, |seen| seen.and(rtt));
        self.seen = Some(seen);
        self.latest = rtt;
        seen
    }

    /// Returns whether this ACK frame ends the second round trip since the last decision.
    fn due(&mut self, acks: &AckEvent<'_>) -> bool {
        self.rounds += u32::from(self.round.on_ack(acks));
        let due = self.rounds >= ROUNDS;
        if due {
            self.rounds = 0;
        }
        due
    }
}

impl WindowRule for Dual {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
        let seen = self.sample(acks.rtt.latest);
        if !window.in_recovery() && self.due(acks) && above_middle(acks.rtt.latest, seen) {
            window.cut_early(DELAY_REDUCTION, self.threshold);
        }
    }

    fn on_reduction(&mut self, event: &CongestionEvent) {
        self.round.restart();
        self.rounds = 0;
        let forget = match self.reset {
            Reset::Never => false,
            Reset::Timeout => event.is_persistent(),
            Reset::Loss => true,
        };
        if forget {
            self.seen = None;
        }
    }

    /// Adds `queueing`: the last RTT minus the smallest.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        let queueing = self.seen.map(|seen| self.latest.saturating_sub(seen.min));
        ControllerMetrics { queueing, ..window }
    }
}

const PAGE: Page = Page {
    about: "TCP/DUAL (Wang, Crowcroft) is Reno with a check of the RTT every second round trip. If the RTT is
above the midpoint between the smallest and the largest RTT so far, DUAL reduces the window by an
eighth.",
    departures: "The rule is from the description in the Vegas paper. The extremes are never
forgotten, so one long delay raises the midpoint permanently, unless `reset` is set. DUAL compares
the RTT sample of the ACK that ends the second round trip. The rule also applies in slow start, and
a cut ends slow start, unless `threshold=keep` is set.",
    figure: "DUAL and the scripted queue",
    to_see: "While the delay rises and while it stays at 40 ms, it is the largest delay so far. So
every check reduces the window by an eighth. Between two checks, the window grows by two packets.
The window settles at about sixteen packets, because an eighth of sixteen packets is two packets.
Below the midpoint, which is a queueing delay of 20 ms, DUAL behaves as Reno. At the spike, the
window shrinks by an eighth only because a check happens during the spike.",
    weakness: "DUAL does not react to queues if the largest RTT was an exception, for example because
of a stalled peer or a detour of the route. The midpoint is then above every usual RTT, so DUAL
behaves as Reno. Otherwise DUAL keeps the queue at half of the longest queue so far. The queueing
delay of a lone flow is 17 ms with DUAL, only a little less than the 22 ms with Reno.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dual_treats_an_rtt_equal_to_the_middle_as_not_above_it() {
        let ms = Duration::from_millis;
        let seen = Range { min: ms(50), max: ms(90) };
        for (rtt, above) in [(50, false), (69, false), (70, false), (71, true), (90, true)] {
            assert_eq!(above_middle(ms(rtt), seen), above, "{rtt} ms");
        }
        assert!(above_middle(ms(70) + Duration::from_nanos(1), seen));
        assert!(!above_middle(ms(50), Range { min: ms(50), max: ms(50) }), "no range, no middle");
        assert!(above_middle(Duration::MAX, Range { min: Duration::ZERO, max: Duration::MAX }));
    }

    #[test]
    fn dual_rtt_range_widens_in_both_directions() {
        let ms = Duration::from_millis;
        let seen = Range { min: ms(60), max: ms(60) }.and(ms(55)).and(ms(70)).and(ms(65));
        assert_eq!(seen, Range { min: ms(55), max: ms(70) });
    }
}
