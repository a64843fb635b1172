//! Links: a rate and a queue. A link is a pure state machine over time.
//!
//! A link behind a first-in first-out queue gives a [`Verdict`] on each packet when the packet
//! arrives. A link behind a queue that schedules chooses a packet each time it becomes free
//! (`scheduled.rs`).

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

use crate::nanos::{nanos, nanos_between};
use crate::queue::{Admission, AnyQueue, Arrival, Queue};
use scheduled::Scheduled;

/// Verdict on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet leaves the link at `out`.
    Forward {
        /// Time at which the last bit of the packet is sent.
        out: Time,
        /// Whether the link marks the packet Congestion Experienced (CE).
        mark: bool,
    },
    /// The packet is dropped.
    Drop,
}

impl Verdict {
    /// Returns a small number for trace hashes.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Forward { mark: false, .. } => 1,
            Self::Forward { mark: true, .. } => 2,
            Self::Drop => 3,
        }
    }
}

/// Counts and series of a link up to now.
#[derive(Clone, Debug)]
pub struct LinkStats {
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that were admitted to the queue and not dropped from it later.
    pub admitted: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Bytes admitted, including headers. If the queue schedules, bytes of packets whose
    /// transmission began.
    pub bytes: u64,
    /// Packets that left.
    pub departed: u64,
    /// Largest queue, in packets, including the one in transmission.
    pub max_queue: usize,
    /// Time average of the queue, in packets.
    pub mean_queue: f64,
    /// Bytes sent, including headers. If the link has a rate, the sent part of the packet in
    /// transmission is included.
    pub sent_bytes: f64,
    /// Bytes that the link could have sent. This is the integral of its rate, including all
    /// changes, or the sum of the delivery opportunities of its trace.
    pub capacity_bytes: f64,
    /// Queue over time, if the link keeps it ([`Link::with_series`]).
    pub queue_series: Option<Series>,
    /// Bytes of each flow, if the link keeps them ([`Link::with_shares`]).
    pub shares: Option<Shares>,
    /// Bytes by the purpose of their packets, if the link keeps them ([`Link::with_bytes`]).
    pub by_purpose: Option<LinkBytes>,
    /// Arrivals and drops over time, if the link keeps them ([`Link::with_drops`]).
    pub drops: Option<Drops>,
}

impl LinkStats {
    /// Returns the fraction of the link's capacity used since `before`, from 0 to 1; `None` if the
    /// link had no capacity in this time.
    ///
    /// On a trace, the time between two delivery opportunities has no capacity, so a packet that
    /// waits for an opportunity uses no capacity.
    pub fn utilisation_since(&self, before: Option<&Self>) -> Option<f64> {
        let (sent, capacity) =
            before.map_or((0.0, 0.0), |before| (before.sent_bytes, before.capacity_bytes));
        let (sent, capacity) = (self.sent_bytes - sent, self.capacity_bytes - capacity);
        // On a trace, a packet counts as a whole in the period in which its transmission ends, even
        // if it began earlier.
        (capacity > 0.0).then(|| (sent / capacity).min(1.0))
    }
}

/// An admitted packet of a link that keeps a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Arrival time.
    pub arrived: Time,
    /// Time in the link: waiting and transmission.
    pub delay: Duration,
    /// Whether a queue that schedules received the packet as ECT(1) or CE (RFC 9331 §5.1).
    pub l4s: bool,
}

/// A link with a rate and a queue in front of it.
///
/// Most queues are first in, first out, so a packet's departure is known on arrival, and one event
/// per packet and hop suffices. `departures` holds the departure time and size of every packet
/// still present, including the one in transmission. Behind a queue that schedules, `departures`
/// holds only the packet in transmission, and `waiting` counts the waiting packets.
#[derive(Debug)]
pub struct Link {
    sender: Sender,
    queue: Service,
    waiting: usize,
    departures: VecDeque<(Time, u32)>,
    queued_bytes: u64,
    free_at: Time,
    /// Time of the last update of `integral`, and `integral` itself: the integral of the queue
    /// length over time, in packet-nanoseconds.
    accounted_at: Time,
    integral: u128,
    /// Transmission time of all admitted packets in nanoseconds, including those still queued. Used
    /// only for links with one rate.
    busy: u64,
    stats: LinkStats,
    log: Option<Vec<Logged>>,
}

/// Manner in which a link serves its queue.
#[derive(Debug)]
enum Service {
    Fifo(Box<dyn Queue>),
    Scheduled(Scheduled),
}

impl Link {
    /// Returns a link with this capacity behind this queue.
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
            free_at: Time::ZERO,
            accounted_at: Time::ZERO,
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

