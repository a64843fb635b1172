//! Watching a stack's own controller from outside, so that its window can be drawn beside ours.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_cc::{ControllerMetrics, Phase, Time};
use fathom_plugin::Observer;

/// Tells the time at which a native controller's window is reported.
pub type NativeClock = Arc<dyn Fn() -> Time + Send + Sync>;

/// The window of a stack's own controller, as it is seen from outside.
#[derive(Debug, Default)]
pub struct NativeMonitor {
    reductions: AtomicU64,
}

impl NativeMonitor {
    /// Times the window fell at a loss or mark.
    pub fn reductions(&self) -> u64 {
        self.reductions.load(Ordering::Relaxed)
    }
}

/// Reports a controller's window to an observer, and counts its reductions.
#[derive(Clone)]
pub struct NativeWatch {
    /// Its time.
    pub clock: NativeClock,
    /// Who hears of the window.
    pub observer: Option<Arc<dyn Observer>>,
    /// Counts.
    pub monitor: Arc<NativeMonitor>,
}

impl fmt::Debug for NativeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NativeWatch")
    }
}

impl NativeWatch {
    /// The window after an event, in bytes. What else the controller thinks cannot be seen.
    pub fn record(&self, window: u64, threshold: Option<u64>) {
        let Some(observer) = &self.observer else { return };
        let slow_start = threshold.is_none_or(|threshold| window < threshold);
        let metrics = ControllerMetrics {
            window,
            threshold,
            phase: if slow_start { Phase::SlowStart } else { Phase::Avoidance },
            queueing: None,
            hold: None,
            datagram: None,
            reductions: self.monitor.reductions(),
            early_reductions: 0,
        };
        observer.on_metrics((self.clock)(), &metrics, None);
    }

    /// A loss or mark came: it counts when the window fell.
    pub fn reduced(&self, before: u64, after: u64) {
        if after < before {
            self.monitor.reductions.fetch_add(1, Ordering::Relaxed);
        }
    }
}
