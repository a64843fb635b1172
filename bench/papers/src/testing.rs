//! Common test data: handmade results, and a made-up paper with every kind of table and figure for
//! tests of selection, records and drawing.

use std::collections::BTreeMap;

use fathom_experiments::scenario::{GroupOutcome, Outcome};
use fathom_experiments::study::{Study, StudyRun, StudyRunResult, shipped};
use fathom_metrics::Estimate;
use fathom_report::{Axis, Entry, Row, Series};

use crate::results::BySeed;
use crate::{
    Artefact, ArtefactSpec, Change, ClaimCheck, Finding, Overrides, Paper, Reason, Record, Results,
    StudyWork, Verdict, claim, spec,
};

/// Assigns values to the seeds from 1 on.
pub(crate) fn seeds(values: impl IntoIterator<Item = f64>) -> BySeed {
    (1..).zip(values).collect()
}

/// Returns slightly different values for three seeds.
pub(crate) fn near(mean: f64, by: f64) -> BySeed {
    seeds([mean - by, mean, mean + by])
}

pub(crate) fn study(name: &str) -> Study {
    Study::from_toml(name, shipped(name).unwrap_or_else(|| panic!("{name} does not ship"))).unwrap()
}

/// Returns the values of a study's axis.
pub(crate) fn axis(name: &str, axis: &str) -> Vec<String> {
    study(name)
        .axes
        .into_iter()
        .find(|a| a.name == axis)
        .unwrap_or_else(|| panic!("{name} {axis}"))
        .values
}

