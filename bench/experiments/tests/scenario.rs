//! Tests with whole runs of scenarios in virtual time, whose results must stay within bounds.

use fathom_experiments::scenario::{Cost, Outcome, Progress, ScenarioSpec, run};

fn outcome(text: &str, seed: u64) -> (Outcome, Cost) {
    let scenario = ScenarioSpec::from_toml(text)
        .and_then(|spec| spec.check())
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    run(&scenario, seed, &Progress::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn dumbbell(stop: &str, network: &str, traffic: &str) -> String {
    format!(
        "stop = \"{stop}\"\n[network]\ntopology = \"dumbbell\"\n{network}\n[[traffic]]\nname = \"flows\"\nfrom = \"left\"\nto = \"right\"\n{traffic}\n"
    )
}

/// Returns the scenario of SDC table 1 with few flows.
fn sdc(controller: &str) -> String {
    dumbbell(
        "20s",
        "link = \"10Mbps\"\ndelay = \"20ms\"\nqueue = \"red\"",
        &format!(
            "workload = \"flows:20@2s\"\ncontroller = \"{controller}\"\npacket = 576\n\
             [traffic.access]\nrate = \"100Mbps/flows\"\ndelay = \"1ms..2.5ms\""
        ),
    )
}

#[test]
fn long_flows_fill_the_link_with_packets_of_the_set_size() {
    let (outcome, _) = outcome(&sdc("reno"), 1);
    let link = &outcome.links["left-right"];
    assert!(link.utilisation_percent > 85.0, "{link:?}");
    // Packets of handshakes are larger.
    let mean = link.throughput_bps * outcome.seconds / 8.0 / (link.arrived - link.dropped) as f64;
    assert!((540.0..=600.0).contains(&mean), "a packet had {mean:.0} bytes on average");
    let group = &outcome.groups["flows"];
    assert_eq!((group.connections, group.flows.len(), group.responses), (20, 20, 0));
    let sum: f64 = group.flows.iter().map(|f| f.throughput_bps).sum();
    assert!((sum / group.throughput_bps - 1.0).abs() < 0.01, "{sum} of {}", group.throughput_bps);
}

#[test]
fn runs_repeat_with_the_same_seed_and_differ_with_another() {
    let hash = |seed| outcome(&sdc("sdc"), seed).0.trace_hash;
    let first = hash(1);
    assert_eq!(first, hash(1), "FATHOM: the same seed, other packets");
    assert_ne!(first, hash(2));
}

/// quiche reports its probe timeouts; on other stacks they are inferred from silences. quiche has
/// both counts, and they must agree.
#[cfg(feature = "quiche")]
#[test]
fn inferred_probe_timeouts_agree_with_reported_probe_timeouts() {
    let text =
        format!("stack = \"quiche\"\n{}", sdc("reno").replace("flows:20@2s", "flows:100@2s"));
    let (outcome, _) = outcome(&text, 1);
    let group = &outcome.groups["flows"];
    assert!(
        group.probe_timeouts > 500,
        "a crowd of 100 flows has probe timeouts: {}",
        group.probe_timeouts
    );
    let part = group.silences as f64 / group.probe_timeouts as f64;
    assert!(
        (0.85..=1.15).contains(&part),
        "{} silences for {} timeouts",
        group.silences,
        group.probe_timeouts
    );
}

/// A flow over several streams is one connection with one sender, and fills the link as well as one
/// stream does.
#[test]
fn body_may_use_several_streams_of_one_connection() {
    let text = dumbbell(
        "10s",
        "link = \"10Mbps\"\ndelay = \"20ms\"\nqueue = \"droptail:100p\"",
        "workload = \"flows:2\"\ncontroller = \"reno\"\nstreams = 32",
    );
    let (outcome, _) = outcome(&text, 1);
    let group = &outcome.groups["flows"];
    assert_eq!((group.connections, group.failed, group.flows.len()), (2, 0, 2));
    assert!(
        outcome.links["left-right"].utilisation_percent > 90.0,
        "{:?}",
        outcome.links["left-right"]
    );
}

#[test]
fn failed_requests_are_not_counted_as_completed() {
    // The offered load is three times what the link carries, through a short queue: many
    // connections are never established.
    let text = dumbbell(
        "300 responses",
        "link = \"200kbps\"\nqueue = \"droptail:10p\"",
        "workload = \"web:200% of 300kbps\"\ncontroller = \"reno\"",
    );
    let (outcome, _) = outcome(&text, 1);
    let group = &outcome.groups["flows"];
    assert_eq!(group.responses, 300);
    assert!(group.failed > 50, "{} failed: too few to show anything", group.failed);
}

#[test]
fn web_traffic_reports_the_load_it_offers() {
    let text = dumbbell(
        "400 responses",
        "link = \"10Mbps\"\nqueue = \"droptail:100p\"",
        "workload = \"web:40% of 10Mbps\"\ncontroller = \"reno\"\nconnections = \"persistent\"\nserver-delay = true",
    );
    let (outcome, _) = outcome(&text, 1);
    let group = &outcome.groups["flows"];
    let load = group.load.expect("web traffic offers a load");
    assert_eq!((load.of_bps, load.wanted_percent), (10_000_000, 40.0));
    assert!((load.computed_percent / load.wanted_percent - 1.0).abs() < 0.05, "{load:?}");
    assert_eq!(group.request_hash.len(), 16);
    // Idle connections also served other requests.
    assert!(group.responses == 400 && group.connections < 400, "{} connections", group.connections);
}
