//! The relevant frames of a payload that was opened or will be sealed.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use fathom_frames::receive_timestamps::Receipts;
use fathom_frames::{
    Ack, AckReceiveTimestamps, Content, Echo, EcnCounts, Frame, Frames, SyncTimestamp, Timestamp,
    ack_delay, remove, restore_ack, varint,
};

use crate::extension::NegotiatedExtensions;

/// Maximum number of SYNC_TIMESTAMP frames removed from one packet; more close the connection. The
/// number of TIMESTAMP frames is not limited (their draft uses the largest of them), but only the
/// positions of the first frames up to this number are stored without allocation.
const MAX_FRAMES: usize = 4;
/// Maximum number of ACK frames read in one packet, one for each path; only the stack reads further
/// ones.
const MAX_ACKS: usize = 4;
/// ACK, without and with ECN counts (RFC 9000 §19.3).
const ACK: u64 = 0x02;
const ACK_ECN: u64 = 0x03;
/// PATH_ACK, without and with ECN counts (draft-ietf-quic-multipath-21 §4.1).
const PATH_ACK: u64 = 0x3e;
const PATH_ACK_ECN: u64 = 0x3f;

/// PATH_CHALLENGE and PATH_RESPONSE (RFC 9000 §19.17, RFC 9000 §19.18).
const PATH_FRAMES: [u64; 2] = [0x1a, 0x1b];

/// PADDING and CONNECTION_CLOSE (RFC 9000 §19.1, RFC 9000 §19.19).
const PADDING: u64 = 0x00;
const CLOSES: [u64; 2] = [0x1c, 0x1d];

/// Relevant properties of a payload that will be sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutgoingFrames {
    /// Whether the payload is ack-eliciting.
    pub(crate) ack_eliciting: bool,
    /// Whether the payload validates the path (RFC 9000 §8.2), for which the size of its datagram
    /// matters. Also true for a frame of an unknown extension, which may do the same.
    pub(crate) probes_path: bool,
    /// Whether the payload closes the connection.
    pub(crate) closes: bool,
    /// Whether the payload has no frame except PADDING.
    pub(crate) empty: bool,
    /// Path and length of each ACK frame, in the first `ack_count` entries.
    acks: [(u32, usize); MAX_ACKS],
    ack_count: usize,
}

impl OutgoingFrames {
    /// Reads a payload of our own stack.
    pub(crate) fn read(payload: &[u8]) -> Self {
        let mut outgoing = Self { empty: true, ..Self::default() };
        let mut start = 0;
        while let Some(first) = payload.get(start) {
            let first = u64::from(*first);
            let next = match first {
                ACK | ACK_ECN | PATH_ACK | PATH_ACK_ECN => AckSeen::read(first, &payload[start..])
                    .map(|(ack, len)| {
                        outgoing.push(ack.path, len);
                        start + len
                    }),
                _ => outgoing.frame(payload, start),
            };
            let Some(next) = next else { return outgoing.unknown() };
            start = next;
        }
        outgoing
    }

    /// Returns the path and length of each ACK frame.
    pub(crate) fn acks(&self) -> &[(u32, usize)] {
        &self.acks[..self.ack_count]
    }

    /// Reads one frame other than ACK. Returns the position of the next frame.
    fn frame(&mut self, payload: &[u8], start: usize) -> Option<usize> {
        let frame = Frames::new(&payload[start..]).next()?.ok()?;
        self.ack_eliciting |= frame.is_ack_eliciting();
        self.probes_path |= PATH_FRAMES.contains(&frame.ty);
        self.closes |= CLOSES.contains(&frame.ty);
        self.empty &= frame.ty == PADDING;
        Some(start + frame.range.end)
    }

    /// Handles a frame of an extension unknown to this crate: the packet must stay as it is.
    fn unknown(self) -> Self {
        Self { ack_eliciting: true, probes_path: true, empty: false, ..self }
    }

    fn push(&mut self, path: u32, bytes: usize) {
        self.empty = false;
        if let Some(slot) = self.acks.get_mut(self.ack_count) {
            *slot = (path, bytes);
            self.ack_count += 1;
        }
    }
}

