//! Tests of the predicates on made-up results, and of the match between predicates and studies.

use fathom_experiments::scenario::{FlowOutcome, GroupOutcome, LinkOutcome};
use fathom_experiments::stack::Stack;

use super::*;
use crate::testing::{self, finding, put, study};
use crate::{Body, Verdict};

/// Returns an outcome with these throughputs of S1 and S2, in Mbit/s.
fn outcome(s1: f64, s2: f64) -> Outcome {
    let group = |mbps: f64| {
        let flow = FlowOutcome { throughput_bps: mbps * 1e6 / 5.0, sent: 0, lost: 0 };
        GroupOutcome { throughput_bps: mbps * 1e6, flows: vec![flow; 5], ..GroupOutcome::default() }
    };
    let links = [("left-right".to_owned(), LinkOutcome::default())].into();
    Outcome { links, ..testing::outcome(100.0, [("S1", group(s1)), ("S2", group(s2))]) }
}

fn add(results: &mut Results, system: System, delay: &str, seed: u64, outcome: Outcome) {
    put(results, system.study, &with(&system.axes(), "delay", delay), seed, [outcome]);
}

/// Adds three identical seeds at every delay.
fn everywhere(runs: &[(System, f64, f64)]) -> Results {
    let mut results = Results::default();
    for (system, s1, s2) in runs {
        for delay in DELAYS {
            (1..=3).for_each(|seed| add(&mut results, *system, delay, seed, outcome(*s1, *s2)));
        }
    }
    results
}

fn verdict(results: &Results, id: &str) -> Verdict {
    testing::verdict(&PAPER, results, id)
}

#[test]
fn ghstcp_claim_of_harm_needs_loss_of_a_quarter_of_throughput() {
    // Three quarters of 400 are 300.
    for (harmed, expected) in
        [(200.0, Verdict::Held), (300.0, Verdict::Undecided), (390.0, Verdict::NotHeld)]
    {
        let results = everywhere(&[(RENO, 400.0, 1_000.0), (HIGHSPEED, harmed, 1_900.0)]);
        assert_eq!(verdict(&results, "ghstcp-highspeed-harms-reno"), expected, "{harmed}");
    }
    let results = everywhere(&[(RENO, 400.0, 900.0), (HIGHSPEED, 200.0, 900.0)]);
    let found = finding(&PAPER, &results, "ghstcp-highspeed-harms-reno").numbers;
    assert!(found.contains("at 50ms: 200"), "{found}");
}

#[test]
fn ghstcp_claims_on_flows_without_sack_are_inapplicable() {
    let results = everywhere(&[
        (RENO, 400.0, 1_000.0),
        (HIGHSPEED, 200.0, 1_900.0),
        (GENTLE, 300.0, 2_000.0),
    ]);
    for id in ["ghstcp-highspeed-slight-benefit", "ghstcp-gentle-improves-both"] {
        let found = finding(&PAPER, &results, id);
        assert_eq!(found.verdict, Verdict::Inapplicable, "{id}");
        assert!(found.numbers.contains("1900"), "{found:?}");
    }
}

/// Returns the run with these counts of the bottleneck.
fn with_link(o: Outcome, arrived: u64, dropped: u64, mean_queue: f64) -> Outcome {
    let link = LinkOutcome { arrived, dropped, mean_queue, ..LinkOutcome::default() };
    Outcome { links: [("left-right".to_owned(), link)].into(), ..o }
}

#[test]
fn ghstcp_run_whose_queue_never_dropped_is_outside_the_regime() {
    let build = |dropped: u64, s2: f64| {
        let mut results = Results::default();
        for delay in DELAYS {
            let ared = with_link(outcome(300.0, 1_500.0), 9, 1, 4_000.0);
            let last = delay == "100ms";
            let gared = with_link(
                outcome(450.0, if last { s2 } else { 1_700.0 }),
                9,
                if last { dropped } else { 1 },
                1.04,
            );
            for seed in 1..=3 {
                add(&mut results, HIGHSPEED_ARED, delay, seed, ared.clone());
                add(&mut results, GENTLE_GARED, delay, seed, gared.clone());
            }
        }
        PAPER
            .report(&results)
            .claims
            .into_iter()
            .find(|claim| claim.id == "ghstcp-gared-both-groups")
            .unwrap()
    };
    assert_eq!(
        (build(1, 1_700.0).verdict, build(1, 1_300.0).verdict),
        (Verdict::Held, Verdict::NotHeld)
    );
    for s2 in [1_700.0, 1_300.0] {
        let found = build(0, s2);
        assert_eq!(found.verdict, Verdict::NotInRegime);
        let expected = "nothing was dropped or marked in the counted time: gHSTCP over gARED at 100ms (mean queue 1.0 packets)";
        assert_eq!(found.reason, expected);
    }
}