    /// Makes the link also keep the queue over time.
    #[must_use]
    pub fn with_series(mut self) -> Self {
        self.stats.queue_series = Some(Series::new());
        self
    }

    /// Makes the link also keep the bytes of each flow over time.
    #[must_use]
    pub fn with_shares(mut self) -> Self {
        self.stats.shares = Some(Shares::default());
        self
    }

    /// Makes the link also keep bytes by the purpose of their packets.
    #[must_use]
    pub fn with_bytes(mut self) -> Self {
        self.stats.by_purpose = Some(LinkBytes::default());
        self
    }

    /// Makes the link also keep arrivals and drops over time.
    #[must_use]
    pub fn with_drops(mut self) -> Self {
        self.stats.drops = Some(Drops::default());
        self
    }

    /// Returns whether the link keeps bytes by the purpose of their packets.
    pub(crate) const fn keeps_bytes(&self) -> bool {
        self.stats.by_purpose.is_some()
    }

    /// Records the purpose of an arrived packet of `wire` bytes, and whether it was dropped.
    pub(crate) fn record_purpose(&mut self, purpose: Purpose, wire: u32, dropped: bool) {
        if let Some(bytes) = &mut self.stats.by_purpose {
            bytes.arrived.add(purpose, wire);
            if dropped {
                bytes.dropped.add(purpose, wire);
            }
        }
    }

    /// Records the purpose of a packet that arrived earlier and is dropped now.
    pub(crate) fn record_dropped_purpose(&mut self, purpose: Purpose, wire: u32) {
        if let Some(bytes) = &mut self.stats.by_purpose {
            bytes.dropped.add(purpose, wire);
        }
    }

    /// Records that a packet that leaves at `out` belongs to `flow` and has this UDP payload in
    /// bytes.
    pub(crate) fn credit(&mut self, out: Time, flow: u32, payload: u32) {
        if let Some(shares) = &mut self.stats.shares {
            shares.add(out, flow, payload);
        }
    }

