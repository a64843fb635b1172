//! A comparison: every controller with every seed, on all cores. A seed is the same requests for all.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fathom_netsim::backend::Backend;
use fathom_traffic::RateOutOfRange;

use super::plan::{Checked, Plan};
use super::responses::ResponseLog;
use super::result::{ComparedRun, Comparison, Missing, Reference, name};
use super::run::RunSpec;
use crate::scenario::{Cost, Outcome, PlanError, Progress, RunError, ScenarioError, check_loads};
use crate::stack::{Controller, Stack};
use crate::study::{Event, Location, RunOptions, StudyRun, execute};

/// What progress calls the run on the uncongested network.
const UNCONGESTED: &str = "uncongested";

/// What a comparison is doing, for progress bars.
#[derive(Clone, Debug)]
pub enum Stage {
    /// A run begins; its completed responses count up to `of`.
    Begins {
        /// What runs: a controller, or the uncongested network.
        name: String,
        /// Responses it will complete.
        of: u64,
        /// Its count.
        progress: Progress,
    },
    /// A run is over.
    Ends {
        /// What ran.
        name: String,
        /// What it cost.
        cost: Cost,
    },
}

/// Runs a plan. `watch` is called with every event, from several threads.
///
/// # Errors
/// The plan is wrong, or a run failed.
pub fn compare(plan: &Plan, watch: &(dyn Fn(Stage) + Sync)) -> Result<Comparison, ScenarioError> {
    match compare_with(plan, watch, &CompareOptions::default())? {
        (comparison, None) => Ok(comparison),
        (_, Some(e)) => Err(e),
    }
}

/// How a comparison is run.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions<'a> {
    /// Ends the comparison once it is set: runs under way end without a result, and no other begins.
    pub interrupt: Arc<AtomicBool>,
    /// Keeps every response of the runs that are executed.
    pub response_log: Option<&'a ResponseLog>,
    /// Where finished runs are kept; those that are there are not executed again.
    pub results: Option<Location>,
}

/// Runs a plan as [`compare`] does. If runs are interrupted or fail, the comparison covers the other
/// runs, names these, and the first error is returned with it.
///
/// # Errors
/// The plan is wrong, results cannot be kept, or no run has a result.
pub fn compare_with(
    plan: &Plan,
    watch: &(dyn Fn(Stage) + Sync),
    options: &CompareOptions<'_>,
) -> Result<(Comparison, Option<ScenarioError>), ScenarioError> {
    let CompareOptions { interrupt, response_log, results } = options;
    let checked = plan.check()?;
    let spec = |seed: u64, backend: Backend, (stack, control): &(Stack, Controller)| RunSpec {
        plan: &checked,
        label: name(plan, &control.spec(), *stack, backend),
        controller: control.clone(),
        stack: *stack,
        link: checked.link,
        seed,
        backend,
        interrupt: Arc::clone(interrupt),
        response_log: *response_log,
    };
    let (first_seed, first_stack) = (*checked.seeds.start(), checked.runs.first());
    if let Some(first) = first_stack {
        let seeds = checked.seeds.clone();
        for seed in seeds {
            let scenario = spec(seed, Backend::Virtual, first).scenario();
            check_loads(&scenario, seed).map_err(|e| match e {
                ScenarioError::Rate { error, .. } => out_of_range(&error).into(),
                e => e,
            })?;
        }
    }
    let mut run_specs = Vec::new();
    if let (Some((stack, _)), true) = (first_stack, checked.has_reference()) {
        // Reno, as in Sync-TCP §4.2. On one backend, wherever the others run.
        let reno = (*stack, Controller::reference(*stack).map_err(PlanError)?);
        let reference = spec(first_seed, Backend::Virtual, &reno);
        run_specs.push(RunSpec {
            label: UNCONGESTED.to_owned(),
            link: checked.reference,
            response_log: None,
            ..reference
        });
    }
    let references = run_specs.len();
    // Seed by seed: where runs are cut short, the seeds that are done have all controllers.
    for seed in checked.seeds.clone() {
        for backend in &plan.backends {
            run_specs.extend(checked.runs.iter().map(|run| spec(seed, *backend, run)));
        }
    }
    let study_runs: Vec<StudyRun> = run_specs.iter().map(RunSpec::study_run).collect();
    let specs: HashMap<&str, &RunSpec<'_>> =
        study_runs.iter().map(|run| &*run.fingerprint).zip(&run_specs).collect();
    let run_options = RunOptions {
        jobs: None,
        results: results.clone(),
        interrupt: Arc::clone(interrupt),
        in_order: true,
    };
    let executed = execute(
        &study_runs,
        &run_options,
        &|event| match event {
            Event::Begins { run, of, progress } => {
                watch(Stage::Begins { name: specs[&*run.fingerprint].name(), of, progress });
            }
            Event::Ends { run, cost } => {
                watch(Stage::Ends { name: specs[&*run.fingerprint].name(), cost });
            }
            Event::Starts { .. } | Event::Broken { .. } | Event::Fails { .. } => {}
        },
        &|run, progress| specs[&*run.fingerprint].run(&run.scenario, Arc::clone(progress)),
    );
    let executed = executed.map_err(|e| PlanError(e.to_string()))?;
    let mut outcomes: BTreeMap<String, Outcome> =
        executed.results.into_iter().map(|of| (of.fingerprint, of.outcome)).collect();
    let mut errors: BTreeMap<usize, ScenarioError> = executed.failed.into_iter().collect();
    let (mut runs, mut incomplete, mut first) = (Vec::new(), Vec::new(), None);
    let mut reference = None;
    for (i, (run_spec, study_run)) in run_specs.iter().zip(&study_runs).enumerate() {
        let is_reference = i < references;
        if let Some(outcome) = outcomes.remove(&study_run.fingerprint) {
            let run = run_spec.result(outcome);
            if is_reference {
                reference = Some(Reference::new(run, checked.link.bits_per_sec()));
            } else {
                runs.push(run);
            }
            continue;
        }
        let e = errors.remove(&i).unwrap_or_else(|| RunError::Interrupted.into());
        if !is_reference {
            let (label, controller) = (run_spec.label.clone(), run_spec.controller.spec());
            incomplete.push(Missing { label, controller, seed: run_spec.seed, why: e.to_string() });
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
    // Of one seed, they are the same whoever answers.
    let of_first = |run: &&ComparedRun| run.seed == *checked.seeds.start();
    let request_hash =
        runs.iter().find(of_first).map_or_else(String::new, |run| run.group().request_hash.clone());
    Ok((
        Comparison { plan: effective(plan, &checked), request_hash, runs, reference, incomplete },
        first,
    ))
}

/// Returns the error of the option that sets a rate that a model of traffic does not have.
fn out_of_range(error: &RateOutOfRange) -> PlanError {
    let change = if error.is_too_high() { "lower" } else { "raise" };
    PlanError(format!("load: {}; {change} --load, or the rate of the link", error.finding()))
}

/// The plan with its controllers written the one way that reports use.
fn effective(plan: &Plan, checked: &Checked) -> Plan {
    let written = checked
        .runs
        .iter()
        .take(plan.controllers.len())
        .map(|(_, control)| control.spec())
        .collect();
    let mut plan = Plan { controllers: written, ..plan.clone() };
    // What the path came to, where it does not say.
    if let Some(path) = &checked.path {
        plan.path = plan.filled_path();
        let way = if checked.workload.goes_up() { &path.up } else { &path.down };
        if let Some((capacity, queue)) = &way.link {
            (plan.link, plan.queue) = (capacity.nominal().to_string(), queue.to_string());
        }
    }
    plan
}
