//! A connection's qlog: events of its controller and its responses.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use fathom_cc::{
    AckEvent, Cause, CongestionEvent, ControllerMetrics, OneWayDelay, Phase, Rate, Sent, Time,
};
use fathom_plugin::{InUse, Observer};
use fathom_qlog::{
    CongestionStateChange, EcnMark, Event, Log, LogFolder, Metrics, OneWayDelaySample, PacketsLost,
    ResponseAbandoned, ResponseCompleted, ServerTitle, TimestampsNegotiated, TraceHeader,
    VantagePoint,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use fathom_stacks::ConnectionStats;

use crate::metrics::{ControllerLabels, ResponseTimes};

/// Interval at which native controllers are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The qlog of a connection, written by an observer of its controller and its responses.
#[derive(Debug)]
pub struct ConnectionLog {
    log: DeferredLog,
    began: Instant,
    observed: Mutex<ObservedState>,
}

/// A log that starts after the handshake, because a spoofed datagram can start a connection but
/// must not create a file.
#[derive(Debug)]
struct DeferredLog {
    log: OnceLock<Log>,
    /// Header; `None` once the log has begun.
    header: Mutex<Option<TraceHeader>>,
    /// Signals that the log has begun.
    begun: Notify,
}

impl DeferredLog {
    fn begin(&self, folder: &LogFolder) {
        let header = self.header.lock().take();
        if let Some(header) = header {
            let _ = self.log.set(folder.begin(header));
            self.begun.notify_one();
        }
    }

    fn has_begun(&self) -> bool {
        self.log.get().is_some()
    }

    /// Logs an event if the log has begun.
    fn event(&self, at: Duration, event: Event) {
        if let Some(log) = self.log.get() {
            log.event(at, event);
        }
    }
}

/// State observed up to the last metrics event, with which the next events are compared.
#[derive(Debug, Default)]
struct ObservedState {
    /// Round-trip times and counts of the last batch.
    pending: Metrics,
    /// Bytes sent so far.
    sent: u64,
    /// Number of packets lost so far, on stacks that report only this number.
    lost: u64,
    phase: Option<Phase>,
    /// Whether there was a round-trip time before. The first smoothed value is only the stack's
    /// guess.
    smooths: bool,
    /// Smallest one-way delay so far.
    base: Option<OneWayDelay>,
}

impl ConnectionLog {
    /// Returns the log of a server's connection `id` with these labels. The log takes events only
    /// after a call of [`Self::begin`].
    pub(crate) fn deferred(id: String, of: &ControllerLabels) -> Self {
        let title = ServerTitle { stack: of.stack, controller: &of.controller };
        Self::of(id, VantagePoint::Server, title.to_string())
    }

    /// Opens the log of the connection `id`, seen from one of its ends.
    pub fn open(folder: &LogFolder, id: String, vantage: VantagePoint, title: String) -> Self {
        let log = Self::of(id, vantage, title);
        log.begin(folder);
        log
    }

    // A log states when its connection began.
    #[allow(clippy::disallowed_methods)]
    fn of(id: String, vantage: VantagePoint, title: String) -> Self {
        let header = TraceHeader { id, vantage, title, began: SystemTime::now() };
        let log = DeferredLog {
            header: Mutex::new(Some(header)),
            log: OnceLock::new(),
            begun: Notify::new(),
        };
        Self { log, began: Instant::now(), observed: Mutex::default() }
    }

    /// Begins the log, unless it has already begun.
    pub(crate) fn begin(&self, folder: &LogFolder) {
        self.log.begin(folder);
    }

    fn observed(&self) -> MutexGuard<'_, ObservedState> {
        self.observed.lock()
    }

    /// Returns the time of events to which the controllers' clock gives no time.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Logs, after the handshake, which frame carries one-way delays. Logs nothing if no frame
    /// does.
    pub(crate) fn timestamps_negotiated(&self, in_use: InUse) {
        if in_use != InUse::None {
            self.log.event(
                self.now(),
                Event::Timestamps(TimestampsNegotiated { frame: in_use.name() }),
            );
        }
    }

    /// Logs that the client has acknowledged a whole response.
    pub(crate) fn response_acknowledged(&self, status: u16, bytes: u64, times: &ResponseTimes) {
        let ResponseTimes { first_byte, handed_over, acknowledged } = *times;
        let response = ResponseCompleted {
            status,
            bytes,
            first_byte_handed_over: first_byte,
            handed_over,
            acknowledged,
        };
        self.log.event(self.now(), Event::Response(response));
    }

    /// Logs that a response ended before the client had acknowledged the whole response.
    pub(crate) fn response_abandoned(
        &self,
        status: u16,
        bytes: u64,
        handed_over: Option<Duration>,
    ) {
        self.log
            .event(self.now(), Event::Abandoned(ResponseAbandoned { status, bytes, handed_over }));
    }

    /// Samples a connection every [`SAMPLE_INTERVAL`] once the log has begun, and logs changes.
    pub(crate) async fn sample(&self, report: impl Fn() -> ConnectionStats) -> Infallible {
        self.log.begun.notified().await;
        loop {
            self.record_changes(&report());
            tokio::time::sleep(SAMPLE_INTERVAL).await;
        }
    }

    /// Logs changes since the last call.
    pub(crate) fn record_changes(&self, now: &ConnectionStats) {
        if !self.log.has_begun() {
            return;
        }
        let metrics = Metrics {
            smoothed_rtt: now.rtt,
            congestion_window: (now.window > 0).then_some(now.window),
            packets_sent: Some(now.sent),
            bytes_sent: Some(now.sent_bytes),
            ..Metrics::default()
        };
        self.log.event(self.now(), Event::Metrics(metrics));
        let before = std::mem::replace(&mut self.observed().lost, now.lost);
        if now.lost > before {
            let packets = Some(now.lost - before);
            self.log.event(
                self.now(),
                Event::Lost(PacketsLost { sent: None, packets, bytes: None, persistent: false }),
            );
        }
    }
}

