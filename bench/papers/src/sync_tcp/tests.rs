//! Tests of the predicates on made-up results, and of the match between predicates and studies.

use std::collections::BTreeMap;

use fathom_experiments::scenario::{
    GroupOutcome, LinkOutcome, TracedOutcome, Traffic, Web, WebLoad, Workload,
};
use fathom_metrics::{Distribution, WindowPoint};

use super::claims::crossover;
use super::curves::TIMES;
use super::*;
use crate::testing::{self, put, study};
use crate::{Body, Verdict};

/// Returns a distribution given by its fraction within each time in milliseconds, up to 4 s.
fn distribution(count: u64, fraction: impl Fn(f64) -> f64) -> Distribution {
    let cdf = (0..=400).map(|n| 10.0 * f64::from(n)).map(|ms| (ms, fraction(ms))).collect();
    Distribution {
        count,
        mean_ms: 0.0,
        median_ms: 0.0,
        p90_ms: 0.0,
        p95_ms: 0.0,
        p99_ms: 0.0,
        max_ms: 4_000.0,
        cdf,
    }
}

/// Returns a distribution with half of the responses within `half` milliseconds.
fn by_half(half: f64) -> impl Fn(f64) -> f64 {
    move |ms| ms / (ms + half)
}

fn of_group(group: GroupOutcome) -> Outcome {
    testing::outcome(100.0, [("forward", group)])
}

fn outcome(group: &'static str, fraction: impl Fn(f64) -> f64) -> Outcome {
    let times = Some(distribution(1_000, fraction));
    testing::outcome(
        100.0,
        [(group, GroupOutcome { responses: 1_000, times, ..GroupOutcome::default() })],
    )
}

/// Adds three identical seeds, whose interval is zero.
fn add(results: &mut Results, study: &str, key: &[(&str, &str)], outcome: Outcome) {
    put(results, study, key, 1, [outcome.clone(), outcome.clone(), outcome]);
}

fn add_curve(results: &mut Results, curve: &Curve, half: f64) {
    add(results, curve.study, &curve.key, outcome(curve.group, by_half(half)));
}

fn verdict(results: &Results, id: &str) -> Verdict {
    testing::verdict(&PAPER, results, id)
}

#[test]
fn fraction_between_points_of_a_curve_is_interpolated() {
    let d = Distribution {
        cdf: vec![(100.0, 0.0), (200.0, 0.5), (300.0, 1.0)],
        ..distribution(1, |_| 0.0)
    };
    for (ms, expected) in [
        (50.0, 0.0),
        (100.0, 0.0),
        (150.0, 0.25),
        (200.0, 0.5),
        (260.0, 0.8),
        (300.0, 1.0),
        (900.0, 1.0),
    ] {
        assert!((d.within_ms(ms) - expected).abs() < 1e-12, "{ms}");
    }
}

#[test]
fn crossover_is_the_time_after_which_a_curve_stays_below() {
    let line = |slope: f64, from: f64| {
        distribution(1, move |ms: f64| (from + slope * ms / 1_000.0).min(1.0))
    };
    // 0.3 + 0.4 t and 0.1 + 0.9 t meet at 0.4 s.
    let at = crossover(&line(0.4, 0.3), &line(0.9, 0.1));
    assert!((at - 400.0).abs() <= 10.0, "{at}");
    assert_eq!(crossover(&line(0.1, 0.0), &line(0.2, 0.0)), 10.0);
    assert_eq!(crossover(&line(0.2, 0.0), &line(0.1, 0.0)), 3_000.0);
}

