//! Bounds of the values that a measure can take.

use serde::{Deserialize, Serialize};

use crate::Estimate;

/// The smallest and the largest value that a measure can take.
///
/// Student's interval is symmetric around the mean and does not take the measure into account. With
/// few seeds, the interval of a rate near zero therefore has a lower end below zero. The part of an
/// interval outside the bounds contains no possible value. Cutting off this part does not change
/// the confidence level (Mandelkern, "Setting Confidence Intervals for Bounded Parameters",
/// Statistical Science 17(2), 2002, §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Smallest value; `None` if there is no lower bound.
    pub least: Option<f64>,
    /// Largest value; `None` if there is no upper bound.
    pub most: Option<f64>,
}

impl Bounds {
    /// Bounds of counts, rates, times and sizes: zero or more.
    pub const NOT_NEGATIVE: Self = Self { least: Some(0.0), most: None };
    /// Bounds of percentages of a whole: 0 to 100.
    pub const PERCENT: Self = Self { least: Some(0.0), most: Some(100.0) };

    /// Returns the part of an interval that lies within the bounds, and whether anything was cut
    /// off.
    ///
    /// If the mean is outside the bounds, the measure itself is wrong. The interval is then
    /// returned unchanged.
    pub fn cut(&self, mean: f64, (low, high): (f64, f64)) -> ((f64, f64), bool) {
        let (least, most) =
            (self.least.unwrap_or(f64::NEG_INFINITY), self.most.unwrap_or(f64::INFINITY));
        if !(least..=most).contains(&mean) {
            return ((low, high), false);
        }
        ((low.max(least), high.min(most)), low < least || high > most)
    }
}

impl Estimate {
    /// Returns both ends of the interval, cut at the bounds of the measure; `None` if there is no
    /// interval.
    pub fn interval_within(&self, bounds: &Bounds) -> Option<(f64, f64)> {
        self.interval().map(|ends| bounds.cut(self.mean, ends).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_intervals_are_clipped_to_the_bounds() {
        let of =
            |values: &[f64], bounds: Bounds| Estimate::of(values).unwrap().interval_within(&bounds);
        // With two seeds, half the width is 12.7 deviations over sqrt 2.
        assert_eq!(of(&[1.0, 3.0], Bounds::NOT_NEGATIVE).unwrap().0, 0.0);
        assert_eq!(of(&[70.0, 98.0], Bounds::PERCENT), Some((0.0, 100.0)));
        assert!(of(&[1.0, 3.0], Bounds::default()).unwrap().0 < -10.0);
        assert_eq!(of(&[5.0, 5.0], Bounds::PERCENT), Some((5.0, 5.0)));
        assert_eq!(of(&[5.0], Bounds::PERCENT), None);
        assert_eq!(
            Bounds::PERCENT.cut(101.0, (99.0, 103.0)),
            ((99.0, 103.0), false),
            "a wrong value is not hidden"
        );
    }
}
