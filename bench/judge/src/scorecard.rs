//! All verdicts as data: what is stored, reported and compared.

use std::collections::BTreeMap;

use fathom_cc::Invalid;
use fathom_experiments::measures::unseeded_note;
use fathom_netsim::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::battery::{Battery, CPU_PER_ACK, Relation, Strength, Threshold, behind};
use crate::cpu::CpuPerAck;
use crate::plan::JudgePlan;
use crate::profile::Profile;
use crate::value::{Value, failing_confidence};
use crate::verdict::Verdict;

/// Schema version. It is incremented if a field changes its name or meaning, but not for a new
/// field.
pub const SCHEMA: u32 = 2;

/// Result of judging a controller. It does not depend on the machine, except for a real-time
/// backend and for `cpu`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scorecard {
    /// Schema version of this scorecard: [`SCHEMA`].
    pub schema: u32,
    /// Version of fathom.
    pub fathom: String,
    /// Document from which the criteria come.
    #[serde(default, skip_serializing_if = "Profile::is_default")]
    pub profile: Profile,
    /// Crates of the stack with their versions.
    pub stacks: BTreeMap<String, String>,
    /// Controller that was judged.
    pub controller: String,
    /// Stack of all connections.
    pub stack: String,
    /// References: controllers against which the controller was judged.
    pub against: Vec<String>,
    /// Extent of the battery: `quick` or `full`.
    pub depth: String,
    /// Number of seeds for each combination.
    pub seeds: u64,
    /// Number of seeds of combinations that remained undecided with `seeds`.
    pub most_seeds: u64,
    /// Number of checks of the whole battery, each counted once for every number of seeds that it
    /// can have. It determines the confidence with which a check fails.
    pub checks: usize,
    /// Tests of MUST criteria that the user did not request (`--only`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Backend on which the tests ran.
    #[serde(default, skip_serializing_if = "Backend::is_virtual")]
    pub backend: Backend,
    /// Factor for the times of the tests; `None` if it is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// CPU time per ACK frame; `None` unless requested. It depends on the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuPerAck>,
    /// Number of criteria by verdict.
    pub counts: Counts,
    /// Criteria in the order of their sections.
    pub criteria: Vec<JudgedCriterion>,
    /// Thresholds of the checks, which are our choice.
    pub thresholds: BTreeMap<String, Threshold>,
}

/// Number of criteria by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Criteria that passed.
    pub passed: usize,
    /// Criteria that failed.
    pub failed: usize,
    /// Criteria that are undecided and that more seeds may decide.
    pub not_decided: usize,
    /// Criteria that do not apply or cannot be tested here.
    pub not_applicable: usize,
}

/// A criterion with its verdict, which is the worst verdict of its tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedCriterion {
    /// Section of the document.
    pub section: String,
    /// Title.
    pub title: String,
    /// Requirement level in the document.
    pub strength: Strength,
    /// Requirement of the document.
    pub asks: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason why the criterion is not applicable; `None` if it is applicable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applicable: Option<String>,
    /// Tests of the criterion.
    pub tests: Vec<JudgedTest>,
}

/// A test with its verdict, which is the worst verdict of its checks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedTest {
    /// Name of the test.
    pub name: String,
    /// Description of the scenario.
    pub says: String,
    /// Hash of the scenario, its axes and the checks; empty in scorecards of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Checks, one for each threshold and combination of the sweep.
    pub checks: Vec<JudgedCheck>,
}

/// A check: a value and its threshold, for one combination of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedCheck {
    /// Values of the test's axes.
    pub at: BTreeMap<String, String>,
    /// Measure in words.
    pub measure: String,
    /// Unit of the value.
    pub unit: String,
    /// Comparison with a reference.
    pub relation: Relation,
    /// The worse reference, with which the value is compared; `None` if the check is absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Mean over seeds with its intervals; `None` if the runs have no value.
    pub value: Option<Value>,
    /// Number of seeds. `value` has fewer if several seeds gave the same runs. `None` in scorecards
    /// of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<u64>,
    /// Name of the threshold.
    pub threshold: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason for the verdict; `None` if the value is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Reason why a text is not a scorecard, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ScorecardError {
    /// The text is not JSON with a schema version.
    #[error("the file is not a scorecard ({0}); name a file that 'fathom judge --json' wrote")]
    Other(#[source] serde_json::Error),
    /// The scorecard has this schema version.
    #[error(
        "the scorecard has schema {0}, but this version of fathom reads schema {SCHEMA}; judge \
        again"
    )]
    Schema(u32),
    /// The scorecard lacks a field, or has a wrong one.
    #[error("the scorecard is not complete ({0}); judge again")]
    Incomplete(#[source] serde_json::Error),
}

