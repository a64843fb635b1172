//! The frames of a request or response, and their order (RFC 9114 §4.1).

use bytes::{Buf, Bytes};

use crate::error::{Code, Kind, ProtocolError};
use crate::fields::{self, ContentLength, Head, Section};
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
    Head(Head),
    /// The header of an interim response is in the field section.
    Interim(Head),
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
    Fields(Head),
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
                        Read::Fields(head) => {
                            input.advance(length);
                            return self.section(kind, head).map(Some);
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
                        Read::Fields(head) => {
                            self.collected = Vec::new();
                            self.position = Position::Header;
                            return self.section(kind, head).map(Some);
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
    fn section(&mut self, kind: Section, head: Head) -> Result<Event, ProtocolError> {
        if kind == Section::Trailers {
            self.expected = Expected::Nothing;
            self.check_length(true)?;
            return Ok(Event::Trailers);
        }
        if head.is_interim() {
            return Ok(Event::Interim(head));
        }
        let tunnel = match self.message {
            Message::Request { .. } => head.connect,
            Message::Response { to } => to == Method::Connect && (200..300).contains(&head.status),
        };
        self.expected = if tunnel { Expected::Tunnel } else { Expected::Body };
        // A tunnel has no content (RFC 9110 §9.3.6). The others have a length and no body
        // (RFC 9110 §8.6).
        let bodiless = tunnel
            || matches!(head.status, 204 | 304)
            || self.message == Message::Response { to: Method::Head };
        if let ContentLength::Length(length) = head.content_length
            && !bodiless
        {
            self.declared = Some(length);
        }
        Ok(Event::Head(head))
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
mod tests;
