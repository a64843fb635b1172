//! Prometheus metrics: counters and histograms per controller.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fathom_netsim::kernel::ReceiveDrops;
use fathom_qlog::LogFolder;
use fathom_stacks::ConnectionStats;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};

/// Labels of per-controller metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabels {
    /// QUIC stack.
    pub stack: &'static str,
    /// Controller with its options.
    pub controller: String,
}

/// Labels of response counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    stack: &'static str,
    controller: String,
    status: u16,
}

/// Labels of connection counts by timestamp extension.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExtensionLabels {
    stack: &'static str,
    controller: String,
    extension: &'static str,
}

/// Label: reason why a slow reader was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Reason why a client that reads its responses too slowly is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlowReader {
    /// The client acknowledged almost nothing for
    /// [`Limits::stall_timeout`](crate::limits::Limits::stall_timeout). Its responses are reset.
    #[error("the client reads too slowly")]
    Stall,
    /// The client held response memory that others needed. Its connection is closed.
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

/// Outcome of a request to an upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum UpstreamOutcome {
    /// The upstream server sent a header.
    Answered,
    /// There was no connection to the upstream server (502).
    Connect,
    /// The connection broke, or the response was invalid (502).
    Broken,
    /// The upstream server did not answer in time (504).
    Timeout,
    /// There were too many requests at once (503).
    Busy,
    /// The request itself could not be forwarded (4xx).
    Request,
    /// The response's body broke off after the header: the response was reset.
    BodyBroken,
    /// No data of the body arrived for too long after the header: the response was reset.
    BodyTimeout,
    /// The client read too little while slots were scarce, or had more than its share of them: the
    /// response was reset.
    Evicted,
}

/// Label: outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// Metrics of the upstream server.
#[derive(Clone, Debug)]
pub struct UpstreamMetrics {
    requests: Family<OutcomeLabels, Counter>,
    connections: Gauge,
    times: Histogram,
}

impl UpstreamMetrics {
    /// Counts the outcome of a request.
    pub fn count(&self, outcome: UpstreamOutcome) {
        self.requests.get_or_create(&OutcomeLabels { outcome: outcome.into() }).inc();
    }

    /// Records the time until the upstream server sent a header.
    pub fn answered_after(&self, time: Duration) {
        self.times.observe(time.as_secs_f64());
    }

    /// Returns the gauge of open connections to the upstream server.
    pub fn connections(&self) -> Gauge {
        self.connections.clone()
    }
}

/// Metrics of the access log.
#[derive(Clone, Debug, Default)]
pub struct AccessLogMetrics {
    lines: Counter,
    dropped: Counter,
}

impl AccessLogMetrics {
    /// Counts lines that were written.
    pub fn written(&self, lines: u64) {
        self.lines.inc_by(lines);
    }

    /// Counts lines that were lost.
    pub fn dropped(&self, lines: u64) {
        self.dropped.inc_by(lines);
    }
}

/// Totals of the qlog files, updated on each scrape.
#[derive(Debug, Default)]
struct LogMetrics {
    folder: OnceLock<Arc<LogFolder>>,
    files: Counter,
    bytes: Counter,
    dropped: Counter,
    refused: Counter,
    failed: Counter,
}

