//! Links: a rate and a queue. A link is a pure state machine over time. One behind a queue that is first in first out gives a [`Verdict`] per
//! packet as it arrives; one behind a queue that schedules says what it sends whenever it is free (`scheduled.rs`).

mod capacity;
mod purpose;
mod scheduled;
mod series;
mod shares;

use std::collections::VecDeque;
use std::time::Duration;

use fathom_units::{Rate, Time};

use capacity::Sender;
pub use capacity::{Capacity, HasNoRate};
pub(crate) use purpose::Purpose;
pub use purpose::{BytesByPurpose, Drops, LinkBytes};
pub use scheduled::Transmission;
pub use series::{Bin, Series};
pub use shares::{CountedBytes, Shares, jain, starved};

use crate::queue::{Admission, AnyQueue, Arrival, Queue};
use scheduled::Scheduled;

/// What becomes of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves the link at `out` (nanoseconds of simulated time).
    Forward {
        /// When its last bit was sent.
        out: u64,
        /// It carries a congestion-experienced mark from here.
        mark: bool,
    },
    /// It is dropped.
    Drop,
}

impl Verdict {
    /// A small number for trace hashes.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Forward { mark: false, .. } => 1,
            Self::Forward { mark: true, .. } => 2,
            Self::Drop => 3,
        }
    }
}

/// What a link did so far.
#[derive(Clone, Debug)]
pub struct LinkStats {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets admitted to the queue and not dropped from it later.
    pub admitted: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Bytes admitted, headers included; of a queue that schedules, bytes that began to be sent.
    pub bytes: u64,
    /// Packets that left.
    pub departed: u64,
    /// Largest queue seen, in packets, the one in transmission included.
    pub max_queue: usize,
    /// Time average of the queue in packets.
    pub mean_queue: f64,
    /// Bytes sent, headers included; of the packet in transmission the part that was sent, where the link has a rate.
    pub sent_bytes: f64,
    /// Bytes that the link could have sent: its rate over the time, all rates that it had, or the delivery opportunities of its trace.
    pub capacity_bytes: f64,
    /// The queue over time, for links that keep it ([`Link::with_series`]).
    pub queue_series: Option<Series>,
    /// What each flow got, for links that keep it ([`Link::with_shares`]).
    pub shares: Option<Shares>,
    /// Bytes by what their packets are for, for links that keep them ([`Link::with_bytes`]).
    pub by_purpose: Option<LinkBytes>,
    /// Arrivals and drops over time, for links that keep them ([`Link::with_drops`]).
    pub drops: Option<Drops>,
}

impl LinkStats {
    /// Returns the part of the link's capacity that was used since `before`, from 0 to 1; `None` where it had no capacity in this time. Of a
    /// trace, time between two delivery opportunities is no capacity, and so none that a waiting packet uses.
    pub fn utilisation_since(&self, before: Option<&Self>) -> Option<f64> {
        let (sent, capacity) =
            before.map_or((0.0, 0.0), |before| (before.sent_bytes, before.capacity_bytes));
        let (sent, capacity) = (self.sent_bytes - sent, self.capacity_bytes - capacity);
        // A packet that began before and ends in this time counts as a whole where a trace sends it.
        (capacity > 0.0).then(|| (sent / capacity).min(1.0))
    }
}

/// A link with a rate and a queue in front of it.
///
/// Most queues are first in first out, so a packet's departure is known when it arrives: one event per packet and hop. `departures` holds
/// the departure time and size of every packet not yet gone, the one in transmission included. Behind a queue that schedules it holds the
/// packet in transmission only, and `waiting` counts the others.
#[derive(Debug)]
pub struct Link {
    sender: Sender,
    queue: Service,
    waiting: usize,
    departures: VecDeque<(u64, u32)>,
    queued_bytes: u64,
    free_at: u64,
    /// When the queue length was last accounted, and its integral over time so far (packet-nanoseconds).
    accounted_at: u64,
    integral: u128,
    /// Nanoseconds that a link with one rate was sending, what is queued included.
    busy: u64,
    stats: LinkStats,
    log: Option<Vec<(Time, Duration)>>,
}

