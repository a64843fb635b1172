//! rustls's QUIC session, plus the extension's transport parameters.
//!
//! Stacks allow a crypto session to replace TLS. This session is `rustls::quic`, like the stacks'
//! own, with three additions. It appends the extension's transport parameters to the stack's
//! encoded ones. It reads the peer's raw transport parameters. It wraps the 1-RTT packet keys, so
//! that they add the timestamp frame while sealing a packet and remove it while opening one. The
//! stack never sees this frame.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::quic::{Connection, DirectionalKeys, KeyChange, Secrets, Suite, Version};
use rustls::{HandshakeKind, NamedGroup};

use crate::close_error::{CloseError, ErrorCode};
use crate::connection_state::ConnectionState;
use crate::packet_key::{HeaderProtection, PacketProtection};

/// Key and nonce of the Retry integrity tag for QUIC version 1 (RFC 9001 §5.8).
const RETRY_KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const RETRY_NONCE: [u8; 12] =
    [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
/// QUIC version of these sessions.
const VERSION_1: u32 = 1;

/// Error for a QUIC version that these sessions do not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion;

impl UnknownVersion {
    pub(crate) const fn check(version: u32) -> Result<(), Self> {
        if version == VERSION_1 { Ok(()) } else { Err(Self) }
    }
}

/// A pair of keys, one for each direction.
pub struct KeyPair<T> {
    /// Key for sent packets.
    pub local: T,
    /// Key for received packets.
    pub remote: T,
}

/// The keys of one encryption level.
pub struct KeySet {
    /// Header keys.
    pub header: KeyPair<HeaderProtection>,
    /// Packet keys.
    pub packet: KeyPair<PacketProtection>,
}

impl KeySet {
    /// Creates a key set. `packet` wraps each packet key. `state` is the connection's state; `None`
    /// before the connection exists.
    fn new(
        local: DirectionalKeys,
        remote: DirectionalKeys,
        state: Option<&Arc<ConnectionState>>,
        packet: impl Fn(Box<dyn rustls::quic::PacketKey>) -> PacketProtection,
    ) -> Self {
        Self {
            header: KeyPair {
                local: HeaderProtection::new(local.header, state.cloned()),
                remote: HeaderProtection::new(remote.header, state.cloned()),
            },
            packet: KeyPair { local: packet(local.packet), remote: packet(remote.packet) },
        }
    }

    fn plain(keys: rustls::quic::Keys, state: Option<&Arc<ConnectionState>>) -> Self {
        Self::new(keys.local, keys.remote, state, |key| {
            PacketProtection::padded(key, 0, state.cloned())
        })
    }
}

/// Result of the handshake, for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeData {
    /// Application protocol.
    pub protocol: Option<Vec<u8>>,
    /// Server name that the client requested; `None` on clients.
    pub server_name: Option<String>,
    /// Key exchange group; `None` until the handshake is complete.
    pub group: Option<NamedGroup>,
}

/// One connection's TLS session.
pub struct Tls {
    tls: Connection,
    initial: Suite,
    next_secrets: Option<Secrets>,
    /// Number of key updates for which keys were made.
    updates: u64,
    handshake_data_ready: bool,
    state: Arc<ConnectionState>,
}

impl Tls {
    pub(crate) const fn new(tls: Connection, initial: Suite, state: Arc<ConnectionState>) -> Self {
        Self { tls, initial, next_secrets: None, updates: 0, handshake_data_ready: false, state }
    }

    /// Returns the side of this session.
    pub const fn side(&self) -> rustls::Side {
        match self.tls {
            Connection::Client(_) => rustls::Side::Client,
            Connection::Server(_) => rustls::Side::Server,
        }
    }

    /// Returns the keys of Initial packets to or from the server whose first connection ID was
    /// `dst_cid`.
    pub fn initial_keys(&self, dst_cid: &[u8], side: rustls::Side) -> KeySet {
        KeySet::plain(self.initial.keys(dst_cid, side, Version::V1), Some(&self.state))
    }

