//! Compares the laboratory with ns-2 on the same scenarios (`scenarios.rs`).
//!
//! `make ns2` runs ns-2 (`bench/ns2/run.py`) and the laboratory, stores their results in
//! `bench/results/ns2`, and writes `docs/ns2.md`. The tests here need no ns-2. They check that
//!
//! - ns-2's stored results belong to the current plan and script;
//! - the laboratory still has its stored results, with the first seed of each combination;
//! - exactly the known differences (`differences`) exceed the tolerances of
//!   `bench/ns2/tolerances.json`, which were committed before the first comparison;
//! - page and figure show the stored results.
//!
//! `FATHOM_WRITE=1 cargo test --release -p fathom-papers --test ns2` writes page and figure from the
//! stored results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_experiments::scenario::{GroupOutcome, LinkOutcome, Outcome};
use fathom_experiments::study::{RunOptions, Study, StudyRun, run_study};
use fathom_metrics::{Distribution, Estimate, round};
use serde::Deserialize;

mod page;
mod scenarios;

use scenarios::{SCENARIOS, Scenario};

const TOLERANCES: &str = "bench/ns2/tolerances.json";
const PAGE: &str = "docs/ns2.md";
const HINT: &str = "FATHOM_WRITE=1 cargo test --release -p fathom-papers --test ns2";
const AGAIN: &str = "repeat the runs: make ns2";

/// A measure of a run.
struct Measure {
    /// Name in `tolerances.json`.
    name: &'static str,
    /// Column in CSV files.
    column: &'static str,
    heading: &'static str,
    /// Computes the measure from the laboratory's run, as `run.py` does from ns-2's. The bottleneck
    /// and the counted group are those of the scenario.
    of: fn(&Bottleneck<'_>) -> f64,
}

/// What the measures of a laboratory run are computed from.
struct Bottleneck<'a> {
    link: &'a LinkOutcome,
    group: &'a GroupOutcome,
    outcome: &'a Outcome,
    /// Number of flows; 1 for web traffic.
    flows: f64,
}

impl Bottleneck<'_> {
    fn times(&self) -> &Distribution {
        self.group.times.as_ref().expect("response times")
    }

    /// Returns the percentage of flows below 5 % of their share in windows of this length.
    fn starved(&self, seconds: f64) -> f64 {
        let fairness = self.outcome.fairness.as_ref().expect("fairness");
        let window = fairness.windows.iter().find(|window| window.seconds == seconds);
        window.expect("a window").all.starved_percent
    }
}

const MEASURES: &[Measure] = &[
    Measure {
        name: "throughput",
        column: "throughput_mbps",
        heading: "throughput in Mbps",
        of: |b| round(b.link.throughput_bps / 1e6, 4),
    },
    Measure {
        name: "drops",
        column: "drops_percent",
        heading: "drops in %",
        of: |b| b.link.drops_percent,
    },
    Measure {
        name: "queue",
        column: "queue_packets",
        heading: "mean queue in packets",
        of: |b| b.link.mean_queue,
    },
    Measure {
        name: "timeouts",
        column: "timeouts_per_flow",
        heading: "timeouts per flow",
        of: |b| round(b.group.tcp.expect("TCP").timeouts as f64 / b.flows, 3),
    },
    Measure {
        name: "starved-1s",
        column: "starved_1s_percent",
        heading: "flows starved for 1 s in %",
        of: |b| b.starved(1.0),
    },
    Measure {
        name: "starved-10s",
        column: "starved_10s_percent",
        heading: "flows starved for 10 s in %",
        of: |b| b.starved(10.0),
    },
    Measure {
        name: "median",
        column: "median_ms",
        heading: "median response time in ms",
        of: |b| round(b.times().median_ms, 1),
    },
    Measure {
        name: "mean",
        column: "mean_ms",
        heading: "mean response time in ms",
        of: |b| round(b.times().mean_ms, 1),
    },
    Measure {
        name: "size",
        column: "size_bytes",
        heading: "mean response in bytes",
        of: |b| round(b.group.mean_size, 1),
    },
];

impl Scenario {
    fn plan_file(&self) -> String {
        format!("bench/ns2/{}.toml", self.name)
    }

    /// Returns the path of a file of results: `-laboratory.csv`.
    fn results(&self, ending: &str) -> String {
        format!("bench/results/ns2/{}{ending}", self.name)
    }

