//! Types and headers of frames (RFC 9114 §7).

use bytes::{Buf, Bytes};

use crate::varint;

/// DATA (RFC 9114 §7.2.1).
pub const DATA: u64 = 0x0;
/// HEADERS (RFC 9114 §7.2.2).
pub const HEADERS: u64 = 0x1;
/// CANCEL_PUSH (RFC 9114 §7.2.3).
pub const CANCEL_PUSH: u64 = 0x3;
/// SETTINGS (RFC 9114 §7.2.4).
pub const SETTINGS: u64 = 0x4;
/// PUSH_PROMISE (RFC 9114 §7.2.5).
pub const PUSH_PROMISE: u64 = 0x5;
/// GOAWAY (RFC 9114 §7.2.6).
pub const GOAWAY: u64 = 0x7;
/// MAX_PUSH_ID (RFC 9114 §7.2.7).
pub const MAX_PUSH_ID: u64 = 0xd;
/// PRIORITY_UPDATE of a request stream (RFC 9218 §7.2).
pub const PRIORITY_UPDATE_REQUEST: u64 = 0xf0700;
/// PRIORITY_UPDATE of a push stream (RFC 9218 §7.2).
pub const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;

/// Returns whether a frame type belongs to HTTP/2: PRIORITY, PING, WINDOW_UPDATE or CONTINUATION.
/// Such frames must not be sent (RFC 9114 §7.2.8).
pub const fn is_http2(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// Returns whether a frame or stream type is reserved to exercise the rule that unknown types are
/// ignored (RFC 9114 §7.2.8, §6.2.3).
pub const fn is_reserved(kind: u64) -> bool {
    kind >= 0x21 && (kind - 0x21).is_multiple_of(0x1f)
}

/// Type and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Frame type.
    pub kind: u64,
    /// Length of the payload in bytes.
    pub length: u64,
    /// Length of the header in bytes.
    pub size: usize,
}

impl Header {
    /// Reads a header at the beginning of `bytes`. Returns `None` if it is incomplete.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, first) = varint::read(bytes)?;
        let (length, second) = varint::read(&bytes[first..])?;
        Some(Self { kind, length, size: first + second })
    }
}

/// Appends the header of a frame.
#[inline]
pub fn write_header(kind: u64, length: u64, to: &mut Vec<u8>) {
    varint::write(kind, to);
    varint::write(length, to);
}

/// Length of the longest frame header in bytes.
const LONGEST: usize = 16;

/// Reader of frame headers from chunks that may be cut anywhere.
#[derive(Clone, Debug, Default)]
pub struct HeaderReader {
    /// Beginning of a header whose rest has not arrived.
    begun: [u8; LONGEST],
    length: u8,
}

impl HeaderReader {
    /// Returns the next header and removes it from `input`, or returns `None` if `input` ends
    /// before.
    #[inline]
    pub fn read(&mut self, input: &mut Bytes) -> Option<Header> {
        if self.length == 0
            && let Some(header) = Header::read(input)
        {
            input.advance(header.size);
            return Some(header);
        }
        if input.is_empty() { None } else { self.read_cut(input) }
    }

    #[cold]
    fn read_cut(&mut self, input: &mut Bytes) -> Option<Header> {
        while let Some(byte) = input.first()
            && let Some(free) = self.begun.get_mut(usize::from(self.length))
        {
            *free = *byte;
            input.advance(1);
            self.length += 1;
            if let Some(header) = Header::read(&self.begun[..usize::from(self.length)]) {
                self.length = 0;
                return Some(header);
            }
        }
        None
    }

    /// Returns whether a part of a header has arrived.
    pub const fn is_within(&self) -> bool {
        self.length > 0
    }
}

/// Headers of DATA frames with a payload of less than 16 KiB, by the length of the payload. The
/// length takes two bytes, so that all headers have one size and need no allocation.
static DATA_HEADERS: [[u8; 3]; 1 << 14] = {
    let mut headers = [[0; 3]; 1 << 14];
    let mut length = 0;
    while length < headers.len() {
        let [high, low] = (length as u16 | 0x4000).to_be_bytes();
        headers[length] = [DATA as u8, high, low];
        length += 1;
    }
    headers
};

/// Returns the header of a DATA frame. Allocates only from 16 KiB.
pub fn data_header(length: usize) -> Bytes {
    match DATA_HEADERS.get(length) {
        Some(header) => Bytes::from_static(header),
        None => {
            let mut header = Vec::with_capacity(9);
            write_header(DATA, length as u64, &mut header);
            header.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    #[test]
    fn headers_are_read_from_chunks_of_any_size() {
        let mut noise = Noise::new(2);
        for _ in 0..cases() {
            let kind = noise.next() >> (2 + noise.below(62));
            let length = noise.next() >> (2 + noise.below(62));
            let mut bytes = Vec::new();
            write_header(kind, length, &mut bytes);
            let size = bytes.len();
            let (mut reader, mut found) = (HeaderReader::default(), Vec::new());
            for chunk in noise.cut(&bytes) {
                let mut chunk = Bytes::copy_from_slice(chunk);
                assert!(found.is_empty());
                found.extend(reader.read(&mut chunk));
                assert!(chunk.is_empty());
                assert_eq!(reader.is_within(), found.is_empty() && reader.length > 0);
            }
            assert_eq!(found, [Header { kind, length, size }]);
        }
    }

    #[test]
    fn data_headers_of_every_size_are_read_back() {
        for length in [0, 1, 63, 64, 1_000, (1 << 14) - 1, 1 << 14, 1 << 20, 1 << 40] {
            let header = data_header(length);
            let wanted = Header { kind: DATA, length: length as u64, size: header.len() };
            assert_eq!(Header::read(&header), Some(wanted));
        }
    }

    #[test]
    fn reserved_types_follow_their_formula() {
        assert!(is_reserved(0x21) && is_reserved(0x40) && is_reserved(0x21 + 31 * 1_000));
        assert!(!is_reserved(0) && !is_reserved(0x22) && !is_reserved(0x3f));
    }
}
