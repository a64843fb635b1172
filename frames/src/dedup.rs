//! Detection of duplicate packets. Payloads are read before the stack drops duplicates, so this
//! crate must itself make sure that a replayed packet does not count twice.

/// Classification of a received packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The packet is received for the first time, and its number is larger than all earlier ones.
    Newest,
    /// The packet is received for the first time, but after a packet with a larger number
    /// (reordered).
    Late,
    /// The packet was already received.
    Duplicate,
    /// The packet number is too far below the largest one to be classified. Treat the packet as a
    /// duplicate.
    TooOld,
}

/// The last [`Dedup::WINDOW`] packet numbers of one packet number space, in 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dedup {
    largest: u64,
    /// Bit field of received packets: bit i is set if `largest - i` has arrived. The field is zero
    /// only before the first packet.
    bits: u128,
}

impl Dedup {
    /// Distance from the largest number beyond which duplicates can no longer be detected.
    pub const WINDOW: u64 = 128;

    /// Records the arrival of `packet`.
    pub fn insert(&mut self, packet: u64) -> Arrival {
        if self.bits != 0 && packet.wrapping_sub(self.largest) == 1 {
            // The packet is in order, as nearly all packets are.
            self.bits = self.bits << 1 | 1;
            self.largest = packet;
            return Arrival::Newest;
        }
        if self.bits == 0 || packet > self.largest {
            let ahead = packet.saturating_sub(self.largest);
            self.bits = if ahead < Self::WINDOW { self.bits << ahead | 1 } else { 1 };
            self.largest = packet;
            return Arrival::Newest;
        }
        let behind = self.largest - packet;
        if behind >= Self::WINDOW {
            return Arrival::TooOld;
        }
        let bit = 1 << behind;
        if self.bits & bit != 0 {
            return Arrival::Duplicate;
        }
        self.bits |= bit;
        Arrival::Late
    }
}

#[cfg(test)]
mod tests {
    use super::Arrival::{Duplicate, Late, Newest, TooOld};
    use super::*;

    #[test]
    fn dedup_reports_newest_late_duplicate_or_too_old_packet() {
        let mut dedup = Dedup::default();
        let script = [
            (0, Newest),
            (0, Duplicate),
            (3, Newest),
            (1, Late),
            (1, Duplicate),
            (130, Newest),
            (3, Duplicate),
            (2, TooOld),
            (4, Late),
            (u64::MAX, Newest),
            (u64::MAX, Duplicate),
            (130, TooOld),
        ];
        for (packet, expected) in script {
            assert_eq!(dedup.insert(packet), expected, "packet {packet}");
        }
    }

    #[test]
    fn packet_numbers_lower_than_the_first_count_as_new() {
        let mut dedup = Dedup::default();
        assert_eq!(dedup.insert(50), Newest);
        assert_eq!(dedup.insert(49), Late);
        assert_eq!(dedup.insert(0), Late);
    }
}
