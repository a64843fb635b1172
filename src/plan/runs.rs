//! `fathom plan runs` and `fathom plan status`: list the runs of a study, or count them by state.

use std::path::PathBuf;

use fathom_experiments::study::{self, Location, RunState, Study, StudyRun, estimate, time_text};
use serde::Serialize;

use super::options::PartOptions;
use super::{RESULTS, failure, read_study};
use crate::toml_file::named;
use crate::{Failure, output};

/// Selection of runs, and location of their results.
#[derive(clap::Args)]
pub(super) struct Listing {
    /// A study in TOML, or the name of one that comes with fathom.
    plan: PathBuf,
    #[command(flatten)]
    options: PartOptions,
    /// Folder or URL in which 'fathom plan run' keeps results.
    #[arg(long, value_name = "DIR|URL", default_value = RESULTS)]
    results: Location,
    /// Write the result as JSON. [without FILE: to standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// The runs of a study, the location of their results, and the state of each run.
struct Look {
    study: Study,
    runs: Vec<StudyRun>,
    place: Location,
    states: Vec<RunState>,
    text: output::Text,
}

impl Listing {
    fn look(&self) -> Result<Look, Failure> {
        let (study, runs) =
            self.options.apply(read_study(&self.plan)?).map_err(|e| named(&self.plan, e))?;
        let text = output::check(&[("--json", self.json.as_deref())])?;
        let place = self.results.join(&study.name);
        let states = study::status(&runs, &place).map_err(failure)?;
        Ok(Look { study, runs, place, states, text })
    }
}

/// A run, as listed in text and JSON.
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

/// State of a study, as reported in text and JSON.
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

/// Prints a line for each run.
pub(super) fn list(listing: &Listing) -> Result<(), Failure> {
    let Look { runs, states, .. } = listing.look()?;
    let json = listing.json.as_deref();
    let listed: Vec<ListedRun<'_>> =
        runs.iter().zip(&states).map(|(run, state)| ListedRun::new(run, state)).collect();
    if json.is_some() {
        return output::write_json(json, &listed);
    }
    let guess =
        |seconds: f64| if seconds < 1.0 { format!("{seconds:.2} s") } else { time_text(seconds) };
    let line = |run: &ListedRun<'_>| {
        format!(
            "{}  {:7}  {:>7}  {}\n",
            run.fingerprint,
            run.state,
            guess(run.cpu_seconds_guessed),
            run.label
        )
    };
    output::print(&listed.iter().map(line).collect::<String>())
}

/// Maximum number of runs without a result whose reason is printed. `--json` lists all of them.
const SHOWN: usize = 20;

/// Prints the number of runs in each state. Also prints the reasons of failed, broken and running
/// runs.
///
/// # Errors
/// Returns an error if not all runs are done.
pub(super) fn status(listing: &Listing) -> Result<(), Failure> {
    let Look { study, runs, place, states, text } = listing.look()?;
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
    output::first_failure([
        text.print(&lines(&status)),
        output::write_json(listing.json.as_deref(), &status),
    ])?;
    if status.complete {
        return Ok(());
    }
    Err(Failure::run(format!(
        "{} of {} runs of {} have no result; 'fathom plan run' executes them",
        status.runs - status.done,
        status.runs,
        status.study
    )))
}

fn lines(status: &Status<'_>) -> String {
    let mut text = format!(
        "{} in {}: {} runs, {} done",
        status.study, status.results, status.runs, status.done
    );
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
    let explained: Vec<&ListedRun<'_>> =
        status.unfinished.iter().filter(|run| run.reason.is_some()).collect();
    for run in explained.iter().take(SHOWN) {
        let reason = run.reason.unwrap_or_default().replace('\n', "; ");
        text += &format!("{} {} ({}): {reason}\n", run.state, run.fingerprint, run.label);
    }
    if explained.len() > SHOWN {
        text += &format!("and {} more; --json has all\n", explained.len() - SHOWN);
    }
    text
}
