//! A controller that controls nothing.

use crate::controller::{Advice, Controller, Phase, Snapshot};
use crate::event::{Acks, PathChange, Sent, Setback, Start};
use crate::recipe::{Missing, Recipe, Signals};
use crate::units::Time;

/// A fixed window, whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Null {
    /// Window in bytes.
    pub window: u64,
}

impl Controller for Null {
    fn on_sent(&mut self, _sent: &Sent) {}

    fn on_acks(&mut self, _acks: &Acks<'_>) {}

    fn on_setback(&mut self, _setback: &Setback) {}

    fn on_undo(&mut self, _now: Time) {}

    fn on_path(&mut self, _now: Time, _change: PathChange) {}

    fn advice(&self) -> Advice {
        Advice::window(self.window)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.window,
            threshold: None,
            phase: Phase::Avoidance,
            queueing: None,
            hold: None,
            datagram: None,
            reductions: 0,
            early_reductions: 0,
        }
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }
}

/// Starts [`Null`] controllers. It is not in the catalogue: a fixed window is for tests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullRecipe {
    /// Window in bytes.
    pub window: u64,
}

impl Recipe for NullRecipe {
    fn name(&self) -> &'static str {
        "null"
    }

    fn spec(&self) -> String {
        format!("null:window={}", self.window)
    }

    fn needs(&self) -> Signals {
        Signals::NONE
    }

    fn start(&self, _start: &Start) -> Result<Box<dyn Controller>, Missing> {
        Ok(Box::new(Null { window: self.window }))
    }
}
