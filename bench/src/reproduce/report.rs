//! A paper's report as data: what the terminal, the JSON file and the HTML page are made from.

use serde::{Deserialize, Serialize};

use fathom_metrics::Estimate;

/// What came of a paper's experiments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The paper's name.
    pub paper: String,
    /// Tables and figures, in the paper's order.
    pub artefacts: Vec<Artefact>,
    /// What the paper claims, and whether it held here.
    pub claims: Vec<Claim>,
    /// Where the experiment differs from the paper's, one sentence each.
    pub departures: Vec<String>,
}

/// A table or a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artefact {
    /// `table 1`, `figure 10`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The thing itself.
    pub body: Body,
    /// What a reader has to know: runs per point, what differs from the paper's own.
    pub note: String,
}

/// A table or a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// Numbers.
    Table(Table),
    /// Curves.
    Figure(Figure),
}

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

/// A statement of the paper, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its name, such as `sdc-fewer-drops`.
    pub id: String,
    /// Where the paper says it: `SDC §3.2`.
    pub source: String,
    /// What the paper says, in our words.
    pub says: String,
    /// The predicate in words, so that a reader can judge the predicate.
    pub test: String,
    /// Whether it held.
    pub verdict: Verdict,
    /// The measured numbers.
    pub found: String,
}

/// Whether a claim held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The numbers say what the paper says, beyond their confidence intervals where there are several seeds.
    Held,
    /// They say the opposite, or no.
    NotHeld,
    /// The difference is within the confidence interval, or there is one seed only and a small difference.
    Undecided,
}
