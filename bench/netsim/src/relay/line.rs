//! One direction of a relay: what becomes of each datagram.

use std::time::Duration;

use fathom_units::Rate;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::link::{Link, LinkStats, Verdict};
use crate::queue::QueueSpec;
use crate::sim::WIRE_OVERHEAD;

/// What one direction does. Parts are from 0 to 1, of all datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineSpec {
    /// Rate of the link and the queue in front of it; `None`: datagrams do not wait for each other.
    pub link: Option<(Rate, QueueSpec)>,
    /// Propagation delay.
    pub delay: Duration,
    /// Each datagram takes up to this much longer, evenly. Their order stays.
    pub jitter: Duration,
    /// Lost before the link.
    pub loss: f64,
    /// At most so many in a row are lost, and corrupted; `None`: no limit.
    pub in_a_row: Option<u32>,
    /// Skip the propagation delay and so arrive before others.
    pub reorder: f64,
    /// Arrive twice.
    pub duplicate: f64,
    /// Arrive with one bit changed.
    pub corrupt: f64,
}

/// A datagram that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// When, in nanoseconds of the relay's time.
    pub at: u64,
    /// The queue marked it.
    pub mark: bool,
    /// Number of the bit that is changed.
    pub flip: Option<u32>,
}

/// What becomes of a datagram: it arrives as often as there are copies.
pub type Copies = [Option<Copy>; 2];

/// Counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStats {
    /// That came in.
    pub arrived: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped by the queue.
    pub dropped: u64,
    /// Marked by the queue.
    pub marked: u64,
    /// That skipped the delay.
    pub reordered: u64,
    /// That went out twice.
    pub duplicated: u64,
    /// With a changed bit.
    pub corrupted: u64,
    /// That went out, duplicates included.
    pub forwarded: u64,
    /// UDP payload of these in bytes.
    pub bytes: u64,
}

/// One direction at work. Pure: time is what callers say.
#[derive(Debug)]
pub struct Line {
    spec: LineSpec,
    link: Option<Link>,
    rng: Pcg64Mcg,
    /// When the last datagram that kept its place arrives.
    last: u64,
    /// Lost in a row by now, and corrupted.
    rows: [u32; 2],
    stats: LineStats,
}

impl Line {
    /// A line at rest.
    pub fn new(spec: LineSpec, seed: u64) -> Self {
        let link = spec.link.map(|(rate, queue)| Link::new(rate, queue.build(rate, seed ^ 1)));
        Self { spec, link, rng: Pcg64Mcg::seed_from_u64(seed), last: 0, rows: [0; 2], stats: LineStats::default() }
    }

    /// A datagram of `payload` bytes comes in at `now` nanoseconds.
    pub fn arrive(&mut self, now: u64, payload: u32, ecn_capable: bool) -> Copies {
        self.stats.arrived += 1;
        if self.sample_in_a_row(0, self.spec.loss) {
            self.stats.lost += 1;
            return [None; 2];
        }
        let verdict = match &mut self.link {
            Some(link) => link.arrive(now, payload + WIRE_OVERHEAD, ecn_capable),
            None => Verdict::Forward { out: now, mark: false },
        };
        let Verdict::Forward { out, mark } = verdict else {
            self.stats.dropped += 1;
            return [None; 2];
        };
        self.stats.marked += u64::from(mark);
        let at = if self.draw(self.spec.reorder) {
            self.stats.reordered += 1;
            out
        } else {
            let jitter = self.spec.jitter.mul_f64(self.rng.random::<f64>());
            let at = out + (self.spec.delay + jitter).as_nanos() as u64;
            self.last = self.last.max(at);
            self.last
        };
        let flip =
            (self.sample_in_a_row(1, self.spec.corrupt) && payload > 0).then(|| self.rng.random_range(0..payload * 8));
        self.stats.corrupted += u64::from(flip.is_some());
        let copy = Copy { at, mark, flip };
        let double = self.draw(self.spec.duplicate).then_some(copy);
        let copies = 1 + u64::from(double.is_some());
        self.stats.duplicated += copies - 1;
        self.stats.forwarded += copies;
        self.stats.bytes += copies * u64::from(payload);
        [Some(copy), double]
    }

    /// Counts so far.
    pub const fn stats(&self) -> LineStats {
        self.stats
    }

    /// The link's own counts up to `now`, where there is a link.
    pub fn link_stats(&mut self, now: u64) -> Option<LinkStats> {
        self.link.as_mut().map(|link| link.stats(now))
    }

    /// As [`Line::draw`], for what happens only so often in a row.
    fn sample_in_a_row(&mut self, row: usize, part: f64) -> bool {
        let may = self.spec.in_a_row.is_none_or(|most| self.rows[row] < most);
        let falls = self.draw(part) && may;
        self.rows[row] = if falls { self.rows[row].saturating_add(1) } else { 0 };
        falls
    }

