//! Tests with whole runs in virtual time on every stack, of each controller, ECN, smaller packets,
//! and SDC's delay.

use fathom_cc::catalogue::{self, CATALOGUE};
use fathom_experiments::compare::{ComparedRun, Comparison, Plan, compare};
use fathom_experiments::scenario::Timestamps;
use fathom_experiments::stack::{Controller, Stack};
use fathom_netsim::path::PathSpec;

/// Full datagrams of the laboratory, in bytes of UDP payload.
const DATAGRAM: f64 = 1_392.0;

fn run(plan: &Plan) -> Comparison {
    compare(plan, &|_| {}).unwrap_or_else(|e| panic!("{e}; plan: {plan:?}"))
}

fn bulk(workload: &str, controllers: &[&str]) -> Plan {
    Plan {
        controllers: controllers.iter().map(|c| (*c).to_owned()).collect(),
        stacks: Stack::ALL.to_vec(),
        workload: workload.into(),
        max_window: "none".into(),
        seeds: 1,
        ..Plan::default()
    }
}

fn pick<'a>(c: &'a Comparison, controller: &str, stack: Stack) -> &'a ComparedRun {
    c.runs.iter().find(|r| r.controller == controller && r.stack == stack).expect("it was run")
}

/// Returns whether the stack, with a shaping socket if it needs one, provides what a controller of
/// Fathom requires.
fn runs_on(name: &str, stack: Stack) -> bool {
    let config = catalogue::parse(name).expect("a controller");
    config.check(stack.provided_with_shaping()).is_ok()
}

#[test]
fn every_controller_serves_the_same_requests_on_every_stack() {
    let (names, others): (Vec<&str>, Vec<&str>) = CATALOGUE
        .iter()
        .map(|e| e.name)
        .partition(|name| Stack::ALL.iter().all(|stack| runs_on(name, *stack)));
    for name in others {
        let stacks = Stack::ALL.iter().copied().filter(|stack| runs_on(name, *stack)).collect();
        for r in &run(&Plan { stacks, ..bulk("bulk:6x200kB@40ms", &[name]) }).runs {
            assert_eq!((r.group().responses, r.group().failed), (6, 0), "{}", r.label);
        }
    }
    let c = run(&bulk("bulk:6x200kB@40ms", &names));
    assert_eq!(c.runs.len(), names.len() * Stack::ALL.len());
    for r in &c.runs {
        assert_eq!((r.group().responses, r.group().failed), (6, 0), "{}", r.label);
        assert_eq!(r.group().request_hash, c.request_hash, "{}", r.label);
        assert_eq!(r.group().one_way_percent(), 100.0, "{}", r.label);
        assert!(!r.group().window.is_empty(), "{}: no window trace", r.label);
    }
    // GCC sends downloads at its rate for media, which quinn does not honour.
    for name in names.into_iter().filter(|name| *name != "gcc") {
        let quinn = pick(&c, name, Stack::Quinn).times().expect("responses").mean_ms;
        for stack in Stack::ALL {
            let other = pick(&c, name, *stack).times().expect("responses").mean_ms;
            // Six transfers that lose packets. The controllers are the same, but the stacks treat
            // losses differently.
            assert!(
                (0.75..1.35).contains(&(other / quinn)),
                "{name}: {other} ms on {stack} against {quinn} ms"
            );
        }
    }
}

#[test]
fn stacks_agree_within_1_percent_without_losses() {
    let c = run(&bulk("bulk:1x100kB", &["reno", "cubic", "sync:signal=rtt", "vegas", "highspeed"]));
    for name in ["reno", "cubic", "highspeed"] {
        let quinn = pick(&c, name, Stack::Quinn).times().expect("responses").mean_ms;
        for stack in Stack::ALL {
            let other = pick(&c, name, *stack);
            assert_eq!(other.forward().dropped, 0, "{name} on {stack}");
            let ratio = other.times().expect("responses").mean_ms / quinn;
            assert!(
                (0.99..1.01).contains(&ratio),
                "{name}: {} ms on {stack} against {quinn}",
                other.times().expect("responses").mean_ms
            );
        }
    }
}

