//! Tests that each measure covers the time span that it claims. Each value is compared with a
//! second count, made by another instrument or by hand.

use fathom_experiments::measures::Measure;
use fathom_experiments::scenario::{Outcome, Progress, ScenarioSpec, run};

const STACKS: &[&str] = if cfg!(feature = "quiche") {
    &["quinn", "noq", "quiche", "tcp"]
} else {
    &["quinn", "noq", "tcp"]
};

fn outcome(text: &str) -> Outcome {
    let scenario = ScenarioSpec::from_toml(text)
        .and_then(|spec| spec.check())
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    run(&scenario, 1, &Progress::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).0
}

/// Runs a group `g` over a shallow queue of 5 Mbps. Arrivals and drops of the links are kept in
/// bins of ten seconds.
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

/// A run of 20 s whose last 10 s are measured.
const LAST_TEN: &str = "stop = \"20s\"\nwarm-up = \"10s\"";

/// Returns the number of packets that arrived at a link from 10 s on, and how many of these packets
/// were dropped.
fn last_ten(outcome: &Outcome, link: &str) -> (u64, u64) {
    let drops = outcome.links[link].drops.as_ref().expect("kept");
    assert_eq!(drops.bin_seconds, 10.0);
    (drops.arrived[1], drops.dropped[1])
}

fn value(outcome: &Outcome, key: &str) -> f64 {
    Measure::named(key).expect(key).of(outcome, "g", "left-right").expect(key)
}

#[test]
fn loss_counts_include_only_datagrams_sent_after_warm_up() {
    for &stack in STACKS {
        for (workload, link) in [("flows:2", "left-right"), ("uploads:1x100MB@1s", "right-left")] {
            if stack == "tcp" && link == "right-left" {
                continue; // Packet-level TCP has no uploads.
            }
            let traffic = format!("workload = \"{workload}\"\ncontroller = \"reno\"");
            let outcome = lossy(stack, LAST_TEN, &traffic);
            let group = &outcome.groups["g"];
            let late = last_ten(&outcome, link);
            // Packets that the link counts in a run that ends at the end of start-up.
            let ended = lossy(stack, "stop = \"5s\"", &traffic);
            let start = (ended.links[link].arrived, ended.links[link].dropped);
            assert!(start.1 > 0 && late.1 > 0, "{stack} {workload}: {late:?} {start:?}");
            // Nothing lies between the senders and the queue, so a datagram reaches the queue when
            // it is sent.
            assert_eq!((group.sent, group.lost), late, "{stack} {workload}");
            assert_eq!((group.start_up_sent, group.start_up_lost), start, "{stack} {workload}");
            let percent = |(sent, lost): (u64, u64)| 100.0 * lost as f64 / sent as f64;
            assert_eq!(
                value(&outcome, "datagrams_lost_percent"),
                percent(late),
                "{stack} {workload}"
            );
            assert_eq!(
                value(&outcome, "start_up_loss_percent"),
                percent(start),
                "{stack} {workload}"
            );
            let flows =
                group.flows.iter().fold((0, 0), |sum, flow| (sum.0 + flow.sent, sum.1 + flow.lost));
            assert!(group.flows.is_empty() || flows == late, "{stack}: {flows:?} of {late:?}");
        }
    }
}

/// The counts cover the same span (after the warm-up) for connections that end before or after
/// the end of the warm-up as for connections that last until the end of the run.
#[test]
fn ended_connections_are_counted_over_the_same_time_span() {
    for &stack in STACKS {
        let outcome =
            lossy(stack, LAST_TEN, "workload = \"flows:60x100kB@18s\"\ncontroller = \"reno\"");
        let group = &outcome.groups["g"];
        assert!(
            group.connections > 20 && group.flows.len() < 5,
            "{stack}: {} of {}",
            group.flows.len(),
            group.connections
        );
        // The group counts until a client closes its connection. Packets that the server sends
        // before it learns of the close are not counted.
        let (sent, lost) = last_ten(&outcome, "left-right");
        assert!(
            group.sent <= sent && group.sent as f64 > 0.98 * sent as f64,
            "{stack}: {} of {sent}",
            group.sent
        );
        assert!(
            lost > 50 && group.lost <= lost && group.lost as f64 > 0.97 * lost as f64,
            "{stack}: {} of {lost}",
            group.lost
        );
        // This is the throughput of the link without IP and UDP headers. It differs from that of
        // the group only by the packets in flight at either end of the span.
        let link = &outcome.links["left-right"];
        let headers = 28.0 * 8.0 * (link.arrived - link.dropped) as f64 / 10.0;
        let carried = link.throughput_bps - headers;
        assert!(
            (group.throughput_bps - carried).abs() < 0.02 * carried,
            "{stack}: {} of {carried}",
            group.throughput_bps
        );
    }
}

/// Returns the counts of a group, of its link and of the packet-level traffic beside it, each as a
/// number that grows with time.
fn counters(outcome: &Outcome) -> Vec<(&'static str, f64)> {
    let (group, link) = (&outcome.groups["g"], &outcome.links["left-right"]);
    let (tcp, did) = (group.tcp.unwrap_or_default(), link.impairments.expect("a path that loses"));
    let background = &outcome.background;
    let seconds = outcome.counted();
    let mut all = vec![
        ("sent", group.sent as f64),
        ("lost", group.lost as f64),
        ("bytes", (group.throughput_bps * seconds / 8.0).round()),
        ("timeouts", group.timeouts() as f64),
        ("silences", group.silences as f64),
        ("backoffs", group.backoffs as f64),
        ("cuts", group.loss_reductions as f64),
        ("early cuts", group.early_reductions as f64),
        ("sent again by TCP", tcp.retransmitted as f64),
        ("TCP's recoveries", tcp.fast_recoveries as f64),
        ("arrived", link.arrived as f64),
        ("dropped", link.dropped as f64),
        ("reached the path", did.arrived as f64),
        ("lost on the path", did.lost as f64),
        ("carried", (link.throughput_bps * seconds / 8.0).round()),
    ];
    for (name, flows) in [("web", background["web"]), ("udp", background["udp"])] {
        assert_eq!(flows.flows, 2, "{name}");
        all.extend([
            ("packet level: sent", flows.sent as f64),
            ("packet level: lost", flows.lost as f64),
            ("packet level: transfers", flows.transfers as f64),
            ("packet level: bytes", (flows.throughput_bps * seconds / 8.0).round()),
        ]);
    }
    all
}

