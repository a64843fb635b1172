//! Tests of reports on a small fixed comparison and on empty ones.

use fathom_metrics::{Distribution, WindowPoint};
use fathom_netsim::backend::Backend;

use super::{html, table};
use crate::compare::plan::FORWARD;
use crate::compare::{ComparedRun, Comparison, Missing, Plan, Reference};
use crate::scenario::{GroupOutcome, LinkOutcome, Outcome, SharesOverTime};
use crate::stack::Stack;

fn distribution(scale: f64) -> Distribution {
    Distribution {
        count: 1_000,
        mean_ms: 30.0 * scale,
        median_ms: 20.0 * scale,
        p90_ms: 60.0 * scale,
        p95_ms: 80.0 * scale,
        p99_ms: 200.0 * scale,
        max_ms: 500.0 * scale,
        cdf: vec![
            (5.0 * scale, 0.0),
            (20.0 * scale, 0.5),
            (80.0 * scale, 0.95),
            (500.0 * scale, 1.0),
        ],
    }
}

/// Returns a run whose response times grow by 10 % of `scale` with each seed.
fn of_seed(controller: &str, scale: f64, seed: u64) -> ComparedRun {
    let run = run(controller, scale * (1.0 + 0.1 * seed as f64));
    ComparedRun { seed, ..run }
}

fn run(controller: &str, scale: f64) -> ComparedRun {
    let link = LinkOutcome {
        arrived: 1000,
        dropped: 20,
        drops_percent: 2.0 * scale,
        mean_queue: 50.0,
        max_queue: 136,
        utilisation_percent: 90.0,
        throughput_bps: 9e6,
        bin_seconds: 0.5,
        queue_mean: vec![0.0, 40.0, 80.0, 60.0, 50.0, 70.0, 90.0, 20.0],
        queue_max: vec![1.0, 90.0, 136.0, 100.0, 90.0, 110.0, 136.0, 60.0],
        shares: Some(SharesOverTime {
            bin_seconds: 1.0,
            flows: vec![0, 4, 4],
            jain: vec![None, Some(0.75), Some(0.5)],
            starved_percent: vec![None, Some(0.0), Some(25.0)],
            size_p10: vec![1_200.0; 3],
            size_median: vec![1_392.0; 3],
            size_p90: vec![1_392.0; 3],
        }),
        ..LinkOutcome::default()
    };
    let point = |i: u32| WindowPoint {
        at: f64::from(i) * 0.05,
        window: 20_000 + 500 * u64::from(i),
        queueing_ms: Some(f64::from(i)),
        hold_ms: None,
        datagram: None,
    };
    let group = GroupOutcome {
        responses: 100,
        accepted: 100,
        one_way_negotiated: 100,
        mean_size: 7000.0,
        goodput_per_response_kbps: 100.0,
        times: Some(distribution(scale)),
        times_large: Some(distribution(4.0 * scale)),
        early_reductions: 7,
        loss_reductions: 3,
        traced: 1_000_000,
        window: (0..50).map(point).collect(),
        ..GroupOutcome::default()
    };
    ComparedRun {
        label: controller.into(),
        controller: controller.into(),
        stack: Stack::Quinn,
        backend: Backend::Virtual,
        seed: 1,
        bottleneck: "left-right".into(),
        link: "10Mbps".into(),
        outcome: Outcome {
            seconds: 4.0,
            links: [(FORWARD.1.to_owned(), link)].into(),
            groups: [(FORWARD.0.to_owned(), group)].into(),
            trace_hash: "0123456789abcdef".into(),
            ..Outcome::default()
        },
    }
}

fn group(run: &mut ComparedRun) -> &mut GroupOutcome {
    run.outcome.groups.get_mut(FORWARD.0).expect("it is there")
}

