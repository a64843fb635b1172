//! Tests of the effects of a path on real connections. The expected times, rates and losses can be
//! computed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fathom_experiments::scenario::{Outcome, ScenarioSpec, run};

/// Runs one transfer over a path, on quinn.
fn transfer(path: &str, workload: &str, seed: u64) -> Outcome {
    transfer_on("quinn", "", path, workload, seed)
}

/// Runs one transfer over a path, on any stack, with settings of the scenario.
fn transfer_on(stack: &str, settings: &str, path: &str, workload: &str, seed: u64) -> Outcome {
    let text = format!(
        r#"
        stop = "1 responses"
        stack = "{stack}"
        {settings}
        [network]
        topology = "path"
        [network.path]
        {path}
        [[traffic]]
        name = "transfer"
        from = "left"
        to = "right"
        workload = "{workload}"
        controller = "cubic"
        "#
    );
    let scenario =
        ScenarioSpec::from_toml(&text).and_then(|spec| spec.check()).expect("a scenario");
    let (outcome, _) = run(&scenario, seed, &Arc::new(AtomicU64::new(0)))
        .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    outcome
}

fn millis(outcome: &Outcome) -> f64 {
    outcome.groups["transfer"].times.as_ref().expect("times").mean_ms
}

#[test]
fn small_response_takes_two_round_trips() {
    // The handshake takes one round trip, and request and response another. Packets of 1,420 bytes
    // take 1.1 ms at 10 Mbps.
    for rtt in [20.0, 100.0, 400.0] {
        let took =
            millis(&transfer(&format!("rtt = \"{rtt}ms\"\nrate = \"10Mbps\""), "flows:1x1kB", 1));
        assert!((2.0 * rtt..2.0 * rtt + 12.0).contains(&took), "{rtt}: {took}");
    }
}

#[test]
fn path_directions_may_differ_in_rate_and_delay() {
    let path = "delay = \"10ms\"\nup-delay = \"50ms\"\nrate = \"20Mbps\"\nup-rate = \"2Mbps\"";
    let small = millis(&transfer(path, "flows:1x1kB", 1));
    assert!((120.0..140.0).contains(&small), "{small}");
    // A body of 5 MB at 20 Mbps takes 2 s, and headers add about 5 %.
    let large = millis(&transfer(path, "flows:1x5MB", 1));
    assert!((2_000.0..2_600.0).contains(&large), "{large}");
}

#[test]
fn trace_link_carries_its_mean_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("eight.trace");
    // Two delivery opportunities every 3 ms give 8 Mbps.
    let text: String = (1..=1_000).map(|n| format!("{}\n{}\n", 3 * n, 3 * n)).collect();
    std::fs::write(&file, text).expect("a trace");
    let path = format!("rtt = \"20ms\"\ntrace = \"{}\"\nup-rate = \"8Mbps\"", file.display());
    let outcome = transfer(&path, "flows:1x8MB", 1);
    let took = millis(&outcome);
    assert!((8_000.0..8_900.0).contains(&took), "{took}");
}

#[test]
fn rate_step_takes_effect_at_its_configured_time() {
    // In the first 2 s, 4 MB are sent at 16 Mbps. The other 2 MB take 4 s at 4 Mbps.
    let path = "rtt = \"20ms\"\nrate = \"16Mbps\"\nevents = [\"rate:4Mbps@2s\"]";
    let took = millis(&transfer(path, "flows:1x6MB", 1));
    assert!((6_000.0..7_200.0).contains(&took), "{took}");
}

#[test]
fn transfers_complete_despite_losses_and_losses_are_counted() {
    let path = "rtt = \"20ms\"\nrate = \"20Mbps\"\nloss = \"2%\"\nup-loss = \"0%\"\nduplicate = \"1%\"\ncorrupt = \"1%\"\nreorder = \"1%\"";
    for seed in 1..=3 {
        let outcome = transfer(path, "flows:1x5MB", seed);
        let did = outcome.links["left-right"].impairments.expect("impairments");
        let (n, up) =
            (did.arrived as f64, outcome.links["right-left"].impairments.expect("impairments"));
        let near = |count: u64, part: f64| {
            let slack = 5.0 * (n * part * (1.0 - part)).sqrt();
            assert!(
                (count as f64 - n * part).abs() < slack,
                "seed {seed}: {count} of {n}, wanted {part}"
            );
        };
        near(did.lost, 0.02);
        near(did.duplicated, 0.01);
        near(did.corrupted, 0.01);
        near(did.displaced, 0.01);
        assert_eq!(up.lost, 0);
        assert_eq!(outcome.groups["transfer"].failed, 0);
    }
}

