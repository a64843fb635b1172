//! One direction of a relay, which decides on each datagram. Its times are those of the relay.

use fathom_units::Time;

use crate::ecn::Ecn;
use crate::link::{Link, LinkStats, Verdict};
use crate::path::{Departure, DirectedPath, Impairer, ImpairmentCounts, Leaving};
use crate::sim::WIRE_OVERHEAD;

/// A copy of a datagram that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Time of arrival.
    pub at: Time,
    /// Time at which the datagram's last bit leaves the link.
    pub out: Time,
    /// ECN field on arrival.
    pub ecn: Option<Ecn>,
    /// Number of the payload bit that the line changed; `None` for an intact copy.
    pub flip: Option<u32>,
}

/// Copies of a datagram that arrive: none if the datagram was dropped, two if it was duplicated.
pub type Copies = [Option<Copy>; 2];

/// A datagram that comes in at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The relay's number for the datagram, by which [`Line::depart`] identifies it.
    pub number: u32,
    /// UDP payload in bytes.
    pub payload: u32,
    /// Flow identifier: equal for all datagrams of a client, and different for different clients.
    pub flow: u64,
    /// ECN field of the incoming datagram.
    pub ecn: Option<Ecn>,
}

/// Counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStats {
    /// Counts before and behind the link, including the number of all datagrams that came in
    /// (`arrived`).
    pub impairments: ImpairmentCounts,
    /// Datagrams dropped by the queue.
    pub dropped: u64,
    /// Datagrams marked by the queue.
    pub marked: u64,
    /// Datagrams forwarded, including duplicates.
    pub forwarded: u64,
    /// Total UDP payload in bytes of the forwarded datagrams.
    pub bytes: u64,
}

/// One direction with its state. It has no clock, so the caller supplies the time.
#[derive(Debug)]
pub struct Line {
    pub(super) impairer: Impairer,
    pub(super) link: Option<Link>,
    /// Time at which a scheduling link is free to send the next datagram (`scheduled.rs`).
    pub(super) free: Option<Time>,
    pub(super) stats: LineStats,
}

impl Line {
    /// Returns a line without datagrams.
    pub fn new(path: DirectedPath, seed: u64) -> Self {
        let link = path.link.map(|(capacity, queue)| {
            Link::new(capacity.of_seed(seed), queue.build(capacity.nominal(), seed ^ 1))
        });
        Self {
            impairer: Impairer::new(path.impairments, path.delay, seed),
            link,
            free: None,
            stats: LineStats::default(),
        }
    }

    /// Decides on a datagram that comes in at `now` at a line whose queue does not schedule
    /// ([`Line::schedules`]). Returns the copies of the datagram. Returns `None` if the datagram
    /// waits until later datagrams have passed; [`Line::depart`] then returns it.
    pub fn arrive(&mut self, now: Time, incoming: Incoming) -> Option<Copies> {
        let Some(ecn) = self.enter(now, &incoming) else { return Some([None; 2]) };
        let verdict = match &mut self.link {
            Some(link) => link.arrive(now, incoming.payload + WIRE_OVERHEAD, ecn.is_some()),
            None => Verdict::Forward { out: now, mark: false },
        };
        let Verdict::Forward { out, mark } = verdict else {
            self.stats.dropped += 1;
            return Some([None; 2]);
        };
        self.behind_link(out, mark, Incoming { ecn, ..incoming })
    }

    /// Enters a datagram into the line. Returns its ECN field from here on; `None` if it is dropped
    /// before the link.
    pub(super) fn enter(&mut self, now: Time, incoming: &Incoming) -> Option<Option<Ecn>> {
        let payload = incoming.payload;
        self.impairer.enter(now, payload, payload + WIRE_OVERHEAD).ok()?;
        Some(self.impairer.ecn(incoming.ecn))
    }

    /// Returns the copies of a datagram whose last bit leaves the link at `out`; `None` if the
    /// datagram waits until later datagrams have passed.
    pub(super) fn behind_link(&mut self, out: Time, mark: bool, sent: Incoming) -> Option<Copies> {
        self.stats.marked += u64::from(mark);
        let Incoming { number, payload, flow, ecn } = sent;
        let ecn = if mark { self.impairer.marked(ecn) } else { ecn };
        let packet = Leaving { out, payload, flow, ecn, number };
        self.impairer.leave(packet).map(|departure| self.copies(packet, departure))
    }

