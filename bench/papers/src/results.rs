//! Results of studies by key, and their numbers by seed.

use std::collections::BTreeMap;
use std::fmt;

use fathom_experiments::scenario::Outcome;
use fathom_experiments::study::StudyRunResult;
use fathom_metrics::Estimate;
use fathom_report::Series;

/// Axes of a study with their values.
pub(crate) type Key<'a> = &'a [(&'a str, &'a str)];
/// Function that computes a number of a run.
pub(crate) type Measure = fn(&Outcome) -> Option<f64>;

/// Results of studies by the name of the study.
#[derive(Clone, Debug, Default)]
pub struct Results(BTreeMap<String, Vec<StudyRunResult>>);

impl Results {
    /// Adds the results of a study.
    pub fn add(&mut self, study: &str, results: Vec<StudyRunResult>) {
        self.0.entry(study.to_owned()).or_default().extend(results);
    }

    /// Returns whether every one of these studies has results.
    pub fn have(&self, studies: &[&str]) -> bool {
        studies.iter().all(|study| self.0.get(*study).is_some_and(|results| !results.is_empty()))
    }

    /// Returns the outcomes of a study's runs whose key contains all of `key` (axis, value), in the
    /// order of seeds.
    pub fn outcomes<'a>(
        &'a self,
        study: &str,
        key: &'a [(&str, &str)],
    ) -> impl Iterator<Item = (u64, &'a Outcome)> {
        let mut chosen: Vec<(u64, &Outcome)> = (self.0.get(study).into_iter().flatten())
            .filter(|r| {
                key.iter().all(|(axis, value)| r.key.get(*axis).is_some_and(|v| v == value))
            })
            .map(|r| (r.seed, &r.outcome))
            .collect();
        chosen.sort_by_key(|(seed, _)| *seed);
        chosen.into_iter()
    }

    /// Returns a number of each matching outcome, one per seed. Outcomes without the number are
    /// left out.
    pub(crate) fn by_seed(
        &self,
        study: &str,
        key: Key<'_>,
        of: impl Fn(&Outcome) -> Option<f64>,
    ) -> BySeed {
        self.outcomes(study, key).filter_map(|(seed, outcome)| Some((seed, of(outcome)?))).collect()
    }

    /// Returns the mean of a number over the matching outcomes, with its confidence interval.
    /// Outcomes without the number are left out.
    pub fn estimate(
        &self,
        study: &str,
        key: &[(&str, &str)],
        of: impl Fn(&Outcome) -> Option<f64>,
    ) -> Option<Estimate> {
        Estimate::of(
            &self.outcomes(study, key).filter_map(|(_, outcome)| of(outcome)).collect::<Vec<_>>(),
        )
    }

    /// Returns the values of an axis in a study, in order of first appearance.
    pub fn axis(&self, study: &str, axis: &str) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for result in self.0.get(study).into_iter().flatten() {
            if let Some(value) = result.key.get(axis).filter(|value| !values.contains(value)) {
                values.push(value.clone());
            }
        }
        values
    }

    /// Returns a number along a numeric axis, `50` or `50ms`, in ascending order; `fixed` are the
    /// values of the other axes.
    pub(crate) fn along(
        &self,
        study: &str,
        axis: &str,
        fixed: Key<'_>,
        of: impl Fn(&Outcome) -> Option<f64>,
    ) -> Vec<At> {
        let number = |value: &str| value.trim_end_matches(char::is_alphabetic).parse().ok();
        let at = |value: &String| {
            Some(At {
                x: number(value)?,
                values: self.by_seed(study, &with(fixed, axis, value), &of),
            })
        };
        let mut points: Vec<At> = self.axis(study, axis).iter().filter_map(at).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    /// Returns the curve of a number along a numeric axis.
    pub(crate) fn curve(
        &self,
        study: &str,
        axis: &str,
        fixed: Key<'_>,
        name: &str,
        of: impl Fn(&Outcome) -> Option<f64>,
    ) -> Series {
        let points = self.along(study, axis, fixed, of);
        Series::of_estimates(
            name,
            points.iter().filter_map(|at| Some((at.x, at.values.estimate()?))),
        )
    }
}

/// Returns a key extended by one axis.
pub(crate) fn with<'a>(fixed: Key<'a>, axis: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    fixed.iter().copied().chain([(axis, value)]).collect()
}

/// A number for each seed, displayed as the mean with its confidence interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BySeed(BTreeMap<u64, f64>);

/// Pairs of numbers of the same seed, for several seeds.
pub(crate) type Pairs = Vec<(f64, f64)>;

impl BySeed {
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.0.values().copied().collect::<Vec<_>>())
    }

    pub(crate) fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        self.0.iter().map(|(seed, value)| (*seed, of(*value))).collect()
    }

    /// Combines the numbers of the seeds that both have; seeds without a result are left out.
    pub(crate) fn zip(&self, other: &Self, of: impl Fn(f64, f64) -> Option<f64>) -> Self {
        self.0.iter().filter_map(|(seed, a)| Some((*seed, of(*a, *other.0.get(seed)?)?))).collect()
    }

    /// Returns the number of a seed.
    pub(crate) fn get(&self, seed: u64) -> Option<f64> {
        self.0.get(&seed).copied()
    }

    /// Computes another number for each of the seeds; seeds without it are left out.
    pub(crate) fn each(&self, of: impl Fn(u64) -> Option<f64>) -> Self {
        self.0.keys().filter_map(|seed| Some((*seed, of(*seed)?))).collect()
    }

    /// Returns the difference for the seeds that both have.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.zip(other, |a, b| Some(a - b))
    }

    /// Returns both numbers for the seeds that both have.
    pub(crate) fn pairs(&self, other: &Self) -> Pairs {
        self.0.iter().filter_map(|(seed, a)| Some((*a, *other.0.get(seed)?))).collect()
    }

    /// Pairs each number with a fixed one.
    pub(crate) fn beside(&self, fixed: f64) -> Pairs {
        self.0.values().map(|value| (*value, fixed)).collect()
    }
}

impl FromIterator<(u64, f64)> for BySeed {
    fn from_iter<T: IntoIterator<Item = (u64, f64)>>(values: T) -> Self {
        Self(values.into_iter().collect())
    }
}

impl fmt::Display for BySeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.estimate() {
            Some(estimate) => estimate.fmt(f),
            None => f.write_str("not measured"),
        }
    }
}

/// A number over the seeds, at one value of a numeric axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct At {
    pub(crate) x: f64,
    pub(crate) values: BySeed,
}
