//! The frames of the control streams (RFC 9114 §6.2.1, §7.2).

use bytes::{Buf, Bytes};

use crate::error::{Code, ProtocolError};
use crate::frame::{self, Header, HeaderReader};
use crate::priority::Priority;
use crate::settings::Settings;
use crate::varint;

/// Largest payload of a frame that is parsed, in bytes. Settings take less than a hundred bytes, and
/// priorities less than twenty.
const LARGEST: u64 = 1 << 10;

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that sends requests.
    Client,
    /// The end that sends responses.
    Server,
}

/// Contents of a frame on the peer's control stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// The peer's settings, the first event.
    Settings(Settings),
    /// The peer accepts no requests from this stream ID on, or no pushes from this push ID on
    /// (RFC 9114 §5.2).
    GoAway(u64),
    /// The client accepts pushes up to this push ID.
    MaxPushId(u64),
    /// The client changes the priority of a response (RFC 9218 §7.2).
    PriorityUpdate {
        /// Stream of the request, which may not have arrived.
        stream: u64,
        /// New priority.
        priority: Priority,
    },
}

enum Position {
    Header,
    /// Within a frame that is collected, before this many bytes.
    Frame {
        kind: u64,
        missing: usize,
    },
    /// Within a frame without meaning, before this many bytes.
    Skipped(u64),
}

/// Parser of the peer's control stream, after the type of the stream.
pub struct ControlReader {
    peer: Role,
    header: HeaderReader,
    position: Position,
    collected: Vec<u8>,
    /// Whether SETTINGS was seen.
    settings: bool,
    max_push_id: Option<u64>,
    goaway: Option<u64>,
}

#[cold]
fn error<T>(code: Code, reason: &'static str) -> Result<T, ProtocolError> {
    Err(ProtocolError::connection(code, reason))
}

impl ControlReader {
    /// Returns the parser of a stream on which `peer` sends.
    pub fn new(peer: Role) -> Self {
        Self {
            peer,
            header: HeaderReader::default(),
            position: Position::Header,
            collected: Vec::new(),
            settings: false,
            max_push_id: None,
            goaway: None,
        }
    }

