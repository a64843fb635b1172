//! `fathom compare`: reads the plan and the arguments, executes the runs and prints the results.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_cc::catalogue;
use fathom_experiments::compare::report;
use fathom_experiments::compare::{
    CompareOptions, Comparison, Missing, Plan, ResponseLog, Stage, compare_with,
};
use fathom_experiments::scenario::{Connections, RunError, ScenarioError, Shaping, Timestamps};
use fathom_experiments::study::{Location, MOST_SEEDS};
use fathom_netsim::backend::Backend;
use fathom_netsim::queue::{self, Discipline, DropTail};
use fathom_stacks::Stack;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use crate::kernel::{self, Kernel};
use crate::path_args::{self, PathArgs};
use crate::progress::Heartbeat;
use crate::signals::{self, INTERRUPTED};
use crate::{Failure, numbers, output, toml_file};

/// Returns the help of `--queue`, with the kinds of queues that `fathom_netsim` declares.
fn queue_help() -> String {
    let others = queue::names(|kind| kind.name != DropTail::KIND.name);
    format!(
        "Queue at the bottleneck: droptail with its limit in packets (p) or bytes (B, kB, MB), or \
         one of {others}, with options as in red:min=5p,max=50p. [default: droptail:136p]"
    )
}

/// Compare controllers on one bottleneck, and rank them with 95 % intervals over several seeds.
/// Without arguments: reno and sync, five seeds of 4,000 PackMime web responses at 90 % load over
/// 10 Mbps, in about half a minute on two cores.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom compare
  fathom compare --controllers reno,sync,sync:signal=rtt --load 95% --report compare.html
  fathom compare --path lte --workload page --controllers native:cubic,native:bbr,vegas
  fathom compare --rate 20Mbps --up-rate 5Mbps --rtt 20ms..80ms --loss 0.5% --beside cubic:2,tcp:1
  fathom compare --trace my.trace --rtt 40ms --workload media --report media.html
  fathom compare --workload bulk:4x20MB@100ms --max-window none --json -
  fathom compare --seeds 10 --parquet runs.parquet --distributions cdf.parquet
  fathom compare --stack quinn,noq --controllers reno,cubic,native:cubic,vegas
  fathom compare --queue red:min=5p,max=50p --controllers sdc,packet-size/sync
  fathom compare bench/plans/web-90.toml --seed 7 --seeds 3
  fathom compare --backend loopback --responses 2000 --seeds 1
  fathom compare --backend netem --responses 2000 --seeds 1 --queue codel
  fathom compare --path lte --workload page --study mine.toml

Ctrl-C ends the comparison and prints the table of the finished runs. --json and
--report are then marked as incomplete, and the exit code is 130. -v prints the
cost of each run.

