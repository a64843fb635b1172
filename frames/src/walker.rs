//! A walker over the frames of a decrypted 0-RTT or 1-RTT payload (RFC 9000 §12.4, §19). With
//! the walker, an adapter can remove our frames before the stack reads the remaining payload. The
//! stack does not know our frames.
//!
//! The walker knows every frame of RFC 9000, DATAGRAM (RFC 9221), ACK_FREQUENCY and IMMEDIATE_ACK
//! (draft-ietf-quic-ack-frequency), SYNC_TIMESTAMP, TIMESTAMP (draft-huitema-quic-ts) and
//! ACK_RECEIVE_TIMESTAMPS (draft-ietf-quic-receive-ts). Frames have no common length field, so an
//! unknown frame cannot be skipped. The walk then ends with an error, and the caller leaves the
//! payload to the stack, which either knows the frame or closes the connection. The stack also
//! decides which frames are allowed in 0-RTT.

use std::fmt;
use std::ops::Range;

use crate::ack::Ack;
use crate::codepoints;
use crate::cursor::Cursor;
pub use crate::cursor::FrameError;
use crate::receive_timestamps::AckReceiveTimestamps;
use crate::sync_timestamp::SyncTimestamp;
use crate::timestamp::Timestamp;
use crate::varint;

/// One frame. A run of PADDING counts as one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Frame type.
    pub ty: u64,
    /// Position of the frame in the payload, including its type.
    pub range: Range<usize>,
    /// Parsed content, for the frames that this crate uses.
    pub content: Content<'a>,
}

/// The parsed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content<'a> {
    /// Content of an ACK or ACK_ECN frame.
    Ack(Ack<'a>),
    /// Content of our own SYNC_TIMESTAMP frame.
    SyncTimestamp(SyncTimestamp),
    /// Content of a TIMESTAMP frame of draft-huitema-quic-ts.
    Timestamp(Timestamp),
    /// Content of an ACK frame that also reports the arrival times of packets.
    AckReceiveTimestamps(AckReceiveTimestamps<'a>),
    /// Any other frame, of which only the length is checked.
    Other,
}

impl Frame<'_> {
    /// Returns whether the receiver must acknowledge a packet with this frame
    /// (RFC 9000 §1.2, §13.2.1). This is true for all frames except PADDING, ACK,
    /// ACK_RECEIVE_TIMESTAMPS, CONNECTION_CLOSE, SYNC_TIMESTAMP and TIMESTAMP.
    pub const fn is_ack_eliciting(&self) -> bool {
        matches!(self.content, Content::Other) && !matches!(self.ty, 0x00 | 0x1c | 0x1d)
    }
}

/// Error of a payload that cannot be walked to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Start of the frame that could not be read.
    pub offset: usize,
    /// Error in the frame that could not be read.
    pub error: FrameError,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error {
            FrameError::Truncated => {
                write!(f, "the payload ends in the middle of the frame at byte {}", self.offset)
            }
            FrameError::Type(ty) => write!(f, "unknown frame type {ty:#x} at byte {}", self.offset),
            FrameError::Value => write!(f, "invalid value in the frame at byte {}", self.offset),
        }
    }
}

impl std::error::Error for Malformed {}

/// Iterator over the frames of a payload. It ends after an error.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    cursor: Cursor<'a>,
    len: usize,
}

impl<'a> Frames<'a> {
    /// Creates an iterator that starts at the first byte of a decrypted payload.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(payload), len: payload.len() }
    }

    fn at(&self) -> usize {
        self.len - self.cursor.rest.len()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.rest.is_empty() {
            return None;
        }
        let offset = self.at();
        match self.cursor.frame() {
            Ok((ty, content)) => Some(Ok(Frame { ty, range: offset..self.at(), content })),
            Err(error) => {
                self.cursor.rest = &[];
                Some(Err(Malformed { offset, error }))
            }
        }
    }
}

impl<'a> Cursor<'a> {
    /// Reads one frame and returns its type and parsed content.
    #[inline]
    fn frame(&mut self) -> Result<(u64, Content<'a>), FrameError> {
        let start = self.rest;
        let ty = self.int()?;
        if varint::len(ty) != Some(start.len() - self.rest.len()) {
            return Err(FrameError::Type(ty));
        }
        match ty {
            0x08..=0x0f => self.stream(ty)?,
            0x02 | 0x03 => return Ok((ty, Content::Ack(Ack::read(self, ty == 0x03)?))),
            codepoints::SYNC_TIMESTAMP | codepoints::SYNC_TIMESTAMP_ECHO => {
                let (frame, len) =
                    SyncTimestamp::decode(start).map_err(|_| FrameError::Truncated)?;
                self.rest = &start[len..];
                return Ok((ty, Content::SyncTimestamp(frame)));
            }
            codepoints::TIMESTAMP => {
                let (frame, len) = Timestamp::decode(start).map_err(|_| FrameError::Truncated)?;
                self.rest = &start[len..];
                return Ok((ty, Content::Timestamp(frame)));
            }
            codepoints::ACK_RECEIVE_TIMESTAMPS | codepoints::ACK_RECEIVE_TIMESTAMPS_ECN => {
                let frame =
                    AckReceiveTimestamps::read(self, ty == codepoints::ACK_RECEIVE_TIMESTAMPS_ECN)?;
                return Ok((ty, Content::AckReceiveTimestamps(frame)));
            }
            _ => self.other(ty)?,
        }
        Ok((ty, Content::Other))
    }

