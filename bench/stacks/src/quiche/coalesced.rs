//! Packets that share a datagram (RFC 9000 §12.2).

/// What follows the packets with long headers. quiche forgets the handshake's keys when it is over, and drops what comes behind a packet
/// that it cannot decrypt: a client that closes at once would go unheard, as it says so under the keys of the handshake, too.
pub(super) fn packets_after_handshake(mut datagram: &mut [u8]) -> &mut [u8] {
    while let Some(length) = long(datagram) {
        datagram = datagram.split_at_mut_checked(length).map_or(&mut [], |(_, rest)| rest);
    }
    datagram
}

/// Length of the packet that a datagram begins with, if its header is a long one of version 1 (RFC 9000 §17.2).
fn long(datagram: &[u8]) -> Option<usize> {
    const INITIAL: u8 = 0;
    let (first, rest) = datagram.split_first().filter(|(first, _)| **first & 0x80 != 0)?;
    // The version, both connection IDs.
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

/// A number of variable length (RFC 9000 §16), and what follows.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let length = 1usize << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    let value = number.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    // The two highest bits tell the length.
    let value = value & (u64::MAX >> (66 - 8 * length));
    usize::try_from(value).ok().map(|value| (value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rtt_packets_are_found_behind_long_headers() {
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
