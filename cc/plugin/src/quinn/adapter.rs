//! Adapter from quinn's controller trait to one of our controllers.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use fathom_cc::Cause;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

use crate::driver::{AckBatch, ControllerDriver};
use crate::endpoint::ControllerSource;
use crate::monitor::ConnectionMonitor;

/// Factory that builds the controller of one connection. After each migration, it builds a new
/// controller.
pub(crate) struct Factory(pub(crate) ControllerSource);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        // quinn has one path and does not number it.
        Box::new(Adapter(ControllerDriver::start(self.0.connection(), Some(0), now, current_mtu)))
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
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.0.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
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
        lost_bytes: u64,
    ) {
        // quinn reports a mark as zero lost bytes.
        let cause = match lost_bytes {
            0 => Cause::Mark,
            bytes => Cause::Loss { bytes, persistent },
        };
        self.0.on_congestion_event(now, sent, cause);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_datagram_size(new_mtu);
    }

    fn window(&self) -> u64 {
        // quinn sends as long as the bytes in flight plus the next packet are *below* the window. A
        // window of n packets means n packets in flight (RFC 9002 §7). noq sends as long as these
        // bytes are not *above* the window.
        self.0.send_params().window.saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let snapshot = self.0.metrics();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = snapshot.window;
        metrics.ssthresh = snapshot.threshold;
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
