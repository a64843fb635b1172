//! Execution of a comparison: every controller with every seed, on all cores. With one seed, all
//! controllers get the same requests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fathom_cc::{Invalid, Rate};
use parking_lot::Mutex;

use super::plan::{Checked, Plan};
use super::responses::ResponseLog;
use super::result::{ComparedRun, Comparison, Missing, Reference, name};
use crate::scenario::{
    Cost, Outcome, Progress, ResponseSpool, RunControl, RunError, ScenarioError, check_loads,
    run_with,
};
use crate::stack::{Controller, Stack};
use crate::study::{Event, Executed, Location, RunOptions, StudyRun, execute};

/// Name of the run on the uncongested network, in messages and progress reports.
const UNCONGESTED: &str = "uncongested";

/// Event of a comparison, for progress bars.
#[derive(Clone, Debug)]
pub enum Stage {
    /// A run begins. Its completed responses count up to `of`.
    Begins {
        /// Name of the run: a controller or the uncongested network, with the seed if there are
        /// several.
        name: String,
        /// Number of responses that the run will complete.
        of: u64,
        /// Number of responses completed so far.
        progress: Progress,
    },
    /// A run ended with a result.
    Ends {
        /// Name of the run.
        name: String,
        /// Cost of the run.
        cost: Cost,
    },
}

/// Runs a plan. Calls `watch` with every event, from several threads.
///
/// # Errors
/// Returns an error if the plan is wrong or if a run failed.
pub fn compare(plan: &Plan, watch: &(dyn Fn(Stage) + Sync)) -> Result<Comparison, ScenarioError> {
    match compare_with(plan, watch, &CompareOptions::default())? {
        (comparison, None) => Ok(comparison),
        (_, Some(e)) => Err(e),
    }
}

/// Options for the execution of a comparison.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions<'a> {
    /// Ends the comparison once set to `true`: runs in progress end without a result, and no other
    /// run begins.
    pub interrupt: Arc<AtomicBool>,
    /// Log for every response of the executed runs, except the run on the uncongested network.
    pub response_log: Option<&'a ResponseLog>,
    /// Store of finished runs. Runs with a stored result are not executed again.
    pub results: Option<Location>,
}

/// Runs a plan as [`compare`] does. If runs fail or are interrupted, the comparison covers the
/// other runs and lists these as incomplete; the first error is returned with it.
///
/// # Errors
/// Returns an error if the plan is wrong, if results cannot be stored, or if no run has a result.
pub fn compare_with(
    plan: &Plan,
    watch: &(dyn Fn(Stage) + Sync),
    options: &CompareOptions<'_>,
) -> Result<(Comparison, Option<ScenarioError>), ScenarioError> {
    let CompareOptions { interrupt, response_log, results } = options;
    let checked = plan.check()?;
    let reference_runs = match plan.reference_study(&checked)? {
        Some(study) => study.runs(1.0)?,
        None => Vec::new(),
    };
    let mut study_runs = plan.study(&checked)?.runs(1.0)?;
    // The rate of a load hardly depends on the seed, so checking one seed finds loads out of range
    // before any run begins.
    if let Some(run) = study_runs.first() {
        check_loads(&run.scenario, run.seed).map_err(of_option)?;
    }
    // Run seed by seed, so that an interrupted comparison has all controllers for its finished
    // seeds.
    study_runs.sort_by_key(|run| run.seed);
    let references = reference_runs.len();
    let study_runs = [reference_runs, study_runs].concat();
    let is_reference = |i: usize| i < references;
    let names: HashMap<&str, String> = (study_runs.iter().enumerate())
        .map(|(i, run)| (&*run.fingerprint, run_name(plan, run, is_reference(i))))
        .collect();
    let logged: HashSet<&str> =
        study_runs[references..].iter().map(|run| &*run.fingerprint).collect();
    let run_options = RunOptions {
        jobs: None,
        results: results.clone(),
        interrupt: Arc::clone(interrupt),
        in_order: true,
    };
    let name_of = |run: &StudyRun| names[&*run.fingerprint].clone();
    let executed = execute(
        &study_runs,
        &run_options,
        &|event| match event {
            Event::Begins { run, of, progress } => {
                watch(Stage::Begins { name: name_of(run), of, progress });
            }
            Event::Ends { run, cost } => watch(Stage::Ends { name: name_of(run), cost }),
            Event::Starts { .. } | Event::Broken { .. } | Event::Fails { .. } => {}
        },
        &|run, progress| {
            let progress = Arc::clone(progress);
            let response_log = response_log.filter(|_| logged.contains(&*run.fingerprint));
            let outcome = execute_run(run, progress, interrupt, response_log);
            outcome.map_err(|e| match e {
                ScenarioError::Run(e) => e.named(&name_of(run)).into(),
                e => of_option(e),
            })
        },
    );
    let executed = executed.map_err(|e| Invalid::because(e.to_string()))?;
    let results = Results { plan, checked: &checked, references, executed };
    results.comparison(&study_runs)
}

/// Results of the executed runs, of which the first `references` are on the uncongested network.
struct Results<'a> {
    plan: &'a Plan,
    checked: &'a Checked,
    references: usize,
    executed: Executed,
}