#[test]
fn sync_curve_order_and_crossover_are_judged_at_75_percent() {
    let build = |ared_from: f64, sync: f64| {
        let mut results = Results::default();
        add_curve(&mut results, &Curve::one("75", RENO), 400.0);
        add_curve(&mut results, &Curve::one("75", SYNC), sync);
        let ared = move |ms: f64| {
            by_half(400.0)(ms) + 0.1 * (1.0 - ms / ared_from).max(-1.0) * (ms / 100.0).min(1.0)
        };
        add(&mut results, ONE, &Curve::one("75", ARED).key, outcome("forward", ared));
        results
    };
    let as_printed = build(400.0, 200.0);
    for id in ["sync-75-ared-first", "sync-75-crossover", "sync-75-always-better"] {
        assert_eq!(verdict(&as_printed, id), Verdict::Held, "{id}");
    }
    // SACK-ARED-ECN falls behind from 150 ms on, and Sync-TCP is slower than Reno.
    let otherwise = build(150.0, 500.0);
    for id in ["sync-75-crossover", "sync-75-always-better"] {
        assert_eq!(verdict(&otherwise, id), Verdict::NotHeld, "{id}");
    }
    // Being as fast as Reno is not better than Reno, even if SACK-ARED-ECN is slower from the
    // start.
    assert_eq!(verdict(&build(10.0, 400.0), "sync-75-always-better"), Verdict::Undecided);
}

#[test]
fn sack_ared_is_ahead_early_and_behind_late_at_heavy_load() {
    let build = |ared: fn(f64) -> f64| {
        let mut results = Results::default();
        for load in ["80", "85"] {
            add_curve(&mut results, &Curve::one(load, RENO), 430.0);
            add_curve(&mut results, &Curve::one(load, SYNC), 390.0);
            add(&mut results, ONE, &Curve::one(load, ARED).key, outcome("forward", ared));
        }
        results
    };
    // More responses complete within 200 ms, and then hardly any more complete.
    let printed = build(|ms| if ms <= 200.0 { ms / (ms + 300.0) } else { 0.4 + ms / 1e5 });
    let ids = [
        "sync-heavy-better-than-reno",
        "sync-heavy-better-than-ared",
        "sync-heavy-ared-first",
        "sync-heavy-ared-last",
    ];
    for id in ids {
        assert_eq!(verdict(&printed, id), Verdict::Held, "{id}");
    }
    let best = build(|ms| ms / (ms + 100.0));
    assert_eq!(
        ids.map(|id| verdict(&best, id))[1..],
        [Verdict::NotHeld, Verdict::Held, Verdict::NotHeld]
    );
}

/// Returns the numbers of table 1 as a run's outcome, with `drops` times the paper's drops.
fn summary(column: usize, drops: f64) -> Outcome {
    let number = |row: usize| TABLE_1[row].2[column].parse::<f64>().unwrap();
    let link = LinkOutcome {
        drops_percent: drops * number(0),
        mean_queue: number(1),
        ..LinkOutcome::default()
    };
    let times =
        Distribution { median_ms: number(4), mean_ms: number(5), ..distribution(1, |_| 0.0) };
    let group = GroupOutcome {
        mean_size: number(2),
        goodput_per_response_kbps: number(3),
        times: Some(times),
        ..GroupOutcome::default()
    };
    Outcome { links: [("r0-r1".to_owned(), link)].into(), ..of_group(group) }
}