impl LogMetrics {
    fn update(&self) {
        let Some(folder) = self.folder.get() else { return };
        let fathom_qlog::LogCounts { files, bytes, dropped, refused, failed, .. } = folder.counts();
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

/// Datagrams that the kernel dropped before the server read them, updated on each scrape.
#[derive(Debug, Default)]
struct UnreadMetrics {
    sockets: parking_lot::Mutex<ReceiveDrops>,
    dropped: Counter,
}

impl UnreadMetrics {
    fn update(&self) {
        if let Some(dropped) = self.sockets.lock().update() {
            self.dropped.inner().store(dropped, Ordering::Relaxed);
        }
    }
}

type Histograms = Family<ControllerLabels, Histogram, fn() -> Histogram>;

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    connections: Family<ControllerLabels, Counter>,
    open: Family<ControllerLabels, Gauge>,
    failed: Family<ControllerLabels, Counter>,
    refused: Counter,
    refused_client: Counter,
    retried: Counter,
    slow_headers: Counter,
    malformed: Counter,
    fields_too_large: Counter,
    no_request: Counter,
    logs: LogMetrics,
    unread: UnreadMetrics,
    responses: Family<StatusLabels, Counter>,
    abandoned: Family<ControllerLabels, Counter>,
    body_bytes: Family<ControllerLabels, Counter>,
    response: Histograms,
    handed_over: Histograms,
    first_byte: Histograms,
    response_memory: ResponseMemoryMetrics,
    upstream: UpstreamMetrics,
    access_log: AccessLogMetrics,
    certificates: Family<OutcomeLabels, Counter>,
    rtt: Histograms,
    queueing: Histograms,
    sent: Family<ControllerLabels, Counter>,
    lost: Family<ControllerLabels, Counter>,
    early: Family<ControllerLabels, Counter>,
    reductions: Family<ControllerLabels, Counter>,
    one_way: Family<ControllerLabels, Counter>,
    extensions: Family<ExtensionLabels, Counter>,
}

/// Returns a histogram from 1 ms to about two minutes. Each bound is 1.5 times the previous one.
fn response_times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 1.5, 30))
}

/// Returns a histogram from 100 us to about 4 s. Each bound is 1.6 times the previous one.
fn delays() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 1.6, 24))
}

/// Handles to one controller's response metrics. They are looked up once, because a lookup costs
/// more than an increment.
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

/// Times of a response, measured from its request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseTimes {
    /// Time until QUIC took the first byte of the body. If the body is handed over in one piece,
    /// this is also the time of the last byte.
    pub first_byte: Duration,
    /// Time until QUIC took the last byte. Data that fit the send buffer are taken at once.
    pub handed_over: Duration,
    /// Time until the client had acknowledged the last byte: the client's waiting time, and the
    /// acknowledgement's way back.
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

/// Registers a metric.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a metric in bytes.
fn bytes<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, Unit::Bytes, metric.clone());
    metric
}

