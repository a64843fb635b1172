//! Flows of all stacks on one bottleneck in one virtual run.

use std::time::Duration;

use fathom_bench::experiment::{CompetingFlow, SharedBottleneck, SharedBottleneckResult, shared_bottleneck};
use fathom_bench::stack::{Control, Stack};
use fathom_cc::Rate;
use fathom_netsim::queue::QueueSpec;

const BODY: u64 = 2_000_000;

/// A flow of every stack with each controller, 50 ms apart.
fn of(controllers: &[&str], seed: u64) -> SharedBottleneck {
    let who = controllers.iter().flat_map(|c| Stack::ALL.iter().map(move |stack| (*c, *stack)));
    let flows = who.enumerate().map(|(i, (controller, stack))| CompetingFlow {
        stack,
        controller: Control::read(controller, stack).expect("a controller"),
        start: Duration::from_millis(50) * i as u32,
        bytes: BODY,
        misreport: None,
    });
    SharedBottleneck {
        flows: flows.collect(),
        link: Rate::from_bits_per_sec(10_000_000),
        queue: QueueSpec::droptail_packets(60),
        delay: Duration::from_millis(15),
        seed,
        limit: Duration::from_secs(120),
    }
}

fn run(c: &SharedBottleneck) -> SharedBottleneckResult {
    shared_bottleneck(c).unwrap_or_else(|e| panic!("{e}; {c:?}"))
}

/// Seconds until each flow had its body.
fn ends(r: &SharedBottleneckResult) -> Vec<f64> {
    let end = |flow: &Option<_>| match flow {
        Some(Ok(fetched)) => {
            let fetched: &fathom_bench::http::Fetched = fetched;
            assert_eq!(fetched.bytes, BODY);
            fetched.last_byte.as_secs_f64()
        }
        other => panic!("a flow got no body: {other:?}"),
    };
    r.flows.iter().map(end).collect()
}

#[test]
fn all_stacks_share_one_bottleneck_and_every_seed_has_one_course() {
    let c = of(&["reno", "sync:signal=either"], 1);
    let (first, again, other) = (run(&c), run(&c), run(&of(&["reno", "sync:signal=either"], 2)));
    assert_eq!((ends(&first), first.trace_hash), (ends(&again), again.trace_hash));
    assert_ne!(first.trace_hash, other.trace_hash, "the seed changed nothing");
    // They met: what all got crossed the one link, which was busy nearly all the time and dropped.
    let flows = c.flows.len() as f64;
    let last = ends(&first).into_iter().fold(0.0, f64::max);
    let alone = BODY as f64 * 8.0 / 10e6;
    assert!(last > flows * alone, "{last} s for {flows} flows of {alone} s");
    assert!(last < 1.5 * flows * alone, "{last} s for {flows} flows of {alone} s");
    assert!(first.bottleneck.dropped > 0, "nobody competed");
}

#[test]
fn the_same_controller_has_its_share_on_every_stack() {
    // Reno against itself: the stacks acknowledge and detect losses each in their own way, which shifts shares but starves nobody.
    let times = ends(&run(&of(&["reno"], 3)));
    let (least, most) = times.iter().fold((f64::MAX, 0.0f64), |(l, m), t| (l.min(*t), m.max(*t)));
    println!("{times:?}");
    assert!(least > 0.4 * most, "{times:?}");
}
