//! One of our controllers behind quinn's trait.
//!
//! quinn reports a packet at a time and then the end of the batch; ours hear one batch per ACK frame.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_cc::{Acked, Acks, Cause, Controller, PathChange, Recipe, Rtt, Sent, Setback, Start, Time};
use quinn::congestion::{Controller as QuinnController, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

use crate::OFFERS;
use crate::cell::Cell;

/// Builds the controller of one connection, again after each migration.
pub(crate) struct Factory {
    pub(crate) recipe: Arc<dyn Recipe>,
    pub(crate) cell: Arc<Cell>,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn QuinnController> {
        // A new path: transit times of the old one mean nothing here.
        self.cell.new_path();
        let start = Start { now: self.cell.time(now), datagram: current_mtu, offers: OFFERS };
        let controller = self
            .recipe
            .start(&start)
            // `Plug::new` has checked the recipe's needs against the same offer.
            .expect("needs checked when the plug was made");
        Box::new(Adapter {
            initial_window: controller.advice().window,
            controller,
            cell: Arc::clone(&self.cell),
            batch: Vec::with_capacity(16),
            smoothed: None,
            min_rtt: None,
        })
    }
}

#[derive(Debug)]
struct Adapter {
    controller: Box<dyn Controller>,
    cell: Arc<Cell>,
    initial_window: u64,
    /// Packets acknowledged by the ACK frame that quinn is working on.
    batch: Vec<Acked>,
    smoothed: Option<Duration>,
    min_rtt: Option<Duration>,
}

impl Adapter {
    fn time(&self, at: Instant) -> Time {
        self.cell.time(at)
    }
}

impl QuinnController for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let now = self.time(now);
        self.controller.on_sent(&Sent { now, bytes });
    }

    fn on_ack(&mut self, _now: Instant, sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        let sent = self.time(sent);
        self.batch.push(Acked { sent, bytes });
        self.smoothed = Some(rtt.get());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_acked: Option<u64>) {
        let now = self.time(now);
        let Some(newest) = self.batch.iter().map(|p| p.sent).max() else { return };
        let latest = now.since(newest);
        let min = self.min_rtt.map_or(latest, |m| m.min(latest));
        self.min_rtt = Some(min);
        let (one_way, ecn) = self.cell.take_signals(largest_acked);
        self.controller.on_acks(&Acks {
            now,
            packets: &self.batch,
            in_flight,
            // quinn's estimate does not hold this sample yet; before the first one it is a guess.
            rtt: Rtt { latest, smoothed: self.smoothed.unwrap_or(latest), min },
            one_way,
            ecn,
            app_limited,
        });
        self.batch.clear();
        self.cell.observe(now, &*self.controller);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        let (now, sent) = (self.time(now), self.time(sent));
        // quinn says "mark" by zero lost bytes.
        let cause = match lost_bytes {
            0 => Cause::Mark,
            bytes => Cause::Loss { bytes, persistent: is_persistent_congestion },
        };
        self.controller.on_setback(&Setback { now, sent, cause });
        self.cell.observe(now, &*self.controller);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_path(self.cell.now(), PathChange::Datagram(new_mtu));
    }

    fn window(&self) -> u64 {
        self.controller.advice().window
    }

    fn metrics(&self) -> ControllerMetrics {
        let snapshot = self.controller.snapshot();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = snapshot.window;
        metrics.ssthresh = snapshot.threshold;
        metrics
    }

    fn clone_box(&self) -> Box<dyn QuinnController> {
        Box::new(Self {
            controller: self.controller.boxed(),
            cell: Arc::clone(&self.cell),
            initial_window: self.initial_window,
            batch: self.batch.clone(),
            smoothed: self.smoothed,
            min_rtt: self.min_rtt,
        })
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
