//! `fathom load`: an HTTP/3 load generator for response times.

mod page;
mod report;

use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::units::{parse_duration, parse_nonzero_duration, parse_part};
use fathom_http::event_loops;
use fathom_http::load::{
    self, Arrival, LoadConfig, LoadError, LoadReport, Origin, Outputs, PoolSize, Progress,
    STREAM_WINDOW, Spacing, Timestamps, Traffic,
};
use fathom_http::request::HOP_BY_HOP;
use fathom_stacks::Stack;
use fathom_traffic::{Options, PackMime};
use http::Uri;
use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;

use crate::client_args::ClientArgs;
use crate::{Failure, numbers, output, serve};

/// Default number of connections in a closed loop, and default maximum in an open loop.
const CLOSED_LOOP_CONNECTIONS: usize = 1;
const OPEN_LOOP_CONNECTIONS: usize = 100;
/// Range of the number of connections, and of concurrent requests on each.
const CONCURRENCY: std::ops::RangeInclusive<u64> = 1..=1_000_000;
/// Default duration of a load for which no option sets an end.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Generate HTTP/3 load and report response times.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom load https://localhost:4433/bytes/10000 --insecure -c 10 -m 4 -d 30s
  fathom load https://localhost:4433/ --ca root.pem --rate 200 --warm-up 2s -d 60s --hgrm times.hgrm
  fathom load https://localhost:4433/ --insecure --model packmime=50 --connections fresh -d 60s --json -
  fathom load https://localhost:4433/ --insecure --trace day.csv --connect-to 127.0.0.1:4434
  fathom load https://example.com/api -k --resolve example.com:443:127.0.0.1 -H 'Accept: application/json'

Closed loop: each of -c connections keeps -m requests in flight. Open loop
(--rate, --model, --trace): each request has a start time, and its response
time counts from that time, even if the client is late or all connections are busy.
Percentiles of a closed loop suffer from coordinated omission: use an open loop
to measure response times.

Certificates are checked against the platform's roots, unless --ca or
--insecure is given. A host with IPv4 and IPv6 addresses is reached over IPv4.
SSLKEYLOGFILE names a file for TLS secrets, as in browsers. The first Ctrl-C
stops the run and prints the results so far, the second exits at once.

Exit code 0: responses were measured; 1: no request completed with a status
below 400, more requests failed than --max-failed allows, or a file could not be
written (the results are printed first); 2: invalid arguments.")]
pub(crate) struct Args {
    /// URLs to request; several URLs of one server are requested in turn.
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// QUIC stack: quinn or noq.
    #[arg(long, default_value_t)]
    stack: Stack,
    /// Timestamp extension for one-way delays: any (SYNC_TIMESTAMP with ACK frames, or TIMESTAMP if
    /// the server supports no other), lean (SYNC_TIMESTAMP with ACK frames), paper (SYNC_TIMESTAMP
    /// on every packet), timestamp (TIMESTAMP only), receive (ACK_RECEIVE_TIMESTAMPS only) or off
    /// (the unmodified stack).
    #[arg(long, value_name = "MODE", default_value_t)]
    timestamps: Timestamps,
    /// Number of connections; in an open loop, the maximum number. [default: 1; 100 in an open
    /// loop]
    #[arg(short = 'c', long, value_name = "N", value_parser = numbers::whole::<usize>(CONCURRENCY))]
    clients: Option<usize>,
    /// Concurrent requests on each connection.
    #[arg(short = 'm', long, value_name = "N", default_value_t = 1, value_parser = numbers::whole::<usize>(CONCURRENCY))]
    streams: usize,
    /// Number of threads. Each has an event loop and a UDP socket, and connections are divided
    /// among the threads. [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    threads: Option<NonZeroU8>,
    /// Stop after measuring this many requests.
    #[arg(short = 'n', long, value_name = "N", value_parser = numbers::whole::<u64>(1..=1_000_000_000_000))]
    requests: Option<u64>,
    /// Measure for this long. [default: 10s, unless -n or --trace ends the run]
    #[arg(short = 'd', long, value_name = "TIME", value_parser = parse_nonzero_duration)]
    duration: Option<Duration>,
    /// Warm-up: requests that start in this time are not counted.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Timeout of a request, including the handshake and waiting for a connection.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_nonzero_duration)]
    timeout: Duration,
    /// Seed of random arrival times and response sizes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,
    /// Exit with 1 if more than this fraction of the measured requests failed, such as 1%. Without
    /// this option, exit with 1 only if no request completed.
    #[arg(long, value_name = "PART", value_parser = parse_part)]
    max_failed: Option<f64>,
    /// Request a SHA-256 digest of each body (RFC 9530) and verify it; a missing or different
    /// digest is a failure.
    #[arg(long)]
    check_digest: bool,
    #[command(flatten)]
    open: Open,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    files: Files,
}

