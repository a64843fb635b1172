//! Our frames in our own packets: which packets have room for one, and what it says.
//!
//! Every packet is stamped, or only those beside ACK frames; then a budget bounds the bytes. Or the ACK frames themselves say when packets
//! arrived, within the same budget. Room is decided between packets: a stack
//! must see one value while it builds a packet.

use std::sync::Arc;

use fathom_cc::Time;
use fathom_frames::sync_timestamp::stamp;
use fathom_frames::{Echo, StampBudget, SyncTimestamp, Timestamp};

use crate::negotiation::Negotiation;
use crate::receipt_log::{KEPT_GROWTH, LEAST_GROWTH, MAX_GROWTH, ReceiptLog, find_ack};

/// Writes the frames of one connection.
pub(crate) struct StampWriter {
    /// Written in place of our frame, or of the timestamps in ACK frames.
    raw: Option<Arc<[u8]>>,
    /// Packets that arrived, where ACK frames say when.
    receipts: Option<Box<ReceiptLog>>,
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
        Self {
            raw,
            receipts: None,
            timestamp_len: Timestamp::LEN,
            room: 0,
            budget: None,
            unbudgeted: 0,
            written: 0,
        }
    }

    /// The negotiation is over; `now` is the time on the wire.
    pub(crate) fn start(&mut self, negotiation: &Negotiation, now: Time) {
        let keeps_room = negotiation.keeps_room();
        // Where the room is kept, all frames are as long as the longest.
        self.timestamp_len = if keeps_room {
            Timestamp::LEN_LONG
        } else {
            Timestamp::at(now, negotiation.own_exponent()).encoded_len()
        };
        // A stack may ask twice: the epoch stays.
        let log = self.receipts.take();
        let sends = negotiation.negotiated().receive_timestamps.sends;
        self.receipts =
            sends.map(|wanted| log.unwrap_or_else(|| Box::new(ReceiptLog::new(wanted, now))));
        let len = if sends.is_some() { LEAST_GROWTH } else { self.frame_len(negotiation) };
        let always = negotiation.stamps_every_packet() || keeps_room;
        self.budget = (len > 0 && !always).then(|| StampBudget::new(len as u64));
        if always {
            self.room = if sends.is_some() { KEPT_GROWTH } else { len };
        }
    }

    /// A packet was opened at `now`, as time on the wire.
    pub(crate) fn on_packet_received(&mut self, packet: u64, now: impl FnOnce() -> Time) {
        if let Some(receipts) = &mut self.receipts {
            receipts.record(packet, now());
        }
    }

    /// ACK frames say when packets arrived: [`StampWriter::write_receipts`] is called instead of [`StampWriter::write`].
    pub(crate) const fn writes_receipts(&self) -> bool {
        self.receipts.is_some()
    }

    /// Bytes that the next 1-RTT packet holds free for a frame.
    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// Bytes of the frame beside an ACK frame, or by which that grows, at most; 0 when none is written.
    pub(crate) const fn frame_len(&self, negotiation: &Negotiation) -> usize {
        let negotiated = negotiation.negotiated();
        match (negotiated.receive_timestamps.sends, negotiated.timestamps.sends) {
            (Some(_), _) => MAX_GROWTH,
            (None, true) => self.timestamp_len,
            (None, false) => negotiated.sync.frame_len(),
        }
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
        let Some(budget) = &mut self.budget else { return };
        if self.room > 0 {
            // There is room already: the clock need not be read. But one more packet is to be told of.
            if let Some(receipts) = &mut self.receipts {
                self.room = receipts.growth(self.raw.as_ref());
            }
            return;
        }
        // In a bulk transfer the clock is read once per stamp, not once per packet.
        let ask = now.is_some() || self.unbudgeted >= budget.stamp_price();
        let affordable = budget.has_stamp()
            || ask
                && budget.received(now.unwrap_or_else(clock), std::mem::take(&mut self.unbudgeted));
        if affordable {
            self.room = match &mut self.receipts {
                Some(receipts) => receipts.growth(self.raw.as_ref()),
                None => self.frame_len(negotiation),
            };
        }
    }

    /// Makes an ACK frame of `payload` an ACK_RECEIVE_TIMESTAMPS frame, if it has one and there is room: of `payload` the first `free` bytes
    /// are free, or (`behind`) so many at its end. What stays free is PADDING.
    pub(crate) fn write_receipts(&mut self, payload: &mut [u8], free: Free) {
        let Some(receipts) = &mut self.receipts else { return };
        let (frames, room) = free.split(payload.len());
        let found = find_ack(&payload[frames.clone()])
            .map(|ack| frames.start + ack.start..frames.start + ack.end);
        if let Some(ack) = &found {
            // What is free is to lie behind the ACK frame.
            let start = match free {
                Free::Before(_) => {
                    payload.copy_within(frames.start..ack.end, frames.start - room);
                    ack.start - room
                }
                Free::Behind(_) => {
                    payload.copy_within(ack.end..frames.end, ack.end + room);
                    ack.start
                }
            };
            let written = receipts.write(
                &mut payload[start..start + ack.len() + room],
                ack.len(),
                self.raw.as_ref(),
            );
            self.written += u64::from(written.is_some());
            if let Free::Before(_) = free {
                // PADDING goes first.
                let end = start + written.unwrap_or(ack.len());
                let spare = ack.end - end;
                payload.copy_within(..end, spare);
                payload[..spare].fill(0);
            }
        } else if let Free::Behind(_) = free {
            payload[frames.end..].fill(0);
        }
        if let Some(budget) = self.budget.as_mut().filter(|_| room > 0 || found.is_some()) {
            budget.spend_bytes(room as u64);
            // As of stamps: where there was room, whether or not there was an ACK frame.
            self.room = 0;
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

/// Where a payload has free bytes, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Free {
    /// Before its frames, zeros: the last of them may have no length, and nothing may stand behind it.
    Before(usize),
    /// Behind them, of any value.
    Behind(usize),
}

impl Free {
    /// Where the frames lie in a payload of `len` bytes, and how many are free.
    fn split(self, len: usize) -> (std::ops::Range<usize>, usize) {
        match self {
            Self::Before(room) => (room.min(len)..len, room.min(len)),
            Self::Behind(room) => (0..len.saturating_sub(room), room.min(len)),
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
            stamps.on_ack_eliciting(&negotiation, 1, Some(Time::ZERO), || {
                unreachable!("the time is known")
            });
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
        let (mut stamps, negotiation) =
            started(Extension { offer: Some(Offer::Lean), ..Extension::OFF });
        assert_eq!(stamps.room(), 0);
        stamps.on_ack_eliciting(&negotiation, 1_200, None, || {
            unreachable!("there is a stamp's worth")
        });
        assert_eq!(stamps.room(), SyncTimestamp::LEN);
        let mut room = [0; SyncTimestamp::LEN];
        stamps.write(&negotiation, Time::from_millis(1), || None, &mut room);
        assert_eq!((stamps.room(), stamps.written()), (0, 1));
        assert_ne!(room, [0; SyncTimestamp::LEN]);
    }
}
