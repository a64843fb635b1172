//! Each measure over the span of time that it claims, counted a second time by another instrument or by hand.

use fathom_experiments::compare::Measure;
use fathom_experiments::scenario::{Outcome, Progress, ScenarioSpec, run};

const STACKS: &[&str] = if cfg!(feature = "quiche") { &["quinn", "noq", "quiche", "tcp"] } else { &["quinn", "noq", "tcp"] };

fn outcome(text: &str) -> Outcome {
    let scenario =
        ScenarioSpec::from_toml(text).and_then(|spec| spec.check()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    run(&scenario, 1, &Progress::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).0
}

/// A group `g` over a shallow queue of 5 Mbps, of which arrivals and drops are kept in bins of ten seconds.
fn lossy(stack: &str, times: &str, traffic: &str) -> Outcome {
    outcome(&format!(
        r#"
        {times}
        stack = "{stack}"
        [network]
        topology = "path"
        [network.path]
        rate = "5Mbps"
        rtt = "40ms"
        queue = "droptail:10p"
        [keep]
        drops = ["left-right", "right-left"]
        [[traffic]]
        name = "g"
        from = "left"
        to = "right"
        {traffic}
        "#
    ))
}

/// Twenty seconds, of which the last ten count.
const LAST_TEN: &str = "stop = \"20s\"\nwarm-up = \"10s\"";

/// Packets that arrived at a link, and those dropped, from 10 s on.
fn last_ten(outcome: &Outcome, link: &str) -> (u64, u64) {
    let drops = outcome.links[link].drops.as_ref().expect("kept");
    assert_eq!(drops.bin_seconds, 10.0);
    (drops.arrived[1], drops.dropped[1])
}

fn value(outcome: &Outcome, key: &str) -> f64 {
    Measure::named(key).expect(key).of(outcome, "g", "left-right").expect(key)
}

#[test]
fn losses_are_those_of_datagrams_sent_after_the_warm_up() {
    for &stack in STACKS {
        for (workload, link) in [("flows:2", "left-right"), ("uploads:1x100MB@1s", "right-left")] {
            if stack == "tcp" && link == "right-left" {
                continue; // It has no uploads.
            }
            let traffic = format!("workload = \"{workload}\"\ncontroller = \"reno\"");
            let outcome = lossy(stack, LAST_TEN, &traffic);
            let group = &outcome.groups["g"];
            let late = last_ten(&outcome, link);
            // The same packets, as far as the end of start-up: what a link of a run that ends then counts.
            let ended = lossy(stack, "stop = \"5s\"", &traffic);
            let start = (ended.links[link].arrived, ended.links[link].dropped);
            assert!(start.1 > 0 && late.1 > 0, "{stack} {workload}: {late:?} {start:?}");
            // Nothing lies between senders and the queue: a datagram reaches it when it is sent.
            assert_eq!((group.sent, group.lost), late, "{stack} {workload}");
            assert_eq!((group.start_up_sent, group.start_up_lost), start, "{stack} {workload}");
            let percent = |(sent, lost): (u64, u64)| 100.0 * lost as f64 / sent as f64;
            assert_eq!(value(&outcome, "datagrams_lost_percent"), percent(late), "{stack} {workload}");
            assert_eq!(value(&outcome, "start_up_loss_percent"), percent(start), "{stack} {workload}");
            let flows = group.flows.iter().fold((0, 0), |sum, flow| (sum.0 + flow.sent, sum.1 + flow.lost));
            assert!(group.flows.is_empty() || flows == late, "{stack}: {flows:?} of {late:?}");
        }
    }
}

/// Connections that end before or after the warm-up count over the same span as those that last.
#[test]
fn connections_that_end_are_counted_over_the_same_span() {
    for &stack in STACKS {
        let outcome = lossy(stack, LAST_TEN, "workload = \"flows:60x100kB@18s\"\ncontroller = \"reno\"");
        let group = &outcome.groups["g"];
        assert!(group.connections > 50 && group.flows.len() < 5, "{stack}: {} of {}", group.flows.len(), group.connections);
        // Up to the moment at which a client closes its connection: what its server sends until it hears of it is nobody's.
        let (sent, lost) = last_ten(&outcome, "left-right");
        assert!(group.sent <= sent && group.sent as f64 > 0.98 * sent as f64, "{stack}: {} of {sent}", group.sent);
        assert!(lost > 50 && group.lost <= lost && group.lost as f64 > 0.97 * lost as f64, "{stack}: {} of {lost}", group.lost);
        // What arrived of it, without headers of IP and UDP. Only what was under way at either bound makes a difference.
        let link = &outcome.links["left-right"];
        let headers = 28.0 * 8.0 * (link.arrived - link.dropped) as f64 / 10.0;
        let carried = link.throughput_bps - headers;
        assert!((group.throughput_bps - carried).abs() < 0.02 * carried, "{stack}: {} of {carried}", group.throughput_bps);
    }
}
