//! Random Early Detection (Floyd, Jacobson: "Random early detection gateways for congestion
//! avoidance", IEEE/ACM ToN 1, 1993), with the gentle extension (Floyd 2000) and ECN marks
//! (RFC 3168 §7).
//!
//! The average queue is updated at every arrival and decays while the link is idle: `avg <- (1-w)
//! avg + w q`, or, on an empty queue, `avg <- (1-w)^(idle/s) avg`, where `s` is the transmission
//! time of a typical packet. Between the thresholds, `pb = maxp (avg-min)/(max-min)`. Packet `k`
//! after the last mark or drop is picked with a probability that spreads the picks evenly:
//!
//! | | probability | gaps between picks, `n = 1/pb` |
//! |---|---|---|
//! | `wait=off` (1993) | `pb / (1 - (k-1) pb)` | uniform on 1..n, mean (n+1)/2 |
//! | `wait=on` (ns-2's default) | 0 while `k pb < 1`, then `pb / (2 - k pb)` | uniform on n..2n-1, mean (3n-1)/2 |
//!
//! A picked packet that may carry ECN marks is marked or dropped. One of two rules decides which
//! ([`Marking`]).
//!
//! Departures:
//! - Queues are counted in packets, never in bytes.
//! - The 1993 paper's pseudocode, and ns-2 without `wait`, give the packet after a pick number 1.
//!   The paper's text gives this packet the number 0. The pseudocode has gaps of 1 to n-1 (mean
//!   n/2). Here, gaps are 1 to n, as in the text.
//! - ns-2 never picks a packet that meets an empty queue, or the packet with which the average
//!   rises above `min`. Here, both can be picked.
//! - A packet that is dropped at an empty queue leaves the link idle. The idle time before this
//!   packet does not decay the average again.

use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time, math};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue, TYPICAL_PACKET};
use super::options::{self, OptionError, on_off};
use super::tc::Qdisc;
use crate::nanos::{nanos, nanos_between};

/// Probability below which `mark=p` marks packets. From this value on, packets are dropped (ns-2
/// since April 2002).
const MARK_BELOW: f64 = 0.1;

/// Rule that decides whether a picked ECN-capable packet is marked or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::EnumString)]
pub enum Marking {
    /// Packets are marked while the average is below `max` (ns-2 before April 2002).
    #[strum(serialize = "avg")]
    Average,
    /// Packets are marked while the probability, before spreading, is below 0.1 (ns-2 since April
    /// 2002).
    #[strum(serialize = "p")]
    Probability,
}

/// RED as users write it. Queues and thresholds are in packets, including the one in transmission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// Average queue in packets below which no packet is picked.
    pub min: f64,
    /// Average queue in packets above which every packet is dropped. With `gentle`, the probability
    /// rises gradually up to twice this average.
    pub max: f64,
    /// Largest number of packets in the queue.
    pub limit: usize,
    /// Weight of a new sample in the average.
    pub weight: f64,
    /// Probability at `max`.
    pub max_p: f64,
    /// Whether the probability rises from `max_p` to 1 between `max` and twice `max`.
    pub gentle: bool,
    /// Probability at which this gentle slope begins, if it is not `max_p`.
    pub slope_from: Option<f64>,
    /// Whether ECN-capable packets are marked instead of dropped, subject to `marking`.
    pub ecn: bool,
    /// Whether the next pick waits until `1/p` packets have passed (ns-2's default).
    pub wait: bool,
    /// Rule that decides between mark and drop.
    pub marking: Marking,
    /// Largest queue in packets in which an arriving packet is never picked, whatever the average
    /// is. In ns-2.35 it is 2 (`red.cc`, `enque`), which keeps the link busy while the average is
    /// still high after an overload. `None`: all packets can be picked, as in the paper.
    pub pass: Option<usize>,
}

