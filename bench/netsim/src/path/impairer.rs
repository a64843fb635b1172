//! Effects of one direction of a path on packets, other than queueing.
//!
//! Before the link: blackouts, the MTU, the policer, loss, changes of the ECN field. Behind the
//! link: propagation delay, jitter, reordering, holds, corruption, duplication. A real path has
//! this order on the sender's side, and so has tc's netem above a rate. Lost packets therefore take
//! no room in the queue.

use std::time::Duration;

use fathom_units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::departure::{Departure, Leaving};
use super::ecn::EcnField;
use super::event::PathEvent;
use super::jitter::Jitter;
use super::loss::{Loss, LossState};
use super::overtaken::Overtaken;
use super::policer::{Bucket, Policer};
use super::reorder::{Reorder, WaitingForOthers};
use crate::ecn::Ecn;

/// Impairments of one direction. Fractions refer to all packets and are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Loss before the link.
    pub loss: Loss,
    /// Largest number of consecutive packets that are lost, or corrupted; `None` for no limit.
    pub in_a_row: Option<u32>,
    /// Extra delay behind the link.
    pub jitter: Jitter,
    /// Packets that arrive before earlier packets or after later ones.
    pub reorder: Reorder,
    /// Fraction of packets that arrive twice.
    pub duplicate: f64,
    /// Fraction of packets that arrive with one bit changed.
    pub corrupt: f64,
    /// Policer that drops packets beyond a rate.
    pub policer: Option<Policer>,
    /// Change of ECN fields.
    pub ecn: EcnField,
    /// Changes at set times.
    pub events: Vec<PathEvent>,
}

impl Impairments {
    /// Returns whether there are no impairments.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Reason why a packet was dropped before the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The packet was lost at random.
    Lost,
    /// The policer dropped the packet.
    Policed,
    /// The packet is larger than the MTU, or a blackout is in progress.
    CutOff,
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairmentCounts {
    /// Packets that came in.
    pub arrived: u64,
    /// Number of bursts in which packets came in. A packet that comes in within 100 µs of the
    /// previous packet belongs to the same burst. A sender's GSO bundles are bursts.
    pub bursts: u64,
    /// Packets in the largest burst.
    pub largest_burst: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets dropped by the policer.
    pub policed: u64,
    /// Packets that were dropped because they were larger than the MTU or came in during a
    /// blackout.
    pub cut_off: u64,
    /// Packets whose ECN field was cleared.
    pub bleached: u64,
    /// Packets whose ECN field was changed from ECT(0) to ECT(1).
    pub remarked: u64,
    /// Packets whose ECN field was changed to CE by [`Impairments::ecn`], not by a queue.
    pub ce_set: u64,
    /// Packets that the queue marked, and whose mark [`EcnField::Hide`] undid.
    pub hidden: u64,
    /// Packets that arrived after a packet of their flow that was sent later (RFC 4737 §3), because
    /// of jitter or [`Impairments::reorder`].
    pub reordered: u64,
    /// Packets chosen by [`Impairments::reorder`], which skipped the delay or waited for later
    /// packets.
    pub displaced: u64,
    /// Packets delayed by a hold.
    pub held: u64,
    /// Packets that were forwarded twice.
    pub duplicated: u64,
    /// Packets with a changed bit.
    pub corrupted: u64,
}

impl ImpairmentCounts {
    /// Returns the counts between `before` and these counts. The largest burst is the one in
    /// `self`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            arrived: self.arrived - before.arrived,
            bursts: self.bursts - before.bursts,
            largest_burst: self.largest_burst,
            lost: self.lost - before.lost,
            policed: self.policed - before.policed,
            cut_off: self.cut_off - before.cut_off,
            bleached: self.bleached - before.bleached,
            remarked: self.remarked - before.remarked,
            ce_set: self.ce_set - before.ce_set,
            hidden: self.hidden - before.hidden,
            reordered: self.reordered - before.reordered,
            displaced: self.displaced - before.displaced,
            held: self.held - before.held,
            duplicated: self.duplicated - before.duplicated,
            corrupted: self.corrupted - before.corrupted,
        }
    }
}

/// Longest gap between two packets of a burst: the transmission time of a full packet at 120 Mbps.
const BURST_GAP: Duration = Duration::from_micros(100);

