//! One direction of a relay: what becomes of each datagram.

use crate::link::{Link, LinkStats, Verdict};
use crate::path::{DirectedPath, Impairer, ImpairmentCounts};
use crate::sim::WIRE_OVERHEAD;

/// A datagram that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// When, in nanoseconds of the relay's time.
    pub at: u64,
    /// The queue marked it.
    pub mark: bool,
    /// Its ECN field is cleared.
    pub bleach: bool,
    /// Number of the bit that is changed.
    pub flip: Option<u32>,
}

/// What becomes of a datagram: it arrives as often as there are copies.
pub type Copies = [Option<Copy>; 2];

/// Counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStats {
    /// What happened before the link and behind it; `arrived` among them.
    pub impairments: ImpairmentCounts,
    /// Dropped by the queue.
    pub dropped: u64,
    /// Marked by the queue.
    pub marked: u64,
    /// That went out, duplicates included.
    pub forwarded: u64,
    /// UDP payload of these in bytes.
    pub bytes: u64,
}

/// One direction at work. Pure: time is what callers say.
#[derive(Debug)]
pub struct Line {
    impairer: Impairer,
    pub(super) link: Option<Link>,
    /// When a link that schedules is free to send the next datagram (`scheduled.rs`).
    pub(super) free: Option<u64>,
    pub(super) stats: LineStats,
}

impl Line {
    /// A line at rest.
    pub fn new(path: DirectedPath, seed: u64) -> Self {
        let link = path
            .link
            .map(|(capacity, queue)| Link::new(capacity.of_seed(seed), queue.build(capacity.nominal(), seed ^ 1)));
        Self {
            impairer: Impairer::new(path.impairments, path.delay, seed),
            link,
            free: None,
            stats: LineStats::default(),
        }
    }

    /// A datagram of `payload` bytes, of the client `flow`, comes in at `now` nanoseconds at a line whose queue does not schedule ([`Line::schedules`]).
    pub fn arrive(&mut self, now: u64, payload: u32, ecn_capable: bool, flow: u64) -> Copies {
        if self.takes(now, payload) {
            return [None; 2];
        }
        let bleach = self.bleaches(ecn_capable);
        let verdict = match &mut self.link {
            Some(link) => link.arrive(now, payload + WIRE_OVERHEAD, ecn_capable && !bleach),
            None => Verdict::Forward { out: now, mark: false },
        };
        let Verdict::Forward { out, mark } = verdict else {
            self.stats.dropped += 1;
            return [None; 2];
        };
        self.behind_link(out, mark, payload, flow)
    }

    /// A datagram comes in; whether something takes it before the link.
    pub(super) fn takes(&mut self, now: u64, payload: u32) -> bool {
        self.impairer.enter(now, payload, payload + WIRE_OVERHEAD).is_err()
    }

    /// Whether a datagram's ECN field is cleared before the link; `ecn`: it has one.
    pub(super) fn bleaches(&mut self, ecn: bool) -> bool {
        self.impairer.bleaches(ecn)
    }

    /// What becomes of a datagram whose last bit leaves the link at `out`.
    pub(super) fn behind_link(&mut self, out: u64, mark: bool, payload: u32, flow: u64) -> Copies {
        self.stats.marked += u64::from(mark);
        let leaving = self.impairer.leave(out, payload, flow);
        let copy = Copy { at: leaving.at, mark, bleach: self.impairer.bleaches_all(), flip: leaving.flip };
        let copies = 1 + u64::from(leaving.duplicated);
        self.stats.forwarded += copies;
        self.stats.bytes += copies * u64::from(payload);
        [Some(copy), leaving.duplicated.then_some(copy)]
    }

    /// Counts so far.
    pub const fn stats(&self) -> LineStats {
        LineStats { impairments: self.impairer.counts(), ..self.stats }
    }

    /// The link's own counts up to `now`, where there is a link.
    pub fn link_stats(&mut self, now: u64) -> Option<LinkStats> {
        self.link.as_mut().map(|link| link.stats(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathom_units::Rate;

    use super::*;
    use crate::path::Impairments;
    use crate::queue::QueueSpec;

    const MS: u64 = 1_000_000;

    fn only(copies: Copies) -> Copy {
        assert_eq!(copies[1], None);
        copies[0].unwrap()
    }

    #[test]
    fn a_line_without_anything_passes_datagrams_at_once() {
        let mut line = Line::new(DirectedPath::default(), 1);
        assert_eq!(only(line.arrive(5, 100, true, 0)), Copy { at: 5, mark: false, bleach: false, flip: None });
        assert_eq!((line.stats().forwarded, line.stats().bytes), (1, 100));
        assert!(line.link_stats(5).is_none());
    }

    #[test]
    fn rate_queue_and_delay_are_those_of_virtual_time() {
        let link = Some((Rate::from_bits_per_sec(8_000_000).into(), QueueSpec::droptail_packets(2)));
        let mut line = Line::new(DirectedPath { link, delay: Duration::from_millis(20), ..DirectedPath::default() }, 1);
        // 972 bytes and 28 of headers: a millisecond each.
        assert_eq!(only(line.arrive(0, 972, false, 0)).at, 21 * MS);
        assert_eq!(only(line.arrive(0, 972, false, 0)).at, 22 * MS);
        assert_eq!(line.arrive(0, 972, false, 0), [None; 2], "two are there");
        assert_eq!(only(line.arrive(MS, 972, false, 0)).at, 23 * MS);
        assert_eq!((line.stats().dropped, line.link_stats(MS).unwrap().dropped), (1, 1));
    }

    #[test]
    fn a_reordered_datagram_overtakes() {
        let impairments = Impairments { reorder: 0.5, ..Impairments::default() };
        let mut line = Line::new(DirectedPath { impairments, delay: Duration::from_millis(10), link: None }, 3);
        let at: Vec<u64> = (0..100).map(|i| only(line.arrive(i * MS, 10, false, 0)).at).collect();
        assert!(at.windows(2).any(|w| w[1] < w[0]));
    }
}
