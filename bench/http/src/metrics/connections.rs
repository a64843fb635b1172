//! Metrics of connections: handshakes, refusals and requests, and the counts of connections that
//! have ended.

use fathom_stacks::ConnectionStats;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{ControllerLabels, ExtensionLabels};
use super::registration::{Histograms, add, delays, histogram};

/// Metrics of connections and their handshakes, refusals and invalid requests.
#[derive(Debug)]
pub(super) struct ConnectionCounts {
    pub(super) connections: Family<ControllerLabels, Counter>,
    pub(super) open: Family<ControllerLabels, Gauge>,
    pub(super) failed: Family<ControllerLabels, Counter>,
    pub(super) refused: Counter,
    pub(super) refused_client: Counter,
    pub(super) retried: Counter,
    pub(super) slow_headers: Counter,
    pub(super) malformed: Counter,
    pub(super) fields_too_large: Counter,
    pub(super) no_request: Counter,
}

impl ConnectionCounts {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            connections: add(r, "connections", "Connections that completed their handshake"),
            open: add(r, "connections_open", "Open connections"),
            failed: add(r, "handshakes_failed", "Connections whose handshake failed"),
            refused: add(
                r,
                "connections_refused",
                "Connections refused because of --max-connections",
            ),
            refused_client: add(
                r,
                "connections_refused_client",
                "Connections refused because of --max-per-client",
            ),
            retried: add(r, "retries", "Retry packets sent to validate client addresses"),
            slow_headers: add(
                r,
                "slow_headers",
                "Requests rejected because their header was not complete in time",
            ),
            malformed: add(
                r,
                "requests_malformed",
                "HTTP/3 requests reset because their header is malformed",
            ),
            fields_too_large: add(
                r,
                "requests_fields_too_large",
                "HTTP/3 requests answered with 431 because their header fields are too large",
            ),
            no_request: add(
                r,
                "connections_without_request",
                "Connections closed because they sent no complete request in time",
            ),
        }
    }
}

/// Statistics of connections that have ended.
#[derive(Debug)]
pub(super) struct EndedConnections {
    rtt: Histograms,
    queueing: Histograms,
    sent: Family<ControllerLabels, Counter>,
    lost: Family<ControllerLabels, Counter>,
    early: Family<ControllerLabels, Counter>,
    reductions: Family<ControllerLabels, Counter>,
    one_way: Family<ControllerLabels, Counter>,
    extensions: Family<ExtensionLabels, Counter>,
}

impl EndedConnections {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self {
            rtt: histogram(
                r,
                "rtt",
                "Smoothed round-trip time of connections when they ended",
                delays,
            ),
            queueing: histogram(
                r,
                "queueing_delay",
                "Average forward queueing delay of connections when they ended, as computed by \
                 their controller",
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
                "Connections by the timestamp frame that they use: sync (SYNC_TIMESTAMP), \
                 timestamp (TIMESTAMP), receive (ACK_RECEIVE_TIMESTAMPS) or none",
            ),
        }
    }

    /// Adds the statistics of a connection that has ended.
    pub(super) fn record(&self, of: &ControllerLabels, stats: &ConnectionStats) {
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
}