/// How a link's queue is served.
#[derive(Debug)]
enum Service {
    Fifo(Box<dyn Queue>),
    Scheduled(Scheduled),
}

impl Link {
    /// A link that carries this much, behind this queue.
    pub fn new(capacity: impl Into<Capacity>, queue: impl Into<AnyQueue>) -> Self {
        let queue = match queue.into() {
            AnyQueue::Fifo(queue) => Service::Fifo(queue),
            AnyQueue::Scheduler(scheduler) => Service::Scheduled(Scheduled::new(scheduler)),
        };
        Self {
            sender: Sender::from(capacity.into()),
            queue,
            waiting: 0,
            departures: VecDeque::new(),
            queued_bytes: 0,
            free_at: 0,
            accounted_at: 0,
            integral: 0,
            busy: 0,
            log: None,
            stats: LinkStats {
                arrived: 0,
                admitted: 0,
                dropped: 0,
                marked: 0,
                bytes: 0,
                departed: 0,
                max_queue: 0,
                mean_queue: 0.0,
                sent_bytes: 0.0,
                capacity_bytes: 0.0,
                queue_series: None,
                shares: None,
                by_purpose: None,
                drops: None,
            },
        }
    }

    /// Keeps the queue over time as well.
    #[must_use]
    pub fn with_series(mut self) -> Self {
        self.stats.queue_series = Some(Series::new());
        self
    }

    /// Keeps what each flow got over time as well.
    #[must_use]
    pub fn with_shares(mut self) -> Self {
        self.stats.shares = Some(Shares::default());
        self
    }

    /// Keeps bytes by what their packets are for as well.
    #[must_use]
    pub fn with_bytes(mut self) -> Self {
        self.stats.by_purpose = Some(LinkBytes::default());
        self
    }

    /// Keeps arrivals and drops over time as well.
    #[must_use]
    pub fn with_drops(mut self) -> Self {
        self.stats.drops = Some(Drops::default());
        self
    }

    /// Whether it keeps bytes by what their packets are for.
    pub(crate) const fn keeps_bytes(&self) -> bool {
        self.stats.by_purpose.is_some()
    }

    /// What a packet of `wire` bytes that arrived was for, and whether it was dropped.
    pub(crate) fn record_purpose(&mut self, purpose: Purpose, wire: u32, dropped: bool) {
        if let Some(bytes) = &mut self.stats.by_purpose {
            bytes.arrived.add(purpose, wire);
            if dropped {
                bytes.dropped.add(purpose, wire);
            }
        }
    }

    /// What a packet that arrived before was for: it is dropped.
    pub(crate) fn record_dropped_purpose(&mut self, purpose: Purpose, wire: u32) {
        if let Some(bytes) = &mut self.stats.by_purpose {
            bytes.dropped.add(purpose, wire);
        }
    }

    /// A packet that the link sends belongs to `flow`, and has this UDP payload in bytes.
    pub(crate) fn credit(&mut self, out: u64, flow: u32, payload: u32) {
        if let Some(shares) = &mut self.stats.shares {
            shares.add(out, flow, payload);
        }
    }

    /// Also logs every admitted packet, to compare estimates with. The log grows with the run.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// When each admitted packet arrived, and how long it took to leave: waiting and transmission. Empty unless logged.
    pub fn log(&self) -> &[(Time, Duration)] {
        self.log.as_deref().unwrap_or_default()
    }

    /// A packet of `bytes` (headers included) arrives at `now` (nanoseconds) at a link that is first in first out.
    ///
    /// # Panics
    /// Its queue schedules: [`Link::schedules`], [`Link::enqueue`].
    pub fn arrive(&mut self, now: u64, bytes: u32, ecn_capable: bool) -> Verdict {
        self.depart_until(now);
        self.stats.arrived += 1;
        let Service::Fifo(queue) = &mut self.queue else {
            panic!("a link that schedules takes packets by `enqueue`")
        };
        let admission = queue.admit(&Arrival {
            now,
            bytes,
            ecn_capable,
            queued_packets: self.departures.len(),
            queued_bytes: self.queued_bytes,
            idle: now.saturating_sub(self.free_at),
            wait: self.free_at.saturating_sub(now),
        });
        if let Some(drops) = &mut self.stats.drops {
            drops.add(now, admission == Admission::Drop);
        }
        let mark = match admission {
            Admission::Drop => {
                self.stats.dropped += 1;
                return Verdict::Drop;
            }
            Admission::Forward => false,
            Admission::Mark => true,
        };
        let start = self.free_at.max(now);
        let out = self.transmission_ends(start, bytes);
        self.busy += out - start;
        self.admit(now, bytes, out, mark);
        Verdict::Forward { out, mark }
    }

