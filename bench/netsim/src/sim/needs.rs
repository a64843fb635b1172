//! Bytes that flows need to send. They distinguish first transmissions from duplicates.
//!
//! Packets are encrypted, and stacks differ in what they reveal about their senders. However, every
//! stack must carry the flow's requests and responses. Therefore, a flow's data packets count as
//! first-time data until they have carried as many bytes as these need, and as duplicates from then
//! on. The order of the packets does not matter. For a flow whose response arrives, the sums are
//! correct, and only the sums are kept. The kind of a packet is inferred from outside: a long
//! header by its first byte, an acknowledgement by its size.

use super::direction::Direction;
use crate::link::Purpose;

/// Bytes of a 1-RTT packet's UDP payload that are not stream data: first byte, packet number, tag
/// and frame header. The connection ID is not included.
const OVERHEAD: usize = 1 + 2 + 16 + 5;
/// Largest UDP payload in bytes of a 1-RTT datagram that counts as acknowledgements. An ACK frame
/// with a dozen ranges and a timestamp fits.
const ACKNOWLEDGEMENTS: usize = 100;
/// Bit of the first byte that marks a long header (RFC 9000 §17.2). `INITIAL` and `RETRY` are the
/// packet types that have other fields.
const LONG: u8 = 0x80;
const INITIAL: u8 = 0;
const RETRY: u8 = 3;

/// Bytes that one flow needs to send, and bytes that it has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    down: Way,
    up: Way,
    /// Whether the flow's client has closed the connection.
    pub(crate) closed: bool,
}

/// Needs and state of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    needed: u64,
    sent: u64,
    known: bool,
    /// Length of the connection ID that the sender of this direction chose for itself.
    connection_id: u8,
}

impl Way {
    fn need(&mut self, bytes: u64) {
        self.needed = self.needed.saturating_add(bytes);
        self.known = true;
    }
}

impl Needs {
    /// Adds the bytes of a response (`down`) and a request (`up`), including the frames of HTTP and
    /// QUIC.
    pub(crate) fn add(&mut self, down: u64, up: u64) {
        self.down.need(down);
        self.up.need(up);
    }

    /// Returns the purpose of a datagram of `wire` bytes that leaves now, and counts its data.
    pub(crate) fn on_sent(&mut self, direction: Direction, datagram: &[u8], wire: u32) -> Purpose {
        let (way, back) = match direction {
            Direction::Down => (&mut self.down, &self.up),
            Direction::Up => (&mut self.up, &self.down),
        };
        if let Some(length) = source_connection_id(datagram) {
            way.connection_id = length;
        }
        let handshake = datagram.first().is_none_or(|first| first & LONG != 0);
        let payload = behind_long_headers(datagram).len();
        let overhead = OVERHEAD + usize::from(back.connection_id);
        let data = if payload > ACKNOWLEDGEMENTS { (payload - overhead) as u64 } else { 0 };
        let left = way.needed.saturating_sub(way.sent);
        way.sent += data;
        let duplicate = data.saturating_sub(left);
        match (handshake, data) {
            (true, _) => Purpose::Handshake,
            (false, 0) => Purpose::Acknowledgements,
            (false, _) if !way.known => Purpose::Other,
            (false, _) => Purpose::Data { duplicate: (u64::from(wire) * duplicate / data) as u32 },
        }
    }
}

/// Returns the part of a datagram that follows its packets with long headers
/// (RFC 9000 §12.2, §17.2). This part is a 1-RTT packet, or empty. The length fields are not
/// protected.
fn behind_long_headers(datagram: &[u8]) -> &[u8] {
    // The first byte of a 1-RTT packet may have any value below 128, because stacks grease the
    // fixed bit (RFC 9287).
    if datagram.first().is_some_and(|first| first & LONG == 0) {
        return datagram;
    }
    let mut rest = datagram;
    loop {
        match rest.first() {
            // Zeros after the last packet are padding.
            None | Some(0) => return &[],
            Some(first) if first & LONG == 0 => return rest,
            Some(_) => match after_long_packet(rest) {
                Some(after) => rest = after,
                None => return &[],
            },
        }
    }
}

