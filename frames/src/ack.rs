//! The contents of ACK frames (RFC 9000 §19.3), which are read without copying.
//!
//! ```text
//! ACK Frame {
//!   Type (i) = 0x02..0x03,
//!   Largest Acknowledged (i),
//!   ACK Delay (i),
//!   ACK Range Count (i),
//!   First ACK Range (i),
//!   ACK Range (..) ...,          { Gap (i), ACK Range Length (i) }
//!   [ECN Counts (..)],           0x03 only: { ECT0 (i), ECT1 (i), CE (i) }
//! }
//! ```

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cursor::{Cursor, FrameError};
use crate::varint;

/// An ACK frame whose content has been checked: its ranges are inside the packet number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Largest packet number acknowledged.
    pub largest: u64,
    /// Delay field as on the wire. See [`Ack::delay`].
    pub raw_delay: u64,
    /// Cumulative ECN counts; `None` unless the frame is an ACK_ECN frame.
    pub ecn: Option<EcnCounts>,
    first: u64,
    more: &'a [u8],
}

/// Number of packets received so far with each ECN mark (RFC 9000 §19.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Number of packets marked ECT(0).
    pub ect0: u64,
    /// Number of packets marked ECT(1).
    pub ect1: u64,
    /// Number of packets marked congestion experienced.
    pub ce: u64,
}

/// Returns the delay field of an ACK frame as a duration. `exponent` is the *peer's*
/// ack_delay_exponent (RFC 9000 §18.2). The result saturates at `u64::MAX` microseconds.
pub fn ack_delay(raw: u64, exponent: u8) -> Duration {
    Duration::from_micros(raw.saturating_mul(1u64.checked_shl(exponent.into()).unwrap_or(u64::MAX)))
}

impl<'a> Ack<'a> {
    /// Returns the time for which the peer delayed the acknowledgement. `exponent` is the *peer's*
    /// ack_delay_exponent.
    pub fn delay(&self, exponent: u8) -> Duration {
        ack_delay(self.raw_delay, exponent)
    }

    /// Returns the acknowledged packet numbers, newest range first.
    pub fn ranges(&self) -> AckRanges<'a> {
        AckRanges { next: Some(self.largest - self.first..=self.largest), more: self.more }
    }

    /// Reads the part of the frame after its type. Every range takes at least two bytes, so even a
    /// hostile count ends with the payload.
    pub(crate) fn read(cursor: &mut Cursor<'a>, ecn: bool) -> Result<Self, FrameError> {
        let largest = cursor.int()?;
        let raw_delay = cursor.int()?;
        let count = cursor.int()?;
        let first = cursor.int()?;
        let mut smallest = largest.checked_sub(first).ok_or(FrameError::Value)?;
        let start = cursor.rest();
        for _ in 0..count {
            let (gap, len) = (cursor.int()?, cursor.int()?);
            // RFC 9000 §19.3.1: largest = previous smallest - gap - 2, smallest = largest - length.
            smallest = smallest.checked_sub(gap + 2 + len).ok_or(FrameError::Value)?;
        }
        let more = &start[..start.len() - cursor.rest().len()];
        let ecn = match ecn {
            true => Some(EcnCounts { ect0: cursor.int()?, ect1: cursor.int()?, ce: cursor.int()? }),
            false => None,
        };
        Ok(Self { largest, raw_delay, ecn, first, more })
    }
}

/// Iterator over the ranges of an [`Ack`], newest first.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    next: Option<RangeInclusive<u64>>,
    more: &'a [u8],
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let range = self.next.take()?;
        self.next = following(*range.start(), &mut self.more);
        Some(range)
    }
}

/// Removes the range below `smallest` from `more` and returns it.
fn following(smallest: u64, more: &mut &[u8]) -> Option<RangeInclusive<u64>> {
    let (gap, a) = varint::decode(more)?;
    let (len, b) = varint::decode(&more[a..])?;
    *more = &more[a + b..];
    let largest = smallest.checked_sub(gap + 2)?;
    Some(largest.checked_sub(len)?..=largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ack_delay_is_scaled_by_the_exponent_and_saturates() {
        let ack = |raw_delay| Ack { largest: 9, raw_delay, ecn: None, first: 0, more: &[] };
        assert_eq!(ack(125).delay(3), Duration::from_millis(1));
        assert_eq!(ack(125).delay(0), Duration::from_micros(125));
        assert_eq!(ack(varint::MAX).delay(20), Duration::from_micros(u64::MAX));
        assert_eq!(ack(2).delay(255), Duration::from_micros(u64::MAX));
        assert_eq!(ack(0).delay(255), Duration::ZERO);
    }

    #[test]
    fn ack_ranges_match_the_example_of_the_draft() {
        // Packets 87-91 and 96-100.
        let mut cursor = Cursor::new(&[0x40, 0x64, 0x00, 0x01, 0x04, 0x03, 0x04]);
        let ack = Ack::read(&mut cursor, false).expect("valid");
        assert!(ack.ranges().eq([96..=100, 87..=91]));
    }

    #[test]
    fn ack_ranges_below_zero_and_missing_ranges_are_errors() {
        let read = |bytes: &[u8]| Ack::read(&mut Cursor::new(bytes), false).err();
        assert_eq!(read(&[4, 0, 0, 5]), Some(FrameError::Value));
        assert_eq!(read(&[4, 0, 1, 0, 3, 0]), Some(FrameError::Value));
        assert_eq!(read(&[4, 0, 1, 0, 2, 0]), None);
        assert_eq!(read(&[4, 0, 2, 0, 0, 0]), Some(FrameError::Truncated));
        assert_eq!(
            read(&[4, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]),
            Some(FrameError::Truncated)
        );
    }
}