impl Default for RedSpec {
    /// Returns the defaults of SDC table 1: thresholds 5 and 50, weight 0.002, probability 0.1,
    /// gentle, 100 packets, and ECN.
    fn default() -> Self {
        Self {
            min: 5.0,
            max: 50.0,
            limit: 100,
            weight: 0.002,
            max_p: 0.1,
            gentle: true,
            slope_from: None,
            ecn: true,
            wait: false,
            marking: Marking::Average,
            pass: None,
        }
    }
}

impl fmt::Display for RedSpec {
    /// Writes `wait`, `mark` and `pass` only if they differ from the default. Texts that were written
    /// before these options existed thus stay the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "red:min={}p,max={}p,limit={}p,w={},maxp={},gentle={},ecn={}",
            self.min,
            self.max,
            self.limit,
            self.weight,
            self.max_p,
            on_off(self.gentle),
            on_off(self.ecn)
        )?;
        options::write_given(f, "wait", self.wait.then_some("on"), "")?;
        options::write_given(
            f,
            "mark",
            (self.marking != Marking::Average).then_some(self.marking),
            "",
        )?;
        options::write_given(f, "pass", self.pass, "p")
    }
}

impl RedSpec {
    fn check(self) -> Result<Self, &'static str> {
        // The condition is written so that NaN fails.
        let thresholds = self.min >= 0.0 && self.max > self.min && self.max <= 1e6;
        if !thresholds {
            return Err("needs 0p <= min < max");
        }
        if !(2..=1_000_000).contains(&self.limit) {
            return Err("needs a limit from 2p to 1000000p");
        }
        if self.pass.is_some_and(|pass| pass >= self.limit) {
            return Err("needs a value of pass below the limit");
        }
        let share = |x: f64| x > 0.0 && x <= 1.0;
        if !share(self.weight) || !share(self.max_p) {
            return Err("needs values of w and maxp above 0 and at most 1");
        }
        Ok(self)
    }

    /// Returns the marking probability at this average, before spreading.
    fn probability(&self, average: f64) -> f64 {
        if average < self.min {
            0.0
        } else if average < self.max {
            self.max_p * (average - self.min) / (self.max - self.min)
        } else if self.gentle && average < 2.0 * self.max {
            let from = self.slope_from.unwrap_or(self.max_p);
            from + (1.0 - from) * (average - self.max) / self.max
        } else {
            1.0
        }
    }

    /// Returns probability `p` after spreading, for a packet that follows `count` packets since the
    /// last pick.
    fn spread(&self, p: f64, count: u32) -> f64 {
        if self.wait {
            let passed = (f64::from(count) + 1.0) * p;
            if passed < 1.0 {
                0.0
            } else if passed + p < 2.0 {
                p / (2.0 - passed)
            } else {
                1.0
            }
        } else {
            let left = 1.0 - f64::from(count) * p;
            if left > p { p / left } else { 1.0 }
        }
    }

    /// Returns whether a picked packet is marked rather than dropped.
    fn marks(&self, average: f64) -> bool {
        match self.marking {
            Marking::Average => average < self.max,
            Marking::Probability => self.probability(average) < MARK_BELOW,
        }
    }
}

/// A RED queue.
#[derive(Debug)]
pub struct Red {
    spec: RedSpec,
    average: f64,
    /// End of the idle time for which the average has been decayed.
    aged_to: Time,
    /// Packets forwarded since the last mark or drop, or since the probability was last 0.
    count: u32,
    /// Transmission time of a typical packet in nanoseconds. It is the time unit in which the
    /// average decays on an idle link.
    packet_time: f64,
    rng: Pcg64Mcg,
}

