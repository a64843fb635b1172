//! A wrapper that records every event that a stack delivers, and the send parameters after each
//! event.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::capabilities::Capabilities;
use crate::config::{ControllerConfig, Missing};
use crate::controller::{Controller, ControllerMetrics, SendParams};
use crate::event::{AckEvent, Acked, CongestionEvent, EcnDelta, PathChange, Rtt, Sent, Start};
use crate::units::{OneWayDelay, Time};

/// A delivered event, with owned data.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call of [`Controller::on_sent`].
    Sent(Sent),
    /// A call of [`Controller::on_ack`]; the fields are those of [`AckEvent`].
    AckEvent {
        /// Time when the frame arrived.
        now: Time,
        /// Newly acknowledged packets.
        packets: Vec<Acked>,
        /// Bytes in flight without these packets.
        in_flight: u64,
        /// Round-trip times.
        rtt: Rtt,
        /// Forward one-way delay.
        one_way: Option<OneWayDelay>,
        /// Increases of the ECN counts.
        ecn: Option<EcnDelta>,
        /// Whether the application was the limit.
        app_limited: bool,
    },
    /// A call of [`Controller::on_congestion_event`].
    CongestionEvent(CongestionEvent),
    /// A call of [`Controller::on_spurious_congestion_event`].
    Undo(Time),
    /// A call of [`Controller::on_probe_timeout`].
    ProbeTimeout(Time, u32),
    /// A call of [`Controller::on_path`].
    Path(Time, PathChange),
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub struct Record {
    /// Event from the stack.
    pub event: Event,
    /// Send parameters of the controller after the event.
    pub params: SendParams,
}

/// A log that keeps only the newest records. Clones share one log.
#[derive(Clone, Debug)]
pub struct Log {
    records: Arc<Mutex<VecDeque<Record>>>,
    capacity: usize,
}

impl Log {
    /// Creates an empty log of at most `capacity` records. New records replace the oldest.
    pub fn new(capacity: usize) -> Self {
        Self { records: Arc::default(), capacity }
    }

    /// Returns the records so far, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn push(&self, record: Record) {
        if self.capacity == 0 {
            return;
        }
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() >= self.capacity {
            records.pop_front();
        }
        records.push_back(record);
    }
}

/// A controller that passes every event to another controller and records it. Copies made by the
/// stack record to the same log.
#[derive(Debug)]
pub struct Recording {
    inner: Box<dyn Controller>,
    log: Log,
}

impl Recording {
    /// Creates a wrapper that records in `log` the events for `inner` and the answers of `inner`.
    pub fn new(inner: Box<dyn Controller>, log: Log) -> Self {
        Self { inner, log }
    }

    fn record(&self, event: Event) {
        self.log.push(Record { event, params: self.inner.send_params() });
    }
}

impl Controller for Recording {
    fn on_sent(&mut self, sent: &Sent) {
        self.inner.on_sent(sent);
        self.record(Event::Sent(*sent));
    }

    fn on_ack(&mut self, acks: &AckEvent<'_>) {
        self.inner.on_ack(acks);
        let AckEvent { now, packets, in_flight, rtt, one_way, ecn, app_limited } = *acks;
        self.record(Event::AckEvent {
            now,
            packets: packets.to_vec(),
            in_flight,
            rtt,
            one_way,
            ecn,
            app_limited,
        });
    }

    fn on_congestion_event(&mut self, congestion_event: &CongestionEvent) {
        self.inner.on_congestion_event(congestion_event);
        self.record(Event::CongestionEvent(*congestion_event));
    }

    fn on_spurious_congestion_event(&mut self, now: Time) {
        self.inner.on_spurious_congestion_event(now);
        self.record(Event::Undo(now));
    }

    fn on_probe_timeout(&mut self, now: Time, count: u32) {
        self.inner.on_probe_timeout(now, count);
        self.record(Event::ProbeTimeout(now, count));
    }

    fn on_path(&mut self, now: Time, change: PathChange) {
        self.inner.on_path(now, change);
        self.record(Event::Path(now, change));
    }

    fn send_params(&self) -> SendParams {
        self.inner.send_params()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.boxed(), log: self.log.clone() })
    }
}

/// A configuration whose controllers all record to one log.
#[derive(Clone, Debug)]
pub struct RecordingConfig {
    inner: Arc<dyn ControllerConfig>,
    log: Log,
}

impl RecordingConfig {
    /// Creates a configuration that records every controller started by `inner` in `log`.
    pub fn new(inner: Arc<dyn ControllerConfig>, log: Log) -> Self {
        Self { inner, log }
    }
}

impl ControllerConfig for RecordingConfig {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn spec(&self) -> String {
        self.inner.spec()
    }

    fn required(&self) -> Capabilities {
        self.inner.required()
    }

    fn optional(&self) -> Capabilities {
        self.inner.optional()
    }

    fn hint(&self) -> &'static str {
        self.inner.hint()
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        Ok(Box::new(Recording::new(self.inner.start(start)?, self.log.clone())))
    }
}
