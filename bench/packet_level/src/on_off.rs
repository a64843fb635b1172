//! A UDP source that sends at a constant rate while it is on (DCA §4.1: "high bandwidth, ON/OFF UDP
//! flows").

use std::time::Duration;

use fathom_cc::{Invalid, Rate, Time};
use rand_distr::{Distribution, Exp1, Pareto};
use rand_pcg::Pcg64Mcg;

use fathom_netsim::sim::WIRE_OVERHEAD;

/// Distribution of the on times or off times of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spell {
    /// An exponential distribution.
    Exponential {
        /// Mean of the distribution.
        mean: Duration,
    },
    /// A Pareto distribution.
    Pareto {
        /// Mean of the distribution.
        mean: Duration,
        /// Shape of the distribution. It must be above 1, because the mean is infinite otherwise.
        shape: f64,
    },
}

impl Spell {
    fn check(&self) -> Result<(), Invalid> {
        let (Self::Exponential { mean } | Self::Pareto { mean, .. }) = self;
        if mean.is_zero() {
            return Err(Invalid::because("the mean is zero").hint("write one above 0"));
        }
        match self {
            Self::Pareto { shape, .. } if !(shape.is_finite() && *shape > 1.0) => {
                let problem = Invalid::value(&shape.to_string(), "does not give a finite mean");
                Err(problem.hint("write a shape above 1").in_field("shape"))
            }
            _ => Ok(()),
        }
    }

    fn draw(&self, rng: &mut Pcg64Mcg) -> Duration {
        let seconds = match self {
            Self::Exponential { mean } => {
                mean.as_secs_f64() * Distribution::<f64>::sample(&Exp1, rng)
            }
            Self::Pareto { mean, shape } => {
                // The mean is scale * shape / (shape - 1).
                let scale = mean.as_secs_f64() * (shape - 1.0) / shape;
                Pareto::new(scale, *shape).expect("checked when the flow was added").sample(rng)
            }
        };
        // Cap the tail of the distribution at about a year.
        Duration::from_secs_f64(seconds.min(3.2e7))
    }
}

/// A UDP on/off source. It starts with an off time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnOff {
    /// Rate while the source is on, including headers.
    pub rate: Rate,
    /// UDP payload of a packet in bytes.
    pub packet: u16,
    /// Duration of on times.
    pub on: Spell,
    /// Duration of off times.
    pub off: Spell,
    /// Start time of the source.
    pub start: Time,
}

impl OnOff {
    /// Checks that all options are in range.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        if self.interval().is_zero() || self.interval() == Duration::MAX {
            let problem = "leaves a time between packets that is too short or too long";
            return Err(Invalid::value(&self.rate.to_string(), problem).in_field("rate"));
        }
        self.on.check().map_err(|e| e.in_field("on"))?;
        self.off.check().map_err(|e| e.in_field("off"))
    }

    /// Returns the size of a packet on the wire in bytes.
    pub(super) fn wire(&self) -> u32 {
        u32::from(self.packet) + WIRE_OVERHEAD
    }

    fn interval(&self) -> Duration {
        self.rate.time_for(u64::from(self.wire()))
    }
}

/// State of a running source.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) options: OnOff,
    rng: Pcg64Mcg,
    /// Remaining part of the current on time.
    on_left: Duration,
    /// Sums of the on times (`on`) and of the off times (`off`) drawn so far.
    pub(super) on: Duration,
    pub(super) off: Duration,
}

impl Source {
    pub(super) fn new(options: OnOff, rng: Pcg64Mcg) -> Self {
        Self { options, rng, on_left: Duration::ZERO, on: Duration::ZERO, off: Duration::ZERO }
    }

    /// Returns the time to the next packet. When an on time ends, its remaining part counts towards
    /// the next interval, so that the mean rate is exact.
    pub(super) fn gap(&mut self) -> Duration {
        let mut need = self.options.interval();
        let mut gap = need;
        while need > self.on_left {
            need -= self.on_left;
            let off = self.options.off.draw(&mut self.rng);
            self.on_left = self.options.on.draw(&mut self.rng);
            self.on += self.on_left;
            self.off += off;
            gap += off;
        }
        self.on_left -= need;
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const MS: Duration = Duration::from_millis(1);

    fn source(on: Spell, off: Spell) -> Source {
        // 1472 + 28 bytes at 1.2 Mbps: one packet per 10 ms.
        let rate = Rate::from_bits_per_sec(1_200_000);
        let options = OnOff { rate, packet: 1_472, on, off, start: Time::ZERO };
        assert_eq!(options.check(), Ok(()));
        Source::new(options, Pcg64Mcg::seed_from_u64(4))
    }

    #[test]
    fn mean_rate_of_on_off_source_is_proportional_to_on_time() {
        let exponential = |ms| Spell::Exponential { mean: MS * ms };
        let pareto = |ms| Spell::Pareto { mean: MS * ms, shape: 2.5 };
        for (on, off) in [
            (exponential(500), exponential(1_500)),
            (pareto(500), pareto(1_500)),
            (exponential(3), pareto(9)),
        ] {
            let mut s = source(on, off);
            let packets = 100_000;
            let time: Duration = (0..packets).map(|_| s.gap()).sum();
            // The source sends 100 packets/s for a quarter of the time. With 2000 cycles or more,
            // the variation of a cycle's length (at most 1.1 of its mean) makes an error of 2.5%;
            // twice that is allowed.
            let rate = f64::from(packets) / time.as_secs_f64();
            assert!((rate / 25.0 - 1.0).abs() < 0.05, "{rate} packets/s for 25 with {on:?}");
            // The time on matches exactly, apart from the rest of the last on time.
            let on = s.on - s.on_left;
            assert_eq!(on, MS * 10 * packets as u32);
            assert_eq!(time, on + s.off);
        }
    }

    #[test]
    fn on_off_source_sends_at_equal_gaps_while_on() {
        let mut s = source(
            Spell::Exponential { mean: MS * 10_000 },
            Spell::Exponential { mean: MS * 10_000 },
        );
        let gaps: Vec<Duration> = (0..1_000).map(|_| s.gap()).collect();
        let usual = gaps.iter().filter(|g| **g == MS * 10).count();
        assert!(usual > 950, "{usual} of 1000 gaps are the interval");
        assert!(gaps.iter().all(|g| *g >= MS * 10));
    }

    #[test]
    fn invalid_on_off_source_options_are_refused() {
        let fine = source(Spell::Exponential { mean: MS }, Spell::Exponential { mean: MS }).options;
        assert!(OnOff { rate: Rate::from_bits_per_sec(0), ..fine }.check().is_err());
        assert!(OnOff { on: Spell::Exponential { mean: Duration::ZERO }, ..fine }.check().is_err());
        assert!(OnOff { off: Spell::Pareto { mean: MS, shape: 1.0 }, ..fine }.check().is_err());
    }
}
