//! RED parameters derived from a target delay and the link's rate, as in Adaptive RED (Floyd,
//! Gummadi, Shenker: "Adaptive RED: an algorithm for increasing the robustness of RED's active
//! queue management", 2001).
//!
//! In the table, C is the link's rate in typical packets per second:
//!
//! | parameter | rule | 10 Mbps, 5 ms, 1420 bytes |
//! |---|---|---|
//! | `min` | `max(5, target C / 2)` packets | 5 |
//! | `max` | `3 min` | 15 |
//! | `w` | `1 - exp(-1/C)`: a time constant of one second, ten round trips of 100 ms | 0.00114 |
//! | `limit` | `5 C` packets in 100 ms: five bandwidth-delay products | 441 |
//!
//! Users can set each parameter to a fixed value instead. If only one threshold is set, the other
//! one follows from it by the same rule.
//!
//! Departures:
//! - The note does not define the limit. Five bandwidth-delay products is the rule of
//!   Sync-TCP §4.4, "to eliminate tail drops" (with that network's 77 ms: 340 packets). The round
//!   trip of 100 ms is the one that `w` assumes. The limit is never below `2 max`, where the gentle
//!   slope ends.
//! - The probability at `max` starts at 0.1, as in ns-2. The note does not define this value
//!   either.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use fathom_units::{Invalid, Rate, duration_text, math};

use super::discipline::Kind;
use super::options::{self, OptionError, on_off, write_given};
use super::red::{Marking, Red, RedSpec};

/// Round trip that the automatic parameters assume, in seconds.
const ROUND_TRIP: f64 = 0.1;
/// Number of bandwidth-delay products that the queue holds (Sync-TCP §4.4).
const LIMIT_PRODUCTS: f64 = 5.0;
/// Smallest automatic lower threshold, in packets.
const LEAST_MIN: f64 = 5.0;

/// Probability at which the gentle slope begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slope {
    /// The present `maxp`, so the probability has no step.
    Present,
    /// The initial `maxp`, as in ns-2.35.
    Initial,
}

/// RED with automatic parameters as users write it. Thresholds are in packets; `None` means
/// automatic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutomaticRed {
    /// Target of the queueing delay.
    pub target: Duration,
    /// Size of a typical packet in bytes, including headers.
    pub packet: u32,
    /// Average queue in packets below which no packet is picked.
    pub min: Option<f64>,
    /// Average queue in packets above which the gentle slope begins.
    pub max: Option<f64>,
    /// Weight of a new sample in the average.
    pub weight: Option<f64>,
    /// Largest number of packets in the queue.
    pub limit: Option<usize>,
    /// Initial probability at `max`.
    pub max_p: f64,
    /// Whether ECN-capable packets are marked instead of dropped, subject to `marking`.
    pub ecn: bool,
    /// Whether the next pick waits until `1/p` packets have passed (ns-2's default).
    pub wait: bool,
    /// Rule that decides between mark and drop.
    pub marking: Marking,
    /// Probability at which the gentle slope begins.
    pub slope: Slope,
    /// Largest queue in packets in which an arriving packet is never picked: see
    /// [`RedSpec::pass`].
    pub pass: Option<usize>,
}

impl Default for AutomaticRed {
    /// Returns the defaults: 5 ms and 1420-byte packets (Sync-TCP §4.4), all other parameters
    /// automatic, ECN, ns-2's spacing (`wait`), and marks below `max` (Sync-TCP §2.2.3).
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            packet: 1_420,
            min: None,
            max: None,
            weight: None,
            limit: None,
            max_p: 0.1,
            ecn: true,
            wait: true,
            marking: Marking::Average,
            slope: Slope::Present,
            pass: None,
        }
    }
}

impl AutomaticRed {
    /// Returns the parameters for a link of this rate.
    pub fn red(&self, rate: Rate) -> RedSpec {
        // A link slower than one packet per second is treated as one packet per second.
        let c = (rate.bits_per_sec() as f64 / 8.0 / f64::from(self.packet)).max(1.0);
        let automatic = (self.target.as_secs_f64() * c / 2.0).max(LEAST_MIN);
        let (min, max) = match (self.min, self.max) {
            (Some(min), Some(max)) => (min, max),
            (Some(min), None) => (min, 3.0 * min),
            (None, Some(max)) => (max / 3.0, max),
            (None, None) => (automatic, 3.0 * automatic),
        };
        let limit = (LIMIT_PRODUCTS * ROUND_TRIP * c).max(2.0 * max).ceil() as usize;
        RedSpec {
            min,
            max,
            limit: self.limit.unwrap_or(limit),
            weight: self.weight.unwrap_or_else(|| 1.0 - math::exp(-1.0 / c)),
            max_p: self.max_p,
            gentle: true,
            slope_from: (self.slope == Slope::Initial).then_some(self.max_p),
            ecn: self.ecn,
            wait: self.wait,
            marking: self.marking,
            pass: self.pass,
        }
    }

    /// Returns an empty RED queue for a link of this rate.
    pub(super) fn build(&self, rate: Rate, seed: u64) -> Red {
        Red::new(self.red(rate), rate.time_for(self.packet.into()), seed)
    }

