//! Sentences about failed requests for reports. Without these sentences, a mean over the completed
//! requests would look better than the service that users received.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::scenario::GroupOutcome;
use crate::stack::Stack;

/// Largest number of reasons that are named; the most frequent reasons come first.
const NAMED: usize = 3;

/// Failed requests of a candidate over all its runs.
pub(crate) struct FailedRequests {
    label: String,
    failed: u64,
    requests: u64,
    /// Reasons of the failures, in the parentheses that reports add.
    why: String,
    /// A known fault of the stack that causes such failures.
    known: Option<&'static str>,
}

/// Returns a fault of the stack that may cause failures like these.
fn known_fault(stack: Stack, groups: &[&GroupOutcome]) -> Option<&'static str> {
    let timed_out = groups.iter().any(|group| group.timed_out > 0);
    // `Assembler::defragment` of noq-proto 1.4.0 treats all data with an offset below the number of
    // bytes read as already read, even if the stream is read out of order.
    (stack == Stack::Noq && timed_out)
        .then_some("noq 1.4 may have lost data of a stream (docs/noq.md, Streams with many gaps)")
}

impl FailedRequests {
    /// Returns the failed requests of one group of traffic in several runs; `None` if no request
    /// failed.
    pub(crate) fn of(label: &str, stack: Stack, groups: &[&GroupOutcome]) -> Option<Self> {
        let sum = |of: fn(&GroupOutcome) -> u64| groups.iter().map(|group| of(group)).sum();
        let (failed, done): (u64, u64) = (sum(|group| group.failed), sum(|group| group.responses));
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for (reason, count) in groups.iter().flat_map(|group| &group.failures) {
            *reasons.entry(reason).or_default() += count;
        }
        let known = known_fault(stack, groups);
        let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| Reverse(*count));
        let why = reasons.iter().take(NAMED).map(|(reason, count)| match count {
            1 => (*reason).to_owned(),
            count => format!("{count}: {reason}"),
        });
        let why = why.collect::<Vec<_>>().join("; ");
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        (failed > 0).then(|| Self {
            label: label.to_owned(),
            failed,
            requests: failed + done,
            why,
            known,
        })
    }

    /// Returns whether every request failed.
    pub(crate) fn is_all(&self) -> bool {
        self.failed == self.requests
    }

    /// Returns a sentence without its full stop.
    pub(crate) fn line(&self) -> String {
        let Self { label, failed, requests, why, known } = self;
        let line = match (self.is_all(), requests) {
            (true, 1) => {
                format!("the only request failed under {label}{why}, so {label} has no result")
            }
            (true, _) => {
                format!(
                    "all {requests} requests failed under {label}{why}, so {label} has no result"
                )
            }
            (false, _) => format!(
                "{failed} of {requests} requests failed under {label}{why}: response times exclude \
                 failed requests, so they look better than they are"
            ),
        };
        known.map_or(line.clone(), |known| format!("{line}; {known}"))
    }
}
