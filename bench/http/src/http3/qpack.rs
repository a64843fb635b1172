//! Decodes field sections of a peer that may not use a dynamic table (RFC 9204).
//!
//! A decoder that announces a capacity of zero, as ours do by default, receives only literals and
//! references to the static table (RFC 9204 §3.2.3). Other contents cannot be decoded and end the
//! connection.

use super::huffman;
use super::static_table::STATIC_TABLE;

/// Bytes that each field counts in addition to its name and value (RFC 9114 §4.2.2).
const OVERHEAD: u64 = 32;

/// Reason why a section cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SectionError {
    /// The section ends within a field.
    #[error("a field section ends in the middle of a field")]
    Cut,
    /// An integer has more than 62 bits (RFC 9204 §4.1.1).
    #[error("an integer in a field section is too large")]
    Integer,
    /// A string is not a valid Huffman string.
    #[error("a field section has an invalid Huffman string")]
    Huffman,
    /// A field refers to the dynamic table, which is empty.
    #[error("a field section refers to the dynamic table")]
    Dynamic,
    /// A field refers to this index, which the static table does not have.
    #[error("a field section refers to entry {0} of the static table")]
    Static(u64),
    /// The fields take more than the limit, which is not an encoding error.
    #[error("the fields are larger than {0} bytes")]
    TooLarge(u64),
}

/// Reader of the fields of a section.
#[derive(Debug)]
pub(super) struct SectionReader<'a> {
    rest: &'a [u8],
    /// Number of bytes that fields may still take, and the limit for all fields.
    left: u64,
    limit: u64,
}

/// A string that was read: part of the section, or decoded into the buffer.
enum Text<'a> {
    Plain(&'a [u8]),
    Decoded(std::ops::Range<usize>),
}

impl<'a> Text<'a> {
    fn bytes<'b>(&'b self, decoded: &'b [u8]) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Decoded(range) => &decoded[range.clone()],
        }
    }
}

impl<'a> SectionReader<'a> {
    /// Reads the prefix of `section` (RFC 9204 §4.5.1), whose fields may take `limit` bytes.
    ///
    /// # Errors
    /// Returns an error if the prefix cannot be decoded.
    pub(super) fn new(section: &'a [u8], limit: u64) -> Result<Self, SectionError> {
        let mut reader = Self { rest: section, left: limit, limit };
        let (_, required) = reader.integer(8)?;
        if required != 0 {
            return Err(SectionError::Dynamic);
        }
        // Without a dynamic table, the base is not used. A negative base would lie before the first
        // entry (RFC 9204 §4.5.1.2).
        let (negative, _) = reader.integer(7)?;
        if negative & 1 == 1 { Err(SectionError::Dynamic) } else { Ok(reader) }
    }

    /// Passes the next field's name and value to `take`. Returns `None` at the end. Huffman strings
    /// are decoded into `buffer`.
    ///
    /// # Errors
    /// Returns an error if the field cannot be decoded or the fields take more than the limit.
    pub(super) fn next<T>(
        &mut self,
        buffer: &mut Vec<u8>,
        take: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>, SectionError> {
        let Some(first) = self.rest.first() else { return Ok(None) };
        buffer.clear();
        let (name, value) = match *first {
            // Indexed field line (§4.5.2).
            0x80.. => {
                let (name, value) = self.entry(6)?;
                (Text::Plain(name), Text::Plain(value))
            }
            // Literal field line with name reference (§4.5.4).
            0x40.. => {
                let (name, _) = self.entry(4)?;
                (Text::Plain(name), self.string(7, buffer)?)
            }
            // Literal field line with literal name (§4.5.6).
            0x20.. => (self.string(3, buffer)?, self.string(7, buffer)?),
            // The two post-base forms (§4.5.3, §4.5.5).
            _ => return Err(SectionError::Dynamic),
        };
        let (name, value) = (name.bytes(buffer), value.bytes(buffer));
        let size = (name.len() as u64 + value.len() as u64).saturating_add(OVERHEAD);
        self.left = self.left.checked_sub(size).ok_or(SectionError::TooLarge(self.limit))?;
        Ok(Some(take(name, value)))
    }

    /// Returns an entry of the static table. Its index has a prefix of this many bits, and the bit
    /// before the prefix selects the table.
    fn entry(&mut self, prefix: u32) -> Result<(&'static [u8], &'static [u8]), SectionError> {
        let (flags, index) = self.integer(prefix)?;
        if flags & 1 == 0 {
            return Err(SectionError::Dynamic);
        }
        let entry = usize::try_from(index).ok().and_then(|index| STATIC_TABLE.get(index));
        entry
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .ok_or(SectionError::Static(index))
    }

    /// Reads a string literal (§4.1.2) whose length has a prefix of this many bits.
    fn string(&mut self, prefix: u32, buffer: &mut Vec<u8>) -> Result<Text<'a>, SectionError> {
        let (flags, length) = self.integer(prefix)?;
        let length = usize::try_from(length).map_err(|_| SectionError::Cut)?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(SectionError::Cut)?;
        self.rest = rest;
        if flags & 1 == 0 {
            return Ok(Text::Plain(text));
        }
        let begin = buffer.len();
        huffman::decode(text, buffer).map_err(|huffman::Invalid| SectionError::Huffman)?;
        Ok(Text::Decoded(begin..buffer.len()))
    }