/// Registers histograms in seconds.
fn histogram(registry: &mut Registry, name: &str, help: &str, of: fn() -> Histogram) -> Histograms {
    let metric = Histograms::new_with_constructor(of);
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Returns new metrics, all zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("fathom");
        let r = &mut registry;
        Self {
            connections: add(r, "connections", "Connections that completed their handshake"),
            open: add(r, "connections_open", "Open connections"),
            failed: add(r, "handshakes_failed", "Connections whose handshake failed"),
            refused: add(
                r,
                "connections_refused",
                "Connections refused because of the limit of all connections",
            ),
            refused_client: add(
                r,
                "connections_refused_client",
                "Connections refused because of the limit per client prefix",
            ),
            retried: add(r, "retries", "Retry packets sent to validate client addresses"),
            slow_headers: add(
                r,
                "slow_headers",
                "Requests rejected because their header timed out",
            ),
            malformed: add(
                r,
                "requests_malformed",
                "Requests over HTTP/3 reset because their header is malformed",
            ),
            fields_too_large: add(
                r,
                "requests_fields_too_large",
                "Requests over HTTP/3 answered with 431 because their header fields are too large",
            ),
            no_request: add(
                r,
                "connections_without_request",
                "Connections closed because they sent no complete request in time",
            ),
            unread: UnreadMetrics {
                sockets: parking_lot::Mutex::default(),
                dropped: add(
                    r,
                    "udp_receive_drops",
                    "Datagrams that the kernel dropped because the server had not read those before them",
                ),
            },
            logs: LogMetrics {
                folder: OnceLock::new(),
                files: add(r, "qlog_files", "qlog files created"),
                bytes: bytes(r, "qlog", "Bytes written to qlog files"),
                dropped: add(
                    r,
                    "qlog_events_dropped",
                    "qlog events dropped because of a slow disk or a size limit",
                ),
                refused: add(
                    r,
                    "qlog_refused",
                    "Connections without a qlog file because a limit was reached",
                ),
                failed: add(r, "qlog_failed", "qlog files that could not be created or written"),
            },
            responses: add(r, "responses", "Completely acknowledged responses by status"),
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
                "Time from the request header until the last response byte was handed to QUIC; not the client's waiting time",
                response_times,
            ),
            first_byte: histogram(
                r,
                "first_byte_handed_over",
                "Time from the request header until the first response byte was handed to QUIC",
                response_times,
            ),
            response_memory: ResponseMemoryMetrics {
                used: bytes(r, "unacknowledged", "Bytes of unacknowledged response data"),
                total: bytes(r, "unacknowledged_limit", "Limit of unacknowledged response data"),
                given_up: add(
                    r,
                    "clients_given_up",
                    "Slow readers dropped: their responses were reset (stall) or their connection was closed while memory was short (pressure)",
                ),
            },
            upstream: {
                let times = response_times();
                let help = "Time from the request header until the upstream server's";
                r.register_with_unit("upstream_response_time", help, Unit::Seconds, times.clone());
                UpstreamMetrics {
                    requests: add(
                        r,
                        "upstream_requests",
                        "Requests for the upstream server by outcome",
                    ),
                    connections: add(
                        r,
                        "upstream_connections_open",
                        "Open connections to the upstream server",
                    ),
                    times,
                }
            },
            access_log: AccessLogMetrics {
                lines: add(r, "access_log_lines", "Lines written to the access log"),
                dropped: add(
                    r,
                    "access_log_dropped",
                    "Lines of the access log lost because its writer could not keep up",
                ),
            },
            certificates: add(
                r,
                "certificate_reloads",
                "Reloads of certificate and key by outcome: ok or failed",
            ),
            rtt: histogram(
                r,
                "rtt",
                "Smoothed round-trip time of connections when they ended",
                delays,
            ),
            queueing: histogram(
                r,
                "queueing_delay",
                "Forward queueing delay of connections when they ended, as averaged by their controller",
                delays,
            ),
            sent: add(r, "packets_sent", "Packets sent by connections that have ended"),
            lost: add(r, "packets_lost", "Packets declared lost on connections that have ended"),
            early: add(r, "early_reductions", "Congestion window reductions because of delay"),
            reductions: add(
                r,
                "reductions",
                "Congestion window reductions because of loss or ECN marks",
            ),
            one_way: add(r, "one_way_connections", "Connections with one-way delay measurements"),
            extensions: add(
                r,
                "extension_connections",
                "Connections by timestamp frame: sync (SYNC_TIMESTAMP), timestamp (TIMESTAMP), receive (ACK_RECEIVE_TIMESTAMPS) or none",
            ),
            registry,
        }
    }

    /// Returns the metrics in OpenMetrics text format.
    pub fn text(&self) -> String {
        self.logs.update();
        self.unread.update();
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Counts a refused connection.
    pub fn refused(&self) {
        self.refused.inc();
    }

    /// Counts a connection that was refused because of the limit per client prefix.
    pub fn refused_for_client(&self) {
        self.refused_client.inc();
    }

    /// Counts a request whose header timed out.
    pub fn slow_header(&self) {
        self.slow_headers.inc();
    }

    /// Counts an HTTP/3 request whose header is malformed.
    pub fn malformed(&self) {
        self.malformed.inc();
    }

    /// Counts an HTTP/3 request whose header fields are too large.
    pub fn fields_too_large(&self) {
        self.fields_too_large.inc();
    }

    /// Counts a connection that was closed because it had no request.
    pub fn no_request(&self) {
        self.no_request.inc();
    }

    /// Sets the qlog folder whose totals are exported.
    pub fn set_log_folder(&self, folder: Arc<LogFolder>) {
        let _ = self.logs.folder.set(folder);
    }

    /// Counts a Retry.
    pub fn retried(&self) {
        self.retried.inc();
    }

    /// Counts a failed handshake.
    pub fn failed(&self, of: &ControllerLabels) {
        self.failed.get_or_create(of).inc();
    }

    /// Counts an open connection.
    pub fn opened(&self, of: &ControllerLabels) {
        self.connections.get_or_create(of).inc();
        self.open.get_or_create(of).inc();
    }

    /// Counts the end of a TCP connection, which has no packet counts of ours.
    pub fn closed_tcp(&self, of: &ControllerLabels) {
        self.open.get_or_create(of).dec();
    }

    /// Counts the end of a connection and adds its statistics.
    pub fn closed(&self, of: &ControllerLabels, stats: &ConnectionStats) {
        self.open.get_or_create(of).dec();
        if let Some(rtt) = stats.rtt {
            self.rtt.get_or_create(of).observe(rtt.as_secs_f64());
        }
        if let Some(queueing) = stats.queueing {
            self.queueing.get_or_create(of).observe(queueing.as_secs_f64());
        }
        self.sent.get_or_create(of).inc_by(stats.sent);
        self.lost.get_or_create(of).inc_by(stats.lost);
        self.early.get_or_create(of).inc_by(stats.early);
        self.reductions.get_or_create(of).inc_by(stats.reductions);
        self.one_way.get_or_create(of).inc_by(u64::from(stats.one_way));
        let (controller, extension) = (of.controller.clone(), stats.in_use.name());
        self.extensions
            .get_or_create(&ExtensionLabels { stack: of.stack, controller, extension })
            .inc();
    }

    /// Returns handles to the response metrics of a connection.
    pub fn response_metrics(&self, of: &ControllerLabels) -> ResponseMetrics {
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

    /// Returns the metrics of the response memory.
    pub fn response_memory(&self) -> ResponseMemoryMetrics {
        self.response_memory.clone()
    }

    /// Returns the metrics of the access log.
    pub fn access_log(&self) -> AccessLogMetrics {
        self.access_log.clone()
    }

    /// Counts a reload of certificate and key.
    pub fn certificate_reloaded(&self, ok: bool) {
        let outcome = if ok { "ok" } else { "failed" };
        self.certificates.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Returns the metrics of the upstream server.
    pub fn upstream(&self) -> UpstreamMetrics {
        self.upstream.clone()
    }

    /// Counts a response that was not completely acknowledged.
    pub fn abandoned(&self, of: &ControllerLabels, bytes: u64) {
        self.abandoned.get_or_create(of).inc();
        self.body_bytes.get_or_create(of).inc_by(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_labelled_per_controller() {
        let metrics = Metrics::new();
        let of =
            |controller: &str| ControllerLabels { stack: "quinn", controller: controller.into() };
        let ms = Duration::from_millis;
        metrics.opened(&of("sync"));
        let answers = metrics.response_metrics(&of("sync"));
        let times = ResponseTimes { first_byte: ms(1), handed_over: ms(2), acknowledged: ms(20) };
        answers.record(200, 1_000, &times);
        answers.record(404, 0, &times);
        metrics.response_memory().set_limit(1_000);
        metrics.response_memory().hold(10);
        metrics.response_memory().aborted(SlowReader::Stall);
        metrics.abandoned(&of("reno"), 7);
        let ended = ConnectionStats {
            rtt: Some(ms(12)),
            queueing: Some(ms(3)),
            sent: 10,
            lost: 1,
            early: 2,
            one_way: true,
            in_use: fathom_plugin::InUse::Timestamp,
            ..ConnectionStats::default()
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