impl Scorecard {
    /// Reads a scorecard from JSON.
    ///
    /// # Errors
    /// Returns an error if the text is not a scorecard or has another schema version.
    pub fn from_json(text: &str) -> Result<Self, ScorecardError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let Head { schema } = serde_json::from_str(text).map_err(ScorecardError::Other)?;
        if schema != SCHEMA {
            return Err(ScorecardError::Schema(schema));
        }
        serde_json::from_str(text).map_err(ScorecardError::Incomplete)
    }

    /// Checks that this scorecard has the thresholds and tests of the shipped battery of its
    /// profile, so that it need not be made again.
    ///
    /// # Errors
    /// Returns the first difference, in one line.
    pub fn check_battery(&self) -> Result<(), Invalid> {
        let battery = Battery::shipped(self.profile);
        let name = format!("{} on {}", self.controller, self.stack);
        let stale =
            |what: &str| Err(Invalid::because(format!("{name}: {what} has changed; judge again")));
        let same = |(name, of): &(&String, &Threshold)| battery.thresholds.get(*name) == Some(*of);
        if let Some((threshold, _)) = self.thresholds.iter().find(|threshold| !same(threshold)) {
            return stale(&format!("the threshold {threshold}"));
        }
        let judged = self.criteria.iter().map(|c| {
            let says: Vec<_> = c.tests.iter().map(|test| &test.says).collect();
            (&c.asks, says)
        });
        let asked = battery.criteria.iter().map(|c| {
            let says: Vec<_> = c.tests.iter().map(|test| &test.says).collect();
            (&c.asks, says)
        });
        if !judged.eq(asked) {
            return stale("a criterion or test");
        }
        let pairs = self.criteria.iter().zip(&battery.criteria);
        let mut tests = pairs.flat_map(|(judged, asked)| judged.tests.iter().zip(&asked.tests));
        let changed = tests.find(|(judged, asked)| {
            !judged.fingerprint.is_empty() && judged.fingerprint != asked.fingerprint()
        });
        match changed {
            None => Ok(()),
            Some((_, test)) => stale(&format!("the scenario of the test {}", test.name)),
        }
    }

    /// Adds the result of [`cpu_per_ack`](crate::cpu_per_ack).
    pub fn add_cpu(&mut self, cpu: CpuPerAck, plan: &JudgePlan) {
        self.thresholds
            .insert(CPU_PER_ACK.to_owned(), plan.battery.thresholds[CPU_PER_ACK].clone());
        self.cpu = Some(cpu);
    }

    /// Describes the basis of a verdict: the value and the threshold, or the reason for a missing
    /// value.
    pub fn finding(&self, check: &JudgedCheck) -> String {
        let threshold =
            self.thresholds.get(&check.threshold).map(Threshold::text).unwrap_or_default();
        let seeds = match (&check.value, check.verdict) {
            (Some(value), Verdict::NotDecided) => match check.seeds {
                Some(seeds) if seeds != value.n as u64 => {
                    format!(" ({seeds} seeds, of which {} gave different runs)", value.n)
                }
                _ => format!(" ({} seeds)", value.n),
            },
            _ => String::new(),
        };
        check.note.clone().unwrap_or_else(|| format!("{}{seeds}; {threshold}", check.value_text()))
    }

    /// Returns the number of seeds in words: `3 to 10 seeds`.
    pub fn seeds_text(&self) -> String {
        match self.most_seeds > self.seeds {
            true => format!("{} to {} seeds", self.seeds, self.most_seeds),
            false => format!("{} seeds", self.seeds),
        }
    }

    /// Returns the confidence of the interval with which a check fails: `99.94 %`.
    pub fn failing_text(&self) -> String {
        format!("{:.2} %", 100.0 * failing_confidence(self.checks))
    }

    /// Returns the worst verdict of all criteria.
    pub fn verdict(&self) -> Verdict {
        Verdict::worst(self.criteria.iter().map(|criterion| criterion.verdict))
    }

    /// Describes the undecided MUST criteria and how to decide them; `None` if all MUST criteria
    /// are decided.
    pub fn undecided_must(&self) -> Option<String> {
        let open =
            |c: &&JudgedCriterion| c.strength == Strength::Must && c.verdict == Verdict::NotDecided;
        let seeds_help = |c: &&JudgedCriterion| {
            let checks = c.tests.iter().flat_map(|test| &test.checks);
            checks.filter(|check| check.verdict == Verdict::NotDecided).all(JudgedCheck::is_close)
        };
        let (helped, others): (Vec<_>, Vec<_>) =
            self.criteria.iter().filter(open).partition(seeds_help);
        let sections =
            |of: &[&JudgedCriterion]| of.iter().map(|c| &*c.section).collect::<Vec<_>>().join(", ");
        let mut sentences = Vec::new();
        if !helped.is_empty() {
            sentences.push(format!(
                "Undecided MUST criteria of RFC 9743: {}. To decide them, judge with more --seeds.",
                sections(&helped)
            ));
        }
        if !others.is_empty() {
            sentences.push(format!(
                "Undecided MUST criteria of RFC 9743 that need more than --seeds: {}. Their \
                 undecided checks say what.",
                sections(&others)
            ));
        }
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// Returns a sentence that names the controllers that draw random numbers without a seed;
    /// `None` if there are none.
    pub fn unseeded(&self) -> Option<String> {
        let stack = self.stack.parse().ok()?;
        let controllers = self.against.iter().chain([&self.controller]);
        let note = unseeded_note(controllers.map(|spec| (&**spec, stack)))?;
        Some(note + ".")
    }

    /// Describes, in sentences, what the verdicts mean for a document's status after
    /// RFC 9743 §3.2; empty for other profiles.
    pub fn status(&self) -> Vec<String> {
        if self.profile != Profile::Rfc9743 {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let worst = |strength| {
            let of = self.criteria.iter().filter(move |c| c.strength == strength);
            Verdict::worst(of.map(|c| c.verdict))
        };
        match worst(Strength::Must) {
            Verdict::Fail => lines.push(
                "MUST criteria of RFC 9743 failed against our thresholds: the controller's specification has to explain why that is acceptable (RFC 9743 section 5)."
                    .to_owned(),
            ),
            Verdict::NotDecided => lines.extend(self.undecided_must()),
            Verdict::Pass if self.left_out.is_empty() => lines.push("No MUST criterion of RFC 9743 failed against our thresholds.".to_owned()),
            Verdict::Pass | Verdict::NotApplicable => {}
        }
        if !self.left_out.is_empty() {
            lines.push(format!(
                "--only left out {} tests of MUST criteria. For a complete verdict, judge without \
                 --only.",
                self.left_out.len()
            ));
        }
        lines.push(
            "A laboratory result is not evidence of Internet-scale deployment: without it, a specification MUST seek Experimental status, and SHOULD NOT be deployed as a default (RFC 9743 section 3.2)."
                .to_owned(),
        );
        lines
    }
}

impl JudgedCheck {
    /// Returns whether the check has `seeds` seeds, and more may decide it.
    pub(crate) fn needs_seeds(&self, seeds: u64) -> bool {
        self.is_close() && self.value.is_some() && self.seeds == Some(seeds)
    }

    /// Returns whether the check is undecided only because its interval is too wide.
    fn is_close(&self) -> bool {
        self.verdict == Verdict::NotDecided && self.note.is_none()
    }

    fn reference_text(&self) -> &str {
        self.reference.as_deref().unwrap_or("the reference")
    }

    /// Formats the value with its interval and unit: `12.3 ± 0.4 %`,
    /// `210 (163 to 281) % of cubic's`; `nothing` if there is no value.
    pub fn value_text(&self) -> String {
        let Some(value) = &self.value else { return "nothing".to_owned() };
        let unit = behind(&self.unit);
        match self.relation {
            Relation::Absolute => format!("{}{unit}", value.text(&self.relation.bounds())),
            Relation::PercentOfReference => {
                format!("{} % of {}'s", value.ratio_text(), self.reference_text())
            }
            Relation::MoreThanReference => {
                let value = value.text(&self.relation.bounds());
                format!("{value}{unit} more than {}", self.reference_text())
            }
        }
    }

    /// Formats the values of the axes: `queue=droptail:50p, rival=cubic`; empty if the test has no
    /// sweep.
    pub fn at_text(&self) -> String {
        let axes =
            self.at.iter().filter(|(axis, _)| !["reference", "bbr"].contains(&axis.as_str()));
        axes.map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(", ")
    }
}
