//! The axis over which measures are drawn: the choice of the axis, its values as numbers, and its
//! scale.

use std::collections::BTreeSet;

use fathom_report::Axis as PlotAxis;

use super::ReportSpec;
use crate::study::{Axis, StudyRunResult};

/// Smallest number of values that make a curve.
const FEWEST: usize = 3;

/// An axis whose values are numbers.
#[derive(Clone, Debug)]
pub(super) struct Swept<'a> {
    /// Name of the axis.
    pub(super) name: &'a str,
    /// Axis of the plots.
    pub(super) axis: PlotAxis,
    /// Unit in which values are drawn.
    unit: Option<&'static str>,
}

impl<'a> Swept<'a> {
    /// Chooses the axis that the plan names. If the plan names none, chooses the last axis that has
    /// at least three values in the results, all of them numbers.
    pub(super) fn choose(
        axes: &'a [Axis],
        spec: &ReportSpec,
        results: &[StudyRunResult],
    ) -> Option<Self> {
        let of = |axis: &'a Axis| {
            let texts: BTreeSet<&str> = results
                .iter()
                .filter_map(|result| result.key.get(&axis.name))
                .map(String::as_str)
                .collect();
            Self::of(&axis.name, &texts, spec.x_scale.map(|scale| scale.is_log()))
        };
        match &spec.x {
            Some(name) => {
                axes.iter().find(|axis| axis.name == *name).and_then(of).map(|(swept, _)| swept)
            }
            None => axes
                .iter()
                .rev()
                .filter_map(of)
                .find(|(_, values)| *values >= FEWEST)
                .map(|(swept, _)| swept),
        }
    }

    /// Returns the axis and its number of values; `None` if a value is not a number, or if units
    /// are of different kinds. `log` overrides the scale.
    fn of(name: &'a str, texts: &BTreeSet<&str>, log: Option<bool>) -> Option<(Self, usize)> {
        let read: Vec<(f64, &'static str)> =
            texts.iter().map(|text| quantity(text)).collect::<Option<_>>()?;
        let (first, kind) = *read.first()?;
        if read.iter().any(|(_, other)| *other != kind) || !first.is_finite() {
            return None;
        }
        let largest = read.iter().map(|(value, _)| value.abs()).fold(0.0, f64::max);
        let unit = shown_unit(kind, largest);
        let values: Vec<f64> =
            read.iter().map(|(value, _)| value / unit.map_or(1.0, |(_, size)| size)).collect();
        let label = unit.map_or_else(|| name.to_owned(), |(unit, _)| format!("{name} ({unit})"));
        let suiting = PlotAxis::suiting(label, &values);
        let positive =
            values.iter().any(|value| *value > 0.0) && values.iter().all(|value| *value >= 0.0);
        let axis = match log {
            Some(true) => {
                PlotAxis { log: positive, with_zero: positive && values.contains(&0.0), ..suiting }
            }
            Some(false) => PlotAxis { log: false, with_zero: false, ..suiting },
            None => suiting,
        };
        Some((Self { name, axis, unit: unit.map(|(unit, _)| unit) }, values.len()))
    }

    /// Returns a value of the axis in the unit in which it is drawn; `None` if the text is not a
    /// number.
    pub(super) fn value(&self, text: &str) -> Option<f64> {
        let (value, kind) = quantity(text)?;
        let size = self
            .unit
            .and_then(|unit| UNITS.iter().find(|of| of.0 == unit && of.2 == kind))
            .map_or(1.0, |of| of.1);
        Some(value / size)
    }

    /// Returns the position of a value on the axis. On a logarithmic axis, this is the logarithm of
    /// the value.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.axis.log { value.log10() } else { value }
    }

    /// Returns the value at a position on the axis as text, with its unit.
    pub(super) fn text_at(&self, place: f64) -> String {
        let value = if self.axis.log { 10f64.powf(place) } else { place };
        let text = fathom_report::number(fathom_metrics::significant(value, 2));
        self.unit.map_or(text.clone(), |unit| format!("{text} {unit}"))
    }
}

