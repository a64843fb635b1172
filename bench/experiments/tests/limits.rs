//! Whole comparisons in virtual time, over paths on which the factor that limits a controller is
//! known. Tests that the report names this factor.

use fathom_experiments::compare::{Comparison, Limit, Plan, compare};
use fathom_experiments::stack::Stack;
use fathom_netsim::path::PathSpec;

/// Returns a path of this rate and base RTT.
fn path(rate: &str, rtt: &str) -> PathSpec {
    PathSpec { rate: Some(rate.into()), rtt: Some(rtt.into()), ..PathSpec::default() }
}

/// Compares controllers over one path.
fn compared(
    stack: &str,
    controllers: &[&str],
    workload: &str,
    path: PathSpec,
    max_window: &str,
) -> Comparison {
    let plan = Plan {
        controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
        stacks: vec![stack.parse().unwrap()],
        workload: workload.into(),
        path,
        seeds: 1,
        max_window: max_window.into(),
        ..Plan::default()
    };
    compare(&plan, &|_| ()).unwrap_or_else(|e| panic!("{stack}: {e}"))
}

/// Returns the limit of the only controller, and the notes before the verdict.
fn limit(c: &Comparison) -> (Limit, String) {
    let limits = c.limits();
    assert_eq!(limits.len(), c.candidates().len());
    (limits[0].clone(), c.notes().join("\n"))
}

fn share(limit: &Limit, name: &str) -> f64 {
    limit.shares.iter().find(|(of, _)| *of == name).unwrap_or_else(|| panic!("{limit:?}")).1
}

/// Returns the stacks that run Fathom's controllers.
fn stacks() -> impl Iterator<Item = &'static str> {
    Stack::BUILT_IN.iter().map(|stack| stack.name())
}

#[test]
fn random_loss_limit_is_reported_with_mathis_rate() {
    let lossy = PathSpec { loss: Some("1%".into()), ..path("50Mbps", "40ms") };
    for stack in stacks() {
        let c = compared(stack, &["reno"], "bulk:1x4MB@0ms", lossy.clone(), "none");
        let (limit, notes) = limit(&c);
        assert!(limit.line.starts_with("random loss ("), "{stack}: {limit:?}");
        // 1.22 x 1,334 B x 8 / (40 ms x 0.1) is 3.3 Mbps.
        let text = &limit.line;
        let mathis = text
            .split("Mathis allows about ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        assert!(
            stack == "tcp" || mathis.is_some_and(|mbps| (2.5..4.5).contains(&mbps)),
            "{stack}: {text}"
        );
        assert!(share(&limit, "congestion_window") > 0.5, "{stack}: {limit:?}");
        for wrong in ["spurious", "policer", "flow control"] {
            assert!(!text.contains(wrong) && !notes.contains(wrong), "{stack}: {text}\n{notes}");
        }
    }
}

#[test]
fn reordering_without_loss_is_reported_as_spurious_loss() {
    // This queue never drops. quiche undoes its reductions and would overflow a shorter queue.
    let queue = Some("droptail:5000p".into());
    let disorder =
        PathSpec { jitter: Some("20ms,reorder".into()), queue, ..path("20Mbps", "60ms") };
    for stack in stacks() {
        let c = compared(stack, &["reno"], "bulk:1x3MB@0ms", disorder.clone(), "none");
        let (limit, notes) = limit(&c);
        let text = &limit.line;
        if stack == "tcp" {
            // RACK adapts to reordering, and undoes its reductions (RFC 8985 §6.2).
            assert!(text.contains("reductions undone") && !text.contains("spurious"), "{text}");
            continue;
        }
        assert!(
            text.contains("spurious loss by reordering (") && !text.contains("random loss"),
            "{stack}: {text}"
        );
        assert!(
            notes.contains("arrived after all, because the path reorders packets"),
            "{stack}: {notes}"
        );
    }
}

#[test]
fn report_begins_with_a_flow_control_limit() {
    for stack in stacks() {
        // A window of 20 packets per RTT of 100 ms allows 2.2 Mbps on a link of 50 Mbps.
        let c = compared(stack, &["reno"], "bulk:1x1MB@0ms", path("50Mbps", "100ms"), "20p");
        let (limit, notes) = limit(&c);
        assert!(share(&limit, "flow_control") > 0.6, "{stack}: {limit:?}");
        assert!(limit.line.starts_with("flow control"), "{stack}: {limit:?}");
        assert!(
            notes.starts_with("flow control, not the congestion controller"),
            "{stack}: {notes}"
        );
        // A window that is larger than the path needs is not mentioned.
        let c = compared(stack, &["reno"], "bulk:1x1MB@0ms", path("5Mbps", "20ms"), "2000p");
        let notes = c.notes().join("\n");
        assert!(
            !notes.contains("flow control") && !c.limits()[0].line.contains("flow control"),
            "{stack}: {notes}"
        );
    }
}

