//! Watching a stack's own controller from outside, so that its window can be drawn beside ours.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_cc::{
    AckEvent, Acked, Cause, CongestionEvent, ControllerMetrics, Phase, Rate, Rtt, Sent, Time,
};
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

    /// Bytes left.
    pub fn sent(&self, bytes: u64) {
        if let Some(observer) = &self.observer {
            observer.on_sent(&Sent { now: (self.clock)(), bytes });
        }
    }

    /// An ACK frame is complete.
    pub fn acked(
        &self,
        batch: &NativeBatch,
        in_flight: u64,
        app_limited: bool,
        pacing_rate: Option<Rate>,
    ) {
        let Some(observer) = &self.observer else { return };
        let now = (self.clock)();
        let packets = [Acked { sent: now - batch.latest, bytes: batch.bytes }];
        let rtt = Rtt { smoothed: batch.smoothed, min: batch.min, ..Rtt::first(batch.latest) };
        let acks = AckEvent {
            now,
            packets: &packets,
            in_flight,
            rtt,
            one_way: None,
            ecn: None,
            app_limited,
        };
        observer.on_ack(&acks, pacing_rate);
    }

    /// Bytes were lost; none: a mark came.
    pub fn lost(&self, bytes: u64) {
        let Some(observer) = &self.observer else { return };
        let now = (self.clock)();
        let cause = if bytes > 0 { Cause::Loss { bytes, persistent: false } } else { Cause::Mark };
        observer.on_congestion_event(&CongestionEvent { now, sent: now, cause });
    }

    /// How things have stood since the stack sent last ([`Observer::on_send_state`]).
    pub fn send_state(&self, in_flight: u64, more: bool) {
        if let Some(observer) = &self.observer {
            observer.on_send_state((self.clock)(), in_flight, more);
        }
    }

    /// A loss or mark came: it counts when the window fell.
    pub fn reduced(&self, before: u64, after: u64) {
        if after < before {
            self.monitor.reductions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Packets that one ACK frame acknowledged, as one.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeBatch {
    bytes: u64,
    latest: Duration,
    smoothed: Duration,
    min: Duration,
}

impl NativeBatch {
    /// A packet was acknowledged; `smoothed` and `min` are the stack's round-trip times.
    pub fn add(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        smoothed: Duration,
        min: Duration,
    ) {
        self.bytes += bytes;
        self.latest = now.saturating_duration_since(sent);
        (self.smoothed, self.min) = (smoothed, min);
    }

    /// Returns the batch, and begins another; `None`: nothing was acknowledged.
    pub fn take(&mut self) -> Option<Self> {
        (self.bytes > 0).then(|| std::mem::take(self))
    }
}
