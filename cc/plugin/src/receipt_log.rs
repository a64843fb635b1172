//! Arrival times of the peer's packets that no ACK frame of ours has acknowledged yet. They are the
//! content of ACK_RECEIVE_TIMESTAMPS frames.
//!
//! Each packet is reported once, in the first ACK frame after its arrival, if this frame has room.
//! If the ACK frame is lost, its arrival times are lost, too.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use fathom_cc::Time;
use fathom_frames::receive_timestamps::{add_raw, growth};
use fathom_frames::{
    Arrival, Content, Dedup, Frames, Receipt, ReceiveTimestamps, add_receipts, encode_receipts,
};

use crate::payload::is_one_stream_frame;

/// Maximum number of bytes by which an ACK frame grows. This is enough for all times of a bulk
/// transfer. If packets are far apart or were overtaken, it is enough for only some of the times.
pub(crate) const MAX_GROWTH: usize = 64;
/// Number of bytes reserved in every packet if the room must be constant. This is enough for about
/// three timestamps.
pub(crate) const KEPT_GROWTH: usize = 20;
/// Growth in bytes of a frame with one timestamp: type, two counts, packet, and a time in four
/// bytes.
pub(crate) const LEAST_GROWTH: usize = 10;

/// The newest packets of one packet number space, at most [`ReceiveTimestamps::MOST`]. The log
/// allocates memory only when it is created.
pub(crate) struct ReceiptLog {
    wanted: ReceiveTimestamps,
    /// Origin of all times. The peer does not know it.
    epoch: Time,
    /// Filter for duplicates, which stacks drop only after opening them.
    dedup: Dedup,
    /// Largest packet number so far, which the next ACK frame will have.
    largest: u64,
    /// Maximum number of packets that are remembered and can thus be reported in a frame.
    most: usize,
    /// Received packets, newest first as in the frames.
    receipts: VecDeque<Receipt>,
}

impl ReceiptLog {
    /// Creates an empty log whose times count from `epoch`, as time on the wire.
    pub(crate) fn new(wanted: ReceiveTimestamps, epoch: Time) -> Self {
        let most = wanted.max_per_ack.clamp(1, ReceiveTimestamps::MOST) as usize;
        let receipts = VecDeque::with_capacity(most);
        Self { wanted, epoch, dedup: Dedup::default(), largest: 0, most, receipts }
    }

    /// Records that a packet arrived at `now`, as time on the wire.
    pub(crate) fn record(&mut self, packet: u64, now: Time) {
        if matches!(self.dedup.insert(packet), Arrival::Duplicate | Arrival::TooOld) {
            return;
        }
        let micros = u64::try_from(now.since(self.epoch).as_micros()).unwrap_or(u64::MAX);
        // A frame must end before a time that is earlier than the previous one, for example after
        // the clock has stepped back.
        let micros = self.receipts.front().map_or(micros, |newest| micros.max(newest.micros));
        self.largest = self.largest.max(packet);
        self.receipts.truncate(self.most - 1);
        self.receipts.push_front(Receipt { packet, micros });
    }

    /// Returns the number of bytes by which the next ACK frame grows. It is 0 if there is nothing
    /// to report. `raw` is the same as in [`ReceiptLog::write`].
    pub(crate) fn growth(&mut self, raw: Option<&Arc<[u8]>>) -> usize {
        if let Some(raw) = raw {
            return if raw.is_empty() { 0 } else { growth(raw.len()) };
        }
        let mut scratch = [0; MAX_GROWTH - growth(0)];
        let receipts = self.receipts.make_contiguous();
        match encode_receipts(self.largest, receipts, self.wanted, &mut scratch) {
            Some((len, 1..)) => growth(len),
            _ => 0,
        }
    }

    /// Rewrites the ACK frame of `ack_len` bytes at the start of `bytes`. The remaining bytes are
    /// free. Tests may replace the timestamps by `raw`. Returns the new length, or `None` if the
    /// frame stays an ACK frame for lack of room. The arrival times are not reported again in
    /// either case.
    pub(crate) fn write(
        &mut self,
        bytes: &mut [u8],
        ack_len: usize,
        raw: Option<&Arc<[u8]>>,
    ) -> Option<usize> {
        let written = match raw {
            Some(raw) => add_raw(bytes, ack_len, raw),
            None => add_receipts(bytes, ack_len, self.receipts.make_contiguous(), self.wanted),
        };
        self.receipts.clear();
        written
    }
}

