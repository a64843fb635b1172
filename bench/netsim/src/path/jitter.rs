//! Delay variation: each packet gets a random extra delay.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_units::{Invalid, duration_text, parse_duration};
use rand::{Rng, RngExt};

/// Distribution of the extra delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A uniform distribution from zero to the scale, with a mean of half the scale.
    #[default]
    Uniform,
    /// The absolute value of a normal variable whose deviation is the scale, like delays above a
    /// minimum.
    Normal,
    /// An exponential distribution whose mean is the scale, with a long tail.
    Exponential,
}

/// Jitter as users write it: `5ms`, `normal:5ms`, `exponential:5ms`. With `,reorder`, packets may
/// overtake each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Scale of the extra delay. Its meaning depends on the shape.
    pub scale: Duration,
    /// Distribution of the extra delay.
    pub shape: Shape,
    /// Whether packets may overtake each other. If not, a packet that would arrive before its
    /// predecessor arrives together with it.
    pub reorders: bool,
}

impl Jitter {
    /// Returns uniform jitter that keeps the order.
    pub const fn uniform(most: Duration) -> Self {
        Self { scale: most, shape: Shape::Uniform, reorders: false }
    }

    /// Returns whether there is no jitter.
    pub const fn is_none(&self) -> bool {
        self.scale.is_zero()
    }

    /// Returns the extra delay of one packet. Without jitter, no random number is drawn.
    pub(super) fn sample(&self, rng: &mut impl Rng) -> Duration {
        if self.is_none() {
            return Duration::ZERO;
        }
        let scale = self.scale.as_nanos() as f64;
        // The value 1 - u is never zero.
        let mut uniform = || rng.random::<f64>();
        let extra = match self.shape {
            Shape::Uniform => scale * uniform(),
            // Use the Box-Muller transform to get a normal variable.
            Shape::Normal => {
                scale * ((-2.0 * (1.0 - uniform()).ln()).sqrt() * (TAU * uniform()).cos()).abs()
            }
            Shape::Exponential => scale * -(1.0 - uniform()).ln(),
        };
        Duration::from_nanos(extra as u64)
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.shape {
            Shape::Uniform => "",
            Shape::Normal => "normal:",
            Shape::Exponential => "exponential:",
        })?;
        f.write_str(&duration_text(self.scale))?;
        if self.reorders { f.write_str(",reorder") } else { Ok(()) }
    }
}

impl FromStr for Jitter {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let help = |why: &str| {
            Invalid::value(s, format!("is not a valid jitter ({why})")).hint(
                "write 5ms, normal:5ms or exponential:5ms, and add ',reorder' if packets may \
                 overtake each other",
            )
        };
        let (rest, reorders) = match s.trim().split_once(',') {
            None => (s.trim(), false),
            Some((rest, "reorder")) => (rest, true),
            Some((_, other)) => {
                return Err(help(&format!(
                    "'{}' is not an option of jitter",
                    other.escape_debug()
                )));
            }
        };
        let (shape, time) = match rest.split_once(':') {
            None | Some(("uniform", _)) => (Shape::Uniform, rest.trim_start_matches("uniform:")),
            Some(("normal", time)) => (Shape::Normal, time),
            Some(("exponential", time)) => (Shape::Exponential, time),
            Some((other, _)) => {
                return Err(help(&format!("'{}' is not a shape", other.escape_debug())));
            }
        };
        let scale = parse_duration(time).map_err(|_| help("it needs a time"))?;
        if scale > Duration::from_secs(60) {
            Err(help("more than a minute"))
        } else {
            Ok(Self { scale, shape, reorders })
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn jitter_option_round_trips_through_text() {
        for text in ["5ms", "normal:5ms", "exponential:2.5ms,reorder", "300us,reorder"] {
            assert_eq!(text.parse::<Jitter>().unwrap().to_string(), text);
        }
        for text in ["", "5", "pareto:5ms", "5ms,keep", "90s"] {
            assert!(
                text.parse::<Jitter>().unwrap_err().to_string().contains("; write 5ms"),
                "{text}"
            );
        }
    }

    #[test]
    fn jitter_shapes_have_the_configured_mean() {
        for (text, mean_ms) in [
            ("10ms", 5.0),
            ("normal:10ms", 10.0 * (2.0 / std::f64::consts::PI).sqrt()),
            ("exponential:10ms", 10.0),
        ] {
            let jitter: Jitter = text.parse().unwrap();
            let mut rng = Pcg64Mcg::seed_from_u64(3);
            let n = 100_000;
            let sum: Duration = (0..n).map(|_| jitter.sample(&mut rng)).sum();
            let mean = sum.as_secs_f64() * 1e3 / f64::from(n);
            assert!((mean / mean_ms - 1.0).abs() < 0.02, "{text}: {mean}");
        }
    }
}
