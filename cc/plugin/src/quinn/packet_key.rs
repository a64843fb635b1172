//! quinn's trait for packet keys.

use bytes::BytesMut;
use quinn::crypto;

use crate::packet_key::PacketProtection;

impl crypto::PacketKey for PacketProtection {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.encrypt(0, packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), crypto::CryptoError> {
        self.decrypt(0, packet, header, payload).map_err(|_| crypto::CryptoError)
    }

    fn tag_len(&self) -> usize {
        self.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.integrity_limit()
    }
}
