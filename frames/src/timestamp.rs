//! The TIMESTAMP frame of draft-huitema-quic-ts-08, which other stacks support.
//!
//! ```text
//! TIMESTAMP Frame {
//!   Type (i) = 0x02f5,      42 f5
//!   Timestamp (i),          when this packet left: microseconds since the sender's epoch, shifted
//! }                         right by the sender's own ack_delay_exponent (RFC 9000 §18.2)
//! ```
//!
//! The sender chooses the epoch and keeps it for a connection. Our epoch is [`Timestamp::LEAD`]
//! units before the start of the connection. The value therefore takes four bytes from the first
//! packet on (for 2.4 hours at the usual exponent of 3, and eight bytes afterwards). An adapter
//! thus knows the length of the frame before it knows the time. The value is also never 0, which
//! picoquic reads as "none".
//!
//! Rules: the frame is allowed only in 1-RTT packets and only after [`crate::Timestamps`] allows
//! it. If a packet contains several such frames, the largest value counts. The frame is neither
//! ack-eliciting nor retransmitted. A frame that was not requested is a PROTOCOL_VIOLATION.

use fathom_units::Time;

use crate::codepoints;
use crate::sync_timestamp::DecodeError;
use crate::varint;

/// Length of the frame type in bytes.
const TYPE_LEN: usize = 2;

/// Content of the frame. Values are ordered by time, as long as the sender's clock does not step
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Value on the wire: below 2^62, in units of 2^ack_delay_exponent microseconds.
    pub scaled: u64,
}

impl Timestamp {
    /// Length of our frame in bytes while its value is below 2^30.
    pub const LEN: usize = 6;
    /// Length of our frame in bytes for larger values.
    pub const LEN_LONG: usize = 10;
    /// Number of units from our epoch to the start of a connection: the smallest value that takes
    /// four bytes.
    pub const LEAD: u64 = 0x4000;

    /// Creates the frame of a packet that left `micros` microseconds after the epoch. `exponent` is
    /// the sender's exponent. The value is never 0.
    pub const fn new(micros: u64, exponent: u8) -> Self {
        let scaled = if exponent < 64 { micros >> exponent } else { 0 };
        Self { scaled: if scaled == 0 { 1 } else { scaled } }
    }

    /// Creates the frame of a packet that leaves at `now`, a time since the start of our
    /// connection. `exponent` is our own exponent.
    pub const fn at(now: Time, exponent: u8) -> Self {
        // `now` is 64 bits of nanoseconds, which in microseconds is far below a varint's limit.
        Self { scaled: Self::LEAD + Self::new(now.as_nanos() / 1_000, exponent).scaled }
    }

    /// Returns the microseconds modulo 2^32 since the sender's epoch. `exponent` is the sender's
    /// exponent.
    pub const fn micros(&self, exponent: u8) -> u32 {
        if exponent < 64 { (self.scaled << exponent) as u32 } else { 0 }
    }

    /// Returns the encoded length in bytes.
    pub fn encoded_len(&self) -> usize {
        TYPE_LEN + varint::len(self.scaled).unwrap_or(8)
    }

