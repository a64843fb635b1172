//! What is known of each network path: its packet number space, its delays, its ECN counts.

use std::time::Duration;

use fathom_cc::{EcnDelta, OneWayDelay, Time};
use fathom_frames::{Arrival, Counters, Dedup, Echo, EcnCounts, Estimator, Sample, SendTimes, SyncTimestamp};

use crate::by_path::ByPath;
use crate::payload::AckSeen;

/// What a packet says of when it left, for the ACK frames in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerTimestamp {
    /// Nothing.
    Nothing,
    /// An echo of one of our stamps.
    Echo(Echo),
    /// The peer's clock, in microseconds modulo 2^32: SYNC_TIMESTAMP without an echo.
    Stamp(u32),
    /// The same from a TIMESTAMP frame, and the longest that the peer said it holds back an acknowledgement.
    Timestamp(u32, Duration),
}

/// One network path.
#[derive(Default)]
pub(crate) struct Path {
    pub(crate) sent: SendTimes,
    dedup: Dedup,
    pub(crate) estimator: Estimator,
    /// The peer's stamped packet with the largest number, for echoes.
    pub(crate) echo: Option<Echo>,
    ecn: EcnCounts,
    /// Largest packet acknowledged so far.
    largest: Option<u64>,
    /// What the last ACK frame for this path said.
    pending: Option<Pending>,
    /// ECN counts of ACK frames that newly acknowledged nothing: the next batch takes them along.
    owed: Option<EcnDelta>,
    /// Which controller took the last signals.
    controller_id: Option<u64>,
}

#[derive(Clone, Copy)]
struct Pending {
    largest: u64,
    signals: AckSignals,
}

/// What an ACK frame says besides the packets it acknowledges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckSignals {
    /// Forward one-way delay of the newest packet, where it became known.
    pub(crate) one_way: Option<OneWayDelay>,
    /// New ECN counts.
    pub(crate) ecn: Option<EcnDelta>,
    /// How long the peer says that it held the frame back since the largest packet arrived; zero when that packet was acknowledged
    /// before: then it says nothing of a round trip (RFC 9002 §5.1).
    pub(crate) ack_delay: Duration,
}

impl Path {
    /// Notes a packet of the peer; whether it is to be read.
    pub(crate) fn on_packet_received(&mut self, packet: u64, stamp: Option<SyncTimestamp>, now: Time) -> bool {
        let arrival = self.dedup.insert(packet);
        if let (Arrival::Newest, Some(stamp)) = (arrival, stamp) {
            self.echo = Some(Echo::of(stamp.sent, now));
        }
        !matches!(arrival, Arrival::Duplicate | Arrival::TooOld)
    }

    /// Reads an ACK frame for this path, and what the packet in which it lay `peer_timestamp` that says something of this path.
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        ack: &AckSeen,
        exponent: u8,
        peer_timestamp: PeerTimestamp,
    ) -> Option<OneWayDelay> {
        let delay = ack.delay(exponent);
        // Every ACK frame goes through the log, stamped or not: a packet acknowledged without a stamp must not count later.
        let acked_packet = self.sent.take_range(ack.newest());
        // What orders the samples: the log gives each number once and in order, whatever path the ACK frames come on.
        let packet = ack.largest;
        let sample = acked_packet.and_then(|acked_packet| match peer_timestamp {
            PeerTimestamp::Nothing => None,
            PeerTimestamp::Echo(echo) => Sample::echoed(now, packet, echo, delay, acked_packet.sent, Duration::MAX),
            PeerTimestamp::Stamp(stamp) => {
                Some(Sample::lean(now, packet, stamp, delay, acked_packet.sent, Duration::MAX))
            }
            // Without the cap a peer's acknowledgement of an acknowledgement, which it may hold for ever, would count.
            PeerTimestamp::Timestamp(stamp, longest) if acked_packet.ack_eliciting => {
                Some(Sample::lean(now, packet, stamp, delay.min(longest), acked_packet.sent, Duration::MAX))
            }
            PeerTimestamp::Timestamp(..) => None,
        });
        let one_way = sample.and_then(|sample| self.estimator.sample(now, &sample));
        self.carry_over_ecn();
        let ecn = sum(self.owed.take(), ack.ecn.map(|counts| self.ecn_since(counts)));
        let newest = self.largest.is_none_or(|largest| ack.largest > largest);
        self.largest = self.largest.max(Some(ack.largest));
        let ack_delay = if newest { delay } else { Duration::ZERO };
        self.pending = Some(Pending { largest: ack.largest, signals: AckSignals { one_way, ecn, ack_delay } });
        one_way
    }

    /// The next packet is here: the last one's delay is history, its ECN counts are not.
    fn carry_over_ecn(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.owed = sum(self.owed, pending.signals.ecn);
        }
    }

    /// See [`crate::connection_state::ConnectionState::take_signals`].
    pub(crate) fn take_signals(&mut self, controller_id: u64, largest: Option<u64>) -> AckSignals {
        let same = self.controller_id.is_none_or(|last| last == controller_id);
        self.controller_id = Some(controller_id);
        if !same {
            // Another controller means another network path: what was measured on the old one means nothing here.
            self.estimator = Estimator::default();
            (self.pending, self.owed) = (None, None);
        }
        match self.pending.take() {
            Some(p) if largest == Some(p.largest) => p.signals,
            Some(p) => {
                self.owed = sum(self.owed, p.signals.ecn);
                AckSignals::default()
            }
            None => AckSignals::default(),
        }
    }

    /// What an ACK frame's ECN counts add to the last ones; counts never shrink (RFC 9000 §13.4.2.1).
    fn ecn_since(&mut self, counts: EcnCounts) -> EcnDelta {
        let grown = |new: u64, old: u64| new.saturating_sub(old);
        let delta = EcnDelta {
            ect0: grown(counts.ect0, self.ecn.ect0),
            ect1: grown(counts.ect1, self.ecn.ect1),
            ce: grown(counts.ce, self.ecn.ce),
        };
        self.ecn = EcnCounts {
            ect0: counts.ect0.max(self.ecn.ect0),
            ect1: counts.ect1.max(self.ecn.ect1),
            ce: counts.ce.max(self.ecn.ce),
        };
        delta
    }
}