/// Returns the bytes that follow a packet with a long header.
fn after_long_packet(packet: &[u8]) -> Option<&[u8]> {
    let (&[first, _, _, _, _], rest) = packet.split_first_chunk()?;
    let rest = after_connection_id(after_connection_id(rest)?)?;
    let rest = match (first >> 4) & 3 {
        INITIAL => {
            let (token, rest) = varint(rest)?;
            rest.get(token..)?
        }
        RETRY => return None,
        _ => rest,
    };
    let (length, rest) = varint(rest)?;
    rest.get(length..)
}

/// Returns the length of the source connection ID of a packet with a long header.
fn source_connection_id(packet: &[u8]) -> Option<u8> {
    let (&[first, _, _, _, _], rest) = packet.split_first_chunk()?;
    (first & LONG != 0).then_some(())?;
    after_connection_id(rest)?.first().copied().filter(|length| *length <= 20)
}

fn after_connection_id(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(usize::from(*length)..)
}

/// Returns a variable-length integer (RFC 9000 §16) and the bytes that follow it.
fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let first = *bytes.first()?;
    let (int, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value = int
        .iter()
        .skip(1)
        .fold(usize::from(first & 0x3f), |value, byte| value << 8 | usize::from(*byte));
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_requested_data_count_as_duplicates() {
        let mut needs = Needs::default();
        needs.add(2_000, 300);
        let send = |needs: &mut Needs, direction, first: u8, payload: usize| {
            let datagram = [&[first][..], &vec![0xff; payload - 1]].concat();
            needs.on_sent(direction, &datagram, payload as u32 + 28)
        };
        let mut down = |first, payload| send(&mut needs, Direction::Down, first, payload);
        assert_eq!(down(0xc0, 1_200), Purpose::Handshake);
        assert_eq!(down(0x40, 100), Purpose::Acknowledgements);
        assert_eq!(down(0x40, 1_024), Purpose::Data { duplicate: 0 });
        // 1000 of the 1500 bytes were still needed.
        assert_eq!(down(0x40, 1_524), Purpose::Data { duplicate: 1_552 / 3 });
        assert_eq!(down(0x40, 1_024), Purpose::Data { duplicate: 1_052 });
        // Needed bytes are counted separately for the other direction, and those of a second
        // request are added.
        needs.add(0, 300);
        assert_eq!(send(&mut needs, Direction::Up, 0x40, 624), Purpose::Data { duplicate: 0 });
        assert_eq!(send(&mut needs, Direction::Up, 0x40, 624), Purpose::Data { duplicate: 652 });
    }

    #[test]
    fn packets_of_flows_without_requested_data_are_not_classified() {
        assert_eq!(
            Needs::default().on_sent(Direction::Down, &[0x40; 1_000], 1_028),
            Purpose::Other
        );
    }

    #[test]
    fn data_behind_a_handshake_packet_count_as_requested_data() {
        // The datagram has an Initial packet with a token of 2 bytes and 300 bytes of payload, a
        // Handshake packet of 5 bytes, and a 1-RTT packet.
        let initial =
            [&[0xc0, 0, 0, 0, 1, 2, 7, 7, 1, 7, 2, 9, 9, 0x41, 0x2c][..], &[0; 300]].concat();
        let handshake = [0xe0, 0, 0, 0, 1, 0, 0, 5, 1, 2, 3, 4, 5];
        let short = [0x40; 325];
        let datagram = [&initial[..], &handshake, &short].concat();
        assert_eq!(behind_long_headers(&datagram), short);
        assert!(behind_long_headers(&[&initial[..], &[0; 500]].concat()).is_empty(), "padding");
        assert_eq!(behind_long_headers(&[0; 500]).len(), 500, "a fixed bit that is greased");
        // Truncated or unknown datagrams return nothing.
        assert!(
            (0..initial.len() + handshake.len())
                .all(|n| behind_long_headers(&datagram[..n]).is_empty())
        );
        let mut needs = Needs::default();
        needs.add(0, 300);
        assert_eq!(needs.on_sent(Direction::Up, &datagram, 1_000), Purpose::Handshake);
        assert_eq!(needs.on_sent(Direction::Up, &short, 353), Purpose::Data { duplicate: 353 });
    }
}
