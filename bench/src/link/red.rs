//! Random Early Detection (Floyd, Jacobson: "Random early detection gateways for congestion avoidance", IEEE/ACM ToN 1, 1993), with the
//! gentle extension (Floyd 2000) and ECN marks (RFC 3168 §7).
//!
//! The average queue is weighed at every arrival and ages while the link is idle; between the thresholds a packet is marked or dropped
//! with a probability that grows with the average, spread evenly by the count since the last one.

use std::fmt;
use std::str::FromStr;

use fathom_cc::math;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Arrival;
use super::queue::{Admission, Queue};

/// RED as users write it. Queues and thresholds in packets, the one in transmission included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// Below this average nothing happens.
    pub min: f64,
    /// Above this average every packet is dropped, or with `gentle` more and more up to twice of it.
    pub max: f64,
    /// Packets the queue holds.
    pub limit: usize,
    /// Weight of a new sample in the average.
    pub weight: f64,
    /// Probability at `max`.
    pub max_p: f64,
    /// The probability rises from `max_p` to 1 between `max` and twice `max`.
    pub gentle: bool,
    /// ECN-capable packets are marked instead of dropped while the average is below `max` (ns-2 before April 2002).
    pub ecn: bool,
}

impl Default for RedSpec {
    /// SDC table 1: thresholds 5 and 50, weight .002, probability .1, gentle, 100 packets, ECN.
    fn default() -> Self {
        Self { min: 5.0, max: 50.0, limit: 100, weight: 0.002, max_p: 0.1, gentle: true, ecn: true }
    }
}

impl fmt::Display for RedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |b: bool| if b { "on" } else { "off" };
        write!(
            f,
            "red:min={}p,max={}p,limit={}p,w={},maxp={},gentle={},ecn={}",
            self.min,
            self.max,
            self.limit,
            self.weight,
            self.max_p,
            on(self.gentle),
            on(self.ecn)
        )
    }
}

impl FromStr for RedSpec {
    type Err = String;

    /// Reads what comes after `red`: nothing, or `:name=value,...`.
    fn from_str(s: &str) -> Result<Self, String> {
        let help = |what: &str| {
            format!(
                "'red{s}' {what}; write red, or red: and any of min=5p,max=50p,limit=100p,w=0.002,maxp=0.1,gentle=on,ecn=on"
            )
        };
        let mut spec = Self::default();
        let options = match s.strip_prefix(':') {
            Some(options) => options,
            None if s.is_empty() => return Ok(spec),
            None => return Err(help("is not a queue")),
        };
        let mut seen = Vec::new();
        for option in options.split(',') {
            let (name, value) =
                option.trim().split_once('=').ok_or_else(|| help(&format!("has '{option}' without a value")))?;
            if seen.contains(&name) {
                return Err(help(&format!("has '{name}' twice")));
            }
            seen.push(name);
            let wrong = || help(&format!("has no value of '{name}' in '{value}'"));
            let packets = || value.strip_suffix('p').and_then(|n| n.parse::<f64>().ok()).ok_or_else(wrong);
            let number = || value.parse::<f64>().map_err(|_| wrong());
            let switch = || match value {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err(wrong()),
            };
            match name {
                "min" => spec.min = packets()?,
                "max" => spec.max = packets()?,
                "limit" => {
                    let digits = value.strip_suffix('p').ok_or_else(wrong)?;
                    spec.limit = digits.parse().map_err(|_| wrong())?;
                }
                "w" => spec.weight = number()?,
                "maxp" => spec.max_p = number()?,
                "gentle" => spec.gentle = switch()?,
                "ecn" => spec.ecn = switch()?,
                _ => return Err(help(&format!("has no option '{name}'"))),
            }
        }
        spec.check().map_err(help)
    }
}

impl RedSpec {
    fn check(self) -> Result<Self, &'static str> {
        // Written so that NaN fails.
        let thresholds = self.min >= 0.0 && self.max > self.min && self.max <= 1e6;
        if !thresholds {
            return Err("needs 0p <= min < max");
        }
        if !(2..=1_000_000).contains(&self.limit) {
            return Err("needs a limit of 2p to 1000000p");
        }
        let share = |x: f64| x > 0.0 && x <= 1.0;
        if !share(self.weight) || !share(self.max_p) {
            return Err("needs w and maxp above 0 and at most 1");
        }
        Ok(self)
    }

    /// Marking probability at this average, before spreading.
    fn probability(&self, average: f64) -> f64 {
        if average < self.min {
            0.0
        } else if average < self.max {
            self.max_p * (average - self.min) / (self.max - self.min)
        } else if self.gentle && average < 2.0 * self.max {
            self.max_p + (1.0 - self.max_p) * (average - self.max) / self.max
        } else {
            1.0
        }
    }
}

/// A RED queue.
#[derive(Debug)]
pub struct Red {
    spec: RedSpec,
    average: f64,
    /// Packets since the first one after the last mark or drop that was let through; `None` before it, and below `min`.
    count: Option<u32>,
    /// Nanoseconds that a typical packet takes: how fast the average ages on an idle link.
    packet_time: f64,
    rng: Pcg64Mcg,
}

