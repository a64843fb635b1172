//! Signals that ACK frames carry for each network path: one-way delays, ECN counts, and the time
//! for which the peer delayed acknowledgements.
//!
//! A stack processes a packet's ACK frames right after opening the packet. The signals of these
//! frames are stored here until the path's controller takes them. The next packet replaces them.
//! Their delay is then outdated, but their ECN counts are kept for the next batch.

use std::time::Duration;

use fathom_cc::{EcnDelta, OneWayDelay, Time};
use fathom_frames::receive_timestamps::Receipts;
use fathom_frames::{
    Arrival, Counters, Dedup, Echo, EcnCounts, Estimator, Receipt, ReceiveTimestamps, Sample,
    SendTimes, SyncTimestamp,
};

use crate::by_path::ByPath;
use crate::negotiation::Negotiation;
use crate::payload::{AckSeen, IncomingFrames, PeerTimestamp};

/// Data from all ACK frames so far, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSummary {
    /// Number of packets with a timestamp frame, without duplicates.
    pub(crate) stamps_received: u64,
    /// Number of ACK frames read.
    pub(crate) acks: u64,
    /// Longest ACK delay that any of these ACK frames reports.
    pub(crate) longest_ack_delay: Duration,
    /// ECN counts of the newest ACK frame that has ECN counts.
    pub(crate) ecn: Option<EcnCounts>,
    /// Newest forward one-way delay.
    pub(crate) one_way: Option<OneWayDelay>,
}

/// The paths of one connection.
#[derive(Default)]
pub(crate) struct PathSignals {
    paths: ByPath<Path>,
    /// Path and number of the 1-RTT packet sealed last.
    sealed: Option<(u32, u64)>,
    summary: AckSummary,
}

impl PathSignals {
    /// Records that a 1-RTT packet of this path leaves at `departs`, in time on the wire.
    /// `ack_eliciting` returns whether the packet is ack-eliciting.
    pub(crate) fn on_packet_sent(
        &mut self,
        negotiation: &Negotiation,
        path: u32,
        packet: u64,
        departs: Time,
        ack_eliciting: impl FnOnce() -> bool,
    ) {
        self.sealed = Some((path, packet));
        match negotiation.records_send_time(ack_eliciting) {
            Some(true) => self.paths.at(path).sent.record(packet, departs),
            Some(false) => self.paths.at(path).sent.record_non_eliciting(packet, departs),
            None => {}
        }
    }

    /// Returns the path of `packet` if it was the packet sealed last.
    pub(crate) fn path_of(&self, packet: u64) -> Option<u32> {
        self.sealed.filter(|(_, sealed)| *sealed == packet).map(|(path, _)| path)
    }

    /// Returns the newest stamp received on this path, for an echo.
    pub(crate) fn echo(&mut self, path: u32) -> Option<Echo> {
        self.paths.at(path).echo
    }

    /// Records a packet with the frames `found` in `payload`, which arrived on `path` at `now`, as
    /// time on the wire. Returns false if the packet is a duplicate and thus has no new
    /// information.
    pub(crate) fn on_packet_received(
        &mut self,
        negotiation: &Negotiation,
        path: u32,
        packet: u64,
        now: Time,
        found: &IncomingFrames,
        payload: &[u8],
    ) -> bool {
        self.paths.iter_mut().for_each(Path::carry_over_ecn);
        let known = self.paths.at(path);
        // A duplicate without a stamp has no effect, because send times are taken only once and
        // counts only grow.
        if found.is_stamped() && !known.on_stamped_packet(packet, found.stamp, now) {
            return false;
        }
        let summary = &mut self.summary;
        summary.stamps_received += u64::from(found.is_stamped());
        let exponent = negotiation.peer_exponent();
        for ack in found.acks() {
            summary.ecn = ack.ecn.or(summary.ecn);
            summary.acks += 1;
            summary.longest_ack_delay = summary.longest_ack_delay.max(ack.delay(exponent));
            // A path that was never used acknowledges nothing.
            let Some(acked) = self.paths.known(ack.path) else { continue };
            let receipts = negotiation.receipts_unit().and_then(|unit| ack.receipts(payload, unit));
            let one_way = match receipts {
                Some(receipts) => acked.on_receipts(now, ack, exponent, receipts),
                None => {
                    acked.on_ack(now, ack, exponent, negotiation.peer_timestamp(found, ack, path))
                }
            };
            summary.one_way = one_way.or(summary.one_way);
        }
        true
    }