/// [`Impairments`] with their state. This state machine has no clock, so the caller supplies the
/// time.
#[derive(Clone, Debug)]
pub struct Impairer {
    spec: Impairments,
    delay: Duration,
    loss: LossState,
    bucket: Option<Bucket>,
    rng: Pcg64Mcg,
    /// Arrival time of the last packet that was not reordered.
    last: Time,
    /// Current numbers of consecutive packets that were lost (first) and corrupted (second).
    rows: [u32; 2],
    overtaken: Overtaken,
    waiting: WaitingForOthers,
    /// Time of the last incoming packet. `burst` is the number of packets in its burst so far.
    arrived_at: Time,
    burst: u64,
    counts: ImpairmentCounts,
}

impl Impairer {
    /// Returns the impairments of a link with this propagation delay.
    pub fn new(spec: Impairments, delay: Duration, seed: u64) -> Self {
        Self {
            delay,
            loss: LossState::new(spec.loss),
            bucket: spec.policer.map(Bucket::new),
            rng: Pcg64Mcg::seed_from_u64(seed),
            last: Time::ZERO,
            rows: [0; 2],
            overtaken: Overtaken::default(),
            waiting: WaitingForOthers::default(),
            arrived_at: Time::ZERO,
            burst: 0,
            counts: ImpairmentCounts::default(),
            spec,
        }
    }

    /// Decides on a packet of `payload` bytes, or `wire` bytes with headers, that is about to enter
    /// the link at `now`.
    ///
    /// # Errors
    /// Returns the reason why the packet is dropped before the link.
    pub fn enter(&mut self, now: Time, payload: u32, wire: u32) -> Result<(), DropCause> {
        self.count_arrival(now);
        if !self.spec.events.iter().all(|event| event.lets_pass(now, payload as usize)) {
            self.counts.cut_off += 1;
            return Err(DropCause::CutOff);
        }
        if self.bucket.as_mut().is_some_and(|bucket| !bucket.passes(now, wire)) {
            self.counts.policed += 1;
            return Err(DropCause::Policed);
        }
        let lost = self.loss.is_lost(&mut self.rng);
        if self.in_a_row(0, lost) {
            self.counts.lost += 1;
            return Err(DropCause::Lost);
        }
        Ok(())
    }

    /// Counts an incoming packet and its burst.
    fn count_arrival(&mut self, now: Time) {
        self.counts.arrived += 1;
        let goes_on = self.burst > 0 && now <= self.arrived_at + BURST_GAP;
        self.burst = if goes_on { self.burst + 1 } else { 1 };
        self.arrived_at = now;
        self.counts.bursts += u64::from(!goes_on);
        self.counts.largest_burst = self.counts.largest_burst.max(self.burst);
    }

    /// Returns the ECN field with which a packet enters the queue. `ecn` is the field with which
    /// the packet came in.
    pub const fn ecn(&mut self, ecn: Option<Ecn>) -> Option<Ecn> {
        let counts = &mut self.counts;
        match (self.spec.ecn, ecn) {
            (EcnField::Bleach, Some(_)) => {
                counts.bleached += 1;
                None
            }
            (EcnField::Remark, Some(Ecn::Ect0)) => {
                counts.remarked += 1;
                Some(Ecn::Ect1)
            }
            (EcnField::Ce, Some(Ecn::Ect0 | Ecn::Ect1)) => {
                counts.ce_set += 1;
                Some(Ecn::Ce)
            }
            (_, ecn) => ecn,
        }
    }

    /// Returns the ECN field behind the link of a packet that the queue has marked. `ecn` is the
    /// field with which the packet entered the queue.
    pub const fn marked(&mut self, ecn: Option<Ecn>) -> Option<Ecn> {
        match self.spec.ecn {
            EcnField::Hide => {
                self.counts.hidden += 1;
                ecn
            }
            _ => Some(Ecn::Ce),
        }
    }

