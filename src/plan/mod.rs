//! `fathom plan`: lists, shows, checks and runs studies, and writes jobs for clusters.

mod cluster;
mod emit;
mod options;
mod runs;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use fathom_cc::catalogue::hint;
use fathom_experiments::study::{
    self, Location, Part, RunOptions, Study, StudyError, shipped, shipped_studies,
};
use fathom_netsim::backend::Backend;

use crate::kernel::{self, Kernel};
use crate::toml_file::{self, named};
use crate::{Failure, numbers, output, signals};
use cluster::Task;
use emit::{Engine, Job};
use options::{Options, PartOptions, in_part};
use runs::Listing;
use watch::Watcher;

/// Default folder of results, in the current directory.
pub(crate) const RESULTS: &str = ".fathom/results";

/// A study is a scenario template with a parameter sweep: many runs that answer one question.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom plan list
  fathom plan check sdc-figure-4
  fathom plan run sdc-figure-4 --scale 0.05 --seeds 1
  fathom plan show sdc-figure-4 > mine.toml
  fathom plan run collapse-stacks --only stack=quinn --seeds 1
  fathom plan run mine.toml --part 2/5 --json mine.json
  fathom plan status mine.toml
  fathom plan emit slurm mine.toml --tasks 8 > mine.sh
  fathom plan run mine.toml --report mine.html --parquet mine.parquet

Finished runs are stored at once, in DIR/NAME/FINGERPRINT.json, and
not repeated, so a stopped study continues where it stopped. Many processes may
share a folder. Without a shared folder, run each part on its own machine,
copy the files into one folder, and run the study there without --part.
In an array of Slurm or an indexed job of Kubernetes, each task selects its
part itself; docs/sweeps.md has scripts.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the studies that come with fathom.
    List,
    /// Print a study that comes with fathom, to read or to start from.
    Show {
        /// Name of the study.
        name: String,
    },
    /// Check a study; print its question, one of its runs and its estimated cost.
    Check {
        /// A study in TOML, or the name of one that comes with fathom.
        plan: PathBuf,
        #[command(flatten)]
        options: PartOptions,
    },
    /// List the runs of a study: fingerprint, state, estimated CPU time, values of the axes and
    /// seed.
    Runs(Listing),
    /// Count the runs of a study that are done, running, failed, broken and missing. The exit code
    /// is 0 if all are done, and 1 if not.
    Status(Listing),
    /// Write a job for a cluster that runs a study as an array of tasks.
    Emit {
        /// Cluster software: a script for sbatch (Slurm) or a manifest for kubectl (Kubernetes).
        #[arg(value_enum)]
        engine: Engine,
        /// A study in TOML, or the name of one that comes with fathom.
        plan: PathBuf,
        #[command(flatten)]
        options: Options,
        /// Folder of results that all tasks share, or s3://BUCKET/PREFIX, gs://, az://.
        #[arg(long, value_name = "DIR|URL", default_value = RESULTS)]
        results: Location,
        /// Number of tasks. [default: one per 10 min of estimated run time, at most 100]
        #[arg(long, value_name = "N", value_parser = numbers::tasks)]
        tasks: Option<NonZero<usize>>,
        /// Cores of each task, which executes one run per core.
        #[arg(long, value_name = "N", default_value = "4", value_parser = numbers::jobs)]
        cores: NonZero<usize>,
    },
    /// Execute the runs of a study that have no result yet, and print a table.
    Run {
        /// A study in TOML, or the name of one that comes with fathom.
        plan: PathBuf,
        #[command(flatten)]
        options: PartOptions,
        /// Folder of results, or s3://BUCKET/PREFIX, gs://, az://; each study has a folder of its
        /// own in it.
        #[arg(long, value_name = "DIR|URL", default_value = RESULTS)]
        results: Location,
        /// Number of concurrent runs. [default: one per core of the process, or of its Slurm task]
        #[arg(long, value_name = "N", value_parser = numbers::jobs)]
        jobs: Option<NonZero<usize>>,
        /// Kernel for --backend netem: host (needs root and sch_netem), uml (boots User-Mode Linux)
        /// or auto.
        #[arg(long, value_name = "KERNEL", default_value_t, value_enum)]
        kernel: Kernel,
        #[command(flatten)]
        files: Files,
    },
}