    /// Parses the text after the kind of queue. `max_p` is the range of the initial probability.
    pub(super) fn read(kind: &Kind, s: &str, max_p: RangeInclusive<f64>) -> Result<Self, Invalid> {
        let mut spec = Self::default();
        kind.read(s, |name, value| {
            match name {
                "target" => spec.target = options::duration(value)?,
                "packet" => {
                    spec.packet =
                        u32::try_from(options::bytes(value)?).map_err(|_| OptionError::Value)?
                }
                "min" => spec.min = Some(options::packets(value)?),
                "max" => spec.max = Some(options::packets(value)?),
                "w" => spec.weight = Some(options::number(value)?),
                "limit" => spec.limit = Some(options::whole_packets(value)?),
                "maxp" => spec.max_p = options::number(value)?,
                "ecn" => spec.ecn = options::switch(value)?,
                "wait" => spec.wait = options::switch(value)?,
                "mark" => spec.marking = value.parse().map_err(|_| OptionError::Value)?,
                "slope" => {
                    spec.slope = match value {
                        "present" => Slope::Present,
                        "initial" => Slope::Initial,
                        _ => return Err(OptionError::Value),
                    }
                }
                "pass" => spec.pass = Some(options::whole_packets(value)?),
                _ => return Err(OptionError::Name),
            }
            Ok(())
        })?;
        spec.check(&max_p).map_err(|problem| kind.error(s, problem))
    }

    fn check(self, max_p: &RangeInclusive<f64>) -> Result<Self, Cow<'static, str>> {
        // The condition is written so that NaN fails.
        let threshold = |t: Option<f64>| t.is_none_or(|t| t > 0.0 && t <= 1e6);
        let ordered = self.min.zip(self.max).is_none_or(|(min, max)| min < max);
        let problem =
            if !(Duration::from_micros(1)..=Duration::from_secs(10)).contains(&self.target) {
                "needs a target from 1us to 10s".into()
            } else if !(40..=65_535).contains(&self.packet) {
                "needs a packet size from 40B to 65535B".into()
            } else if !(threshold(self.min) && threshold(self.max) && ordered) {
                "needs 0p < min < max".into()
            } else if self.weight.is_some_and(|w| !(w > 0.0 && w <= 1.0)) {
                "needs a value of w above 0 and at most 1".into()
            } else if self.limit.is_some_and(|n| !(2..=1_000_000).contains(&n)) {
                "needs a limit from 2p to 1000000p".into()
            } else if self.pass.is_some_and(|n| n > 1_000) {
                "needs a value of pass of at most 1000p".into()
            } else if !max_p.contains(&self.max_p) {
                format!("needs a value of maxp from {} to {}", max_p.start(), max_p.end()).into()
            } else {
                return Ok(self);
            };
        Err(problem)
    }

    /// Writes the options in the form that [`Self::read`] reads. Leaves out automatic parameters,
    /// and `slope` and `pass` if they have their defaults, so texts from before these options stay
    /// the same.
    pub(super) fn write(&self, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{kind}:target={},packet={}B", duration_text(self.target), self.packet)?;
        write_given(f, "min", self.min, "p")?;
        write_given(f, "max", self.max, "p")?;
        write_given(f, "w", self.weight, "")?;
        write_given(f, "limit", self.limit, "p")?;
        let (ecn, wait) = (on_off(self.ecn), on_off(self.wait));
        write!(f, ",maxp={},ecn={ecn},wait={wait},mark={}", self.max_p, self.marking)?;
        write_given(f, "slope", (self.slope == Slope::Initial).then_some("initial"), "")?;
        write_given(f, "pass", self.pass, "p")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(10_000_000);

    #[test]
    fn automatic_red_derives_its_parameters_from_target_and_rate() {
        // C = 10^7 / 8 / 1420 = 880: 5 ms are 4.4 packets, so min is the least; w = 1 - exp(-1/880)
        // = 1.136e-3; 5 C 100 ms = 440.1.
        let red = AutomaticRed::default().red(RATE);
        assert_eq!((red.min, red.max, red.limit), (5.0, 15.0, 441));
        assert!((red.weight - 1.14e-3).abs() < 5e-6, "{}", red.weight);
        // C = 2500: 12.5 packets; w = 4.0e-4.
        let red = AutomaticRed { packet: 500, ..AutomaticRed::default() }.red(RATE);
        assert_eq!((red.min, red.max, red.limit), (6.25, 18.75, 1_250));
        assert!((red.weight - 4.0e-4).abs() < 5e-7, "{}", red.weight);
        assert!(red.gentle && red.wait && red.ecn && red.marking == Marking::Average);
    }

    #[test]
    fn automatic_red_keeps_given_parameters_and_derives_the_rest() {
        let given = AutomaticRed {
            min: Some(2_500.0),
            limit: Some(10_000),
            weight: Some(0.5),
            ..AutomaticRed::default()
        };
        let red = given.red(RATE);
        assert_eq!((red.min, red.max, red.limit, red.weight), (2_500.0, 7_500.0, 10_000, 0.5));
        assert_eq!(AutomaticRed { max: Some(30.0), ..AutomaticRed::default() }.red(RATE).min, 10.0);
        // 2 max = 15000 packets is more than five bandwidth-delay products.
        assert_eq!(AutomaticRed { limit: None, ..given }.red(RATE).limit, 15_000);
    }
}