#[test]
fn ghstcp_run_whose_rates_follow_start_order_is_not_settled() {
    let with_rates = |rates: [f64; 5]| {
        let mut o = outcome(400.0, 1_000.0);
        let flows = &mut o.groups.get_mut("S2").unwrap().flows;
        flows.iter_mut().zip(rates).for_each(|(flow, mbps)| flow.throughput_bps = mbps * 1e6);
        o
    };
    // Ten, nine and eight of the ten pairs are in the order of the starts; the last has no order at
    // all.
    let orders = [
        [981., 493., 238., 114., 59.],
        [981., 577., 205., 95., 127.],
        [564., 463., 341., 336., 418.],
        [200.; 5],
    ];
    assert_eq!(orders.map(|rates| by_start(&with_rates(rates))), [true, true, false, false]);

    // With several seeds, the majority of the seeds decides.
    let mut results = Results::default();
    for delay in DELAYS {
        for (seed, rates) in [(1, orders[0]), (2, orders[0]), (3, orders[3])] {
            add(&mut results, RENO, delay, seed, with_rates(rates));
        }
    }
    assert_eq!(verdict(&results, "ghstcp-reno-fast-gets-more"), Verdict::NotInRegime);
    for delay in DELAYS {
        (4..6).for_each(|seed| add(&mut results, RENO, delay, seed, with_rates(orders[3])));
    }
    assert_eq!(verdict(&results, "ghstcp-reno-fast-gets-more"), Verdict::Held);
}

#[test]
fn ghstcp_claims_over_several_seeds_are_judged_by_interval() {
    let mut results = Results::default();
    for delay in DELAYS {
        for (seed, (reno, highspeed)) in
            [(1_000.0, 1_010.0), (1_200.0, 1_211.0), (900.0, 911.0)].into_iter().enumerate()
        {
            add(&mut results, RENO, delay, seed as u64, outcome(490.0, reno));
            add(&mut results, HIGHSPEED, delay, seed as u64, outcome(490.0, highspeed));
        }
    }
    // The difference is only 1%, but it occurs in every pair: 10.7 ± 1.4.
    assert_eq!(verdict(&results, "ghstcp-highspeed-gets-much"), Verdict::Held);
    add(&mut results, RENO, "50ms", 9, outcome(490.0, 1_000.0));
    add(&mut results, HIGHSPEED, "50ms", 9, outcome(490.0, 900.0));
    assert_eq!(verdict(&results, "ghstcp-highspeed-gets-much"), Verdict::Undecided);
}

#[test]
fn reno_claims_compare_throughput_with_access_and_bottleneck() {
    // The five access links carry 49.07 Mbit/s of payload, the bottleneck 245.33.
    let full = everywhere(&[(RENO, 48.0, 150.0)]);
    let starved = everywhere(&[(RENO, 30.0, 214.0)]);
    for id in ["ghstcp-reno-fills-slow-access", "ghstcp-reno-leaves-bandwidth"] {
        assert_eq!(
            (verdict(&full, id), verdict(&starved, id)),
            (Verdict::Held, Verdict::NotHeld),
            "{id}"
        );
    }
    assert_eq!(verdict(&full, "ghstcp-reno-unharmed-by-delay"), Verdict::Held);
    let mut harmed = full;
    add(&mut harmed, RENO, "100ms", 2, outcome(30.0, 150.0));
    add(&mut harmed, RENO, "25ms", 2, outcome(48.0, 150.0));
    assert_ne!(verdict(&harmed, "ghstcp-reno-unharmed-by-delay"), Verdict::Held);
}

#[test]
fn gared_claim_needs_better_results_in_every_measure() {
    let better = everywhere(&[(HIGHSPEED_ARED, 300.0, 1_500.0), (GENTLE_GARED, 450.0, 1_700.0)]);
    let worse = everywhere(&[(HIGHSPEED_ARED, 300.0, 1_500.0), (GENTLE_GARED, 450.0, 1_300.0)]);
    for (id, when_worse) in
        [("ghstcp-gared-both-groups", Verdict::NotHeld), ("ghstcp-gared-fairer", Verdict::Held)]
    {
        assert_eq!(
            (verdict(&better, id), verdict(&worse, id)),
            (Verdict::Held, when_worse),
            "{id}"
        );
    }
}