    /// Skips a STREAM frame (§19.8). Bits of its type tell whether an offset (4) and a length (2)
    /// follow.
    #[inline]
    fn stream(&mut self, ty: u64) -> Result<(), FrameError> {
        self.ints(1 + usize::from(ty & 4 != 0))?;
        if ty & 2 != 0 { self.block() } else { self.swallow() }
    }

    /// Skips any other frame.
    fn other(&mut self, ty: u64) -> Result<(), FrameError> {
        match ty {
            0x00 => self.padding(),
            // PING, HANDSHAKE_DONE, IMMEDIATE_ACK
            0x01 | 0x1e | 0x1f => Ok(()),
            // RESET_STREAM; STOP_SENDING
            0x04 => self.ints(3),
            0x05 => self.ints(2),
            // CRYPTO; NEW_TOKEN
            0x06 => self.int().and_then(|_| self.block()),
            0x07 => self.block(),
            // Frames with one integer are MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED and
            // RETIRE_CONNECTION_ID. In MAX_STREAM_DATA and STREAM_DATA_BLOCKED, a stream id
            // precedes the integer.
            0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => self.ints(1),
            0x11 | 0x15 => self.ints(2),
            0x18 => self.new_connection_id(),
            // PATH_CHALLENGE, PATH_RESPONSE
            0x1a | 0x1b => self.skip(8),
            // CONNECTION_CLOSE: error code, frame type (0x1c only), reason
            0x1c | 0x1d => self.ints(if ty == 0x1c { 2 } else { 1 }).and_then(|()| self.block()),
            // A DATAGRAM frame extends to the end of the payload or has a length.
            0x30 => self.swallow(),
            0x31 => self.block(),
            // ACK_FREQUENCY
            0xaf => self.ints(4),
            _ => Err(FrameError::Type(ty)),
        }
    }

    /// Skips NEW_CONNECTION_ID (§19.15). The connection id has 1 to 20 bytes, and the reset token
    /// after it has 16 bytes.
    fn new_connection_id(&mut self) -> Result<(), FrameError> {
        self.ints(2)?;
        let len = *self.rest.first().ok_or(FrameError::Truncated)?;
        if !(1..=20).contains(&len) {
            return Err(FrameError::Value);
        }
        self.skip(1 + u64::from(len) + 16)
    }
}

