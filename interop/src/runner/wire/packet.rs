//! Headers of version 1 (RFC 9000 §17).

use fathom_frames::varint;

/// The version whose packets are read.
const VERSION_1: u32 = 1;
/// The longest connection ID of version 1.
const LONGEST_ID: usize = 20;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    /// Version negotiation, or another version.
    Other,
    /// A short header: 1-RTT.
    Short,
}

/// A packet, still protected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) kind: Kind,
    /// Of short headers: empty, since its length is not in them.
    pub(super) to: &'a [u8],
    pub(super) from: &'a [u8],
    pub(super) token: &'a [u8],
    /// From the first byte to the last of it.
    pub(super) bytes: &'a [u8],
    /// Where the packet number is; of short headers: after the first byte.
    pub(super) number_at: usize,
}

/// The packets of a datagram (RFC 9000 §12.2). What cannot be read ends it.
pub(super) fn split(mut datagram: &[u8]) -> Vec<Packet<'_>> {
    let mut packets = Vec::new();
    while let Some(packet) = first(datagram) {
        datagram = &datagram[packet.bytes.len()..];
        packets.push(packet);
    }
    packets
}

fn first(bytes: &[u8]) -> Option<Packet<'_>> {
    let head = *bytes.first()?;
    if head & 0x80 == 0 {
        // The bit that is always 1, which may be greased (RFC 9287), tells nothing.
        return Some(Packet { kind: Kind::Short, to: &[], from: &[], token: &[], bytes, number_at: 1 });
    }
    let version = u32::from_be_bytes(*bytes.get(1..5)?.first_chunk()?);
    let mut at = 5;
    let mut id = || {
        let length = usize::from(*bytes.get(at)?);
        let id = bytes.get(at + 1..at + 1 + length).filter(|id| id.len() <= LONGEST_ID)?;
        at += 1 + length;
        Some(id)
    };
    let (to, from) = (id()?, id()?);
    let whole = |kind| Packet { kind, to, from, token: &[], bytes, number_at: bytes.len() };
    if version != VERSION_1 {
        return Some(whole(Kind::Other));
    }
    let kind = match head >> 4 & 3 {
        0 => Kind::Initial,
        1 => Kind::ZeroRtt,
        2 => Kind::Handshake,
        _ => return Some(whole(Kind::Retry)),
    };
    let mut number = || {
        let (value, length) = varint::decode(bytes.get(at..)?)?;
        at += length;
        usize::try_from(value).ok()
    };
    let token_length = if kind == Kind::Initial { number()? } else { 0 };
    let token = bytes.get(at..at.checked_add(token_length)?)?;
    at += token_length;
    let mut number = || {
        let (value, length) = varint::decode(bytes.get(at..)?)?;
        at += length;
        usize::try_from(value).ok()
    };
    let length = number()?;
    let bytes = bytes.get(..at.checked_add(length)?)?;
    Some(Packet { kind, to, from, token, bytes, number_at: at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalesced_packets_are_told_apart_and_nonsense_is_survived() {
        let initial = [&[0xc0, 0, 0, 0, 1, 2, 7, 8, 1, 9, 3, 1, 2, 3, 5][..], &[6; 5]].concat();
        let handshake = [&[0xe0, 0, 0, 0, 1, 2, 7, 8, 1, 9, 0x40, 4][..], &[6; 4]].concat();
        let all = [&initial[..], &handshake, &[0x41, 7, 8, 1]].concat();
        let packets = split(&all);
        let kinds: Vec<Kind> = packets.iter().map(|p| p.kind).collect();
        assert_eq!(kinds, [Kind::Initial, Kind::Handshake, Kind::Short]);
        assert_eq!((packets[0].to, packets[0].from, packets[0].token), (&[7, 8][..], &[9][..], &[1, 2, 3][..]));
        assert_eq!((packets[0].number_at, packets[1].bytes.len(), packets[2].bytes), (15, 16, &[0x41, 7, 8, 1][..]));
        for end in 0..all.len() {
            let read: usize = split(&all[..end]).iter().map(|p| p.bytes.len()).sum();
            assert!(read <= end);
        }
        let retry = split(&[0xf0, 0, 0, 0, 1, 0, 2, 5, 5, 1, 2, 3]);
        assert_eq!((retry[0].kind, retry[0].from), (Kind::Retry, &[5, 5][..]));
        assert_eq!(split(&[0x80, 0, 0, 0, 0, 0, 0])[0].kind, Kind::Other);
        let huge = [&[0xc0, 0, 0, 0, 1, 0, 0][..], &[0xff; 8], &[0xff; 8]].concat();
        assert!(split(&huge).is_empty());
    }
}