#[test]
fn transfer_pauses_during_a_blackout_and_then_completes() {
    let path = |event: &str| format!("rtt = \"20ms\"\nrate = \"20Mbps\"{event}");
    let whole = millis(&transfer(&path(""), "flows:1x5MB", 1));
    let dark = transfer(&path("\nevents = [\"blackout:2s@1s\"]"), "flows:1x5MB", 1);
    let took = millis(&dark);
    assert!(took > whole + 2_000.0 && took < whole + 8_000.0, "{whole} and {took}");
    assert!(dark.links["left-right"].impairments.expect("impairments").cut_off > 0);
}

#[test]
fn waiting_for_trace_opportunities_is_not_counted_as_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("aggregated.trace");
    // A trace with 40 opportunities at once every 20 ms gives 24 Mbps on average, with gaps.
    let text: String = (1..=100).map(|n| format!("{}\n", 20 * n).repeat(40)).collect();
    std::fs::write(&file, text).expect("a trace");
    let path = format!("rtt = \"20ms\"\nrate = \"24Mbps\"\nup-trace = \"{}\"", file.display());
    let outcome = transfer(&path, "flows:1x8MB", 1);
    let back = &outcome.links["right-left"];
    // Only acknowledgements cross this link, and they use a small part of 24 Mbps.
    let carried = 100.0 * back.throughput_bps / 24e6;
    assert!(
        (back.utilisation_percent - carried).abs() < 0.5 && carried < 10.0,
        "{} of {carried}",
        back.utilisation_percent
    );
    assert!(
        outcome.links["left-right"].utilisation_percent > 60.0,
        "{}",
        outcome.links["left-right"].utilisation_percent
    );
}

#[test]
fn every_stack_survives_a_falling_mtu() {
    let path = "rtt = \"20ms\"\nrate = \"20Mbps\"\nevents = [\"mtu:1250@500ms\"]";
    for stack in fathom_experiments::stack::Stack::ALL {
        for settings in ["", "mtu-discovery = true"] {
            let outcome = transfer_on(stack.name(), settings, path, "flows:1x5MB", 1);
            let cut_off = outcome.links["left-right"].impairments.expect("impairments").cut_off;
            assert!(
                cut_off > 0 && millis(&outcome) < 20_000.0,
                "{stack} {settings}: {cut_off}, {}",
                millis(&outcome)
            );
        }
    }
}

#[test]
fn mtu_discovery_begins_with_small_packets_and_enlarges_them() {
    let path = "rtt = \"20ms\"\nrate = \"20Mbps\"";
    for stack in fathom_experiments::stack::Stack::ALL {
        let packets = |settings: &str| {
            transfer_on(stack.name(), settings, path, "flows:1x5MB", 1).links["left-right"].arrived
        };
        let (full, discovered) = (packets(""), packets("mtu-discovery = true"));
        // Discovery sends a few hundred packets of 1,200 instead of 1,392 bytes. If all packets had
        // 1,200 bytes, there would be a sixth more.
        assert!(
            discovered > full && (discovered as f64) < full as f64 * 1.13,
            "{stack}: {full}, {discovered}"
        );
    }
}

#[test]
fn shallow_policer_drops_more_packets_that_leave_in_bundles() {
    // The bucket holds eight packets, which 300 Mbps fill in 0.3 ms.
    let path = "rtt = \"10ms\"\nrate = \"1Gbps\"\npolicer = \"300Mbps,burst=12kB\"\nup-policer = \"200Mbps,burst=1MB\"";
    for stack in fathom_experiments::stack::Stack::ALL {
        let policed = |settings: &str| {
            let outcome = transfer_on(stack.name(), settings, path, "flows:1x10MB", 1);
            let did = outcome.links["left-right"].impairments.expect("impairments");
            (did.policed as f64 / did.arrived as f64, millis(&outcome))
        };
        let ((single, quick), (bundled, slow)) = (policed(""), policed("gso = 16"));
        assert!(
            bundled > 1.2 * single && slow > 1.2 * quick,
            "{stack}: {single} in {quick} ms, {bundled} in {slow} ms"
        );
    }
}

