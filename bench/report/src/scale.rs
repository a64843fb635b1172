//! Axes: positions of values, and choice of round values.

use fathom_metrics::{Bounds, Estimate, significant};

/// Fraction of a logarithmic axis between zero and the smallest value.
const ZERO: f64 = 0.12;

/// A linear or logarithmic axis. Plot coordinates are the values or their decimal logarithms. See
/// [`Scale::place`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Whether the quantity is an integer, so that its round values are integers, too.
    whole: bool,
    /// Coordinate of zero on a logarithmic axis; `None` if the axis has no position for zero.
    zero: Option<f64>,
}

impl Scale {
    /// Creates an axis from a lower to an upper value. Returns `None` if the range is empty, or if
    /// a logarithmic axis would not start above zero.
    pub(crate) fn new((low, high): (f64, f64), log: bool) -> Option<Self> {
        let sound = low.is_finite() && high.is_finite() && low < high && (!log || low > 0.0);
        sound.then_some(Self { low, high, log, whole: false, zero: None })
    }

    /// Adds a position for zero, which has no logarithm. This position lies before the smallest
    /// value, by [`ZERO`] of the axis.
    pub(crate) fn with_zero(self) -> Self {
        let (low, high) = self.ends();
        Self { zero: self.log.then_some(low - ZERO * (high - low)), ..self }
    }

    /// Restricts the round values to integers.
    pub(crate) fn of_whole_numbers(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Returns the coordinate of a value; `None` if the value has none.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if value == 0.0 && self.zero.is_some() {
            return self.zero;
        }
        let at = if self.log { value.log10() } else { value };
        at.is_finite().then_some(at)
    }

    /// Returns both ends as coordinates.
    pub(crate) fn ends(&self) -> (f64, f64) {
        if !self.log {
            return (self.low, self.high);
        }
        let (low, high) = (self.low.log10(), self.high.log10());
        (self.zero.map_or(low, |zero| zero - 0.25 * (low - zero)), high)
    }

    /// Returns the round values on the axis, at most `most`.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        let zero = self.zero.map(|_| 0.0);
        let most = most.saturating_sub(zero.into_iter().count());
        let ticks = if self.log { self.log_ticks(most) } else { None };
        zero.into_iter().chain(ticks.unwrap_or_else(|| self.linear_ticks(most))).collect()
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most.max(2) as f64;
        let power = 10f64.powf(rough.log10().floor());
        // Take the first step that is coarse enough. The step of 50 always is.
        let within = |step: f64| {
            let (from, to) =
                ((self.low / step - 1e-9).ceil() as i64, (self.high / step + 1e-9).floor() as i64);
            // Dividing by ten is exact, but multiplying by a tenth is not exact.
            let at =
                |i: i64| if step < 1.0 { i as f64 / (1.0 / step).round() } else { i as f64 * step };
            (from..=to).map(at).collect::<Vec<f64>>()
        };
        [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
            .into_iter()
            .map(|m| within(if self.whole { (m * power).max(1.0) } else { m * power }))
            .find(|ticks| ticks.len() <= most)
            .unwrap_or_default()
    }

    /// Returns decades, with as many round values between them as fit. Returns `None` if fewer than
    /// two values fit.
    fn log_ticks(&self, most: usize) -> Option<Vec<f64>> {
        let (low, high) = (self.low.log10(), self.high.log10());
        let decades = low.floor() as i32..=high.ceil() as i32;
        let within = |mantissas: &[f64], every: usize| -> Vec<f64> {
            decades
                .clone()
                .filter(|d| d.rem_euclid(every as i32) == 0)
                .flat_map(|d| {
                    mantissas
                        .iter()
                        .map(move |m| if d < 0 { m / 10f64.powi(-d) } else { m * 10f64.powi(d) })
                })
                .filter(|v| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(v))
                .collect()
        };
        let between = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]]
            .into_iter()
            .map(|mantissas| within(mantissas, 1));
        let rare = [2, 3, 5, 10, 50].into_iter().map(|every| within(&[1.0], every));
        between.chain(rare).find(|ticks| ticks.len() <= most).filter(|ticks| ticks.len() >= 2)
    }
}

