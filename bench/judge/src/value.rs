//! Value of a check: a mean of values or ratios over seeds, with its interval.

use fathom_metrics::{Bounds, Estimate, significant, significant_text};
use serde::{Deserialize, Serialize};

/// A mean over seeds, with the ends of two intervals by Student's t. A mean over one seed has no
/// interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Number of seeds.
    pub n: usize,
    /// Mean of values, or geometric mean of ratios.
    pub mean: f64,
    /// Lower end of the 95% interval.
    pub low: Option<f64>,
    /// Upper end of the 95% interval.
    pub high: Option<f64>,
    /// Both ends of the interval with which a check fails: 95% for all checks together.
    pub failing: Option<(f64, f64)>,
}

/// Confidence of the interval with which one of `checks` checks fails: 95% for all checks together
/// (Bonferroni). A check that is looked at again with more seeds counts once for each number of
/// seeds. So a controller whose true values are all at their bounds fails any check with a
/// probability of at most 2.5%.
pub(crate) fn failing_confidence(checks: usize) -> f64 {
    1.0 - 0.05 / checks.max(1) as f64
}

/// Number of significant digits shown for ratios and their intervals.
const SHOWN: i32 = 3;
/// Number of significant digits kept, as in an [`Estimate`].
const KEPT: i32 = 9;

impl Value {
    /// Returns the mean of one value per seed. Returns `None` without values, or if a value is not
    /// finite.
    pub(crate) fn of(values: &[f64], checks: usize) -> Option<Self> {
        Estimate::of(values).map(|estimate| Self::with(&estimate, checks, |x| x))
    }

    /// Returns the mean of one ratio per seed, computed on logarithms, because a ratio of 2 and a
    /// ratio of 1/2 are equally far from equality. A ratio that is zero or negative has no
    /// logarithm. The result is then that of [`Self::of`].
    pub(crate) fn of_ratios(ratios: &[f64], checks: usize) -> Option<Self> {
        if ratios.iter().any(|ratio| *ratio <= 0.0) {
            return Self::of(ratios, checks);
        }
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        Estimate::of(&logarithms).map(|estimate| Self::with(&estimate, checks, f64::exp))
    }

    pub(crate) fn with(estimate: &Estimate, checks: usize, back: impl Fn(f64) -> f64) -> Self {
        let back = |x| significant(back(x), KEPT);
        let interval = estimate.interval();
        let failing = estimate.half_width_at(failing_confidence(checks));
        Self {
            n: estimate.n,
            mean: back(estimate.mean),
            low: interval.map(|(low, _)| back(low)),
            high: interval.map(|(_, high)| back(high)),
            failing: failing.map(|half| (back(estimate.mean - half), back(estimate.mean + half))),
        }
    }

    /// Returns both ends of the 95% interval.
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
    fn failing_interval_is_wider_the_more_checks_there_are() {
        let of = |checks| Value::of(&[30.0, 40.0, 50.0], checks).unwrap();
        assert_eq!(of(1).failing, of(1).interval());
        // t(2) = 31.599 at 99.9 %, and the deviation is 10.
        let (low, high) = of(50).failing.unwrap();
        assert!((high - 40.0 - 31.599 * 10.0 / 3.0_f64.sqrt()).abs() < 0.01 && low < 0.0, "{high}");
        assert_eq!(of(50).interval(), of(1).interval());
    }

    #[test]
    fn ratios_are_averaged_geometrically() {
        let value = Value::of_ratios(&[50.0, 100.0, 200.0], 1).unwrap();
        // The deviation of the three logarithms is ln 2; with t(2) = 4.302652730 the half width is
        // 1.721873.
        let by_hand = [100.0, 100.0 * (-1.721_873_f64).exp(), 100.0 * 1.721_873_f64.exp()];
        let found = [value.mean, value.low.unwrap(), value.high.unwrap()];
        assert!(
            found.iter().zip(by_hand).all(|(a, b)| (a / b - 1.0).abs() < 1e-5),
            "{found:?} {by_hand:?}"
        );
        assert_eq!(value.ratio_text(), "100 (17.9 to 559)");
        assert_eq!(Value::of_ratios(&[0.0, 100.0], 1), Value::of(&[0.0, 100.0], 1));
        assert_eq!(Value::of_ratios(&[80.0], 1).unwrap().ratio_text(), "80.0");
        assert_eq!(
            Value::of(&[1.0, 3.0], 1).unwrap().text(&Bounds::NOT_NEGATIVE),
            "2.0 (0.0 to 14.7)"
        );
        assert_eq!(
            Value::of(&[30.0, 40.0, 50.0], 1).unwrap().text(&Bounds::NOT_NEGATIVE),
            "40 ± 25"
        );
    }
}