#[test]
fn error_of_a_run_stopped_by_an_mtu_event_names_the_event() {
    let error = fathom_experiments::scenario::RunError::Collapsed {
        controller: "cubic".into(),
        event: Some("mtu:1250@4s".parse().expect("an event")),
        done: 0,
        failed: 0,
        wanted: 1,
        seconds: 60.0,
    };
    let text = error.to_string();
    assert!(
        text.contains("event 'mtu:1250@4s' drops packets") && text.contains("write a larger MTU"),
        "{text}"
    );
}

#[test]
fn hold_event_delays_packets_without_loss() {
    let path = |events: &str| {
        format!("rtt = \"20ms\"\nrate = \"20Mbps\"\nqueue = \"droptail:1000p\"{events}")
    };
    let whole = millis(&transfer(&path(""), "flows:1x5MB", 1));
    let held = transfer(&path("\nevents = [\"hold:166ms@1s\"]"), "flows:1x5MB", 1);
    let did = held.links["left-right"].impairments.expect("impairments");
    assert!(did.held > 0 && did.cut_off == 0, "{did:?}");
    // The hold may fall between two round trips and then delays nothing.
    let took = millis(&held);
    assert!(took > whole - 50.0 && took < whole + 1_000.0, "{whole}, {took}");
}

#[test]
fn policer_drops_packets_that_a_queue_would_keep() {
    let path = "rtt = \"20ms\"\nrate = \"100Mbps\"\npolicer = \"5Mbps,burst=50kB\"\nup-policer = \"100Mbps,burst=1MB\"";
    let outcome = transfer(path, "flows:1x2MB", 1);
    let link = &outcome.links["left-right"];
    assert!(link.impairments.expect("impairments").policed > 0 && link.dropped == 0);
    assert!(millis(&outcome) > 3_000.0, "5 Mbps at most");
}

#[test]
fn path_with_an_rtt_range_gives_clients_different_rtts() {
    // Each transfer takes two round trips. Hosts add up to 60 ms to the smallest RTT.
    let outcome = transfer("rtt = \"20ms..80ms\"\nrate = \"100Mbps\"", "flows:60x1kB@60s", 1);
    let times = outcome.groups["transfer"].times.as_ref().expect("times");
    assert!(times.count >= 1 && times.mean_ms >= 40.0 && times.max_ms <= 165.0, "{times:?}");
}

#[test]
fn same_path_and_seed_give_the_same_run() {
    let path = "preset = \"lte\"\nloss = \"bursts:loss=1%,length=3\"\njitter = \"normal:2ms\"";
    let hash = |seed| transfer(path, "flows:1x1MB", seed).trace_hash;
    assert!(hash(1) == hash(1) && hash(1) != hash(2));
}

#[test]
fn hidden_marks_do_not_slow_the_sender_down() {
    let path = |ecn: &str| {
        format!("rate = \"10Mbps\"\nrtt = \"40ms\"\nqueue = \"codel\"\necn = \"{ecn}\"")
    };
    let [seen, hidden] = ["pass", "hide"].map(|ecn| transfer(&path(ecn), "flows:1x5MB", 1));
    let link = |outcome: &Outcome| outcome.links["left-right"].clone();
    let count = |outcome: &Outcome| link(outcome).impairments.map_or(0, |did| did.hidden);
    assert!(link(&seen).marked > 0 && count(&seen) == 0, "{:?}", link(&seen));
    // Without a reaction, CoDel marks more and more often, up to every packet.
    let marked = link(&hidden).marked;
    assert!(marked > 10 * link(&seen).marked && count(&hidden) == marked, "{:?}", link(&hidden));
    // Only the drops of the full queue (1,000 packets) slow the sender down.
    let [seen, hidden] = [seen, hidden].map(|outcome| outcome.groups["transfer"].clone());
    assert!(seen.lost == 0 && hidden.lost > 0, "{seen:?} {hidden:?}");
    assert!(seen.loss_reductions > 3 * hidden.loss_reductions, "{seen:?} {hidden:?}");
}
