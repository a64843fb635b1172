//! The TIMESTAMP frame of draft-huitema-quic-ts-08, which stacks of others speak.
//!
//! ```text
//! TIMESTAMP Frame {
//!   Type (i) = 0x02f5,      42 f5
//!   Timestamp (i),          when this packet left: microseconds since the sender's epoch, shifted right by the sender's own
//! }                         ack_delay_exponent (RFC 9000 §18.2)
//! ```
//!
//! The epoch is the sender's to choose, fixed for a connection. Ours lies [`Timestamp::LEAD`] units before the connection's begin: so
//! the value takes four bytes from the first packet on (for 2.4 hours at the usual exponent of 3, eight after that), an adapter knows
//! how long the frame will be before it knows the time, and the value is never 0, which picoquic reads as "none".
//!
//! Rules: only in 1-RTT packets and only after [`crate::Timestamps`] allows it; of several in a packet the largest counts; neither
//! ack-eliciting nor retransmitted. A frame that was not requested is a PROTOCOL_VIOLATION.

use fathom_units::Time;

use crate::codepoints;
use crate::sync_timestamp::DecodeError;
use crate::varint;

/// Bytes of the type.
const TYPE_LEN: usize = 2;

/// What the frame says. Ordered by time, while nobody's clock steps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// The value on the wire: below 2^62, in units of 2^ack_delay_exponent microseconds.
    pub scaled: u64,
}

impl Timestamp {
    /// Length of our frame, in bytes, while its value is below 2^30.
    pub const LEN: usize = 6;
    /// Length of our frame, in bytes, from then on.
    pub const LEN_LONG: usize = 10;
    /// Units by which our epoch precedes the begin of a connection: the least value that takes four bytes.
    pub const LEAD: u64 = 0x4000;

    /// A packet that left `micros` after the epoch, on the clock of an endpoint with this `exponent`. Never 0.
    pub const fn new(micros: u64, exponent: u8) -> Self {
        let scaled = if exponent < 64 { micros >> exponent } else { 0 };
        Self { scaled: if scaled == 0 { 1 } else { scaled } }
    }

    /// A packet that leaves `now`, a time since our connection's begin; `exponent` is our own.
    pub const fn at(now: Time, exponent: u8) -> Self {
        // Nanoseconds in 64 bits are far fewer microseconds than a varint holds.
        Self { scaled: Self::LEAD + Self::new(now.as_nanos() / 1_000, exponent).scaled }
    }

    /// Microseconds modulo 2^32 since the sender's epoch; `exponent` is the sender's.
    pub const fn micros(&self, exponent: u8) -> u32 {
        if exponent < 64 { (self.scaled << exponent) as u32 } else { 0 }
    }

    /// Encoded length in bytes.
    pub fn encoded_len(&self) -> usize {
        TYPE_LEN + varint::len(self.scaled).unwrap_or(8)
    }

    /// The frame at the start of `bytes`, and its length.
    ///
    /// # Errors
    /// [`DecodeError`] when `bytes` starts with another frame or ends too early.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), DecodeError> {
        let (ty, at) = varint::decode(bytes).ok_or(DecodeError::Truncated)?;
        if ty != codepoints::TIMESTAMP || at != TYPE_LEN {
            return Err(DecodeError::Type);
        }
        let (scaled, len) = varint::decode(&bytes[at..]).ok_or(DecodeError::Truncated)?;
        Ok((Self { scaled }, at + len))
    }

    /// Writes the frame at the start of `out` and returns its length; 0, with nothing written, when `out` is shorter than
    /// [`Timestamp::encoded_len`].
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let len = self.encoded_len();
        let Some((ty, value)) =
            out.get_mut(..len).and_then(|out| out.split_at_mut_checked(TYPE_LEN))
        else {
            return 0;
        };
        // A value above 2^62 - 1 is not one that was made or read here.
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

    /// Microseconds, with the usual exponent of 3, and the frame.
    const FRAMES: [(u64, &[u8]); 3] = [
        (2_736, &[0x42, 0xf5, 0x41, 0x56]),
        (500_000, &[0x42, 0xf5, 0x80, 0x00, 0xf4, 0x24]),
        (1_000_000, &[0x42, 0xf5, 0x80, 0x01, 0xe8, 0x48]),
    ];

    #[test]
    fn frames_have_these_bytes() {
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
    fn a_truncated_frame_is_an_error() {
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
    fn other_types_and_long_encodings_of_it_are_refused() {
        assert_eq!(Timestamp::decode(&[0x42, 0xf6, 0x41, 0x56]), Err(DecodeError::Type));
        assert_eq!(
            Timestamp::decode(&[0x80, 0x00, 0x02, 0xf5, 0x41, 0x56]),
            Err(DecodeError::Type)
        );
        // The value has no shortest form (RFC 9000 §16 asks for it in types only).
        assert_eq!(
            Timestamp::decode(&[0x42, 0xf5, 0x80, 0, 0, 5]),
            Ok((Timestamp { scaled: 5 }, 6))
        );
    }

    #[test]
    fn ours_is_never_zero_and_its_length_is_known() {
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
        // The last value in four bytes, and the next one eight microseconds later.
        let edge = Time::from_micros(((1 << 30) - Timestamp::LEAD) * 8);
        assert_eq!(
            Timestamp::at(edge - std::time::Duration::from_micros(8), 3).encoded_len(),
            Timestamp::LEN
        );
        assert_eq!(Timestamp::at(edge, 3).encoded_len(), Timestamp::LEN_LONG);
    }

    #[test]
    fn time_is_read_modulo_two_to_the_32() {
        let a = Timestamp::at(Time::from_micros((1 << 32) - 800), 3).micros(3);
        let b = Timestamp::at(Time::from_micros((1 << 32) + 800), 3).micros(3);
        assert_eq!(b.wrapping_sub(a), 1_600);
        // Whatever a peer writes is a number.
        for exponent in 0..=255 {
            let _ = Timestamp { scaled: varint::MAX }.micros(exponent);
        }
    }
}
