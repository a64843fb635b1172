//! The battery as written in TOML: criteria with their tests, and thresholds.

use std::collections::{BTreeMap, BTreeSet};

use fathom_cc::Invalid;
use fathom_metrics::Bounds;
use fathom_netsim::hash::StableHash;
use serde::{Deserialize, Serialize};

use crate::measure::Quantity;
use crate::profile::Profile;

/// Thresholds that every profile has.
const THRESHOLDS: &str = include_str!("../thresholds.toml");
/// Name of the threshold of CPU time per ACK frame, which no criterion uses.
pub(crate) const CPU_PER_ACK: &str = "cpu-per-ack";

/// All criteria of a profile, in the order of its document, and the thresholds.
#[derive(Clone, Debug)]
pub struct Battery {
    /// Document from which the criteria come.
    pub profile: Profile,
    /// Criteria in the order of the document.
    pub criteria: Vec<Criterion>,
    /// Thresholds by name.
    pub thresholds: BTreeMap<String, Threshold>,
}

/// A criterion of RFC 9743, or a test case of another document.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Criterion {
    /// Section number, such as `5.1.2`, or the number of the test case.
    pub section: String,
    /// Title in a few words.
    pub title: String,
    /// Requirement level in the RFC.
    pub strength: Strength,
    /// Requirement of the document in our words.
    pub asks: String,
    /// Reason why the criterion is not tested; `None` if it is tested.
    pub not_applicable: Option<String>,
    /// Tests of the criterion.
    #[serde(default, rename = "test")]
    pub tests: Vec<Test>,
}

/// Requirement level of a criterion in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// An evaluation MUST consider the criterion.
    Must,
    /// An evaluation SHOULD consider the criterion.
    Should,
    /// No keyword of BCP 14 applies.
    Consider,
}

impl Strength {
    /// Returns the word that the RFC uses.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Consider => "consider",
        }
    }
}

/// A scenario with a sweep, and checks of its results. The following variables can be used in
/// strings:
///
/// - `$controller`: the controller that is judged. If a check is relative, the test also runs with
///   each reference as `$controller`.
/// - `$rival`: each reference.
/// - `$reference`: the first reference.
/// - `$bbr`: the stack's own BBR. If the stack has none, the test is not run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Test {
    /// Name of the test within the criterion.
    pub name: String,
    /// Description of the scenario in one sentence.
    pub says: String,
    /// Axes and their values.
    #[serde(default)]
    pub sweep: toml::Table,
    /// Axes of the full battery, which replace axes of the same name.
    #[serde(default)]
    pub full_sweep: toml::Table,
    /// Scenario in the format of a study.
    pub scenario: toml::Table,
    /// Checks of the results.
    #[serde(rename = "check")]
    pub checks: Vec<Check>,
}

/// A value of a test's runs with its threshold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// Name of the threshold.
    pub threshold: String,
    /// Name of the measure: one from `measure.rs` of this crate, or one of `fathom compare`.
    pub measure: String,
    /// Group of traffic from which the measure is read. For a measure of a link, the link.
    #[serde(default = "subject")]
    pub of: String,
    /// Second group, if the measure needs two.
    pub beside: Option<String>,
    /// Comparison with the value of a reference.
    #[serde(default)]
    pub relation: Relation,
}

fn subject() -> String {
    "subject".to_owned()
}

/// Comparison of a value with the worse reference: the one whose comparison is the most favourable
/// for the judged controller. So no reference fails a relative check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// No comparison: the threshold applies to the value itself.
    #[default]
    Absolute,
    /// Percentage of the worse reference's value with the same seed.
    PercentOfReference,
    /// Difference from the worse reference's value with the same seed.
    MoreThanReference,
}

impl Relation {
    /// Returns the name in TOML.
    const fn name(self) -> &'static str {
        match self {
            Self::Absolute => "absolute",
            Self::PercentOfReference => "percent-of-reference",
            Self::MoreThanReference => "more-than-reference",
        }
    }

    /// Returns the bounds of a value. Measures and their ratios are never negative, but differences
    /// can be.
    pub(crate) fn bounds(self) -> Bounds {
        match self {
            Self::Absolute | Self::PercentOfReference => Bounds::NOT_NEGATIVE,
            Self::MoreThanReference => Bounds::default(),
        }
    }
}

