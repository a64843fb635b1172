//! Packet processing: calls that are made for each packet, by keys or by a stack that seals packets
//! itself.

use std::ops::Range;
use std::sync::atomic::Ordering;

use fathom_cc::Time;

use super::{ConnectionState, Parts};
use crate::payload::{
    IncomingFrames, NotNegotiated, OutgoingFrames, check_none, is_ack_eliciting,
    is_one_stream_frame,
};
use crate::shaping::{Departure, Packet};
use crate::stamp_writer::Free;

impl ConnectionState {
    /// Returns the number of bytes that the next 1-RTT packet must reserve.
    pub(crate) fn reserved(&self) -> usize {
        self.room.frame.load(Ordering::Relaxed) + self.room.tail.load(Ordering::Relaxed)
    }

    /// Writes the timestamp frame into a payload with [`ConnectionState::reserved`] free bytes at
    /// its end. Returns the way in which the packet leaves. `datagram` is the size of the untrimmed
    /// datagram.
    pub(crate) fn seal(
        &self,
        path: u32,
        packet: u64,
        payload: &mut [u8],
        datagram: usize,
    ) -> Departure {
        let now = self.clock.now_sealing();
        let parts = &mut *self.parts.lock();
        let (room, tail) = (parts.stamps.room(), parts.tail());
        let body = payload.len().checked_sub(room + tail);
        let departure = match (&mut parts.shaping, body) {
            (Some(shaping), Some(body)) => {
                let outgoing = OutgoingFrames::read(&payload[..body]);
                shaping.depart(&Packet { path, outgoing, len: room + body, tail, datagram }, now)
            }
            _ => Departure::default(),
        };
        let departs = self.clock.wire_time(departure.release.unwrap_or(now));
        let ack_eliciting = || body.is_none_or(|body| is_ack_eliciting(&payload[..body]));
        parts.signals.on_packet_sent(&parts.negotiation, path, packet, departs, ack_eliciting);
        if let Some(body) = body {
            let kept = payload.len() - departure.trim;
            let frame = make_room(&mut payload[..kept], body, room);
            if parts.stamps.writes_receipts() {
                parts.stamps.write_receipts(&mut payload[..kept], Free::Before(kept - body));
            } else if !frame.is_empty() {
                let echo = || parts.signals.echo(path);
                parts.stamps.write(&parts.negotiation, departs, echo, frame);
            }
        }
        parts.update_tail(now);
        self.room.publish(parts);
        departure
    }

    /// Fills the part of a datagram that the shaping socket trims.
    pub(crate) fn write_trailer(&self, tail: &mut [u8], release: Option<Time>) {
        if let Some(trailer) = &self.trailer {
            trailer.write(tail, release.map(|at| self.clock.instant(at)));
        }
    }

