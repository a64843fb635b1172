//! Tables and figures as data.

use fathom_metrics::{Bounds, Estimate};
use serde::{Deserialize, Serialize};

/// Our numbers beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Heads of the columns after the first.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is about, with its unit.
    pub label: String,
    /// One entry per column.
    pub entries: Vec<Entry>,
}

impl Row {
    /// A row.
    pub fn new(label: impl Into<String>, entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { label: label.into(), entries: entries.into_iter().collect() }
    }
}

/// A number of ours and the paper's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Ours, over the seeds. `None`: not measured.
    pub ours: Option<Estimate>,
    /// The paper's, as it prints it. `None`: it has none.
    pub paper: Option<String>,
}

impl Entry {
    /// A number of ours beside the paper's, which is empty where it has none.
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

/// A parameter whose largest value is this many times its smallest one is drawn in logarithms: on a linear axis all but the largest would
/// lie on the left edge.
pub const DECADE: f64 = 10.0;

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures, with its unit.
    pub label: String,
    /// Logarithmic.
    pub log: bool,
    /// First and last value shown; `None`: what the points need.
    pub range: Option<(f64, f64)>,
    /// Values that the measure can take: no interval is drawn beyond them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bounds: Bounds,
    /// Zero has a place on a logarithmic axis, before its smallest value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub with_zero: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Axis {
    /// A linear axis over what the points need.
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            log: false,
            range: None,
            bounds: Bounds::default(),
            with_zero: false,
        }
    }

    /// A logarithmic axis over what the points need.
    pub fn logarithmic(label: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(label) }
    }

    /// Returns the axis that suits values of a parameter: logarithmic where they span [`DECADE`] or more, with a place for zero where
    /// one of them is zero.
    pub fn suiting(label: impl Into<String>, values: &[f64]) -> Self {
        let positive = || values.iter().copied().filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) =
            positive().fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
        let log = high >= DECADE * low * (1.0 - 1e-9) && values.iter().all(|value| *value >= 0.0);
        Self { log, with_zero: log && values.contains(&0.0), ..Self::linear(label) }
    }

    /// The same for a measure that can take these values.
    pub fn within(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// Both ends of an interval as they are drawn: cut at what the measure can be.
    pub(crate) fn ends(&self, mean: f64, half: f64) -> (f64, f64) {
        self.bounds.cut(mean, (mean - half, mean + half)).0
    }

    /// The same from one value to another.
    pub fn over(self, first: f64, last: f64) -> Self {
        Self { range: Some((first, last)), ..self }
    }
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points. Over several seeds the means.
    pub points: Vec<(f64, f64)>,
    /// Half-widths of the 95 % confidence intervals of the points' y, where there are several seeds.
    pub spread: Option<Vec<f64>>,
    /// Points are marks, not joined by lines.
    pub scatter: bool,
}

impl Series {
    /// Points joined by a line.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, spread: None, scatter: false }
    }

    /// Points as marks.
    pub fn marks(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { scatter: true, ..Self::line(name, points) }
    }

    /// A line through means, with their intervals where a point has one.
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
