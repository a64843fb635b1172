//! Derivation of all verdicts from the results of runs.

use std::collections::{BTreeMap, BTreeSet};

use fathom_experiments::measures::MOST_LEFT_OUT;
use fathom_experiments::provenance::{VERSION, stack_versions};
use fathom_experiments::scenario::Outcome;
use fathom_experiments::study::StudyRunResult;

use crate::battery::{Check, Criterion, Relation, Test, test_name};
use crate::measure::{Quantity, Requests};
use crate::plan::{JudgePlan, TEST, combination};
use crate::scorecard::{Counts, JudgedCheck, JudgedCriterion, JudgedTest, SCHEMA, Scorecard};
use crate::value::Value;
use crate::verdict::Verdict;

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
        seeds: settings.base_seeds(),
        most_seeds: settings.most_seeds(),
        checks: plan.looks(),
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

/// Percentage that stands for larger ones, such as that of a value to zero.
const LARGEST_RATIO: f64 = 1e6;

/// Outcomes of a controller by seed.
type Outcomes<'a> = BTreeMap<u64, &'a Outcome>;

/// Outcomes of the controller and of the references for one combination of a test's axes.
#[derive(Default)]
struct Point<'a> {
    subject: Outcomes<'a>,
    /// Outcomes by reference.
    references: BTreeMap<String, Outcomes<'a>>,
    /// Error of a failed run. The flag is `true` for a run of the controller, and `false` for a run
    /// of a reference.
    failure: Option<(bool, &'a str)>,
    /// Seeds of runs that have no result.
    without_result: Vec<u64>,
    /// Number of runs that have no result yet, among those that every combination has.
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
    /// the reference with the most failures, whatever the values of completed requests are. Returns
    /// `None` if enough requests were completed, so that the value decides.
    fn requests_that_tell_nothing(
        &self,
        quantity: &Quantity<'_>,
    ) -> Option<(Verdict, Option<String>)> {
        let sum = |outcomes: &Outcomes<'_>| {
            let mut sum = Requests::default();
            outcomes
                .values()
                .filter_map(|outcome| quantity.requests(outcome))
                .for_each(|of| sum += of);
            sum
        };
        let own = sum(&self.subject);
        let (name, reference) = (self.references.iter())
            .map(|(name, outcomes)| (&**name, sum(outcomes)))
            .max_by(|(_, a), (_, b)| a.failed_part().total_cmp(&b.failed_part()))
            .unwrap_or_default();
        let none = |of: &Outcomes<'_>| {
            let requests = of.values().filter_map(|outcome| quantity.requests(outcome));
            requests.filter(|of| of.completed == 0 && of.all() > 0).map(|of| of.all()).next()
        };
        match (none(&self.subject), self.references.values().find_map(none)) {
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
                    "{} of {} requests failed, compared with {} of {} under {}, so response times \
                     of the other requests do not count",
                    own.failed,
                    own.completed + own.failed,
                    reference.failed,
                    reference.completed + reference.failed,
                    if name.is_empty() { "a reference" } else { name }
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
            fingerprint: test.fingerprint(),
            verdict: Verdict::worst(checks.iter().map(|check| check.verdict)),
            checks,
        }
    }

    /// Returns the runs of a test by combination, controller and seed.
    fn points(&self, name: &str) -> BTreeMap<BTreeMap<String, String>, Point<'_>> {
        let settings = &self.plan.settings;
        let mut points: BTreeMap<BTreeMap<String, String>, Point<'_>> = BTreeMap::new();
        let base = settings.base_seeds();
        for run in self.plan.runs.iter().filter(|run| run.key[TEST] == name) {
            let (at, controller) = combination(run);
            let reference = controller.filter(|controller| *controller != settings.controller);
            let point = points.entry(at).or_default();
            match self.outcomes.get(&*run.fingerprint) {
                Some(outcome) => {
                    let side = match &reference {
                        None => &mut point.subject,
                        Some(name) => point.references.entry(name.clone()).or_default(),
                    };
                    side.insert(run.seed, outcome);
                }
                None => {
                    point.without_result.push(run.seed);
                    match self.failed.get(&run.label()) {
                        // A failure of the controller takes precedence over one of a reference.
                        Some(why) if reference.is_none() || point.failure.is_none() => {
                            point.failure = Some((reference.is_none(), why));
                        }
                        Some(_) => {}
                        None if run.seed <= base => point.missing += 1,
                        // This seed is one of those that only undecided combinations have.
                        None => {}
                    }
                }
            }
        }
        for point in points.values_mut() {
            // More seeds count only if all of their runs have results. With the runs that happened
            // to end first, the verdict would depend on the interruption.
            let without = &point.without_result;
            let complete =
                settings.stages().iter().rev().find(|seeds| without.iter().all(|n| n > seeds));
            let seeds = complete.copied().unwrap_or(base);
            for outcomes in point.references.values_mut().chain([&mut point.subject]) {
                outcomes.retain(|seed, _| *seed <= seeds);
            }
            // If a reference itself is judged, compare it with itself, too.
            if settings.against.contains(&settings.controller) {
                point.references.insert(settings.controller.clone(), point.subject.clone());
            }
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
        let (reference, value) = match check.relation {
            Relation::Absolute => (None, self.value(check, &quantity, point, None)),
            _ => {
                // The controller has to be no worse than one of the references, so the comparison
                // with the best verdict counts; among equal ones that with the better mean.
                let compared = point.references.iter().map(|(name, reference)| {
                    (name, self.value(check, &quantity, point, Some(reference)))
                });
                let rank = |value: &Value| {
                    let sign = if threshold.at_least.is_some() { -1.0 } else { 1.0 };
                    (Verdict::of(value, threshold), sign * value.mean)
                };
                // A reference without a value cannot excuse the controller.
                let known = compared.filter_map(|(name, value)| Some((name, value?)));
                let best = known.min_by(|(_, a), (_, b)| {
                    let (a, b) = (rank(a), rank(b));
                    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
                });
                best.map_or((None, None), |(name, value)| (Some(name.clone()), Some(value)))
            }
        };
        let relative = check.relation != Relation::Absolute;
        let (verdict, note) = match (&value, point.failure) {
            (_, Some((true, why))) => (Verdict::Fail, Some(format!("a run failed: {why}"))),
            (_, Some((false, why))) if relative => {
                (Verdict::NotDecided, Some(format!("a run of a reference failed: {why}")))
            }
            _ if point.missing > 0 => {
                (Verdict::NotDecided, Some(format!("runs without a result yet: {}", point.missing)))
            }
            _ => match (point.requests_that_tell_nothing(&quantity), &value) {
                (Some(decided), _) => decided,
                _ if point.seeds_without_effect() => (
                    Verdict::NotDecided,
                    Some("all seeds gave the same run, because nothing in it is random".to_owned()),
                ),
                (None, None) => {
                    (Verdict::NotDecided, Some("the runs have no value of this measure".to_owned()))
                }
                (None, Some(value)) => (Verdict::of(value, threshold), None),
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
            reference,
            value,
            seeds: Some(point.subject.len() as u64),
            threshold: check.threshold.clone(),
            verdict,
            note,
        }
    }

    /// Returns the value of a check over the seeds of a point, compared with a reference if one is
    /// given. Seeds that gave the same runs count once, because they are no repetitions. Returns
    /// `None` if a run has no value.
    fn value(
        &self,
        check: &Check,
        quantity: &Quantity<'_>,
        point: &Point<'_>,
        reference: Option<&Outcomes<'_>>,
    ) -> Option<Value> {
        let compared = |(own, other): &(&Outcome, Option<&Outcome>)| {
            let own = quantity.of(own)?;
            if reference.is_none() {
                return Some(own);
            }
            let other = quantity.of((*other)?)?;
            match check.relation {
                Relation::MoreThanReference => Some(own - other),
                // The ratio of two equal values, including two zeros, is 100%.
                _ if own == other => Some(100.0),
                _ => Some((100.0 * own / other).min(LARGEST_RATIO)),
            }
        };
        let mut known = BTreeSet::new();
        let pairs: Vec<(&Outcome, Option<&Outcome>)> = point
            .subject
            .iter()
            .map(|(seed, own)| (*own, reference.and_then(|of| of.get(seed).copied())))
            .collect();
        let different = pairs.iter().filter(|(own, other)| {
            known.insert((own.trace_hash.as_str(), other.map(|other| other.trace_hash.as_str())))
        });
        let values: Option<Vec<f64>> = different.map(compared).collect();
        let checks = self.plan.looks();
        match check.relation {
            Relation::PercentOfReference => Value::of_ratios(&values?, checks),
            _ => Value::of(&values?, checks),
        }
    }
}
