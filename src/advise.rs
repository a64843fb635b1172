//! `fathom advise`: derives a scenario from logs, and recommends a controller for a scenario.

use std::path::PathBuf;

use fathom_advise::{
    Advice, ClassPath, MOST_CLASSES, Objects, Observed, Profile, Scenario, advise, available,
    cautions, default_controller, implausible,
};
use fathom_analyze::report;
use fathom_cc::{Invalid, catalogue};
use fathom_experiments::compare::PAGE_LOAD;
use fathom_experiments::scenario::{RunError, ScenarioError};
use fathom_experiments::study::MOST_SEEDS;
use fathom_stacks::Stack;
use serde::Serialize;

use crate::analyze::reading_bar;
use crate::compare::Watcher;
use crate::path_args::{self, PathArgs};
use crate::signals::{self, INTERRUPTED};
use crate::{Failure, numbers, output, toml_file};

/// Recommend a controller for your clients: derive paths and traffic from logs of your server, and
/// rank controllers by simulation, with intervals.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom advise logs/                                  logs of fathom serve --qlog, or of any stack
  fathom advise logs/ --stack noq --report advice.html
  fathom advise logs/ --scenario clients.toml --dry-run  write what the logs show, and edit it
  fathom advise --from-scenario clients.toml
  fathom advise --path lte --workload page             without logs

LOGS are qlog files of any stack (.qlog, .sqlog), files of 'fathom load --csv', or
tables with one row per connection and the columns rtt_ms, rate_bps, loss, bytes
and requests (docs/advise.md). A folder stands for all logs and tables in it.

The command simulates every class of clients with every controller and seed, in
virtual time. The first controller is the current one (--current).")]
pub(crate) struct Args {
    /// Logs (.qlog, .sqlog) or tables (.csv), plain or compressed (.gz, .zst); a folder stands for
    /// all logs and tables in it, and '-' is standard input.
    #[arg(value_name = "LOGS", conflicts_with = "from_scenario")]
    logs: Vec<PathBuf>,
    /// Scenario to use instead of logs: a file that --scenario wrote, edited or not.
    #[arg(long, value_name = "FILE")]
    from_scenario: Option<PathBuf>,
    /// Stack whose controllers are ranked (see 'fathom stacks'). [default: the stack in the logs of
    /// fathom serve, or quinn]
    #[arg(long, value_name = "STACK")]
    stack: Option<Stack>,
    /// Controllers to try, or all (every controller that runs on the stack). [default: the stack's
    /// native controllers, cubic, vegas and sync:signal=either]
    #[arg(long, value_name = "LIST")]
    controllers: Option<String>,
    /// Controller in use now. [default: the controller in the logs of fathom serve, or the stack's
    /// native CUBIC]
    #[arg(long, value_name = "CONTROLLER")]
    current: Option<String>,
    /// Maximum number of client classes.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = classes)]
    classes: usize,
    /// Workload of clients, as in 'fathom compare', instead of the workload in the logs. [default
    /// without logs: page]
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "from_scenario")]
    workload: Option<String>,
    /// Offered load of each client's path. [default: 10%; without logs, 50% with the workload page]
    #[arg(long, value_name = "PERCENT")]
    load: Option<String>,
    /// Number of connections, page views or responses in each run. [default: enough for 50 MB, from
    /// 2 to 100; without logs 40]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>(1..=1_000_000))]
    responses: Option<u64>,
    /// Number of seeds for each class and controller; intervals need several. [default: 5]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>(1..=MOST_SEEDS))]
    seeds: Option<u64>,
    /// The first seed. [default: 1]
    #[arg(long, value_name = "S", value_parser = numbers::seed)]
    seed: Option<u64>,
    /// Print a summary of the logs and write --scenario, but simulate nothing.
    #[arg(long, conflicts_with = "from_scenario")]
    dry_run: bool,
    /// Write the scenario as a TOML file that can be edited.
    #[arg(long, value_name = "FILE", conflicts_with = "from_scenario")]
    scenario: Option<PathBuf>,
    /// Write one self-contained HTML file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write all results as JSON; '-' is standard output, and the text then goes to standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    path: PathArgs,
    /// Queue in front of the link, as in 'fathom compare'.
    #[arg(long, value_name = "QUEUE", help_heading = "Path")]
    queue: Option<String>,
}

