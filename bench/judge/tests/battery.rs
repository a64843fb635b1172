//! Tests that the shipped battery can be run at both depths, for Fathom's controllers and for the
//! stacks' own controllers.

use std::collections::{BTreeMap, BTreeSet};

use fathom_experiments::scenario::{GroupOutcome, Outcome};
use fathom_experiments::study::{RunOptions, StudyRun, StudyRunResult, run_study};
use fathom_judge::{
    Battery, Depth, JudgePlan, Profile, Scorecard, Settings, Verdict, changes, check_baseline,
    report, scorecard,
};
use fathom_metrics::{Distribution, Latencies};
use fathom_netsim::backend::Backend;
use fathom_stacks::Stack;

#[test]
fn every_battery_test_expands_into_runs_at_both_depths() {
    let runs = |profile, depth, controller: &str, stack| {
        let settings = Settings {
            controller: controller.to_owned(),
            against: vec!["cubic".to_owned(), "reno".to_owned()],
            stack,
            depth,
            seeds: None,
            only: Vec::new(),
            backend: Backend::Virtual,
            scale: 1.0,
        };
        let plan = JudgePlan::new(Battery::shipped(profile), settings);
        plan.unwrap_or_else(|e| panic!("{} of {controller} on {stack}: {e}", depth.name()))
            .runs
            .len()
    };
    for (profile, least) in [(Profile::Rfc9743, 100), (Profile::Bbr, 60), (Profile::Rmcat, 20)] {
        for (controller, stack) in
            [("vegas", Stack::Quinn), ("native:bbr", Stack::Quinn), ("native:cubic", Stack::Noq)]
        {
            let [quick, full] =
                [Depth::Quick, Depth::Full].map(|depth| runs(profile, depth, controller, stack));
            assert!(
                full > 3 * quick && quick > least,
                "{profile}: {controller} on {stack}: {quick} and {full} runs"
            );
        }
    }
}

fn plan(depth: Depth, only: &[&str]) -> JudgePlan {
    plan_of(Profile::default(), "vegas", depth, only)
}

fn plan_of(profile: Profile, controller: &str, depth: Depth, only: &[&str]) -> JudgePlan {
    let settings = Settings {
        controller: controller.to_owned(),
        against: vec!["cubic".to_owned(), "reno".to_owned()],
        stack: Stack::Quinn,
        depth,
        seeds: None,
        only: only.iter().map(|only| (*only).to_owned()).collect(),
        backend: Backend::Virtual,
        scale: 1.0,
    };
    JudgePlan::new(Battery::shipped(profile), settings).expect("a controller that runs")
}

/// Judges by some cases of the BBR draft, and returns the failed cases.
fn fails_as_bbr(controller: &str, only: &[&str]) -> Vec<String> {
    let plan = plan_of(Profile::Bbr, controller, Depth::Quick, only);
    let results = run_study(&plan.runs, &RunOptions::default(), &|_| ()).expect("runs that end");
    let card = scorecard(&plan, &results, &BTreeMap::new());
    let failed = card.criteria.into_iter().filter(|case| case.verdict == Verdict::Fail);
    failed.map(|case| case.section).collect()
}

#[test]
fn cases_of_the_bbr_draft_tell_bbr_from_other_controllers() {
    // noq's BBR3 drains the queue of its start-up; CUBIC does not, but both find the rate.
    assert_eq!(fails_as_bbr("native:cubic", &["1", "3", "12"]), ["3"]);
    assert_eq!(fails_as_bbr("native:bbr", &["0", "16"]), ["16"], "quinn's version 1");
}

