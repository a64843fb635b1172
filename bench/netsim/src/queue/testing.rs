//! Traffic sources for the queues' tests: flows that increase and halve their windows, in a closed
//! loop around one link.
//!
//! Each flow sends while it has fewer packets in flight than its window allows. An answer arrives
//! one round trip after its packet left the link, or would have left if it was dropped. The answer
//! says whether the packet was marked or dropped. If it was neither, the window grows by `1/window`
//! packets, or by one packet in slow start. Otherwise, the window is halved, at most once per
//! window sent. The traffic uses no random numbers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fathom_units::{Rate, Time};
use parking_lot::Mutex;

use super::QueueSpec;
use super::discipline::{Admission, Arrival, Queue};
use super::scheduler::Queued;
use crate::ecn::Ecn;
use crate::link::{Link, LinkStats, Transmission, Verdict};

/// Returns an ECN-capable packet of 1420 bytes that finds `queued_packets`.
pub(super) fn arrival(now: Time, queued_packets: usize) -> Arrival {
    Arrival { now, bytes: 1_420, ecn_capable: true, queued_packets, queued_bytes: 0, free_at: now }
}

/// A queue that the test can inspect while a link holds it.
#[derive(Debug)]
pub(super) struct Shared<Q>(Arc<Mutex<Q>>);

impl<Q> Clone for Shared<Q> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q: Queue> Shared<Q> {
    pub(super) fn new(queue: Q) -> Self {
        Self(Arc::new(Mutex::new(queue)))
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&Q) -> T) -> T {
        look(&self.0.lock())
    }
}

impl<Q: Queue> Queue for Shared<Q> {
    fn admit(&mut self, arrival: &Arrival) -> Admission {
        self.0.lock().admit(arrival)
    }
}

/// Traffic parameters of a test.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) rate: Rate,
    /// Bytes of every packet.
    pub(super) packet: u32,
    pub(super) flows: usize,
    /// Round trips of the first and of the last flow without queueing, in milliseconds. The round
    /// trips of the other flows are evenly spaced between these two.
    pub(super) round_trips: [u64; 2],
    pub(super) ecn: bool,
}

struct Flow {
    round_trip: Duration,
    window: f64,
    threshold: f64,
    in_flight: usize,
    /// Answers in transit: arrival time, time at which the packet was sent, and whether the packet
    /// was marked or dropped.
    answers: VecDeque<(Time, Time, bool)>,
    /// Time at which the window was last halved.
    halved: Time,
}

impl Flow {
    fn answer(&mut self, now: Time, sent: Time, bad: bool) {
        self.in_flight -= 1;
        if bad && sent >= self.halved {
            self.window = (self.window / 2.0).max(1.0);
            self.threshold = self.window;
            self.halved = now;
        } else if !bad {
            let step = if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            self.window += step;
        }
    }
}

/// The flows and their link.
pub(super) struct Sources {
    load: Load,
    pub(super) link: Link,
    flows: Vec<Flow>,
    /// Time of each flow's next answer. The first entry of a flow starts the flow.
    next: BinaryHeap<Reverse<(Time, usize)>>,
}

impl Sources {
    pub(super) fn new(load: Load, queue: impl Queue + 'static) -> Self {
        let [first, last] = load.round_trips.map(|ms| ms * 1_000_000);
        let flow = |n: usize| Flow {
            round_trip: Duration::from_nanos(
                first + (last - first) * n as u64 / (load.flows as u64 - 1).max(1),
            ),
            window: 2.0,
            threshold: f64::INFINITY,
            in_flight: 0,
            answers: VecDeque::new(),
            halved: Time::ZERO,
        };
        Self {
            load,
            link: Link::new(load.rate, Box::new(queue)),
            flows: (0..load.flows).map(flow).collect(),
            // The flows start within the first second.
            next: (0..load.flows)
                .map(|n| Reverse((Time::ZERO + SECOND * n as u32 / load.flows as u32, n)))
                .collect(),
        }
    }

