//! What the senders of a run did, those that have ended and those that have not.

use std::collections::HashMap;
use std::sync::Arc;

use fathom_stacks::Monitor;

/// What one sender did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderReport {
    /// Its peer agreed to tell it one-way delays.
    pub(crate) one_way_negotiated: bool,
    pub(crate) early_reductions: u64,
    pub(crate) reductions: u64,
    /// Of TCP: data segments sent again, times of fast recovery, timeouts of data and of SYNs.
    pub(crate) retransmitted: u64,
    pub(crate) fast_recoveries: u64,
    pub(crate) timeouts: u64,
    pub(crate) syn_timeouts: u64,
}

/// Who can be asked what a sender did.
pub(crate) trait ReportSender: Send + Sync {
    /// What it did so far.
    fn report(&self) -> SenderReport;
}

impl ReportSender for Monitor {
    fn report(&self) -> SenderReport {
        let report = match self {
            Self::Fathom(monitor) => monitor.report(),
            Self::Native(monitor) => {
                return SenderReport { reductions: monitor.reductions(), ..SenderReport::default() };
            }
        };
        let (early_reductions, reductions) =
            report.controller.map_or((0, 0), |metrics| (metrics.early_reductions, metrics.reductions));
        SenderReport { one_way_negotiated: report.negotiated, early_reductions, reductions, ..SenderReport::default() }
    }
}

/// Senders of a run, and what they did.
#[derive(Default)]
pub(crate) struct Senders {
    /// Those that have not ended.
    live: HashMap<u64, Arc<dyn ReportSender>>,
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
    /// Of TCP, as [`SenderReport`] has them.
    pub(crate) retransmitted: u64,
    pub(crate) fast_recoveries: u64,
    pub(crate) timeouts: u64,
    pub(crate) syn_timeouts: u64,
    /// The most that were there at once.
    pub(crate) at_once: u64,
}

impl Senders {
    /// A sender began; the number to end it by.
    pub(crate) fn began(&mut self, sender: Arc<dyn ReportSender>) -> u64 {
        self.totals.began += 1;
        self.live.insert(self.totals.began, sender);
        self.totals.at_once = self.totals.at_once.max(self.live.len() as u64);
        self.totals.began
    }

    /// A sender ended.
    pub(crate) fn ended(&mut self, id: u64) {
        if let Some(sender) = self.live.remove(&id) {
            self.add(sender.report());
        }
    }

    /// What all of them did. Those still sending are asked now and count as ended. Sums do not depend on the map's order.
    pub(crate) fn totals(&mut self) -> SenderTotals {
        for sender in std::mem::take(&mut self.live).into_values() {
            self.add(sender.report());
        }
        self.totals
    }

    fn add(&mut self, report: SenderReport) {
        let totals = &mut self.totals;
        totals.one_way_negotiated += u64::from(report.one_way_negotiated);
        totals.early_reductions += report.early_reductions;
        totals.reductions += report.reductions;
        totals.retransmitted += report.retransmitted;
        totals.fast_recoveries += report.fast_recoveries;
        totals.timeouts += report.timeouts;
        totals.syn_timeouts += report.syn_timeouts;
    }
}
