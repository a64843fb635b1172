//! Packet loss other than in queues: independent, or in bursts.
//!
//! Bursts follow the Gilbert-Elliott model: two states, good and bad, each with a loss probability.
//! A packet first updates the state. It is then lost with the probability of the new state. tc's
//! `netem loss gemodel p r 1-h 1-k` is the same model.
//!
//! Sources: E. N. Gilbert, "Capacity of a burst-noise channel", BSTJ 39 (1960); E. O. Elliott, BSTJ
//! 42 (1963); tc-netem(8).

use std::fmt;
use std::str::FromStr;

use fathom_units::{Invalid, parse_part};
use rand::{Rng, RngExt};

/// Loss as users write it: `1%`, or `bursts:loss=1%,length=4`, or
/// `bursts:enter=0.1%,leave=25%,bad=50%,good=0%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Independent loss of each packet with this probability.
    Random(f64),
    /// Loss in bursts (Gilbert-Elliott).
    Bursts {
        /// Probability per packet to change from the good state to the bad state.
        enter: f64,
        /// Probability per packet to change back to the good state.
        leave: f64,
        /// Loss probability in the bad state.
        bad: f64,
        /// Loss probability in the good state.
        good: f64,
    },
}

impl Default for Loss {
    /// Returns the default, which is no loss.
    fn default() -> Self {
        Self::Random(0.0)
    }
}

impl Loss {
    /// Returns whether no packet is ever lost.
    pub fn is_none(&self) -> bool {
        self.mean() == 0.0
    }

    /// Returns the fraction of all packets lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Random(part) => part,
            Self::Bursts { enter, leave, bad, good } => {
                let in_bad = if enter + leave > 0.0 { enter / (enter + leave) } else { 0.0 };
                in_bad * bad + (1.0 - in_bad) * good
            }
        }
    }

    /// Returns the loss as options of `tc netem`; `None` if no packet is ever lost.
    pub fn netem(&self) -> Option<String> {
        let percent = |part: f64| format!("{}%", part * 100.0);
        match *self {
            _ if self.is_none() => None,
            Self::Random(part) => Some(format!("loss {}", percent(part))),
            Self::Bursts { enter, leave, bad, good } => Some(format!(
                "loss gemodel {} {} {} {}",
                percent(enter),
                percent(leave),
                percent(bad),
                percent(good)
            )),
        }
    }
}

/// Formats a fraction in percent. The text parses to the same fraction, so that a plan gives the
/// same bytes.
fn percent(part: f64) -> String {
    // In floating point, 0.29 * 100 is 28.999999999999996.
    format!("{}%", (part * 1e14).round() / 1e12)
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Random(part) => f.write_str(&percent(part)),
            Self::Bursts { enter, leave, bad, good } => {
                let [enter, leave, bad, good] = [enter, leave, bad, good].map(percent);
                write!(f, "bursts:enter={enter},leave={leave},bad={bad},good={good}")
            }
        }
    }
}

impl FromStr for Loss {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let s = if s.trim() == "bursts" { "bursts:" } else { s };
        let Some(options) = s.trim().strip_prefix("bursts:") else {
            return Ok(Self::Random(parse_part(s)?));
        };
        let help = |why: String| {
            Invalid::value(s, why).hint(
                "write bursts:loss=1%,length=4 (mean loss, and mean length of a burst in packets), \
                 or bursts:enter=0.1%,leave=25%,bad=100%,good=0%",
            )
        };
        let (mut loss, mut length) = (None, None);
        let (mut enter, mut leave, mut bad, mut good) = (None, None, None, None);
        for option in options.split(',') {
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| help(format!("has '{}' without a value", option.escape_debug())))?;
            let part = || parse_part(value).map_err(|e| help(format!("has a wrong '{name}': {e}")));
            let slot = match name.trim() {
                "length" => {
                    let read = value.trim().parse::<f64>().ok().filter(|n| (1.0..=1e6).contains(n));
                    length =
                        Some(read.ok_or_else(|| {
                            help("needs a length of 1 to 1000000 packets".into())
                        })?);
                    continue;
                }
                "loss" => &mut loss,
                "enter" => &mut enter,
                "leave" => &mut leave,
                "bad" => &mut bad,
                "good" => &mut good,
                _ => return Err(help(format!("has no option '{}'", name.escape_debug()))),
            };
            if slot.replace(part()?).is_some() {
                return Err(help(format!("has '{name}' twice")));
            }
        }
        match (loss, length, enter, leave) {
            (Some(loss), Some(length), None, None) if bad.is_none() && good.is_none() => {
                // In the bad state, all packets are lost, and the state lasts for `length` packets:
                // leave = 1 / length, and enter / (enter + leave) = loss.
                let leave = 1.0 / length;
                let enter = leave * loss / (1.0 - loss);
                if !(0.0..=1.0).contains(&enter) {
                    return Err(help(
                        "has a loss rate that bursts of this length cannot reach".into(),
                    ));
                }
                Ok(Self::Bursts { enter, leave, bad: 1.0, good: 0.0 })
            }
            (None, None, Some(enter), Some(leave)) => Ok(Self::Bursts {
                enter,
                leave,
                bad: bad.unwrap_or(1.0),
                good: good.unwrap_or(0.0),
            }),
            _ => Err(help(
                "has neither the options loss and length nor the options enter and leave".into(),
            )),
        }
    }
}

