//! PIE, Proportional Integral controller Enhanced (RFC 8033).
//!
//! Arriving packets are dropped, or marked, with a probability `p` that depends on the packets'
//! waiting time. Every `tupdate`, `p` is updated from the current wait and the wait at the last
//! update, both in seconds:
//!
//! ```text
//! p <- p + scale (alpha (wait - target) + beta (wait - wait before))
//! ```
//!
//! `scale` shrinks with `p`: it is 1 for `p` of 0.1 and more, 1/2 below 0.1, 1/8 below 0.01, and
//! falls further by a factor of 4 per decade, down to 1/2048 below 0.000001. The reason is that the
//! rate of senders that halve their windows changes with the square root of `p` (RFC 8033 §4.2).
//! While `p` is 0.1 or more, one update raises `p` by at most 0.02 (RFC 8033 §5.5). While no
//! packet waits, each update reduces `p` by 1/64, as in Linux. RFC 8033 §4.2 reduces `p` by 1/50
//! and calls 1/64 sufficient.
//!
//! All packets pass in three cases:
//! - for the first 150 ms after the queue was calm, which means that `p` was 0 and the wait was
//!   below half the target (RFC 8033 §4.4);
//! - while the wait is below half the target and `p` is below 0.2;
//! - while at most two full packets are queued (RFC 8033 §4.1).
//!
//! Drops and marks are neither too close together nor too far apart, because `p` is summed since
//! the last one. No packet is dropped while the sum is below 0.85, and the next packet is dropped
//! once the sum reaches 8.5 (RFC 8033 §5.4). ECN-capable packets are marked instead while `p` is
//! at most 0.1 (RFC 8033 §5.1).
//!
//! The wait is measured by time stamps, which RFC 8033 §4.3 allows as an alternative to an
//! estimate from the dequeue rate. The wait is that of the packet whose transmission began last,
//! and zero once no packet waits behind that packet. Linux does the same by default. The link knows
//! the wait exactly, so an estimate of the dequeue rate would only add an error. The queue is first
//! in, first out, so the start of each packet's transmission is known on arrival. The start is
//! stored until the updates have passed it.
//!
//! Departures:
//! - The wait below which packets pass is the latest one, as in Linux. The RFC uses the wait at the
//!   last update.
//! - Above a wait of 250 ms, each update adds 0.02, as in Linux and DOCSIS-PIE (RFC 8034).
//! - The allowance of 150 ms is used up as time passes, as in the RFC. In Linux, it is used up as
//!   packets leave.
//! - The full packet is the largest one seen.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time, duration_text};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
use super::options::{self, OptionError, on_off};
use super::tc::{Qdisc, ecn_word};
use crate::nanos::{nanos, whole_periods};

/// Length of a burst that PIE neither drops nor marks (RFC 8033 §4.4).
const BURST: Duration = Duration::from_millis(150);
/// Largest probability at which packets are marked instead of dropped (RFC 8033 §5.1).
const MARK_UP_TO: f64 = 0.1;
/// Probability below which no packet is dropped while the wait is below half the target
/// (RFC 8033 §4.1).
const SPARED_BELOW: f64 = 0.2;
/// Bounds of the sum of probabilities between two drops (RFC 8033 §5.4).
const TOO_CLOSE: f64 = 0.85;
const TOO_FAR: f64 = 8.5;
/// Largest rise of the probability in one update, for probabilities of at least `RISE_CAPPED_FROM`
/// (RFC 8033 §5.5).
const LARGEST_RISE: f64 = 0.02;
const RISE_CAPPED_FROM: f64 = 0.1;
/// Factor applied to the probability at an update while no packet waits (RFC 8033 §4.2). The
/// RFC's pseudocode has 0.98 and says that 1 - 1/64 is enough. Linux uses 1 - 1/64.
const DECAY: f64 = 1.0 - 1.0 / 64.0;
/// Wait in seconds above which each update adds [`LARGEST_RISE`], as in Linux.
const HIGH_WAIT: f64 = 0.25;

/// PIE as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieSpec {
    /// Target of the wait.
    pub target: Duration,
    /// Time between updates of the probability.
    pub tupdate: Duration,
    /// Largest number of packets in the queue.
    pub limit: usize,
    /// Gain on the difference between wait and target, per second.
    pub alpha: f64,
    /// Gain on the change of the wait, per second.
    pub beta: f64,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for PieSpec {
    /// Returns the defaults: a target and updates of 15 ms, and gains of 0.125 and 1.25
    /// (RFC 8033 §4), 1000 packets as in Linux, and ECN.
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self { target: ms(15), tupdate: ms(15), limit: 1_000, alpha: 0.125, beta: 1.25, ecn: true }
    }
}

