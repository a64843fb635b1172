//! fathom-plugin's session and keys behind the stack's crypto traits. Only translates types and
//! errors.

use std::any::Any;

use fathom_plugin::{
    ClientCryptoConfig, CloseError, ErrorCode, HeaderProtection, KeySet, PacketProtection,
    ServerCryptoConfig, Tls, UnknownVersion, retry_tag,
};

use crate::stack::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use crate::stack::{
    self, Cid, ConnectError, Receiver, Side, TransportError, TransportErrorCode,
    TransportParameters,
};

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

/// A packet key. Its [`PacketKey`] implementation is in `packet_key`, because stacks with several
/// paths also pass a packet's path.
pub(crate) struct Packet(pub(crate) PacketProtection);

impl From<PacketProtection> for Packet {
    fn from(key: PacketProtection) -> Self {
        Self(key)
    }
}

fn packet_keys(keys: fathom_plugin::KeyPair<Packet>) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) }
}

fn keys(keys: KeySet<Header, Packet>) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.header.local),
            remote: Box::new(keys.header.remote),
        },
        packet: packet_keys(keys.packet),
    }
}

/// A [`CloseError`] as the stack's transport error.
struct Closing(TransportError);

impl From<CloseError> for Closing {
    fn from(close_error: CloseError) -> Self {
        let code = match close_error.code {
            ErrorCode::Alert(alert) => TransportErrorCode::crypto(alert),
            ErrorCode::ProtocolViolation => TransportErrorCode::PROTOCOL_VIOLATION,
            ErrorCode::TransportParameter => TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            ErrorCode::ConnectionRefused => TransportErrorCode::CONNECTION_REFUSED,
        };
        Self(stack::transport_error(code, close_error))
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
    fn initial_keys(&self, dst_cid: Cid<'_>, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        keys(self.0.initial_keys(&dst_cid[..], side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.0.handshake_data().map(stack::handshake_data)
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
        let read = |raw: &[u8]| {
            TransportParameters::read(self.side(), &mut &raw[..]).map_err(|e| Closing(e.into()))
        };
        self.0.transport_parameters(read).map_err(|closing| closing.0)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.0.write_handshake(buf).map(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.0.next_1rtt_keys().map(packet_keys)
    }

    fn is_valid_retry(&self, orig_dst_cid: Cid<'_>, header: &[u8], payload: &[u8]) -> bool {
        self.0.is_valid_retry(&orig_dst_cid[..], header, payload)
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

/// Crypto configuration of one outgoing connection, for the stack.
pub(crate) struct ClientCrypto(pub(crate) ClientCryptoConfig);

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        self: Receiver<'_, Self>,
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

/// Crypto configuration of an endpoint or of one accepted connection, for the stack.
pub(crate) struct ServerCrypto(pub(crate) ServerCryptoConfig);

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(&self, version: u32, dst_cid: Cid<'_>) -> Result<Keys, UnsupportedVersion> {
        self.0
            .initial_keys(version, &dst_cid[..])
            .map(keys)
            .map_err(|UnknownVersion| UnsupportedVersion)
    }

    fn retry_tag(&self, _: u32, orig_dst_cid: Cid<'_>, packet: &[u8]) -> [u8; 16] {
        retry_tag(&orig_dst_cid[..], packet)
    }

    fn start_session(
        self: Receiver<'_, Self>,
        _: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        Box::new(Session(self.0.start(encoded(params))))
    }
}
