//! Rates that a model of traffic does not have.

use std::fmt;

/// What a model is asked for, and the rates that it is defined for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    /// What the rate counts, per second.
    pub(crate) counts: &'static str,
    /// The model, where its name helps: ` for PackMime`.
    pub(crate) of: &'static str,
    /// Decimals that tell such rates apart.
    pub(crate) decimals: usize,
    /// The lowest and the highest.
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Range {
    /// `rate`, where it is one of these.
    pub(crate) fn check(&'static self, rate: f64) -> Result<f64, RateOutOfRange> {
        if (self.least..=self.most).contains(&rate) {
            Ok(rate)
        } else {
            Err(RateOutOfRange { rate, range: self })
        }
    }
}

/// A rate for which a model is not defined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateOutOfRange {
    rate: f64,
    range: &'static Range,
}

impl RateOutOfRange {
    /// The rate is above the range; otherwise below it, or no number.
    pub fn is_too_high(&self) -> bool {
        self.rate > self.range.most
    }

    /// What is wrong, without what to do about it.
    pub fn finding(&self) -> String {
        let Range { counts, of, decimals, .. } = *self.range;
        let much = if self.is_too_high() { "many" } else { "few" };
        format!("{:.decimals$} {counts} per second are too {much}{of}", self.rate)
    }
}

impl fmt::Display for RateOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { least, most, .. } = self.range;
        write!(f, "{}; give a rate from {least} to {most}", self.finding())
    }
}

impl std::error::Error for RateOutOfRange {}

#[cfg(test)]
mod tests {
    use crate::{Options, PackMime, PageShape, Pages};

    #[test]
    fn rates_out_of_range_say_the_range() {
        let text = |e: super::RateOutOfRange| e.to_string();
        assert_eq!(
            text(PackMime::new(0.05, 1, Options::default()).err().unwrap()),
            "0.0500 new connections per second are too few for PackMime; give a rate from 0.1 to 1000000"
        );
        assert_eq!(
            text(Pages::new(2e5, 1, PageShape::Archive).err().unwrap()),
            "200000.000000 page views per second are too many; give a rate from 0.001 to 100000"
        );
    }
}
