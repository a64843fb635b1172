//! Tests of reports on invented results: crossings, ties, axes, and intervals within the bounds of
//! a measure.

use fathom_metrics::Distribution;

use super::*;
use crate::scenario::{GroupOutcome, LinkOutcome, Outcome};

const PLAN: &str = r#"
question = "Where do the two cross?"
seeds = 2
[sweep]
loss = LOSSES
controller = ["native:cubic", "native:bbr"]
[report]
REPORT
[scenario]
stop = "30s"
[scenario.network]
topology = "path"
[scenario.network.path]
rate = "100Mbps"
rtt = "100ms"
loss = "$loss"
[[scenario.traffic]]
name = "bulk"
from = "left"
to = "right"
workload = "flows:1"
controller = "$controller"
"#;
const LOSSES: &str = "[0.00001, 0.0001, 0.001, 0.01]";

fn study(losses: &str, report: &str) -> Study {
    Study::from_toml("made-up", &PLAN.replace("LOSSES", losses).replace("REPORT", report))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Returns a result for each run. `mbps` has throughputs by loss, by controller (CUBIC, BBR) and by
/// seed.
fn results(study: &Study, mbps: &[[[f64; 2]; 2]]) -> Vec<StudyRunResult> {
    let runs = study.runs(1.0).unwrap();
    let made = runs.into_iter().map(|run| {
        let loss = study.axes[0].values.iter().position(|value| *value == run.key["loss"]).unwrap();
        let of = usize::from(run.key["controller"] == "native:bbr");
        let seed = run.seed as usize - 1;
        let throughput_bps = 1e6 * mbps[loss][of][seed];
        // Without bounds, the interval of this percentage over two seeds would exceed 0 to 100, and
        // the interval of a number of packets would have a negative end.
        let part = [1.0, 60.0][seed];
        let group = GroupOutcome {
            throughput_bps,
            sent: 100,
            lost: part as u64,
            ..GroupOutcome::default()
        };
        let link = LinkOutcome {
            arrived: 1,
            utilisation_percent: 40.0 + part,
            drops_percent: part,
            mean_queue: part,
            ..LinkOutcome::default()
        };
        let outcome = Outcome {
            groups: [("bulk".to_owned(), group)].into(),
            links: [("left-right".to_owned(), link)].into(),
            trace_hash: format!("{loss}{of}{seed}"),
            ..Outcome::default()
        };
        StudyRunResult { key: run.key, seed: run.seed, fingerprint: run.fingerprint, outcome }
    });
    made.collect()
}

const CROSSING: [[[f64; 2]; 2]; 4] = [
    [[86.0, 86.2], [70.0, 70.1]],
    [[44.0, 44.1], [68.0, 68.2]],
    [[8.0, 8.1], [59.0, 59.1]],
    [[1.5, 1.52], [46.0, 46.2]],
];

#[test]
fn headline_names_the_best_system_and_the_crossover_point() {
    let study = study(LOSSES, "");
    let lines = headline(&study, &results(&study, &CROSSING));
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(
        lines[0]
            .contains("bulk at loss 0.00001: native:cubic has the highest throughput: 86.1 Mbps ("),
        "{}",
        lines[0]
    );
    assert!(lines[0].contains("next native:bbr, 70.1 Mbps"), "{}", lines[0]);
    assert!(
        lines[1].contains("bulk at loss 0.0001 to 0.01: native:bbr has the highest throughput: 68.1 Mbps to 46.1 Mbps"),
        "{}",
        lines[1]
    );
    let [crossing, ahead] = [
        "native:cubic and native:bbr cross near 2.",
        "native:cubic is ahead at loss 0.00001, and native:bbr is ahead at 0.0001.",
    ];
    assert!(lines[2].contains(crossing) && lines[2].ends_with(ahead), "{}", lines[2]);
}

#[test]
fn overlapping_intervals_give_no_winner() {
    let study = study(LOSSES, "");
    let wide = CROSSING.map(|point| point.map(|[a, _]| [a, 6.0 * a]));
    // The ratios differ between seeds too, so the seed decides which system is ahead.
    let mixed = wide.map(|[[a, b], [c, d]]| [[a, b], [d, c]]);
    let lines = headline(&study, &results(&study, &mixed));
    assert!(
        lines[..4].iter().all(|line| line
            .contains(": with 2 seeds, it is undecided which of these has the highest throughput")),
        "{lines:#?}"
    );
    assert!(
        !lines.iter().any(|line| line.contains(" cross near") && !line.contains("the means of")),
        "{lines:#?}"
    );
    let one = study.with_seeds(1).unwrap();
    let lines = headline(&one, &results(&one, &CROSSING));
    assert!(
        lines[0].starts_with("One seed is not a result") && lines[1].contains("undecided"),
        "{lines:#?}"
    );
}

#[test]
fn study_reports_seeds_with_identical_runs() {
    let study = study(LOSSES, "");
    let mut results = results(&study, &CROSSING);
    results.iter_mut().for_each(|result| result.outcome.trace_hash = "same".into());
    assert!(headline(&study, &results)[0].starts_with("All seeds gave the same runs"));
}

#[test]
fn study_does_not_rank_system_with_too_many_failures() {
    let study = study(LOSSES, "rank-by = \"response_time_mean_ms\"");
    let mut results = results(&study, &CROSSING);
    for result in &mut results {
        let is_cubic = result.key["controller"] == "native:cubic";
        let of = result.outcome.groups.get_mut("bulk").unwrap();
        of.times = Some(Distribution {
            count: 90,
            mean_ms: if is_cubic { 10.0 } else { 20.0 + result.seed as f64 },
            ..Distribution::default()
        });
        (of.responses, of.failed) = (90, if is_cubic { 10 } else { 0 });
    }
    let lines = headline(&study, &results);
    let says = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(says("native:bbr has the lowest") && !says("native:cubic has"), "{lines:#?}");
    assert!(says("failed: native:cubic at 4 of 4 points"), "{lines:#?}");
}

/// Returns the contents of the text elements of an SVG.
fn texts(svg: &str) -> Vec<&str> {
    svg.split("<text ")
        .skip(1)
        .filter_map(|rest| rest.split_once('>')?.1.split('<').next())
        .collect()
}

#[test]
fn swept_loss_rate_has_a_logarithmic_axis() {
    let page = |losses: &str, report: &str| {
        let study = study(losses, report);
        html(&study, 1.0, &[], &results(&study, &CROSSING))
    };
    let log = page(LOSSES, "");
    let svg = log.split("<svg").nth(1).unwrap();
    assert!(
        ["1e-5", "0.0001", "0.001", "0.01"].iter().all(|tick| texts(svg).contains(tick)),
        "{:?}",
        texts(svg)
    );
    assert!(log.contains("throughput (Mbps)") && !log.contains("(bps)"));
    let linear = page(LOSSES, "x-scale = \"linear\"");
    assert!(
        !texts(linear.split("<svg").nth(1).unwrap()).contains(&"0.0001"),
        "every curve on the left edge"
    );
    let with_zero = page("[0, 0.0001, 0.001, 0.01]", "");
    let svg = with_zero.split("<svg").nth(1).unwrap();
    assert!(
        texts(svg).contains(&"0.0001") && svg.matches("<circle").count() >= 4,
        "no loss has a place, too"
    );
}

#[test]
fn printed_intervals_stay_within_the_bounds_of_the_measure() {
    let study = study(LOSSES, "");
    let results = results(&study, &CROSSING.map(|[[a, _], [b, _]]| [[a, a / 3.0], [b, b / 4.0]]));
    let page = html(&study, 1.0, &[], &results);
    let negative =
        |text: &str| text.starts_with('-') && text.contains(|c: char| c.is_ascii_digit());
    let ticks: Vec<&str> = page.split("<svg").skip(1).flat_map(texts).collect();
    assert!(!ticks.iter().any(|tick| negative(tick)), "{ticks:?}");
    // Cells and text for a terminal must not show a negative end, or more than 100 % of a link.
    let text = headline(&study, &results).join("\n") + &crate::study::table(&study.axes, &results);
    let parts = text.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ':']));
    let ends: Vec<&str> = parts.collect();
    assert!(ends.windows(3).all(|w| w[1] != "to" || !negative(w[0])), "{text}");
    assert!(text.contains("(0.0 to 100.0)") || text.contains("(0 to 100)"), "{text}");
    for (mean, half) in text.split('±').zip(text.split('±').skip(1)) {
        let mean: f64 = mean.split_whitespace().last().unwrap().parse().unwrap();
        let half: f64 = half.split_whitespace().next().unwrap().parse().unwrap();
        assert!(mean - half >= -1e-9, "{mean} ± {half}");
    }
}

#[test]
fn report_section_of_a_study_is_checked_and_sets_the_measure() {
    let wrong = |report: &str, says: &str| {
        let text = PLAN.replace("LOSSES", LOSSES).replace("REPORT", report);
        let e = Study::from_toml("made-up", &text).unwrap_err().to_string();
        assert!(e.contains(says), "{e}");
    };
    wrong("x = \"rate\"", "'rate' is not an axis of [sweep]; write one of loss, controller");
    wrong("rank-by = \"speed\"", "'speed' is not a measure; write one of response_time_mean_ms");
    wrong("x-scale = \"logarithmic\"", "`linear` or `log`");
    wrong("colour = \"red\"", "report: ");
    let by_queue = study(LOSSES, "rank-by = \"queue_mean_packets\"");
    let lines = headline(&by_queue, &results(&by_queue, &CROSSING));
    assert!(
        lines[0].starts_with(
            "left-right at loss 0.00001: with 2 seeds, it is undecided which of these has the \
             lowest mean queue"
        ),
        "{}",
        lines[0]
    );
    let document = Document::new(&by_queue, "", 1.0, &[], &[]);
    assert!(serde_json::to_value(&document).unwrap()["ranking"].is_array());
}
