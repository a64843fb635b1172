//! A decoder with a dynamic table (RFC 9204 §2.2, §4.3, §4.4).

use super::integer;
use super::section::{Fault, FieldSection, Limits, Reader, Reference, decode, lines};
use super::static_table::STATIC_TABLE;
use super::table::Table;
use crate::error::{Code, ProtocolError};
use crate::huffman;

/// Result of decoding a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The section is decoded.
    Whole,
    /// The section needs entries that have not arrived. Decode it again once
    /// [`Decoder::inserted`] is at least this number.
    Blocked(u64),
}

/// A decoder and its dynamic table. The caller passes the bytes of the peer's encoder stream to
/// [`Decoder::encoder_stream`], and sends [`Decoder::instructions`] on its own decoder stream.
#[derive(Debug, Default)]
pub struct Decoder {
    table: Table,
    /// Largest capacity that the settings permit.
    max_capacity: usize,
    max_blocked: usize,
    /// Streams that wait for entries; at most `max_blocked`.
    blocked: Vec<u64>,
    /// Beginning of an instruction whose rest has not arrived.
    begun: Vec<u8>,
    /// Insert count that the encoder knows that the decoder has.
    reported: u64,
    instructions: Vec<u8>,
}

impl Decoder {
    /// Returns a decoder whose settings permit a table of this many bytes and this many blocked
    /// streams.
    pub fn new(max_capacity: usize, max_blocked: usize) -> Self {
        Self { max_capacity, max_blocked, ..Self::default() }
    }

    /// Returns the number of entries ever inserted.
    pub fn inserted(&self) -> u64 {
        self.table.inserted()
    }

    /// Returns the bytes to send on the decoder stream. The caller removes what it has sent.
    pub fn instructions(&mut self) -> &mut Vec<u8> {
        &mut self.instructions
    }

    /// Processes bytes of the peer's encoder stream, which may be cut anywhere.
    ///
    /// # Errors
    /// Returns an error that ends the connection if an instruction is invalid.
    pub fn encoder_stream(&mut self, input: &[u8]) -> Result<(), ProtocolError> {
        let mut begun = std::mem::take(&mut self.begun);
        let mut rest = if begun.is_empty() {
            input
        } else {
            begun.extend_from_slice(input);
            &begun
        };
        while !rest.is_empty()
            && let Some(size) = self.instruction(rest)?
        {
            rest = &rest[size..];
        }
        self.begun = rest.to_vec();
        // Insert Count Increment (§4.4.3), once for all of the input.
        let inserted = self.table.inserted();
        if inserted > self.reported {
            integer::write(6, 0, inserted - self.reported, &mut self.instructions);
            self.reported = inserted;
        }
        Ok(())
    }

    /// Executes the instruction at the beginning of `input`. Returns its length, or `None` if it is
    /// incomplete.
    fn instruction(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let mut reader = Instruction { rest: input, longest: self.max_capacity };
        let complete = match input.first() {
            None => return Ok(None),
            // Insert with name reference (§4.3.2).
            Some(first @ 0x80..) => {
                let Some(index) = reader.integer(6)? else { return Ok(None) };
                let name = if first & 0x40 != 0 {
                    let entry = usize::try_from(index).ok().and_then(|at| STATIC_TABLE.get(at));
                    entry.map(|entry| entry.0.as_bytes().to_vec())
                } else {
                    self.relative(index).map(|(name, _)| name.to_vec())
                };
                let name = name.ok_or_else(|| invalid("an insertion refers to no entry"))?;
                let Some(value) = reader.string(7)? else { return Ok(None) };
                self.table.insert(&name, &value)
            }
            // Insert with literal name (§4.3.3).
            Some(0x40..) => {
                let Some(name) = reader.string(5)? else { return Ok(None) };
                let Some(value) = reader.string(7)? else { return Ok(None) };
                self.table.insert(&name, &value)
            }
            // Set dynamic table capacity (§4.3.1).
            Some(0x20..) => {
                let Some(capacity) = reader.integer(5)? else { return Ok(None) };
                match usize::try_from(capacity).ok().filter(|size| *size <= self.max_capacity) {
                    Some(capacity) => self.table.set_capacity(capacity),
                    None => return Err(invalid("the table's capacity exceeds the setting")),
                }
                true
            }
            // Duplicate (§4.3.4).
            Some(_) => {
                let Some(index) = reader.integer(5)? else { return Ok(None) };
                let entry =
                    self.relative(index).map(|(name, value)| (name.to_vec(), value.to_vec()));
                let (name, value) =
                    entry.ok_or_else(|| invalid("a duplicate refers to no entry"))?;
                self.table.insert(&name, &value)
            }
        };
        if !complete {
            return Err(invalid("an entry is larger than the dynamic table"));
        }
        Ok(Some(input.len() - reader.rest.len()))
    }