/// Open loop.
#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Open loop")]
struct Open {
    /// Requests per second.
    #[arg(short = 'r', long, value_name = "R", conflicts_with_all = ["model", "trace"], value_parser = parse_rate)]
    rate: Option<f64>,
    /// Distribution of the gaps between requests: poisson or even. [default: poisson]
    #[arg(long, value_name = "HOW", requires = "rate")]
    spacing: Option<Spacing>,
    /// Web traffic model: packmime=RATE, with RATE in requests per second. The client requests
    /// /bytes/N from the URL's server.
    #[arg(long, value_name = "MODEL", conflicts_with = "trace", value_parser = parse_model)]
    model: Option<f64>,
    /// Replay requests from a file with lines of the form seconds,path in order of time. The URL
    /// names the server.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// fresh: a new connection for each request; persistent: reuse idle connections. [default:
    /// persistent]
    #[arg(long, value_name = "HOW", value_parser = ["fresh", "persistent"])]
    connections: Option<String>,
}

/// Requests and their server.
#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Server")]
struct Server {
    #[command(flatten)]
    client: ClientArgs,
    /// Send a header field with each request: 'Name: value'. May be given several times.
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = parse_header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Send the requests of fresh connections in 0-RTT, with session tickets of earlier
    /// connections.
    #[arg(long)]
    zero_rtt: bool,
    /// Flow control window of each response in MiB, which limits the data of the response in
    /// flight.
    #[arg(long, value_name = "MIB", default_value_t = STREAM_WINDOW >> 20, value_parser = numbers::whole::<u64>(1..=4096))]
    stream_window: u64,
}

/// Output files.
#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Results")]
struct Files {
    /// Write one self-contained HTML file with plots.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the results as JSON; '-' is standard output, instead of the table. Only one of these
    /// files may be '-'.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one CSV line per request during the run; with '-' the table goes to standard error.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write response time percentiles in HdrHistogram's .hgrm format.
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write the response times of each second as an HdrHistogram interval log (.hlog).
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
}

fn parse_rate(s: &str) -> Result<f64, Invalid> {
    let rate = s.parse::<f64>().ok().filter(|rate| (0.001..=1e6).contains(rate));
    rate.ok_or_else(|| {
        Invalid::value(s, "is not a rate")
            .hint("write requests per second from 0.001 to 1000000, such as 200")
    })
}

fn parse_header(s: &str) -> Result<(HeaderName, HeaderValue), Invalid> {
    let wrong = |problem: &'static str| Invalid::value(s, problem).hint("write 'Name: value'");
    let (name, value) = s.split_once(':').ok_or_else(|| wrong("has no colon"))?;
    let name: HeaderName =
        name.trim().parse().map_err(|_| wrong("does not begin with a field name"))?;
    // HTTP/3 does not have some of these fields; others follow from the URL or the body (RFC 9114
    // §4.3.1).
    if HOP_BY_HOP.contains(&name) || [CONTENT_LENGTH, HOST].contains(&name) {
        let problem = "cannot be set: HTTP/3 does not allow the field, or the URL or body \
            determines it";
        return Err(Invalid::value(name.as_str(), problem).hint("leave it out"));
    }
    Ok((name, HeaderValue::from_str(value.trim()).map_err(|_| wrong("has an invalid value"))?))
}

