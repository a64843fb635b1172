//! Compares `docs/papers` with `bench/results`: every paper with stored results has a page and
//! figures, equal to those generated now.
//!
//! `fathom reproduce PAPER --store bench/results` stores results.
//! `FATHOM_WRITE=1 cargo test -p fathom-papers --test papers` judges the results again with the
//! current predicates and rewrites pages and figures. A verdict stands while its test is the same.
//! Without the variable, the test only compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_metrics::Estimate;
use fathom_papers::report::{beside_ns2, figures, markdown, verdict_counts};
use fathom_papers::{Claim, PAPERS, Record, Results, Verdict};

mod common;

use common::{
    by_seed, csv_rows, estimate, is_or_becomes, readme_says, root, text, values, with_tables,
    writes,
};

/// Papers whose claims are tested on QUIC.
const ON_QUIC: [&str; 5] = ["sync-tcp", "dca", "sdc", "ghstcp", "packet-size"];
const HINT: &str = "FATHOM_WRITE=1 cargo test -p fathom-papers --test papers";

/// Returns the files of a folder by name; a missing folder has none. Line ends are normalised,
/// because a checkout may have converted them.
fn files(folder: &Path, ending: &str) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == ending) {
            let name = path.file_name().and_then(|n| n.to_str()).expect("a name").to_owned();
            files.insert(name, fs::read_to_string(&path).expect("a text").replace("\r\n", "\n"));
        }
    }
    files
}

struct Places {
    results: PathBuf,
    figures: PathBuf,
    pages: PathBuf,
}

fn places(root: &Path) -> Places {
    let results = root.join("bench/results");
    Places { figures: results.join("figures"), pages: root.join("docs/papers"), results }
}

/// Returns the record as judged by the current predicates.
fn judged_now(record: &Record) -> Record {
    match PAPERS.iter().find(|paper| paper.name == record.report.paper) {
        Some(paper) => record.clone().again(paper, &Results::default()),
        None => record.clone(),
    }
}

/// Returns the record of a file as judged by the current predicates. If it differs, the file is
/// written with `write`, and is a fault otherwise.
fn current(file: &Path, record: &Record, write: bool, faults: &mut Vec<String>) -> Record {
    let now = judged_now(record);
    if now != *record && write {
        let text = serde_json::to_string(&now).expect("a record") + "\n";
        fs::write(file, text).expect("written");
    } else if now != *record {
        faults.push(format!(
            "{} has verdicts of earlier predicates, or does not list what has changed: {HINT}",
            file.display()
        ));
    }
    now
}

/// Returns the verdicts of a paper on other stacks, from the files of the stacks' folders. With
/// `write`, the verdicts are made again with the current predicates, and otherwise old ones are
/// faults.
fn on_other_stacks(
    results: &Path,
    paper: &str,
    write: bool,
    faults: &mut Vec<String>,
) -> Vec<Record> {
    let mut folders: Vec<PathBuf> = fs::read_dir(results.join("stacks"))
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path())
        .collect();
    folders.sort();
    let mut records = Vec::new();
    for folder in folders {
        let file = folder.join(format!("{paper}.json"));
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let record: Record = serde_json::from_str(&text).expect("a record");
        records.push(current(&file, &record, write, faults));
    }
    records
}

