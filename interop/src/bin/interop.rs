//! `fathom-interop`: endpoints against each other on this host, over the laboratory's relay.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use fathom_interop::endpoint::Stack;
use fathom_interop::runner::delays::{self, Course, Delays};
use fathom_interop::runner::measure::{self, Measure, Measured};
use fathom_interop::runner::party::{PEERS, peers};
use fathom_interop::runner::{Cell, Ground, Known, Matrix, Party, Trial, Tried, Verdict, cell};
use fathom_interop::usage;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

/// Set QUIC endpoints against each other on this host: our stacks, and peers in interop/peers. Each test runs a client and a server as
/// processes, with a relay between them that shapes the link, and is judged by what passed the relay.
#[derive(Parser)]
#[command(name = "fathom-interop", version)]
#[command(after_help = "Examples:
  fathom-interop                                     # every pair with one of ours, every test
  fathom-interop --client quinn --server quic-go --test retry,zerortt --keep
  fathom-interop --install --json interop.json       # install peers first
  fathom-interop --measure goodput,crosstraffic --client quinn --server quinn --controller 'native:cubic;sync:signal=either'
  fathom-interop --measure delays --client aiopquic,quinn --server aiopquic,quinn

Exit code: 0 when nothing failed that the list of known failures does not name,
1 when something did, 2 for arguments that are wrong.")]
struct Cli {
    /// Clients, by name; all without it.
    #[arg(long, value_delimiter = ',')]
    client: Vec<String>,
    /// Servers, by name; all without it.
    #[arg(long, value_delimiter = ',')]
    server: Vec<String>,
    /// Tests, by name; all without it.
    #[arg(long, value_delimiter = ',', value_parser = Trial::named)]
    test: Vec<Trial>,
    /// Measure instead: goodput, crosstraffic, delays.
    #[arg(long, value_delimiter = ',')]
    measure: Vec<Measure>,
    /// Controllers of ours. The first is what tests run with; goodput and crosstraffic take each.
    #[arg(long, value_delimiter = ';', value_name = "NAME[;NAME...]")]
    controller: Vec<String>,
    /// Repetitions of goodput and crosstraffic.
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: u32,
    /// Cells at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Folder of the peers.
    #[arg(long, value_name = "DIR", default_value = PEERS)]
    peers: PathBuf,
    /// Where peers are installed.
    #[arg(long, value_name = "DIR", env = "FATHOM_PEERS", default_value = "target/peers")]
    installed: PathBuf,
    /// Install peers that are not, from their registries.
    #[arg(long)]
    install: bool,
    /// Failures that are known and explained.
    #[arg(long, value_name = "FILE", default_value = "interop/known.toml")]
    known: PathBuf,
    /// Folder for files and logs; without it, one among the temporary ones.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Keep logs of what passed, too.
    #[arg(long)]
    keep: bool,
    /// Seeds files and lots.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write everything as JSON; '-' is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How it goes wrong: one line, and the exit code.
struct Failure(String, u8);

impl Failure {
    fn input(line: impl std::fmt::Display) -> Self {
        Self(line.to_string(), 2)
    }

    fn run(line: impl std::fmt::Display) -> Self {
        Self(line.to_string(), 1)
    }
}

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => run(&cli),
        Err(e) => match usage(&e, "fathom-interop") {
            Some(line) => Err(Failure::input(line)),
            None => return ExitCode::SUCCESS,
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Failure(line, code)) => {
            say(format!("fathom-interop: {}", line.replace('\n', "; ")));
            ExitCode::from(code)
        }
    }
}