fn parse_model(s: &str) -> Result<f64, Invalid> {
    let rate = s.strip_prefix("packmime=").and_then(|rate| rate.parse().ok());
    rate.ok_or_else(|| {
        Invalid::value(s, "is not a model")
            .hint("write packmime and requests per second, such as packmime=50")
    })
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let files = &args.files;
    let text = output::check(&[
        ("--json", files.json.as_deref()),
        ("--csv", files.csv.as_deref()),
        ("--hgrm", files.hgrm.as_deref()),
        ("--hlog", files.hlog.as_deref()),
        ("--report", files.report.as_deref()),
    ])?;
    let config = config(args)?;
    let load = described(args, &config);
    let outputs =
        Outputs { rows: open(files.csv.as_deref())?, intervals: open(files.hlog.as_deref())? };
    if args.server.client.is_insecure() {
        output::say("warning: --insecure: the server's certificate is not verified");
    }
    let bar = output::bar(bar(&config));
    let (by_time, warm_up) = (config.duration.is_some(), config.warm_up);
    let mut tail = Tail::new(config.duration, config.timeout);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::run)?;
    let outcome = runtime.block_on(async {
        let (stop_sender, stop) = watch::channel(false);
        serve::stop_on_signal(
            stop_sender,
            "stopping: the results so far follow; press Ctrl-C again to end at once",
        );
        let watch = |progress: &Progress| {
            draw(&bar, progress, by_time, warm_up);
            tail.on_progress(progress);
        };
        load::run(config, outputs, stop, watch).await
    });
    bar.finish_and_clear();
    let outcome = outcome.map_err(|e| match &e {
        LoadError::Config(_) | LoadError::Stack(_) | LoadError::Trust(_) => Failure::input(e),
        LoadError::Unreachable(_, why) if why.is_untrusted_certificate() => Failure::run(format!(
            "{e}; name the server's root certificate with --ca, or accept any \
                certificate with --insecure"
        )),
        e => Failure::run(e),
    })?;
    write_results(args, text, &load, &outcome, &tail)?;
    check_failures(args, &outcome)
}

/// Describes the load in one line.
fn described(args: &Args, config: &LoadConfig) -> String {
    let open = &args.open;
    let (spacing, seed) = (open.spacing.unwrap_or_default(), args.seed);
    let arrivals = match (open.rate, open.model, &open.trace) {
        (Some(rate), _, _) => format!("open loop, {rate} requests/s ({spacing}, seed {seed})"),
        (_, Some(rate), _) => format!("open loop, packmime={rate} (seed {seed})"),
        (_, _, Some(trace)) => format!("open loop, trace {}", trace.display()),
        _ => "closed loop".to_owned(),
    };
    let connections = match &config.traffic {
        Traffic::Open(_, None) => "fresh connections".to_owned(),
        Traffic::Open(_, Some(kept)) => {
            format!(
                "up to {} connections with {} concurrent requests each",
                kept.connections, kept.streams
            )
        }
        Traffic::Closed(kept, _) => {
            format!(
                "{} connections with {} concurrent requests each",
                kept.connections, kept.streams
            )
        }
    };
    format!("{arrivals}, {connections}; {}, timestamps {}", config.stack, config.timestamps)
}

/// The time after the measured time. No request starts in it, but open requests may end.
struct Tail {
    duration: Option<Duration>,
    timeout: Duration,
    /// Number of requests that were still open [`Self::SHORT`] after the end of the measured time.
    open: u64,
    /// Time since the end of the measured time; `None` unless requests were still open.
    waited: Option<Duration>,
}

impl Tail {
    /// Length up to which a tail is not reported.
    const SHORT: Duration = Duration::from_millis(500);