    fn integer(&mut self, prefix: u32) -> Result<(u8, u64), SectionError> {
        let (flags, value, size) = integer(self.rest, prefix)?.ok_or(SectionError::Cut)?;
        self.rest = &self.rest[size..];
        Ok((flags, value))
    }
}

/// Reads a prefixed integer (RFC 9204 §4.1.1, RFC 7541 §5.1). Returns the bits before the prefix,
/// the value, and the number of bytes, or `None` if the integer is incomplete.
///
/// # Errors
/// Returns an error if the integer has more than 62 bits.
pub(super) fn integer(bytes: &[u8], prefix: u32) -> Result<Option<(u8, u64, usize)>, SectionError> {
    let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
    let mask = u8::MAX >> (8 - prefix);
    let flags = first.checked_shr(prefix).unwrap_or_default();
    if first & mask < mask {
        return Ok(Some((flags, u64::from(first & mask), 1)));
    }
    let mut value = u64::from(mask);
    for (number, byte) in rest.iter().enumerate() {
        let shift = 7 * number as u32;
        // An integer has at most 62 bits. All higher bits of the bytes must be zero.
        let part = u64::from(byte & 0x7f).checked_mul(1_u64.checked_shl(shift).unwrap_or_default());
        value = part.and_then(|part| value.checked_add(part)).ok_or(SectionError::Integer)?;
        if value >> 62 != 0 || shift > 63 || (shift == 63 && byte & 0x7f != 0) {
            return Err(SectionError::Integer);
        }
        if byte & 0x80 == 0 {
            return Ok(Some((flags, value, number + 2)));
        }
    }
    Ok(None)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::huffman::tests::encode as huffman;
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Returns a prefixed integer after these flags.
    pub(in super::super) fn write_integer(prefix: u32, flags: u8, value: u64) -> Vec<u8> {
        let mask = u64::from(u8::MAX >> (8 - prefix));
        let flags = flags.checked_shl(prefix).unwrap_or_default();
        if value < mask {
            return vec![flags | value as u8];
        }
        let (mut bytes, mut rest) = (vec![flags | mask as u8], value - mask);
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes
    }

    /// Returns a string literal, Huffman-coded or not.
    fn write_string(prefix: u32, flags: u8, text: &[u8], coded: bool) -> Vec<u8> {
        let text = if coded { huffman(text) } else { text.to_vec() };
        [write_integer(prefix, flags << 1 | u8::from(coded), text.len() as u64), text].concat()
    }

    /// Returns a section of literal fields.
    pub(in super::super) fn section(fields: &[(&[u8], &[u8])], coded: bool) -> Vec<u8> {
        let mut bytes = vec![0, 0];
        for (name, value) in fields {
            bytes.extend(write_string(3, 0b0010, name, coded));
            bytes.extend(write_string(7, 0, value, coded));
        }
        bytes
    }

    type Fields = Vec<(Vec<u8>, Vec<u8>)>;

    fn decode(section: &[u8], limit: u64) -> Result<Fields, SectionError> {
        let (mut reader, mut buffer, mut fields) =
            (SectionReader::new(section, limit)?, Vec::new(), Vec::new());
        while let Some(field) =
            reader.next(&mut buffer, |name, value| (name.to_vec(), value.to_vec()))?
        {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn every_qpack_representation_is_decoded() {
        // GET, https, name references with a plain value and with a Huffman value (RFC 9204 §B.1).
        let section = [
            &b"\x00\x00\xd1\xd7\x50\x09localhost\x51\x0b/index.html"[..],
            b"\x5f\x50\x82",
            &huffman(b"ab"),
        ]
        .concat();
        let wanted = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/index.html"),
            ("user-agent", "ab"),
        ];
        let wanted: Fields =
            wanted.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
        assert_eq!(decode(&section, 1_000), Ok(wanted));
        assert_eq!(decode(b"\0\0", 0), Ok(Vec::new()));
    }

    #[test]
    fn qpack_static_entries_match_rfc_9204() {
        for (index, name, value) in [
            (0, ":authority", ""),
            (17, ":method", "GET"),
            (24, ":status", "103"),
            (55, "range", "bytes=0-"),
            (58, "strict-transport-security", "max-age=31536000; includesubdomains; preload"),
            (63, ":status", "100"),
            (
                85,
                "content-security-policy",
                "script-src 'none'; object-src 'none'; base-uri 'none'",
            ),
            (98, "x-frame-options", "sameorigin"),
        ] {
            assert_eq!(STATIC_TABLE[index], (name, value));
            let section = [vec![0, 0], write_integer(6, 0b11, index as u64)].concat();
            assert_eq!(decode(&section, 1_000), Ok(vec![(name.into(), value.into())]));
        }
    }

    #[test]
    fn undecodable_qpack_sections_are_refused_with_the_reason() {
        let with = |fields: &[u8]| decode(&[b"\0\0", fields].concat(), 1_000);
        for (wrong, error) in [
            (decode(b"", 1_000), SectionError::Cut),
            (decode(b"\0", 1_000), SectionError::Cut),
            // A required insert count; a negative base.
            (decode(b"\x02\0\xd1", 1_000), SectionError::Dynamic),
            (decode(b"\0\x81\xd1", 1_000), SectionError::Dynamic),
            // The dynamic table: indexed, name reference, both post-base forms.
            (with(b"\x80"), SectionError::Dynamic),
            (with(b"\x40\x01a"), SectionError::Dynamic),
            (with(b"\x10"), SectionError::Dynamic),
            (with(b"\x00\x01a"), SectionError::Dynamic),
            (with(&write_integer(6, 0b11, 99)), SectionError::Static(99)),
            (with(b"\x50\x05ab"), SectionError::Cut),
            (with(b"\x50"), SectionError::Cut),
            (with(b"\xff"), SectionError::Cut),
            (with(b"\x50\x81\x00"), SectionError::Huffman),
            (with(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), SectionError::Integer),
        ] {
            assert_eq!(wrong, Err(error));
        }
    }

    #[test]
    fn qpack_field_sizes_follow_rfc_9114() {
        // 7 + 3 + 32 and 7 + 5 + 32.
        let section = b"\0\0\xd1\xd7";
        assert!(decode(section, 86).is_ok());
        assert_eq!(decode(section, 85), Err(SectionError::TooLarge(85)));
    }

    #[test]
    fn qpack_integers_match_rfc_7541_appendix_c_1() {
        assert_eq!(integer(&[0b0000_1010], 5), Ok(Some((0, 10, 1))));
        assert_eq!(integer(&[0b0001_1111, 0b1001_1010, 0b0000_1010], 5), Ok(Some((0, 1_337, 3))));
        assert_eq!(integer(&[0b0010_1010], 8), Ok(Some((0, 42, 1))));
    }

    proptest! {
        #[test]
        fn qpack_integers_round_trip(prefix in 1..=8_u32, value in 0..1_u64 << 62, flags in any::<u8>()) {
            let flags = if prefix == 8 { 0 } else { flags >> prefix };
            let bytes = write_integer(prefix, flags, value);
            prop_assert_eq!(integer(&bytes, prefix), Ok(Some((flags, value, bytes.len()))));
            prop_assert_eq!(integer(&bytes[..bytes.len() - 1], prefix), Ok(None));
        }

        #[test]
        fn qpack_fields_round_trip(
            fields in vec((vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..200)), 0..10), coded in any::<bool>(),
        ) {
            let pairs: Vec<_> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            prop_assert_eq!(decode(&section(&pairs, coded), u64::MAX), Ok(fields));
        }

        #[test]
        fn qpack_decoding_never_panics_and_bounds_its_output(section in vec(any::<u8>(), 0..400), limit in 0..2_000_u64) {
            if let Ok(fields) = decode(&section, limit) {
                let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
                prop_assert!(size as u64 <= limit);
            }
        }

        #[test]
        fn qpack_decoding_after_a_valid_prefix_never_panics(fields in vec(any::<u8>(), 0..400)) {
            let _ = decode(&[&b"\0\0"[..], &fields].concat(), 16_384);
        }
    }
}