fn classes(text: &str) -> Result<usize, Invalid> {
    fathom_cc::units::parse_whole(text, 1..=MOST_CLASSES as u64).map(|n| n as usize)
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    fathom: &'static str,
    /// Warnings, which users should read before the rest of the document.
    warnings: &'a [String],
    profile: Option<&'a Profile>,
    cautions: &'a [String],
    scenario: &'a Scenario,
    advice: Option<&'a Advice>,
}

/// A scenario, and the data from which it was made.
#[derive(Default)]
struct Basis {
    scenario: Scenario,
    profile: Option<Profile>,
    warnings: Vec<String>,
    cautions: Vec<String>,
    about: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let text = output::check(&[
        ("--scenario", args.scenario.as_deref()),
        ("--report", args.report.as_deref()),
        ("--json", args.json.as_deref()),
    ])?;
    let mut basis = basis(args)?;
    change(&mut basis.scenario, args);
    basis.scenario.plans().map_err(|e| match &args.from_scenario {
        Some(file) => toml_file::named(file, e),
        None => wrong(e),
    })?;
    if let Some(file) = &args.scenario {
        output::write(file, &basis.scenario.to_toml(&basis.about))?;
    }
    let advice = if args.dry_run { None } else { Some(simulate(&basis.scenario)?) };
    let profile = basis.profile.as_ref();
    let page = match (&advice, profile) {
        (Some(advice), profile) => advice.page(profile, &basis.warnings, &basis.cautions),
        (None, Some(profile)) => fathom_analyze::Page {
            title: basis.about.first().cloned().unwrap_or_default(),
            warnings: basis.warnings.clone(),
            cautions: basis.cautions.clone(),
            sheets: profile.sheets(),
            ..fathom_analyze::Page::default()
        },
        (None, None) => {
            return Err(Failure::input(
                "--dry-run: the option prints a summary of logs, but no logs are named; name logs, \
                 or leave --dry-run out",
            ));
        }
    };
    let document = Document {
        fathom: env!("CARGO_PKG_VERSION"),
        warnings: &basis.warnings,
        profile,
        cautions: &basis.cautions,
        scenario: &basis.scenario,
        advice: advice.as_ref(),
    };
    output::first_failure([
        text.print(&report::text(&page)),
        output::write_json(args.json.as_deref(), &document),
        output::write_report(args.report.as_deref(), || report::html(&page)),
    ])
}

/// Reports the error of a scenario's field as an error of the option that set it. Options apply to
/// every class, so the class is not named.
fn wrong(mut e: Invalid) -> Failure {
    if e.fields.first().is_some_and(|field| field.starts_with("class '")) {
        e.fields.remove(0);
    }
    let mut e = match e.out_of_table("path") {
        Ok(e) => return path_args::wrong(e),
        Err(e) => e,
    };
    if let Some(field) = e.fields.first_mut()
        && ["controllers", "workload", "load", "current"].contains(&&**field)
    {
        *field = format!("--{field}").into();
    }
    Failure::input(e)
}

