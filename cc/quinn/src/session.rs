//! A rustls session that carries the one-way-delay frame on unmodified quinn.
//!
//! quinn lets a crypto session replace TLS. This one is `rustls::quic`, as quinn's own, plus three things: it appends our transport
//! parameter to the encoded ones, reads the peer's raw ones, and wraps the 1-RTT packet keys so that the frame is written while a
//! packet is sealed and taken out while it is opened (see [`crate::key`]). quinn never sees the frame.

use std::any::Any;
use std::sync::Arc;

use quinn::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::pki_types::ServerName;
use rustls::quic::{Connection, KeyChange, Secrets, Suite, Version};

use crate::cell::Cell;
use crate::key::{HeaderProtection, PacketProtection};

/// RFC 9001 §5.8: key and nonce of the Retry integrity tag, QUIC version 1.
const RETRY_KEY: [u8; 16] =
    [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
const RETRY_NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
/// The QUIC version these sessions speak.
const VERSION_1: u32 = 1;

/// One connection's TLS session.
struct Session {
    tls: Connection,
    initial: Suite,
    next_secrets: Option<Secrets>,
    told_handshake_data: bool,
    cell: Arc<Cell>,
}

impl Session {
    fn side(&self) -> Side {
        match self.tls {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        }
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        initial_keys(&self.initial, dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        if !self.told_handshake_data {
            return None;
        }
        Some(Box::new(crypto::rustls::HandshakeData {
            protocol: self.tls.alpn_protocol().map(<[u8]>::to_vec),
            server_name: match &self.tls {
                Connection::Client(_) => None,
                Connection::Server(s) => s.server_name().map(str::to_owned),
            },
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let chain = self.tls.peer_certificates()?;
        Some(Box::new(chain.iter().map(|c| c.clone().into_owned()).collect::<Vec<_>>()))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls.zero_rtt_keys()?;
        let pad = self.cell.zero_rtt_padding();
        Some((Box::new(HeaderProtection(keys.header)), Box::new(PacketProtection::padded(keys.packet, pad))))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            Connection::Client(c) => Some(c.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.tls.read_hs(buf).map_err(|e| match self.tls.alert() {
            Some(alert) => {
                TransportError { code: TransportErrorCode::crypto(alert.into()), frame: None, reason: e.to_string() }
            }
            None => TransportError {
                code: TransportErrorCode::PROTOCOL_VIOLATION,
                frame: None,
                reason: format!("TLS error: {e}"),
            },
        })?;
        if self.told_handshake_data {
            return Ok(false);
        }
        let named = matches!(&self.tls, Connection::Server(s) if s.server_name().is_some());
        self.told_handshake_data = named || self.tls.alpn_protocol().is_some() || !self.tls.is_handshaking();
        Ok(self.told_handshake_data)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(raw) = self.tls.quic_transport_parameters() else { return Ok(None) };
        let parameters = TransportParameters::read(self.side(), &mut &raw[..])?;
        self.cell.negotiate(raw)?;
        Ok(Some(parameters))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        Some(match self.tls.write_hs(buf)? {
            KeyChange::Handshake { keys } => plain_keys(keys),
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                Keys {
                    header: header_keys(keys.local.header, keys.remote.header),
                    packet: self.one_rtt(keys.local.packet, keys.remote.packet),
                }
            }
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(self.one_rtt(keys.local, keys.remote))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((body, tag)) = payload.split_last_chunk::<16>() else { return false };
        let mut packet = Vec::with_capacity(header.len() + body.len());
        packet.extend_from_slice(header);
        packet.extend_from_slice(body);
        retry_tag(orig_dst_cid, &packet) == *tag
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.tls.export_keying_material(output, label, Some(context)).map_err(|_| ExportKeyingMaterialError)?;
        Ok(())
    }
}

impl Session {
    fn one_rtt(
        &self,
        local: Box<dyn rustls::quic::PacketKey>,
        remote: Box<dyn rustls::quic::PacketKey>,
    ) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair {
            local: Box::new(PacketProtection::one_rtt(local, Arc::clone(&self.cell))),
            remote: Box::new(PacketProtection::one_rtt(remote, Arc::clone(&self.cell))),
        }
    }
}

/// Integrity tag of a Retry packet (RFC 9001 §5.8).
fn retry_tag(orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
    use ring::aead;
    let mut pseudo = Vec::with_capacity(1 + orig_dst_cid.len() + packet.len());
    pseudo.push(orig_dst_cid.len() as u8);
    pseudo.extend_from_slice(orig_dst_cid);
    pseudo.extend_from_slice(packet);
    // A 16-byte AES key and an empty message cannot be refused; an all-zero tag would only make the Retry invalid.
    let sealed = aead::UnboundKey::new(&aead::AES_128_GCM, &RETRY_KEY).and_then(|key| {
        let nonce = aead::Nonce::assume_unique_for_key(RETRY_NONCE);
        aead::LessSafeKey::new(key).seal_in_place_separate_tag(nonce, aead::Aad::from(&pseudo), &mut [])
    });
    let mut tag = [0; 16];
    if let Ok(sealed) = sealed {
        tag.copy_from_slice(sealed.as_ref());
    }
    tag
}

fn initial_keys(suite: &Suite, dst_cid: &ConnectionId, side: Side) -> Keys {
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    plain_keys(suite.keys(dst_cid, side, Version::V1))
}

fn header_keys(
    local: Box<dyn rustls::quic::HeaderProtectionKey>,
    remote: Box<dyn rustls::quic::HeaderProtectionKey>,
) -> KeyPair<Box<dyn HeaderKey>> {
    KeyPair { local: Box::new(HeaderProtection(local)), remote: Box::new(HeaderProtection(remote)) }
}

fn plain_keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: header_keys(keys.local.header, keys.remote.header),
        packet: KeyPair {
            local: Box::new(PacketProtection::padded(keys.local.packet, 0)),
            remote: Box::new(PacketProtection::padded(keys.remote.packet, 0)),
        },
    }
}

/// The suite that protects Initial packets (RFC 9001 §5: AES-128-GCM).
pub(crate) fn initial_suite(provider: &rustls::crypto::CryptoProvider) -> Option<Suite> {
    provider.cipher_suites.iter().find_map(|s| match (s.suite(), s.tls13()) {
        (rustls::CipherSuite::TLS13_AES_128_GCM_SHA256, Some(suite)) => suite.quic_suite(),
        _ => None,
    })
}

/// Encodes quinn's transport parameters and appends ours.
fn encoded(parameters: &TransportParameters, cell: &Cell) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    parameters.write(&mut bytes);
    cell.append_parameter(&mut bytes);
    bytes
}

/// quinn crypto configuration of one outgoing connection.
pub(crate) struct ClientCrypto {
    pub(crate) tls: Arc<rustls::ClientConfig>,
    pub(crate) initial: Suite,
    pub(crate) cell: Arc<Cell>,
}

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        if version != VERSION_1 {
            return Err(ConnectError::UnsupportedVersion);
        }
        let bad_name = || ConnectError::InvalidServerName(server_name.into());
        let name = ServerName::try_from(server_name).map_err(|_| bad_name())?.to_owned();
        let tls =
            rustls::quic::ClientConnection::new(Arc::clone(&self.tls), Version::V1, name, encoded(params, &self.cell))
                .map_err(|_| bad_name())?;
        Ok(Box::new(Session {
            tls: Connection::Client(tls),
            initial: self.initial,
            next_secrets: None,
            told_handshake_data: false,
            cell: Arc::clone(&self.cell),
        }))
    }
}

/// quinn crypto configuration of a server. With a cell it is that of one accepted connection; without, the endpoint's own, whose
/// connections (those accepted without [`crate::ServerPlug::accept`]) run without the extension.
pub(crate) struct ServerCrypto {
    pub(crate) tls: Arc<rustls::ServerConfig>,
    pub(crate) initial: Suite,
    pub(crate) cell: Option<Arc<Cell>>,
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != VERSION_1 {
            return Err(UnsupportedVersion);
        }
        Ok(initial_keys(&self.initial, dst_cid, Side::Server))
    }

    fn retry_tag(&self, _: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        retry_tag(orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, params: &TransportParameters) -> Box<dyn crypto::Session> {
        let cell = self.cell.clone().unwrap_or_else(|| Arc::new(Cell::inert()));
        let tls = rustls::quic::ServerConnection::new(Arc::clone(&self.tls), Version::V1, encoded(params, &cell))
            // rustls refuses only configurations without TLS 1.3 or with a limit on early data; `Plug::server` has checked for both.
            .expect("TLS configuration checked when the plug was made");
        Box::new(Session {
            tls: Connection::Server(tls),
            initial: self.initial,
            next_secrets: None,
            told_handshake_data: false,
            cell,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_tag_is_that_of_rfc_9001_a_4() {
        // RFC 9001 §A.4: Retry for the connection of the other examples; the last 16 bytes are the tag.
        let dcid = ConnectionId::new(&[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
        let packet = [
            0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5, 0x74, 0x6f, 0x6b,
            0x65, 0x6e,
        ];
        let tag = [0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24, 0x96, 0xba];
        assert_eq!(retry_tag(&dcid, &packet), tag);
    }
}
