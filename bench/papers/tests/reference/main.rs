//! Compares the laboratory with ns-2 and with Linux's TCP on the same scenarios (`ns2.rs`,
//! `linux.rs`).
//!
//! `make ns2` runs ns-2 (`bench/ns2/run.py`) and the laboratory, stores their results in
//! `bench/results/ns2`, and writes `docs/ns2.md`. `make linux-tcp` does the same with Linux in
//! User-Mode Linux (`bench/linux/run.py`). The tests here need neither. They check that
//!
//! - the stored results of the other side belong to the current plan and script;
//! - the laboratory still has its stored results, with the first seed of each combination;
//! - exactly the known differences (`differences`) exceed the tolerances (`tolerances.json`), which
//!   were committed before the first comparison;
//! - page and figure show the stored results.
//!
//! `FATHOM_WRITE=1 cargo test --release -p fathom-papers --test reference` writes pages and figures
//! from the stored results.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::ops::RangeInclusive;

use fathom_experiments::scenario::{GroupOutcome, LinkOutcome, Outcome};
use fathom_experiments::study::{RunOptions, Study, StudyRun, run_study};
use fathom_metrics::{Distribution, Estimate, round};
use serde::Deserialize;

#[path = "../common/mod.rs"]
mod common;
mod linux;
mod ns2;
mod page;
mod scenarios;

use common::{is_or_becomes, text, write};
use scenarios::Scenario;

const HINT: &str = "FATHOM_WRITE=1 cargo test --release -p fathom-papers --test reference";
/// Seeds of the laboratory where nothing else is random.
const LABORATORY_SEEDS: u64 = 10;
const REFERENCES: [&Reference; 2] = [&ns2::NS2, &linux::LINUX];

/// A simulator or a system that the laboratory is compared with.
struct Reference {
    /// Name in texts: `ns-2`.
    name: &'static str,
    /// Name of its folders in `bench` and in `bench/results`.
    folder: &'static str,
    /// Command that runs all scenarios.
    make: &'static str,
    /// Page with the comparison.
    page: &'static str,
    /// Beginning of the page in Markdown.
    head: &'static str,
    /// Whether its runs take CPU time, so that the cost can be compared with the laboratory's.
    /// Otherwise, they take as long as the scenario.
    simulates: bool,
    /// The laboratory's delays, if nothing in the scenarios is random.
    delays: Option<Delays>,
    scenarios: &'static [Scenario],
}

/// Delays by which the laboratory's runs differ.
struct Delays {
    /// The delay in the plans.
    written: &'static str,
    /// Returns the delay for a seed, as in a plan.
    of: fn(u64) -> String,
}

impl Reference {
    fn tolerances(&self) -> Vec<Tolerance> {
        json(&format!("bench/{}/tolerances.json", self.folder))
    }

    fn plan_file(&self, scenario: &Scenario) -> String {
        format!("bench/{}/{}.toml", self.folder, scenario.name)
    }

    /// Returns the path of a file of results: `-laboratory.csv`.
    fn results(&self, scenario: &Scenario, ending: &str) -> String {
        format!("bench/results/{}/{}{ending}", self.folder, scenario.name)
    }

    fn study(&self, scenario: &Scenario) -> Study {
        Study::from_toml(scenario.name, &text(&self.plan_file(scenario))).expect("a plan")
    }

    /// Returns the runs of the plan with these seeds in the laboratory. If nothing in the scenarios
    /// is random, each seed has a delay of its own.
    fn runs(&self, scenario: &Scenario, seeds: RangeInclusive<u64>) -> Vec<StudyRun> {
        let plan = text(&self.plan_file(scenario));
        let of = |seed: u64| {
            let plan = match &self.delays {
                Some(delays) => plan.replace(delays.written, &(delays.of)(seed)),
                None => plan.clone(),
            };
            let mut study = Study::from_toml(scenario.name, &plan).expect("a plan");
            (study.seed, study.seeds) = (seed, 1);
            study.runs(1.0).expect("runs")
        };
        seeds.flat_map(of).collect()
    }

    /// Returns the seeds of the laboratory's runs.
    fn seeds(&self, scenario: &Scenario) -> RangeInclusive<u64> {
        let study = self.study(scenario);
        let count = if self.delays.is_some() { LABORATORY_SEEDS } else { study.seeds };
        study.seed..=study.seed + count - 1
    }

    /// Returns the texts of the scripts that run a scenario.
    fn script(&self, scenario: &Scenario) -> String {
        let files = scenario.scripts.iter();
        files.map(|file| text(&format!("bench/{}/{file}", self.folder))).collect()
    }

    fn comparisons(&'static self) -> Vec<Comparison> {
        self.scenarios.iter().map(|scenario| Comparison::read(self, scenario)).collect()
    }
}