pub(crate) fn outcome(
    seconds: f64,
    groups: impl IntoIterator<Item = (&'static str, GroupOutcome)>,
) -> Outcome {
    let groups = groups.into_iter().map(|(name, group)| (name.to_owned(), group)).collect();
    Outcome { seconds, groups, ..Outcome::default() }
}

/// Adds a run with this key for each outcome, with seeds from `first` on.
pub(crate) fn put(
    results: &mut Results,
    study: &str,
    key: &[(&str, &str)],
    first: u64,
    outcomes: impl IntoIterator<Item = Outcome>,
) {
    let key: BTreeMap<String, String> =
        key.iter().map(|(a, v)| ((*a).to_owned(), (*v).to_owned())).collect();
    let run = |(outcome, seed)| StudyRunResult {
        key: key.clone(),
        seed,
        fingerprint: String::new(),
        outcome,
    };
    results.add(study, outcomes.into_iter().zip(first..).map(run).collect());
}

fn of_runs(
    runs: &[StudyRun],
    make: impl Fn(&BTreeMap<String, String>, u64) -> Outcome,
) -> Vec<StudyRunResult> {
    let result = |run: &StudyRun| StudyRunResult {
        outcome: make(&run.key, run.seed),
        key: run.key.clone(),
        seed: run.seed,
        fingerprint: run.fingerprint.clone(),
    };
    runs.iter().map(result).collect()
}

/// Creates an outcome for every run of a study.
pub(crate) fn every_run(
    name: &str,
    make: impl Fn(&BTreeMap<String, String>, u64) -> Outcome,
) -> Results {
    let mut results = Results::default();
    results.add(name, of_runs(&study(name).runs(1.0).unwrap(), make));
    results
}

pub(crate) fn finding(paper: &Paper, results: &Results, id: &str) -> Finding {
    let check = paper.claims.iter().copied().flatten().find(|check| check.id == id);
    check.unwrap_or_else(|| panic!("no claim {id}")).judge(results)
}

pub(crate) fn verdict(paper: &Paper, results: &Results, id: &str) -> Verdict {
    finding(paper, results, id).verdict
}

const SDC: &[&str] = &["sdc-figure-4"];
const SIZES: &[&str] = &["packet-size-4.3.1"];

pub(crate) const PAPERS: &[Paper] = &[Paper {
    name: "made-up",
    citation: "A. Author, B. Author: <Everything> & more. Proc. Nowhere 2004",
    artefacts: &[
        spec("table 1", "drops and goodput", SDC, |_| table()),
        spec("figure 3-4", "response times", SDC, |_| distributions()),
        spec("figure 5", "drops over flows", SDC, |_| drops()),
        spec("figure 4.4-4.7", "throughput of each flow", SIZES, |_| scatter()),
        spec("figure 10", "tails", SIZES, |_| tails()),
        spec("figure A", "throughput by group", &["sdc-figure-4", "packet-size-4.3.1"], |_| {
            grouped()
        }),
    ],
    claims: &[CLAIMS],
    departures: &[
        "QUIC takes the place of TCP; acknowledgements are larger & fewer.",
        "The paper does not say which RED parameters it took; ns-2's of its time are used, which may differ from those that its authors \
         chose.",
    ],
    changes: &[Change { id: "red-waits", says: "RED marked three times as often." }],
}];

/// Returns an empty result for every run.
pub(crate) fn results(work: &StudyWork) -> Vec<StudyRunResult> {
    of_runs(&work.runs, |_, _| outcome(1.0, []))
}

/// Returns a complete record.
pub(crate) fn record() -> Record {
    let wanted: Vec<&ArtefactSpec> = PAPERS[0].artefacts.iter().collect();
    let overrides = Overrides { scale: 0.5, seeds: Some(2), stack: None };
    let work = overrides.work(&wanted).unwrap();
    let ran: Vec<_> = work.into_iter().map(|w| (w.clone(), results(&w))).collect();
    Record::of(&PAPERS[0], &wanted, &overrides, &ran)
}

const CLAIMS: &[ClaimCheck] = &[
    made_up("fewer-drops")
        .asks(|_| Finding::new(Verdict::Held, "4.2 ± 0.3 % against 9.9 ± 0.2 % at 200 flows")),
    made_up("higher-goodput").asks(|_| Finding::new(Verdict::NotHeld, "goodput is 3 % lower")),
    made_up("fair").asks(|_| Finding::new(Verdict::Undecided, "0.91 ± 0.05 against 0.93 ± 0.04")),
    made_up("needs-timeouts")
        .asks(|_| Finding::new(Verdict::Held, "3 against 9"))
        .inapplicable("QUIC's timeouts leave the window as it is"),
    made_up("queue-acts")
        .regime(|_| {
            vec![Reason::of("at 100ms", "the queue dropped nothing, mean queue 1.0 packets")]
        })
        .asks(|_| Finding::new(Verdict::NotHeld, "68 against 84 %")),
];

const fn made_up(id: &'static str) -> ClaimCheck {
    claim(id, "Made up §3.2", &[])
        .says(
            "With this controller fewer packets are dropped than with Reno at every number of flows, because flows keep eight packets in \
             the window and are delayed instead of being cut.",
        )
        .test("drop rate < Reno's at each number of flows, paired over seeds")
}

const NOTE: &str = "Means of 2 runs per point with their 95 % confidence intervals; the paper has one run and does not say how long it took.";

fn figure(shows: &str, axes: [Axis; 2], series: impl Into<Vec<Series>>) -> Artefact {
    Artefact::figure(format!("{shows} of the <made-up> network"), axes, series, NOTE)
}

fn table() -> Artefact {
    let entry = |values: &[f64], paper| Entry::new(Estimate::of(values), paper);
    let rows = [
        Row::new(
            "drops (%)",
            [entry(&[3.9, 4.1], "3.9"), entry(&[2.0, 2.2], "2.0"), entry(&[0.0, 0.0], "")],
        ),
        Row::new(
            "goodput per response (kbps), of those responses that are larger than 25 kB",
            [entry(&[110.8, 112.0], "118.1"), entry(&[122.3], ""), entry(&[], "")],
        ),
        Row::new("timeouts", [entry(&[1200.0, 1300.0], "~1100"), entry(&[], "800")]),
    ];
    let columns = ["Reno", "SDC | paced", "at 100 Mbps"];
    Artefact::table("drops and goodput of the <made-up> network", columns, rows, NOTE)
}

/// Returns a logistic function of the logarithm from 0 to 1, with its median at `median`.
fn cdf(x: f64, median: f64) -> f64 {
    1.0 / (1.0 + (median / x).powf(1.8))
}

/// Draws many distributions over a logarithmic axis.
fn distributions() -> Artefact {
    let series = |i: usize| {
        let median = 80.0 * 1.25f64.powi(i as i32);
        let name = format!(
            "{} at {} % load",
            ["Reno", "Sync-TCP", "RED", "ECN"][i % 4],
            50 + 10 * (i / 4)
        );
        let xs = (0..=2_000).map(|n| 10f64.powf(1.0 + f64::from(n) / 500.0));
        Series::line(name, xs.map(|x| (x, cdf(x, median))).collect())
    };
    let axes = [
        Axis::logarithmic("response time (ms)").over(10.0, 10_000.0),
        Axis::linear("fraction of responses no slower"),
    ];
    figure("response times", axes, (0..12).map(series).collect::<Vec<_>>())
}

/// Draws lines with error bars, and a point that is not finite.
fn drops() -> Artefact {
    let flows = || (1..=10).map(|i| f64::from(i) * 10.0).chain([150.0, 200.0, 300.0, 400.0, 500.0]);
    let series = |(name, slope): (&str, f64)| Series {
        spread: Some(flows().map(|n| 0.05 * slope * n.sqrt()).chain([1.0]).collect()),
        ..Series::line(
            name,
            flows().map(|n| (n, slope * n.sqrt())).chain([(f64::NAN, 1.0)]).collect(),
        )
    };
    let axes = [Axis::linear("flows"), Axis::linear("packets dropped (%)")];
    figure(
        "drops over flows",
        axes,
        [("Reno", 0.9), ("SDC", 0.4), ("SDC, λ unlimited", 0.35)].map(series),
    )
}

/// Draws a cloud of points per controller.
fn scatter() -> Artefact {
    let series = |(name, k, height): (&str, u32, f64)| {
        let point = |i: u32| {
            (f64::from(i * 7_919 % 300) / 3.0, height * (1.0 + f64::from(i * k % 97) / 97.0))
        };
        Series::marks(name, (0..300).map(point).collect())
    };
    let clouds = [("1392 bytes", 31, 40.0), ("576 bytes", 57, 90.0), ("mixed", 83, 15.0)];
    let axes = [Axis::linear("start of the flow (s)"), Axis::logarithmic("throughput (kbps)")];
    figure("throughput of each flow", axes, clouds.map(series))
}

/// Draws tails on two logarithmic axes, with a band, and a point that such axes cannot show.
fn tails() -> Artefact {
    let series = |(name, power): (&str, f64)| {
        let points: Vec<(f64, f64)> = (0..100)
            .map(|i| 10f64.powf(f64::from(i) / 20.0))
            .map(|x| (x, x.powf(-power)))
            .collect();
        let spread = points.iter().map(|(_, y)| 0.4 * y).collect();
        Series { spread: Some(spread), ..Series::line(name, points) }
    };
    let mut lines = [("Reno", 0.8), ("Sync-TCP", 1.1)].map(series);
    lines[0].points[0] = (0.0, 1.0);
    let axes = [
        Axis::logarithmic("size (bytes)"),
        Axis::logarithmic("fraction of responses larger than this size"),
    ];
    figure("tails", axes, lines)
}

/// Draws curves over few values of x, as bars would have.
fn grouped() -> Artefact {
    let series = |(name, values): (&str, [f64; 4])| {
        Series::line(name, (1..).map(f64::from).zip(values).collect())
    };
    let lines = [("gHSTCP", [240.0, 180.0, 90.0, 30.0]), ("HSTCP", [300.0, 150.0, 70.0, 12.5])];
    figure(
        "throughput by group",
        [Axis::linear("group"), Axis::linear("throughput (Mbps)")],
        lines.map(series),
    )
}
