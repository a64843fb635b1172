//! Counts and histograms per controller, as Prometheus reads them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fathom_plugin::InUse;
use fathom_qlog::Folder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Which connections a number is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Controller {
    /// QUIC stack.
    pub stack: &'static str,
    /// Controller with its options.
    pub controller: String,
}

/// Which responses a number is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    stack: &'static str,
    controller: String,
    status: u16,
}

/// Connections by the extension that tells one-way delays.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Extension {
    stack: &'static str,
    controller: String,
    extension: &'static str,
}

/// Why a client was given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Why a client is given up that takes too little of its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It took next to nothing for [`Limits::stall`](crate::limits::Limits::stall): its responses are.
    Stall,
    /// It held memory while others needed it: its connection is.
    Pressure,
}

impl std::fmt::Display for GivenUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stall => "the client takes too little",
            Self::Pressure => "the client takes too little while memory is short",
        })
    }
}

/// The budget for bytes of responses that are not acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Budgeted {
    total: Gauge,
    used: Gauge,
    given_up: Family<Reason, Counter>,
}

/// As gauges count.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Budgeted {
    /// There are so many bytes of it.
    pub fn has(&self, total: u64) {
        self.total.set(signed(total));
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        u64::try_from(self.used.get()).unwrap_or(0)
    }

    /// So many more are.
    pub fn hold(&self, bytes: u64) {
        self.used.inc_by(signed(bytes));
    }

    /// So many fewer are.
    pub fn release(&self, bytes: u64) {
        self.used.dec_by(signed(bytes));
    }

    /// A client was given up.
    pub fn gave_up(&self, why: GivenUp) {
        let reason = match why {
            GivenUp::Stall => "stall",
            GivenUp::Pressure => "pressure",
        };
        self.given_up.get_or_create(&Reason { reason }).inc();
    }
}

/// What became of the connections' logs, as of the last scrape.
#[derive(Debug, Default)]
struct Logs {
    folder: OnceLock<Arc<Folder>>,
    files: Counter,
    bytes: Counter,
    dropped: Counter,
    refused: Counter,
    failed: Counter,
}

impl Logs {
    fn look(&self) {
        let Some(folder) = self.folder.get() else { return };
        let fathom_qlog::Counts { files, bytes, dropped, refused, failed, .. } = folder.counts();
        for (counter, count) in [
            (&self.files, files),
            (&self.bytes, bytes),
            (&self.dropped, dropped),
            (&self.refused, refused),
            (&self.failed, failed),
        ] {
            counter.inner().store(count, Ordering::Relaxed);
        }
    }
}

type Histograms = Family<Controller, Histogram, fn() -> Histogram>;

/// All numbers of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    connections: Family<Controller, Counter>,
    open: Family<Controller, Gauge>,
    failed: Family<Controller, Counter>,
    refused: Counter,
    refused_client: Counter,
    retried: Counter,
    slow_headers: Counter,
    requestless: Counter,
    logs: Logs,
    responses: Family<Status, Counter>,
    abandoned: Family<Controller, Counter>,
    body_bytes: Family<Controller, Counter>,
    response: Histograms,
    handed_over: Histograms,
    first_byte: Histograms,
    budgeted: Budgeted,
    rtt: Histograms,
    queueing: Histograms,
    sent: Family<Controller, Counter>,
    lost: Family<Controller, Counter>,
    early: Family<Controller, Counter>,
    reductions: Family<Controller, Counter>,
    one_way: Family<Controller, Counter>,
    extensions: Family<Extension, Counter>,
}

/// 1 ms to about two minutes, each bound 1.5 times the one before.
fn response_times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 1.5, 30))
}

/// 100 us to about 4 s, each bound 1.6 times the one before.
fn delays() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 1.6, 24))
}

/// What a connection's sender had done when it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended {
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Mean forward queueing delay, where one-way delays were told.
    pub queueing: Option<Duration>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, in UDP payloads.
    pub sent_bytes: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Window reductions for delay.
    pub early: u64,
    /// Window reductions for loss or marks.
    pub reductions: u64,
    /// The peer told one-way delays.
    pub one_way: bool,
    /// The frame that carries one-way delays, in one direction at least.
    pub in_use: InUse,
}

/// Counts of one controller's responses, found once: to find them takes longer than to count.
#[derive(Debug)]
pub struct Answers {
    of: Controller,
    responses: Family<Status, Counter>,
    /// Those with status 200, as nearly all are.
    ok: OnceLock<Counter>,
    body_bytes: Counter,
    first_byte: Histogram,
    handed_over: Histogram,
    response: Histogram,
}

/// Times of a response, from its request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Until QUIC took the first byte of the body: of a body that is handed over in one piece, the last, too.
    pub first_byte: Duration,
    /// Until QUIC took the last byte: what fits its send buffer is taken at once.
    pub handed_over: Duration,
    /// Until the client had acknowledged the last byte: what it waited for, and the acknowledgement's way back.
    pub acknowledged: Duration,
}

