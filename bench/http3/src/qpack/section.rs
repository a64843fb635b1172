//! Decoded field sections (RFC 9204 §4.5).

use super::integer;
use super::static_table::STATIC_TABLE;
use super::table::Table;
use crate::error::{Code, ProtocolError};
use crate::huffman;

/// Bytes that each field counts besides its name and value (RFC 9114 §4.2.2).
const OVERHEAD: u64 = 32;

/// Value of [`Line::entry`] for a name that is not in the static table.
pub(crate) const NO_ENTRY: u8 = u8::MAX;

/// Limits of a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest size of the section in bytes, as RFC 9114 §4.2.2 counts.
    pub bytes: u64,
    /// Largest number of fields.
    pub fields: usize,
}

impl Default for Limits {
    /// 16 KiB and 128 fields.
    fn default() -> Self {
        Self { bytes: 16 << 10, fields: 128 }
    }
}

/// A field of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Entry of the static table with the name, or [`NO_ENTRY`].
    pub(crate) entry: u8,
    /// Whether the value is the one of the entry.
    pub(crate) whole: bool,
    /// Position of name and value in the text. Parts in the static table take no text.
    start: u32,
    name: u32,
    value: u32,
}

/// A field section: names and values in order. Decoding into the same section again reuses its
/// memory.
#[derive(Clone, Debug, Default)]
pub struct FieldSection {
    text: Vec<u8>,
    lines: Vec<Line>,
    /// Size as RFC 9114 §4.2.2 counts.
    size: u64,
}

impl FieldSection {
    /// Returns an empty section.
    pub const fn new() -> Self {
        Self { text: Vec::new(), lines: Vec::new(), size: 0 }
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the size in bytes, as RFC 9114 §4.2.2 counts.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the fields in order, as names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| self.field(line))
    }

    /// Returns the first value of this name, or `None`.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|field| field.0 == name).map(|field| field.1)
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.size = 0;
    }

    /// Becomes equal to `other`, in the present memory.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.text.clear();
        self.text.extend_from_slice(&other.text);
        self.lines.clear();
        self.lines.extend_from_slice(&other.lines);
        self.size = other.size;
    }

    /// Returns the number of bytes of memory the section takes.
    pub(crate) fn capacity(&self) -> usize {
        self.text.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Returns all names and values that are not in the static table.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    #[inline]
    pub(crate) fn field(&self, line: &Line) -> (&[u8], &[u8]) {
        let (start, name) = (line.start as usize, line.name as usize);
        let text = &self.text[start..start + name + line.value as usize];
        match STATIC_TABLE.get(usize::from(line.entry)) {
            Some(entry) if line.whole => (entry.0.as_bytes(), entry.1.as_bytes()),
            Some(entry) => (entry.0.as_bytes(), text),
            None => text.split_at(name),
        }
    }

    /// Adds a field whose text parts were appended since `start`.
    #[inline]
    fn push(
        &mut self,
        (entry, whole): (u8, bool),
        (start, name): (usize, usize),
        limits: Limits,
    ) -> Result<(), Fault> {
        // The text of a section is limited to less than 4 GiB by `limits`, see `decode`.
        let value = (self.text.len() - start - name) as u32;
        let line = Line { entry, whole, start: start as u32, name: name as u32, value };
        let in_table = match STATIC_TABLE.get(usize::from(entry)) {
            Some(entry) if whole => entry.0.len() + entry.1.len(),
            Some(entry) => entry.0.len(),
            None => 0,
        };
        self.size += (self.text.len() - start + in_table) as u64 + OVERHEAD;
        if self.size > limits.bytes || self.lines.len() >= limits.fields {
            return Err(Fault::TooLarge(limits));
        }
        self.lines.push(line);
        Ok(())
    }
}

#[cold]
fn too_large(limits: Limits) -> ProtocolError {
    ProtocolError::fields_too_large(format!(
        "the fields take more than {} bytes, or there are more than {}",
        limits.bytes, limits.fields
    ))
}

