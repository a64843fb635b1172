//! Variable-length integers (RFC 9000 §16).

/// Largest value of a variable-length integer.
pub const MAX: u64 = (1 << 62) - 1;

/// Reads an integer at the beginning of `bytes`. Returns its value and its length in bytes, or
/// `None` if it is incomplete.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x40 {
        return Some((u64::from(first), 1));
    }
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |v, byte| v << 8 | u64::from(*byte));
    Some((value, length))
}

/// Returns the length of an integer's shortest encoding in bytes. `value` is at most [`MAX`].
#[inline]
pub const fn size(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Returns the shortest encoding of `value`, which is at most [`MAX`], and its length in bytes.
/// Larger values are replaced by [`MAX`].
#[inline]
pub const fn encode(value: u64) -> ([u8; 8], usize) {
    let value = if value > MAX { MAX } else { value };
    let size = size(value);
    let prefix = (size.trailing_zeros() as u64) << 62;
    ((value << (64 - 8 * size) | prefix).to_be_bytes(), size)
}

/// Appends the shortest encoding of `value`, which is at most [`MAX`]. Larger values are replaced
/// by [`MAX`].
#[inline]
pub fn write(value: u64, to: &mut Vec<u8>) {
    let (bytes, size) = encode(value);
    to.extend_from_slice(&bytes[..size]);
}

/// Reads a payload that consists of exactly one integer.
pub(crate) fn only(payload: &[u8]) -> Option<u64> {
    read(payload).filter(|(_, size)| *size == payload.len()).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    #[test]
    fn examples_of_rfc_9000_appendix_a_1_are_decoded() {
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

    #[test]
    fn written_integers_are_read_back_in_their_shortest_form() {
        let mut noise = Noise::new(1);
        for _ in 0..cases() {
            let value = noise.next() >> (2 + noise.below(62));
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            assert_eq!(bytes.len(), size(value));
            assert_eq!(read(&bytes), Some((value, bytes.len())));
            assert_eq!(only(&bytes), Some(value));
            bytes.push(0);
            assert_eq!(only(&bytes), None);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_like_their_bits() {
        let mut noise = Noise::new(22);
        for _ in 0..cases() {
            let word = noise.next().to_be_bytes();
            let bytes = &word[..noise.below(9)];
            let length = [1, 2, 4, 8][usize::from(word[0] >> 6)];
            let bits = u64::from_be_bytes(word) >> (64 - 8 * length);
            let value = bits & ((1 << (8 * length - 2)) - 1);
            let complete = bytes.len() >= length;
            assert_eq!(read(bytes), complete.then_some((value, length)));
        }
    }

    #[test]
    fn values_above_the_largest_are_replaced_by_it() {
        let mut bytes = Vec::new();
        write(u64::MAX, &mut bytes);
        assert_eq!(read(&bytes), Some((MAX, 8)));
    }
}
