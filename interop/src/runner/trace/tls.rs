//! TLS handshake messages (RFC 8446 §4).

use fathom_frames::parameter::ack_delay_exponent;
use fathom_frames::{Offer, varint};
use serde::Serialize;
use tls_parser::{TlsExtension, TlsExtensionType, TlsHandshakeType};

/// Maximum number of bytes kept of a CRYPTO stream. Any hello is shorter.
const MAX_CRYPTO: usize = 1 << 16;

const TRANSPORT_PARAMETERS: TlsExtensionType = TlsExtensionType(57);
/// First bytes of the random value in a HelloRetryRequest (RFC 8446 §4.1.3).
const HELLO_RETRY_REQUEST: [u8; 4] = [0xcf, 0x21, 0xad, 0x74];
/// Transport parameter enable_timestamp (draft-huitema-quic-ts).
const ENABLE_TIMESTAMP: u64 = 0x7158;

/// A stream that reassembles the CRYPTO frames of one encryption level and direction.
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
        while let Some(at) =
            self.out_of_order.iter().position(|(offset, _)| *offset <= self.bytes.len())
        {
            let (offset, data) = self.out_of_order.swap_remove(at);
            if let Some(new) = data.get(self.bytes.len() - offset..) {
                self.bytes.extend_from_slice(new);
            }
        }
    }

    /// Returns the type and body of each complete message.
    fn messages(&self) -> impl Iterator<Item = (TlsHandshakeType, &[u8])> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (head, body) = rest.split_first_chunk::<4>()?;
            let length = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
            let (body, after) = body.split_at_checked(length)?;
            rest = after;
            Some((TlsHandshakeType(head[0]), body))
        })
    }

    pub(super) fn client_hello(&self) -> Option<ClientHello> {
        self.messages()
            .find(|(kind, _)| *kind == TlsHandshakeType::ClientHello)
            .and_then(|(_, body)| ClientHello::read(body))
    }

    /// Returns the ServerHello, which may follow a HelloRetryRequest.
    pub(super) fn server_hello(&self) -> Option<ServerHello> {
        let hellos = self.messages().filter(|(kind, _)| *kind == TlsHandshakeType::ServerHello);
        hellos.filter_map(|(_, body)| ServerHello::read(body)).last()
    }

    pub(super) fn encrypted_extensions(&self) -> Option<EncryptedExtensions> {
        let (_, body) =
            self.messages().find(|(kind, _)| *kind == TlsHandshakeType::EncryptedExtensions)?;
        let (length, extensions) = body.split_first_chunk()?;
        let Extensions { protocols, early_data, parameters, .. } =
            Extensions::read(extensions.get(..u16::from_be_bytes(*length).into())?);
        Some(EncryptedExtensions { protocol: protocols.into_iter().next(), early_data, parameters })
    }
}

/// Fields of a message's extensions that the runner uses.
#[derive(Default)]
struct Extensions {
    protocols: Vec<String>,
    early_data: bool,
    pre_shared_key: bool,
    parameters: TransportParameters,
}

impl Extensions {
    /// Reads the extensions that precede the first malformed one.
    fn read(bytes: &[u8]) -> Self {
        let mut extensions = Self::default();
        for extension in
            tls_parser::parse_tls_extensions(bytes).map_or_else(|_| Vec::new(), |(_, all)| all)
        {
            match extension {
                TlsExtension::ALPN(names) => {
                    extensions.protocols = names
                        .iter()
                        .map(|name| String::from_utf8_lossy(name).into_owned())
                        .collect();
                }
                TlsExtension::EarlyData(_) => extensions.early_data = true,
                TlsExtension::PreSharedKey(_) => extensions.pre_shared_key = true,
                TlsExtension::Unknown(TRANSPORT_PARAMETERS, data) => {
                    extensions.parameters = TransportParameters::read(data)
                }
                _ => {}
            }
        }
        extensions
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
    /// Whether the client offers to resume a session.
    pub resumes: bool,
    /// Transport parameters.
    pub parameters: TransportParameters,
}

/// Transport parameters that the runner uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransportParameters {
    /// Value of sync_timestamp: `lean` or `paper`.
    pub sync_timestamp: Option<String>,
    /// Value of enable_timestamp.
    pub enable_timestamp: Option<u64>,
    /// Value of ack_delay_exponent; `None` if the value is invalid.
    pub ack_delay_exponent: Option<u8>,
}

