//! Counters of a group's connections that only grow: read at the end of the warm-up and at the end of the run, of which the difference
//! counts.

use std::time::Duration;

use super::recorder::Timeouts;
use super::sender_watch::SenderTimes;
use super::state::ControllerGroup;
use crate::stack::SenderReport;

/// What the connections of one controller did so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Connections that ended: they are not there after the warm-up.
    ended: u64,
    connections: u64,
    senders: SenderReport,
    timeouts: Timeouts,
    limited: SenderTimes,
}

/// What they did from the end of the warm-up on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Connections that were there: opened before the end of the warm-up and still open then, or opened later.
    pub(super) connections: u64,
    pub(super) senders: SenderReport,
    pub(super) limited: SenderTimes,
    pub(super) probe_timeouts: u64,
    pub(super) silences: u64,
    pub(super) backoffs: u64,
    pub(super) backed_off: Duration,
}

impl Counters {
    /// Returns the counters of a group's part as they stand.
    pub(super) fn of(part: &ControllerGroup) -> Self {
        let limited = part.limited();
        let stats = part.stats();
        let (connections, open) = (stats.connections, stats.open.len() as u64);
        Self {
            ended: connections - open,
            connections,
            senders: stats.senders.so_far(),
            timeouts: part.record.timeouts(),
            limited,
        }
    }

    /// Returns what was counted between `before` and these.
    pub(super) fn since(&self, before: &Self) -> Counted {
        let Timeouts { reported, inferred, backoffs, backed_off } = self.timeouts;
        let (reported, inferred) =
            (reported - before.timeouts.reported, inferred - before.timeouts.inferred);
        Counted {
            connections: self.connections - before.ended,
            senders: self.senders.since(&before.senders),
            limited: self.limited.since(&before.limited),
            // A stack that reports any reports all.
            probe_timeouts: if self.timeouts.reported > 0 { reported } else { inferred },
            silences: inferred,
            backoffs: backoffs - before.timeouts.backoffs,
            backed_off: backed_off.saturating_sub(before.timeouts.backed_off),
        }
    }
}
