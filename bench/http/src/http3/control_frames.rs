//! Checks the frames of a peer's control stream (RFC 9114 §7.2).

use std::collections::HashSet;

use bytes::{Buf, Bytes, BytesMut};
use h3::error::Code;

use super::PeerError;
use super::message::{Peer, frame_type as frame};
use super::varint::{self, HeaderReader};

/// Largest payload of a SETTINGS frame, in bytes. Clients send less than a hundred bytes.
const SETTINGS_LIMIT: u64 = 4 << 10;
/// Settings whose value is 0 or 1: SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 §3),
/// SETTINGS_H3_DATAGRAM (RFC 9297 §2.1.1).
const FLAGS: [u64; 2] = [0x8, 0x33];
/// Settings of HTTP/2, which must not be sent (RFC 9114 §7.2.4.1, §11.2.2).
const HTTP2_SETTINGS: [u64; 5] = [0x0, 0x2, 0x3, 0x4, 0x5];

/// Returns the error of a stream that exceeds its limit.
pub(super) fn too_much() -> PeerError {
    PeerError::connection(Code::H3_EXCESSIVE_LOAD, "a unidirectional stream exceeds its size limit")
}

/// Parses the frames of a control stream (RFC 9114 §7.2).
pub(super) struct ControlFrames {
    peer: Peer,
    header: HeaderReader,
    position: Position,
    /// Whether SETTINGS was seen.
    settings: bool,
    /// Largest push ID that the client allowed.
    max_push_id: Option<u64>,
}

enum Position {
    Header,
    /// Within a frame of this type that is being collected: the bytes so far including the header,
    /// the length of the header, and the number of missing bytes.
    Frame {
        kind: u64,
        frame: BytesMut,
        header: usize,
        missing: usize,
    },
    /// Within a frame without meaning, of which this many bytes are left.
    Skipped(u64),
}

impl ControlFrames {
    pub(super) fn new(peer: Peer) -> Self {
        Self {
            peer,
            header: HeaderReader::default(),
            position: Position::Header,
            settings: false,
            max_push_id: None,
        }
    }

