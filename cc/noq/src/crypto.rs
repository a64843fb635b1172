//! fathom-plugin's session and keys behind noq's crypto traits: types and errors are translated, nothing else.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use fathom_plugin::{
    ClientCryptoConfig, CloseError, ErrorCode, HeaderProtection, KeySet, PacketProtection, ServerCryptoConfig, Tls,
    UnknownVersion, retry_tag,
};
use noq::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use noq_proto::coding::Encodable;
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError, TransportErrorCode};

use crate::handshake_data;

struct Header(HeaderProtection);

impl From<HeaderProtection> for Header {
    fn from(key: HeaderProtection) -> Self {
        Self(key)
    }
}

impl HeaderKey for Header {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.decrypt(pn_offset, packet);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.encrypt(pn_offset, packet);
    }

    fn sample_size(&self) -> usize {
        self.0.sample_size()
    }
}

/// A path's number: noq gives it only in its wire form.
fn number(path: PathId) -> u32 {
    if path == PathId::ZERO {
        return 0;
    }
    let mut bytes = [0; 8];
    path.encode(&mut &mut bytes[..]);
    fathom_frames::varint::decode(&bytes).and_then(|(number, _)| u32::try_from(number).ok()).unwrap_or(u32::MAX)
}

struct Packet(PacketProtection);

impl From<PacketProtection> for Packet {
    fn from(key: PacketProtection) -> Self {
        Self(key)
    }
}

impl PacketKey for Packet {
    fn encrypt(&self, path: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        self.0.encrypt(number(path), packet, buf, header_len);
    }

    fn decrypt(&self, path: PathId, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.0.decrypt(number(path), packet, header, payload).map_err(|_| CryptoError)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

fn packet_keys(keys: fathom_plugin::KeyPair<Packet>) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) }
}

fn keys(keys: KeySet<Header, Packet>) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(keys.header.local), remote: Box::new(keys.header.remote) },
        packet: packet_keys(keys.packet),
    }
}

/// A [`CloseError`] as noq's transport error.
struct Closing(TransportError);

impl From<CloseError> for Closing {
    fn from(close_error: CloseError) -> Self {
        let code = match close_error.code {
            ErrorCode::Alert(alert) => TransportErrorCode::crypto(alert),
            ErrorCode::ProtocolViolation => TransportErrorCode::PROTOCOL_VIOLATION,
            ErrorCode::TransportParameter => TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            ErrorCode::ConnectionRefused => TransportErrorCode::CONNECTION_REFUSED,
        };
        let mut error = TransportError::new(code, close_error.reason);
        error.crypto = close_error.tls.map(|e| Arc::new(e) as _);
        Self(error)
    }
}

struct Session(Tls);

impl Session {
    fn side(&self) -> Side {
        match self.0.side() {
            rustls::Side::Client => Side::Client,
            rustls::Side::Server => Side::Server,
        }
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        keys(self.0.initial_keys(&dst_cid, side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.0.handshake_data().map(handshake_data::noqs)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.0.peer_identity()?))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, packet) = self.0.early_crypto::<Header, Packet>()?;
        Some((Box::new(header), Box::new(packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.0.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.0.read_handshake(buf).map_err(|close_error| Closing::from(close_error).0)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let read = |raw: &[u8]| TransportParameters::read(self.side(), &mut &raw[..]).map_err(|e| Closing(e.into()));
        self.0.transport_parameters(read).map_err(|closing| closing.0)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.0.write_handshake(buf).map(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.0.next_1rtt_keys().map(packet_keys)
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.0.is_valid_retry(&orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.0.export_keying_material(output, label, context).map_err(|_| ExportKeyingMaterialError)
    }
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    parameters.write(&mut bytes);
    bytes
}

/// noq crypto configuration of one outgoing connection.
pub(crate) struct ClientCrypto(pub(crate) ClientCryptoConfig);

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let started = self.0.start(version, server_name, encoded(params));
        let tls = started.map_err(|UnknownVersion| ConnectError::UnsupportedVersion)?;
        let tls = tls.ok_or_else(|| ConnectError::InvalidServerName(server_name.into()))?;
        Ok(Box::new(Session(tls)))
    }
}

/// noq crypto configuration of an endpoint or of one accepted connection.
pub(crate) struct ServerCrypto(pub(crate) ServerCryptoConfig);

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, dst_cid: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.0.initial_keys(version, &dst_cid).map(keys).map_err(|UnknownVersion| UnsupportedVersion)
    }

    fn retry_tag(&self, _: u32, orig_dst_cid: ConnectionId, packet: &[u8]) -> [u8; 16] {
        retry_tag(&orig_dst_cid, packet)
    }

    fn start_session(&self, _: u32, params: &TransportParameters) -> Box<dyn crypto::Session> {
        Box::new(Session(self.0.start(encoded(params))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_numbers_are_read_whole() {
        for id in [0, 1, 63, 64, 16_383, 16_384, 1 << 30, u32::MAX] {
            assert_eq!(number(PathId::from(id)), id);
        }
    }
}
