//! A comparison: calibrate, then run every controller on the same requests, on all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::calibrate::{CalibrateError, calibrate, traffic};
use super::cell::{Cell, CellError, run};
use super::plan::{Checked, Plan, PlanError, Workload};
use super::result::{Comparison, Cost};
use super::shared::Progress;
use crate::stack::Stack;
use crate::world::Ground;

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

/// Why a comparison has no result.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The plan is wrong: the user mends it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A run failed.
    #[error(transparent)]
    Cell(#[from] CellError),
}

impl From<CalibrateError> for CompareError {
    fn from(e: CalibrateError) -> Self {
        match e {
            CalibrateError::Plan(e) => Self::Plan(e),
            CalibrateError::Cell(e) => Self::Cell(e),
        }
    }
}

/// Runs a plan. `watch` hears what happens, from several threads.
///
/// # Errors
/// The plan is wrong, or a run failed.
pub fn compare(plan: &Plan, watch: &(dyn Fn(Stage) + Sync)) -> Result<Comparison, CompareError> {
    let checked = plan.check()?;
    let responses = match checked.workload {
        Workload::PackMime => checked.responses,
        Workload::Bulk { count, .. } => count,
    };
    let (reference, traffic) = match checked.workload {
        Workload::PackMime => {
            let progress = Progress::default();
            let name = "calibration".to_owned();
            watch(Stage::Begins { name: name.clone(), of: responses, progress: Arc::clone(&progress) });
            let calibrated = calibrate(&checked, &progress)?;
            watch(Stage::Ends { name, cost: calibrated.cost });
            (Some(calibrated.reference), calibrated.traffic)
        }
        Workload::Bulk { .. } => (None, [traffic(&checked, 0, 1.0)?, traffic(&checked, 1, 1.0)?]),
    };
    let cells: Vec<Cell<'_>> = plan
        .worlds
        .iter()
        .flat_map(|ground| checked.runs.iter().map(move |(stack, control)| (*ground, *stack, control)))
        .map(|(ground, stack, control)| Cell {
            plan: &checked,
            label: name(plan, &control.spec(), stack, ground),
            controller: control.clone(),
            stack,
            link: checked.link,
            traffic: traffic.clone(),
            responses,
            ground,
        })
        .collect();
    let request_hash = format!("{:016x}", traffic[0].hash(responses));
    // In real time runs would disturb each other: one by one, when those in virtual time are over.
    let (virtually, really): (Vec<&Cell<'_>>, Vec<_>) = cells.iter().partition(|c| c.ground == Ground::Virtual);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut runs = run_all(&virtually, cores, watch)?;
    runs.extend(run_all(&really, 1, watch)?);
    runs.sort_by_key(|run| plan.worlds.iter().position(|world| *world == run.world));
    Ok(Comparison { plan: effective(plan, &checked), request_hash, runs, reference })
}

/// What a run is called: its controller, and what else tells it from the others of its plan.
pub(super) fn name(plan: &Plan, controller: &str, stack: Stack, world: Ground) -> String {
    let mut name = controller.to_owned();
    if plan.stacks.len() > 1 {
        name += &format!(" on {stack}");
    }
    if plan.worlds.len() > 1 {
        name += &format!(", {world}");
    }
    name
}

/// The plan with its controllers written the one way that reports use.
fn effective(plan: &Plan, checked: &Checked) -> Plan {
    let written = checked.runs.iter().take(plan.controllers.len()).map(|(_, control)| control.spec()).collect();
    Plan { controllers: written, ..plan.clone() }
}

/// Runs cells, so many at once; results in the order of the cells.
fn run_all(
    cells: &[&Cell<'_>],
    at_once: usize,
    watch: &(dyn Fn(Stage) + Sync),
) -> Result<Vec<super::result::RunResult>, CellError> {
    let threads = at_once.min(cells.len());
    let next = AtomicUsize::new(0);
    let results: Vec<_> = cells.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((cell, slot)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(i).zip(results.get(i))
                } {
                    let name = cell.label.clone();
                    let progress = Progress::default();
                    watch(Stage::Begins { name: name.clone(), of: cell.responses, progress: Arc::clone(&progress) });
                    let outcome = run(cell, progress);
                    if let Ok((_, cost)) = &outcome {
                        watch(Stage::Ends { name, cost: *cost });
                    }
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                }
            });
        }
    });
    results
        .into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .map(|outcome| outcome.expect("every cell was taken by a thread").map(|(result, _)| result))
        .collect()
}