    /// Returns the signals of the ACK frame that the stack is processing for controller
    /// `controller_id` of `path`. They are returned only once. `largest` is the largest packet
    /// number acknowledged so far on this path. The ACK delay is at most the max_ack_delay that the
    /// peer announced.
    pub(crate) fn take(
        &mut self,
        negotiation: &Negotiation,
        path: u32,
        controller_id: u64,
        largest: Option<u64>,
    ) -> AckSignals {
        let signals = self
            .paths
            .known(path)
            .map(|p| p.take_signals(controller_id, largest))
            .unwrap_or_default();
        AckSignals { ack_delay: signals.ack_delay.min(negotiation.max_ack_delay()), ..signals }
    }

    /// Returns the data from all ACK frames so far.
    pub(crate) const fn summary(&self) -> &AckSummary {
        &self.summary
    }

    /// Returns the sample counters, summed over all paths. The skew is that of the path used last.
    pub(crate) fn counters(&self) -> Counters {
        self.paths.iter().map(|p| p.estimator.counters()).fold(Counters::default(), |sum, c| {
            Counters {
                samples: sum.samples + c.samples,
                dropped_reordered: sum.dropped_reordered + c.dropped_reordered,
                dropped_bound: sum.dropped_bound + c.dropped_bound,
                steps: sum.steps + c.steps,
                skew_ppb: c.skew_ppb,
            }
        })
    }
}

/// One network path.
#[derive(Default)]
struct Path {
    sent: SendTimes,
    dedup: Dedup,
    estimator: Estimator,
    /// Stamp for echoes, from the peer's stamped packet with the largest number.
    echo: Option<Echo>,
    ecn: EcnCounts,
    /// Largest packet number acknowledged so far.
    largest: Option<u64>,
    /// Signals of the last ACK frame for this path.
    pending: Option<Pending>,
    /// ECN counts of ACK frames that acknowledged no new packets. They are added to the next batch.
    owed: Option<EcnDelta>,
    /// Controller that took the last signals.
    controller_id: Option<u64>,
}

#[derive(Clone, Copy)]
struct Pending {
    largest: u64,
    signals: AckSignals,
}

/// Signals of an ACK frame, without the packets that it acknowledges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckSignals {
    /// Forward one-way delay of the newest packet; `None` if the delay is not known.
    pub(crate) one_way: Option<OneWayDelay>,
    /// New ECN counts.
    pub(crate) ecn: Option<EcnDelta>,
    /// Time between the arrival of the largest packet and the sending of the frame, as the peer
    /// reports it. Zero if this packet had already been acknowledged, because the frame then gives
    /// no RTT sample (RFC 9002 §5.1).
    pub(crate) ack_delay: Duration,
}

impl Path {
    /// Records a packet of the peer with a timestamp frame. Returns whether the frame has to be
    /// read.
    fn on_stamped_packet(&mut self, packet: u64, stamp: Option<SyncTimestamp>, now: Time) -> bool {
        let arrival = self.dedup.insert(packet);
        if let (Arrival::Newest, Some(stamp)) = (arrival, stamp) {
            self.echo = Some(Echo::of(stamp.sent, now));
        }
        !matches!(arrival, Arrival::Duplicate | Arrival::TooOld)
    }

