//! A made-up paper with every kind of table and figure, for tests of what selects, records and draws.

use fathom_metrics::Estimate;

use super::{
    Artefact, ArtefactSpec, Axis, Body, Claim, Entry, Figure, Overrides, Paper, Record, Results, Row, Series,
    StudyWork, Table, Verdict,
};
use crate::scenario::Outcome;
use crate::study::StudyRunResult;

const SDC: &[&str] = &["sdc-figure-4"];
const SIZES: &[&str] = &["packet-size-4.3.1"];

pub(crate) const PAPERS: &[Paper] = &[Paper {
    name: "made-up",
    citation: "A. Author, B. Author: <Everything> & more. Proc. Nowhere 2004",
    artefacts: &[
        ArtefactSpec { id: "table 1", shows: "drops and goodput", studies: SDC },
        ArtefactSpec { id: "figure 3-4", shows: "response times", studies: SDC },
        ArtefactSpec { id: "figure 5", shows: "drops over flows", studies: SDC },
        ArtefactSpec { id: "figure 4.4-4.7", shows: "throughput of each flow", studies: SIZES },
        ArtefactSpec { id: "figure 10", shows: "tails", studies: SIZES },
        ArtefactSpec { id: "figure A", shows: "throughput by group", studies: &["sdc-figure-4", "packet-size-4.3.1"] },
    ],
    figures,
    claims: |_| claims(),
    departures: &[
        "QUIC takes the place of TCP; acknowledgements are larger & fewer.",
        "The paper does not say which RED parameters it took; ns-2's of its time are used, which may differ from those \
         that its authors chose.",
    ],
}];

/// An empty result for every run.
pub(crate) fn results(work: &StudyWork) -> Vec<StudyRunResult> {
    let outcome = Outcome { seconds: 1.0, trace_hash: "00".into(), ..Outcome::default() };
    let of = |run: &crate::study::StudyRun| StudyRunResult {
        key: run.key.clone(),
        seed: run.seed,
        fingerprint: run.fingerprint.clone(),
        outcome: outcome.clone(),
    };
    work.runs.iter().map(of).collect()
}

/// A record of everything.
pub(crate) fn record() -> Record {
    let wanted: Vec<&ArtefactSpec> = PAPERS[0].artefacts.iter().collect();
    let overrides = Overrides { scale: 0.5, seeds: Some(2), stack: None };
    let work = overrides.work(&wanted).unwrap();
    let ran: Vec<_> = work.into_iter().map(|w| (w.clone(), results(&w))).collect();
    Record::of(&PAPERS[0], &wanted, &overrides, &ran)
}

/// A report of each artefact whose studies have results, as papers make them.
fn figures(results: &Results) -> Vec<Artefact> {
    let of = |wanted: &ArtefactSpec| {
        results.have(wanted.studies).then(|| Artefact {
            id: wanted.id.into(),
            title: format!("{} of the <made-up> network", wanted.shows),
            body: body(wanted.id),
            note: "Means of 2 runs per point with their 95 % confidence intervals; the paper has one run and does not say how long \
                   it took."
                .into(),
        })
    };
    PAPERS[0].artefacts.iter().filter_map(of).collect()
}

fn claims() -> Vec<Claim> {
    let claim = |id: &str, verdict, found: &str| {
        Claim {
        id: id.into(),
        source: "Made up §3.2".into(),
        says: "With this controller fewer packets are dropped than with Reno at every number of flows, because flows keep eight \
               packets in the window and are delayed instead of being cut."
            .into(),
        test: "drop rate < Reno's at each number of flows, paired over seeds".into(),
        verdict,
        found: found.into(),
    }
    };
    vec![
        claim("fewer-drops", Verdict::Held, "4.2 ± 0.3 % against 9.9 ± 0.2 % at 200 flows"),
        claim("higher-goodput", Verdict::NotHeld, "goodput is 3 % lower"),
        claim("fair", Verdict::Undecided, "0.91 ± 0.05 against 0.93 ± 0.04"),
    ]
}

fn body(id: &str) -> Body {
    match id {
        "table 1" => Body::Table(table()),
        "figure 3-4" => Body::Figure(distributions()),
        "figure 5" => Body::Figure(drops()),
        "figure 4.4-4.7" => Body::Figure(scatter()),
        "figure 10" => Body::Figure(tails()),
        _ => Body::Figure(grouped()),
    }
}

fn axis(label: &str, log: bool, range: Option<(f64, f64)>) -> Axis {
    Axis { label: label.into(), log, range }
}

