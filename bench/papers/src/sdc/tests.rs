//! Tests of the predicates on made-up numbers, and of the studies.

use std::collections::BTreeMap;

use fathom_experiments::scenario::{FlowOutcome, Progress, ScenarioSpec, run};
use fathom_metrics::WindowPoint;

use super::claims::*;
use super::*;
use crate::Verdict::{self, Held, NotHeld, Undecided};
use crate::results::At;
use crate::testing::{axis, every_run, near, outcome, seeds, study};
use crate::{Body, Claim};

fn at(points: &[(f64, f64)]) -> Vec<At> {
    points.iter().map(|(x, y)| At { x: *x, values: near(*y, 0.01) }).collect()
}

fn wide(points: &[(f64, f64)]) -> Vec<At> {
    points.iter().map(|(x, y)| At { x: *x, values: near(*y, 30.0) }).collect()
}

fn fewer_beyond_30(tcp: &[At], sdc: &[At]) -> Verdict {
    less_where(sdc, tcp, |flows, _| flows > 30.0)
}

fn less_everywhere(tcp: &[At], sdc: &[At]) -> Verdict {
    less_where(sdc, tcp, |_, _| true)
}

#[test]
fn sdc_timeouts_and_drops_are_compared_at_every_flow_count() {
    let tcp = at(&[(10.0, 0.0), (30.0, 0.2), (60.0, 5.0), (200.0, 20.0), (500.0, 15.0)]);
    let sdc = at(&[(10.0, 3.0), (30.0, 1.0), (60.0, 1.0), (200.0, 1.5), (500.0, 2.0)]);
    assert_eq!(fewer_beyond_30(&tcp, &sdc), Held, "30 and fewer do not count");
    assert_eq!(fewer_beyond_30(&sdc, &tcp), NotHeld);
    // Equal differences for every seed would decide; here the seeds differ.
    let noisy: Vec<At> = wide(&[(60.0, 1.0), (200.0, 1.5), (500.0, 2.0)]);
    assert_eq!(fewer_beyond_30(&tcp, &noisy), Undecided);
    assert_eq!(fewer_beyond_30(&tcp, &sdc[..4]), Undecided, "500 flows are missing");
    assert_eq!((rises_beyond_30(&tcp), rises_beyond_30(&sdc)), (Held, NotHeld));
    assert_eq!(
        (falls_beyond_200(&tcp), falls_beyond_200(&sdc), falls_beyond_200(&tcp[..4])),
        (Held, NotHeld, Undecided)
    );
    let any = |_, mean| mean >= 1.0;
    assert_eq!(less_where(&sdc, &tcp, any), Held, "TCP has less than one at 10 and 30");
    assert_eq!(less_where(&tcp, &sdc, any), NotHeld);
    let lengths = |ys: [f64; 5]| {
        at(&[100.0, 200.0, 300.0, 400.0, 500.0].into_iter().zip(ys).collect::<Vec<_>>())
    };
    assert_eq!(grows_by_hundreds(&lengths([0.5, 0.9, 1.2, 1.5, 2.0])), Held);
    assert_eq!(grows_by_hundreds(&lengths([0.5, 0.9, 1.2, 1.1, 2.0])), NotHeld);
    assert_eq!(grows_by_hundreds(&lengths([0.5, 0.9, 1.2, 1.2, 2.0])), Undecided);
    let half = |_, mean| mean >= 0.5;
    assert_eq!(less_where(&at(&[(60.0, 1.0), (200.0, 2.0), (500.0, 3.0)]), &tcp, half), Held);
    assert_eq!(less_where(&at(&[(60.0, 1.0), (200.0, 2.0), (500.0, 16.0)]), &tcp, half), NotHeld);
}

#[test]
fn sdc_latencies_are_compared_at_every_flow_count() {
    let (tcp, sdc) = (at(&[(100.0, 0.10), (500.0, 0.30)]), at(&[(100.0, 0.03), (500.0, 0.09)]));
    assert_eq!((less_everywhere(&tcp, &sdc), less_everywhere(&sdc, &tcp)), (Held, NotHeld));
    assert_eq!(less_everywhere(&tcp, &at(&[(100.0, 0.03), (500.0, 0.4)])), NotHeld);
    assert_eq!(
        (less_everywhere(&tcp, &sdc[..1]), less_everywhere(&[], &sdc)),
        (Undecided, Undecided)
    );
}