    /// Makes the link also log every admitted packet, so that estimates can be compared with the
    /// log. The log grows with the run.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        self.log = Some(Vec::new());
        self
    }

    /// Returns the admitted packets, in the order in which their transmission was planned. The
    /// result is empty unless the link keeps a log.
    pub fn log(&self) -> &[Logged] {
        self.log.as_deref().unwrap_or_default()
    }

    /// Returns the verdict on a packet of `bytes` (headers included) that arrives at `now` at a link
    /// with a first-in first-out queue.
    ///
    /// # Panics
    /// Panics if the queue schedules. Check this with [`Link::schedules`], and use
    /// [`Link::enqueue`] for such a link.
    pub fn arrive(&mut self, now: Time, bytes: u32, ecn_capable: bool) -> Verdict {
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
            free_at: self.free_at,
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
        self.busy += nanos_between(start, out);
        self.admit(now, bytes, out, mark);
        Verdict::Forward { out, mark }
    }

    /// Records the verdict on a packet of `bytes` that arrived at `now`. The verdict comes from the
    /// kernel's queue, which replaces this link's own queue. Packets are recorded in order of
    /// arrival or, if the queue schedules, in order of departure.
    pub(crate) fn record_external(&mut self, now: Time, bytes: u32, verdict: Verdict) {
        if matches!(verdict, Verdict::Forward { .. }) {
            // The packet was in the queue while packets that arrived later were sent before it.
            self.integral += u128::from(nanos_between(now, self.accounted_at));
        }
        self.depart_until(now);
        self.stats.arrived += 1;
        if let Some(drops) = &mut self.stats.drops {
            drops.add(now, verdict == Verdict::Drop);
        }
        match verdict {
            Verdict::Drop => self.stats.dropped += 1,
            Verdict::Forward { out, mark } => {
                // It is not known when the kernel began to send the packet.
                self.busy += nanos(self.sender.mean_transmission(bytes.into()));
                self.admit(now, bytes, out.max(now), mark);
            }
        }
    }

    /// Returns the end of a transmission of `bytes` that begins at `start`, which must not be
    /// earlier than the end of the previous transmission.
    fn transmission_ends(&mut self, start: Time, bytes: u32) -> Time {
        self.sender.transmission_ends(start, bytes)
    }

    fn admit(&mut self, now: Time, bytes: u32, out: Time, mark: bool) {
        self.free_at = out;
        if let Some(log) = &mut self.log {
            log.push(Logged { arrived: now, delay: out.since(now), l4s: false });
        }
        self.departures.push_back((out, bytes));
        self.queued_bytes += u64::from(bytes);
        self.stats.admitted += 1;
        self.stats.marked += u64::from(mark);
        self.stats.bytes += u64::from(bytes);
        self.stats.max_queue = self.stats.max_queue.max(self.departures.len());
    }

    /// Returns whether the link has a rate rather than a trace.
    pub const fn has_rate(&self) -> bool {
        !matches!(self.sender, Sender::Trace(..))
    }

    /// Sets the rate from `now` on. Steps in the future still take place. Returns, for each packet
    /// that is queued or being sent, the previous and the new departure time.
    ///
    /// # Errors
    /// Returns an error if the link follows a trace and has no rate.
    pub fn set_rate(&mut self, now: Time, rate: Rate) -> Result<Vec<(Time, Time)>, HasNoRate> {
        self.depart_until(now);
        let before = self.sender.clone();
        self.sender.set_rate(now, rate)?;
        // Packets leave directly one after another, and the first packet is already being sent.
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

    /// Returns the number of packets in the queue at `now`, including the one in transmission.
    pub fn queue_length(&mut self, now: Time) -> usize {
        self.depart_until(now);
        self.length()
    }

    fn length(&self) -> usize {
        self.departures.len() + self.waiting
    }

    /// Returns how long a packet entering at `now` would wait until its own transmission starts.
    /// Behind a queue that schedules, the packet is assumed to be sent last.
    pub fn queueing_delay(&self, now: Time) -> Duration {
        let behind = match &self.queue {
            Service::Fifo(_) => Duration::ZERO,
            Service::Scheduled(scheduled) => self.sender.mean_transmission(scheduled.bytes()),
        };
        self.free_at.since(now) + behind
    }

    /// Returns counts and series up to `now`.
    pub fn stats(&mut self, now: Time) -> LinkStats {
        self.depart_until(now);
        let mut stats = self.stats.clone();
        if now > Time::ZERO {
            stats.mean_queue = self.integral as f64 / now.as_nanos() as f64;
        }
        stats.capacity_bytes = self.sender.bytes_until(now);
        stats.sent_bytes = self.sent_until(now);
        stats
    }

    /// Returns the bytes sent by `now`. The queue must be up to date for `now`.
    fn sent_until(&self, now: Time) -> f64 {
        let ahead = nanos_between(now, self.free_at);
        match &self.sender {
            // Packets still queued have not been sent yet.
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

    /// Removes the packets that left at or before `now`. Updates the integral of the queue length
    /// up to `now`.
    fn depart_until(&mut self, now: Time) {
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

    fn account(&mut self, to: Time) {
        let span = nanos_between(self.accounted_at, to);
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

    const fn us(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    fn link(limit: usize) -> Link {
        // 8 Mbps: a packet of 1000 bytes takes 1 ms.
        Link::new(Rate::from_bits_per_sec(8_000_000), Box::new(DropTail::packets(limit)))
    }

    #[test]
    fn packets_leave_the_link_one_transmission_time_apart() {
        let mut l = link(10);
        let out = |v| match v {
            Verdict::Forward { out, .. } => out,
            Verdict::Drop => panic!("dropped"),
        };
        assert_eq!(out(l.arrive(us(0), 1000, false)), us(1_000));
        assert_eq!(out(l.arrive(us(0), 1000, false)), us(2_000));
        assert_eq!(out(l.arrive(us(5_000), 1000, false)), us(6_000));
    }

    #[test]
    fn packets_beyond_the_queue_limit_are_dropped() {
        let mut l = link(2);
        assert_ne!(l.arrive(us(0), 1000, false), Verdict::Drop);
        assert_ne!(l.arrive(us(0), 1000, false), Verdict::Drop);
        assert_eq!(l.arrive(us(0), 1000, false), Verdict::Drop);
        assert_ne!(l.arrive(us(1_000), 1000, false), Verdict::Drop);
        let stats = l.stats(us(3_000));
        assert_eq!((stats.arrived, stats.admitted, stats.dropped, stats.departed), (4, 3, 1, 3));
    }

    #[test]
    fn mean_queue_is_a_time_average() {
        let mut l = link(10);
        l.arrive(us(0), 1000, false); // 1 packet for 1 ms
        l.arrive(us(0), 1000, false); // another: 2 packets for 1 ms, 1 for 1 ms, none for 2 ms
        let stats = l.stats(us(4_000));
        assert!((stats.mean_queue - 3.0 / 4.0).abs() < 1e-9, "{}", stats.mean_queue);
        // The link was busy for 2 of 4 ms, and for all of the first 0.75 ms.
        assert_eq!(
            (stats.sent_bytes, stats.capacity_bytes, stats.utilisation_since(None)),
            (2_000.0, 4_000.0, Some(0.5))
        );
        let mut l = link(10);
        l.arrive(us(0), 1000, false);
        assert_eq!(l.stats(us(750)).sent_bytes, 750.0);
    }

    /// Returns the bytes sent by `ms` milliseconds, and those that could have been sent.
    fn used(link: &mut Link, ms: u64) -> (f64, f64) {
        let stats = link.stats(Time::from_millis(ms));
        (stats.sent_bytes, stats.capacity_bytes)
    }

    #[test]
    fn waiting_for_a_trace_opportunity_uses_no_capacity() {
        // The trace has three opportunities in a round of 100 ms.
        let trace = crate::path::Trace::read("10\n10\n100\n").unwrap();
        let mut l = Link::new(Capacity::Trace(trace), Box::new(DropTail::packets(10)));
        l.arrive(us(0), 1_500, false);
        assert_eq!((used(&mut l, 9), used(&mut l, 10)), ((0.0, 0.0), (1_500.0, 3_000.0)));
        let before = l.stats(us(10_000));
        // A packet that waits 89 ms for its opportunity has used no capacity meanwhile.
        l.arrive(us(11_000), 1_500, false);
        assert_eq!((used(&mut l, 99), used(&mut l, 100)), ((1_500.0, 3_000.0), (3_000.0, 4_500.0)));
        let after = l.stats(us(100_000));
        assert_eq!(
            (before.utilisation_since(None), after.utilisation_since(Some(&before))),
            (Some(0.5), Some(1.0))
        );
        assert_eq!(after.utilisation_since(Some(&after)), None, "no capacity in no time");
        // The opportunities of the next round are at 110, 110 and 200 ms.
        assert_eq!((used(&mut l, 110).1, used(&mut l, 200).1), (7_500.0, 9_000.0));
    }

    #[test]
    fn rate_change_moves_the_departures_of_queued_packets() {
        let [fast, slow] = [8_000_000, 800_000].map(Rate::from_bits_per_sec);
        let mut l = link(10);
        for _ in 0..3 {
            l.arrive(us(0), 1_000, false);
        }
        // Half of the first packet is sent. The other half takes ten times as long, and so do the
        // packets behind it.
        let moved = l.set_rate(us(500), slow).unwrap();
        assert_eq!(
            moved,
            [(1_000, 5_500), (2_000, 15_500), (3_000, 25_500)].map(|(old, new)| (us(old), us(new)))
        );
        assert_eq!(
            (l.queue_length(us(5_500)), l.stats(us(5_500)).sent_bytes.round()),
            (2, 1_000.0)
        );
        let moved = l.set_rate(us(10_500), fast).unwrap();
        assert_eq!(moved, [(us(15_500), us(11_000)), (us(25_500), us(12_000))]);
        assert_eq!(
            l.arrive(us(10_500), 1_000, false),
            Verdict::Forward { out: us(13_000), mark: false }
        );
        let stats = l.stats(us(13_000));
        // 0.5 ms and 2.5 ms at 1 kB per ms, and 10 ms at a tenth of it.
        assert_eq!(
            (stats.sent_bytes.round(), stats.capacity_bytes.round(), l.set_rate(us(20_000), slow)),
            (4_000.0, 4_000.0, Ok(vec![]))
        );
        let trace = crate::path::Trace::read("10\n").unwrap();
        let mut l = Link::new(Capacity::Trace(trace), Box::new(DropTail::packets(10)));
        assert_eq!(l.set_rate(us(0), fast), Err(HasNoRate));
    }

    #[test]
    fn link_capacity_is_the_integral_of_all_rates() {
        // 8 Mbps for a second, then 0.8 Mbps: a byte takes 1 µs, then 10 µs.
        let [fast, slow] = [8_000_000, 800_000].map(Rate::from_bits_per_sec);
        let steps = Capacity::stepping(fast, vec![(Duration::from_secs(1), slow)]);
        let mut l = Link::new(steps, Box::new(DropTail::packets(1_000)));
        // The link is busy from 0.9 s on. It sends 100 of the 200 packets in the fast tenth of a
        // second, and the other 100 packets in the slow second that follows.
        for _ in 0..200 {
            l.arrive(us(900_000), 1_000, false);
        }
        assert_eq!(used(&mut l, 1_000), (100_000.0, 1_000_000.0));
        assert_eq!(used(&mut l, 1_505), (150_500.0, 1_050_500.0));
        assert_eq!(used(&mut l, 3_000), (200_000.0, 1_200_000.0));
    }
}
