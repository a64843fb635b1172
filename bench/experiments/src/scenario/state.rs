//! The state and the statistics of a run while it goes on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::{Completed, LiveStream, PageStats, Responses, WindowTrace, round};
use fathom_netsim::link::LinkStats;
use fathom_netsim::path::ImpairmentCounts;
use fathom_netsim::sim::{FlowCounts, FlowSpans, LinkId, SimHandle};
use fathom_packet_level::PacketLevelReport;
use parking_lot::{Mutex, MutexGuard};

use crate::http::HttpError;
use crate::stack::Senders;

use super::counters::Counters;
use super::outcome::TracedOutcome;
use super::recorder::Record;
use super::responses::{ResponseKind, ResponseRow, SharedSpool};
use super::sender_watch::{SenderTimes, SenderWatch};

/// What a running run has reached, for progress bars: completed responses, or milliseconds of virtual time.
pub type Progress = Arc<AtomicU64>;

/// The state that all tasks of a run share.
pub(super) struct RunState {
    pub(super) sim: SimHandle,
    /// Completed responses of counted groups at which the run ends; `None`: it ends at a time.
    pub(super) wanted: Option<u64>,
    /// Requests that the counted groups make at all, where that is a number, and enough for `wanted`.
    pub(super) requests: Option<u64>,
    pub(super) progress: Progress,
    /// Keeps every response.
    pub(super) responses: Option<SharedSpool>,
    pub(super) counted: Mutex<CountedResponses>,
    /// The end of the warm-up: requests count that begin then or later.
    pub(super) since: Time,
    pub(super) at_warm_up: Mutex<WarmUpCounts>,
}

/// What became of the requests of counted groups.
#[derive(Clone, Copy, Default)]
pub(super) struct CountedResponses {
    pub(super) completed: u64,
    pub(super) failed: u64,
}

/// Counts at the end of the warm-up, which are taken off those at the end of the run.
#[derive(Default)]
pub(super) struct WarmUpCounts {
    pub(super) links: HashMap<LinkId, LinkStats>,
    pub(super) impairments: HashMap<LinkId, ImpairmentCounts>,
    pub(super) background: PacketLevelReport,
}

/// The connections of a group that have one controller.
pub(super) struct ControllerGroup {
    pub(super) state: Arc<RunState>,
    /// Number of its group of traffic, and what its responses are.
    pub(super) number: u16,
    pub(super) kind: ResponseKind,
    /// Its responses count towards the end of the run.
    pub(super) counts: bool,
    pub(super) record: Arc<Record>,
    pub(super) stats: Mutex<RunStats>,
    /// Its counters at the end of the warm-up.
    pub(super) at_warm_up: Mutex<Counters>,
    /// The flow whose sender's window is traced, once it is opened.
    pub(super) traced: Mutex<Option<u32>>,
    pub(super) window: Arc<WindowTrace>,
    /// Bytes that a receiver takes at most, where the stack is TCP and there is a limit.
    pub(super) receive_window: Option<u64>,
    /// What came of that flow, once its response is there.
    pub(super) traced_end: Mutex<Option<TracedOutcome>>,
}

#[derive(Default)]
pub(super) struct RunStats {
    /// Completed responses whose requests began after the warm-up.
    pub(super) responses: Responses,
    /// Requests that began after the warm-up, whatever came of them.
    pub(super) begun: u64,
    /// Page views, where the group loads pages.
    pub(super) pages: Option<Box<PageStats>>,
    /// Live streams, in order of their start.
    pub(super) live: Vec<LiveStream>,
    /// Failed requests that began after the warm-up.
    pub(super) failed: u64,
    /// Of them, those whose user gave up.
    pub(super) abandoned: u64,
    /// All failed requests, by reason.
    pub(super) failures: FailureReasons,
    pub(super) connections: u64,
    /// What flows that are over sent and lost.
    pub(super) over: FlowSpans,
    /// Flows that are open.
    pub(super) open: Vec<u32>,
    /// Server delays of the open flows that have one.
    pub(super) delays: HashMap<u32, Duration>,
    pub(super) senders: Senders,
    /// What limits the senders of the open flows, and what limited those that are over.
    pub(super) watches: HashMap<u32, Arc<SenderWatch>>,
    pub(super) limited: SenderTimes,
}

/// Requests that failed, by reason.
#[derive(Clone, Default)]
pub(super) struct FailureReasons(BTreeMap<String, u64>);

impl FailureReasons {
    /// Distinct reasons kept: stacks have a few; texts that differ in every request must not fill
    /// memory.
    const MOST: usize = 16;
    const OTHER: &str = "other reasons";

