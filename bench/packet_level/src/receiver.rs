//! The receiving side: the time of each acknowledgement, and its contents (RFC 9000 §13.2).

use std::time::Duration;

use fathom_cc::{OneWayDelay, Time};

use super::packet::{Ack, Ranges};

/// Frequency of acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AckOptions {
    /// Maximum number of packets per acknowledgement; 2 by default (RFC 9000 §13.2.2).
    pub every: u32,
    /// Maximum delay of an acknowledgement; 25 ms by default (RFC 9000 §18.2).
    pub max_delay: Duration,
}

impl Default for AckOptions {
    fn default() -> Self {
        Self { every: 2, max_delay: Duration::from_millis(25) }
    }
}

/// The receiver of one connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    options: AckOptions,
    /// Whether the first packet belongs to a handshake. Such a packet is acknowledged at once.
    handshake: bool,
    ranges: Ranges,
    /// Arrival time and one-way delay of the packet with the largest number.
    newest: (Time, OneWayDelay),
    /// Number of packets since the last acknowledgement.
    waiting: u32,
    deadline: Option<Time>,
    received: u32,
    ce: u32,
}

impl Receiver {
    /// Creates a receiver that has not received any packet.
    pub const fn new(options: AckOptions) -> Self {
        Self {
            options,
            handshake: false,
            ranges: Ranges::new(),
            newest: (Time::ZERO, OneWayDelay::from_nanos(0)),
            waiting: 0,
            deadline: None,
            received: 0,
            ce: 0,
        }
    }

    /// Treats the first packet as part of a handshake: it is acknowledged at once.
    #[must_use]
    pub const fn with_handshake(self) -> Self {
        Self { handshake: true, ..self }
    }

    /// Processes a data packet. `marked` tells whether the packet has a Congestion Experienced
    /// mark. Returns true if an acknowledgement must leave now: for every [`AckOptions::every`]-th
    /// packet, for a packet out of order, and for a marked packet (RFC 9000 §13.2.1).
    pub fn on_data(&mut self, now: Time, number: u32, sent: Time, marked: bool) -> bool {
        let expected = self.ranges.largest().map_or(0, |largest| largest + 1);
        if !self.ranges.insert(number) {
            return false;
        }
        self.received += 1;
        self.ce += u32::from(marked);
        if number >= expected {
            let on_its_way = now.as_nanos() as i64 - sent.as_nanos() as i64;
            self.newest = (now, OneWayDelay::from_nanos(on_its_way));
        }
        self.waiting += 1;
        let answer = self.handshake && self.received == 1;
        if self.waiting >= self.options.every || number != expected || marked || answer {
            return true;
        }
        if self.deadline.is_none() {
            self.deadline = Some(now + self.options.max_delay);
        }
        false
    }

    /// Returns the latest time at which the next acknowledgement must leave.
    pub const fn timeout(&self) -> Option<Time> {
        self.deadline
    }

    /// Builds the acknowledgement to send now.
    pub fn ack(&mut self, now: Time) -> Ack {
        self.waiting = 0;
        self.deadline = None;
        let (arrived, one_way) = self.newest;
        Ack {
            ranges: self.ranges,
            delay: now.since(arrived),
            one_way,
            received: self.received,
            ce: self.ce,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn every_second_packet_is_acknowledged() {
        let mut r = Receiver::new(AckOptions::default());
        let mut at_once = Vec::new();
        for n in 0..6 {
            let now = r.on_data(at(10 + u64::from(n)), n, at(u64::from(n)), false);
            if now {
                let ack = r.ack(at(10 + u64::from(n)));
                assert_eq!(ack.ranges.as_slice(), [(0, n)]);
                assert_eq!(
                    (ack.delay, ack.one_way.as_nanos(), ack.received),
                    (Duration::ZERO, 10_000_000, n + 1)
                );
            }
            at_once.push(now);
        }
        assert_eq!(at_once, [false, true, false, true, false, true]);
        assert_eq!(r.timeout(), None);
    }

    #[test]
    fn unacknowledged_packet_is_acknowledged_after_25_ms() {
        let mut r = Receiver::new(AckOptions { every: 3, ..AckOptions::default() });
        assert!(!r.on_data(at(100), 0, at(90), false));
        assert_eq!(r.timeout(), Some(at(125)));
        assert!(!r.on_data(at(110), 1, at(100), false));
        assert_eq!(r.timeout(), Some(at(125)), "the second packet moved the deadline");
        // The delay counts from the newest packet.
        assert_eq!(r.ack(at(125)).delay, Duration::from_millis(15));
        assert_eq!(r.timeout(), None);
    }

    #[test]
    fn handshake_packet_is_acknowledged_at_once() {
        let mut r = Receiver::new(AckOptions::default()).with_handshake();
        assert!(r.on_data(at(10), 0, at(0), false));
        r.ack(at(10));
        assert!(!r.on_data(at(20), 1, at(10), false));
    }

    #[test]
    fn gaps_and_marks_are_acknowledged_at_once() {
        let mut r = Receiver::new(AckOptions::default());
        assert!(r.on_data(at(1), 1, at(0), false), "packet 0 is missing");
        r.ack(at(1));
        assert!(!r.on_data(at(2), 2, at(0), false), "in order behind the gap");
        r.ack(at(2));
        assert!(r.on_data(at(3), 0, at(0), false), "late");
        assert_eq!(r.ack(at(3)).ranges.as_slice(), [(0, 2)]);
        assert!(r.on_data(at(4), 3, at(0), true), "marked");
        assert_eq!(r.ack(at(4)).ce, 1);
        assert!(!r.on_data(at(5), 3, at(0), true), "twice");
        assert_eq!((r.ack(at(5)).ce, r.ack(at(5)).received), (1, 4));
    }
}
