//! The state that all tasks of a run share: the simulation, its statistics and the settings of its connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::traffic;
use crate::http::HttpError;
use crate::measure::{Completed, Responses, WindowTrace};
use crate::stack::Senders;
use crate::workload::WebRequest;
use fathom_netsim::hash::StableHash;
use fathom_netsim::sim::SimHandle;

/// Completed responses of a running run, for progress bars.
pub type Progress = Arc<AtomicU64>;

/// What all tasks of a run share.
pub(super) struct RunState {
    pub(super) sim: SimHandle,
    pub(super) wanted: u64,
    pub(super) progress: Progress,
    pub(super) stats: Mutex<RunStats>,
    /// Server delays of the flows that have one.
    pub(super) delays: Mutex<HashMap<u32, Duration>>,
    pub(super) traced_flow: Mutex<Option<u32>>,
    pub(super) window: Arc<WindowTrace>,
    /// The workload has no more requests than those wanted.
    pub(super) finite: bool,
}

#[derive(Default)]
pub(super) struct RunStats {
    pub(super) responses: Responses,
    /// Over the requests made.
    pub(super) requests: StableHash,
    pub(super) failed: u64,
    pub(super) connections: u64,
    /// Of the forward direction.
    pub(super) senders: Senders,
}

impl RunState {
    pub(super) fn stats(&self) -> MutexGuard<'_, RunStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is being made, as number `index` of its direction.
    pub(super) fn record_request(&self, request: &WebRequest, forward: bool, index: usize) {
        if forward && (index as u64) < self.wanted {
            traffic::note(&mut self.stats().requests, request);
        }
    }

    pub(super) fn record_outcome(&self, outcome: Result<Completed, HttpError>) {
        let mut stats = self.stats();
        match outcome {
            Ok(completed) => stats.responses.add(completed),
            Err(e) => {
                tracing::debug!("request failed: {e}");
                stats.failed += 1;
            }
        }
        let count = stats.responses.count();
        self.progress.store(count, Ordering::Relaxed);
        // A workload with an end is over when nothing is left to wait for.
        if count == self.wanted || self.finite && count + stats.failed == self.wanted {
            self.sim.stop();
        }
    }
}