fn basis(args: &Args) -> Result<Basis, Failure> {
    let path = args.path.spec(args.queue.as_ref());
    if let Some(file) = &args.from_scenario {
        if !path.is_empty() {
            return Err(Failure::input(
                "--from-scenario: the scenario already contains the paths; edit them in the file, \
                 or leave --from-scenario out",
            ));
        }
        let text = toml_file::read(file)?;
        let scenario = Scenario::from_toml(&text).map_err(|e| toml_file::named(file, e))?;
        return Ok(Basis { scenario, ..Basis::default() });
    }
    if args.logs.is_empty() {
        if path.is_empty() {
            return Err(Failure::input(
                "there are no clients or paths to simulate; name logs, --from-scenario FILE or a \
                 path, such as --path lte",
            ));
        }
        let name = path.preset.clone().unwrap_or_else(|| "this path".into());
        let classes = vec![ClassPath { name, share: 1.0, path }];
        return Ok(Basis {
            scenario: Scenario { load: PAGE_LOAD.into(), classes, ..Scenario::default() },
            ..Basis::default()
        });
    }
    if !path.is_empty() {
        return Err(Failure::input(
            "LOGS: the logs determine the paths; leave out the path options, or edit the file that \
             --scenario writes",
        ));
    }
    let observed = read(&args.logs)?;
    let profile = Profile::of(&observed, args.classes);
    let objects = Objects::observed(&observed);
    let Some(objects) = objects.filter(|_| !profile.classes.is_empty()) else {
        return Err(Failure::input(format!("'{}' {}", args.logs[0].display(), observed.lacks())));
    };
    let served_by = observed
        .served_by()
        .and_then(|(stack, controller)| Some((stack.parse::<Stack>().ok()?, controller)));
    let stack = args.stack.or(served_by.map(|(stack, _)| stack)).unwrap_or_default();
    let mut scenario = Scenario::of(&profile, &objects, stack);
    if let Some((_, controller)) = served_by.filter(|(of_logs, _)| *of_logs == stack) {
        controller.clone_into(&mut scenario.current);
    }
    let about = format!(
        "Summary of {} connections in {} files ({} connections filled their path)",
        profile.connections, observed.files, profile.measured
    );
    let cautions = cautions(&profile, &observed, &scenario);
    let about = std::iter::once(about)
        .chain(observed.titles.iter().map(|title| format!("log: {title}")))
        .collect();
    let mut warnings = observed.warnings;
    warnings.extend(implausible(&profile));
    Ok(Basis { scenario, profile: Some(profile), warnings, cautions, about })
}

/// Replaces values of the scenario with those of the arguments.
fn change(scenario: &mut Scenario, args: &Args) {
    let by_default = scenario.current == default_controller(scenario.stack);
    if let Some(stack) = args.stack {
        scenario.stack = stack;
        if by_default {
            scenario.current = default_controller(stack);
        }
    }
    let list = args.controllers.as_deref();
    if list.is_some() || scenario.controllers.is_empty() || args.stack.is_some() {
        scenario.controllers = match list {
            Some("all") => available(scenario.stack, scenario.timestamps, true),
            Some(list) => catalogue::split(list),
            None => available(scenario.stack, scenario.timestamps, false),
        };
    }
    let set = |field: &mut String, arg: &Option<String>| {
        if let Some(value) = arg {
            field.clone_from(value);
        }
    };
    set(&mut scenario.current, &args.current);
    set(&mut scenario.workload, &args.workload);
    set(&mut scenario.load, &args.load);
    scenario.responses = args.responses.unwrap_or(scenario.responses);
    scenario.seeds = args.seeds.unwrap_or(scenario.seeds);
    scenario.seed = args.seed.unwrap_or(scenario.seed);
}

fn simulate(scenario: &Scenario) -> Result<Advice, Failure> {
    let interrupt = signals::stop()?;
    let runs = scenario
        .plans()
        .and_then(|plans| plans.iter().map(|(_, plan)| plan.validate()).sum::<Result<usize, _>>());
    let watcher = Watcher::new(runs.map_err(wrong)?);
    let advice = advise(scenario, &|stage| watcher.on_stage(stage), &interrupt);
    watcher.finish();
    advice.map_err(|e| match e {
        ScenarioError::Plan(e) => wrong(e),
        ScenarioError::Rate { .. } => Failure::input(e),
        ScenarioError::Run(RunError::Interrupted) => Failure {
            line: "interrupted: some classes have no advice; write --seeds 3 or --classes 2 for less work"
                .into(),
            code: INTERRUPTED,
        },
        ScenarioError::Run(e) => Failure::run(e),
    })
}

fn read(files: &[PathBuf]) -> Result<Observed, Failure> {
    let bar = reading_bar(files);
    let observed = Observed::read(files, &mut |n| bar.inc(n)).map_err(Failure::input);
    bar.finish_and_clear();
    observed
}
