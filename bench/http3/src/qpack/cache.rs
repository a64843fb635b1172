//! Encoded field sections that repeat.

use bytes::{Bytes, BytesMut};

use super::encoder::{Fields, encode};
use crate::{frame, varint};

/// Number of sections that are kept.
const SLOTS: usize = 16;
/// Largest size of a kept section's fields in bytes.
const LARGEST: usize = 1 << 10;
/// Size of a buffer that several sections share.
const BUFFER: usize = 4 << 10;
/// Longest header of a frame in front of the section.
const FRAME_HEADER: usize = 9;

/// Encoder of HEADERS frames that keeps the frames of sections that repeat. A section is kept when
/// it is encoded twice in a row in its slot. The memory is less than 50 KiB.
#[derive(Debug, Default)]
pub struct Cache {
    slots: [Slot; SLOTS],
    /// Slot of the last section, which is the most likely one.
    last: usize,
    /// Buffer in which a section is encoded.
    scratch: Vec<u8>,
    /// Buffer of frames that are not kept.
    buffer: BytesMut,
}

#[derive(Debug, Default)]
struct Slot {
    /// Fingerprint of the last section that was encoded.
    seen: u64,
    /// Fingerprint of the kept section.
    kept: u64,
    /// Names and values of the kept section, each after its length.
    key: Vec<u8>,
    frame: Bytes,
}

impl Cache {
    /// Returns an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the HEADERS frame of a section. With `data`, the header of a DATA frame of this
    /// length follows, so that a small message is one piece and its body.
    pub fn frame<F: Fields + ?Sized>(&mut self, fields: &F, data: Option<usize>) -> Bytes {
        let last = &self.slots[self.last];
        if matches(&last.key, fields, data) {
            return last.frame.clone();
        }
        let print = fingerprint(fields, data);
        self.last = (print >> 60) as usize % SLOTS;
        let slot = &mut self.slots[self.last];
        if slot.kept == print && matches(&slot.key, fields, data) {
            return slot.frame.clone();
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&[0; FRAME_HEADER]);
        encode(fields, &mut self.scratch);
        // Put the header of the frame directly before the section.
        let (length, size) = varint::encode((self.scratch.len() - FRAME_HEADER) as u64);
        let begin = FRAME_HEADER - 1 - size;
        self.scratch[begin] = frame::HEADERS as u8;
        self.scratch[begin + 1..FRAME_HEADER].copy_from_slice(&length[..size]);
        if let Some(length) = data {
            frame::write_header(frame::DATA, length as u64, &mut self.scratch);
        }
        let frame = &self.scratch[begin..];
        if slot.seen == print && frame.len() <= LARGEST {
            slot.key.clear();
            if store(&mut slot.key, fields, data) {
                slot.kept = print;
                slot.frame = Bytes::copy_from_slice(frame);
                return slot.frame.clone();
            }
            // The key is incomplete.
            slot.key.clear();
            slot.kept = 0;
        }
        slot.seen = print;
        if frame.len() > BUFFER / 4 {
            return Bytes::copy_from_slice(frame);
        }
        if self.buffer.capacity() < frame.len() {
            self.buffer.reserve(BUFFER);
        }
        self.buffer.extend_from_slice(frame);
        self.buffer.split().freeze()
    }
}

/// Returns a number that tells most sections apart: from the lengths of the fields, and the ends of
/// their values. Never zero.
#[inline]
fn fingerprint<F: Fields + ?Sized>(fields: &F, data: Option<usize>) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut print = data.map_or(0, |length| length as u64 + 1);
    fields.all(|name, value| {
        let end = match value.last_chunk::<8>() {
            Some(end) => u64::from_le_bytes(*end),
            None => value.iter().fold(0, |end, byte| end << 8 | u64::from(*byte)),
        };
        let lengths = (name.len() as u64) << 32 ^ value.len() as u64;
        print = (print.rotate_left(29) ^ end ^ lengths).wrapping_mul(FACTOR);
        true
    });
    print | 1
}

