//! Pens of the candidates in plots.

use fathom_report::Pen;

use crate::compare::Comparison;

/// Returns the pen of a candidate, which depends on its place in the plan, not on its rank.
pub(super) fn pen(c: &Comparison, label: &str) -> Pen {
    Pen::Of(c.candidates().iter().position(|candidate| candidate.label == label).unwrap_or(0))
}