impl TransportParameters {
    fn read(mut bytes: &[u8]) -> Self {
        let found = Offer::find(bytes).ok().flatten();
        let sync_timestamp =
            found.map(|offer| if offer == Offer::Paper { "paper" } else { "lean" }.to_owned());
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
        let (_, hello) = tls_parser::parse_tls_handshake_client_hello(body).ok()?;
        let Extensions { protocols, early_data, pre_shared_key, parameters } =
            Extensions::read(hello.ext?);
        let suites = hello
            .ciphers
            .iter()
            .map(|suite| suite.0)
            .filter(|suite| suite & 0x0f0f != 0x0a0a)
            .collect();
        Some(Self {
            random: hello.random.to_vec(),
            suites,
            protocols,
            early_data,
            resumes: pre_shared_key,
            parameters,
        })
    }
}

/// A ServerHello.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerHello {
    /// Cipher suite.
    pub suite: u16,
    /// Whether the server resumes a session.
    pub resumed: bool,
}

impl ServerHello {
    fn read(body: &[u8]) -> Option<Self> {
        let (_, hello) = tls_parser::parse_tls_handshake_server_hello(body).ok()?;
        let resumed = Extensions::read(hello.ext?).pre_shared_key;
        (!hello.random.starts_with(&HELLO_RETRY_REQUEST))
            .then_some(Self { suite: hello.cipher.0, resumed })
    }
}

/// The server's EncryptedExtensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EncryptedExtensions {
    /// Selected ALPN protocol.
    pub protocol: Option<String>,
    /// Whether 0-RTT is accepted.
    pub early_data: bool,
    /// Transport parameters.
    pub parameters: TransportParameters,
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn message(kind: TlsHandshakeType, body: &[u8]) -> Vec<u8> {
        [&[kind.0, 0, (body.len() >> 8) as u8, body.len() as u8][..], body].concat()
    }

    fn extension(kind: TlsExtensionType, data: &[u8]) -> Vec<u8> {
        [&kind.0.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
    }

    fn client_hello() -> Vec<u8> {
        let mut parameters = Vec::new();
        Offer::Lean.append(&mut parameters);
        parameters.extend([0x80, 0, 0x71, 0x58, 1, 3]);
        let extensions = [
            extension(TlsExtensionType::ApplicationLayerProtocolNegotiation, b"\0\x03\x02h3"),
            extension(TlsExtensionType::EarlyData, b""),
            extension(TRANSPORT_PARAMETERS, &parameters),
            extension(TlsExtensionType::PreSharedKey, b"x"),
        ]
        .concat();
        let head = [&[3, 3][..], &[7; 32], &[0, 0, 4, 0x1a, 0x1a, 0x13, 0x03, 1, 0]].concat();
        message(
            TlsHandshakeType::ClientHello,
            &[&head[..], &(extensions.len() as u16).to_be_bytes(), &extensions].concat(),
        )
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
        assert_eq!(
            (hello.random, hello.suites, hello.protocols),
            (vec![7; 32], vec![0x1303], vec!["h3".to_owned()])
        );
        assert!(hello.early_data && hello.resumes);
        assert_eq!(hello.parameters.sync_timestamp.as_deref(), Some("lean"));
        assert_eq!(hello.parameters.enable_timestamp, Some(3));
    }

    #[test]
    fn hello_retry_request_and_malformed_tls_input_are_ignored() {
        let hello = |random: &[u8], extensions: &[u8]| {
            let head = [&[3, 3][..], random, &[0, 0x13, 0x01, 0]].concat();
            message(
                TlsHandshakeType::ServerHello,
                &[&head[..], &(extensions.len() as u16).to_be_bytes(), extensions].concat(),
            )
        };
        let again = hello(&[&HELLO_RETRY_REQUEST[..], &[0; 28]].concat(), b"");
        let real = hello(&[5; 32], &extension(TlsExtensionType::PreSharedKey, b"\0\0"));
        let mut stream = CryptoStream::default();
        stream.add(0, &[again, real].concat());
        assert_eq!(stream.server_hello(), Some(ServerHello { suite: 0x1301, resumed: true }));
        let answer = extension(
            TlsExtensionType::ApplicationLayerProtocolNegotiation,
            b"\0\x0b\x0ahq-interop",
        );
        let answer = message(
            TlsHandshakeType::EncryptedExtensions,
            &[&(answer.len() as u16).to_be_bytes()[..], &answer].concat(),
        );
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

    proptest! {
        #[test]
        fn tls_parser_never_panics_on_arbitrary_bytes(kind in 0u8..=8, body in vec(any::<u8>(), 0..300), changes in vec((0usize..300, any::<u8>()), 0..4)) {
            let mut corrupted = client_hello();
            for (at, byte) in changes {
                if let Some(old) = corrupted.get_mut(at) {
                    *old = byte;
                }
            }
            for bytes in [message(TlsHandshakeType(kind), &body), corrupted] {
                let mut stream = CryptoStream::default();
                stream.add(0, &bytes);
                let _ = (stream.client_hello(), stream.server_hello(), stream.encrypted_extensions());
            }
        }
    }
}