    /// Whether an impairment of this probability applies. Probability zero takes no random number, so that it shifts no other.
    fn draw(&mut self, part: f64) -> bool {
        part > 0.0 && self.rng.random::<f64>() < part
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn only(copies: Copies) -> Copy {
        assert_eq!(copies[1], None);
        copies[0].unwrap()
    }

    #[test]
    fn a_line_without_anything_passes_datagrams_at_once() {
        let mut line = Line::new(LineSpec::default(), 1);
        assert_eq!(only(line.arrive(5, 100, true)), Copy { at: 5, mark: false, flip: None });
        assert_eq!((line.stats().forwarded, line.stats().bytes), (1, 100));
        assert!(line.link_stats(5).is_none());
    }

    #[test]
    fn rate_queue_and_delay_are_those_of_virtual_time() {
        let link = Some((Rate::from_bits_per_sec(8_000_000), QueueSpec::droptail_packets(2)));
        let mut line = Line::new(LineSpec { link, delay: Duration::from_millis(20), ..LineSpec::default() }, 1);
        // 972 bytes and 28 of headers: a millisecond each.
        assert_eq!(only(line.arrive(0, 972, false)).at, 21 * MS);
        assert_eq!(only(line.arrive(0, 972, false)).at, 22 * MS);
        assert_eq!(line.arrive(0, 972, false), [None; 2], "two are there");
        assert_eq!(only(line.arrive(MS, 972, false)).at, 23 * MS);
        assert_eq!((line.stats().dropped, line.link_stats(MS).unwrap().dropped), (1, 1));
    }

    #[test]
    fn impairments_occur_at_their_configured_rate() {
        let spec = LineSpec { loss: 0.05, reorder: 0.1, duplicate: 0.02, corrupt: 0.01, ..LineSpec::default() };
        let mut line = Line::new(LineSpec { delay: Duration::from_millis(1), ..spec }, 7);
        let n = 100_000;
        for i in 0..n {
            line.arrive(i * 1_000, 1_000, false);
        }
        let LineStats { lost, reordered, duplicated, corrupted, .. } = line.stats();
        let left = (n - lost) as f64;
        // Four deviations of a binomial.
        let near = |count: u64, of: f64, part: f64| {
            let slack = 4.0 * (of * part * (1.0 - part)).sqrt();
            assert!((count as f64 - of * part).abs() < slack, "{count} of {of}, wanted {part}");
        };
        near(lost, n as f64, 0.05);
        near(reordered, left, 0.1);
        near(duplicated, left, 0.02);
        near(corrupted, left, 0.01);
    }

    #[test]
    fn so_many_in_a_row_are_lost_and_no_more() {
        let mut line = Line::new(LineSpec { loss: 0.9, in_a_row: Some(3), ..LineSpec::default() }, 5);
        let passed: Vec<bool> = (0..1_000).map(|i| line.arrive(i * MS, 10, false)[0].is_some()).collect();
        let longest = passed.split(|passes| *passes).map(<[bool]>::len).max();
        assert_eq!(longest, Some(3));
        assert!(passed.iter().filter(|passes| **passes).count() < 400, "mostly lost");
    }

    #[test]
    fn a_reordered_datagram_overtakes() {
        let mut line = Line::new(LineSpec { reorder: 0.5, delay: Duration::from_millis(10), ..LineSpec::default() }, 3);
        let at: Vec<u64> = (0..100).map(|i| only(line.arrive(i * MS, 10, false)).at).collect();
        assert!(at.windows(2).any(|w| w[1] < w[0]));
    }

    proptest! {
        #[test]
        fn jitter_keeps_order_and_bounds(gaps in prop::collection::vec(0u64..5 * MS, 1..200), seed in 0u64..1_000) {
            let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(5));
            let mut line = Line::new(LineSpec { delay, jitter, ..LineSpec::default() }, seed);
            let (mut now, mut last) = (0, 0);
            for gap in gaps {
                now += gap;
                let at = only(line.arrive(now, 100, false)).at;
                prop_assert!(at >= last && at >= now + 10 * MS && at <= now.max(last) + 15 * MS);
                last = at;
            }
        }

        #[test]
        fn a_flipped_bit_is_in_the_datagram(payload in 0u32..2_000, seed in 0u64..1_000) {
            let mut line = Line::new(LineSpec { corrupt: 1.0, ..LineSpec::default() }, seed);
            let flip = only(line.arrive(0, payload, false)).flip;
            prop_assert!(flip.map_or(payload == 0, |bit| bit < payload * 8));
        }
    }
}
