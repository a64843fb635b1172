//! What TLS's messages say (RFC 8446 §4).

use fathom_frames::parameter::ack_delay_exponent;
use fathom_frames::{Offer, varint};
use serde::Serialize;

/// Bytes of a CRYPTO stream that are kept: no hello is longer.
const MOST: usize = 1 << 16;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const ALPN: u16 = 16;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const TRANSPORT_PARAMETERS: u16 = 57;
/// The random of a HelloRetryRequest (RFC 8446 §4.1.3).
const RETRY_REQUEST: [u8; 4] = [0xcf, 0x21, 0xad, 0x74];
/// enable_timestamp (draft-huitema-quic-ts).
const ENABLE_TIMESTAMP: u64 = 0x7158;

/// One direction of CRYPTO frames at one level, put together.
#[derive(Debug, Default)]
pub(super) struct Stream {
    bytes: Vec<u8>,
    waiting: Vec<(usize, Vec<u8>)>,
}

impl Stream {
    /// Adds a frame's bytes.
    pub(super) fn add(&mut self, offset: u64, data: &[u8]) {
        let Ok(offset) = usize::try_from(offset) else { return };
        if offset.saturating_add(data.len()) > MOST || self.waiting.len() > 64 {
            return;
        }
        self.waiting.push((offset, data.to_vec()));
        while let Some(at) = self.waiting.iter().position(|(offset, _)| *offset <= self.bytes.len()) {
            let (offset, data) = self.waiting.swap_remove(at);
            if let Some(new) = data.get(self.bytes.len() - offset..) {
                self.bytes.extend_from_slice(new);
            }
        }
    }

    /// Its whole messages: type and body.
    fn messages(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (head, body) = rest.split_first_chunk::<4>()?;
            let length = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
            let (body, after) = body.split_at_checked(length)?;
            rest = after;
            Some((head[0], body))
        })
    }

    pub(super) fn client_hello(&self) -> Option<ClientHello> {
        self.messages().find(|(kind, _)| *kind == CLIENT_HELLO).and_then(|(_, body)| ClientHello::read(body))
    }

    /// The last: a HelloRetryRequest comes before the real one.
    pub(super) fn server_hello(&self) -> Option<ServerHello> {
        self.messages().filter(|(kind, _)| *kind == SERVER_HELLO).filter_map(|(_, body)| ServerHello::read(body)).last()
    }

    pub(super) fn encrypted_extensions(&self) -> Option<EncryptedExtensions> {
        let (_, body) = self.messages().find(|(kind, _)| *kind == ENCRYPTED_EXTENSIONS)?;
        let mut extensions = EncryptedExtensions::default();
        let mut reader = Reader(body);
        let mut reader = Reader(reader.with_length(2)?);
        while let Some((kind, data)) = reader.extension() {
            match kind {
                ALPN => extensions.protocol = protocols(data).into_iter().next(),
                EARLY_DATA => extensions.early_data = true,
                TRANSPORT_PARAMETERS => extensions.parameters = Parameters::read(data),
                _ => {}
            }
        }
        Some(extensions)
    }
}

/// A client's first words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientHello {
    #[serde(skip)]
    pub(super) random: Vec<u8>,
    /// Suites offered; values that mean nothing (RFC 8701) are left out.
    pub suites: Vec<u16>,
    /// Protocols offered.
    pub protocols: Vec<String>,
    /// 0-RTT is on its way.
    pub early_data: bool,
    /// It goes on from a session before.
    pub resumes: bool,
    /// Transport parameters.
    pub parameters: Parameters,
}

/// What of the transport parameters matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Parameters {
    /// sync_timestamp: `lean` or `paper`.
    pub sync_timestamp: Option<String>,
    /// enable_timestamp.
    pub enable_timestamp: Option<u64>,
    /// ack_delay_exponent; `None` where it is out of bounds.
    pub ack_delay_exponent: Option<u8>,
}

impl Parameters {
    fn read(mut bytes: &[u8]) -> Self {
        let found = Offer::find(bytes).ok().flatten();
        let sync_timestamp = found.map(|offer| if offer == Offer::Paper { "paper" } else { "lean" }.to_owned());
        let ack_delay_exponent = ack_delay_exponent(bytes).ok();
        let mut parameters = Self { sync_timestamp, enable_timestamp: None, ack_delay_exponent };
        while let Some((id, value, rest)) = parameter(bytes) {
            if id == ENABLE_TIMESTAMP {
                parameters.enable_timestamp = varint::decode(value).map(|(value, _)| value);
            }
            bytes = rest;
        }
        parameters
    }
}

fn parameter(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (id, at) = varint::decode(bytes)?;
    let (length, more) = varint::decode(bytes.get(at..)?)?;
    let (value, rest) = bytes.get(at + more..)?.split_at_checked(usize::try_from(length).ok()?)?;
    Some((id, value, rest))
}

