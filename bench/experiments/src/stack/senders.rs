//! What the senders of a run did, those that have ended and those that have not.

use std::collections::HashMap;
use std::sync::Arc;

use fathom_stacks::Monitor;

use crate::scenario::TcpOutcome;

/// What one sender did, or several together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderReport {
    /// Senders whose peer agreed to tell them one-way delays.
    pub(crate) one_way_negotiated: u64,
    pub(crate) early_reductions: u64,
    pub(crate) reductions: u64,
    pub(crate) tcp: TcpOutcome,
}

impl SenderReport {
    fn add(&mut self, other: &Self) {
        self.one_way_negotiated += other.one_way_negotiated;
        self.early_reductions += other.early_reductions;
        self.reductions += other.reductions;
        self.tcp.add(&other.tcp);
    }
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
        SenderReport {
            one_way_negotiated: u64::from(report.negotiated),
            early_reductions,
            reductions,
            ..SenderReport::default()
        }
    }
}

/// Senders of a run, and what they did.
#[derive(Default)]
pub(crate) struct Senders {
    /// Those that have not ended.
    live: HashMap<u64, Arc<dyn ReportSender>>,
    totals: SenderTotals,
}

/// Senders of a run together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderTotals {
    /// Senders that began.
    pub(crate) began: u64,
    /// The most that were there at once.
    pub(crate) at_once: u64,
    /// What they did.
    pub(crate) did: SenderReport,
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
            self.totals.did.add(&sender.report());
        }
    }

    /// What all of them did. Those still sending are asked now and count as ended. Sums do not depend on the map's order.
    pub(crate) fn totals(&mut self) -> SenderTotals {
        for sender in std::mem::take(&mut self.live).into_values() {
            self.totals.did.add(&sender.report());
        }
        self.totals
    }
}
