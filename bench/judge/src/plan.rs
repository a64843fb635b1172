//! The battery for one controller: a study for each test, and the runs of all studies.

use std::collections::{BTreeMap, BTreeSet};

use fathom_cc::Invalid;
use fathom_experiments::study::{Study, StudyRun};
use fathom_netsim::backend::Backend;
use fathom_stacks::{Controller, Stack};
use toml::{Table, Value};

use crate::battery::{Battery, Criterion, Strength, Test, test_name};

/// Axis of a run's key whose value is the criterion and the test.
pub(crate) const TEST: &str = "test";
/// Axis for the controller that is judged, or for a reference in its place.
pub(crate) const CONTROLLER: &str = "controller";
/// Axis for the rivals, which are the references.
const RIVAL: &str = "rival";
/// Variable of a test for the first reference.
const REFERENCE: &str = "reference";
/// Variable of a test for the stack's own BBR.
const BBR: &str = "bbr";

/// Extent of the battery of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every criterion, with few values of each axis. Takes minutes.
    Quick,
    /// Every criterion, with all values. Takes about an hour.
    Full,
}

impl Depth {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    /// Returns the numbers of seeds: first for each combination, then for combinations that fewer
    /// seeds do not decide.
    pub const fn seeds(self) -> &'static [u64] {
        match self {
            Self::Quick => &[3, 5, 10],
            Self::Full => &[10, 20],
        }
    }
}

/// Controller to judge, and options.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Controller to judge, as written by users.
    pub controller: String,
    /// References: controllers against which the controller is judged, at least one. It has to be
    /// no worse than the worst of them.
    pub against: Vec<String>,
    /// Stack of all connections.
    pub stack: Stack,
    /// Extent of the battery of tests.
    pub depth: Depth,
    /// Number of seeds for each combination, instead of the depth's numbers. Combinations that
    /// remain undecided then get no more seeds.
    pub seeds: Option<u64>,
    /// Sections or single tests to judge, such as `5.2.1/one-to-one`; empty for all. `5.2.*`
    /// selects 5.2 and everything below it. `5.1`, which is not itself a criterion, selects
    /// everything below it.
    pub only: Vec<String>,
    /// Backend on which tests run. Tests whose queues are not available there are left out.
    pub backend: Backend,
    /// Factor for the times of every run: above 0, at most 1.
    pub scale: f64,
}

impl Settings {
    /// Returns the numbers of seeds: first for each combination, then for combinations that fewer
    /// seeds do not decide.
    pub(crate) fn stages(&self) -> &[u64] {
        self.seeds.as_ref().map_or(self.depth.seeds(), std::slice::from_ref)
    }

    /// Returns the number of seeds that every combination has.
    pub(crate) fn base_seeds(&self) -> u64 {
        self.stages()[0]
    }

    /// Returns the largest number of seeds of a combination.
    pub(crate) fn most_seeds(&self) -> u64 {
        self.stages()[self.stages().len() - 1]
    }
}

/// Runs that are needed to judge a controller.
#[derive(Clone, Debug)]
pub struct JudgePlan {
    /// Battery, limited to the requested parts.
    pub battery: Battery,
    /// Settings; controllers are written as their specs, with all options that differ from the
    /// defaults.
    pub settings: Settings,
    /// Tests of MUST criteria that the user did not request.
    pub left_out: Vec<String>,
    /// Runs of all tests; `test` of a key is `SECTION/NAME`.
    pub runs: Vec<StudyRun>,
    /// Number of checks of the whole battery on this stack, whatever parts of it are judged.
    pub checks: usize,
}

