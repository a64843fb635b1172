//! Calls that the drivers of a connection's controllers make: each event takes the lock once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fathom_cc::{ControllerMetrics, OneWayDelay, Time};
use parking_lot::MutexGuard;

use super::{ConnectionState, Parts};
use crate::path_signals::AckSignals;
use crate::shaping::ShapingRequest;

impl ConnectionState {
    /// Returns the number of the next controller.
    pub(crate) fn next_controller_id(&self) -> u64 {
        self.controllers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether datagrams go through a shaping socket, which applies datagram sizes and send
    /// delays.
    pub(crate) fn has_shaping_socket(&self) -> bool {
        self.trailer.as_ref().is_some_and(|trailer| trailer.is_wired())
    }

    /// Returns whether the stack itself builds packets as small as a controller asks. Such a stack
    /// counts the bytes that are really sent, and a window may be smaller than two of the largest
    /// packets.
    pub(crate) const fn sizes_packets(&self) -> bool {
        self.provided.datagram && self.trailer.is_none()
    }

    /// Returns the time since which packets are trimmed, and the number of bytes by which they are
    /// trimmed.
    pub(crate) fn trim(&self) -> (Time, usize) {
        if self.trailer.is_some() { self.parts.lock().trim() } else { (Time::ZERO, 0) }
    }

    /// Removes controller `controller_id`.
    pub(crate) fn remove_controller(&self, controller_id: u64) {
        if self.trailer.is_some()
            && let Some(shaping) = &mut self.parts.lock().shaping
        {
            shaping.remove_controller(controller_id);
        }
    }

    /// Locks the state for one event of a controller.
    pub(crate) fn lock(&self) -> LockedState<'_> {
        LockedState { state: self, parts: self.parts.lock() }
    }
}

/// Locked state during one event of a controller. During this time, the stack is not building a
/// packet.
pub(crate) struct LockedState<'a> {
    state: &'a ConnectionState,
    parts: MutexGuard<'a, Parts>,
}

impl LockedState<'_> {
    /// Returns how long the shaping socket delayed the first ack-eliciting packet of `path` sealed
    /// at `sent` or later. Forgets the packets sealed earlier.
    pub(crate) fn send_delay_of(&mut self, path: u32, sent: Time) -> Duration {
        self.parts
            .shaping
            .as_mut()
            .map_or(Duration::ZERO, |shaping| shaping.send_delay_of(path, sent))
    }

    /// Returns the signals of the ACK frame that the stack is processing for controller
    /// `controller_id` of `path`. They are returned only once. `largest` is the largest packet
    /// number acknowledged so far on this path.
    pub(crate) fn take_signals(
        &mut self,
        path: u32,
        controller_id: u64,
        largest: Option<u64>,
    ) -> AckSignals {
        let parts = &mut *self.parts;
        parts.signals.take(&parts.negotiation, path, controller_id, largest)
    }

    /// Returns whether datagrams go through a shaping socket, which applies datagram sizes and send
    /// delays.
    pub(crate) fn has_shaping_socket(&self) -> bool {
        self.state.has_shaping_socket()
    }

    /// Sets the shaping that controller `controller_id` requests from now on.
    pub(crate) fn request_shaping(&mut self, controller_id: u64, request: ShapingRequest) {
        let parts = &mut *self.parts;
        if let Some(shaping) = &mut parts.shaping {
            let now = self.state.clock.now();
            shaping.request(controller_id, request, now);
            parts.update_tail(now);
            self.state.room.publish(parts);
        }
    }

    /// Returns the time since which packets are trimmed, and the number of bytes by which they are
    /// trimmed.
    pub(crate) fn trim(&self) -> (Time, usize) {
        self.parts.trim()
    }

    /// Records a controller's state after an event. Returns the newest forward one-way delay.
    pub(crate) fn record_metrics(&mut self, metrics: ControllerMetrics) -> Option<OneWayDelay> {
        self.parts.controller = Some(metrics);
        self.parts.signals.summary().one_way
    }
}