/// Returns whether the payload is a single STREAM frame (RFC 9000 §19.8), as in a bulk transfer. A
/// frame without a length extends to the end of the payload. A frame with a length, which quiche
/// always writes, must end there.
pub(crate) fn is_one_stream_frame(payload: &[u8]) -> bool {
    const STREAM: u8 = 0x08;
    const TYPE_BITS: u8 = 0xf8;
    const LENGTH: u8 = 0x02;
    const OFFSET: u8 = 0x04;
    let Some((ty, mut rest)) = payload.split_first().filter(|(ty, _)| **ty & TYPE_BITS == STREAM)
    else {
        return false;
    };
    if ty & LENGTH == 0 {
        return true;
    }
    let mut int = || {
        let (value, len) = varint::decode(rest)?;
        rest = rest.get(len..)?;
        Some(value)
    };
    // Stream, offset if there is one, length.
    let length =
        int().and_then(|_| if ty & OFFSET == 0 { Some(0) } else { int() }).and_then(|_| int());
    length == Some(rest.len() as u64)
}

/// Content of an ACK or PATH_ACK frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckSeen {
    pub(crate) path: u32,
    pub(crate) largest: u64,
    /// Distance from the largest packet down to the first packet of the newest range.
    pub(crate) first_range: u64,
    pub(crate) raw_delay: u64,
    pub(crate) ecn: Option<EcnCounts>,
    /// Position of the frame if it is an ACK_RECEIVE_TIMESTAMPS frame.
    pub(crate) receive_timestamps: Option<(u16, u16)>,
}

impl AckSeen {
    /// Reads the fields of an ACK_RECEIVE_TIMESTAMPS frame.
    fn of_receive_timestamps(frame: &AckReceiveTimestamps<'_>, at: (u16, u16)) -> Self {
        let Ack { largest, raw_delay, ecn, .. } = frame.ack;
        let first_range =
            frame.ack.ranges().next().map_or(0, |newest| newest.end() - newest.start());
        Self { path: 0, largest, first_range, raw_delay, ecn, receive_timestamps: Some(at) }
    }

    /// Returns the arrival times of packets, in units of 2^`exponent` microseconds, from the frame
    /// of `payload` that these fields were read from. `None` for an ACK frame.
    pub(crate) fn receipts<'a>(&self, payload: &'a [u8], exponent: u8) -> Option<Receipts<'a>> {
        let (start, end) = self.receive_timestamps?;
        let frame = payload.get(usize::from(start)..usize::from(end))?;
        AckReceiveTimestamps::decode(frame).ok().map(|(frame, _)| frame.receipts(exponent))
    }

    /// Returns the newest range. A range that would begin below 0 begins at 0.
    pub(crate) fn newest(&self) -> RangeInclusive<u64> {
        self.largest.saturating_sub(self.first_range)..=self.largest
    }

    /// Returns how long the peer delayed the acknowledgement; `exponent` is the peer's
    /// (RFC 9000 §18.2).
    pub(crate) fn delay(&self, exponent: u8) -> Duration {
        ack_delay(self.raw_delay, exponent)
    }

    /// Reads the ACK or PATH_ACK frame of type `ty` at the start of `bytes`. Returns its content
    /// and its length. A PATH_ACK is an ACK frame with a path number behind its type. Ranges are
    /// skipped unchecked, because a wrong ACK frame ends the connection anyway.
    #[inline]
    fn read(ty: u64, bytes: &[u8]) -> Option<(Self, usize)> {
        let mut rest = bytes;
        let mut int = || {
            let (value, len) = varint::decode(rest)?;
            rest = rest.get(len..)?;
            Some(value)
        };
        int()?;
        let path = if ty >= PATH_ACK { u32::try_from(int()?).ok()? } else { 0 };
        let (largest, raw_delay, ranges, first_range) = (int()?, int()?, int()?, int()?);
        // Every range takes at least two bytes, so a hostile count ends with the payload.
        for _ in 0..ranges {
            int()?;
            int()?;
        }
        let ecn = match ty {
            ACK_ECN | PATH_ACK_ECN => Some(EcnCounts { ect0: int()?, ect1: int()?, ce: int()? }),
            _ => None,
        };
        let seen = Self { path, largest, first_range, raw_delay, ecn, receive_timestamps: None };
        Some((seen, bytes.len() - rest.len()))
    }
}

/// Time information that a packet carries for its ACK frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerTimestamp {
    /// No time information.
    Nothing,
    /// Echo of one of our stamps.
    Echo(Echo),
    /// The peer's clock, in microseconds modulo 2^32, from a SYNC_TIMESTAMP frame without an echo.
    Stamp(u32),
    /// The peer's clock, in microseconds modulo 2^32, from a TIMESTAMP frame; and the max_ack_delay
    /// that the peer announced.
    Timestamp(u32, Duration),
}

