//! s2n-quic under its own controllers, in virtual time beside quinn.

#![cfg(feature = "s2n-quic")]

use fathom_experiments::compare::{ComparedRun, Comparison, Plan, compare};
use fathom_experiments::scenario::Connections;
use fathom_experiments::stack::Stack;

const NATIVES: [&str; 2] = ["native:cubic", "native:bbr"];

fn plan(workload: &str, stacks: &[Stack]) -> Plan {
    Plan {
        controllers: NATIVES.map(str::to_owned).to_vec(),
        stacks: stacks.to_vec(),
        workload: workload.into(),
        max_window: "none".into(),
        seeds: 1,
        ..Plan::default()
    }
}

fn run(plan: &Plan) -> Comparison {
    compare(plan, &|_| {}).unwrap_or_else(|e| panic!("{e}; plan: {plan:?}"))
}

fn hashes(c: &Comparison) -> Vec<&str> {
    c.runs.iter().map(|r| r.outcome.trace_hash.as_str()).collect()
}

/// Bytes on the wire of the packets that crossed the bottleneck, on average.
fn size(r: &ComparedRun) -> f64 {
    r.forward().throughput_bps * r.outcome.seconds / 8.0 / (r.forward().arrived - r.forward().dropped) as f64
}

#[test]
fn its_controllers_run_beside_quinns_and_twice_the_same() {
    let plan = plan("bulk:6x400kB@40ms", &[Stack::Quinn, Stack::S2nQuic]);
    let (c, again) = (run(&plan), run(&plan));
    assert_eq!(hashes(&c), hashes(&again));
    for r in &c.runs {
        assert_eq!((r.group().responses, r.group().failed), (6, 0), "{}", r.label);
        assert_eq!(r.group().request_hash, c.request_hash, "{}", r.label);
        assert_eq!(r.group().one_way_percent(), 0.0, "{}: it offers no extension", r.label);
        assert!(r.group().window.len() > 20, "{}: {} points", r.label, r.group().window.len());
        // As far as acknowledgements of requests leave it so, all are of the lab's 1420 bytes.
        assert!((1_300.0..=1_420.0).contains(&size(r)), "{}: {} bytes", r.label, size(r));
    }
    let [_, _, cubic, bbr] = &c.runs[..] else { panic!("{} runs", c.runs.len()) };
    assert_ne!(cubic.outcome.trace_hash, bbr.outcome.trace_hash, "both ran the same controller");
    // Every flow leaves slow start by a loss, or loses none.
    assert!(
        cubic.forward().dropped == 0 || cubic.group().loss_reductions > 0,
        "{} drops, no cut",
        cubic.forward().dropped
    );
    assert!(cubic.group().window.windows(2).any(|w| w[1].window < w[0].window), "the window shown never falls");
}

#[test]
fn marks_slow_its_cubic_down() {
    let queue = "red:min=5p,max=200p,limit=400p,w=0.2,maxp=1,ecn=on".to_owned();
    let controllers = vec!["native:cubic".to_owned()];
    let c = run(&Plan { queue, controllers, ..plan("bulk:4x1MB@50ms", &[Stack::S2nQuic]) });
    let r = &c.runs[0];
    // Until it has validated ECN it sends some packets unmarked, which the queue drops.
    assert!(r.forward().dropped <= 4, "{} drops", r.forward().dropped);
    assert!(
        r.forward().marks_percent() > 0.5 && r.group().loss_reductions > 5,
        "{} %, {} cuts",
        r.forward().marks_percent(),
        r.group().loss_reductions
    );
}

#[test]
fn web_traffic_on_kept_connections_completes() {
    // The load is set on s2n-quic itself: Reno, which sets it elsewhere, does not run there.
    let controllers = vec!["native:bbr".to_owned()];
    let plan = Plan { responses: 40, controllers, ..plan("packmime", &[Stack::S2nQuic]) };
    let c = run(&Plan { connections: Connections::Persistent, ..plan });
    assert_eq!((c.runs[0].group().responses, c.runs[0].group().failed), (40, 0));
}

#[test]
fn our_controllers_are_refused_and_its_own_named() {
    let plan = Plan { controllers: vec!["reno".into()], ..plan("packmime", &[Stack::S2nQuic]) };
    let error = plan.validate().unwrap_err().to_string();
    assert!(error.contains("native:cubic") && error.contains("quinn") && !error.contains('\n'), "{error}");
}
