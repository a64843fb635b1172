//! FQ-CoDel (RFC 8290): deficit round robin between flows, with CoDel (RFC 8289) in each flow's
//! queue.
//!
//! A hash of the flow assigns a packet to one of `flows` queues. Flows that share a queue by chance
//! are treated as one flow. A queue that gets its first packet becomes new, with a credit of
//! `quantum` bytes. New queues are served before old queues, in the order in which they became new.
//! The first queue in line sends while its credit is above zero, and each packet reduces the credit
//! by its size.
//!
//! A queue without credit gets `quantum` more bytes and moves to the end of the old queues. A new
//! queue that is found empty also moves there. Otherwise, a flow with one packet at a time could
//! stay new for ever and starve other flows. An old queue that is found empty leaves the line
//! (RFC 8290 §4.2). Thus, a flow that needs less than its share is sent at once. Two flows that
//! are always backlogged get equal numbers of bytes, to within one quantum and one packet.
//!
//! Each queue has its own CoDel, which decides when a packet leaves (see `codel.rs`). If all queues
//! together exceed `limit`, packets are dropped from the head of the queue with the most bytes:
//! half of its bytes, as in Linux, but at most 64 packets at once. RFC 8290 §4.1 drops half of
//! its packets.
//!
//! Departures:
//! - CoDel does not drop from a queue when at most one full packet is left in it. The full packet
//!   is the largest one seen, and only the flow's own queue counts. Linux uses the interface's MTU
//!   and the bytes of all queues together.
//! - Packets dropped at the limit add to the drop count of that queue's CoDel, as in Linux.
//! - A flow is one direction of a simulated flow, or a client of the relay. A hash of addresses and
//!   ports would distinguish the same flows.
//! - Linux's additional limit of 32 MB is left out.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time, duration_text};

use super::codel::{RECENT, control_law};
use super::discipline::{AnyQueue, Discipline, Kind};
use super::options::{self, OptionError, on_off};
use super::scheduler::{Packets, Queued, Scheduler};
use super::tc::{Qdisc, ecn_word};
use crate::hash::mix;

/// Largest number of packets dropped at once at the limit (RFC 8290 §4.1).
const DROP_BATCH: usize = 64;

/// FQ-CoDel as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelSpec {
    /// Number of queues over which flows are spread.
    pub flows: usize,
    /// Target of the sojourn in each queue, below which it should stay.
    pub target: Duration,
    /// Time for which the sojourn may stay above the target: about the longest round trip.
    pub interval: Duration,
    /// Largest number of packets in all queues together.
    pub limit: usize,
    /// Number of bytes that a queue may send in its turn.
    pub quantum: u32,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for FqCodelSpec {
    /// Returns the defaults: 1024 queues, 5 ms, 100 ms, 10240 packets, a quantum of 1514 bytes, and
    /// ECN (RFC 8290 §5.2).
    fn default() -> Self {
        Self {
            flows: 1_024,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit: 10_240,
            quantum: 1_514,
            ecn: true,
        }
    }
}

impl fmt::Display for FqCodelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flows, limit, quantum, .. } = self;
        let (target, interval) = (duration_text(self.target), duration_text(self.interval));
        write!(
            f,
            "fq-codel:flows={flows},target={target},interval={interval},limit={limit}p,quantum={quantum}B"
        )?;
        write!(f, ",ecn={}", on_off(self.ecn))
    }
}

impl FqCodelSpec {
    fn check(self) -> Result<Self, &'static str> {
        if !(1..=65_536).contains(&self.flows) {
            return Err("needs a number of flows from 1 to 65536");
        }
        options::check_codel(self.target, self.interval, self.limit)?;
        if !(256..=1_000_000).contains(&self.quantum) {
            return Err("needs a quantum from 256B to 1MB");
        }
        Ok(self)
    }
}

/// Settings of CoDel.
#[derive(Clone, Copy, Debug)]
struct Settings {
    target: Duration,
    interval: Duration,
    ecn: bool,
    /// Size in bytes of the largest packet seen, which is used as the full packet.
    full: u64,
}

/// CoDel's state of one queue. The fields have the names of `codel.rs`.
#[derive(Debug, Default)]
struct CodelState {
    due: Option<Time>,
    dropping: bool,
    next: Time,
    count: u32,
    began_with: u32,
}

impl CodelState {
    /// Returns whether the sojourn will have been above the target for an interval when `packet`
    /// leaves and `left` bytes stay in the queue.
    fn persists(&mut self, now: Time, packet: &Queued, left: u64, settings: &Settings) -> bool {
        if now.since(packet.arrived) < settings.target || left <= settings.full {
            self.due = None;
            return false;
        }
        now >= *self.due.get_or_insert(now + settings.interval)
    }