#[test]
fn ghstcp_queue_deviation_is_measured_only_after_the_warm_up() {
    let with = |queue_mean: Vec<f64>| {
        let link = LinkOutcome { bin_seconds: 10.0, queue_mean, ..LinkOutcome::default() };
        Outcome { links: [("left-right".to_owned(), link)].into(), ..outcome(1.0, 1.0) }
    };
    // The first half of the 100 s is warm-up.
    let calm = with(
        [[9_000.0, 0.0, 9_000.0, 0.0, 0.0].as_slice(), &[4_900.0, 5_100.0].repeat(4)].concat(),
    );
    let wild = with([[5_000.0; 5].as_slice(), &[4_000.0, 6_000.0].repeat(4)].concat());
    assert_eq!(queue_mean(&calm), Some(5_000.0));
    // Eight deviations of 100 around the mean: 100 sqrt(8/7).
    assert!((queue_deviation(&calm).unwrap() - 106.904_5).abs() < 1e-3);
    for (ared, gared, expected) in [(&wild, &calm, Verdict::Held), (&calm, &wild, Verdict::NotHeld)]
    {
        let mut results = Results::default();
        for delay in DELAYS {
            for (system, outcome) in [
                (HIGHSPEED_ARED, ared),
                (GENTLE_ARED, ared),
                (HIGHSPEED_GARED, gared),
                (GENTLE_GARED, gared),
            ] {
                (1..=3).for_each(|seed| add(&mut results, system, delay, seed, outcome.clone()));
            }
        }
        assert_eq!(verdict(&results, "ghstcp-gared-steadier"), expected);
    }
}

#[test]
fn ghstcp_fairness_is_the_share_of_the_slow_group() {
    assert_eq!(share(&outcome(100.0, 400.0)), Some(20.0));
    assert_eq!(share(&outcome(0.0, 0.0)), None);
    // A larger share of a smaller total is fairer, but still worse.
    let fairer = everywhere(&[(HIGHSPEED, 200.0, 1_800.0), (GENTLE, 150.0, 1_200.0)]);
    assert_eq!(verdict(&fairer, "ghstcp-gentle-improves-reno"), Verdict::NotHeld);
    let both = everywhere(&[(HIGHSPEED, 200.0, 1_800.0), (GENTLE, 300.0, 1_700.0)]);
    assert_eq!(verdict(&both, "ghstcp-gentle-improves-reno"), Verdict::Held);
    // The shares are as fair as before, although S1 gets more.
    let same = everywhere(&[(HIGHSPEED, 200.0, 1_800.0), (GENTLE, 220.0, 1_980.0)]);
    assert_eq!(verdict(&same, "ghstcp-gentle-improves-reno"), Verdict::Undecided);
    let mut lost = outcome(100.0, 400.0);
    lost.groups.get_mut("S2").unwrap().flows.pop();
    assert_eq!(share(&lost), None, "a flow that failed is not left out");
    assert_eq!((s1(&lost), s2(&lost), total(&lost)), (Some(100.0), None, None));
}

#[test]
fn ghstcp_report_omits_figures_without_results() {
    let report = PAPER.report(&everywhere(&[(RENO, 480.0, 1_500.0)]));
    let ids: Vec<&str> = report.artefacts.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, ["figure 2", "figure 3"]);
    assert!(report.claims.iter().all(|c| !c.id.contains("ared")), "{:?}", report.claims);
    // Half of the numbers are missing.
    assert!(
        report
            .claims
            .iter()
            .any(|c| c.id == "ghstcp-highspeed-gets-much" && c.verdict == Verdict::Undecided)
    );
    let Body::Figure(figure) = &report.artefacts[0].body else { panic!("no figure") };
    assert_eq!(figure.series[1].points, [(25.0, 1_500.0), (50.0, 1_500.0), (100.0, 1_500.0)]);
}

#[test]
fn runs_needed_by_ghstcp_claims_are_in_shipped_studies() {
    for system in
        [RENO, HIGHSPEED, GENTLE, HIGHSPEED_ARED, GENTLE_GARED, HIGHSPEED_GARED, GENTLE_ARED]
    {
        let study = study(system.study).with_stack(Stack::Quinn).unwrap();
        for scale in [1.0, 0.02] {
            let runs = study.runs(scale).unwrap();
            for delay in DELAYS {
                let axes = system.axes();
                let key = with(&axes, "delay", delay);
                let fits = |k: &std::collections::BTreeMap<String, String>| {
                    k.len() == key.len()
                        && key.iter().all(|(axis, value)| k.get(*axis).is_some_and(|v| v == value))
                };
                let run =
                    runs.iter().find(|run| fits(&run.key)).unwrap_or_else(|| panic!("{key:?}"));
                // The rates are a tenth of those of gHSTCP §3.1.
                assert_eq!(run.scenario.chain.links[0].rate.bits_per_sec(), 250_000_000);
                let access =
                    [0, 1].map(|i| run.scenario.traffic[i].access.rate.bits_per_sec() / 1_000_000);
                assert_eq!(access, [10, 100]);
            }
        }
    }
}
