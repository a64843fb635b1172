//! SDC (Kung, Tan, Hsiao: "TCP with sender-based delay control", Computer Communications 26, 2003).
//!
//! Loss recovery fails if the window is below eight packets, so SDC avoids such windows. Instead,
//! it delays packets at the sender. The delay D stretches the round trip to RTT + D and lowers the
//! rate W / (RTT + D) as far as necessary. The reactions to an ACK and to a congestion event
//! correspond to the two halves of the box in SDC §2.2, and use its names.
//!
//! The stack gets the delay as [`Pacing::Delay`]: at most one window per RTT + D.
//!
//! # Departures
//! The paper leaves these points open.
//! - **Which RTT** the box means: RTT is that of the network, without D, because equation (2) adds
//!   D to it. SRTT averages RTT + D, the round trip that the connection experiences ("the objective
//!   is to double the smoothed RTT", SDC §2.1), although the box writes RTT_new there too. If SRTT
//!   did not include D (`srtt=network`), a second congestion signal could not slow the sender
//!   further.
//! - **Which D** SRTT averages: the D in force when the packet left. All signals about one flight
//!   therefore set RTT + D to twice the smoothed RTT of this flight, rather than doubling it
//!   repeatedly.
//! - **Per packet, not per ACK**: both shrinking rules apply once for each acknowledged datagram's
//!   worth of bytes, which matches the one ACK per packet of the paper's simulations. All packets
//!   of a frame have the frame's RTT, so a jump from RTT_old counts once.
//! - **How often D grows** (`react=ack`): "when receiving an ACK with the CE bit on" (SDC §2.1),
//!   that is, with every such ACK, as in the box. Losses count once per recovery period, as in
//!   NewReno (the paper's senders run NewReno). `round` also limits marks to once per round trip.
//!   While D is above zero, the difference is small, because the second mark of a flight only
//!   restores what the ACKs between the two marks took off D. The difference is large in one case.
//!   If the first mark of a flight halves a window of 8 to 15 packets, the second mark finds a
//!   small window and adds a delay of one round trip. The rate then falls to a quarter. With
//!   `round`, it falls only to a half.
//! - **RTT_old** of the small-window rule is the previous sample, as in the box. A jump of the RTT
//!   can therefore raise a D that is above zero. A D of zero stays zero without congestion ("either
//!   zero or decreasing", SDC §2.1), although the box alone would let a jump raise it.
//! - **Growth of W** is per byte. W does not grow while the application is the limit
//!   (RFC 9002 §7.8), and packets sent before the last signal do not increase it
//!   (RFC 9002 §7.3.2). D also shrinks in these cases.
//! - **Idle times** do not change D, because the paper does not consider idle senders.
//! - **Slow start** below eight packets adds one packet per round trip, as in the box. SDC §2.1
//!   says "as in traditional TCP".
//! - **Timeout**: persistent congestion (RFC 9002 §7.6) reduces the window to two datagrams and
//!   halves the threshold, but does not change D.
//! - **W = min(cwnd, awnd)** (SDC §2.2): the window of flow control is ignored, because no stack
//!   reports it to controllers.
//! - **Largest D**: 10 s. The paper names no limit. D reaches this limit if losses do not depend on
//!   the rate. In the large-window phase, an ACK takes 1/W^2 off the round trip and a signal
//!   doubles the round trip. So with W = 8 and more than about 2 % of packets lost, D only grows.

use std::time::Duration;

use crate::aimd::{Aimd, initial_window};
use crate::algorithm::{Algorithm, Contract, Page};
use crate::capabilities::Capabilities;
use crate::controller::{ControllerMetrics, Pacing};
use crate::event::{AckEvent, Cause, CongestionEvent};
use crate::options::{Values, option_values};
use crate::reno::LOSS_REDUCTION;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::undo::Undo;
use crate::units::{Ratio, Time};

/// Largest added delay. The paper names none (see the departures).
pub const MAX_HOLD: Duration = Duration::from_secs(10);
/// Fraction of RTT + D that remains after one ACK in the small-window phase (SDC §2.2).
pub const SMALL_WINDOW_SHRINK: Ratio = Ratio::new(9, 10);
/// Multiple of SRTT to which congestion sets RTT + D (SDC §2.2).
pub const GROWTH: u32 = 2;
/// Divisor for the weight of a new sample in SRTT: the weight is 1 / `SRTT_GAIN` (SDC §2.2).
const SRTT_GAIN: u32 = 8;
/// Value of D below which D counts as zero. No timer resolves a smaller delay, and it would keep
/// the window from ever growing.
const MIN_HOLD: Duration = Duration::from_micros(1);
/// Largest number of packets of one ACK frame for which a step per packet is taken. In the
/// small-window phase, D is zero long before this limit.
const MAX_STEPS: u64 = 64;

