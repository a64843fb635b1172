//! `fathom plan runs` and `fathom plan status`: the runs of a study, one by one and as a whole.

use std::path::Path;

use fathom_experiments::study::{self, Location, RunState, StudyRun, estimate, time_text};
use serde::Serialize;

use super::options::PartOptions;
use super::{failure, read_study};
use crate::toml_file::named;
use crate::{Failure, output};

/// A run, for programs.
#[derive(Serialize)]
struct ListedRun<'a> {
    fingerprint: &'a str,
    label: String,
    seed: u64,
    state: &'static str,
    stored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    cpu_seconds_guessed: f64,
    memory_bytes_guessed: f64,
}

impl<'a> ListedRun<'a> {
    fn new(run: &'a StudyRun, state: &'a RunState) -> Self {
        let cost = estimate(&run.scenario);
        Self {
            fingerprint: &run.fingerprint,
            label: run.label(),
            seed: run.seed,
            state: state.word(),
            stored: *state == RunState::Done,
            reason: state.reason(),
            cpu_seconds_guessed: cost.cpu_seconds,
            memory_bytes_guessed: cost.memory,
        }
    }
}

/// How a study stands, for programs.
#[derive(Serialize)]
struct Status<'a> {
    study: &'a str,
    results: String,
    complete: bool,
    runs: usize,
    done: usize,
    running: usize,
    failed: usize,
    broken: usize,
    missing: usize,
    unfinished: Vec<ListedRun<'a>>,
}

/// Prints a line per run.
pub(super) fn list(plan: &Path, options: &PartOptions, results: &Location, json: Option<&Path>) -> Result<(), Failure> {
    let (study, runs) = options.apply(read_study(plan)?).map_err(|e| named(plan, e))?;
    output::check(&[("--json", json)])?;
    let states = study::status(&runs, &results.join(&study.name)).map_err(failure)?;
    let listed: Vec<ListedRun<'_>> = runs.iter().zip(&states).map(|(run, state)| ListedRun::new(run, state)).collect();
    if json.is_some() {
        return output::write_json(json, &listed);
    }
    let guess = |seconds: f64| if seconds < 1.0 { format!("{seconds:.2} s") } else { time_text(seconds) };
    let line = |run: &ListedRun<'_>| {
        format!("{}  {:7}  {:>7}  {}\n", run.fingerprint, run.state, guess(run.cpu_seconds_guessed), run.label)
    };
    output::print(&listed.iter().map(line).collect::<String>())
}

/// Lines of failures that are printed; `--json` has all.
const SHOWN: usize = 20;

/// Prints how many runs are done, and what is with the others. Not complete: a failure.
pub(super) fn status(
    plan: &Path,
    options: &PartOptions,
    results: &Location,
    json: Option<&Path>,
) -> Result<(), Failure> {
    let (study, runs) = options.apply(read_study(plan)?).map_err(|e| named(plan, e))?;
    let text = output::check(&[("--json", json)])?;
    let place = results.join(&study.name);
    let states = study::status(&runs, &place).map_err(failure)?;
    let count = |word: &str| states.iter().filter(|state| state.word() == word).count();
    let unfinished = runs.iter().zip(&states).filter(|(_, state)| **state != RunState::Done);
    let status = Status {
        study: &study.name,
        results: place.to_string(),
        complete: count("done") == runs.len(),
        runs: runs.len(),
        done: count("done"),
        running: count("running"),
        failed: count("failed"),
        broken: count("broken"),
        missing: count("missing"),
        unfinished: unfinished.map(|(run, state)| ListedRun::new(run, state)).collect(),
    };
    output::first_failure([text.print(&lines(&status)), output::write_json(json, &status)])?;
    if status.complete {
        return Ok(());
    }
    Err(Failure::run(format!(
        "{} of {} runs of {} have no result; 'fathom plan run' makes what is missing",
        status.runs - status.done,
        status.runs,
        status.study
    )))
}

fn lines(status: &Status<'_>) -> String {
    let mut text = format!("{} in {}: {} runs, {} done", status.study, status.results, status.runs, status.done);
    let counts = [
        ("running", status.running),
        ("failed", status.failed),
        ("broken", status.broken),
        ("missing", status.missing),
    ];
    for (word, count) in counts.iter().filter(|(_, count)| *count > 0) {
        text += &format!(", {count} {word}");
    }
    text.push('\n');
    let told: Vec<&ListedRun<'_>> = status.unfinished.iter().filter(|run| run.reason.is_some()).collect();
    for run in told.iter().take(SHOWN) {
        let reason = run.reason.unwrap_or_default().replace('\n', "; ");
        text += &format!("{} {} ({}): {reason}\n", run.state, run.fingerprint, run.label);
    }
    if told.len() > SHOWN {
        text += &format!("and {} more; --json has all\n", told.len() - SHOWN);
    }
    text
}