    /// Returns the fraction of the link used between `from` and `to`. `to` must be the present.
    pub(super) fn utilisation(&mut self, before: &LinkStats, from: Time, to: Time) -> f64 {
        let bytes = self.link.stats(to).bytes - before.bytes;
        self.load.rate.time_for(bytes).as_nanos() as f64 / to.since(from).as_nanos() as f64
    }

    /// Runs from `from` until `until` and calls `look` at these intervals.
    pub(super) fn run(
        &mut self,
        from: Time,
        until: Time,
        every: Duration,
        mut look: impl FnMut(&mut Link, Time),
    ) {
        let mut look_at = from + every;
        while let Some(Reverse((now, n))) = self.next.peek().copied() {
            while look_at <= now.min(until) {
                look(&mut self.link, look_at);
                look_at += every;
            }
            if now >= until {
                break;
            }
            self.next.pop();
            let flow = &mut self.flows[n];
            if let Some((_, sent, bad)) = flow.answers.pop_front() {
                flow.answer(now, sent, bad);
            }
            while flow.in_flight < flow.window as usize {
                let verdict = self.link.arrive(now, self.load.packet, self.load.ecn);
                let (out, bad) = match verdict {
                    Verdict::Forward { out, mark } => (out, mark),
                    Verdict::Drop => (now + self.link.queueing_delay(now), true),
                };
                flow.answers.push_back((out + flow.round_trip, now, bad));
                flow.in_flight += 1;
            }
            let (at, ..) = flow.answers.front().expect("a window is never below one packet");
            self.next.push(Reverse((*at, n)));
        }
    }
}

/// Returns the mean and the standard deviation.
pub(super) fn moments(samples: &[f64]) -> (f64, f64) {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let square = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / samples.len() as f64;
    (mean, square.sqrt())
}

/// One second.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Converts seconds to a time.
pub(super) const fn at(seconds: u64) -> Time {
    Time::from_millis(seconds * 1_000)
}

/// A link with a scheduling queue, driven as the link's owner would. Sent and dropped packets are
/// kept.
pub(super) struct Served {
    pub(super) link: Link,
    pub(super) sent: Vec<Transmission>,
    pub(super) dropped: Vec<Queued>,
    free: Option<Time>,
}

impl Served {
    pub(super) fn new(bits_per_sec: u64, queue: &str, seed: u64) -> Self {
        let (rate, spec) =
            (Rate::from_bits_per_sec(bits_per_sec), queue.parse::<QueueSpec>().unwrap());
        let link = Link::new(rate, spec.build(rate, seed));
        Self { link, sent: Vec::new(), dropped: Vec::new(), free: None }
    }

    /// Lets `packet` arrive. Calls must be in order of time, and the caller numbers the packets.
    pub(super) fn arrive(&mut self, packet: Queued) {
        // If an event is due at the moment of an arrival, the owner may run it before or after the
        // arrival. Here, it runs before.
        self.run_until(packet.arrived);
        self.link.enqueue(packet);
        let idle = self.link.is_idle();
        self.take_dropped();
        if idle {
            self.transmit(packet.arrived);
        }
    }

    /// Advances time to `now`.
    pub(super) fn run_until(&mut self, now: Time) {
        while let Some(free) = self.free.filter(|free| *free <= now) {
            self.transmit(free);
        }
    }

    fn transmit(&mut self, now: Time) {
        let next = self.link.dequeue(now);
        self.take_dropped();
        self.free = next.map(|sent| sent.out);
        self.sent.extend(next);
    }

    fn take_dropped(&mut self) {
        while let Some(packet) = self.link.take_dropped() {
            self.dropped.push(packet);
        }
    }

    /// Returns the bytes of `flow` in packets that left after `from` and no later than `to`.
    pub(super) fn bytes(&self, flow: u64, from: Time, to: Time) -> u64 {
        let there = self
            .sent
            .iter()
            .filter(|sent| sent.packet.flow == flow && sent.out > from && sent.out <= to);
        there.map(|sent| u64::from(sent.packet.bytes)).sum()
    }
}

/// Returns a packet of `flow`.
pub(super) fn packet(
    number: u32,
    flow: u64,
    arrived: Time,
    bytes: u32,
    ecn: Option<Ecn>,
) -> Queued {
    Queued { packet: number, bytes, flow, ecn, arrived }
}
