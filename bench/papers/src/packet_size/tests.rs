//! Tests of the predicates on made-up numbers, and of the studies.

use std::time::Duration;

use fathom_experiments::scenario::{GroupOutcome, Stop};
use fathom_metrics::{Fairness, GroupBytes, WINDOWS};

use super::claims::*;
use super::figures::{LARGE_PERCENT, QUEUES, SIZES, beside_percent};
use super::*;
use crate::Body;
use crate::Verdict::{self, Held, NotHeld, Undecided};
use crate::results::BySeed;
use crate::testing::{axis, every_run, near, outcome, study};

fn v(mean: f64) -> BySeed {
    near(mean, 0.1)
}

fn wide(mean: f64) -> BySeed {
    near(mean, 30.0)
}

#[test]
fn packet_size_claims_have_tolerances_and_limits() {
    let about = |percent: BySeed, paper, points| about(&percent, paper, points).verdict;
    assert_eq!([v(30.0), v(39.0), v(45.0)].map(|p| about(p, 30.0, 10.0)), [Held, Held, NotHeld]);
    assert_eq!([wide(30.0), v(40.0)].map(|p| about(p, 30.0, 10.0)), [Undecided, Undecided]);
    assert_eq!([v(10.0), v(16.0), v(2.0)].map(|p| about(p, 10.0, 5.0)), [Held, NotHeld, NotHeld]);
    let few_off = |second: BySeed| few_off(&[("a", v(1.0)), ("b", second)]).verdict;
    assert_eq!([v(9.0), v(11.0), wide(9.0)].map(few_off), [Held, NotHeld, Undecided]);
    assert_eq!(
        [v(21.0), v(19.0)].map(|second| all_above([&v(25.0), &second], 20.0)),
        [Held, NotHeld]
    );
}

#[test]
fn packet_size_comparisons_must_hold_in_every_case() {
    let rises = |cases: &[f64]| -> Verdict {
        let cases: Vec<BySeed> = cases.iter().map(|mean| v(*mean)).collect();
        rises(&cases.iter().collect::<Vec<_>>())
    };
    assert_eq!(rises(&[30.0, 40.0, 50.0]), Held);
    assert_eq!(rises(&[30.0, 50.0, 40.0]), NotHeld);
    assert_eq!(rises(&[30.0, 30.0]), Undecided);
}

