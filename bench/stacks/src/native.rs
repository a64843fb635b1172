//! Observes a stack's own controller from outside, so that its window can be plotted next to ours.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_cc::{
    AckEvent, Acked, Cause, CongestionEvent, ControllerMetrics, Phase, Rate, Rtt, Sent, Time,
};
use fathom_plugin::Observer;

/// Clock for the reports of a native controller's window.
pub type NativeClock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Counters of a stack's own controller, observed from outside.
#[derive(Debug, Default)]
pub struct NativeMonitor {
    reductions: AtomicU64,
}

impl NativeMonitor {
    /// Returns how often the window was reduced because of a loss or mark.
    pub fn reductions(&self) -> u64 {
        self.reductions.load(Ordering::Relaxed)
    }
}

/// Reporter of a controller's window to an observer, which also counts its reductions.
#[derive(Clone)]
pub struct NativeWatch {
    /// Clock of the reports.
    pub clock: NativeClock,
    /// Observer of the window.
    pub observer: Option<Arc<dyn Observer>>,
    /// Counters of the controller.
    pub monitor: Arc<NativeMonitor>,
}

impl fmt::Debug for NativeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NativeWatch")
    }
}

impl NativeWatch {
    /// Reports the window after an event, in bytes. Other state of the controller is not visible.
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
            media_rate: None,
            reductions: self.monitor.reductions(),
            early_reductions: 0,
        };
        observer.on_metrics((self.clock)(), &metrics, None);
    }

    /// Reports sent bytes.
    pub fn sent(&self, bytes: u64) {
        if let Some(observer) = &self.observer {
            observer.on_sent(&Sent { now: (self.clock)(), bytes });
        }
    }

    /// Reports a complete ACK frame.
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

    /// Reports lost bytes. If `bytes` is 0, reports a mark.
    pub fn lost(&self, bytes: u64) {
        let Some(observer) = &self.observer else { return };
        let now = (self.clock)();
        let cause = if bytes > 0 { Cause::Loss { bytes, persistent: false } } else { Cause::Mark };
        observer.on_congestion_event(&CongestionEvent { now, sent: now, cause });
    }

    /// Reports the send state since the stack last sent ([`Observer::on_send_state`]).
    pub fn send_state(&self, in_flight: u64, more: bool) {
        if let Some(observer) = &self.observer {
            observer.on_send_state((self.clock)(), in_flight, more);
        }
    }

    /// Counts a reduction if a loss or mark reduced the window.
    pub fn reduced(&self, before: u64, after: u64) {
        if after < before {
            self.monitor.reductions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The packets that one ACK frame acknowledges, combined into one acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeBatch {
    bytes: u64,
    latest: Duration,
    smoothed: Duration,
    min: Duration,
}

impl NativeBatch {
    /// Adds an acknowledged packet. `smoothed` and `min` are the stack's round-trip times.
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

    /// Returns the batch and starts a new one. Returns `None` if no packet was acknowledged.
    pub fn take(&mut self) -> Option<Self> {
        (self.bytes > 0).then(|| std::mem::take(self))
    }
}
