//! NewReno as QUIC has it: RFC 9002 §7.
//!
//! Slow start, one datagram per round trip in avoidance, half the window once per recovery period; marks react as losses do
//! (RFC 9002 §7.1). It is the baseline, and what Sync-TCP falls back to.
//!
//! Departures: none beyond those of [`crate::aimd`].

use std::sync::Arc;

use crate::aimd::Aimd;
use crate::config::{Capabilities, ControllerConfig, Missing};
use crate::controller::Controller;
use crate::event::{AckEvent, Start};
use crate::hystart;
use crate::options::{Algorithm, spec_text};
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// What a loss or a mark leaves of the window (RFC 9002 §7.3.2; the RFC's kLossReductionFactor).
pub const LOSS_REDUCTION: Ratio = Ratio::HALF;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "reno",
    summary: "NewReno: half the window on loss or mark, one datagram more per round trip",
    source: "RFC 9002 §7",
    options: &[hystart::OPTION],
    required: Capabilities::NONE,
    build: |parsed| Arc::new(RenoConfig { hystart: parsed.choice(hystart::OPTION.name, hystart::Use::ALL) }),
};

/// The configuration `reno`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenoConfig {
    hystart: hystart::Use,
}

impl ControllerConfig for RenoConfig {
    fn name(&self) -> &'static str {
        ALGORITHM.name
    }

    fn spec(&self) -> String {
        spec_text(&ALGORITHM, &[(hystart::OPTION.name, self.hystart.name().to_owned())])
    }

    fn required(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.start_rule(start, self.hystart)
    }
}

impl RuleConfig for RenoConfig {
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