    fn new(duration: Option<Duration>, timeout: Duration) -> Self {
        Self { duration, timeout, open: 0, waited: None }
    }

    /// Prints once that the measured time is over but requests are still open.
    fn on_progress(&mut self, progress: &Progress) {
        let over = self.duration.zip(progress.measured).and_then(|(end, now)| now.checked_sub(end));
        let Some(over) = over.filter(|over| *over > Self::SHORT) else { return };
        if self.waited.is_none() && progress.open > 0 {
            self.open = progress.open;
            output::say(format!(
                "the measured time is over; waiting for {} open requests, for up to {} s \
                 (--timeout)",
                self.open,
                self.timeout.as_secs_f64()
            ));
        }
        if self.open > 0 {
            self.waited = Some(over);
        }
    }

    /// Describes the tail for the results; `None` if there is no tail to report.
    fn text(&self) -> Option<String> {
        let waited = self.waited?.as_secs_f64();
        Some(format!(
            "{waited:.1} s after the measured time for {} open requests, each at most {} s \
             (--timeout)",
            self.open,
            self.timeout.as_secs_f64()
        ))
    }
}

/// Writes all results, then reports output that was lost during the run.
fn write_results(
    args: &Args,
    text: output::Text,
    load: &str,
    outcome: &LoadReport,
    tail: &Tail,
) -> Result<(), Failure> {
    let Files { json, hgrm, report, .. } = &args.files;
    if outcome.rows_lost > 0 {
        output::say(format!(
            "warning: {} CSV lines were dropped because the disk was too slow",
            outcome.rows_lost
        ));
    }
    let to_stdout = json.as_deref() == Some(Path::new("-"));
    let table = || {
        if to_stdout {
            Ok(())
        } else {
            text.print(&report::table(load, outcome, tail.text().as_deref()))
        }
    };
    let as_json = || {
        let mut all = report::json(outcome);
        all["load"] = load.into();
        all["seconds_after_measuring"] =
            tail.waited.map_or(0.0, |waited| waited.as_secs_f64()).into();
        all["urls"] = args.urls.clone().into();
        output::write_json(json.as_deref(), &all)
    };
    let lost = || match &outcome.unwritten[..] {
        [] => Ok(()),
        [(what, why), ..] => {
            Err(Failure::run(format!("cannot write {what}: {why}; the results are above")))
        }
    };
    let percentiles = || {
        hgrm.as_ref().map_or(Ok(()), |file| output::write(file, &outcome.phases.response.hgrm()))
    };
    let page = || {
        output::write_report(report.as_deref(), || {
            page::html(load, &args.urls, outcome, tail.text().as_deref())
        })
    };
    output::first_failure([table(), as_json(), percentiles(), page(), lost()])
}

/// Checks the failed requests.
///
/// # Errors
/// Returns an error if no request completed, or if more failed than `--max-failed` allows.
fn check_failures(args: &Args, outcome: &LoadReport) -> Result<(), Failure> {
    let counts = &outcome.counts;
    let (failed, over) = (counts.failed(), counts.failed() + counts.completed);
    if counts.completed == 0 {
        return Err(Failure::run(format!(
            "no request completed with a status below 400: {failed} of {over} failed"
        )));
    }
    match args.max_failed {
        Some(most) if failed as f64 > most * over as f64 => Err(Failure::run(format!(
            "{failed} of {over} requests failed, more than --max-failed {}%",
            most * 100.0
        ))),
        _ => Ok(()),
    }
}

fn open(file: Option<&Path>) -> Result<Option<Box<dyn std::io::Write + Send>>, Failure> {
    file.map(output::stream).transpose()
}