/// Returns 110 s of flows that each get a constant number of bytes per tenth of a second; the fair
/// share is 1000 bytes.
fn shared(groups: &[(&'static str, &[u64])]) -> Outcome {
    let rows = |bytes: &[u64]| bytes.iter().map(|b| vec![*b; 1_000]).collect();
    let bytes: Vec<GroupBytes> = groups
        .iter()
        .map(|(name, flows)| GroupBytes {
            name: (*name).into(),
            fair: 10_000.0,
            flows: rows(flows),
        })
        .collect();
    let group = |flows: &[u64]| GroupOutcome {
        throughput_bps: flows.iter().sum::<u64>() as f64 * 80.0,
        sent: 1_000,
        lost: 10,
        ..GroupOutcome::default()
    };
    let groups = groups.iter().map(|(name, flows)| (*name, group(flows)));
    Outcome { fairness: Fairness::of(&bytes, &WINDOWS), ..outcome(110.0, groups) }
}

#[test]
fn packet_size_shares_are_read_from_windows_and_groups() {
    // 10, 50, 100, 160% and 4%.
    let outcome = shared(&[("large", &[100, 500, 1_000, 1_600]), ("small", &[40])]);
    let all = everyone(&outcome, 1.0).unwrap();
    assert_eq!((half_or_less(all), off(all)), (Some(60.0), Some(80.0)));
    assert_eq!(half_or_less(members(&outcome, 10.0, "large").unwrap()), Some(50.0));
    assert_eq!(members(&outcome, 100.0, "small").unwrap().starved_percent, 100.0);
    assert_eq!((everyone(&outcome, 5.0), members(&outcome, 1.0, "other")), (None, None));
    let beside = beside_percent(&shared(&[("large", &[1_000]), ("other", &[185])])).unwrap();
    assert!((beside - 18.5).abs() < 1e-9, "{beside}");
}

/// Returns a run in which `percent` of 100 flows get nothing, as the thesis reports for large
/// packets. The other flows share equally, and seeds differ slightly.
fn starving(percent: u64, seed: u64) -> Outcome {
    let flows: Vec<u64> =
        (0..100).map(|i| if i < percent { 0 } else { 1_000 + 5 * seed }).collect();
    shared(&[("flows", &flows)])
}

#[test]
fn packet_size_round_one_claims_hold_for_the_thesis_numbers() {
    let all = every_run(ALIKE, |key, seed| {
        let percent = match (key["packet"].as_str(), key["flows"].as_str()) {
            ("1500", "50") => 30,
            ("1500", "100") => 35,
            ("1500", "200") => 40,
            ("1500", _) => 50,
            ("1000", "400") => 30,
            _ => 0,
        };
        starving(percent, seed)
    });
    let report = PAPER.report(&all);
    let verdict = |id: &str| {
        report.claims.iter().find(|c| c.id == id).unwrap_or_else(|| panic!("{id}")).verdict
    };
    let held = [
        "large-half-share-50-flows",
        "small-near-perfect-50-flows",
        "large-worse-with-flows",
        "large-starve-400-flows",
        "small-near-perfect-400-flows",
        "large-starve-400-flows-10-s",
        "small-ideal-10-s",
        "smaller-is-fairer",
    ];
    assert_eq!(held.map(verdict), [Held; 8]);
    // The same flows starve in every window here, so long windows are no better.
    let not = ["long-windows-close-to-fair", "large-starve-200-flows-10-s"];
    assert_eq!((not.map(verdict), verdict("long-windows-better")), ([NotHeld; 2], Undecided));
    let figure = report.artefacts.iter().find(|artefact| artefact.id == "figure 4.7");
    let Some(Body::Figure(figure)) = figure.map(|artefact| &artefact.body) else {
        panic!("no figure")
    };
    assert_eq!(figure.series.len(), 4);
    // Of 400 flows of 1500 bytes, half get nothing, and all others get 100 to 105% of the fair
    // share.
    let curve = &figure.series[0].points;
    assert_eq!(curve[..=1], [(0.0, 50.0), (5.0, 50.0)]);
    assert_eq!(curve.iter().find(|(x, _)| *x == 105.0).unwrap().1, 100.0);
}

#[test]
fn packet_size_studies_have_the_axes_of_the_report() {
    assert_eq!(axis(ALIKE, "packet"), SIZES);
    for study in [ALIKE, ADAPTIVE] {
        assert_eq!(axis(study, "flows"), ["50", "100", "200", "400"]);
    }
    assert_eq!(axis(MIXED, "small"), ["278", "500"]);
    let mixes = ["50", "200"]
        .into_iter()
        .flat_map(|n| LARGE_PERCENT.map(|p| format!("{n} flows, {p}% large")));
    assert_eq!(axis(MIXED, "mix"), mixes.collect::<Vec<_>>());
    assert_eq!(axis(BESIDE, "flows"), ["50", "200"]);
    for (study, name) in [(ADAPTIVE, "size"), (BESIDE, "beside")] {
        assert_eq!(
            (axis(study, name), axis(study, "queue")),
            (["1500", "278", "adaptive"].map(String::from).into(), QUEUES.map(String::from).into())
        );
    }
}

#[test]
fn flow_mixes_of_packet_size_studies_match_their_names() {
    for run in study(MIXED).runs(1.0).unwrap() {
        let [large, small] = [0, 1].map(|i| run.scenario.traffic[i].workload.flows().unwrap());
        let (flows, percent) = run.key["mix"].split_once(" flows, ").unwrap();
        let percent: f64 = percent.strip_suffix("% large").unwrap().parse().unwrap();
        assert_eq!((large + small).to_string(), flows);
        assert!(
            (100.0 * f64::from(large) / f64::from(large + small) - percent).abs() <= 1.0,
            "{:?}",
            run.key
        );
        // A window of 100 s fits after the warm-up.
        assert_eq!(run.scenario.warm_up.as_secs(), 10);
        assert_eq!(run.scenario.stop, Stop::At(Duration::from_secs(110)));
    }
}
