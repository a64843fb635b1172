//! Tests of packet-level TCP in place of a stack. The times of requests, responses and ends of
//! connections are computed in closed form.

use fathom_experiments::scenario::{GroupOutcome, Outcome, Progress, ScenarioSpec, run};

fn outcome(stop: &str, tcp: &str, network: &str, traffic: &str) -> Outcome {
    let text = format!(
        r#"
        stop = "{stop}"
        stack = "tcp"
        {tcp}
        [network]
        topology = "dumbbell"
        {network}
        [[traffic]]
        name = "t"
        from = "left"
        to = "right"
        {traffic}
        "#
    );
    let scenario = ScenarioSpec::from_toml(&text).unwrap().check().unwrap();
    run(&scenario, 1, &Progress::default()).unwrap().0
}

fn group(outcome: &Outcome) -> &GroupOutcome {
    &outcome.groups["t"]
}

/// TCP of the paper: an initial window of two segments, a minimum RTO of 1 s (3 s at first), and
/// delayed ACKs after 100 ms.
const PAPER: &str = r#"tcp = { recovery = "reno", initial-window = "2p", min-rto = "1s", initial-rto = "3s", delayed-ack = "100ms", counting = "acks" }"#;

#[test]
fn tcp_response_of_one_segment_takes_two_round_trips() {
    // The delay is 20 ms in each direction, without a queue. SYN, SYN-ACK, request and response
    // (with its FIN) follow each other. At 1 Gbps, packets take microseconds.
    let o = outcome(
        "1 responses",
        PAPER,
        "link = \"1Gbps\"\ndelay = \"20ms\"",
        "workload = \"bulk:1x1kB@0ms\"\ncontroller = \"reno\"",
    );
    let t = group(&o);
    let times = t.times.as_ref().unwrap();
    assert!((times.median_ms - 80.0).abs() < 0.2, "{times:?}");
    assert_eq!((t.responses, t.failed, t.connections, t.accepted), (1, 0, 1, 1));
    assert_eq!(t.body_bytes, 1_000);
    let down = &o.links["left-right"];
    // The SYN-ACK and the response of 1040 bytes. Nothing follows them before the response is
    // complete.
    assert_eq!((down.arrived, t.sent), (2, 2));
}

#[test]
fn tcp_slow_start_takes_the_computed_round_trips() {
    // 20 segments of 1380 bytes. The receiver acknowledges every second segment, and the window of
    // two segments grows by one segment per ACK.
    let o = outcome(
        "1 responses",
        PAPER,
        "link = \"1Gbps\"\ndelay = \"50ms\"",
        "workload = \"bulk:1x27600B@0ms\"\ncontroller = \"reno\"",
    );
    let times = group(&o).times.as_ref().unwrap();
    // The SYN and the request take two round trips, and slow start takes several more. After an odd
    // number of segments, the last ACK waits for the ACK timer of 100 ms.
    assert!((600.0..900.0).contains(&times.median_ms), "{times:?}");
    let modern = outcome(
        "1 responses",
        "",
        "link = \"1Gbps\"\ndelay = \"50ms\"",
        "workload = \"bulk:1x27600B@0ms\"\ncontroller = \"reno\"",
    );
    // The initial window has ten segments and the next one twenty, so the response takes little
    // more than three round trips.
    let times = group(&modern).times.as_ref().unwrap();
    assert!((times.median_ms - 300.0).abs() < 2.0, "{times:?}");
}

#[test]
fn long_tcp_flows_fill_a_link_with_every_loss_recovery() {
    for recovery in ["reno", "newreno", "sack"] {
        let o = outcome(
            "60s",
            &format!("warm-up = \"20s\"\ntcp = {{ recovery = \"{recovery}\", min-rto = \"1s\" }}"),
            "link = \"10Mbps\"\ndelay = \"20ms\"\nqueue = \"droptail:70p\"",
            "workload = \"flows:4@1s\"\ncontroller = \"reno\"\npacket = 1500",
        );
        let t = group(&o);
        // 1472 of 1500 bytes count as delivered.
        let share = t.throughput_bps / (10e6 * 1_472.0 / 1_500.0);
        assert!(share > 0.9, "{recovery}: {share} {t:?}");
        let tcp = t.tcp.unwrap();
        assert!(tcp.fast_recoveries > 5 && tcp.retransmitted >= t.lost / 2, "{recovery}: {tcp:?}");
        assert!(tcp.syn_timeouts <= 4, "{recovery}: {tcp:?}");
    }
}