On the virtual backend, the same plan and seed give the same bytes on any number
of cores. A note names native controllers that no seed controls. The other
backends execute runs in real time, one after the other.")]
pub(crate) struct Args {
    /// A study in TOML, as --study writes one; arguments below override its fields.
    plan: Option<PathBuf>,
    /// Controllers with their options, such as reno,sync:floor=1ms (see 'fathom controllers'), or
    /// native controllers of the stack, such as native:cubic. The first is the baseline.
    #[arg(long, value_name = "LIST")]
    controllers: Option<String>,
    /// Stacks that run the controllers: quinn, noq, quiche (if built in), several to compare
    /// stacks, or all (see 'fathom stacks'). The stack tcp (TCP at packet level) is not included in
    /// all.
    #[arg(long, value_name = "LIST")]
    stack: Option<String>,
    /// Rate of the bottleneck of the built-in network. [default: 10Mbps]
    #[arg(long, value_name = "RATE")]
    link: Option<String>,
    /// Rate of the uncongested network with which the results of packmime are compared, higher than
    /// --link. [default: ten times --link, at least 100Mbps]
    #[arg(long, value_name = "RATE")]
    reference: Option<String>,
    #[arg(long, value_name = "QUEUE", help = queue_help())]
    queue: Option<String>,
    /// Offered load of packmime and page, in percent of the link; for packmime on the built-in
    /// network, in each direction. [default: 90%; for page 50%]
    #[arg(long, value_name = "PERCENT")]
    load: Option<String>,
    /// Workload: packmime (web responses, a connection each), page (pages as browsers load them),
    /// media (live frames with a deadline), upload or bulk; or a workload with its numbers:
    /// bulk:4x10MB@100ms, pages:2/s, 'media:4 at 2Mbps 30fps deadline 100ms for 60s',
    /// uploads:4x10MB@1s; or a workload with its load: packmime:80%, page:30%. page:resume=0rtt and
    /// packmime:resume=1rtt resume TLS sessions, media:transport=datagram sends QUIC datagrams,
    /// and with media:encoder=adaptive the bit rate follows the controller (docs/traffic.md). [default: packmime]
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Number of responses to complete in each run, or of page views for page. [default: 4000; for
    /// page 40]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>(1..=10_000_000))]
    responses: Option<u64>,
    /// Number of seeds for every controller; intervals need several. Each seed has different
    /// requests, the same for all controllers. [default: 5]
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u64>(1..=MOST_SEEDS))]
    seeds: Option<u64>,
    /// The first seed. [default: 1]
    #[arg(long, value_name = "S", value_parser = numbers::seed)]
    seed: Option<u64>,
    /// Use of connections: fresh (one connection per request) or persistent. [default: fresh]
    #[arg(long, value_name = "HOW")]
    connections: Option<Connections>,
    /// Encoding of one-way delays: lean, paper, timestamp (lean, in the frame of
    /// draft-huitema-quic-ts), receive (in ACK frames, as in draft-ietf-quic-receive-ts) or off.
    /// [default: lean]
    #[arg(long, value_name = "MODE")]
    timestamps: Option<Timestamps>,
    /// Shaping socket, which sets packet sizes and delays: auto (if a controller needs it) or off.
    /// [default: auto]
    #[arg(long, alias = "outlet", value_name = "WHEN")]
    shaping: Option<Shaping>,
    /// Begin with packets of 1200 bytes and discover the largest packet that the path carries (RFC
    /// 8899). Without this option, packets have their full size from the start.
    #[arg(long)]
    mtu_discovery: bool,
    /// Send datagrams in bundles of at most N, as with GSO. A bundle contains the datagrams that a
    /// sender sends within a millisecond. Without this option, each datagram leaves when its stack
    /// sends it.
    #[arg(long, value_name = "N")]
    gso: Option<u32>,
    /// Largest window that flow control allows a sender: a number of packets such as 68p, none, or
    /// stack (the default of each stack). [default: 68p; on a path none]
    #[arg(long, value_name = "WINDOW")]
    max_window: Option<String>,
    /// Backend: virtual (virtual time), loopback (real time, datagrams over the kernel's loopback),
    /// netem (real time, the kernel's own links), several to compare backends, or all. [default:
    /// virtual]
    #[arg(long, alias = "world", value_name = "LIST")]
    backend: Option<String>,
    /// Kernel for --backend netem: host (needs root and sch_netem), uml (boots User-Mode Linux) or
    /// auto. [default: auto]
    #[arg(long, value_name = "KERNEL", value_enum)]
    kernel: Option<Kernel>,
    /// Cross traffic in every run: a controller and its number of bulk flows (cubic:2,
    /// native:bbr:1), packet-level TCP (tcp:2, tcp-reno:1), or a UDP source (udp:2Mbps); several
    /// with commas.
    #[arg(long, value_name = "LIST")]
    beside: Vec<String>,
    #[command(flatten)]
    path: PathArgs,
    /// Store finished runs in this folder (or s3://BUCKET/PREFIX, gs://, az://), and reuse stored
    /// runs. An interrupted comparison continues where it stopped, and more seeds or controllers
    /// cost only their own runs.
    #[arg(long, value_name = "DIR")]
    results: Option<Location>,
    /// Write the comparison as a study, and run nothing. 'fathom compare FILE' and 'fathom plan run
    /// FILE' run the study.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reference", "results", "report", "csv", "parquet", "distributions", "response_log", "json"])]
    study: Option<PathBuf>,
    /// Write one self-contained HTML file with plots.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write one row per run as CSV: every parameter and measure, with units in the column names
    /// (docs/results.md).
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the rows of --csv as Parquet, for pandas, polars or R.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write the distributions of response times, one row per point of each run: Parquet if FILE
    /// ends in .parquet, else CSV.
    #[arg(long, value_name = "FILE")]
    distributions: Option<PathBuf>,
    /// Write one row per response, page, object, upload or frame, with its duration: Parquet if
    /// FILE ends in .parquet, else CSV.
    #[arg(long, value_name = "FILE")]
    response_log: Option<PathBuf>,
    /// Write the results as JSON; '-' is standard output, and the table then goes to standard
    /// error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let plan = plan(args)?;
    let text = output::check(&[
        ("--report", args.report.as_deref()),
        ("--json", args.json.as_deref()),
        ("--csv", args.csv.as_deref()),
        ("--parquet", args.parquet.as_deref()),
        ("--distributions", args.distributions.as_deref()),
        ("--response-log", args.response_log.as_deref()),
        ("--study", args.study.as_deref()),
    ])?;
    // Report path errors as errors of the option that set the path, if there is no plan.
    let given = [("load", args.load.is_some()), ("responses", args.responses.is_some())];
    let given: Vec<&str> = given.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
    let runs = plan.validate_given(&given).map_err(|e| match e.out_of_table("path") {
        Ok(e) if args.plan.is_none() => path_args::wrong(e),
        Ok(e) => Failure::input(e.in_table("path")),
        Err(e) => Failure::input(e),
    })?;
    if let Some(file) = &args.study {
        return output::write(file, &plan.study_text().map_err(Failure::input)?);
    }
    let (here, there) = divided_backends(args, &plan)?;
    let responses =
        args.response_log.as_ref().map(|_| ResponseLog::new()).transpose().map_err(Failure::run)?;
    let interrupt = signals::stop()?;
    let watcher = Watcher::new(runs);
    let outcome = on_backends(args, &plan, (here, there), &interrupt, responses.as_ref(), &watcher);
    watcher.finish();
    let (comparison, failed) = outcome?;
    publish(args, text, &comparison, responses.as_ref())?;
    if let Some(e) = failed {
        return Err(how_to_go_on(&comparison, args.results.is_some(), e));
    }
    // This is known only after the runs. The results are printed above, but they lack the effect of
    // a requested event.
    let never = comparison.late_events().into_iter().find(|(in_no_run, _)| *in_no_run);
    never.map_or(Ok(()), |(_, line)| Err(Failure::input(line)))?;
    comparison.without_result().map_or(Ok(()), |line| Err(Failure::run(line)))
}