#[test]
fn sdc_claims_of_hardly_ever_and_nearly_always_have_thresholds() {
    assert_eq!(
        (hardly_ever(&at(&[(40.0, 9.0), (100.0, 1.0)])), hardly_ever(&at(&[(40.0, 11.0)]))),
        (Held, NotHeld)
    );
    assert_eq!(
        (nearly_always(&at(&[(40.0, 91.0)])), nearly_always(&at(&[(40.0, 99.0), (100.0, 89.0)]))),
        (Held, NotHeld)
    );
    assert_eq!(
        (hardly_ever(&wide(&[(40.0, 9.0)])), nearly_always(&wide(&[(40.0, 91.0)]))),
        (Undecided, Undecided)
    );
}

#[test]
fn disparity_of_a_ratio_equals_that_of_its_inverse() {
    let tcp = at(&[(1.0, 1.0), (10.0, 9.0)]);
    // 9:1 is a disparity of 8; 4:1 and 1:4 are 3, less than half of it; 6:1 is 5.
    assert_eq!(half_the_disparity(&tcp, &at(&[(1.0, 1.5), (10.0, 4.0)])), Held);
    assert_eq!(half_the_disparity(&tcp, &at(&[(10.0, 0.25)])), Held);
    assert_eq!(half_the_disparity(&tcp, &at(&[(10.0, 6.0)])), NotHeld);
    assert_eq!(half_the_disparity(&tcp, &at(&[(10.0, 5.0)])), Undecided);
    assert_eq!(
        (near_gets_more(&tcp), near_gets_more(&at(&[(2.0, 0.9), (10.0, 9.0)]))),
        (Held, NotHeld)
    );
}

#[test]
fn sdc_shares_against_tcp_are_judged() {
    let about_30 = |values: [f64; 3]| about(&seeds(values), 30.0).verdict;
    assert_eq!((about_30([28.0, 30.0, 33.0]), about_30([60.0, 61.0, 62.0])), (Held, NotHeld));
    assert_eq!(about_30([38.0, 40.0, 42.0]), Undecided);
    let rising = at(&[(0.1, 90.0), (0.5, 50.0), (0.9, 30.0)]);
    let bump = at(&[(0.1, 90.0), (0.5, 95.0), (0.9, 30.0)]);
    assert_eq!(
        (rises_as_the_factor_falls(&rising), rises_as_the_factor_falls(&bump)),
        (Held, NotHeld)
    );
    assert_eq!(
        rises_as_the_factor_falls(&wide(&[(0.1, 90.0), (0.9, 30.0)])),
        Held,
        "paired: the seeds move together"
    );
    let same =
        |sdc: &[f64]| same_throughput(&seeds(sdc.iter().map(|_| 9.0)), &seeds(sdc.iter().copied()));
    assert_eq!((same(&[9.0, 9.1, 8.9]), same(&[5.0, 5.1, 5.2])), (Held, NotHeld));
    assert_eq!((same(&[9.1]), same(&[8.0])), (Undecided, Undecided), "one seed has no interval");
}

#[test]
fn sdc_windows_are_averaged_over_time() {
    let point = |at: f64, packets: u64| WindowPoint {
        at,
        window: packets * DATAGRAM,
        queueing_ms: None,
        hold_ms: None,
        datagram: None,
    };
    // From 10 s on, the window has 8 packets for 5 s, 2 packets for 10 s and 5 packets for 15 s.
    let window = vec![point(0.0, 100), point(5.0, 8), point(15.0, 2), point(25.0, 5)];
    let group = GroupOutcome { window, ..GroupOutcome::default() };
    let traced = outcome(40.0, [("flows", group)]);
    let (four, eight) = (above_four(&traced).unwrap(), eight_or_more(&traced).unwrap());
    assert!(
        (four - 100.0 * 20.0 / 30.0).abs() < 1e-9 && (eight - 100.0 * 5.0 / 30.0).abs() < 1e-9,
        "{four} {eight}"
    );
    assert_eq!(above_four(&outcome(5.0, [])), None);
}

