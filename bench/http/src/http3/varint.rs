//! Variable-length integers (RFC 9000 §16) and frame headers (RFC 9114 §7.1).

use bytes::Bytes;

/// Length of the longest frame header in bytes: a type and a length.
const LONGEST: usize = 16;

/// Reads an integer at the beginning of `bytes`. Returns its value and its length in bytes, or
/// `None` if it is incomplete.
pub(super) fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    Some((
        rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte)),
        length,
    ))
}

/// The header of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: u64,
    pub(super) length: u64,
    /// Bytes of the header as received.
    pub(super) bytes: Bytes,
    /// Whether some of these bytes arrived before this input.
    pub(super) cut: bool,
}

/// Reader of frame headers from chunks that may be cut anywhere.
#[derive(Debug, Default)]
pub(super) struct HeaderReader {
    /// Received beginning of a header whose remaining bytes have not arrived.
    begun: [u8; LONGEST],
    length: usize,
}

impl HeaderReader {
    /// Returns the next header and removes it from `input`. Returns `None` if `input` ends before
    /// the header does.
    pub(super) fn read(&mut self, input: &mut Bytes) -> Option<FrameHeader> {
        if self.length == 0
            && let Some((kind, length, size)) = header(input)
        {
            return Some(FrameHeader { kind, length, bytes: input.split_to(size), cut: false });
        }
        while !input.is_empty() && self.length < LONGEST {
            self.begun[self.length] = input.split_to(1)[0];
            self.length += 1;
            if let Some((kind, length, size)) = header(&self.begun[..self.length]) {
                self.length = 0;
                return Some(FrameHeader {
                    kind,
                    length,
                    bytes: Bytes::copy_from_slice(&self.begun[..size]),
                    cut: true,
                });
            }
        }
        None
    }

    /// Returns whether a part of a header has arrived.
    pub(super) const fn is_within(&self) -> bool {
        self.length > 0
    }
}

/// Returns the type and the length of a frame, and the length of the header in bytes.
fn header(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, first) = read(bytes)?;
    let (length, second) = read(&bytes[first..])?;
    Some((kind, length, first + second))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Returns a number in this many bytes: 1, 2, 4 or 8.
    pub(in super::super) fn varint(value: u64, bytes: usize) -> Vec<u8> {
        let prefix = u64::from(bytes.trailing_zeros()) << (bytes * 8 - 2);
        (value | prefix).to_be_bytes()[8 - bytes..].to_vec()
    }

    #[test]
    fn varint_examples_of_rfc_9000_appendix_a_1_are_decoded() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(read(bytes), Some((value, bytes.len())));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn frame_headers_are_read_from_chunks_of_any_size(
            kind in 0..1_u64 << 62, length in 0..1_u64 << 62, cut in 0..16_usize, sizes in (0..4_u32, 0..4_u32),
        ) {
            let fit = |value: u64, size: u32| value & ((1 << (8 * (1_u64 << size) - 2)) - 1);
            let (kind, length) = (fit(kind, sizes.0), fit(length, sizes.1));
            let bytes = [varint(kind, 1 << sizes.0), varint(length, 1 << sizes.1), b"rest".to_vec()].concat();
            let (mut reader, mut input) = (HeaderReader::default(), Bytes::copy_from_slice(&bytes));
            let mut before = input.split_to(cut.min(bytes.len() - 5));
            prop_assert_eq!(reader.read(&mut before), None);
            prop_assert!(before.is_empty());
            let header = reader.read(&mut input).unwrap();
            prop_assert_eq!((header.kind, header.length), (kind, length));
            prop_assert_eq!(&header.bytes[..], &bytes[..bytes.len() - 4]);
            prop_assert_eq!(&input[..], b"rest");
            prop_assert!(!reader.is_within());
        }
    }
}