/// Divides the backends of the plan into those of this kernel and those of User-Mode Linux.
///
/// # Errors
/// Returns an error if an option has no effect on these backends.
fn divided_backends(args: &Args, plan: &Plan) -> Result<(Vec<Backend>, Vec<Backend>), Failure> {
    let on_netem = plan.backends.contains(&Backend::Netem);
    if args.kernel.is_some() && !on_netem {
        return Err(Failure::input(
            "--kernel: only --backend netem uses a kernel; leave --kernel out, or add --backend \
             netem",
        ));
    }
    let elsewhere = on_netem && args.kernel.unwrap_or_default().is_elsewhere()?;
    let (there, here): (Vec<Backend>, Vec<Backend>) =
        plan.backends.iter().partition(|backend| elsewhere && **backend == Backend::Netem);
    if args.response_log.is_some() && !there.is_empty() {
        return Err(Failure::input(
            "--response-log: runs in User-Mode Linux keep no responses; leave --response-log out, \
             or write --kernel host",
        ));
    }
    if args.response_log.is_some() && args.results.is_some() {
        return Err(Failure::input(
            "--response-log: --results does not store single responses; leave out --response-log \
             or --results",
        ));
    }
    Ok((here, there))
}

/// Executes the plan on the backends of this kernel and on those of User-Mode Linux. Also returns
/// the first failure if some runs have no result.
///
/// # Errors
/// Returns the first failure if no run has a result.
fn on_backends(
    args: &Args,
    plan: &Plan,
    (here, there): (Vec<Backend>, Vec<Backend>),
    interrupt: &Arc<AtomicBool>,
    responses: Option<&ResponseLog>,
    watcher: &Watcher,
) -> Result<(Comparison, Option<Failure>), Failure> {
    let mut all = Vec::new();
    // This is the first failure, if some runs have no result.
    let mut failed = None;
    for (backends, guest) in [(here, false), (there, true)] {
        let part = Plan { backends, ..plan.clone() };
        if part.backends.is_empty() {
            continue;
        }
        let outcome = if guest && interrupt.load(Ordering::Relaxed) {
            Err(failure(RunError::Interrupted.into()))
        } else if guest {
            in_guest(&part)
        } else {
            let options = CompareOptions {
                interrupt: Arc::clone(interrupt),
                response_log: responses,
                results: args.results.clone(),
            };
            let outcome = compare_with(&part, &|stage| watcher.on_stage(stage), &options);
            outcome.map(|(comparison, e)| (comparison, e.map(failure))).map_err(failure)
        };
        match outcome {
            Ok((comparison, e)) => {
                all.push(comparison);
                failed = failed.or(e);
            }
            // Results of other backends are kept.
            Err(e) if !all.is_empty() => {
                left_out(&mut all, &part, &e);
                failed = Some(failed.unwrap_or(e));
            }
            Err(e) => return Err(e),
        }
    }
    let mut all = all.into_iter();
    let mut comparison = all.next().ok_or_else(|| Failure::run("no backend was named"))?;
    all.for_each(|other| comparison.merge(other, &plan.backends));
    Ok((comparison, failed))
}