/// Loss with its current state.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossState {
    loss: Loss,
    in_bad: bool,
}

impl LossState {
    pub(super) const fn new(loss: Loss) -> Self {
        Self { loss, in_bad: false }
    }

    /// Returns whether the next packet is lost. A loss probability of zero draws no random number,
    /// so that other random numbers stay the same.
    pub(super) fn is_lost(&mut self, rng: &mut impl Rng) -> bool {
        let mut happens = |part: f64| part > 0.0 && rng.random::<f64>() < part;
        match self.loss {
            Loss::Random(part) => happens(part),
            Loss::Bursts { enter, leave, bad, good } => {
                if happens(if self.in_bad { leave } else { enter }) {
                    self.in_bad = !self.in_bad;
                }
                happens(if self.in_bad { bad } else { good })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn loss_option_round_trips_through_text() {
        for text in ["1%", "0%", "0.29%", "29%", "bursts:enter=0.1%,leave=25%,bad=50%,good=0.01%"] {
            assert_eq!(text.parse::<Loss>().unwrap().to_string(), text);
        }
        let simple: Loss = "bursts:loss=2%,length=4".parse().unwrap();
        assert!((simple.mean() - 0.02).abs() < 1e-12);
        assert_eq!(simple.to_string().parse::<Loss>().unwrap().to_string(), simple.to_string());
    }

    #[test]
    fn loss_option_errors_suggest_a_fix() {
        for text in [
            "bursts:",
            "bursts:loss=1%",
            "bursts:loss=1%,length=0.5",
            "bursts:loss=99.9%,length=1",
            "bursts:enter=1%",
            "bursts:enter=1%,leave=2%,enter=3%",
            "bursts:loss=1%,length=4,bad=5%",
            "bursts:lose=1%",
            "-1%",
            "one",
        ] {
            let error = text.parse::<Loss>().unwrap_err().to_string();
            assert!(error.contains("; write ") && !error.contains('\n'), "{text}: {error}");
        }
    }

    proptest! {
        /// Mean loss and mean burst length are as configured.
        #[test]
        fn loss_bursts_have_the_configured_rate_and_length(loss in 0.005f64..0.2, length in 1.5f64..8.0, seed in 0u64..1_000) {
            let spec: Loss = format!("bursts:loss={loss},length={length}").parse().unwrap();
            let mut state = LossState::new(spec);
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let n = 200_000;
            let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
            for _ in 0..n {
                let takes = state.is_lost(&mut rng);
                lost += u32::from(takes);
                bursts += u32::from(takes && !before);
                before = takes;
            }
            let (part, mean) = (f64::from(lost) / f64::from(n), f64::from(lost) / f64::from(bursts.max(1)));
            // The bound is about five deviations, because there are few bursts.
            let slack = 5.0 / f64::from(bursts.max(1)).sqrt();
            prop_assert!((part / loss - 1.0).abs() < slack * 1.5, "{part} of {loss}");
            prop_assert!((mean / length - 1.0).abs() < slack, "{mean} of {length}");
        }
    }
}
