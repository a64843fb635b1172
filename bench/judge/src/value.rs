//! Value of a check: a mean of values or ratios over seeds, with its interval.

use fathom_metrics::{Bounds, Estimate, significant, significant_text};
use serde::{Deserialize, Serialize};

/// A mean over seeds, with the ends of its 95% interval by Student's t. A mean over one seed has no
/// interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Number of seeds.
    pub n: usize,
    /// Mean of values, or geometric mean of ratios.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
}

/// Number of significant digits shown for ratios and their intervals.
const SHOWN: i32 = 3;
/// Number of significant digits kept, as in an [`Estimate`].
const KEPT: i32 = 9;

impl Value {
    /// Returns the mean of one value per seed. Returns `None` without values, or if a value is not
    /// finite.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        Estimate::of(values).map(|estimate| Self::with(&estimate, |x| x))
    }

    /// Returns the mean of one ratio per seed, computed on logarithms, because a ratio of 2 and a
    /// ratio of 1/2 are equally far from equality. A ratio that is zero or negative has no
    /// logarithm. The result is then that of [`Self::of`].
    pub(crate) fn of_ratios(ratios: &[f64]) -> Option<Self> {
        if ratios.iter().any(|ratio| *ratio <= 0.0) {
            return Self::of(ratios);
        }
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        Estimate::of(&logarithms).map(|estimate| Self::with(&estimate, f64::exp))
    }

    fn with(estimate: &Estimate, back: impl Fn(f64) -> f64) -> Self {
        let back = |x| significant(back(x), KEPT);
        let interval = estimate.interval();
        Self {
            n: estimate.n,
            mean: back(estimate.mean),
            low: interval.map(|(low, _)| back(low)),
            high: interval.map(|(_, high)| back(high)),
        }
    }

    /// Returns both ends of the interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Formats the value as `12.3 ± 0.4`, or as `1.5 (0.0 to 4.4)` if the interval extends beyond
    /// the bounds of the measure.
    pub(crate) fn text(&self, bounds: &Bounds) -> String {
        let half_width = self.interval().map(|(low, high)| (high - low) / 2.0);
        let estimate = Estimate { n: self.n, mean: self.mean, deviation: None, half_width };
        match estimate.interval().is_some_and(|ends| bounds.cut(self.mean, ends).1) {
            true => fathom_report::estimate_within(&estimate, bounds),
            false => estimate.to_string(),
        }
    }

    /// Formats a ratio as `210 (163 to 281)`.
    pub(crate) fn ratio_text(&self) -> String {
        let text = |x| significant_text(x, SHOWN);
        match self.interval() {
            Some((low, high)) => format!("{} ({} to {})", text(self.mean), text(low), text(high)),
            None => text(self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_averaged_geometrically() {
        let value = Value::of_ratios(&[50.0, 100.0, 200.0]).unwrap();
        // The deviation of the three logarithms is ln 2; with t(2) = 4.302652730 the half width is
        // 1.721873.
        let by_hand = [100.0, 100.0 * (-1.721_873_f64).exp(), 100.0 * 1.721_873_f64.exp()];
        let found = [value.mean, value.low.unwrap(), value.high.unwrap()];
        assert!(
            found.iter().zip(by_hand).all(|(a, b)| (a / b - 1.0).abs() < 1e-5),
            "{found:?} {by_hand:?}"
        );
        assert_eq!(value.ratio_text(), "100 (17.9 to 559)");
        assert_eq!(Value::of_ratios(&[0.0, 100.0]), Value::of(&[0.0, 100.0]));
        assert_eq!(Value::of_ratios(&[80.0]).unwrap().ratio_text(), "80.0");
        assert_eq!(
            Value::of(&[1.0, 3.0]).unwrap().text(&Bounds::NOT_NEGATIVE),
            "2.0 (0.0 to 14.7)"
        );
        assert_eq!(Value::of(&[30.0, 40.0, 50.0]).unwrap().text(&Bounds::NOT_NEGATIVE), "40 ± 25");
    }
}