    /// Returns the next packet of `queue` and whether to mark it. Appends the packets dropped
    /// before this one to `dropped`.
    fn dequeue(
        &mut self,
        now: Time,
        queue: &mut Packets,
        settings: &Settings,
        dropped: &mut Vec<Queued>,
    ) -> Option<(Queued, bool)> {
        let (mut packet, mut above) = self.take(now, queue, settings)?;
        if self.dropping && !above {
            self.dropping = false;
        }
        let begins = above && !self.dropping;
        if begins {
            self.begin(now, settings.interval);
        }
        while begins || (self.dropping && now >= self.next) {
            if !begins {
                self.count = self.count.saturating_add(1);
                self.next = control_law(self.next, settings.interval, self.count);
            }
            if settings.ecn && packet.ecn.is_some() {
                return Some((packet, true));
            }
            dropped.push(packet);
            (packet, above) = self.take(now, queue, settings)?;
            if begins {
                // The packet behind the first drop of a dropping state passes, however long it has
                // waited (RFC 8289 §5.5).
                break;
            }
            self.dropping = above;
        }
        Some((packet, false))
    }

    /// Removes a packet from the queue. Also returns whether the sojourn has been above the target
    /// for an interval.
    fn take(
        &mut self,
        now: Time,
        queue: &mut Packets,
        settings: &Settings,
    ) -> Option<(Queued, bool)> {
        let Some(packet) = queue.pop() else {
            self.due = None;
            self.dropping = false;
            return None;
        };
        Some((packet, self.persists(now, &packet, queue.bytes(), settings)))
    }

    /// Enters the dropping state.
    fn begin(&mut self, now: Time, interval: Duration) {
        self.dropping = true;
        let grown = self.count.saturating_sub(self.began_with);
        let recent = now < self.next + RECENT * interval;
        self.count = if grown > 1 && recent { grown } else { 1 };
        self.began_with = self.count;
        self.next = control_law(now, interval, self.count);
    }
}

/// The queue of one flow.
#[derive(Debug, Default)]
struct FlowQueue {
    packets: Packets,
    codel: CodelState,
    /// Number of bytes that the queue may still send in its turn.
    credit: i64,
    /// Whether the queue is in line, among the new or the old queues.
    in_line: bool,
}

/// The queues of FQ-CoDel.
#[derive(Debug)]
pub struct FqCodel {
    spec: FqCodelSpec,
    settings: Settings,
    seed: u64,
    queues: Vec<FlowQueue>,
    /// Numbers of the queues in line: the new queues, then the old ones.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
}