impl ClientHello {
    fn read(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        reader.take(2)?;
        let random = reader.take(32)?.to_vec();
        reader.with_length(1)?;
        let suites = reader.with_length(2)?;
        let suites = suites.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let suites = suites.filter(|suite| suite & 0x0f0f != 0x0a0a).collect();
        reader.with_length(1)?;
        let mut hello = Self { random, suites, ..Self::default() };
        let mut reader = Reader(reader.with_length(2)?);
        while let Some((kind, data)) = reader.extension() {
            match kind {
                ALPN => hello.protocols = protocols(data),
                EARLY_DATA => hello.early_data = true,
                PRE_SHARED_KEY => hello.resumes = true,
                TRANSPORT_PARAMETERS => hello.parameters = Parameters::read(data),
                _ => {}
            }
        }
        Some(hello)
    }
}

/// A server's first words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerHello {
    /// The suite.
    pub suite: u16,
    /// It goes on from a session before.
    pub resumed: bool,
}

impl ServerHello {
    fn read(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        reader.take(2)?;
        if reader.take(32)?.starts_with(&RETRY_REQUEST) {
            return None;
        }
        reader.with_length(1)?;
        let suite = reader.number()?;
        reader.take(1)?;
        let mut hello = Self { suite, resumed: false };
        let mut reader = Reader(reader.with_length(2)?);
        while let Some((kind, _)) = reader.extension() {
            hello.resumed |= kind == PRE_SHARED_KEY;
        }
        Some(hello)
    }
}

/// What a server answers to the client's extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EncryptedExtensions {
    /// The protocol chosen.
    pub protocol: Option<String>,
    /// 0-RTT is taken.
    pub early_data: bool,
    /// Transport parameters.
    pub parameters: Parameters,
}

fn protocols(data: &[u8]) -> Vec<String> {
    let mut reader = Reader(data);
    let mut reader = Reader(reader.with_length(2).unwrap_or_default());
    std::iter::from_fn(|| reader.with_length(1)).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.take(2)?.first_chunk()?))
    }

    /// What follows its length, which has one or two bytes.
    fn with_length(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.take(bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        self.take(length)
    }

    fn extension(&mut self) -> Option<(u16, &'a [u8])> {
        Some((self.number()?, self.with_length(2)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind, 0, (body.len() >> 8) as u8, body.len() as u8][..], body].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
    }

    fn client_hello() -> Vec<u8> {
        let mut parameters = vec![0x71, 0x58 & 0x3f, 0];
        parameters.clear();
        Offer::Lean.append(&mut parameters);
        parameters.extend([0x80, 0, 0x71, 0x58, 1, 3]);
        let extensions = [
            extension(ALPN, b"\0\x03\x02h3"),
            extension(EARLY_DATA, b""),
            extension(TRANSPORT_PARAMETERS, &parameters),
            extension(PRE_SHARED_KEY, b"x"),
        ]
        .concat();
        let head = [&[3, 3][..], &[7; 32], &[0, 0, 4, 0x1a, 0x1a, 0x13, 0x03, 1, 0]].concat();
        message(CLIENT_HELLO, &[&head[..], &(extensions.len() as u16).to_be_bytes(), &extensions].concat())
    }

    #[test]
    fn a_client_hello_in_pieces_is_read() {
        let bytes = client_hello();
        let mut stream = Stream::default();
        let (first, second) = bytes.split_at(40);
        stream.add(40, second);
        assert!(stream.client_hello().is_none());
        stream.add(0, first);
        stream.add(10, &bytes[10..50]);
        let hello = stream.client_hello().unwrap();
        assert_eq!((hello.random, hello.suites, hello.protocols), (vec![7; 32], vec![0x1303], vec!["h3".to_owned()]));
        assert!(hello.early_data && hello.resumes);
        assert_eq!(hello.parameters.sync_timestamp.as_deref(), Some("lean"));
        assert_eq!(hello.parameters.enable_timestamp, Some(3));
    }

    #[test]
    fn a_server_hello_is_told_from_a_request_to_try_again_and_nonsense_is_survived() {
        let hello = |random: &[u8], extensions: &[u8]| {
            let head = [&[3, 3][..], random, &[0, 0x13, 0x01, 0]].concat();
            message(SERVER_HELLO, &[&head[..], &(extensions.len() as u16).to_be_bytes(), extensions].concat())
        };
        let again = hello(&[&RETRY_REQUEST[..], &[0; 28]].concat(), b"");
        let real = hello(&[5; 32], &extension(PRE_SHARED_KEY, b"\0\0"));
        let mut stream = Stream::default();
        stream.add(0, &[again, real].concat());
        assert_eq!(stream.server_hello(), Some(ServerHello { suite: 0x1301, resumed: true }));
        let answer = extension(ALPN, b"\0\x0b\x0ahq-interop");
        let answer = message(ENCRYPTED_EXTENSIONS, &[&(answer.len() as u16).to_be_bytes()[..], &answer].concat());
        let bytes = [client_hello(), answer].concat();
        for end in 0..=bytes.len() {
            let mut stream = Stream::default();
            stream.add(0, &bytes[..end]);
            let _ = (stream.client_hello(), stream.server_hello());
            let protocol = stream.encrypted_extensions().and_then(|e| e.protocol);
            assert_eq!(protocol.is_some(), end == bytes.len());
        }
        let mut stream = Stream::default();
        stream.add(u64::MAX, b"x");
        stream.add(0, &[1, 0, 0, 3, 0xff, 0xff, 0xff]);
        assert!(stream.client_hello().is_none());
    }
}
