//! The SYNC_TIMESTAMP frame: the timestamp option of Sync-TCP §3.2 as a QUIC frame.
//!
//! ```text
//! SYNC_TIMESTAMP Frame {
//!   Type (32) = 0x11fa6b58 or 0x11fa6b59,   4-byte varint
//!   Send Time (32),      when this packet left, on the sender's clock
//!   [Echo (32)],         0x..59 only: the Send Time of the packet with the largest number
//!                        among the received packets with this frame
//!   [Transit (32)],      0x..59 only: when that packet arrived, on this clock, minus its Send Time
//! }
//! ```
//!
//! All fields are in microseconds modulo 2^32 (they wrap after 71.6 min), big endian. `Transit` is
//! a difference between two clocks that are not synchronised, so only differences between transit
//! times are meaningful. The field widths are fixed, because an adapter must know the length of the
//! frame before it knows the contents.
//!
//! Rules: the frame is allowed only in 1-RTT packets and only after [`crate::Negotiated`] allows
//! it. A packet contains at most one such frame. A receiver that finds several frames reads the
//! first one. The frame is neither ack-eliciting nor retransmitted. A frame that was not requested
//! is a PROTOCOL_VIOLATION.

use fathom_units::Time;

use crate::codepoints;
use crate::varint;

/// Content of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncTimestamp {
    /// Time when the packet left, in microseconds modulo 2^32 on its sender's clock.
    pub sent: u32,
    /// Report on a received packet with a timestamp. Only the long form of the frame has it.
    pub echo: Option<Echo>,
}

/// A receiver's report on the packet with the largest number among the received packets with a
/// timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The `sent` field of the reported packet, in microseconds modulo 2^32 on the clock of the
    /// endpoint that reads this report.
    pub sent: u32,
    /// Arrival minus `sent`, in microseconds modulo 2^32, measured with two clocks.
    pub transit: u32,
}

/// Reason why bytes are not a SYNC_TIMESTAMP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes have another frame type, or the type is not in its shortest form.
    Type,
    /// The bytes end inside the frame.
    Truncated,
}

impl SyncTimestamp {
    /// Length of the frame without an echo, in bytes.
    pub const LEN: usize = 8;
    /// Length of the frame with an echo, in bytes.
    pub const LEN_ECHO: usize = 16;

    /// Returns the encoded length in bytes.
    pub const fn encoded_len(&self) -> usize {
        if self.echo.is_some() { Self::LEN_ECHO } else { Self::LEN }
    }

    /// Decodes the frame at the start of `bytes` and returns it with its length.
    ///
    /// # Errors
    /// Returns a [`DecodeError`] if `bytes` starts with another frame or ends too early.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), DecodeError> {
        let (ty, at) = varint::decode(bytes).ok_or(DecodeError::Truncated)?;
        let word =
            |i: usize| bytes.get(at + 4 * i..)?.first_chunk().map(|b| u32::from_be_bytes(*b));
        let sent = word(0).ok_or(DecodeError::Truncated);
        match ty {
            _ if at != 4 => Err(DecodeError::Type),
            codepoints::SYNC_TIMESTAMP => Ok((Self { sent: sent?, echo: None }, Self::LEN)),
            codepoints::SYNC_TIMESTAMP_ECHO => {
                let (echoed, transit) = word(1).zip(word(2)).ok_or(DecodeError::Truncated)?;
                Ok((
                    Self { sent: sent?, echo: Some(Echo { sent: echoed, transit }) },
                    Self::LEN_ECHO,
                ))
            }
            _ => Err(DecodeError::Type),
        }
    }

    /// Writes the frame to the start of `out` and returns its length. Returns 0 and writes nothing
    /// if `out` is shorter than [`SyncTimestamp::encoded_len`].
    ///
    /// Before the first timestamp of the peer, there is nothing to echo. A sender that must fill
    /// [`SyncTimestamp::LEN_ECHO`] bytes then writes the short form and leaves zeros after it,
    /// which are PADDING.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        let Some(out) = out.get_mut(..self.encoded_len()) else { return 0 };
        let ty = if self.echo.is_some() {
            codepoints::SYNC_TIMESTAMP_ECHO
        } else {
            codepoints::SYNC_TIMESTAMP
        };
        let fields = [
            0x8000_0000 | ty as u32,
            self.sent,
            self.echo.map_or(0, |e| e.sent),
            self.echo.map_or(0, |e| e.transit),
        ];
        for (chunk, field) in out.chunks_exact_mut(4).zip(fields) {
            chunk.copy_from_slice(&field.to_be_bytes());
        }
        out.len()
    }
}

