//! Compares `docs/papers` with `bench/results`: every paper with stored results has a page and
//! figures, equal to those generated now.
//!
//! `fathom reproduce PAPER --store bench/results` stores results.
//! `FATHOM_WRITE=1 cargo test -p fathom-papers --test papers` judges the results again with the
//! current predicates and rewrites pages and figures. It uses the runs in `bench/results/cells` as
//! far as they exist. Without the variable, the test only compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fathom_experiments::scenario::Stop;
use fathom_experiments::study::{
    Study, StudyRun, StudyRunResult, shipped, shipped_studies, stored,
};
use fathom_papers::report::{beside_ns2, figures, markdown};
use fathom_papers::{PAPERS, Record, Results, StudyRecord};

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

/// Returns the runs of a study behind a record, if all of them are stored. A run made under an
/// earlier rule has another name today and is identified by its key and seed.
fn runs_of(record: &StudyRecord, folder: &Path) -> Option<Vec<StudyRunResult>> {
    let study = Study::from_toml(&record.study, shipped(&record.study)?)
        .ok()?
        .with_seeds(record.seeds)
        .ok()?;
    let texts = files(&folder.join(&record.study), "json");
    let runs: Vec<StudyRunResult> =
        texts.values().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let same =
        |run: &StudyRun, result: &StudyRunResult| run.key == result.key && run.seed == result.seed;
    let of = |run: &StudyRun| {
        let named = runs.iter().find(|result| result.fingerprint == run.fingerprint);
        named.or_else(|| runs.iter().find(|result| same(run, result))).cloned()
    };
    study.runs(1.0).ok()?.iter().map(of).collect()
}

/// Returns the record as judged by the current predicates.
fn judged_now(record: &Record, runs: &Path) -> Record {
    let Some(paper) = PAPERS.iter().find(|paper| paper.name == record.report.paper) else {
        return record.clone();
    };
    let mut results = Results::default();
    for study in &record.studies {
        if let Some(runs) = runs_of(study, runs) {
            results.add(&study.study, runs);
        }
    }
    record.clone().again(paper, &results)
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
                let now = judged_now(&record, &results.join("cells"));
                if now != record && write {
                    let text = serde_json::to_string(&now).expect("a record") + "\n";
                    fs::write(results.join(&file), text).expect("written");
                } else if now != record {
                    faults.push(format!(
                        "{file} has verdicts of earlier predicates, or does not list what has changed: {HINT}"
                    ));
                }
                let record = now;
                let name = &record.report.paper;
                if file != format!("{name}.json") || !papers.contains(&name.as_str()) {
                    faults.push(format!(
                        "{file} is about '{name}', which is not a paper of that name"
                    ));
                }
                should_pages.insert(format!("{name}.md"), markdown(&record));
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

#[test]
fn stored_runs_exist_for_all_studies_of_a_paper_or_for_none() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let mut judged = BTreeSet::new();
    for (file, text) in files(&results, "json") {
        let record: Record = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        let found = record
            .studies
            .iter()
            .filter(|study| runs_of(study, &results.join("cells")).is_some())
            .count();
        // Either all of a paper's studies or none must be found; otherwise its page would mix
        // current and old verdicts.
        assert!(
            found == 0 || found == record.studies.len(),
            "{file}: {found} of {}",
            record.studies.len()
        );
        if found > 0 {
            judged.insert(record.report.paper);
        }
    }
    assert_eq!(judged.into_iter().collect::<Vec<_>>(), ["sync-tcp"]);
}

/// Under an earlier rule a failed request counted as a response; such results must not be taken for
/// current ones.
#[test]
fn stored_runs_count_only_completed_responses() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/cells");
    let mut found = 0;
    for (name, text) in shipped_studies() {
        // A build may lack a study's stack; tests/cli.rs reads every study in a build with all
        // stacks.
        let Ok(wanted) = Study::from_toml(name, text).and_then(|study| study.runs(1.0)) else {
            continue;
        };
        for result in stored(&wanted, &runs.join(name)) {
            let run =
                wanted.iter().find(|run| run.fingerprint == result.fingerprint).expect("its cell");
            let Stop::Responses(responses) = run.scenario.stop else { continue };
            let counted = run.scenario.traffic.iter().filter(|traffic| traffic.counted);
            let completed: u64 =
                counted.map(|traffic| result.outcome.groups[&traffic.name].responses).sum();
            assert_eq!(completed, responses, "{name}: {}", run.label());
            found += 1;
        }
    }
    assert!(
        found >= 8,
        "{found}: results are stored under other names now: see bench/results/cells/README.md"
    );
}

/// Returns the page with its generated table replaced by `table`.
fn with_table(page: &str, table: &str) -> String {
    let (start, end) = ("<!-- bands: written by the test papers -->\n", "<!-- end of bands -->");
    let (before, rest) = page.split_once(start).expect("the start of the table");
    let (_, after) = rest.split_once(end).expect("the end of the table");
    format!("{before}{start}{table}{end}{after}")
}

#[test]
fn validation_page_has_the_bands_of_the_stored_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| {
        let text = fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        text.replace("\r\n", "\n")
    };
    let record: Record = serde_json::from_str(&read("bench/results/validation.json")).unwrap();
    let now = judged_now(&record, &root.join("bench/results/cells"));
    let page = read("docs/validation.md");
    let should = with_table(&page, &beside_ns2(&now));
    if std::env::var_os("FATHOM_WRITE").is_some() {
        fs::write(root.join("docs/validation.md"), should).expect("written");
    } else {
        assert!(page == should, "docs/validation.md differs from validation.json: {HINT}");
    }
}

#[test]
fn paper_pages_and_figures_match_the_stored_results() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let papers: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
    let faults = faults(&root, &papers, std::env::var_os("FATHOM_WRITE").is_some());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
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