/// A line on standard error, where nobody may read it any more.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether nothing failed that is not known.
fn run(cli: &Cli) -> Result<bool, Failure> {
    if cli.jobs == 0 || cli.repeat == 0 {
        return Err(Failure::input("--jobs and --repeat are at least 1"));
    }
    if cli.measure.contains(&Measure::Delays) && !cli.controller.is_empty() {
        return Err(Failure::input("delays are measured with the usual controllers; leave --controller out"));
    }
    if let Some(file) = cli.json.as_deref().filter(|file| *file != Path::new("-")) {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(Failure::input(format!("no folder '{}' for --json; name one that is there", folder.display())));
        }
    }
    let stop = armed()?;
    let mut parties = parties(cli)?;
    let names: Vec<String> = parties.iter().map(|party| party.name().to_owned()).collect();
    for name in cli.client.iter().chain(&cli.server) {
        if !names.contains(name) {
            let name = name.escape_debug();
            return Err(Failure::input(format!("no endpoint '{name}'; there are {}", names.join(", "))));
        }
    }
    let known = if cli.known.exists() { Known::read(&cli.known).map_err(Failure::input)? } else { Known::default() };
    if cli.install {
        for party in parties.iter_mut().filter(|party| takes_part(cli, party)) {
            say(format!("installing {}", party.name()));
            party.install();
        }
    }
    let temporary = tempfile::Builder::new().prefix("fathom-interop-").tempdir().map_err(Failure::run)?;
    let folder = match &cli.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .map_err(|e| Failure::input(format!("'{}': {e}; name another folder", folder.display())))?;
            folder.canonicalize().map_err(Failure::input)?
        }
        None => temporary.path().to_owned(),
    };
    let ground = Ground { folder, keep: cli.keep, seed: cli.seed, stop };
    let (passed, json) =
        if cli.measure.is_empty() { test(cli, &parties, &known, &ground) } else { measured(cli, &parties, &ground)? };
    let left = std::fs::read_dir(temporary.path()).is_ok_and(|mut entries| entries.next().is_some());
    if left {
        // Logs of what failed stay.
        let _ = temporary.keep();
    }
    if let Some(file) = &cli.json {
        let about = |party: &Party| json!({"name": party.name(), "version": party.version(), "missing": party.missing(), "notes": party.notes()});
        let json = json!({"parties": parties.iter().map(about).collect::<Vec<_>>(), "seed": cli.seed, "results": json});
        write(file, &format!("{json:#}\n"))?;
    }
    if ground.stop.load(Ordering::Relaxed) {
        return Err(Failure::run("stopped"));
    }
    Ok(passed)
}

/// Ends everything in good order on the first signal, at once on the second: children end with their guards either way but for the last.
fn armed() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, Arc::clone(&stop))
            .map_err(|e| Failure::run(format!("cannot wait for signals: {e}")))?;
    }
    Ok(stop)
}

fn takes_part(cli: &Cli, party: &Party) -> bool {
    let named = |names: &[String]| names.is_empty() || names.iter().any(|name| name == party.name());
    named(&cli.client) || named(&cli.server)
}

/// Ours, then peers.
fn parties(cli: &Cli) -> Result<Vec<Party>, Failure> {
    let program = std::env::current_exe().map_err(Failure::run)?.with_file_name("fathom-endpoint");
    if !program.is_file() {
        let mend = "build it beside this one: cargo build -p fathom-interop";
        return Err(Failure::input(format!("no '{}'; {mend}", program.display())));
    }
    let mut all: Vec<Party> = Stack::ALL.iter().map(|stack| Party::ours(&program, stack.name())).collect();
    if let Some(controller) = cli.controller.first().filter(|_| cli.measure.is_empty()) {
        all = all
            .into_iter()
            .map(|party| if party.is_subject() { party.with_controller(controller) } else { party })
            .collect();
    }
    std::fs::create_dir_all(&cli.installed)
        .map_err(|e| Failure::input(format!("'{}': {e}", cli.installed.display())))?;
    let installed = cli.installed.canonicalize().map_err(Failure::input)?;
    all.extend(peers(&cli.peers, &installed).map_err(Failure::input)?);
    Ok(all)
}

/// Pairs that are wanted; at least one side is what is tested here.
fn pairs<'a>(cli: &Cli, parties: &'a [Party]) -> Vec<(&'a Party, &'a Party)> {
    let wanted = |names: &[String], party: &Party| names.is_empty() || names.iter().any(|name| name == party.name());
    let clients = parties.iter().filter(|party| wanted(&cli.client, party));
    let all = clients.flat_map(|client| parties.iter().map(move |server| (client, server)));
    all.filter(|(client, server)| wanted(&cli.server, server) && (client.is_subject() || server.is_subject())).collect()
}