impl fmt::Display for PieSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, alpha, beta, .. } = self;
        let (target, tupdate) = (duration_text(self.target), duration_text(self.tupdate));
        write!(
            f,
            "pie:target={target},tupdate={tupdate},limit={limit}p,alpha={alpha},beta={beta}"
        )?;
        write!(f, ",ecn={}", on_off(self.ecn))
    }
}

impl PieSpec {
    fn check(self) -> Result<Self, &'static str> {
        let ms = Duration::from_millis;
        if self.target < Duration::from_micros(1) || self.target > ms(100_000) {
            return Err("needs a target from 1us to 100s");
        }
        if self.tupdate < ms(1) || self.tupdate > ms(10_000) {
            return Err("needs a tupdate from 1ms to 10s");
        }
        if !(2..=1_000_000).contains(&self.limit) {
            return Err("needs a limit from 2p to 1000000p");
        }
        // The condition is written so that NaN fails.
        let gains = self.alpha > 0.0 && self.alpha <= 2.0 && self.beta > 0.0 && self.beta <= 2.0;
        if !gains {
            return Err("needs values of alpha and beta above 0 and at most 2");
        }
        Ok(self)
    }
}

/// A PIE queue.
#[derive(Debug)]
pub struct Pie {
    spec: PieSpec,
    probability: f64,
    /// Latest measured wait in seconds. `wait_before` is the wait at the last update.
    wait: f64,
    wait_before: f64,
    /// Time for which PIE still neither drops nor marks the packets of a burst.
    burst: Duration,
    /// Sum of the probabilities since the last drop.
    sum: f64,
    /// Packets whose transmission had not begun at the last arrival. Each entry has the start of
    /// the transmission and the wait.
    waiting: VecDeque<(Time, Duration)>,
    next_update: Time,
    /// Size in bytes of the largest packet seen, which is used as the full packet.
    full: u32,
    rng: Pcg64Mcg,
}

