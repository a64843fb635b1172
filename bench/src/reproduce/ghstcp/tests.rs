//! The predicates on made-up results, and that they ask for runs that the studies have.

use std::collections::BTreeMap;

use super::super::{Claim, Verdict};
use super::*;
use crate::scenario::{FlowOutcome, GroupOutcome, LinkOutcome};
use crate::stack::Stack;
use crate::study::{Study, StudyRunResult, shipped};

/// Mbit/s of S1 and S2 in a run, and the rest of its outcome.
fn outcome(s1: f64, s2: f64) -> Outcome {
    let group = |mbps: f64| {
        let flow = FlowOutcome { throughput_bps: mbps * 1e6 / 5.0, sent: 0, lost: 0 };
        GroupOutcome { throughput_bps: mbps * 1e6, flows: vec![flow; 5], ..GroupOutcome::default() }
    };
    Outcome {
        seconds: 100.0,
        links: [("left-right".to_owned(), LinkOutcome::default())].into(),
        groups: [("S1".to_owned(), group(s1)), ("S2".to_owned(), group(s2))].into(),
        ..Outcome::default()
    }
}

fn add(results: &mut Results, system: System, delay: &'static str, seed: u64, outcome: Outcome) {
    let key: BTreeMap<String, String> =
        system.key(delay).into_iter().map(|(axis, value)| (axis.to_owned(), value.to_owned())).collect();
    results.add(system.study, vec![StudyRunResult { key, seed, fingerprint: format!("{seed:016x}"), outcome }]);
}

/// One seed, the same at every delay.
fn everywhere(runs: &[(System, f64, f64)]) -> Results {
    let mut results = Results::default();
    for (system, s1, s2) in runs {
        for delay in DELAYS {
            add(&mut results, *system, delay, 1, outcome(*s1, *s2));
        }
    }
    results
}

fn claim(results: &Results, id: &str) -> Claim {
    PAPER.report(results).claims.into_iter().find(|c| c.id == id).unwrap_or_else(|| panic!("no claim {id}"))
}

fn verdict(results: &Results, id: &str) -> Verdict {
    claim(results, id).verdict
}

#[test]
fn harm_is_a_loss_of_a_quarter_beyond_the_margin() {
    // Three quarters of 400 are 300; with one seed 5 % of it decide nothing.
    for (harmed, expected) in [(200.0, Verdict::Held), (295.0, Verdict::Undecided), (390.0, Verdict::NotHeld)] {
        let results = everywhere(&[(RENO, 400.0, 1_000.0), (HIGHSPEED, harmed, 1_900.0)]);
        assert_eq!(verdict(&results, "ghstcp-highspeed-harms-reno"), expected, "{harmed}");
    }
    let found =
        claim(&everywhere(&[(RENO, 400.0, 900.0), (HIGHSPEED, 200.0, 900.0)]), "ghstcp-highspeed-harms-reno").found;
    assert!(found.contains("at 50ms: 200 against 400"), "{found}");
}

#[test]
fn several_seeds_decide_by_their_interval() {
    let mut results = Results::default();
    for delay in DELAYS {
        for (seed, (reno, highspeed)) in
            [(1_000.0, 1_010.0), (1_200.0, 1_211.0), (900.0, 911.0)].into_iter().enumerate()
        {
            add(&mut results, RENO, delay, seed as u64, outcome(490.0, reno));
            add(&mut results, HIGHSPEED, delay, seed as u64, outcome(490.0, highspeed));
        }
    }
    // One percent more, but in every pair: 10.7 ± 1.4.
    assert_eq!(verdict(&results, "ghstcp-highspeed-gets-much"), Verdict::Held);
    add(&mut results, RENO, "50ms", 9, outcome(490.0, 1_000.0));
    add(&mut results, HIGHSPEED, "50ms", 9, outcome(490.0, 900.0));
    assert_eq!(verdict(&results, "ghstcp-highspeed-gets-much"), Verdict::Undecided);
}

#[test]
fn reno_on_slow_access_is_full_and_leaves_room() {
    // Its five access links carry 490.7 Mbit/s of payload, the bottleneck 2453.3.
    let full = everywhere(&[(RENO, 480.0, 1_500.0)]);
    let starved = everywhere(&[(RENO, 300.0, 2_140.0)]);
    for id in ["ghstcp-reno-fills-slow-access", "ghstcp-reno-leaves-bandwidth"] {
        assert_eq!((verdict(&full, id), verdict(&starved, id)), (Verdict::Held, Verdict::NotHeld), "{id}");
    }
    assert_eq!(verdict(&full, "ghstcp-reno-unharmed-by-delay"), Verdict::Held);
    let mut harmed = full;
    add(&mut harmed, RENO, "100ms", 2, outcome(300.0, 1_500.0));
    add(&mut harmed, RENO, "25ms", 2, outcome(480.0, 1_500.0));
    assert_ne!(verdict(&harmed, "ghstcp-reno-unharmed-by-delay"), Verdict::Held);
}

