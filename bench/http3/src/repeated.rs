//! Received field sections that repeat.
//!
//! A client that sends the same header again sends the same bytes, unless it uses a dynamic table.
//! Comparing these bytes takes a tenth of the time of decoding and checking the fields.

use crate::error::ProtocolError;
use crate::fields::{Head, Section};
use crate::message::{Read, read_section};
use crate::qpack::{FieldSection, Limits};

/// Number of sections that are kept.
const SLOTS: usize = 8;
/// Largest encoded size of a kept section in bytes.
const LARGEST: usize = 512;

/// Reader of field sections that keeps the last ones. A section is kept when it arrives twice in a
/// row in its slot. The memory is less than 50 KiB.
#[derive(Debug, Default)]
pub struct Repeated {
    slots: [Slot; SLOTS],
}

#[derive(Debug, Default)]
struct Slot {
    /// Fingerprint of the last section that was read.
    seen: u64,
    /// The kept section: its encoded form, and what it says.
    payload: Vec<u8>,
    kept: Option<(Section, Head)>,
    section: FieldSection,
}

impl Repeated {
    /// Decodes and checks a field section of a peer without a dynamic table, like [`read_section`].
    /// The limits must be the same in all calls.
    ///
    /// # Errors
    /// Returns the errors of [`read_section`].
    pub fn read(
        &mut self,
        kind: Section,
        payload: &[u8],
        limits: Limits,
        section: &mut FieldSection,
    ) -> Result<Read, ProtocolError> {
        let print = fingerprint(payload);
        let slot = &mut self.slots[(print >> 60) as usize % SLOTS];
        if let Some((kept, head)) = slot.kept
            && slot.payload == payload
            && kept == kind
        {
            section.copy_from(&slot.section);
            return Ok(Read::Fields(head));
        }
        let read = read_section(kind, payload, limits, section)?;
        if slot.seen != print || payload.len() > LARGEST {
            slot.seen = print;
            return Ok(read);
        }
        if let Read::Fields(head) = read {
            slot.payload.clear();
            slot.payload.extend_from_slice(payload);
            slot.section.copy_from(section);
            slot.kept = Some((kind, head));
        }
        Ok(read)
    }
}

/// Returns a number that tells most sections apart.
#[inline]
fn fingerprint(payload: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |print: u64, word: u64| (print.rotate_left(29) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = payload.as_chunks::<8>();
    let print = words
        .iter()
        .fold(payload.len() as u64, |print, word| mix(print, u64::from_le_bytes(*word)));
    mix(print, rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};
    use crate::qpack::encode;

    #[test]
    fn repeated_sections_are_read_like_new_ones() {
        let mut noise = Noise::new(21);
        let mut repeated = Repeated::default();
        let limits = Limits { bytes: 1_000, fields: 10 };
        let request = Section::Request { extended_connect: false };
        let kinds = [Section::Response, Section::Trailers, request];
        for _ in 0..cases() * 4 {
            let mut payload = Vec::new();
            match noise.below(6) {
                0 => payload.extend([&[0, 0], &noise.bytes(40)[..]].concat()),
                1 => encode(&[(":status", "200"), ("x", "\n")], &mut payload),
                2 => encode(&[("a", "b".repeat(noise.below(1_200)))], &mut payload),
                _ => {
                    let value = ["a", "b", "c"][noise.below(3)];
                    encode(&[(":status", "200"), ("server", value)], &mut payload);
                }
            }
            let kind = kinds[noise.below(3)];
            for _ in 0..noise.below(4) {
                let (mut wanted, mut found) = (FieldSection::new(), FieldSection::new());
                let read = read_section(kind, &payload, limits, &mut wanted);
                assert_eq!(repeated.read(kind, &payload, limits, &mut found), read);
                assert!(read.is_err() || wanted.iter().eq(found.iter()));
                assert!(read.is_err() || wanted.size() == found.size());
            }
        }
        let memory = |slot: &Slot| slot.payload.capacity() + slot.section.capacity();
        assert!(repeated.slots.iter().map(memory).sum::<usize>() < 50 << 10);
    }
}