fn failure(e: ScenarioError) -> Failure {
    match e {
        ScenarioError::Plan(_) | ScenarioError::Rate { .. } => Failure::input(e),
        ScenarioError::Run(RunError::Interrupted) => {
            Failure { line: "interrupted before any run finished".into(), code: INTERRUPTED }
        }
        ScenarioError::Run(e) => Failure::run(e),
    }
}

/// Records in the first comparison that this plan's runs have no results.
fn left_out(all: &mut [Comparison], plan: &Plan, why: &Failure) {
    let Some(first) = all.first_mut() else { return };
    for (backend, stack) in plan
        .backends
        .iter()
        .flat_map(|backend| plan.stacks.iter().map(move |stack| (backend, stack)))
    {
        let seeds = plan.seed..plan.seed.saturating_add(plan.seeds);
        first.incomplete.extend(plan.controllers.iter().flat_map(|controller| {
            seeds.clone().map(move |seed| Missing {
                label: format!("{controller} on {stack}, {backend}"),
                controller: controller.clone(),
                seed,
                why: why.line.replace('\n', "; "),
            })
        }));
    }
}

/// Adds to a failure how to execute the remaining runs, or where their results are. A plan and a
/// seed give the same requests, whatever the list of controllers is.
fn how_to_go_on(comparison: &Comparison, kept: bool, why: Failure) -> Failure {
    let (done, left) = (comparison.runs.len(), comparison.incomplete.len());
    if why.code != INTERRUPTED {
        return Failure {
            line: format!("{}; the results of the {done} other runs are above", why.line),
            code: why.code,
        };
    }
    let next = if kept {
        "finished runs are stored, and the same command executes the remaining runs".to_owned()
    } else {
        comparison.how_to_go_on()
    };
    Failure {
        line: format!(
            "interrupted: {done} of {} runs finished, and their results are above; {next}",
            done + left
        ),
        code: why.code,
    }
}