/// Units of plans. Each has a name, a size in the base unit of its kind (bps, ms, B, p, %, fps),
/// and a kind. The first unit of a kind is the smallest.
const UNITS: [(&str, f64, &str); 23] = [
    ("bps", 1.0, "rate"),
    ("bit", 1.0, "rate"),
    ("kbps", 1e3, "rate"),
    ("kbit", 1e3, "rate"),
    ("Mbps", 1e6, "rate"),
    ("Mbit", 1e6, "rate"),
    ("mbit", 1e6, "rate"),
    ("M", 1e6, "rate"),
    ("Gbps", 1e9, "rate"),
    ("Gbit", 1e9, "rate"),
    ("gbit", 1e9, "rate"),
    ("us", 1e-3, "time"),
    ("ms", 1.0, "time"),
    ("s", 1e3, "time"),
    ("min", 6e4, "time"),
    ("B", 1.0, "size"),
    ("kB", 1e3, "size"),
    ("KB", 1e3, "size"),
    ("MB", 1e6, "size"),
    ("GB", 1e9, "size"),
    ("p", 1.0, "packets"),
    ("%", 1.0, "percent"),
    ("fps", 1.0, "frames"),
];

/// Returns the unit in which an axis with this largest value is shown, and the size of the unit.
fn shown_unit(kind: &str, largest: f64) -> Option<(&'static str, f64)> {
    const SHOWN: [&str; 13] =
        ["bps", "kbps", "Mbps", "Gbps", "us", "ms", "s", "B", "kB", "MB", "p", "%", "fps"];
    let mut of_kind =
        UNITS.iter().filter(|(name, _, of)| *of == kind && SHOWN.contains(name)).rev();
    let smallest = of_kind.clone().next_back();
    of_kind.find(|(_, size, _)| *size <= largest).or(smallest).map(|(name, size, _)| (*name, *size))
}

/// Reads a number with its unit as written in plans. Returns the value in the base unit of its
/// kind, and the kind, which is empty for a number without a unit.
fn quantity(text: &str) -> Option<(f64, &'static str)> {
    let text = text.trim();
    if let Ok(value) = text.parse::<f64>() {
        return value.is_finite().then_some((value, ""));
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)))?;
    let (number, unit) = text.split_at(end);
    let (_, size, kind) = UNITS.iter().find(|(name, ..)| *name == unit.trim())?;
    let value = number.parse::<f64>().ok()? * size;
    value.is_finite().then_some((value, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Option<(String, bool, Vec<f64>)> {
        let (swept, _) = Swept::of("x", &texts.iter().copied().collect(), None)?;
        let values = texts.iter().map(|text| swept.value(text).unwrap()).collect();
        Some((swept.axis.label.clone(), swept.axis.log, values))
    }

    #[test]
    fn swept_values_that_span_decades_get_a_logarithmic_axis() {
        assert_eq!(
            of(&["0.00001", "0.0001", "0.01"]),
            Some(("x".into(), true, vec![1e-5, 1e-4, 1e-2]))
        );
        assert_eq!(of(&["10", "50", "90"]), Some(("x".into(), false, vec![10.0, 50.0, 90.0])));
        assert!(!of(&["-1", "10", "1000"]).unwrap().1, "no logarithm of a negative number");
        let (with_zero, _) = Swept::of("x", &["0", "0.001", "0.1"].into(), None).unwrap();
        assert!(with_zero.axis.log && with_zero.axis.with_zero);
    }

    #[test]
    fn swept_values_may_have_units() {
        assert_eq!(of(&["500kbps", "10Mbps"]), Some(("x (Mbps)".into(), true, vec![0.5, 10.0])));
        assert_eq!(of(&["20ms", "0.1s"]), Some(("x (ms)".into(), false, vec![20.0, 100.0])));
        assert_eq!(of(&["0.1%", "5 %"]), Some(("x (%)".into(), true, vec![0.1, 5.0])));
        for none in [&["10Mbps", "20ms"][..], &["reno", "cubic"], &["1", "1ms"], &["inf"]] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn plan_can_set_the_scale_of_the_axis() {
        let texts: BTreeSet<&str> = ["1", "100", "1000"].into();
        assert!(!Swept::of("x", &texts, Some(false)).unwrap().0.axis.log);
        assert!(Swept::of("x", &["10", "20", "30"].into(), Some(true)).unwrap().0.axis.log);
    }
}
