//! The peer's unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).

use bytes::{Buf, Bytes};

use crate::control::{ControlEvent, ControlReader, Role};
use crate::error::{Code, ProtocolError};
use crate::qpack::Decoder;
use crate::qpack::decoder::check_decoder_stream;
use crate::varint;

/// Type of the control stream.
pub const CONTROL: u64 = 0x0;
/// Type of a push stream.
pub const PUSH: u64 = 0x1;
/// Type of the QPACK encoder's stream.
pub const ENCODER: u64 = 0x2;
/// Type of the QPACK decoder's stream.
pub const DECODER: u64 = 0x3;

/// State of one unidirectional stream of the peer.
#[derive(Debug)]
pub struct PeerStream {
    kind: Kind,
    /// Received part of the stream type, or of an instruction of the decoder stream.
    begun: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The type has not arrived.
    Unknown,
    Control,
    Encoder,
    Decoder,
}

impl PeerStream {
    /// Returns the state of a new stream.
    pub const fn new() -> Self {
        Self { kind: Kind::Unknown, begun: Vec::new() }
    }
}

impl Default for PeerStream {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a stream is read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The stream is read further.
    On,
    /// The stream has an unknown type. Stop it with H3_STREAM_CREATION_ERROR.
    Stop,
}

/// State of all unidirectional streams of the peer.
pub struct PeerStreams {
    peer: Role,
    /// Whether the control, encoder and decoder streams were seen.
    seen: [bool; 3],
    control: ControlReader,
    /// Number of bytes that the streams may still take, and the largest such number.
    left: u64,
    limit: u64,
}

impl PeerStreams {
    /// Returns the state of a new connection with `peer`, whose streams may take `limit` bytes.
    pub fn new(peer: Role, limit: u64) -> Self {
        Self { peer, seen: [false; 3], control: ControlReader::new(peer), left: limit, limit }
    }

    /// Permits this many more bytes, up to the limit. A connection with many requests needs more
    /// instructions and priorities than one with few.
    pub fn replenish(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(bytes).min(self.limit);
    }

    /// Processes data of a stream. `decoder` takes those of the encoder stream, and `event` takes
    /// the events of the control stream.
    ///
    /// # Errors
    /// Returns an error that ends the connection.
    pub fn receive(
        &mut self,
        stream: &mut PeerStream,
        mut data: Bytes,
        decoder: &mut Decoder,
        mut event: impl FnMut(ControlEvent),
    ) -> Result<Read, ProtocolError> {
        match self.left.checked_sub(data.len() as u64) {
            Some(left) => self.left = left,
            None => {
                let reason = "the unidirectional streams exceed their limit";
                return Err(ProtocolError::connection(Code::H3_EXCESSIVE_LOAD, reason));
            }
        }
        while stream.kind == Kind::Unknown {
            let Some(byte) = data.first() else { return Ok(Read::On) };
            stream.begun.push(*byte);
            data.advance(1);
            if let Some((kind, _)) = varint::read(&stream.begun) {
                stream.begun.clear();
                match self.begin(kind)? {
                    Some(kind) => stream.kind = kind,
                    None => return Ok(Read::Stop),
                }
            }
        }
        match stream.kind {
            Kind::Unknown => {}
            Kind::Control => {
                while let Some(next) = self.control.next(&mut data)? {
                    event(next);
                }
            }
            Kind::Encoder => decoder.encoder_stream(&data)?,
            Kind::Decoder => {
                stream.begun.extend_from_slice(&data);
                let whole = check_decoder_stream(&stream.begun)?;
                stream.begun.drain(..whole);
            }
        }
        Ok(Read::On)
    }

    /// Starts a stream of this type. Returns `None` if the type is unknown.
    fn begin(&mut self, kind: u64) -> Result<Option<Kind>, ProtocolError> {
        let error = |code, reason| Err(ProtocolError::connection(code, reason));
        let (number, kind) = match kind {
            CONTROL => (0, Kind::Control),
            ENCODER => (1, Kind::Encoder),
            DECODER => (2, Kind::Decoder),
            PUSH if self.peer == Role::Client => {
                return error(Code::H3_STREAM_CREATION_ERROR, "a push stream of a client");
            }
            // No MAX_PUSH_ID was sent, so every push ID is too large (RFC 9114 §4.6).
            PUSH => return error(Code::H3_ID_ERROR, "a push stream without a MAX_PUSH_ID"),
            _ => return Ok(None),
        };
        // A second one is an error (RFC 9114 §6.2.1, RFC 9204 §4.2).
        if std::mem::replace(&mut self.seen[number], true) {
            let reason = "a second control, encoder or decoder stream";
            return error(Code::H3_STREAM_CREATION_ERROR, reason);
        }
        Ok(Some(kind))
    }

