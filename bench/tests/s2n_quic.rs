//! s2n-quic under its own controllers, in virtual time beside quinn.

#![cfg(feature = "s2n-quic")]

use fathom_bench::experiment::{Comparison, Plan, RunResult, compare};
use fathom_bench::scenario::Connections;
use fathom_bench::stack::Stack;

const NATIVES: [&str; 2] = ["native:cubic", "native:bbr"];

fn plan(workload: &str, stacks: &[Stack]) -> Plan {
    Plan {
        controllers: NATIVES.map(str::to_owned).to_vec(),
        stacks: stacks.to_vec(),
        workload: workload.into(),
        max_window: "none".into(),
        ..Plan::default()
    }
}

fn run(plan: &Plan) -> Comparison {
    compare(plan, &|_| {}).unwrap_or_else(|e| panic!("{e}; plan: {plan:?}"))
}

fn hashes(c: &Comparison) -> Vec<&str> {
    c.runs.iter().map(|r| r.trace_hash.as_str()).collect()
}

/// Bytes on the wire of the packets that crossed the bottleneck, on average.
fn size(r: &RunResult) -> f64 {
    r.throughput_bps * r.seconds / 8.0 / (r.arrived - r.dropped) as f64
}

#[test]
fn its_controllers_run_beside_quinns_and_twice_the_same() {
    let plan = plan("bulk:6x400kB@40ms", &[Stack::Quinn, Stack::S2nQuic]);
    let (c, again) = (run(&plan), run(&plan));
    assert_eq!(hashes(&c), hashes(&again));
    for r in &c.runs {
        assert_eq!((r.responses, r.failed), (6, 0), "{}", r.label);
        assert_eq!(r.request_hash, c.request_hash, "{}", r.label);
        assert_eq!(r.one_way_percent, 0.0, "{}: it offers no extension", r.label);
        assert!(r.window.len() > 20, "{}: {} points", r.label, r.window.len());
        // As far as acknowledgements of requests leave it so, all are of the lab's 1420 bytes.
        assert!((1_300.0..=1_420.0).contains(&size(r)), "{}: {} bytes", r.label, size(r));
    }
    let [_, _, cubic, bbr] = &c.runs[..] else { panic!("{} runs", c.runs.len()) };
    assert_ne!(cubic.trace_hash, bbr.trace_hash, "both ran the same controller");
    // Every flow leaves slow start by a loss, or loses none.
    assert!(cubic.dropped == 0 || cubic.loss_reductions > 0, "{} drops, no cut", cubic.dropped);
    assert!(cubic.window.windows(2).any(|w| w[1].window < w[0].window), "the window shown never falls");
}

#[test]
fn marks_slow_its_cubic_down() {
    let queue = "red:min=5p,max=200p,limit=400p,w=0.2,maxp=1,ecn=on".to_owned();
    let controllers = vec!["native:cubic".to_owned()];
    let c = run(&Plan { queue, controllers, ..plan("bulk:4x1MB@50ms", &[Stack::S2nQuic]) });
    let r = &c.runs[0];
    // Until it has validated ECN it sends some packets unmarked, which the queue drops.
    assert!(r.dropped <= 4, "{} drops", r.dropped);
    assert!(r.marks_percent > 0.5 && r.loss_reductions > 5, "{} %, {} cuts", r.marks_percent, r.loss_reductions);
}

#[test]
fn web_traffic_on_kept_connections_completes() {
    // The load is set on s2n-quic itself: Reno, which sets it elsewhere, does not run there.
    let controllers = vec!["native:bbr".to_owned()];
    let plan = Plan { responses: 40, controllers, ..plan("packmime", &[Stack::S2nQuic]) };
    let c = run(&Plan { connections: Connections::Persistent, ..plan });
    assert_eq!((c.runs[0].responses, c.runs[0].failed), (40, 0));
}

#[test]
fn our_controllers_are_refused_and_its_own_named() {
    let plan = Plan { controllers: vec!["reno".into()], ..plan("packmime", &[Stack::S2nQuic]) };
    let error = plan.validate().unwrap_err().to_string();
    assert!(error.contains("native:cubic") && error.contains("quinn") && !error.contains('\n'), "{error}");
}