#[test]
fn printed_sync_table_passes_and_swapped_columns_fail() {
    let ids = ["drops", "queue", "size", "goodput", "median", "mean"]
        .map(|row| format!("sync-table-{row}"));
    let build = |columns: [usize; 3], drops: f64| {
        let mut results = Results::default();
        for (system, column) in [RENO, ARED, SYNC].into_iter().zip(columns) {
            add(&mut results, ONE, &Curve::one("80", system).key, summary(column, drops));
        }
        results
    };
    let (printed, turned) = (build([0, 1, 2], 1.0), build([2, 0, 1], 0.5));
    for id in &ids {
        assert_eq!(verdict(&printed, id), Verdict::Held, "{id}");
        assert_eq!(verdict(&turned, id), Verdict::NotHeld, "{id}");
    }
    assert_eq!(verdict(&printed, "sync-ared-above-target"), Verdict::Held);
    // Five times the drops, 69% and 19%, is another regime, whatever the order.
    for id in &ids {
        let claims = PAPER.report(&build([0, 1, 2], 5.0)).claims;
        let collapsed = claims.into_iter().find(|claim| claim.id == *id).unwrap();
        assert_eq!(collapsed.verdict, Verdict::NotInRegime, "{id}");
        let expected =
            "a link drops more than 17 % of its packets: SACK-ARED-ECN at 80 % load (70 %)";
        assert!(collapsed.reason.contains(expected), "{}", collapsed.reason);
    }
    let Body::Table(table) = table_1(&printed).body else { panic!("no table") };
    for row in &table.rows {
        for entry in &row.entries[..3] {
            assert_eq!(
                entry.ours.unwrap().mean,
                entry.paper.as_ref().unwrap().parse::<f64>().unwrap(),
                "{}",
                row.label
            );
        }
        assert_eq!(row.entries[3].ours, None);
    }
}

#[test]
fn largest_response_is_judged_only_if_it_completes() {
    let run = |end: Option<(f64, u64)>, traced: u64| {
        let traced_end = end.map(|(seconds, lost)| TracedOutcome { seconds, sent: 35_000, lost });
        of_group(GroupOutcome { traced, traced_end, ..GroupOutcome::default() })
    };
    let of_size = |traced, reno, ared, sync| {
        let mut results = Results::default();
        for (system, end) in [(RENO, reno), (ARED, ared), (SYNC, sync)] {
            add(&mut results, LARGEST, &[("system", system)], run(end, traced));
        }
        ["sync-largest-faster", "sync-largest-fewer-drops", "sync-largest-ared-incomplete"]
            .map(|id| verdict(&results, id))
    };
    let build = |reno, ared, sync| of_size(49_000_000, reno, ared, sync);
    assert_eq!(build(Some((900.0, 600)), None, Some((640.0, 100))), [Verdict::Held; 3]);
    assert_eq!(
        build(Some((680.0, 500)), Some((900.0, 9)), Some((900.0, 400))),
        [Verdict::NotHeld; 3]
    );
    // The response is faster, but only by 28 s, and has fewer drops, but only by a factor of three.
    let slightly = [Some((488.0, 300)), None, Some((460.0, 100))];
    assert_eq!(build(slightly[0], slightly[1], slightly[2])[..2], [Verdict::NotHeld; 2]);
    // For a response of a tenth of the paper's size, 28 s are enough.
    let smaller = of_size(4_900_000, slightly[0], slightly[1], slightly[2]);
    assert_eq!(smaller[..2], [Verdict::Held, Verdict::NotHeld]);
    assert_eq!(build(None, None, Some((680.0, 1)))[..2], [Verdict::Undecided; 2]);
}

#[test]
fn runs_with_one_two_and_three_bottlenecks_are_compared() {
    let build = |reno: [f64; 3], ared: [f64; 3], sync: [f64; 3]| {
        let mut results = Results::default();
        for (load, cases) in [
            ("75", ["75 %, 2 bottlenecks", "75 %, 3 bottlenecks"]),
            ("80", ["80 %, 2 bottlenecks", "80 %, 3 bottlenecks"]),
        ] {
            for (system, halves) in [(RENO, reno), (ARED, ared), (SYNC, sync)] {
                add_curve(&mut results, &Curve::one(load, system), halves[0]);
                add_curve(&mut results, &Curve::several(cases[0], system), halves[1]);
                add_curve(&mut results, &Curve::several(cases[1], system), halves[2]);
            }
        }
        let ids = ["better", "reno-degrades", "ared-improves", "degrades-little", "as-reno-alone"];
        ids.map(|id| verdict(&results, &format!("sync-several-{id}")))
    };
    assert_eq!(
        build([400.0, 450.0, 550.0], [600.0, 610.0, 500.0], [370.0, 380.0, 400.0]),
        [Verdict::Held; 5]
    );
    assert_eq!(
        build([400.0, 350.0, 300.0], [500.0, 600.0, 700.0], [370.0, 700.0, 900.0]),
        [Verdict::NotHeld; 5]
    );
}

