//! Counters of a group's connections that only grow. They are read at the end of the warm-up and at
//! the end of the run, and the difference counts.

use std::time::Duration;

use super::recorder::Timeouts;
use super::sender_watch::SenderTimes;
use crate::stack::SenderReport;

/// Counts of the connections of one controller so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Connections that have ended. Connections that end during the warm-up are not counted.
    pub(super) ended: u64,
    pub(super) connections: u64,
    pub(super) senders: SenderReport,
    pub(super) timeouts: Timeouts,
    pub(super) limited: SenderTimes,
}

/// Counts of these connections from the end of the warm-up on.
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
            // A stack that reports any probe timeout reports all of them.
            probe_timeouts: if self.timeouts.reported > 0 { reported } else { inferred },
            silences: inferred,
            backoffs: backoffs - before.timeouts.backoffs,
            backed_off: backed_off.saturating_sub(before.timeouts.backed_off),
        }
    }
}