    /// Reads an ACK frame for this path, together with the peer's clock from the same packet.
    /// Returns the one-way delay if the two give one.
    fn on_ack(
        &mut self,
        now: Time,
        ack: &AckSeen,
        exponent: u8,
        peer_timestamp: PeerTimestamp,
    ) -> Option<OneWayDelay> {
        let delay = ack.delay(exponent);
        // Every ACK frame goes through the log, whether it is stamped or not. A packet that was
        // acknowledged without a stamp must not give a sample later.
        let acked_packet = self.sent.take_range(ack.newest());
        // This number orders the samples. The log returns each number once and in order, whatever
        // path the ACK frames arrive on.
        let packet = ack.largest;
        let sample = acked_packet.and_then(|acked_packet| match peer_timestamp {
            PeerTimestamp::Nothing => None,
            PeerTimestamp::Echo(echo) => {
                Sample::echoed(now, packet, echo, delay, acked_packet.sent, Duration::MAX)
            }
            PeerTimestamp::Stamp(stamp) => {
                Some(Sample::lean(now, packet, stamp, delay, acked_packet.sent, Duration::MAX))
            }
            // Only acknowledgements of ack-eliciting packets count, with the delay capped at the
            // peer's maximum. A peer may hold back the acknowledgement of an acknowledgement
            // indefinitely.
            PeerTimestamp::Timestamp(stamp, longest) if acked_packet.ack_eliciting => {
                Some(Sample::lean(
                    now,
                    packet,
                    stamp,
                    delay.min(longest),
                    acked_packet.sent,
                    Duration::MAX,
                ))
            }
            PeerTimestamp::Timestamp(..) => None,
        });
        let one_way = sample.and_then(|sample| self.estimator.sample(now, &sample));
        self.record_ack(ack, delay, one_way);
        one_way
    }

    /// Reads an ACK_RECEIVE_TIMESTAMPS frame for this path. Returns the one-way delay of the newest
    /// packet that the frame newly acknowledges with an arrival time.
    ///
    /// Each frame gives one sample, as a stamp does. The frame's other packets belong to the same
    /// round trip, and their delays become known at the same instant. With them, the estimator
    /// follows a queue worse: the 95th percentile of its error is 1.3 ms instead of 0.7 ms
    /// (`one_way_delay_estimate_tracks_the_queue`).
    fn on_receipts(
        &mut self,
        now: Time,
        ack: &AckSeen,
        exponent: u8,
        receipts: Receipts<'_>,
    ) -> Option<OneWayDelay> {
        let delay = ack.delay(exponent);
        let mut told = [Receipt { packet: 0, micros: 0 }; ReceiveTimestamps::MOST as usize];
        let mut count = 0;
        for (slot, receipt) in told.iter_mut().zip(receipts) {
            *slot = receipt;
            count += 1;
        }
        let told = &mut told[..count];
        // The newest packet is last, and packets that were overtaken are before it. A hostile peer
        // may report packets in any order and more than once.
        let newest = told.first().map_or(0, |receipt| receipt.micros);
        told.sort_unstable_by_key(|receipt| receipt.packet);
        let mut told = told.iter().peekable();
        let mut sample = None;
        self.sent.take_each(ack.largest, |packet, sent| {
            while told.next_if(|receipt| receipt.packet < packet).is_some() {}
            let Some(receipt) = told.next_if(|receipt| receipt.packet == packet) else { return };
            // The delay of the frame is that of its largest packet, which is nearly always the
            // newest packet.
            let held =
                delay.saturating_add(Duration::from_micros(newest.saturating_sub(receipt.micros)));
            sample = Some(Sample::received(now, packet, receipt.micros, held, sent, Duration::MAX));
        });
        let one_way = sample.and_then(|sample| self.estimator.sample(now, &sample));
        self.record_ack(ack, delay, one_way);
        one_way
    }

    /// Stores the signals of an ACK frame until the controller takes them.
    fn record_ack(&mut self, ack: &AckSeen, delay: Duration, one_way: Option<OneWayDelay>) {
        self.carry_over_ecn();
        let ecn = sum(self.owed.take(), ack.ecn.map(|counts| self.ecn_since(counts)));
        let newest = self.largest.is_none_or(|largest| ack.largest > largest);
        self.largest = self.largest.max(Some(ack.largest));
        let ack_delay = if newest { delay } else { Duration::ZERO };
        self.pending =
            Some(Pending { largest: ack.largest, signals: AckSignals { one_way, ecn, ack_delay } });
    }