impl Red {
    /// An empty queue; `packet_time` in nanoseconds.
    pub fn new(spec: RedSpec, packet_time: u64, seed: u64) -> Self {
        Self {
            spec,
            average: 0.0,
            count: None,
            packet_time: packet_time.max(1) as f64,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// The average queue in packets.
    pub fn average(&self) -> f64 {
        self.average
    }

    fn weigh(&mut self, a: &Arrival) {
        let w = self.spec.weight;
        if a.queued_packets == 0 && w < 1.0 {
            let missed = a.idle as f64 / self.packet_time;
            // After a long silence nothing is left of the average; further down the exponential has no value.
            self.average *= math::exp((missed * math::ln(1.0 - w)).max(-100.0));
        } else {
            self.average += w * (a.queued_packets as f64 - self.average);
        }
    }

    /// Whether this packet is the one to suffer.
    fn picks(&mut self) -> bool {
        let p = self.spec.probability(self.average);
        if p == 0.0 {
            self.count = None;
            return false;
        }
        let count = self.count.map_or(0, |count| count + 1);
        let spread = 1.0 - f64::from(count) * p;
        let chance = if spread > p { p / spread } else { 1.0 };
        let picked = self.rng.random::<f64>() < chance;
        self.count = (!picked).then_some(count);
        picked
    }
}

impl Queue for Red {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.weigh(a);
        if a.queued_packets >= self.spec.limit {
            self.count = None;
            return Admission::Drop;
        }
        match self.picks() {
            false => Admission::Forward,
            true if self.spec.ecn && a.ecn_capable && self.average < self.spec.max => Admission::Mark,
            true => Admission::Drop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(queued_packets: usize, ecn_capable: bool) -> Arrival {
        Arrival { now: 0, bytes: 1_420, ecn_capable, queued_packets, queued_bytes: 0, idle: 0 }
    }

    /// A queue whose average is exactly `average`: a weight of one makes it the queue of the moment.
    fn verdicts(spec: RedSpec, queued: usize, ecn: bool, count: usize) -> [usize; 3] {
        let mut red = Red::new(RedSpec { weight: 1.0, ..spec }, 1_000_000, 7);
        let mut counts = [0; 3];
        for _ in 0..count {
            counts[red.admit(&arrival(queued, ecn)) as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_probability_rises_in_two_lines() {
        let red = RedSpec::default();
        for (average, p) in [(4.9, 0.0), (5.0, 0.0), (27.5, 0.05), (50.0, 0.1), (75.0, 0.55), (100.0, 1.0)] {
            assert!((red.probability(average) - p).abs() < 1e-12, "{average}");
        }
        assert_eq!(RedSpec { gentle: false, ..red }.probability(50.0), 1.0);
    }

    #[test]
    fn marks_are_spread_evenly_at_twice_the_plain_rate() {
        // With p = .05 at 27.5 packets the gap between marks is uniform on 1..20 (Floyd and Jacobson 1993): its mean is 10.5. At 27
        // packets p = .04889: 1/p = 20.45, mean gap 10.7.
        let [forward, mark, drop] = verdicts(RedSpec::default(), 27, true, 100_000);
        assert_eq!((drop, forward + mark), (0, 100_000));
        let gap = 100_000.0 / mark as f64;
        assert!((10.2..11.3).contains(&gap), "{gap}");
    }

    #[test]
    fn packets_without_ecn_and_averages_above_max_are_dropped() {
        assert_eq!(verdicts(RedSpec::default(), 27, false, 1_000)[1], 0);
        assert!(verdicts(RedSpec::default(), 27, false, 1_000)[2] > 50);
        let gentle = verdicts(RedSpec::default(), 60, true, 1_000);
        assert!(gentle[1] == 0 && gentle[2] > 300 && gentle[0] > 0, "{gentle:?}");
        assert_eq!(verdicts(RedSpec { gentle: false, ..RedSpec::default() }, 60, true, 10), [0, 0, 10]);
        assert_eq!(verdicts(RedSpec::default(), 100, true, 10), [0, 0, 10], "the queue is full");
    }

    #[test]
    fn the_average_follows_the_queue_and_ages_while_the_link_is_idle() {
        let mut red = Red::new(RedSpec::default(), 1_000_000, 1);
        for _ in 0..500 {
            red.admit(&arrival(10, true));
        }
        // 10 (1 - .998^500) = 6.325
        assert!((red.average() - 6.325).abs() < 0.01, "{}", red.average());
        red.admit(&Arrival { idle: 500_000_000, ..arrival(0, true) });
        // times .998^500 = .36751
        assert!((red.average() - 2.3246).abs() < 0.01, "{}", red.average());
        // .998^3600000: an hour.
        red.admit(&Arrival { idle: 3_600_000_000_000, ..arrival(0, true) });
        assert!(red.average() < 1e-40, "{}", red.average());
    }

    #[test]
    fn specs_read_back_and_errors_name_the_mend() {
        let spec: RedSpec = ":min=2p,ecn=off".parse().unwrap();
        assert_eq!(spec, RedSpec { min: 2.0, ecn: false, ..RedSpec::default() });
        assert_eq!(spec.to_string().strip_prefix("red").unwrap().parse::<RedSpec>().unwrap(), spec);
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
            ":min=NaNp",
        ] {
            let error = wrong.parse::<RedSpec>().unwrap_err();
            assert!(error.contains("min=5p,max=50p") && !error.contains('\n'), "{error}");
        }
    }
}