    /// Returns the result of the handshake; `None` until [`Tls::read_handshake`] has returned true.
    pub fn handshake_data(&self) -> Option<HandshakeData> {
        self.handshake_data_ready.then(|| HandshakeData {
            protocol: self.tls.alpn_protocol().map(<[u8]>::to_vec),
            server_name: match &self.tls {
                Connection::Client(_) => None,
                Connection::Server(s) => s.server_name().map(str::to_owned),
            },
            group: self.tls.negotiated_key_exchange_group().map(|group| group.name()),
        })
    }

    /// Returns the peer's certificates.
    pub fn peer_identity(&self) -> Option<Vec<CertificateDer<'static>>> {
        Some(self.tls.peer_certificates()?.iter().map(|c| c.clone().into_owned()).collect())
    }

    /// Returns the 0-RTT keys, if a session ticket allows 0-RTT.
    pub fn early_crypto(&self) -> Option<(HeaderProtection, PacketProtection)> {
        let keys = self.tls.zero_rtt_keys()?;
        let state = Some(Arc::clone(&self.state));
        let packet =
            PacketProtection::padded(keys.packet, self.state.zero_rtt_padding(), state.clone());
        Some((HeaderProtection::new(keys.header, state), packet))
    }

    /// Returns whether the server accepted the 0-RTT data; `None` on servers.
    pub fn early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            Connection::Client(c) => Some(c.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    /// Returns whether the handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Reads bytes of CRYPTO frames. Returns true the first time that [`Tls::handshake_data`] is
    /// available.
    ///
    /// # Errors
    /// Returns TLS's own error with its alert.
    pub fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, CloseError> {
        self.tls.read_hs(bytes).map_err(|e| {
            let (code, reason) = match self.tls.alert() {
                Some(alert) => (ErrorCode::Alert(alert.into()), e.to_string()),
                None => (ErrorCode::ProtocolViolation, format!("TLS error: {e}")),
            };
            CloseError { code, reason, tls: Some(e) }
        })?;
        if let Some((suite, kind)) =
            self.tls.negotiated_cipher_suite().zip(self.tls.handshake_kind())
            && !self.tls.is_handshaking()
        {
            self.state.on_handshake_complete(suite.suite().into(), kind == HandshakeKind::Resumed);
        }
        if self.handshake_data_ready {
            return Ok(false);
        }
        let named = matches!(&self.tls, Connection::Server(s) if s.server_name().is_some());
        self.handshake_data_ready =
            named || self.tls.alpn_protocol().is_some() || !self.tls.is_handshaking();
        Ok(self.handshake_data_ready)
    }

    /// Returns the peer's transport parameters, decoded from the raw bytes by `read`. Returns
    /// `None` before they arrive. Also reads the extension's parameters from the raw bytes.
    ///
    /// # Errors
    /// Returns the error of `read`. Also returns an error if a parameter of the extension is
    /// malformed, or if the controller needs a parameter that the peer did not send.
    pub fn transport_parameters<T, E: From<CloseError>>(
        &self,
        read: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let Some(raw) = self.tls.quic_transport_parameters() else { return Ok(None) };
        let parameters = read(raw)?;
        self.state.negotiate(raw)?;
        Ok(Some(parameters))
    }

    /// Appends handshake bytes to `out`. Returns the keys of the next encryption level when they
    /// become available.
    pub fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeySet> {
        Some(match self.tls.write_hs(out)? {
            KeyChange::Handshake { keys } => KeySet::plain(keys, Some(&self.state)),
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                let state = &self.state;
                KeySet::new(keys.local, keys.remote, Some(state), |key| {
                    PacketProtection::one_rtt(key, Arc::clone(state), 0)
                })
            }
        })
    }

    /// Returns the packet keys of the next key update.
    pub fn next_1rtt_keys(&mut self) -> Option<KeyPair<PacketProtection>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        self.updates += 1;
        let wrap = |key| PacketProtection::one_rtt(key, Arc::clone(&self.state), self.updates);
        Some(KeyPair { local: wrap(keys.local), remote: wrap(keys.remote) })
    }

    /// Returns whether a Retry packet, split into header and payload, is valid for the connection
    /// attempt to `orig_dst_cid`.
    pub fn is_valid_retry(&self, orig_dst_cid: &[u8], header: &[u8], payload: &[u8]) -> bool {
        let Some((body, tag)) = payload.split_last_chunk::<16>() else { return false };
        let mut packet = Vec::with_capacity(header.len() + body.len());
        packet.extend_from_slice(header);
        packet.extend_from_slice(body);
        retry_tag(orig_dst_cid, &packet) == *tag
    }

    /// Fills `output` with keying material (RFC 5705).
    ///
    /// # Errors
    /// Returns an error if `output` is too long.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), rustls::Error> {
        self.tls.export_keying_material(output, label, Some(context)).map(drop)
    }
}

