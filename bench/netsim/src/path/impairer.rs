//! What one direction of a path does to packets besides queueing them.
//!
//! Before the link: blackouts, the MTU, the policer, loss, ECN bleaching. Behind it: propagation delay, jitter, reordering, corruption,
//! duplication. The order is that of a sender's side of a real path, and of tc's netem above a rate: what is lost takes no room in the queue.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::event::PathEvent;
use super::jitter::Jitter;
use super::loss::{Loss, LossState};
use super::overtaken::Overtaken;
use super::policer::{Bucket, Policer};

/// What one direction does to packets. Parts are from 0 to 1, of all packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Lost before the link.
    pub loss: Loss,
    /// At most so many in a row are lost, and corrupted; `None`: no limit.
    pub in_a_row: Option<u32>,
    /// Extra delay behind the link.
    pub jitter: Jitter,
    /// Skip the propagation delay and so arrive before others.
    pub reorder: f64,
    /// Arrive twice.
    pub duplicate: f64,
    /// Arrive with one bit changed.
    pub corrupt: f64,
    /// Drops what exceeds a rate.
    pub policer: Option<Policer>,
    /// ECN fields are cleared: packets look not ECN-capable from here on.
    pub bleach: bool,
    /// What changes, and when.
    pub events: Vec<PathEvent>,
}

impl Impairments {
    /// Whether it does anything to a packet.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a packet did not reach the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// Lost at random.
    Lost,
    /// The policer dropped it.
    Policed,
    /// It was larger than the MTU, or came in a blackout.
    CutOff,
}

/// A packet behind the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When the far end of the link has it, propagation delay included (nanoseconds).
    pub at: u64,
    /// Number of the bit of its payload that is changed.
    pub flip: Option<u32>,
    /// It comes twice.
    pub duplicated: bool,
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpairmentCounts {
    /// That came in.
    pub arrived: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped by the policer.
    pub policed: u64,
    /// Too large, or in a blackout.
    pub cut_off: u64,
    /// Whose ECN field was cleared.
    pub bleached: u64,
    /// That arrived after a packet of their flow that was sent later (RFC 4737 §3), whatever made them: jitter, or [`Impairments::reorder`].
    pub reordered: u64,
    /// Chosen by [`Impairments::reorder`]: they skipped the delay.
    pub displaced: u64,
    /// That went out twice.
    pub duplicated: u64,
    /// With a changed bit.
    pub corrupted: u64,
}

/// [`Impairments`] at work. Pure: time is what callers say.
#[derive(Clone, Debug)]
pub struct Impairer {
    spec: Impairments,
    delay: Duration,
    loss: LossState,
    bucket: Option<Bucket>,
    rng: Pcg64Mcg,
    /// When the last packet that kept its place arrives.
    last: u64,
    /// Lost in a row by now, and corrupted.
    rows: [u32; 2],
    overtaken: Overtaken,
    counts: ImpairmentCounts,
}

impl Impairer {
    /// Impairments of a link with this propagation delay.
    pub fn new(spec: Impairments, delay: Duration, seed: u64) -> Self {
        Self {
            delay,
            loss: LossState::new(spec.loss),
            bucket: spec.policer.map(Bucket::new),
            rng: Pcg64Mcg::seed_from_u64(seed),
            last: 0,
            rows: [0; 2],
            overtaken: Overtaken::default(),
            counts: ImpairmentCounts::default(),
            spec,
        }
    }