/// Removes the frame at `range` from `payload`. Returns the number of leading bytes that the caller
/// must drop. If the frame comes first, this is its length. Otherwise, it is 0, and PADDING
/// replaces the frame.
///
/// A payload never becomes empty, because an empty payload would be a PROTOCOL_VIOLATION
/// (RFC 9000 §12.4). If the frame is the only one, it becomes PADDING. A range outside the
/// payload has no effect.
pub fn remove(payload: &mut [u8], range: Range<usize>) -> usize {
    if range.start == 0 && range.end < payload.len() {
        return range.end;
    }
    if let Some(frame) = payload.get_mut(range) {
        frame.fill(0);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(payload: &[u8]) -> Result<Vec<(u64, Range<usize>, bool)>, Malformed> {
        Frames::new(payload)
            .map(|f| f.map(|f| (f.ty, f.range.clone(), f.is_ack_eliciting())))
            .collect()
    }

    /// A real encoding of every frame with a fixed end, and whether the frame is ack-eliciting.
    const EACH: &[(&[u8], bool)] = &[
        (&[0x00, 0x00, 0x00], false),
        (&[0x01], true),
        (&[0x02, 0x40, 0x64, 0x00, 0x01, 0x04, 0x03, 0x04], false),
        (&[0x03, 0x05, 0x00, 0x00, 0x00, 0x0a, 0x00, 0x01], false),
        (&[0x04, 0x04, 0x01, 0x40, 0xff], true),
        (&[0x05, 0x04, 0x01], true),
        (&[0x06, 0x00, 0x02, 0xaa, 0xbb], true),
        (&[0x07, 0x01, 0xcc], true),
        (&[0x0a, 0x04, 0x02, 0x68, 0x69], true),
        (&[0x0f, 0x04, 0x40, 0x40, 0x01, 0xff], true),
        (&[0x10, 0x80, 0x01, 0x00, 0x00], true),
        (&[0x11, 0x04, 0x80, 0x01, 0x00, 0x00], true),
        (&[0x12, 0x40, 0x64], true),
        (&[0x13, 0x03], true),
        (&[0x14, 0x01], true),
        (&[0x15, 0x04, 0x01], true),
        (&[0x16, 0x01], true),
        (&[0x17, 0x01], true),
        (&[0x18, 2, 1, 4, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], true),
        (&[0x19, 0x00], true),
        (&[0x1a, 1, 2, 3, 4, 5, 6, 7, 8], true),
        (&[0x1b, 1, 2, 3, 4, 5, 6, 7, 8], true),
        (&[0x1c, 0x0a, 0x06, 0x02, 0x6e, 0x6f], false),
        (&[0x1d, 0x00, 0x00], false),
        (&[0x1e], true),
        (&[0x1f], true),
        (&[0x31, 0x02, 0x01, 0x02], true),
        (&[0x40, 0xaf, 0x01, 0x0a, 0x80, 0x00, 0x61, 0xa8, 0x00], true),
        (&[0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9], false),
        (&[0x91, 0xfa, 0x6b, 0x59, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 7], false),
        (&[0x42, 0xf5, 0x41, 0x56], false),
        (&[0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24], false),
        (
            &[0x83, 0x17, 0x83, 0x07, 0x09, 0x00, 0x00, 0x01, 0x01, 0x00, 0x02, 0x41, 0x7c, 0x0a],
            false,
        ),
        (&[0x83, 0x17, 0x83, 0x08, 0x09, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x01, 0x00], false),
    ];

    #[test]
    fn walker_skips_every_frame_exactly() {
        for (frame, eliciting) in EACH {
            let payload = [*frame, &[0x01]].concat();
            let frames = walk(&payload).expect("valid");
            assert_eq!(frames.len(), 2, "{frame:x?}");
            assert_eq!(
                (frames[0].1.clone(), frames[0].2),
                (0..frame.len(), *eliciting),
                "{frame:x?}"
            );
        }
    }

    #[test]
    fn truncated_frame_is_an_error_at_the_start_of_the_frame() {
        for (frame, _) in EACH.iter().filter(|(f, _)| f.len() > 1 && f[0] != 0) {
            for cut in 1..frame.len() {
                let payload = [&[0x01], &frame[..cut]].concat();
                let expected = Malformed { offset: 1, error: FrameError::Truncated };
                assert_eq!(walk(&payload), Err(expected), "{frame:x?} cut to {cut}");
            }
        }
    }

    #[test]
    fn frames_without_a_length_extend_to_the_end() {
        for first in [&[0x08, 0x04][..], &[0x0d, 0x04, 0x40, 0x40], &[0x30]] {
            let payload = [first, &[0xff; 40]].concat();
            assert_eq!(walk(&payload), Ok(vec![(first[0].into(), 0..payload.len(), true)]));
        }
    }

    #[test]
    fn long_padding_is_walked_as_one_frame() {
        for len in [1, 15, 16, 17, 1199] {
            let payload = [&vec![0; len][..], &[0x01]].concat();
            assert_eq!(walk(&payload), Ok(vec![(0, 0..len, false), (1, len..len + 1, true)]));
        }
        assert_eq!(walk(&[]), Ok(vec![]));
    }

    #[test]
    fn unknown_types_and_invalid_values_end_parsing() {
        let cases: [(&[u8], usize, FrameError); 5] = [
            (&[0x01, 0x20], 1, FrameError::Type(0x20)),
            (&[0x42, 0xf6, 0x41, 0x56], 0, FrameError::Type(0x2f6)),
            (&[0x80, 0x00, 0x02, 0xf5, 0x41, 0x56], 0, FrameError::Type(0x2f5)),
            (&[0x00, 0x40, 0x01], 1, FrameError::Type(0x01)),
            (&[0x18, 1, 0, 0, 0, 0, 0], 0, FrameError::Value),
        ];
        for (payload, offset, error) in cases {
            let mut frames = Frames::new(payload);
            assert_eq!(frames.by_ref().find_map(Result::err), Some(Malformed { offset, error }));
            assert_eq!(frames.next(), None);
        }
    }

    #[test]
    fn ack_frames_are_parsed() {
        let payload = [0x03, 0x40, 0x64, 0x20, 0x01, 0x04, 0x03, 0x04, 0x0a, 0x00, 0x01];
        let Some(Ok(Frame { content: Content::Ack(ack), .. })) = Frames::new(&payload).next()
        else {
            panic!("an ACK")
        };
        assert_eq!((ack.largest, ack.raw_delay), (100, 0x20));
        assert_eq!(ack.ecn, Some(crate::EcnCounts { ect0: 10, ect1: 0, ce: 1 }));
        assert!(ack.ranges().eq([96..=100, 87..=91]));
    }

    #[test]
    fn frame_removal_drops_the_first_frame_and_pads_later_ones() {
        let ours = [0x91, 0xfa, 0x6b, 0x58, 0, 0, 0, 9];
        let mut first = [&ours[..], &[0x01]].concat();
        assert_eq!(remove(&mut first, 0..8), 8);
        assert_eq!(first[8..], [0x01]);
        let mut later = [&[0x01], &ours[..]].concat();
        assert_eq!(remove(&mut later, 1..9), 0);
        assert_eq!(later, [0x01, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut alone = ours;
        assert_eq!(remove(&mut alone, 0..8), 0);
        assert_eq!(alone, [0; 8]);
        let mut outside = [0x01];
        assert_eq!(remove(&mut outside, 1..9), 0);
        assert_eq!(outside, [0x01]);
    }
}
