//! The frames of a request or response, and their order (RFC 9114 §4.1).

use bytes::{Buf, Bytes};

use crate::error::{Code, Kind, ProtocolError};
use crate::fields::{self, ContentLength, Found, Section};
use crate::frame::{self, Header, HeaderReader};
use crate::qpack::{self, FieldSection, Limits};

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request, which a server reads.
    Request {
        /// Whether the settings permit extended CONNECT (RFC 9220).
        extended_connect: bool,
    },
    /// A response, which a client reads.
    Response {
        /// Method of the request.
        to: Method,
    },
}

/// Methods of requests whose responses have rules of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// CONNECT: after a status of 2xx, the stream has only DATA frames (RFC 9114 §4.4).
    Connect,
    /// HEAD: the response has no body, whatever its `content-length` says (RFC 9110 §8.6).
    Head,
    /// Any other method.
    #[default]
    Other,
}

/// Limits of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// Limits of each field section.
    pub section: Limits,
    /// Largest number of bytes of all frames of the stream, without the payload of DATA frames.
    pub overhead: u64,
}

impl Default for MessageLimits {
    /// The default limits of a section, and 64 KiB of overhead.
    fn default() -> Self {
        Self { section: Limits::default(), overhead: 64 << 10 }
    }
}

/// Part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The header is in the field section.
    Head(Found),
    /// The header of an interim response is in the field section.
    Interim(Found),
    /// A part of the body, never empty.
    Data(Bytes),
    /// The trailers are in the field section.
    Trailers,
    /// A field section needs entries of the dynamic table. Continue once the decoder has this
    /// number of insertions.
    Blocked(u64),
}

/// Result of reading a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The section is decoded and well-formed.
    Fields(Found),
    /// The section needs this number of insertions into the dynamic table.
    Blocked(u64),
}

/// Decodes and checks a field section of a peer without a dynamic table.
///
/// # Errors
/// Returns the errors of [`qpack::decode`] and [`fields::check`].
pub fn read_section(
    kind: Section,
    payload: &[u8],
    limits: Limits,
    section: &mut FieldSection,
) -> Result<Read, ProtocolError> {
    qpack::decode(payload, limits, section)?;
    fields::check(kind, section).map(Read::Fields)
}

/// Frames that may come next on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The header of a request, or of a final response after any number of interim responses.
    Head,
    /// Parts of the body, or trailers.
    Body,
    /// Data of a CONNECT request (RFC 9114 §4.4).
    Tunnel,
    /// Only frames of unknown types.
    Nothing,
}

/// Position in the stream.
#[derive(Clone, Copy, Debug)]
enum Position {
    /// At a frame's header.
    Header,
    /// In a DATA frame, before this many bytes.
    Data(u64),
    /// In a HEADERS frame whose beginning was collected, before this many bytes.
    Section(usize),
    /// After a HEADERS frame that was collected and waits for the dynamic table.
    Blocked,
    /// In a frame without meaning, before this many bytes.
    Skipped(u64),
}

/// Parser of the frames of one message from chunks that may be cut anywhere.
#[derive(Debug)]
pub struct MessageReader {
    message: Message,
    limits: MessageLimits,
    /// Number of bytes that frames other than DATA may still take.
    left: u64,
    expected: Expected,
    position: Position,
    header: HeaderReader,
    /// Collected part of a HEADERS frame that arrives in several chunks.
    collected: Vec<u8>,
    /// Length of the body in bytes according to `content-length`.
    declared: Option<u64>,
    /// Bytes of the body that DATA frames have announced.
    body: u64,
}

impl MessageReader {
    /// Returns the parser at the start of a stream.
    pub fn new(message: Message, limits: MessageLimits) -> Self {
        Self {
            message,
            limits,
            left: limits.overhead,
            expected: Expected::Head,
            position: Position::Header,
            header: HeaderReader::default(),
            collected: Vec::new(),
            declared: None,
            body: 0,
        }
    }

