//! `fathom reproduce`: runs a paper's studies, prints its tables and figures beside the paper's
//! own, and reports whether its claims hold.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use fathom_experiments::study::{self, StudyError, StudyRunResult};
use fathom_papers::report;
use fathom_papers::{ArtefactSpec, Overrides, Paper, Record, StudyWork, cost, find, list, select};
use fathom_stacks::Stack;

use crate::{Failure, numbers, output, plan};

/// Reproduce a paper's tables and figures. Without a paper: list the papers, their tables and
/// figures, and the costs.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom reproduce
  fathom reproduce sdc --figure 4 --scale 0.05 --seeds 2
  fathom reproduce sync-tcp --table 1 --figure 3-4,7 --report sync.html
  fathom reproduce dca --only-stored --json -

Finished runs are stored at once, in the same place as by 'fathom plan run'. A stopped reproduction continues where it stopped.")]
pub(crate) struct Args {
    /// The paper's name.
    paper: Option<String>,
    /// One or several figures of the paper, as listed: 4,7-9. May be given several times. [default:
    /// all figures and tables]
    #[arg(long = "figure", value_name = "F")]
    figures: Vec<String>,
    /// One or several tables of the paper, written as for --figure.
    #[arg(long = "table", value_name = "T")]
    tables: Vec<String>,
    /// Factor for the duration or the number of responses of every run, for a quick look: above 0
    /// and at most 1.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = numbers::scale)]
    scale: f64,
    /// Number of seeds, instead of each study's number.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>(1..=study::MOST_SEEDS))]
    seeds: Option<u64>,
    /// Stack of both endpoints, instead of each study's stack (see 'fathom stacks').
    #[arg(long, value_name = "STACK")]
    stack: Option<Stack>,
    /// Folder of results; each study has a folder of its own in it.
    #[arg(long, value_name = "DIR", default_value = plan::RESULTS)]
    results: PathBuf,
    /// Number of concurrent runs. [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::jobs)]
    jobs: Option<NonZero<usize>>,
    /// List tables and figures with their costs; run nothing.
    #[arg(long, conflicts_with_all = ["figures", "tables", "only_stored", "json", "report", "store"])]
    list: bool,
    /// Run nothing; report on stored results.
    #[arg(long)]
    only_stored: bool,
    /// Write the report as JSON; '-' is standard output, and the text then goes to standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one self-contained HTML file with plots.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the report on the whole paper to DIR/PAPER.json and DIR/figures/PAPER-*.svg. With
    /// --stack: its verdicts to DIR/stacks/STACK/PAPER.json.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["figures", "tables"])]
    store: Option<PathBuf>,
}

/// Results of the studies, and their errors.
type StudyOutcomes = (Vec<(StudyWork, Vec<StudyRunResult>)>, Vec<String>);

pub(crate) fn run(papers: &[Paper], args: &Args) -> Result<(), Failure> {
    let overrides = Overrides { scale: args.scale, seeds: args.seeds, stack: args.stack };
    let paper =
        args.paper.as_deref().map(|name| find(papers, name)).transpose().map_err(Failure::input)?;
    let Some(paper) = paper.filter(|_| !args.list) else {
        return print_list(papers, paper, args, &overrides);
    };
    let wanted = select(paper, &args.figures, &args.tables).map_err(Failure::input)?;
    let (work, left_out) = overrides.possible(&wanted).map_err(Failure::input)?;
    for reason in &left_out {
        output::say(format!("left out: {reason}"));
    }
    let text = check_files(paper, args)?;
    let (ran, failed) = if args.only_stored {
        (look_up(paper, work, args)?, Vec::new())
    } else {
        run_all(work, args)?
    };
    let left_out = left_out.iter().map(ToString::to_string).collect();
    publish(paper, &wanted, &overrides, (&ran, left_out), args, text)?;
    if failed.is_empty() { Ok(()) } else { Err(Failure::run(failed.join("; "))) }
}

