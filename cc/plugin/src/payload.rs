//! The relevant frames of a payload that was opened or is about to be sealed.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use fathom_frames::receive_timestamps::Receipts;
use fathom_frames::{
    Ack, AckReceiveTimestamps, Content, Echo, EcnCounts, Frame, Frames, SyncTimestamp, Timestamp,
    ack_delay, remove, restore_ack, varint,
};

use crate::extension::NegotiatedExtensions;

/// Maximum number of SYNC_TIMESTAMP frames that are removed from one packet. More such frames close
/// the connection. The number of TIMESTAMP frames is not limited, because their draft uses the
/// largest of them. Beyond this number, however, storing their positions needs an allocation.
const MAX_FRAMES: usize = 4;
/// Maximum number of ACK frames that are read in one packet, one for each path. Only the stack
/// reads further ones.
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

/// Relevant properties of a payload that is about to be sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutgoingFrames {
    /// Whether the payload is ack-eliciting.
    pub(crate) ack_eliciting: bool,
    /// Whether the payload validates the path (RFC 9000 §8.2), for which the size of its datagram
    /// matters. It is also true for a frame of an unknown extension, which may validate the path,
    /// too.
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

    /// Handles a frame of an extension that this crate does not know. The packet must stay as it
    /// is.
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
    // The fields are the stream, the offset if there is one, and the length.
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
    /// Position of the frame if it is an ACK_RECEIVE_TIMESTAMPS frame; `None` for an ACK frame.
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

    /// Returns the arrival times of packets, in units of 2^`exponent` microseconds. `payload` is
    /// the payload from which these fields were read. Returns `None` for an ACK frame.
    pub(crate) fn receipts<'a>(&self, payload: &'a [u8], exponent: u8) -> Option<Receipts<'a>> {
        let (start, end) = self.receive_timestamps?;
        let frame = payload.get(usize::from(start)..usize::from(end))?;
        AckReceiveTimestamps::decode(frame).ok().map(|(frame, _)| frame.receipts(exponent))
    }

    /// Returns the newest range. A range that would begin below 0 begins at 0.
    pub(crate) fn newest(&self) -> RangeInclusive<u64> {
        self.largest.saturating_sub(self.first_range)..=self.largest
    }

    /// Returns the time for which the peer delayed the acknowledgement. `exponent` is the peer's
    /// exponent (RFC 9000 §18.2).
    pub(crate) fn delay(&self, exponent: u8) -> Duration {
        ack_delay(self.raw_delay, exponent)
    }

    /// Reads the ACK or PATH_ACK frame of type `ty` at the start of `bytes`. Returns its content
    /// and its length. A PATH_ACK is an ACK frame with a path number after its type. Ranges are
    /// skipped without checks, because the stack closes the connection if an ACK frame is wrong.
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
    /// The peer's clock, in microseconds modulo 2^32, from a TIMESTAMP frame, and the max_ack_delay
    /// that the peer announced.
    Timestamp(u32, Duration),
}

/// Error for a timestamp frame that was not negotiated, or for too many such frames. It is a
/// PROTOCOL_VIOLATION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNegotiated;

/// Returns the range of a payload that the stack sees, for a payload in which no timestamp frame is
/// allowed. Returns an error if the payload has such a frame.
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
    /// Largest TIMESTAMP frame that has to be read.
    pub(crate) timestamp: Option<Timestamp>,
    /// Whether the payload has an ACK_RECEIVE_TIMESTAMPS frame that has to be read.
    receives: bool,
    pub(crate) ack_eliciting: bool,
    /// Bytes of PADDING at the end.
    pub(crate) padding: usize,
    ack: Option<AckSeen>,
    /// ACK frames of other paths. Nearly always, there are none.
    more_acks: Vec<AckSeen>,
    /// Positions of the timestamp frames, in the first `count` entries.
    at: [(u16, u16); MAX_FRAMES],
    count: usize,
    /// Positions of further timestamp frames. In practice, there are none.
    more: Vec<(u16, u16)>,
}

impl IncomingFrames {
    /// Reads a payload into this empty value. Returns an error if the payload has a timestamp frame
    /// that it must not have.
    ///
    /// Frames after an unreadable frame are not read. Our peers put their timestamp frame first, so
    /// it is found before an unreadable frame. The stack either knows the unreadable frame or
    /// closes the connection.
    pub(crate) fn read(
        &mut self,
        payload: &[u8],
        negotiated: &NegotiatedExtensions,
    ) -> Result<(), NotNegotiated> {
        let mut start = 0;
        while let Some(first) = payload.get(start) {
            let first = u64::from(*first);
            let next = match first {
                // Fast path for ACK frames, which are by far the most frequent frames here.
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
                // The value 0 is not a time, because the draft's timestamps are positive.
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
        // No datagram is longer than this type allows.
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
        // Go from the last frame to the first, because only the first frame may be at the start of
        // the payload.
        let lead = self.ranges().rev().fold(0, |lead, range| {
            let frame = Frames::new(&payload[range.clone()]).next();
            let acknowledges =
                matches!(frame, Some(Ok(Frame { content: Content::AckReceiveTimestamps(_), .. })));
            lead + if acknowledges { restore_ack(payload, range) } else { remove(payload, range) }
        });
        self.visible(lead, payload.len())
    }

    /// Returns the range of a payload of `len` bytes without its first `lead` bytes and without the
    /// PADDING at its end. quinn and noq would read PADDING byte by byte, as about 800 frames in
    /// each Initial packet. At least one byte stays, because a payload without frames is a
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
mod tests;
