//! Results of studies by key.

use std::collections::BTreeMap;

use fathom_experiments::scenario::Outcome;
use fathom_experiments::study::StudyRunResult;
use fathom_metrics::Estimate;

/// Results of the studies that have been run, by the studies' names.
#[derive(Clone, Debug, Default)]
pub struct Results(BTreeMap<String, Vec<StudyRunResult>>);

impl Results {
    /// Adds what a study gave.
    pub fn add(&mut self, study: &str, results: Vec<StudyRunResult>) {
        self.0.entry(study.to_owned()).or_default().extend(results);
    }

    /// Whether there are results of every one of these studies.
    pub fn have(&self, studies: &[&str]) -> bool {
        studies.iter().all(|study| self.0.get(*study).is_some_and(|results| !results.is_empty()))
    }

    /// Outcomes of a study's runs whose key has all of `key` (axis, value), in the order of their seeds.
    pub fn outcomes<'a>(&'a self, study: &str, key: &'a [(&str, &str)]) -> impl Iterator<Item = (u64, &'a Outcome)> {
        let mut chosen: Vec<(u64, &Outcome)> = (self.0.get(study).into_iter().flatten())
            .filter(|r| key.iter().all(|(axis, value)| r.key.get(*axis).is_some_and(|v| v == value)))
            .map(|r| (r.seed, &r.outcome))
            .collect();
        chosen.sort_by_key(|(seed, _)| *seed);
        chosen.into_iter()
    }

    /// A number of each of those outcomes, in the order of their seeds; outcomes that do not have it are left out.
    pub fn values(&self, study: &str, key: &[(&str, &str)], of: impl Fn(&Outcome) -> Option<f64>) -> Vec<f64> {
        self.outcomes(study, key).filter_map(|(_, outcome)| of(outcome)).collect()
    }

    /// Their mean and confidence interval.
    pub fn estimate(
        &self,
        study: &str,
        key: &[(&str, &str)],
        of: impl Fn(&Outcome) -> Option<f64>,
    ) -> Option<Estimate> {
        Estimate::of(&self.values(study, key, of))
    }

    /// The values that an axis takes in a study, in the order in which they first come.
    pub fn axis(&self, study: &str, axis: &str) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for result in self.0.get(study).into_iter().flatten() {
            if let Some(value) = result.key.get(axis).filter(|value| !values.contains(value)) {
                values.push(value.clone());
            }
        }
        values
    }
}