/// Returns whether the key is the one of these fields.
fn matches<F: Fields + ?Sized>(key: &[u8], fields: &F, data: Option<usize>) -> bool {
    let Some((head, mut rest)) = key.split_first_chunk::<8>() else { return false };
    u64::from_le_bytes(*head) == data.map_or(0, |length| length as u64 + 1)
        && fields.all(|name, value| {
            let Some(([a, b, c, d], after)) = rest.split_first_chunk::<4>() else { return false };
            let lengths =
                (u16::from_le_bytes([*a, *b]).into(), u16::from_le_bytes([*c, *d]).into());
            if lengths != (name.len(), value.len()) {
                return false;
            }
            let (stored, after) = after.split_at(lengths.0 + lengths.1);
            rest = after;
            stored[..lengths.0] == *name && stored[lengths.0..] == *value
        })
        && rest.is_empty()
}

/// Writes the key of these fields. Returns `false` if they are too large.
fn store<F: Fields + ?Sized>(key: &mut Vec<u8>, fields: &F, data: Option<usize>) -> bool {
    key.extend_from_slice(&data.map_or(0, |length| length as u64 + 1).to_le_bytes());
    fields.all(|name, value| {
        let (Ok(name_length), Ok(value_length)) =
            (u16::try_from(name.len()), u16::try_from(value.len()))
        else {
            return false;
        };
        key.extend_from_slice(&name_length.to_le_bytes());
        key.extend_from_slice(&value_length.to_le_bytes());
        key.extend_from_slice(name);
        key.extend_from_slice(value);
        key.len() <= 2 * LARGEST
    })
}

#[cfg(test)]
mod tests {
    use super::super::{FieldSection, Limits, decode};
    use super::*;
    use crate::noise::{Noise, cases};

    /// Checks that a frame has exactly these fields and this DATA header.
    fn check(frame: &[u8], fields: &[(Vec<u8>, Vec<u8>)], data: Option<usize>) {
        let header = frame::Header::read(frame).unwrap();
        assert_eq!(header.kind, frame::HEADERS);
        let (section, rest) = frame[header.size..].split_at(header.length as usize);
        let mut found = FieldSection::new();
        decode(section, Limits { bytes: 1 << 20, fields: 100 }, &mut found).unwrap();
        assert!(found.iter().eq(fields.iter().map(|(n, v)| (&n[..], &v[..]))));
        match data {
            None => assert!(rest.is_empty()),
            Some(length) => {
                let header = frame::Header::read(rest).unwrap();
                assert_eq!((header.kind, header.length), (frame::DATA, length as u64));
                assert_eq!(header.size, rest.len());
            }
        }
    }

    #[test]
    fn cached_frames_have_exactly_their_fields() {
        let mut noise = Noise::new(13);
        let mut cache = Cache::new();
        // Few names and values, so that sections repeat and collide in their ends.
        for _ in 0..cases() * 8 {
            let fields: Vec<(Vec<u8>, Vec<u8>)> = (0..noise.below(3))
                .map(|_| {
                    let value = [b"begin-", &b"x-the-same-end"[noise.below(3)..]].concat();
                    let value = if noise.below(40) == 0 { noise.text(3_000) } else { value };
                    ([&b"n"[..], &b"am"[noise.below(2)..]].concat(), value)
                })
                .collect();
            let data = [None, Some(0), Some(7), Some(1 << 20)][noise.below(4)];
            for _ in 0..3 {
                check(&cache.frame(&fields[..], data), &fields, data);
            }
        }
        let memory: usize = cache.slots.iter().map(|s| s.key.capacity() + s.frame.len()).sum();
        assert!(memory < 100 << 10, "{memory}");
    }

    #[test]
    fn repeated_sections_share_one_buffer() {
        let mut cache = Cache::new();
        let fields = [(":status", "200"), ("server", "a")];
        let frames: Vec<_> = (0..4).map(|_| cache.frame(&fields, Some(5))).collect();
        assert_eq!(frames[2].as_ptr(), frames[3].as_ptr());
        assert_eq!(frames[0], frames[3]);
        let other = cache.frame(&[(":status", "200"), ("server", "b")], Some(5));
        assert_ne!(other, frames[3]);
    }
}