    /// Returns the next frame of `input` for `h3`, or `None` once all of `input` is used up.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, PeerError> {
        loop {
            match &mut self.position {
                Position::Header => {
                    let Some(header) = self.header.read(input) else { return Ok(None) };
                    self.position = if self.begin(header.kind, header.length)? {
                        let frame = BytesMut::from(&header.bytes[..]);
                        let header_size = header.bytes.len();
                        // The frame has at most the limit of a SETTINGS frame.
                        let missing = header.length as usize;
                        Position::Frame { kind: header.kind, frame, header: header_size, missing }
                    } else {
                        Position::Skipped(header.length)
                    };
                }
                Position::Skipped(left) => {
                    let length = (*left).min(input.len() as u64);
                    input.advance(length as usize);
                    *left -= length;
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.position = Position::Header;
                }
                Position::Frame { kind, frame, header, missing } => {
                    let piece = input.split_to((*missing).min(input.len()));
                    *missing -= piece.len();
                    frame.extend_from_slice(&piece);
                    if *missing > 0 {
                        return Ok(None);
                    }
                    let (kind, header, frame) = (*kind, *header, std::mem::take(frame).freeze());
                    self.position = Position::Header;
                    if self.frame(kind, &frame[header..])? {
                        return Ok(Some(frame));
                    }
                }
            }
        }
    }

    /// Starts a frame. Returns whether its payload is checked.
    fn begin(&mut self, kind: u64, length: u64) -> Result<bool, PeerError> {
        if kind != frame::SETTINGS && !self.settings {
            let reason = "the control stream does not begin with a SETTINGS frame";
            return Err(PeerError::connection(Code::H3_MISSING_SETTINGS, reason));
        }
        let unexpected = |reason| Err(PeerError::connection(Code::H3_FRAME_UNEXPECTED, reason));
        match kind {
            frame::SETTINGS if self.settings => unexpected("a second SETTINGS frame"),
            frame::SETTINGS => {
                self.settings = true;
                if length > SETTINGS_LIMIT { Err(too_much()) } else { Ok(true) }
            }
            frame::DATA | frame::HEADERS | frame::PUSH_PROMISE => {
                unexpected("the control stream has a frame that belongs on request streams")
            }
            frame::MAX_PUSH_ID if self.peer == Peer::Server => {
                unexpected("the server sent a MAX_PUSH_ID frame")
            }
            frame::GOAWAY | frame::MAX_PUSH_ID | frame::CANCEL_PUSH
                if !matches!(length, 1 | 2 | 4 | 8) =>
            {
                Err(PeerError::connection(
                    Code::H3_FRAME_ERROR,
                    "the payload of a frame is not a single integer",
                ))
            }
            frame::GOAWAY | frame::MAX_PUSH_ID | frame::CANCEL_PUSH => Ok(true),
            kind if frame::HTTP2.contains(&kind) => unexpected("a frame has a type of HTTP/2"),
            _ => Ok(false),
        }
    }

    /// Handles a complete frame. Returns whether the frame is passed on to `h3`.
    fn frame(&mut self, kind: u64, payload: &[u8]) -> Result<bool, PeerError> {
        if kind == frame::SETTINGS {
            return settings(payload).map(|()| true);
        }
        let id = match varint::read(payload) {
            Some((id, size)) if size == payload.len() => id,
            _ => {
                return Err(PeerError::connection(
                    Code::H3_FRAME_ERROR,
                    "the payload of a frame is not a single integer",
                ));
            }
        };
        match kind {
            frame::MAX_PUSH_ID => {
                if self.max_push_id.is_some_and(|before| id < before) {
                    return Err(PeerError::connection(
                        Code::H3_ID_ERROR,
                        "a MAX_PUSH_ID frame lowers the maximum push ID",
                    ));
                }
                self.max_push_id = Some(id);
                Ok(false)
            }
            // No push was promised: this end never pushes, and a server may not push to it
            // (RFC 9114 §7.2.3).
            frame::CANCEL_PUSH => Err(PeerError::connection(
                Code::H3_ID_ERROR,
                "a CANCEL_PUSH frame names a push that was not promised",
            )),
            _ => Ok(true),
        }
    }
}

