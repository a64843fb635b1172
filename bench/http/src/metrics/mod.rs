//! Prometheus metrics: counters and histograms per controller.
//!
//! | file | contents |
//! |---|---|
//! | `connections.rs` | connections: handshakes, refusals, their counts when they end |
//! | `responses.rs` | responses, and the memory that they hold |
//! | `upstream.rs` | the upstream server behind the proxy |
//! | `logs.rs` | the access log and qlog files |
//! | `labels.rs` | the labels |
//! | `registration.rs` | registration of metrics, with their units and buckets |

mod connections;
mod labels;
mod logs;
mod registration;
mod responses;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fathom_netsim::kernel::ReceiveDrops;
use fathom_qlog::LogFolder;
use fathom_stacks::ConnectionStats;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use connections::{ConnectionCounts, EndedConnections};
pub use labels::ControllerLabels;
use labels::OutcomeLabels;
pub use logs::AccessLogMetrics;
use logs::LogMetrics;
use registration::add;
use responses::ResponseFamilies;
pub use responses::{ResponseMemoryMetrics, ResponseMetrics, ResponseTimes, SlowReader};
pub use upstream::{UpstreamMetrics, UpstreamOutcome};

/// Datagrams that the kernel dropped before the server read them, updated on each scrape.
#[derive(Debug)]
struct UnreadMetrics {
    sockets: parking_lot::Mutex<ReceiveDrops>,
    dropped: Counter,
}

impl UnreadMetrics {
    fn register(r: &mut Registry) -> Self {
        Self {
            sockets: parking_lot::Mutex::default(),
            dropped: add(
                r,
                "udp_receive_drops",
                "Datagrams that the kernel dropped because the server's receive buffer was full",
            ),
        }
    }

    fn update(&self) {
        if let Some(dropped) = self.sockets.lock().update() {
            self.dropped.inner().store(dropped, Ordering::Relaxed);
        }
    }
}

/// All metrics of a server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    counts: ConnectionCounts,
    unread: UnreadMetrics,
    logs: LogMetrics,
    responses: ResponseFamilies,
    response_memory: ResponseMemoryMetrics,
    upstream: UpstreamMetrics,
    access_log: AccessLogMetrics,
    certificates: Family<OutcomeLabels, Counter>,
    ended: EndedConnections,
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
            counts: ConnectionCounts::register(r),
            unread: UnreadMetrics::register(r),
            logs: LogMetrics::register(r),
            responses: ResponseFamilies::register(r),
            response_memory: ResponseMemoryMetrics::register(r),
            upstream: UpstreamMetrics::register(r),
            access_log: AccessLogMetrics::register(r),
            certificates: add(
                r,
                "certificate_reloads",
                "Reloads of the certificate and key, by outcome: ok or failed",
            ),
            ended: EndedConnections::register(r),
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
        self.counts.refused.inc();
    }

    /// Counts a connection that was refused because of the limit per client prefix.
    pub fn refused_for_client(&self) {
        self.counts.refused_client.inc();
    }

    /// Counts a request whose header timed out.
    pub fn slow_header(&self) {
        self.counts.slow_headers.inc();
    }

    /// Counts an HTTP/3 request whose header is malformed.
    pub fn malformed(&self) {
        self.counts.malformed.inc();
    }

    /// Counts an HTTP/3 request whose header fields are too large.
    pub fn fields_too_large(&self) {
        self.counts.fields_too_large.inc();
    }

    /// Counts a connection that was closed because it had no request.
    pub fn no_request(&self) {
        self.counts.no_request.inc();
    }

    /// Sets the qlog folder whose totals are exported.
    pub fn set_log_folder(&self, folder: Arc<LogFolder>) {
        let _ = self.logs.folder.set(folder);
    }

    /// Counts a Retry.
    pub fn retried(&self) {
        self.counts.retried.inc();
    }

    /// Counts a failed handshake.
    pub fn failed(&self, of: &ControllerLabels) {
        self.counts.failed.get_or_create(of).inc();
    }

    /// Counts an open connection.
    pub fn opened(&self, of: &ControllerLabels) {
        self.counts.connections.get_or_create(of).inc();
        self.counts.open.get_or_create(of).inc();
    }

    /// Counts the end of a TCP connection. There are no packet counts for TCP.
    pub fn closed_tcp(&self, of: &ControllerLabels) {
        self.counts.open.get_or_create(of).dec();
    }

    /// Counts the end of a connection and adds its statistics.
    pub fn closed(&self, of: &ControllerLabels, stats: &ConnectionStats) {
        self.counts.open.get_or_create(of).dec();
        self.ended.record(of, stats);
    }

    /// Returns handles to the response metrics of a connection.
    pub fn response_metrics(&self, of: &ControllerLabels) -> ResponseMetrics {
        self.responses.handles(of)
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
        self.responses.abandoned(of, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn server_metrics_are_labelled_by_controller() {
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
