//! Reports of a run's senders, during and after their connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fathom_stacks::{ConnectionStats, Monitor};

use crate::tcp::TcpOutcome;

/// Counts of one sender, or sums over several senders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderReport {
    /// Senders whose peer agreed to report one-way delays.
    pub(crate) one_way_negotiated: u64,
    pub(crate) early_reductions: u64,
    pub(crate) reductions: u64,
    pub(crate) tcp: TcpOutcome,
    pub(crate) stats: SenderStats,
}

/// Counts that stacks keep of their senders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderStats {
    /// Senders whose stack reports counts.
    pub(crate) told: u64,
    /// Packets sent, and bytes of their UDP payloads.
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    /// Packets declared lost.
    pub(crate) lost: u64,
    /// Number of senders whose stack counts packets that were declared lost and acknowledged later,
    /// and the number of these packets.
    pub(crate) tell_spurious: u64,
    pub(crate) spurious: u64,
    /// Number and sum of the smoothed round-trip times.
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

    /// Returns the counts between `before` and `self`. The numbers of senders and the smoothed
    /// round-trip times are the values in `self`.
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
    /// Returns the counts between `before` and `self`.
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

/// A sender that reports its counts.
pub(crate) trait ReportSender: Send + Sync {
    /// Returns the counts so far.
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

/// The senders of a run and their counts.
#[derive(Default)]
pub(crate) struct Senders {
    /// Senders that have not ended.
    live: HashMap<u64, Arc<dyn ReportSender>>,
    totals: SenderTotals,
}

/// Totals over all senders of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SenderTotals {
    /// Senders that began.
    pub(crate) began: u64,
    /// Largest number of senders at the same time.
    pub(crate) at_once: u64,
    /// Counts of all senders.
    pub(crate) did: SenderReport,
}

impl Senders {
    /// Adds a sender. Returns the number by which the sender is ended later.
    pub(crate) fn began(&mut self, sender: Arc<dyn ReportSender>) -> u64 {
        self.totals.began += 1;
        self.live.insert(self.totals.began, sender);
        self.totals.at_once = self.totals.at_once.max(self.live.len() as u64);
        self.totals.began
    }

    /// Ends a sender and adds its counts to the totals.
    pub(crate) fn ended(&mut self, id: u64) {
        if let Some(sender) = self.live.remove(&id) {
            self.totals.did.add(&sender.report());
        }
    }

    /// Returns the counts of all senders so far, including those that are still sending.
    pub(crate) fn so_far(&self) -> SenderReport {
        let mut did = self.totals.did;
        self.live.values().for_each(|sender| did.add(&sender.report()));
        did
    }

    /// Returns the totals over all senders. Senders that are still sending end with their counts so
    /// far. The sums do not depend on the order of the map.
    pub(crate) fn totals(&mut self) -> SenderTotals {
        for sender in std::mem::take(&mut self.live).into_values() {
            self.totals.did.add(&sender.report());
        }
        self.totals
    }
}
