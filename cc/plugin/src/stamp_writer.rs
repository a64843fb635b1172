//! Timestamp frames in our own packets: the choice of packets that have room for a frame, and the
//! content of the frame.
//!
//! Stamps are written into every packet, or only next to ACK frames. In the latter case, a budget
//! limits their bytes. Alternatively, the ACK frames themselves contain the arrival times of
//! packets, within the same budget. The reserved room changes only between packets, because it must
//! stay the same while a stack builds a packet.

use std::sync::Arc;

use fathom_cc::Time;
use fathom_frames::sync_timestamp::stamp;
use fathom_frames::{Echo, StampBudget, SyncTimestamp, Timestamp};

use crate::negotiation::Negotiation;
use crate::receipt_log::{KEPT_GROWTH, LEAST_GROWTH, MAX_GROWTH, ReceiptLog, find_ack};

/// Writer of one connection's timestamp frames.
pub(crate) struct StampWriter {
    /// Bytes written instead of the timestamp frame, or instead of the timestamps in ACK frames.
    raw: Option<Arc<[u8]>>,
    /// Log of arrived packets; `None` unless our ACK frames report arrival times.
    receipts: Option<Box<ReceiptLog>>,
    /// Length of the next TIMESTAMP frame in bytes.
    timestamp_len: usize,
    /// Number of bytes that the next 1-RTT packet reserves for a frame.
    room: usize,
    /// Budget for stamps next to ACK frames, in `lean` mode.
    budget: Option<StampBudget>,
    /// Number of bytes received but not yet added to the budget.
    unbudgeted: u64,
    /// Number of frames written.
    written: u64,
}

impl StampWriter {
    /// Creates a writer that does not write frames before [`StampWriter::start`] is called.
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

    /// Starts writing, after the negotiation. `now` is the time on the wire.
    pub(crate) fn start(&mut self, negotiation: &Negotiation, now: Time) {
        let keeps_room = negotiation.keeps_room();
        // If the room must be constant, all frames have the maximum length.
        self.timestamp_len = if keeps_room {
            Timestamp::LEN_LONG
        } else {
            Timestamp::at(now, negotiation.own_exponent()).encoded_len()
        };
        // A stack may negotiate twice, but the epoch must stay the same.
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

    /// Records that a packet was opened at `now`, as time on the wire.
    pub(crate) fn on_packet_received(&mut self, packet: u64, now: impl FnOnce() -> Time) {
        if let Some(receipts) = &mut self.receipts {
            receipts.record(packet, now());
        }
    }

    /// Returns whether ACK frames report arrival times. If so, [`StampWriter::write_receipts`] must
    /// be called instead of [`StampWriter::write`].
    pub(crate) const fn writes_receipts(&self) -> bool {
        self.receipts.is_some()
    }

    /// Returns the number of bytes that the next 1-RTT packet reserves for a frame.
    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// Returns the maximum length in bytes of the frame next to an ACK frame, or the maximum growth
    /// of the ACK frame itself. Returns 0 if no frame is written.
    pub(crate) const fn frame_len(&self, negotiation: &Negotiation) -> usize {
        let negotiated = negotiation.negotiated();
        match (negotiated.receive_timestamps.sends, negotiated.timestamps.sends) {
            (Some(_), _) => MAX_GROWTH,
            (None, true) => self.timestamp_len,
            (None, false) => negotiated.sync.frame_len(),
        }
    }

    /// Returns the number of frames written so far.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Records an ack-eliciting packet of `bytes` bytes. If the budget allows, makes room for a
    /// stamp next to the next ACK frame. `now` is the time on the wire if the caller knows it.
    /// Otherwise, `clock` reads the time.
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
            // There is already room, so the clock need not be read. The ACK frame grows by the time
            // of one more packet.
            if let Some(receipts) = &mut self.receipts {
                self.room = receipts.growth(self.raw.as_ref());
            }
            return;
        }
        // In a bulk transfer, the clock is read once per stamp, not once per packet.
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

    /// Turns an ACK frame of `payload` into an ACK_RECEIVE_TIMESTAMPS frame, if `payload` has an
    /// ACK frame and enough room. `free` tells which bytes of `payload` are free. Bytes that stay
    /// free become PADDING.
    pub(crate) fn write_receipts(&mut self, payload: &mut [u8], free: Free) {
        let Some(receipts) = &mut self.receipts else { return };
        let (frames, room) = free.split(payload.len());
        let found = find_ack(&payload[frames.clone()])
            .map(|ack| frames.start + ack.start..frames.start + ack.end);
        if let Some(ack) = &found {
            // Move the free bytes to the end of the ACK frame.
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
                // PADDING comes first.
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
            // Like a stamp, this uses up the room whether or not there was an ACK frame.
            self.room = 0;
        }
    }

    /// Writes the frame of a packet that leaves at `departs`, in time on the wire. `room` has the
    /// length of the frame. `echo` returns the stamp that the packet's path has to echo.
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
                // After some hours, the frame becomes longer, and the room reserved earlier is too
                // small. One packet then has no frame.
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
            // The room is used up whether or not there was an ACK frame. The next packet to be
            // acknowledged makes room again, so an endpoint that sends much and acknowledges little
            // writes few stamps.
            self.room = 0;
        }
    }
}

/// Position and number of free bytes in a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Free {
    /// Zeros before the frames. The last frame may have no length, so nothing may follow the
    /// frames.
    Before(usize),
    /// Bytes of any value behind the frames.
    Behind(usize),
}

impl Free {
    /// Returns the range of the frames in a payload of `len` bytes, and the number of free bytes.
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

    /// Returns a writer and its negotiation, between two sides with this extension.
    fn started(extension: Extension) -> (StampWriter, Negotiation) {
        let mut negotiation = Negotiation::new(extension, None);
        let mut parameters = Vec::new();
        negotiation.append_parameters(&mut parameters);
        negotiation.on_peer_parameters(&parameters).expect("well-formed");
        let mut stamps = StampWriter::new(None);
        stamps.start(&negotiation, Time::ZERO);
        (stamps, negotiation)
    }

    /// Returns the number of stamps written beside acknowledgements of `packets` packets of one
    /// byte that all arrive at the same time.
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
    fn budget_bounds_only_timestamps_sent_with_acks() {
        let lean = Extension { offer: Some(Offer::Lean), ..Extension::OFF };
        let paper = Extension { offer: Some(Offer::Paper), ..Extension::OFF };
        assert_eq!(stamps(lean, 10), 10);
        // The initial budget is 512 stamps.
        assert_eq!(stamps(lean, 1_000), 512);
        assert_eq!(stamps(paper, 1_000), 1_000);
        assert_eq!(stamps(Extension { datagrams: true, ..lean }, 1_000), 1_000);
        assert_eq!(stamps(Extension::OFF, 1_000), 0);
    }

    #[test]
    fn received_packet_reserves_room_for_one_timestamp() {
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