/// Reason why a section cannot be decoded. Smaller than [`ProtocolError`], so that it is returned in
/// registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Cut,
    Integer,
    Huffman,
    NoTable,
    StaticEntry,
    DynamicEntry,
    InsertCount,
    Base,
    Blocked,
    TooLarge(Limits),
}

impl From<Fault> for ProtocolError {
    #[cold]
    fn from(fault: Fault) -> Self {
        let reason = match fault {
            Fault::Cut => "a field section ends within a field",
            Fault::Integer => "an integer of a field section is too large",
            Fault::Huffman => "a field section has an invalid Huffman string",
            Fault::NoTable => "a field section refers to the dynamic table, which is empty",
            Fault::StaticEntry => "a field section refers to an unknown static entry",
            Fault::DynamicEntry => "a field section refers to an unknown dynamic entry",
            Fault::InsertCount => "a field section has an invalid required insert count",
            Fault::Base => "a field section has a negative base",
            Fault::Blocked => "more streams are blocked than the settings permit",
            Fault::TooLarge(limits) => return too_large(limits),
        };
        ProtocolError::connection(Code::QPACK_DECOMPRESSION_FAILED, reason)
    }
}

/// The dynamic table as one section refers to it.
#[derive(Clone, Copy)]
pub(super) struct Reference<'a> {
    pub(super) table: &'a Table,
    /// Insert count that the section requires. All references are below (RFC 9204 §2.1.2).
    pub(super) required: u64,
    /// Base of relative indices (RFC 9204 §3.2.5).
    pub(super) base: u64,
}

/// Decodes a field section of a peer that may not use a dynamic table.
///
/// # Errors
/// Returns an error that ends the connection if the section cannot be decoded, or an error of the
/// kind [`FieldsTooLarge`](crate::error::Kind::FieldsTooLarge) if it exceeds a limit.
pub fn decode(
    payload: &[u8],
    limits: Limits,
    section: &mut FieldSection,
) -> Result<(), ProtocolError> {
    // The prefix of nearly all sections: no required insert count, and no base.
    if let [0, 0, rest @ ..] = payload {
        return Ok(lines(rest, None, limits, section)?);
    }
    let mut reader = Reader { rest: payload };
    if reader.integer(8)? != 0 {
        return Err(Fault::NoTable.into());
    }
    // The base has no use without a dynamic table. A negative one would lie before the first entry
    // (RFC 9204 §4.5.1.2).
    if reader.first()? & 0x80 != 0 {
        return Err(Fault::Base.into());
    }
    reader.integer(7)?;
    Ok(lines(reader.rest, None, limits, section)?)
}

/// Reader of the representations of a field section.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn first(&self) -> Result<u8, Fault> {
        self.rest.first().copied().ok_or(Fault::Cut)
    }

    #[inline(always)]
    pub(super) fn integer(&mut self, prefix: u32) -> Result<u64, Fault> {
        match integer::read(self.rest, prefix) {
            Ok(Some((value, size))) => {
                self.rest = &self.rest[size..];
                Ok(value)
            }
            Ok(None) => Err(Fault::Cut),
            Err(integer::TooLarge) => Err(Fault::Integer),
        }
    }

    /// Reads a string literal (§4.1.2) and appends it to `text`. The bit before the prefix of the
    /// length tells whether the string is Huffman-coded.
    #[inline]
    fn string(&mut self, prefix: u32, text: &mut Vec<u8>) -> Result<(), Fault> {
        let coded = self.first()? & 1 << prefix != 0;
        let length = self.integer(prefix)?;
        let length = usize::try_from(length).map_err(|_| Fault::Cut)?;
        let (string, rest) = self.rest.split_at_checked(length).ok_or(Fault::Cut)?;
        self.rest = rest;
        if coded {
            huffman::decode(string, text).map_err(|huffman::Invalid| Fault::Huffman)
        } else {
            text.extend_from_slice(string);
            Ok(())
        }
    }

    /// Reads an index into the static table.
    #[inline]
    fn entry(&mut self, prefix: u32) -> Result<u8, Fault> {
        let index = self.integer(prefix)?;
        match u8::try_from(index) {
            Ok(index) if usize::from(index) < STATIC_TABLE.len() => Ok(index),
            _ => Err(Fault::StaticEntry),
        }
    }
}