/// Output files in addition to the table.
#[derive(clap::Args)]
struct Files {
    /// Write one self-contained HTML file with plots over the sweep.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write one row per run as CSV: its values of the axes and every measure, with units in the
    /// column names (docs/results.md).
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the rows of --csv as Parquet, for pandas, polars or R.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write the results as JSON; '-' is standard output, and the table then goes to standard
    /// error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::List => output::print(&list()?),
        Command::Show { name } => output::print(shipped(name).ok_or_else(|| unknown(name))?),
        Command::Check { plan, options } => check(plan, options),
        Command::Runs(listing) => runs::list(listing),
        Command::Status(listing) => runs::status(listing),
        Command::Emit { engine, plan, options, results, tasks, cores } => {
            let (study, runs) = options.apply(read_study(plan)?).map_err(|e| named(plan, e))?;
            let text = if plan.exists() { Some(read(plan)?.1) } else { None };
            let job = Job {
                study: &study,
                runs: &runs,
                plan,
                file: text.as_deref(),
                words: options.words(),
                results,
                tasks: *tasks,
                cores: *cores,
            };
            output::print(&job.write(*engine)?)
        }
        Command::Run { plan, options, results, jobs, kernel, files } => {
            let (study, runs) = options.all.apply(read_study(plan)?).map_err(|e| named(plan, e))?;
            let part = part_of(options, runs.len())?;
            let runs = in_part(runs, part);
            let text = output::check(&[
                ("--report", files.report.as_deref()),
                ("--csv", files.csv.as_deref()),
                ("--parquet", files.parquet.as_deref()),
                ("--json", files.json.as_deref()),
            ])?;
            if runs.iter().any(|run| run.scenario.backend == Backend::Netem)
                && kernel.is_elsewhere()?
            {
                in_guest(plan, &options.all, part, results)?;
            }
            let outcome = execute(&runs, &results.join(&study.name), *jobs).map_err(failure)?;
            for line in study::late_events(&runs, &outcome) {
                output::say(format!("warning: {line}"));
            }
            let notes = study::notes(&runs, &outcome);
            let said = notes.lines().iter().map(|line| format!("{line}\n")).collect::<String>();
            let toml = read(plan)?.1;
            let scale = options.all.scale();
            let json = || study::Document::new(&study, &toml, scale, &runs, &outcome);
            output::first_failure([
                text.print(
                    &(said + &headline(&study, &outcome) + &study::table(&study.axes, &outcome)),
                ),
                files
                    .json
                    .as_deref()
                    .map_or(Ok(()), |file| output::write_json(Some(file), &json())),
                output::write_csv(files.csv.as_deref(), || study::dataset(&study.axes, &outcome)),
                output::write_parquet(files.parquet.as_deref(), || {
                    study::dataset(&study.axes, &outcome)
                }),
                output::write_report(files.report.as_deref(), || {
                    study::html(&study, scale, &runs, &outcome)
                }),
            ])?;
            notes.without_result.map_or(Ok(()), |line| Err(Failure::run(line)))
        }
    }
}

/// Maximum length of a line of the answer, in characters.
const WIDTH: usize = 100;

/// Returns the answer of a study, wrapped and followed by an empty line. Returns an empty string if
/// there is no answer.
fn headline(study: &Study, results: &[study::StudyRunResult]) -> String {
    let lines = study::headline(study, results);
    let lines: Vec<String> =
        lines.iter().flat_map(|line| fathom_report::wrapped(line, WIDTH)).collect();
    if lines.is_empty() { String::new() } else { lines.join("\n") + "\n\n" }
}

/// Returns the part of the runs for this process. It is the part of `--part` or, in an array of
/// tasks, the part of this task. `None` means all runs.
fn part_of(options: &PartOptions, runs: usize) -> Result<Option<Part>, Failure> {
    // Runs that are named by fingerprint are executed in any task.
    if options.part.is_some() || options.all.names_runs() {
        return Ok(options.part);
    }
    let Some(Task { part, of }) = cluster::task(&env)? else { return Ok(None) };
    output::say(format!(
        "executing part {part} of {runs} runs, as a task {of} (--part 1/1 executes all runs)"
    ));
    Ok(Some(part))
}

