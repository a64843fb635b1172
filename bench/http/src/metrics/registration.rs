//! Registration of metrics.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};

use super::labels::ControllerLabels;

/// A histogram for each controller.
pub(super) type Histograms = Family<ControllerLabels, Histogram, fn() -> Histogram>;

/// Returns a histogram from 1 ms to about two minutes. Each bound is 1.5 times the previous one.
pub(super) fn response_times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 1.5, 30))
}

/// Returns a histogram from 100 us to about 4 s. Each bound is 1.6 times the previous one.
pub(super) fn delays() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 1.6, 24))
}

/// Registers a metric.
pub(super) fn add<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a metric in bytes.
pub(super) fn bytes<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, Unit::Bytes, metric.clone());
    metric
}

/// Registers histograms in seconds.
pub(super) fn histogram(
    registry: &mut Registry,
    name: &str,
    help: &str,
    of: fn() -> Histogram,
) -> Histograms {
    let metric = Histograms::new_with_constructor(of);
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}
