//! Lines whose queue schedules. The next datagram is known only when the link becomes free, so the
//! relay stores a datagram until then.

use fathom_units::Time;

use super::forwarder::{MOST_BYTES, Relay, Waiting};
use super::held::Waits;
use super::line::{Copies, Incoming, Line};
use super::passage::{Passage, Towards, field, flow_of};
use crate::link::Transmission;
use crate::queue::Queued;
use crate::sim::WIRE_OVERHEAD;

impl Line {
    /// Returns whether the queue schedules, so that datagrams wait in the line ([`Line::enqueue`]).
    pub fn schedules(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.schedules())
    }

    /// Enters a datagram that comes in at `now`. Before this call, call [`Line::depart`] up to
    /// `now`. Returns whether the datagram waits in the queue. If it does not, it was dropped
    /// before the link.
    pub fn enqueue(&mut self, now: Time, incoming: Incoming) -> bool {
        let Some(ecn) = self.enter(now, &incoming) else { return false };
        let Incoming { number, payload, flow, .. } = incoming;
        let Some(link) = &mut self.link else { return false };
        link.enqueue(Queued {
            packet: number,
            bytes: payload + WIRE_OVERHEAD,
            flow,
            ecn,
            arrived: now,
        });
        if link.is_idle() {
            self.free = Some(now);
        }
        true
    }

    /// Returns the time of the next event that [`Line::depart`] can return.
    pub fn next_departure(&self) -> Option<Time> {
        self.free.into_iter().chain(self.impairer.next_release()).min()
    }

    /// Returns a datagram that left the scheduling queue by `now`, or that waited behind the link
    /// until later ones had passed, and its copies. A dropped datagram has no copies. Call this
    /// function until it returns `None`.
    pub fn depart(&mut self, now: Time) -> Option<(u32, Copies)> {
        loop {
            if let Some((packet, departure)) = self.impairer.take_released(now) {
                return Some((packet.number, self.copies(packet, departure)));
            }
            let link = self.link.as_mut()?;
            if let Some(dropped) = link.take_dropped() {
                self.stats.dropped += 1;
                return Some((dropped.packet, [None; 2]));
            }
            let at = self.free.filter(|free| *free <= now)?;
            let next = link.dequeue(at);
            self.free = next.map(|sent| sent.out);
            let Some(Transmission { packet, out, mark }) = next else { continue };
            let sent = Incoming {
                number: packet.packet,
                payload: packet.bytes - WIRE_OVERHEAD,
                flow: packet.flow,
                ecn: packet.ecn,
            };
            if let Some(copies) = self.behind_link(out, mark, sent) {
                return Some((packet.packet, copies));
            }
        }
    }
}

impl Relay {
    /// Enters a datagram into a line whose queue schedules.
    pub(super) fn enter_scheduled(&mut self, passage: Passage, datagram: &[u8]) {
        let now = Time::ZERO + passage.at;
        let cost = Waiting::cost(datagram.len());
        self.depart_due(now);
        if self.waiting_bytes + cost > MOST_BYTES {
            self.stats.overrun += 1;
            return;
        }
        let number = self.held.keep(passage, datagram);
        self.waiting_bytes += cost;
        let (payload, flow) = (datagram.len() as u32, flow_of(passage.client));
        let incoming = Incoming { number, payload, flow, ecn: passage.ecn.map(field) };
        if !self.line(passage.towards).enqueue(now, incoming) {
            self.departs(number, [None; 2]);
        }
        self.depart_due(now);
    }

    /// Forwards the datagrams of scheduling lines that left the queue by `now`, or that have waited
    /// long enough for later datagrams.
    pub(super) fn depart_due(&mut self, now: Time) {
        for towards in [Towards::Client, Towards::Server] {
            while let Some((number, copies)) = self.line(towards).depart(now) {
                self.departs(number, copies);
            }
        }
    }

    fn departs(&mut self, number: u32, copies: Copies) {
        let Waits { passage, contents, lost } = self.held.take(number);
        self.waiting_bytes -= Waiting::cost(contents.len());
        let lost = lost && copies[0].is_some();
        self.stats.cut_off += u64::from(lost);
        self.go_on(passage, if lost { [None; 2] } else { copies }, &contents);
        self.held.store(number, contents);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathom_units::Rate;

    use super::*;
    use crate::path::DirectedPath;

    const fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// Returns a line of 8 Mbps: 972 bytes and 28 bytes of headers take 1 ms.
    fn line(queue: &str) -> Line {
        let link = Some((Rate::from_bits_per_sec(8_000_000).into(), queue.parse().unwrap()));
        Line::new(
            DirectedPath { link, delay: Duration::from_millis(20), ..DirectedPath::default() },
            1,
        )
    }

    fn incoming(number: u32, flow: u64) -> Incoming {
        Incoming { number, payload: 972, flow, ecn: None }
    }

    fn departures(line: &mut Line, now: Time) -> Vec<(u32, Option<u64>)> {
        std::iter::from_fn(|| line.depart(now))
            .map(|(number, copies)| (number, copies[0].map(|copy| copy.at.as_nanos() / 1_000_000)))
            .collect()
    }

    #[test]
    fn scheduled_relay_line_serves_flows_in_turn() {
        let mut line = line("fq-codel:quantum=1000B");
        assert!(line.schedules() && line.next_departure().is_none());
        for number in 0..4 {
            assert!(line.enqueue(ms(0), incoming(number, 1)));
        }
        assert!(line.enqueue(ms(0), incoming(10, 2)));
        // The first datagram is being sent, and arrives 20 ms after its last bit.
        assert_eq!(departures(&mut line, ms(0)), [(0, Some(21))]);
        assert_eq!(line.next_departure(), Some(ms(1)));
        assert_eq!(departures(&mut line, Time::from_nanos(999_999)), []);
        // Even if the call is late, the times are those at which the link was free.
        assert_eq!(
            departures(&mut line, ms(10)),
            [(10, Some(22)), (1, Some(23)), (2, Some(24)), (3, Some(25))]
        );
        assert!(line.next_departure().is_none());
        let stats = line.stats();
        assert_eq!((stats.impairments.arrived, stats.forwarded, stats.dropped), (5, 5, 0));
        assert_eq!(line.link_stats(ms(10)).unwrap().departed, 5);
    }

    #[test]
    fn datagrams_dropped_by_a_scheduled_relay_line_do_not_arrive() {
        let mut line = line("fq-codel:limit=2p");
        for number in 0..4 {
            line.enqueue(ms(0), incoming(number, 1));
        }
        let mut told = departures(&mut line, ms(100));
        told.sort_unstable();
        assert_eq!(told.len(), 4);
        assert_eq!(told.iter().filter(|(_, at)| at.is_none()).count() as u64, line.stats().dropped);
        assert!(line.stats().dropped >= 1);
    }
}
