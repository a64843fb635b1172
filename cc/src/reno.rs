//! NewReno as QUIC has it: RFC 9002 §7.
//!
//! Slow start, one datagram per round trip in avoidance, half the window once per recovery period; marks react as losses do
//! (RFC 9002 §7.1). It is the baseline, and what Sync-TCP falls back to.
//!
//! Departures: none beyond those of [`crate::aimd`].

use crate::aimd::Aimd;
use crate::config::Capabilities;
use crate::event::AckEvent;
use crate::options::{Algorithm, Options as _, rule_options};
use crate::rule::{self, RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// What a loss or a mark leaves of the window (RFC 9002 §7.3.2; the RFC's kLossReductionFactor).
pub const LOSS_REDUCTION: Ratio = Ratio::HALF;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "reno",
    summary: "NewReno: half the window on loss or mark, one datagram more per round trip",
    source: "RFC 9002 §7",
    options: RenoConfig::OPTIONS,
    required: Capabilities::NONE,
    build: rule::build::<RenoConfig>,
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

/// NewReno.
#[derive(Clone, Copy, Debug)]
pub struct Reno;

impl WindowRule for Reno {
    fn on_ack(&mut self, window: &mut Aimd, _acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
    }
}
