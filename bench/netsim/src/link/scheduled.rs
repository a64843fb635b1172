//! Links behind queues that schedule. The next packet is known only when the link becomes free, so
//! such a link is called twice per packet: when the packet arrives ([`Link::enqueue`]), and when
//! the link can send a packet ([`Link::dequeue`]).
//!
//! The link's owner stores the packets. After either call, the owner takes the dropped ones
//! ([`Link::take_dropped`]). The owner calls [`Link::dequeue`] again when a transmission ends
//! ([`Transmission::out`]). If the link is idle ([`Link::is_idle`]), the owner calls it at the next
//! arrival instead.

use fathom_units::Time;

use super::{Link, Logged, Service};
use crate::ecn::Ecn;
use crate::nanos::nanos_between;
use crate::queue::{Queued, Scheduler};

/// State of a link that schedules, in addition to its counts.
#[derive(Debug)]
pub(super) struct Scheduled {
    scheduler: Box<dyn Scheduler>,
    /// Whether a transmission began for which [`Link::dequeue`] has not been called at its end.
    sending: bool,
    /// Dropped packets that the owner has not taken yet.
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
    /// Time at which the last bit is sent and the link is free again.
    pub out: Time,
    /// Whether the link marks the packet Congestion Experienced (CE).
    pub mark: bool,
}

impl Link {
    /// Returns whether the queue schedules. If so, packets enter by [`Link::enqueue`] instead of
    /// [`Link::arrive`].
    pub const fn schedules(&self) -> bool {
        matches!(self.queue, Service::Scheduled(_))
    }

    /// Returns whether the link sends nothing at present. If so, call [`Link::dequeue`] after an
    /// arrival.
    pub const fn is_idle(&self) -> bool {
        matches!(&self.queue, Service::Scheduled(scheduled) if !scheduled.sending)
    }

    /// Enqueues a packet that arrives at a link that schedules, at the time in `packet`.
    /// [`Link::take_dropped`] returns the packets that were dropped for it.
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

    /// Returns the packet that the link sends next when it becomes free at `now`, or `None` if no
    /// packet is left. [`Link::take_dropped`] returns the packets that were dropped during the
    /// choice.
    pub fn dequeue(&mut self, now: Time) -> Option<Transmission> {
        self.depart_until(now);
        let Service::Scheduled(scheduled) = &mut self.queue else { return None };
        let before = scheduled.dropped.len();
        let next = scheduled.scheduler.dequeue(now, &mut scheduled.dropped);
        scheduled.sending = next.is_some();
        self.note_queue(now, before);
        let (packet, mark) = next?;
        let out = self.transmission_ends(now, packet.bytes);
        self.free_at = out;
        self.busy += nanos_between(now, out);
        self.departures.push_back((out, packet.bytes));
        self.queued_bytes += u64::from(packet.bytes);
        self.stats.marked += u64::from(mark);
        self.stats.bytes += u64::from(packet.bytes);
        if let Some(log) = &mut self.log {
            log.push(Logged {
                arrived: packet.arrived,
                delay: out.since(packet.arrived),
                l4s: matches!(packet.ecn, Some(Ecn::Ect1 | Ecn::Ce)),
            });
        }
        Some(Transmission { packet, out, mark })
    }

    /// Takes the packet that was dropped last, or returns `None` if no dropped packet is left.
    pub fn take_dropped(&mut self) -> Option<Queued> {
        match &mut self.queue {
            Service::Scheduled(scheduled) => scheduled.dropped.pop(),
            Service::Fifo(_) => None,
        }
    }

    /// Counts the dropped packets except the first `before`. Updates the number of waiting packets.
    fn note_queue(&mut self, now: Time, before: usize) {
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
    use std::time::Duration;

    use fathom_units::Rate;

    use super::*;
    use crate::queue::QueueSpec;

    const fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// Returns a link of 8 Mbps, on which a packet of 1000 bytes takes 1 ms.
    fn link(queue: &str) -> Link {
        let rate = Rate::from_bits_per_sec(8_000_000);
        Link::new(rate, queue.parse::<QueueSpec>().unwrap().build(rate, 1))
    }

    fn packet(number: u32, at: Time) -> Queued {
        Queued { packet: number, bytes: 1_000, flow: 0, ecn: None, arrived: at }
    }

    #[test]
    fn link_counts_and_series_cover_queued_and_sent_packets() {
        let mut link = link("fq-codel").with_series().with_drops().with_log();
        assert!(link.schedules() && link.is_idle());
        link.enqueue(packet(0, ms(0)));
        let first = link.dequeue(ms(0)).unwrap();
        assert_eq!((first.out, first.mark, link.is_idle()), (ms(1), false, false));
        link.enqueue(packet(1, ms(0)));
        // The packet in transmission takes 1 ms, and the second packet stays for 2 ms. Then the
        // link is empty.
        let half = Time::from_micros(500);
        assert_eq!(
            (link.queue_length(half), link.queueing_delay(half)),
            (2, Duration::from_micros(1_500))
        );
        assert_eq!(link.dequeue(ms(1)).unwrap().out, ms(2));
        assert!(link.dequeue(ms(2)).is_none() && link.is_idle());
        let stats = link.stats(ms(4));
        assert_eq!(
            (stats.arrived, stats.admitted, stats.departed, stats.bytes, stats.max_queue),
            (2, 2, 2, 2_000, 2)
        );
        assert!((stats.mean_queue - 0.75).abs() < 1e-9 && stats.sent_bytes == 2_000.0, "{stats:?}");
        let area: f64 = stats.queue_series.unwrap().bins().iter().map(|bin| bin.sum).sum();
        assert!((area - 0.003).abs() < 1e-9, "{area}");
        let delays: Vec<_> = link.log().iter().map(|packet| packet.delay).collect();
        assert_eq!(delays, [1, 2].map(Duration::from_millis));
    }

    #[test]
    fn packets_dropped_after_waiting_do_not_count_as_admitted() {
        let mut link = link("fq-codel:limit=2p").with_drops();
        link.enqueue(packet(0, ms(0)));
        link.dequeue(ms(0));
        link.enqueue(packet(1, ms(0)));
        link.enqueue(packet(2, Time::from_nanos(10)));
        assert_eq!(link.take_dropped().map(|dropped| dropped.packet), Some(1), "from the head");
        assert_eq!(link.take_dropped(), None);
        let stats = link.stats(Time::from_nanos(10));
        assert_eq!((stats.arrived, stats.admitted, stats.dropped, stats.max_queue), (3, 2, 1, 2));
        assert_eq!(stats.drops.unwrap().bins, [(3, 1)]);
    }
}