impl Echo {
    /// Returns the report on a packet with the timestamp `sent` that arrived at `now` on this
    /// endpoint's clock.
    pub fn of(sent: u32, now: Time) -> Self {
        Self { sent, transit: stamp(now).wrapping_sub(sent) }
    }
}

/// Returns `now` in the format of the frame: in microseconds modulo 2^32. Record the same `now` in
/// [`crate::SendTimes`]. Otherwise, echoes will not match.
pub const fn stamp(now: Time) -> u32 {
    (now.as_nanos() / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAN: [u8; 8] = [0x91, 0xfa, 0x6b, 0x58, 0x00, 0x0f, 0x42, 0x40];
    const ECHO: [u8; 16] = [
        0x91, 0xfa, 0x6b, 0x59, 0x00, 0x0f, 0x42, 0x40, 0xff, 0xff, 0xff, 0x9c, 0x00, 0x00, 0x4e,
        0x20, //
    ];

    fn both() -> [(SyncTimestamp, &'static [u8]); 2] {
        let sent = stamp(Time::from_millis(1_000));
        let echo = Echo { sent: 0u32.wrapping_sub(100), transit: 20_000 };
        [
            (SyncTimestamp { sent, echo: None }, &LEAN),
            (SyncTimestamp { sent, echo: Some(echo) }, &ECHO),
        ]
    }

    #[test]
    fn sync_timestamp_frames_encode_to_the_expected_bytes() {
        for (frame, bytes) in both() {
            let mut out = [0xee; 20];
            assert_eq!(frame.encode(&mut out), bytes.len());
            assert_eq!(&out[..bytes.len()], bytes);
            assert!(out[bytes.len()..].iter().all(|b| *b == 0xee));
            assert_eq!(SyncTimestamp::decode(&out), Ok((frame, bytes.len())));
        }
    }

    #[test]
    fn truncated_sync_timestamp_frame_is_an_error() {
        for (frame, bytes) in both() {
            for cut in 0..bytes.len() {
                assert_eq!(SyncTimestamp::decode(&bytes[..cut]), Err(DecodeError::Truncated));
                let mut out = vec![0xee; cut];
                assert_eq!(frame.encode(&mut out), 0);
                assert!(out.iter().all(|b| *b == 0xee));
            }
        }
    }

    #[test]
    fn sync_timestamp_decoder_refuses_other_and_long_types() {
        assert_eq!(SyncTimestamp::decode(&[0x01, 0, 0, 0, 0, 0, 0, 0]), Err(DecodeError::Type));
        let long = [0xc0, 0, 0, 0, 0x11, 0xfa, 0x6b, 0x58, 0, 0, 0, 0];
        assert_eq!(SyncTimestamp::decode(&long), Err(DecodeError::Type));
    }

    #[test]
    fn transit_time_is_correct_across_clock_wraparound() {
        let wrap = Time::from_micros(1 << 32);
        let sent = stamp(wrap - std::time::Duration::from_micros(100));
        assert_eq!(
            Echo::of(sent, wrap + std::time::Duration::from_millis(20)),
            Echo { sent, transit: 20_100 }
        );
    }
}