    /// Records what the kernel's queue, in place of this link's own, did with a packet of `bytes` that arrived at `now`. Packets are recorded
    /// in the order of arrival, or in that of departure where the queue schedules.
    pub(crate) fn record_external(&mut self, now: u64, bytes: u32, verdict: Verdict) {
        if matches!(verdict, Verdict::Forward { .. }) {
            // It was there while packets passed that came later and were sent first.
            self.integral += u128::from(self.accounted_at.saturating_sub(now));
        }
        self.depart_until(now);
        self.stats.arrived += 1;
        if let Some(drops) = &mut self.stats.drops {
            drops.add(now, verdict == Verdict::Drop);
        }
        match verdict {
            Verdict::Drop => self.stats.dropped += 1,
            Verdict::Forward { out, mark } => {
                // When the kernel began to send it is not known.
                self.busy += self.sender.mean_transmission(bytes.into());
                self.admit(now, bytes, out.max(now), mark);
            }
        }
    }

    /// When a transmission of `bytes` ends that begins at `start`, no earlier than the one before it ended.
    fn transmission_ends(&mut self, start: u64, bytes: u32) -> u64 {
        self.sender.transmission_ends(start, bytes)
    }

    fn admit(&mut self, now: u64, bytes: u32, out: u64, mark: bool) {
        self.free_at = out;
        if let Some(log) = &mut self.log {
            log.push((Time::from_nanos(now), Duration::from_nanos(out - now)));
        }
        self.departures.push_back((out, bytes));
        self.queued_bytes += u64::from(bytes);
        self.stats.admitted += 1;
        self.stats.marked += u64::from(mark);
        self.stats.bytes += u64::from(bytes);
        self.stats.max_queue = self.stats.max_queue.max(self.departures.len());
    }

    /// Whether it has a rate, and follows no trace.
    pub const fn has_rate(&self) -> bool {
        !matches!(self.sender, Sender::Trace(..))
    }

    /// From `now` on the link has this rate; steps to come stay. Returns when each packet leaves that is queued or being sent: as it was said
    /// before, and as it is now.
    ///
    /// # Errors
    /// It follows a trace, and has no rate.
    pub fn set_rate(&mut self, now: u64, rate: Rate) -> Result<Vec<(u64, u64)>, HasNoRate> {
        self.depart_until(now);
        let before = self.sender.clone();
        self.sender.set_rate(now, rate)?;
        // Packets leave one right after the other, the first being sent.
        let (mut old_end, mut end) = (now, now);
        let mut moved = Vec::with_capacity(self.departures.len());
        for (out, _) in &mut self.departures {
            let bytes = before.bytes_until(*out) - before.bytes_until(old_end);
            old_end = *out;
            end = self.sender.time_of(end, bytes);
            moved.push((*out, end));
            *out = end;
        }
        if !moved.is_empty() {
            self.free_at = end;
        }
        Ok(moved)
    }

    /// Packets in the queue at `now`, the one in transmission included.
    pub fn queue_length(&mut self, now: u64) -> usize {
        self.depart_until(now);
        self.length()
    }

    fn length(&self) -> usize {
        self.departures.len() + self.waiting
    }

    /// How long a packet entering at `now` would wait before its own transmission starts; behind a queue that schedules, if it were last.
    pub fn queueing_delay(&self, now: u64) -> Duration {
        let behind = match &self.queue {
            Service::Fifo(_) => Duration::ZERO,
            Service::Scheduled(scheduled) => {
                Duration::from_nanos(self.sender.mean_transmission(scheduled.bytes()))
            }
        };
        Duration::from_nanos(self.free_at.saturating_sub(now)) + behind
    }