impl Answers {
    /// A response is complete.
    pub fn add(&self, status: u16, bytes: u64, times: &Times) {
        let find = || {
            let label = Status { stack: self.of.stack, controller: self.of.controller.clone(), status };
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

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All zero.
    pub fn new() -> Self {
        let histograms = |of: fn() -> Histogram| Histograms::new_with_constructor(of);
        let mut metrics = Self {
            registry: Registry::with_prefix("fathom"),
            connections: Family::default(),
            open: Family::default(),
            failed: Family::default(),
            refused: Counter::default(),
            refused_client: Counter::default(),
            retried: Counter::default(),
            slow_headers: Counter::default(),
            requestless: Counter::default(),
            logs: Logs::default(),
            responses: Family::default(),
            abandoned: Family::default(),
            body_bytes: Family::default(),
            response: histograms(response_times),
            handed_over: histograms(response_times),
            first_byte: histograms(response_times),
            budgeted: Budgeted::default(),
            rtt: histograms(delays),
            queueing: histograms(delays),
            sent: Family::default(),
            lost: Family::default(),
            early: Family::default(),
            reductions: Family::default(),
            one_way: Family::default(),
            extensions: Family::default(),
        };
        let r = &mut metrics.registry;
        r.register("connections", "Connections whose handshake was completed", metrics.connections.clone());
        r.register("connections_open", "Connections open now", metrics.open.clone());
        r.register("handshakes_failed", "Connections whose handshake failed", metrics.failed.clone());
        r.register("connections_refused", "Connections refused because there were too many", metrics.refused.clone());
        r.register(
            "connections_refused_client",
            "Connections refused because their client prefix had too many",
            metrics.refused_client.clone(),
        );
        r.register("retries", "Clients asked to prove their address", metrics.retried.clone());
        r.register(
            "slow_headers",
            "Requests given up because their header took too long",
            metrics.slow_headers.clone(),
        );
        r.register(
            "connections_without_request",
            "Connections ended because no complete request came for too long",
            metrics.requestless.clone(),
        );
        let logs = &metrics.logs;
        r.register("qlog_files", "Log files begun", logs.files.clone());
        r.register_with_unit("qlog", "Bytes of logs", Unit::Bytes, logs.bytes.clone());
        r.register("qlog_events_dropped", "Events that logs lack: a slow disk, or a bound", logs.dropped.clone());
        r.register(
            "qlog_refused",
            "Connections without a log because a bound of theirs was reached",
            logs.refused.clone(),
        );
        r.register("qlog_failed", "Log files that could not be made or written", logs.failed.clone());
        r.register("responses", "Responses by status whose last byte was acknowledged", metrics.responses.clone());
        r.register(
            "responses_abandoned",
            "Responses whose last byte was not acknowledged before their stream or connection ended",
            metrics.abandoned.clone(),
        );
        r.register_with_unit("body", "Bytes of bodies", Unit::Bytes, metrics.body_bytes.clone());
        let seconds = || Unit::Seconds;
        r.register_with_unit(
            "response_time",
            "From a request's header to the acknowledgement of the last byte of its response",
            seconds(),
            metrics.response.clone(),
        );
        r.register_with_unit(
            "handed_over",
            "From a request's header until QUIC took the last byte of its response: not what clients wait for",
            seconds(),
            metrics.handed_over.clone(),
        );
        r.register_with_unit(
            "first_byte_handed_over",
            "From a request's header until QUIC took the first byte of its response",
            seconds(),
            metrics.first_byte.clone(),
        );
        let budgeted = &metrics.budgeted;
        r.register_with_unit(
            "unacknowledged",
            "Bytes of responses that are not acknowledged",
            Unit::Bytes,
            budgeted.used.clone(),
        );
        r.register_with_unit("unacknowledged_limit", "Their budget", Unit::Bytes, budgeted.total.clone());
        r.register(
            "clients_given_up",
            "Clients given up that took too little: for long (stall: their responses), or while the budget was short (pressure: their \
             connection)",
            budgeted.given_up.clone(),
        );
        r.register_with_unit(
            "rtt",
            "Smoothed round-trip time of connections at their end",
            seconds(),
            metrics.rtt.clone(),
        );
        r.register_with_unit(
            "queueing_delay",
            "Forward queueing delay of connections at their end, as their controller averages it",
            seconds(),
            metrics.queueing.clone(),
        );
        r.register("packets_sent", "Packets sent by connections that have ended", metrics.sent.clone());
        r.register("packets_lost", "Packets of them declared lost", metrics.lost.clone());
        r.register("early_reductions", "Window reductions for delay", metrics.early.clone());
        r.register("reductions", "Window reductions for loss or marks", metrics.reductions.clone());
        r.register("one_way_connections", "Connections whose peer told one-way delays", metrics.one_way.clone());
        r.register(
            "extension_connections",
            "Connections by the frame that carried one-way delays: sync (SYNC_TIMESTAMP), timestamp (TIMESTAMP) or none",
            metrics.extensions.clone(),
        );
        metrics
    }

    /// As Prometheus scrapes it (OpenMetrics text).
    pub fn text(&self) -> String {
        self.logs.look();
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// A client was turned away.
    pub fn refused(&self) {
        self.refused.inc();
    }

    /// A client was turned away as others of its prefix have the places that it may have.
    pub fn refused_for_client(&self) {
        self.refused_client.inc();
    }

    /// A request's header took too long.
    pub fn slow_header(&self) {
        self.slow_headers.inc();
    }

    /// A connection ended without a complete request for too long.
    pub fn requestless(&self) {
        self.requestless.inc();
    }

    /// Connections are logged there.
    pub fn logged(&self, folder: Arc<Folder>) {
        let _ = self.logs.folder.set(folder);
    }

    /// A client was asked to prove its address.
    pub fn retried(&self) {
        self.retried.inc();
    }

    /// A handshake failed.
    pub fn failed(&self, of: &Controller) {
        self.failed.get_or_create(of).inc();
    }

    /// A connection is open.
    pub fn opened(&self, of: &Controller) {
        self.connections.get_or_create(of).inc();
        self.open.get_or_create(of).inc();
    }

    /// It has ended.
    pub fn closed(&self, of: &Controller, ended: &Ended) {
        self.open.get_or_create(of).dec();
        if let Some(rtt) = ended.rtt {
            self.rtt.get_or_create(of).observe(rtt.as_secs_f64());
        }
        if let Some(queueing) = ended.queueing {
            self.queueing.get_or_create(of).observe(queueing.as_secs_f64());
        }
        self.sent.get_or_create(of).inc_by(ended.sent);
        self.lost.get_or_create(of).inc_by(ended.lost);
        self.early.get_or_create(of).inc_by(ended.early);
        self.reductions.get_or_create(of).inc_by(ended.reductions);
        self.one_way.get_or_create(of).inc_by(u64::from(ended.one_way));
        let (controller, extension) = (of.controller.clone(), ended.in_use.name());
        self.extensions.get_or_create(&Extension { stack: of.stack, controller, extension }).inc();
    }

    /// What complete responses of a connection are counted in.
    pub fn answers(&self, of: &Controller) -> Answers {
        Answers {
            of: of.clone(),
            responses: self.responses.clone(),
            ok: OnceLock::new(),
            body_bytes: self.body_bytes.get_or_create_owned(of),
            first_byte: self.first_byte.get_or_create_owned(of),
            handed_over: self.handed_over.get_or_create_owned(of),
            response: self.response.get_or_create_owned(of),
        }
    }

    /// The budget for what is not acknowledged.
    pub fn budgeted(&self) -> Budgeted {
        self.budgeted.clone()
    }

    /// A client left before it had acknowledged its response, or took too little of it for too long.
    pub fn abandoned(&self, of: &Controller, bytes: u64) {
        self.abandoned.get_or_create(of).inc();
        self.body_bytes.get_or_create(of).inc_by(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_told_per_controller() {
        let metrics = Metrics::new();
        let of = |controller: &str| Controller { stack: "quinn", controller: controller.into() };
        let ms = Duration::from_millis;
        metrics.opened(&of("sync"));
        let answers = metrics.answers(&of("sync"));
        let times = Times { first_byte: ms(1), handed_over: ms(2), acknowledged: ms(20) };
        answers.add(200, 1_000, &times);
        answers.add(404, 0, &times);
        metrics.budgeted().has(1_000);
        metrics.budgeted().hold(10);
        metrics.budgeted().gave_up(GivenUp::Stall);
        metrics.abandoned(&of("reno"), 7);
        let ended = Ended {
            rtt: Some(ms(12)),
            queueing: Some(ms(3)),
            sent: 10,
            lost: 1,
            early: 2,
            one_way: true,
            in_use: InUse::Timestamp,
            ..Ended::default()
        };
        metrics.closed(&of("sync"), &ended);
        metrics.refused();
        let text = metrics.text();
        for line in [
            "fathom_connections_total{stack=\"quinn\",controller=\"sync\"} 1",
            "fathom_connections_open{stack=\"quinn\",controller=\"sync\"} 0",
            "fathom_connections_refused_total 1",
            "fathom_responses_total{stack=\"quinn\",controller=\"sync\",status=\"200\"} 1",
            "fathom_body_bytes_total{stack=\"quinn\",controller=\"reno\"} 7",
            "fathom_responses_total{stack=\"quinn\",controller=\"sync\",status=\"404\"} 1",
            "fathom_response_time_seconds_count{stack=\"quinn\",controller=\"sync\"} 2",
            "fathom_response_time_seconds_sum{stack=\"quinn\",controller=\"sync\"} 0.04",
            "fathom_handed_over_seconds_sum{stack=\"quinn\",controller=\"sync\"} 0.004",
            "fathom_unacknowledged_bytes 10",
            "fathom_unacknowledged_limit_bytes 1000",
            "fathom_clients_given_up_total{reason=\"stall\"} 1",
            "fathom_queueing_delay_seconds_sum{stack=\"quinn\",controller=\"sync\"} 0.003",
            "fathom_extension_connections_total{stack=\"quinn\",controller=\"sync\",extension=\"timestamp\"} 1",
            "fathom_early_reductions_total{stack=\"quinn\",controller=\"sync\"} 2",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