option_values! {
    /// Round-trip time that SRTT averages.
    pub enum Srtt {
        /// RTT + D.
        Total = "total",
        /// RTT alone.
        Network = "network",
    }
}

option_values! {
    /// Congestion signals that must be available.
    pub enum Signal {
        /// Losses; marks count too if the path provides them.
        Either = "either",
        /// Losses and marks: SDC does not run without ECN.
        Ecn = "ecn",
    }
}

option_values! {
    /// How often marks raise the delay.
    pub enum React {
        /// With every ACK frame that reports a mark.
        Ack = "ack",
        /// Once per round trip.
        Round = "round",
    }
}

option_values! {
    /// How the delay shrinks in the large-window phase.
    pub enum Shrink {
        /// By equation (2): the rate grows by one packet per round trip.
        Equation = "equation",
        /// By a factor: a fraction of the delay remains (SDC §3.5).
        Factor = "factor",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "sdc",
    summary: "SDC: keeps eight packets in the window and slows down by delaying packets at the \
        sender",
    source: "SDC §2.2",
    required: Capabilities { pacing: true, ..Capabilities::NONE },
    // SDC §2.2: below eight packets the window stays and the delay grows instead; the window grows
    // by one packet per round trip.
    contract: Contract {
        least: |datagram| initial_window(datagram) / 2,
        after_collapse: Ratio::new(5, 2),
        ..Contract::AS_RENO
    },
    page: PAGE,
    ..Algorithm::of_rule::<SdcConfig>()
};

rule_options! {
    /// The configuration `sdc`.
    pub struct SdcConfig {
        /// window in packets below which congestion raises the added delay and does not cut the
        /// window
        threshold: u32 = "8" in Values::Integer { min: 2, max: 64 },
        /// 'either' reacts to losses, and to marks if the path supports ECN; 'ecn' refuses to run
        /// without ECN
        signal: Signal,
        /// how the added delay shrinks with a large window: by the paper's equation (2), or
        /// multiplied by 'factor' per packet
        shrink: Shrink,
        /// with shrink=factor, the fraction of the added delay that remains; 0.1 competes with
        /// Reno, 0.9 yields to Reno
        factor: Ratio = "0.9" in Values::Fraction { min: Ratio::new(0, 1), max: Ratio::new(99, 100) },
        /// how often marks raise the added delay: with every ACK that reports a mark, or once per
        /// round trip
        react: React,
        /// whether the smoothed RTT includes the added delay (total) or not (network)
        srtt: Srtt,
    }
}

impl RuleConfig for SdcConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Sdc;

    fn rule(&self, _window: &Aimd, _now: Time) -> Sdc {
        Sdc {
            config: *self,
            d: Duration::ZERO,
            rtt: None,
            srtt: None,
            reacted: None,
            raised: None,
            undo: Undo::default(),
        }
    }

    fn required(&self) -> Capabilities {
        Capabilities { pacing: true, ecn: self.signal == Signal::Ecn, ..Capabilities::NONE }
    }

    fn optional(&self) -> Capabilities {
        Capabilities { pacing: true, ecn: true, ..Capabilities::NONE }
    }

    fn hint(&self) -> &'static str {
        match self.signal {
            Signal::Either => {
                "run this controller on a stack that paces as requested ('fathom stacks' lists the \
                 stacks)"
            }
            Signal::Ecn => {
                "run this controller on a stack with ECN and pacing, or use sdc:signal=either, \
                 which needs no marks"
            }
        }
    }
}

/// The rule of SDC.
#[derive(Clone, Debug)]
pub struct Sdc {
    config: SdcConfig,
    /// The added delay D.
    d: Duration,
    /// Last RTT sample, without D.
    rtt: Option<Duration>,
    srtt: Option<Duration>,
    /// Time when a congestion signal last raised D.
    reacted: Option<Time>,
    /// Last rise of D, until a packet that left after the rise is acknowledged.
    raised: Option<Raised>,
    /// D before the last loss.
    undo: Undo<Duration>,
}

/// A rise of D that no acknowledged packet has experienced yet.
#[derive(Clone, Copy, Debug)]
struct Raised {
    at: Time,
    /// D before the rise.
    before: Duration,
}

/// Returns D after congestion: `D = max(2 * SRTT - RTT, 0)` (SDC §2.2), at most [`MAX_HOLD`].
pub fn grown(srtt: Duration, rtt: Duration) -> Duration {
    srtt.saturating_mul(GROWTH).saturating_sub(rtt).min(MAX_HOLD)
}

