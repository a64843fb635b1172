//! Packet keys that write the frame while a packet is sealed and take it out while it is opened.
//!
//! quinn leaves `tag_len` bytes at the end of every packet for the authentication tag. A 1-RTT key that is about to carry a frame
//! reports `N` bytes more; when the packet is sealed the payload moves back by `N` and the frame goes first, because the last STREAM
//! frame of a packet may have no length. quinn never learns that a frame was there.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use quinn::crypto::{CryptoError, HeaderKey, PacketKey};

use crate::cell::Cell;

/// rustls's header protection behind quinn's trait.
pub(crate) struct HeaderProtection(pub(crate) Box<dyn rustls::quic::HeaderProtectionKey>);

/// Longest packet number (RFC 9000 §17.1).
const MAX_NUMBER_LEN: usize = 4;

impl HeaderKey for HeaderProtection {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let (header, sample) = packet.split_at_mut(pn_offset + MAX_NUMBER_LEN);
        let (first, rest) = header.split_at_mut(1);
        let sample = &sample[..self.0.sample_len()];
        // It fails only on a sample of the wrong length.
        let done = self.0.decrypt_in_place(sample, &mut first[0], &mut rest[pn_offset - 1..]);
        debug_assert!(done.is_ok(), "header protection sample length");
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        let (header, sample) = packet.split_at_mut(pn_offset + MAX_NUMBER_LEN);
        let (first, rest) = header.split_at_mut(1);
        let sample = &sample[..self.0.sample_len()];
        let done = self.0.encrypt_in_place(sample, &mut first[0], &mut rest[pn_offset - 1..]);
        debug_assert!(done.is_ok(), "header protection sample length");
    }

    fn sample_size(&self) -> usize {
        self.0.sample_len()
    }
}

/// What a key does besides sealing and opening.
enum Extra {
    /// Writes this many bytes of PADDING (0: nothing).
    Padding(usize),
    /// Carries frames for the connection of this cell.
    Frames(Arc<Cell>),
}

/// rustls's packet protection behind quinn's trait.
pub(crate) struct PacketProtection {
    key: Box<dyn rustls::quic::PacketKey>,
    tag_len: usize,
    extra: Extra,
}

impl PacketProtection {
    /// A key that only appends `padding` zero bytes: Initial, Handshake and 0-RTT.
    pub(crate) fn padded(key: Box<dyn rustls::quic::PacketKey>, padding: usize) -> Self {
        let tag_len = key.tag_len();
        Self { key, tag_len, extra: Extra::Padding(padding) }
    }

    /// A 1-RTT key of the connection of `cell`.
    pub(crate) fn one_rtt(key: Box<dyn rustls::quic::PacketKey>, cell: Arc<Cell>) -> Self {
        let tag_len = key.tag_len();
        Self { key, tag_len, extra: Extra::Frames(cell) }
    }
}

impl PacketKey for PacketProtection {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let (header, rest) = buf.split_at_mut(header_len);
        let body = rest.len() - self.tag_len;
        let (payload, tag) = rest.split_at_mut(body);
        if let Extra::Frames(cell) = &self.extra {
            cell.seal(packet, payload);
        }
        // PADDING needs no writing: quinn hands the reserved bytes over as zeros, and zero is the PADDING frame.
        let sealed = self.key.encrypt_in_place(packet, header, payload);
        debug_assert!(sealed.is_ok(), "sealing a packet");
        if let Ok(sealed) = sealed {
            tag.copy_from_slice(sealed.as_ref());
        }
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let len = self.key.decrypt_in_place(packet, header, payload).map_err(|_| CryptoError)?.len();
        payload.truncate(len);
        if let Extra::Frames(cell) = &self.extra {
            let lead = cell.open(packet, payload);
            payload.advance(lead);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.tag_len
            + match &self.extra {
                Extra::Padding(n) => *n,
                Extra::Frames(cell) => cell.reserved(),
            }
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}