    /// A packet of `payload` bytes, `wire` with headers, is about to enter the link at `now` nanoseconds.
    ///
    /// # Errors
    /// Why it does not.
    pub fn enter(&mut self, now: u64, payload: u32, wire: u32) -> Result<(), DropCause> {
        self.counts.arrived += 1;
        if !self.spec.events.is_empty() {
            let at = Duration::from_nanos(now);
            if !self.spec.events.iter().all(|event| event.lets_pass(at, payload as usize)) {
                self.counts.cut_off += 1;
                return Err(DropCause::CutOff);
            }
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

    /// Whether the ECN field of a packet is cleared; `ecn`: it has one.
    pub fn bleaches(&mut self, ecn: bool) -> bool {
        let bleaches = self.spec.bleach && ecn;
        self.counts.bleached += u64::from(bleaches);
        bleaches
    }

    /// Whether every ECN field is cleared.
    pub const fn bleaches_all(&self) -> bool {
        self.spec.bleach
    }

    /// The last bit of a packet of `flow` leaves the link at `out` nanoseconds.
    pub fn leave(&mut self, out: u64, payload: u32, flow: u64) -> Departure {
        let at = if self.happens(self.spec.reorder) {
            self.counts.displaced += 1;
            out
        } else {
            let at = out + self.delay_at(out) + self.spec.jitter.sample(&mut self.rng);
            if self.spec.jitter.reorders { at } else { at.max(self.last) }
        };
        if at > out {
            self.last = self.last.max(at);
        }
        if self.may_reorder() {
            self.counts.reordered += self.overtaken.add(flow, out, at);
        }
        let corrupt = self.happens(self.spec.corrupt);
        let flip = (self.in_a_row(1, corrupt) && payload > 0).then(|| self.rng.random_range(0..payload * 8));
        let duplicated = self.happens(self.spec.duplicate);
        self.counts.corrupted += u64::from(flip.is_some());
        self.counts.duplicated += u64::from(duplicated);
        Departure { at, flip, duplicated }
    }

    /// Whether packets may overtake others.
    const fn may_reorder(&self) -> bool {
        self.spec.reorder > 0.0 || self.spec.jitter.reorders
    }

    /// Counts so far.
    pub const fn counts(&self) -> ImpairmentCounts {
        self.counts
    }

    /// Propagation delay that the link has without events.
    pub(crate) const fn base_delay(&self) -> Duration {
        self.delay
    }

    /// The propagation delay at a time, in nanoseconds.
    fn delay_at(&self, now: u64) -> u64 {
        let steps = self.spec.events.iter().filter_map(|event| match *event {
            PathEvent::Rtt { at, rtt } if at.as_nanos() <= u128::from(now) => Some((at, rtt / 2)),
            _ => None,
        });
        steps.max_by_key(|(at, _)| *at).map_or(self.delay, |(_, delay)| delay).as_nanos() as u64
    }

    /// Whether something happens that may happen only so often in a row.
    fn in_a_row(&mut self, row: usize, happens: bool) -> bool {
        let may = self.spec.in_a_row.is_none_or(|most| self.rows[row] < most);
        let happens = happens && may;
        self.rows[row] = if happens { self.rows[row].saturating_add(1) } else { 0 };
        happens
    }

    /// Whether an impairment of this probability applies. Probability zero takes no random number, so that it shifts no other.
    fn happens(&mut self, part: f64) -> bool {
        part > 0.0 && self.rng.random::<f64>() < part
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn impairer(spec: Impairments, delay_ms: u64) -> Impairer {
        Impairer::new(spec, Duration::from_millis(delay_ms), 7)
    }

    #[test]
    fn nothing_happens_without_impairments() {
        let mut i = impairer(Impairments::default(), 20);
        assert_eq!(i.enter(5, 1_000, 1_028), Ok(()));
        assert_eq!(i.leave(9, 1_000, 0), Departure { at: 9 + 20 * MS, flip: None, duplicated: false });
        assert!(!i.bleaches(true));
    }

    #[test]
    fn impairments_occur_at_their_configured_rate() {
        let spec = Impairments {
            loss: Loss::Random(0.05),
            reorder: 0.1,
            duplicate: 0.02,
            corrupt: 0.01,
            ..Impairments::default()
        };
        let mut i = impairer(spec, 1);
        let n = 100_000;
        for t in 0..n {
            if i.enter(t * 1_000, 1_000, 1_028).is_ok() {
                i.leave(t * 1_000, 1_000, 0);
            }
        }
        let ImpairmentCounts { lost, displaced, duplicated, corrupted, .. } = i.counts();
        let left = (n - lost) as f64;
        // Four deviations of a binomial.
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
    fn overtaken_packets_are_counted_whatever_made_them() {
        // Whatever reorders, the count is that of arrivals sorted afterwards.
        for (text, reorder, reorders) in [("5ms", 0.0, false), ("5ms,reorder", 0.0, true), ("0ms", 0.1, true)] {
            let jitter = text.parse().unwrap();
            let mut i = impairer(Impairments { jitter, reorder, ..Impairments::default() }, 3);
            let at: Vec<u64> = (0..2_000).map(|t| i.leave(t * MS / 2, 10, 0).at).collect();
            let late = |n: usize| at[n + 1..].iter().any(|later| *later < at[n]);
            let by_hand = (0..at.len()).filter(|n| late(*n)).count() as u64;
            assert_eq!((i.counts().reordered, by_hand > 0), (by_hand, reorders), "{text}");
        }
    }

    #[test]
    fn so_many_in_a_row_are_lost_and_no_more() {
        let spec = Impairments { loss: Loss::Random(0.9), in_a_row: Some(3), ..Impairments::default() };
        let mut i = impairer(spec, 0);
        let passed: Vec<bool> = (0..1_000).map(|t| i.enter(t * MS, 10, 38).is_ok()).collect();
        assert_eq!(passed.split(|passes| *passes).map(<[bool]>::len).max(), Some(3));
    }

    #[test]
    fn a_step_of_the_rtt_moves_packets_that_leave_after_it() {
        let events = vec!["rtt:100ms@2s".parse().unwrap(), "rtt:20ms@4s".parse().unwrap()];
        let mut i = impairer(Impairments { events, ..Impairments::default() }, 10);
        let delays: Vec<u64> =
            [1_000, 2_000, 3_900, 4_000, 5_000].map(|ms| i.leave(ms * MS, 10, 0).at / MS - ms).to_vec();
        // The one that leaves at 4 s would overtake nobody: the last of before arrived at 3.95 s.
        assert_eq!(delays, [10, 50, 50, 10, 10]);
    }

    #[test]
    fn a_bleached_packet_is_counted_once() {
        let mut i = impairer(Impairments { bleach: true, ..Impairments::default() }, 0);
        assert_eq!((i.bleaches(true), i.bleaches(false), i.counts().bleached), (true, false, 1));
    }

    proptest! {
        /// Jitter that keeps order does, and no packet takes longer than delay and jitter behind the one before.
        #[test]
        fn jitter_keeps_order_and_bounds(gaps in prop::collection::vec(0u64..5 * MS, 1..200), seed in 0u64..1_000) {
            let (delay, jitter) = (Duration::from_millis(10), Jitter::uniform(Duration::from_millis(5)));
            let mut i = Impairer::new(Impairments { jitter, ..Impairments::default() }, delay, seed);
            let (mut now, mut last) = (0, 0);
            for gap in gaps {
                now += gap;
                let at = i.leave(now, 100, 0).at;
                prop_assert!(at >= last && at >= now + 10 * MS && at <= now.max(last) + 15 * MS);
                last = at;
            }
        }

        /// Jitter that may reorder stays within its own bounds, whoever went before.
        #[test]
        fn reordering_jitter_has_bounds(gaps in prop::collection::vec(0u64..5 * MS, 1..200), seed in 0u64..1_000) {
            let jitter = Jitter { reorders: true, ..Jitter::uniform(Duration::from_millis(5)) };
            let mut i = Impairer::new(Impairments { jitter, ..Impairments::default() }, Duration::from_millis(10), seed);
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let at = i.leave(now, 100, 0).at;
                prop_assert!((now + 10 * MS..=now + 15 * MS).contains(&at));
            }
        }

        #[test]
        fn a_flipped_bit_is_in_the_payload(payload in 0u32..2_000, seed in 0u64..1_000) {
            let spec = Impairments { corrupt: 1.0, ..Impairments::default() };
            let flip = Impairer::new(spec, Duration::ZERO, seed).leave(0, payload, 0).flip;
            prop_assert!(flip.map_or(payload == 0, |bit| bit < payload * 8));
        }
    }
}