fn verdict(claims: &[Claim], id: &str) -> Verdict {
    claims.iter().find(|c| c.id == id).unwrap_or_else(|| panic!("no claim {id}")).verdict
}

#[test]
fn sdc_claims_on_figures_4_to_6_hold_for_the_papers_numbers() {
    // The numbers are made up so that they match the text of SDC §3.1 and §3.2.
    let results = every_run(FIGURE_4, |key, seed| {
        let flows: f64 = key["flows"].parse().unwrap();
        let (rate, lost) = match key["system"].as_str() {
            TCP if flows <= 30.0 => (0.1, 0.5),
            TCP if flows <= 200.0 => (flows / 10.0, 100.0),
            TCP => (25.0 - flows / 50.0, 150.0),
            _ => (0.5, 10.0),
        };
        let timeouts = flows * rate + seed as f64;
        let group = GroupOutcome {
            connections: flows as u64,
            probe_timeouts: timeouts as u64,
            lost: (flows * lost) as u64 + seed,
            backoffs: timeouts as u64,
            backoff_seconds: timeouts * flows / 100.0,
            ..GroupOutcome::default()
        };
        outcome(100.0, [("flows", group)])
    });
    let report = PAPER.report(&results);
    let ids: Vec<&str> = report.artefacts.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, ["figure 4", "figure 5", "figure 6"]);
    let Body::Figure(figure) = &report.artefacts[0].body else { panic!("no figure") };
    assert_eq!(figure.series.iter().map(|s| s.points.len()).collect::<Vec<_>>(), [18, 18]);
    // With 100 flows there are 10 timeouts each, plus those of the seeds 1 to 5 over a hundred
    // connections, 0.03 on average.
    let point = figure.series[0].points.iter().find(|(x, _)| *x == 100.0).unwrap();
    assert!((point.1 - 10.03).abs() < 1e-6, "{point:?}");
    let held = [
        "sdc-few-timeouts",
        "tcp-timeouts-rise-beyond-30",
        "tcp-timeouts-fall-beyond-200",
        "tcp-backoffs-grow",
        "sdc-fewer-drops",
    ];
    assert_eq!(held.map(|id| verdict(&report.claims, id)), [Held; 5]);
    assert_eq!(report.claims.len(), 5, "the others' studies have no results");
    assert!(report.claims.iter().all(|c| !c.found.contains("not measured")), "{:?}", report.claims);
}

#[test]
fn sdc_ratio_claims_are_judged_from_their_studies() {
    let group = |bps: f64| GroupOutcome {
        throughput_bps: bps,
        connections: 1,
        probe_timeouts: 1,
        flows: vec![FlowOutcome::default()],
        ..GroupOutcome::default()
    };
    let of_ratio = |key: &BTreeMap<String, String>, seed: u64| {
        let x: f64 = key["ratio"].parse().unwrap();
        let near = if key["system"] == TCP { x } else { 1.0 + (x - 1.0) / 4.0 };
        outcome(100.0, [("near", group((near + seed as f64 / 1e3) * 1e6)), ("far", group(1e6))])
    };
    for (study, id) in
        [(FIGURE_9, "sdc-less-bias-10-flows"), (FIGURE_10, "sdc-less-bias-100-flows")]
    {
        let claims = PAPER.report(&every_run(study, of_ratio)).claims;
        assert_eq!((claims.len(), verdict(&claims, id)), (1, Held));
    }
    let percent = |key: &BTreeMap<String, String>, seed: u64| {
        let percent = key["factor"].parse::<f64>().map_or(20.0, |f| 97.5 - 75.0 * f);
        outcome(100.0, [("SDC", group(percent + seed as f64 / 10.0)), ("TCP", group(100.0))])
    };
    let eleven = PAPER.report(&every_run(FIGURE_11, percent));
    let ids =
        ["sdc-yields", "sdc-share-with-factor-0.9", "sdc-share-with-factor-0.1", "sdc-tunable"];
    assert_eq!(ids.map(|id| verdict(&eleven.claims, id)), [Held; 4]);
    let more = every_run(FIGURE_11, |_, seed| {
        outcome(100.0, [("SDC", group(110.0 + seed as f64)), ("TCP", group(100.0))])
    });
    assert_eq!(verdict(&PAPER.report(&more).claims, "sdc-yields"), NotHeld);
    let alone = PAPER
        .report(&every_run(ALONE, |_, seed| outcome(100.0, [("flow", group(9e6 + seed as f64))])));
    assert_eq!(verdict(&alone.claims, "sdc-alone-as-tcp"), Held);
    let Body::Table(table) = &alone.artefacts[0].body else { panic!("no table") };
    assert!(table.rows.iter().all(|row| row.entries.iter().all(|e| e.ours.is_some())));
}

