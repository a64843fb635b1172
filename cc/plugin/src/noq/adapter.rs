//! Adapter from noq's controller trait to one of our controllers.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use fathom_cc::Cause;
use noq::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::RttEstimator;

use crate::driver::{AckBatch, ControllerDriver};
use crate::endpoint::ControllerSource;
use crate::monitor::ConnectionMonitor;

/// Factory that builds the controller of each path of one connection. After a migration, it builds
/// a new controller.
pub(crate) struct Factory(pub(crate) ControllerSource);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        // noq does not name the path, so the first packet sent determines it.
        Box::new(Adapter(ControllerDriver::start(self.0.connection(), None, now, current_mtu)))
    }
}

/// Returns a view of the connection to which this controller belongs; `None` if the controller is
/// not one of ours.
pub(crate) fn monitor(controller: Box<dyn Controller>) -> Option<ConnectionMonitor> {
    Some(controller.into_any().downcast::<Adapter>().ok()?.0.monitor())
}

#[derive(Clone, Debug)]
struct Adapter(ControllerDriver);

impl Controller for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, _largest_pn: u64) {
        self.0.on_sent(now, bytes);
    }

    fn on_packet_sent(&mut self, _now: Instant, _bytes: u16, pn: u64) {
        self.0.on_packet_sent(pn);
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        _pn: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.on_ack(sent, bytes, rtt.get());
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        self.0.on_end_acks(AckBatch { now, in_flight, app_limited, largest });
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let cause =
            if is_ecn { Cause::Mark } else { Cause::Loss { bytes: lost_bytes, persistent } };
        self.0.on_congestion_event(now, sent, cause);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.0.on_spurious_loss();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_datagram_size(new_mtu);
    }

    fn window(&self) -> u64 {
        self.0.send_params().window
    }

    /// Returns the metrics. noq's pacer uses the window and the rate.
    fn metrics(&self) -> ControllerMetrics {
        let params = self.0.send_params();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = params.window;
        metrics.ssthresh = self.0.metrics().threshold;
        metrics.pacing_rate = self.0.pacing_rate().map(|rate| rate.bytes_per_sec());
        metrics.send_quantum = params.burst;
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
