//! Means over seeds and their confidence intervals.

use std::fmt;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::latency::significant;

/// Number of significant digits kept for output.
const DIGITS: i32 = 9;

/// A mean with its 95% confidence interval by Student's t. Numbers are rounded to nine significant
/// digits.
///
/// An estimate is displayed as `12.3 ± 0.4`, with the interval to one significant digit. A
/// precision (`{:.2}`) overrides the number of digits. An estimate without an interval is displayed
/// as its mean, to three digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Number of values.
    pub n: usize,
    /// Mean of the values.
    pub mean: f64,
    /// Standard deviation of the values, computed with n - 1; `None` for one value.
    pub deviation: Option<f64>,
    /// Half the width of the interval; `None` for one value.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// Returns the mean of one value per seed. Returns `None` without values, or if a value is not
    /// finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        // Rounding can make the mean of equal values differ slightly from the values. Equal values
        // have a deviation of zero.
        let equal = values.iter().all(|v| *v == values[0]);
        let squares: f64 =
            if equal { 0.0 } else { values.iter().map(|v| (v - mean).powi(2)).sum() };
        let deviation = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        let half_width = half_width(n, deviation, 0.95);
        let rounded = |x: f64| significant(x, DIGITS);
        Some(Self {
            n,
            mean: rounded(mean),
            deviation: deviation.map(rounded),
            half_width: half_width.map(rounded),
        })
    }

    /// Returns the mean of `a - b` over pairs. The values of a pair have the same seed under two
    /// controllers. Returns `None` also if the lengths differ.
    pub fn of_differences(a: &[f64], b: &[f64]) -> Option<Self> {
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        (a.len() == b.len()).then(|| Self::of(&differences)).flatten()
    }

    /// Returns half the width of an interval with another confidence, such as 0.99; `None` for one
    /// value.
    pub fn half_width_at(&self, confidence: f64) -> Option<f64> {
        half_width(self.n, self.deviation, confidence)
    }

    /// Returns both ends of the interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half_width.map(|half| (self.mean - half, self.mean + half))
    }

    /// Returns whether zero lies outside the interval. For differences, this means that they are
    /// significant at the 5% level.
    pub fn is_significant(&self) -> bool {
        self.half_width.is_some_and(|half| self.mean.abs() > half)
    }
}

/// Returns half the width of the interval of a mean by Student's t.
fn half_width(n: usize, deviation: Option<f64>, confidence: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, n.checked_sub(1)? as f64).ok()?;
    Some(t.inverse_cdf(0.5 + confidence / 2.0) * deviation? / (n as f64).sqrt())
}

/// Formats `x` with `digits` significant digits but never rounds off integer digits: `0.123`,
/// `12.3`, `1234`.
pub fn significant_text(x: f64, digits: i32) -> String {
    format!("{x:.*}", decimals(x, digits))
}