impl JudgePlan {
    /// Checks the controllers and creates the runs.
    ///
    /// # Errors
    /// Returns an error, in one line, if a controller does not exist or cannot run on the stack, or
    /// if no criterion or test matches a requested name.
    pub fn new(battery: Battery, mut settings: Settings) -> Result<Self, Invalid> {
        let spec = |text: &str| {
            Controller::read(text, settings.stack).map(|c| c.spec()).map_err(Invalid::from)
        };
        let controller = spec(&settings.controller)?;
        let mut against = Vec::new();
        for text in &settings.against {
            let spec = spec(text)?;
            if against.contains(&spec) {
                return Err(Invalid::because(format!("'{spec}' is named twice; name it once"))
                    .in_field("against"));
            }
            against.push(spec);
        }
        if against.is_empty() {
            return Err(Invalid::because("name at least one controller, such as cubic".to_owned())
                .in_field("against"));
        }
        (settings.controller, settings.against) = (controller, against);
        let sections: Vec<String> =
            battery.criteria.iter().map(|criterion| criterion.section.clone()).collect();
        let exists = |of: &str| {
            sections.iter().any(|section| selects(of, section, &sections))
                || battery.test_names(|_| true).contains(of)
        };
        if let Some(unknown) = settings.only.iter().find(|of| !exists(of)) {
            return Err(Invalid::because(format!(
                "'{unknown}' is neither a section nor a test; write a section ({}) or a test such \
                 as {} (--criteria lists them)",
                sections.join(", "),
                battery.test_names(|_| true).into_iter().next().unwrap_or_default()
            ))
            .in_field("only"));
        }
        let is_must = |criterion: &Criterion| criterion.strength == Strength::Must;
        let must = battery.test_names(is_must);
        let mut plan =
            Self { battery, settings, left_out: Vec::new(), runs: Vec::new(), checks: 0 };
        plan.runs = plan.all_runs()?;
        plan.checks = plan.count_checks();
        let Self { battery, settings, .. } = &mut plan;
        if !settings.only.is_empty() {
            let asked = |name: &str| settings.only.iter().any(|of| selects(of, name, &sections));
            battery.criteria.retain_mut(|Criterion { section, tests, .. }| {
                tests.retain(|test| asked(&test_name(section, test)));
                asked(section) || !tests.is_empty()
            });
        }
        plan.left_out = must.difference(&plan.battery.test_names(is_must)).cloned().collect();
        let kept = plan.battery.test_names(|_| true);
        plan.runs.retain(|run| kept.contains(&run.key[TEST]));
        Ok(plan)
    }

    /// Returns the number of checks of the whole battery, each counted once for every number of
    /// seeds that it can have.
    pub(crate) fn looks(&self) -> usize {
        self.checks * self.settings.stages().len()
    }

    /// Returns the number of checks of the planned runs.
    fn count_checks(&self) -> usize {
        let mut combinations: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
        for run in &self.runs {
            combinations.entry(&*run.key[TEST]).or_default().insert(combination(run).0);
        }
        let tests = self.battery.criteria.iter().flat_map(|c| c.tests.iter().map(move |t| (c, t)));
        let of = |(criterion, test): (&Criterion, &Test)| {
            let name = test_name(&criterion.section, test);
            test.checks.len() * combinations.get(&*name).map_or(0, BTreeSet::len)
        };
        tests.map(of).sum()
    }

    /// Returns the runs of all tests that can run on the stack.
    fn all_runs(&self) -> Result<Vec<StudyRun>, Invalid> {
        let mut runs = Vec::new();
        for criterion in &self.battery.criteria {
            for test in &criterion.tests {
                runs.extend(self.runs_of(&criterion.section, test, self.settings.base_seeds())?);
            }
        }
        Ok(runs)
    }

    /// Returns the runs of a test with this number of seeds.
    pub(crate) fn runs_of(
        &self,
        section: &str,
        test: &Test,
        seeds: u64,
    ) -> Result<Vec<StudyRun>, Invalid> {
        let name = test_name(section, test);
        let Some(study) = self.study(&name, test, seeds)? else { return Ok(Vec::new()) };
        let mut runs = study.runs(self.settings.scale)?;
        for run in &mut runs {
            run.key.insert(TEST.to_owned(), name.clone());
        }
        Ok(runs)
    }

    /// Returns a test as a study; `None` if the stack lacks a capability that the test needs.
    fn study(&self, name: &str, test: &Test, seeds: u64) -> Result<Option<Study>, Invalid> {
        let Settings { controller, against, stack, depth, backend, .. } = &self.settings;
        let scenario =
            toml::to_string(&test.scenario).map_err(|e| Invalid::because(e.to_string()))?;
        let uses = |axis: &str| {
            scenario.contains(&format!("${axis}")) || scenario.contains(&format!("${{{axis}}}"))
        };
        let mut sweep = test.sweep.clone();
        if *depth == Depth::Full {
            sweep.extend(test.full_sweep.clone());
        }
        let list = |values: &[&String]| {
            Value::Array(values.iter().map(|v| Value::String((*v).clone())).collect())
        };
        let mut controllers = vec![controller];
        if test.is_relative() {
            controllers.extend(against.iter().filter(|reference| *reference != controller));
        }
        let bbr = Controller::read("native:bbr", *stack).map(|bbr| bbr.spec()).ok();
        if uses(BBR) && bbr.is_none() {
            return Ok(None);
        }
        let axes = BTreeMap::from([
            (CONTROLLER, list(&controllers)),
            (RIVAL, list(&against.iter().collect::<Vec<_>>())),
            (REFERENCE, list(&[&against[0]])),
            (BBR, list(&bbr.iter().collect::<Vec<_>>())),
        ]);
        sweep.extend(
            axes.into_iter()
                .filter(|(axis, _)| uses(axis))
                .map(|(axis, values)| (axis.to_owned(), values)),
        );
        let mut scenario = test.scenario.clone();
        scenario.entry("stack").or_insert_with(|| Value::String(stack.name().to_owned()));
        let mut study = Table::new();
        study.insert("question".to_owned(), Value::String(test.says.clone()));
        study.insert("seeds".to_owned(), Value::Integer(seeds as i64));
        study.insert("sweep".to_owned(), Value::Table(sweep));
        study.insert("scenario".to_owned(), Value::Table(scenario));
        let text = toml::to_string(&study).map_err(|e| Invalid::because(e.to_string()))?;
        let study = Study::from_toml(name, &text).map_err(|e| e.in_field(name.to_owned()))?;
        Ok(Some(if *backend == Backend::Virtual { study } else { study.as_far_as(*backend) }))
    }
}

