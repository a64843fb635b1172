//! Prefixed integers (RFC 9204 §4.1.1, RFC 7541 §5.1).

/// An integer has more than 62 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Reads an integer with a prefix of this many bits. Returns the value and the number of bytes, or
/// `None` if the integer is incomplete.
///
/// # Errors
/// Returns an error if the integer has more than 62 bits.
#[inline]
pub(crate) fn read(bytes: &[u8], prefix: u32) -> Result<Option<(u64, usize)>, TooLarge> {
    let Some(first) = bytes.first() else { return Ok(None) };
    let mask = u8::MAX >> (8 - prefix);
    match first & mask {
        value if value < mask => Ok(Some((u64::from(value), 1))),
        _ => read_long(bytes, u64::from(mask)),
    }
}

fn read_long(bytes: &[u8], mask: u64) -> Result<Option<(u64, usize)>, TooLarge> {
    let (mut value, mut shift) = (mask, 0);
    for (number, byte) in bytes.iter().enumerate().skip(1) {
        let part = u64::from(byte & 0x7f);
        // Zeros may follow the highest bits, but not without end.
        if shift > 63 || (part << shift) >> shift != part {
            return Err(TooLarge);
        }
        value = value.checked_add(part << shift).filter(|v| v >> 62 == 0).ok_or(TooLarge)?;
        if byte & 0x80 == 0 {
            return Ok(Some((value, number + 1)));
        }
        shift += 7;
    }
    Ok(None)
}

/// Appends an integer with a prefix of this many bits. `flags` has the bits before the prefix, in
/// place.
#[inline]
pub(crate) fn write(prefix: u32, flags: u8, value: u64, to: &mut Vec<u8>) {
    let mask = u64::from(u8::MAX >> (8 - prefix));
    if value < mask {
        to.push(flags | value as u8);
        return;
    }
    to.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest > 0x7f {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    #[test]
    fn integers_match_rfc_7541_appendix_c_1() {
        assert_eq!(read(&[0b0000_1010], 5), Ok(Some((10, 1))));
        assert_eq!(read(&[0b0001_1111, 0b1001_1010, 0b0000_1010], 5), Ok(Some((1_337, 3))));
        assert_eq!(read(&[0b0010_1010], 8), Ok(Some((42, 1))));
    }

    #[test]
    fn integers_of_more_than_62_bits_are_refused() {
        assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 6), Err(TooLarge));
        assert_eq!(read(&[&[0xff][..], &[0x80; 11]].concat(), 6), Err(TooLarge));
        assert_eq!(read(&[&[0xff][..], &[0xff; 8], &[0x7f]].concat(), 8), Err(TooLarge));
    }

    #[test]
    fn integers_round_trip() {
        let mut noise = Noise::new(7);
        for _ in 0..cases() {
            let prefix = 1 + noise.below(8) as u32;
            let value = noise.next() >> (2 + noise.below(62));
            let flags = (noise.next() as u8).checked_shl(prefix).unwrap_or_default();
            let mut bytes = Vec::new();
            write(prefix, flags, value, &mut bytes);
            assert_eq!(bytes[0] & u8::MAX.checked_shl(prefix).unwrap_or_default(), flags);
            assert_eq!(read(&bytes, prefix), Ok(Some((value, bytes.len()))));
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end], prefix), Ok(None));
            }
        }
    }
    #[test]
    fn arbitrary_bytes_are_read_like_their_bits() {
        let mut noise = Noise::new(23);
        for _ in 0..cases() {
            let word = (u128::from(noise.next()) << 64 | u128::from(noise.next())).to_le_bytes();
            let mut bytes = word[..noise.below(16)].to_vec();
            let prefix = 1 + noise.below(8) as u32;
            let mask = u8::MAX >> (8 - prefix);
            // Half of the integers are long.
            if let Some(first) = bytes.first_mut()
                && word[15] < 128
            {
                *first |= mask;
            }
            let long = bytes.first().is_some_and(|first| first & mask == mask);
            // Value and length, in more bits than any integer here has.
            let end = bytes.iter().skip(1).position(|byte| *byte < 128).map(|at| at + 2);
            let wanted = match (bytes.first(), end) {
                (None, _) => None,
                (Some(first), _) if !long => Some((u128::from(first & mask), 1)),
                (Some(_), None) => None,
                (Some(_), Some(end)) => {
                    let parts = bytes[1..end].iter().rev();
                    let value = parts.fold(0, |value, byte| value << 7 | u128::from(byte & 127));
                    Some((value + u128::from(mask), end))
                }
            };
            match (read(&bytes, prefix), wanted) {
                (Ok(Some((value, length))), wanted) => {
                    assert_eq!(Some((value.into(), length)), wanted);
                }
                (Ok(None), wanted) => assert_eq!(wanted, None),
                (Err(TooLarge), Some((value, length))) => {
                    assert!(value >> 62 != 0 || length > 10, "{bytes:?}");
                }
                (Err(TooLarge), None) => assert!(bytes.len() >= 9, "{bytes:?}"),
            }
        }
    }
}