#[test]
fn web_traffic_over_tcp_completes_and_runs_repeat() {
    let web = |controller: &str, connections: &str| {
        outcome(
            "400 responses",
            PAPER,
            "link = \"10Mbps\"\ndelay = \"5ms\"\nqueue = \"droptail:136p\"",
            &format!(
                "workload = \"web:70% of 10Mbps\"\ncontroller = \"{controller}\"\nconnections = \"{connections}\"\npacket = 1420"
            ),
        )
    };
    let once = web("reno", "fresh");
    assert_eq!(once, web("reno", "fresh"));
    let t = group(&once);
    assert_eq!((t.responses, t.failed), (400, 0));
    assert!((t.load.unwrap().computed_percent - 70.0).abs() < 0.5, "{:?}", t.load);
    assert_eq!(t.one_way_negotiated, 0, "Reno reads no one-way delays");
    let kept = web("reno", "persistent");
    assert!(group(&kept).connections < 400, "{} connections", group(&kept).connections);
    assert_eq!(group(&kept).request_hash, t.request_hash);
    let sync = web("sync:trust=full", "fresh");
    assert!(group(&sync).one_way_negotiated >= 400);
}

#[test]
fn tcp_scenarios_refuse_quic_only_features() {
    let text = |extra: &str| {
        format!(
            "stop = \"10s\"\nstack = \"tcp\"\n[network]\ntopology = \"dumbbell\"\n[[traffic]]\nname = \"t\"\nfrom = \"left\"\nto = \"right\"\nworkload = \"flows:1\"\ncontroller = \"reno\"\n{extra}"
        )
    };
    for (extra, expected) in [
        ("drift = 5", "drift"),
        ("streams = 3", "streams"),
        ("controller = \"native:cubic\"", "duplicate"),
        ("[keep]\nlatency = [\"t\"]", "latency"),
    ] {
        let error = match ScenarioSpec::from_toml(&text(extra)) {
            Ok(spec) => spec.check().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected) && !error.contains('\n'), "{extra}: {error}");
    }
}

#[test]
fn every_tcp_response_completes_despite_queue_drops() {
    for recovery in ["reno", "newreno", "sack"] {
        let o = outcome(
            "300 responses",
            &format!("tcp = {{ recovery = \"{recovery}\", min-rto = \"1s\" }}"),
            "link = \"10Mbps\"\ndelay = \"5ms\"\nqueue = \"droptail:3p\"",
            "workload = \"web:80% of 10Mbps\"\ncontroller = \"reno\"",
        );
        let t = group(&o);
        // A queue of three packets under initial windows of ten: SYN-ACKs, data and FINs are lost.
        assert_eq!((t.responses, t.failed), (300, 0), "{recovery}");
        assert!(
            o.links["left-right"].drops_percent > 5.0,
            "{recovery}: {:?}",
            o.links["left-right"]
        );
        let tcp = t.tcp.unwrap();
        assert!(tcp.timeouts > 20 && tcp.syn_timeouts > 2, "{recovery}: {tcp:?}");
    }
}

/// Steps from TCP to QUIC. Each step is added to all earlier steps.
#[test]
fn tcp_responses_complete_with_each_step_towards_quic() {
    let steps = [
        "recovery = \"sack\", probes = 1",
        "recovery = \"sack\", probes = 2",
        "recovery = \"sack\", probes = 2, handshake = 1228",
        "recovery = \"sack\", probes = 2, handshake = 1228, idle = \"30s\"",
    ];
    let mut up = Vec::new();
    for step in steps {
        let o = outcome(
            "300 responses",
            &format!("tcp = {{ {step}, delayed-ack = \"25ms\" }}"),
            "link = \"10Mbps\"\ndelay = \"5ms\"\nqueue = \"droptail:5p\"",
            "workload = \"web:60% of 10Mbps\"\ncontroller = \"reno\"",
        );
        let t = group(&o);
        assert_eq!((t.responses, t.failed), (300, 0), "{step}");
        assert!(
            o.links["left-right"].drops_percent > 1.0 && t.tcp.unwrap().timeouts > 5,
            "{step}: {t:?}"
        );
        up.push(o.links["right-left"].throughput_bps * o.seconds / t.connections as f64 / 8.0);
    }
    // The SYN and the ACK of the handshake have 1228 instead of 40 bytes each.
    let more = up[2] - up[1];
    assert!((2_000.0..3_500.0).contains(&more), "{more} bytes a connection more, of {up:?}");
}
