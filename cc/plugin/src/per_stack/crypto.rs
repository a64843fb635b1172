//! Implements the stack's crypto traits for the session and its keys. This file only translates
//! types and errors.

use std::any::Any;

use super::stack::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use super::stack::{
    self, Cid, ConnectError, Receiver, Side, TransportError, TransportErrorCode,
    TransportParameters,
};
use crate::close_error::{CloseError, ErrorCode};
use crate::packet_key::{HeaderProtection, PacketProtection};
use crate::plugin::{ClientCryptoConfig, ServerCryptoConfig};
use crate::session::{self, KeySet, Tls, UnknownVersion, retry_tag};

impl HeaderKey for HeaderProtection {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.decrypt(pn_offset, packet);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.encrypt(pn_offset, packet);
    }

    fn sample_size(&self) -> usize {
        self.sample_size()
    }
}

// `PacketKey` is implemented in the stack's `packet_key`, because stacks with several paths also
// pass the path of a packet.
fn packet_keys(keys: session::KeyPair<PacketProtection>) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) }
}

impl From<KeySet> for Keys {
    fn from(keys: KeySet) -> Self {
        Self {
            header: KeyPair {
                local: Box::new(keys.header.local),
                remote: Box::new(keys.header.remote),
            },
            packet: packet_keys(keys.packet),
        }
    }
}

impl From<CloseError> for TransportError {
    fn from(close_error: CloseError) -> Self {
        let code = match close_error.code {
            ErrorCode::Alert(alert) => TransportErrorCode::crypto(alert),
            ErrorCode::ProtocolViolation => TransportErrorCode::PROTOCOL_VIOLATION,
            ErrorCode::TransportParameter => TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            ErrorCode::ConnectionRefused => TransportErrorCode::CONNECTION_REFUSED,
        };
        stack::transport_error(code, close_error)
    }
}

fn stack_side(side: rustls::Side) -> Side {
    match side {
        rustls::Side::Client => Side::Client,
        rustls::Side::Server => Side::Server,
    }
}

impl crypto::Session for Tls {
    fn initial_keys(&self, dst_cid: Cid<'_>, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        self.initial_keys(&dst_cid[..], side).into()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.handshake_data().map(stack::handshake_data)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.peer_identity()?))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, packet) = self.early_crypto()?;
        Some((Box::new(header), Box::new(packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        Ok(self.read_handshake(buf)?)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let side = stack_side(self.side());
        self.transport_parameters(|mut raw| {
            TransportParameters::read(side, &mut raw).map_err(TransportError::from)
        })
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.write_handshake(buf).map(Keys::from)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.next_1rtt_keys().map(packet_keys)
    }

    fn is_valid_retry(&self, orig_dst_cid: Cid<'_>, header: &[u8], payload: &[u8]) -> bool {
        self.is_valid_retry(&orig_dst_cid[..], header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.export_keying_material(output, label, context).map_err(|_| ExportKeyingMaterialError)
    }
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    parameters.write(&mut bytes);
    bytes
}

impl crypto::ClientConfig for ClientCryptoConfig {
    fn start_session(
        self: Receiver<'_, Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let started = self.start(version, server_name, encoded(params));
        let tls = started.map_err(|UnknownVersion| ConnectError::UnsupportedVersion)?;
        Ok(Box::new(tls.ok_or_else(|| ConnectError::InvalidServerName(server_name.into()))?))
    }
}

impl crypto::ServerConfig for ServerCryptoConfig {
    fn initial_keys(&self, version: u32, dst_cid: Cid<'_>) -> Result<Keys, UnsupportedVersion> {
        match self.initial_keys(version, &dst_cid[..]) {
            Ok(keys) => Ok(keys.into()),
            Err(UnknownVersion) => Err(UnsupportedVersion),
        }
    }

    fn retry_tag(&self, _: u32, orig_dst_cid: Cid<'_>, packet: &[u8]) -> [u8; 16] {
        retry_tag(&orig_dst_cid[..], packet)
    }

    fn start_session(
        self: Receiver<'_, Self>,
        _: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        Box::new(self.start(encoded(params)))
    }
}
