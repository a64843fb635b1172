//! Links behind queues that schedule. The next packet is known only when the link becomes free, so
//! such a link is called twice per packet: when the packet arrives ([`Link::enqueue`]), and when
//! the link is free to send one ([`Link::dequeue`]).
//!
//! The link's owner keeps the packets and takes the dropped ones after either call
//! ([`Link::take_dropped`]). The owner calls [`Link::dequeue`] again when a transmission ends
//! ([`Transmission::out`]), or at the next arrival if no packet was left ([`Link::is_idle`]).

use std::time::Duration;

use fathom_units::Time;

use super::{Link, Service};
use crate::queue::{Queued, Scheduler};

/// State of a link that schedules, besides its counts.
#[derive(Debug)]
pub(super) struct Scheduled {
    scheduler: Box<dyn Scheduler>,
    /// Whether a transmission began and [`Link::dequeue`] has not been called since its end.
    sending: bool,
    /// Dropped packets that were not taken yet.
    dropped: Vec<Queued>,
}

impl Scheduled {
    pub(super) const fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self { scheduler, sending: false, dropped: Vec::new() }
    }

    /// Returns the bytes of the waiting packets.
    pub(super) fn bytes(&self) -> u64 {
        self.scheduler.queued_bytes()
    }
}

/// A packet that a link sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The packet.
    pub packet: Queued,
    /// Time at which its last bit is sent and the link is free again, in nanoseconds.
    pub out: u64,
    /// Whether the link marks the packet Congestion Experienced (CE).
    pub mark: bool,
}

impl Link {
    /// Returns whether the queue schedules. If so, packets enter by [`Link::enqueue`] instead of
    /// [`Link::arrive`].
    pub const fn schedules(&self) -> bool {
        matches!(self.queue, Service::Scheduled(_))
    }

    /// Returns whether nothing is being sent. If so, call [`Link::dequeue`] after an arrival.
    pub const fn is_idle(&self) -> bool {
        matches!(&self.queue, Service::Scheduled(scheduled) if !scheduled.sending)
    }

    /// Enqueues a packet that arrives, at the time in `packet`, at a link that schedules. Packets
    /// dropped for it are available from [`Link::take_dropped`].
    pub fn enqueue(&mut self, packet: Queued) {
        let now = packet.arrived;
        self.depart_until(now);
        self.stats.arrived += 1;
        self.stats.admitted += 1;
        if let Some(drops) = &mut self.stats.drops {
            drops.add(now, false);
        }
        let in_transmission = self.departures.len();
        if let Service::Scheduled(scheduled) = &mut self.queue {
            let before = scheduled.dropped.len();
            scheduled.scheduler.enqueue(packet, in_transmission, &mut scheduled.dropped);
            self.note_queue(now, before);
        }
        self.stats.max_queue = self.stats.max_queue.max(self.length());
    }

    /// Returns the packet that the link sends next when it becomes free at `now`, or `None` if none
    /// is left. Packets dropped while choosing are available from [`Link::take_dropped`].
    pub fn dequeue(&mut self, now: u64) -> Option<Transmission> {
        self.depart_until(now);
        let Service::Scheduled(scheduled) = &mut self.queue else { return None };
        let before = scheduled.dropped.len();
        let next = scheduled.scheduler.dequeue(now, &mut scheduled.dropped);
        scheduled.sending = next.is_some();
        self.note_queue(now, before);
        let (packet, mark) = next?;
        let out = self.transmission_ends(now, packet.bytes);
        self.free_at = out;
        self.busy += out - now;
        self.departures.push_back((out, packet.bytes));
        self.queued_bytes += u64::from(packet.bytes);
        self.stats.marked += u64::from(mark);
        self.stats.bytes += u64::from(packet.bytes);
        if let Some(log) = &mut self.log {
            log.push((
                Time::from_nanos(packet.arrived),
                Duration::from_nanos(out - packet.arrived),
            ));
        }
        Some(Transmission { packet, out, mark })
    }

    /// Takes one of the dropped packets, the last one first.
    pub fn take_dropped(&mut self) -> Option<Queued> {
        match &mut self.queue {
            Service::Scheduled(scheduled) => scheduled.dropped.pop(),
            Service::Fifo(_) => None,
        }
    }

    /// Counts the dropped packets beyond the first `before`, and updates the number of waiting
    /// packets.
    fn note_queue(&mut self, now: u64, before: usize) {
        let Service::Scheduled(scheduled) = &self.queue else { return };
        self.waiting = scheduled.scheduler.queued_packets();
        let dropped = (scheduled.dropped.len() - before) as u64;
        self.stats.dropped += dropped;
        self.stats.admitted -= dropped;
        if let Some(drops) = &mut self.stats.drops {
            drops.add_dropped(now, dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_units::Rate;

    use super::*;
    use crate::queue::QueueSpec;

    const MS: u64 = 1_000_000;

    /// Returns a link of 8 Mbps, on which a packet of 1000 bytes takes 1 ms.
    fn link(queue: &str) -> Link {
        let rate = Rate::from_bits_per_sec(8_000_000);
        Link::new(rate, queue.parse::<QueueSpec>().unwrap().build(rate, 1))
    }

    fn packet(number: u32, at: u64) -> Queued {
        Queued { packet: number, bytes: 1_000, flow: 0, ecn: None, arrived: at }
    }

    #[test]
    fn counts_and_series_are_those_of_what_waits_and_is_sent() {
        let mut link = link("fq-codel").with_series().with_drops().with_log();
        assert!(link.schedules() && link.is_idle());
        link.enqueue(packet(0, 0));
        let first = link.dequeue(0).unwrap();
        assert_eq!((first.out, first.mark, link.is_idle()), (MS, false, false));
        link.enqueue(packet(1, 0));
        // The packet in transmission takes 1 ms and the other one stays for 2 ms; then the link is
        // empty.
        assert_eq!(
            (link.queue_length(MS / 2), link.queueing_delay(MS / 2)),
            (2, Duration::from_micros(1_500))
        );
        assert_eq!(link.dequeue(MS).unwrap().out, 2 * MS);
        assert!(link.dequeue(2 * MS).is_none() && link.is_idle());
        let stats = link.stats(4 * MS);
        assert_eq!(
            (stats.arrived, stats.admitted, stats.departed, stats.bytes, stats.max_queue),
            (2, 2, 2, 2_000, 2)
        );
        assert!((stats.mean_queue - 0.75).abs() < 1e-9 && stats.sent_bytes == 2_000.0, "{stats:?}");
        let area: f64 = stats.queue_series.unwrap().bins().iter().map(|bin| bin.sum).sum();
        assert!((area - 0.003).abs() < 1e-9, "{area}");
        let delays: Vec<u64> =
            link.log().iter().map(|(_, delay)| delay.as_nanos() as u64).collect();
        assert_eq!(delays, [MS, 2 * MS]);
    }

    #[test]
    fn packets_dropped_after_they_waited_are_not_admitted_any_more() {
        let mut link = link("fq-codel:limit=2p").with_drops();
        link.enqueue(packet(0, 0));
        link.dequeue(0);
        link.enqueue(packet(1, 0));
        link.enqueue(packet(2, 10));
        assert_eq!(link.take_dropped().map(|dropped| dropped.packet), Some(1), "from the head");
        assert_eq!(link.take_dropped(), None);
        let stats = link.stats(10);
        assert_eq!((stats.arrived, stats.admitted, stats.dropped, stats.max_queue), (3, 2, 1, 2));
        assert_eq!(stats.drops.unwrap().bins, [(3, 1)]);
    }
}
