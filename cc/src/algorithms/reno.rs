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
    summary: "NewReno: halves the window on a loss or mark, and grows by one datagram per round \
        trip",
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
    about: "`reno` is NewReno as RFC 9002 defines it for QUIC. After slow start, the window grows by one packet
per round trip. A loss or an ECN mark halves the window. Reno is the baseline, and the delay-based
controllers build on it.",
    departures: "Slow start stops exactly at the threshold. Congestion avoidance adds exactly
one packet per window of acknowledged bytes. If the loss behind a reduction proves spurious, the
window returns to its previous size, unless it has already grown beyond this size. These departures
apply to every controller on this page.",
    figure: "Reno and the scripted queue",
    to_see: "Reno does not react to delay. Reno adds one packet per round trip, so a longer RTT
only makes the window grow more slowly.",
    weakness: "Reno fills any queue until packets are lost. Reno can fill a fast path with a long round
trip only if very few packets are lost. On a path of 1 Gbps and 100 ms, Reno uses 45 % of the rate
in the first 30 s.",
};