impl Results<'_> {
    /// Arranges the results in the order of reports, and returns them with the first error. Runs
    /// without a result are listed as incomplete.
    ///
    /// # Errors
    /// Returns the first error if no run has a result.
    fn comparison(
        self,
        study_runs: &[StudyRun],
    ) -> Result<(Comparison, Option<ScenarioError>), ScenarioError> {
        let Self { plan, checked, references, executed } = self;
        let mut outcomes: BTreeMap<String, Outcome> =
            executed.results.into_iter().map(|of| (of.fingerprint, of.outcome)).collect();
        let mut errors: BTreeMap<usize, ScenarioError> = executed.failed.into_iter().collect();
        let (mut runs, mut incomplete, mut first) = (Vec::new(), Vec::new(), None);
        let mut reference = None;
        for (i, run) in study_runs.iter().enumerate() {
            let is_reference = i < references;
            if let Some(outcome) = outcomes.remove(&run.fingerprint) {
                let link = if is_reference { checked.reference } else { checked.link };
                let run = compared(plan, checked, run, link, outcome);
                if is_reference {
                    reference = Some(Reference::new(run, checked.link.bits_per_sec()));
                } else {
                    runs.push(run);
                }
                continue;
            }
            let e = errors.remove(&i).unwrap_or_else(|| RunError::Interrupted.into());
            if !is_reference {
                let (label, controller) = (label(plan, run), controller_of(run));
                incomplete.push(Missing { label, controller, seed: run.seed, why: e.to_string() });
            }
            first.get_or_insert(e);
        }
        if let Some(e) = first.take_if(|_| runs.is_empty()) {
            return Err(e);
        }
        let place = |run: &ComparedRun| {
            let backend = plan.backends.iter().position(|backend| *backend == run.backend);
            let of_plan = |(stack, control): &(Stack, Controller)| {
                *stack == run.stack && control.spec() == run.controller
            };
            (backend, checked.runs.iter().position(of_plan), run.seed)
        };
        runs.sort_by_key(place);
        // With one seed, every controller gets the same requests.
        let of_first = |run: &&ComparedRun| run.seed == *checked.seeds.start();
        let request_hash = runs
            .iter()
            .find(of_first)
            .map_or_else(String::new, |run| run.group().request_hash.clone());
        Ok((
            Comparison {
                plan: effective(plan, checked),
                request_hash,
                runs,
                reference,
                incomplete,
            },
            first,
        ))
    }
}

/// Executes a run on the calling thread. `progress` counts its completed responses.
fn execute_run(
    run: &StudyRun,
    progress: Progress,
    interrupt: &Arc<AtomicBool>,
    response_log: Option<&ResponseLog>,
) -> Result<(Outcome, Cost), ScenarioError> {
    let kept = |e: io::Error| ScenarioError::from(RunError::Responses(e.to_string()));
    let responses =
        response_log.map(|_| ResponseSpool::new().map(|spool| Arc::new(Mutex::new(spool))));
    let responses = responses.transpose().map_err(kept)?;
    let control =
        RunControl { progress, interrupt: Arc::clone(interrupt), responses: responses.clone() };
    let (outcome, cost) = run_with(&run.scenario, run.seed, &control)?;
    if let Some((log, rows)) = response_log.zip(responses) {
        let groups = run.scenario.traffic.iter().map(|group| group.name.clone()).collect();
        let of = (controller_of(run), stack_of(run), run.scenario.backend, run.seed);
        log.add(of, groups, &mut rows.lock()).map_err(kept)?;
    }
    Ok((outcome, cost))
}

/// Returns the spec of a run's controller, as its stack names it.
fn controller_of(run: &StudyRun) -> String {
    let mix = run.scenario.traffic.first().and_then(|traffic| traffic.mix.first());
    mix.map(|(_, controller)| controller.spec()).unwrap_or_default()
}

fn stack_of(run: &StudyRun) -> Stack {
    run.scenario.traffic.first().map(|traffic| traffic.stack).unwrap_or_default()
}

fn label(plan: &Plan, run: &StudyRun) -> String {
    name(plan, &controller_of(run), stack_of(run), run.scenario.backend)
}

/// Returns the name of a run in messages: its label, with its seed if there are several.
fn run_name(plan: &Plan, run: &StudyRun, is_reference: bool) -> String {
    let label = if is_reference { UNCONGESTED.to_owned() } else { label(plan, run) };
    if plan.seeds > 1 { format!("{label}, seed {}", run.seed) } else { label }
}

fn compared(
    plan: &Plan,
    checked: &Checked,
    run: &StudyRun,
    link: Rate,
    outcome: Outcome,
) -> ComparedRun {
    ComparedRun {
        label: label(plan, run),
        controller: controller_of(run),
        stack: stack_of(run),
        backend: run.scenario.backend,
        seed: run.seed,
        link: link.to_string(),
        bottleneck: checked.bottleneck().to_owned(),
        outcome,
    }
}

/// Attributes the error to `--load` if the traffic model cannot offer the load. Returns any other
/// error unchanged.
fn of_option(e: ScenarioError) -> ScenarioError {
    let ScenarioError::Rate { error, .. } = e else { return e };
    let change = if error.is_too_high() { "lower" } else { "raise" };
    Invalid::because(format!("{}; {change} --load or the rate of the link", error.finding()))
        .in_field("load")
        .into()
}

/// Returns the plan as reports show it: controllers in one spelling and, if there is a path, the
/// completed path with its link and queue.
pub(super) fn effective(plan: &Plan, checked: &Checked) -> Plan {
    let mut plan = Plan { controllers: plan.written_controllers(checked), ..plan.clone() };
    plan.set_path_figures(checked);
    plan
}
