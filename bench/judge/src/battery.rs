//! The battery as written in TOML: criteria with their tests, and thresholds.

use std::collections::{BTreeMap, BTreeSet};

use fathom_metrics::Bounds;
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

use crate::cpu::CPU_PER_ACK;
use crate::measure::Quantity;

static CRITERIA: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/criteria");
const THRESHOLDS: &str = include_str!("../thresholds.toml");

/// All criteria, in the order of RFC 9743's sections, and the thresholds.
#[derive(Clone, Debug)]
pub struct Battery {
    /// In the order of their sections.
    pub criteria: Vec<Criterion>,
    /// By name.
    pub thresholds: BTreeMap<String, Threshold>,
}

/// A criterion of RFC 9743.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Criterion {
    /// Its section: `5.1.2`.
    pub section: String,
    /// Its title, in a few words.
    pub title: String,
    /// How strongly the RFC wants it considered.
    pub strength: Strength,
    /// What the RFC asks, in our words.
    pub asks: String,
    /// Why nothing is tested, where nothing is.
    pub not_applicable: Option<String>,
    /// What asks it here.
    #[serde(default, rename = "test")]
    pub tests: Vec<Test>,
}

/// How strongly RFC 9743 wants a criterion considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// An evaluation MUST.
    Must,
    /// An evaluation SHOULD.
    Should,
    /// Without a word of BCP 14.
    Consider,
}

impl Strength {
    /// As the RFC writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Consider => "consider",
        }
    }
}

/// A scenario with a sweep, and checks of what comes of it. In its strings `$controller` is the controller that is judged, and where a check
/// is relative the reference in its place; `$rival` is each of those that it is judged against; `$reference` is the first of them; `$bbr` is
/// the stack's own BBR, without which the test is not run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Test {
    /// Its name among the tests of the criterion.
    pub name: String,
    /// What happens in it, in a sentence.
    pub says: String,
    /// Axes and their values.
    #[serde(default)]
    pub sweep: toml::Table,
    /// Axes of the full battery, in place of those of the same name.
    #[serde(default)]
    pub full_sweep: toml::Table,
    /// The scenario, as a study has it.
    pub scenario: toml::Table,
    /// What is asked of it.
    #[serde(rename = "check")]
    pub checks: Vec<Check>,
}

/// A value of a test's runs, and the threshold that it is held to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// Name of the threshold.
    pub threshold: String,
    /// Name of the measure: one of ours (`measure.rs`), or one of `fathom compare`'s.
    pub measure: String,
    /// The group of traffic that it is read from; of a link's measure the link.
    #[serde(default = "subject")]
    pub of: String,
    /// Another group, where the measure is of two.
    pub beside: Option<String>,
    /// Whether it is set against the same value of the reference.
    #[serde(default)]
    pub relation: Relation,
}

fn subject() -> String {
    "subject".to_owned()
}

/// What a value is set against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Nothing: it is held to the threshold as it is.
    #[default]
    Absolute,
    /// The reference's of the same seed: percent of it.
    PercentOfReference,
    /// The reference's of the same seed: the difference to it.
    MoreThanReference,
}

impl Relation {
    /// Returns what a value can be: measures and ratios of them are not negative, differences may be.
    pub(crate) fn bounds(self) -> Bounds {
        match self {
            Self::Absolute | Self::PercentOfReference => Bounds::NOT_NEGATIVE,
            Self::MoreThanReference => Bounds::default(),
        }
    }
}

/// Bounds of a value. They are ours: RFC 9743 gives none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Threshold {
    /// The smallest that passes.
    pub at_least: Option<f64>,
    /// The largest that passes.
    pub at_most: Option<f64>,
    /// Unit of both, as it stands behind a number: `%`, `ms`, `points`.
    pub unit: String,
    /// Why these numbers.
    pub reason: String,
}

impl Threshold {
    /// `at least 25 %`, `25 to 80 %`.
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

/// A unit as it stands behind a number, if there is one.
pub(crate) fn behind(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

/// What is wrong with a battery's files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BatteryError(pub String);

impl Battery {
    /// The battery that comes with this crate.
    ///
    /// # Panics
    /// Where its files are not sound, which a test sees to.
    pub fn shipped() -> Self {
        let files = CRITERIA
            .files()
            .filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)));
        Self::read(files, THRESHOLDS).expect("the shipped battery is sound")
    }

    /// Reads criteria, each with the name of its file, and thresholds.
    ///
    /// # Errors
    /// The first file that is wrong, in one line.
    pub fn read<'a>(
        criteria: impl IntoIterator<Item = (&'a str, &'a str)>,
        thresholds: &str,
    ) -> Result<Self, BatteryError> {
        let wrong = |file: &str, e: &dyn std::fmt::Display| {
            BatteryError(format!("{file}: {e}").replace('\n', "; "))
        };
        let thresholds: BTreeMap<String, Threshold> =
            toml::from_str(thresholds).map_err(|e| wrong("thresholds.toml", &e))?;
        let mut read = Vec::new();
        for (file, text) in criteria {
            let criterion: Criterion = toml::from_str(text).map_err(|e| wrong(file, &e))?;
            criterion.check(&thresholds).map_err(|e| wrong(file, &e))?;
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
            return Err(wrong("thresholds.toml", &format!("'{unused}' is used nowhere")));
        }
        Ok(Self { criteria: read, thresholds })
    }
}

impl Criterion {
    fn check(&self, thresholds: &BTreeMap<String, Threshold>) -> Result<(), String> {
        if self.tests.is_empty() != self.not_applicable.is_some() {
            return Err(
                "a criterion has tests, or says in not-applicable why it has none".to_owned()
            );
        }
        let mut names = BTreeSet::new();
        for test in &self.tests {
            let at = |e: String| format!("test '{}': {e}", test.name);
            if !names.insert(&test.name) {
                return Err(at("the name is taken".to_owned()));
            }
            for check in &test.checks {
                if !thresholds.contains_key(&check.threshold) {
                    return Err(at(format!("'{}' is no threshold", check.threshold)));
                }
                check.quantity().map_err(at)?;
            }
        }
        Ok(())
    }
}

impl Test {
    /// Some check sets it against the reference.
    pub(crate) fn is_relative(&self) -> bool {
        self.checks.iter().any(|check| check.relation != Relation::Absolute)
    }
}

impl Check {
    pub(crate) fn quantity(&self) -> Result<Quantity<'_>, String> {
        Quantity::named(&self.measure, &self.of, self.beside.as_deref())
    }
}

/// Sections in their order: 5.1.2 before 5.1.10.
fn order(section: &str) -> Vec<u32> {
    section.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}
