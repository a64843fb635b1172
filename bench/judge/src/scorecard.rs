//! All verdicts as data, and their derivation from the results of runs.

use std::collections::BTreeMap;

use fathom_experiments::measures::{MOST_LEFT_OUT, unseeded_note};
use fathom_experiments::provenance::{VERSION, stack_versions};
use fathom_experiments::scenario::Outcome;
use fathom_experiments::study::StudyRunResult;
use fathom_netsim::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::battery::{
    CPU_PER_ACK, Check, Criterion, Relation, Strength, Test, Threshold, behind, test_name,
};
use crate::cpu::CpuPerAck;
use crate::measure::{Quantity, Requests};
use crate::plan::{CONTROLLER, JudgePlan, TEST};
use crate::profile::Profile;
use crate::value::Value;
use crate::verdict::Verdict;

/// Schema version. It is incremented if a field changes its name or meaning, but not for a new
/// field.
pub const SCHEMA: u32 = 1;

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
    /// Controllers against which the controller was judged. The first one is the reference.
    pub against: Vec<String>,
    /// Extent of the battery: `quick` or `full`.
    pub depth: String,
    /// Number of seeds for each combination.
    pub seeds: u64,
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
    /// Comparison with the reference.
    pub relation: Relation,
    /// Mean over seeds with its 95% interval; `None` if the runs have no value.
    pub value: Option<Value>,
    /// Name of the threshold.
    pub threshold: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason for the verdict; `None` if the value is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Derives the verdicts from results. `failed` lists the labels and the errors of runs that ended
/// with an error. A failed run of the controller fails the test. A check whose runs are not complete
/// is not decided.
pub fn scorecard(
    plan: &JudgePlan,
    results: &[StudyRunResult],
    failed: &BTreeMap<String, String>,
) -> Scorecard {
    let outcomes = results.iter().map(|result| (&*result.fingerprint, &result.outcome)).collect();
    let judge = Judge { plan, outcomes, failed };
    let criteria: Vec<JudgedCriterion> =
        plan.battery.criteria.iter().map(|criterion| judge.criterion(criterion)).collect();
    let count = |verdict| criteria.iter().filter(|criterion| criterion.verdict == verdict).count();
    let checks = || criteria.iter().flat_map(|c| &c.tests).flat_map(|t| &t.checks);
    let mut thresholds = plan.battery.thresholds.clone();
    thresholds.retain(|name, _| checks().any(|check| check.threshold == *name));
    let settings = &plan.settings;
    Scorecard {
        schema: SCHEMA,
        fathom: VERSION.to_owned(),
        profile: plan.battery.profile,
        stacks: stack_versions(&[settings.stack]),
        controller: settings.controller.clone(),
        stack: settings.stack.name().to_owned(),
        against: settings.against.clone(),
        depth: settings.depth.name().to_owned(),
        seeds: settings.seeds.unwrap_or(settings.depth.seeds()),
        left_out: plan.left_out.clone(),
        backend: settings.backend,
        scale: Some(settings.scale).filter(|scale| *scale != 1.0),
        cpu: None,
        counts: Counts {
            passed: count(Verdict::Pass),
            failed: count(Verdict::Fail),
            not_decided: count(Verdict::NotDecided),
            not_applicable: count(Verdict::NotApplicable),
        },
        thresholds,
        criteria,
    }
}

struct Judge<'a> {
    plan: &'a JudgePlan,
    /// Outcomes by the fingerprints of their runs.
    outcomes: BTreeMap<&'a str, &'a Outcome>,
    failed: &'a BTreeMap<String, String>,
}

/// Outcomes of the controller and of the reference for one combination of a test's axes, by seed.
#[derive(Default)]
struct Point<'a> {
    subject: BTreeMap<u64, &'a Outcome>,
    reference: BTreeMap<u64, &'a Outcome>,
    /// Error of a failed run. The flag is `true` for a run of the controller, and `false` for a run
    /// of the reference.
    failure: Option<(bool, &'a str)>,
    /// Number of runs that have no result yet.
    missing: usize,
}

