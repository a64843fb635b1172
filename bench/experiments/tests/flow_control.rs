//! Flow control, and reasons of failures: whole runs in virtual time.

use fathom_experiments::scenario::{GroupOutcome, Outcome, Progress, ScenarioSpec, run};

/// Stacks under test.
const STACKS: &[&str] = if cfg!(feature = "quiche") { &["quinn", "noq", "quiche"] } else { &["quinn", "noq"] };

/// Runs a scenario of one group from left to right, with one seed.
fn outcome(stack: &str, stop: &str, network: &str, traffic: &str) -> Outcome {
    let text = format!(
        "stop = \"{stop}\"\nstack = \"{stack}\"\n[network]\ntopology = \"dumbbell\"\n{network}\n[[traffic]]\nname = \"g\"\n\
         from = \"left\"\nto = \"right\"\n{traffic}"
    );
    let scenario =
        ScenarioSpec::from_toml(&text).and_then(|spec| spec.check()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    run(&scenario, 1, &Progress::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).0
}

fn group(stack: &str, stop: &str, network: &str, traffic: &str) -> GroupOutcome {
    outcome(stack, stop, network, traffic).groups.remove("g").unwrap()
}

#[test]
fn failed_requests_have_the_reason_of_their_connection() {
    for &stack in STACKS {
        // Handshakes take 60 s of queue and connections give up after 2 s.
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
        assert!(reason.contains("timed out"), "{stack}: {reason}");
    }
}

#[test]
fn a_user_who_gives_up_is_a_reason() {
    let g = group(
        "quinn",
        "10s",
        "link = \"1Mbps\"\ndelay = \"20ms\"\nqueue = \"droptail:20p\"",
        "workload = \"flows:1x10MB\"\ncontroller = \"reno\"\npatience = \"2s\"",
    );
    assert_eq!((g.failed, g.abandoned), (1, 1));
    assert_eq!(g.failures.iter().collect::<Vec<_>>(), [(&"the user gave up".to_owned(), &1)]);
}
