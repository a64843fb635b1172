//! DualPI2, the Dual-Queue Coupled AQM with PI2 for the classic queue (RFC 9332, appendix A).
//!
//! Packets marked ECT(1) or CE go to the low-latency queue L, and all other packets to the classic
//! queue C (RFC 9332 §2.3). One controller serves both queues. Every `T`, it updates its base
//! probability `p'` from the packets' waiting time in seconds:
//!
//! ```text
//! p' <- p' + alpha (wait - target) + beta (wait - wait before)
//! T = min(target, rtt / 3)    alpha = 0.1 T / rtt^2    beta = 0.3 / rtt
//! ```
//!
//! Classic packets are marked or dropped with probability `p_C = p'^2`. The window of a classic
//! sender is proportional to `1 / sqrt(p_C)`, which is `1 / p'`. This makes the controller linear
//! (PI2). L packets are marked with probability `p_CL = k p'`. The window of a scalable sender is
//! proportional to `1 / p_CL`. With `k = 2`, both windows are about equal.
//!
//! L also has its own AQM, which takes over when the wait in L is long. The probability of this AQM
//! rises from 0 at a wait of `min` to 1 at `min + range`. The larger of this probability and `p_CL`
//! is used. An L packet without another L packet behind it is marked only by the coupling.
//! Otherwise, slow links would mark packets because of the transmission time of a single packet.
//!
//! L is served first, but while both queues have packets, C gets a share `classic` of the bytes by
//! weighted round robin. Overload begins when `p_CL` reaches 1, and `p_C` thus `1/k^2`. From then
//! on, marks do not suffice, and both queues drop packets with probability `p_C`
//! (RFC 9332 §4.2.3). L packets that are not dropped are marked.
//!
//! The queue uses no random numbers. Probabilities are summed, and the packet at which the sum
//! exceeds 1 is marked or dropped, so that marks are evenly spaced.
//!
//! Departures:
//! - The wait that the controller uses is the longer one of the waits of the head packets of L and
//!   C. L's wait matters when L is overloaded.
//! - The limit is in packets, as in all queues here and in Linux (10000). In the RFC, the limit is
//!   250 ms of the link's rate.
//! - With `ecn=off`, classic packets are dropped whatever their ECN field is. L packets are always
//!   marked.
//! - The share of C is 1/10, as in Linux. The RFC does not define the scheduler.

use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time, duration_text};

use super::discipline::{AnyQueue, Discipline, Kind};
use super::options::{self, OptionError, on_off};
use super::scheduler::{Packets, Queued, Scheduler};
use crate::ecn::Ecn;
use crate::nanos::{nanos_between, whole_periods};

/// Gains of the controller before they are divided by the worst round trip (RFC 9332 appendix
/// A.1).
const ALPHA: f64 = 0.1;
const BETA: f64 = 0.3;
/// Number of L packets up to which L's own AQM does not mark (RFC 9332 appendix A.1).
const UNMARKED: usize = 1;

/// DualPI2 as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Spec {
    /// Target of the classic queue's wait.
    pub target: Duration,
    /// Longest expected round trip, which determines the controller's gains.
    pub rtt: Duration,
    /// Coupling factor `k`: ratio of the marking probability of low-latency packets to `p'`.
    pub coupling: f64,
    /// Wait above which L's own AQM marks.
    pub min: Duration,
    /// Additional wait beyond `min` at which L's own AQM marks every packet.
    pub range: Duration,
    /// Share of the link that the classic queue gets while both queues have packets.
    pub classic: f64,
    /// Largest number of packets in both queues together.
    pub limit: usize,
    /// Whether ECN-capable classic packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for DualPi2Spec {
    /// Returns the defaults: 15 ms, 100 ms, 2, 800 µs and 400 µs (RFC 9332 appendix A.1), a share
    /// of 0.1 and 10000 packets as in Linux, and ECN.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            rtt: Duration::from_millis(100),
            coupling: 2.0,
            min: Duration::from_micros(800),
            range: Duration::from_micros(400),
            classic: 0.1,
            limit: 10_000,
            ecn: true,
        }
    }
}