impl Point<'_> {
    /// Returns whether all seeds gave the same run of the controller, so that the interval of their
    /// values has no meaning.
    fn seeds_without_effect(&self) -> bool {
        let mut hashes = self.subject.values().map(|outcome| &outcome.trace_hash);
        let first = hashes.next();
        self.subject.len() > 1 && hashes.all(|hash| Some(hash) == first)
    }

    /// Returns the verdict if too few requests were completed for a meaningful value. The
    /// controller fails if a run completes no request or if clearly more requests fail than under
    /// the reference, whatever the values of completed requests are. Returns `None` if enough
    /// requests were completed, so that the value decides.
    fn requests_that_tell_nothing(
        &self,
        quantity: &Quantity<'_>,
    ) -> Option<(Verdict, Option<String>)> {
        let sum = |outcomes: &BTreeMap<u64, &Outcome>| {
            let mut sum = Requests::default();
            outcomes
                .values()
                .filter_map(|outcome| quantity.requests(outcome))
                .for_each(|of| sum += of);
            sum
        };
        let (own, reference) = (sum(&self.subject), sum(&self.reference));
        let none = |of: &BTreeMap<u64, &Outcome>| {
            let requests = of.values().filter_map(|outcome| quantity.requests(outcome));
            requests.filter(|of| of.completed == 0 && of.all() > 0).map(|of| of.all()).next()
        };
        match (none(&self.subject), none(&self.reference)) {
            (Some(_), Some(_)) => Some((
                Verdict::NotDecided,
                Some(
                    "no request completed in one run of this controller and in one run of the \
                     reference, so the path cannot be used for a comparison"
                        .to_owned(),
                ),
            )),
            (Some(all), None) => Some((
                Verdict::Fail,
                Some(format!(
                    "none of the {all} requests of one run completed, so this run has no response \
                     time"
                )),
            )),
            _ if own.failed_part() > reference.failed_part() + MOST_LEFT_OUT => Some((
                Verdict::Fail,
                Some(format!(
                    "{} of {} requests failed, compared with {} of {} under the reference, so \
                     response times of the other requests do not count",
                    own.failed,
                    own.completed + own.failed,
                    reference.failed,
                    reference.completed + reference.failed
                )),
            )),
            _ => None,
        }
    }
}