    /// Returns the entry with this index relative to the last insertion (§3.2.5).
    fn relative(&self, index: u64) -> Option<(&[u8], &[u8])> {
        self.table.get(self.table.inserted().checked_sub(index)?.checked_sub(1)?)
    }

    /// Decodes a field section of a stream and acknowledges it.
    ///
    /// # Errors
    /// Returns the errors of [`decode`], and an error that ends the connection if more streams are
    /// blocked than the settings permit.
    pub fn decode(
        &mut self,
        stream: u64,
        payload: &[u8],
        limits: Limits,
        section: &mut FieldSection,
    ) -> Result<Decoded, ProtocolError> {
        if payload.first() == Some(&0) {
            return decode(payload, limits, section).map(|()| Decoded::Whole);
        }
        let mut reader = Reader { rest: payload };
        let required = self.required(reader.integer(8)?)?;
        let negative = reader.first()? & 0x80 != 0;
        let delta = reader.integer(7)?;
        let base = if negative {
            required.checked_sub(delta).and_then(|base| base.checked_sub(1))
        } else {
            required.checked_add(delta)
        };
        let base = base.ok_or(Fault::Base)?;
        if required > self.table.inserted() {
            if !self.blocked.contains(&stream) {
                if self.blocked.len() >= self.max_blocked {
                    return Err(Fault::Blocked.into());
                }
                self.blocked.push(stream);
            }
            return Ok(Decoded::Blocked(required));
        }
        self.blocked.retain(|blocked| *blocked != stream);
        let reference = Reference { table: &self.table, required, base };
        lines(reader.rest, Some(reference), limits, section)?;
        // Section Acknowledgment (§4.4.1).
        integer::write(7, 0x80, stream, &mut self.instructions);
        self.reported = self.reported.max(required);
        Ok(Decoded::Whole)
    }

    /// Returns the required insert count from its encoded form (§4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, Fault> {
        if encoded == 0 {
            return Ok(0);
        }
        let most_entries = (self.max_capacity / 32) as u64;
        let full_range = 2 * most_entries;
        if encoded > full_range {
            return Err(Fault::InsertCount);
        }
        let max_value = self.table.inserted() + most_entries;
        let max_wrapped = max_value / full_range * full_range;
        let mut required = max_wrapped + encoded - 1;
        if required > max_value {
            required = required.checked_sub(full_range).ok_or(Fault::InsertCount)?;
        }
        if required == 0 { Err(Fault::InsertCount) } else { Ok(required) }
    }

    /// Abandons a stream whose sections will not be read (§4.4.2).
    pub fn cancel(&mut self, stream: u64) {
        self.blocked.retain(|blocked| *blocked != stream);
        if self.max_capacity > 0 {
            integer::write(6, 0x40, stream, &mut self.instructions);
        }
    }
}

#[cold]
fn invalid(reason: &'static str) -> ProtocolError {
    ProtocolError::connection(Code::QPACK_ENCODER_STREAM_ERROR, reason)
}

/// Reader of an instruction that may be incomplete.
struct Instruction<'a> {
    rest: &'a [u8],
    /// Largest length of a string, in bytes.
    longest: usize,
}

impl Instruction<'_> {
    fn integer(&mut self, prefix: u32) -> Result<Option<u64>, ProtocolError> {
        match integer::read(self.rest, prefix) {
            Ok(Some((value, size))) => {
                self.rest = &self.rest[size..];
                Ok(Some(value))
            }
            Ok(None) => Ok(None),
            Err(integer::TooLarge) => Err(invalid("an integer is too large")),
        }
    }

    /// Reads a string. Its announced length is checked before its bytes arrive: a code has at most
    /// 30 bits, so a longer string cannot fit into the table.
    fn string(&mut self, prefix: u32) -> Result<Option<Vec<u8>>, ProtocolError> {
        let Some(first) = self.rest.first() else { return Ok(None) };
        let coded = first & 1 << prefix != 0;
        let Some(length) = self.integer(prefix)? else { return Ok(None) };
        let length = usize::try_from(length).ok().filter(|length| *length / 4 <= self.longest);
        let length = length.ok_or_else(|| invalid("a string is larger than the dynamic table"))?;
        let Some((string, rest)) = self.rest.split_at_checked(length) else { return Ok(None) };
        self.rest = rest;
        let mut text = Vec::new();
        if coded {
            huffman::decode(string, &mut text).map_err(|_| invalid("an invalid Huffman string"))?;
        } else {
            text.extend_from_slice(string);
        }
        Ok(Some(text))
    }
}

