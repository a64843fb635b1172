//! Checks whose verdict became better or worse between two scorecards.

use std::collections::BTreeMap;

use crate::scorecard::{JudgedCheck, Scorecard};
use crate::verdict::Verdict;

/// A check with a changed verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Test name: `5.1.2/deep-buffer`.
    pub test: String,
    /// Measure, and the values of the axes.
    pub what: String,
    /// Verdict and value in the older scorecard.
    pub before: (Verdict, String),
    /// Verdict and value in the new scorecard.
    pub now: (Verdict, String),
    /// Whether the check became worse. If `false`, it became better.
    pub worse: bool,
}

/// Identity of a check, the same in both scorecards.
type Name<'a> = (String, &'a str, &'a str, &'a BTreeMap<String, String>);

/// Returns the checks of both scorecards whose verdicts differ, in the order of the new scorecard.
/// `not decided` ranks between `fail` and `pass`.
pub fn changes(old: &Scorecard, new: &Scorecard) -> Vec<Change> {
    let before: BTreeMap<Name<'_>, &JudgedCheck> = checks(old).collect();
    let change = |(name, now): (Name<'_>, &JudgedCheck)| {
        let before = *before.get(&name)?;
        let at = now.at_text();
        (before.verdict != now.verdict).then(|| Change {
            test: name.0,
            what: if at.is_empty() {
                now.measure.clone()
            } else {
                format!("{} ({at})", now.measure)
            },
            before: (before.verdict, before.value_text()),
            now: (now.verdict, now.value_text()),
            worse: now.verdict > before.verdict,
        })
    };
    checks(new).filter_map(change).collect()
}

fn checks(of: &Scorecard) -> impl Iterator<Item = (Name<'_>, &JudgedCheck)> {
    of.criteria.iter().flat_map(|criterion| {
        criterion.tests.iter().flat_map(move |test| {
            let name = format!("{}/{}", criterion.section, test.name);
            test.checks.iter().map(move |check| {
                ((name.clone(), &*check.measure, &*check.threshold, &check.at), check)
            })
        })
    })
}