#[test]
fn sdc_studies_have_the_axes_of_the_report() {
    for study in [FIGURE_4, FIGURE_9, FIGURE_10, FIGURE_12, LATENCY, WINDOWS, ALONE] {
        assert_eq!(axis(study, "system"), [TCP, SDC]);
    }
    let flows = axis(FIGURE_4, "flows");
    assert_eq!(flows, axis(FIGURE_12, "flows"));
    assert!(
        ["30", "60", "100", "200", "300", "400", "500"]
            .iter()
            .all(|n| flows.contains(&(*n).to_owned()))
    );
    assert_eq!(axis(WINDOWS, "flows"), ["40", "100", "200", "500"]);
    assert_eq!(axis(LATENCY, "flows"), ["100", "500"]);
    assert_eq!(axis(ALONE, "window"), ["20p", "none"]);
    let factors = axis(FIGURE_11, "factor");
    assert!(["equation", "0.1", "0.9"].iter().all(|f| factors.contains(&(*f).to_owned())));
}

#[test]
fn round_trips_of_sdc_studies_match_table_2() {
    for name in [FIGURE_9, FIGURE_10] {
        for run in study(name).runs(1.0).unwrap() {
            let bottleneck = run.scenario.chain.links[0].delay;
            let rtt =
                |group: usize| (bottleneck + 2 * run.scenario.traffic[group].access.delay.0) * 2;
            let x: u32 = run.key["ratio"].parse().unwrap();
            let ms = std::time::Duration::from_millis;
            assert_eq!((rtt(0), rtt(1)), (ms(6), ms(6) * x));
            // Each access link has 10 x (10/n) Mbps.
            let n: u64 =
                run.scenario.traffic.iter().filter_map(|t| t.workload.flows()).map(u64::from).sum();
            assert!(
                run.scenario
                    .traffic
                    .iter()
                    .all(|t| t.access.rate.bits_per_sec() == 100_000_000 / n)
            );
        }
    }
}

#[test]
fn reno_reduces_its_window_on_marks_without_drops() {
    // A few flows share a queue that marks and never drops, so only marks halve windows.
    let text = |ecn: &str| {
        format!(
            "stop = \"5s\"\n[network]\ntopology = \"dumbbell\"\nlink = \"10Mbps\"\ndelay = \"20ms\"\n\
             queue = \"red:min=5p,max=500p,limit=2000p,w=0.002,maxp=0.1,gentle=on,ecn={ecn}\"\n\
             [[traffic]]\nname = \"flows\"\nfrom = \"left\"\nto = \"right\"\nworkload = \"flows:4@1s\"\ncontroller = \"reno\"\n\
             packet = 576\n"
        )
    };
    let of = |ecn: &str| {
        let scenario = ScenarioSpec::from_toml(&text(ecn)).unwrap().check().unwrap();
        run(&scenario, 1, &Progress::default()).unwrap().0
    };
    let marked = of("on");
    let (link, group) = (&marked.links["left-right"], &marked.groups["flows"]);
    assert_eq!((link.dropped, group.lost), (0, 0));
    assert!(
        link.marked > 0 && group.loss_reductions > 0,
        "{} {}",
        link.marked,
        group.loss_reductions
    );
    assert_eq!(of("off").links["left-right"].marked, 0);
}