    /// Returns the columns of its results: its measures, and the points of its figure if this is a
    /// distribution.
    fn columns(&self) -> Vec<String> {
        let measures = self.measures.iter().map(|name| measure(name).column.to_owned());
        measures.chain(self.figure.x.times().iter().map(|ms| within(*ms))).collect()
    }

    /// Returns the tolerance of each of its measures.
    fn tolerances<'a>(&self, all: &'a [Tolerance]) -> Vec<&'a Tolerance> {
        let of = |name: &str, scenario: Option<&str>| {
            all.iter().find(|t| t.measure == name && t.scenario.as_deref() == scenario)
        };
        let tolerance = |name: &&str| of(name, Some(self.name)).or_else(|| of(name, None));
        self.measures.iter().map(|name| tolerance(name).expect("a tolerance")).collect()
    }

    fn study(&self) -> Study {
        Study::from_toml(self.name, &text(&self.plan_file())).expect("a plan")
    }
}

/// The largest accepted difference of a measure.
#[derive(Deserialize)]
struct Tolerance {
    /// The only scenario to which it applies, if any. In this scenario, it replaces the general
    /// tolerance of the measure.
    scenario: Option<String>,
    measure: String,
    /// Relative to ns-2's mean.
    percent: f64,
    /// In units of the measure.
    absolute: f64,
    /// Whether it is enough that each mean lies inside the other's 95% interval.
    intervals: bool,
    reason: String,
}

impl Tolerance {
    fn agrees(&self, ns2: &Estimate, ours: &Estimate) -> bool {
        let largest = (self.percent / 100.0 * ns2.mean.abs()).max(self.absolute);
        let inside = |mean: f64, of: &Estimate| {
            of.interval().is_some_and(|(low, high)| (low..=high).contains(&mean))
        };
        (ours.mean - ns2.mean).abs() <= largest
            || (self.intervals && inside(ns2.mean, ours) && inside(ours.mean, ns2))
    }

    fn text(&self) -> String {
        let mut text = format!("{} %", self.percent);
        if self.absolute > 0.0 {
            write!(text, " or {}", self.absolute).expect("written");
        }
        if self.intervals {
            text += ", or each mean inside the other's interval";
        }
        text
    }
}

#[derive(Deserialize)]
struct Ns2 {
    simulator: String,
    cpu_seconds: f64,
    plan: String,
    script: String,
}

#[derive(Deserialize)]
struct Laboratory {
    cpu_seconds: f64,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    /// Values of the scenario's axes.
    key: Vec<String>,
    seed: u64,
    /// Values of the scenario's columns ([`Scenario::columns`]).
    values: BTreeMap<String, f64>,
}

/// Runs of both simulators in one combination of the sweep.
struct Cell {
    key: Vec<String>,
    ns2: Vec<Run>,
    ours: Vec<Run>,
}

impl Cell {
    fn is(&self, key: &[&str]) -> bool {
        self.key.iter().map(String::as_str).eq(key.iter().copied())
    }

    /// Returns the means of a column over the runs of ns-2 and of the laboratory.
    fn estimates(&self, column: &str) -> (Estimate, Estimate) {
        let of = |runs: &[Run]| {
            let values: Vec<f64> = runs.iter().map(|run| run.values[column]).collect();
            Estimate::of(&values).expect("runs")
        };
        (of(&self.ns2), of(&self.ours))
    }
}

/// Stored results of a scenario.
struct Comparison {
    scenario: &'static Scenario,
    ns2: Ns2,
    ours: Laboratory,
    cells: Vec<Cell>,
}

impl Comparison {
    /// Reads the stored results. The cells are in the order of the plan's values.
    fn read(scenario: &'static Scenario) -> Self {
        let ours = read_runs(scenario, "-laboratory.csv");
        let mut cells: Vec<Cell> = Vec::new();
        for run in read_runs(scenario, ".csv") {
            let same = |other: &&Run| other.key == run.key;
            match cells.iter_mut().find(|cell| cell.key == run.key) {
                Some(cell) => cell.ns2.push(run),
                None => cells.push(Cell {
                    key: run.key.clone(),
                    ours: ours.iter().filter(same).cloned().collect(),
                    ns2: vec![run],
                }),
            }
        }
        let keys: Vec<Vec<String>> = cells.iter().map(|cell| cell.key.clone()).collect();
        let rank = |axis: usize, value: &String| keys.iter().position(|key| key[axis] == *value);
        cells.sort_by_key(|cell| {
            cell.key.iter().enumerate().map(|(axis, value)| rank(axis, value)).collect::<Vec<_>>()
        });
        Self {
            scenario,
            ns2: json(&scenario.results(".json")),
            ours: json(&scenario.results("-laboratory.json")),
            cells,
        }
    }

