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

#[cfg(test)]
mod tests {
    use fathom_frames::Offer;

    use super::*;
    use crate::extension::Extension;

    /// A writer and its negotiation, between two sides with this extension.
    fn started(extension: Extension) -> (StampWriter, Negotiation) {
        let mut negotiation = Negotiation::new(extension, None);
        let mut parameters = Vec::new();
        negotiation.append_parameters(&mut parameters);
        negotiation.on_peer_parameters(&parameters).expect("well-formed");
        let mut stamps = StampWriter::new(None);
        stamps.start(&negotiation, Time::ZERO);
        (stamps, negotiation)
    }

    /// Stamps written beside acknowledgements of so many packets of one byte, all of which arrive now.
    fn stamps(extension: Extension, packets: usize) -> u64 {
        let (mut stamps, negotiation) = started(extension);
        for _ in 0..packets {
            stamps.on_ack_eliciting(&negotiation, 1, Some(Time::ZERO), || unreachable!("the time is known"));
            let mut room = vec![0; stamps.room()];
            if !room.is_empty() {
                stamps.write(&negotiation, Time::ZERO, || None, &mut room);
            }
        }
        stamps.written()
    }

    #[test]
    fn a_budget_bounds_stamps_beside_acks_only() {
        let lean = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
        let paper = Extension { offer: Some(Offer::Paper), ..Extension::OFF };
        assert_eq!(stamps(lean, 10), 10);
        // The budget of the start is 512 stamps.
        assert_eq!(stamps(lean, 1_000), 512);
        assert_eq!(stamps(paper, 1_000), 1_000);
        assert_eq!(stamps(Extension { datagrams: true, ..lean }, 1_000), 1_000);
        assert_eq!(stamps(Extension::OFF, 1_000), 0);
    }

    #[test]
    fn room_is_made_by_a_packet_and_taken_by_a_stamp() {
        let (mut stamps, negotiation) = started(Extension { offer: Some(Offer::Lean), ..Extension::OFF });
        assert_eq!(stamps.room(), 0);
        stamps.on_ack_eliciting(&negotiation, 1_200, None, || unreachable!("there is a stamp's worth"));
        assert_eq!(stamps.room(), SyncTimestamp::LEN);
        let mut room = [0; SyncTimestamp::LEN];
        stamps.write(&negotiation, Time::from_millis(1), || None, &mut room);
        assert_eq!((stamps.room(), stamps.written()), (0, 1));
        assert_ne!(room, [0; SyncTimestamp::LEN]);
    }
}
