//! Requests that failed, as reports say it: a mean of the others looks better than what users got.

use super::result::{Candidate, Comparison};

/// What failed under a candidate, over its runs.
struct Failed {
    label: String,
    failed: u64,
    requests: u64,
    /// Why, as reports add it in brackets.
    why: String,
}

impl Failed {
    fn of(candidate: &Candidate<'_>) -> Option<Self> {
        let sum =
            |of: fn(&crate::scenario::GroupOutcome) -> u64| candidate.runs.iter().map(|run| of(run.group())).sum();
        let (failed, done): (u64, u64) = (sum(|group| group.failed), sum(|group| group.responses));
        let why = String::new();
        (failed > 0).then(|| Self { label: candidate.label.to_owned(), failed, requests: failed + done, why })
    }

    fn is_all(&self) -> bool {
        self.failed == self.requests
    }

    fn line(&self) -> String {
        let Self { label, failed, requests, why } = self;
        match (self.is_all(), requests) {
            (true, 1) => format!("the only request failed under {label}{why}: it has no result"),
            (true, _) => format!("all {requests} requests failed under {label}{why}: it has no result"),
            (false, _) => format!(
                "{failed} of {requests} requests failed under {label}{why}: response times are of those that did not, \
                 and look better than they are"
            ),
        }
    }
}

impl Comparison {
    fn failures(&self) -> Vec<Failed> {
        self.by_label().iter().filter_map(Failed::of).collect()
    }

    /// Returns a sentence for each controller under which requests failed, those that have no result first.
    pub fn failed_requests(&self) -> Vec<String> {
        let mut all = self.failures();
        all.sort_by_key(|of| !of.is_all());
        all.iter().map(Failed::line).collect()
    }

    /// Returns what a command ends with, exit code 1, where every request failed under a controller; `None` where each has a response.
    pub fn without_result(&self) -> Option<String> {
        let lines: Vec<String> = self.failures().iter().filter(|of| of.is_all()).map(Failed::line).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}