#[test]
fn later_crossover_of_the_curves_is_detected() {
    let build = |at: [f64; 3]| {
        let mut results = Results::default();
        let curves = |system| {
            [
                Curve::one("75", system),
                Curve::several("75 %, 2 bottlenecks", system),
                Curve::several("75 %, 3 bottlenecks", system),
            ]
        };
        for ((ared, reno), at) in curves(ARED).iter().zip(curves(RENO)).zip(at) {
            add_curve(&mut results, &reno, 400.0);
            let behind = move |ms: f64| by_half(400.0)(ms) + if ms < at { 0.05 } else { -0.05 };
            add(&mut results, ared.study, &ared.key, outcome("forward", behind));
        }
        verdict(&results, "sync-several-crossover")
    };
    assert_eq!(build([400.0, 500.0, 700.0]), Verdict::Held);
    assert_eq!(build([400.0, 500.0, 300.0]), Verdict::NotHeld);
}

#[test]
fn clock_drift_claim_tolerates_a_change_of_2_percent() {
    // The group has only responses above 25 kB, and `early` of its hundred reductions are early.
    let group = |by: f64, early: u64| {
        let cdf = (0..=300)
            .map(|n| 100.0 * f64::from(n))
            .map(|ms| (ms, by_half(5_000.0)(ms) - by))
            .collect();
        let times_large = Some(Distribution { cdf, ..distribution(100, |_| 0.0) });
        let (early_reductions, loss_reductions) = (early, 100 - early);
        GroupOutcome { times_large, early_reductions, loss_reductions, ..GroupOutcome::default() }
    };
    let build = |by: f64, early: u64| {
        let mut results = Results::default();
        for load in ["75", "80", "85"] {
            add(&mut results, ONE, &Curve::one(load, SYNC).key, of_group(group(0.0, 88)));
            add(&mut results, DRIFT, &Curve::drift(load).key, of_group(group(by, early)));
        }
        testing::finding(&PAPER, &results, "sync-drift-harmless")
    };
    assert_eq!(
        (build(0.015, 88).verdict, build(-0.03, 88).verdict),
        (Verdict::Held, Verdict::NotHeld)
    );
    // If losses cause most reductions, drift has nothing to disturb, so neither case decides.
    assert_eq!([0.015, -0.03].map(|by| build(by, 12).verdict), [Verdict::NotInRegime; 2]);
}

#[test]
fn mixed_traffic_claim_needs_results_between_the_pure_cases() {
    let build = |all: [f64; 4], reno: [f64; 4], sync: [f64; 4]| {
        let mut results = Results::default();
        add_curve(&mut results, &Curve::one("85", RENO), 500.0);
        add_curve(&mut results, &Curve::one("85", SYNC), 300.0);
        for (n, mix) in MIXES.into_iter().enumerate() {
            let parts = [("forward", all[n]), ("forward/reno", reno[n]), (MIXED_SYNC, sync[n])];
            let mut o = testing::outcome(100.0, []);
            for (group, half) in parts {
                o.groups.extend(outcome(group, by_half(half)).groups);
            }
            add(&mut results, MIX, &[("mix", mix)], o);
        }
        ["by-parts", "little-helps", "reno-unharmed", "reno-improves", "sync-grows", "sync-gains"]
            .map(|id| verdict(&results, &format!("sync-mix-{id}")))
    };
    // 20, 40, 60, 80% Reno.
    let (all, reno, sync) =
        ([330.0, 370.0, 410.0, 460.0], [340.0, 380.0, 420.0, 470.0], [320.0, 360.0, 400.0, 450.0]);
    assert_eq!(build(all, reno, sync), [Verdict::Held; 6]);
    assert_eq!(
        build([460.0, 410.0, 370.0, 600.0], [600.0; 4], [260.0, 250.0, 240.0, 600.0]),
        [Verdict::NotHeld; 6]
    );
}

