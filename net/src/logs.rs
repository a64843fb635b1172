//! A connection's qlog: what its controller and its responses do.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fathom_cc::{AckEvent, Cause, CongestionEvent, ControllerMetrics, OneWayDelay, Phase, Rate, Sent, Time};
use fathom_plugin::Observer;
use fathom_qlog::{Abandoned, Event, Folder, Header, Log, Lost, Marked, Metrics, OneWay, Response, State, Vantage};
use tokio::sync::Notify;

use crate::metrics::{Controller, Ended, Times};

/// How often a stack's own controller is looked at.
const SAMPLED: Duration = Duration::from_millis(100);

/// Hears what happens on a connection and logs it.
#[derive(Debug)]
pub struct Tap {
    log: Later,
    began: Instant,
    heard: Mutex<Heard>,
}

/// A log that may begin after its connection: whoever sends a datagram makes a connection, and shall not make a file.
#[derive(Debug)]
struct Later {
    log: OnceLock<Log>,
    /// Until it has begun.
    header: Mutex<Option<Header>>,
    /// Hears once that it has begun.
    begun: Notify,
}

impl Later {
    fn begin(&self, folder: &Folder) {
        let header = self.header.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(header) = header {
            let _ = self.log.set(folder.begin(header));
            self.begun.notify_one();
        }
    }

    fn has_begun(&self) -> bool {
        self.log.get().is_some()
    }

    /// Logs an event, where the log has begun.
    fn event(&self, at: Duration, event: Event) {
        if let Some(log) = self.log.get() {
            log.event(at, event);
        }
    }
}

/// What was heard since the last metrics event, and what the next ones compare with.
#[derive(Debug, Default)]
struct Heard {
    /// Round trips and counts of the last batch.
    news: Metrics,
    /// Bytes sent so far.
    sent: u64,
    /// Packets lost so far, where a stack only counts them.
    lost: u64,
    phase: Option<Phase>,
    /// There was a round trip before: the first smoothed one is a guess of the stack's.
    smooths: bool,
    /// Smallest one-way delay so far.
    base: Option<OneWayDelay>,
}

impl Tap {
    /// Of the connection `id` of a server, whose controller is `of`. What it hears is logged from [`Self::begin`] on.
    pub(crate) fn waiting(id: String, of: &Controller) -> Self {
        Self::of(id, Vantage::Server, format!("fathom serve: {} with {}", of.stack, of.controller))
    }

    /// Begins the log of the connection `id`, seen from one of its ends.
    pub fn at(folder: &Folder, id: String, vantage: Vantage, title: String) -> Self {
        let tap = Self::of(id, vantage, title);
        tap.begin(folder);
        tap
    }

    // A log says when its connection began.
    #[allow(clippy::disallowed_methods)]
    fn of(id: String, vantage: Vantage, title: String) -> Self {
        let header = Header { id, vantage, title, began: SystemTime::now() };
        let log = Later { header: Mutex::new(Some(header)), log: OnceLock::new(), begun: Notify::new() };
        Self { log, began: Instant::now(), heard: Mutex::default() }
    }

    /// Begins the log, unless it has begun.
    pub(crate) fn begin(&self, folder: &Folder) {
        self.log.begin(folder);
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For what the controllers' clock does not time.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The client has acknowledged all of a response.
    pub(crate) fn answered(&self, status: u16, bytes: u64, times: &Times) {
        let Times { first_byte, handed_over, acknowledged } = *times;
        let response = Response { status, bytes, first_byte_handed_over: first_byte, handed_over, acknowledged };
        self.log.event(self.now(), Event::Response(response));
    }

    /// A response ended, of which the client had not acknowledged all.
    pub(crate) fn abandoned(&self, status: u16, bytes: u64, handed_over: Option<Duration>) {
        self.log.event(self.now(), Event::Abandoned(Abandoned { status, bytes, handed_over }));
    }

    /// Looks at a connection every [`SAMPLED`], from the log's beginning on, and logs what has changed.
    pub(crate) async fn sample(&self, report: impl Fn() -> Ended) -> Infallible {
        self.log.begun.notified().await;
        loop {
            self.look(&report());
            tokio::time::sleep(SAMPLED).await;
        }
    }

    /// Logs what has changed since it was looked at last.
    pub(crate) fn look(&self, now: &Ended) {
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
        let before = std::mem::replace(&mut self.heard().lost, now.lost);
        if now.lost > before {
            let packets = Some(now.lost - before);
            self.log.event(self.now(), Event::Lost(Lost { sent: None, packets, bytes: None, persistent: false }));
        }
    }
}

/// Controllers' time begins with the connection, as the log does.
const fn since_begin(at: Time) -> Duration {
    Duration::from_nanos(at.as_nanos())
}

impl Observer for Tap {
    fn on_metrics(&self, now: Time, snapshot: &ControllerMetrics, _: Option<OneWayDelay>) {
        // The log's first events tell the state that the connection has then.
        if !self.log.has_begun() {
            return;
        }
        let mut heard = self.heard();
        let metrics = Metrics {
            congestion_window: Some(snapshot.window),
            ssthresh: snapshot.threshold,
            bytes_sent: Some(heard.sent),
            queueing: snapshot.queueing,
            hold: snapshot.hold,
            early_reductions: (snapshot.early_reductions > 0).then_some(snapshot.early_reductions),
            ..std::mem::take(&mut heard.news)
        };
        let old = heard.phase.replace(snapshot.phase);
        drop(heard);
        self.log.event(since_begin(now), Event::Metrics(metrics));
        if old != Some(snapshot.phase) {
            let state = State { old: old.map(Phase::name), new: snapshot.phase.name() };
            self.log.event(since_begin(now), Event::State(state));
        }
    }

    fn on_sent(&self, sent: &Sent) {
        self.heard().sent += sent.bytes;
    }

    fn on_ack(&self, acks: &AckEvent<'_>, pace: Option<Rate>) {
        let mut heard = self.heard();
        let smooths = std::mem::replace(&mut heard.smooths, true);
        heard.news = Metrics {
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
        let base = heard.base.map_or(delay, |base| base.min(delay));
        heard.base = Some(base);
        drop(heard);
        let one_way = OneWay { delay: delay.as_nanos(), queueing: delay.above(base) };
        self.log.event(since_begin(acks.now), Event::OneWay(one_way));
    }

    fn on_congestion_event(&self, congestion_event: &CongestionEvent) {
        let sent = since_begin(congestion_event.sent);
        let event = match congestion_event.cause {
            Cause::Loss { bytes, persistent } => {
                Event::Lost(Lost { sent: Some(sent), packets: None, bytes: Some(bytes), persistent })
            }
            Cause::Mark => Event::Marked(Marked { sent }),
        };
        self.log.event(since_begin(congestion_event.now), event);
    }
}
