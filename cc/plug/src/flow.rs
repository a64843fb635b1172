//! One path's controller: a stack's calls in, batches out.
//!
//! Stacks report a packet at a time and then the end of the batch; our controllers hear one batch per ACK frame.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_cc::{
    Acked, Acks, Advice, Cause, Controller, Pace, PathChange, Rate, Rtt, Sent, Setback, Snapshot, Start, Time,
};

use crate::cell::Cell;

/// A controller and what it takes to feed it.
#[derive(Debug)]
pub struct Flow {
    controller: Box<dyn Controller>,
    cell: Arc<Cell>,
    /// Which of the connection's controllers this is.
    id: u64,
    path: Option<u32>,
    initial_window: u64,
    /// Packets acknowledged by the ACK frame that the stack is working on.
    batch: Vec<Acked>,
    smoothed: Option<Duration>,
    min_rtt: Option<Duration>,
    /// Smoothed RTT, or the first sample while there is nothing to smooth.
    round_trip: Option<Duration>,
    /// The last setback was a loss.
    lost: bool,
}

/// How an ACK frame ended, as a stack tells it.
#[derive(Clone, Copy, Debug)]
pub struct AckBatch {
    /// When the frame arrived.
    pub now: Instant,
    /// Bytes still in flight.
    pub in_flight: u64,
    /// The application, not the window, was the limit.
    pub app_limited: bool,
    /// The largest packet acknowledged so far in the packet number space.
    pub largest: Option<u64>,
}

impl Flow {
    /// The controller of a new path; `datagram` is the largest UDP payload known to pass, in bytes. Stacks that know only one path
    /// give its number, 0. `None`: the first packet sent shows it ([`Flow::on_packet_sent`]).
    ///
    /// # Panics
    /// If the connection was not wired ([`crate::ServerSetup`] without a plug's `accept`).
    pub fn start(cell: Arc<Cell>, path: Option<u32>, now: Instant, datagram: u16) -> Self {
        let start = Start { now: cell.time(now), datagram, offers: cell.offers() };
        let controller = cell
            .recipe()
            .expect("only wired connections have a factory")
            .start(&start)
            // `Plug::new` has checked the recipe's needs against the same offer.
            .expect("needs checked when the plug was made");
        Self {
            initial_window: controller.advice().window,
            controller,
            id: cell.next_flow(),
            cell,
            path,
            batch: Vec::with_capacity(16),
            smoothed: None,
            min_rtt: None,
            round_trip: None,
            lost: false,
        }
    }

    fn time(&self, at: Instant) -> Time {
        self.cell.time(at)
    }

    /// Bytes were handed to the network.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        let now = self.time(now);
        self.controller.on_sent(&Sent { now, bytes });
    }

    /// `packet` was sealed just before and is this path's: it tells a controller that does not know its path which one it has.
    pub fn on_packet_sent(&mut self, packet: u64) {
        if self.path.is_none() {
            self.path = self.cell.path_of(packet);
        }
    }

    /// A packet was acknowledged; `smoothed` is the stack's RTT estimate.
    pub fn on_ack(&mut self, sent: Instant, bytes: u64, smoothed: Duration) {
        let sent = self.time(sent);
        self.batch.push(Acked { sent, bytes });
        self.smoothed = Some(smoothed);
    }

    /// The ACK frame is complete.
    pub fn on_end_acks(&mut self, end: AckBatch) {
        let now = self.time(end.now);
        let Some(newest) = self.batch.iter().map(|p| p.sent).max() else { return };
        let latest = now.since(newest);
        let min = self.min_rtt.map_or(latest, |m| m.min(latest));
        // The stack's estimate does not hold this sample yet; before the first one it is a guess.
        let smoothed = self.smoothed.unwrap_or(latest);
        self.round_trip = Some(if self.min_rtt.is_none() { latest } else { smoothed });
        self.min_rtt = Some(min);
        let (one_way, ecn) = self.path.map_or((None, None), |path| self.cell.take_signals(path, self.id, end.largest));
        self.controller.on_acks(&Acks {
            now,
            packets: &self.batch,
            in_flight: end.in_flight,
            rtt: Rtt { latest, smoothed, min },
            one_way,
            ecn,
            app_limited: end.app_limited,
        });
        self.batch.clear();
        self.cell.observe(now, &*self.controller);
    }

    /// Packets were lost or marked; the newest of them left at `sent`.
    pub fn on_setback(&mut self, now: Instant, sent: Instant, cause: Cause) {
        let (now, sent) = (self.time(now), self.time(sent));
        self.lost = matches!(cause, Cause::Loss { .. });
        self.controller.on_setback(&Setback { now, sent, cause });
        self.cell.observe(now, &*self.controller);
    }

    /// What the stack took for lost was acknowledged after all. It says nothing of marks: when one came since, nothing is undone.
    pub fn on_spurious_loss(&mut self) {
        if std::mem::take(&mut self.lost) {
            let now = self.cell.now();
            self.controller.on_undo(now);
            self.cell.observe(now, &*self.controller);
        }
    }

    /// Another largest datagram, in bytes.
    pub fn on_datagram_size(&mut self, datagram: u16) {
        self.controller.on_path(self.cell.now(), PathChange::Datagram(datagram));
    }

    /// What the sender may do now.
    pub fn advice(&self) -> Advice {
        self.controller.advice()
    }

    /// What the controller thinks: telemetry.
    pub fn snapshot(&self) -> Snapshot {
        self.controller.snapshot()
    }

    /// The window at the start, in bytes.
    pub const fn initial_window(&self) -> u64 {
        self.initial_window
    }

    /// The rate at which packets should leave, for stacks that pace; `None`: as the stack paces a window.
    ///
    /// [`Pace::Hold`] becomes `window / (RTT + hold)`: the throughput of a sender that keeps each packet back for so long. The RTT is
    /// this path's smoothed one. Stacks count a packet as sent when it leaves, so the hold is not part of it. A hold of zero, or one
    /// before the first RTT sample, is no hold.
    pub fn pacing_rate(&self) -> Option<Rate> {
        let advice = self.controller.advice();
        match advice.pace {
            Pace::Window => None,
            Pace::Rate(rate) => Some(rate),
            Pace::Hold(hold) if hold.is_zero() => None,
            Pace::Hold(hold) => self.round_trip.map(|rtt| held(advice.window, rtt.saturating_add(hold))),
        }
    }
}

impl Clone for Flow {
    fn clone(&self) -> Self {
        Self {
            controller: self.controller.boxed(),
            cell: Arc::clone(&self.cell),
            id: self.id,
            path: self.path,
            initial_window: self.initial_window,
            batch: self.batch.clone(),
            smoothed: self.smoothed,
            min_rtt: self.min_rtt,
            round_trip: self.round_trip,
            lost: self.lost,
        }
    }
}

/// `window` bytes every `every`, which is not zero.
fn held(window: u64, every: Duration) -> Rate {
    let bytes = u128::from(window) * 1_000_000_000 / every.as_nanos().max(1);
    Rate::from_bytes_per_sec(u64::try_from(bytes).unwrap_or(u64::MAX))
}