impl Red {
    /// Returns an empty queue. `packet_time` is the transmission time of a typical packet.
    pub fn new(spec: RedSpec, packet_time: Duration, seed: u64) -> Self {
        Self {
            spec,
            average: 0.0,
            aged_to: Time::ZERO,
            count: 0,
            packet_time: nanos(packet_time).max(1) as f64,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Returns the average queue in packets.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Returns the current parameters.
    pub fn spec(&self) -> &RedSpec {
        &self.spec
    }

    /// Sets the probability at `max`, for the adaptive kinds of RED.
    pub(super) fn set_max_p(&mut self, max_p: f64) {
        self.spec.max_p = max_p;
    }

    /// Updates the average with the queue that `a` finds.
    pub(super) fn weigh(&mut self, a: &Arrival) {
        let w = self.spec.weight;
        if a.queued_packets == 0 && w < 1.0 {
            let idle = nanos_between(a.free_at.max(self.aged_to), a.now);
            let missed = idle as f64 / self.packet_time;
            // After a long idle time, the average has decayed to nothing. The clamp keeps the
            // exponent in range.
            self.average *= math::exp((missed * math::ln(1.0 - w)).max(-100.0));
            self.aged_to = a.now;
        } else {
            self.average += w * (a.queued_packets as f64 - self.average);
        }
    }

    /// Returns the verdict on `a` at the present average.
    pub(super) fn decide(&mut self, a: &Arrival) -> Admission {
        if a.queued_packets >= self.spec.limit {
            self.count = 0;
            return Admission::Drop;
        }
        match self.picks(a.queued_packets) {
            false => Admission::Forward,
            true if self.spec.ecn && a.ecn_capable && self.spec.marks(self.average) => {
                Admission::Mark
            }
            true => Admission::Drop,
        }
    }

    /// Returns whether a packet that finds this many packets is dropped or marked.
    fn picks(&mut self, queued: usize) -> bool {
        let p = self.spec.probability(self.average);
        if p == 0.0 || self.spec.pass.is_some_and(|pass| queued <= pass) {
            self.count = 0;
            return false;
        }
        let picked = self.rng.random::<f64>() < self.spec.spread(p, self.count);
        self.count = if picked { 0 } else { self.count.saturating_add(1) };
        picked
    }
}

impl Queue for Red {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.weigh(a);
        self.decide(a)
    }
}

impl Discipline for RedSpec {
    const KIND: Kind = Kind {
        name: "red",
        short: None,
        example: "min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on,wait=off,mark=avg,pass=2p",
        module: Some("sch_red"),
    };

    fn read(text: &str) -> Result<Self, Invalid> {
        let mut spec = Self::default();
        Self::KIND.read(text, |name, value| {
            match name {
                "min" => spec.min = options::packets(value)?,
                "max" => spec.max = options::packets(value)?,
                "limit" => spec.limit = options::whole_packets(value)?,
                "w" => spec.weight = options::number(value)?,
                "maxp" => spec.max_p = options::number(value)?,
                "gentle" => spec.gentle = options::switch(value)?,
                "ecn" => spec.ecn = options::switch(value)?,
                "wait" => spec.wait = options::switch(value)?,
                "mark" => spec.marking = value.parse().map_err(|_| OptionError::Value)?,
                "pass" => spec.pass = Some(options::whole_packets(value)?),
                _ => return Err(OptionError::Name),
            }
            Ok(())
        })?;
        spec.check().map_err(|what| Self::KIND.error(text, what))
    }

    fn build(&self, rate: Rate, seed: u64) -> AnyQueue {
        AnyQueue::fifo(Red::new(*self, rate.time_for(TYPICAL_PACKET.into()), seed))
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        Some(self.limit)
    }