/// Returns the combination of a run, which is its key without test and controller, and the
/// controller. A test without `$controller` has none.
pub(crate) fn combination(run: &StudyRun) -> (BTreeMap<String, String>, Option<String>) {
    let mut at = run.key.clone();
    at.remove(TEST);
    let controller = at.remove(CONTROLLER);
    (at, controller)
}

/// Returns whether an entry of [`Settings::only`] selects a section or test. 5.2 and 5.2.1 are
/// separate criteria. 5.1 is not a criterion and stands for everything below it.
fn selects(of: &str, name: &str, sections: &[String]) -> bool {
    match of.strip_suffix(".*") {
        Some(of) => is_within(name, of),
        None if sections.iter().any(|section| section == of) => is_test_of(name, of),
        None => is_within(name, of),
    }
}

/// Returns whether a section or test equals `of` or is below it: 5.1.2/four-flows is within 5.1.2,
/// and 5.1.2 is within 5.1.
fn is_within(name: &str, of: &str) -> bool {
    name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
}

/// Returns whether `name` is this criterion or one of its tests.
fn is_test_of(name: &str, section: &str) -> bool {
    name.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    fn plan(only: &str, backend: Backend, scale: f64) -> Result<JudgePlan, Invalid> {
        let settings = Settings {
            controller: "vegas".to_owned(),
            against: vec!["cubic".to_owned()],
            stack: Stack::default(),
            depth: Depth::Quick,
            seeds: Some(2),
            only: vec![only.to_owned()],
            backend,
            scale,
        };
        JudgePlan::new(Battery::shipped(Profile::default()), settings)
    }

    fn of_axis(plan: &JudgePlan, axis: &str) -> BTreeSet<String> {
        plan.runs.iter().map(|run| run.key[axis].clone()).collect()
    }

    #[test]
    fn single_test_of_the_battery_can_be_selected() {
        let one = plan("5.2.1/one-to-one", Backend::Virtual, 1.0).unwrap();
        assert_eq!(of_axis(&one, TEST), ["5.2.1/one-to-one".to_owned()].into());
        assert_eq!(one.battery.criteria.len(), 1);
        assert!(
            of_axis(&plan("5.2.1", Backend::Virtual, 1.0).unwrap(), TEST).len() > 1,
            "a section has all its tests"
        );
        let sections = |only| -> Vec<String> {
            plan(only, Backend::Virtual, 1.0)
                .unwrap()
                .battery
                .criteria
                .into_iter()
                .map(|c| c.section)
                .collect()
        };
        assert_eq!(sections("5.2"), ["5.2"], "a criterion is not those below it");
        assert_eq!(sections("5.2.*"), ["5.2", "5.2.1", "5.2.2", "5.2.3"]);
        assert_eq!(sections("5.1"), ["5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5"]);
        assert!(!one.left_out.is_empty() && !one.left_out.contains(&"5.2.1/one-to-one".to_owned()));
        assert!(
            plan("5.2.1/one", Backend::Virtual, 1.0)
                .unwrap_err()
                .to_string()
                .contains("neither a section nor a test")
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn battery_omits_queues_missing_from_the_backend() {
        let queues = |backend| of_axis(&plan("7.1", backend, 1.0).unwrap(), "queue");
        assert!(queues(Backend::Virtual).contains("dualpi2"));
        assert_eq!(queues(Backend::Netem), ["codel", "fq-codel", "pie"].map(str::to_owned).into());
    }

    #[test]
    fn scale_and_backend_change_the_fingerprints_of_a_battery() {
        let names = |backend, scale| -> BTreeSet<String> {
            let plan = plan("7.1", backend, scale).unwrap();
            plan.runs.into_iter().map(|run| run.fingerprint).collect()
        };
        let [whole, short] = [1.0, 0.5].map(|scale| names(Backend::Virtual, scale));
        assert!(whole.is_disjoint(&short) && whole.is_disjoint(&names(Backend::Loopback, 1.0)));
    }
}
