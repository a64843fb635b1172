//! Reports over a small fixed comparison and over empty ones.

use fathom_metrics::{Distribution, WindowPoint};
use fathom_netsim::backend::Backend;

use super::{html, table};
use crate::compare::result::FORWARD;
use crate::compare::{ComparedRun, Comparison, Missing, Plan, Reference};
use crate::scenario::{GroupOutcome, LinkOutcome, Outcome, SharesOverTime};
use crate::stack::Stack;

fn distribution(scale: f64) -> Distribution {
    Distribution {
        count: 100,
        mean_ms: 30.0 * scale,
        median_ms: 20.0 * scale,
        p90_ms: 60.0 * scale,
        p95_ms: 80.0 * scale,
        p99_ms: 200.0 * scale,
        max_ms: 500.0 * scale,
        cdf: vec![(5.0 * scale, 0.0), (20.0 * scale, 0.5), (80.0 * scale, 0.95), (500.0 * scale, 1.0)],
    }
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
    let plan = Plan { controllers: vec!["reno".into(), "sync".into()], ..Plan::default() };
    let reference = Reference {
        rates: [87.1, 84.1],
        offered_percent: [90.2, 89.7],
        calibration_runs: 2,
        run: ComparedRun { link: "100Mbps".into(), ..run("reno", 0.5) },
    };
    Comparison {
        plan,
        request_hash: "00".into(),
        runs: vec![run("reno", 1.0), run("sync", 0.8)],
        reference: Some(reference),
        incomplete: Vec::new(),
    }
}

#[test]
fn the_table_has_every_row_of_the_papers_table() {
    let text = table(&comparison());
    for row in [
        "responses completed",
        "drops",
        "mean queue",
        "mean response size",
        "goodput per response",
        "median",
        "mean (ms)",
        "p90",
        "p95",
        "p99",
    ] {
        assert!(text.contains(row), "'{row}' is not in\n{text}");
    }
    let head = text.lines().find(|l| l.contains("reno") && l.contains("at 100Mbps")).expect("a head");
    assert!(head.contains("sync"));
    assert!(text.contains("sync against reno: response time median -20.0 %, mean -20.0 %"), "{text}");
    assert!(text.lines().take_while(|l| !l.contains("against")).skip(2).all(|l| l.chars().count() <= 100), "{text}");
    assert!(!text.contains("requests failed"), "nothing failed:\n{text}");
}

#[test]
fn failures_show() {
    let mut c = comparison();
    group(&mut c.runs[0]).failed = 3;
    assert!(table(&c).contains("requests failed"));
}

#[test]
fn a_missing_run_is_said_in_table_page_and_json() {
    let mut c = comparison();
    let missing = Missing { label: "dca".into(), controller: "dca".into(), why: "interrupted".into() };
    assert!(!serde_json::to_string(&c).unwrap().contains("incomplete"));
    c.incomplete.push(missing);
    for text in [table(&c), html(&c)] {
        assert!(text.contains("INCOMPLETE: no results of dca (interrupted)"), "{text}");
    }
    let json = serde_json::to_value(&c).unwrap();
    assert_eq!(json["incomplete"][0]["label"], "dca");
    assert_eq!(serde_json::from_value::<Comparison>(json).unwrap(), c);
}

#[test]
fn a_percentile_of_too_few_responses_is_a_dash() {
    let mut c = comparison();
    assert!(!table(&c).contains("too few"));
    group(&mut c.runs[1]).times.as_mut().expect("responses").count = 99;
    let text = table(&c);
    let p99 = text.lines().find(|l| l.starts_with("response time, p99")).unwrap();
    assert!(
        p99.split_whitespace().nth(5) == Some("-") && text.contains("p99 n/a") && text.contains("too few"),
        "{text}"
    );
}

#[test]
fn the_page_has_every_plot_and_is_the_same_each_time() {
    let page = html(&comparison());
    // Two axes of two distributions, the queue, the window, the delay, three of shares.
    assert_eq!(page.matches("<svg").count(), 10);
    assert_eq!(page, html(&comparison()));
    for load in ["src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(load), "{load}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

#[test]
fn names_cannot_break_the_page() {
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
    assert!(table(&c).contains("responses completed"));
    let c = Comparison { runs: Vec::new(), reference: None, ..comparison() };
    assert!(html(&c).contains("</html>") && !table(&c).is_empty());
}
