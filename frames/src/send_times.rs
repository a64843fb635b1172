//! Send times of our packets, kept until the peer acknowledges a newer packet.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use fathom_units::Time;

/// Send times of the packets of one packet number space, for the one-way delay in `lean` mode.
///
/// Only the largest newly acknowledged packet gives a delay, so a request for a packet removes this
/// packet and all earlier ones. The memory is proportional to the number of packets in flight, with
/// at most [`SendTimes::LIMIT`] entries of 24 bytes. Each entry is pushed once and popped once, so
/// recording and taking are O(1) amortised.
#[derive(Clone, Debug, Default)]
pub struct SendTimes {
    log: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    packet: u64,
    at: Time,
    ack_eliciting: bool,
}

/// Result of [`SendTimes::take_range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Time when the largest packet was sent.
    pub sent: Time,
    /// Whether the range has an ack-eliciting packet that was not known to be acknowledged before.
    pub ack_eliciting: bool,
}

impl SendTimes {
    /// Largest number of packets remembered. Beyond this number, the oldest packet is forgotten.
    pub const LIMIT: usize = 65_536;

    /// Records that `packet` was sent at `now`. Packet numbers may skip. A number that does not
    /// grow is ignored.
    pub fn record(&mut self, packet: u64, now: Time) {
        self.push(Entry { packet, at: now, ack_eliciting: true });
    }

    /// Records a packet that is not ack-eliciting, like [`SendTimes::record`].
    pub fn record_non_eliciting(&mut self, packet: u64, now: Time) {
        self.push(Entry { packet, at: now, ack_eliciting: false });
    }

    fn push(&mut self, entry: Entry) {
        if self.log.back().is_some_and(|newest| entry.packet <= newest.packet) {
            return;
        }
        if self.log.len() == Self::LIMIT {
            self.log.pop_front();
        }
        self.log.push_back(entry);
    }

    /// Returns the send time of `packet`, the largest of an ACK frame. Returns `None` if the packet
    /// was never recorded, or if it or a newer packet was already acknowledged. In the latter case,
    /// the packet is not newly acknowledged, and its delay would count twice.
    ///
    /// Call this function for every ACK frame. Hostile acknowledgements of packets that were not
    /// sent have no effect.
    pub fn take(&mut self, packet: u64) -> Option<Time> {
        self.take_range(packet..=packet).map(|taken| taken.sent)
    }

    /// Does the same as [`SendTimes::take`] for the end of `range`, the newest range of an ACK
    /// frame. Also returns whether any packet of the range is ack-eliciting, because the frame
    /// gives a sample only in this case (RFC 9002 §5.1).
    pub fn take_range(&mut self, range: RangeInclusive<u64>) -> Option<Taken> {
        let packet = *range.end();
        if self.log.back().is_none_or(|newest| packet > newest.packet) {
            return None;
        }
        let mut ack_eliciting = false;
        while let Some(entry) = self.log.front().copied() {
            if entry.packet > packet {
                break;
            }
            self.log.pop_front();
            ack_eliciting |= entry.ack_eliciting && range.contains(&entry.packet);
            if entry.packet == packet {
                return Some(Taken { sent: entry.at, ack_eliciting });
            }
        }
        None
    }

    /// Does the same as [`SendTimes::take`], for ACK frames that report the arrival times of
    /// several packets. Calls `each` for every remembered packet up to `largest`, in the order of
    /// sending.
    pub fn take_each(&mut self, largest: u64, mut each: impl FnMut(u64, Time)) {
        if self.log.back().is_none_or(|newest| largest > newest.packet) {
            return;
        }
        while let Some(entry) = self.log.front().copied().filter(|entry| entry.packet <= largest) {
            self.log.pop_front();
            each(entry.packet, entry.at);
        }
    }

    /// Returns the number of packets remembered now.
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Returns whether no packet is remembered.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(numbers: impl IntoIterator<Item = u64>) -> SendTimes {
        let mut log = SendTimes::default();
        for n in numbers {
            log.record(n, Time::from_micros(n % 1_000_000));
        }
        log
    }

    #[test]
    fn largest_acked_is_returned_once_and_clears_older_packets() {
        let mut log = log([0, 1, 2, 5, 6]);
        assert_eq!(log.take(2), Some(Time::from_micros(2)));
        assert_eq!(log.len(), 2);
        assert_eq!(log.take(2), None);
        assert_eq!(log.take(1), None);
        assert_eq!(log.take(6), Some(Time::from_micros(6)));
        assert!(log.is_empty());
    }

    #[test]
    fn ack_of_unsent_packet_is_ignored() {
        let mut log = log([0, 1, 2, 5, 6]);
        assert_eq!(log.take(7), None);
        assert_eq!(log.take(u64::MAX), None);
        assert_eq!(log.len(), 5);
        assert_eq!(log.take(4), None);
        assert_eq!(log.take(5), Some(Time::from_micros(5)));
    }

    #[test]
    fn each_sent_packet_up_to_the_largest_is_returned_once() {
        let mut log = log([0, 1, 2, 5, 6]);
        let mut taken = Vec::new();
        for largest in [7, u64::MAX, 4, 4, 2, 5, 6] {
            log.take_each(largest, |packet, sent| {
                taken.push((largest, packet, sent.as_nanos() / 1_000))
            });
        }
        assert_eq!(taken, [(4, 0, 0), (4, 1, 1), (4, 2, 2), (5, 5, 5), (6, 6, 6)]);
        assert!(log.is_empty());
    }

    #[test]
    fn ack_range_is_ack_eliciting_if_one_new_packet_is() {
        let mut log = SendTimes::default();
        log.record(0, Time::ZERO);
        log.record_non_eliciting(1, Time::ZERO);
        log.record(2, Time::ZERO);
        for packet in 3..7 {
            log.record_non_eliciting(packet, Time::from_micros(packet));
        }
        let taken =
            |sent, ack_eliciting| Some(Taken { sent: Time::from_micros(sent), ack_eliciting });
        assert_eq!(log.clone().take_range(3..=3), taken(3, false), "packet 2 is not in it");
        assert_eq!(log.take_range(2..=4), taken(4, true));
        assert_eq!(
            log.take_range(0..=5),
            taken(5, false),
            "what was ack-eliciting was acknowledged before"
        );
        assert_eq!(log.take_range(0..=4), None);
        assert_eq!(log.take_range(0..=u64::MAX), None);
        #[allow(clippy::reversed_empty_ranges)]
        let empty = 7..=6;
        assert_eq!(log.take_range(empty), taken(6, false));
    }

    #[test]
    fn send_time_log_is_bounded_and_packet_numbers_only_grow() {
        let mut log = log(0..SendTimes::LIMIT as u64 + 10);
        assert_eq!(log.len(), SendTimes::LIMIT);
        assert_eq!(log.take(9), None);
        assert_eq!(log.take(10), Some(Time::from_micros(10)));
        log.record(3, Time::ZERO);
        assert_eq!(log.take(3), None);
        log.record(u64::MAX, Time::ZERO);
        assert_eq!(log.take(u64::MAX), Some(Time::ZERO));
    }
}
