//! Tests of the patience of users, idle timeouts, and arrivals of requests.

use super::super::{Arrivals, Outcome, Period, Progress, ScenarioSpec, Web, Workload, run};

/// Runs web traffic over 1 Mbps. `fields` are additional fields of the group.
fn web(stop: &str, workload: &str, fields: &str) -> Outcome {
    let text = format!(
        r#"
        stop = "{stop}"
        [network]
        topology = "dumbbell"
        link = "1Mbps"
        queue = "droptail:20p"
        [keep]
        drops = ["left-right"]
        [[traffic]]
        name = "web"
        from = "left"
        to = "right"
        workload = "{workload}"
        controller = "reno"
        {fields}
        "#
    );
    let scenario = ScenarioSpec::from_toml(&text).unwrap().check().unwrap();
    run(&scenario, 1, &Progress::default()).unwrap().0
}

#[test]
fn users_abandon_requests_when_their_patience_ends() {
    let patient = web("300 responses", "web:110% of 1Mbps", "");
    let (all, none) =
        (&patient.groups["web"], web("300 responses", "web:110% of 1Mbps", r#"patience = "900s""#));
    assert!(all.abandoned == 0 && all.times.as_ref().unwrap().max_ms > 4_000.0, "{:?}", all.times);
    assert_eq!(patient.trace_hash, none.trace_hash, "nobody waits that long");
    let outcome = web("300 responses", "web:110% of 1Mbps", r#"patience = "2s""#);
    let group = &outcome.groups["web"];
    assert!(
        group.abandoned > 10 && group.failed >= group.abandoned,
        "{} of {}",
        group.abandoned,
        group.failed
    );
    assert!(group.times.as_ref().unwrap().max_ms <= 2_000.0, "{:?}", group.times);
    assert_eq!(group.responses, 300);
}

#[test]
fn short_idle_timeout_ends_slow_connections() {
    let failed =
        |fields: &str| web("300 responses", "web:200% of 1Mbps", fields).groups["web"].failed;
    let (long, short) = (failed(""), failed(r#"idle-timeout = "1s""#));
    assert!(short > long, "{short} failed, {long} with the default");
}

#[test]
fn poisson_arrivals_keep_the_load_but_change_the_requests() {
    let model = web("300 responses", "web:50% of 1Mbps", "");
    let poisson = web("300 responses", "web:50% of 1Mbps", r#"arrivals = "poisson""#);
    let (model, poisson) = (&model.groups["web"], &poisson.groups["web"]);
    assert_ne!(model.request_hash, poisson.request_hash);
    assert!((poisson.load.unwrap().computed_percent - 50.0).abs() < 0.5, "{:?}", poisson.load);
}

#[test]
fn web_requests_arrive_only_within_the_configured_period() {
    let outcome = web("40s", "web:50% of 1Mbps from 10s to 20s", "");
    let arrived = &outcome.links["left-right"].drops.as_ref().unwrap().arrived;
    assert!(
        arrived[0] == 0 && arrived[1] > 200 && arrived.iter().skip(3).sum::<u64>() * 5 < arrived[1],
        "{arrived:?}"
    );
    // The load refers to the period, not to the run.
    let load = outcome.groups["web"].load.unwrap();
    assert!((load.computed_percent - 50.0).abs() < 1.0, "{load:?}");
}

#[test]
fn web_workload_options_are_parsed_and_errors_name_them() {
    let read: Workload = "web:95% of 10Mbps from 200s to 400s".parse().unwrap();
    let Workload::Web(Web { period: Period { from, until }, arrivals, .. }) = read else {
        panic!("web traffic")
    };
    assert_eq!(
        (from.as_secs(), until.map(|u| u.as_secs()), arrivals),
        (200, Some(400), Arrivals::Packmime)
    );
    let refused = "web:95% of 10Mbps from 400s to 200s".parse::<Workload>().unwrap_err();
    assert!(refused.hint.contains("from 200s to 400s"), "{refused}");
    let error = |stop: &str, workload: &str, fields: &str| {
        let text = format!(
            "stop = \"{stop}\"\n[network]\ntopology = \"dumbbell\"\n[[traffic]]\nname = \"web\"\nfrom = \"left\"\nto = \"right\"\n\
             workload = \"{workload}\"\ncontroller = \"reno\"\n{fields}"
        );
        ScenarioSpec::from_toml(&text).unwrap().check().unwrap_err().to_string()
    };
    assert!(error("100 responses", "web:50% of 1Mbps to 20s", "").starts_with("stop: 'web'"));
    assert!(
        error("9s", "web:50% of 1Mbps", r#"patience = "0s""#)
            .starts_with("traffic 'web': patience: ")
    );
    assert!(
        error("9s", "web:50% of 1Mbps", r#"idle-timeout = "1h""#)
            .starts_with("traffic 'web': idle-timeout: ")
    );
    assert!(error("9s", "web:50% of 1Mbps", r#"idle-timeout = "300s""#).contains("1s to 240s"));
    assert!(
        error("9s", "flows:1", r#"arrivals = "poisson""#).starts_with("traffic 'web': arrivals: ")
    );
}