fn print_list(
    papers: &[Paper],
    paper: Option<&Paper>,
    args: &Args,
    overrides: &Overrides,
) -> Result<(), Failure> {
    let of_one = [&args.json, &args.report, &args.store].iter().any(|file| file.is_some())
        || args.only_stored
        || !args.figures.is_empty()
        || !args.tables.is_empty();
    if of_one {
        let names: Vec<&str> = papers.iter().map(|paper| paper.name).collect();
        return Err(Failure::input(format!(
            "these options need a paper; name one before them: {}",
            names.join(", ")
        )));
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let shown = paper.map_or(papers, std::slice::from_ref);
    output::print(&list(shown, overrides, cores).map_err(Failure::input)?)
}

/// Checks that all files can be written, before runs that may take hours. Returns the destination
/// of the text.
fn check_files(paper: &Paper, args: &Args) -> Result<output::Text, Failure> {
    let text =
        output::check(&[("--report", args.report.as_deref()), ("--json", args.json.as_deref())])?;
    if let Some(folder) = &args.store {
        let folder = stored_in(folder, args.stack);
        let created = if args.stack.is_none() { folder.join("figures") } else { folder.clone() };
        std::fs::create_dir_all(&created).map_err(|e| {
            Failure::input(format!(
                "cannot create '{}': {e}; name a folder you can write to",
                created.display()
            ))
        })?;
        output::check(&[("--store", Some(&record_file(&folder, paper)))])?;
    }
    Ok(text)
}

/// Returns the folder of the record in the folder that `--store` names.
fn stored_in(folder: &Path, stack: Option<Stack>) -> PathBuf {
    stack.map_or_else(|| folder.to_owned(), |stack| folder.join("stacks").join(stack.name()))
}

fn record_file(folder: &Path, paper: &Paper) -> PathBuf {
    folder.join(format!("{}.json", paper.name))
}

fn look_up(
    paper: &Paper,
    work: Vec<StudyWork>,
    args: &Args,
) -> Result<Vec<(StudyWork, Vec<StudyRunResult>)>, Failure> {
    let load = |work: StudyWork| {
        let results = study::stored(&work.runs, &args.results.join(&work.study.name));
        (work, results)
    };
    let ran: Vec<_> = work.into_iter().map(load).collect();
    if !ran.is_empty() && ran.iter().all(|(_, results)| results.is_empty()) {
        return Err(Failure::input(format!(
            "'{}' has no results of {} at this scale on this stack; leave out --only-stored to \
             execute the runs",
            args.results.display(),
            paper.name
        )));
    }
    Ok(ran)
}

/// Executes one study after another. If runs fail, the other runs continue, and the report covers
/// the runs that have results. Also returns the errors of failed runs.
fn run_all(work: Vec<StudyWork>, args: &Args) -> Result<StudyOutcomes, Failure> {
    if !work.is_empty() {
        output::say(format!("{}, guessed", cost(&work)));
    }
    let (mut ran, mut failed) = (Vec::new(), Vec::new());
    let of = work.len();
    for (i, work) in work.into_iter().enumerate() {
        output::say(format!("study {} ({} of {of})", work.study.name, i + 1));
        let folder = args.results.join(&work.study.name);
        let results = match plan::execute(&work.runs, &folder.as_path().into(), args.jobs) {
            Ok(results) => results,
            Err(e @ StudyError::Runs { .. }) => {
                failed.push(format!("{}: {e}", work.study.name));
                study::stored(&work.runs, &folder)
            }
            Err(e) => return Err(plan::failure(e)),
        };
        ran.push((work, results));
    }
    Ok((ran, failed))
}

fn publish(
    paper: &Paper,
    wanted: &[&ArtefactSpec],
    overrides: &Overrides,
    (ran, left_out): (&[(StudyWork, Vec<StudyRunResult>)], Vec<String>),
    args: &Args,
    text: output::Text,
) -> Result<(), Failure> {
    let record = Record::of(paper, wanted, overrides, ran);
    output::first_failure([
        text.print(&report::text(&record)),
        output::write_json(args.json.as_deref(), &record),
        output::write_report(args.report.as_deref(), || report::html(&record)),
        args.store.as_ref().map_or(Ok(()), |folder| {
            let folder = stored_in(folder, args.stack);
            if args.stack.is_some() {
                return store_record(&folder, paper, &record.verdicts_only(left_out));
            }
            let record = record.compact();
            store_figures(&folder, paper, &record)?;
            store_record(&folder, paper, &record)
        }),
    ])
}

/// Writes a paper's figures, and removes the paper's old figures.
fn store_figures(folder: &Path, paper: &Paper, record: &Record) -> Result<(), Failure> {
    let figures = folder.join("figures");
    let mine = |name: &str| name.starts_with(&format!("{}-", paper.name)) && name.ends_with(".svg");
    for entry in std::fs::read_dir(&figures).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(mine) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    for (name, svg) in report::figures(record) {
        output::write(&figures.join(name), &svg)?;
    }
    Ok(())
}

fn store_record(folder: &Path, paper: &Paper, record: &Record) -> Result<(), Failure> {
    let file = record_file(folder, paper);
    // With one value per line, each curve would have thousands of lines.
    let mut text = serde_json::to_string(record).map_err(Failure::run)?;
    text.push('\n');
    output::write(&file, &text)?;
    output::say(format!("stored: {}", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {

    use clap::Parser;
    use fathom_experiments::scenario::Outcome;
    use fathom_papers::{Artefact, Finding, Results, Verdict, claim, spec};
    use fathom_report::{Axis, Series};

    use super::*;

    const STUDY: &str = "sdc-figure-4";
    const PAPERS: &[Paper] = &[Paper {
        name: "made-up",
        citation: "A. Author: Title",
        artefacts: &[
            spec("figure 1", "seconds over flows", &[STUDY], line),
            // The study of this table has no results in these tests.
            spec("table 2-3", "nothing", &["sdc-figure-9"], line),
        ],
        claims: &[&[claim("it-ends", "Made up §1", &[])
            .says("Runs end.")
            .test("they have a length")
            .asks(|results| {
                Finding::new(
                    Verdict::Held,
                    format!("{} numbers of flows", results.axis(STUDY, "flows").len()),
                )
            })]],
        departures: &[],
        changes: &[],
    }];

    /// Returns a figure with a line through the results.
    fn line(results: &Results) -> Artefact {
        let point = |flows: &String| {
            let estimate = results.estimate(STUDY, &[("flows", flows)], |o| Some(o.seconds))?;
            Some((flows.parse().ok()?, estimate))
        };
        let line =
            Series::of_estimates("seconds", results.axis(STUDY, "flows").iter().filter_map(point));
        Artefact::figure("Seconds", [Axis::linear("flows"), Axis::linear("time (s)")], [line], "")
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    const QUICK: [&str; 7] = ["fathom", "made-up", "--scale", "0.01", "--seeds", "1", "--results"];

    fn call(folder: &Path, more: &[&str]) -> Result<(), Failure> {
        let words =
            QUICK.iter().copied().chain([folder.to_str().unwrap()]).chain(more.iter().copied());
        run(PAPERS, &Line::try_parse_from(words).unwrap_or_else(|e| panic!("{e}")).args)
    }

    /// Writes made-up results of all runs except the last `without`, and returns the number of
    /// runs.
    fn fill(folder: &Path, without: usize, stack: Option<Stack>) -> usize {
        let overrides = Overrides { scale: 0.01, seeds: Some(1), stack };
        let work = overrides.work(&[&PAPERS[0].artefacts[0]]).unwrap();
        let runs = &work[0].runs;
        std::fs::create_dir_all(folder.join(STUDY)).unwrap();
        // The last runs have no result.
        for run in &runs[..runs.len() - without] {
            let outcome = Outcome { seconds: 7.0, trace_hash: "00".into(), ..Outcome::default() };
            let result = StudyRunResult {
                key: run.key.clone(),
                seed: 1,
                fingerprint: run.fingerprint.clone(),
                outcome,
            };
            let file = folder.join(STUDY).join(format!("{}.json", run.fingerprint));
            std::fs::write(file, serde_json::to_string(&result).unwrap()).unwrap();
        }
        runs.len()
    }

    fn read(file: &Path) -> Record {
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    #[test]
    fn stored_paper_results_are_reported_in_every_format() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let runs = fill(&at("results"), 3, None);
        let (json, html, kept) = (at("r.json"), at("r.html"), at("kept"));
        std::fs::create_dir_all(kept.join("figures")).unwrap();
        std::fs::write(kept.join("figures/made-up-figure-9.svg"), "").unwrap();
        std::fs::write(kept.join("figures/other-figure-9.svg"), "").unwrap();
        let [j, h, k] = [&json, &html, &kept].map(|path| path.to_str().unwrap());
        let outcome =
            call(&at("results"), &["--only-stored", "--json", j, "--report", h, "--store", k]);
        assert!(outcome.is_ok(), "{}", outcome.unwrap_err().line);

        let record = read(&json);
        assert_eq!((record.studies[0].runs, record.studies[0].done), (runs, runs - 3));
        assert_eq!(record.missing, ["table 2-3"]);
        assert_eq!(record.command, "fathom reproduce made-up --scale 0.01 --seeds 1");
        let page = std::fs::read_to_string(&html).unwrap();
        assert!(
            page.contains("<svg")
                && page.contains("✓ held")
                && page.contains("Some runs have no result")
        );
        assert_eq!(read(&kept.join("made-up.json")), record.compact());
        let drawn = |name: &str| kept.join("figures").join(name).is_file();
        assert!(drawn("made-up-figure-1.svg") && drawn("other-figure-9.svg"));
        assert!(!drawn("made-up-figure-9.svg"), "the paper has no such figure any more");
        // Nothing was run: the three runs still have no results.
        assert_eq!(std::fs::read_dir(at("results").join(STUDY)).unwrap().count(), runs - 3);
    }

    #[test]
    fn only_verdicts_are_stored_of_another_stack() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("results");
        fill(&results, 0, Some(Stack::Noq));
        let kept = folder.path().join("kept");
        let store = ["--only-stored", "--stack", "noq", "--store", kept.to_str().unwrap()];
        let outcome = call(&results, &store);
        assert!(outcome.is_ok(), "{}", outcome.unwrap_err().line);
        let record = read(&kept.join("stacks/noq/made-up.json"));
        assert!(record.report.artefacts.is_empty() && record.report.claims.len() == 1);
        assert_eq!(record.studies[0].stacks, ["noq"]);
        assert!(!kept.join("figures").exists() && !kept.join("made-up.json").exists());
    }

    #[test]
    fn missing_runs_of_a_paper_are_executed() {
        let folder = tempfile::tempdir().unwrap();
        let (results, json) = (folder.path().join("results"), folder.path().join("r.json"));
        let runs = fill(&results, 1, None);
        let outcome = call(&results, &["--figure", "1", "--json", json.to_str().unwrap()]);
        assert!(outcome.is_ok(), "{}", outcome.unwrap_err().line);
        let record = read(&json);
        assert_eq!(record.studies[0].done, runs);
        assert!(record.missing.is_empty(), "the table was not requested");
        assert_eq!(std::fs::read_dir(results.join(STUDY)).unwrap().count(), runs);
    }

    #[test]
    fn impossible_reproduce_requests_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |more: &[&str], says: &[&str]| {
            let failure = call(folder.path(), more).expect_err("it is refused");
            assert_eq!(failure.code, 2, "{}", failure.line);
            for said in says {
                assert!(failure.line.contains(said), "'{said}' is not in: {}", failure.line);
            }
        };
        refused(&["--only-stored"], &["no results of made-up", "--only-stored"]);
        refused(&["--figure", "2"], &["no figure '2'", "figure 1, table 2-3"]);
        refused(&["--table", "2-3,4"], &["no table '4'"]);
        refused(&["--json", "no/such/folder/r.json"], &["no/such/folder"]);
        refused(&["--report", "x.html", "--json", "x.html"], &["same file"]);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "no file is created before all arguments are checked"
        );
        for wrong in [&["--list", "--only-stored"][..], &["--store", "d", "--figure", "1"]] {
            assert!(
                Line::try_parse_from([&["fathom", "made-up"], wrong].concat()).is_err(),
                "{wrong:?}"
            );
        }
        let unnamed = Line::try_parse_from(["fathom", "--report", "x.html"]).unwrap();
        assert!(run(PAPERS, &unnamed.args).unwrap_err().line.contains("made-up"));
    }
}