fn config(args: &Args) -> Result<LoadConfig, Failure> {
    let (authority, urls) = load::urls(&args.urls).map_err(Failure::input)?;
    let open = args.open.rate.is_some() || args.open.model.is_some() || args.open.trace.is_some();
    if !open && args.open.connections.is_some() {
        return Err(Failure::input(
            "--connections applies only to open loops; add --rate, --model or --trace",
        ));
    }
    let clients =
        args.clients.unwrap_or(if open { OPEN_LOOP_CONNECTIONS } else { CLOSED_LOOP_CONNECTIONS });
    let kept = PoolSize { connections: clients, streams: args.streams };
    if clients.checked_mul(args.streams).is_none_or(|places| !(1..=1_000_000).contains(&places)) {
        return Err(Failure::input(
            "the number of concurrent requests (-c times -m) is out of range; write 1 to 1000000",
        ));
    }
    args.server.client.check(std::slice::from_ref(&authority))?;
    let address = args.server.client.address(&authority).map_err(Failure::input)?;
    let origin = Origin::new(authority, address);
    let traffic = if open {
        let fresh = args.open.connections.as_deref() == Some("fresh");
        Traffic::Open(arrivals(args, &origin, urls)?, (!fresh).then_some(kept))
    } else {
        Traffic::Closed(kept, urls)
    };
    let endless = args.requests.is_none() && args.open.trace.is_none();
    Ok(LoadConfig {
        stack: args.stack,
        origin,
        threads: args.threads.unwrap_or_else(event_loops::cores),
        traffic,
        warm_up: args.warm_up,
        duration: args.duration.or(endless.then_some(DEFAULT_DURATION)),
        requests: args.requests,
        timeout: args.timeout,
        timestamps: args.timestamps,
        trust: args.server.client.trust(),
        zero_rtt: args.server.zero_rtt,
        check_digests: args.check_digest,
        headers: args.server.headers.iter().cloned().collect(),
        stream_window: args.server.stream_window << 20,
    })
}

type Arrivals = Box<dyn Iterator<Item = Arrival> + Send>;

fn arrivals(args: &Args, origin: &Origin, urls: Vec<Uri>) -> Result<Arrivals, Failure> {
    if args.open.rate.is_none() && urls.len() > 1 {
        return Err(Failure::input(
            "a model or a trace chooses the paths, so only the server is needed; write one URL",
        ));
    }
    if let Some(rate) = args.open.model {
        let origin = origin.clone();
        let requests =
            PackMime::new(rate, args.seed, Options::default()).map_err(Failure::input)?;
        return Ok(Box::new(requests.map_while(move |request| {
            let at = Duration::from_nanos(request.start.as_nanos());
            Some(Arrival {
                at,
                url: origin.url(&format!("/bytes/{}", request.response_bytes)).ok()?,
            })
        })));
    }
    if let Some(path) = &args.open.trace {
        let wrong =
            |error: Invalid| Failure::input(error.in_field(format!("trace '{}'", path.display())));
        let file = File::open(path)
            .map_err(|e| wrong(Invalid::because(e.to_string()).hint("name a file you can read")))?;
        return Ok(Box::new(load::trace(BufReader::new(file), origin).map_err(wrong)?.into_iter()));
    }
    let (rate, spacing) = (args.open.rate.unwrap_or(1.0), args.open.spacing.unwrap_or_default());
    Ok(Box::new(load::at_rate(rate, spacing, args.seed, urls)))
}

/// Returns a progress bar over the duration or the number of requests of the run. If the run has
/// neither, returns a spinner. Both are drawn only on terminals.
fn bar(config: &LoadConfig) -> ProgressBar {
    let length = config.duration.map(|d| d.as_millis() as u64).or(config.requests);
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{wide_bar} {msg} {elapsed}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}"),
    };
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

fn draw(bar: &ProgressBar, progress: &Progress, by_time: bool, warm_up: Duration) {
    let Some(measured) = progress.measured else {
        bar.set_message(format!("warming up for {} s", warm_up.as_secs_f64()));
        return;
    };
    bar.set_position(if by_time { measured.as_millis() as u64 } else { progress.done });
    bar.set_message(format!(
        "{} done, {} open, {} failed",
        progress.done, progress.open, progress.failed
    ));
}