/// Two runs with one seed are equal, unless the table of stacks lists the controller as unseeded.
/// If a listed controller gains a seed, this test fails: remove the controller from the table.
#[test]
fn runs_of_seeded_controllers_are_repeatable() {
    // Long enough for several probes of BBRv3, which follow each other after 2 to 3 s.
    const ATTEMPTS: usize = 12;
    for stack in Stack::ALL {
        let natives = stack.natives().iter().map(|n| format!("native:{n}"));
        let ours = CATALOGUE.iter().filter(|entry| runs_on(entry.name, *stack));
        for spec in natives.chain(ours.map(|entry| entry.name.to_owned())) {
            let unseeded = !Controller::read(&spec, *stack).unwrap().is_repeatable(*stack);
            let plan = Plan {
                stacks: vec![*stack],
                path: PathSpec {
                    rate: Some("10Mbps".into()),
                    rtt: Some("40ms".into()),
                    ..PathSpec::default()
                },
                ..bulk("bulk:1x10MB@0ms", &[&spec])
            };
            let outcome = || run(&plan).runs[0].outcome.clone();
            let first = outcome();
            let attempts = if unseeded { ATTEMPTS } else { 1 };
            let differ = (0..attempts).any(|_| outcome() != first);
            assert_eq!(differ, unseeded, "{spec} on {stack}");
        }
    }
}

