//! Packets coalesced in one datagram (RFC 9000 §12.2).

/// Returns the part of a datagram after the packets with long headers. quiche discards the
/// handshake keys once the handshake is over, and drops everything after a packet that it cannot
/// decrypt. A client that closes at once also sends its close under the handshake keys. Without
/// this function, the close would be lost.
pub(super) fn packets_after_handshake(mut datagram: &mut [u8]) -> &mut [u8] {
    while let Some(length) = long(datagram) {
        datagram = datagram.split_at_mut_checked(length).map_or(&mut [], |(_, rest)| rest);
    }
    datagram
}

/// Returns the length of the first packet of a datagram, if the packet has a long header of version
/// 1 (RFC 9000 §17.2).
fn long(datagram: &[u8]) -> Option<usize> {
    const INITIAL: u8 = 0;
    let (first, rest) = datagram.split_first().filter(|(first, _)| **first & 0x80 != 0)?;
    // Skip the version and both connection IDs.
    let mut rest = rest.get(4..)?;
    for _ in 0..2 {
        let (length, id) = rest.split_first()?;
        rest = id.get(usize::from(*length)..)?;
    }
    if (first >> 4) & 3 == INITIAL {
        let (token, behind) = number(rest)?;
        rest = behind.get(token..)?;
    }
    let (length, rest) = number(rest)?;
    (datagram.len() - rest.len()).checked_add(length)
}

/// Returns a variable-length integer (RFC 9000 §16) and the bytes that follow it.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let length = 1usize << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    let value = number.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    // The two highest bits encode the length.
    let value = value & (u64::MAX >> (66 - 8 * length));
    usize::try_from(value).ok().map(|value| (value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rtt_packets_are_found_behind_long_header_packets() {
        let handshake = [&[0xe0, 0, 0, 0, 1, 2, 7, 7, 1, 9, 0x40, 5][..], &[3; 5]].concat();
        let initial = [&[0xc0, 0, 0, 0, 1, 0, 0, 2, 8, 8, 4][..], &[3; 4]].concat();
        let mut both = [&initial[..], &handshake, &[0x41, 1, 2]].concat();
        assert_eq!(packets_after_handshake(&mut both), [0x41, 1, 2]);
        assert_eq!(packets_after_handshake(&mut [0x41, 1]), [0x41, 1]);
        for end in 0..both.len() {
            let rest = packets_after_handshake(&mut both[..end]).len();
            assert!(rest <= end);
        }
        assert!(packets_after_handshake(&mut handshake.clone()).is_empty());
        for (bytes, value) in
            [(&[0x25][..], 37), (&[0x7b, 0xbd], 15_293), (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333)]
        {
            assert_eq!(number(bytes).map(|(n, _)| n), Some(value));
        }
        assert_eq!(number(&[0xff; 8]).map(|(n, _)| n as u64), Some((1 << 62) - 1));
    }
}