fn progress(length: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length as u64);
    bar.set_style(
        ProgressStyle::with_template("[{elapsed_precise}] {bar:30} {pos}/{len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}

fn test(cli: &Cli, parties: &[Party], known: &Known, ground: &Ground) -> (bool, serde_json::Value) {
    let trials = if cli.test.is_empty() { Trial::ALL.to_vec() } else { cli.test.clone() };
    let cells: Vec<Cell> = pairs(cli, parties)
        .into_iter()
        .flat_map(|(client, server)| {
            trials.iter().map(|trial| Cell { client: client.clone(), server: server.clone(), trial: *trial })
        })
        .collect();
    let bar = progress(cells.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Tried>>> = Mutex::new(cells.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..cli.jobs.min(cells.len()) {
            scope.spawn(|| {
                while let Some((number, one)) = cells.get(next.load(Ordering::Relaxed)).and_then(|_| {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(number).map(|one| (number, one))
                }) {
                    if ground.stop.load(Ordering::Relaxed) {
                        return;
                    }
                    bar.set_message(one.name());
                    let tried = cell::play(one, ground);
                    if let Verdict::Failed(why) = &tried.verdict {
                        bar.suspend(|| say(format!("{}: {}", one.name(), why.join("; "))));
                    }
                    if let Some(place) = done.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
                        *place = Some(tried);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut matrix = Matrix::default();
    for (cell, tried) in cells.into_iter().zip(done.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        let tried = tried.unwrap_or_else(|| Tried::unplayed(Verdict::Skipped("stopped before".into())));
        matrix.add(cell, tried, known);
    }
    print(cli, &matrix.text());
    let names: Vec<&str> = parties.iter().map(Party::name).collect();
    for (side, name) in known.strangers(&names) {
        say(format!("'{}' names a {} '{name}' that is not here", cli.known.display(), side.name()));
    }
    (!matrix.has_failed(), matrix.json())
}

fn measured(cli: &Cli, parties: &[Party], ground: &Ground) -> Result<(bool, serde_json::Value), Failure> {
    let cubic = parties.iter().find(|party| party.name() == "stock-quinn");
    let cubic = cubic.ok_or_else(|| Failure::run("no stock-quinn"))?;
    let mut all = Vec::new();
    let pairs = pairs(cli, parties);
    let controllers: Vec<Option<&str>> = match &cli.controller[..] {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let (delays, rates): (Vec<Measure>, Vec<Measure>) = cli.measure.iter().partition(|m| **m == Measure::Delays);
    let bar = progress(pairs.len() * rates.len() * controllers.len() * cli.repeat as usize);
    for measure in &rates {
        for (client, server) in &pairs {
            // A controller is the server's, as it sends.
            let choices = if server.is_subject() { &controllers[..] } else { &[None] };
            for controller in choices {
                let server =
                    controller.map_or_else(|| (*server).clone(), |name| (*server).clone().with_controller(name));
                let usual =
                    Stack::ALL.iter().find(|stack| stack.name() == server.name()).map(|stack| stack.usual_controller());
                let mut one = Measured {
                    measure: *measure,
                    client: client.name().into(),
                    server: server.name().into(),
                    controller: controller.or(usual).unwrap_or("its own").into(),
                    kbps: Vec::new(),
                    failed: Vec::new(),
                };
                if is_missing(client, &server) {
                    continue;
                }
                for repetition in 0..cli.repeat {
                    if ground.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    bar.set_message(format!("{} {} {} {}", measure.name(), one.client, one.server, one.controller));
                    let ground = Ground { seed: ground.seed + u64::from(repetition), ..ground.clone() };
                    match measure::once(*measure, client, &server, cubic, &ground) {
                        Ok(kbps) => one.kbps.push(kbps),
                        Err(why) => one.failed.push(why),
                    }
                    bar.inc(1);
                }
                all.push(one);
            }
        }
    }
    bar.finish_and_clear();
    let delays = if delays.is_empty() { Vec::new() } else { delayed(&pairs, ground) };
    print(cli, &measure::text(&all));
    print(cli, &delays::text(&delays));
    let passed = all.iter().all(|one| one.failed.is_empty()) && delays.iter().all(|one| one.failed.is_none());
    let json = all.iter().map(|one| json!(one)).chain(delays.iter().map(|one| json!(one)));
    Ok((passed, json.collect()))
}

fn delayed(pairs: &[(&Party, &Party)], ground: &Ground) -> Vec<Delays> {
    let bar = progress(pairs.len() * Course::ALL.len());
    let mut all = Vec::new();
    for (client, server) in pairs {
        if is_missing(client, server) {
            continue;
        }
        for course in Course::ALL {
            if ground.stop.load(Ordering::Relaxed) {
                break;
            }
            bar.set_message(format!("delays {} {} {}", client.name(), server.name(), course.name()));
            all.push(delays::once(course, client, server, ground));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    all
}

/// Whether a side is not installed, which is said.
fn is_missing(client: &Party, server: &Party) -> bool {
    let missing = [client.missing(), server.missing()].into_iter().flatten().next();
    if let Some(why) = missing {
        say(format!("skipped: {} with {}: {why}", client.name(), server.name()));
    }
    missing.is_some()
}

/// The table, unless JSON is wanted in its place. A reader that went away is no failure.
fn print(cli: &Cli, text: &str) {
    if cli.json.as_deref() != Some(Path::new("-")) {
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    if file == Path::new("-") {
        let _ = std::io::stdout().write_all(text.as_bytes());
        return Ok(());
    }
    std::fs::write(file, text).map_err(|e| Failure::run(format!("cannot write '{}': {e}", file.display())))
}