impl fmt::Display for DualPi2Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [target, rtt, min, range] =
            [self.target, self.rtt, self.min, self.range].map(duration_text);
        let Self { coupling, classic, limit, .. } = self;
        write!(
            f,
            "dualpi2:target={target},rtt={rtt},k={coupling},min={min},range={range},classic={classic}"
        )?;
        write!(f, ",limit={limit}p,ecn={}", on_off(self.ecn))
    }
}

impl DualPi2Spec {
    fn check(self) -> Result<Self, &'static str> {
        let (ms, us) = (Duration::from_millis, Duration::from_micros);
        if self.target < ms(1) || self.target > ms(10_000) {
            return Err("needs a target from 1ms to 10s");
        }
        if self.rtt < ms(3) || self.rtt > ms(10_000) {
            return Err("needs an rtt from 3ms to 10s");
        }
        if self.min > ms(10_000) || self.range < us(1) || self.range > ms(10_000) {
            return Err("needs a min of at most 10s and a range from 1us to 10s");
        }
        // The condition is written so that NaN fails.
        let coupled = self.coupling >= 1.0 && self.coupling <= 16.0;
        let share = self.classic > 0.0 && self.classic < 1.0;
        if !coupled {
            return Err("needs k of 1 to 16");
        }
        if !share {
            return Err("needs a value of classic above 0 and below 1");
        }
        if !(2..=1_000_000).contains(&self.limit) {
            return Err("needs a limit from 2p to 1000000p");
        }
        Ok(self)
    }

    /// Returns the time between updates in seconds.
    fn period(&self) -> f64 {
        self.target.as_secs_f64().min(self.rtt.as_secs_f64() / 3.0)
    }
}

/// Both queues.
#[derive(Debug)]
pub struct DualPi2 {
    spec: DualPi2Spec,
    /// Time between updates.
    period: Duration,
    alpha: f64,
    beta: f64,
    /// Base probability `p'`.
    base: f64,
    /// Wait at the last update, in seconds.
    wait_before: f64,
    next_update: Time,
    low: Packets,
    classic: Packets,
    /// Number of bytes that C may send before L. C gains this credit while L is served first.
    earned: f64,
    low_marks: Recurrence,
    low_drops: Recurrence,
    classic_picks: Recurrence,
}

/// Selector of packets at even distances, as often as the given probabilities require.
#[derive(Debug, Default)]
struct Recurrence(f64);

impl Recurrence {
    fn comes_up(&mut self, probability: f64) -> bool {
        self.0 += probability;
        let up = self.0 > 1.0;
        if up {
            self.0 -= 1.0;
        }
        up
    }
}

impl DualPi2 {
    /// Returns empty queues.
    pub fn new(spec: DualPi2Spec) -> Self {
        let (period, rtt) = (spec.period(), spec.rtt.as_secs_f64());
        let time = Duration::from_nanos((period * 1e9) as u64);
        Self {
            spec,
            period: time,
            alpha: ALPHA * period / (rtt * rtt),
            beta: BETA / rtt,
            base: 0.0,
            wait_before: 0.0,
            next_update: Time::ZERO + time,
            low: Packets::default(),
            classic: Packets::default(),
            earned: 0.0,
            low_marks: Recurrence::default(),
            low_drops: Recurrence::default(),
            classic_picks: Recurrence::default(),
        }
    }

    /// Returns the probability `p_CL` with which the coupling to C marks packets in L.
    fn coupled(&self) -> f64 {
        self.spec.coupling * self.base
    }

    /// Returns the probability `p_C` of a mark or drop in C.
    fn squared(&self) -> f64 {
        self.base * self.base
    }

    fn is_overloaded(&self) -> bool {
        self.coupled() >= 1.0
    }

    /// Returns the marking probability of L's own AQM for a packet that has waited this long.
    fn native(&self, wait: Duration) -> f64 {
        let wait = wait.saturating_sub(self.spec.min);
        (wait.as_secs_f64() / self.spec.range.as_secs_f64()).min(1.0)
    }

