//! The study of what one-way delays are worth: `docs/one-way-delay.md` shows the stored results.
//!
//! `make one-way` runs the studies `one-way-uplink` and `one-way-paths`, and stores their results in
//! `bench/results/one-way`. The tests here check that the results belong to the current studies,
//! that the laboratory still has some of them, and that the page shows them.
//! `FATHOM_WRITE=1 cargo test --release -p fathom-papers --test one_way` writes the page's tables
//! and figure.

use std::collections::BTreeMap;
use std::fmt::Write;

use fathom_experiments::study::{RunOptions, Study, StudyRun, StudyRunResult, run_study};
use fathom_metrics::{Bounds, Estimate, round};
use fathom_report::{Axis, Figure, Series, standalone};

mod common;

use common::{
    Row, cell, csv_rows, estimate, is_or_becomes, named, table, text, values, with_tables, write,
};

const HINT: &str = "FATHOM_WRITE=1 cargo test --release -p fathom-papers --test one_way";
const AGAIN: &str = "repeat the runs: make one-way";
const PAGE: &str = "docs/one-way-delay.md";
const RESULTS: &str = "bench/results/one-way";

const NAMED_PATHS: [&str; 5] = ["dsl", "cable", "wifi", "lte", "leo"];

/// A study and its axes besides the controller.
struct OneWay {
    name: &'static str,
    axes: &'static [&'static str],
    /// Values of the axes whose first seed runs again in a test.
    checked: &'static [&'static str],
}

const UPLINK: OneWay = OneWay { name: "one-way-uplink", axes: &["up-queue"], checked: &["320"] };
const PATHS: OneWay =
    OneWay { name: "one-way-paths", axes: &["path", "upload"], checked: &["lte", "CUBIC"] };

impl OneWay {
    fn plan(&self) -> String {
        text(&format!("bench/plans/studies/{}.toml", self.name))
    }

    fn runs(&self) -> Vec<StudyRun> {
        let study = Study::from_toml(self.name, &self.plan()).expect("a study");
        study.runs(1.0).expect("runs")
    }

    fn file(&self, ending: &str) -> String {
        format!("{RESULTS}/{}{ending}", self.name)
    }

    fn rows(&self) -> Vec<Row> {
        csv_rows(&self.file(".csv"))
    }

    /// Returns the rows of the results as CSV. Names of controllers contain commas, which the file
    /// has as semicolons.
    fn csv(&self, runs: &[StudyRun]) -> String {
        let measures = ["download_mbps", "queue_packets", "drops_percent", "upload_mbps"];
        let head = self.axes.iter().copied().chain(["controller", "seed"]).chain(measures);
        let mut csv = head.collect::<Vec<_>>().join(",") + "\n";
        let results = run_study(runs, &RunOptions::default(), &|_| {}).expect("results");
        for run in runs {
            let same = |r: &&StudyRunResult| (&r.key, r.seed) == (&run.key, run.seed);
            let outcome = &results.iter().find(same).expect("a result").outcome;
            let link = &outcome.links["left-right"];
            let mbps = |group: &str| round(outcome.groups[group].throughput_bps / 1e6, 4);
            let axes = self.axes.iter().map(|axis| run.key[*axis].as_str());
            writeln!(
                csv,
                "{},{},{},{},{},{},{}",
                axes.collect::<Vec<_>>().join(","),
                run.key["controller"].replace(',', ";"),
                run.seed,
                mbps("download"),
                link.mean_queue,
                link.drops_percent,
                mbps("upload"),
            )
            .expect("written");
        }
        csv
    }
}

/// Returns the controllers as in the file and as on the page.
fn controllers(rows: &[Row]) -> Vec<(String, String)> {
    let names = values(rows, "controller").into_iter();
    names.map(|name| (name.clone(), name.replace(';', ","))).collect()
}

/// Returns a table with the paths across and the controllers down.
fn by_path(upload: &str, column: &str, digits: usize) -> String {
    let rows = PATHS.rows();
    let row = |(file, name): (String, String)| {
        let cells = NAMED_PATHS.map(|path| {
            let key = [("path", path), ("upload", upload), ("controller", file.as_str())];
            cell(&rows, &key, column, digits)
        });
        named(name, cells)
    };
    table(named("", NAMED_PATHS.map(str::to_owned)), controllers(&rows).into_iter().map(row))
}