#[test]
fn sync_claims_on_large_responses_are_judged() {
    let build = |large: u64, within_28: f64| {
        let mut results = Results::default();
        let group = GroupOutcome {
            responses: 1_000,
            times: Some(distribution(1_000, by_half(400.0))),
            times_large: Some(Distribution {
                cdf: vec![(0.0, 0.0), (28_000.0, within_28), (90_000.0, 1.0)],
                ..distribution(large, |_| 0.0)
            }),
            ..GroupOutcome::default()
        };
        for load in ["75", "80", "85"] {
            add(&mut results, ONE, &Curve::one(load, SYNC).key, of_group(group.clone()));
        }
        ["sync-few-are-large", "sync-drift-few-long"].map(|id| verdict(&results, id))
    };
    assert_eq!(build(50, 0.96), [Verdict::Held; 2]);
    assert_eq!(build(80, 0.9), [Verdict::NotHeld; 2]);
}

/// Returns a run of 20 s whose sender sees the queue 0.2 s later. A packet takes 1.136 ms.
fn detected(estimate: impl Fn(f64) -> f64) -> Outcome {
    let queue = |at: f64| 60.0 + 40.0 * (at * 2.0).sin();
    let queue_mean: Vec<f64> = (0..1_000).map(|bin| queue(f64::from(bin) * 0.02 + 0.01)).collect();
    let link = LinkOutcome {
        bin_seconds: 0.02,
        queue_max: vec![100.0; 1_000],
        queue_mean,
        ..LinkOutcome::default()
    };
    let point = |n: u32| {
        let at = 0.05 * f64::from(n);
        WindowPoint {
            at,
            window: 14_000,
            queueing_ms: Some(estimate(at)),
            hold_ms: None,
            datagram: None,
        }
    };
    let group = GroupOutcome { window: (0..400).map(point).collect(), ..GroupOutcome::default() };
    Outcome {
        links: [("left-right".to_owned(), link)].into(),
        ..testing::outcome(20.0, [("forward", group)])
    }
}

#[test]
fn sync_claims_on_queue_tracking_are_judged() {
    let build = |o: Outcome| {
        let mut results = Results::default();
        add(&mut results, DETECTION, &[("system", "detection only")], o);
        (
            verdict(&results, "sync-detection-tracks-queue"),
            verdict(&results, "sync-detection-tracks-trend"),
            results,
        )
    };
    let late = detected(|at| 1.136 * (60.0 + 40.0 * ((at - 0.2) * 2.0).sin()));
    // The average has a clear trend of its own: it rises three quarters of the time, regardless of
    // the queue.
    let deaf = detected(|at| {
        60.0 + if (at / 2.0).fract() < 0.75 {
            (at / 2.0).fract()
        } else {
            3.0 - 3.0 * (at / 2.0).fract()
        }
    });
    let (_, trend, _) = build(deaf);
    assert_eq!(trend, Verdict::NotHeld);
    let (queue, trend, results) = build(late);
    assert_eq!((queue, trend), (Verdict::Held, Verdict::Held));
    let Body::Figure(figure) = detection::figure(&results).body else { panic!("no figure") };
    // 10 to 20 s: 200 estimates, of which every third has a verdict; four borders, the last at the
    // fullest queue.
    let marks: Vec<usize> = figure.series[1..4].iter().map(|s| s.points.len()).collect();
    assert!((199..=201).contains(&marks.iter().sum::<usize>()), "{marks:?}");
    assert!((66..=67).contains(&(marks[1] + marks[2])), "{marks:?}");
    assert!((figure.series[7].points[0].1 - 113.6).abs() < 1e-9);
    // The estimate oscillates five times as fast as the queue.
    let (queue, _, _) = build(detected(|at| 60.0 + 40.0 * (at * 10.0).sin()));
    assert_eq!(queue, Verdict::NotHeld);
}