/// Executes the plan in User-Mode Linux, for backends that this kernel lacks. Also returns the
/// failure if some runs failed.
fn in_guest(plan: &Plan) -> Result<(Comparison, Option<Failure>), Failure> {
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    let (written, result) = (folder.path().join("plan.toml"), folder.path().join("result.json"));
    std::fs::write(&written, plan.study_text().map_err(Failure::input)?).map_err(Failure::run)?;
    // A study has no run on the uncongested network, and needs none.
    let words = [
        OsStr::new("compare"),
        written.as_os_str(),
        OsStr::new("--reference"),
        OsStr::new(&plan.reference),
        OsStr::new("--json"),
        result.as_os_str(),
    ];
    let outcome = kernel::in_guest(&words);
    // If some runs failed, the file has the results of all other runs.
    let read = || {
        let text = std::fs::read_to_string(&result).ok()?;
        let mut comparison: Comparison = serde_json::from_str(&text).ok()?;
        comparison.plan.reference.clone_from(&plan.reference);
        Some(comparison)
    };
    match (read(), outcome) {
        (Some(comparison), outcome) => Ok((comparison, outcome.err())),
        (None, Err(e)) => Err(e),
        (None, Ok(())) => Err(Failure::run("the run in User-Mode Linux wrote no result")),
    }
}

/// Default number of page views for each seed.
const PAGE_VIEWS: u64 = 40;

fn plan(args: &Args) -> Result<Plan, Failure> {
    let mut plan = match &args.plan {
        Some(path) => {
            let text = toml_file::read(path)?;
            Plan::from_toml(&text).map_err(|e| toml_file::named(path, e))?
        }
        None => Plan::default(),
    };
    let set = |field: &mut String, arg: &Option<String>| {
        if let Some(value) = arg {
            field.clone_from(value);
        }
    };
    set(&mut plan.link, &args.link);
    set_path(args, &mut plan)?;
    plan.beside.extend(args.beside.iter().flat_map(|list| catalogue::split(list)));
    set(&mut plan.reference, &args.reference);
    set(&mut plan.queue, &args.queue);
    if let Some(workload) = &args.workload {
        plan.set_workload(workload);
        if args.load.is_some() && plan.workload != *workload {
            return Err(Failure::input(format!(
                "--load: --workload {workload} already includes a load; leave out one of the two"
            )));
        }
    }
    set(&mut plan.max_window, &args.max_window);
    if let Some(list) = &args.controllers {
        plan.controllers = catalogue::split(list);
    }
    if let Some(list) = &args.backend {
        plan.backends = listed("--backend", list, Backend::ALL)?;
    }
    if let Some(list) = &args.stack {
        plan.stacks = listed("--stack", list, Stack::ALL)?;
    }
    if args.plan.is_none() && plan.workload.starts_with("page") {
        // A page view has about 70 responses.
        plan.responses = PAGE_VIEWS;
        let with_load = args.workload.as_ref().is_some_and(|workload| *workload != plan.workload);
        if !with_load {
            fathom_experiments::compare::PAGE_LOAD.clone_into(&mut plan.load);
        }
    }
    set(&mut plan.load, &args.load);
    plan.responses = args.responses.unwrap_or(plan.responses);
    plan.seeds = args.seeds.unwrap_or(plan.seeds);
    plan.seed = args.seed.unwrap_or(plan.seed);
    plan.timestamps = args.timestamps.unwrap_or(plan.timestamps);
    plan.shaping = args.shaping.unwrap_or(plan.shaping);
    plan.mtu_discovery |= args.mtu_discovery;
    plan.gso = args.gso.or(plan.gso);
    plan.connections = args.connections.unwrap_or(plan.connections);
    Ok(plan)
}