    /// Counts and series up to `now`.
    pub fn stats(&mut self, now: u64) -> LinkStats {
        self.depart_until(now);
        let mut stats = self.stats.clone();
        if now > 0 {
            stats.mean_queue = self.integral as f64 / now as f64;
        }
        stats.capacity_bytes = self.sender.bytes_until(now);
        stats.sent_bytes = self.sent_until(now);
        stats
    }

    /// Bytes sent by `now`, to which the queue was brought up.
    fn sent_until(&self, now: u64) -> f64 {
        let ahead = self.free_at.saturating_sub(now);
        match &self.sender {
            // What is still queued has not been sent yet.
            Sender::Fixed(rate) => capacity::bytes(*rate, self.busy.saturating_sub(ahead)),
            Sender::Steps(..) if ahead > 0 => {
                let unsent = self.sender.bytes_until(self.free_at) - self.sender.bytes_until(now);
                (self.stats.bytes as f64 - unsent).max(0.0)
            }
            Sender::Steps(..) | Sender::Trace(..) => {
                self.stats.bytes.saturating_sub(self.queued_bytes) as f64
            }
        }
    }

    /// Takes out the packets that left before or at `now`, accounting the queue length on the way.
    fn depart_until(&mut self, now: u64) {
        while let Some(&(out, bytes)) = self.departures.front() {
            if out > now {
                break;
            }
            self.account(out);
            self.departures.pop_front();
            self.queued_bytes -= u64::from(bytes);
            self.stats.departed += 1;
        }
        self.account(now);
    }

