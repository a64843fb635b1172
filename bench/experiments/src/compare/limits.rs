//! What limited each controller of a comparison.

use super::result::{Candidate, ComparedRun, Comparison};
use crate::measures::{Counted, Evidence, decisive};

/// A controller, and what limited it.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Its name in reports.
    pub label: String,
    /// The limits in the order of their share of the time, in words.
    pub line: String,
    /// The part of its senders' time that each limit held, where that is known: names as in [`LimitTimes`](crate::scenario::LimitTimes),
    /// without `_seconds`. Idle time is no part of it, but for live media, which waits for its frames.
    pub shares: Vec<(&'static str, f64)>,
}

impl Comparison {
    /// Returns what limited each controller, in the plan's order; those without counts are left out.
    pub fn limits(&self) -> Vec<Limit> {
        let all = self.evidence();
        all.iter()
            .filter(|of| of.is_known())
            .map(|of| Limit { label: of.label.clone(), line: of.line(&all), shares: of.shares() })
            .collect()
    }

    fn evidence(&self) -> Vec<Evidence> {
        let overtakes = self.path_reorders();
        let live = matches!(self.workload(), Some(crate::scenario::Workload::Media { .. }));
        let of_candidate = |of: Candidate<'_>| {
            let counted: Vec<Counted<'_>> = of.runs.iter().map(|run| counted(run)).collect();
            Evidence::of(of.label, &counted, overtakes, live)
        };
        self.candidates().into_iter().map(of_candidate).collect()
    }

    /// Returns limits that are not the congestion controllers' and decide, as sentences before the verdict.
    pub(super) fn decisive_limits(&self) -> Vec<String> {
        decisive(&self.evidence())
    }
}

fn counted(run: &ComparedRun) -> Counted<'_> {
    let late_ms = run.outcome.punctuality.as_ref().map(|punctuality| punctuality.p99_ms);
    Counted { group: run.group(), link: run.forward(), late_ms }
}