#[test]
fn sync_report_omits_figures_without_results() {
    let mut results = Results::default();
    add_curve(&mut results, &Curve::one("75", RENO), 400.0);
    let report = PAPER.report(&results);
    let ids: Vec<&str> = report.artefacts.iter().map(|a| a.id.as_str()).collect();
    let without_runs = ["figure 4", "figure 5"];
    assert_eq!(ids[..2], without_runs);
    assert_eq!(ids[2..], ["figure 6", "figure 7", "figure 8", "table 1", "figure 9"]);
    assert!(
        report.claims.iter().all(|c| c.verdict == Verdict::Undecided),
        "half of the numbers are missing"
    );
    let Body::Figure(figure) = &report.artefacts[2].body else { panic!("no figure") };
    assert_eq!((figure.series.len(), figure.series[0].points.len()), (1, 151));
    assert!((figure.series[0].points[40].1 - 0.5).abs() < 1e-9 && TIMES[3] == 400.0);
}

#[test]
fn runs_needed_by_sync_claims_are_in_shipped_studies() {
    let mut curves: Vec<Curve> = ["75", "80", "85"].into_iter().map(Curve::drift).collect();
    for system in [RENO, ARED, SYNC, FREE] {
        curves.extend(["75", "80", "85"].map(|load| Curve::one(load, system)));
    }
    for system in [RENO, ARED, SYNC] {
        let cases = [
            "75 %, 2 bottlenecks",
            "75 %, 3 bottlenecks",
            "80 %, 2 bottlenecks",
            "80 %, 3 bottlenecks",
        ];
        curves.extend(cases.map(|case| Curve::several(case, system)));
        curves.push(Curve { key: vec![("system", system)], study: LARGEST, ..Curve::drift("75") });
    }
    curves.extend(MIXES.map(|mix| Curve::mix(mix, MIXED_SYNC)));
    curves.push(Curve {
        key: vec![("system", "detection only")],
        study: DETECTION,
        ..Curve::drift("75")
    });
    for curve in curves {
        let study = study(curve.study);
        for scale in [1.0, 0.01] {
            let runs = study.runs(scale).unwrap();
            let fits = |key: &BTreeMap<String, String>| {
                let key: BTreeMap<&str, &str> =
                    key.iter().map(|(a, v)| (a.as_str(), v.as_str())).collect();
                key == curve.key.iter().copied().collect()
            };
            let run = runs
                .iter()
                .find(|run| fits(&run.key))
                .unwrap_or_else(|| panic!("{}: {:?}", curve.study, curve.key));
            let (group, part) = curve.group.split_once('/').unwrap_or((curve.group, ""));
            let traffic = run.scenario.traffic.iter().find(|t| t.name == group).unwrap();
            assert!(
                part.is_empty() || traffic.mix.iter().any(|(_, control)| control.spec() == part),
                "{part}"
            );
            assert_eq!(
                (traffic.max_window.packets(), traffic.datagram),
                (Some(68), 1_392),
                "Sync-TCP §4.4"
            );
        }
    }
}

#[test]
fn inner_links_of_sync_studies_have_the_load_of_their_name() {
    for run in study(SEVERAL).runs(1.0).unwrap() {
        let part = |t: &Traffic| match t.workload {
            Workload::Web(Web { load: WebLoad::Computed { part, .. }, .. }) => part,
            _ => 0.0,
        };
        let load = |from: usize| -> f64 {
            run.scenario.traffic.iter().filter(|t| t.from <= from && t.to > from).map(part).sum()
        };
        let wanted = if run.key["case"].starts_with("75") { 0.75 } else { 0.8 };
        // Sync-TCP §4.4 loads the links R1-R2 and R3-R4.
        assert!(
            (load(1) - wanted).abs() < 1e-9 && (load(3) - wanted).abs() < 1e-9,
            "{}",
            run.label()
        );
        assert!(load(0) < wanted && load(2) < wanted);
    }
}
