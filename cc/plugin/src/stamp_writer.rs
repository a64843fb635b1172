//! Our frames in our own packets: which packets have room for one, and what it says.
//!
//! Every packet is stamped, or only those beside ACK frames; then a budget bounds the bytes. Room is decided between packets: a stack
//! must see one value while it builds a packet.

use std::sync::Arc;

use fathom_cc::Time;
use fathom_frames::sync_timestamp::stamp;
use fathom_frames::{Echo, StampBudget, SyncTimestamp, Timestamp};

use crate::negotiation::Negotiation;

/// Writes the frames of one connection.
pub(crate) struct StampWriter {
    /// Written in place of our frame.
    raw: Option<Arc<[u8]>>,
    /// Bytes of the next TIMESTAMP frame.
    timestamp_len: usize,
    /// Bytes that the next 1-RTT packet holds free for a frame.
    room: usize,
    /// Stamps beside acknowledgements, in lean mode.
    budget: Option<StampBudget>,
    /// Bytes received that the budget does not know of yet.
    unbudgeted: u64,
    /// Frames written.
    written: u64,
}

impl StampWriter {
    /// Nothing is written before [`StampWriter::start`].
    pub(crate) const fn new(raw: Option<Arc<[u8]>>) -> Self {
        Self { raw, timestamp_len: Timestamp::LEN, room: 0, budget: None, unbudgeted: 0, written: 0 }
    }

    /// The negotiation is over; `now` is the time on the wire.
    pub(crate) fn start(&mut self, negotiation: &Negotiation, now: Time) {
        let keeps_room = negotiation.keeps_room();
        // Where the room is kept, all frames are as long as the longest.
        self.timestamp_len =
            if keeps_room { Timestamp::LEN_LONG } else { Timestamp::at(now, negotiation.own_exponent()).encoded_len() };
        let len = self.frame_len(negotiation);
        let always = negotiation.stamps_every_packet() || keeps_room;
        self.budget = (len > 0 && !always).then(|| StampBudget::new(len as u64));
        if always {
            self.room = len;
        }
    }

    /// Bytes that the next 1-RTT packet holds free for a frame.
    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// Bytes of the frame beside an ACK frame; 0 when none is written.
    pub(crate) const fn frame_len(&self, negotiation: &Negotiation) -> usize {
        let negotiated = negotiation.negotiated();
        if negotiated.timestamps.sends { self.timestamp_len } else { negotiated.sync.frame_len() }
    }

    /// Frames written so far.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// A packet of so many bytes is to be acknowledged: makes room for a stamp beside the ACK frame, if the budget allows. `now` is the
    /// time on the wire where the caller knows it, `clock` reads it.
    pub(crate) fn on_ack_eliciting(
        &mut self,
        negotiation: &Negotiation,
        bytes: usize,
        now: Option<Time>,
        clock: impl FnOnce() -> Time,
    ) {
        self.unbudgeted += bytes as u64;
        if self.room > 0 {
            // There is room already. The clock need not be read.
            return;
        }
        let Some(budget) = &mut self.budget else { return };
        // In a bulk transfer the clock is read once per stamp, not once per packet.
        let ask = now.is_some() || self.unbudgeted >= budget.stamp_price();
        let affordable = budget.has_stamp()
            || ask && budget.received(now.unwrap_or_else(clock), std::mem::take(&mut self.unbudgeted));
        if affordable {
            self.room = self.frame_len(negotiation);
        }
    }

    /// Writes the frame of a packet that leaves at `departs`, as time on the wire, into `room`, whose length is the frame's. `echo` is
    /// what the packet's path has to echo.
    pub(crate) fn write(
        &mut self,
        negotiation: &Negotiation,
        departs: Time,
        echo: impl FnOnce() -> Option<Echo>,
        room: &mut [u8],
    ) {
        let negotiated = negotiation.negotiated();
        let written = if let Some(raw) = &self.raw {
            let len = raw.len().min(room.len());
            room[..len].copy_from_slice(&raw[..len]);
            len
        } else if negotiated.timestamps.sends {
            let frame = Timestamp::at(departs, negotiation.own_exponent());
            if !negotiation.keeps_room() {
                // Once in hours it grows, and the room made before is too small: that one packet goes without.
                self.timestamp_len = frame.encoded_len();
            }
            frame.encode(room)
        } else {
            let echo = echo().filter(|_| negotiated.sync.echoes);
            SyncTimestamp { sent: stamp(departs), echo }.encode(room)
        };
        self.written += u64::from(written > 0);
        if let Some(budget) = &mut self.budget {
            budget.spend();
            // Whether or not an ACK frame lay beside it: the next packet to be acknowledged makes room again. So an endpoint that sends
            // much and acknowledges little stamps little.
            self.room = 0;
        }
    }
}
