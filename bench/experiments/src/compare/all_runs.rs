//! A comparison: calibrate, then run every controller with every seed, on all cores. A seed is the same requests for all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fathom_netsim::backend::Backend;

use super::calibrate::{calibrate, out_of_range};
use super::plan::{Checked, Plan};
use super::responses::ResponseLog;
use super::result::{ComparedRun, Comparison, Missing, name};
use super::run::{Rates, RunSpec};
use crate::scenario::{
    Cost, Outcome, PlanError, Progress, RunError, ScenarioError, WebLoad, Workload, computed_rate,
};
use crate::stack::{Controller, Stack};
use crate::study::{Event, Location, RunOptions, StudyRun, execute};

/// What a comparison is doing, for progress bars.
#[derive(Clone, Debug)]
pub enum Stage {
    /// A run begins; its completed responses count up to `of`.
    Begins {
        /// What runs: a controller, or the calibration.
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
    let (responses, rates, reference) = match checked.workload {
        Workload::Bulk { .. }
        | Workload::Pages { .. }
        | Workload::Media { .. }
        | Workload::Uploads { .. } => (checked.responses, [0.0; 2], None),
        // Only the way to the clients carries bodies: the load is computed.
        Workload::Web { .. } if checked.path.is_some() => (checked.responses, [0.0; 2], None),
        Workload::Web { load: WebLoad::Connections(rate), .. } => {
            (checked.responses, [rate; 2], None)
        }
        Workload::Web { load: WebLoad::Computed { part, .. }, .. } => {
            let progress = Progress::default();
            let name = "calibration".to_owned();
            watch(Stage::Begins {
                name: name.clone(),
                of: checked.responses,
                progress: Arc::clone(&progress),
            });
            let calibrated = calibrate(&checked, part, &progress, interrupt)?;
            watch(Stage::Ends { name, cost: calibrated.cost });
            (checked.responses, calibrated.rates, Some(calibrated.reference))
        }
    };
    let spec = |(seed, backend, (stack, control)): (u64, Backend, &(Stack, Controller)),
                rates: Rates| RunSpec {
        plan: &checked,
        label: name(plan, &control.spec(), *stack, backend),
        controller: control.clone(),
        stack: *stack,
        link: checked.link,
        rates,
        responses,
        seed,
        backend,
        interrupt: Arc::clone(interrupt),
        response_log: *response_log,
    };
    // On a path the load is computed, once for each seed: every stack gets the same requests.
    let mut computed: BTreeMap<u64, Rates> = BTreeMap::new();
    if let (Some(first), true) = (checked.runs.first(), reference.is_none()) {
        for seed in checked.seeds.clone() {
            let rate =
                computed_rate(&spec((seed, Backend::Virtual, first), rates).scenario(), seed);
            let rate = rate.map_err(|e| match e {
                ScenarioError::Rate { error, .. } => out_of_range(&error).into(),
                e => e,
            })?;
            computed.insert(seed, [rate; 2]);
        }
    }
    // Seed by seed: where runs are cut short, the seeds that are done have all controllers.
    let of_seed = |seed: u64| {
        let of_backend = |backend: &Backend| {
            checked.runs.iter().map(|run| (seed, *backend, run)).collect::<Vec<_>>()
        };
        plan.backends.iter().flat_map(of_backend).collect::<Vec<_>>()
    };
    let run_specs: Vec<RunSpec<'_>> = (checked.seeds.clone().flat_map(of_seed))
        .map(|run| spec(run, computed.get(&run.0).copied().unwrap_or(rates)))
        .collect();
    let study_runs: Vec<StudyRun> = run_specs.iter().map(RunSpec::study_run).collect();
    let spec_of = |run: &StudyRun| {
        let place = study_runs.iter().position(|of| of.fingerprint == run.fingerprint);
        &run_specs[place.unwrap_or_default()]
    };
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
                watch(Stage::Begins { name: spec_of(run).name(), of, progress });
            }
            Event::Ends { run, cost } => watch(Stage::Ends { name: spec_of(run).name(), cost }),
            Event::Starts { .. } | Event::Broken { .. } | Event::Fails { .. } => {}
        },
        &|run, progress| spec_of(run).run(Arc::clone(progress)),
    );
    let executed = executed.map_err(|e| PlanError(e.to_string()))?;
    let mut outcomes: BTreeMap<String, Outcome> =
        executed.results.into_iter().map(|of| (of.fingerprint, of.outcome)).collect();
    let mut errors: BTreeMap<usize, ScenarioError> = executed.failed.into_iter().collect();
    let (mut runs, mut incomplete, mut first) = (Vec::new(), Vec::new(), None);
    for (i, (run_spec, study_run)) in run_specs.iter().zip(&study_runs).enumerate() {
        if let Some(outcome) = outcomes.remove(&study_run.fingerprint) {
            runs.push(run_spec.result(outcome));
            continue;
        }
        let e = errors.remove(&i).unwrap_or_else(|| RunError::Interrupted.into());
        let (label, controller) = (run_spec.label.clone(), run_spec.controller.spec());
        incomplete.push(Missing { label, controller, seed: run_spec.seed, why: e.to_string() });
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