impl Judge<'_> {
    fn criterion(&self, criterion: &Criterion) -> JudgedCriterion {
        let tests: Vec<JudgedTest> =
            criterion.tests.iter().map(|test| self.test(criterion, test)).collect();
        JudgedCriterion {
            section: criterion.section.clone(),
            title: criterion.title.clone(),
            strength: criterion.strength,
            asks: criterion.asks.clone(),
            verdict: Verdict::worst(tests.iter().map(|test| test.verdict)),
            not_applicable: criterion.not_applicable.clone(),
            tests,
        }
    }

    fn test(&self, criterion: &Criterion, test: &Test) -> JudgedTest {
        let points = self.points(&test_name(&criterion.section, test));
        let checks: Vec<JudgedCheck> = points
            .iter()
            .flat_map(|(at, point)| test.checks.iter().map(|check| self.check(check, at, point)))
            .collect();
        JudgedTest {
            name: test.name.clone(),
            says: test.says.clone(),
            verdict: Verdict::worst(checks.iter().map(|check| check.verdict)),
            checks,
        }
    }

    /// Returns the runs of a test by combination, controller and seed.
    fn points(&self, name: &str) -> BTreeMap<BTreeMap<String, String>, Point<'_>> {
        let settings = &self.plan.settings;
        let mut points: BTreeMap<BTreeMap<String, String>, Point<'_>> = BTreeMap::new();
        for run in self.plan.runs.iter().filter(|run| run.key[TEST] == name) {
            let mut at = run.key.clone();
            at.remove(TEST);
            let controller = at.remove(CONTROLLER);
            let subject = controller.is_none_or(|controller| controller == settings.controller);
            let point = points.entry(at).or_default();
            match self.outcomes.get(&*run.fingerprint) {
                Some(outcome) => {
                    let side = if subject { &mut point.subject } else { &mut point.reference };
                    side.insert(run.seed, outcome);
                }
                None => match self.failed.get(&run.label()) {
                    // A failure of the controller takes precedence over a failure of the reference.
                    Some(why) if subject || point.failure.is_none() => {
                        point.failure = Some((subject, why));
                    }
                    Some(_) => {}
                    None => point.missing += 1,
                },
            }
        }
        // If the reference itself is judged, compare it with itself.
        if settings.controller == self.plan.reference() {
            points.values_mut().for_each(|point| point.reference = point.subject.clone());
        }
        points
    }

    fn check(
        &self,
        check: &Check,
        at: &BTreeMap<String, String>,
        point: &Point<'_>,
    ) -> JudgedCheck {
        let quantity = check.quantity().expect("the battery is checked when it is read");
        let threshold = &self.plan.battery.thresholds[&check.threshold];
        let values: Option<Vec<f64>> = point
            .subject
            .iter()
            .map(|(seed, outcome)| {
                let own = quantity.of(outcome)?;
                let reference = || quantity.of(point.reference.get(seed)?);
                match check.relation {
                    Relation::Absolute => Some(own),
                    Relation::MoreThanReference => Some(own - reference()?),
                    // The ratio of two equal values, including two zeros, is 100%.
                    Relation::PercentOfReference => match reference()? {
                        of if of == own => Some(100.0),
                        of => Some(100.0 * own / of).filter(|value| value.is_finite()),
                    },
                }
            })
            .collect();
        let value = values.and_then(|values| match check.relation {
            Relation::PercentOfReference => Value::of_ratios(&values),
            _ => Value::of(&values),
        });
        let relative = check.relation != Relation::Absolute;
        let (verdict, note) = match (&value, point.failure) {
            (_, Some((true, why))) => (Verdict::Fail, Some(format!("a run failed: {why}"))),
            (_, Some((false, why))) if relative => {
                (Verdict::NotDecided, Some(format!("a run of the reference failed: {why}")))
            }
            _ if point.missing > 0 => {
                (Verdict::NotDecided, Some(format!("runs without a result yet: {}", point.missing)))
            }
            _ if point.seeds_without_effect() => (
                Verdict::NotDecided,
                Some(
                    "all seeds gave the same run, because nothing in it is random: add jitter to \
                     the path"
                        .to_owned(),
                ),
            ),
            _ => match (point.requests_that_tell_nothing(&quantity), &value) {
                (Some(decided), _) => decided,
                (None, None) => {
                    (Verdict::NotDecided, Some("the runs have no value of this measure".to_owned()))
                }
                (None, Some(value)) => (Verdict::of(value.interval(), threshold), None),
            },
        };
        let unit = match check.relation {
            Relation::PercentOfReference => "%",
            Relation::MoreThanReference if quantity.unit() == "%" => "points",
            _ => quantity.unit(),
        };
        JudgedCheck {
            at: at.clone(),
            measure: quantity.text(),
            unit: unit.to_owned(),
            relation: check.relation,
            value,
            threshold: check.threshold.clone(),
            verdict,
            note,
        }
    }
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

    /// Adds the result of [`cpu_per_ack`](crate::cpu_per_ack).
    pub fn add_cpu(&mut self, cpu: CpuPerAck, plan: &JudgePlan) {
        self.thresholds
            .insert(CPU_PER_ACK.to_owned(), plan.battery.thresholds[CPU_PER_ACK].clone());
        self.cpu = Some(cpu);
    }

    /// Describes the basis of a verdict: the value and the threshold, or the reason for a missing
    /// value.
    pub(crate) fn finding(&self, check: &JudgedCheck) -> String {
        let threshold =
            self.thresholds.get(&check.threshold).map(Threshold::text).unwrap_or_default();
        check.note.clone().unwrap_or_else(|| format!("{}; {threshold}", check.value_text()))
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
        let sections: Vec<&str> = self.criteria.iter().filter(open).map(|c| &*c.section).collect();
        (!sections.is_empty()).then(|| {
            format!(
                "Undecided MUST criteria of RFC 9743: {}. To decide them, judge with --full or \
                 more --seeds.",
                sections.join(", ")
            )
        })
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
    /// Formats the value with its interval and unit: `12.3 ± 0.4 %`,
    /// `210 (163 to 281) % of the reference's`; `nothing` if there is no value.
    pub fn value_text(&self) -> String {
        let Some(value) = &self.value else { return "nothing".to_owned() };
        let unit = behind(&self.unit);
        match self.relation {
            Relation::Absolute => format!("{}{unit}", value.text(&self.relation.bounds())),
            Relation::PercentOfReference => format!("{} % of the reference's", value.ratio_text()),
            Relation::MoreThanReference => {
                format!("{}{unit} more than the reference", value.text(&self.relation.bounds()))
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