    /// Returns to the start of another stream, and keeps the limits and the memory.
    pub(crate) fn restart(&mut self, message: Message) {
        self.message = message;
        self.left = self.limits.overhead;
        self.expected = Expected::Head;
        self.position = Position::Header;
        self.header = HeaderReader::default();
        self.collected = Vec::new();
        self.declared = None;
        self.body = 0;
    }

    /// Returns the next event, or `None` once all of `input` is used up. `read` decodes and checks a
    /// field section; [`read_section`] serves peers without a dynamic table.
    ///
    /// # Errors
    /// Returns the error of the peer. The stream must not be read any further.
    #[inline]
    pub fn next(
        &mut self,
        input: &mut Bytes,
        section: &mut FieldSection,
        mut read: impl FnMut(Section, &[u8], &mut FieldSection) -> Result<Read, ProtocolError>,
    ) -> Result<Option<Event>, ProtocolError> {
        loop {
            match self.position {
                Position::Header => {
                    let Some(header) = self.header.read(input) else { return Ok(None) };
                    if header.kind != frame::HEADERS {
                        self.begin(header)?;
                        continue;
                    }
                    let length = self.begin_section(header)?;
                    if input.len() < length {
                        self.collect(input, length);
                        return Ok(None);
                    }
                    let kind = self.section_kind();
                    match read(kind, &input[..length], section)? {
                        Read::Fields(found) => {
                            input.advance(length);
                            return self.section(kind, found).map(Some);
                        }
                        Read::Blocked(required) => {
                            self.collected = input.split_to(length).to_vec();
                            self.position = Position::Blocked;
                            return Ok(Some(Event::Blocked(required)));
                        }
                    }
                }
                Position::Data(left) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let data = if left >= input.len() as u64 {
                        std::mem::take(input)
                    } else {
                        input.split_to(left as usize)
                    };
                    self.position = match left - data.len() as u64 {
                        0 => Position::Header,
                        left => Position::Data(left),
                    };
                    return Ok(Some(Event::Data(data)));
                }
                Position::Skipped(left) => {
                    let length = left.min(input.len() as u64);
                    input.advance(length as usize);
                    if length < left {
                        self.position = Position::Skipped(left - length);
                        return Ok(None);
                    }
                    self.position = Position::Header;
                }
                Position::Section(missing) => {
                    if input.len() < missing {
                        self.collect(input, missing);
                        return Ok(None);
                    }
                    self.collected.extend_from_slice(&input[..missing]);
                    input.advance(missing);
                    self.position = Position::Blocked;
                }
                Position::Blocked => {
                    let kind = self.section_kind();
                    match read(kind, &self.collected, section)? {
                        Read::Blocked(required) => return Ok(Some(Event::Blocked(required))),
                        Read::Fields(found) => {
                            self.collected = Vec::new();
                            self.position = Position::Header;
                            return self.section(kind, found).map(Some);
                        }
                    }
                }
            }
        }
    }

    /// Stores the beginning of a HEADERS frame. Its memory grows with the bytes that arrive.
    #[cold]
    fn collect(&mut self, input: &mut Bytes, missing: usize) {
        self.collected.extend_from_slice(input);
        self.position = Position::Section(missing - input.len());
        input.clear();
    }

    /// Starts a HEADERS frame. Returns its length.
    fn begin_section(&mut self, header: Header) -> Result<usize, ProtocolError> {
        match self.expected {
            Expected::Head | Expected::Body => {}
            Expected::Tunnel => return unexpected("a HEADERS frame after CONNECT"),
            Expected::Nothing => return unexpected("a HEADERS frame after the trailers"),
        }
        let size = (header.size as u64).saturating_add(header.length);
        match self.left.checked_sub(size) {
            Some(left) => self.left = left,
            None => {
                let limit = self.limits.overhead;
                let reason =
                    format!("the stream exceeds its limit of {limit} bytes for field sections");
                return Err(ProtocolError::fields_too_large(reason));
            }
        }
        // The length is within the limit.
        usize::try_from(header.length)
            .map_err(|_| ProtocolError::fields_too_large("a HEADERS frame is too large"))
    }

    /// Starts another frame.
    fn begin(&mut self, header: Header) -> Result<(), ProtocolError> {
        let Header { kind, length, size } = header;
        if kind == frame::DATA {
            return self.begin_data(length, size);
        }
        self.check_kind(kind)?;
        self.spend((size as u64).saturating_add(length))?;
        self.position = Position::Skipped(length);
        Ok(())
    }

    fn begin_data(&mut self, length: u64, size: usize) -> Result<(), ProtocolError> {
        match self.expected {
            Expected::Body | Expected::Tunnel => {}
            Expected::Head => return unexpected("a DATA frame before the header"),
            Expected::Nothing => return unexpected("a DATA frame after the trailers"),
        }
        if length == 0 {
            // Count empty frames, because a peer must not send them without end.
            return self.spend(size as u64);
        }
        self.body = self.body.saturating_add(length);
        self.check_length(false)?;
        self.position = Position::Data(length);
        Ok(())
    }

    fn spend(&mut self, bytes: u64) -> Result<(), ProtocolError> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                let limit = self.limits.overhead;
                return Err(ProtocolError::too_much(format!(
                    "the stream exceeds its limit of {limit} bytes besides the body"
                )));
            }
        }
        Ok(())
    }

    /// Checks the length of the body (RFC 9114 §4.1.2).
    fn check_length(&self, over: bool) -> Result<(), ProtocolError> {
        match self.declared {
            Some(declared) if self.body > declared || (over && self.body < declared) => {
                let body = self.body;
                let reason = if over {
                    format!("content-length says {declared} bytes and the body has {body}")
                } else {
                    format!("content-length says {declared} bytes and the body has at least {body}")
                };
                Err(ProtocolError::stream(Code::H3_MESSAGE_ERROR, Kind::ContentLength, reason))
            }
            _ => Ok(()),
        }
    }

    fn check_kind(&self, kind: u64) -> Result<(), ProtocolError> {
        match kind {
            frame::SETTINGS | frame::GOAWAY | frame::MAX_PUSH_ID | frame::CANCEL_PUSH => {
                unexpected("a frame of the control stream on a request stream")
            }
            frame::PRIORITY_UPDATE_REQUEST | frame::PRIORITY_UPDATE_PUSH => {
                unexpected("a PRIORITY_UPDATE frame on a request stream")
            }
            frame::PUSH_PROMISE if matches!(self.message, Message::Response { .. }) => {
                // No MAX_PUSH_ID was sent, so every push ID is too large (RFC 9114 §7.2.5).
                Err(ProtocolError::connection(
                    Code::H3_ID_ERROR,
                    "a PUSH_PROMISE frame without a MAX_PUSH_ID",
                ))
            }
            frame::PUSH_PROMISE => unexpected("a PUSH_PROMISE frame of a client"),
            kind if frame::is_http2(kind) => unexpected("a frame type of HTTP/2"),
            _ => Ok(()),
        }
    }

    fn section_kind(&self) -> Section {
        match (self.expected, self.message) {
            (Expected::Head, Message::Request { extended_connect }) => {
                Section::Request { extended_connect }
            }
            (Expected::Head, Message::Response { .. }) => Section::Response,
            _ => Section::Trailers,
        }
    }

    /// Handles a complete field section.
    fn section(&mut self, kind: Section, found: Found) -> Result<Event, ProtocolError> {
        if kind == Section::Trailers {
            self.expected = Expected::Nothing;
            self.check_length(true)?;
            return Ok(Event::Trailers);
        }
        if found.is_interim() {
            return Ok(Event::Interim(found));
        }
        let tunnel = match self.message {
            Message::Request { .. } => found.connect,
            Message::Response { to } => to == Method::Connect && (200..300).contains(&found.status),
        };
        self.expected = if tunnel { Expected::Tunnel } else { Expected::Body };
        // A tunnel has no content (RFC 9110 §9.3.6). The others have a length and no body
        // (RFC 9110 §8.6).
        let bodiless = tunnel
            || matches!(found.status, 204 | 304)
            || self.message == Message::Response { to: Method::Head };
        if let ContentLength::Length(length) = found.content_length
            && !bodiless
        {
            self.declared = Some(length);
        }
        Ok(Event::Head(found))
    }

    /// Handles the end of the stream.
    ///
    /// # Errors
    /// Returns an error if a frame or the message is cut off.
    pub fn end(&mut self) -> Result<(), ProtocolError> {
        // A stream must not end within a frame (RFC 9114 §7.1).
        if !matches!(self.position, Position::Header) || self.header.is_within() {
            let reason = "the stream ended within a frame";
            return Err(ProtocolError::connection(Code::H3_FRAME_ERROR, reason));
        }
        match (self.expected, self.message) {
            (Expected::Head, Message::Request { .. }) => Err(ProtocolError::stream(
                Code::H3_REQUEST_INCOMPLETE,
                Kind::Incomplete,
                "the request ended before its header was complete",
            )),
            (Expected::Head, Message::Response { .. }) => {
                Err(ProtocolError::malformed("a response without a header"))
            }
            (Expected::Body, _) => self.check_length(true),
            (Expected::Tunnel | Expected::Nothing, _) => Ok(()),
        }
    }
}

