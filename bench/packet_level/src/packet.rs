//! Contents of packet-level packets. Each packet counts with its full size on the wire but stores
//! only a few bytes.

use std::time::Duration;

use fathom_cc::{OneWayDelay, Time};

/// Number of bytes in the UDP payload of a data packet that are not stream data, as in a QUIC
/// packet of the lab's stacks: 11 bytes of short header, 16 bytes of tag and about 8 bytes of
/// STREAM frame header.
pub const HEADER: u16 = 35;

/// UDP payload in bytes of a packet with an acknowledgement of one range, as for a QUIC packet with
/// an ACK frame and ECN counts. Every further range adds 4 bytes.
pub const ACK_DATAGRAM: u16 = 40;
const MORE_RANGE: u16 = 4;

/// Maximum number of ranges in an acknowledgement. A receiver forgets older ranges.
pub const MAX_RANGES: usize = 8;

/// A data packet as the sender hands it to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Packet number; used only once per connection.
    pub number: u32,
    /// Send time.
    pub sent: Time,
    /// UDP payload in bytes.
    pub size: u16,
}

/// Set of received packet numbers, as ranges from the newest to the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// First and last number of each range.
    list: [(u32, u32); MAX_RANGES],
    len: usize,
}

impl Ranges {
    /// Returns an empty set.
    pub const fn new() -> Self {
        Self { list: [(0, 0); MAX_RANGES], len: 0 }
    }

    /// Builds the set from the first and last packet number of each range, newest range first.
    /// Ranges beyond [`MAX_RANGES`] are left out.
    pub fn from_slice(ranges: &[(u32, u32)]) -> Self {
        let mut all = Self::default();
        for range in ranges.iter().take(MAX_RANGES) {
            all.list[all.len] = *range;
            all.len += 1;
        }
        all
    }

    /// Returns the first and last number of each range, newest first.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.list[..self.len]
    }

    /// Returns the newest packet number.
    pub fn largest(&self) -> Option<u32> {
        self.as_slice().first().map(|r| r.1)
    }

    /// Adds a packet number. Returns false if it is already present, or if the set is full and the
    /// number is older than all ranges.
    pub fn insert(&mut self, number: u32) -> bool {
        // In the common case, this is the number after the largest one.
        if self.len > 0 && number == self.list[0].1.wrapping_add(1) {
            self.list[0].1 = number;
            return true;
        }
        let Some(at) = self.as_slice().iter().position(|r| number >= r.0.saturating_sub(1)) else {
            return self.insert_range(self.len, number);
        };
        let (first, last) = self.list[at];
        if (first..=last).contains(&number) {
            return false;
        }
        if number > last.saturating_add(1) {
            return self.insert_range(at, number);
        }
        if number > last {
            self.list[at].1 = number;
        } else {
            self.list[at].0 = number;
            self.merge(at);
        }
        true
    }

    /// Merges the range at `at` with the next older range if the two ranges touch.
    fn merge(&mut self, at: usize) {
        if at + 1 < self.len && self.list[at + 1].1 + 1 == self.list[at].0 {
            self.list[at].0 = self.list[at + 1].0;
            self.list.copy_within(at + 2..self.len, at + 1);
            self.len -= 1;
        }
    }

    fn insert_range(&mut self, at: usize, number: u32) -> bool {
        if at >= MAX_RANGES {
            return false;
        }
        let kept = self.len.min(MAX_RANGES - 1);
        self.list.copy_within(at..kept, at + 1);
        self.list[at] = (number, number);
        self.len = kept + 1;
        true
    }
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Packet numbers received so far.
    pub ranges: Ranges,
    /// Time since the newest of these packets arrived.
    pub delay: Duration,
    /// One-way delay of the newest packet.
    pub one_way: OneWayDelay,
    /// Number of packets received so far.
    pub received: u32,
    /// Number of received packets with a Congestion Experienced mark.
    pub ce: u32,
}

impl Ack {
    /// Returns the UDP payload of the acknowledgement in bytes.
    pub fn size(&self) -> u16 {
        ACK_DATAGRAM + MORE_RANGE * self.ranges.len.saturating_sub(1) as u16
    }
}

/// Maximum number of bytes stored for a packet.
pub(super) const STORED: usize = 4 + 24 + 8 * MAX_RANGES;

/// Stored form of a packet: a byte buffer that is filled from the front.
pub(super) struct Stored {
    bytes: [u8; STORED],
    len: usize,
}

