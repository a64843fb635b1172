//! Tables and figures as data.

use fathom_metrics::Estimate;
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

/// A number of ours and the paper's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Ours, over the seeds. `None`: not measured.
    pub ours: Option<Estimate>,
    /// The paper's, as it prints it. `None`: it has none.
    pub paper: Option<String>,
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

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures, with its unit.
    pub label: String,
    /// Logarithmic.
    pub log: bool,
    /// First and last value shown; `None`: what the points need.
    pub range: Option<(f64, f64)>,
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
