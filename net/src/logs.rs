//! A connection's qlog: what its controller and its responses do.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fathom_cc::{Acks, Cause, OneWayDelay, Phase, Rate, Sent, Setback, Snapshot, Time};
use fathom_plug::Observer;
use fathom_qlog::{Event, Folder, Header, Log, Lost, Marked, Metrics, OneWay, Response, State, Vantage};

use crate::metrics::{Controller, Ended};

/// How often a stack's own controller is looked at.
const SAMPLED: Duration = Duration::from_millis(100);

/// Hears what happens on a connection and logs it.
#[derive(Debug)]
pub struct Tap {
    log: Log,
    began: Instant,
    heard: Mutex<Heard>,
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
    /// Begins the log of the connection `id` whose controller is `of`.
    pub(crate) fn begin(folder: &Folder, id: String, of: &Controller) -> Self {
        Self::at(folder, id, Vantage::Server, format!("fathom serve: {} with {}", of.stack, of.controller))
    }

    /// Begins the log of the connection `id`, seen from one of its ends.
    // A log says when it began.
    #[allow(clippy::disallowed_methods)]
    pub fn at(folder: &Folder, id: String, vantage: Vantage, title: String) -> Self {
        let log = folder.begin(Header { id, vantage, title, began: SystemTime::now() });
        Self { log, began: Instant::now(), heard: Mutex::default() }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For what the controllers' clock does not time.
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A response was handed to QUIC in full.
    pub(crate) fn answered(&self, status: u16, bytes: u64, first_byte: Duration, total: Duration) {
        self.log.event(self.now(), Event::Response(Response { status, bytes, first_byte, total }));
    }

    /// Looks at a connection every [`SAMPLED`] and logs what has changed.
    pub(crate) async fn sample(&self, report: impl Fn() -> Ended) -> Infallible {
        loop {
            self.look(&report());
            tokio::time::sleep(SAMPLED).await;
        }
    }

    /// Logs what has changed since it was looked at last.
    pub(crate) fn look(&self, now: &Ended) {
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
    fn observe(&self, now: Time, snapshot: &Snapshot, _: Option<OneWayDelay>) {
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

    fn sent(&self, sent: &Sent) {
        self.heard().sent += sent.bytes;
    }

    fn acked(&self, acks: &Acks<'_>, pace: Option<Rate>) {
        let mut heard = self.heard();
        let smooths = std::mem::replace(&mut heard.smooths, true);
        heard.news = Metrics {
            latest_rtt: Some(acks.rtt.latest),
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

    fn set_back(&self, setback: &Setback) {
        let sent = since_begin(setback.sent);
        let event = match setback.cause {
            Cause::Loss { bytes, persistent } => {
                Event::Lost(Lost { sent: Some(sent), packets: None, bytes: Some(bytes), persistent })
            }
            Cause::Mark => Event::Marked(Marked { sent }),
        };
        self.log.event(since_begin(setback.now), event);
    }
}