/// Returns differences between committed and generated files, one line each. With `write`,
/// verdicts, pages and figures are rewritten.
fn faults(root: &Path, papers: &[&str], write: bool) -> Vec<String> {
    let Places { results, figures: drawings, pages } = places(root);
    let (mut should_pages, mut should_drawings, mut faults) =
        (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (file, text) in files(&results, "json") {
        match serde_json::from_str::<Record>(&text) {
            Err(e) => {
                faults.push(format!("{file} cannot be read: {e}; run the paper again with --store"))
            }
            Ok(record) => {
                let record = current(&results.join(&file), &record, write, &mut faults);
                let name = &record.report.paper;
                if file != format!("{name}.json") || !papers.contains(&name.as_str()) {
                    faults.push(format!(
                        "{file} is about '{name}', which is not a paper of that name"
                    ));
                }
                let others = on_other_stacks(&results, name, write, &mut faults);
                should_pages.insert(format!("{name}.md"), markdown(&record, &others));
                should_drawings.extend(figures(&record));
            }
        }
    }
    for (folder, should) in [(pages, should_pages), (drawings, should_drawings)] {
        let ending = if folder.ends_with("figures") { "svg" } else { "md" };
        if write {
            for (name, text) in &should {
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(folder.join(name), text).expect("written");
            }
        }
        let is = files(&folder, ending);
        let extra = is.keys().filter(|name| !should.contains_key(*name));
        faults
            .extend(extra.map(|name| format!("{name} has no results in bench/results; remove it")));
        let stale = should.iter().filter(|(name, text)| is.get(*name) != Some(text));
        faults.extend(
            stale.map(|(name, _)| {
                format!("{name} differs from its results; write it again: {HINT}")
            }),
        );
    }
    faults
}

/// Returns the stored record of a paper as judged by the current predicates.
fn record(paper: &str) -> Record {
    let text = text(&format!("bench/results/{paper}.json"));
    judged_now(&serde_json::from_str(&text).expect("a record"))
}

/// Both tables are compared in one test: two tests that write one page would lose a table.
#[test]
fn validation_page_has_the_bands_and_verdicts_of_the_stored_results() {
    let page = "docs/validation.md";
    let results = places(&root()).results;
    let of_paper = |paper: &&str| {
        let others = on_other_stacks(&results, paper, false, &mut Vec::new());
        std::iter::once(record(paper)).chain(others).collect::<Vec<_>>()
    };
    let on_quic: Vec<Record> = ON_QUIC.iter().flat_map(of_paper).collect();
    let tables =
        [("bands", beside_ns2(&record("validation"))), ("verdicts", verdict_counts(&on_quic))];
    is_or_becomes(page, &with_tables(&text(page), &tables), HINT);
}

#[test]
fn readme_counts_the_verdicts_of_the_stored_results() {
    for (papers, held, not_held) in [
        (&["validation"][..], "results of the papers are reproduced", "are not."),
        (&ON_QUIC[..], "claims of the papers hold on QUIC", "do not."),
    ] {
        let claims: Vec<Claim> =
            papers.iter().flat_map(|paper| record(paper).report.claims).collect();
        let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
        let should = format!(
            "{} of {} {held}, {} {not_held}",
            count(Verdict::Held),
            claims.len(),
            count(Verdict::NotHeld),
        );
        readme_says(&should);
    }
}

#[test]
fn paper_pages_and_figures_match_the_stored_results() {
    let papers: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
    let faults = faults(&root(), &papers, writes());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `bench/results/stacks-web.csv` has the default comparison on all stacks.
#[test]
fn pages_show_the_stored_comparison_of_stacks() {
    let rows = csv_rows("bench/results/stacks-web.csv");
    let mean = |controller: &str, stack: &str, column: &str, digits: usize| {
        let key = [("controller", controller), ("stack", stack)];
        let mean = estimate(&rows, &key, column).expect("runs").mean;
        format!("{mean:.digits$}")
    };
    let page = text("docs/stacks.md");
    for controller in values(&rows, "controller") {
        let cells = [
            ("drops_percent", 2),
            ("response_time_p50_ms", 0),
            ("response_time_mean_ms", 0),
            ("response_time_p99_ms", 0),
            ("queue_mean_packets", 1),
        ];
        let cells = cells.map(|(column, digits)| {
            ["quinn", "noq", "quiche"].map(|s| mean(&controller, s, column, digits)).join(" / ")
        });
        let row = format!("| `{controller}` | {} |", cells.join(" | "));
        assert!(page.replace(',', "").contains(&row), "docs/stacks.md lacks: {row}");
    }
    let page = text("docs/compare.md");
    for controller in ["sync", "reno"] {
        let sample = page.lines().find(|line| line.starts_with(&format!("{controller}   ")));
        let sample: Vec<&str> = sample.expect("a row").split_whitespace().collect();
        assert_eq!(sample[2], mean(controller, "quinn", "response_time_mean_ms", 0), "compare.md");
    }
    let [own, reno] = ["sync", "reno"].map(|controller| {
        let key = [("controller", controller), ("stack", "quinn")];
        by_seed(&rows, &key, "response_time_mean_ms")
    });
    let ratios = own.iter().map(|(seed, value)| (value / reno[seed]).ln()).collect::<Vec<_>>();
    let (low, high) = Estimate::of(&ratios).expect("seeds").interval().expect("five seeds");
    let [least, most] = [high, low].map(|end| 100.0 * (1.0 - end.exp()));
    assert!(page.contains(&format!("sync {least:.0} to {most:.0} % faster")), "{least} to {most}");
    readme_says(&format!("than with Reno ({least:.0} to {most:.0} %)"));
}

/// Tests the comparison itself, on a handmade record.
#[test]
fn stale_missing_and_extra_result_files_are_found() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("papers");
    let _ = fs::remove_dir_all(&root);
    let Places { results, figures: drawings, pages } = places(&root);
    fs::create_dir_all(&results).unwrap();
    assert!(faults(&root, &["made-up"], false).is_empty(), "nothing kept, nothing to compare");

    let axis = |label: &str| serde_json::json!({"label": label, "log": false, "range": null});
    let record = serde_json::json!({
        "fathom": "0.1.0", "citation": "A. Author: Title", "command": "fathom reproduce made-up", "scale": 1.0,
        "studies": [{"study": "s", "seeds": 3, "stacks": ["quinn"], "cells": 6, "done": 6, "fingerprint": "00"}],
        "missing": [],
        "report": {
            "paper": "made-up", "claims": [], "departures": ["None."],
            "artefacts": [{
                "id": "figure 1", "title": "A line", "note": "",
                "body": {"figure": {"x": axis("x"), "y": axis("y"), "series": [
                    {"name": "a", "points": [[0.0, 1.0], [1.0, 2.0]], "spread": null, "scatter": false},
                ]}},
            }],
        },
    });
    fs::write(results.join("made-up.json"), record.to_string()).unwrap();
    assert_eq!(faults(&root, &["made-up"], false).len(), 2, "a page and a figure are missing");
    assert_eq!(faults(&root, &["made-up"], true), [""; 0]);
    assert_eq!(faults(&root, &["made-up"], false), [""; 0]);
    assert!(pages.join("made-up.md").is_file() && drawings.join("made-up-figure-1.svg").is_file());
    assert!(faults(&root, &[], false)[0].contains("not a paper"));

    // The picture linked by the page exists.
    let page = fs::read_to_string(pages.join("made-up.md")).unwrap();
    let shown =
        page.split_once("](").and_then(|(_, rest)| rest.split_once(')')).expect("a picture").0;
    assert!(pages.join(shown).is_file(), "{shown}");

    fs::write(pages.join("made-up.md"), page.replace("A line", "A curve")).unwrap();
    fs::write(pages.join("gone.md"), "").unwrap();
    let text = faults(&root, &["made-up"], false).join("\n");
    assert!(
        text.contains("gone.md has no results") && text.contains("made-up.md differs from"),
        "{text}"
    );
    fs::write(results.join("made-up.json"), "{}").unwrap();
    assert!(faults(&root, &["made-up"], false)[0].contains("cannot be read"));
}
