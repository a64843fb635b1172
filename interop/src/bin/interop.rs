//! `fathom-interop`: runs QUIC clients and servers against each other on this host, through a relay
//! that emulates the link.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::Parser;
use fathom_cc::Invalid;
use fathom_interop::endpoint::EndpointStack;
use fathom_interop::runner::delays::{self, DelayReport, DelayScenario};
use fathom_interop::runner::implementation::{PEERS, peers};
use fathom_interop::runner::measurement::{self, Measurement, MeasurementResult};
use fathom_interop::runner::{
    Implementation, KnownFailures, Matrix, RunConfig, TestCase, TestRecord, TestResult, TestRun,
    test_run,
};
use fathom_interop::usage;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde_json::json;
use strum::VariantArray as _;

/// Run QUIC interoperability tests on this host, without containers: our stacks against each other
/// and against the implementations in interop/peers. Each test runs a client and a server as
/// processes. A relay between them emulates the link and captures the packets; the result is
/// decided from the decrypted capture.
#[derive(Parser)]
#[command(name = "fathom-interop", version)]
#[command(after_help = "Examples:
  fathom-interop                                     # every test, every pair that includes one of our stacks
  fathom-interop --client quinn --server quic-go --test retry,zerortt --keep
  fathom-interop --install --json interop.json       # install missing peers first
  fathom-interop --measure goodput,crosstraffic --client quinn --server quinn --controller 'native:cubic;sync:signal=either'
  fathom-interop --measure delays --client aiopquic,quinn --server aiopquic,quinn

Exit code: 0 if every failure is listed as known, 1 if another test failed,
2 for invalid arguments.")]
struct Cli {
    /// Clients to test [default: all].
    #[arg(long, value_delimiter = ',')]
    client: Vec<String>,
    /// Servers to test [default: all].
    #[arg(long, value_delimiter = ',')]
    server: Vec<String>,
    /// Test cases to run [default: all].
    #[arg(long, value_delimiter = ',', value_parser = TestCase::from_str)]
    test: Vec<TestCase>,
    /// Run measurements instead of tests: goodput, crosstraffic, delays.
    #[arg(long, value_delimiter = ',')]
    measure: Vec<Measurement>,
    /// Controllers for our stacks. Tests use the first; goodput and crosstraffic run once with
    /// each.
    #[arg(long, value_delimiter = ';', value_name = "NAME[;NAME...]")]
    controller: Vec<String>,
    /// Repetitions of each goodput and crosstraffic measurement.
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: u32,
    /// Tests to run in parallel.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Directory with the peers' wrappers.
    #[arg(long, value_name = "DIR", default_value = PEERS)]
    peers: PathBuf,
    /// Directory in which peers are installed.
    #[arg(long, value_name = "DIR", env = "FATHOM_PEERS", default_value = "target/peers")]
    installed: PathBuf,
    /// Install missing peers from their package registries first.
    #[arg(long)]
    install: bool,
    /// List of known failures (TOML).
    #[arg(long, value_name = "FILE", default_value = "interop/known.toml")]
    known: PathBuf,
    /// Log directory [default: a temporary directory].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Keep the logs of tests that passed.
    #[arg(long)]
    keep: bool,
    /// Seed for test files, loss and corruption.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write all results as JSON; '-' is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A one-line error message and the exit code.
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
            eprint_line(format!("fathom-interop: {}", line.replace('\n', "; ")));
            ExitCode::from(code)
        }
    }
}

/// Prints a line to standard error. Write errors are ignored.
fn eprint_line(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Checks the arguments that clap does not check.
fn check_arguments(cli: &Cli) -> Result<(), Failure> {
    if cli.jobs == 0 || cli.repeat == 0 {
        return Err(Failure::input("--jobs and --repeat must be at least 1"));
    }
    if cli.measure.contains(&Measurement::Delays) && !cli.controller.is_empty() {
        return Err(Failure::input(
            "delays are measured with the default controllers; leave --controller out",
        ));
    }
    if let Some(file) = cli.json.as_deref().filter(|file| *file != Path::new("-")) {
        let folder =
            file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(Failure::input(format!(
                "--json: the directory '{}' does not exist; create it or choose another",
                folder.display()
            )));
        }
    }
    Ok(())
}