    /// Counts requests that failed for a reason.
    pub(super) fn add(&mut self, reason: String, count: u64) {
        let known = self.0.contains_key(&reason) || self.0.len() < Self::MOST;
        *self.0.entry(if known { reason } else { Self::OTHER.into() }).or_default() += count;
    }

    /// Adds the counts of another.
    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(reason, count)| self.add(reason.clone(), *count));
    }

    /// Returns the counts by reason.
    pub(super) fn into_counts(self) -> BTreeMap<String, u64> {
        self.0
    }
}

impl ControllerGroup {
    pub(super) fn stats(&self) -> MutexGuard<'_, RunStats> {
        self.stats.lock()
    }

    /// A connection is opened as this flow, to a server with this delay.
    pub(super) fn opened(&self, flow: u32, server_delay: Duration) {
        let mut stats = self.stats();
        stats.connections += 1;
        stats.open.push(flow);
        if !server_delay.is_zero() {
            stats.delays.insert(flow, server_delay);
        }
    }

    /// Follows the sender of this flow.
    pub(super) fn watch(&self, flow: u32, trace: Option<Arc<WindowTrace>>) -> Arc<SenderWatch> {
        let watch = Arc::new(SenderWatch::new(self.state.sim.time(), self.receive_window, trace));
        let mut stats = self.stats();
        if let Some(before) = stats.watches.insert(flow, Arc::clone(&watch)) {
            stats.limited.add(&before.times());
        }
        drop(stats);
        watch
    }

    /// Tells the one who follows the sender of this flow.
    pub(super) fn with_watch(&self, flow: Option<u32>, tell: impl FnOnce(&SenderWatch, Time)) {
        let watch = flow.and_then(|flow| self.stats().watches.get(&flow).cloned());
        if let Some(watch) = watch {
            tell(&watch, self.state.sim.time());
        }
    }

    /// What limited all senders so far.
    pub(super) fn limited(&self) -> SenderTimes {
        let stats = self.stats();
        let mut all = stats.limited;
        stats.watches.values().for_each(|watch| all.add(&watch.times()));
        all
    }

    /// Its client is done with it; what became of its packets.
    pub(super) fn closed(&self, flow: u32) -> FlowCounts {
        let spans = self.state.sim.flow_spans(flow);
        let mut stats = self.stats();
        stats.open.retain(|open| *open != flow);
        stats.delays.remove(&flow);
        if let Some(watch) = stats.watches.remove(&flow) {
            stats.limited.add(&watch.times());
        }
        stats.over += spans;
        drop(stats);
        self.state.sim.retire_flow(flow);
        spans.whole
    }

    /// A request begins, or was to begin, at `start`.
    pub(super) fn begins(&self, start: Time) {
        self.stats().begun += u64::from(start >= self.state.since);
    }

    /// The traced flow's response is there.
    pub(super) fn traced_completed(&self, completed: &Completed, counts: FlowCounts) {
        *self.traced_end.lock() = Some(TracedOutcome {
            seconds: round(completed.took.as_secs_f64(), 6),
            sent: counts.sent,
            lost: counts.lost(),
        });
    }

    /// Keeps a response as a row, where rows are kept.
    pub(super) fn keep_row(
        &self,
        kind: ResponseKind,
        start: Time,
        outcome: Result<Completed, &HttpError>,
    ) {
        if let Some(responses) = &self.state.responses {
            responses.lock().add(&ResponseRow::new(self.number, kind, start, outcome));
        }
    }

    /// A response that began then is over.
    pub(super) fn record_outcome(&self, start: Time, outcome: Result<Completed, HttpError>) {
        let done = outcome.is_ok();
        self.keep_row(self.kind, start, outcome.as_ref().copied());
        if start >= self.state.since {
            let mut stats = self.stats();
            match outcome {
                Ok(completed) => stats.responses.add(completed),
                Err(e) => {
                    tracing::debug!("request failed: {e}");
                    stats.failed += 1;
                    stats.abandoned += u64::from(matches!(e, HttpError::Abandoned));
                    stats.failures.add(e.reason(), 1);
                }
            }
        }
        if !self.counts {
            return;
        }
        let Some(wanted) = self.state.wanted else { return };
        let mut counted = self.state.counted.lock();
        *if done { &mut counted.completed } else { &mut counted.failed } += 1;
        self.state.progress.store(counted.completed, Ordering::Relaxed);
        // A workload with an end is over when nothing is left to wait for.
        let all = self
            .state
            .requests
            .is_some_and(|requests| counted.completed + counted.failed >= requests);
        if counted.completed == wanted || all {
            self.state.sim.stop();
        }
    }
}
