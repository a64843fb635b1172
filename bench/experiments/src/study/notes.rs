//! Notes that precede the table of a study: failed requests, and limits other than the controllers.

use std::collections::{BTreeMap, BTreeSet};

use super::table::{Keyed, busiest, by_key};
use super::{StudyRun, StudyRunResult};
use crate::measures::{Counted, Evidence, FailedRequests, decisive, unseeded_note};
use crate::scenario::{GroupOutcome, LinkOutcome, ResponseKind, Scenario};
use crate::stack::Stack;

/// Largest number of failures that are listed. All others are only counted.
const NAMED: usize = 8;

/// Notes on the results of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Failed requests, by combination of the sweep and group of traffic.
    pub failed: Vec<String>,
    /// Influences on the results other than the controllers.
    pub notes: Vec<String>,
    /// Message with which a command ends, with exit code 1: the combinations in which every request
    /// of a group failed.
    pub without_result: Option<String>,
}

impl Notes {
    /// Returns the notes as lines, failures first.
    pub fn lines(&self) -> Vec<String> {
        let failed = self.failed.iter().map(|line| format!("FAILED: {line}."));
        failed.chain(self.notes.iter().map(|line| format!("NOTE: {line}."))).collect()
    }
}

/// Returns the notes on these results of `runs`.
pub fn notes(runs: &[StudyRun], results: &[StudyRunResult]) -> Notes {
    let scenarios: BTreeMap<&str, &Scenario> =
        runs.iter().map(|run| (&*run.fingerprint, &run.scenario)).collect();
    let (mut failed, mut evidence) = (Vec::new(), Vec::new());
    for keyed in by_key(results) {
        let scenario =
            keyed.1.first().and_then(|result| scenarios.get(&*result.fingerprint)).copied();
        let groups: BTreeSet<&String> =
            keyed.1.iter().flat_map(|result| result.outcome.groups.keys()).collect();
        // For a group with several controllers, results also contain the whole group, so skip its
        // parts.
        for group in groups.iter().filter(|group| !group.contains('/')) {
            let label = label(keyed.0, group, groups.len() > 1);
            let outcomes: Vec<&GroupOutcome> =
                keyed.1.iter().filter_map(|result| result.outcome.groups.get(*group)).collect();
            let stack =
                scenario.and_then(|of| of.traffic.iter().find(|traffic| traffic.name == **group));
            let stack = stack.map_or(Stack::default(), |traffic| traffic.stack);
            failed.extend(FailedRequests::of(&label, stack, &outcomes));
            evidence.push(evidence_of(&label, group, &keyed, scenario));
        }
    }
    failed.sort_by_key(|of| !of.is_all());
    let all: Vec<String> =
        failed.iter().filter(|of| of.is_all()).map(FailedRequests::line).collect();
    let mut lines: Vec<String> = failed.iter().take(NAMED).map(FailedRequests::line).collect();
    if failed.len() > NAMED {
        lines.push(format!(
            "requests failed in {} more combinations; the column 'failed' shows the numbers",
            failed.len() - NAMED
        ));
    }
    let without_result = all.first().map(|first| match all.len() {
        1 => first.clone(),
        several => format!("{first}; {} more combinations have no result either", several - 1),
    });
    let mut notes = decisive(&evidence);
    let specs: Vec<(String, Stack)> = (runs.iter())
        .flat_map(|run| &run.scenario.traffic)
        .flat_map(|traffic| traffic.mix.iter().map(|(_, of)| (of.spec(), traffic.stack)))
        .collect();
    notes.extend(unseeded_note(specs.iter().map(|(spec, stack)| (&**spec, *stack))));
    Notes { failed: lines, notes, without_result }
}

fn evidence_of(
    label: &str,
    group: &str,
    (_, results): &Keyed<'_>,
    scenario: Option<&Scenario>,
) -> Evidence {
    let link = busiest(results).unwrap_or_default();
    let none = LinkOutcome::default();
    let mut counted: Vec<Counted<'_>> = Vec::new();
    for outcome in results.iter().map(|result| &result.outcome) {
        let Some(of_group) = outcome.groups.get(group) else { continue };
        let late_ms = outcome.punctuality.as_ref().map(|punctuality| punctuality.p99_ms);
        counted.push(Counted {
            group: of_group,
            link: outcome.links.get(&link).unwrap_or(&none),
            late_ms,
        });
    }
    let traffic = scenario.and_then(|of| of.traffic.iter().find(|traffic| traffic.name == group));
    let live = traffic
        .is_some_and(|traffic| traffic.workload.model().response_kind() == ResponseKind::Frame);
    let up = traffic.is_some_and(|traffic| traffic.workload.goes_up());
    Evidence::of(label, &counted, scenario.is_some_and(|of| overtakes(of, up)), live)
}

/// Returns the name of a combination: `reno, 1%`, or `transfer of reno, 1%` if there are several
/// groups of traffic.
fn label(key: &BTreeMap<String, String>, group: &str, several: bool) -> String {
    let values = key.values().map(String::as_str).collect::<Vec<_>>().join(", ");
    match (several, values.is_empty()) {
        (_, true) => group.to_owned(),
        (true, false) => format!("{group} of {values}"),
        (false, false) => values,
    }
}

/// Returns whether packets with bodies may overtake each other. `up` tells whether bodies travel to
/// servers.
fn overtakes(scenario: &Scenario, up: bool) -> bool {
    scenario.chain.path.as_ref().is_some_and(|path| {
        let does = if up { &path.up.impairments } else { &path.down.impairments };
        !does.reorder.is_none() || (does.jitter.reorders && !does.jitter.is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Outcome;

    #[test]
    fn study_notes_list_failures_and_controllers_without_result() {
        let result = |controller: &str, responses, failed| {
            let failures = [("timed out".to_owned(), failed)].into();
            let group = GroupOutcome { responses, failed, failures, ..GroupOutcome::default() };
            StudyRunResult {
                key: [("controller".to_owned(), controller.to_owned())].into(),
                seed: 1,
                fingerprint: String::new(),
                outcome: Outcome { groups: [("g".to_owned(), group)].into(), ..Outcome::default() },
            }
        };
        let some = notes(&[], &[result("reno", 3, 1), result("cubic", 4, 0)]);
        assert!(
            some.failed[0].starts_with("1 of 4 requests failed under reno (timed out)"),
            "{some:?}"
        );
        assert!(some.failed.len() == 1 && some.without_result.is_none());
        let all = notes(&[], &[result("reno", 3, 1), result("cubic", 0, 4)]);
        assert!(
            all.lines()[0].starts_with("FAILED: all 4 requests failed under cubic (4: timed out)"),
            "{all:?}"
        );
        assert_eq!(all.without_result.as_deref(), all.failed.first().map(String::as_str));
        assert_eq!(notes(&[], &[result("reno", 3, 0)]), Notes::default());
    }
}
