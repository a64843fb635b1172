//! A comparison: calibrate, then run every controller with every seed, on all cores. A seed is the same requests for all.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use fathom_netsim::backend::Backend;
use parking_lot::Mutex;

use super::calibrate::{calibrate, out_of_range};
use super::plan::{Checked, Plan};
use super::responses::ResponseLog;
use super::result::{ComparedRun, Comparison, Missing, name};
use super::run::{Rates, RunSpec};
use crate::scenario::{Cost, Progress, RunError, ScenarioError, WebLoad, Workload, computed_rate};
use crate::stack::{Controller, Stack};

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
    match compare_until(plan, watch, &Arc::default(), None)? {
        (comparison, None) => Ok(comparison),
        (_, Some(e)) => Err(e),
    }
}

/// As [`compare`]; runs that are not over when `interrupt` is set end without a result. Where runs have none, as they were interrupted or
/// failed, the comparison is of the others, says so, and the first error comes with it. Every response of its runs is kept in
/// `response_log`.
///
/// # Errors
/// The plan is wrong, or no run has a result.
pub fn compare_until(
    plan: &Plan,
    watch: &(dyn Fn(Stage) + Sync),
    interrupt: &Arc<AtomicBool>,
    response_log: Option<&ResponseLog>,
) -> Result<(Comparison, Option<ScenarioError>), ScenarioError> {
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
        response_log,
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
    // In real time runs would disturb each other: one by one, when those in virtual time are over.
    let (virtually, really): (Vec<&RunSpec<'_>>, Vec<_>) =
        run_specs.iter().partition(|c| c.backend == Backend::Virtual);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut outcomes = run_all(&virtually, cores, watch, interrupt);
    outcomes.extend(run_all(&really, 1, watch, interrupt));
    let (mut runs, mut incomplete, mut first) = (Vec::new(), Vec::new(), None);
    for (run_spec, outcome) in outcomes {
        match outcome {
            Ok(run) => runs.push(run),
            Err(e) => {
                let (label, controller) = (run_spec.label.clone(), run_spec.controller.spec());
                incomplete.push(Missing {
                    label,
                    controller,
                    seed: run_spec.seed,
                    why: e.to_string(),
                });
                first.get_or_insert(e);
            }
        }
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

/// A run, and what came of it.
type Ran<'a, 'b> = (&'a RunSpec<'b>, Result<ComparedRun, ScenarioError>);

/// Runs runs, so many at once; results in the order of the runs. None begins after the interrupt.
fn run_all<'a, 'b>(
    run_specs: &[&'a RunSpec<'b>],
    at_once: usize,
    watch: &(dyn Fn(Stage) + Sync),
    interrupt: &AtomicBool,
) -> Vec<Ran<'a, 'b>> {
    let threads = at_once.min(run_specs.len());
    let next = AtomicUsize::new(0);
    let results: Vec<_> =
        run_specs.iter().map(|_| Mutex::new(Err(RunError::Interrupted.into()))).collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let (false, Some((run_spec, slot))) = (interrupt.load(Ordering::Relaxed), {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    run_specs.get(i).zip(results.get(i))
                }) {
                    let name = run_spec.name();
                    let progress = Progress::default();
                    watch(Stage::Begins {
                        name: name.clone(),
                        of: run_spec.responses,
                        progress: Arc::clone(&progress),
                    });
                    let outcome = run_spec.run(progress);
                    if let Ok((_, cost)) = &outcome {
                        watch(Stage::Ends { name, cost: *cost });
                    }
                    *slot.lock() = outcome.map(|(result, _)| result);
                }
            });
        }
    });
    let outcomes = results.into_iter().map(|slot| slot.into_inner());
    run_specs.iter().copied().zip(outcomes).collect()
}