/// Returns the position of the first ACK frame in a payload of our own stack.
pub(crate) fn find_ack(payload: &[u8]) -> Option<Range<usize>> {
    if is_one_stream_frame(payload) {
        return None;
    }
    let mut acks = Frames::new(payload)
        .map_while(Result::ok)
        .filter(|frame| matches!(frame.content, Content::Ack(_)));
    acks.next().map(|frame| frame.range)
}

#[cfg(test)]
mod tests {
    use fathom_frames::AckReceiveTimestamps;

    use super::*;

    fn log(max_per_ack: u64) -> ReceiptLog {
        ReceiptLog::new(ReceiveTimestamps { max_per_ack, exponent: 0 }, Time::from_millis(5))
    }

    /// Writes into an ACK frame of packets 0 to `largest`, followed by `room` free bytes.
    fn written(log: &mut ReceiptLog, largest: u8, room: usize) -> Option<Vec<(u64, u64)>> {
        let ack = [0x02, largest, 0, 0, largest];
        let mut bytes = [&ack[..], &vec![0xee; room]].concat();
        if log.write(&mut bytes, ack.len(), None).is_none() {
            assert_eq!(bytes, [&ack[..], &vec![0; room]].concat());
            return None;
        }
        let (frame, _) = AckReceiveTimestamps::decode(&bytes).expect("such a frame");
        assert_eq!(
            (frame.ack.largest, frame.ack.ranges().collect::<Vec<_>>()),
            (largest.into(), vec![0..=largest.into()])
        );
        Some(frame.receipts(0).map(|receipt| (receipt.packet, receipt.micros)).collect())
    }

    #[test]
    fn each_received_packet_is_reported_once() {
        let mut log = log(64);
        for (packet, at) in [(0, 6), (1, 7), (3, 8), (2, 9), (3, 9)] {
            log.record(packet, Time::from_millis(at));
        }
        let growth = log.growth(None);
        let told = written(&mut log, 3, growth);
        assert_eq!(
            told,
            Some(vec![(2, 4_000), (3, 3_000), (1, 2_000), (0, 1_000)]),
            "it fits exactly"
        );
        assert_eq!((log.growth(None), written(&mut log, 3, 60)), (0, None));
        log.record(4, Time::from_millis(10));
        assert_eq!(written(&mut log, 4, 60), Some(vec![(4, 5_000)]));
        log.record(5, Time::from_millis(11));
        assert_eq!(written(&mut log, 5, 0), None, "no room");
        assert_eq!(log.growth(None), 0, "acknowledged all the same");
    }

    #[test]
    fn stored_and_reported_receive_times_are_bounded() {
        let mut log = log(3);
        let capacity = log.receipts.capacity();
        for packet in 0..50 {
            log.record(packet, Time::from_millis(6 + packet));
            assert!(log.growth(None) <= MAX_GROWTH && log.receipts.len() <= 3);
        }
        assert_eq!(log.receipts.capacity(), capacity, "nothing is allocated");
        assert_eq!(
            written(&mut log, 49, 60).map(|told| told.len()),
            Some(3),
            "what the peer asked for"
        );
        let mut log = self::log(64);
        for packet in 0..50 {
            // The times differ by more than fits in two bytes.
            log.record(packet, Time::from_millis(20 * packet));
        }
        assert!((50..=MAX_GROWTH).contains(&log.growth(None)));
    }

    #[test]
    fn receive_times_survive_a_backward_clock_step() {
        let mut log = log(64);
        for at in [9, 7, 4, 10] {
            log.record(at, Time::from_millis(at));
        }
        assert_eq!(
            written(&mut log, 10, 60),
            Some(vec![(10, 5_000), (4, 4_000), (7, 4_000), (9, 4_000)])
        );
    }

    #[test]
    fn first_ack_frame_is_found_between_other_frames() {
        assert_eq!(find_ack(&[0x01, 0x1f, 0x02, 9, 0, 0, 0, 0x08, 0, 1]), Some(2..7));
        assert_eq!(find_ack(&[0x03, 9, 0, 0, 0, 1, 2, 3]), Some(0..8));
        for none in
            [&[0x08, 0, 0x02, 9, 0, 0, 0][..], &[0x01, 0x01], &[], &[0x40, 0x7b, 0x02, 9, 0, 0, 0]]
        {
            assert_eq!(find_ack(none), None, "{none:x?}");
        }
    }
}
