//! Watching a stack's own controller from outside, so that its window can be drawn beside ours.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_cc::{ControllerMetrics, Phase};
use fathom_quinn::Observer;

use super::{Sender, SenderReport};
use fathom_netsim::sim::SimHandle;

/// Reductions of a stack's own controller.
#[derive(Debug, Default)]
pub(super) struct Counts {
    reductions: AtomicU64,
}

impl Sender for Counts {
    fn report(&self) -> SenderReport {
        SenderReport { reductions: self.reductions.load(Ordering::Relaxed), ..SenderReport::default() }
    }
}

/// Tells of a controller's window.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) sim: SimHandle,
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) counts: Arc<Counts>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Watched {
    /// The window after an event, in bytes. What else the controller thinks cannot be seen.
    pub(super) fn record(&self, window: u64, threshold: Option<u64>) {
        let Some(observer) = &self.observer else { return };
        let slow_start = threshold.is_none_or(|threshold| window < threshold);
        let snapshot = ControllerMetrics {
            window,
            threshold,
            phase: if slow_start { Phase::SlowStart } else { Phase::Avoidance },
            queueing: None,
            hold: None,
            datagram: None,
            reductions: self.counts.reductions.load(Ordering::Relaxed),
            early_reductions: 0,
        };
        observer.on_metrics(self.sim.time(), &snapshot, None);
    }

    /// A loss or mark came: it counts when the window fell.
    pub(super) fn reduced(&self, before: u64, after: u64) {
        if after < before {
            self.counts.reductions.fetch_add(1, Ordering::Relaxed);
        }
    }
}