#[test]
fn live_media_below_link_rate_is_application_limited() {
    for stack in ["quinn", "noq"] {
        let workload = "media:1 at 1Mbps 30fps deadline 200ms for 5s";
        let c = compared(stack, &["cubic"], workload, path("50Mbps", "30ms"), "none");
        let (limit, notes) = limit(&c);
        assert!(share(&limit, "application") > 0.7, "{stack}: {limit:?}");
        assert!(
            limit.line.starts_with("the application")
                && notes.contains("senders had nothing to send"),
            "{limit:?}"
        );
    }
}

#[test]
fn response_that_fits_the_initial_window_is_reported() {
    let c = compared(
        "quinn",
        &["native:cubic", "native:bbr"],
        "bulk:1x128kB@0ms",
        path("100Mbps", "100ms"),
        "none",
    );
    let notes = c.notes().join("\n");
    assert!(notes.contains("fit in the initial window of native:bbr"), "{notes}\n{:?}", c.limits());
    let of = |name: &str| c.limits().into_iter().find(|limit| limit.label == name).unwrap().line;
    assert!(
        of("native:bbr").contains("initial window ")
            && !of("native:cubic").contains("initial window ")
    );
}

#[test]
fn report_distinguishes_policer_drops_from_queue_drops() {
    let policed = PathSpec { policer: Some("5Mbps,burst=30kB".into()), ..path("50Mbps", "40ms") };
    for (path, says, not) in [
        (policed, "the policer (", "the queue"),
        (
            PathSpec { queue: Some("droptail:10p".into()), ..path("5Mbps", "40ms") },
            "of packets dropped, ",
            "policer",
        ),
    ] {
        // BBR does not reduce its window after a loss.
        for (stack, controller) in
            [("quinn", "native:cubic"), ("noq", "native:cubic"), ("quinn", "native:bbr")]
        {
            let c = compared(stack, &[controller], "bulk:1x3MB@0ms", path.clone(), "none");
            let (limit, _) = limit(&c);
            assert!(limit.line.contains(says) && !limit.line.contains(not), "{stack}: {limit:?}");
            assert!(
                !limit.line.contains("random") && !limit.line.contains("spurious"),
                "{stack}: {limit:?}"
            );
        }
    }
}

#[cfg(feature = "quiche")]
#[test]
fn undone_window_reductions_of_quiche_cubic_are_reported() {
    let lossy = PathSpec { loss: Some("0.5%".into()), ..path("50Mbps", "40ms") };
    let plan = |controller: &str, stack| {
        compared(stack, &[controller], "bulk:1x10MB@0ms", lossy.clone(), "none")
    };
    let c = plan("native:cubic", "quiche");
    let (forgiving, notes) = limit(&c);
    assert!(forgiving.line.contains(" reductions undone"), "{forgiving:?}");
    assert!(
        notes.contains("window reductions although packets were lost"),
        "{notes}\n{forgiving:?}"
    );
    for (controller, stack) in
        [("native:reno", "quiche"), ("native:cubic", "quinn"), ("native:cubic", "noq")]
    {
        let c = plan(controller, stack);
        let (other, notes) = limit(&c);
        assert!(
            !notes.contains("window reductions although packets were lost"),
            "{stack}: {notes}\n{other:?}"
        );
    }
}

#[test]
fn scenario_without_randomness_runs_once_for_all_seeds() {
    let plan = Plan {
        seeds: 3,
        ..compared("quinn", &["reno", "cubic"], "bulk:1x500kB@0ms", path("10Mbps", "20ms"), "none")
            .plan
    };
    let c = compare(&plan, &|_| ()).unwrap();
    assert!(
        c.seeds_are_one_run()
            && c.runs.len() == 6
            && c.candidates().iter().all(|of| of.runs.len() == 1)
    );
    let said = c.ranking().conclusion().join(" ");
    assert!(
        said.contains("All 3 seeds gave the same run")
            && c.ranking().entries.iter().all(|e| e.change.is_none_or(|x| x.seeds == 1))
    );
    let lossy = Plan { path: PathSpec { loss: Some("1%".into()), ..plan.path.clone() }, ..plan };
    assert!(!compare(&lossy, &|_| ()).unwrap().seeds_are_one_run());
}

#[test]
fn run_whose_requests_all_fail_has_a_reason_and_no_result() {
    let mut dark = path("1Mbps", "20ms");
    dark.events = vec!["blackout:200s@1s".into()];
    let c = compared("quinn", &["reno"], "bulk:2x2MB@0ms", dark, "none");
    let why = c.without_result().unwrap();
    assert!(
        why.starts_with("all 2 requests failed under reno (2: ") && why.contains("timed out"),
        "{why}"
    );
    let line = &c.limits()[0].line;
    assert!(line.starts_with("blackouts or the MTU ("), "{line}");
}
