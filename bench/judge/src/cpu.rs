//! CPU time per ACK frame, compared with the reference's. RFC 9743 has no section for this
//! measure. The value depends on the machine and varies between runs, so a scorecard contains it
//! only on request.

use std::collections::BTreeMap;
use std::hint::black_box;

use fathom_ack_cost::QuinnLoad;
use fathom_cc::Invalid;
use fathom_cc::testing::ack_load::{FRAMES, acknowledge_all, fresh};
use fathom_metrics::{Estimate, median};
use fathom_stacks::{Controller, Stack};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::battery::{CPU_PER_ACK, Threshold};
use crate::plan::JudgePlan;
use crate::value::Value;
use crate::verdict::Verdict;

/// Number of rounds in which both controllers take turns. The interval is computed over rounds, so
/// machine load that affects both controllers of a round cancels out.
const ROUNDS: usize = 40;
/// Number of runs of a thousand frames in a turn. A turn takes one or two milliseconds.
const RUNS: u64 = 30;

/// Cost of a controller's work on an ACK frame of two packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuPerAck {
    /// CPU time in nanoseconds: median over the rounds.
    pub nanoseconds: f64,
    /// Reference's CPU time in nanoseconds.
    pub reference_nanoseconds: f64,
    /// Percentage of the reference's time in the same round: mean and 95% interval over rounds.
    pub percent_of_reference: Estimate,
    /// Verdict.
    pub verdict: Verdict,
}

impl CpuPerAck {
    /// Describes the result in a sentence.
    pub(crate) fn text(&self, thresholds: &BTreeMap<String, Threshold>) -> String {
        format!(
            "CPU time per ACK frame: {:.0} ns, reference {:.0} ns, {} % of the reference's; \
             threshold {}: {}. The time depends on this machine, and RFC 9743 does not require \
             this check.",
            self.nanoseconds,
            self.reference_nanoseconds,
            self.percent_of_reference,
            thresholds.get(CPU_PER_ACK).map(Threshold::text).unwrap_or_default(),
            self.verdict.text()
        )
    }
}

/// Gives the controller and the first reference the same ACK frames in turns, and measures this thread's
/// CPU time.
///
/// # Errors
/// Returns an error if the controller or the reference is a stack's own and the stack is not quinn.
pub fn cpu_per_ack(plan: &JudgePlan) -> Result<CpuPerAck, Invalid> {
    let stack = plan.settings.stack;
    let turns = [load(&plan.settings.controller, stack)?, load(&plan.settings.against[0], stack)?];
    let turn = |load: &Load| {
        let before = thread_nanoseconds();
        (0..RUNS).for_each(|_| {
            black_box(load());
        });
        (thread_nanoseconds() - before) as f64 / (RUNS * FRAMES) as f64
    };
    // The first turn warms the caches.
    let _ = turns.each_ref().map(turn);
    let [mut own, mut reference] = [(); 2].map(|()| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        own.push(turn(&turns[0]));
        reference.push(turn(&turns[1]));
    }
    let percent: Vec<f64> =
        own.iter().zip(&reference).map(|(own, reference)| 100.0 * own / reference).collect();
    let percent_of_reference = Estimate::of(&percent)
        .ok_or(Invalid::because("this machine's CPU clock does not advance"))?;
    Ok(CpuPerAck {
        nanoseconds: median(&own).unwrap_or_default(),
        reference_nanoseconds: median(&reference).unwrap_or_default(),
        verdict: Verdict::of(
            &Value::with(&percent_of_reference, 1, |x| x),
            &plan.battery.thresholds[CPU_PER_ACK],
        ),
        percent_of_reference,
    })
}

/// A thousand ACK frames for a controller in its initial state.
type Load = Box<dyn Fn() -> u64>;

fn load(spec: &str, stack: Stack) -> Result<Load, Invalid> {
    let refused = |e: &dyn std::fmt::Display| Invalid::because(e.to_string());
    Ok(match Controller::read(spec, stack).map_err(|e| refused(&e))? {
        Controller::Fathom(config) => {
            let controller = fresh(&*config).map_err(|e| refused(&e))?;
            Box::new(move || acknowledge_all(&mut *controller.boxed()))
        }
        Controller::Native(name) if stack == Stack::Quinn => {
            let load = QuinnLoad::new();
            let controller = load.fresh(fathom_stacks::quinn::native(name));
            Box::new(move || load.run(controller.clone_box()))
        }
        Controller::Native(name) => {
            let problem = format!(
                "cannot run outside {stack}; only quinn's native controllers can run \
                    outside their stack"
            );
            return Err(Invalid::value(&format!("native:{name}"), problem));
        }
    })
}

fn thread_nanoseconds() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec.unsigned_abs() * 1_000_000_000 + t.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Battery, Depth, Profile, Settings};

    fn plan(controller: &str, stack: Stack) -> JudgePlan {
        let settings = Settings {
            controller: controller.to_owned(),
            against: vec!["cubic".to_owned()],
            stack,
            depth: Depth::Quick,
            seeds: None,
            only: vec!["6.1".to_owned()],
            backend: fathom_netsim::backend::Backend::Virtual,
            scale: 1.0,
        };
        JudgePlan::new(Battery::shipped(Profile::default()), settings).unwrap()
    }

    /// Tests that medians and means exist, whatever the machine's speed.
    #[test]
    fn cpu_cost_is_measured_or_refused_for_every_controller() {
        for controller in ["vegas", "sync", "native:bbr"] {
            let cpu = cpu_per_ack(&plan(controller, Stack::Quinn)).unwrap();
            assert!(
                cpu.nanoseconds > 0.0 && cpu.reference_nanoseconds > 0.0,
                "{controller}: {cpu:?}"
            );
            assert_eq!(cpu.percent_of_reference.n, ROUNDS, "{controller}");
        }
        assert!(
            cpu_per_ack(&plan("native:bbr3", Stack::Noq))
                .unwrap_err()
                .problem
                .contains("only quinn's")
        );
    }
}