/// Dashboards treat two cases with equal class and name as one.
#[test]
fn junit_cases_have_unique_class_and_name() {
    for depth in [Depth::Quick, Depth::Full] {
        let text = report::junit(&scorecard(&plan(depth, &[]), &[], &BTreeMap::new()));
        let case = |part: &str| -> String {
            part.split('>').next().unwrap_or_default().trim_end_matches('/').into()
        };
        let cases: Vec<String> = text.split("<testcase ").skip(1).map(case).collect();
        let names: BTreeSet<&String> = cases.iter().collect();
        assert!(cases.len() > 70, "{} cases", cases.len());
        let twice: Vec<&String> = names
            .iter()
            .filter(|n| cases.iter().filter(|c| c == *n).count() > 1)
            .copied()
            .collect();
        assert!(twice.is_empty(), "{}: {twice:?}", depth.name());
    }
}

/// Returns the scorecard of 5.1.5 from handmade outcomes of its runs.
fn of_outcomes(outcome: impl Fn(&StudyRun) -> Outcome) -> Scorecard {
    let plan = plan(Depth::Quick, &["5.1.5"]);
    let result = |run: &StudyRun| StudyRunResult {
        key: run.key.clone(),
        seed: run.seed,
        fingerprint: run.fingerprint.clone(),
        outcome: outcome(run),
    };
    let results: Vec<StudyRunResult> = plan.runs.iter().map(result).collect();
    scorecard(&plan, &results, &BTreeMap::new())
}

fn is_subject(run: &StudyRun) -> bool {
    run.key["controller"] == "vegas"
}

/// Returns an outcome in which all groups of a run are the same.
fn outcome(run: &StudyRun, group: &GroupOutcome, trace_hash: String) -> Outcome {
    let names = run.scenario.traffic.iter().map(|traffic| traffic.name.clone());
    Outcome {
        seconds: 120.0,
        counted_seconds: 110.0,
        groups: names.map(|name| (name, group.clone())).collect(),
        trace_hash,
        ..Outcome::default()
    }
}

/// Returns a group with `completed` responses of this mean time.
fn group(completed: u64, mean_ms: f64) -> GroupOutcome {
    let times =
        || Distribution { count: completed, mean_ms, ..Latencies::default().distribution() };
    GroupOutcome {
        responses: completed,
        times: (completed > 0).then(times),
        ..GroupOutcome::default()
    }
}

/// Returns the scorecard of 5.1.5 if the subject's and the reference's requests have these counts:
/// completed, failed, unfinished.
fn short_flows(subject: (u64, u64, u64), reference: (u64, u64, u64)) -> Scorecard {
    of_outcomes(|run| {
        let (completed, failed, unfinished) = if is_subject(run) { subject } else { reference };
        let group = GroupOutcome { failed, unfinished, ..group(completed, 100.0) };
        outcome(run, &group, run.fingerprint.clone())
    })
}

fn verdicts(card: &Scorecard) -> BTreeSet<(Verdict, String)> {
    let checks = card.criteria.iter().flat_map(|c| &c.tests).flat_map(|t| &t.checks);
    checks.map(|check| (check.verdict, check.note.clone().unwrap_or_default())).collect()
}

#[test]
fn no_responses_fail_unless_the_reference_has_none_either() {
    // Returns the check of this criterion that does not pass, or otherwise the first one.
    let only = |card: &Scorecard| {
        let all = verdicts(card);
        all.iter()
            .find(|(verdict, _)| *verdict != Verdict::Pass)
            .or(all.first())
            .cloned()
            .expect("a check")
    };
    assert_eq!(only(&short_flows((100, 0, 2), (100, 0, 2))), (Verdict::Pass, String::new()));
    let (verdict, note) = only(&short_flows((0, 3, 37), (100, 0, 2)));
    assert_eq!(
        (verdict, &*note),
        (
            Verdict::Fail,
            "none of the 40 requests of one run completed, so this run has no response time"
        )
    );
    assert_eq!(
        only(&short_flows((0, 0, 40), (100, 0, 0))).0,
        Verdict::Fail,
        "without an outcome is without a response"
    );
    let (verdict, note) = only(&short_flows((0, 3, 37), (0, 40, 0)));
    assert!(
        verdict == Verdict::NotDecided && note.contains("and in one run of the reference"),
        "{note}"
    );
}

