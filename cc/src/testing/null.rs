//! A controller with a fixed window.

use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, Missing};
use crate::controller::{Controller, ControllerMetrics, Phase, SendParams};
use crate::event::{AckEvent, CongestionEvent, PathChange, Sent, Start};
use crate::units::Time;

/// A controller whose window never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Null {
    /// Window in bytes.
    pub window: u64,
}

impl Controller for Null {
    fn on_sent(&mut self, _sent: &Sent) {}

    fn on_ack(&mut self, _acks: &AckEvent<'_>) {}

    fn on_congestion_event(&mut self, _event: &CongestionEvent) {}

    fn on_spurious_congestion_event(&mut self, _now: Time) {}

    fn on_path(&mut self, _now: Time, _change: PathChange) {}

    fn send_params(&self) -> SendParams {
        SendParams::window(self.window)
    }

    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            window: self.window,
            threshold: None,
            phase: Phase::Avoidance,
            queueing: None,
            hold: None,
            datagram: None,
            media_rate: None,
            reductions: 0,
            early_reductions: 0,
        }
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }
}

/// Configuration that starts [`Null`] controllers. It is not in the catalogue, because a fixed
/// window is for tests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullConfig {
    /// Window in bytes.
    pub window: u64,
}

impl ControllerConfig for NullConfig {
    fn name(&self) -> &'static str {
        "null"
    }

    fn spec(&self) -> String {
        format!("null:window={}", self.window)
    }

    fn required(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn start(&self, _start: &Start) -> Result<Box<dyn Controller>, Missing> {
        Ok(Box::new(Null { window: self.window }))
    }
}
