//! Variable-length integers (RFC 9000 §16). The two top bits of the first byte give the length.
//!
//! ```text
//! 00xxxxxx                    1 byte,  up to 63
//! 01xxxxxx +1 byte            2 bytes, up to 16383
//! 10xxxxxx +3 bytes           4 bytes, up to 2^30 - 1
//! 11xxxxxx +7 bytes           8 bytes, up to 2^62 - 1
//! ```

/// The largest value that a varint can hold.
pub const MAX: u64 = (1 << 62) - 1;

/// Returns the integer at the start of `bytes` and the number of bytes that it takes; `None` if
/// `bytes` ends before the integer does.
#[inline]
pub fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let value = match first >> 6 {
        0 => return Some((u64::from(first), 1)),
        1 => u64::from(u16::from_be_bytes(*bytes.first_chunk()?)) & 0x3fff,
        2 => u64::from(u32::from_be_bytes(*bytes.first_chunk()?)) & 0x3fff_ffff,
        _ => u64::from_be_bytes(*bytes.first_chunk()?) & MAX,
    };
    Some((value, 1 << (first >> 6)))
}

/// Returns the length of the shortest encoding of `value` in bytes; `None` above [`MAX`].
pub const fn len(value: u64) -> Option<usize> {
    match value {
        0..=0x3f => Some(1),
        0x40..=0x3fff => Some(2),
        0x4000..=0x3fff_ffff => Some(4),
        0x4000_0000..=MAX => Some(8),
        _ => None,
    }
}

/// Writes the shortest encoding of `value` to the start of `out` and returns its length. Returns
/// `None` and writes nothing if `value` is above [`MAX`] or `out` is too short.
pub fn encode(value: u64, out: &mut [u8]) -> Option<usize> {
    let len = len(value)?;
    let out = out.get_mut(..len)?;
    out.copy_from_slice(&value.to_be_bytes()[8 - len..]);
    out[0] |= (len.trailing_zeros() as u8) << 6;
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_samples_of_rfc_9000_appendix_a1_are_decoded() {
        let samples: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in samples {
            assert_eq!(decode(bytes), Some((value, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn varint_encoding_is_shortest_and_refuses_too_large_values() {
        let edges = [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, MAX];
        for (value, expected) in edges.into_iter().zip([1, 1, 2, 2, 4, 4, 8, 8]) {
            let mut out = [0; 8];
            assert_eq!(encode(value, &mut out), Some(expected));
            assert_eq!(decode(&out), Some((value, expected)));
            assert_eq!(encode(value, &mut out[..expected - 1]), None);
        }
        assert_eq!(encode(MAX + 1, &mut [0; 8]), None);
    }
}