    /// Returns the number of bytes to reserve for the timestamp frame in the 1-RTT packet that is
    /// being built. `acknowledges` tells whether the packet contains an ACK frame.
    pub fn frame_room(&self, acknowledges: bool) -> usize {
        if acknowledges || self.room.stamps_every_packet.load(Ordering::Relaxed) {
            self.room.frame.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Completes the 1-RTT packet `packet` by adding the timestamp frame.
    ///
    /// `payload` holds the packet's frames, each with an explicit length, followed by `room` free
    /// bytes ([`ConnectionState::frame_room`], or 0). The timestamp frame is written into the free
    /// bytes, or an ACK frame is extended into them. `ack_eliciting` tells whether the packet is
    /// ack-eliciting.
    pub fn finish_packet(&self, packet: u64, ack_eliciting: bool, payload: &mut [u8], room: usize) {
        let now = self.clock.wire_time(self.clock.now_sealing());
        let parts = &mut *self.parts.lock();
        parts.signals.on_packet_sent(&parts.negotiation, 0, packet, now, || ack_eliciting);
        if parts.stamps.writes_receipts() {
            parts.stamps.write_receipts(payload, Free::Behind(room));
            self.room.publish(parts);
        } else if room > 0 {
            let body = payload.len().saturating_sub(room);
            let room = &mut payload[body..];
            // The frame is shorter than its room until there is a stamp to echo. The stack's buffer
            // may contain old bytes.
            room.fill(0);
            let echo = || parts.signals.echo(0);
            parts.stamps.write(&parts.negotiation, now, echo, room);
            self.room.publish(parts);
        }
    }

    /// Returns the path of `packet` if it was the last packet sealed with a 1-RTT key.
    pub(crate) fn path_of(&self, packet: u64) -> Option<u32> {
        self.parts.lock().signals.path_of(packet)
    }

    // ---- incoming packets ----

    /// Removes timestamp frames from an opened payload. Records their content and the content of
    /// the ACK frames. Returns the range of the payload that the stack sees.
    pub(crate) fn open(
        &self,
        path: u32,
        packet: u64,
        payload: &mut [u8],
    ) -> Result<Range<usize>, NotNegotiated> {
        let parts = &mut *self.parts.lock();
        if !parts.reads {
            // If all extensions are off, their frames are unknown to the stack, which then closes
            // the connection.
            return if parts.negotiation.is_off() {
                Ok(0..payload.len())
            } else {
                check_none(payload)
            };
        }
        let (acknowledges, visible) = self.read(parts, path, packet, payload)?;
        if let Some(shaping) = &mut parts.shaping {
            shaping.on_packet_received(path, packet, acknowledges);
            parts.update_tail(self.clock.now());
        }
        self.room.publish(parts);
        Ok(visible)
    }

    /// Reads the payload for [`ConnectionState::open`]. Returns whether it has an ACK frame, and
    /// the range that the stack sees.
    fn read(
        &self,
        parts: &mut Parts,
        path: u32,
        packet: u64,
        payload: &mut [u8],
    ) -> Result<(bool, Range<usize>), NotNegotiated> {
        let bytes = payload.len();
        let wire_now = || self.clock.wire_now();
        if is_one_stream_frame(payload) {
            // The payload has neither a timestamp frame nor an ACK frame, so a duplicate does no
            // harm here.
            parts.stamps.on_packet_received(packet, wire_now);
            parts.stamps.on_ack_eliciting(&parts.negotiation, bytes, None, wire_now);
            return Ok((false, 0..bytes));
        }
        let mut found = IncomingFrames::default();
        if let Err(not_negotiated) = found.read(payload, parts.negotiation.negotiated()) {
            return if parts.negotiation.is_off() {
                Ok((false, 0..bytes))
            } else {
                Err(not_negotiated)
            };
        }
        let now = wire_now();
        let is_new = parts.signals.on_packet_received(
            &parts.negotiation,
            path,
            packet,
            now,
            &found,
            payload,
        );
        parts.stamps.on_packet_received(packet, || now);
        if is_new && found.ack_eliciting {
            parts.stamps.on_ack_eliciting(&parts.negotiation, bytes, Some(now), wire_now);
        }
        Ok((found.acks().next().is_some(), found.remove_from(payload)))
    }

    /// Removes timestamp frames from an opened 1-RTT payload. Records their content and the content
    /// of the ACK frames. Returns the number of leading bytes that the caller must drop.
    ///
    /// # Errors
    /// Returns [`NotNegotiated`] if the payload has a timestamp frame that it must not have. The
    /// caller closes the connection with PROTOCOL_VIOLATION.
    pub fn on_packet_received(
        &self,
        packet: u64,
        payload: &mut [u8],
    ) -> Result<usize, NotNegotiated> {
        self.open(0, packet, payload).map(|visible| visible.start)
    }

    /// Checks that an opened Initial, Handshake or 0-RTT payload has no timestamp frame.
    ///
    /// # Errors
    /// Returns [`NotNegotiated`] if the payload has a timestamp frame. The caller closes the
    /// connection with PROTOCOL_VIOLATION.
    pub fn on_early_packet_received(&self, payload: &[u8]) -> Result<(), NotNegotiated> {
        if self.parts.lock().negotiation.is_off() { Ok(()) } else { check_none(payload).map(drop) }
    }
}

/// Moves the first `body` bytes of a payload to its end. The free bytes in front of it are for the
/// timestamp frame, if `room` is not 0, and for PADDING. These frames cannot follow the body,
/// because the last STREAM frame may have no length. Returns the bytes for the timestamp frame.
fn make_room(payload: &mut [u8], body: usize, room: usize) -> &mut [u8] {
    match payload.len().checked_sub(body) {
        None | Some(0) => &mut [],
        Some(lead) => {
            payload.copy_within(..body, lead);
            payload[..lead].fill(0);
            &mut payload[..room]
        }
    }
}