#[test]
fn native_controllers_can_be_run_by_name() {
    for stack in Stack::ALL {
        let names: Vec<String> = stack.natives().iter().map(|n| format!("native:{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let c = run(&Plan { stacks: vec![*stack], ..bulk("bulk:3x200kB@40ms", &names) });
        for r in &c.runs {
            assert_eq!((r.group().responses, r.group().failed), (3, 0), "{}", r.label);
            assert_eq!(
                r.group().one_way_percent(),
                0.0,
                "{}: the stack as it comes offers no extension",
                r.label
            );
            assert!(!r.group().window.is_empty(), "{}: no window trace", r.label);
        }
    }
}

#[test]
fn ecn_marks_reduce_the_sending_rate_without_any_drop() {
    // The queue marks packets long before it is full. If senders ignored the marks, it would fill.
    let marking = "red:min=5p,max=200p,limit=400p,w=0.2,maxp=1,ecn=on";
    let c = run(&Plan { queue: marking.into(), ..bulk("bulk:4x1MB@50ms", &["reno"]) });
    for stack in Stack::ALL {
        let r = pick(&c, "reno", *stack);
        assert_eq!(r.forward().dropped, 0, "{}", r.label);
        assert!(
            r.forward().marks_percent() > 0.5 && r.group().loss_reductions > 5,
            "{}: {} %",
            r.label,
            r.forward().marks_percent()
        );
        assert!(r.forward().mean_queue < 60.0, "{}: {}", r.label, r.forward().mean_queue);
    }
    // Stock quiche neither sends ECT nor reacts to marks.
    let marked = [Stack::Quinn, Stack::Noq];
    let native = bulk("bulk:4x1MB@50ms", &["native:new-reno"]);
    for native in run(&Plan { queue: marking.into(), stacks: marked.to_vec(), ..native }).runs {
        assert_eq!(native.forward().dropped, 0, "{}", native.label);
    }
    let deaf = run(&Plan {
        queue: marking.replace("ecn=on", "ecn=off"),
        ..bulk("bulk:4x1MB@50ms", &["reno"])
    });
    assert!(
        deaf.runs.iter().all(|r| r.forward().dropped > 0 && r.forward().marks_percent() == 0.0)
    );
}

#[test]
fn sdc_keeps_eight_packets_in_each_of_a_hundred_windows() {
    // SDC §3: 100 flows, RED with marks. A fair share is 100 kbps: at 50 ms, less than half a
    // packet per round trip.
    // The flow whose windows are traced has to last: with seed 3 it does on all stacks.
    let plan =
        Plan { queue: "red".into(), seed: 3, ..bulk("bulk:100x500kB@20ms", &["reno", "sdc"]) };
    let c = run(&plan);
    for stack in Stack::ALL {
        let (reno, sdc) = (pick(&c, "reno", *stack), pick(&c, "sdc", *stack));
        assert_eq!((sdc.group().responses, sdc.group().failed), (100, 0), "{}", sdc.label);
        let settled: Vec<_> = sdc
            .group()
            .window
            .iter()
            .filter(|p| p.at > 10.0 && p.at < sdc.outcome.seconds / 2.0)
            .collect();
        assert!(settled.len() > 30, "{}: {} points", sdc.label, settled.len());
        let eight = settled.iter().filter(|p| p.window as f64 >= 8.0 * DATAGRAM).count();
        assert!(eight * 10 >= settled.len() * 9, "{}: {eight} of {}", sdc.label, settled.len());
        let holds: Vec<f64> = settled.iter().filter_map(|p| p.hold_ms).collect();
        let mean = holds.iter().sum::<f64>() / holds.len() as f64;
        // Eight packets of 1420 bytes at 100 kbps take 909 ms, which is the sum of RTT and D for a
        // flow with its fair share. quiche acknowledges every packet, so marks come one by one. D
        // grows with each mark, and was 5 s for the flow traced here.
        assert!((200.0..10_000.0).contains(&mean), "{}: mean D {mean} ms", sdc.label);
        // With seeds 1 to 4 on quinn, SDC has 2.9 to 3.1 times fewer drops than Reno.
        assert!(
            sdc.forward().drops_percent * 2.5 < reno.forward().drops_percent,
            "{}: {} %",
            sdc.label,
            sdc.forward().drops_percent
        );
        println!(
            "{stack}: drops {} % (reno {} %), mean D {mean:.0} ms, median response {} ms (reno {})",
            sdc.forward().drops_percent,
            reno.forward().drops_percent,
            sdc.times().expect("responses").median_ms,
            reno.times().expect("responses").median_ms
        );
    }
}

#[test]
fn packet_size_shrinks_packets_when_the_window_is_small() {
    let c = run(&bulk("bulk:100x120kB@1ms", &["reno", "packet-size"]));
    for stack in Stack::ALL {
        let (reno, small) = (pick(&c, "reno", *stack), pick(&c, "packet-size", *stack));
        assert_eq!((small.group().responses, small.group().failed), (100, 0), "{}", small.label);
        let sizes: Vec<u16> = small.group().window.iter().filter_map(|p| p.datagram).collect();
        assert!(
            sizes.contains(&1_392) && sizes.iter().any(|s| *s <= 500),
            "{}: {sizes:?}",
            small.label
        );
        // More and smaller packets crossed the bottleneck for the same bodies.
        let size = |r: &ComparedRun| {
            r.forward().throughput_bps * r.outcome.seconds
                / 8.0
                / (r.forward().arrived - r.forward().dropped) as f64
        };
        assert!(
            size(small) < 0.7 * size(reno),
            "{}: {} against {} bytes",
            small.label,
            size(small),
            size(reno)
        );
    }
}

#[test]
fn sync_performs_alike_with_lean_and_paper_timestamps() {
    const SEEDS: u64 = 6;
    let runs = |timestamps| {
        let plan = Plan {
            timestamps,
            max_window: "68p".into(),
            seeds: SEEDS,
            ..bulk("bulk:40x300kB@200ms", &["sync:cut=round"])
        };
        let runs = run(&plan).runs;
        runs.chunks(SEEDS as usize).map(<[_]>::to_vec).collect::<Vec<_>>()
    };
    let mean = |runs: &[ComparedRun]| {
        runs.iter().map(|run| run.times().expect("responses").mean_ms).sum::<f64>() / SEEDS as f64
    };
    let early =
        |runs: &[ComparedRun]| runs.iter().map(|run| run.group().early_reductions).sum::<u64>();
    let (lean, paper) = (runs(Timestamps::Lean), runs(Timestamps::Paper));
    for others in [runs(Timestamps::Timestamp), runs(Timestamps::Receive)] {
        for (lean, other) in lean.iter().zip(&others) {
            let label = &lean[0].label;
            let ratio = mean(other) / mean(lean);
            println!("{label}: mean {} (lean) {} ms (another frame)", mean(lean), mean(other));
            assert!((0.95..1.05).contains(&ratio), "{label}: {ratio}");
            let one_way = other.iter().map(|run| run.group().one_way_percent());
            assert!(one_way.clone().all(|part| part == 100.0), "{label}: {one_way:?}");
        }
    }
    for (lean, paper) in lean.iter().zip(&paper) {
        let label = &lean[0].label;
        let (ratio, cuts) = (mean(paper) / mean(lean), early(paper) as f64 / early(lean) as f64);
        println!(
            "{label}: mean {} (lean) {} ms (paper), early cuts {} and {}",
            mean(lean),
            mean(paper),
            early(lean),
            early(paper)
        );
        assert!((0.9..1.1).contains(&ratio), "{label}: {ratio}");
        assert!(early(lean) > 150 && early(paper) > 150, "{label}");
        assert!((0.6..1.7).contains(&cuts), "{label}: {cuts}");
    }
}

#[test]
fn runs_are_repeatable_on_every_stack() {
    let plan = Plan {
        queue: "red".into(),
        ..bulk("bulk:10x100kB@20ms", &["sync", "sdc", "packet-size/sync"])
    };
    assert_eq!(run(&plan), run(&plan));
}