/// Bounds of a value. The documents give hardly any numbers, so these are our choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Threshold {
    /// Smallest value that passes.
    pub at_least: Option<f64>,
    /// Largest value that passes.
    pub at_most: Option<f64>,
    /// Unit of both bounds, as written after a number: `%`, `ms`, `points`.
    pub unit: String,
    /// Kind of reason behind these numbers.
    pub basis: Basis,
    /// Reason for these numbers.
    pub reason: String,
}

/// Kind of reason behind a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A document or another project's test states the numbers.
    Published,
    /// The numbers follow from a mechanism or a scenario, which the reason names.
    Derived,
    /// The numbers are a choice: others are as reasonable.
    Convention,
}

impl Basis {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Derived => "derived",
            Self::Convention => "a convention",
        }
    }
}

impl Threshold {
    /// Formats the threshold: `at least 25 %`, `25 to 80 %`.
    pub fn text(&self) -> String {
        let unit = behind(&self.unit);
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) => format!("{low} to {high}{unit}"),
            (Some(low), None) => format!("at least {low}{unit}"),
            (None, Some(high)) => format!("at most {high}{unit}"),
            (None, None) => "anything".to_owned(),
        }
    }
}

/// Formats a unit so that it can follow a number. The text is empty for a value without a unit.
pub(crate) fn behind(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

/// Error in a battery's files, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatteryError {
    /// A file is not TOML, or has unknown or missing fields.
    #[error("{file}: {}", error.to_string().replace('\n', "; "))]
    Syntax {
        /// Name of the file.
        file: String,
        /// Error, with its position in the file.
        error: toml::de::Error,
    },
    /// A field has a wrong value.
    #[error("{file}: {error}")]
    Invalid {
        /// Name of the file.
        file: String,
        /// Field and value.
        error: Invalid,
    },
}

impl Battery {
    /// Returns the battery of a profile that ships with this crate.
    ///
    /// # Panics
    /// Panics if the shipped files are invalid, which a test prevents.
    pub fn shipped(profile: Profile) -> Self {
        let (files, thresholds) = profile.files();
        Self::read(profile, files, thresholds).expect("the shipped battery is sound")
    }

    /// Reads criteria and thresholds of a profile. Each criterion comes with the name of its file.
    ///
    /// # Errors
    /// Returns an error for the first invalid file.
    pub fn read<'a>(
        profile: Profile,
        criteria: impl IntoIterator<Item = (&'a str, &'a str)>,
        thresholds: &str,
    ) -> Result<Self, BatteryError> {
        let syntax = |file: &str, error| BatteryError::Syntax { file: file.to_owned(), error };
        let invalid = |file: &str, error| BatteryError::Invalid { file: file.to_owned(), error };
        let thresholds: BTreeMap<String, Threshold> =
            toml::from_str(&format!("{thresholds}\n{THRESHOLDS}"))
                .map_err(|e| syntax("thresholds.toml", e))?;
        let mut read = Vec::new();
        for (file, text) in criteria {
            let criterion: Criterion = toml::from_str(text).map_err(|e| syntax(file, e))?;
            criterion.check(&thresholds).map_err(|e| invalid(file, e))?;
            read.push(criterion);
        }
        read.sort_by_key(|criterion| order(&criterion.section));
        let used: BTreeSet<&str> = read
            .iter()
            .flat_map(|c| &c.tests)
            .flat_map(|t| &t.checks)
            .map(|check| &*check.threshold)
            .chain([CPU_PER_ACK])
            .collect();
        if let Some(unused) = thresholds.keys().find(|name| !used.contains(name.as_str())) {
            return Err(invalid("thresholds.toml", Invalid::value(unused, "is not used")));
        }
        Ok(Self { profile, criteria: read, thresholds })
    }
}

impl Battery {
    /// Returns the names of the tests of some criteria, such as `5.1.2/deep-buffer`.
    pub(crate) fn test_names(&self, of: impl Fn(&Criterion) -> bool) -> BTreeSet<String> {
        let criteria = self.criteria.iter().filter(|criterion| of(criterion));
        criteria.flat_map(|c| c.tests.iter().map(|test| test_name(&c.section, test))).collect()
    }
}