/// Decodes the field lines after the prefix of a section.
pub(super) fn lines(
    payload: &[u8],
    reference: Option<Reference<'_>>,
    limits: Limits,
    section: &mut FieldSection,
) -> Result<(), Fault> {
    section.clear();
    // Positions in the text have 32 bits.
    let limits = Limits { bytes: limits.bytes.min(1 << 30), ..limits };
    if payload.len() > 1 << 30 {
        return Err(Fault::TooLarge(limits));
    }
    let mut reader = Reader { rest: payload };
    while let Some(first) = reader.rest.first() {
        let start = section.text.len();
        match *first {
            // Indexed field line, static (§4.5.2).
            0xc0.. => {
                let entry = reader.entry(6)?;
                section.push((entry, true), (start, 0), limits)?;
            }
            // Literal field line with name reference, static (§4.5.4).
            first if first & 0xd0 == 0x50 => {
                let entry = reader.entry(4)?;
                reader.string(7, &mut section.text)?;
                section.push((entry, false), (start, 0), limits)?;
            }
            // Literal field line with literal name (§4.5.6).
            first if first & 0xe0 == 0x20 => {
                reader.string(3, &mut section.text)?;
                let name = section.text.len() - start;
                reader.string(7, &mut section.text)?;
                section.push((NO_ENTRY, false), (start, name), limits)?;
            }
            // The other representations refer to the dynamic table.
            first => {
                let Some(reference) = reference else { return Err(Fault::NoTable) };
                let name = dynamic_line(first, &mut reader, reference, &mut section.text)?;
                section.push((NO_ENTRY, false), (start, name), limits)?;
            }
        }
    }
    Ok(())
}

