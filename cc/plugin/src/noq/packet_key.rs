//! noq's trait for packet keys.

use bytes::BytesMut;
use noq::crypto;
use noq_proto::PathId;
use noq_proto::coding::Encodable;

use crate::packet_key::PacketProtection;

/// Returns the number of a path. noq exposes this number only in its wire form.
fn number(path: PathId) -> u32 {
    if path == PathId::ZERO {
        return 0;
    }
    let mut bytes = [0; 8];
    path.encode(&mut &mut bytes[..]);
    fathom_frames::varint::decode(&bytes)
        .and_then(|(number, _)| u32::try_from(number).ok())
        .unwrap_or(u32::MAX)
}

impl crypto::PacketKey for PacketProtection {
    fn encrypt(&self, path: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        self.encrypt(number(path), packet, buf, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), crypto::CryptoError> {
        self.decrypt(number(path), packet, header, payload).map_err(|_| crypto::CryptoError)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_ids_of_up_to_32_bits_are_read() {
        for id in [0, 1, 63, 64, 16_383, 16_384, 1 << 30, u32::MAX] {
            assert_eq!(number(PathId::from(id)), id);
        }
    }
}
