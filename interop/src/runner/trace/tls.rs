//! TLS handshake messages (RFC 8446 §4).

use fathom_frames::parameter::ack_delay_exponent;
use fathom_frames::{Offer, varint};
use serde::Serialize;

/// Limit for the bytes of a CRYPTO stream, longer than any hello.
const MAX_CRYPTO: usize = 1 << 16;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const ENCRYPTED_EXTENSIONS: u8 = 8;
const ALPN: u16 = 16;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const TRANSPORT_PARAMETERS: u16 = 57;
/// The random of a HelloRetryRequest (RFC 8446 §4.1.3).
const HELLO_RETRY_REQUEST: [u8; 4] = [0xcf, 0x21, 0xad, 0x74];
/// enable_timestamp (draft-huitema-quic-ts).
const ENABLE_TIMESTAMP: u64 = 0x7158;

/// Reassembles the CRYPTO frames of one encryption level and direction.
#[derive(Debug, Default)]
pub(super) struct CryptoStream {
    bytes: Vec<u8>,
    out_of_order: Vec<(usize, Vec<u8>)>,
}

impl CryptoStream {
    /// Adds the data of a frame.
    pub(super) fn add(&mut self, offset: u64, data: &[u8]) {
        let Ok(offset) = usize::try_from(offset) else { return };
        if offset.saturating_add(data.len()) > MAX_CRYPTO || self.out_of_order.len() > 64 {
            return;
        }
        self.out_of_order.push((offset, data.to_vec()));
        while let Some(at) = self.out_of_order.iter().position(|(offset, _)| *offset <= self.bytes.len()) {
            let (offset, data) = self.out_of_order.swap_remove(at);
            if let Some(new) = data.get(self.bytes.len() - offset..) {
                self.bytes.extend_from_slice(new);
            }
        }
    }

    /// The complete messages: type and body.
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

    /// The ServerHello, which may follow a HelloRetryRequest.
    pub(super) fn server_hello(&self) -> Option<ServerHello> {
        self.messages().filter(|(kind, _)| *kind == SERVER_HELLO).filter_map(|(_, body)| ServerHello::read(body)).last()
    }

    pub(super) fn encrypted_extensions(&self) -> Option<EncryptedExtensions> {
        let (_, body) = self.messages().find(|(kind, _)| *kind == ENCRYPTED_EXTENSIONS)?;
        let mut extensions = EncryptedExtensions::default();
        let mut reader = Reader(body);
        let mut reader = Reader(reader.length_prefixed(2)?);
        while let Some((kind, data)) = reader.extension() {
            match kind {
                ALPN => extensions.protocol = protocols(data).into_iter().next(),
                EARLY_DATA => extensions.early_data = true,
                TRANSPORT_PARAMETERS => extensions.parameters = TransportParameters::read(data),
                _ => {}
            }
        }
        Some(extensions)
    }
}

/// A ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientHello {
    #[serde(skip)]
    pub(super) random: Vec<u8>,
    /// Offered cipher suites without GREASE values (RFC 8701).
    pub suites: Vec<u16>,
    /// Offered ALPN protocols.
    pub protocols: Vec<String>,
    /// Whether 0-RTT is offered.
    pub early_data: bool,
    /// Whether it offers to resume a session.
    pub resumes: bool,
    /// Transport parameters.
    pub parameters: TransportParameters,
}

/// The transport parameters that the runner uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransportParameters {
    /// sync_timestamp: `lean` or `paper`.
    pub sync_timestamp: Option<String>,
    /// enable_timestamp.
    pub enable_timestamp: Option<u64>,
    /// ack_delay_exponent; `None` if invalid.
    pub ack_delay_exponent: Option<u8>,
}

impl TransportParameters {
    fn read(mut bytes: &[u8]) -> Self {
        let found = Offer::find(bytes).ok().flatten();
        let sync_timestamp = found.map(|offer| if offer == Offer::Paper { "paper" } else { "lean" }.to_owned());
        let ack_delay_exponent = ack_delay_exponent(bytes).ok();
        let mut parameters = Self { sync_timestamp, enable_timestamp: None, ack_delay_exponent };
        while let Some((id, value, rest)) = split_parameter(bytes) {
            if id == ENABLE_TIMESTAMP {
                parameters.enable_timestamp = varint::decode(value).map(|(value, _)| value);
            }
            bytes = rest;
        }
        parameters
    }
}

