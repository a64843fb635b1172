//! Checks the frames of a request or response and their order (RFC 9114 §4.1).

use bytes::{Buf, Bytes, BytesMut};
use h3::error::Code;

use super::PeerError;
use super::fields::{self, Section};
use super::varint::{FrameHeader, HeaderReader};

/// Frame types (RFC 9114 §7.2).
pub(super) mod frame_type {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
    /// PRIORITY, PING, WINDOW_UPDATE and CONTINUATION of HTTP/2, which must not be sent
    /// (RFC 9114 §7.2.8).
    pub(crate) const HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];
}
use frame_type::{CANCEL_PUSH, DATA, GOAWAY, HEADERS, HTTP2, MAX_PUSH_ID, PUSH_PROMISE, SETTINGS};

/// One end of a connection, as the sender of bytes that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The peer sends requests.
    Client,
    /// The peer sends responses.
    Server,
}

/// Limits of a message, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionLimits {
    /// Limit of the frames of a stream, not counting the payload of DATA frames.
    pub(crate) stream: u64,
    /// Limit of the fields of a header or trailer section (RFC 9114 §4.2.2).
    pub(crate) section: u64,
}

/// Frames that may follow on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The header section of a request, or of a final response after any number of interim
    /// responses.
    Head,
    /// DATA frames of the body, or trailers.
    Body,
    /// Only frames of unknown types.
    Nothing,
}

/// Position in the stream.
#[derive(Debug)]
enum Position {
    /// At a frame's header.
    Header,
    /// In a DATA frame, of which this many bytes are left.
    Data(u64),
    /// In a HEADERS frame.
    Section {
        /// Bytes of the frame so far, including its header.
        frame: BytesMut,
        /// Length of the header in bytes.
        header: usize,
        /// Number of missing bytes.
        missing: usize,
    },
    /// In a frame without meaning, of which this many bytes are left.
    Skipped(u64),
}

/// Parses the frames of one message from chunks that may be cut anywhere. Returns the well-formed
/// parts one by one: whole HEADERS frames, headers of DATA frames, and pieces of their payload.
/// `h3` reads once for each part, so nothing accumulates in `h3`.
#[derive(Debug)]
pub(super) struct MessageFrames {
    peer: Peer,
    limits: SectionLimits,
    /// Number of bytes that frames other than DATA may still take.
    left: u64,
    expected: Expected,
    position: Position,
    header: HeaderReader,
    /// Length of the body in bytes according to `content-length`.
    declared: Option<u64>,
    /// Bytes of the body that DATA frames have announced.
    body: u64,
}

impl MessageFrames {
    /// Returns the state at the start of a stream on which `peer` sends.
    pub(super) fn new(peer: Peer, limits: SectionLimits) -> Self {
        Self {
            peer,
            limits,
            left: limits.stream,
            expected: Expected::Head,
            position: Position::Header,
            header: HeaderReader::default(),
            declared: None,
            body: 0,
        }
    }

    /// Returns the next piece of `input` for `h3`, or `None` once all of `input` is used up.
    ///
    /// # Errors
    /// Returns the error of the peer. Callers must then stop reading the stream.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, PeerError> {
        loop {
            match &mut self.position {
                Position::Header => {
                    let before = input.clone();
                    let Some(header) = self.header.read(input) else { return Ok(None) };
                    if let Some(piece) = self.begin(header, &before, input)? {
                        return Ok(Some(piece));
                    }
                }
                Position::Data(left) => {
                    let length = (*left).min(input.len() as u64);
                    *left -= length;
                    if *left == 0 {
                        self.position = Position::Header;
                    }
                    return Ok(
                        Some(input.split_to(length as usize)).filter(|piece| !piece.is_empty())
                    );
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
                Position::Section { frame, header, missing } => {
                    let piece = input.split_to((*missing).min(input.len()));
                    *missing -= piece.len();
                    frame.extend_from_slice(&piece);
                    if *missing > 0 {
                        return Ok(None);
                    }
                    let (frame, header) = (std::mem::take(frame).freeze(), *header);
                    self.position = Position::Header;
                    if self.section(&frame[header..])? {
                        return Ok(Some(frame));
                    }
                }
            }
        }
    }