    /// Returns the next event, or `None` once all of `input` is used up.
    ///
    /// # Errors
    /// Returns an error that ends the connection.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<ControlEvent>, ProtocolError> {
        loop {
            match &mut self.position {
                Position::Header => {
                    let Some(header) = self.header.read(input) else { return Ok(None) };
                    self.position = self.begin(header)?;
                    self.collected.clear();
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
                Position::Frame { kind, missing } => {
                    let length = (*missing).min(input.len());
                    self.collected.extend_from_slice(&input[..length]);
                    input.advance(length);
                    *missing -= length;
                    if *missing > 0 {
                        return Ok(None);
                    }
                    let kind = *kind;
                    self.position = Position::Header;
                    if let Some(event) = self.frame(kind)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    fn begin(&mut self, Header { kind, length, .. }: Header) -> Result<Position, ProtocolError> {
        let unexpected = |reason| error(Code::H3_FRAME_UNEXPECTED, reason);
        if kind != frame::SETTINGS && !self.settings {
            let reason = "the control stream does not begin with a SETTINGS frame";
            return error(Code::H3_MISSING_SETTINGS, reason);
        }
        let from_server = self.peer == Role::Server;
        match kind {
            frame::SETTINGS if self.settings => return unexpected("a second SETTINGS frame"),
            frame::SETTINGS => self.settings = true,
            frame::DATA | frame::HEADERS | frame::PUSH_PROMISE => {
                return unexpected("a frame of a request on the control stream");
            }
            frame::MAX_PUSH_ID if from_server => {
                return unexpected("a MAX_PUSH_ID frame of a server");
            }
            frame::PRIORITY_UPDATE_REQUEST | frame::PRIORITY_UPDATE_PUSH if from_server => {
                return unexpected("a PRIORITY_UPDATE frame of a server");
            }
            frame::GOAWAY | frame::MAX_PUSH_ID | frame::CANCEL_PUSH
                if !matches!(length, 1 | 2 | 4 | 8) =>
            {
                return error(Code::H3_FRAME_ERROR, "the payload of a frame is not one integer");
            }
            frame::GOAWAY | frame::MAX_PUSH_ID | frame::CANCEL_PUSH => {}
            frame::PRIORITY_UPDATE_REQUEST | frame::PRIORITY_UPDATE_PUSH => {}
            kind if frame::is_http2(kind) => return unexpected("a frame type of HTTP/2"),
            _ => return Ok(Position::Skipped(length)),
        }
        if length > LARGEST {
            return error(Code::H3_EXCESSIVE_LOAD, "a frame of the control stream is too large");
        }
        Ok(Position::Frame { kind, missing: length as usize })
    }

    /// Handles the complete frame that was collected.
    fn frame(&mut self, kind: u64) -> Result<Option<ControlEvent>, ProtocolError> {
        if kind == frame::SETTINGS {
            return Settings::parse(&self.collected).map(|s| Some(ControlEvent::Settings(s)));
        }
        if matches!(kind, frame::PRIORITY_UPDATE_REQUEST | frame::PRIORITY_UPDATE_PUSH) {
            return self.priority_update(kind);
        }
        let Some(id) = varint::only(&self.collected) else {
            return error(Code::H3_FRAME_ERROR, "the payload of a frame is not one integer");
        };
        match kind {
            frame::MAX_PUSH_ID => {
                if self.max_push_id.is_some_and(|before| id < before) {
                    return error(Code::H3_ID_ERROR, "MAX_PUSH_ID became smaller");
                }
                self.max_push_id = Some(id);
                Ok(Some(ControlEvent::MaxPushId(id)))
            }
            // Nothing was promised, neither by us nor by a server that may not push
            // (RFC 9114 §7.2.3).
            frame::CANCEL_PUSH => {
                error(Code::H3_ID_ERROR, "a CANCEL_PUSH frame for a push that was not promised")
            }
            _ => {
                if self.peer == Role::Server && !id.is_multiple_of(4) {
                    return error(Code::H3_ID_ERROR, "GOAWAY has no ID of a request stream");
                }
                if self.goaway.is_some_and(|before| id > before) {
                    return error(Code::H3_ID_ERROR, "the ID of GOAWAY became larger");
                }
                self.goaway = Some(id);
                Ok(Some(ControlEvent::GoAway(id)))
            }
        }
    }

    /// Handles a PRIORITY_UPDATE frame (RFC 9218 §7.2). An invalid priority is ignored.
    fn priority_update(&self, kind: u64) -> Result<Option<ControlEvent>, ProtocolError> {
        let Some((stream, size)) = varint::read(&self.collected) else {
            return error(Code::H3_FRAME_ERROR, "a PRIORITY_UPDATE frame without an ID");
        };
        if kind == frame::PRIORITY_UPDATE_PUSH {
            let reason = "a PRIORITY_UPDATE frame for a push that was not promised";
            return error(Code::H3_ID_ERROR, reason);
        }
        if !stream.is_multiple_of(4) {
            return error(Code::H3_ID_ERROR, "PRIORITY_UPDATE has no ID of a request stream");
        }
        let priority = Priority::parse(&self.collected[size..]);
        Ok(priority.map(|priority| ControlEvent::PriorityUpdate { stream, priority }))
    }
}

/// Appends a GOAWAY frame (RFC 9114 §7.2.6).
pub fn write_goaway(id: u64, to: &mut Vec<u8>) {
    frame::write_header(frame::GOAWAY, varint::size(id) as u64, to);
    varint::write(id, to);
}

/// Appends a PRIORITY_UPDATE frame for a request (RFC 9218 §7.2).
pub fn write_priority_update(stream: u64, priority: Priority, to: &mut Vec<u8>) {
    let value = priority.to_string();
    let length = varint::size(stream) + value.len();
    frame::write_header(frame::PRIORITY_UPDATE_REQUEST, length as u64, to);
    varint::write(stream, to);
    to.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    const SETTINGS: &[u8] = b"\x04\0";

    fn events<'a>(
        peer: Role,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<ControlEvent>, Option<ProtocolError>) {
        let (mut reader, mut events) = (ControlReader::new(peer), Vec::new());
        for chunk in chunks {
            let mut input = Bytes::copy_from_slice(chunk);
            loop {
                assert!(reader.collected.len() as u64 <= LARGEST);
                match reader.next(&mut input) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(error) => return (events, Some(error)),
                }
            }
            assert!(input.is_empty());
        }
        (events, None)
    }

    fn code(peer: Role, stream: &[u8]) -> Option<Code> {
        let whole = events(peer, [stream]);
        assert_eq!(whole, events(peer, stream.chunks(1)), "however it is cut");
        whole.1.map(|error| {
            assert!(error.ends_connection());
            error.code
        })
    }

    #[test]
    fn frames_become_events() {
        let mut stream = b"\x04\x02\x06\x3f\x21\x03abc\x0d\x01\x05".to_vec();
        write_goaway(4, &mut stream);
        let priority = Priority { urgency: 1, incremental: true };
        write_priority_update(8, priority, &mut stream);
        let settings = Settings { max_field_section_size: Some(63), ..Settings::default() };
        let wanted = vec![
            ControlEvent::Settings(settings),
            ControlEvent::MaxPushId(5),
            ControlEvent::GoAway(4),
            ControlEvent::PriorityUpdate { stream: 8, priority },
        ];
        assert_eq!(events(Role::Client, [&stream[..]]), (wanted, None));
        assert_eq!(code(Role::Client, &stream), None);
    }

    #[test]
    fn wrong_frames_get_the_codes_of_rfc_9114() {
        for (stream, wanted) in [
            (&b"\x21\0"[..], Code::H3_MISSING_SETTINGS),
            (b"\x07\x01\0", Code::H3_MISSING_SETTINGS),
            (b"\0\0", Code::H3_MISSING_SETTINGS),
        ] {
            assert_eq!(code(Role::Client, stream), Some(wanted), "{stream:?}");
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
            (b"\x07\x01\x04\x07\x01\x08", Code::H3_ID_ERROR),
            (b"\x03\x01\0", Code::H3_ID_ERROR),
            // PRIORITY_UPDATE without an ID, for another kind of stream, and for a push.
            (b"\x80\x0f\x07\0\0", Code::H3_FRAME_ERROR),
            (b"\x80\x0f\x07\0\x01\x02", Code::H3_ID_ERROR),
            (b"\x80\x0f\x07\x01\x01\0", Code::H3_ID_ERROR),
            (b"\x80\x0f\x07\0\x44\x01", Code::H3_EXCESSIVE_LOAD),
        ] {
            let stream = [SETTINGS, frames].concat();
            assert_eq!(code(Role::Client, &stream), Some(wanted), "{frames:?}");
        }
        let after = |frames: &[u8]| [SETTINGS, frames].concat();
        assert_eq!(code(Role::Client, &after(b"\x0d\x01\x05\x0d\x01\x05\x0d\x02\x40\x06")), None);
        for (frames, wanted) in [
            (&b"\x0d\x01\0"[..], Code::H3_FRAME_UNEXPECTED),
            (b"\x80\x0f\x07\0\x01\0", Code::H3_FRAME_UNEXPECTED),
            (b"\x07\x01\x02", Code::H3_ID_ERROR),
        ] {
            assert_eq!(code(Role::Server, &after(frames)), Some(wanted), "{frames:?}");
        }
        assert_eq!(code(Role::Client, b"\x04\x44\x01"), Some(Code::H3_EXCESSIVE_LOAD));
    }

    #[test]
    fn invalid_priorities_are_ignored() {
        let stream = [SETTINGS, b"\x80\x0f\x07\0\x03\0u=\x07\x01\x03"].concat();
        let (events, error) = events(Role::Client, [&stream[..]]);
        assert_eq!((events.len(), error), (2, None));
    }

    #[test]
    fn events_do_not_depend_on_chunks() {
        let mut noise = Noise::new(19);
        for _ in 0..cases() {
            let mut stream = [b"", SETTINGS][noise.below(2)].to_vec();
            for _ in 0..noise.below(5) {
                let kind = [0x7, 0xd, 0xf0700, 0x21, noise.below(64) as u64][noise.below(5)];
                let payload = noise.bytes(9);
                frame::write_header(kind, payload.len() as u64, &mut stream);
                stream.extend(payload);
            }
            stream.extend(noise.bytes(4));
            for peer in [Role::Client, Role::Server] {
                let whole = events(peer, [&stream[..]]);
                assert_eq!(whole, events(peer, noise.cut(&stream)), "{stream:?}");
            }
        }
    }
}
