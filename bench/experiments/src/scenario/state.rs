//! State and statistics of a run in progress.

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

/// Progress of a run, for progress bars: completed responses, or milliseconds of virtual time.
pub type Progress = Arc<AtomicU64>;

/// State that all tasks of a run share.
pub(super) struct RunState {
    pub(super) sim: SimHandle,
    /// Completed responses of counted groups at which the run ends; `None` if the run ends at a
    /// time.
    pub(super) wanted: Option<u64>,
    /// Total number of requests of the counted groups, if this number is fixed and sufficient for
    /// `wanted`.
    pub(super) requests: Option<u64>,
    pub(super) progress: Progress,
    /// Storage for every response; `None` if responses are not kept.
    pub(super) responses: Option<SharedSpool>,
    pub(super) counted: Mutex<CountedResponses>,
    /// End of the warm-up. Only requests that begin at this time or later are counted.
    pub(super) since: Time,
    pub(super) at_warm_up: Mutex<WarmUpCounts>,
}

/// Results of the requests of counted groups.
#[derive(Clone, Copy, Default)]
pub(super) struct CountedResponses {
    pub(super) completed: u64,
    pub(super) failed: u64,
}

/// Counts at the end of the warm-up, which are subtracted from the counts at the end of the run.
#[derive(Default)]
pub(super) struct WarmUpCounts {
    pub(super) links: HashMap<LinkId, LinkStats>,
    pub(super) impairments: HashMap<LinkId, ImpairmentCounts>,
    pub(super) background: PacketLevelReport,
}

/// The connections of a group that have the same controller.
pub(super) struct ControllerGroup {
    pub(super) state: Arc<RunState>,
    /// Number of the group of traffic, and the kind of its responses.
    pub(super) number: u16,
    pub(super) kind: ResponseKind,
    /// Whether the responses count towards the end of the run.
    pub(super) counts: bool,
    pub(super) record: Arc<Record>,
    pub(super) stats: Mutex<RunStats>,
    /// Counters at the end of the warm-up.
    pub(super) at_warm_up: Mutex<Counters>,
    /// Flow whose sender's window is traced; `None` until this flow is open.
    pub(super) traced: Mutex<Option<u32>>,
    pub(super) window: Arc<WindowTrace>,
    /// Maximum number of bytes that a receiver accepts, if the stack is TCP and has a limit.
    pub(super) receive_window: Option<u64>,
    /// Outcome of the traced response; `None` until this response is complete.
    pub(super) traced_end: Mutex<Option<TracedOutcome>>,
}

#[derive(Default)]
pub(super) struct RunStats {
    /// Completed responses whose requests began after the warm-up.
    pub(super) responses: Responses,
    /// Requests that began after the warm-up, whatever their result.
    pub(super) begun: u64,
    /// Page views, if the group loads pages.
    pub(super) pages: Option<Box<PageStats>>,
    /// Live streams in the order of their starts.
    pub(super) live: Vec<LiveStream>,
    /// Failed requests that began after the warm-up.
    pub(super) failed: u64,
    /// Requests that failed because the user gave up.
    pub(super) abandoned: u64,
    /// Requests that failed because their connection timed out.
    pub(super) timed_out: u64,
    /// Failed requests that began after the warm-up, by reason.
    pub(super) failures: FailureReasons,
    pub(super) connections: u64,
    /// Counts of the datagrams of closed flows.
    pub(super) over: FlowSpans,
    /// Open flows.
    pub(super) open: Vec<u32>,
    /// Server delays of the open flows that have one.
    pub(super) delays: HashMap<u32, Duration>,
    pub(super) senders: Senders,
    /// Observers of the senders of open flows, and the limits of the senders of closed flows.
    pub(super) watches: HashMap<u32, Arc<SenderWatch>>,
    pub(super) limited: SenderTimes,
}

/// Numbers of failed requests by reason.
#[derive(Clone, Default)]
pub(super) struct FailureReasons(BTreeMap<String, u64>);

impl FailureReasons {
    /// Maximum number of distinct reasons. Stacks have few reasons, but texts that differ in every
    /// request must not fill the memory.
    const MOST: usize = 16;
    const OTHER: &str = "other reasons";

    /// Counts requests that failed for this reason.
    pub(super) fn add(&mut self, reason: String, count: u64) {
        let known = self.0.contains_key(&reason) || self.0.len() < Self::MOST;
        *self.0.entry(if known { reason } else { Self::OTHER.into() }).or_default() += count;
    }

    /// Adds the counts of `other`.
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

    /// Records that a connection is opened as this flow, to a server with this delay.
    pub(super) fn opened(&self, flow: u32, server_delay: Duration) {
        let mut stats = self.stats();
        stats.connections += 1;
        stats.open.push(flow);
        if !server_delay.is_zero() {
            stats.delays.insert(flow, server_delay);
        }
    }

    /// Returns a new observer of the sender of this flow.
    pub(super) fn watch(&self, flow: u32, trace: Option<Arc<WindowTrace>>) -> Arc<SenderWatch> {
        let watch = Arc::new(SenderWatch::new(self.state.sim.time(), self.receive_window, trace));
        let mut stats = self.stats();
        if let Some(before) = stats.watches.insert(flow, Arc::clone(&watch)) {
            stats.limited.add(&before.times());
        }
        drop(stats);
        watch
    }

    /// Calls `tell` with the observer of this flow's sender, if the sender has an observer.
    pub(super) fn with_watch(&self, flow: Option<u32>, tell: impl FnOnce(&SenderWatch, Time)) {
        let watch = flow.and_then(|flow| self.stats().watches.get(&flow).cloned());
        if let Some(watch) = watch {
            tell(&watch, self.state.sim.time());
        }
    }

    /// Returns the limits of all senders so far.
    pub(super) fn limited(&self) -> SenderTimes {
        let stats = self.stats();
        let mut all = stats.limited;
        stats.watches.values().for_each(|watch| all.add(&watch.times()));
        all
    }

    /// Returns the current counters of the connections.
    pub(super) fn counters(&self) -> Counters {
        let limited = self.limited();
        let stats = self.stats();
        let (connections, open) = (stats.connections, stats.open.len() as u64);
        Counters {
            ended: connections - open,
            connections,
            senders: stats.senders.so_far(),
            timeouts: self.record.timeouts(),
            limited,
        }
    }

    /// Closes a flow when its client has finished. Returns the counts of its datagrams.
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

    /// Counts a request that begins, or was scheduled, at `start`.
    pub(super) fn begins(&self, start: Time) {
        self.stats().begun += u64::from(start >= self.state.since);
    }

    /// Records the outcome of the traced response.
    pub(super) fn traced_completed(&self, completed: &Completed, counts: FlowCounts) {
        *self.traced_end.lock() = Some(TracedOutcome {
            seconds: round(completed.took.as_secs_f64(), 6),
            sent: counts.sent,
            lost: counts.lost(),
        });
    }

    /// Keeps a response as a row if the run keeps single responses.
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

    /// Records the end of a response that began at `start`.
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
                    stats.timed_out += u64::from(e.timed_out());
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
        // A run with a fixed number of requests ends when no request is open.
        let all = self
            .state
            .requests
            .is_some_and(|requests| counted.completed + counted.failed >= requests);
        if counted.completed == wanted || all {
            self.state.sim.stop();
        }
    }
}
