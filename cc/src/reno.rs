//! NewReno as QUIC has it: RFC 9002 §7.
//!
//! Slow start, one datagram per round trip in avoidance, half the window once per recovery period; marks react as losses do
//! (RFC 9002 §7.1). It is the baseline, and what Sync-TCP falls back to.
//!
//! Departures: none beyond those of [`crate::aimd`].

use std::sync::Arc;

use crate::aimd::Aimd;
use crate::config::{Capabilities, ControllerConfig, Missing};
use crate::controller::{Controller, ControllerMetrics, SendParams};
use crate::event::{AckEvent, CongestionEvent, PathChange, Sent, Start};
use crate::hystart;
use crate::options::{Algorithm, spec_text};
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
        self.check(start.provided)?;
        Ok(Box::new(Reno { aimd: Aimd::new(start).with_hystart(self.hystart) }))
    }
}

/// NewReno.
#[derive(Clone, Debug)]
pub struct Reno {
    aimd: Aimd,
}

impl Controller for Reno {
    fn on_sent(&mut self, _sent: &Sent) {}

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        let acked = self.aimd.on_ack(acks);
        self.aimd.grow_as_reno(acked);
    }

    fn on_congestion_event(&mut self, congestion_event: &CongestionEvent) {
        self.aimd.on_congestion_event(congestion_event, LOSS_REDUCTION);
    }

    fn on_spurious_congestion_event(&mut self, _now: Time) {
        self.aimd.on_spurious_congestion_event();
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        match change {
            PathChange::Datagram(bytes) => self.aimd.on_datagram(bytes),
            PathChange::Moved => self.aimd.on_moved(now),
        }
    }

    fn send_params(&self) -> SendParams {
        SendParams::window(self.aimd.window())
    }

    fn metrics(&self) -> ControllerMetrics {
        self.aimd.metrics()
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