fn split_parameter(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
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
        reader.length_prefixed(1)?;
        let suites = reader.length_prefixed(2)?;
        let suites = suites.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let suites = suites.filter(|suite| suite & 0x0f0f != 0x0a0a).collect();
        reader.length_prefixed(1)?;
        let mut hello = Self { random, suites, ..Self::default() };
        let mut reader = Reader(reader.length_prefixed(2)?);
        while let Some((kind, data)) = reader.extension() {
            match kind {
                ALPN => hello.protocols = protocols(data),
                EARLY_DATA => hello.early_data = true,
                PRE_SHARED_KEY => hello.resumes = true,
                TRANSPORT_PARAMETERS => hello.parameters = TransportParameters::read(data),
                _ => {}
            }
        }
        Some(hello)
    }
}

/// A ServerHello.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerHello {
    /// Cipher suite.
    pub suite: u16,
    /// Whether it resumes a session.
    pub resumed: bool,
}

impl ServerHello {
    fn read(body: &[u8]) -> Option<Self> {
        let mut reader = Reader(body);
        reader.take(2)?;
        if reader.take(32)?.starts_with(&HELLO_RETRY_REQUEST) {
            return None;
        }
        reader.length_prefixed(1)?;
        let suite = reader.u16()?;
        reader.take(1)?;
        let mut hello = Self { suite, resumed: false };
        let mut reader = Reader(reader.length_prefixed(2)?);
        while let Some((kind, _)) = reader.extension() {
            hello.resumed |= kind == PRE_SHARED_KEY;
        }
        Some(hello)
    }
}

/// The server's EncryptedExtensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EncryptedExtensions {
    /// The selected ALPN protocol.
    pub protocol: Option<String>,
    /// Whether 0-RTT is accepted.
    pub early_data: bool,
    /// Transport parameters.
    pub parameters: TransportParameters,
}

fn protocols(data: &[u8]) -> Vec<String> {
    let mut reader = Reader(data);
    let mut reader = Reader(reader.length_prefixed(2).unwrap_or_default());
    std::iter::from_fn(|| reader.length_prefixed(1)).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.take(2)?.first_chunk()?))
    }

    /// A vector with a length prefix of one or two bytes.
    fn length_prefixed(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.take(bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        self.take(length)
    }

    fn extension(&mut self) -> Option<(u16, &'a [u8])> {
        Some((self.u16()?, self.length_prefixed(2)?))
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
    fn fragmented_client_hello_is_parsed() {
        let bytes = client_hello();
        let mut stream = CryptoStream::default();
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
    fn hello_retry_request_and_malformed_input_are_ignored() {
        let hello = |random: &[u8], extensions: &[u8]| {
            let head = [&[3, 3][..], random, &[0, 0x13, 0x01, 0]].concat();
            message(SERVER_HELLO, &[&head[..], &(extensions.len() as u16).to_be_bytes(), extensions].concat())
        };
        let again = hello(&[&HELLO_RETRY_REQUEST[..], &[0; 28]].concat(), b"");
        let real = hello(&[5; 32], &extension(PRE_SHARED_KEY, b"\0\0"));
        let mut stream = CryptoStream::default();
        stream.add(0, &[again, real].concat());
        assert_eq!(stream.server_hello(), Some(ServerHello { suite: 0x1301, resumed: true }));
        let answer = extension(ALPN, b"\0\x0b\x0ahq-interop");
        let answer = message(ENCRYPTED_EXTENSIONS, &[&(answer.len() as u16).to_be_bytes()[..], &answer].concat());
        let bytes = [client_hello(), answer].concat();
        for end in 0..=bytes.len() {
            let mut stream = CryptoStream::default();
            stream.add(0, &bytes[..end]);
            let _ = (stream.client_hello(), stream.server_hello());
            let protocol = stream.encrypted_extensions().and_then(|e| e.protocol);
            assert_eq!(protocol.is_some(), end == bytes.len());
        }
        let mut stream = CryptoStream::default();
        stream.add(u64::MAX, b"x");
        stream.add(0, &[1, 0, 0, 3, 0xff, 0xff, 0xff]);
        assert!(stream.client_hello().is_none());
    }
}
