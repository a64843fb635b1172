//! Metrics of the upstream server behind the proxy.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::OutcomeLabels;
use super::registration::{add, response_times};

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
    /// There were too many simultaneous requests (503).
    Busy,
    /// The request itself could not be forwarded (4xx).
    Request,
    /// The body of the response broke off after the header, so the response was reset.
    BodyBroken,
    /// No data of the body arrived for too long after the header, so the response was reset.
    BodyTimeout,
    /// The client read too little while slots were scarce, or held more than its share of the
    /// slots. The response was reset.
    Evicted,
}

/// Metrics of the upstream server.
#[derive(Clone, Debug)]
pub struct UpstreamMetrics {
    requests: Family<OutcomeLabels, Counter>,
    connections: Gauge,
    times: Histogram,
}

impl UpstreamMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        let times = response_times();
        let help = "Time from the request header until the upstream server's";
        r.register_with_unit("upstream_response_time", help, Unit::Seconds, times.clone());
        Self {
            requests: add(r, "upstream_requests", "Requests to the upstream server, by outcome"),
            connections: add(
                r,
                "upstream_connections_open",
                "Open connections to the upstream server",
            ),
            times,
        }
    }

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