/// Checks that every named client and server exists.
fn check_names(cli: &Cli, implementations: &[Implementation]) -> Result<(), Failure> {
    let names: Vec<&str> = implementations.iter().map(Implementation::name).collect();
    match cli.client.iter().chain(&cli.server).find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Failure::input(
            Invalid::value(name, "is not an implementation")
                .hint(format!("choose one of {}", names.join(", "))),
        )),
    }
}

/// Runs tests or measurements. Returns whether every failure is a known one.
fn run(cli: &Cli) -> Result<bool, Failure> {
    check_arguments(cli)?;
    let stop = stop_on_signals()?;
    let mut implementations = implementations(cli)?;
    check_names(cli, &implementations)?;
    let known = if cli.known.exists() {
        KnownFailures::read(&cli.known).map_err(Failure::input)?
    } else {
        KnownFailures::default()
    };
    if cli.install {
        for implementation in
            implementations.iter_mut().filter(|implementation| is_selected(cli, implementation))
        {
            eprint_line(format!("installing {}", implementation.name()));
            implementation.install();
        }
    }
    let temporary =
        tempfile::Builder::new().prefix("fathom-interop-").tempdir().map_err(Failure::run)?;
    let folder = match &cli.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|e| {
                Failure::input(format!("'{}': {e}; choose another directory", folder.display()))
            })?;
            folder.canonicalize().map_err(Failure::input)?
        }
        None => temporary.path().to_owned(),
    };
    let config = RunConfig { log_dir: folder, keep: cli.keep, seed: cli.seed, stop };
    let (passed, json) = if cli.measure.is_empty() {
        run_tests(cli, &implementations, &known, &config)
    } else {
        run_measurements(cli, &implementations, &config)?
    };
    let left =
        std::fs::read_dir(temporary.path()).is_ok_and(|mut entries| entries.next().is_some());
    if left {
        // Keep the logs of failed tests.
        let _ = temporary.keep();
    }
    if let Some(file) = &cli.json {
        let about = |implementation: &Implementation| json!({"name": implementation.name(), "version": implementation.version(), "missing": implementation.unavailable(), "notes": implementation.notes()});
        let json = json!({"parties": implementations.iter().map(about).collect::<Vec<_>>(), "seed": cli.seed, "results": json});
        write(file, &format!("{json:#}\n"))?;
    }
    if config.stop.load(Ordering::Relaxed) {
        return Err(Failure::run("interrupted"));
    }
    Ok(passed)
}

/// Returns a flag that SIGINT and SIGTERM set. The run then ends in order, and dropping each
/// `Process` ends its child.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, Arc::clone(&stop))
            .map_err(|e| Failure::run(format!("cannot wait for signals: {e}")))?;
    }
    Ok(stop)
}

fn is_selected(cli: &Cli, implementation: &Implementation) -> bool {
    let named = |names: &[String]| {
        names.is_empty() || names.iter().any(|name| name == implementation.name())
    };
    named(&cli.client) || named(&cli.server)
}