fn sum(a: Option<EcnDelta>, b: Option<EcnDelta>) -> Option<EcnDelta> {
    match (a, b) {
        (Some(a), Some(b)) => Some(EcnDelta {
            ect0: a.ect0.saturating_add(b.ect0),
            ect1: a.ect1.saturating_add(b.ect1),
            ce: a.ce.saturating_add(b.ce),
        }),
        (a, b) => a.or(b),
    }
}

/// The paths of one connection.
pub(crate) type Paths = ByPath<Path>;

impl Paths {
    /// Called before each packet is read.
    pub(crate) fn carry_over_ecn(&mut self) {
        self.iter_mut().for_each(Path::carry_over_ecn);
    }

    /// What became of the samples of all paths; the skew is that of the path used last.
    pub(crate) fn counters(&self) -> Counters {
        self.iter().map(|p| p.estimator.counters()).fold(Counters::default(), |sum, c| Counters {
            samples: sum.samples + c.samples,
            dropped_reordered: sum.dropped_reordered + c.dropped_reordered,
            dropped_bound: sum.dropped_bound + c.dropped_bound,
            steps: sum.steps + c.steps,
            skew_ppb: c.skew_ppb,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_path::MAX_PATHS;

    fn ack(largest: u64, counts: (u64, u64)) -> AckSeen {
        let ecn = Some(EcnCounts { ect0: counts.0, ect1: 0, ce: counts.1 });
        AckSeen { largest, ecn, ..AckSeen::default() }
    }

    fn hear(path: &mut Path, packet: u64, frame: &AckSeen) {
        path.carry_over_ecn();
        path.on_ack(Time::from_millis(packet), frame, 3, PeerTimestamp::Nothing);
    }

    #[test]
    fn ecn_counts_reach_the_controller_once_and_none_is_lost() {
        let mut path = Path::default();
        hear(&mut path, 0, &ack(4, (3, 1)));
        assert_eq!(path.take_signals(1, Some(4)).ecn, Some(EcnDelta { ect0: 3, ect1: 0, ce: 1 }));
        assert_eq!(path.take_signals(1, Some(4)).ecn, None, "the same frame twice");
        // Two frames that acknowledge nothing new, one that arrives late with old counts, then one that does acknowledge.
        hear(&mut path, 1, &ack(4, (3, 2)));
        hear(&mut path, 2, &ack(4, (4, 3)));
        hear(&mut path, 3, &ack(3, (2, 0)));
        hear(&mut path, 4, &ack(6, (6, 4)));
        assert_eq!(path.take_signals(1, Some(6)).ecn, Some(EcnDelta { ect0: 3, ect1: 0, ce: 3 }));
    }

    #[test]
    fn signals_go_to_the_frame_they_came_with() {
        let mut path = Path::default();
        hear(&mut path, 0, &ack(4, (5, 0)));
        // The stack's largest is another one: the frame came late.
        assert_eq!(path.take_signals(1, Some(9)), AckSignals::default());
        hear(&mut path, 1, &ack(10, (6, 0)));
        assert_eq!(path.take_signals(1, Some(10)).ecn, Some(EcnDelta { ect0: 6, ect1: 0, ce: 0 }));
    }

    #[test]
    fn ack_delay_counts_where_the_largest_packet_is_new() {
        let mut path = Path::default();
        let mut delay = |largest, raw_delay| {
            hear(&mut path, 0, &AckSeen { largest, raw_delay, ..AckSeen::default() });
            path.take_signals(1, Some(9)).ack_delay
        };
        assert_eq!(delay(9, 125), Duration::from_millis(1));
        assert_eq!(delay(9, 9_000), Duration::ZERO, "it arrived long ago, and was acknowledged then");
        assert_eq!(delay(8, 125), Duration::ZERO, "the frame came late");
    }

    #[test]
    fn another_controller_starts_without_the_old_path_s_signals() {
        let mut path = Path::default();
        hear(&mut path, 0, &ack(4, (5, 1)));
        assert!(path.take_signals(1, Some(4)).ecn.is_some());
        hear(&mut path, 1, &ack(5, (6, 2)));
        assert_eq!(path.take_signals(2, Some(5)), AckSignals::default());
        hear(&mut path, 2, &ack(6, (7, 2)));
        assert_eq!(path.take_signals(2, Some(6)).ecn, Some(EcnDelta { ect0: 1, ect1: 0, ce: 0 }));
    }

    #[test]
    fn delays_need_a_packet_newly_acknowledged() {
        let mut path = Path::default();
        for packet in 0..4 {
            path.sent.record(packet, Time::from_millis(packet));
        }
        let mut hear = |at, largest| {
            let frame = AckSeen { path: 0, largest, ..AckSeen::default() };
            // Each took 20 ms there and was acknowledged at once.
            let peer_timestamp = PeerTimestamp::Stamp(20_000 + 1_000 * largest as u32);
            path.on_ack(Time::from_millis(at), &frame, 3, peer_timestamp).is_some()
        };
        assert!(hear(31, 1));
        assert!(!hear(31, 1), "acknowledged before");
        assert!(!hear(32, 0), "older");
        assert!(hear(33, 3));
    }

    /// Packets 0 to 9, one a millisecond, each 20 ms there and acknowledged `held` later; what the samples say of the last.
    fn held_back(
        held: u64,
        said: u64,
        peer_timestamp: impl Fn(u32) -> PeerTimestamp,
    ) -> (Counters, Option<OneWayDelay>) {
        let mut path = Path::default();
        let mut last = None;
        for packet in 0..10 {
            let sent = Time::from_millis(100 * packet);
            path.sent.record(packet, sent);
            let frame = AckSeen { largest: packet, raw_delay: said * 125, ..AckSeen::default() };
            let stamp = 100_000 * packet as u32 + 20_000 + 1_000 * held as u32;
            last = path.on_ack(sent + Duration::from_millis(40 + held), &frame, 3, peer_timestamp(stamp));
        }
        (path.estimator.counters(), last)
    }

    #[test]
    fn ack_delay_beside_a_timestamp_is_capped() {
        const LONGEST: Duration = Duration::from_millis(25);
        let timestamp = |stamp| PeerTimestamp::Timestamp(stamp, LONGEST);
        // The peer may say what it likes beyond its own limit: what it says is its limit.
        let (honest, limit) = (held_back(25, 25, timestamp), held_back(25, 9_000, timestamp));
        assert_eq!(honest, limit);
        assert_eq!((honest.0.samples, honest.0.dropped_bound), (10, 0));
        let (own, _) = held_back(25, 9_000, PeerTimestamp::Stamp);
        assert_eq!((own.samples, own.dropped_bound), (0, 10), "longer than the round trip: nothing of it is believed");
    }

    #[test]
    fn timestamps_beside_acks_of_acks_are_ignored() {
        let mut path = Path::default();
        for packet in 0..6 {
            path.sent.record_non_eliciting(packet, Time::from_millis(packet));
        }
        path.sent.record(6, Time::from_millis(6));
        path.sent.record_non_eliciting(7, Time::from_millis(7));
        let mut hear = |at, largest, first_range| {
            let frame = AckSeen { largest, first_range, ..AckSeen::default() };
            let peer_timestamp = PeerTimestamp::Timestamp(20_000 + 1_000 * largest as u32, Duration::from_millis(25));
            path.on_ack(Time::from_millis(at), &frame, 3, peer_timestamp).is_some()
        };
        assert!(!hear(40, 3, 3), "none of them asked for it");
        assert!(hear(47, 7, 3), "packet 6 did");
        assert!(!hear(47, 7, 7), "acknowledged before");
    }

    #[test]
    fn paths_are_bounded_and_the_oldest_goes_first() {
        let mut paths = Paths::default();
        for id in 0..100 {
            paths.at(id).ecn.ce = u64::from(id);
        }
        assert_eq!(paths.iter().count(), MAX_PATHS);
        assert!(paths.known(91).is_none());
        assert_eq!(paths.known(92).map(|p| p.ecn.ce), Some(92));
    }

    #[test]
    fn an_echo_is_of_the_largest_packet_received() {
        let mut path = Path::default();
        let stamp = |sent| Some(SyncTimestamp { sent, echo: None });
        assert!(path.on_packet_received(7, stamp(70), Time::from_micros(100)));
        assert!(path.on_packet_received(6, stamp(60), Time::from_micros(110)));
        assert!(!path.on_packet_received(7, stamp(71), Time::from_micros(120)));
        assert_eq!(path.echo, Some(Echo { sent: 70, transit: 30 }));
    }
}
