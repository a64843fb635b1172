//! When our packets left, until the peer acknowledges something newer.

use std::collections::VecDeque;

use fathom_cc::Time;

/// Send times of the packets of one packet number space, for one-way delay in `lean` mode.
///
/// Only the largest newly acknowledged packet gives a delay, so everything below it is forgotten as soon as it is asked for: memory
/// follows what is in flight, at most [`SendTimes::LIMIT`] entries of 16 bytes. Each entry is pushed once and popped once, so
/// both calls are O(1) amortised.
#[derive(Clone, Debug, Default)]
pub struct SendTimes {
    log: VecDeque<(u64, Time)>,
}

impl SendTimes {
    /// Most packets remembered; beyond it the oldest is forgotten.
    pub const LIMIT: usize = 65_536;

    /// `packet` left at `now`. Numbers may skip; one that does not grow is ignored.
    pub fn record(&mut self, packet: u64, now: Time) {
        if self.log.back().is_some_and(|(newest, _)| packet <= *newest) {
            return;
        }
        if self.log.len() == Self::LIMIT {
            self.log.pop_front();
        }
        self.log.push_back((packet, now));
    }

    /// When `packet`, the largest of an ACK frame, left; `None` when the log never held it, or when an ACK for it or for a newer
    /// packet came before (then it is not newly acknowledged, and a delay from it would count twice).
    ///
    /// Call it for every ACK frame. Hostile acknowledgements of packets that were not sent change nothing.
    pub fn take(&mut self, packet: u64) -> Option<Time> {
        if self.log.back().is_none_or(|(newest, _)| packet > *newest) {
            return None;
        }
        while let Some((number, sent)) = self.log.front().copied() {
            if number > packet {
                break;
            }
            self.log.pop_front();
            if number == packet {
                return Some(sent);
            }
        }
        None
    }

    /// Packets remembered now.
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Nothing is remembered.
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
    fn the_largest_acked_is_found_once_and_clears_what_is_below() {
        let mut log = log([0, 1, 2, 5, 6]);
        assert_eq!(log.take(2), Some(Time::from_micros(2)));
        assert_eq!(log.len(), 2);
        assert_eq!(log.take(2), None);
        assert_eq!(log.take(1), None);
        assert_eq!(log.take(6), Some(Time::from_micros(6)));
        assert!(log.is_empty());
    }

    #[test]
    fn acks_for_packets_never_sent_take_nothing_away_from_later_ones() {
        let mut log = log([0, 1, 2, 5, 6]);
        assert_eq!(log.take(7), None);
        assert_eq!(log.take(u64::MAX), None);
        assert_eq!(log.len(), 5);
        assert_eq!(log.take(4), None);
        assert_eq!(log.take(5), Some(Time::from_micros(5)));
    }

    #[test]
    fn memory_is_bounded_and_numbers_only_grow() {
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