/// A timestamp frame that was not negotiated, or one too many: a PROTOCOL_VIOLATION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNegotiated;

/// Returns the range of a payload that the stack sees if no timestamp frame is allowed in the
/// payload. Returns an error if the payload has one.
pub(crate) fn check_none(payload: &[u8]) -> Result<Range<usize>, NotNegotiated> {
    let mut found = IncomingFrames::default();
    if !is_one_stream_frame(payload) {
        found.read(payload, &NegotiatedExtensions::default())?;
    }
    Ok(found.visible(0, payload.len()))
}

/// Returns whether a payload of our own stack is ack-eliciting.
pub(crate) fn is_ack_eliciting(payload: &[u8]) -> bool {
    is_one_stream_frame(payload) || OutgoingFrames::read(payload).ack_eliciting
}

/// Relevant frames of an opened payload.
#[derive(Default)]
pub(crate) struct IncomingFrames {
    /// First SYNC_TIMESTAMP frame.
    pub(crate) stamp: Option<SyncTimestamp>,
    /// Largest of the TIMESTAMP frames to be read.
    pub(crate) timestamp: Option<Timestamp>,
    /// Whether there is an ACK_RECEIVE_TIMESTAMPS frame to be read.
    receives: bool,
    pub(crate) ack_eliciting: bool,
    /// Bytes of PADDING at the end.
    pub(crate) padding: usize,
    ack: Option<AckSeen>,
    /// ACK frames of other paths; nearly always there are none.
    more_acks: Vec<AckSeen>,
    /// Positions of the timestamp frames, in the first `count` entries.
    at: [(u16, u16); MAX_FRAMES],
    count: usize,
    /// Positions of further frames; in practice there are none.
    more: Vec<(u16, u16)>,
}

impl IncomingFrames {
    /// Reads a payload into this empty value. Returns an error if the payload has a timestamp frame
    /// that it must not have.
    ///
    /// Nothing is read behind an unreadable frame. Our peers put their timestamp frame first, so it
    /// is found before. The stack either knows the unreadable frame or closes the connection.
    pub(crate) fn read(
        &mut self,
        payload: &[u8],
        negotiated: &NegotiatedExtensions,
    ) -> Result<(), NotNegotiated> {
        let mut start = 0;
        while let Some(first) = payload.get(start) {
            let first = u64::from(*first);
            let next = match first {
                // Fast path for ACK frames, by far the most frequent frames here.
                ACK | ACK_ECN | PATH_ACK | PATH_ACK_ECN => self.ack(first, payload, start),
                _ => self.frame(payload, start, negotiated)?,
            };
            let Some(next) = next else {
                // Unknown frames are usually ack-eliciting.
                self.ack_eliciting = true;
                break;
            };
            start = next;
        }
        Ok(())
    }

    /// Reads an acknowledgement. Returns the position of the next frame.
    #[inline]
    fn ack(&mut self, ty: u64, payload: &[u8], start: usize) -> Option<usize> {
        let (ack, len) = AckSeen::read(ty, &payload[start..])?;
        self.push(ack);
        Some(start + len)
    }

    /// Reads one frame other than ACK. Returns the position of the next frame.
    fn frame(
        &mut self,
        payload: &[u8],
        start: usize,
        negotiated: &NegotiatedExtensions,
    ) -> Result<Option<usize>, NotNegotiated> {
        let Some(Ok(frame)) = Frames::new(&payload[start..]).next() else { return Ok(None) };
        self.ack_eliciting |= frame.is_ack_eliciting();
        let range = start + frame.range.start..start + frame.range.end;
        let to = range.end;
        if frame.ty == PADDING && to == payload.len() {
            self.padding = range.len();
        }
        match frame.content {
            Content::SyncTimestamp(stamp) => {
                if self.count == MAX_FRAMES || !negotiated.sync.accepts(&stamp) {
                    return Err(NotNegotiated);
                }
                self.record_range(range)?;
                self.stamp.get_or_insert(stamp);
            }
            Content::Timestamp(stamp) => {
                if !negotiated.timestamps.accepts {
                    return Err(NotNegotiated);
                }
                self.record_range(range)?;
                // The value 0 is not a time: timestamps of the draft are positive.
                let timestamp =
                    Some(stamp).filter(|stamp| negotiated.timestamps.reads && stamp.scaled > 0);
                self.timestamp = self.timestamp.max(timestamp);
            }
            Content::AckReceiveTimestamps(frame) => {
                if !negotiated.receive_timestamps.accepts {
                    return Err(NotNegotiated);
                }
                let at = self.record_range(range)?;
                self.push(AckSeen::of_receive_timestamps(&frame, at));
                self.receives |= negotiated.receive_timestamps.reads.is_some() && frame.count > 0;
            }
            _ => {}
        }
        Ok(Some(to))
    }

