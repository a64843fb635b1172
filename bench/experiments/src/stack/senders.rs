//! What the senders of a run did, those that have ended and those that have not.

use std::collections::HashMap;

use fathom_stacks::Monitor;

/// Senders of a run, and what they did.
#[derive(Default)]
pub(crate) struct Senders {
    /// Those that have not ended.
    live: HashMap<u64, Monitor>,
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
    pub(crate) fn began(&mut self, monitor: Monitor) -> u64 {
        self.totals.began += 1;
        self.live.insert(self.totals.began, monitor);
        self.totals.at_once = self.totals.at_once.max(self.live.len() as u64);
        self.totals.began
    }

    /// A sender ended.
    pub(crate) fn ended(&mut self, id: u64) {
        if let Some(monitor) = self.live.remove(&id) {
            self.add(&monitor);
        }
    }

    /// What all of them did. Those still sending are asked now and count as ended. Sums do not depend on the map's order.
    pub(crate) fn totals(&mut self) -> SenderTotals {
        for monitor in std::mem::take(&mut self.live).into_values() {
            self.add(&monitor);
        }
        self.totals
    }

    fn add(&mut self, monitor: &Monitor) {
        let report = match monitor {
            Monitor::Fathom(monitor) => monitor.report(),
            Monitor::Native(monitor) => return self.totals.reductions += monitor.reductions(),
        };
        self.totals.one_way_negotiated += u64::from(report.negotiated);
        if let Some(metrics) = report.controller {
            self.totals.early_reductions += metrics.early_reductions;
            self.totals.reductions += metrics.reductions;
        }
    }
}