#[test]
fn gared_has_to_be_better_in_every_respect() {
    let better = everywhere(&[(HIGHSPEED_ARED, 300.0, 1_500.0), (GENTLE_GARED, 450.0, 1_700.0)]);
    let worse = everywhere(&[(HIGHSPEED_ARED, 300.0, 1_500.0), (GENTLE_GARED, 450.0, 1_300.0)]);
    for (id, when_worse) in [
        ("ghstcp-gared-both-groups", Verdict::NotHeld),
        ("ghstcp-gared-short-paths", Verdict::Undecided),
        ("ghstcp-gared-fairer", Verdict::Held),
    ] {
        assert_eq!((verdict(&better, id), verdict(&worse, id)), (Verdict::Held, when_worse), "{id}");
    }
    // On the long path Reno should get slightly less, neither more nor far less.
    assert_eq!(verdict(&better, "ghstcp-gared-long-path"), Verdict::NotHeld);
    for (s1, expected) in [(270.0, Verdict::Held), (100.0, Verdict::NotHeld)] {
        let results = everywhere(&[(HIGHSPEED_ARED, 300.0, 1_500.0), (GENTLE_GARED, s1, 1_800.0)]);
        assert_eq!(verdict(&results, "ghstcp-gared-long-path"), expected, "{s1}");
    }
}

#[test]
fn a_steadier_queue_deviates_less_after_the_warm_up() {
    let with = |queue_mean: Vec<f64>| {
        let link = LinkOutcome { bin_seconds: 10.0, queue_mean, ..LinkOutcome::default() };
        Outcome { links: [("left-right".to_owned(), link)].into(), ..outcome(1.0, 1.0) }
    };
    let calm = with([[9_000.0, 0.0].as_slice(), &[4_900.0, 5_100.0].repeat(4)].concat());
    let wild = with([[5_000.0, 5_000.0].as_slice(), &[4_000.0, 6_000.0].repeat(4)].concat());
    assert_eq!(queue_mean(&calm), Some(5_000.0));
    // Deviations of 100 around the mean, eight of them: 100 sqrt(8/7).
    assert!((queue_deviation(&calm).unwrap() - 106.904_5).abs() < 1e-3);
    for (ared, gared, expected) in [(&wild, &calm, Verdict::Held), (&calm, &wild, Verdict::NotHeld)] {
        let mut results = Results::default();
        for delay in DELAYS {
            for (system, outcome) in
                [(HIGHSPEED_ARED, ared), (GENTLE_ARED, ared), (HIGHSPEED_GARED, gared), (GENTLE_GARED, gared)]
            {
                add(&mut results, system, delay, 1, outcome.clone());
            }
        }
        assert_eq!(verdict(&results, "ghstcp-gared-steadier"), expected);
    }
}

#[test]
fn fairness_is_over_all_ten_flows() {
    // 5 x 20 and 5 x 80: 500^2 / (10 (5 400 + 5 6400)).
    assert!((fairness(&outcome(100.0, 400.0)).unwrap() - 250_000.0 / 340_000.0).abs() < 1e-12);
    let mut lost = outcome(100.0, 400.0);
    lost.groups.get_mut("S2").unwrap().flows.pop();
    assert_eq!(fairness(&lost), None, "a flow that failed is not left out");
    assert_eq!((s1(&lost), s2(&lost), total(&lost)), (Some(100.0), None, None));
}

#[test]
fn artefacts_without_results_are_left_out() {
    let report = PAPER.report(&everywhere(&[(RENO, 480.0, 1_500.0)]));
    let ids: Vec<&str> = report.artefacts.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, ["figure 2", "figure 3"]);
    assert!(report.claims.iter().all(|c| !c.id.contains("ared")), "{:?}", report.claims);
    // Half of the numbers are missing.
    assert!(report.claims.iter().any(|c| c.id == "ghstcp-highspeed-gets-much" && c.verdict == Verdict::Undecided));
    let Body::Figure(figure) = &report.artefacts[0].body else { panic!("no figure") };
    assert_eq!(figure.series[1].points, [(25.0, 1_500.0), (50.0, 1_500.0), (100.0, 1_500.0)]);
}

#[test]
fn every_run_a_claim_needs_is_in_a_shipped_study() {
    for wanted in PAPER.artefacts {
        assert!(wanted.studies.iter().all(|study| shipped(study).is_some()), "{}", wanted.id);
    }
    for system in [RENO, HIGHSPEED, GENTLE, HIGHSPEED_ARED, GENTLE_GARED, HIGHSPEED_GARED, GENTLE_ARED] {
        let study = Study::from_toml(system.study, shipped(system.study).unwrap()).unwrap();
        let study = study.with_stack(Stack::Quinn).unwrap();
        for scale in [1.0, 0.02] {
            let runs = study.runs(scale).unwrap();
            for delay in DELAYS {
                let key: BTreeMap<String, String> =
                    system.key(delay).into_iter().map(|(axis, value)| (axis.to_owned(), value.to_owned())).collect();
                let run = runs.iter().find(|c| c.key == key).unwrap_or_else(|| panic!("{key:?}"));
                // gHSTCP §3.1.
                assert_eq!(run.scenario.chain.links[0].rate.bits_per_sec(), 2_500_000_000);
                let access = [0, 1].map(|i| run.scenario.traffic[i].access.rate.bits_per_sec() / 1_000_000);
                assert_eq!(access, [100, 1_000]);
            }
        }
    }
}