    /// Counts and returns the copies that arrive.
    pub(super) fn copies(&mut self, packet: Leaving, departure: Departure) -> Copies {
        let copy =
            Copy { at: departure.at, out: packet.out, ecn: packet.ecn, flip: departure.flip };
        let copies = 1 + u64::from(departure.duplicated);
        self.stats.forwarded += copies;
        self.stats.bytes += copies * u64::from(packet.payload);
        [Some(copy), departure.duplicated.then_some(copy)]
    }

    /// Returns the counts so far.
    pub const fn stats(&self) -> LineStats {
        LineStats { impairments: self.impairer.counts(), ..self.stats }
    }

    /// Returns the link's own counts up to `now`; `None` if there is no link.
    pub fn link_stats(&mut self, now: Time) -> Option<LinkStats> {
        self.link.as_mut().map(|link| link.stats(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathom_units::Rate;

    use super::*;
    use crate::path::{EcnField, Impairments, Reorder};
    use crate::queue::QueueSpec;

    const fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn only(copies: Option<Copies>) -> Copy {
        let copies = copies.unwrap();
        assert_eq!(copies[1], None);
        copies[0].unwrap()
    }

    fn incoming(payload: u32) -> Incoming {
        Incoming { number: 0, payload, flow: 0, ecn: None }
    }

    #[test]
    fn relay_line_without_options_passes_datagrams_at_once() {
        let mut line = Line::new(DirectedPath::default(), 1);
        let (five, ecn) = (Time::from_millis(5), Some(Ecn::Ect1));
        assert_eq!(
            only(line.arrive(five, Incoming { ecn, ..incoming(100) })),
            Copy { at: five, out: five, ecn, flip: None }
        );
        assert_eq!((line.stats().forwarded, line.stats().bytes), (1, 100));
        assert!(line.link_stats(five).is_none());
    }

    #[test]
    fn relay_line_delays_match_the_simulated_link() {
        let link =
            Some((Rate::from_bits_per_sec(8_000_000).into(), QueueSpec::droptail_packets(2)));
        let mut line = Line::new(
            DirectedPath { link, delay: Duration::from_millis(20), ..DirectedPath::default() },
            1,
        );
        // 972 bytes and 28 bytes of headers: 1 ms each.
        assert_eq!(only(line.arrive(ms(0), incoming(972))).at, ms(21));
        assert_eq!(only(line.arrive(ms(0), incoming(972))).at, ms(22));
        assert_eq!(line.arrive(ms(0), incoming(972)), Some([None; 2]), "two are there");
        assert_eq!(only(line.arrive(ms(1), incoming(972))).at, ms(23));
        assert_eq!((line.stats().dropped, line.link_stats(ms(1)).unwrap().dropped), (1, 1));
    }

    #[test]
    fn relay_line_hides_the_marks_of_its_queue() {
        for (ecn, arrives) in [(EcnField::Pass, Ecn::Ce), (EcnField::Hide, Ecn::Ect0)] {
            let impairments = Impairments { ecn, ..Impairments::default() };
            let mut line = Line::new(DirectedPath { impairments, ..DirectedPath::default() }, 1);
            let sent = Incoming { ecn: Some(Ecn::Ect0), ..incoming(100) };
            assert_eq!(only(line.behind_link(ms(5), true, sent)).ecn, Some(arrives));
            let hidden = u64::from(arrives == Ecn::Ect0);
            assert_eq!((line.stats().marked, line.stats().impairments.hidden), (1, hidden));
        }
    }

    #[test]
    fn reordered_datagram_overtakes_earlier_datagrams() {
        let impairments = Impairments { reorder: Reorder::early(0.5), ..Impairments::default() };
        let mut line = Line::new(
            DirectedPath { impairments, delay: Duration::from_millis(10), link: None },
            3,
        );
        let at: Vec<Time> = (0..100).map(|i| only(line.arrive(ms(i), incoming(10))).at).collect();
        assert!(at.windows(2).any(|w| w[1] < w[0]));
    }
}