    /// Returns the departure of a packet whose last bit leaves the link. Returns `None` if the
    /// packet must wait until later packets have passed. [`Impairer::take_released`] then returns
    /// the packet.
    pub fn leave(&mut self, packet: Leaving) -> Option<Departure> {
        let Leaving { out, payload, flow, .. } = packet;
        let chosen = self.happens(self.spec.reorder.part);
        let waits = self.spec.reorder.distance.filter(|_| chosen && self.waiting.has_room());
        let early = chosen && self.spec.reorder.distance.is_none();
        self.counts.displaced += u64::from(early || waits.is_some());
        let mut at = if early {
            out
        } else {
            out + self.delay_at(out) + self.spec.jitter.sample(&mut self.rng)
        };
        if !self.spec.events.is_empty() {
            at = self.held_until(at);
        }
        if !early && waits.is_none() && !self.spec.jitter.reorders {
            at = at.max(self.last);
        }
        if at > out && waits.is_none() {
            self.last = self.last.max(at);
        }
        let until = waits.map_or(at, |distance| at + distance.within);
        if self.may_reorder() {
            self.counts.reordered += self.overtaken.add(flow, out, until);
        }
        let corrupt = self.happens(self.spec.corrupt);
        let flip = (self.in_a_row(1, corrupt) && payload > 0)
            .then(|| self.rng.random_range(0..payload * 8));
        let duplicated = self.happens(self.spec.duplicate);
        self.counts.corrupted += u64::from(flip.is_some());
        self.counts.duplicated += u64::from(duplicated);
        let departure = Departure { at, flip, duplicated };
        if let Some(distance) = waits {
            self.waiting.add(packet, departure, distance, until);
            return None;
        }
        self.waiting.passed(flow, at);
        Some(departure)
    }

    /// Takes a packet that waited for later packets and may now leave, because enough later packets
    /// have passed or because its time is over at `now`. Call this function after
    /// [`Impairer::leave`] and at [`Impairer::next_release`] until it returns `None`.
    pub fn take_released(&mut self, now: Time) -> Option<(Leaving, Departure)> {
        self.waiting.take(now)
    }

    /// Returns the time at which the next waiting packet leaves even if too few later packets have
    /// passed.
    pub fn next_release(&self) -> Option<Time> {
        self.waiting.next()
    }