    /// Records the position of a timestamp frame.
    fn record_range(&mut self, range: Range<usize>) -> Result<(u16, u16), NotNegotiated> {
        // No datagram is that long.
        let at = |offset: usize| u16::try_from(offset).map_err(|_| NotNegotiated);
        let place = (at(range.start)?, at(range.end)?);
        match self.at.get_mut(self.count) {
            Some(slot) => {
                *slot = place;
                self.count += 1;
            }
            None => self.more.push(place),
        }
        Ok(place)
    }

    /// Returns whether the packet carries its own send time, or arrival times of our packets.
    pub(crate) const fn is_stamped(&self) -> bool {
        self.stamp.is_some() || self.timestamp.is_some() || self.receives
    }

    /// Returns the positions of the timestamp frames, in order.
    fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<usize>> {
        let places = self.at[..self.count].iter().chain(&self.more);
        places.map(|(start, end)| usize::from(*start)..usize::from(*end))
    }

    /// Removes the timestamp frames from the payload in which they were found, and replaces each
    /// ACK_RECEIVE_TIMESTAMPS frame by an ACK frame. Returns the range that the stack sees.
    pub(crate) fn remove_from(&self, payload: &mut [u8]) -> Range<usize> {
        if self.count == 0 {
            return self.visible(0, payload.len());
        }
        // Go from the last frame to the first: only the first one may be at the start of the
        // payload.
        let lead = self.ranges().rev().fold(0, |lead, range| {
            let frame = Frames::new(&payload[range.clone()]).next();
            let acknowledges =
                matches!(frame, Some(Ok(Frame { content: Content::AckReceiveTimestamps(_), .. })));
            lead + if acknowledges { restore_ack(payload, range) } else { remove(payload, range) }
        });
        self.visible(lead, payload.len())
    }

    /// Returns the range of a payload of `len` bytes without the first `lead` bytes and without the
    /// PADDING at its end. quinn and noq read PADDING byte by byte, as about 800 frames in each
    /// Initial packet. At least one byte stays, because a payload without frames is a
    /// PROTOCOL_VIOLATION (RFC 9000 §12.4).
    fn visible(&self, lead: usize, len: usize) -> Range<usize> {
        lead..(len - self.padding).max(lead + 1).min(len)
    }

    /// Returns the ACK frames, in order.
    pub(crate) fn acks(&self) -> impl Iterator<Item = &AckSeen> {
        self.ack.iter().chain(&self.more_acks)
    }