    /// Makes the updates that are due by `now`. The caller ensures that no packet has entered or
    /// left the queues since the last call.
    fn advance(&mut self, now: Time) {
        while self.next_update <= now {
            let at = self.next_update;
            let wait_of =
                |queue: &Packets| queue.head().map_or(0, |head| nanos_between(head.arrived, at));
            let wait = wait_of(&self.low).max(wait_of(&self.classic)) as f64 * 1e-9;
            self.update(wait);
            self.next_update += self.period;
            if self.base == 0.0 && self.low.len() + self.classic.len() == 0 {
                // Further updates would change nothing.
                self.next_update += whole_periods(self.next_update, now, self.period);
                self.wait_before = 0.0;
            }
        }
    }

    fn update(&mut self, wait: f64) {
        let target = self.spec.target.as_secs_f64();
        let change = self.alpha * (wait - target) + self.beta * (wait - self.wait_before);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.wait_before = wait;
    }

    /// Returns whether L is served next, and updates C's credit; `None` if both queues are empty.
    fn low_goes_first(&mut self) -> Option<bool> {
        match (self.low.head(), self.classic.head()) {
            (None, None) => None,
            (Some(low), Some(classic)) => {
                // In the long run, L sends (1 - classic) / classic bytes for each byte of C.
                let first = self.earned < f64::from(classic.bytes);
                if first {
                    self.earned +=
                        f64::from(low.bytes) * self.spec.classic / (1.0 - self.spec.classic);
                } else {
                    self.earned -= f64::from(classic.bytes);
                }
                Some(first)
            }
            (low, _) => {
                self.earned = 0.0;
                Some(low.is_some())
            }
        }
    }

    /// Decides on a packet from L. Returns `None` if the packet is dropped, and otherwise whether
    /// it is marked. `before` is the number of packets in L, including this one.
    fn judge_low(&mut self, now: Time, packet: &Queued, before: usize) -> Option<bool> {
        let coupled = self.coupled();
        if self.is_overloaded() {
            let picked = self.squared();
            return (!self.low_drops.comes_up(picked))
                .then(|| self.low_marks.comes_up(coupled.min(1.0)));
        }
        let native = if before > UNMARKED { self.native(now.since(packet.arrived)) } else { 0.0 };
        Some(self.low_marks.comes_up(native.max(coupled)))
    }

    /// Decides on a packet from C. The result has the same meaning as that of
    /// [`DualPi2::judge_low`].
    fn judge_classic(&mut self, packet: &Queued) -> Option<bool> {
        let picked = self.squared();
        if !self.classic_picks.comes_up(picked) {
            return Some(false);
        }
        let marks = self.spec.ecn && packet.ecn.is_some() && !self.is_overloaded();
        marks.then_some(true)
    }
}

impl Scheduler for DualPi2 {
    fn enqueue(&mut self, packet: Queued, in_transmission: usize, dropped: &mut Vec<Queued>) {
        self.advance(packet.arrived);
        if self.queued_packets() + in_transmission >= self.spec.limit {
            dropped.push(packet);
            return;
        }
        match packet.ecn {
            Some(Ecn::Ect1 | Ecn::Ce) => self.low.push(packet),
            Some(Ecn::Ect0) | None => self.classic.push(packet),
        }
    }

    fn dequeue(&mut self, now: Time, dropped: &mut Vec<Queued>) -> Option<(Queued, bool)> {
        self.advance(now);
        loop {
            let low_first = self.low_goes_first()?;
            let before = self.low.len();
            let packet = if low_first { self.low.pop() } else { self.classic.pop() }?;
            let judged = if low_first {
                self.judge_low(now, &packet, before)
            } else {
                self.judge_classic(&packet)
            };
            match judged {
                Some(mark) => return Some((packet, mark)),
                None => dropped.push(packet),
            }
        }
    }

    fn queued_packets(&self) -> usize {
        self.low.len() + self.classic.len()
    }

    fn queued_bytes(&self) -> u64 {
        self.low.bytes() + self.classic.bytes()
    }
}

