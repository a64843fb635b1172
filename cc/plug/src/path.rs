//! What is known of each network path: its packet number space, its delays, its ECN counts.

use std::time::Duration;

use fathom_cc::{EcnDelta, OneWayDelay, Time};
use fathom_frames::parameter::Negotiated;
use fathom_frames::{Arrival, Counters, Echo, EcnCounts, Estimator, Sample, Seen, SendTimes, SyncTimestamp};

use crate::by_path::ByPath;
use crate::payload::AckSeen;

/// One network path.
#[derive(Default)]
pub(crate) struct Path {
    pub(crate) sent: SendTimes,
    seen: Seen,
    pub(crate) estimator: Estimator,
    /// The peer's stamped packet with the largest number, for echoes.
    pub(crate) heard: Option<Echo>,
    ecn: EcnCounts,
    /// What the last ACK frame for this path said.
    pending: Option<Pending>,
    /// ECN counts of ACK frames that newly acknowledged nothing: the next batch takes them along.
    owed: Option<EcnDelta>,
    /// Which controller took the last signals.
    flow: Option<u64>,
}

#[derive(Clone, Copy)]
struct Pending {
    largest: u64,
    one_way: Option<OneWayDelay>,
    ecn: Option<EcnDelta>,
}

impl Path {
    /// Notes a packet of the peer; whether it is to be read.
    pub(crate) fn arrived(&mut self, packet: u64, stamp: Option<SyncTimestamp>, now: Time) -> bool {
        let arrival = self.seen.arrive(packet);
        if let (Arrival::Newest, Some(stamp)) = (arrival, stamp) {
            self.heard = Some(Echo::of(stamp.sent, now));
        }
        !matches!(arrival, Arrival::Duplicate | Arrival::TooOld)
    }

    /// Reads an ACK frame for this path, and the `stamp` of the packet in which it lay if that says something of this path.
    pub(crate) fn acknowledged(
        &mut self,
        now: Time,
        ack: &AckSeen,
        exponent: u8,
        stamp: Option<SyncTimestamp>,
        negotiated: &Negotiated,
    ) -> Option<OneWayDelay> {
        let delay = ack.delay(exponent);
        // Every ACK frame goes through the log, stamped or not: a packet acknowledged without a stamp must not count later.
        let sent = self.sent.take(ack.largest);
        // What orders the samples: the log gives each number once and in order, whatever path the ACK frames come on.
        let packet = ack.largest;
        let sample = match (stamp, sent) {
            (Some(SyncTimestamp { echo: Some(echo), .. }), Some(sent)) => {
                Sample::echoed(now, packet, echo, delay, sent, Duration::MAX)
            }
            (Some(stamp), Some(sent)) if !negotiated.reads_echoes => {
                Some(Sample::lean(now, packet, stamp.sent, delay, sent, Duration::MAX))
            }
            _ => None,
        };
        let one_way = sample.and_then(|sample| self.estimator.sample(now, &sample));
        self.settle();
        let ecn = sum(self.owed.take(), ack.ecn.map(|counts| self.ecn_since(counts)));
        self.pending = Some(Pending { largest: ack.largest, one_way, ecn });
        one_way
    }

    /// The next packet is here: the last one's delay is history, its ECN counts are not.
    fn settle(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.owed = sum(self.owed, pending.ecn);
        }
    }

    /// See [`crate::cell::Cell::take_signals`].
    pub(crate) fn take(&mut self, flow: u64, largest: Option<u64>) -> (Option<OneWayDelay>, Option<EcnDelta>) {
        let same = self.flow.is_none_or(|last| last == flow);
        self.flow = Some(flow);
        if !same {
            // Another controller means another network path: what was measured on the old one means nothing here.
            self.estimator = Estimator::default();
            (self.pending, self.owed) = (None, None);
        }
        match self.pending.take() {
            Some(p) if largest == Some(p.largest) => (p.one_way, p.ecn),
            Some(p) => {
                self.owed = sum(self.owed, p.ecn);
                (None, None)
            }
            None => (None, None),
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
    pub(crate) fn settle(&mut self) {
        self.iter_mut().for_each(Path::settle);
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
        AckSeen { path: 0, largest, raw_delay: 0, ecn: Some(EcnCounts { ect0: counts.0, ect1: 0, ce: counts.1 }) }
    }

    fn hear(path: &mut Path, packet: u64, frame: &AckSeen) {
        path.settle();
        path.acknowledged(Time::from_millis(packet), frame, 3, None, &Negotiated::default());
    }

    #[test]
    fn ecn_counts_reach_the_controller_once_and_none_is_lost() {
        let mut path = Path::default();
        hear(&mut path, 0, &ack(4, (3, 1)));
        assert_eq!(path.take(1, Some(4)).1, Some(EcnDelta { ect0: 3, ect1: 0, ce: 1 }));
        assert_eq!(path.take(1, Some(4)).1, None, "the same frame twice");
        // Two frames that acknowledge nothing new, one that arrives late with old counts, then one that does acknowledge.
        hear(&mut path, 1, &ack(4, (3, 2)));
        hear(&mut path, 2, &ack(4, (4, 3)));
        hear(&mut path, 3, &ack(3, (2, 0)));
        hear(&mut path, 4, &ack(6, (6, 4)));
        assert_eq!(path.take(1, Some(6)).1, Some(EcnDelta { ect0: 3, ect1: 0, ce: 3 }));
    }

    #[test]
    fn signals_go_to_the_frame_they_came_with() {
        let mut path = Path::default();
        hear(&mut path, 0, &ack(4, (5, 0)));
        // The stack's largest is another one: the frame came late.
        assert_eq!(path.take(1, Some(9)), (None, None));
        hear(&mut path, 1, &ack(10, (6, 0)));
        assert_eq!(path.take(1, Some(10)).1, Some(EcnDelta { ect0: 6, ect1: 0, ce: 0 }));
    }

    #[test]
    fn another_controller_starts_without_the_old_path_s_signals() {
        let mut path = Path::default();
        hear(&mut path, 0, &ack(4, (5, 1)));
        assert!(path.take(1, Some(4)).1.is_some());
        hear(&mut path, 1, &ack(5, (6, 2)));
        assert_eq!(path.take(2, Some(5)), (None, None));
        hear(&mut path, 2, &ack(6, (7, 2)));
        assert_eq!(path.take(2, Some(6)).1, Some(EcnDelta { ect0: 1, ect1: 0, ce: 0 }));
    }

    #[test]
    fn delays_need_a_packet_newly_acknowledged() {
        let lean = Negotiated { reads: true, ..Negotiated::default() };
        let mut path = Path::default();
        for packet in 0..4 {
            path.sent.record(packet, Time::from_millis(packet));
        }
        let mut hear = |at, largest| {
            let frame = AckSeen { path: 0, largest, ..AckSeen::default() };
            // Each took 20 ms there and was acknowledged at once.
            let stamp = Some(SyncTimestamp { sent: 20_000 + 1_000 * largest as u32, echo: None });
            path.acknowledged(Time::from_millis(at), &frame, 3, stamp, &lean).is_some()
        };
        assert!(hear(31, 1));
        assert!(!hear(31, 1), "acknowledged before");
        assert!(!hear(32, 0), "older");
        assert!(hear(33, 3));
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
        assert!(path.arrived(7, stamp(70), Time::from_micros(100)));
        assert!(path.arrived(6, stamp(60), Time::from_micros(110)));
        assert!(!path.arrived(7, stamp(71), Time::from_micros(120)));
        assert_eq!(path.heard, Some(Echo { sent: 70, transit: 30 }));
    }
}