    /// Decodes the frame at the start of `bytes` and returns it with its length.
    ///
    /// # Errors
    /// Returns a [`DecodeError`] if `bytes` starts with another frame or ends too early.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), DecodeError> {
        let (ty, at) = varint::decode(bytes).ok_or(DecodeError::Truncated)?;
        if ty != codepoints::TIMESTAMP || at != TYPE_LEN {
            return Err(DecodeError::Type);
        }
        let (scaled, len) = varint::decode(&bytes[at..]).ok_or(DecodeError::Truncated)?;
        Ok((Self { scaled }, at + len))
    }

    /// Writes the frame to the start of `out` and returns its length. Returns 0 and writes nothing
    /// if `out` is shorter than [`Timestamp::encoded_len`].
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let len = self.encoded_len();
        let Some((ty, value)) =
            out.get_mut(..len).and_then(|out| out.split_at_mut_checked(TYPE_LEN))
        else {
            return 0;
        };
        // This crate never creates or decodes a value above 2^62 - 1.
        if varint::encode(self.scaled, value).is_none() {
            return 0;
        }
        ty.copy_from_slice(&[0x42, 0xf5]);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time in microseconds, and the frame with the usual exponent of 3.
    const FRAMES: [(u64, &[u8]); 3] = [
        (2_736, &[0x42, 0xf5, 0x41, 0x56]),
        (500_000, &[0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24]),
        (1_000_000, &[0x42, 0xf5, 0x80, 0x01, 0xe8, 0x48]),
    ];

    #[test]
    fn timestamp_frames_encode_to_the_expected_bytes() {
        for (micros, bytes) in FRAMES {
            let frame = Timestamp::new(micros, 3);
            let mut out = [0xee; 12];
            assert_eq!(frame.encode(&mut out), bytes.len());
            assert_eq!(&out[..bytes.len()], bytes);
            assert!(out[bytes.len()..].iter().all(|b| *b == 0xee));
            assert_eq!(Timestamp::decode(&out), Ok((frame, bytes.len())));
            assert_eq!(u64::from(frame.micros(3)), micros);
        }
    }

    #[test]
    fn truncated_timestamp_frame_is_an_error() {
        for (micros, bytes) in FRAMES {
            for cut in 0..bytes.len() {
                assert_eq!(Timestamp::decode(&bytes[..cut]), Err(DecodeError::Truncated));
                let mut out = vec![0xee; cut];
                assert_eq!(Timestamp::new(micros, 3).encode(&mut out), 0);
                assert!(out.iter().all(|b| *b == 0xee));
            }
        }
        assert_eq!(Timestamp { scaled: 1 << 62 }.encode(&mut [0xee; 12]), 0);
    }

    #[test]
    fn timestamp_decoder_refuses_other_and_long_types() {
        assert_eq!(Timestamp::decode(&[0x42, 0xf6, 0x41, 0x56]), Err(DecodeError::Type));
        assert_eq!(
            Timestamp::decode(&[0x80, 0x00, 0x02, 0xf5, 0x41, 0x56]),
            Err(DecodeError::Type)
        );
        // The value need not be in its shortest form (RFC 9000 §16 requires that only of types).
        assert_eq!(
            Timestamp::decode(&[0x42, 0xf5, 0x80, 0, 0, 5]),
            Ok((Timestamp { scaled: 5 }, 6))
        );
    }

    #[test]
    fn sent_timestamps_are_never_zero_and_have_known_length() {
        for exponent in [0, 3, 20, 63, 64, 255] {
            assert!(Timestamp::new(0, exponent).scaled > 0);
            let first = Timestamp::at(Time::ZERO, exponent);
            assert_eq!(first.encoded_len(), Timestamp::LEN);
            let last = Timestamp::at(Time::from_nanos(u64::MAX), exponent);
            assert!(
                first <= last
                    && [Timestamp::LEN, Timestamp::LEN_LONG].contains(&last.encoded_len())
            );
            assert_ne!(last.encode(&mut [0; Timestamp::LEN_LONG]), 0);
        }
        // This is the last value in four bytes. The next value, eight microseconds later, takes
        // eight bytes.
        let edge = Time::from_micros(((1 << 30) - Timestamp::LEAD) * 8);
        assert_eq!(
            Timestamp::at(edge - std::time::Duration::from_micros(8), 3).encoded_len(),
            Timestamp::LEN
        );
        assert_eq!(Timestamp::at(edge, 3).encoded_len(), Timestamp::LEN_LONG);
    }

    #[test]
    fn timestamp_is_read_modulo_two_to_the_32() {
        let a = Timestamp::at(Time::from_micros((1 << 32) - 800), 3).micros(3);
        let b = Timestamp::at(Time::from_micros((1 << 32) + 800), 3).micros(3);
        assert_eq!(b.wrapping_sub(a), 1_600);
        // Any value that a peer writes gives a number.
        for exponent in 0..=255 {
            let _ = Timestamp { scaled: varint::MAX }.micros(exponent);
        }
    }
}
