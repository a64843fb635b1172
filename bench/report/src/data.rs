//! Tables and figures as data.

use fathom_metrics::{Bounds, Estimate};
use serde::{Deserialize, Serialize};

/// A table of measured numbers, with the paper's numbers for comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Headings of all columns except the first.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name and unit of the quantity.
    pub label: String,
    /// One entry per column.
    pub entries: Vec<Entry>,
}

impl Row {
    /// Creates a row.
    pub fn new(label: impl Into<String>, entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { label: label.into(), entries: entries.into_iter().collect() }
    }
}

/// A measured number, with the paper's number for comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Measured number over the seeds; `None` if it was not measured.
    pub ours: Option<Estimate>,
    /// Number in the paper, as printed; `None` if the paper has none.
    pub paper: Option<String>,
}

impl Entry {
    /// Creates an entry. `paper` is empty if the paper has no such number.
    pub fn new(ours: Option<Estimate>, paper: &str) -> Self {
        Self { ours, paper: (!paper.is_empty()).then(|| paper.to_owned()) }
    }
}

/// Curves over common axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves.
    pub series: Vec<Series>,
}

/// Minimum ratio of the largest to the smallest value of a parameter at which its axis is
/// logarithmic. On a linear axis, all values except the largest would lie close to the left edge.
pub const DECADE: f64 = 10.0;

/// An axis of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name and unit of the quantity.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// First and last value shown; `None` for the range of the points.
    pub range: Option<(f64, f64)>,
    /// Bounds of the measure. Intervals are not drawn beyond these bounds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bounds: Bounds,
    /// Whether a logarithmic axis has a separate position for zero, before its smallest value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub with_zero: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Axis {
    /// Returns a linear axis that fits the points.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            log: false,
            range: None,
            bounds: Bounds::default(),
            with_zero: false,
        }
    }

    /// Returns a logarithmic axis that fits the points.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(label) }
    }

    /// Returns the axis that suits the values of a parameter. The axis is logarithmic if the values
    /// span [`DECADE`] or more. It has a position for zero if one of the values is zero.
    pub fn suiting(label: impl Into<String>, values: &[f64]) -> Self {
        let positive = || values.iter().copied().filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) =
            positive().fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
        let log = high >= DECADE * low * (1.0 - 1e-9) && values.iter().all(|value| *value >= 0.0);
        Self { log, with_zero: log && values.contains(&0.0), ..Self::linear(label) }
    }

    /// Sets the bounds of the measure.
    pub fn within(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// Returns both ends of an interval as they are drawn, cut at the bounds of the measure.
    pub(crate) fn ends(&self, mean: f64, half: f64) -> (f64, f64) {
        self.bounds.cut(mean, (mean - half, mean + half)).0
    }

    /// Sets the first and last value shown.
    pub fn over(self, first: f64, last: f64) -> Self {
        Self { range: Some((first, last)), ..self }
    }
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points of the curve. With several seeds, these are means.
    pub points: Vec<(f64, f64)>,
    /// Half-widths of the 95% confidence intervals of the points' y values; `None` with a single
    /// seed.
    pub spread: Option<Vec<f64>>,
    /// Whether points are drawn as marks without lines between them.
    pub scatter: bool,
}

impl Series {
    /// Creates a curve of points joined by a line.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, spread: None, scatter: false }
    }

    /// Creates a curve of separate marks.
    pub fn marks(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { scatter: true, ..Self::line(name, points) }
    }

    /// Creates a line through means, with intervals for the points that have one.
    pub fn of_estimates(
        name: impl Into<String>,
        estimates: impl IntoIterator<Item = (f64, Estimate)>,
    ) -> Self {
        let estimates: Vec<(f64, Estimate)> = estimates.into_iter().collect();
        let several = estimates.iter().any(|(_, e)| e.half_width.is_some());
        let line = Self::line(name, estimates.iter().map(|(x, e)| (*x, e.mean)).collect());
        Self {
            spread: several
                .then(|| estimates.iter().map(|(_, e)| e.half_width.unwrap_or(0.0)).collect()),
            ..line
        }
    }
}