    fn qdisc(&self, rate: Rate) -> Option<Qdisc> {
        Some(red_qdisc(rate, self, TYPICAL_PACKET, false))
    }
}

/// Returns RED as a tc qdisc, for packets of `packet` bytes.
pub(super) fn red_qdisc(rate: Rate, spec: &RedSpec, packet: u32, adaptive: bool) -> Qdisc {
    let bytes = |packets: f64| (packets * f64::from(packet)).round() as u64;
    let (min, max, limit) = (bytes(spec.min), bytes(spec.max), bytes(spec.limit as f64));
    let burst = burst(spec.min, spec.weight);
    let mut text = format!(
        "red limit {limit} min {min} max {max} avpkt {packet} burst {burst} probability {} bandwidth {}bit",
        spec.max_p,
        rate.bits_per_sec(),
    );
    if adaptive {
        text += " adaptive";
    }
    if spec.ecn {
        text += " ecn";
    }
    Qdisc::Within(text)
}

/// Returns the burst for which tc chooses the power of two nearest to `weight`.
///
/// tc takes the largest weight `W` with which this many packets, arriving at an empty queue, raise
/// the average to at most `min`: `burst + 1 - min <= (1 - (1-W)^burst) / W` (tc-red(8), Floyd and
/// Jacobson 1993 §6).
fn burst(min: f64, weight: f64) -> u32 {
    let wanted = (-weight.log2()).round().clamp(1.0, 31.0);
    let w = (-wanted).exp2();
    let fits = |burst: u32, w: f64| {
        f64::from(burst) + 1.0 - min <= (1.0 - (1.0 - w).powi(burst as i32)) / w
    };
    // This is the largest burst that the weight allows. The next larger weight does not allow it.
    (min.ceil() as u32..100_000)
        .take_while(|burst| fits(*burst, w))
        .last()
        .unwrap_or(min.ceil() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(queued_packets: usize, ecn_capable: bool) -> Arrival {
        Arrival {
            now: Time::ZERO,
            bytes: 1_420,
            ecn_capable,
            queued_packets,
            queued_bytes: 0,
            free_at: Time::ZERO,
        }
    }

    /// Returns the verdicts on `count` packets at an average of exactly `queued`: a weight of 1
    /// makes the average equal the present queue.
    fn verdicts(spec: RedSpec, queued: usize, ecn: bool, count: usize) -> [usize; 3] {
        let mut red = Red::new(RedSpec { weight: 1.0, ..spec }, Duration::from_millis(1), 7);
        let mut counts = [0; 3];
        for _ in 0..count {
            counts[red.admit(&arrival(queued, ecn)) as usize] += 1;
        }
        counts
    }

    /// After an overload the average is high while the queue is short.
    #[test]
    fn red_passes_packets_that_find_a_short_queue() {
        for (pass, queued, dropped) in [(None, 2, 100), (Some(2), 2, 0), (Some(2), 3, 100)] {
            // The average stays above twice `max`, where every packet is dropped.
            let spec = RedSpec { weight: 1e-9, pass, ..RedSpec::default() };
            let mut red = Red::new(spec, Duration::from_millis(1), 7);
            red.average = 101.0;
            let drops = (0..100).filter(|_| red.admit(&arrival(queued, false)) == Admission::Drop);
            assert_eq!(drops.count(), dropped, "{pass:?}, {queued}");
        }
    }

    #[test]
    fn red_probability_rises_in_two_linear_segments() {
        let red = RedSpec::default();
        for (average, p) in
            [(4.9, 0.0), (5.0, 0.0), (27.5, 0.05), (50.0, 0.1), (75.0, 0.55), (100.0, 1.0)]
        {
            assert!((red.probability(average) - p).abs() < 1e-12, "{average}");
        }
        assert_eq!(RedSpec { gentle: false, ..red }.probability(50.0), 1.0);
        // A slope of its own begins with a step, and ends at the same place.
        let red = RedSpec { slope_from: Some(0.4), ..red };
        for (average, p) in [(27.5, 0.05), (50.0, 0.4), (75.0, 0.7), (100.0, 1.0)] {
            assert!((red.probability(average) - p).abs() < 1e-12, "{average}");
        }
    }

    #[test]
    fn red_spreads_marks_evenly_at_twice_the_base_probability() {
        // At 27.5 packets p = 0.05, so the gap between marks is uniform on 1..20 (Floyd and
        // Jacobson 1993), with a mean of 10.5. At 27 packets p = 0.04889: 1/p = 20.45, mean gap
        // 10.7.
        let [forward, mark, drop] = verdicts(RedSpec::default(), 27, true, 100_000);
        assert_eq!((drop, forward + mark), (0, 100_000));
        let gap = 100_000.0 / mark as f64;
        assert!((10.2..11.3).contains(&gap), "{gap}");
    }

    /// Returns the gaps between marks at a constant probability of exactly 1/16, counted by length.
    fn gaps(wait: bool) -> Vec<f64> {
        let spec =
            RedSpec { min: 0.0, max: 16.0, max_p: 1.0, weight: 1.0, wait, ..RedSpec::default() };
        assert_eq!(spec.probability(1.0), 1.0 / 16.0);
        let mut red = Red::new(spec, Duration::from_millis(1), 11);
        let (mut counts, mut gap) = (vec![0.0; 40], 0);
        for _ in 0..400_000 {
            gap += 1;
            if red.admit(&arrival(1, true)) == Admission::Mark {
                counts[gap] += 1.0;
                gap = 0;
            }
        }
        counts
    }

    /// Returns Pearson's chi-square of these counts against equal shares.
    fn chi_square(counts: &[f64]) -> f64 {
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        counts.iter().map(|n| (n - mean).powi(2) / mean).sum()
    }

    #[test]
    fn red_gaps_between_marks_are_uniform_with_and_without_wait() {
        // 1/p = 16: gaps of 1..16 by the 1993 rule, 16..31 if the pick waits. Chi-square with 15
        // degrees of freedom is 37.7 at the 0.1% level. Geometric gaps would give thousands.
        for (wait, range) in [(false, 1..17), (true, 16..32)] {
            let counts = gaps(wait);
            let inside = &counts[range.clone()];
            assert_eq!(
                counts.iter().sum::<f64>(),
                inside.iter().sum::<f64>(),
                "wait {wait}: gaps outside {range:?}"
            );
            assert!(inside.iter().sum::<f64>() > 15_000.0);
            assert!(chi_square(inside) < 37.7, "wait {wait}: {} of {inside:?}", chi_square(inside));
        }
    }

    #[test]
    fn red_mark_spacing_follows_the_1993_and_ns2_rules() {
        let spec = RedSpec::default();
        // p = 0.25: the 1993 rule gives 1/4, 1/3, 1/2, 1; ns-2's rule waits for the fourth packet.
        for (count, plain, wait) in [
            (0, 0.25, 0.0),
            (1, 1.0 / 3.0, 0.0),
            (2, 0.5, 0.0),
            (3, 1.0, 0.25),
            (4, 1.0, 1.0 / 3.0),
            (5, 1.0, 0.5),
        ] {
            assert!((spec.spread(0.25, count) - plain).abs() < 1e-12, "{count}");
            assert!(
                (RedSpec { wait: true, ..spec }.spread(0.25, count) - wait).abs() < 1e-12,
                "{count}"
            );
        }
        assert_eq!(RedSpec { wait: true, ..spec }.spread(0.25, 6), 1.0);
        assert_eq!(RedSpec { wait: true, ..spec }.spread(1.0, 0), 1.0);
    }

    #[test]
    fn red_stops_marking_at_max_or_at_probability_0_1() {
        // maxp = 0.2: the probability reaches 0.1 halfway between the thresholds, at 27.5 packets.
        let average = RedSpec { max_p: 0.2, ..RedSpec::default() };
        let probability = RedSpec { marking: Marking::Probability, ..average };
        for (queued, by_average, by_probability) in
            [(27, true, true), (28, true, false), (50, false, false)]
        {
            for (spec, marks) in [(average, by_average), (probability, by_probability)] {
                let [_, mark, drop] = verdicts(spec, queued, true, 1_000);
                assert_eq!((mark > 0, drop > 0), (marks, !marks), "{spec} at {queued}");
            }
        }
        // maxp = 0.05: marks continue above max, up to 50 + 50 (0.1 - 0.05) / 0.95 = 52.6 packets.
        let low = RedSpec { max_p: 0.05, ..probability };
        assert!(verdicts(low, 52, true, 1_000)[2] == 0 && verdicts(low, 53, true, 1_000)[1] == 0);
    }

    #[test]
    fn red_drops_packets_without_ecn_or_above_max() {
        assert_eq!(verdicts(RedSpec::default(), 27, false, 1_000)[1], 0);
        assert!(verdicts(RedSpec::default(), 27, false, 1_000)[2] > 50);
        let gentle = verdicts(RedSpec::default(), 60, true, 1_000);
        assert!(gentle[1] == 0 && gentle[2] > 300 && gentle[0] > 0, "{gentle:?}");
        assert_eq!(
            verdicts(RedSpec { gentle: false, ..RedSpec::default() }, 60, true, 10),
            [0, 0, 10]
        );
        assert_eq!(verdicts(RedSpec::default(), 100, true, 10), [0, 0, 10], "the queue is full");
    }

    #[test]
    fn red_average_follows_the_queue_and_decays_while_idle() {
        let mut red = Red::new(RedSpec::default(), Duration::from_millis(1), 1);
        for _ in 0..500 {
            red.admit(&arrival(10, true));
        }
        // 10 (1 - 0.998^500) = 6.325
        assert!((red.average() - 6.325).abs() < 0.01, "{}", red.average());
        let silent = |ms| Arrival { now: Time::from_millis(ms), ..arrival(0, true) };
        red.admit(&silent(500));
        // times 0.998^500 = 0.36751
        assert!((red.average() - 2.3246).abs() < 0.01, "{}", red.average());
        // If that packet was dropped, the link is still idle and only the time since then counts:
        // 0.998^100 = 0.81857.
        red.admit(&silent(600));
        assert!((red.average() - 1.9029).abs() < 0.01, "{}", red.average());
        // 0.998^3600000: an hour.
        red.admit(&silent(3_600_000));
        assert!(red.average() < 1e-40, "{}", red.average());
    }

    #[test]
    fn red_specs_round_trip_and_errors_suggest_a_fix() {
        let spec = RedSpec::read(":min=2p,ecn=off").unwrap();
        assert_eq!(spec, RedSpec { min: 2.0, ecn: false, ..RedSpec::default() });
        let ns2 = RedSpec::read(":wait=on,mark=p").unwrap();
        assert_eq!(
            ns2,
            RedSpec { wait: true, marking: Marking::Probability, ..RedSpec::default() }
        );
        for spec in [spec, ns2] {
            assert_eq!(RedSpec::read(spec.to_string().strip_prefix("red").unwrap()).unwrap(), spec);
        }
        assert_eq!(RedSpec::read(":wait=off,mark=avg").unwrap(), RedSpec::default());
        for wrong in [
            "x",
            ":",
            ":min",
            ":min=5",
            ":min=5p,min=6p",
            ":min=60p",
            ":w=0",
            ":maxp=2",
            ":limit=1p",
            ":q=1",
            ":ecn=1",
            ":wait=1",
            ":mark=max",
            ":min=NaNp",
        ] {
            let error = RedSpec::read(wrong).unwrap_err().to_string();
            assert!(error.contains("min=5p,max=50p") && !error.contains('\n'), "{error}");
        }
    }

    /// Returns the weight, as a negative power of two, that tc computes from a burst (iproute2,
    /// `tc_red_eval_ewma`, as its manual describes it).
    fn chosen(min: f64, burst: u32) -> u32 {
        let a = f64::from(burst) + 1.0 - min;
        (1..32)
            .find(|log| {
                a <= (1.0 - (1.0 - (-f64::from(*log)).exp2()).powi(burst as i32))
                    * f64::from(*log).exp2()
            })
            .unwrap()
    }

    #[test]
    fn red_weight_for_tc_is_rounded_to_a_power_of_two() {
        for (min, weight, log) in
            [(5.0, 0.002, 9), (5.0, 0.00114, 10), (20.0, 0.02, 6), (2500.0, 0.002, 9)]
        {
            assert_eq!(chosen(min, burst(min, weight)), log, "min {min}, weight {weight}");
        }
    }
}
