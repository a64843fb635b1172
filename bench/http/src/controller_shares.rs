//! The controllers among which a server divides its connections.

use std::fmt;
use std::str::FromStr;

use fathom_cc::{Invalid, catalogue};
use fathom_stacks::ControllerSpec;

/// Controllers that divide the connections, with their weights, as users write them: `sync`, or
/// `sync=50,native:cubic=50`. Options follow their controller: `sync:floor=1ms=50,reno=50`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerShares(Vec<(ControllerSpec, u32)>);

impl ControllerShares {
    /// Returns the controllers in the order in which they were written, each of them once.
    pub fn controllers(&self) -> impl ExactSizeIterator<Item = &ControllerSpec> {
        self.0.iter().map(|(controller, _)| controller)
    }

    /// Returns whether the controller with this index is a stack's own.
    pub(crate) fn is_native(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|(controller, _)| controller.is_native())
    }

    /// Returns the index of a connection's controller; `sample` is uniform in [0, 1).
    pub fn pick(&self, sample: f64) -> usize {
        let sum: u32 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut left = sample * f64::from(sum);
        for (number, (_, weight)) in self.0.iter().enumerate() {
            left -= f64::from(*weight);
            if left < 0.0 {
                return number;
            }
        }
        self.0.len() - 1
    }
}

impl fmt::Display for ControllerShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(only, _)] = &self.0[..] {
            return only.fmt(f);
        }
        let texts: Vec<String> =
            self.0.iter().map(|(controller, weight)| format!("{controller}={weight}")).collect();
        f.write_str(&texts.join(","))
    }
}

impl FromStr for ControllerShares {
    type Err = Invalid;

    fn from_str(s: &str) -> Result<Self, Invalid> {
        let mut shares: Vec<(ControllerSpec, u32)> = Vec::new();
        let trimmed: Vec<&str> = s.split(',').map(str::trim).collect();
        for piece in catalogue::split(&trimmed.join(",")) {
            let (controller, weight) = split_weight(&piece);
            let weight = weight.parse().ok().filter(|w| (1..=1_000_000).contains(w));
            let weight = weight.ok_or_else(|| {
                Invalid::value(&piece, "has an invalid weight")
                    .hint("write a number from 1 to 1000000, as in sync=50,native:cubic=50")
            })?;
            if controller.is_empty() {
                return Err(Invalid::value(s, "lacks a controller").hint(
                    "write one controller, or several with weights, such as \
                        sync=50,native:cubic=50",
                ));
            }
            let controller = ControllerSpec::from(controller);
            if shares.iter().any(|(other, _)| *other == controller) {
                return Err(Invalid::value(&controller.to_string(), "is named twice")
                    .hint("name the controller once, with the sum of both weights"));
            }
            shares.push((controller, weight));
        }
        Ok(Self(shares))
    }
}

/// Splits a controller from its weight. The number after the last `=` is a weight if the text
/// before this `=` is a complete controller. Otherwise, the number is the value of an option.
fn split_weight(piece: &str) -> (&str, &str) {
    match piece.rsplit_once('=') {
        Some((rest, weight))
            if ControllerSpec::from(rest).is_native() || catalogue::parse(rest).is_ok() =>
        {
            (rest.trim(), weight.trim())
        }
        _ => (piece, "1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(text: &str) -> Vec<(ControllerSpec, u32)> {
        text.parse::<ControllerShares>().unwrap_or_else(|e| panic!("{text}: {e}")).0
    }

    fn of(pairs: &[(&str, u32)]) -> Vec<(ControllerSpec, u32)> {
        pairs.iter().map(|(c, w)| ((*c).into(), *w)).collect()
    }

    #[test]
    fn weights_of_controllers_are_distinguished_from_options() {
        assert_eq!(shares("sync"), of(&[("sync", 1)]));
        assert_eq!(shares("sync=50,native:cubic=50"), of(&[("sync", 50), ("native:cubic", 50)]));
        assert_eq!(shares("sync:floor=1ms"), of(&[("sync:floor=1ms", 1)]));
        assert_eq!(
            shares("sync:floor=1ms=30,reno=70"),
            of(&[("sync:floor=1ms", 30), ("reno", 70)])
        );
        assert_eq!(
            shares("sync:floor=1ms,signal=rtt=30,reno=70"),
            of(&[("sync:floor=1ms,signal=rtt", 30), ("reno", 70)])
        );
        assert_eq!(shares("reno,cubic"), of(&[("reno", 1), ("cubic", 1)]));
        assert_eq!(
            shares("packet-size:packets=64,reno"),
            of(&[("packet-size:packets=64", 1), ("reno", 1)])
        );
    }

    #[test]
    fn controller_shares_round_trip_through_display() {
        for text in ["sync", "sync=50,native:cubic=50", "sync:floor=1ms=30,reno=70"] {
            assert_eq!(text.parse::<ControllerShares>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_of_invalid_controller_shares_have_a_hint() {
        for (text, hint) in [
            ("", "lacks"),
            ("sync=0", "weight"),
            ("sync=x", "weight"),
            ("sync,,reno", "lacks"),
            ("sync=1,sync=2", "twice"),
        ] {
            let error = text.parse::<ControllerShares>().unwrap_err();
            assert!(error.problem.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn connections_are_assigned_to_controllers_by_weight() {
        let shares: ControllerShares = "sync=1,reno=3".parse().unwrap();
        assert_eq!([0.0, 0.249, 0.25, 0.999].map(|sample| shares.pick(sample)), [0, 0, 1, 1]);
        let picked = (0..1_000).filter(|n| shares.pick(f64::from(*n) / 1_000.0) == 0).count();
        assert_eq!(picked, 250);
    }
}