#[test]
fn seeds_that_give_the_same_run_decide_nothing() {
    let same = of_outcomes(|_| Outcome { trace_hash: "same".into(), ..Outcome::default() });
    for (verdict, note) in verdicts(&same) {
        assert!(
            verdict == Verdict::NotDecided && note.contains("nothing in it is random"),
            "{note}"
        );
    }
}

/// Returns the scorecard of 5.1.5 in which the seeds 2 and 3 gave the same runs. The values of the
/// controller are so different that nothing is decided.
fn two_equal_seeds() -> Scorecard {
    of_outcomes(|run| {
        let seed = run.seed.min(2);
        let mean_ms = if is_subject(run) { 50.0 * seed as f64 } else { 75.0 };
        outcome(run, &group(100, mean_ms), format!("{}{seed}", run.key["controller"]))
    })
}

#[test]
fn equal_runs_of_two_seeds_count_once() {
    let card = two_equal_seeds();
    let checks = card.criteria.iter().flat_map(|c| &c.tests).flat_map(|t| &t.checks);
    let times: Vec<_> = checks.filter(|check| check.measure.contains("response time")).collect();
    assert!(!times.is_empty());
    for check in times {
        let seeds = check.value.map(|value| value.n);
        assert_eq!((check.seeds, seeds, check.verdict), (Some(3), Some(2), Verdict::NotDecided));
    }
    let text = report::text(&card, None);
    assert!(text.contains("(3 seeds, of which 2 gave different runs)"), "{text}");
}

#[test]
fn scorecard_of_a_changed_scenario_is_stale() {
    let mut card = scorecard(&plan(Depth::Quick, &[]), &[], &BTreeMap::new());
    card.check_battery().expect("made now");
    let tests = card.criteria.iter_mut().flat_map(|criterion| &mut criterion.tests);
    let test = tests.last().expect("a test");
    test.fingerprint = "00".to_owned();
    let name = test.name.clone();
    let error = card.check_battery().expect_err("another scenario").to_string();
    assert!(error.contains(&name) && error.contains("scenario"), "{error}");
}

#[test]
fn undecided_checks_of_older_scorecards_show_their_seeds() {
    let mut card = two_equal_seeds();
    let checks = card.criteria.iter_mut().flat_map(|c| &mut c.tests).flat_map(|t| &mut t.checks);
    checks.for_each(|check| check.seeds = None);
    let text = report::text(&card, None);
    assert!(text.contains("(2 seeds)") && !text.contains("gave different runs"), "{text}");
}

#[test]
fn more_seeds_are_advised_only_where_they_can_decide() {
    let close = two_equal_seeds().undecided_must().expect("5.1.5 is undecided");
    assert!(close.contains("5.1.5. To decide them, judge with more --seeds."), "{close}");
    let nothing = short_flows((0, 3, 37), (0, 40, 0)).undecided_must().expect("undecided");
    assert!(nothing.contains("that need more than --seeds: 5.1.5."), "{nothing}");
}

/// Every test has a random element in its path or workload, because many controllers and stacks
/// use no random numbers. quiche is such a stack.
#[test]
#[cfg(feature = "quiche")]
fn seeds_of_every_battery_test_give_different_runs() {
    for profile in Profile::ALL {
        let settings = Settings {
            controller: "cubic".to_owned(),
            against: vec!["reno".to_owned()],
            stack: Stack::Quiche,
            depth: Depth::Full,
            seeds: Some(2),
            only: Vec::new(),
            backend: Backend::Virtual,
            scale: 0.05,
        };
        let plan =
            JudgePlan::new(Battery::shipped(profile), settings).expect("a battery that runs");
        let results =
            run_study(&plan.runs, &RunOptions::default(), &|_| ()).expect("runs that end");
        let mut hashes = BTreeMap::new();
        for result in &results {
            *hashes.entry((&result.key, &result.outcome.trace_hash)).or_insert(0) += 1;
        }
        let same: Vec<_> = hashes.into_iter().filter(|(_, runs)| *runs > 1).collect();
        assert!(same.is_empty(), "{profile}: {same:#?}");
    }
}

