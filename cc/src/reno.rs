//! NewReno as QUIC has it: RFC 9002 §7.
//!
//! Slow start, one datagram per round trip in avoidance, half the window once per recovery period; marks react as losses do
//! (RFC 9002 §7.1). It is the baseline, and what Sync-TCP falls back to.
//!
//! Departures: none beyond those of [`crate::aimd`].

use std::sync::Arc;

use crate::aimd::Aimd;
use crate::controller::{Advice, Controller, Snapshot};
use crate::event::{Acks, PathChange, Sent, Setback, Start};
use crate::hystart;
use crate::options::{Entry, spec_text};
use crate::recipe::{Missing, Recipe, Signals};
use crate::units::{Ratio, Time};

/// What a loss or a mark leaves of the window (RFC 9002 §7.3.2; the RFC's kLossReductionFactor).
pub const LOSS_REDUCTION: Ratio = Ratio::HALF;

pub(crate) const ENTRY: Entry = Entry {
    name: "reno",
    summary: "NewReno: half the window on loss or mark, one datagram more per round trip",
    source: "RFC 9002 §7",
    options: &[hystart::OPTION],
    needs: Signals::NONE,
    build: |chosen| Arc::new(RenoRecipe { hystart: chosen.choice(hystart::OPTION.name, hystart::Use::ALL) }),
};

/// The recipe `reno`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenoRecipe {
    hystart: hystart::Use,
}

impl Recipe for RenoRecipe {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn spec(&self) -> String {
        spec_text(&ENTRY, &[(hystart::OPTION.name, self.hystart.name().to_owned())])
    }

    fn needs(&self) -> Signals {
        Signals::NONE
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        self.check(start.offers)?;
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

    fn on_acks(&mut self, acks: &Acks<'_>) {
        let acked = self.aimd.on_acks(acks);
        self.aimd.grow_as_reno(acked);
    }

    fn on_setback(&mut self, setback: &Setback) {
        self.aimd.on_setback(setback, LOSS_REDUCTION);
    }

    fn on_undo(&mut self, _now: Time) {
        self.aimd.on_undo();
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        match change {
            PathChange::Datagram(bytes) => self.aimd.on_datagram(bytes),
            PathChange::Moved => self.aimd.on_moved(now),
        }
    }

    fn advice(&self) -> Advice {
        Advice::window(self.aimd.window())
    }

    fn snapshot(&self) -> Snapshot {
        self.aimd.snapshot()
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