/// Returns the number of decimals, at most 12, that show `x` to `digits` significant digits.
fn decimals(x: f64, digits: i32) -> usize {
    if x == 0.0 {
        return 0;
    }
    (digits - 1 - x.abs().log10().floor() as i32).clamp(0, 12) as usize
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // If all values are equal, the interval is zero and the mean determines the digits.
        let by_mean = || decimals(self.mean, 3);
        let shown = f.precision();
        match self.half_width {
            Some(half) => {
                let d =
                    shown.unwrap_or_else(|| if half > 0.0 { decimals(half, 1) } else { by_mean() });
                write!(f, "{:.d$} ± {half:.d$}", self.mean)
            }
            None => write!(f, "{:.*}", shown.unwrap_or_else(by_mean), self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-7 * b.abs().max(1e-9)
    }

    #[test]
    fn equal_values_are_printed_with_the_digits_of_their_mean() {
        // Three times 11.45 is not exactly 34.35 in binary.
        assert_eq!(Estimate::of(&[11.45; 3]).unwrap().to_string(), "11.4 ± 0.0");
        assert_eq!(Estimate::of(&[15.84; 3]).unwrap().to_string(), "15.8 ± 0.0");
    }

    #[test]
    fn mean_and_interval_match_hand_calculation() {
        // Mean 5, squares 32, deviation sqrt(32/7) = 2.138089935; t(7) = 2.364624252.
        let e = Estimate::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((e.n, e.mean, e.deviation), (8, 5.0, Some(2.138_089_94)));
        let half = 2.364_624_252 * 2.138_089_935 / 8.0_f64.sqrt();
        assert!(near(e.half_width.unwrap(), half), "{e:?}");
        let (low, high) = e.interval().unwrap();
        assert!(near(low, 5.0 - half) && near(high, 5.0 + half));
        assert!(e.is_significant());
    }

    #[test]
    fn interval_widths_match_students_t_table() {
        // The half width is t(n-1) s / sqrt n.
        for (n, t) in [(2, 12.706), (3, 4.303), (5, 2.776), (10, 2.262), (31, 2.042), (121, 1.980)]
        {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let e = Estimate::of(&values).unwrap();
            let ours = e.half_width.unwrap() * f64::from(n).sqrt() / e.deviation.unwrap();
            assert!((ours - t).abs() < 6e-4, "n {n}: {ours}");
        }
    }

    #[test]
    fn intervals_of_other_confidence_match_students_t_table() {
        // t(2) = 31.599 and t(9) = 4.781 at 99.9 %.
        for (n, t) in [(3, 31.599), (10, 4.781)] {
            let values: Vec<f64> = (0..n).map(f64::from).collect();
            let e = Estimate::of(&values).unwrap();
            let ours = e.half_width_at(0.999).unwrap() * f64::from(n).sqrt() / e.deviation.unwrap();
            assert!((ours - t).abs() < 1e-3, "n {n}: {ours}");
        }
        assert_eq!(Estimate::of(&[1.0]).unwrap().half_width_at(0.999), None);
    }

    #[test]
    fn confidence_interval_matches_dca_table_3_5() {
        // Table 3-5 of DCA §3.3 has, for path 7 at 11:00 and five runs, a mean of -13, a deviation
        // of 7 and the rounded interval (-21, -4).
        let deviations = [-1.0, 0.0, 1.0, 1.0, -1.0].map(|u: f64| -13.0 + 7.0 * u);
        let e = Estimate::of(&deviations).unwrap();
        assert_eq!((e.mean, e.deviation), (-13.0, Some(7.0)));
        let (low, high) = e.interval().unwrap();
        assert!((low + 21.69).abs() < 0.01 && (high + 4.31).abs() < 0.01, "{low} {high}");
    }

    #[test]
    fn single_value_has_no_confidence_interval() {
        let e = Estimate::of(&[12.3]).unwrap();
        assert_eq!(
            (e.n, e.mean, e.deviation, e.half_width, e.interval()),
            (1, 12.3, None, None, None)
        );
        assert!(!e.is_significant());
        assert_eq!(
            serde_json::to_string(&e).unwrap(),
            r#"{"n":1,"mean":12.3,"deviation":null,"half_width":null}"#
        );
        assert_eq!(e.to_string(), "12.3");
        for none in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY]] {
            assert_eq!(Estimate::of(none), None);
        }
    }

    #[test]
    fn paired_differences_cancel_effects_common_to_a_seed() {
        let (a, b) = ([10.0, 20.0, 30.0], [9.0, 18.0, 27.0]);
        // Differences 1 2 3: mean 2, deviation 1, t(2) = 4.302653.
        let e = Estimate::of_differences(&a, &b).unwrap();
        assert!(
            e.mean == 2.0
                && e.deviation == Some(1.0)
                && near(e.half_width.unwrap(), 4.302_652_730 / 3.0_f64.sqrt())
        );
        assert!(!e.is_significant());
        assert!(Estimate::of_differences(&[10.0, 19.1, 28.0], &b).unwrap().is_significant());
        assert_eq!(Estimate::of_differences(&a, &b[..2]), None);
    }

    #[test]
    fn printed_digits_depend_on_the_width_of_the_interval() {
        let shown = |mean, half| {
            Estimate { n: 5, mean, deviation: Some(1.0), half_width: Some(half) }.to_string()
        };
        assert_eq!(shown(12.345, 0.42), "12.3 ± 0.4");
        assert_eq!(shown(-12.346, 0.042), "-12.35 ± 0.04");
        assert_eq!(shown(7_256.4, 123.0), "7256 ± 123");
        assert_eq!(shown(5.0, 0.0), "5.00 ± 0.00");
        assert_eq!(shown(0.0, 0.0), "0 ± 0");
        assert_eq!(shown(0.000_123, 0.000_04), "0.00012 ± 0.00004");
        let e = Estimate { n: 5, mean: 12.345_6, deviation: Some(1.0), half_width: Some(0.42) };
        assert_eq!(format!("{e:.2}"), "12.35 ± 0.42");
        assert_eq!(Estimate::of(&[7_256.4]).unwrap().to_string(), "7256");
    }

    #[test]
    fn equal_values_have_an_interval_of_zero_width() {
        let e = Estimate::of(&[5.0; 4]).unwrap();
        assert_eq!(
            (e.deviation, e.half_width, e.interval()),
            (Some(0.0), Some(0.0), Some((5.0, 5.0)))
        );
    }

    proptest! {
        #[test]
        fn estimates_scale_with_linear_maps_of_the_values(
            values in prop::collection::vec(-100.0..100.0_f64, 2..20), by in -100.0..100.0_f64, times in 0.5..4.0_f64,
        ) {
            let e = Estimate::of(&values).unwrap();
            let moved = Estimate::of(&values.iter().map(|v| v * times + by).collect::<Vec<_>>()).unwrap();
            prop_assert!((moved.mean - (e.mean * times + by)).abs() < 1e-5);
            prop_assert!((moved.half_width.unwrap() - e.half_width.unwrap() * times).abs() < 1e-4);
        }
    }
}
