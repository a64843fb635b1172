//! More seeds for combinations in which a check is undecided.

use std::collections::BTreeSet;

use fathom_cc::Invalid;

use crate::plan::{JudgePlan, combination};
use crate::scorecard::Scorecard;

impl JudgePlan {
    /// Adds runs with more seeds for every combination in which a check is undecided and which can
    /// have more. Returns whether there are such combinations; then judge and call this again.
    ///
    /// # Errors
    /// Returns an error if a test cannot run, which [`JudgePlan::new`] would have returned before.
    pub fn add_seeds(&mut self, card: &Scorecard) -> Result<bool, Invalid> {
        let mut more = Vec::new();
        for stages in self.settings.stages().windows(2) {
            let (fewer, seeds) = (stages[0], stages[1]);
            for criterion in &card.criteria {
                let tests = self.battery.criteria.iter().find(|c| c.section == criterion.section);
                for judged in &criterion.tests {
                    let undecided = judged.checks.iter().filter(|check| check.needs_seeds(fewer));
                    let combinations: BTreeSet<_> = undecided.map(|check| &check.at).collect();
                    let test = tests.and_then(|c| c.tests.iter().find(|t| t.name == judged.name));
                    let Some(test) = test.filter(|_| !combinations.is_empty()) else { continue };
                    let runs = self.runs_of(&criterion.section, test, seeds)?;
                    more.extend(runs.into_iter().filter(|run| {
                        run.seed > fewer && combinations.contains(&combination(run).0)
                    }));
                }
            }
        }
        self.runs.extend_from_slice(&more);
        Ok(!more.is_empty())
    }
}
