//! Packet headers of QUIC version 1 (RFC 9000 §17).

use fathom_frames::varint;

/// The only QUIC version that is parsed.
const VERSION_1: u32 = 1;
/// Length of the longest connection ID in version 1.
const MAX_CID: usize = 20;

/// The type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketType {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    /// A Version Negotiation packet, or a packet of another version.
    Other,
    /// A packet with a short header.
    OneRtt,
}

/// A protected packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) kind: PacketType,
    /// Destination connection ID. It is empty for short headers, which do not contain its length.
    pub(super) dcid: &'a [u8],
    pub(super) scid: &'a [u8],
    pub(super) token: &'a [u8],
    /// The whole packet.
    pub(super) bytes: &'a [u8],
    /// Offset of the packet number. For short headers, it is the offset of the connection ID.
    pub(super) packet_number_offset: usize,
}

/// Splits a datagram into packets (RFC 9000 §12.2). Stops at the first malformed packet.
pub(super) fn split_datagram(mut datagram: &[u8]) -> Vec<Packet<'_>> {
    let mut packets = Vec::new();
    while let Some(packet) = parse(datagram) {
        datagram = &datagram[packet.bytes.len()..];
        packets.push(packet);
    }
    packets
}

fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let head = *bytes.first()?;
    if head & 0x80 == 0 {
        // The fixed bit is not checked, because it may be greased (RFC 9287).
        return Some(Packet {
            kind: PacketType::OneRtt,
            dcid: &[],
            scid: &[],
            token: &[],
            bytes,
            packet_number_offset: 1,
        });
    }
    let version = u32::from_be_bytes(*bytes.get(1..5)?.first_chunk()?);
    let mut at = 5;
    let mut id = || {
        let length = usize::from(*bytes.get(at)?);
        let id = bytes.get(at + 1..at + 1 + length).filter(|id| id.len() <= MAX_CID)?;
        at += 1 + length;
        Some(id)
    };
    let (dcid, scid) = (id()?, id()?);
    let whole =
        |kind| Packet { kind, dcid, scid, token: &[], bytes, packet_number_offset: bytes.len() };
    if version != VERSION_1 {
        return Some(whole(PacketType::Other));
    }
    let kind = match head >> 4 & 3 {
        0 => PacketType::Initial,
        1 => PacketType::ZeroRtt,
        2 => PacketType::Handshake,
        _ => return Some(whole(PacketType::Retry)),
    };
    let mut number = || {
        let (value, length) = varint::decode(bytes.get(at..)?)?;
        at += length;
        usize::try_from(value).ok()
    };
    let token_length = if kind == PacketType::Initial { number()? } else { 0 };
    let token = bytes.get(at..at.checked_add(token_length)?)?;
    at += token_length;
    let mut number = || {
        let (value, length) = varint::decode(bytes.get(at..)?)?;
        at += length;
        usize::try_from(value).ok()
    };
    let length = number()?;
    let bytes = bytes.get(..at.checked_add(length)?)?;
    Some(Packet { kind, dcid, scid, token, bytes, packet_number_offset: at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalesced_packets_are_split_and_malformed_ones_ignored() {
        let initial = [&[0xc0, 0, 0, 0, 1, 2, 7, 8, 1, 9, 3, 1, 2, 3, 5][..], &[6; 5]].concat();
        let handshake = [&[0xe0, 0, 0, 0, 1, 2, 7, 8, 1, 9, 0x40, 4][..], &[6; 4]].concat();
        let all = [&initial[..], &handshake, &[0x41, 7, 8, 1]].concat();
        let packets = split_datagram(&all);
        let kinds: Vec<PacketType> = packets.iter().map(|p| p.kind).collect();
        assert_eq!(kinds, [PacketType::Initial, PacketType::Handshake, PacketType::OneRtt]);
        assert_eq!(
            (packets[0].dcid, packets[0].scid, packets[0].token),
            (&[7, 8][..], &[9][..], &[1, 2, 3][..])
        );
        assert_eq!(
            (packets[0].packet_number_offset, packets[1].bytes.len(), packets[2].bytes),
            (15, 16, &[0x41, 7, 8, 1][..])
        );
        for end in 0..all.len() {
            let read: usize = split_datagram(&all[..end]).iter().map(|p| p.bytes.len()).sum();
            assert!(read <= end);
        }
        let retry = split_datagram(&[0xf0, 0, 0, 0, 1, 0, 2, 5, 5, 1, 2, 3]);
        assert_eq!((retry[0].kind, retry[0].scid), (PacketType::Retry, &[5, 5][..]));
        assert_eq!(split_datagram(&[0x80, 0, 0, 0, 0, 0, 0])[0].kind, PacketType::Other);
        let huge = [&[0xc0, 0, 0, 0, 1, 0, 0][..], &[0xff; 8], &[0xff; 8]].concat();
        assert!(split_datagram(&huge).is_empty());
    }
}