    /// Starts a frame. `before` is the input including the frame's header. Returns the part of the
    /// frame that is passed on at once.
    fn begin(
        &mut self,
        header: FrameHeader,
        before: &Bytes,
        input: &mut Bytes,
    ) -> Result<Option<Bytes>, PeerError> {
        let FrameHeader { kind, length, bytes, cut } = header;
        if kind == DATA {
            return self.begin_data(length, bytes);
        }
        self.check_kind(kind)?;
        let size = (bytes.len() as u64).saturating_add(length);
        let large = if kind == HEADERS {
            PeerError::FieldsTooLarge(self.limits.section)
        } else {
            PeerError::TooMuch
        };
        self.left = self.left.checked_sub(size).ok_or(large)?;
        if kind != HEADERS {
            self.position = Position::Skipped(length);
            return Ok(None);
        }
        // Both lengths are within the limit.
        let length = length as usize;
        if cut || input.len() < length {
            // Collect the whole frame; `next` continues with the available bytes.
            let mut frame = BytesMut::with_capacity(bytes.len() + length.min(input.len()));
            frame.extend_from_slice(&bytes);
            self.position = Position::Section { frame, header: bytes.len(), missing: length };
            return Ok(None);
        }
        let payload = input.split_to(length);
        let frame = before.slice(..bytes.len() + length);
        Ok(self.section(&payload)?.then_some(frame))
    }

    fn begin_data(&mut self, length: u64, header: Bytes) -> Result<Option<Bytes>, PeerError> {
        if self.expected != Expected::Body {
            let reason = match self.expected {
                Expected::Head => "a DATA frame arrived before the header",
                _ => "a DATA frame arrived after the trailers",
            };
            return Err(PeerError::connection(Code::H3_FRAME_UNEXPECTED, reason));
        }
        if length == 0 {
            // An empty DATA frame has no meaning, but `h3` would take it for the end of the body.
            // Count these frames, because a peer must not send an endless number of them.
            self.left = self.left.checked_sub(header.len() as u64).ok_or(PeerError::TooMuch)?;
            return Ok(None);
        }
        self.body = self.body.saturating_add(length);
        self.check_length(false)?;
        self.position = Position::Data(length);
        Ok(Some(header))
    }

    /// Checks the length of the body. A client's body must have the declared length. A server's
    /// body is not checked, because responses to HEAD and responses with status 304 declare a
    /// length but have no body, and only the sender of the request can recognise them.
    fn check_length(&self, over: bool) -> Result<(), PeerError> {
        match self.declared {
            Some(declared) if self.body > declared || (over && self.body < declared) => {
                Err(PeerError::Length { declared, received: self.body, over })
            }
            _ => Ok(()),
        }
    }

    fn check_kind(&self, kind: u64) -> Result<(), PeerError> {
        let unexpected = |reason| Err(PeerError::connection(Code::H3_FRAME_UNEXPECTED, reason));
        match kind {
            HEADERS if self.expected == Expected::Nothing => {
                unexpected("a HEADERS frame arrived after the trailers")
            }
            SETTINGS | GOAWAY | MAX_PUSH_ID | CANCEL_PUSH => {
                unexpected("a request stream has a frame that belongs on the control stream")
            }
            // No MAX_PUSH_ID was sent, so every push ID is too large (RFC 9114 §7.2.5).
            PUSH_PROMISE if self.peer == Peer::Server => Err(PeerError::connection(
                Code::H3_ID_ERROR,
                "a PUSH_PROMISE frame arrived, but no MAX_PUSH_ID was sent",
            )),
            PUSH_PROMISE => unexpected("the client sent a PUSH_PROMISE frame"),
            kind if HTTP2.contains(&kind) => unexpected("a frame has a type of HTTP/2"),
            _ => Ok(()),
        }
    }

    /// Handles a complete HEADERS frame. Returns whether the frame is passed on. Interim responses
    /// are not passed on.
    fn section(&mut self, payload: &[u8]) -> Result<bool, PeerError> {
        let section = match (self.expected, self.peer) {
            (Expected::Head, Peer::Client) => Section::Request,
            (Expected::Head, Peer::Server) => Section::Response,
            _ => Section::Trailers,
        };
        let found = fields::check(section, payload, self.limits.section)?;
        match section {
            Section::Trailers => {
                self.expected = Expected::Nothing;
                self.check_length(true)?;
            }
            Section::Response if found.is_interim() => return Ok(false),
            Section::Response => self.expected = Expected::Body,
            Section::Request => {
                self.expected = Expected::Body;
                self.declared = found.content_length;
            }
        }
        Ok(true)
    }