    fn account(&mut self, to: u64) {
        let span = to.saturating_sub(self.accounted_at);
        if span > 0 {
            let length = self.length();
            self.integral += u128::from(span) * length as u128;
            if let Some(series) = &mut self.stats.queue_series {
                series.add_span(self.accounted_at, to, length as f64);
            }
            self.accounted_at = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::DropTail;

    fn link(limit: usize) -> Link {
        // 8 Mbps: a 1000-byte packet takes 1 ms.
        Link::new(Rate::from_bits_per_sec(8_000_000), Box::new(DropTail::packets(limit)))
    }

    #[test]
    fn packets_leave_one_transmission_time_apart() {
        let mut l = link(10);
        let out = |v| match v {
            Verdict::Forward { out, .. } => out,
            Verdict::Drop => panic!("dropped"),
        };
        assert_eq!(out(l.arrive(0, 1000, false)), 1_000_000);
        assert_eq!(out(l.arrive(0, 1000, false)), 2_000_000);
        assert_eq!(out(l.arrive(5_000_000, 1000, false)), 6_000_000);
    }

    #[test]
    fn the_packet_beyond_the_limit_is_dropped_and_room_returns() {
        let mut l = link(2);
        assert_ne!(l.arrive(0, 1000, false), Verdict::Drop);
        assert_ne!(l.arrive(0, 1000, false), Verdict::Drop);
        assert_eq!(l.arrive(0, 1000, false), Verdict::Drop);
        assert_ne!(l.arrive(1_000_000, 1000, false), Verdict::Drop);
        let stats = l.stats(3_000_000);
        assert_eq!((stats.arrived, stats.admitted, stats.dropped, stats.departed), (4, 3, 1, 3));
    }

    #[test]
    fn the_mean_queue_is_its_time_average() {
        let mut l = link(10);
        l.arrive(0, 1000, false); // 1 packet for 1 ms
        l.arrive(0, 1000, false); // and another behind it: 2 for 1 ms, then 1 for 1 ms, then none for 2 ms
        let stats = l.stats(4_000_000);
        assert!((stats.mean_queue - 3.0 / 4.0).abs() < 1e-9, "{}", stats.mean_queue);
        // 2 of 4 ms; of the first three quarters of a millisecond all.
        assert_eq!(
            (stats.sent_bytes, stats.capacity_bytes, stats.utilisation_since(None)),
            (2_000.0, 4_000.0, Some(0.5))
        );
        let mut l = link(10);
        l.arrive(0, 1000, false);
        assert_eq!(l.stats(750_000).sent_bytes, 750.0);
    }

    /// Bytes sent, and those that could have been, by `ms` milliseconds.
    fn used(link: &mut Link, ms: u64) -> (f64, f64) {
        let stats = link.stats(ms * 1_000_000);
        (stats.sent_bytes, stats.capacity_bytes)
    }

    #[test]
    fn waiting_for_an_opportunity_uses_none_of_a_trace() {
        // Three opportunities in a round of 100 ms.
        let trace = crate::path::Trace::read("10\n10\n100\n").unwrap();
        let mut l = Link::new(Capacity::Trace(trace), Box::new(DropTail::packets(10)));
        l.arrive(0, 1_500, false);
        assert_eq!((used(&mut l, 9), used(&mut l, 10)), ((0.0, 0.0), (1_500.0, 3_000.0)));
        let before = l.stats(10_000_000);
        // A packet that waits 89 ms for its opportunity has used nothing meanwhile.
        l.arrive(11_000_000, 1_500, false);
        assert_eq!((used(&mut l, 99), used(&mut l, 100)), ((1_500.0, 3_000.0), (3_000.0, 4_500.0)));
        let after = l.stats(100_000_000);
        assert_eq!(
            (before.utilisation_since(None), after.utilisation_since(Some(&before))),
            (Some(0.5), Some(1.0))
        );
        assert_eq!(after.utilisation_since(Some(&after)), None, "no capacity in no time");
        // The next round's: 110, 110, 200.
        assert_eq!((used(&mut l, 110).1, used(&mut l, 200).1), (7_500.0, 9_000.0));
    }

    #[test]
    fn a_new_rate_moves_what_is_queued() {
        let [fast, slow] = [8_000_000, 800_000].map(Rate::from_bits_per_sec);
        let mut l = link(10);
        for _ in 0..3 {
            l.arrive(0, 1_000, false);
        }
        // Half of the first is sent; the other half takes ten times as long, and so do those behind it.
        let moved = l.set_rate(500_000, slow).unwrap();
        assert_eq!(
            moved,
            [(1_000_000, 5_500_000), (2_000_000, 15_500_000), (3_000_000, 25_500_000)]
        );
        assert_eq!(
            (l.queue_length(5_500_000), l.stats(5_500_000).sent_bytes.round()),
            (2, 1_000.0)
        );
        let moved = l.set_rate(10_500_000, fast).unwrap();
        assert_eq!(moved, [(15_500_000, 11_000_000), (25_500_000, 12_000_000)]);
        assert!(matches!(
            l.arrive(10_500_000, 1_000, false),
            Verdict::Forward { out: 13_000_000, .. }
        ));
        let stats = l.stats(13_000_000);
        // 0.5 ms and 2.5 ms at 1 kB per ms, 10 ms at a tenth of it.
        assert_eq!(
            (stats.sent_bytes.round(), stats.capacity_bytes.round(), l.set_rate(20_000_000, slow)),
            (4_000.0, 4_000.0, Ok(vec![]))
        );
        let trace = crate::path::Trace::read("10\n").unwrap();
        let mut l = Link::new(Capacity::Trace(trace), Box::new(DropTail::packets(10)));
        assert_eq!(l.set_rate(0, fast), Err(HasNoRate));
    }

    #[test]
    fn each_rate_that_a_link_had_counts_for_its_time() {
        // 8 Mbps for a second, then 0.8 Mbps: a byte takes 1 us, then 10.
        let [fast, slow] = [8_000_000, 800_000].map(Rate::from_bits_per_sec);
        let steps = Capacity::stepping(fast, vec![(Duration::from_secs(1), slow)]);
        let mut l = Link::new(steps, Box::new(DropTail::packets(1_000)));
        // Busy from 0.9 s on: 100 of 200 packets in the fast tenth, the others in the slow second behind it.
        for _ in 0..200 {
            l.arrive(900_000_000, 1_000, false);
        }
        assert_eq!(used(&mut l, 1_000), (100_000.0, 1_000_000.0));
        assert_eq!(used(&mut l, 1_505), (150_500.0, 1_050_500.0));
        assert_eq!(used(&mut l, 3_000), (200_000.0, 1_200_000.0));
    }
}