/// Returns all implementations: our stacks, then the peers.
fn implementations(cli: &Cli) -> Result<Vec<Implementation>, Failure> {
    let program = std::env::current_exe().map_err(Failure::run)?.with_file_name("fathom-endpoint");
    if !program.is_file() {
        let hint =
            "build the program in the same folder as this one: cargo build -p fathom-interop";
        return Err(Failure::input(format!("no '{}'; {hint}", program.display())));
    }
    let mut all: Vec<Implementation> =
        EndpointStack::all().map(|stack| Implementation::ours(&program, &stack.name())).collect();
    if let Some(controller) = cli.controller.first().filter(|_| cli.measure.is_empty()) {
        all = all
            .into_iter()
            .map(|implementation| {
                let chosen = implementation.is_under_test().then_some(controller);
                chosen
                    .and_then(|name| implementation.with_controller(name))
                    .unwrap_or(implementation)
            })
            .collect();
    }
    std::fs::create_dir_all(&cli.installed)
        .map_err(|e| Failure::input(format!("'{}': {e}", cli.installed.display())))?;
    let installed = cli.installed.canonicalize().map_err(Failure::input)?;
    all.extend(peers(&cli.peers, &installed).map_err(Failure::input)?);
    Ok(all)
}

/// Returns the selected pairs of a client and a server. At least one of the two is under test.
fn pairs<'a>(
    cli: &Cli,
    implementations: &'a [Implementation],
) -> Vec<(&'a Implementation, &'a Implementation)> {
    let wanted = |names: &[String], implementation: &Implementation| {
        names.is_empty() || names.iter().any(|name| name == implementation.name())
    };
    let clients =
        implementations.iter().filter(|implementation| wanted(&cli.client, implementation));
    let all = clients.flat_map(|client| implementations.iter().map(move |server| (client, server)));
    all.filter(|(client, server)| {
        wanted(&cli.server, server) && (client.is_under_test() || server.is_under_test())
    })
    .collect()
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

fn run_tests(
    cli: &Cli,
    implementations: &[Implementation],
    known: &KnownFailures,
    config: &RunConfig,
) -> (bool, serde_json::Value) {
    let test_cases =
        if cli.test.is_empty() { TestCase::VARIANTS.to_vec() } else { cli.test.clone() };
    let runs: Vec<TestRun> = pairs(cli, implementations)
        .into_iter()
        .flat_map(|(client, server)| {
            test_cases.iter().map(|test_case| TestRun {
                client: client.clone(),
                server: server.clone(),
                test_case: *test_case,
            })
        })
        .collect();
    let bar = progress(runs.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<TestRecord>>> = Mutex::new(runs.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..cli.jobs.min(runs.len()) {
            scope.spawn(|| {
                while let Some((number, one)) =
                    runs.get(next.load(Ordering::Relaxed)).and_then(|_| {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        runs.get(number).map(|one| (number, one))
                    })
                {
                    if config.stop.load(Ordering::Relaxed) {
                        return;
                    }
                    bar.set_message(one.name());
                    let record = test_run::run_test(one, config);
                    if let TestResult::Failed(why) = &record.result {
                        bar.suspend(|| eprint_line(format!("{}: {}", one.name(), why.join("; "))));
                    }
                    if let Some(place) = done.lock().get_mut(number) {
                        *place = Some(record);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut matrix = Matrix::default();
    for (run, record) in runs.into_iter().zip(done.into_inner()) {
        let record = record.unwrap_or_else(|| {
            TestRecord::not_run(TestResult::Skipped("interrupted before it ran".into()))
        });
        matrix.add(run, record, known);
    }
    print(cli, &matrix.text());
    let names: Vec<&str> = implementations.iter().map(Implementation::name).collect();
    for (side, name) in known.unknown_names(&names) {
        eprint_line(format!("'{}' names an unknown {} '{name}'", cli.known.display(), side));
    }
    (!matrix.has_failed(), matrix.json())
}

fn run_measurements(
    cli: &Cli,
    implementations: &[Implementation],
    config: &RunConfig,
) -> Result<(bool, serde_json::Value), Failure> {
    let cubic =
        implementations.iter().find(|implementation| implementation.name() == "stock-quinn");
    let cubic = cubic.ok_or_else(|| Failure::run("stock-quinn is not available"))?;
    let mut all = Vec::new();
    let pairs = pairs(cli, implementations);
    let controllers: Vec<Option<&str>> = match &cli.controller[..] {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let (delays, rates): (Vec<Measurement>, Vec<Measurement>) =
        cli.measure.iter().partition(|m| **m == Measurement::Delays);
    let bar = progress(pairs.len() * rates.len() * controllers.len() * cli.repeat as usize);
    for measurement in &rates {
        for (client, server) in &pairs {
            // The controller is for the server, because the server sends the file.
            let choices = if server.is_under_test() { &controllers[..] } else { &[None] };
            for controller in choices {
                let parties = Parties { client, server, cubic, controller: *controller };
                if !is_unavailable(client, server) {
                    all.push(measure(*measurement, &parties, cli.repeat, config, &bar));
                }
            }
        }
    }
    bar.finish_and_clear();
    let delays = if delays.is_empty() { Vec::new() } else { run_delays(&pairs, config) };
    print(cli, &measurement::text(&all));
    print(cli, &delays::text(&delays));
    let passed = all.iter().all(|one| one.failed.is_empty())
        && delays.iter().all(|one| one.failed.is_none());
    let json = all.iter().map(|one| json!(one)).chain(delays.iter().map(|one| json!(one)));
    Ok((passed, json.collect()))
}

/// The implementations of a measurement.
struct Parties<'a> {
    client: &'a Implementation,
    server: &'a Implementation,
    /// Implementation of the cross traffic.
    cubic: &'a Implementation,
    /// Controller of the server; `None` for the server's default.
    controller: Option<&'a str>,
}

/// Repeats a measurement, each time with another seed.
fn measure(
    measurement: Measurement,
    parties: &Parties<'_>,
    repeat: u32,
    config: &RunConfig,
    bar: &ProgressBar,
) -> MeasurementResult {
    let Parties { client, server, cubic, controller } = *parties;
    let chosen = controller.and_then(|name| server.with_controller(name));
    let server = chosen.as_ref().unwrap_or(server);
    let usual = EndpointStack::all()
        .find(|stack| stack.name() == server.name())
        .map(|stack| stack.default_controller());
    let mut result = MeasurementResult {
        measurement,
        client: client.name().into(),
        server: server.name().into(),
        controller: controller.or(usual).unwrap_or("its own").into(),
        kbps: Vec::new(),
        failed: Vec::new(),
    };
    for repetition in 0..repeat {
        if config.stop.load(Ordering::Relaxed) {
            break;
        }
        bar.set_message(format!(
            "{measurement} {} {} {}",
            result.client, result.server, result.controller
        ));
        let config = RunConfig { seed: config.seed + u64::from(repetition), ..config.clone() };
        match measurement::run(measurement, client, server, cubic, &config) {
            Ok(kbps) => result.kbps.push(kbps),
            Err(error) => result.failed.push(error.to_string()),
        }
        bar.inc(1);
    }
    result
}

fn run_delays(
    pairs: &[(&Implementation, &Implementation)],
    config: &RunConfig,
) -> Vec<DelayReport> {
    let bar = progress(pairs.len() * DelayScenario::VARIANTS.len());
    let mut all = Vec::new();
    for (client, server) in pairs {
        if is_unavailable(client, server) {
            continue;
        }
        for scenario in DelayScenario::VARIANTS.iter().copied() {
            if config.stop.load(Ordering::Relaxed) {
                break;
            }
            bar.set_message(format!("delays {} {} {}", client.name(), server.name(), scenario));
            all.push(delays::run(scenario, client, server, config));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    all
}

/// Returns whether the client or the server is unavailable, and prints the reason.
fn is_unavailable(client: &Implementation, server: &Implementation) -> bool {
    let missing = [client.unavailable(), server.unavailable()].into_iter().flatten().next();
    if let Some(why) = missing {
        eprint_line(format!("skipped: {} with {}: {why}", client.name(), server.name()));
    }
    missing.is_some()
}

/// Prints the table unless JSON goes to standard output. Write errors are ignored.
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
    std::fs::write(file, text)
        .map_err(|e| Failure::run(format!("cannot write '{}': {e}", file.display())))
}