/// A measure of a run.
struct Measure {
    /// Name in `tolerances.json`.
    name: &'static str,
    /// Column in CSV files.
    column: &'static str,
    heading: &'static str,
    /// Computes the measure from the laboratory's run, as `run.py` does from the
    /// reference's. The bottleneck and the counted group are those of the scenario.
    of: fn(&Bottleneck<'_>) -> f64,
}

/// Parts of a laboratory run from which the measures are computed.
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
        name: "share",
        column: "share_percent",
        heading: "share of the flow in %",
        of: |b| {
            let all: f64 = b.outcome.groups.values().map(|group| group.throughput_bps).sum();
            round(100.0 * b.group.throughput_bps / all, 3)
        },
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
}

/// The largest accepted difference of a measure.
#[derive(Deserialize)]
struct Tolerance {
    /// The only scenario to which it applies, if any. In this scenario, it replaces the general
    /// tolerance of the measure.
    scenario: Option<String>,
    measure: String,
    /// Relative to the reference's mean.
    percent: f64,
    /// In units of the measure.
    absolute: f64,
    /// Whether it is enough that each mean lies inside the other's 95% interval.
    intervals: bool,
    reason: String,
}

impl Tolerance {
    fn agrees(&self, theirs: &Estimate, ours: &Estimate) -> bool {
        let largest = (self.percent / 100.0 * theirs.mean.abs()).max(self.absolute);
        let inside = |mean: f64, of: &Estimate| {
            of.interval().is_some_and(|(low, high)| (low..=high).contains(&mean))
        };
        (ours.mean - theirs.mean).abs() <= largest
            || (self.intervals && inside(theirs.mean, ours) && inside(ours.mean, theirs))
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

/// Stored description of a reference's runs of a scenario.
#[derive(Deserialize)]
struct ReferenceRuns {
    /// Name and version.
    simulator: String,
    /// CPU time of a simulator, or duration of the runs.
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

/// Runs of both sides in one combination of the sweep.
struct Cell {
    key: Vec<String>,
    theirs: Vec<Run>,
    ours: Vec<Run>,
}

impl Cell {
    fn is(&self, key: &[&str]) -> bool {
        self.key.iter().map(String::as_str).eq(key.iter().copied())
    }

    /// Returns the means of a column over the runs of the reference and of the laboratory.
    fn estimates(&self, column: &str) -> (Estimate, Estimate) {
        let of = |runs: &[Run]| {
            let values: Vec<f64> = runs.iter().map(|run| run.values[column]).collect();
            Estimate::of(&values).expect("runs")
        };
        (of(&self.theirs), of(&self.ours))
    }
}

/// Stored results of a scenario.
struct Comparison {
    reference: &'static Reference,
    scenario: &'static Scenario,
    theirs: ReferenceRuns,
    ours: Laboratory,
    cells: Vec<Cell>,
}

impl Comparison {
    /// Reads the stored results. The cells are in the order of the plan's values.
    fn read(reference: &'static Reference, scenario: &'static Scenario) -> Self {
        let ours = read_runs(reference, scenario, "-laboratory.csv");
        let mut cells: Vec<Cell> = Vec::new();
        for run in read_runs(reference, scenario, ".csv") {
            let same = |other: &&Run| other.key == run.key;
            match cells.iter_mut().find(|cell| cell.key == run.key) {
                Some(cell) => cell.theirs.push(run),
                None => cells.push(Cell {
                    key: run.key.clone(),
                    ours: ours.iter().filter(same).cloned().collect(),
                    theirs: vec![run],
                }),
            }
        }
        let keys: Vec<Vec<String>> = cells.iter().map(|cell| cell.key.clone()).collect();
        let rank = |axis: usize, value: &String| keys.iter().position(|key| key[axis] == *value);
        cells.sort_by_key(|cell| {
            cell.key.iter().enumerate().map(|(axis, value)| rank(axis, value)).collect::<Vec<_>>()
        });
        Self {
            reference,
            scenario,
            theirs: json(&reference.results(scenario, ".json")),
            ours: json(&reference.results(scenario, "-laboratory.json")),
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
            let (theirs, ours) = cell.estimates(self::measure(measure).column);
            let mut listed = self.scenario.differences.iter().flat_map(|d| d.cells);
            let listed = listed.any(|(of, key)| *of == measure && cell.is(key));
            let fault = match (tolerance.agrees(&theirs, &ours), listed) {
                (false, false) => "differs, and `differences` does not list it",
                (true, true) => "agrees, but `differences` lists it",
                _ => continue,
            };
            let name = self.scenario.name;
            faults.push(format!(
                "{name}, {measure} of {:?}: {} {theirs:.3}, laboratory {ours:.3}: {fault}",
                cell.key, self.reference.name
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

fn json<T: for<'a> Deserialize<'a>>(path: &str) -> T {
    serde_json::from_str(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Reads the runs of a CSV file; further columns are ignored.
fn read_runs(reference: &Reference, scenario: &Scenario, ending: &str) -> Vec<Run> {
    let text = text(&reference.results(scenario, ending));
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

/// Returns all scenarios with their references.
fn scenarios() -> impl Iterator<Item = (&'static Reference, &'static Scenario)> {
    REFERENCES
        .into_iter()
        .flat_map(|reference| reference.scenarios.iter().map(move |s| (reference, s)))
}

fn key(scenario: &Scenario, run: &StudyRun) -> Vec<String> {
    scenario.axes.iter().map(|(axis, _)| run.key[*axis].clone()).collect()
}

/// Returns the values of a run's columns, as `run.py` computes them for the reference.
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
fn laboratory(scenario: &Scenario, runs: &[StudyRun]) -> Vec<Run> {
    let results = run_study(runs, &RunOptions::default(), &|_| {}).expect("results");
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

#[test]
fn stored_results_belong_to_the_current_plan() {
    for (reference, scenario) in scenarios() {
        let (name, again) = (scenario.name, format!("repeat the runs: {}", reference.make));
        let theirs: ReferenceRuns = json(&reference.results(scenario, ".json"));
        let plan = text(&reference.plan_file(scenario));
        assert!(theirs.plan == plan, "{name}.toml has changed; {again}");
        let same = theirs.script == reference.script(scenario);
        assert!(same, "one of {:?} has changed; {again}", scenario.scripts);
        let theirs = reference.study(scenario).runs(1.0).expect("runs");
        let ours = reference.runs(scenario, reference.seeds(scenario));
        for (runs, ending) in [(theirs, ".csv"), (ours, "-laboratory.csv")] {
            let planned: BTreeSet<_> =
                runs.iter().map(|run| (key(scenario, run), run.seed)).collect();
            let stored = read_runs(reference, scenario, ending);
            assert_eq!(stored.len(), planned.len(), "{name}{ending}; {again}");
            let stored: BTreeSet<_> = stored.into_iter().map(|run| (run.key, run.seed)).collect();
            assert!(stored == planned, "{name}{ending} has other runs than the plan; {again}");
        }
    }
}

#[test]
fn laboratory_still_has_its_stored_results() {
    for (reference, scenario) in scenarios() {
        let seed = *reference.seeds(scenario).start();
        let stored = read_runs(reference, scenario, "-laboratory.csv");
        let first: Vec<Run> = stored.into_iter().filter(|run| run.seed == seed).collect();
        let now = laboratory(scenario, &reference.runs(scenario, seed..=seed));
        let again = format!("repeat the runs: {}", reference.make);
        assert_eq!(now, first, "the laboratory has other results than before; {again}");
    }
}

/// Runs all seeds of a reference's plans and stores the results.
fn store_laboratory(reference: &Reference) {
    for scenario in reference.scenarios {
        let before = cpu_seconds().expect("CPU time, which Linux reports");
        let runs = laboratory(scenario, &reference.runs(scenario, reference.seeds(scenario)));
        let used = round(cpu_seconds().expect("CPU time") - before, 1);
        write(&reference.results(scenario, "-laboratory.csv"), &csv(scenario, &runs));
        let json = format!("{{\"cpu_seconds\": {used}}}\n");
        write(&reference.results(scenario, "-laboratory.json"), &json);
        println!("{}: {} runs, {used} s of CPU time", scenario.name, runs.len());
    }
}

#[test]
#[ignore = "takes minutes of CPU time; make ns2 runs it"]
fn whole_plans_of_ns2_run_in_the_laboratory() {
    store_laboratory(&ns2::NS2);
}

#[test]
#[ignore = "takes minutes of CPU time; make linux-tcp runs it"]
fn whole_plans_of_linux_run_in_the_laboratory() {
    store_laboratory(&linux::LINUX);
}

#[test]
fn laboratory_agrees_with_its_references_within_tolerances() {
    let mut faults: Vec<String> = Vec::new();
    for reference in REFERENCES {
        let (tolerances, comparisons) = (reference.tolerances(), reference.comparisons());
        let figures =
            comparisons.iter().map(|c| (reference.results(c.scenario, ".svg"), page::figure(c)));
        let page = (reference.page.to_owned(), page::page(reference, &comparisons, &tolerances));
        for (path, should) in figures.chain([page]) {
            is_or_becomes(&path, &should, HINT);
        }
        faults.extend(comparisons.iter().flat_map(|c| c.faults(&tolerances)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