    /// Handles the end of the stream.
    ///
    /// # Errors
    /// Returns an error if a frame or the message is cut off.
    pub(super) fn end(&mut self) -> Result<(), PeerError> {
        // A stream must not end within a frame (RFC 9114 §7.1).
        if !matches!(self.position, Position::Header) || self.header.is_within() {
            return Err(PeerError::connection(
                Code::H3_FRAME_ERROR,
                "the stream ended in the middle of a frame",
            ));
        }
        match (self.expected, self.peer) {
            (Expected::Head, Peer::Client) => Err(PeerError::Incomplete),
            (Expected::Head, Peer::Server) => {
                Err(PeerError::Malformed("a response without a header".into()))
            }
            (Expected::Body, _) => self.check_length(true),
            (Expected::Nothing, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::qpack::tests::section;
    use super::super::varint::tests::varint;
    use super::*;

    use proptest::collection::vec;
    use proptest::prelude::*;

    const LIMITS: SectionLimits = SectionLimits { stream: 4_096, section: 2_048 };

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        [varint(kind, 1), varint(payload.len() as u64, 2), payload.to_vec()].concat()
    }

    fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        frame(HEADERS, &section(&fields, false))
    }

    fn get(more: &[(&str, &str)]) -> Vec<u8> {
        let head = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        headers(&[&head[..], more].concat())
    }

    /// Returns the pieces that `h3` gets of a stream that arrives in these chunks.
    fn pieces<'a>(
        peer: Peer,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<Bytes>, PeerError> {
        let (mut frames, mut pieces) = (MessageFrames::new(peer, LIMITS), Vec::new());
        for chunk in chunks {
            let mut input = Bytes::copy_from_slice(chunk);
            while let Some(piece) = frames.next(&mut input)? {
                assert!(!piece.is_empty(), "h3 panics at an empty piece");
                pieces.push(piece);
            }
            assert!(input.is_empty());
        }
        frames.end().map(|()| pieces)
    }

    fn of(peer: Peer, stream: &[u8]) -> Result<Vec<Bytes>, PeerError> {
        let whole = pieces(peer, [stream]);
        let bytes = pieces(peer, stream.chunks(1));
        let joined =
            |pieces: &Result<Vec<Bytes>, PeerError>| pieces.clone().map(|pieces| pieces.concat());
        assert_eq!(joined(&whole), joined(&bytes), "however it is cut");
        whole
    }

    fn code(peer: Peer, stream: &[u8]) -> Option<(Code, bool)> {
        of(peer, stream).err().map(|error| (error.code(), error.ends_connection()))
    }

    #[test]
    fn http3_frames_are_passed_on_one_at_a_time() {
        let (head, trailers) = (get(&[]), headers(&[("a", "b")]));
        let stream = [&head[..], b"\0\x02ab", &frame(0x21, b"x"), b"\0\x01c", &trailers].concat();
        let wanted: Vec<&[u8]> = vec![&head, b"\0\x02", b"ab", b"\0\x01", b"c", &trailers];
        assert_eq!(of(Peer::Client, &stream).unwrap(), wanted);
    }

    #[test]
    fn empty_data_frames_are_skipped() {
        let head = get(&[("content-length", "2")]);
        let stream = [&head[..], b"\0\0", b"\0\x01a", b"\0\x40\0", b"\0\x01b", b"\0\0"].concat();
        let wanted: Vec<&[u8]> = vec![&head, b"\0\x01", b"a", b"\0\x01", b"b"];
        assert_eq!(of(Peer::Client, &stream).unwrap(), wanted);
        let endless = [&head[..], &[0; 5_000]].concat();
        assert_eq!(of(Peer::Client, &endless), Err(PeerError::TooMuch));
    }

    #[test]
    fn stream_that_ends_within_a_frame_closes_the_connection() {
        let stream =
            [get(&[]), frame(DATA, b"abc"), frame(0x21, b"xyz"), headers(&[("a", "b")])].concat();
        assert!(of(Peer::Client, &stream).is_ok());
        let mut whole = 0;
        for end in 1..stream.len() {
            match code(Peer::Client, &stream[..end]) {
                Some(error) => assert_eq!(error, (Code::H3_FRAME_ERROR, true), "of {end} bytes"),
                None => whole += 1,
            }
        }
        assert_eq!(whole, 3, "after the header, the body, and the unknown frame");
        assert_eq!(code(Peer::Client, b""), Some((Code::H3_REQUEST_INCOMPLETE, false)));
        assert_eq!(code(Peer::Server, b""), Some((Code::H3_MESSAGE_ERROR, false)));
    }

    #[test]
    fn misplaced_frames_close_the_connection() {
        let (head, trailers) = (get(&[]), headers(&[("a", "b")]));
        let with = |frames: &[Vec<u8>]| code(Peer::Client, &[&head[..], &frames.concat()].concat());
        let unexpected = Some((Code::H3_FRAME_UNEXPECTED, true));
        assert_eq!(code(Peer::Client, &[frame(DATA, b"a"), head.clone()].concat()), unexpected);
        assert_eq!(code(Peer::Client, &[frame(DATA, b""), head.clone()].concat()), unexpected);
        assert_eq!(with(&[trailers.clone(), frame(DATA, b"a")]), unexpected);
        assert_eq!(with(&[trailers.clone(), trailers.clone()]), unexpected);
        for kind in [CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID, 0x2, 0x6, 0x8, 0x9] {
            assert_eq!(with(&[frame(kind, b"\0")]), unexpected, "{kind:#x}");
            assert_eq!(code(Peer::Client, &frame(kind, b"\0")), unexpected, "{kind:#x}");
        }
        // WebTransport's frame type was not negotiated, so it counts as unknown.
        assert_eq!(with(&[frame(0x3f, b"x"), frame(DATA, b"a"), trailers, frame(0x21, b"")]), None);
        let push = [headers(&[(":status", "200")]), frame(PUSH_PROMISE, b"\0\0\0")].concat();
        assert_eq!(code(Peer::Server, &push), Some((Code::H3_ID_ERROR, true)));
    }

    #[test]
    fn interim_responses_are_not_passed_on_to_h3() {
        let (interim, last) =
            (headers(&[(":status", "103"), ("link", "a")]), headers(&[(":status", "200")]));
        let stream = [&interim[..], &interim, &last, b"\0\x01a"].concat();
        let wanted: Vec<&[u8]> = vec![&last, b"\0\x01", b"a"];
        assert_eq!(of(Peer::Server, &stream).unwrap(), wanted);
        assert_eq!(code(Peer::Server, &interim), Some((Code::H3_MESSAGE_ERROR, false)));
        let body = [&interim[..], b"\0\x01a"].concat();
        assert_eq!(code(Peer::Server, &body), Some((Code::H3_FRAME_UNEXPECTED, true)));
    }

    #[test]
    fn body_length_must_match_the_declared_content_length() {
        let body = |declared: &str, frames: &[&[u8]]| {
            code(
                Peer::Client,
                &[&get(&[("content-length", declared)])[..], &frames.concat()].concat(),
            )
        };
        let wrong = Some((Code::H3_MESSAGE_ERROR, false));
        assert_eq!(body("3", &[b"\0\x02ab", b"\0\x01c"]), None);
        assert_eq!(body("0", &[]), None);
        assert_eq!(body("0", &[b"\0\x01a"]), wrong);
        assert_eq!(body("3", &[]), wrong);
        assert_eq!(body("3", &[b"\0\x02ab"]), wrong);
        assert_eq!(body("3", &[b"\0\x02ab", b"\0\x02cd"]), wrong);
        assert_eq!(body("3", &[b"\0\x02ab", &headers(&[("a", "b")])]), wrong);
        // The error is reported at once, before the payload has arrived.
        let mut frames = MessageFrames::new(Peer::Client, LIMITS);
        let mut input =
            Bytes::from([&get(&[("content-length", "3")])[..], &[0], &varint(1 << 40, 8)].concat());
        assert!(frames.next(&mut input).unwrap().is_some());
        assert!(matches!(
            frames.next(&mut input),
            Err(PeerError::Length { declared: 3, over: false, .. })
        ));
    }

    #[test]
    fn frame_length_is_checked_before_the_payload_arrives() {
        let most = (1 << 62) - 1;
        let announced = |kind: u64| {
            let mut input = Bytes::from([varint(kind, 8), varint(most, 8)].concat());
            MessageFrames::new(Peer::Client, LIMITS).next(&mut input)
        };
        assert_eq!(announced(HEADERS), Err(PeerError::FieldsTooLarge(LIMITS.section)));
        assert_eq!(announced(0x21), Err(PeerError::TooMuch));
        assert_eq!(announced(most), Err(PeerError::TooMuch));
        let mut input = Bytes::from([get(&[]), varint(DATA, 8), varint(most, 8)].concat());
        let mut frames = MessageFrames::new(Peer::Client, LIMITS);
        assert!(
            frames.next(&mut input).unwrap().is_some()
                && frames.next(&mut input).unwrap().is_some()
        );
    }

    proptest! {
        #[test]
        fn message_parser_never_panics_or_depends_on_chunk_sizes(
            frames in vec((prop_oneof![Just(DATA), Just(HEADERS), 0..64_u64], vec(any::<u8>(), 0..20)), 0..8),
            rest in vec(any::<u8>(), 0..40), begins in any::<bool>(), cuts in vec(1..20_usize, 1..8),
        ) {
            let head = if begins { get(&[]) } else { Vec::new() };
            let frames: Vec<_> = frames.iter().map(|(kind, payload)| frame(*kind, payload)).collect();
            let stream = [head, frames.concat(), rest].concat();
            let (mut left, mut chunks) = (&stream[..], Vec::new());
            for cut in cuts.into_iter().cycle() {
                if left.is_empty() {
                    break;
                }
                let (chunk, after) = left.split_at(cut.min(left.len()));
                chunks.push(chunk);
                left = after;
            }
            for peer in [Peer::Client, Peer::Server] {
                let joined = |pieces: Result<Vec<Bytes>, PeerError>| pieces.map(|pieces| pieces.concat());
                prop_assert_eq!(joined(pieces(peer, [&stream[..]])), joined(pieces(peer, chunks.iter().copied())));
            }
        }
    }
}