/// Formats a number to four significant digits without trailing zeros: `0.25`, `1500`, `2.5e7`.
pub fn number(v: f64) -> String {
    let size = v.abs();
    if size == 0.0 || size < 1e-12 {
        return "0".to_owned();
    }
    if !(1e-4..1e6).contains(&size) {
        let text = format!("{v:.1e}");
        return text.replace(".0e", "e");
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 7) as usize;
    let text = format!("{v:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Formats a mean with its interval to one significant digit, or to two if the first digit is 1 or
/// 2: `4.0 ± 1.3`, `111 ± 8`.
pub fn estimate(e: &Estimate) -> String {
    let first = |half: f64| half / 10f64.powf(half.log10().floor());
    match e.half_width {
        Some(half) if half > 0.0 && first(half) < 3.0 => {
            let decimals = (1 - half.log10().floor() as i32).clamp(0, 12) as usize;
            format!("{e:.decimals$}")
        }
        _ => e.to_string(),
    }
}

/// Formats a mean like [`estimate`], but with both ends if the interval extends beyond the bounds
/// of the measure: `1.5 (0.0 to 4.4)`.
pub fn estimate_within(e: &Estimate, bounds: &Bounds) -> String {
    let Some(half) = e.half_width.filter(|half| *half > 0.0) else { return estimate(e) };
    let ((low, high), true) = bounds.cut(e.mean, (e.mean - half, e.mean + half)) else {
        return estimate(e);
    };
    // Use enough decimals to show both the half-width of the interval and the mean to two digits.
    let digits = |of: f64| (1 - of.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let decimals = digits(half).max(if e.mean == 0.0 { 0 } else { digits(e.mean) });
    format!("{:.decimals$} ({low:.decimals$} to {high:.decimals$})", e.mean)
}

/// Formats numbers that are shown next to each other. With `log`, each number has three significant
/// digits. Otherwise, all numbers have the same number of decimals: none if all are integers, or
/// enough to show a thousandth of the largest number.
pub(crate) fn side_by_side(
    values: impl Iterator<Item = f64> + Clone,
    log: bool,
) -> impl Fn(f64) -> String {
    let top = values.clone().map(f64::abs).filter(|v| v.is_finite()).fold(0.0, f64::max);
    let whole = values.clone().all(|v| v.fract() == 0.0);
    let decimals = if whole || top == 0.0 {
        0
    } else {
        (3 - (1.001 * top).log10().floor() as i32).clamp(0, 9) as usize
    };
    move |v| if log { number(significant(v, 3)) } else { format!("{v:.decimals$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(low: f64, high: f64, log: bool, most: usize) -> Vec<f64> {
        Scale::new((low, high), log).unwrap().ticks(most)
    }

    #[test]
    fn axis_ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 1.0, false, 6), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(ticks(0.0, 500.0, false, 8), [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        assert_eq!(ticks(-3.0, 4.0, false, 10), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
        let whole = Scale::new((0.88, 4.12), false).unwrap().of_whole_numbers();
        assert_eq!(
            (whole.ticks(10), ticks(0.88, 4.12, false, 10).len()),
            (vec![1.0, 2.0, 3.0, 4.0], 7)
        );
        assert_eq!(
            ticks(10.0, 10_000.0, true, 8),
            [10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0]
        );
        assert_eq!(ticks(0.01, 1.0, true, 10), [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]);
        // The ticks are at every second decade from -8 to 8.
        assert_eq!(ticks(1e-9, 1e9, true, 10).len(), 9);
        // This range is less than a decade and contains only one round number of this kind.
        assert_eq!(ticks(11.0, 19.0, true, 5), [12.0, 14.0, 16.0, 18.0]);
    }

    #[test]
    fn empty_ranges_have_no_scale() {
        for (range, log) in
            [((1.0, 1.0), false), ((2.0, 1.0), false), ((0.0, 1.0), true), ((f64::NAN, 1.0), false)]
        {
            assert_eq!(Scale::new(range, log), None);
        }
        let log = Scale::new((1.0, 10.0), true).unwrap();
        assert_eq!((log.place(0.0), log.place(-1.0), log.place(100.0)), (None, None, Some(2.0)));
    }

    #[test]
    fn printed_numbers_have_no_needless_digits() {
        for (v, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (1500.0, "1500"),
            (0.1 + 0.2, "0.3"),
            (123.456, "123.5"),
            (-2.0, "-2"),
            (12_345.6, "12346"),
            (2.5e7, "2.5e7"),
            (1e6, "1e6"),
            (0.00002, "2e-5"),
        ] {
            assert_eq!(number(v), text);
        }
    }

    #[test]
    fn numbers_in_a_column_have_the_same_number_of_decimals() {
        let written = |values: &[f64], log| {
            let write = side_by_side(values.iter().copied(), log);
            values.iter().map(|v| write(*v)).collect::<Vec<_>>()
        };
        assert_eq!(written(&[0.0006371, 0.9999, 0.5], false), ["0.001", "1.000", "0.500"]);
        assert_eq!(written(&[300.0, 12.5], false), ["300.0", "12.5"]);
        assert_eq!(written(&[300.0, 12.0], false), ["300", "12"]);
        assert_eq!(written(&[0.012345, 123.456], true), ["0.0123", "123"]);
    }

    #[test]
    fn logarithmic_axis_can_show_zero() {
        let scale = Scale::new((1e-5, 1e-2), true).unwrap().with_zero();
        let (first, last) = scale.ends();
        let zero = scale.place(0.0).unwrap();
        assert!(first < zero && zero < -5.0 && last == -2.0, "{first} {zero}");
        assert_eq!(scale.ticks(5), [0.0, 1e-5, 1e-4, 1e-3, 1e-2]);
        assert_eq!(Scale::new((1e-5, 1e-2), true).unwrap().place(0.0), None);
    }

    #[test]
    fn intervals_beyond_the_bounds_are_printed_as_ranges() {
        let shown = |mean, half| {
            estimate_within(
                &Estimate { n: 2, mean, deviation: None, half_width: Some(half) },
                &Bounds::PERCENT,
            )
        };
        assert_eq!(shown(1.5, 2.9), "1.5 (0.0 to 4.4)");
        assert_eq!(shown(97.0, 31.0), "97 (66 to 100)");
        assert_eq!(shown(50.0, 3.1), "50 ± 3");
    }

    #[test]
    fn printed_intervals_have_one_or_two_digits() {
        let shown =
            |mean, half| estimate(&Estimate { n: 2, mean, deviation: None, half_width: half });
        assert_eq!(shown(4.0, Some(1.27)), "4.0 ± 1.3");
        assert_eq!(shown(111.4, Some(7.6)), "111 ± 8");
        assert_eq!(shown(20.125, Some(0.96)), "20.1 ± 1.0");
        assert_eq!(shown(1250.0, Some(180.0)), "1250 ± 180");
        assert_eq!(
            (shown(3.0, Some(0.0)).as_str(), shown(122.3, None).as_str()),
            ("3.00 ± 0.00", "122")
        );
    }
}
