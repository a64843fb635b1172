//! Monotonic counters of a group's connections. They are read at the end of the warm-up and at the
//! end of the run, and the difference is reported.

use std::time::Duration;

use super::recorder::Timeouts;
use super::sender_watch::SenderTimes;
use crate::stack::SenderReport;

/// Counts so far of the connections that have one controller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Connections that have ended, without those that ended during the warm-up.
    pub(super) ended: u64,
    pub(super) connections: u64,
    pub(super) senders: SenderReport,
    pub(super) timeouts: Timeouts,
    pub(super) limited: SenderTimes,
}

/// Counts of these connections since the end of the warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Connections that were open at the end of the warm-up or were opened later.
    pub(super) connections: u64,
    pub(super) senders: SenderReport,
    pub(super) limited: SenderTimes,
    pub(super) probe_timeouts: u64,
    pub(super) silences: u64,
    pub(super) backoffs: u64,
    pub(super) backed_off: Duration,
}

impl Counters {
    /// Returns the counts between `before` and `self`.
    pub(super) fn since(&self, before: &Self) -> Counted {
        let Timeouts { reported, inferred, backoffs, backed_off } = self.timeouts;
        let (reported, inferred) =
            (reported - before.timeouts.reported, inferred - before.timeouts.inferred);
        Counted {
            connections: self.connections - before.ended,
            senders: self.senders.since(&before.senders),
            limited: self.limited.since(&before.limited),
            // If a stack reports some probe timeouts, it reports all of them.
            probe_timeouts: if self.timeouts.reported > 0 { reported } else { inferred },
            silences: inferred,
            backoffs: backoffs - before.timeouts.backoffs,
            backed_off: backed_off.saturating_sub(before.timeouts.backed_off),
        }
    }
}