fn comparison() -> Comparison {
    let plan =
        Plan { controllers: vec!["reno".into(), "sync".into()], seeds: 3, ..Plan::default() };
    let reference = Reference {
        carried_percent: [90.2, 89.7],
        run: ComparedRun { link: "100Mbps".into(), ..run("reno", 0.5) },
    };
    Comparison {
        plan,
        request_hash: "00".into(),
        runs: vec![
            of_seed("reno", 1.0, 1),
            of_seed("reno", 1.0, 2),
            of_seed("reno", 1.0, 3),
            of_seed("sync", 0.79, 1),
            of_seed("sync", 0.81, 2),
            of_seed("sync", 0.80, 3),
        ],
        reference: Some(reference),
        incomplete: Vec::new(),
    }
}

#[test]
fn comparison_table_ranks_controllers_and_gives_conclusion() {
    let text = table(&comparison());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|l| l.chars().count() <= 100), "{text}");
    let row = |name: &str| {
        lines.iter().position(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name}:\n{text}"))
    };
    // The best controller is first, the uncongested network last.
    assert!(row("sync ") < row("reno ") && row("reno ") < row("uncongested, 100Mbps"), "{text}");
    let head = lines[row("sync ") - 1];
    for name in ["rank", "mean ms", "against reno", "p50 ms", "p99 ms", "drops %", "Mbps"] {
        assert!(head.contains(name), "'{name}' is not in\n{text}");
    }
    // With each seed, sync takes 0.79 to 0.81 times as long as reno.
    assert!(lines[row("sync ")].contains("-20 % (-22 to -17)"), "{text}");
    assert!(
        text.contains(
            "Compared with reno, by mean response time over 3 seeds: sync 17 to 22 % faster."
        ),
        "{text}"
    );
    assert!(text.contains("other paths or loads may rank differently"), "{text}");
    assert!(!text.contains("failed"), "nothing failed:\n{text}");
}

