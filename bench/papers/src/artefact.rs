//! A paper's report as data: the source of the terminal output, the JSON file and the HTML page.

use fathom_metrics::Bounds;
use fathom_report::{Axis, Figure, Row, Series, Table};
use serde::{Deserialize, Serialize};

/// Results of a paper's experiments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the paper.
    pub paper: String,
    /// Tables and figures, in the paper's order.
    pub artefacts: Vec<Artefact>,
    /// Claims of the paper with their verdicts.
    pub claims: Vec<Claim>,
    /// Differences between the experiments and the paper's, one sentence each.
    pub departures: Vec<String>,
}

/// A table or a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artefact {
    /// Identifier: `table 1`, `figure 10`.
    pub id: String,
    /// Title.
    pub title: String,
    /// Contents.
    pub body: Body,
    /// Notes for the reader: runs per point, differences from the paper.
    pub note: String,
}

impl Artefact {
    /// Creates a figure of curves over two axes. A report sets the id from its
    /// [`ArtefactSpec`](crate::ArtefactSpec).
    pub fn figure(
        title: impl Into<String>,
        [x, y]: [Axis; 2],
        series: impl Into<Vec<Series>>,
        note: impl Into<String>,
    ) -> Self {
        // All papers show rates, times, counts and their ratios, which are never negative.
        let y = if y.bounds == Bounds::default() { y.within(Bounds::NOT_NEGATIVE) } else { y };
        let body = Body::Figure(Figure { x, y, series: series.into() });
        Self { id: String::new(), title: title.into(), body, note: note.into() }
    }

    /// Creates a table from column headings and rows. A report sets the id from its
    /// [`ArtefactSpec`](crate::ArtefactSpec).
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

/// A statement of the paper with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Name of the claim, such as `sdc-fewer-drops`.
    pub id: String,
    /// Location in the paper: `SDC §3.2`.
    pub source: String,
    /// Statement of the paper in our words.
    pub says: String,
    /// Predicate in words, so that readers can assess it.
    pub test: String,
    /// Verdict on the claim.
    pub verdict: Verdict,
    /// Measured numbers.
    pub found: String,
    /// Numbers of ns-2 in the same scenario; empty if ns-2 was not run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ns2: String,
    /// Reason why the claim or a part of it is inapplicable or not in its regime; empty if neither
    /// applies.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Reason why the claim was not held, if known; names the step of a ladder (docs/validation.md)
    /// that shows it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The numbers confirm the paper's statement, beyond their confidence intervals if there are
    /// several seeds.
    Held,
    /// The numbers contradict the paper's statement.
    NotHeld,
    /// The difference is within the confidence interval, or is small and from a single seed.
    Undecided,
    /// The claim needs something that QUIC does not have, so no run can decide it.
    Inapplicable,
    /// No run reached the conditions of the claim. More seeds do not decide it, but other runs may.
    NotInRegime,
}

impl Verdict {
    /// All verdicts in the order in which they are counted.
    pub const ALL: [Self; 5] =
        [Self::Held, Self::NotHeld, Self::Undecided, Self::Inapplicable, Self::NotInRegime];
}
