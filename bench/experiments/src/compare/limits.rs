//! Limits of the senders of each controller in a comparison.

use super::result::{Candidate, ComparedRun, Comparison};
use crate::measures::{Counted, Evidence, decisive};
use crate::scenario::ResponseKind;

/// A controller and the limits of its senders.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Name in reports.
    pub label: String,
    /// Limits in words, in the order of their share of the time.
    pub line: String,
    /// Share of the senders' time under each limit, if known. The names are those of
    /// [`LimitTimes`](crate::scenario::LimitTimes) without `_seconds`. Idle time is left out; for
    /// live media, which waits for its frames, it counts as `application`.
    pub shares: Vec<(&'static str, f64)>,
}

impl Comparison {
    /// Returns the limits of each controller, in the plan's order. Controllers without counts are
    /// left out.
    pub fn limits(&self) -> Vec<Limit> {
        let all = self.evidence();
        all.iter()
            .filter(|of| of.is_known())
            .map(|of| Limit { label: of.label.clone(), line: of.line(&all), shares: of.shares() })
            .collect()
    }

    fn evidence(&self) -> Vec<Evidence> {
        let overtakes = self.path_reorders();
        let kind = self.workload().map(|workload| workload.model().response_kind());
        let live = kind == Some(ResponseKind::Frame);
        let of_candidate = |of: Candidate<'_>| {
            let counted: Vec<Counted<'_>> = of.runs.iter().map(|run| counted(run)).collect();
            Evidence::of(of.label, &counted, overtakes, live)
        };
        self.candidates().into_iter().map(of_candidate).collect()
    }

    /// Returns sentences for the notes about limits that decide the result but do not come from the
    /// congestion controllers.
    pub(super) fn decisive_limits(&self) -> Vec<String> {
        decisive(&self.evidence())
    }
}

fn counted(run: &ComparedRun) -> Counted<'_> {
    let late_ms = run.outcome.punctuality.as_ref().map(|punctuality| punctuality.p99_ms);
    Counted { group: run.group(), link: run.forward(), late_ms }
}
