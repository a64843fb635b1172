//! Failed requests of the controllers of a comparison.

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

    /// Returns a sentence for each controller with failed requests. Controllers under which every
    /// request failed come first.
    pub fn failed_requests(&self) -> Vec<String> {
        let mut all = self.failures();
        all.sort_by_key(|of| !of.is_all());
        all.iter().map(FailedRequests::line).collect()
    }

    /// Returns the error with which a command ends if every request failed under a controller;
    /// `None` if there is no such controller.
    pub fn without_result(&self) -> Option<String> {
        let lines: Vec<String> =
            self.failures().iter().filter(|of| of.is_all()).map(FailedRequests::line).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}
