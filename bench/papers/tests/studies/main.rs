//! Stored studies and their pages.
//!
//! `make studies` runs the studies of a page and stores their results in `bench/results`. The tests
//! here check that the results belong to the current studies, that the laboratory still has some of
//! them, and that the page shows them.
//! `FATHOM_WRITE=1 cargo test --release -p fathom-papers --test studies` writes the tables and
//! figures of all pages.

use std::collections::BTreeSet;
use std::fmt::Write;

use fathom_experiments::scenario::Outcome;
use fathom_experiments::study::{RunOptions, Study, StudyRun, StudyRunResult, run_study};

mod bbr;
mod by_signal;
#[path = "../common/mod.rs"]
mod common;
mod frontiers;
mod l4s;
mod media;
mod one_way;
mod plumb;
mod start_up;

use common::{Row, csv_rows, is_or_becomes, text, with_tables, write};

const HINT: &str = "FATHOM_WRITE=1 cargo test --release -p fathom-papers --test studies";
const AGAIN: &str = "repeat the runs: make studies";
const PAGES: [&Page; 7] = [
    &bbr::PAGE,
    &frontiers::PAGE,
    &l4s::PAGE,
    &media::PAGE,
    &one_way::PAGE,
    &plumb::PAGE,
    &start_up::PAGE,
];

/// A page and the studies that it shows.
struct Page {
    path: &'static str,
    studies: &'static [&'static Stored],
    /// Tables by the name of their mark on the page.
    tables: &'static [Generated],
    /// Figures by their path.
    figures: &'static [Generated],
}

/// A part of a page: its name, and the function that generates it.
type Generated = (&'static str, fn() -> String);

/// A column of the results: its name, and how to compute it from the outcome of a run.
type Measure = (&'static str, fn(&Outcome) -> f64);

/// A value over time: its name, and its times in seconds and values in the outcome of a run.
type OverTime = (&'static str, fn(&Outcome) -> Vec<(f64, f64)>);

/// A study whose results are stored.
struct Stored {
    name: &'static str,
    /// Its folder in `bench/results`.
    folder: &'static str,
    axes: &'static [&'static str],
    measures: &'static [Measure],
    /// A value over time. If there is one, a run has a row for each time.
    over_time: Option<OverTime>,
    /// Axis and value of the runs whose first seed a test runs again.
    checked: (&'static str, &'static str),
}

impl Stored {
    fn plan(&self) -> String {
        text(&format!("bench/plans/studies/{}.toml", self.name))
    }

    fn runs(&self) -> Vec<StudyRun> {
        let study = Study::from_toml(self.name, &self.plan()).expect("a study");
        study.runs(1.0).expect("runs")
    }

    fn file(&self, ending: &str) -> String {
        format!("bench/results/{}/{}{ending}", self.folder, self.name)
    }

    fn rows(&self) -> Vec<Row> {
        csv_rows(&self.file(".csv"))
    }

    /// Executes runs and returns their results as CSV. Commas in values of axes become semicolons.
    fn execute(&self, runs: &[StudyRun]) -> String {
        let measures = self.measures.iter().map(|(name, _)| *name);
        let over_time = self.over_time.iter().flat_map(|(name, _)| ["second", *name]);
        let head = self.axes.iter().copied().chain(["seed"]).chain(measures).chain(over_time);
        let mut csv = head.collect::<Vec<_>>().join(",") + "\n";
        let results = run_study(runs, &RunOptions::default(), &|_| {}).expect("results");
        for run in runs {
            let same = |r: &&StudyRunResult| (&r.key, r.seed) == (&run.key, run.seed);
            let outcome = &results.iter().find(same).expect("a result").outcome;
            let mut line = String::new();
            for axis in self.axes {
                write!(line, "{},", run.key[*axis].replace(',', ";")).expect("written");
            }
            write!(line, "{}", run.seed).expect("written");
            for (_, of) in self.measures {
                write!(line, ",{}", of(outcome)).expect("written");
            }
            match self.over_time {
                None => writeln!(csv, "{line}").expect("written"),
                Some((_, of)) => of(outcome).into_iter().for_each(|(second, value)| {
                    writeln!(csv, "{line},{second},{value}").expect("written");
                }),
            }
        }
        csv
    }
}

fn studies() -> impl Iterator<Item = &'static Stored> {
    PAGES.into_iter().flat_map(|page| page.studies.iter().copied())
}

#[test]
fn stored_results_belong_to_the_current_studies() {
    for study in studies() {
        assert!(text(&study.file(".toml")) == study.plan(), "{}: {AGAIN}", study.name);
        let keys = study.axes.iter().copied().chain(["seed"]);
        let key = |row: &Row| keys.clone().map(|axis| row[axis].clone()).collect::<Vec<_>>();
        let stored: BTreeSet<_> = study.rows().iter().map(key).collect();
        assert_eq!(stored.len(), study.runs().len(), "{}: {AGAIN}", study.name);
    }
}

#[test]
fn laboratory_still_has_the_stored_results() {
    for study in studies() {
        let mut runs = study.runs();
        let first = runs.iter().map(|run| run.seed).min().expect("runs");
        let (axis, value) = study.checked;
        runs.retain(|run| run.seed == first && run.key[axis] == value);
        let stored = text(&study.file(".csv"));
        for line in study.execute(&runs).lines() {
            assert!(stored.lines().any(|s| s == line), "{}: {line}: {AGAIN}", study.name);
        }
    }
}

#[test]
fn pages_show_the_stored_results() {
    for page in PAGES {
        for (path, figure) in page.figures {
            is_or_becomes(path, &figure(), HINT);
        }
        let tables: Vec<_> = page.tables.iter().map(|(name, table)| (*name, table())).collect();
        is_or_becomes(page.path, &with_tables(&text(page.path), &tables), HINT);
    }
}

#[test]
#[ignore = "takes minutes of CPU time; make studies runs it"]
fn studies_run() {
    let only = std::env::var("STUDY").unwrap_or_default();
    for study in studies().filter(|study| study.name.starts_with(&only)) {
        println!("{}: {} runs", study.name, study.runs().len());
        write(&study.file(".csv"), &study.execute(&study.runs()));
        write(&study.file(".toml"), &study.plan());
    }
}