impl Criterion {
    fn check(&self, thresholds: &BTreeMap<String, Threshold>) -> Result<(), Invalid> {
        if self.tests.is_empty() != self.not_applicable.is_some() {
            return Err(Invalid::because(
                "a criterion has either tests or not-applicable, the reason why it has no tests",
            ));
        }
        let mut names = BTreeSet::new();
        for test in &self.tests {
            let at = |e: Invalid| e.in_field(format!("test '{}'", test.name));
            if !names.insert(&test.name) {
                return Err(at(Invalid::because("another test has this name")));
            }
            if test.checks.is_empty() {
                return Err(at(Invalid::because("a test needs a check")));
            }
            for check in &test.checks {
                let Some(Threshold { at_least, at_most, .. }) = thresholds.get(&check.threshold)
                else {
                    return Err(at(Invalid::value(&check.threshold, "is not a threshold")));
                };
                if at_least.is_none() && at_most.is_none() {
                    return Err(at(Invalid::value(
                        &check.threshold,
                        "has no bound, so every value passes",
                    )));
                }
                if check.relation != Relation::Absolute && at_least.is_some() == at_most.is_some() {
                    return Err(at(Invalid::value(
                        &check.threshold,
                        "is compared with references, so it needs either at-least or at-most",
                    )));
                }
                check.quantity().map_err(at)?;
            }
        }
        Ok(())
    }
}

impl Test {
    /// Returns a hash of the test as written: scenario, axes and checks. What the scenario names,
    /// such as a path, is not part of it.
    pub(crate) fn fingerprint(&self) -> String {
        let tables = [&self.sweep, &self.full_sweep, &self.scenario];
        let checks = self.checks.iter().flat_map(|check| {
            let Check { threshold, measure, of, beside, relation } = check;
            let beside = beside.clone().unwrap_or_default();
            [threshold.clone(), measure.clone(), of.clone(), beside, relation.name().to_owned()]
        });
        let mut hash = StableHash::default();
        for part in tables.map(toml::Table::to_string).into_iter().chain(checks) {
            // The length separates the parts.
            hash.add(part.len() as u64);
            hash.add_bytes(part);
        }
        format!("{:016x}", hash.value())
    }

    /// Returns whether any check compares with the references.
    pub(crate) fn is_relative(&self) -> bool {
        self.checks.iter().any(|check| check.relation != Relation::Absolute)
    }
}

impl Check {
    /// Describes the checked value: `throughput in percent of the reference's`.
    pub fn text(&self) -> String {
        let measure = self.quantity().map_or_else(|_| self.measure.clone(), |of| of.text());
        match self.relation {
            Relation::Absolute => measure,
            Relation::PercentOfReference => format!("{measure}, relative to the worse reference's"),
            Relation::MoreThanReference => {
                format!("{measure}, difference from the worse reference's")
            }
        }
    }

    pub(crate) fn quantity(&self) -> Result<Quantity<'_>, Invalid> {
        Quantity::named(&self.measure, &self.of, self.beside.as_deref())
    }
}

/// Returns the name of a test: `5.1.2/deep-buffer`.
pub(crate) fn test_name(section: &str, test: &Test) -> String {
    format!("{section}/{}", test.name)
}

/// Returns the sort key of a section: 5.1.2 comes before 5.1.10.
fn order(section: &str) -> Vec<u32> {
    section.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two sweeps give the same text together, but not the same runs of a quick battery.
    #[test]
    fn fingerprint_of_a_test_changes_with_the_place_of_an_axis() {
        let test = |sweep: &str| -> Test {
            toml::from_str(&format!("name = 'a'\nsays = 'b'\ncheck = []\n[scenario]\n{sweep}\n"))
                .expect("a test")
        };
        let [quick, full] = ["[sweep]\nbuffer = [1]", "[full-sweep]\nbuffer = [1]"].map(test);
        assert_ne!(quick.fingerprint(), full.fingerprint());
        assert_eq!(quick.fingerprint(), test("[sweep]\nbuffer = [1]").fingerprint());
        assert_ne!(quick.fingerprint(), test("[sweep]\nbuffer = [2]").fingerprint());
    }
}
