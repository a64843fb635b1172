//! Flows of all stacks on one bottleneck in one virtual run.

use std::time::Duration;

use fathom_experiments::scenario::{Outcome, Progress, Scenario, ScenarioSpec, run};
use fathom_experiments::stack::Stack;

const BODY: u64 = 2_000_000;
/// Time between the starts of two flows.
const EVERY: Duration = Duration::from_millis(50);

/// Returns a scenario with a flow of every stack for each controller, 50 ms apart.
fn of(controllers: &[&str]) -> Scenario {
    let who: Vec<_> =
        controllers.iter().flat_map(|c| Stack::ALL.iter().map(move |stack| (c, stack))).collect();
    let mut text = format!(
        "stop = '{} responses'\n[network]\ntopology = 'dumbbell'\nlink = '10Mbps'\ndelay = '15ms'\nqueue = 'droptail:60p'\n",
        who.len()
    );
    for (i, (controller, stack)) in who.into_iter().enumerate() {
        text += &format!(
            "[[traffic]]\nname = '{i:02}'\nstack = '{stack}'\nfrom = 'left'\nto = 'right'\ncontroller = '{controller}'\n\
             workload = 'flows:1x{BODY}B after {}ms'\naccess.queues = 'none'\n",
            EVERY.as_millis() * i as u128
        );
    }
    ScenarioSpec::from_toml(&text)
        .and_then(|spec| spec.check())
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn outcome(scenario: &Scenario, seed: u64) -> Outcome {
    run(scenario, seed, &Progress::default()).unwrap_or_else(|e| panic!("{e}; {scenario:?}")).0
}

/// Returns the seconds from the start of the run until each flow had its body.
fn ends(outcome: &Outcome) -> Vec<f64> {
    let end =
        |(i, (name, group)): (usize, (&String, &fathom_experiments::scenario::GroupOutcome))| {
            assert_eq!(
                (group.responses, group.failed, group.body_bytes),
                (1, 0, BODY),
                "flow {name}"
            );
            let took = group.times.as_ref().expect("it ended").mean_ms / 1e3;
            EVERY.as_secs_f64() * i as f64 + took
        };
    outcome.groups.iter().enumerate().map(end).collect()
}

#[test]
fn stacks_share_one_bottleneck_and_runs_repeat_by_seed() {
    let c = of(&["reno", "sync:signal=either"]);
    let (first, again, other) = (outcome(&c, 1), outcome(&c, 1), outcome(&c, 2));
    assert_eq!((ends(&first), &first.trace_hash), (ends(&again), &again.trace_hash));
    assert_ne!(first.trace_hash, other.trace_hash, "the seed changed nothing");
    // The flows share one link, which is busy nearly all the time and drops packets.
    let flows = c.traffic.len() as f64;
    let last = ends(&first).into_iter().fold(0.0, f64::max);
    let alone = BODY as f64 * 8.0 / 10e6;
    assert!(last > flows * alone, "{last} s for {flows} flows of {alone} s");
    assert!(last < 1.5 * flows * alone, "{last} s for {flows} flows of {alone} s");
    assert!(first.links["left-right"].dropped > 0, "nobody competed");
}

#[test]
fn reno_on_any_stack_starves_no_reno_flow_of_another_stack() {
    // All flows use Reno. Each stack acknowledges and detects losses in its own way, which shifts
    // the shares but starves no flow.
    let times = ends(&outcome(&of(&["reno"]), 3));
    let (least, most) = times.iter().fold((f64::MAX, 0.0f64), |(l, m), t| (l.min(*t), m.max(*t)));
    println!("{times:?}");
    assert!(least > 0.4 * most, "{times:?}");
}
