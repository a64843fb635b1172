//! A paper's report as data: what the terminal, the JSON file and the HTML page are made from.

use fathom_metrics::Bounds;
use fathom_report::{Axis, Figure, Row, Series, Table};
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

impl Artefact {
    /// Curves over two axes. A report gives it the id of its [`ArtefactSpec`](crate::ArtefactSpec).
    pub fn figure(
        title: impl Into<String>,
        [x, y]: [Axis; 2],
        series: impl Into<Vec<Series>>,
        note: impl Into<String>,
    ) -> Self {
        // Rates, times, counts and their ratios: no figure of a paper shows what could be below zero.
        let y = if y.bounds == Bounds::default() { y.within(Bounds::NOT_NEGATIVE) } else { y };
        let body = Body::Figure(Figure { x, y, series: series.into() });
        Self { id: String::new(), title: title.into(), body, note: note.into() }
    }

    /// Rows under the heads of columns. A report gives it the id of its [`ArtefactSpec`](crate::ArtefactSpec).
    pub fn table<'a>(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = &'a str>,
        rows: impl IntoIterator<Item = Row>,
        note: impl Into<String>,
    ) -> Self {
        let columns = columns.into_iter().map(str::to_owned).collect();
        let body = Body::Table(Table { columns, rows: rows.into_iter().collect() });
        Self { id: String::new(), title: title.into(), body, note: note.into() }
    }
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
    /// The predicate in words, so that a reader can judge the predicate.
    pub test: String,
    /// Whether it held.
    pub verdict: Verdict,
    /// The measured numbers.
    pub found: String,
    /// Why the claim, or a part of it, is inapplicable or not in its regime; empty where neither is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why it was not held, where it was not and that is known; the step of a ladder (docs/validation.md) that shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
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
    /// The claim needs what QUIC does not have. No run can decide it.
    Inapplicable,
    /// A run never reached the conditions that the claim is about. More seeds do not decide it, another run may.
    NotInRegime,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 5] =
        [Self::Held, Self::NotHeld, Self::Undecided, Self::Inapplicable, Self::NotInRegime];
}