    fn push(&mut self, ack: AckSeen) {
        match &mut self.ack {
            ack_seen @ None => *ack_seen = Some(ack),
            Some(_) if self.more_acks.len() < MAX_ACKS - 1 => self.more_acks.push(ack),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_frames::parameter::Negotiated;
    use fathom_frames::{NegotiatedReceiveTimestamps, Timestamps};

    use super::*;

    const OURS: [u8; 8] = [0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9];
    const LEAN: NegotiatedExtensions = NegotiatedExtensions {
        sync: Negotiated {
            place: fathom_frames::parameter::Placement::BesideAcks,
            echoes: false,
            reads: true,
            reads_echoes: false,
        },
        timestamps: NONE,
        receive_timestamps: NO_RECEIPTS,
    };
    const NO_RECEIPTS: NegotiatedReceiveTimestamps =
        NegotiatedReceiveTimestamps { sends: None, reads: None, expects: false, accepts: false };
    const RECEIPTS: NegotiatedExtensions = NegotiatedExtensions {
        receive_timestamps: NegotiatedReceiveTimestamps {
            reads: Some(0),
            accepts: true,
            ..NO_RECEIPTS
        },
        timestamps: NONE,
        ..TIMESTAMPS
    };
    const NONE: Timestamps = Timestamps { sends: false, reads: false, accepts: false };
    const TIMESTAMPS: NegotiatedExtensions = NegotiatedExtensions {
        sync: Negotiated {
            place: fathom_frames::parameter::Placement::Never,
            echoes: false,
            reads: false,
            reads_echoes: false,
        },
        timestamps: Timestamps { sends: true, reads: true, accepts: true },
        receive_timestamps: NO_RECEIPTS,
    };

    fn found(payload: &[u8]) -> IncomingFrames {
        try_found(payload, &LEAN).expect("ours to read")
    }

    fn try_found(payload: &[u8], negotiated: &NegotiatedExtensions) -> Option<IncomingFrames> {
        let mut found = IncomingFrames::default();
        found.read(payload, negotiated).ok().map(|()| found)
    }

    #[test]
    fn path_acks_are_read_between_other_frames() {
        // PATH_ACK of path 5, largest 100, delay 32, ranges 96..=100 and 87..=91; PATH_ACK_ECN of
        // path 0, largest 7; a PING.
        let payload = [
            &OURS[..],
            &[0x3e, 0x05, 0x40, 0x64, 0x20, 0x01, 0x04, 0x03, 0x04],
            &[0x3f, 0x00, 0x07, 0x01, 0x00, 0x00, 0x06, 0x00, 0x02],
            &[0x01],
        ]
        .concat();
        let found = found(&payload);
        let first =
            AckSeen { path: 5, largest: 100, first_range: 4, raw_delay: 32, ..AckSeen::default() };
        let counts = EcnCounts { ect0: 6, ect1: 0, ce: 2 };
        let second = AckSeen { largest: 7, raw_delay: 1, ecn: Some(counts), ..AckSeen::default() };
        assert!(found.acks().eq([&first, &second]));
        assert!(found.ack_eliciting);
        assert!(found.ranges().eq(std::iter::once(0..8)));
        assert_eq!(found.stamp.map(|s| s.sent), Some(9));
    }

    #[test]
    fn an_unknown_frame_ends_the_walk() {
        let unknown = [&OURS[..], &[0x02, 9, 0, 0, 0], &[0x40, 0x7b, 1, 2, 3], &OURS[..]].concat();
        let found = found(&unknown);
        assert!(found.ranges().eq(std::iter::once(0..8)));
        assert_eq!(found.acks().count(), 1);
        assert!(found.ack_eliciting);
    }

    #[test]
    fn one_stream_frame_to_the_end_needs_no_walk() {
        for ty in 0x00..=0xff_u8 {
            // Stream 0, offset or data, then bytes that would be a PING or a timestamp frame.
            let payload = [&[ty, 0, 1][..], &OURS].concat();
            let walked = found(&payload);
            if is_one_stream_frame(&payload) {
                assert!((0x08..=0x0f).contains(&ty));
                assert!(
                    walked.ack_eliciting && walked.count == 0 && walked.ack.is_none(),
                    "{ty:#x}"
                );
            }
        }
        assert!(is_one_stream_frame(&[0x08, 0]) && is_one_stream_frame(&[0x0d, 0, 0]));
        // Stream 4, offset 1000 if the frame has one, then 3 bytes to the end; or a length that is
        // one byte too short or too long.
        for frame in [&[0x0a, 4][..], &[0x0e, 4, 0x43, 0xe8], &[0x0f, 4, 0x43, 0xe8]] {
            assert!(is_one_stream_frame(&[frame, &[3, 7, 7, 7]].concat()));
            assert!(!is_one_stream_frame(&[frame, &[2, 7, 7, 7]].concat()));
            assert!(!is_one_stream_frame(&[frame, &[4, 7, 7, 7]].concat()));
        }
        assert!(
            !is_one_stream_frame(&[0x0a, 0])
                && !is_one_stream_frame(&[0x0e, 0, 0x40])
                && !is_one_stream_frame(&[])
        );
    }

    #[test]
    fn truncated_path_acks_end_the_walk() {
        let whole = [0x3f, 0x00, 0x07, 0x01, 0x00, 0x00, 0x06, 0x00, 0x02];
        assert_eq!(found(&whole).acks().count(), 1);
        for len in 1..whole.len() {
            assert!(found(&whole[..len]).acks().next().is_none(), "truncated to {len}");
        }
        // A range count far beyond the end of the payload.
        assert!(
            found(&[0x3e, 0, 7, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0])
                .acks()
                .next()
                .is_none()
        );
    }

    #[test]
    fn a_frame_that_was_not_negotiated_is_an_error() {
        assert!(try_found(&OURS, &NegotiatedExtensions::default()).is_none());
        assert!(try_found(&OURS.repeat(5), &LEAN).is_none());
        assert!(try_found(&OURS.repeat(4), &LEAN).is_some());
        assert!(try_found(&OURS, &TIMESTAMPS).is_none());
        for negotiated in [NegotiatedExtensions::default(), LEAN] {
            assert!(try_found(&[0x42, 0xf5, 0x01], &negotiated).is_none());
            assert!(try_found(&[0x01, 0x42, 0xf5, 0x01, 0x01], &negotiated).is_none());
        }
        assert!(check_none(&[0x01, 0x42, 0xf5, 0x01]).is_err());
        assert!(check_none(&[0x08, 0x00, 0x42, 0xf5, 0x01]).is_ok(), "data");
        assert!(
            check_none(&[0x01, 0x42, 0xf5]).is_ok(),
            "truncated: the stack finds a frame that it cannot read"
        );
    }

    #[test]
    fn padding_at_the_end_is_not_seen() {
        let visible = |payload: &[u8]| found(payload).remove_from(&mut payload.to_vec());
        // PING; CRYPTO and STREAM with bytes that are zero; an unknown frame.
        let crypto = [0x06, 0, 3, 0, 0, 0];
        for frames in [&[0x01][..], &crypto, &[0, 0, 0x01], &[0x40, 0x7b, 0, 0]] {
            let payload = [frames, &[0; 800]].concat();
            let unknown = frames[0] == 0x40;
            assert_eq!(
                check_none(&payload).unwrap(),
                0..if unknown { payload.len() } else { frames.len() }
            );
            assert_eq!(visible(&payload), check_none(&payload).unwrap());
        }
        assert_eq!(check_none(&[0x08, 0, 0, 0, 0]).unwrap(), 0..5, "data to the end");
        // A payload without frames would be an error.
        assert_eq!(check_none(&[0; 800]).unwrap(), 0..1);
        assert_eq!(check_none(&[]).unwrap(), 0..0);
        assert_eq!(visible(&[&OURS[..], &[0; 9]].concat()), 8..9);
        assert_eq!(visible(&[&OURS[..], &[0x01], &[0; 9]].concat()), 8..9);
        assert_eq!(visible(&[&[0x01], &OURS[..], &[0; 9]].concat()), 0..9);
    }

    #[test]
    fn of_several_timestamps_the_largest_counts_and_all_are_found() {
        let payload = [0x42, 0xf5, 0x05, 0x01, 0x42, 0xf5, 0x40, 0xff, 0x42, 0xf5, 0x07];
        let found = try_found(&payload, &TIMESTAMPS).expect("negotiated");
        assert_eq!(found.timestamp, Some(Timestamp { scaled: 0xff }));
        assert!(found.ranges().eq([0..3, 4..8, 8..11]));
        let many = [0x42, 0xf5, 0x05].repeat(400);
        let found = try_found(&many, &TIMESTAMPS).expect("negotiated");
        assert!(found.ranges().eq((0..400).map(|n| 3 * n..3 * n + 3)));
        assert!(!found.ack_eliciting);
    }

    /// ACK_RECEIVE_TIMESTAMPS of packets 0 to 9 with ECN counts 1, 0 and 2. Packets 9 and 8 arrived
    /// 100 and 90 us after the epoch.
    const RECEIVED: &[u8] = &[0x83, 0x17, 0x83, 0x08, 9, 1, 0, 9, 1, 0, 2, 1, 0, 2, 0x40, 100, 10];
    const ITS_ACK: &[u8] = &[0x03, 9, 1, 0, 9, 1, 0, 2];

    #[test]
    fn the_stack_sees_an_ack_where_one_said_when_packets_arrived() {
        let seen = |payload: &[u8]| {
            let found = try_found(payload, &RECEIPTS).expect("negotiated");
            let mut payload = payload.to_vec();
            let visible = found.remove_from(&mut payload);
            payload[visible].to_vec()
        };
        assert_eq!(seen(&[RECEIVED, &[0x01]].concat()), [ITS_ACK, &[0x01]].concat());
        assert_eq!(seen(RECEIVED), ITS_ACK);
        let padding = vec![0; RECEIVED.len() - ITS_ACK.len()];
        assert_eq!(
            seen(&[&[0x01], RECEIVED, &[0x1e]].concat()),
            [&[0x01], &padding[..], ITS_ACK, &[0x1e]].concat()
        );
        // The payload is full of frames: far more ACK frames than are read here.
        let many = seen(&RECEIVED.repeat(80));
        let acks = Frames::new(&many)
            .filter(|frame| matches!(frame, Ok(Frame { ty: ACK_ECN, .. })))
            .count();
        assert_eq!((acks, Frames::new(&many).filter(Result::is_err).count()), (80, 0));
    }

    #[test]
    fn receive_timestamps_are_read_with_their_ack() {
        let payload = [&[0x01], RECEIVED].concat();
        let found = try_found(&payload, &RECEIPTS).expect("negotiated");
        assert!(found.is_stamped());
        let ack = found.acks().next().expect("an ACK frame");
        assert_eq!((ack.path, ack.largest, ack.newest(), ack.raw_delay), (0, 9, 0..=9, 1));
        assert_eq!(ack.ecn, Some(EcnCounts { ect0: 1, ect1: 0, ce: 2 }));
        let receipts: Vec<_> =
            ack.receipts(&payload, 0).expect("there").map(|r| (r.packet, r.micros)).collect();
        assert_eq!(receipts, [(9, 100), (8, 90)]);
        // Receive timestamps are ignored if another frame was negotiated. A frame without any has
        // no information.
        let resting = NegotiatedReceiveTimestamps { accepts: true, ..NO_RECEIPTS };
        let resting =
            try_found(&payload, &NegotiatedExtensions { receive_timestamps: resting, ..LEAN });
        assert!(!resting.expect("requested").is_stamped());
        assert!(
            !try_found(&[0x83, 0x17, 0x83, 0x07, 5, 0, 0, 0, 0], &RECEIPTS)
                .expect("negotiated")
                .is_stamped()
        );
        for negotiated in [NegotiatedExtensions::default(), LEAN, TIMESTAMPS] {
            assert!(try_found(&payload, &negotiated).is_none());
        }
        assert!(check_none(&payload).is_err());
        // Truncated, or with a type that is too long: the stack finds an unreadable frame.
        for cut in 1..RECEIVED.len() {
            let found = try_found(&RECEIVED[..cut], &RECEIPTS).expect("unreadable");
            assert_eq!(
                (found.acks().count(), found.remove_from(&mut RECEIVED[..cut].to_vec())),
                (0, 0..cut)
            );
        }
    }

    #[test]
    fn timestamps_of_zero_and_those_beside_ours_say_nothing() {
        let zero = try_found(&[0x42, 0xf5, 0x00, 0x01], &TIMESTAMPS).expect("negotiated");
        assert!(!zero.is_stamped() && zero.ranges().eq(std::iter::once(0..3)));
        // The parameter offered TIMESTAMP frames, but then SYNC_TIMESTAMP was negotiated.
        let timestamps = Timestamps { sends: false, reads: false, accepts: true };
        let beside = try_found(
            &[&OURS[..], &[0x42, 0xf5, 0x07]].concat(),
            &NegotiatedExtensions { timestamps, ..LEAN },
        )
        .expect("negotiated");
        assert!(
            beside.stamp.is_some()
                && beside.timestamp.is_none()
                && beside.ranges().eq([0..8, 8..11])
        );
    }

    #[test]
    fn what_asks_for_an_acknowledgement() {
        assert!(!is_ack_eliciting(&[0x02, 9, 0, 0, 0, 0x00, 0x00]));
        assert!(is_ack_eliciting(&[0x02, 9, 0, 0, 0, 0x01]));
        assert!(is_ack_eliciting(&[0x08, 0x00, 0x02]));
        assert!(!is_ack_eliciting(&[0x1c, 0x00, 0x00, 0x00]));
    }

    #[test]
    fn ack_delay_is_scaled_by_the_exponent_and_saturates() {
        let ack = |raw_delay| AckSeen { raw_delay, ..AckSeen::default() };
        assert_eq!(ack(125).delay(3), Duration::from_millis(1));
        assert_eq!(ack(u64::MAX).delay(20), Duration::from_micros(u64::MAX));
        assert_eq!(ack(2).delay(255), Duration::from_micros(u64::MAX));
    }
}
