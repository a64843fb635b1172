//! Tests of flow control and of reported reasons of failures, with whole runs in virtual time.

use fathom_experiments::scenario::{GroupOutcome, Outcome, Progress, ScenarioSpec, run};
use fathom_experiments::stack::Stack;

/// Returns the QUIC stacks.
fn stacks() -> impl Iterator<Item = &'static str> {
    Stack::ALL.iter().map(|stack| stack.name())
}

/// Runs a scenario of one group from left to right, with one seed.
fn outcome(stack: &str, stop: &str, network: &str, traffic: &str) -> Outcome {
    let text = format!(
        "stop = \"{stop}\"\nstack = \"{stack}\"\n[network]\ntopology = \"dumbbell\"\n{network}\n[[traffic]]\nname = \"g\"\n\
         from = \"left\"\nto = \"right\"\n{traffic}"
    );
    let scenario = ScenarioSpec::from_toml(&text)
        .and_then(|spec| spec.check())
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    run(&scenario, 1, &Progress::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).0
}

fn group(stack: &str, stop: &str, network: &str, traffic: &str) -> GroupOutcome {
    outcome(stack, stop, network, traffic).groups.remove("g").unwrap()
}

#[test]
fn failed_requests_are_reported_with_the_connection_error() {
    for stack in stacks() {
        // The queue delays handshakes by 60 s, and connections give up after 2 s.
        let g = group(
            stack,
            "40s",
            "link = \"64kbps\"\ndelay = \"5s\"\nqueue = \"droptail:20p\"",
            "workload = \"flows:2x1MB\"\ncontroller = \"reno\"\nidle-timeout = \"2s\"",
        );
        assert_eq!((g.responses, g.failed), (0, 2), "{stack}");
        assert_eq!(g.failures.values().sum::<u64>(), g.failed, "{stack}: {:?}", g.failures);
        let (reason, count) = g.failures.iter().next().unwrap();
        assert_eq!(*count, 2, "{stack}: {:?}", g.failures);
        assert!(reason.contains("timed out") && g.timed_out == 2, "{stack}: {reason}");
    }
}

#[test]
fn abandoned_request_is_reported_as_its_failure_reason() {
    let g = group(
        "quinn",
        "10s",
        "link = \"1Mbps\"\ndelay = \"20ms\"\nqueue = \"droptail:20p\"",
        "workload = \"flows:1x10MB\"\ncontroller = \"reno\"\npatience = \"2s\"",
    );
    assert_eq!((g.failed, g.abandoned), (1, 1));
    assert_eq!(g.failures.iter().collect::<Vec<_>>(), [(&"the user gave up".to_owned(), &1)]);
}

/// Returns every stack, and packet-level TCP.
fn stacks_and_tcp() -> impl Iterator<Item = &'static str> {
    Stack::BUILT_IN.iter().map(|stack| stack.name())
}

/// Downloads a body of `megabytes` MB over one stream and returns the outcome of the group.
fn download(stack: &str, network: &str, megabytes: u32, fields: &str) -> GroupOutcome {
    let traffic = format!("workload = \"flows:1x{megabytes}MB\"\ncontroller = \"cubic\"\n{fields}");
    let g = group(stack, "1 responses", network, &traffic);
    assert_eq!((g.responses, g.failed), (1, 0), "{stack} on {network}: {:?}", g.failures);
    g
}

fn seconds(g: &GroupOutcome) -> f64 {
    g.times.as_ref().unwrap().max_ms / 1e3
}

#[test]
fn unlimited_flow_control_never_limits_any_stack() {
    // Rate in Mbps, RTT in ms, queue in packets, body in MB. No queue overflows, so only windows
    // can limit a transfer.
    for (rate, rtt, queue, megabytes) in
        [(1_000, 100, 20_000, 47), (144, 600, 20_000, 20), (2_000, 20, 9_000, 40)]
    {
        let network = format!(
            "link = \"{rate}Mbps\"\ndelay = \"{}ms\"\nqueue = \"droptail:{queue}p\"",
            rtt / 2
        );
        let times: Vec<(&str, f64)> = stacks_and_tcp()
            .map(|stack| (stack, seconds(&download(stack, &network, megabytes, ""))))
            .collect();
        // The time is that of the handshake, of the request, of slow start from ten packets to a
        // full pipe, and of the body at the link's rate.
        let (rtt, bytes_per_second) = (f64::from(rtt) / 1e3, f64::from(rate) * 1e6 / 8.0);
        let pipe = (bytes_per_second * rtt).min(f64::from(megabytes) * 1e6);
        let start_up = (2.0 + (pipe / 13_920.0).log2().ceil()) * rtt;
        let least = f64::from(megabytes) * 1e6 / bytes_per_second;
        for (stack, took) in &times {
            assert!(*took > least, "{stack} at {rate} Mbps: {times:?}");
            assert!(
                *took < (start_up + least) * 1.15,
                "{stack} at {rate} Mbps: {times:?}, at most {start_up} + {least} s"
            );
        }
        let took = || times.iter().map(|(_, took)| *took);
        let ratio = took().fold(0.0, f64::max) / took().fold(f64::INFINITY, f64::min);
        assert!(ratio < 1.25, "at {rate} Mbps and {rtt} s: {times:?}");
    }
}

/// A deep pipe whose queue holds a fifth of the pipe. Slow start loses thousands of packets, and
/// packets between the lost ones are received.
const OVERSHOOT: &str = "link = \"200Mbps\"\ndelay = \"125ms\"\nqueue = \"droptail:1000p\"";

#[test]
fn stream_with_thousands_of_gaps_does_not_close_connection() {
    for stack in stacks() {
        for window in ["none", "30000p"] {
            let g = download(stack, OVERSHOOT, 20, &format!("max-window = \"{window}\""));
            // The stream has more losses than the 1,024 separate pieces that quinn and noq keep.
            assert!(g.lost > 1_024, "{stack}: {} lost", g.lost);
        }
    }
}

#[test]
fn default_flow_control_windows_limit_a_long_fat_pipe() {
    // A window of 1.25 MB per RTT of 100 ms allows 12.5 MB/s, a tenth of the link: 20 MB take at
    // least 1.6 s. quiche tunes its window, so it is not tested here.
    let network = "link = \"1Gbps\"\ndelay = \"50ms\"\nqueue = \"droptail:20000p\"";
    for stack in ["quinn", "noq"] {
        let took = |fields: &str| seconds(&download(stack, network, 20, fields));
        let (own, free) = (took("max-window = \"stack\""), took(""));
        assert!(
            own > 1.6 && free < 1.6,
            "{stack}: {own} s with its own window, {free} s without a limit"
        );
    }
}