fn table() -> Table {
    let entry =
        |values: &[f64], paper: Option<&str>| Entry { ours: Estimate::of(values), paper: paper.map(str::to_owned) };
    let row = |label: &str, entries| Row { label: label.into(), entries };
    Table {
        columns: vec!["Reno".into(), "SDC | paced".into(), "at 100 Mbps".into()],
        rows: vec![
            row(
                "drops (%)",
                vec![entry(&[3.9, 4.1], Some("3.9")), entry(&[2.0, 2.2], Some("2.0")), entry(&[0.0, 0.0], None)],
            ),
            row(
                "goodput per response (kbps), of those responses that are larger than 25 kB",
                vec![entry(&[110.8, 112.0], Some("118.1")), entry(&[122.3], None), entry(&[], None)],
            ),
            row("timeouts", vec![entry(&[1200.0, 1300.0], Some("~1100")), entry(&[], Some("800"))]),
        ],
    }
}

/// Logistic in the logarithm: 0 to 1, median at `median`.
fn cdf(x: f64, median: f64) -> f64 {
    1.0 / (1.0 + (median / x).powf(1.8))
}

/// Many distributions over a logarithmic axis.
fn distributions() -> Figure {
    let series = |i: usize| {
        let median = 80.0 * 1.25f64.powi(i as i32);
        Series {
            name: format!("{} at {} % load", ["Reno", "Sync-TCP", "RED", "ECN"][i % 4], 50 + 10 * (i / 4)),
            points: (0..=2_000).map(|n| 10f64.powf(1.0 + f64::from(n) / 500.0)).map(|x| (x, cdf(x, median))).collect(),
            spread: None,
            scatter: false,
        }
    };
    Figure {
        x: axis("response time (ms)", true, Some((10.0, 10_000.0))),
        y: axis("fraction of responses no slower", false, None),
        series: (0..12).map(series).collect(),
    }
}

/// Lines with error bars, and a point that is no number.
fn drops() -> Figure {
    let flows = || (1..=10).map(|i| f64::from(i) * 10.0).chain([150.0, 200.0, 300.0, 400.0, 500.0]);
    let series = |name: &str, slope: f64| Series {
        name: name.into(),
        points: flows().map(|n| (n, slope * n.sqrt())).chain([(f64::NAN, 1.0)]).collect(),
        spread: Some(flows().map(|n| 0.05 * slope * n.sqrt()).chain([1.0]).collect()),
        scatter: false,
    };
    Figure {
        x: axis("flows", false, None),
        y: axis("packets dropped (%)", false, None),
        series: vec![series("Reno", 0.9), series("SDC", 0.4), series("SDC, λ unlimited", 0.35)],
    }
}

/// A cloud of points per controller.
fn scatter() -> Figure {
    let series = |name: &str, k: u32, height: f64| Series {
        name: name.into(),
        points: (0..300u32)
            .map(|i| (f64::from(i * 7_919 % 300) / 3.0, height * (1.0 + f64::from(i * k % 97) / 97.0)))
            .collect(),
        spread: None,
        scatter: true,
    };
    Figure {
        x: axis("start of the flow (s)", false, None),
        y: axis("throughput (kbps)", true, None),
        series: vec![series("1392 bytes", 31, 40.0), series("576 bytes", 57, 90.0), series("mixed", 83, 15.0)],
    }
}

/// Tails on two logarithmic axes, with a band, and a point that such axes cannot show.
fn tails() -> Figure {
    let series = |name: &str, power: f64| {
        let points: Vec<(f64, f64)> =
            (0..100).map(|i| 10f64.powf(f64::from(i) / 20.0)).map(|x| (x, x.powf(-power))).collect();
        let spread = points.iter().map(|(_, y)| 0.4 * y).collect();
        Series { name: name.into(), points, spread: Some(spread), scatter: false }
    };
    let mut figure = Figure {
        x: axis("size (bytes)", true, None),
        y: axis("fraction of responses larger than this size", true, None),
        series: vec![series("Reno", 0.8), series("Sync-TCP", 1.1)],
    };
    figure.series[0].points[0] = (0.0, 1.0);
    figure
}

/// Few values of x, as bars would have.
fn grouped() -> Figure {
    let series = |name: &str, values: [f64; 4]| Series {
        name: name.into(),
        points: values.iter().enumerate().map(|(i, y)| (i as f64 + 1.0, *y)).collect(),
        spread: None,
        scatter: false,
    };
    Figure {
        x: axis("group", false, None),
        y: axis("throughput (Mbps)", false, None),
        series: vec![series("gHSTCP", [240.0, 180.0, 90.0, 30.0]), series("HSTCP", [300.0, 150.0, 70.0, 12.5])],
    }
}