    /// Discards the delay of the last packet, because a new packet has arrived. Keeps the ECN
    /// counts of the last packet.
    fn carry_over_ecn(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.owed = sum(self.owed, pending.signals.ecn);
        }
    }

    /// Returns the signals for [`PathSignals::take`].
    fn take_signals(&mut self, controller_id: u64, largest: Option<u64>) -> AckSignals {
        let same = self.controller_id.is_none_or(|last| last == controller_id);
        self.controller_id = Some(controller_id);
        if !same {
            // A different controller means a different network path, so measurements of the old
            // path are discarded.
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

    /// Returns by how much an ACK frame's ECN counts exceed the previous counts. Counts never
    /// decrease (RFC 9000 §13.4.2.1).
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

#[cfg(test)]
mod tests {
    use fathom_frames::AckReceiveTimestamps;

    use super::*;
    use crate::by_path::MAX_PATHS;

    fn ack(largest: u64, counts: (u64, u64)) -> AckSeen {
        let ecn = Some(EcnCounts { ect0: counts.0, ect1: 0, ce: counts.1 });
        AckSeen { largest, ecn, ..AckSeen::default() }
    }

    fn receive(path: &mut Path, packet: u64, frame: &AckSeen) {
        path.carry_over_ecn();
        path.on_ack(Time::from_millis(packet), frame, 3, PeerTimestamp::Nothing);
    }

    #[test]
    fn each_ecn_count_reaches_the_controller_exactly_once() {
        let mut path = Path::default();
        receive(&mut path, 0, &ack(4, (3, 1)));
        assert_eq!(path.take_signals(1, Some(4)).ecn, Some(EcnDelta { ect0: 3, ect1: 0, ce: 1 }));
        assert_eq!(path.take_signals(1, Some(4)).ecn, None, "the same frame twice");
        // Two frames acknowledge nothing new, one frame is late and has old counts, and the last
        // frame acknowledges a packet.
        receive(&mut path, 1, &ack(4, (3, 2)));
        receive(&mut path, 2, &ack(4, (4, 3)));
        receive(&mut path, 3, &ack(3, (2, 0)));
        receive(&mut path, 4, &ack(6, (6, 4)));
        assert_eq!(path.take_signals(1, Some(6)).ecn, Some(EcnDelta { ect0: 3, ect1: 0, ce: 3 }));
    }

    #[test]
    fn path_signals_are_matched_to_their_ack_frame() {
        let mut path = Path::default();
        receive(&mut path, 0, &ack(4, (5, 0)));
        // The frame came late, so the stack's largest packet is a different one.
        assert_eq!(path.take_signals(1, Some(9)), AckSignals::default());
        receive(&mut path, 1, &ack(10, (6, 0)));
        assert_eq!(path.take_signals(1, Some(10)).ecn, Some(EcnDelta { ect0: 6, ect1: 0, ce: 0 }));
    }

    #[test]
    fn ack_delay_is_used_only_if_the_largest_packet_is_new() {
        let mut path = Path::default();
        let mut delay = |largest, raw_delay| {
            receive(&mut path, 0, &AckSeen { largest, raw_delay, ..AckSeen::default() });
            path.take_signals(1, Some(9)).ack_delay
        };
        assert_eq!(delay(9, 125), Duration::from_millis(1));
        assert_eq!(
            delay(9, 9_000),
            Duration::ZERO,
            "it arrived long ago, and was acknowledged then"
        );
        assert_eq!(delay(8, 125), Duration::ZERO, "the frame came late");
    }

    #[test]
    fn new_controller_starts_without_signals_of_the_old_path() {
        let mut path = Path::default();
        receive(&mut path, 0, &ack(4, (5, 1)));
        assert!(path.take_signals(1, Some(4)).ecn.is_some());
        receive(&mut path, 1, &ack(5, (6, 2)));
        assert_eq!(path.take_signals(2, Some(5)), AckSignals::default());
        receive(&mut path, 2, &ack(6, (7, 2)));
        assert_eq!(path.take_signals(2, Some(6)).ecn, Some(EcnDelta { ect0: 1, ect1: 0, ce: 0 }));
    }

    #[test]
    fn one_way_delay_needs_a_newly_acknowledged_packet() {
        let mut path = Path::default();
        for packet in 0..4 {
            path.sent.record(packet, Time::from_millis(packet));
        }
        let mut receive = |at, largest| {
            let frame = AckSeen { path: 0, largest, ..AckSeen::default() };
            // Each packet took 20 ms to arrive and was acknowledged at once.
            let peer_timestamp = PeerTimestamp::Stamp(20_000 + 1_000 * largest as u32);
            path.on_ack(Time::from_millis(at), &frame, 3, peer_timestamp).is_some()
        };
        assert!(receive(31, 1));
        assert!(!receive(31, 1), "acknowledged before");
        assert!(!receive(32, 0), "older");
        assert!(receive(33, 3));
    }

    /// Sends packets 0 to 9, one every 100 ms. Each takes 20 ms to arrive and is acknowledged
    /// `held` ms later, with a reported ACK delay of `said` ms. Returns the counters and the last
    /// delay.
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
            last = path.on_ack(
                sent + Duration::from_millis(40 + held),
                &frame,
                3,
                peer_timestamp(stamp),
            );
        }
        (path.estimator.counters(), last)
    }

    #[test]
    fn ack_delay_reported_with_a_timestamp_is_capped() {
        const LONGEST: Duration = Duration::from_millis(25);
        let timestamp = |stamp| PeerTimestamp::Timestamp(stamp, LONGEST);
        // A reported delay beyond the peer's own limit counts as this limit.
        let (honest, limit) = (held_back(25, 25, timestamp), held_back(25, 9_000, timestamp));
        assert_eq!(honest, limit);
        assert_eq!((honest.0.samples, honest.0.dropped_bound), (10, 0));
        let (own, _) = held_back(25, 9_000, PeerTimestamp::Stamp);
        assert_eq!(
            (own.samples, own.dropped_bound),
            (0, 10),
            "longer than the round trip: nothing of it is believed"
        );
    }

    #[test]
    fn timestamps_with_acks_of_bare_acks_are_ignored() {
        let mut path = Path::default();
        for packet in 0..6 {
            path.sent.record_non_eliciting(packet, Time::from_millis(packet));
        }
        path.sent.record(6, Time::from_millis(6));
        path.sent.record_non_eliciting(7, Time::from_millis(7));
        let mut receive = |at, largest, first_range| {
            let frame = AckSeen { largest, first_range, ..AckSeen::default() };
            let peer_timestamp = PeerTimestamp::Timestamp(
                20_000 + 1_000 * largest as u32,
                Duration::from_millis(25),
            );
            path.on_ack(Time::from_millis(at), &frame, 3, peer_timestamp).is_some()
        };
        assert!(!receive(40, 3, 3), "none of them requested it");
        assert!(receive(47, 7, 3), "packet 6 did");
        assert!(!receive(47, 7, 7), "acknowledged before");
    }

    /// Reads the ACK_RECEIVE_TIMESTAMPS of packets 0 to `largest`, in microseconds, on a path that
    /// sent packets 0 to 9, one every millisecond.
    fn told(
        path: &mut Path,
        at: u64,
        largest: u64,
        raw_delay: u64,
        ranges: &[u8],
    ) -> Option<OneWayDelay> {
        let ack = [&[0x83, 0x17, 0x83, 0x07, largest as u8, 0, 0, largest as u8], ranges].concat();
        let frame = AckReceiveTimestamps::decode(&ack).expect("a frame").0;
        let seen = AckSeen { largest, first_range: largest, raw_delay, ..AckSeen::default() };
        path.on_receipts(Time::from_millis(at), &seen, 3, frame.receipts(0))
    }

    fn sending() -> Path {
        let mut path = Path::default();
        (0..10).for_each(|packet| path.sent.record(packet, Time::from_millis(packet)));
        path
    }

    #[test]
    fn newest_acknowledged_packet_with_receive_time_is_sampled() {
        let mut path = sending();
        // Packets 3 to 1 arrived 23, 22 and 21 ms after the epoch. The frame left 1 ms later and
        // took 20 ms.
        let first =
            told(&mut path, 44, 3, 125, &[1, 0, 3, 0x80, 0, 0x59, 0xd8, 0x43, 0xe8, 0x43, 0xe8]);
        assert_eq!(
            (path.estimator.counters().samples, first.map(|d| d.as_nanos().abs() < 10_000)),
            (1, Some(true))
        );
        // The frame has the same packets again, and packet 0. All of them were acknowledged before.
        assert_eq!(
            told(
                &mut path,
                45,
                3,
                0,
                &[1, 0, 4, 0x80, 0, 0x59, 0xd8, 0x43, 0xe8, 0x43, 0xe8, 0x43, 0xe8]
            ),
            None
        );
        assert_eq!(path.estimator.counters().samples, 1);
        // The frame has packets 5 and 4. Packet 6 overtook packet 5, and packet 7 has no arrival
        // time. Packet 6 arrived at 26 ms and packet 5 at 27 ms, which is 2 ms of queueing.
        let last = told(&mut path, 48, 7, 0, &[2, 2, 1, 0x80, 0, 0x69, 0x78, 1, 1, 0x43, 0xe8]);
        assert_eq!(path.estimator.counters().samples, 2);
        assert!(last.is_some_and(|d| d.as_nanos().abs() < 500_000), "{last:?}");
        assert_eq!(path.sent.len(), 2);
    }

    #[test]
    fn receive_times_of_unsent_packets_and_absurd_times_are_ignored() {
        let mut path = sending();
        // The frames have packet 99, the same packet twice, times that grow by wrapping, and
        // packets in arbitrary order.
        for (largest, ranges) in [
            (63, &[1, 0, 1, 9][..]),
            (9, &[3, 0, 1, 9, 0, 1, 0, 0, 1, 0]),
            (9, &[1, 0, 2, 9, 10]),
            (9, &[2, 9, 1, 9, 0, 1, 1]),
            (9, &[1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]),
        ] {
            let mut path = sending();
            told(&mut path, 30, largest, 0, ranges);
            assert!(path.estimator.counters().samples <= 2, "{ranges:?}");
        }
        // Arbitrary clock values give samples within what the round trip allows, or are dropped.
        for (packet, micros) in [(0, 0), (1, 63), (2, 1), (3, 60), (4, 2)] {
            told(&mut path, 30 + packet, packet, 9_000, &[1, 0, 1, micros]);
        }
        let counters = path.estimator.counters();
        assert_eq!(
            (counters.samples, counters.dropped_bound),
            (0, 5),
            "held back longer than the round trip: {counters:?}"
        );
    }

    #[test]
    fn number_of_paths_is_bounded_and_oldest_path_is_dropped_first() {
        let mut paths = ByPath::<Path>::default();
        for id in 0..100 {
            paths.at(id).ecn.ce = u64::from(id);
        }
        assert_eq!(paths.iter().count(), MAX_PATHS);
        assert!(paths.known(91).is_none());
        assert_eq!(paths.known(92).map(|p| p.ecn.ce), Some(92));
    }

    #[test]
    fn largest_received_packet_is_echoed() {
        let mut path = Path::default();
        let stamp = |sent| Some(SyncTimestamp { sent, echo: None });
        assert!(path.on_stamped_packet(7, stamp(70), Time::from_micros(100)));
        assert!(path.on_stamped_packet(6, stamp(60), Time::from_micros(110)));
        assert!(!path.on_stamped_packet(7, stamp(71), Time::from_micros(120)));
        assert_eq!(path.echo, Some(Echo { sent: 70, transit: 30 }));
    }
}