    /// Returns differences that the scenario does not list, and listed ones that no longer exist.
    fn faults(&self, tolerances: &[Tolerance]) -> Vec<String> {
        let mut faults = Vec::new();
        let tolerances = self.scenario.tolerances(tolerances);
        for (cell, tolerance) in
            self.cells.iter().flat_map(|cell| tolerances.iter().map(move |t| (cell, t)))
        {
            let measure = tolerance.measure.as_str();
            let (ns2, ours) = cell.estimates(self::measure(measure).column);
            let mut listed = self.scenario.differences.iter().flat_map(|d| d.cells);
            let listed = listed.any(|(of, key)| *of == measure && cell.is(key));
            let fault = match (tolerance.agrees(&ns2, &ours), listed) {
                (false, false) => "differs, and `differences` does not list it",
                (true, true) => "agrees, but `differences` lists it",
                _ => continue,
            };
            let name = self.scenario.name;
            faults.push(format!(
                "{name}, {measure} of {:?}: ns-2 {ns2:.3}, laboratory {ours:.3}: {fault}",
                cell.key
            ));
        }
        faults
    }
}

fn measure(name: &str) -> &'static Measure {
    MEASURES.iter().find(|measure| measure.name == name).expect("a measure")
}

/// Returns the column of the fraction of responses up to this time.
fn within(ms: u32) -> String {
    format!("within_{ms}ms")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of a file of the repository. Line ends are normalised, because a checkout may
/// have converted them.
fn text(path: &str) -> String {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    text.replace("\r\n", "\n")
}

fn json<T: for<'a> Deserialize<'a>>(path: &str) -> T {
    serde_json::from_str(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Reads the runs of a CSV file; further columns are ignored.
fn read_runs(scenario: &Scenario, ending: &str) -> Vec<Run> {
    let text = text(&scenario.results(ending));
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    lines
        .map(|line| {
            let field = |name: &str| line[head.iter().position(|n| *n == name).expect("a column")];
            let number = |name: &str| field(name).parse::<f64>().expect("a number");
            Run {
                key: scenario.axes.iter().map(|(axis, _)| field(axis).to_owned()).collect(),
                seed: field("seed").parse().expect("a seed"),
                values: scenario
                    .columns()
                    .into_iter()
                    .map(|column| {
                        let value = number(&column);
                        (column, value)
                    })
                    .collect(),
            }
        })
        .collect()
}

fn csv(scenario: &Scenario, runs: &[Run]) -> String {
    let axes = scenario.axes.iter().map(|(axis, _)| *axis);
    let columns = scenario.columns();
    let head: Vec<&str> = axes.chain(["seed"]).chain(columns.iter().map(String::as_str)).collect();
    let mut csv = head.join(",") + "\n";
    for Run { key, seed, values } in runs {
        let values: Vec<String> = columns.iter().map(|column| values[column].to_string()).collect();
        writeln!(csv, "{},{seed},{}", key.join(","), values.join(",")).expect("written");
    }
    csv
}

fn key(scenario: &Scenario, run: &StudyRun) -> Vec<String> {
    scenario.axes.iter().map(|(axis, _)| run.key[*axis].clone()).collect()
}

/// Returns the values of a run's columns, as `run.py` computes them for ns-2.
fn values(scenario: &Scenario, run: &StudyRun, outcome: &Outcome) -> BTreeMap<String, f64> {
    let bottleneck = Bottleneck {
        link: &outcome.links[scenario.link],
        group: &outcome.groups[scenario.group],
        outcome,
        flows: run.key.get("flows").map_or(1.0, |flows| flows.parse().expect("a number")),
    };
    let measures = scenario.measures.iter().map(|name| {
        let measure = measure(name);
        (measure.column.to_owned(), (measure.of)(&bottleneck))
    });
    let times = scenario.figure.x.times().iter();
    let within =
        times.map(|ms| (within(*ms), round(bottleneck.times().within_ms(f64::from(*ms)), 4)));
    measures.chain(within).collect()
}

/// Runs a plan in the laboratory.
fn laboratory(scenario: &Scenario, study: &Study) -> Vec<Run> {
    let runs = study.runs(1.0).expect("runs");
    let results = run_study(&runs, &RunOptions::default(), &|_| {}).expect("results");
    let outcomes: BTreeMap<_, _> = results.iter().map(|r| ((&r.key, r.seed), &r.outcome)).collect();
    let of = |run: &StudyRun| Run {
        key: key(scenario, run),
        seed: run.seed,
        values: values(scenario, run, outcomes[&(&run.key, run.seed)]),
    };
    runs.iter().map(of).collect()
}

/// Returns the CPU time that this process has used, in seconds. `None` on other systems than Linux.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // utime and stime, in hundredths of a second (proc(5)).
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

fn write(path: &str, text: &str) {
    fs::write(root().join(path), text).unwrap_or_else(|e| panic!("{path}: {e}"));
}

#[test]
fn stored_results_belong_to_the_current_plan() {
    for scenario in &SCENARIOS {
        let (ns2, name) = (json::<Ns2>(&scenario.results(".json")), scenario.name);
        assert!(ns2.plan == text(&scenario.plan_file()), "{name}.toml has changed; {AGAIN}");
        let script = text("bench/ns2/common.tcl") + &text(scenario.script);
        assert!(ns2.script == script, "{} or common.tcl has changed; {AGAIN}", scenario.script);
        let runs = scenario.study().runs(1.0).expect("runs");
        let planned: BTreeSet<_> = runs.iter().map(|run| (key(scenario, run), run.seed)).collect();
        for ending in [".csv", "-laboratory.csv"] {
            let stored = read_runs(scenario, ending);
            assert_eq!(stored.len(), planned.len(), "{name}{ending}; {AGAIN}");
            let stored: BTreeSet<_> = stored.into_iter().map(|run| (run.key, run.seed)).collect();
            assert!(stored == planned, "{name}{ending} has other runs than the plan; {AGAIN}");
        }
    }
}

#[test]
fn laboratory_still_has_its_stored_results() {
    for scenario in &SCENARIOS {
        let study = scenario.study().with_seeds(1).expect("a study");
        let stored = read_runs(scenario, "-laboratory.csv");
        let first: Vec<Run> = stored.into_iter().filter(|run| run.seed == study.seed).collect();
        let now = laboratory(scenario, &study);
        assert_eq!(now, first, "the laboratory has other results than before; {AGAIN}");
    }
}

/// Runs all seeds and stores the results.
#[test]
#[ignore = "takes minutes of CPU time; make ns2 runs it"]
fn whole_plans_run_in_the_laboratory() {
    for scenario in &SCENARIOS {
        let before = cpu_seconds().expect("CPU time, which Linux reports");
        let runs = laboratory(scenario, &scenario.study());
        let used = round(cpu_seconds().expect("CPU time") - before, 1);
        write(&scenario.results("-laboratory.csv"), &csv(scenario, &runs));
        write(&scenario.results("-laboratory.json"), &format!("{{\"cpu_seconds\": {used}}}\n"));
        println!("{}: {} runs, {used} s of CPU time", scenario.name, runs.len());
    }
}

#[test]
fn laboratory_agrees_with_ns2_within_tolerances() {
    let tolerances: Vec<Tolerance> = json(TOLERANCES);
    let comparisons: Vec<Comparison> = SCENARIOS.iter().map(Comparison::read).collect();
    let figures = comparisons.iter().map(|c| (c.scenario.results(".svg"), page::figure(c)));
    let page = (PAGE.to_owned(), page::page(&comparisons, &tolerances));
    for (path, should) in figures.chain([page]) {
        if std::env::var_os("FATHOM_WRITE").is_some() {
            write(&path, &should);
        } else {
            assert!(text(&path) == should, "{path} differs from the results: {HINT}");
        }
    }
    let faults: Vec<String> = comparisons.iter().flat_map(|c| c.faults(&tolerances)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