/// Returns the integrity tag of a Retry packet (RFC 9001 §5.8).
pub fn retry_tag(orig_dst_cid: &[u8], packet: &[u8]) -> [u8; 16] {
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    use aws_lc_rs::aead;
    #[cfg(feature = "ring")]
    use ring::aead;

    let mut pseudo = Vec::with_capacity(1 + orig_dst_cid.len() + packet.len());
    pseudo.push(orig_dst_cid.len() as u8);
    pseudo.extend_from_slice(orig_dst_cid);
    pseudo.extend_from_slice(packet);
    // A 16-byte AES key and an empty message are always accepted. In the worst case, an all-zero
    // tag would make the Retry invalid.
    let sealed = aead::UnboundKey::new(&aead::AES_128_GCM, &RETRY_KEY).and_then(|key| {
        let nonce = aead::Nonce::assume_unique_for_key(RETRY_NONCE);
        aead::LessSafeKey::new(key).seal_in_place_separate_tag(
            nonce,
            aead::Aad::from(&pseudo),
            &mut [],
        )
    });
    let mut tag = [0; 16];
    if let Ok(sealed) = sealed {
        tag.copy_from_slice(sealed.as_ref());
    }
    tag
}

/// Returns the keys of Initial packets (RFC 9001 §5.2) under the suite `initial`, before there is a
/// connection.
pub(crate) fn initial_keys(initial: &Suite, dst_cid: &[u8], side: rustls::Side) -> KeySet {
    KeySet::plain(initial.keys(dst_cid, side, Version::V1), None)
}

/// Returns the suite that protects Initial packets (RFC 9001 §5: AES-128-GCM).
pub(crate) fn initial_suite(provider: &rustls::crypto::CryptoProvider) -> Option<Suite> {
    provider.cipher_suites.iter().find_map(|s| match (s.suite(), s.tls13()) {
        (rustls::CipherSuite::TLS13_AES_128_GCM_SHA256, Some(suite)) => suite.quic_suite(),
        _ => None,
    })
}

/// Returns whether every QUIC suite of this provider can seal and open packets of a second path
/// (draft-ietf-quic-multipath-21 §2.4). In rustls, support for this is up to the provider.
pub(crate) fn seals_paths(provider: &rustls::crypto::CryptoProvider) -> bool {
    provider.cipher_suites.iter().filter_map(|suite| suite.tls13()?.quic_suite()).all(|suite| {
        let keys = |side| suite.keys(b"", side, Version::V1);
        let mut packet = [0; 64];
        let (payload, tag) = packet.split_at_mut(32);
        match keys(rustls::Side::Client).local.packet.encrypt_in_place_for_path(1, 0, &[], payload)
        {
            Ok(sealed) if sealed.as_ref().len() <= tag.len() => {
                let len = 32 + sealed.as_ref().len();
                tag[..len - 32].copy_from_slice(sealed.as_ref());
                let opened = keys(rustls::Side::Server).remote.packet;
                opened
                    .decrypt_in_place_for_path(1, 0, &[], &mut packet[..len])
                    .is_ok_and(|plain| plain == [0; 32])
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_tag_matches_rfc_9001_a_4() {
        // RFC 9001 §A.4: Retry for the connection of the RFC's other examples. The last 16 bytes
        // are the tag.
        let dcid = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        let packet = [
            0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62,
            0xb5, 0x74, 0x6f, 0x6b, 0x65, 0x6e,
        ];
        let tag = [
            0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24,
            0x96, 0xba,
        ];
        assert_eq!(retry_tag(&dcid, &packet), tag);
    }
}
