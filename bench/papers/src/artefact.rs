//! A paper's report as data: what the terminal, the JSON file and the HTML page are made from.

use fathom_report::{Figure, Table};
use serde::{Deserialize, Serialize};

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

/// A statement of the paper, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its name, such as `sdc-fewer-drops`.
    pub id: String,
    /// Where the paper says it: `SDC §3.2`.
    pub source: String,
    /// What the paper says, in our words.
    pub says: String,
    /// What was asked of the numbers, so that a reader can judge the predicate.
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