#[cold]
fn unexpected<T>(reason: &'static str) -> Result<T, ProtocolError> {
    Err(ProtocolError::connection(Code::H3_FRAME_UNEXPECTED, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};
    use crate::qpack;
    use crate::varint;

    const LIMITS: MessageLimits =
        MessageLimits { section: Limits { bytes: 2_048, fields: 30 }, overhead: 4_096 };
    const REQUEST: Message = Message::Request { extended_connect: false };
    const RESPONSE: Message = Message::Response { to: Method::Other };

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::write_header(kind, payload.len() as u64, &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut section = Vec::new();
        qpack::encode(fields, &mut section);
        frame(frame::HEADERS, &section)
    }

    fn get(more: &[(&str, &str)]) -> Vec<u8> {
        let head = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        headers(&[&head[..], more].concat())
    }

    /// An event, with the data of consecutive events joined.
    #[derive(Clone, Debug, PartialEq)]
    enum Seen {
        Section(Event, Vec<(Vec<u8>, Vec<u8>)>),
        Data(Vec<u8>),
    }

    /// Returns the events of a stream that arrives in these chunks, and how it ends.
    fn events<'a>(
        message: Message,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<Seen>, Result<(), ProtocolError>) {
        let (mut reader, mut seen) = (MessageReader::new(message, LIMITS), Vec::new());
        let mut section = FieldSection::new();
        for chunk in chunks {
            let mut input = Bytes::copy_from_slice(chunk);
            loop {
                let next = reader.next(&mut input, &mut section, |kind, payload, section| {
                    read_section(kind, payload, LIMITS.section, section)
                });
                assert!(reader.collected.len() as u64 <= LIMITS.overhead);
                match next {
                    Err(error) => return (seen, Err(error)),
                    Ok(None) => break,
                    Ok(Some(Event::Data(data))) => {
                        assert!(!data.is_empty());
                        match seen.last_mut() {
                            Some(Seen::Data(before)) => before.extend_from_slice(&data),
                            _ => seen.push(Seen::Data(data.to_vec())),
                        }
                    }
                    Ok(Some(event)) => {
                        let fields = section.iter().map(|(n, v)| (n.to_vec(), v.to_vec()));
                        seen.push(Seen::Section(event, fields.collect()));
                    }
                }
            }
            assert!(input.is_empty());
        }
        (seen, reader.end())
    }

    fn of(message: Message, stream: &[u8]) -> (Vec<Seen>, Result<(), ProtocolError>) {
        let whole = events(message, [stream]);
        assert_eq!(whole, events(message, stream.chunks(1)), "however it is cut");
        whole
    }

    fn code(message: Message, stream: &[u8]) -> Option<(Code, bool)> {
        of(message, stream).1.err().map(|error| (error.code, error.ends_connection()))
    }

    #[test]
    fn messages_are_parsed_in_order() {
        let stream = [
            &get(&[])[..],
            b"\0\x02ab",
            &frame(0x21, b"x"),
            b"\0\0\0\x40\x01c",
            &headers(&[("a", "b")]),
            &frame(0x21, b""),
        ]
        .concat();
        let (seen, end) = of(REQUEST, &stream);
        assert_eq!(end, Ok(()));
        assert_eq!(seen.len(), 3);
        assert!(matches!(&seen[0], Seen::Section(Event::Head(_), fields) if fields.len() == 4));
        assert_eq!(seen[1], Seen::Data(b"abc".to_vec()));
        let trailers = vec![(b"a".to_vec(), b"b".to_vec())];
        assert_eq!(seen[2], Seen::Section(Event::Trailers, trailers));
    }

    #[test]
    fn data_are_not_copied() {
        let mut input = Bytes::from([&get(&[])[..], b"\0\x02ab\0\x01c"].concat());
        let whole = input.clone();
        let (mut reader, mut section) = (MessageReader::new(REQUEST, LIMITS), FieldSection::new());
        let mut next = || {
            reader.next(&mut input, &mut section, |kind, payload, section| {
                read_section(kind, payload, LIMITS.section, section)
            })
        };
        assert!(matches!(next(), Ok(Some(Event::Head(_)))));
        let Ok(Some(Event::Data(data))) = next() else { panic!("no data") };
        assert_eq!(data.as_ptr(), whole[whole.len() - 5..].as_ptr());
    }

    #[test]
    fn streams_that_end_within_a_frame_close_the_connection() {
        let trailers = headers(&[("a", "b")]);
        let stream = [get(&[]), frame(frame::DATA, b"abc"), frame(0x21, b"xyz"), trailers].concat();
        assert_eq!(of(REQUEST, &stream).1, Ok(()));
        let mut whole = 0;
        for end in 1..stream.len() {
            match code(REQUEST, &stream[..end]) {
                Some(error) => assert_eq!(error, (Code::H3_FRAME_ERROR, true), "of {end} bytes"),
                None => whole += 1,
            }
        }
        assert_eq!(whole, 3, "after the header, the body, and the unknown frame");
        assert_eq!(code(REQUEST, b""), Some((Code::H3_REQUEST_INCOMPLETE, false)));
        assert_eq!(code(RESPONSE, b""), Some((Code::H3_MESSAGE_ERROR, false)));
    }

    #[test]
    fn misplaced_frames_close_the_connection() {
        let (head, trailers) = (get(&[]), headers(&[("a", "b")]));
        let data = frame(frame::DATA, b"a");
        let with = |frames: &[Vec<u8>]| code(REQUEST, &[&head[..], &frames.concat()].concat());
        let unexpected = Some((Code::H3_FRAME_UNEXPECTED, true));
        assert_eq!(code(REQUEST, &[data.clone(), head.clone()].concat()), unexpected);
        assert_eq!(code(REQUEST, &[frame(frame::DATA, b""), head.clone()].concat()), unexpected);
        assert_eq!(with(&[trailers.clone(), data.clone()]), unexpected);
        assert_eq!(with(&[trailers.clone(), trailers.clone()]), unexpected);
        for kind in [0x3, 0x4, 0x5, 0x7, 0xd, 0x2, 0x6, 0x8, 0x9, 0xf0700, 0xf0701] {
            assert_eq!(with(&[frame(kind, b"\0")]), unexpected, "{kind:#x}");
            assert_eq!(code(REQUEST, &frame(kind, b"\0")), unexpected, "{kind:#x}");
        }
        // WebTransport's frame type was not negotiated, so it counts as unknown.
        assert_eq!(with(&[frame(0x3f, b"x"), data, trailers, frame(0x21, b"")]), None);
        let push = [headers(&[(":status", "200")]), frame(0x5, b"\0\0\0")].concat();
        assert_eq!(code(RESPONSE, &push), Some((Code::H3_ID_ERROR, true)));
    }

    #[test]
    fn malformed_headers_are_errors_of_the_stream() {
        for fields in [
            &[(":method", "GET")][..],
            &[("Upper", "a")],
            &[(":method", "GET"), (":scheme", "https"), (":authority", "a"), ("x", "\n")],
        ] {
            assert_eq!(code(REQUEST, &headers(fields)), Some((Code::H3_MESSAGE_ERROR, false)));
        }
        let undecodable = frame(frame::HEADERS, b"\0\0\x80");
        assert_eq!(code(REQUEST, &undecodable), Some((Code::QPACK_DECOMPRESSION_FAILED, true)));
    }

    #[test]
    fn interim_responses_come_before_the_final_one() {
        let interim = headers(&[(":status", "103"), ("link", "a")]);
        let last = headers(&[(":status", "200")]);
        let (seen, end) = of(RESPONSE, &[&interim[..], &interim, &last, b"\0\x01a"].concat());
        assert_eq!(end, Ok(()));
        assert!(matches!(seen[1], Seen::Section(Event::Interim(Found { status: 103, .. }), _)));
        assert!(matches!(seen[2], Seen::Section(Event::Head(Found { status: 200, .. }), _)));
        assert_eq!(code(RESPONSE, &interim), Some((Code::H3_MESSAGE_ERROR, false)));
        let body = [&interim[..], b"\0\x01a"].concat();
        assert_eq!(code(RESPONSE, &body), Some((Code::H3_FRAME_UNEXPECTED, true)));
    }

    #[test]
    fn bodies_have_the_declared_length() {
        let body = |declared: &str, frames: &[&[u8]]| {
            code(REQUEST, &[&get(&[("content-length", declared)])[..], &frames.concat()].concat())
        };
        let wrong = Some((Code::H3_MESSAGE_ERROR, false));
        assert_eq!(body("3", &[b"\0\x02ab", b"\0\x01c"]), None);
        assert_eq!(body("0", &[]), None);
        assert_eq!(body("x", &[b"\0\x01a"]), None);
        assert_eq!(body("0", &[b"\0\x01a"]), wrong);
        assert_eq!(body("3", &[]), wrong);
        assert_eq!(body("3", &[b"\0\x02ab"]), wrong);
        assert_eq!(body("3", &[b"\0\x02ab", b"\0\x02cd"]), wrong);
        assert_eq!(body("3", &[b"\0\x02ab", &headers(&[("a", "b")])]), wrong);
        let response = |message, status: &str| {
            code(message, &headers(&[(":status", status), ("content-length", "3")]))
        };
        assert_eq!(response(RESPONSE, "200"), wrong);
        assert_eq!(response(RESPONSE, "304"), None);
        assert_eq!(response(Message::Response { to: Method::Head }, "200"), None);
    }

    #[test]
    fn announced_length_is_checked_before_the_payload_arrives() {
        let announced = |begin: &[u8], kind: u64, length: u64| {
            let mut stream = begin.to_vec();
            frame::write_header(kind, length, &mut stream);
            events(REQUEST, [&stream[..]]).1.unwrap_err().kind
        };
        assert_eq!(announced(b"", frame::HEADERS, varint::MAX), Kind::FieldsTooLarge);
        assert_eq!(announced(b"", 0x21, varint::MAX), Kind::ExcessiveLoad);
        assert_eq!(announced(b"", varint::MAX, varint::MAX), Kind::ExcessiveLoad);
        let head = get(&[("content-length", "3")]);
        assert_eq!(announced(&head, frame::DATA, 1 << 40), Kind::ContentLength);
        // A body of any length is permitted without a content-length.
        let (seen, end) =
            of(REQUEST, &[&get(&[])[..], b"\0\xff\xff\xff\xff\xff\xff\xff\xff"].concat());
        assert_eq!((seen.len(), end.unwrap_err().code), (1, Code::H3_FRAME_ERROR));
    }

    #[test]
    fn endless_frames_without_meaning_are_excessive_load() {
        let endless = [&get(&[])[..], &[0; 5_000]].concat();
        assert_eq!(of(REQUEST, &endless).1.unwrap_err().kind, Kind::ExcessiveLoad);
        let endless = [get(&[]), frame(0x21, b"abc").repeat(1_000)].concat();
        assert_eq!(of(REQUEST, &endless).1.unwrap_err().kind, Kind::ExcessiveLoad);
        let interim = headers(&[(":status", "103")]).repeat(1_000);
        assert_eq!(of(RESPONSE, &interim).1.unwrap_err().kind, Kind::FieldsTooLarge);
    }

    #[test]
    fn blocked_sections_continue_after_the_insertion() {
        // A required insert count of 1 and a base of 1; entry 0 is relative index 0.
        let section = b"\x02\x00\xd1\xd7\x50\x01a\xc1\x80";
        let stream = [frame(frame::HEADERS, section), b"\0\x01x".to_vec()].concat();
        for chunk in [1, 5, 100] {
            let mut decoder = qpack::Decoder::new(220, 1);
            let mut reader = MessageReader::new(REQUEST, LIMITS);
            let (mut fields, mut seen) = (FieldSection::new(), Vec::new());
            for chunk in stream.chunks(chunk) {
                let mut input = Bytes::copy_from_slice(chunk);
                while let Some(event) = reader
                    .next(&mut input, &mut fields, |kind, payload, section| {
                        let decoded = decoder.decode(0, payload, LIMITS.section, section)?;
                        match decoded {
                            qpack::Decoded::Whole => fields::check(kind, section).map(Read::Fields),
                            qpack::Decoded::Blocked(required) => Ok(Read::Blocked(required)),
                        }
                    })
                    .unwrap()
                {
                    if event == Event::Blocked(1) {
                        decoder.encoder_stream(b"\x3f\xbd\x01\x41a\x01b").unwrap();
                    }
                    seen.push(event);
                }
            }
            assert_eq!(reader.end(), Ok(()));
            assert_eq!(seen[0], Event::Blocked(1));
            assert!(matches!(seen[1], Event::Head(_)));
            assert_eq!(seen[2], Event::Data(Bytes::from_static(b"x")));
            assert_eq!(fields.get(b"a"), Some(&b"b"[..]));
        }
    }

    #[test]
    fn events_do_not_depend_on_chunks() {
        let mut noise = Noise::new(18);
        for case in 0..cases() {
            let mut stream = match case % 3 {
                0 => Vec::new(),
                1 => get(&[]),
                _ => headers(&[(":status", "200")]),
            };
            for _ in 0..noise.below(6) {
                let kind = [frame::DATA, frame::HEADERS, 0x21, noise.below(64) as u64];
                let kind = kind[noise.below(4)];
                match noise.below(3) {
                    0 if kind == frame::HEADERS => stream.extend(headers(&[("a", "b")])),
                    _ => stream.extend(frame(kind, &noise.bytes(20))),
                }
            }
            if noise.below(2) == 0 {
                stream.extend(noise.bytes(20));
            }
            for message in [REQUEST, RESPONSE, Message::Response { to: Method::Head }] {
                let whole = events(message, [&stream[..]]);
                assert_eq!(whole, events(message, noise.cut(&stream)), "{stream:?}");
            }
        }
    }
}