/// Reads an environment variable, for functions that get the environment as an argument.
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Executes the runs in User-Mode Linux, which stores the results in the same folder.
fn in_guest(
    plan: &Path,
    options: &Options,
    part: Option<Part>,
    results: &Location,
) -> Result<(), Failure> {
    let Location::Folder(folder) = results else {
        return Err(Failure::input(format!(
            "--results {results}: runs in User-Mode Linux can store results only in a folder; name \
             a folder, or run on a host with sch_netem (--kernel host)"
        )));
    };
    let mut words = ["plan", "run"].map(OsString::from).to_vec();
    words.push(plan.into());
    words.extend(options.words().into_iter().map(OsString::from));
    words.extend(part.map(|part| format!("--part={part}").into()));
    words.push("--results".into());
    words.push(folder.into());
    let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    kernel::in_guest(&words)
}

/// Executes the runs that have no result yet, with progress on standard error. `results` is the
/// location of this study's results.
pub(crate) fn execute(
    runs: &[study::StudyRun],
    results: &Location,
    jobs: Option<NonZero<usize>>,
) -> Result<Vec<study::StudyRunResult>, StudyError> {
    let store = RunOptions {
        jobs: jobs.or_else(|| cluster::cores(&env)),
        results: Some(results.clone()),
        ..RunOptions::default()
    };
    signals::end_saying("interrupted; finished runs are stored, and the same command continues");
    warn_of_other_processes(runs, results);
    let watcher = Watcher::new(std::io::stderr().is_terminal());
    let outcome = study::run_study(runs, &store, &|event| watcher.on_event(event));
    watcher.finish();
    outcome
}

/// Warns if another process is executing some of the runs, because both would execute them. Ignores
/// errors in reading the location, which the execution then reports.
fn warn_of_other_processes(runs: &[study::StudyRun], results: &Location) {
    let others = study::executing(runs, results).unwrap_or_default();
    if let Some(process) = others.first() {
        output::say(format!(
            "warning: process {} is executing {} of these runs, and this process executes all of \
             them, too; to divide runs among processes, use 'fathom plan run' with --part 1/2 and \
             --part 2/2",
            output::plain(process),
            others.len()
        ));
    }
}

/// Converts the error of a study to a failure of the command.
pub(crate) fn failure(e: StudyError) -> Failure {
    match e {
        StudyError::Store { .. } => Failure::input(e),
        StudyError::Runs { .. } | StudyError::Differ { .. } => Failure::run(e),
    }
}

fn unknown(name: &str) -> Failure {
    let known = shipped_studies().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let hint = hint(name, shipped_studies().map(|(name, _)| name));
    Failure::input(format!("fathom has no study '{name}'{hint}; write one of {known}"))
}

fn list() -> Result<String, Failure> {
    let width = shipped_studies().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, toml) in shipped_studies() {
        let study = Study::from_toml(name, toml).map_err(|e| named(Path::new(name), e))?;
        text += &format!("{name:width$}  {}\n", study.question);
        if let Some(source) = study.source {
            text += &format!("{:width$}  {source}\n", "");
        }
    }
    Ok(text)
}

/// Returns the name under which a plan's results are stored, and the text of the plan.
fn read(plan: &Path) -> Result<(String, String), Failure> {
    let name = plan.to_str().unwrap_or_default();
    if let (false, Some(text)) = (plan.exists(), shipped(name)) {
        return Ok((name.to_owned(), text.to_owned()));
    }
    let hint = if plan.exists() {
        String::new()
    } else {
        hint(name, shipped_studies().map(|(name, _)| name))
    };
    let text =
        toml_file::read_or(plan, &format!(", or a study that 'fathom plan list' lists{hint}"))?;
    Ok((plan.file_stem().unwrap_or_default().to_string_lossy().into_owned(), text))
}

fn read_study(plan: &Path) -> Result<Study, Failure> {
    let (name, text) = read(plan)?;
    Study::from_toml(&name, &text).map_err(|e| named(plan, e))
}

fn check(plan: &Path, options: &PartOptions) -> Result<(), Failure> {
    let (study, runs) = options.apply(read_study(plan)?).map_err(|e| named(plan, e))?;
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    output::print(&study::explain(&study, &runs, options.all.scale(), cores))
}
