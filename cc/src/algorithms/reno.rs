//! NewReno for QUIC: RFC 9002 §7.
//!
//! Slow start, then one datagram more per round trip in avoidance, and half the window once per
//! recovery period. The reaction to a mark is the same as to a loss (RFC 9002 §7.1). NewReno is the
//! baseline, and Sync-TCP falls back to it.
//!
//! Departures: none beyond those of [`crate::aimd`].

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Page};
use crate::event::AckEvent;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// Fraction of the window that remains after a loss or a mark (RFC 9002 §7.3.2; the RFC's
/// kLossReductionFactor).
pub const LOSS_REDUCTION: Ratio = Ratio::HALF;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "reno",
    summary: "NewReno: half the window on loss or mark, one datagram more per round trip",
    source: "RFC 9002 §7",
    page: PAGE,
    ..Algorithm::of_rule::<RenoConfig>()
};

rule_options! {
    /// The configuration `reno`.
    pub struct RenoConfig {}
}

impl RuleConfig for RenoConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Reno;

    fn rule(&self, _window: &Aimd, _now: Time) -> Reno {
        Reno
    }
}

/// The rule of NewReno.
#[derive(Clone, Copy, Debug)]
pub struct Reno;

impl WindowRule for Reno {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
    }
}

const PAGE: Page = Page {
    about: "NewReno as QUIC has it (RFC 9002): slow start, then one packet more per round trip, and half the
window on a loss or a mark. It is the baseline, and the delay-based controllers build on it.",
    departures: "Slow start stops exactly at the threshold. Avoidance adds exactly one packet
per window of acknowledged bytes. A reduction that proves spurious is undone, unless the window has
outgrown it since. These departures hold for every controller on this page.",
    figure: "Reno and the scripted queue",
    to_see: "Reno does not react to delay. It adds one packet per round trip, so only the slope of
its window follows the RTT.",
    weakness: "Reno fills any queue until packets are lost. It can fill a fast long path only if very
few packets are lost (in 30 s it uses 45 % of 1 Gbps at 100 ms).",
};
