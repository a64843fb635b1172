//! What the senders of a run did, those that have ended and those that have not.

use std::collections::HashMap;
use std::sync::Arc;

use super::Sender;

/// Senders of a run, and what they did.
#[derive(Default)]
pub(crate) struct Senders {
    /// Those that have not ended.
    live: HashMap<u64, Arc<dyn Sender>>,
    totals: SenderTotals,
}

/// Sums over senders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderTotals {
    /// Senders that began.
    pub(crate) began: u64,
    /// Senders whose peer agreed to tell them one-way delays.
    pub(crate) one_way_negotiated: u64,
    pub(crate) early_reductions: u64,
    pub(crate) reductions: u64,
    /// The most that were there at once.
    pub(crate) at_once: u64,
}

impl Senders {
    /// A sender began; the number to end it by.
    pub(crate) fn began(&mut self, sender: Arc<dyn Sender>) -> u64 {
        self.totals.began += 1;
        self.live.insert(self.totals.began, sender);
        self.totals.at_once = self.totals.at_once.max(self.live.len() as u64);
        self.totals.began
    }

    /// A sender ended.
    pub(crate) fn ended(&mut self, id: u64) {
        if let Some(sender) = self.live.remove(&id) {
            self.add(&*sender);
        }
    }

    /// What all of them did. Those still sending are asked now and count as ended. Sums do not depend on the map's order.
    pub(crate) fn totals(&mut self) -> SenderTotals {
        for sender in std::mem::take(&mut self.live).into_values() {
            self.add(&*sender);
        }
        self.totals
    }

    fn add(&mut self, sender: &dyn Sender) {
        let report = sender.report();
        self.totals.one_way_negotiated += u64::from(report.one_way_negotiated);
        self.totals.early_reductions += report.early_reductions;
        self.totals.reductions += report.reductions;
    }
}