/// Returns D after one packet without congestion in a small window:
/// `D = 0.9 * (RTT_new + D_old) - RTT_old`, but not below zero (SDC §2.2).
pub fn shrunk_small(rtt_new: Duration, rtt_old: Duration, d: Duration) -> Duration {
    share(SMALL_WINDOW_SHRINK, rtt_new.saturating_add(d)).saturating_sub(rtt_old)
}

/// Returns D after `n` packets without congestion in a large window:
/// `D = W^2 / (W^2 + n) * (RTT + D) - RTT`, but not below zero (equation (2) of SDC §2.2, with
/// `n` = 1). `window` is in packets.
pub fn shrunk_large(window: f64, packets: u64, rtt: Duration, d: Duration) -> Duration {
    let square = window * window;
    let total = rtt.saturating_add(d).as_nanos() as f64;
    // Multiplication and division of doubles give the same bits on every platform.
    let kept = total * (square / (square + packets as f64));
    Duration::from_nanos(kept as u64).saturating_sub(rtt)
}

fn share(ratio: Ratio, of: Duration) -> Duration {
    Duration::from_nanos(ratio.of(u64::try_from(of.as_nanos()).unwrap_or(u64::MAX)))
}

impl Sdc {
    /// Returns whether `W < threshold`.
    fn small_window(&self, window: &Aimd) -> bool {
        window.window() < u64::from(self.config.threshold) * window.datagram()
    }

    /// Returns the D that applied to the newest packet of this ACK frame. If the packet left before
    /// the last rise, this is D before the rise. Otherwise, it is the current D. Decreases of D
    /// since the packet left are neglected.
    fn d_of(&mut self, acks: &AckEvent<'_>) -> Duration {
        match self.raised {
            Some(raised) if acks.newest_sent() <= Some(raised.at) => raised.before,
            _ => {
                self.raised = None;
                self.d
            }
        }
    }

    fn measure(&mut self, acks: &AckEvent<'_>) {
        let (rtt, d) = (acks.rtt.latest, self.d_of(acks));
        let sample = match self.config.srtt {
            Srtt::Total => rtt.saturating_add(d),
            Srtt::Network => rtt,
        };
        self.srtt = Some(match self.srtt {
            None => sample,
            Some(srtt) => (srtt / SRTT_GAIN * (SRTT_GAIN - 1)).saturating_add(sample / SRTT_GAIN),
        });
    }

    /// Shrinks D by `packets` acknowledged packets without congestion.
    fn shrink(&mut self, window: &Aimd, packets: u64, rtt_new: Duration, rtt_old: Duration) {
        if self.small_window(window) {
            self.d = shrunk_small(rtt_new, rtt_old, self.d);
            for _ in 1..packets.min(MAX_STEPS) {
                self.d = shrunk_small(rtt_new, rtt_new, self.d);
            }
        } else if self.config.shrink == Shrink::Equation {
            let w = window.window() as f64 / window.datagram() as f64;
            self.d = shrunk_large(w, packets, rtt_new, self.d);
        } else {
            for _ in 0..packets.min(MAX_STEPS) {
                self.d = share(self.config.factor, self.d);
            }
        }
        // The small-window rule may raise D if the RTT jumps.
        self.d = self.d.min(MAX_HOLD);
        if self.d < MIN_HOLD {
            self.d = Duration::ZERO;
        }
    }

    /// Returns whether the event may raise D. With `react=round`, a mark in the round trip after
    /// the last reaction may not raise D.
    fn counts(&self, event: &CongestionEvent) -> bool {
        match (self.config.react, event.cause) {
            (React::Ack, Cause::Mark) => true,
            _ => self.reacted.is_none_or(|reacted| event.sent > reacted),
        }
    }
}

impl WindowRule for Sdc {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        let rtt_new = acks.rtt.latest;
        let rtt_old = self.rtt.replace(rtt_new).unwrap_or(rtt_new);
        self.measure(acks);
        if acks.ecn.is_some_and(|ecn| ecn.ce > 0) {
            // The frame reports marks, and the congestion event that follows raises D.
            return;
        }
        let small = self.small_window(window);
        let held = self.d > Duration::ZERO;
        if held {
            let packets = acks.bytes().div_ceil(window.datagram()).max(1);
            self.shrink(window, packets, rtt_new, rtt_old);
        }
        if small {
            window.grow_additive(Ratio::ONE, acked);
        } else if !held {
            window.grow_as_reno(acked);
        }
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        // In a small window, or while D is above zero, the window stays the same and D grows.
        // Persistent congestion instead reduces the window to the minimum and halves the threshold.
        let slows = self.small_window(window) || self.d > Duration::ZERO;
        let grows = slows && !event.is_persistent();
        let reduced =
            window.on_congestion_event(event, if grows { Ratio::ONE } else { LOSS_REDUCTION });
        // A mark is never spurious, and it confirms that the losses before it were real.
        if !event.is_loss() {
            self.undo.forget();
        } else if reduced {
            self.undo.save(&self.d);
        }
        if !slows && reduced {
            self.reacted = Some(event.now);
        }
        if let (true, Some(srtt), Some(rtt)) = (grows && self.counts(event), self.srtt, self.rtt) {
            self.raised.get_or_insert(Raised { at: event.now, before: self.d });
            self.d = grown(srtt, rtt);
            self.reacted = Some(event.now);
        }
    }

    fn on_spurious_congestion_event(&mut self, _restored: bool) {
        if let Some(d) = self.undo.take() {
            self.d = d.min(self.d);
        }
    }

    fn pacing(&self) -> Pacing {
        if self.d > Duration::ZERO { Pacing::Delay(self.d) } else { Pacing::Window }
    }

    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        ControllerMetrics { hold: Some(self.d), ..window }
    }
}