/// The counts before and after a time add up to the counts of the whole run: all counters begin at
/// the same time.
#[test]
fn counts_before_and_after_warm_up_add_up_to_the_whole_run() {
    for &stack in STACKS {
        for controller in ["reno", "vegas"] {
            let run = |times: &str| {
                outcome(&format!(
                    r#"
                    {times}
                    stack = "{stack}"
                    [network]
                    topology = "path"
                    [network.path]
                    rate = "5Mbps"
                    rtt = "40ms"
                    loss = "1%"
                    queue = "droptail:10p"
                    events = ["blackout:1s@4s", "blackout:1s@14s"]
                    [[traffic]]
                    name = "g"
                    from = "left"
                    to = "right"
                    workload = "flows:3"
                    controller = "{controller}"
                    [[background]]
                    name = "web"
                    from = "left"
                    to = "right"
                    workload = "users:2 idle 100ms..400ms"
                    controller = "reno"
                    [[background]]
                    name = "udp"
                    from = "left"
                    to = "right"
                    workload = "udp:2 at 400kbps on 200ms off 300ms"
                    "#
                ))
            };
            let (whole, first, second) =
                (run("stop = \"20s\""), run("stop = \"10s\""), run(LAST_TEN));
            assert_eq!(whole.trace_hash, second.trace_hash, "counting changes no packet");
            let mut seen = 0;
            let parts = counters(&first).into_iter().zip(counters(&second));
            for ((name, all), ((_, before), (_, after))) in counters(&whole).into_iter().zip(parts)
            {
                // Rates are rounded to one bit per second. UDP packets in flight at the end of the
                // first half are not lost.
                let slack = if name.contains("bytes") || name == "carried" { 4.0 } else { 0.0 };
                let slack = if name == "packet level: lost" { 12.0 } else { slack };
                assert!(
                    (before + after - all).abs() <= slack,
                    "{stack} {controller} {name}: {before} + {after}, {all} in all"
                );
                seen += usize::from(before > 0.0 && after > 0.0);
            }
            assert!(
                seen >= 15,
                "{stack} {controller}: {seen} counters counted anything in both halves"
            );
        }
    }
}

/// Seven requests, one every two seconds from 0 s on, over a path that carries nothing from 2 to 3
/// s and from 6 to 9 s. Users wait for one second.
#[test]
fn requests_are_counted_by_their_start_time() {
    for &stack in STACKS {
        let run = |times: &str| {
            outcome(&format!(
                r#"
                {times}
                stack = "{stack}"
                [network]
                topology = "path"
                [network.path]
                rate = "100Mbps"
                rtt = "40ms"
                queue = "droptail:100p"
                events = ["blackout:1s@2s", "blackout:3s@6s"]
                [[traffic]]
                name = "g"
                from = "left"
                to = "right"
                workload = "bulk:7x10kB@2s"
                controller = "reno"
                patience = "1s"
                "#
            ))
        };
        let numbers = |outcome: &Outcome| {
            let group = &outcome.groups["g"];
            assert_eq!(
                group.times.as_ref().map_or(0, |times| times.count),
                group.responses,
                "{stack}"
            );
            assert_eq!(group.body_bytes, 10_000 * group.responses, "{stack}");
            assert_eq!(group.failures.values().sum::<u64>(), group.failed, "{stack}");
            [group.responses, group.failed, group.abandoned, group.unfinished, group.connections]
        };
        // The requests of 0, 4 and 10 s are completed. Those of 2, 6 and 8 s fail, because nothing
        // gets through. The run ends before the request of 12 s is completed.
        assert_eq!(numbers(&run("stop = \"12.01s\"")), [3, 3, 3, 1, 7], "{stack}");
        // In the span from 5 s on, the request of 10 s is completed, the requests of 6 and 8 s
        // fail, and the request of 12 s is unfinished.
        let counted = run("stop = \"12.01s\"\nwarm-up = \"5s\"");
        assert_eq!(numbers(&counted), [1, 2, 2, 1, 4], "{stack}");
        // One response, which takes a handshake, a request and one or two windows at an RTT of 40
        // ms.
        let time = value(&counted, "response_time_mean_ms");
        assert!(
            (80.0..170.0).contains(&time)
                && (counted.groups["g"].times.as_ref().unwrap().max_ms / time - 1.0).abs() < 0.002,
            "{stack}: {time}"
        );
        for (key, is) in [
            ("responses", 1.0),
            ("requests_failed", 2.0),
            ("requests_unfinished", 1.0),
            ("response_size_mean_bytes", 10_000.0),
        ] {
            assert_eq!(value(&counted, key), is, "{stack} {key}");
        }
        let goodput = value(&counted, "goodput_per_response_kbps");
        assert!(
            (goodput * time / 80_000.0 - 1.0).abs() < 0.01,
            "{stack}: 80 kbit in {time} ms are no {goodput} kbps"
        );
        assert_eq!(counted.counted(), 7.01, "{stack}");
    }
}