impl Pie {
    /// Returns an empty queue.
    pub fn new(spec: PieSpec, seed: u64) -> Self {
        Self {
            spec,
            probability: 0.0,
            wait: 0.0,
            wait_before: 0.0,
            burst: BURST,
            sum: 0.0,
            waiting: VecDeque::new(),
            next_update: Time::ZERO + spec.tupdate,
            full: 0,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Measures the wait and makes the updates that are due up to `now`.
    fn advance(&mut self, now: Time) {
        while self.next_update <= now {
            self.measure(self.next_update);
            self.update();
            self.next_update += self.spec.tupdate;
            if self.is_at_rest() {
                // Further updates would change nothing.
                self.next_update += whole_periods(self.next_update, now, self.spec.tupdate);
            }
        }
        self.measure(now);
    }

    fn is_at_rest(&self) -> bool {
        self.probability == 0.0
            && self.wait == 0.0
            && self.wait_before == 0.0
            && self.waiting.is_empty()
    }

    /// Measures the wait of the packet whose transmission began last by `now`.
    fn measure(&mut self, now: Time) {
        while let Some((_, wait)) = self.waiting.front().copied().filter(|(start, _)| *start <= now)
        {
            self.waiting.pop_front();
            self.wait = if self.waiting.is_empty() { 0.0 } else { nanos(wait) as f64 * 1e-9 };
        }
    }

    /// Updates the probability (RFC 8033 §4.2).
    fn update(&mut self) {
        let (target, p) = (self.spec.target.as_secs_f64(), self.probability);
        let change = self.spec.alpha * (self.wait - target)
            + self.spec.beta * (self.wait - self.wait_before);
        let mut change = change * scale(p);
        if p >= RISE_CAPPED_FROM {
            change = change.min(LARGEST_RISE);
        }
        if self.wait > HIGH_WAIT {
            change += LARGEST_RISE;
        }
        self.probability = (p + change).clamp(0.0, 1.0);
        if self.wait == 0.0 && self.wait_before == 0.0 {
            self.probability *= DECAY;
        }
        let calm =
            self.wait < target / 2.0 && self.wait_before < target / 2.0 && self.probability == 0.0;
        self.burst = if calm { BURST } else { self.burst.saturating_sub(self.spec.tupdate) };
        self.wait_before = self.wait;
    }

    /// Returns whether this packet is dropped or marked.
    fn picks(&mut self, a: &Arrival) -> bool {
        let short =
            self.wait < self.spec.target.as_secs_f64() / 2.0 && self.probability < SPARED_BELOW;
        if !self.burst.is_zero() || short || a.queued_bytes <= 2 * u64::from(self.full) {
            return false;
        }
        if self.probability == 0.0 {
            self.sum = 0.0;
            return false;
        }
        self.sum += self.probability;
        let picked = self.sum >= TOO_CLOSE
            && (self.sum >= TOO_FAR || self.rng.random::<f64>() < self.probability);
        if picked {
            self.sum = 0.0;
        }
        picked
    }
}

/// Returns the factor by which a change is scaled at this probability (RFC 8033 §4.2).
fn scale(p: f64) -> f64 {
    const STEPS: [(f64, f64); 6] = [
        (0.000_001, 2_048.0),
        (0.000_01, 512.0),
        (0.000_1, 128.0),
        (0.001, 32.0),
        (0.01, 8.0),
        (0.1, 2.0),
    ];
    STEPS.iter().find(|(below, _)| p < *below).map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

impl Queue for Pie {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.full = self.full.max(a.bytes);
        self.advance(a.now);
        let admission = if a.queued_packets >= self.spec.limit {
            self.sum = 0.0;
            Admission::Drop
        } else {
            match self.picks(a) {
                false => Admission::Forward,
                true if self.spec.ecn && a.ecn_capable && self.probability <= MARK_UP_TO => {
                    Admission::Mark
                }
                true => Admission::Drop,
            }
        };
        if admission != Admission::Drop {
            self.waiting.push_back((a.starts(), a.wait()));
        }
        admission
    }
}

impl Discipline for PieSpec {
    const KIND: Kind = Kind {
        name: "pie",
        short: None,
        example: "target=15ms,tupdate=15ms,limit=1000p,alpha=0.125,beta=1.25,ecn=on",
        module: Some("sch_pie"),
    };

    fn read(text: &str) -> Result<Self, Invalid> {
        let mut spec = Self::default();
        Self::KIND.read(text, |name, value| {
            match name {
                "target" => spec.target = options::duration(value)?,
                "tupdate" => spec.tupdate = options::duration(value)?,
                "limit" => spec.limit = options::whole_packets(value)?,
                "alpha" => spec.alpha = options::number(value)?,
                "beta" => spec.beta = options::number(value)?,
                "ecn" => spec.ecn = options::switch(value)?,
                _ => return Err(OptionError::Name),
            }
            Ok(())
        })?;
        spec.check().map_err(|what| Self::KIND.error(text, what))
    }

    fn build(&self, _rate: Rate, seed: u64) -> AnyQueue {
        AnyQueue::fifo(Pie::new(*self, seed))
    }

    fn packet_limit(&self, _rate: Rate) -> Option<usize> {
        Some(self.limit)
    }

    fn qdisc(&self, _rate: Rate) -> Option<Qdisc> {
        // tc's gains are in sixteenths.
        let sixteenths = |gain: f64| (gain * 16.0).round().clamp(0.0, 32.0);
        let (alpha, beta) = (sixteenths(self.alpha), sixteenths(self.beta));
        let (target, tupdate) = (self.target.as_micros(), self.tupdate.as_micros());
        let ecn = ecn_word(self.ecn);
        let limit = self.limit;
        Some(Qdisc::Within(format!(
            "pie limit {limit} target {target}us tupdate {tupdate}us alpha {alpha} beta {beta} {ecn}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Load, SECOND, Sources, arrival, at, moments};
    use super::*;

    /// Returns a packet that arrives at millisecond `ms`, waits `wait_ms`, and finds ten full
    /// packets.
    fn packet(ms: u64, wait_ms: u64) -> Arrival {
        Arrival {
            free_at: Time::from_millis(ms + wait_ms),
            queued_bytes: 14_200,
            ..arrival(Time::from_millis(ms), 10)
        }
    }

    #[test]
    fn pie_probability_follows_the_control_law() {
        let mut pie = Pie::new(PieSpec { ecn: false, ..PieSpec::default() }, 1);
        // Waits of 35 ms from the start: 20 ms above the target, measured once the first packet is
        // sent.
        let mut expected = (0.0, 0.0);
        for ms in 0..=300 {
            pie.admit(&packet(ms, 35));
            if ms % 15 == 0 && ms > 0 {
                let wait = if ms >= 35 { 0.035 } else { 0.0 };
                let change = 0.125 * (wait - 0.015) + 1.25 * (wait - expected.1);
                let (p, _) = expected;
                let p: f64 = (p + change * scale(p)).clamp(0.0, 1.0);
                expected = (if wait == 0.0 && expected.1 == 0.0 { p * DECAY } else { p }, wait);
                assert!(
                    (pie.probability - expected.0).abs() < 1e-12,
                    "{ms} ms: {} {expected:?}",
                    pie.probability
                );
            }
        }
        assert!(expected.0 > 0.0);
    }

    #[test]
    fn pie_changes_small_probabilities_slowly() {
        let scales = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5].map(|p| 1.0 / scale(p));
        assert_eq!(scales, [2_048.0, 512.0, 128.0, 32.0, 8.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn pie_passes_bursts_but_drops_from_a_standing_queue() {
        let mut pie = Pie::new(PieSpec::default(), 1);
        let first =
            (0..20_000).find(|ms| pie.admit(&packet(*ms, 100)) != Admission::Forward).unwrap();
        assert!(first >= 150, "{first} ms");
        // A calm queue is granted a burst again.
        for ms in first..first + 60_000 {
            pie.admit(&packet(ms, 0));
        }
        assert_eq!((pie.probability, pie.burst), (0.0, BURST));
    }

    #[test]
    fn pie_bounds_the_gaps_between_drops() {
        let mut pie = Pie::new(PieSpec { ecn: false, ..PieSpec::default() }, 1);
        (pie.burst, pie.wait, pie.probability) = (Duration::ZERO, 1.0, 0.05);
        pie.next_update = Time::from_nanos(u64::MAX);
        let dropped: Vec<u64> =
            (0..100_000).filter(|n| pie.admit(&packet(*n, 30)) == Admission::Drop).collect();
        let gaps: Vec<u64> = dropped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // A gap has at least 0.85 / 0.05 = 17 packets and at most 8.5 / 0.05 = 170 packets, or 171
        // because sums of fractions are rounded. After the first 16, one packet in 20 is picked, so
        // the mean gap is 16 + 20.
        assert!(gaps.iter().all(|gap| (17..=171).contains(gap)));
        let (mean, _) = moments(&gaps.iter().map(|gap| *gap as f64).collect::<Vec<_>>());
        assert!((34.0..38.0).contains(&mean), "{mean}");
    }

    #[test]
    fn pie_drops_instead_of_marking_above_probability_0_1() {
        for (probability, expected) in [(0.09, Admission::Mark), (0.11, Admission::Drop)] {
            let mut pie = Pie::new(PieSpec::default(), 1);
            (pie.burst, pie.wait, pie.probability, pie.next_update) =
                (Duration::ZERO, 1.0, probability, Time::from_nanos(u64::MAX));
            let verdicts: Vec<_> = (0..1_000).map(|n| pie.admit(&packet(n, 30))).collect();
            assert!(verdicts.contains(&expected));
            assert!(
                verdicts
                    .iter()
                    .all(|verdict| *verdict == Admission::Forward || *verdict == expected)
            );
        }
    }

    #[test]
    fn pie_keeps_the_delay_of_responsive_flows_at_the_target() {
        let rate = Rate::from_bits_per_sec(10_000_000);
        for ecn in [true, false] {
            let load = Load { rate, packet: 1_420, flows: 5, round_trips: [40, 120], ecn };
            let mut sources = Sources::new(load, Pie::new(PieSpec::default(), 1));
            sources.run(at(0), at(100), SECOND, |_, _| {});
            let before = sources.link.stats(at(100));
            let mut waits = Vec::new();
            sources.run(at(100), at(300), SECOND / 100, |link, now| {
                waits.push(link.queueing_delay(now).as_secs_f64() * 1e3);
            });
            let used = sources.utilisation(&before, at(100), at(300));
            let (mean, _) = moments(&waits);
            assert!((10.0..20.0).contains(&mean) && used > 0.95, "{mean} ms, {used}");
        }
    }

    #[test]
    fn pie_specs_round_trip_and_errors_suggest_a_fix() {
        let spec = PieSpec::read(":target=20ms,ecn=off").unwrap();
        assert_eq!(
            spec,
            PieSpec { target: Duration::from_millis(20), ecn: false, ..PieSpec::default() }
        );
        for wrong in [
            ":target=0ms",
            ":tupdate=1us",
            ":limit=1p",
            ":alpha=0",
            ":beta=3",
            ":alpha=NaN",
            ":ecn",
            "x",
        ] {
            let error = PieSpec::read(wrong).unwrap_err().to_string();
            assert!(error.contains("target=15ms,tupdate=15ms") && !error.contains('\n'), "{error}");
        }
    }
}