/// Converts a controller's time to the time since the beginning of the log. Both times start with
/// the connection.
const fn since_begin(at: Time) -> Duration {
    Duration::from_nanos(at.as_nanos())
}

impl Observer for ConnectionLog {
    fn on_metrics(&self, now: Time, snapshot: &ControllerMetrics, _: Option<OneWayDelay>) {
        // Skip earlier events, because the log's first events show the state at its beginning.
        if !self.log.has_begun() {
            return;
        }
        let mut observed = self.observed();
        let metrics = Metrics {
            congestion_window: Some(snapshot.window),
            ssthresh: snapshot.threshold,
            bytes_sent: Some(observed.sent),
            queueing: snapshot.queueing,
            hold: snapshot.hold,
            early_reductions: (snapshot.early_reductions > 0).then_some(snapshot.early_reductions),
            ..std::mem::take(&mut observed.pending)
        };
        let old = observed.phase.replace(snapshot.phase);
        drop(observed);
        self.log.event(since_begin(now), Event::Metrics(metrics));
        if old != Some(snapshot.phase) {
            let state =
                CongestionStateChange { old: old.map(Phase::name), new: snapshot.phase.name() };
            self.log.event(since_begin(now), Event::State(state));
        }
    }

    fn on_sent(&self, sent: &Sent) {
        self.observed().sent += sent.bytes;
    }

    fn on_ack(&self, acks: &AckEvent<'_>, pace: Option<Rate>) {
        let mut observed = self.observed();
        let smooths = std::mem::replace(&mut observed.smooths, true);
        observed.pending = Metrics {
            latest_rtt: Some(acks.rtt.latest + acks.rtt.ack_delay),
            smoothed_rtt: smooths.then_some(acks.rtt.smoothed),
            min_rtt: Some(acks.rtt.min),
            bytes_in_flight: Some(acks.in_flight),
            pacing_rate: pace.map(Rate::bits_per_sec),
            acked_packets: Some(acks.packets.len() as u64),
            acked_bytes: Some(acks.bytes()),
            ..Metrics::default()
        };
        let Some(delay) = acks.one_way else { return };
        let base = observed.base.map_or(delay, |base| base.min(delay));
        observed.base = Some(base);
        drop(observed);
        let one_way = OneWayDelaySample { delay: delay.as_nanos(), queueing: delay.above(base) };
        self.log.event(since_begin(acks.now), Event::OneWay(one_way));
    }

    fn on_congestion_event(&self, congestion_event: &CongestionEvent) {
        let sent = since_begin(congestion_event.sent);
        let event = match congestion_event.cause {
            Cause::Loss { bytes, persistent } => Event::Lost(PacketsLost {
                sent: Some(sent),
                packets: None,
                bytes: Some(bytes),
                persistent,
            }),
            Cause::Mark => Event::Marked(EcnMark { sent }),
        };
        self.log.event(since_begin(congestion_event.now), event);
    }
}