impl Discipline for DualPi2Spec {
    const KIND: Kind = Kind {
        name: "dualpi2",
        short: None,
        example: "target=15ms,rtt=100ms,k=2,min=800us,range=400us,classic=0.1,limit=10000p,ecn=on",
        module: None,
    };

    fn read(text: &str) -> Result<Self, Invalid> {
        let mut spec = Self::default();
        Self::KIND.read(text, |name, value| {
            match name {
                "target" => spec.target = options::duration(value)?,
                "rtt" => spec.rtt = options::duration(value)?,
                "k" => spec.coupling = options::number(value)?,
                "min" => spec.min = options::duration(value)?,
                "range" => spec.range = options::duration(value)?,
                "classic" => spec.classic = options::number(value)?,
                "limit" => spec.limit = options::whole_packets(value)?,
                "ecn" => spec.ecn = options::switch(value)?,
                _ => return Err(OptionError::Name),
            }
            Ok(())
        })?;
        spec.check().map_err(|what| Self::KIND.error(text, what))
    }

    fn build(&self, _rate: Rate, _seed: u64) -> AnyQueue {
        AnyQueue::scheduler(DualPi2::new(*self))
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        Some(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Served, at, packet};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns queues with a constant base probability.
    fn with_base(base: f64, ecn: bool) -> DualPi2 {
        let mut queue = DualPi2::new(DualPi2Spec { ecn, ..DualPi2Spec::default() });
        (queue.base, queue.next_update) = (base, Time::from_nanos(u64::MAX));
        queue
    }

    /// Returns how many of 10000 packets are marked and how many dropped. The packets pass one by
    /// one, and none waits.
    fn judged(base: f64, packet_ecn: Option<Ecn>, ecn: bool) -> (usize, usize) {
        let (mut queue, mut dropped, mut marked) = (with_base(base, ecn), Vec::new(), 0);
        for n in 0..10_000 {
            let now = Time::from_millis(n.into());
            queue.enqueue(packet(n, 0, now, 1_000, packet_ecn), 0, &mut dropped);
            let next = queue.dequeue(now, &mut dropped);
            marked += usize::from(next.is_some_and(|(_, mark)| mark));
        }
        (marked, dropped.len())
    }

    #[test]
    fn dualpi2_couples_l4s_marks_and_squares_classic_marks() {
        for base in [0.01, 0.05, 0.1, 0.3, 0.49] {
            let near = |count: usize, p: f64| (count as f64 - 10_000.0 * p).abs() < 1.5;
            let (low, classic) =
                (judged(base, Some(Ecn::Ect1), true), judged(base, Some(Ecn::Ect0), true));
            assert!(near(low.0, 2.0 * base) && low.1 == 0, "p' {base}: {low:?}");
            assert!(near(classic.0, base * base) && classic.1 == 0, "p' {base}: {classic:?}");
            for (packet_ecn, ecn) in [(None, true), (Some(Ecn::Ect0), false)] {
                let dropped = judged(base, packet_ecn, ecn);
                assert!(near(dropped.1, base * base) && dropped.0 == 0, "p' {base}: {dropped:?}");
            }
        }
    }

    #[test]
    fn dualpi2_overload_drops_packets_from_both_queues() {
        let (low, classic) =
            (judged(0.6, Some(Ecn::Ect1), true), judged(0.6, Some(Ecn::Ect0), true));
        // 0.36 are dropped; the rest of L is marked.
        assert!((3_599..=3_601).contains(&low.1) && low.0 >= 6_390, "{low:?}");
        assert!((3_599..=3_601).contains(&classic.1) && classic.0 == 0, "{classic:?}");
    }

    #[test]
    fn dualpi2_ramp_marks_packets_that_wait_too_long() {
        let queue = with_base(0.0, true);
        let at = [0, 800, 1_000, 1_200, 5_000].map(|us| queue.native(Duration::from_micros(us)));
        assert_eq!(at.map(|p| (p * 1e9).round() / 1e9), [0.0, 0.0, 0.5, 1.0, 1.0]);
        // A packet with nothing waiting behind it is not marked for its wait.
        let (mut queue, mut dropped) = (with_base(0.0, true), Vec::new());
        for n in 0..3 {
            queue.enqueue(packet(n, 0, Time::ZERO, 1_000, Some(Ecn::Ect1)), 0, &mut dropped);
        }
        let marks: Vec<bool> =
            (0..3).map(|_| queue.dequeue(Time::from_millis(10), &mut dropped).unwrap().1).collect();
        assert_eq!(
            marks,
            [false, true, false],
            "the sum passes 1 at the second; the third is alone"
        );
    }

    #[test]
    fn dualpi2_base_probability_follows_the_control_law() {
        let mut queue = DualPi2::new(DualPi2Spec::default());
        let mut dropped = Vec::new();
        assert!(
            (queue.alpha - 0.15).abs() < 1e-12
                && (queue.beta - 3.0).abs() < 1e-12
                && queue.period == 15 * MS
        );
        queue.enqueue(packet(0, 0, Time::ZERO, 1_000, None), 0, &mut dropped);
        let (mut expected, mut before) = (0.0f64, 0.0);
        for n in 1..=10u64 {
            queue.advance(Time::from_millis(n * 15));
            let wait = n as f64 * 0.015;
            expected = (expected + 0.15 * (wait - 0.015) + 3.0 * (wait - before)).clamp(0.0, 1.0);
            before = wait;
            assert!((queue.base - expected).abs() < 1e-9, "{n}: {} {expected}", queue.base);
        }
        // With nothing queued, the base probability falls to zero, however long the queue is not
        // used.
        while queue.dequeue(Time::from_millis(200), &mut dropped).is_some() {}
        queue.advance(at(3_600));
        assert_eq!((queue.base, queue.wait_before), (0.0, 0.0));
        assert!(queue.next_update > at(3_600));
    }

    #[test]
    fn dualpi2_classic_queue_keeps_its_minimum_share() {
        // Both queues always have packets. p' stays below overload, because the target is far away.
        let mut served = Served::new(8_000_000, "dualpi2:target=10s,rtt=10s", 1);
        for ms in 0..4_000u64 {
            for (flow, ecn) in [(0, None), (1, Some(Ecn::Ect1))] {
                served.arrive(packet(ms as u32, flow, Time::from_millis(ms), 1_000, ecn));
            }
        }
        let [classic, low] = [0, 1].map(|flow| served.bytes(flow, at(1), at(4)));
        // L brings as many packets as the link carries, and C gets a tenth: the rest of L waits.
        assert!((classic as f64 / (classic + low) as f64 - 0.1).abs() < 0.001, "{classic} {low}");
    }

    #[test]
    fn dualpi2_low_latency_packet_overtakes_the_classic_queue() {
        let mut served = Served::new(8_000_000, "dualpi2", 1);
        for n in 0..20 {
            served.arrive(packet(n, 0, Time::ZERO, 1_000, None));
        }
        served.arrive(packet(100, 1, Time::from_nanos(5_000_001), 1_000, Some(Ecn::Ect1)));
        served.run_until(at(1));
        let out = served.sent.iter().find(|sent| sent.packet.packet == 100).unwrap().out;
        assert_eq!(out, Time::from_millis(7), "behind the packet in transmission");
    }

    #[test]
    fn dualpi2_specs_round_trip_and_errors_suggest_a_fix() {
        let spec = DualPi2Spec::read(":target=20ms,k=1.5").unwrap();
        assert_eq!(
            spec,
            DualPi2Spec {
                target: Duration::from_millis(20),
                coupling: 1.5,
                ..DualPi2Spec::default()
            }
        );
        for wrong in [
            ":target=0ms",
            ":rtt=1ms",
            ":k=0",
            ":k=NaN",
            ":range=0s",
            ":classic=1",
            ":limit=1p",
            ":ecn",
            ":x=1",
            "x",
        ] {
            let error = DualPi2Spec::read(wrong).unwrap_err().to_string();
            assert!(error.contains("target=15ms,rtt=100ms") && !error.contains('\n'), "{error}");
        }
    }
}
