//! The study of what one-way delays are worth: `docs/one-way-delay.md` shows the stored results.
//!
//! `make one-way` runs the studies `one-way-uplink` and `one-way-paths`, and stores their results in
//! `bench/results/one-way`. The tests here check that the results belong to the current studies,
//! that the laboratory still has some of them, and that the page shows them.
//! `FATHOM_WRITE=1 cargo test --release -p fathom-papers --test one_way` writes the page's tables
//! and figure.

use std::fmt::Write;

use fathom_experiments::study::{RunOptions, Study, StudyRun, StudyRunResult, run_study};
use fathom_metrics::{Bounds, round};
use fathom_report::{Axis, Figure, Series, standalone};

mod common;

use common::{
    Row, cell, csv_rows, estimate, is_or_becomes, named, table, text, values, with_tables, write,
};

const HINT: &str = "FATHOM_WRITE=1 cargo test --release -p fathom-papers --test one_way";
const AGAIN: &str = "repeat the runs: make one-way";
const PAGE: &str = "docs/one-way-delay.md";
const RESULTS: &str = "bench/results/one-way";

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
    let paths = ["dsl", "cable", "wifi", "lte", "leo"];
    let row = |(file, name): (String, String)| {
        let cells = paths.map(|path| {
            let key = [("path", path), ("upload", upload), ("controller", file.as_str())];
            cell(&rows, &key, column, digits)
        });
        named(name, cells)
    };
    table(named("", paths.map(str::to_owned)), controllers(&rows).into_iter().map(row))
}

/// Returns the download rate by the length of the queue on the way back.
fn figure() -> String {
    let rows = UPLINK.rows();
    let queues = values(&rows, "up-queue");
    let curve = |(file, name): (String, String)| {
        let point = |queue: &String| {
            let key = [("up-queue", queue.as_str()), ("controller", file.as_str())];
            // A packet of 1,420 bytes takes 1.136 ms at 10 Mbps.
            let ms = queue.parse::<f64>().ok()? * 1.136;
            Some((ms, estimate(&rows, &key, "download_mbps")?))
        };
        Series::of_estimates(name, queues.iter().filter_map(point))
    };
    let series = controllers(&rows).into_iter().map(curve).collect();
    let x = Axis::logarithmic("queue on the way back in ms, if it is full");
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
