//! What the senders of a run did, those that have ended and those that have not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fathom_stacks::{ConnectionStats, Monitor};

use crate::scenario::TcpOutcome;

/// What one sender did, or several together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderReport {
    /// Senders whose peer agreed to tell them one-way delays.
    pub(crate) one_way_negotiated: u64,
    pub(crate) early_reductions: u64,
    pub(crate) reductions: u64,
    pub(crate) tcp: TcpOutcome,
    pub(crate) stats: SenderStats,
}

/// What stacks count of their senders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderStats {
    /// Senders whose stack told.
    pub(crate) told: u64,
    /// Packets sent, and bytes of their UDP payloads.
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    /// Packets declared lost.
    pub(crate) lost: u64,
    /// Senders whose stack counts packets declared lost that were acknowledged later, and these.
    pub(crate) tell_spurious: u64,
    pub(crate) spurious: u64,
    /// Smoothed round-trip times: how many, and their sum.
    pub(crate) round_trips: u64,
    pub(crate) smoothed: Duration,
}

impl SenderStats {
    pub(crate) fn of(stats: &ConnectionStats) -> Self {
        Self {
            told: 1,
            sent: stats.sent,
            sent_bytes: stats.sent_bytes,
            lost: stats.lost,
            tell_spurious: u64::from(stats.spurious.is_some()),
            spurious: stats.spurious.unwrap_or_default(),
            round_trips: u64::from(stats.rtt.is_some()),
            smoothed: stats.rtt.unwrap_or_default(),
        }
    }

    /// Returns what was counted between `before` and these; senders and their smoothed round-trip times are as they are.
    fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            lost: self.lost.saturating_sub(before.lost),
            spurious: self.spurious.saturating_sub(before.spurious),
            ..*self
        }
    }

    fn add(&mut self, other: &Self) {
        self.told += other.told;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.lost += other.lost;
        self.tell_spurious += other.tell_spurious;
        self.spurious += other.spurious;
        self.round_trips += other.round_trips;
        self.smoothed += other.smoothed;
    }
}

impl SenderReport {
    /// Returns what was done between `before` and this.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            one_way_negotiated: self.one_way_negotiated - before.one_way_negotiated,
            early_reductions: self.early_reductions.saturating_sub(before.early_reductions),
            reductions: self.reductions.saturating_sub(before.reductions),
            tcp: self.tcp.since(&before.tcp),
            stats: self.stats.since(&before.stats),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.one_way_negotiated += other.one_way_negotiated;
        self.early_reductions += other.early_reductions;
        self.reductions += other.reductions;
        self.tcp.add(&other.tcp);
        self.stats.add(&other.stats);
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
                return SenderReport {
                    reductions: monitor.reductions(),
                    ..SenderReport::default()
                };
            }
        };
        let (early_reductions, reductions) = report
            .controller
            .map_or((0, 0), |metrics| (metrics.early_reductions, metrics.reductions));
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

    /// Returns what all of them did so far, those still sending included.
    pub(crate) fn so_far(&self) -> SenderReport {
        let mut did = self.totals.did;
        self.live.values().for_each(|sender| did.add(&sender.report()));
        did
    }

    /// What all of them did. Those still sending are asked now and count as ended. Sums do not depend on the map's order.
    pub(crate) fn totals(&mut self) -> SenderTotals {
        for sender in std::mem::take(&mut self.live).into_values() {
            self.totals.did.add(&sender.report());
        }
        self.totals
    }
}
