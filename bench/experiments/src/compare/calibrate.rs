//! Offered load, calibrated as the paper does it (Sync-TCP §4.2): connection rates are chosen on a network that is not congested, so
//! that its links carry the wanted bit rate in each direction; the same rates then load the slower link.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fathom_metrics::round;
use fathom_netsim::backend::Backend;
use fathom_traffic::{PackMime, RateOutOfRange};

use super::plan::Checked;
use super::result::{FORWARD, REVERSE, Reference};
use super::run::{Rates, RunSpec};
use crate::scenario::{Cost, PlanError, Progress, ScenarioError};
use crate::stack::{Controller, Stack};

/// Offered load may miss the wanted one by this fraction of it.
const TOLERANCE: f64 = 0.02;
/// Runs after which the last rates are taken as they are; reports show the load that came of them.
const MAX_RUNS: u32 = 4;
/// Bytes a connection puts on the link on average, for the first guess (PackMime's mean response and a handshake).
const FIRST_GUESS_BYTES: f64 = 12_000.0;

/// The calibrated rates: the reference run made with them, and what it all cost.
pub(super) struct Calibrated {
    pub(super) rates: Rates,
    pub(super) reference: Reference,
    pub(super) cost: Cost,
}

/// A rate that a model of traffic does not have, as an error of the option that sets it.
pub(super) fn out_of_range(error: &RateOutOfRange) -> PlanError {
    let change = if error.is_too_high() { "lower" } else { "raise" };
    PlanError(format!("load: {}; {change} --load, or the rate of the link", error.finding()))
}

/// Finds the rates that offer `part` of the link. Each direction is scaled by its own miss, since a few large responses dominate either.
pub(super) fn calibrate(
    plan: &Checked,
    part: f64,
    progress: &Progress,
    interrupt: &Arc<AtomicBool>,
) -> Result<Calibrated, ScenarioError> {
    let wanted = part * plan.link.bits_per_sec() as f64;
    let stack = plan.runs.first().map_or(Stack::default(), |(stack, _)| *stack);
    // The paper used Reno.
    let controller = Controller::reference(stack).map_err(PlanError)?;
    let mut rates: Rates = [wanted / 8.0 / FIRST_GUESS_BYTES; 2];
    let mut total = Cost::default();
    for runs in 1.. {
        for rate in rates {
            PackMime::check(rate).map_err(|e| out_of_range(&e))?;
        }
        let run_spec = RunSpec {
            plan,
            label: controller.spec(),
            controller: controller.clone(),
            stack,
            link: plan.reference,
            rates,
            responses: plan.responses,
            // Once, for all seeds: they differ in the requests, not in the rates of these.
            seed: *plan.seeds.start(),
            // Rates are the plan's, wherever it runs then.
            backend: Backend::Virtual,
            interrupt: Arc::clone(interrupt),
            response_log: None,
        };
        let (outcome, cost) = run_spec.run(Arc::clone(progress))?;
        let result = run_spec.result(outcome);
        total.cpu_seconds += cost.cpu_seconds;
        total.packets += cost.packets;
        total.connections += cost.connections;
        let carried = [FORWARD, REVERSE]
            .map(|(_, link)| result.outcome.links.get(link).map_or(0.0, |l| l.throughput_bps));
        let within = carried.iter().all(|bps| (bps / wanted - 1.0).abs() <= TOLERANCE);
        if within || runs == MAX_RUNS {
            let offered =
                carried.map(|bps| round(100.0 * bps / plan.link.bits_per_sec() as f64, 2));
            let reference = Reference {
                rates: rates.map(|r| round(r, 3)),
                offered_percent: offered,
                calibration_runs: runs,
                run: result,
            };
            return Ok(Calibrated { rates, reference, cost: total });
        }
        for (rate, bps) in rates.iter_mut().zip(carried) {
            *rate *= wanted / bps.max(1.0);
        }
    }
    unreachable!("the loop ends by its count")
}