#[test]
fn controller_with_more_failed_requests_does_not_pass() {
    let verdict = |subject, reference| short_flows(subject, reference).verdict();
    assert_eq!(verdict((99, 1, 0), (100, 0, 0)), Verdict::Pass, "one in a hundred may");
    assert_eq!(verdict((98, 2, 0), (100, 0, 0)), Verdict::Fail);
    assert_eq!(verdict((90, 10, 0), (90, 10, 0)), Verdict::Pass, "as many as under the reference");
    assert_eq!(verdict((100, 0, 0), (50, 50, 0)), Verdict::Pass);
}

#[test]
fn changes_since_a_baseline_are_worse_only_if_a_check_fails() {
    let [good, bad] = [(100, 0, 0), (0, 3, 37)].map(|of| short_flows(of, (100, 0, 0)));
    // The reference has no responses either.
    let open = short_flows((0, 3, 37), (0, 40, 0));
    let directions = |old: &Scorecard, new: &Scorecard| -> BTreeSet<&'static str> {
        changes(old, new).iter().map(|change| change.direction.text()).collect()
    };
    assert_eq!(directions(&good, &bad), ["worse"].into());
    assert_eq!(directions(&open, &bad), ["worse"].into());
    assert_eq!(directions(&bad, &good), ["better"].into());
    assert_eq!(directions(&bad, &open), ["less certain"].into());
    assert_eq!(directions(&good, &open), ["less certain"].into());
    assert!(directions(&bad, &bad).is_empty());
}

#[test]
fn baseline_of_something_else_is_refused() {
    let (card, plan) = (short_flows((100, 0, 0), (100, 0, 0)), plan(Depth::Quick, &["5.1.5"]));
    let with = |change: fn(&mut Scorecard)| {
        let mut other = card.clone();
        change(&mut other);
        check_baseline(&other, &plan).map_err(|e| e.to_string())
    };
    for (change, what) in [
        ((|c| c.controller = "dual".to_owned()) as fn(&mut Scorecard), "controller"),
        (|c| c.stack = "noq".to_owned(), "stack"),
        (|c| c.profile = Profile::Bbr, "profile"),
        (|c| c.against = vec!["reno".to_owned()], "--against"),
        (|c| c.depth = "full".to_owned(), "depth"),
        (|c| c.backend = Backend::Loopback, "backend"),
        (|c| c.scale = Some(0.5), "--scale"),
    ] {
        let error = with(change).expect_err(what);
        assert!(error.contains(&format!("another {what}")), "{error}");
    }
    let allowed: [fn(&mut Scorecard); 3] = [
        |c| c.seeds = 10,
        |c| c.fathom = "0.0.1".to_owned(),
        |c| c.controller = "vegas:alpha=1p".to_owned(),
    ];
    for change in allowed {
        assert_eq!(with(change), Ok(()));
    }
}

#[test]
fn checks_without_all_runs_are_undecided() {
    let card = scorecard(&plan(Depth::Quick, &["5.1.5"]), &[], &BTreeMap::new());
    let all = verdicts(&card);
    assert!(
        all.iter().all(|(verdict, note)| *verdict == Verdict::NotDecided
            && note.starts_with("runs without a result yet")),
        "{all:?}"
    );
}

#[test]
fn partial_battery_gives_no_complete_verdict() {
    let lines = short_flows((100, 0, 0), (100, 0, 0)).status().join(" ");
    assert!(lines.contains("--only left out") && !lines.contains("No MUST criterion"), "{lines}");
    let whole = scorecard(&plan(Depth::Quick, &[]), &[], &BTreeMap::new());
    assert!(whole.left_out.is_empty());
}