    /// Changes the impairments and the propagation delay from now on, by calling `change`. Packets
    /// already behind the link keep their times.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Impairments, &mut Duration)) {
        let before = self.spec.clone();
        change(&mut self.spec, &mut self.delay);
        if self.spec.loss != before.loss {
            self.loss = LossState::new(self.spec.loss);
        }
        if self.spec.policer != before.policer {
            self.bucket = self.spec.policer.map(Bucket::new);
        }
    }

    /// Returns the number of events.
    pub(crate) const fn events(&self) -> usize {
        self.spec.events.len()
    }

    /// Sets the arrival time of the last packet that was not reordered.
    pub(crate) const fn set_last(&mut self, at: Time) {
        self.last = at;
    }

    /// Returns the actual arrival time of a packet that would arrive at `at` without holds.
    fn held_until(&mut self, at: Time) -> Time {
        let mut end = at;
        // A hold may end within another hold. Each hold delays the packet at most once, so the
        // number of events limits the iterations.
        for _ in 0..self.spec.events.len() {
            let next = self.spec.events.iter().filter_map(|event| event.held_until(end)).max();
            let Some(next) = next else { break };
            end = next;
        }
        let end = end.max(at);
        self.counts.held += u64::from(end > at);
        end
    }

    /// Returns whether packets may overtake each other.
    const fn may_reorder(&self) -> bool {
        self.spec.reorder.part > 0.0 || self.spec.jitter.reorders
    }

    /// Returns the counts so far.
    pub const fn counts(&self) -> ImpairmentCounts {
        self.counts
    }

    /// Returns the propagation delay without events.
    pub(crate) const fn base_delay(&self) -> Duration {
        self.delay
    }

    /// Returns the propagation delay at a time.
    fn delay_at(&self, now: Time) -> Duration {
        let steps = self.spec.events.iter().filter_map(|event| match *event {
            PathEvent::Rtt { at, rtt } if Time::ZERO + at <= now => Some((at, rtt / 2)),
            _ => None,
        });
        steps.max_by_key(|(at, _)| *at).map_or(self.delay, |(_, delay)| delay)
    }

    /// Returns whether an impairment of this probability applies, subject to the limit of
    /// consecutive occurrences. `row` is 0 for loss and 1 for corruption.
    fn in_a_row(&mut self, row: usize, happens: bool) -> bool {
        let may = self.spec.in_a_row.is_none_or(|most| self.rows[row] < most);
        let happens = happens && may;
        self.rows[row] = if happens { self.rows[row].saturating_add(1) } else { 0 };
        happens
    }

    /// Returns whether an impairment of this probability applies. A probability of zero draws no
    /// random number, so that the random numbers of the other impairments stay the same.
    fn happens(&mut self, part: f64) -> bool {
        part > 0.0 && self.rng.random::<f64>() < part
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn impairer(spec: Impairments, delay_ms: u64) -> Impairer {
        Impairer::new(spec, Duration::from_millis(delay_ms), 7)
    }

    fn leaving(out: Time, payload: u32) -> Leaving {
        Leaving { out, payload, flow: 0, ecn: None, number: 0 }
    }

    /// Returns the departure of a packet that does not wait for others.
    fn leave(i: &mut Impairer, out: Time, payload: u32) -> Departure {
        i.leave(leaving(out, payload)).unwrap()
    }

    #[test]
    fn packets_pass_unchanged_without_impairments() {
        let mut i = impairer(Impairments::default(), 20);
        assert_eq!(i.enter(ms(5), 1_000, 1_028), Ok(()));
        assert_eq!(
            leave(&mut i, ms(9), 1_000),
            Departure { at: ms(29), flip: None, duplicated: false }
        );
        assert_eq!(
            [None, Some(Ecn::Ect0), Some(Ecn::Ce)].map(|ecn| i.ecn(ecn)),
            [None, Some(Ecn::Ect0), Some(Ecn::Ce)]
        );
    }

    #[test]
    fn impairments_occur_at_their_configured_rate() {
        let spec = Impairments {
            loss: Loss::Random(0.05),
            reorder: Reorder::early(0.1),
            duplicate: 0.02,
            corrupt: 0.01,
            ..Impairments::default()
        };
        let mut i = impairer(spec, 1);
        let n = 100_000;
        for t in 0..n {
            let now = Time::from_micros(t);
            if i.enter(now, 1_000, 1_028).is_ok() {
                leave(&mut i, now, 1_000);
            }
        }
        let ImpairmentCounts { lost, displaced, duplicated, corrupted, .. } = i.counts();
        let left = (n - lost) as f64;
        // The bound is four deviations of a binomial distribution.
        let near = |count: u64, of: f64, part: f64| {
            let slack = 4.0 * (of * part * (1.0 - part)).sqrt();
            assert!((count as f64 - of * part).abs() < slack, "{count} of {of}, wanted {part}");
        };
        near(lost, n as f64, 0.05);
        near(displaced, left, 0.1);
        near(duplicated, left, 0.02);
        near(corrupted, left, 0.01);
    }

    #[test]
    fn burst_counts_match_hand_calculation() {
        let mut i = impairer(Impairments::default(), 0);
        // Three packets enter at once, one packet enters alone, two packets enter 100 µs apart, and
        // one packet enters 101 µs later.
        for us in [0, 0, 0, 5_000, 9_000, 9_100, 9_201] {
            i.enter(Time::from_micros(us), 10, 38).unwrap();
        }
        let ImpairmentCounts { arrived, bursts, largest_burst, .. } = i.counts();
        assert_eq!((arrived, bursts, largest_burst), (7, 4, 3));
    }

    #[test]
    fn overtaken_packets_are_counted_for_every_impairment() {
        // Whichever impairment reorders, the count equals a count over the sorted arrivals.
        for (text, reorder, reorders) in
            [("5ms", 0.0, false), ("5ms,reorder", 0.0, true), ("0ms", 0.1, true)]
        {
            let jitter = text.parse().unwrap();
            let reorder = Reorder::early(reorder);
            let mut i = impairer(Impairments { jitter, reorder, ..Impairments::default() }, 3);
            let at: Vec<Time> =
                (0..2_000).map(|t| leave(&mut i, Time::from_micros(t * 500), 10).at).collect();
            let late = |n: usize| at[n + 1..].iter().any(|later| *later < at[n]);
            let by_hand = (0..at.len()).filter(|n| late(*n)).count() as u64;
            assert_eq!((i.counts().reordered, by_hand > 0), (by_hand, reorders), "{text}");
        }
    }

    #[test]
    fn consecutive_losses_are_limited() {
        let spec =
            Impairments { loss: Loss::Random(0.9), in_a_row: Some(3), ..Impairments::default() };
        let mut i = impairer(spec, 0);
        let passed: Vec<bool> = (0..1_000).map(|t| i.enter(ms(t), 10, 38).is_ok()).collect();
        assert_eq!(passed.split(|passes| *passes).map(<[bool]>::len).max(), Some(3));
    }

    #[test]
    fn rtt_step_affects_only_packets_that_leave_after_it() {
        let events = vec!["rtt:100ms@2s".parse().unwrap(), "rtt:20ms@4s".parse().unwrap()];
        let mut i = impairer(Impairments { events, ..Impairments::default() }, 10);
        let delays = [1_000, 2_000, 3_900, 4_000, 5_000]
            .map(|out| leave(&mut i, ms(out), 10).at.since(ms(out)).as_millis());
        // The packet that leaves at 4 s overtakes none: the last one before it arrived at 3.95 s.
        assert_eq!(delays, [10, 50, 50, 10, 10]);
    }

    #[test]
    fn ecn_fields_are_rewritten_as_configured_and_counted() {
        let all = [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)];
        for (ecn, becomes, counts) in [
            (EcnField::Pass, all, [0, 0, 0]),
            (EcnField::Bleach, [None; 4], [3, 0, 0]),
            (EcnField::Remark, [None, Some(Ecn::Ect1), Some(Ecn::Ect1), Some(Ecn::Ce)], [0, 1, 0]),
            (EcnField::Ce, [None, Some(Ecn::Ce), Some(Ecn::Ce), Some(Ecn::Ce)], [0, 0, 2]),
            (EcnField::Hide, all, [0, 0, 0]),
        ] {
            let mut i = impairer(Impairments { ecn, ..Impairments::default() }, 0);
            assert_eq!(all.map(|came| i.ecn(came)), becomes, "{ecn:?}");
            let ImpairmentCounts { bleached, remarked, ce_set, .. } = i.counts();
            assert_eq!([bleached, remarked, ce_set], counts, "{ecn:?}");

            let hides = ecn == EcnField::Hide;
            let behind = [Ecn::Ect0, Ecn::Ect1].map(|entered| i.marked(Some(entered)));
            let seen = if hides { [Ecn::Ect0, Ecn::Ect1] } else { [Ecn::Ce; 2] };
            assert_eq!(behind, seen.map(Some), "{ecn:?}");
            assert_eq!(i.counts().hidden, 2 * u64::from(hides), "{ecn:?}");
        }
    }

    #[test]
    fn hold_event_releases_held_packets_together_in_order() {
        let events =
            vec!["hold:20ms@100ms every 50ms".parse().unwrap(), "hold:10ms@115ms".parse().unwrap()];
        let mut i = impairer(Impairments { events, ..Impairments::default() }, 10);
        // Without holds they would arrive at 99, 100, 119, 124, 125, 150 and 171 ms. The holds are
        // from 100 to 125 ms and from 150 to 170 ms.
        let at = [89, 90, 109, 114, 115, 140, 161].map(|out| leave(&mut i, ms(out), 10).at);
        assert_eq!(at, [99, 125, 125, 125, 125, 170, 171].map(ms));
        assert_eq!((i.counts().held, i.counts().reordered), (4, 0));
    }

    #[test]
    fn packet_moved_back_arrives_after_the_configured_distance() {
        let reorder = "100%,distance=3,within=20ms".parse().unwrap();
        let mut i = impairer(Impairments { reorder, ..Impairments::default() }, 10);
        let of = |number: u32, flow| Leaving {
            out: ms(number.into()),
            payload: 10,
            flow,
            ecn: None,
            number,
        };
        assert_eq!(i.leave(of(0, 7)), None);
        assert_eq!((i.next_release(), i.take_released(ms(29))), (Some(ms(30)), None));
        // The other packets keep their places. Two belong to the same connection, the next to
        // another connection, and the last to the same connection again.
        i.spec.reorder.part = 0.0;
        for (number, flow) in [(1, 7), (2, 7), (3, 8)] {
            assert_eq!(i.leave(of(number, flow)).unwrap().at, ms(10 + u64::from(number)));
            assert_eq!(i.take_released(ms(number.into())), None);
        }
        i.leave(of(4, 7)).unwrap();
        let (packet, departure) = i.take_released(ms(4)).unwrap();
        assert_eq!((packet.number, departure.at, i.next_release()), (0, ms(14), None));
    }

    #[test]
    fn reordered_packet_is_released_after_its_time_limit() {
        let reorder = "100%,distance=3,within=20ms".parse().unwrap();
        let mut i = impairer(Impairments { reorder, ..Impairments::default() }, 10);
        assert_eq!(i.leave(leaving(ms(0), 10)), None);
        let (_, departure) = i.take_released(ms(30)).unwrap();
        // No packet followed, so no packet overtook this one.
        assert_eq!((departure.at, i.counts().displaced, i.counts().reordered), (ms(30), 1, 0));
    }

    #[test]
    fn packets_moved_back_are_counted_as_overtaken() {
        let reorder = "5%,distance=3".parse().unwrap();
        let mut i = impairer(Impairments { reorder, ..Impairments::default() }, 10);
        let mut arrivals = Vec::new();
        for number in 0..2_000_u32 {
            let out = Time::from_micros(u64::from(number) * 500);
            let packet = Leaving { out, payload: 10, flow: 3, ecn: None, number };
            arrivals.extend(i.leave(packet).map(|departure| (departure.at, number)));
            while let Some((packet, departure)) = i.take_released(out) {
                arrivals.push((departure.at, packet.number));
            }
        }
        // Packets with equal arrival times arrive in the order in which the impairer returned them.
        arrivals.sort_by_key(|(at, _)| *at);
        let numbers: Vec<u32> = arrivals.iter().map(|(_, number)| *number).collect();
        let late = |n: usize| numbers[..n].iter().any(|earlier| *earlier > numbers[n]);
        let by_hand = (0..numbers.len()).filter(|n| late(*n)).count() as u64;
        let counts = i.counts();
        assert!((60..150).contains(&by_hand), "{by_hand}");
        // The last packets may still wait.
        assert!(
            counts.reordered - by_hand <= 3 && counts.displaced - by_hand <= 3,
            "{counts:?}, {by_hand} by hand"
        );
    }

    proptest! {
        /// Jitter without reordering keeps the order. Each packet arrives at most delay plus jitter
        /// after its departure or the previous arrival, whichever is later.
        #[test]
        fn jitter_keeps_packet_order_and_stays_within_bounds(gaps in prop::collection::vec(0u64..5_000_000, 1..200), seed in 0u64..1_000) {
            let (delay, jitter) = (Duration::from_millis(10), Jitter::uniform(Duration::from_millis(5)));
            let mut i = Impairer::new(Impairments { jitter, ..Impairments::default() }, delay, seed);
            let (mut now, mut last) = (Time::ZERO, Time::ZERO);
            for gap in gaps {
                now += Duration::from_nanos(gap);
                let at = leave(&mut i, now, 100).at;
                let [least, most] = [10, 15].map(Duration::from_millis);
                prop_assert!(at >= last && at >= now + least && at <= now.max(last) + most);
                last = at;
            }
        }

        /// Jitter with reordering stays within its bounds, whatever packets went before.
        #[test]
        fn jitter_with_reordering_stays_within_bounds(gaps in prop::collection::vec(0u64..5_000_000, 1..200), seed in 0u64..1_000) {
            let jitter = Jitter { reorders: true, ..Jitter::uniform(Duration::from_millis(5)) };
            let mut i = Impairer::new(Impairments { jitter, ..Impairments::default() }, Duration::from_millis(10), seed);
            let mut now = Time::ZERO;
            for gap in gaps {
                now += Duration::from_nanos(gap);
                let at = leave(&mut i, now, 100).at;
                let [least, most] = [10, 15].map(Duration::from_millis);
                prop_assert!((now + least..=now + most).contains(&at));
            }
        }

        #[test]
        fn corruption_flips_a_bit_within_the_payload(payload in 0u32..2_000, seed in 0u64..1_000) {
            let spec = Impairments { corrupt: 1.0, ..Impairments::default() };
            let flip = leave(&mut Impairer::new(spec, Duration::ZERO, seed), ms(0), payload).flip;
            prop_assert!(flip.map_or(payload == 0, |bit| bit < payload * 8));
        }
    }
}