impl FqCodel {
    /// Returns empty queues. `seed` is the seed of the hash.
    pub fn new(spec: FqCodelSpec, seed: u64) -> Self {
        Self {
            spec,
            settings: Settings {
                target: spec.target,
                interval: spec.interval,
                ecn: spec.ecn,
                full: 0,
            },
            seed,
            queues: (0..spec.flows).map(|_| FlowQueue::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Returns the number of a flow's queue.
    fn queue_of(&self, flow: u64) -> usize {
        let hash = mix(&[self.seed, flow]) >> 32;
        ((hash * self.queues.len() as u64) >> 32) as usize
    }

    /// Drops packets from the head of the longest queue if the limit is exceeded.
    fn drop_from_longest(&mut self, dropped: &mut Vec<Queued>) {
        let Some(longest) = self.queues.iter_mut().max_by_key(|queue| queue.packets.bytes()) else {
            return;
        };
        let enough = longest.packets.bytes() / 2;
        let mut bytes = 0;
        for _ in 0..DROP_BATCH {
            let Some(packet) = longest.packets.pop() else { break };
            bytes += u64::from(packet.bytes);
            self.packets -= 1;
            longest.codel.count = longest.codel.count.saturating_add(1);
            dropped.push(packet);
            if bytes >= enough {
                break;
            }
        }
        self.bytes -= bytes;
    }
}

impl Scheduler for FqCodel {
    fn enqueue(&mut self, packet: Queued, in_transmission: usize, dropped: &mut Vec<Queued>) {
        self.settings.full = self.settings.full.max(u64::from(packet.bytes));
        let number = self.queue_of(packet.flow);
        let queue = &mut self.queues[number];
        queue.packets.push(packet);
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        if !queue.in_line {
            queue.in_line = true;
            queue.credit = i64::from(self.spec.quantum);
            self.new.push_back(number as u32);
        }
        if self.packets + in_transmission > self.spec.limit {
            self.drop_from_longest(dropped);
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Queued>) -> Option<(Queued, bool)> {
        loop {
            let is_new = !self.new.is_empty();
            let line = if is_new { &mut self.new } else { &mut self.old };
            let number = *line.front()?;
            let queue = &mut self.queues[number as usize];
            if queue.credit <= 0 {
                queue.credit += i64::from(self.spec.quantum);
                line.pop_front();
                self.old.push_back(number);
                continue;
            }
            let before = dropped.len();
            let next = queue.codel.dequeue(now, &mut queue.packets, &self.settings, dropped);
            let gone = dropped[before..].iter().chain(next.as_ref().map(|(packet, _)| packet));
            for packet in gone {
                self.packets -= 1;
                self.bytes -= u64::from(packet.bytes);
            }
            if let Some((packet, _)) = next {
                queue.credit -= i64::from(packet.bytes);
                return next;
            }
            line.pop_front();
            if is_new && !self.old.is_empty() {
                self.old.push_back(number);
            } else {
                queue.in_line = false;
            }
        }
    }

    fn queued_packets(&self) -> usize {
        self.packets
    }

    fn queued_bytes(&self) -> u64 {
        self.bytes
    }
}

impl Discipline for FqCodelSpec {
    const KIND: Kind = Kind {
        name: "fq-codel",
        short: Some("fq_codel"),
        example: "flows=1024,target=5ms,interval=100ms,limit=10240p,quantum=1514B,ecn=on",
        module: Some("sch_fq_codel"),
    };

    fn read(text: &str) -> Result<Self, Invalid> {
        let mut spec = Self::default();
        Self::KIND.read(text, |name, value| {
            match name {
                "flows" => spec.flows = value.parse().map_err(|_| OptionError::Value)?,
                "target" => spec.target = options::duration(value)?,
                "interval" => spec.interval = options::duration(value)?,
                "limit" => spec.limit = options::whole_packets(value)?,
                "quantum" => {
                    spec.quantum =
                        options::bytes(value)?.try_into().map_err(|_| OptionError::Value)?
                }
                "ecn" => spec.ecn = options::switch(value)?,
                _ => return Err(OptionError::Name),
            }
            Ok(())
        })?;
        spec.check().map_err(|what| Self::KIND.error(text, what))
    }

    fn build(&self, _rate: Rate, seed: u64) -> AnyQueue {
        AnyQueue::scheduler(FqCodel::new(*self, seed))
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        Some(self.limit)
    }

    fn qdisc(&self, _rate: Rate) -> Option<Qdisc> {
        let Self { flows, limit, quantum, .. } = self;
        let ecn = ecn_word(self.ecn);
        let (target, interval) = (self.target.as_micros(), self.interval.as_micros());
        Some(Qdisc::Within(format!(
            "fq_codel limit {limit} flows {flows} target {target}us interval {interval}us quantum {quantum} {ecn}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Served, at, packet};
    use super::*;
    use crate::ecn::Ecn;

    #[test]
    fn fq_codel_serves_backlogged_flows_equally_within_a_quantum() {
        // Three flows with packets of 300, 1000 and 1500 bytes send at 8 Mbps each, over a link of
        // 8 Mbps.
        let mut served = Served::new(8_000_000, "fq-codel:target=100s,interval=100s", 1);
        let sizes = [300, 1_000, 1_500];
        let mut number = 0;
        for us in 0..2_000_000u64 {
            for (flow, size) in sizes.iter().enumerate().filter(|(_, size)| us % **size == 0) {
                served.arrive(packet(
                    number,
                    flow as u64,
                    Time::from_micros(us),
                    *size as u32,
                    None,
                ));
                number += 1;
            }
        }
        // The bound holds between any two moments once all flows are backlogged.
        for (from, to) in [(100, 200), (100, 1_900), (777, 1_234), (1_500, 1_510)] {
            let (start, end) = (Time::from_millis(from), Time::from_millis(to));
            let bytes = [0, 1, 2].map(|flow| served.bytes(flow, start, end));
            let spread = bytes.iter().max().unwrap() - bytes.iter().min().unwrap();
            // The difference is one turn, and the packet that ended the turn.
            assert!(spread <= 1_514 + 1_500, "{bytes:?} from {from} ms to {to} ms");
        }
    }

    #[test]
    fn fq_codel_sends_packets_of_a_sparse_flow_first() {
        let mut served = Served::new(8_000_000, "fq-codel:target=100s,interval=100s", 1);
        // Flow 0 keeps a queue of 100 packets and more; flow 1 has a packet every 20 ms.
        for n in 0..100 {
            served.arrive(packet(n, 0, Time::ZERO, 1_000, None));
        }
        for n in 0..50u64 {
            for i in 0..20 {
                let at = Time::from_millis(n * 20 + u64::from(i));
                served.arrive(packet(1_000 + 20 * n as u32 + i, 0, at, 1_000, None));
            }
            let at = Time::from_micros(n * 20_000 + 19_500);
            served.arrive(packet(100 + n as u32, 1, at, 200, None));
        }
        served.run_until(at(10));
        let waits: Vec<Duration> = (served.sent.iter().filter(|sent| sent.packet.flow == 1))
            .map(|sent| sent.out.since(sent.packet.arrived))
            .collect();
        // The packet in transmission takes 1 ms at most, and the packet itself 0.2 ms.
        assert_eq!(waits.len(), 50);
        assert!(waits.iter().all(|wait| *wait <= Duration::from_micros(1_200)), "{waits:?}");
    }

    #[test]
    fn fq_codel_marks_and_drops_follow_the_control_law() {
        for (ecn, marked) in [(Some(Ecn::Ect0), true), (None, false)] {
            let mut served = Served::new(8_000_000, "fq-codel", 1);
            // 20 packets at once, then one per millisecond, which is the rate of the link: each
            // waits 20 ms.
            for n in 0..620u64 {
                served.arrive(packet(
                    n as u32,
                    7,
                    Time::from_millis(n.saturating_sub(20)),
                    1_000,
                    ecn,
                ));
            }
            let at = |out: Time| out.as_nanos() / 1_000_000 - 1; // when its transmission began
            let marks: Vec<u64> =
                served.sent.iter().filter(|s| s.mark).map(|s| at(s.out)).collect();
            if marked {
                // The sojourn reaches 5 ms at 5 ms. The first mark is an interval later, and
                // further ones after 100, 70.7, 57.7 and 50 ms.
                assert_eq!(marks[..5], [105, 205, 276, 334, 384], "{marks:?}");
                assert!(served.dropped.is_empty());
            } else {
                // Drops fall at the same moments, eleven of them in 620 ms; each drop makes the
                // wait one packet shorter.
                assert!(marks.is_empty());
                assert!((9..=11).contains(&served.dropped.len()), "{}", served.dropped.len());
            }
        }
    }

    #[test]
    fn fq_codel_at_its_limit_drops_packets_of_the_longest_queue() {
        let mut served = Served::new(8_000, "fq-codel:limit=100p,target=100s,interval=100s", 1);
        for n in 0..10 {
            served.arrive(packet(n, 1, Time::ZERO, 1_000, None));
        }
        for n in 0..91 {
            served.arrive(packet(100 + n, 2, Time::from_nanos(1), 1_000, None));
        }
        // 101 packets: half of the 91 packets of flow 2 are dropped, from the head.
        let lost: Vec<u32> = served.dropped.iter().map(|packet| packet.packet).collect();
        assert!(served.dropped.iter().all(|packet| packet.flow == 2), "{lost:?}");
        assert_eq!(
            (lost.len(), lost.iter().min(), lost.iter().max()),
            (46, Some(&100), Some(&145))
        );
        let stats = served.link.stats(Time::from_nanos(2));
        assert_eq!(
            (stats.arrived, stats.admitted, stats.dropped, stats.departed),
            (101, 55, 46, 0)
        );
        // The maximum is recorded after the drop, so the moment with 101 packets is not included.
        assert_eq!(stats.max_queue, 100);
    }

    #[test]
    fn fq_codel_spreads_flows_over_queues_by_a_seeded_hash() {
        let spec = FqCodelSpec { flows: 64, ..FqCodelSpec::default() };
        let places =
            |seed| (0..64).map(|flow| FqCodel::new(spec, seed).queue_of(flow)).collect::<Vec<_>>();
        let (one, two) = (places(1), places(2));
        assert_ne!(one, two);
        let different = one.iter().collect::<std::collections::BTreeSet<_>>().len();
        // 64 (1 - 1/e) = 40 different queues are expected: collisions are real.
        assert!((30..52).contains(&different), "{different}");
    }

    #[test]
    fn fq_codel_specs_round_trip_and_errors_suggest_a_fix() {
        let spec = FqCodelSpec::read(":flows=16,quantum=300B").unwrap();
        assert_eq!(spec, FqCodelSpec { flows: 16, quantum: 300, ..FqCodelSpec::default() });
        for wrong in [
            ":flows=0",
            ":target=200ms",
            ":interval=200s",
            ":limit=1p",
            ":quantum=10B",
            ":mark=p",
            ":ecn",
        ] {
            let error = FqCodelSpec::read(wrong).unwrap_err().to_string();
            assert!(error.contains("flows=1024,target=5ms") && !error.contains('\n'), "{error}");
        }
    }
}
