//! Metrics of responses, and of the memory that they hold.

use std::sync::OnceLock;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{ControllerLabels, ReasonLabels, StatusLabels};
use super::registration::{Histograms, add, bytes, histogram, response_times};

/// Reason why a client that reads its responses too slowly is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlowReader {
    /// The client acknowledged almost nothing for
    /// [`Limits::stall_timeout`](crate::limits::Limits::stall_timeout). Its responses are reset.
    #[error("the client reads too slowly")]
    Stall,
    /// The client held response memory that other clients needed. Its connection is closed.
    #[error("the client reads too slowly while memory is short")]
    Pressure,
}

/// Metrics of the memory for unacknowledged response data.
#[derive(Clone, Debug, Default)]
pub struct ResponseMemoryMetrics {
    total: Gauge,
    used: Gauge,
    given_up: Family<ReasonLabels, Counter>,
}

/// Returns a number in the type of gauges.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl ResponseMemoryMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            used: bytes(r, "unacknowledged", "Unacknowledged response data, in bytes"),
            total: bytes(
                r,
                "unacknowledged_limit",
                "Limit of unacknowledged response data, in bytes",
            ),
            given_up: add(
                r,
                "clients_given_up",
                "Slow readers dropped, by reason: stall (the response was reset) or pressure (the \
                 connection was closed because memory was short)",
            ),
        }
    }

    /// Sets the limit of the memory in bytes.
    pub fn set_limit(&self, total: u64) {
        self.total.set(signed(total));
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> u64 {
        u64::try_from(self.used.get()).unwrap_or(0)
    }

    /// Adds bytes in use.
    pub fn hold(&self, bytes: u64) {
        self.used.inc_by(signed(bytes));
    }

    /// Subtracts bytes in use.
    pub fn release(&self, bytes: u64) {
        self.used.dec_by(signed(bytes));
    }

    /// Counts a slow reader that was dropped.
    pub fn aborted(&self, why: SlowReader) {
        let reason = match why {
            SlowReader::Stall => "stall",
            SlowReader::Pressure => "pressure",
        };
        self.given_up.get_or_create(&ReasonLabels { reason }).inc();
    }
}

/// Response metrics of all controllers.
#[derive(Debug)]
pub(super) struct ResponseFamilies {
    responses: Family<StatusLabels, Counter>,
    abandoned: Family<ControllerLabels, Counter>,
    body_bytes: Family<ControllerLabels, Counter>,
    response: Histograms,
    handed_over: Histograms,
    first_byte: Histograms,
}

impl ResponseFamilies {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            responses: add(r, "responses", "Completely acknowledged responses, by status"),
            abandoned: add(
                r,
                "responses_abandoned",
                "Responses that were not completely acknowledged before their stream or connection ended",
            ),
            body_bytes: bytes(r, "body", "Bytes of response bodies"),
            response: histogram(
                r,
                "response_time",
                "Time from the request header to the acknowledgement of the last response byte",
                response_times,
            ),
            handed_over: histogram(
                r,
                "handed_over",
                "Time from the request header until the server handed the last response byte to \
                 QUIC; shorter than the client's waiting time",
                response_times,
            ),
            first_byte: histogram(
                r,
                "first_byte_handed_over",
                "Time from the request header until the server handed the first response byte to \
                 QUIC",
                response_times,
            ),
        }
    }

    /// Returns handles to one controller's metrics.
    pub(super) fn handles(&self, of: &ControllerLabels) -> ResponseMetrics {
        ResponseMetrics {
            of: of.clone(),
            responses: self.responses.clone(),
            ok: OnceLock::new(),
            body_bytes: self.body_bytes.get_or_create_owned(of),
            first_byte: self.first_byte.get_or_create_owned(of),
            handed_over: self.handed_over.get_or_create_owned(of),
            response: self.response.get_or_create_owned(of),
        }
    }

    /// Counts a response that was not completely acknowledged.
    pub(super) fn abandoned(&self, of: &ControllerLabels, bytes: u64) {
        self.abandoned.get_or_create(of).inc();
        self.body_bytes.get_or_create(of).inc_by(bytes);
    }
}

/// Handles to one controller's response metrics. The handles are looked up once, because a lookup
/// takes longer than an increment.
#[derive(Debug)]
pub struct ResponseMetrics {
    of: ControllerLabels,
    responses: Family<StatusLabels, Counter>,
    /// Counter of status 200, which nearly all responses have.
    ok: OnceLock<Counter>,
    body_bytes: Counter,
    first_byte: Histogram,
    handed_over: Histogram,
    response: Histogram,
}

/// Durations of a response, all measured from the arrival of its request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseTimes {
    /// Time until QUIC took the first byte of the body. If the body is handed over in one piece,
    /// this is also the time of the last byte.
    pub first_byte: Duration,
    /// Time until QUIC took the last byte. Data that fit into the send buffer are taken at once.
    pub handed_over: Duration,
    /// Time until the client had acknowledged the last byte. This includes the client's waiting
    /// time and the way back of the acknowledgement.
    pub acknowledged: Duration,
}

impl ResponseMetrics {
    /// Records a complete response.
    pub fn record(&self, status: u16, bytes: u64, times: &ResponseTimes) {
        let find = || {
            let label = StatusLabels {
                stack: self.of.stack,
                controller: self.of.controller.clone(),
                status,
            };
            self.responses.get_or_create_owned(&label)
        };
        match status {
            200 => self.ok.get_or_init(find).inc(),
            _ => find().inc(),
        };
        self.body_bytes.inc_by(bytes);
        self.first_byte.observe(times.first_byte.as_secs_f64());
        self.handed_over.observe(times.handed_over.as_secs_f64());
        self.response.observe(times.acknowledged.as_secs_f64());
    }
}