/// Checks instructions of a peer's decoder (§4.4), to which this end's encoder refers to no dynamic
/// table: only cancellations are allowed. Returns the number of bytes of whole instructions.
///
/// # Errors
/// Returns an error that ends the connection if an instruction acknowledges anything.
pub(crate) fn check_decoder_stream(input: &[u8]) -> Result<usize, ProtocolError> {
    let error = |reason| ProtocolError::connection(Code::QPACK_DECODER_STREAM_ERROR, reason);
    let mut at = 0;
    while let Some(first) = input.get(at) {
        // Stream Cancellation (§4.4.2).
        if first >> 6 != 0b01 {
            return Err(error("an acknowledgement of an entry that was not inserted"));
        }
        match integer::read(&input[at..], 6) {
            Ok(Some((_, size))) => at += size,
            Ok(None) => break,
            Err(integer::TooLarge) => return Err(error("a stream ID is too large")),
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    const LIMITS: Limits = Limits { bytes: 1_000, fields: 20 };

    fn bytes(hex: &str) -> Vec<u8> {
        let hex = hex.replace(' ', "");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    fn decoded(decoder: &mut Decoder, stream: u64, hex: &str) -> Vec<(String, String)> {
        let mut section = FieldSection::new();
        let done = decoder.decode(stream, &bytes(hex), LIMITS, &mut section).unwrap();
        assert_eq!(done, Decoded::Whole);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        section.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// Plays RFC 9204 Appendix B with the encoder stream in chunks of this size.
    fn examples_of_appendix_b(chunk: usize) {
        let mut decoder = Decoder::new(220, 1);
        let send = |decoder: &mut Decoder, hex: &str| {
            let instructions = bytes(hex);
            for chunk in instructions.chunks(chunk) {
                decoder.encoder_stream(chunk).unwrap();
            }
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let sent = |decoder: &mut Decoder| std::mem::take(decoder.instructions());
        // B.1: a literal with a name of the static table.
        let wanted = [pair(":path", "/index.html")];
        assert_eq!(decoded(&mut decoder, 0, "0000 510b 2f696e6465782e68746d6c"), wanted);
        assert_eq!(sent(&mut decoder), [], "nothing to acknowledge");
        // B.2: the section arrives before the table's entries.
        let section = "0381 10 11";
        let mut fields = FieldSection::new();
        let blocked = decoder.decode(4, &bytes(section), LIMITS, &mut fields);
        assert_eq!(blocked, Ok(Decoded::Blocked(2)));
        let other = decoder.decode(8, &bytes(section), LIMITS, &mut fields).unwrap_err();
        assert_eq!(other.code, Code::QPACK_DECOMPRESSION_FAILED, "only one may be blocked");
        send(
            &mut decoder,
            "3fbd01 c00f 7777772e6578616d706c652e636f6d c10c 2f73616d706c652f70617468",
        );
        assert_eq!(decoder.inserted(), 2);
        let wanted = [pair(":authority", "www.example.com"), pair(":path", "/sample/path")];
        assert_eq!(decoded(&mut decoder, 4, section), wanted);
        if chunk > 100 {
            assert_eq!(sent(&mut decoder), [0x02, 0x84], "an increment, then the section");
        }
        sent(&mut decoder);
        // B.3: a speculative insertion.
        send(&mut decoder, "4a 637573746f6d2d6b6579 0c 637573746f6d2d76616c7565");
        assert_eq!(sent(&mut decoder), [0x01]);
        // B.4: a duplicate, and a cancelled stream.
        send(&mut decoder, "02");
        assert_eq!(decoder.inserted(), 4);
        sent(&mut decoder);
        decoder.cancel(8);
        assert_eq!(sent(&mut decoder), [0x48]);
        let wanted = [
            pair(":authority", "www.example.com"),
            pair(":path", "/"),
            pair("custom-key", "custom-value"),
        ];
        assert_eq!(decoded(&mut decoder, 12, "0500 80 c1 81"), wanted);
        // B.5: an insertion that evicts the first entry.
        send(&mut decoder, "81 0d 637573746f6d2d76616c756532");
        assert_eq!(decoder.table.get(0), None);
        assert_eq!(decoder.table.get(1), Some((&b":path"[..], &b"/sample/path"[..])));
        assert_eq!(decoder.table.get(4), Some((&b"custom-key"[..], &b"custom-value2"[..])));
    }

    #[test]
    fn examples_of_rfc_9204_appendix_b_are_decoded_in_chunks_of_any_size() {
        for chunk in [1, 2, 3, 7, 1_000] {
            examples_of_appendix_b(chunk);
        }
    }

    #[test]
    fn invalid_instructions_end_the_connection() {
        for (capacity, hex) in [
            // A capacity above the setting, with and without a table.
            (220, "3fbe01"),
            (0, "3f00"),
            // An entry larger than the table; a string that cannot fit.
            (220, "3f01 4a 637573746f6d2d6b6579 0c 637573746f6d2d76616c7565"),
            (220, "3fbd01 5f ffff03"),
            (0, "c001 61"),
            // Names and duplicates of entries that do not exist.
            (220, "3fbd01 8001 61"),
            (220, "3fbd01 00"),
            (220, "3fbd01 ff24 01 61"),
            // The same before the value arrives.
            (220, "3fbd01 ff24"),
            (220, "3fbd01 80"),
            // An invalid Huffman string; an integer that is too large.
            (220, "3fbd01 c081 00"),
            (220, "3fffffffffffffffffffff01"),
        ] {
            let error = Decoder::new(capacity, 0).encoder_stream(&bytes(hex)).unwrap_err();
            assert_eq!(error.code, Code::QPACK_ENCODER_STREAM_ERROR, "{hex}");
            assert!(error.ends_connection());
        }
        assert!(Decoder::new(0, 0).encoder_stream(&[0x20, 0x20]).is_ok(), "a capacity of zero");
    }

    #[test]
    fn references_outside_the_table_are_undecodable() {
        let mut decoder = Decoder::new(220, 1);
        decoder.encoder_stream(&bytes("3fbd01 c001 61 c101 62")).unwrap();
        for hex in ["0300 82", "0381 12", "0200 80 10", "0202 80", "ff00 80", "0383 80"] {
            let error =
                decoder.decode(0, &bytes(hex), LIMITS, &mut FieldSection::new()).expect_err(hex);
            assert_eq!(error.code, Code::QPACK_DECOMPRESSION_FAILED, "{hex}");
        }
    }

    #[test]
    fn arbitrary_streams_do_not_depend_on_chunks_and_stay_within_their_memory() {
        let mut noise = Noise::new(12);
        for _ in 0..cases() {
            let mut input = bytes("3fbd01 c001 61 4161 0162");
            input.extend(noise.bytes(60));
            let (mut whole, mut cut) = (Decoder::new(220, 2), Decoder::new(220, 2));
            let wanted = whole.encoder_stream(&input);
            let mut found = Ok(());
            for chunk in noise.cut(&input) {
                found = cut.encoder_stream(chunk);
                assert!(cut.begun.len() <= 8 * 220 + 40);
                if found.is_err() {
                    break;
                }
            }
            assert_eq!(found, wanted);
            assert_eq!(cut.inserted(), whole.inserted());
            let payload = noise.bytes(30);
            let (mut a, mut b) = (FieldSection::new(), FieldSection::new());
            let of_whole = whole.decode(0, &payload, LIMITS, &mut a);
            assert_eq!(cut.decode(0, &payload, LIMITS, &mut b), of_whole);
            assert!(of_whole.is_err() || a.iter().eq(b.iter()));
            assert!(whole.blocked.len() <= 2);
        }
    }

    #[test]
    fn decoder_streams_may_only_cancel() {
        assert_eq!(check_decoder_stream(&[0x44, 0x7f, 0x01, 0x7f]), Ok(3));
        for wrong in [&[0x01][..], &[0x84], &[0x44, 0x00]] {
            let error = check_decoder_stream(wrong).unwrap_err();
            assert_eq!(error.code, Code::QPACK_DECODER_STREAM_ERROR);
        }
    }
}