#[test]
fn controllers_without_significant_difference_are_shown_as_tied() {
    let mut c = comparison();
    // vegas is faster than reno with one seed and slower with the others.
    for (seed, scale) in [(1, 0.9), (2, 1.1), (3, 1.02)] {
        c.runs.push(of_seed("vegas", scale, seed));
    }
    c.runs.retain(|r| r.controller != "sync");
    let text = table(&c);
    assert!(text.contains("vegas cannot be told apart from reno with 3 seeds."), "{text}");
    assert_eq!(c.ranking().entries.iter().map(|e| e.place).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert!(
        text.replace('\n', " ")
            .contains("~ marks controllers that cannot be told apart from the best"),
        "{text}"
    );
}

#[test]
fn tie_marks_and_conclusion_name_the_same_controllers() {
    let mut c = comparison();
    c.runs.retain(|r| r.controller == "reno");
    // vegas has the best mean and wide changes; dual is always a little slower than reno.
    for (seed, vegas, dual) in [(1, 0.7, 1.05), (2, 1.2, 1.06), (3, 1.04, 1.05)] {
        c.runs.push(of_seed("vegas", vegas, seed));
        c.runs.push(of_seed("dual", dual, seed));
    }
    let order = c.ranking();
    let marks: Vec<(&str, bool)> =
        order.entries.iter().map(|e| (e.candidate.label, e.tied)).collect();
    assert_eq!(marks, [("vegas", false), ("reno", true), ("dual", false)]);
    let text = table(&c).replace('\n', " ");
    assert!(text.contains("It is undecided which of vegas and reno is the best."), "{text}");
    assert!(text.contains("dual 3.9 to 6.8 % slower"), "{text}");
}

#[test]
fn comparison_table_begins_with_the_conclusion() {
    let text = table(&comparison());
    assert!(
        text.starts_with("Compared with reno, by mean response time over 3 seeds: sync"),
        "{text}"
    );
}

#[test]
fn response_times_below_1_ms_keep_their_decimals() {
    let mut c = comparison();
    c.runs = vec![of_seed("reno", 0.01, 1), of_seed("sync", 0.012, 1)];
    c.plan.seeds = 1;
    let text = table(&c);
    // Median of the first seed: 20 ms x 0.01 x 1.1 = 0.22 ms.
    let reno = text.lines().find(|l| l.starts_with("reno   ")).unwrap();
    assert!(reno.split_whitespace().any(|cell| cell == "0.22"), "{text}");
    assert!(text.contains("in this seed, 0.33 ms"), "{text}");
}

#[test]
fn report_begins_with_events_that_came_after_all_runs() {
    let mut c = comparison();
    c.plan.path.events = vec!["blackout:1s@3s".into(), "blackout:2s@10s".into()];
    let late = c.late_events();
    assert!(
        late.len() == 1
            && late[0].0
            && late[0].1.contains("'blackout:2s@10s' came after the end of every run")
    );
    assert!(
        table(&c).starts_with("NOTE: event 'blackout:2s@10s'") && html(&c).contains("NOTE: event")
    );
    c.runs[0].outcome.seconds = 11.0;
    let late = c.late_events();
    assert!(!late[0].0 && late[0].1.contains("5 of 6 runs"), "{late:?}");
}

#[test]
fn report_begins_with_note_on_saturated_reverse_direction() {
    let mut c = comparison();
    c.plan.path.up_rate = Some("2Mbps".into());
    assert_eq!(c.full_other_direction(), None);
    for run in &mut c.runs {
        let full = LinkOutcome {
            arrived: 1000,
            drops_percent: 28.4,
            utilisation_percent: 98.2,
            ..LinkOutcome::default()
        };
        run.outcome.links.insert("right-left".into(), full);
    }
    assert!(
        table(&c)
            .starts_with("NOTE: the direction of requests and acknowledgements was full (utilisation 98 %, 28 % of its")
    );
    // A direction whose queue drops packets is not called full while its link has capacity left.
    // Low utilisation with few drops gives no note.
    for (used, dropped, says) in [
        (30.0, 4.0, Some("dropped 4 % of its packets at a utilisation of 30 %")),
        (30.0, 0.4, None),
    ] {
        for run in &mut c.runs {
            let link = run.outcome.links.get_mut("right-left").unwrap();
            (link.utilisation_percent, link.drops_percent) = (used, dropped);
        }
        let said = c.full_other_direction();
        assert_eq!(said.is_some(), says.is_some(), "{said:?}");
        assert!(said.is_none_or(|said| said.contains(says.unwrap()) && !said.contains("full")));
    }
    // There is no note about the reverse direction if bodies travel in both directions.
    for run in &mut c.runs {
        let link = run.outcome.links.get_mut("right-left").unwrap();
        link.utilisation_percent = 98.0;
    }
    assert!(c.full_other_direction().is_some());
    for run in &mut c.runs {
        run.outcome.groups.insert("reverse".into(), GroupOutcome::default());
    }
    assert_eq!(c.full_other_direction(), None);
}

#[test]
fn comparison_with_one_seed_has_no_interval_or_conclusion() {
    let mut c = comparison();
    c.plan.seeds = 1;
    c.runs.retain(|r| r.seed == 1);
    let text = table(&c);
    let said = text.replace('\n', " ");
    assert!(
        said.contains("One seed is not a result") && !said.contains("95 %") && !said.contains('±'),
        "{text}"
    );
    assert!(text.contains("sync has the lowest mean response time in this seed, 26 ms."), "{text}");
}

#[test]
fn table_of_twelve_controllers_fits_in_100_columns() {
    let mut c = comparison();
    c.runs.clear();
    for i in 0..12 {
        for seed in 1..=3 {
            c.runs.push(of_seed(
                &format!("sync:floor={i}ms,cut=round"),
                1.0 + f64::from(i) / 50.0,
                seed,
            ));
        }
    }
    let text = table(&c);
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    assert!(text.replace('\n', " ").contains("With 12 controllers"), "{text}");
}

#[test]
fn report_begins_with_failed_requests() {
    let mut c = comparison();
    group(&mut c.runs[0]).failed = 3;
    let text = table(&c);
    assert!(text.starts_with("FAILED: 3 of 303 requests failed under reno"), "{text}");
    assert!(html(&c).contains("FAILED: 3 of 303") && c.without_result().is_none());
}

#[test]
fn controller_with_over_1_percent_failed_requests_is_unranked() {
    let mut c = comparison();
    let best = c.ranking().entries[0].candidate.label.to_owned();
    assert_eq!(best, "sync");
    // Each of the three seeds has 100 completed responses.
    let failed = |c: &mut Comparison, count| {
        c.runs
            .iter_mut()
            .filter(|run| run.controller == "sync")
            .for_each(|run| group(run).failed = count);
    };
    failed(&mut c, 1);
    assert_eq!(c.ranking().entries[0].candidate.label, "sync", "one in a hundred may fail");
    failed(&mut c, 2);
    let (text, ranking) = (table(&c), c.ranking());
    let said = text.replace('\n', " ");
    assert!(said.contains("sync is not ranked: more than 1 % of their requests failed"), "{text}");
    assert!(!said.contains("faster") && !said.contains("is the best"), "{text}");
    let places: Vec<_> =
        ranking.entries.iter().map(|e| (e.candidate.label, e.place, e.change.is_some())).collect();
    assert_eq!(places, [("reno", Some(1), false), ("sync", None, false)]);
    // If too many requests of the baseline fail, nothing is compared with it.
    failed(&mut c, 0);
    c.runs.iter_mut().filter(|run| run.controller == "reno").for_each(|run| group(run).failed = 50);
    assert!(c.ranking().entries.iter().all(|entry| entry.change.is_none()));
}

#[test]
fn report_begins_with_controller_that_completed_no_request() {
    let mut c = comparison();
    for run in c.runs.iter_mut().filter(|run| run.controller == "sync") {
        *group(run) = GroupOutcome { failed: 2, connections: 2, ..GroupOutcome::default() };
    }
    let text = table(&c);
    assert!(text.starts_with("FAILED: all 6 requests failed under sync"), "{text}");
    assert!(c.without_result().is_some_and(|line| line.contains("sync") && !line.contains("reno")));
    let json = serde_json::to_value(super::Document::new(&c)).unwrap();
    assert!(
        json["summary"]["failed"][0]
            .as_str()
            .is_some_and(|line| line.starts_with("all 6 requests"))
    );
}

#[test]
fn report_notes_when_change_and_means_use_different_seeds() {
    let mut c = comparison();
    assert!(c.unpaired().is_empty());
    // Without its slow seed, sync's mean falls from 28.8 to 27.6 ms, but the change per seed stays
    // the same.
    let failed = c.runs.iter_mut().find(|run| run.controller == "sync" && run.seed == 3).unwrap();
    *group(failed) = GroupOutcome { failed: 1, ..GroupOutcome::default() };
    let text = table(&c);
    let said = text.replace('\n', " ");
    assert!(
        said.contains(
            "NOTE: sync has results in 2 and reno in 3 of 3 seeds for the mean response time"
        ),
        "{text}"
    );
    assert!(
        said.contains(
            "covers seeds 1 and 2, in which both have results (means: 27.6 ms and 34.5 ms)"
        ),
        "{text}"
    );
    let row = text.lines().find(|line| line.starts_with("sync ")).unwrap();
    assert!(
        row.contains(") *") && said.contains("* marks changes over fewer seeds than the means"),
        "{text}"
    );
}

#[test]
fn seeds_with_identical_runs_count_as_one_run() {
    let mut c = comparison();
    for run in &mut c.runs {
        let scale = if run.controller == "sync" { 0.6 } else { 1.0 };
        // The times differ by a relative 1e-7 per seed, as with other connection IDs.
        let mut times = distribution(scale);
        times.mean_ms *= 1.0 + 1e-7 * run.seed as f64;
        let group = group(run);
        group.times = Some(times);
        group.request_hash = "1f".into();
    }
    assert!(c.seeds_are_one_run());
    let (text, page) = (table(&c), html(&c));
    let said = text.replace('\n', " ");
    assert!(
        said.starts_with(
            "sync has the lowest mean response time, 18 ms. All 3 seeds gave the same run"
        ),
        "{text}"
    );
    assert!(
        !said.contains('±') && said.contains("-40.0 % ") && !said.contains("-40.0 % ("),
        "{text}"
    );
    assert!(
        page.contains("All 3 seeds gave the same run") && !page.contains("a thin stroke"),
        "{page}"
    );
    // Seeds count as separate runs if their requests differ, or if the times of one controller
    // differ.
    let mut other = c.clone();
    group(&mut other.runs[1]).request_hash = "2e".into();
    assert!(!other.seeds_are_one_run());
    group(&mut c.runs[5]).times.as_mut().unwrap().mean_ms *= 1.01;
    assert!(!c.seeds_are_one_run());
}

#[test]
fn report_names_seeds_with_outlying_results() {
    let mut c = comparison();
    c.plan.seeds = 12;
    c.runs =
        (1..=12).map(|seed| ComparedRun { seed, ..run("reno", 600.0 + seed as f64) }).collect();
    c.runs.extend((1..=12).map(|seed| ComparedRun { seed, ..run("sync", 500.0 + seed as f64) }));
    assert!(c.outlying_seeds().is_empty());
    for (seed, scale) in [(6, 1_000.0), (11, 900.0)] {
        c.runs[11 + seed] = ComparedRun { seed: seed as u64, ..run("sync", scale) };
    }
    let text = table(&c).replace('\n', " ");
    assert!(
        text.contains(
            "Seeds 6 and 11 took 27.0 to 30.0 s under sync, but the median of 12 seeds is 15.2 s."
        ),
        "{text}"
    );
    let json = serde_json::to_value(super::Document::new(&c)).unwrap();
    let of_sync = json["summary"]["ranking"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["label"] == "sync")
        .unwrap();
    assert_eq!(of_sync["outlying_seeds"], serde_json::json!([6, 11]));
}

#[test]
fn missing_runs_are_listed_in_table_page_and_json() {
    let mut c = comparison();
    let missing = |seed| Missing {
        label: "dca".into(),
        controller: "dca".into(),
        seed,
        why: "interrupted".into(),
    };
    assert!(!serde_json::to_string(&c).unwrap().contains("incomplete"));
    c.incomplete.extend([1, 2, 3].map(missing));
    for text in [table(&c), html(&c)] {
        assert!(text.contains("INCOMPLETE: no results of dca (interrupted)"), "{text}");
    }
    let json = serde_json::to_value(&c).unwrap();
    assert_eq!(json["incomplete"][0]["label"], "dca");
    assert_eq!(serde_json::from_value::<Comparison>(json).unwrap(), c);
}

#[test]
fn report_shows_a_dash_for_percentile_of_too_few_responses() {
    let mut c = comparison();
    for run in &mut c.runs {
        group(run).times.as_mut().expect("responses").count = 400;
    }
    assert!(!table(&c).contains("too few"));
    group(&mut c.runs[0]).times.as_mut().expect("responses").count = 199;
    let text = table(&c);
    let reno = text.lines().find(|l| l.starts_with("reno")).unwrap();
    assert!(reno.split_whitespace().any(|cell| cell == "-") && text.contains("too few"), "{text}");
}

#[test]
fn report_page_is_self_contained_and_deterministic() {
    let page = html(&comparison());
    // The 11 drawings are the ranking, two distributions on two axes each, the queue, the window,
    // the queueing delay, and three plots of shares. Each drawing can be saved as SVG and CSV.
    assert_eq!(page.matches("<svg").count(), 11);
    assert_eq!((page.matches(".svg\"").count(), page.matches(".csv\"").count()), (11, 11));
    assert_eq!(page, html(&comparison()));
    for load in ["src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(load), "{load}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

#[test]
fn controller_names_are_escaped_in_report_page() {
    let mut c = comparison();
    c.runs[0].label = "<script>alert(1)</script>".into();
    c.plan.controllers[0] = "<script>".into();
    assert!(!html(&c).contains("<script"));
}

#[test]
fn empty_runs_are_reported_without_plots_or_panics() {
    let empty = ComparedRun { outcome: Outcome::default(), ..run("reno", 1.0) };
    let c = Comparison { runs: vec![empty], reference: None, ..comparison() };
    assert!(!html(&c).contains("<svg"));
    assert!(!table(&c).is_empty());
    let c = Comparison { runs: Vec::new(), reference: None, ..comparison() };
    assert!(html(&c).contains("</html>") && !table(&c).is_empty());
}