    /// Handles the end or the reset of a stream.
    ///
    /// # Errors
    /// Returns an error that ends the connection if the stream is critical.
    pub fn end(&mut self, stream: &PeerStream) -> Result<(), ProtocolError> {
        let reason = match stream.kind {
            Kind::Unknown => return Ok(()),
            Kind::Control => "the control stream ended",
            Kind::Encoder => "the QPACK encoder stream ended",
            Kind::Decoder => "the QPACK decoder stream ended",
        };
        Err(ProtocolError::connection(Code::H3_CLOSED_CRITICAL_STREAM, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Noise, cases};

    const LIMIT: u64 = 1_000;

    type Outcome = (Vec<ControlEvent>, Result<Read, ProtocolError>);

    /// Reads several streams, one after the other, each to its end if the flag is set.
    fn read<'a>(peer: Role, streams: impl IntoIterator<Item = (Vec<&'a [u8]>, bool)>) -> Outcome {
        let (mut all, mut decoder) = (PeerStreams::new(peer, LIMIT), Decoder::new(0, 0));
        let (mut events, mut last) = (Vec::new(), Read::On);
        for (chunks, ends) in streams {
            let mut stream = PeerStream::new();
            for chunk in chunks {
                let chunk = Bytes::copy_from_slice(chunk);
                match all.receive(&mut stream, chunk, &mut decoder, |event| events.push(event)) {
                    Ok(Read::On) => last = Read::On,
                    Ok(Read::Stop) => {
                        last = Read::Stop;
                        break;
                    }
                    Err(error) => return (events, Err(error)),
                }
                assert!(stream.begun.len() <= 16);
            }
            if ends && let Err(error) = all.end(&stream) {
                return (events, Err(error));
            }
        }
        (events, Ok(last))
    }

    fn code(peer: Role, streams: &[(&[u8], bool)]) -> Option<Code> {
        let whole = read(peer, streams.iter().map(|(stream, ends)| (vec![*stream], *ends)));
        let cut = streams.iter().map(|(stream, ends)| (stream.chunks(1).collect(), *ends));
        assert_eq!(read(peer, cut), whole, "however they are cut");
        whole.1.err().map(|error| {
            assert!(error.ends_connection());
            error.code
        })
    }

    #[test]
    fn wrong_streams_get_the_codes_of_the_rfcs() {
        for (streams, wanted) in [
            (&[(&b"\0\x04\0"[..], true)][..], Code::H3_CLOSED_CRITICAL_STREAM),
            (&[(b"\0", true)], Code::H3_CLOSED_CRITICAL_STREAM),
            (&[(b"\x02", true)], Code::H3_CLOSED_CRITICAL_STREAM),
            (&[(b"\x03", true)], Code::H3_CLOSED_CRITICAL_STREAM),
            (&[(b"\0", false), (b"\0", false)], Code::H3_STREAM_CREATION_ERROR),
            (&[(b"\x02", false), (b"\x40\x02", false)], Code::H3_STREAM_CREATION_ERROR),
            (&[(b"\x03", false), (b"\x03", false)], Code::H3_STREAM_CREATION_ERROR),
            (&[(b"\x01", false)], Code::H3_STREAM_CREATION_ERROR),
            (&[(b"\0\0\0", false)], Code::H3_MISSING_SETTINGS),
            (&[(b"\x02\x3f\x01", false)], Code::QPACK_ENCODER_STREAM_ERROR),
            (&[(b"\x03\x01", false)], Code::QPACK_DECODER_STREAM_ERROR),
        ] {
            assert_eq!(code(Role::Client, streams), Some(wanted), "{streams:?}");
        }
        assert_eq!(code(Role::Server, &[(b"\x01\0", false)]), Some(Code::H3_ID_ERROR));
        let fine: &[(&[u8], bool)] =
            &[(b"\0\x04\0", false), (b"\x02\x20", false), (b"\x03\x44", false), (b"", true)];
        assert_eq!(code(Role::Client, fine), None);
    }

    #[test]
    fn unknown_streams_are_stopped() {
        for stream in [&b"\x21abc"[..], b"\x40\x54", b"\xff\xff\xff\xff\xff\xff\xff\xff"] {
            assert_eq!(read(Role::Client, [(vec![stream], true)]).1, Ok(Read::Stop));
        }
    }

    #[test]
    fn streams_have_a_limit_that_requests_replenish() {
        let settings = Bytes::from_static(b"\0\x04\0");
        let grease = Bytes::from_static(&[0x21, 0x08, 0, 0, 0, 0, 0, 0, 0, 0]);
        for replenished in [false, true] {
            let (mut all, mut stream) = (PeerStreams::new(Role::Client, LIMIT), PeerStream::new());
            let mut decoder = Decoder::new(0, 0);
            all.receive(&mut stream, settings.clone(), &mut decoder, |_| {}).unwrap();
            let frames = (0..1_000).map(|_| {
                all.replenish(if replenished { 10 } else { 0 });
                all.receive(&mut stream, grease.clone(), &mut decoder, |_| {})
            });
            let failed = frames.filter_map(Result::err).next().map(|error| error.code);
            assert_eq!(failed, (!replenished).then_some(Code::H3_EXCESSIVE_LOAD));
        }
    }

    #[test]
    fn arbitrary_streams_do_not_depend_on_chunks() {
        let mut noise = Noise::new(20);
        for _ in 0..cases() {
            let streams: Vec<(Vec<u8>, bool)> = (0..noise.below(4))
                .map(|_| {
                    let kind = noise.below(5) as u8;
                    let begin = if kind == 0 { &b"\0\x04\0"[..] } else { &[kind] };
                    ([begin, &noise.bytes(12)].concat(), noise.below(8) == 0)
                })
                .collect();
            for peer in [Role::Client, Role::Server] {
                let whole = read(peer, streams.iter().map(|(s, ends)| (vec![&s[..]], *ends)));
                let cut: Vec<_> = streams.iter().map(|(s, ends)| (noise.cut(s), *ends)).collect();
                assert_eq!(read(peer, cut), whole, "{streams:?}");
            }
        }
    }
}