impl Stored {
    pub(super) fn new(epoch: u32) -> Self {
        let mut stored = Self { bytes: [0; STORED], len: 0 };
        stored.put(epoch.to_le_bytes());
        stored
    }

    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Takes the first `N` bytes off `bytes`.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// Stores a data packet: epoch (4 bytes), number (4), send time (8). The epoch distinguishes the
/// connections of a flow.
pub(super) fn store_data(epoch: u32, packet: &Packet) -> Stored {
    let mut s = Stored::new(epoch);
    s.put(packet.number.to_le_bytes());
    s.put(packet.sent.as_nanos().to_le_bytes());
    s
}

/// Reads the epoch, the number and the send time.
pub(super) fn read_data(mut bytes: &[u8]) -> Option<(u32, u32, Time)> {
    let epoch = u32::from_le_bytes(take(&mut bytes)?);
    let number = u32::from_le_bytes(take(&mut bytes)?);
    let sent = u64::from_le_bytes(take(&mut bytes)?);
    Some((epoch, number, Time::from_nanos(sent)))
}

/// Stores an acknowledgement: epoch (4 bytes), delay (8), one-way delay (8), packets received (4),
/// packets marked (4), and 8 bytes per range.
pub(super) fn store_ack(epoch: u32, ack: &Ack) -> Stored {
    let mut s = Stored::new(epoch);
    s.put((ack.delay.as_nanos() as u64).to_le_bytes());
    s.put(ack.one_way.as_nanos().to_le_bytes());
    s.put(ack.received.to_le_bytes());
    s.put(ack.ce.to_le_bytes());
    for (first, last) in ack.ranges.as_slice() {
        s.put(first.to_le_bytes());
        s.put(last.to_le_bytes());
    }
    s
}

/// Reads the epoch and the acknowledgement.
pub(super) fn read_ack(mut bytes: &[u8]) -> Option<(u32, Ack)> {
    let epoch = u32::from_le_bytes(take(&mut bytes)?);
    let delay = Duration::from_nanos(u64::from_le_bytes(take(&mut bytes)?));
    let one_way = OneWayDelay::from_nanos(i64::from_le_bytes(take(&mut bytes)?));
    let received = u32::from_le_bytes(take(&mut bytes)?);
    let ce = u32::from_le_bytes(take(&mut bytes)?);
    let mut ranges = Ranges::default();
    while let (Some(first), Some(last)) = (take(&mut bytes), take(&mut bytes)) {
        *ranges.list.get_mut(ranges.len)? = (u32::from_le_bytes(first), u32::from_le_bytes(last));
        ranges.len += 1;
    }
    Some((epoch, Ack { ranges, delay, one_way, received, ce }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(numbers: &[u32]) -> Vec<(u32, u32)> {
        let mut r = Ranges::default();
        for n in numbers {
            r.insert(*n);
        }
        r.as_slice().to_vec()
    }

    #[test]
    fn packet_number_ranges_grow_split_and_merge() {
        assert_eq!(ranges(&[0, 1, 2]), [(0, 2)]);
        assert_eq!(ranges(&[0, 1, 5, 6]), [(5, 6), (0, 1)]);
        assert_eq!(ranges(&[0, 2, 1]), [(0, 2)]);
        assert_eq!(ranges(&[0, 4, 2, 3]), [(2, 4), (0, 0)]);
        assert_eq!(ranges(&[0, 4, 2, 1]), [(4, 4), (0, 2)]);
        assert_eq!(ranges(&[5, 3, 1]), [(5, 5), (3, 3), (1, 1)]);
        assert_eq!(ranges(&[5, 5, 5]), [(5, 5)]);
        assert_eq!(ranges(&[7, 6, 0]), [(6, 7), (0, 0)]);
    }

    #[test]
    fn oldest_packet_number_ranges_are_discarded() {
        let odd: Vec<u32> = (0..10).map(|i| 2 * i + 1).collect();
        let kept = ranges(&odd);
        assert_eq!(kept.len(), MAX_RANGES);
        assert_eq!((kept[0], kept[7]), ((19, 19), (5, 5)));
        // A number older than all ranges is not remembered and pushes no range out.
        let mut with_older = odd;
        with_older.push(1);
        assert_eq!(ranges(&with_older), kept);
    }

    #[test]
    fn arrival_order_does_not_change_packet_number_ranges() {
        // All 720 orders of six numbers with gaps; the expected ranges follow from the set itself.
        let numbers = [0, 1, 2, 4, 5, 7];
        for mut code in 0..720 {
            let mut left = numbers.to_vec();
            let order: Vec<u32> = (1..=6)
                .rev()
                .map(|n| {
                    let pick = left.remove(code % n);
                    code /= n;
                    pick
                })
                .collect();
            assert_eq!(ranges(&order), [(7, 7), (4, 5), (0, 2)], "{order:?}");
        }
    }

    #[test]
    fn packets_round_trip_through_storage() {
        let packet = Packet { number: 77, sent: Time::from_micros(123), size: 1392 };
        assert_eq!(
            read_data(store_data(9, &packet).as_slice()),
            Some((9, 77, Time::from_micros(123)))
        );
        let ack = Ack {
            ranges: Ranges::from_slice(&[
                (19, 19),
                (17, 17),
                (15, 15),
                (13, 13),
                (11, 11),
                (9, 9),
                (7, 7),
                (0, 5),
            ]),
            delay: Duration::from_millis(25),
            one_way: OneWayDelay::from_nanos(-5),
            received: 40,
            ce: 3,
        };
        assert_eq!(read_ack(store_ack(8, &ack).as_slice()), Some((8, ack)));
        assert_eq!(ack.size(), 40 + 7 * 4);
        assert_eq!((read_data(&[1, 2, 3]), read_ack(&[0; 20])), (None, None));
    }
}