/// Sets the plan's path from the options. If there is a path, the queue is an option of the path.
fn set_path(args: &Args, plan: &mut Plan) -> Result<(), Failure> {
    let mut said = args.path.spec(None);
    if plan.path.is_empty() && said.is_empty() {
        return Ok(());
    }
    said.queue.clone_from(&args.queue);
    if let Some(link) = &args.link {
        if said.rate.is_some() {
            return Err(Failure::input(
                "--link: this option is another name for --rate; leave out one of the two",
            ));
        }
        said.rate = Some(link.clone());
    }
    plan.path.overlay(&said);
    // The paper's window applies only to the paper's network.
    if args.plan.is_none() {
        "none".clone_into(&mut plan.max_window);
    }
    Ok(())
}

/// Parses names that are separated by commas, or "all".
fn listed<T: FromStr<Err: Display> + Clone>(
    option: &str,
    list: &str,
    all: &[T],
) -> Result<Vec<T>, Failure> {
    if list.trim() == "all" {
        return Ok(all.to_vec());
    }
    let read =
        |name: &str| name.trim().parse().map_err(|e| Failure::input(format!("{option}: {e}")));
    list.split(',').map(read).collect()
}

fn publish(
    args: &Args,
    text: output::Text,
    comparison: &Comparison,
    responses: Option<&ResponseLog>,
) -> Result<(), Failure> {
    output::first_failure([
        text.print(&report::table(comparison)),
        args.json.as_deref().map_or(Ok(()), |file| {
            output::write_json(Some(file), &report::Document::new(comparison))
        }),
        output::write_csv(args.csv.as_deref(), || report::runs(comparison)),
        output::write_parquet(args.parquet.as_deref(), || report::runs(comparison)),
        output::write_dataset(args.distributions.as_deref(), || report::distributions(comparison)),
        output::write_rows(args.response_log.as_deref(), |open| {
            responses.map_or(Ok(()), |log| report::write_responses(comparison, log, open))
        }),
        output::write_report(args.report.as_deref(), || report::html(comparison)),
    ])
}

/// Reports progress: with bars on a terminal, elsewhere with a line from time to time. `-v` logs
/// the cost of each run.
pub(crate) struct Watcher {
    heartbeat: Heartbeat,
    live: Mutex<HashMap<String, (ProgressBar, Arc<std::sync::atomic::AtomicU64>)>>,
    over: Arc<AtomicBool>,
}

impl Watcher {
    /// Starts to report on this number of runs.
    pub(crate) fn new(runs: usize) -> Self {
        Self { heartbeat: Heartbeat::new(runs), live: Mutex::default(), over: Arc::default() }
    }

    pub(crate) fn on_stage(&self, stage: Stage) {
        match stage {
            Stage::Begins { name, of, progress } => {
                let bar = output::bar(ProgressBar::new(of).with_prefix(name.clone()));
                let style = ProgressStyle::with_template(
                    "{prefix:24} {wide_bar} {pos}/{len} responses {elapsed}",
                );
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                let (ticker, count, over) =
                    (bar.clone(), Arc::clone(&progress), Arc::clone(&self.over));
                std::thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) && !ticker.is_finished() {
                        ticker.set_position(count.load(Ordering::Relaxed));
                        std::thread::sleep(Duration::from_millis(100));
                    }
                });
                self.heartbeat.begins(&name, of, &progress);
                self.live.lock().insert(name, (bar, progress));
            }
            Stage::Ends { name, cost } => {
                if let Some((bar, _)) = self.live.lock().remove(&name) {
                    bar.finish_and_clear();
                }
                self.heartbeat.ends(&name);
                tracing::info!("run finished: {name}: {cost}");
            }
        }
    }

    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Relaxed);
        for (_, (bar, _)) in self.live.lock().drain() {
            bar.finish_and_clear();
        }
    }
}
