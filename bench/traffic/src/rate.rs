//! Errors for rates outside a model's range.

use std::fmt;

/// Quantity that a rate counts, and the rates that a model supports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    /// Noun for the events that the rate counts per second.
    pub(crate) counts: &'static str,
    /// Name of the model as a suffix of the noun, such as ` for PackMime`; empty if not needed.
    pub(crate) of: &'static str,
    /// Number of decimals needed to distinguish such rates.
    pub(crate) decimals: usize,
    /// Lowest and highest supported rate.
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Range {
    /// Returns `rate` if it is in the range.
    pub(crate) fn check(&'static self, rate: f64) -> Result<f64, RateOutOfRange> {
        if (self.least..=self.most).contains(&rate) {
            Ok(rate)
        } else {
            Err(RateOutOfRange { rate, range: self })
        }
    }
}

/// A rate outside a model's range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateOutOfRange {
    rate: f64,
    range: &'static Range,
}

impl RateOutOfRange {
    /// Returns whether the rate is above the range. Otherwise it is below the range or not a
    /// number.
    pub fn is_too_high(&self) -> bool {
        self.rate > self.range.most
    }

    /// Returns the error without a hint for a correction.
    pub fn finding(&self) -> String {
        let Range { counts, of, decimals, .. } = *self.range;
        let much = if self.is_too_high() { "many" } else { "few" };
        format!("{:.decimals$} {counts} per second are too {much}{of}", self.rate)
    }
}

impl fmt::Display for RateOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { least, most, .. } = self.range;
        write!(f, "{}; choose a rate from {least} to {most}", self.finding())
    }
}

impl std::error::Error for RateOutOfRange {}

#[cfg(test)]
mod tests {
    use crate::{Options, PackMime, PageShape, Pages};

    #[test]
    fn traffic_rate_errors_name_the_supported_range() {
        let text = |e: super::RateOutOfRange| e.to_string();
        assert_eq!(
            text(PackMime::new(0.05, 1, Options::default()).err().unwrap()),
            "0.0500 new connections per second are too few for PackMime; choose a rate from 0.1 to 1000000"
        );
        assert_eq!(
            text(Pages::new(2e5, 1, PageShape::Archive).err().unwrap()),
            "200000.000000 page views per second are too many; choose a rate from 0.001 to 100000"
        );
    }
}