/// Returns the differences of the download rates, one-way minus RTT, paired by seed.
fn pairs(upload: &str) -> String {
    let rows = PATHS.rows();
    let rates = |path: &str, controller: &str| -> BTreeMap<String, f64> {
        let key = [("path", path), ("upload", upload), ("controller", controller)];
        let has = |row: &&Row| key.iter().all(|(name, value)| row[*name] == *value);
        let rate = |row: &Row| (row["seed"].clone(), row["download_mbps"].parse().expect("a rate"));
        rows.iter().filter(has).map(rate).collect()
    };
    let row = |controller: &str| {
        let cells = NAMED_PATHS.map(|path| {
            let [one_way, rtt] =
                ["one-way", "RTT"].map(|signal| rates(path, &format!("{controller}; {signal}")));
            let of = |(seed, rate): (&String, &f64)| rate - rtt[seed];
            let differences: Vec<f64> = one_way.iter().map(of).collect();
            format!("{:.2}", Estimate::of(&differences).expect("pairs"))
        });
        named(controller, cells)
    };
    let controllers = ["Sync-TCP", "LEDBAT", "LEDBAT++", "Copa"];
    table(named("", NAMED_PATHS.map(str::to_owned)), controllers.map(row))
}

/// Returns the download rate by the length of the queue on the way back.
fn figure() -> String {
    let rows = UPLINK.rows();
    let queues = values(&rows, "up-queue");
    let curve = |(file, name): (String, String)| {
        let point = |queue: &String| {
            let key = [("up-queue", queue.as_str()), ("controller", file.as_str())];
            Some((queue.parse::<f64>().ok()?, estimate(&rows, &key, "download_mbps")?))
        };
        Series::of_estimates(name, queues.iter().filter_map(point))
    };
    let series = controllers(&rows).into_iter().map(curve).collect();
    let x = Axis::logarithmic("queue on the way back in packets");
    let y = Axis::linear("download rate in Mbps").within(Bounds::NOT_NEGATIVE);
    standalone(&Figure { x, y, series }).expect("curves")
}

#[test]
fn one_way_results_belong_to_the_current_studies() {
    for study in [&UPLINK, &PATHS] {
        assert!(text(&study.file(".toml")) == study.plan(), "{}: {AGAIN}", study.name);
        assert_eq!(study.rows().len(), study.runs().len(), "{}: {AGAIN}", study.name);
    }
}

#[test]
fn laboratory_still_has_the_one_way_results() {
    for study in [&UPLINK, &PATHS] {
        let mut runs = study.runs();
        let first = runs.iter().map(|run| run.seed).min().expect("runs");
        runs.retain(|run| {
            let axes = study.axes.iter().map(|axis| run.key[*axis].as_str());
            run.seed == first && axes.eq(study.checked.iter().copied())
        });
        let stored = text(&study.file(".csv"));
        for line in study.csv(&runs).lines() {
            assert!(stored.lines().any(|s| s == line), "{}: {line}: {AGAIN}", study.name);
        }
    }
}

#[test]
fn one_way_page_shows_the_results() {
    let tables = [
        ("with", by_path("CUBIC", "download_mbps", 2)),
        ("pairs with", pairs("CUBIC")),
        ("pairs without", pairs("none")),
        ("without", by_path("none", "download_mbps", 2)),
        ("queue with", by_path("CUBIC", "queue_packets", 0)),
        ("queue without", by_path("none", "queue_packets", 0)),
        ("upload", by_path("CUBIC", "upload_mbps", 2)),
    ];
    is_or_becomes(&format!("{RESULTS}/uplink.svg"), &figure(), HINT);
    is_or_becomes(PAGE, &with_tables(&text(PAGE), &tables), HINT);
}

#[test]
#[ignore = "takes minutes of CPU time; make one-way runs it"]
fn one_way_studies_run() {
    for study in [&UPLINK, &PATHS] {
        write(&study.file(".csv"), &study.csv(&study.runs()));
        write(&study.file(".toml"), &study.plan());
    }
}