/// Checks the payload of a SETTINGS frame (RFC 9114 §7.2.4).
fn settings(mut payload: &[u8]) -> Result<(), PeerError> {
    let error = |reason: String| Err(PeerError::connection(Code::H3_SETTINGS_ERROR, reason));
    let mut seen = HashSet::new();
    while !payload.is_empty() {
        let pair = varint::read(payload).and_then(|(name, first)| {
            let (value, second) = varint::read(&payload[first..])?;
            Some((name, value, first + second))
        });
        let Some((name, value, size)) = pair else {
            return Err(PeerError::connection(
                Code::H3_FRAME_ERROR,
                "a SETTINGS frame ends in the middle of a setting",
            ));
        };
        payload = &payload[size..];
        if HTTP2_SETTINGS.contains(&name) {
            return error(format!("setting {name:#x} belongs to HTTP/2"));
        }
        if FLAGS.contains(&name) && value > 1 {
            return error(format!("setting {name:#x} is {value} instead of 0 or 1"));
        }
        if !seen.insert(name) {
            return error(format!("setting {name:#x} occurs twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::varint::tests::varint;
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    const SETTINGS: &[u8] = b"\x04\0";

    fn control<'a>(
        peer: Peer,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<u8>, PeerError> {
        let (mut frames, mut got) = (ControlFrames::new(peer), Vec::new());
        for chunk in chunks {
            let mut input = Bytes::copy_from_slice(chunk);
            while let Some(frame) = frames.next(&mut input)? {
                got.extend_from_slice(&frame);
            }
        }
        Ok(got)
    }

    fn code(peer: Peer, stream: &[u8]) -> Option<Code> {
        let whole = control(peer, [stream]);
        assert_eq!(whole, control(peer, stream.chunks(1)), "however it is cut");
        whole.err().map(|error| error.code())
    }

    #[test]
    fn control_stream_passes_only_settings_and_goaway_to_h3() {
        let stream =
            [b"\x04\x02\x06\x3f", &b"\x21\x03abc"[..], b"\x0d\x01\x05", b"\x07\x01\x04"].concat();
        assert_eq!(control(Peer::Client, [&stream[..]]).unwrap(), b"\x04\x02\x06\x3f\x07\x01\x04");
    }

    #[test]
    fn invalid_control_stream_frames_get_error_codes_of_rfc_9114() {
        let after = |frames: &[u8]| code(Peer::Client, &[SETTINGS, frames].concat());
        for (stream, wanted) in [
            (&b"\x21\0"[..], Code::H3_MISSING_SETTINGS),
            (b"\x07\x01\0", Code::H3_MISSING_SETTINGS),
            (b"\0\0", Code::H3_MISSING_SETTINGS),
        ] {
            assert_eq!(code(Peer::Client, stream), Some(wanted), "{stream:?}");
        }
        for (frames, wanted) in [
            (SETTINGS, Code::H3_FRAME_UNEXPECTED),
            (b"\0\x01a", Code::H3_FRAME_UNEXPECTED),
            (b"\x01\x01a", Code::H3_FRAME_UNEXPECTED),
            (b"\x05\x01\0", Code::H3_FRAME_UNEXPECTED),
            (b"\x02\0", Code::H3_FRAME_UNEXPECTED),
            (b"\x06\0", Code::H3_FRAME_UNEXPECTED),
            (b"\x08\0", Code::H3_FRAME_UNEXPECTED),
            (b"\x09\0", Code::H3_FRAME_UNEXPECTED),
            (b"\x07\0", Code::H3_FRAME_ERROR),
            (b"\x07\x02\0\0", Code::H3_FRAME_ERROR),
            (b"\x07\x01\x40", Code::H3_FRAME_ERROR),
            (b"\x0d\x03\x40\0\0", Code::H3_FRAME_ERROR),
            (b"\x0d\x01\x05\x0d\x01\x04", Code::H3_ID_ERROR),
            (b"\x03\x01\0", Code::H3_ID_ERROR),
        ] {
            assert_eq!(after(frames), Some(wanted), "{frames:?}");
        }
        assert_eq!(after(b"\x0d\x01\x05\x0d\x01\x05\x0d\x02\x40\x06"), None);
        assert_eq!(
            code(Peer::Server, &[SETTINGS, b"\x0d\x01\0"].concat()),
            Some(Code::H3_FRAME_UNEXPECTED)
        );
    }

    #[test]
    fn invalid_settings_get_the_error_codes_of_rfc_9114() {
        for (payload, wanted) in [
            (&b"\x06"[..], Some(Code::H3_FRAME_ERROR)),
            (b"\x06\x40", Some(Code::H3_FRAME_ERROR)),
            (b"\x06\x01\x06\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x21\x01\x21\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x00\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x02\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x05\x01", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x08\x02", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x33\x02", Some(Code::H3_SETTINGS_ERROR)),
            (b"\x01\x3f\x07\x10\x06\x3f\x33\x01\x08\x01\x21\x00", None),
        ] {
            assert_eq!(settings(payload).err().map(|error| error.code()), wanted, "{payload:?}");
        }
        let large = [&[4][..], &varint(SETTINGS_LIMIT + 1, 4)].concat();
        assert_eq!(code(Peer::Client, &large), Some(Code::H3_EXCESSIVE_LOAD));
    }

    proptest! {
        #[test]
        fn control_frame_parser_never_panics_on_arbitrary_bytes(stream in vec(any::<u8>(), 0..80)) {
            for peer in [Peer::Client, Peer::Server] {
                let _ = code(peer, &stream);
                let _ = code(peer, &[SETTINGS, &stream].concat());
            }
        }
    }
}