const PAGE: Page = Page {
    about: "SDC (Kung, Tan, Hsiao) avoids windows below eight packets, because loss recovery fails with such
windows. If the sender has to slow down further, SDC delays its packets instead. A congestion signal
sets the added delay D so that RTT + D is twice the smoothed round trip.

Acknowledgements without congestion signals reduce D. With a small window, each acknowledgement
reduces RTT + D by a tenth. With a large window, the acknowledgements reduce D so that the rate
grows as if the window grew by one packet per round trip. If D is zero and the window has eight
packets or more, SDC behaves as Reno.",
    departures: "RTT is the round trip of the network, without D. The smoothed RTT includes D,
because otherwise a second signal could not slow the sender further. For each packet, the smoothed
RTT includes the D at the time when the packet left. So several marks of one flight raise D only
once. Every ACK that reports a mark is a signal, as in the paper. Losses are one signal per recovery
period. D is at most 10 s.

SDC needs a stack that paces as requested.",
    figure: "SDC, its added delay and the scripted queue",
    to_see: "The first three marks arrive while the window is below eight packets. Each mark
raises D by a round trip and leaves the window unchanged. D returns to zero within ten packets. At
the fourth mark, the window has eight packets and D is above zero. From then on, each mark doubles
RTT + D, and the window stays the same. Each packet reduces RTT + D by only 1/64, so D does not
reach zero before the time of 6 s. Then the window grows as Reno's, and the last mark halves it.",
    weakness: "SDC almost stops if packets are lost at random. With a window of eight packets, a signal
doubles RTT + D, and about fifty acknowledged packets bring RTT + D back. So if more than about 2 %
of the packets are lost at random, D grows to its limit of 10 s.

SDC also yields to Reno, as the paper says. While SDC's window stays constant, its rate grows only
as D falls. With `shrink=factor,factor=0.1`, D falls faster, so SDC gets a larger share of the link.
While the windows of several SDC flows stay constant, the rates of the flows do not become equal. By
equation (2) of the paper, each packet increases any rate by the same factor, and each signal halves
it. D does not change while the sender is idle.",
};

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn sdc_congestion_doubles_the_smoothed_round_trip() {
        assert_eq!(grown(ms(50), ms(50)), ms(50), "RTT + D = 100 ms");
        assert_eq!(grown(ms(100), ms(50)), ms(150), "and again: 200 ms");
        assert_eq!(grown(ms(20), ms(50)), ms(0), "never negative");
        assert_eq!(grown(Duration::MAX, ms(1)), MAX_HOLD);
    }

    #[test]
    fn sdc_small_window_speeds_up_by_a_tenth_per_packet() {
        assert_eq!(shrunk_small(ms(50), ms(50), ms(150)), ms(130), "0.9 * 200 - 50");
        assert_eq!(
            shrunk_small(ms(60), ms(50), ms(40)),
            ms(40),
            "0.9 * 100 - 50: the RTT before is taken off"
        );
        assert_eq!(shrunk_small(ms(50), ms(50), ms(1)), ms(0));
    }

    #[test]
    fn sdc_large_window_gains_one_packet_per_round_trip() {
        // Equation (1): W / RTT' = (W + 1/W) / RTT. With W = 10, 100/101 of 202 ms is 200 ms.
        assert_eq!(shrunk_large(10.0, 1, ms(52), ms(150)), ms(148));
        // W packets, one after the other, give about (W + 1) / W times the rate: (65/64)^8 = 1.1321
        // for W = 8.
        let mut d = ms(1_000) - ms(50);
        for _ in 0..8 {
            d = shrunk_large(8.0, 1, ms(50), d);
        }
        let rate = 1_000.0 / (d + ms(50)).as_secs_f64() / 1_000.0;
        assert!((rate - 1.1321).abs() < 1e-4, "{rate}");
        assert_eq!(shrunk_large(8.0, 1, ms(50), ms(0)), ms(0));
    }
}
