//! Requests that failed under the controllers of a comparison.

use super::result::{Candidate, Comparison};
use crate::measures::FailedRequests;

impl Comparison {
    fn failures(&self) -> Vec<FailedRequests> {
        let of = |of: Candidate<'_>| {
            FailedRequests::of(
                of.label,
                of.runs[0].stack,
                &of.runs.iter().map(|run| run.group()).collect::<Vec<_>>(),
            )
        };
        self.by_label().into_iter().filter_map(of).collect()
    }

    /// Returns a sentence for each controller under which requests failed, those that have no result first.
    pub fn failed_requests(&self) -> Vec<String> {
        let mut all = self.failures();
        all.sort_by_key(|of| !of.is_all());
        all.iter().map(FailedRequests::line).collect()
    }

    /// Returns what a command ends with, exit code 1, where every request failed under a controller; `None` where each has a response.
    pub fn without_result(&self) -> Option<String> {
        let lines: Vec<String> =
            self.failures().iter().filter(|of| of.is_all()).map(FailedRequests::line).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}
