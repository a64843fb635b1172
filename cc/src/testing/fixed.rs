//! A controller whose send parameters never change.

use super::Null;
use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, Missing};
use crate::controller::{Controller, ControllerMetrics, SendParams};
use crate::event::{AckEvent, CongestionEvent, PathChange, Sent, Start};
use crate::units::Time;

/// A controller that always returns the same send parameters, and the configuration that starts it.
/// It is not in the catalogue, because it is for tests only.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// Name of the controller.
    pub name: &'static str,
    /// The send parameters.
    pub params: SendParams,
    /// Capabilities that the stack must provide.
    pub required: Capabilities,
}

impl Fixed {
    /// Returns a controller named `fixed` that runs on every stack.
    pub const fn new(params: SendParams) -> Self {
        Self { name: "fixed", params, required: Capabilities::NONE }
    }
}

impl Controller for Fixed {
    fn on_sent(&mut self, _sent: &Sent) {}

    fn on_ack(&mut self, _acks: &AckEvent<'_>) {}

    fn on_congestion_event(&mut self, _event: &CongestionEvent) {}

    fn on_spurious_congestion_event(&mut self, _now: Time) {}

    fn on_path(&mut self, _now: Time, _change: PathChange) {}

    fn send_params(&self) -> SendParams {
        self.params
    }

    fn metrics(&self) -> ControllerMetrics {
        Null { window: self.params.window }.metrics()
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }
}

impl ControllerConfig for Fixed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn spec(&self) -> String {
        self.name.to_owned()
    }

    fn required(&self) -> Capabilities {
        self.required
    }

    fn start(&self, _start: &Start) -> Result<Box<dyn Controller>, Missing> {
        Ok(Box::new(*self))
    }
}