/// Decodes a field line that refers to the dynamic table. Returns the length of the name.
#[cold]
fn dynamic_line(
    first: u8,
    reader: &mut Reader<'_>,
    reference: Reference<'_>,
    text: &mut Vec<u8>,
) -> Result<usize, Fault> {
    let Reference { table, required, base } = reference;
    let start = text.len();
    let (prefix, post_base, whole) = match first {
        // Indexed field line (§4.5.2); with post-base index (§4.5.3).
        0x80.. => (6, false, true),
        _ if first & 0xf0 == 0x10 => (4, true, true),
        // Literal field line with name reference (§4.5.4); with post-base reference (§4.5.5).
        0x40.. => (4, false, false),
        _ => (3, true, false),
    };
    let index = reader.integer(prefix)?;
    let absolute = if post_base {
        base.checked_add(index)
    } else {
        base.checked_sub(index).and_then(|after| after.checked_sub(1))
    };
    let entry = absolute.filter(|absolute| *absolute < required).and_then(|at| table.get(at));
    let Some((name, value)) = entry else {
        return Err(Fault::DynamicEntry);
    };
    text.extend_from_slice(name);
    let name = text.len() - start;
    if whole {
        text.extend_from_slice(value);
    } else {
        reader.string(7, text)?;
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::super::{encode, section_of_literals as literals};
    use super::*;
    use crate::error::Kind;
    use crate::noise::{Noise, cases};

    type Owned = Vec<(Vec<u8>, Vec<u8>)>;

    const LIMITS: Limits = Limits { bytes: 1_000, fields: 20 };

    fn decoded(payload: &[u8], limits: Limits) -> Result<Owned, ProtocolError> {
        // What the section held before has no effect.
        let mut section = FieldSection::new();
        decode(b"\0\0\xd1\x23abc\x01d", LIMITS, &mut section).unwrap();
        decode(payload, limits, &mut section)?;
        let fields: Owned =
            section.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert_eq!(section.size(), size as u64);
        Ok(fields)
    }

    fn owned(fields: &[(&str, &str)]) -> Owned {
        fields.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
    }

    #[test]
    fn example_of_rfc_9204_b_1_is_decoded() {
        let section = b"\x00\x00\x51\x0b\x2f\x69\x6e\x64\x65\x78\x2e\x68\x74\x6d\x6c";
        assert_eq!(decoded(section, LIMITS), Ok(owned(&[(":path", "/index.html")])));
    }

    #[test]
    fn every_static_representation_is_decoded() {
        let mut section =
            b"\x00\x00\xd1\xd7\x50\x09localhost\x51\x0b/index.html\x5f\x50\x82".to_vec();
        huffman::encode(b"ab", &mut section);
        section.extend_from_slice(b"\x23abc\x01d\x33abc\x01d");
        let wanted = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/index.html"),
            ("user-agent", "ab"),
            ("abc", "d"),
            ("abc", "d"),
        ];
        assert_eq!(decoded(&section, LIMITS), Ok(owned(&wanted)));
        assert_eq!(decoded(b"\0\0", Limits { bytes: 0, fields: 0 }), Ok(Vec::new()));
        for (index, field) in STATIC_TABLE.iter().enumerate() {
            let mut section = vec![0, 0];
            integer::write(6, 0xc0, index as u64, &mut section);
            assert_eq!(decoded(&section, LIMITS), Ok(owned(&[*field])));
        }
    }

    #[test]
    fn undecodable_sections_end_the_connection() {
        let with = |fields: &[u8]| [b"\0\0", fields].concat();
        for wrong in [
            Vec::new(),
            b"\0".to_vec(),
            // A required insert count; a negative base.
            b"\x02\0\xd1".to_vec(),
            b"\0\x81\xd1".to_vec(),
            // The dynamic table: indexed, name reference, both post-base forms.
            with(b"\x80"),
            with(b"\x40\x01a"),
            with(b"\x10"),
            with(b"\x00\x01a"),
            // Entry 99 of the static table.
            with(b"\xff\x24"),
            with(b"\x5f\x54\x01a"),
            // Cut off.
            with(b"\x50\x05ab"),
            with(b"\x50"),
            with(b"\xff"),
            with(b"\x23ab"),
            // An invalid Huffman string, and an integer that is too large.
            with(b"\x50\x81\x00"),
            with(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ] {
            let error = decoded(&wrong, LIMITS).unwrap_err();
            assert_eq!(error.code, Code::QPACK_DECOMPRESSION_FAILED, "{wrong:?}");
            assert!(error.ends_connection());
        }
    }

    #[test]
    fn field_sizes_follow_rfc_9114() {
        // 7 + 3 + 32 and 7 + 5 + 32.
        let section = b"\0\0\xd1\xd7";
        let limits = |bytes, fields| Limits { bytes, fields };
        assert!(decoded(section, limits(86, 2)).is_ok());
        for limits in [limits(85, 2), limits(86, 1)] {
            let error = decoded(section, limits).unwrap_err();
            assert_eq!((error.kind, error.ends_connection()), (Kind::FieldsTooLarge, false));
        }
    }

    #[test]
    fn literal_fields_round_trip() {
        let mut noise = Noise::new(8);
        let limits = Limits { bytes: 1 << 20, fields: 100 };
        for case in 0..cases() {
            let fields: Owned =
                (0..noise.below(10)).map(|_| (noise.bytes(40), noise.bytes(200))).collect();
            let pairs: Vec<_> = fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
            assert_eq!(decoded(&literals(&pairs, case % 2 == 0), limits), Ok(fields));
        }
    }

    #[test]
    fn arbitrary_sections_stay_within_the_limits() {
        let mut noise = Noise::new(9);
        for case in 0..cases() {
            let mut payload = noise.bytes(200);
            if case % 4 != 0 {
                payload.splice(0..0, [0, 0]);
            }
            let limits = Limits { bytes: noise.below(2_000) as u64, fields: noise.below(12) };
            let mut section = FieldSection::new();
            if decode(&payload, limits, &mut section).is_ok() {
                assert!(section.size() <= limits.bytes && section.len() <= limits.fields);
                let (mut again, mut other) = (Vec::new(), FieldSection::new());
                encode(&section, &mut again);
                decode(&again, limits, &mut other).unwrap();
                assert!(section.iter().eq(other.iter()), "an encoded section says the same");
            }
            assert!(section.text.len() <= 2 * payload.len() + 2 || section.text.len() < 4_000);
        }
    }
}
