//! `fathom serve`: an HTTP/3 server whose controllers are chosen by name.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fathom_bench::stack::Control;
use fathom_cc::catalogue::{self, SpecError};
use fathom_cc::units::{parse_duration, parse_nonzero_duration};
use fathom_net::descriptors::Descriptors;
use fathom_net::identity::Identity;
use fathom_net::limits::{ClientPrefix, Limits};
use fathom_net::metrics::Metrics;
use fathom_net::server::{Scrape, Server, Settings, Stack};
use fathom_net::shares::Shares;
use fathom_net::site::Site;
use fathom_net::timestamps::Timestamps;
use fathom_qlog::{Bounds, Folder};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::{Failure, allocator, numbers, output};

/// Serve files and synthetic bodies over HTTP/3, each connection with a controller of your choice.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom serve --controller sync:signal=either --root public
  fathom serve --listen [::]:4433 --stack noq --controller sync:signal=either=50,native:cubic=50 --metrics 127.0.0.1:9090
  fathom serve --root public --qlog logs; fathom analyze loss-delay logs/*.sqlog
  fathom serve --cert fullchain.pem --key privkey.pem --root /srv/www

What is served: the files under --root, /bytes/N with N zeros, and
/delay/MS/bytes/N with the same after MS milliseconds. Without --cert a
certificate for localhost is made; the hash that is printed lets Chromium take
it. SSLKEYLOGFILE names a file for TLS secrets, as in browsers. The first
Ctrl-C lets open responses end, the second does not.

A controller that needs one-way delays, such as sync, refuses clients that do
not tell them; sync:signal=either serves browsers too. 'fathom controllers'
lists them all.")]
pub(crate) struct Args {
    /// Address to listen at.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433", value_parser = numbers::address)]
    listen: SocketAddr,
    /// Folder whose files are served.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// QUIC stack: quinn or noq; quiche in a build with --features quiche.
    #[arg(long, default_value_t)]
    stack: Stack,
    /// Controller, or several with weights by which connections divide.
    #[arg(long, value_name = "SHARES", default_value = "sync:signal=either")]
    controller: Shares,
    /// One-way delays: any (SYNC_TIMESTAMP beside acknowledgements, or TIMESTAMP with clients that have only that), lean or paper
    /// (SYNC_TIMESTAMP only; paper: on every packet), timestamp (only that) or off. Not for native controllers.
    #[arg(long, value_name = "MODE", default_value_t)]
    timestamps: Timestamps,
    /// Certificate chain in PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Address for Prometheus: GET /metrics over HTTP/1.1.
    #[arg(long, value_name = "ADDR", value_parser = numbers::address)]
    metrics: Option<SocketAddr>,
    /// Folder for qlog: one file per connection (.sqlog), of its controller and its responses.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Log files at most; connections beyond have none.
    #[arg(long, value_name = "N", requires = "qlog", default_value_t = Bounds::default().files, value_parser = numbers::whole::<u64>(1..=1_000_000_000))]
    qlog_files: u64,
    /// Megabytes of all log files at most; logs that are open then end early.
    #[arg(long, value_name = "MB", requires = "qlog", default_value_t = Bounds::default().bytes / 1_000_000, value_parser = numbers::whole::<u64>(1..=1_000_000_000))]
    qlog_mb: u64,
    /// How long open responses may go on after the first Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// Connections at once; more are refused.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = numbers::whole::<usize>(1..=10_000_000))]
    max_connections: usize,
    /// Memory for bytes of responses that clients have not acknowledged, over all connections, in MiB. Fast clients share it, slow ones give way.
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().unacknowledged >> 20, value_parser = numbers::whole::<u64>(1..=1 << 20))]
    response_memory: u64,
    /// Connections at once of one client prefix; more are refused. By default a fiftieth of --max-connections, and any number for
    /// loopback and private addresses. Behind a proxy with a public address, raise it: all clients have that address.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>(1..=10_000_000))]
    max_per_client: Option<usize>,
    /// Bits of IPv4 and of IPv6 addresses that tell one client from another.
    #[arg(long, value_name = "V4,V6", default_value_t)]
    client_prefix: ClientPrefix,
    /// Connections per second that clients may begin before they must prove their address with a Retry, which takes them a round trip.
    /// 0: always.
    #[arg(long, value_name = "N", default_value_t = Limits::default().attempts, value_parser = numbers::whole::<u32>(0..=1_000_000))]
    retry_above: u32,
    /// A connection on which nothing happens for so long ends.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_nonzero_duration)]
    idle: Duration,
    /// A request's header must be complete so long after its stream was opened.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_nonzero_duration)]
    header_timeout: Duration,
    /// A connection without a complete request for so long ends, whatever else its client sends.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_nonzero_duration)]
    request_timeout: Duration,
    /// Take requests in 0-RTT from clients that come again: a round trip less; each ticket serves once, so nothing is replayed. Not on quiche.
    #[arg(long)]
    zero_rtt: bool,
}

/// A controller of nobody's name; where it is that of a stack's own, how to write it.
fn check_names(args: &Args) -> Result<(), Failure> {
    let stack = args.stack.to_string().parse().unwrap_or_default();
    let unknown = |name: &&str| matches!(catalogue::parse(name), Err(SpecError::UnknownController { .. }));
    for name in args.controller.controllers().filter(|name| !name.starts_with("native:")).filter(unknown) {
        Control::read(name, stack).map_err(|e| Failure::input(format!("--controller: {e}")))?;
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before anything is opened.
    allocator::give_memory_back();
    check_names(args)?;
    let limits = Limits {
        connections: args.max_connections,
        per_client: args.max_per_client,
        client_prefix: args.client_prefix,
        attempts: args.retry_above,
        idle: args.idle,
        header: args.header_timeout,
        request: args.request_timeout,
        early_data: args.zero_rtt,
        unacknowledged: args.response_memory << 20,
        ..Limits::default()
    };
    Descriptors::raise_limit();
    let descriptors = Descriptors::of_process();
    let site = Site::new(args.root.as_deref(), limits).map_err(Failure::input)?.with_descriptors(descriptors);
    let identity = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Identity::read(cert, key),
        _ => Identity::self_signed(&[args.listen.ip()]),
    };
    let identity = identity.map_err(Failure::input)?;
    let hash = identity.key_hash();
    let logs = args.qlog.as_deref().map(|dir| {
        let bytes = args.qlog_mb.saturating_mul(1_000_000);
        // As many as there may be connections, where there are descriptors for them.
        let open = descriptors.logs.min(args.max_connections);
        Folder::open_bounded(dir, Bounds { files: args.qlog_files, bytes, open })
    });
    let logs = logs.transpose().map_err(Failure::input)?.map(Arc::new);
    let metrics = Arc::new(Metrics::new());
    let settings = Settings {
        listen: args.listen,
        stack: args.stack,
        shares: args.controller.clone(),
        identity,
        site,
        limits,
        metrics: Arc::clone(&metrics),
        timestamps: args.timestamps,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::run)?;
    runtime.block_on(async {
        let mut server = Server::bind(settings).map_err(Failure::input)?;
        if let Some(logs) = &logs {
            server = server.logging(Arc::clone(logs));
        }
        let (told, stop) = watch::channel(false);
        stop_on_signal(told, "ending; again to end at once");
        let address = server.address();
        output::say(format!("serving https://{address}/ on {} with {}; Ctrl-C ends it", args.stack, args.controller));
        if let Some(hash) = hash {
            output::say(format!("made a certificate; Chromium takes it with --origin-to-force-quic-on={address} --ignore-certificate-errors-spki-list={hash}"));
        }
        if let Some(at) = args.metrics {
            let scrape = Scrape::bind(at, metrics).await.map_err(Failure::input)?;
            output::say(format!("metrics at http://{}/metrics", scrape.address().map_err(Failure::run)?));
            tokio::spawn(scrape.serve());
        }
        server.serve(stop, args.grace).await;
        if let Some(logs) = &logs {
            told_of(&logs.finish());
        }
        Ok(())
    })
}

/// What became of the logs.
fn told_of(counts: &fathom_qlog::Counts) {
    let fathom_qlog::Counts { files, events, dropped, refused, failed, .. } = counts;
    output::say(format!("qlog: {files} files with {events} events; {dropped} events dropped, {failed} files failed"));
    if *refused > 0 {
        output::say(format!(
            "qlog: {refused} connections have no log: --qlog-files, --qlog-mb or open files bound them"
        ));
    }
}

/// The first signal ends the work in good order and says this, the second at once. Signals are heard from the call on, not only once the
/// task runs: who is told where a server is may end it at once.
pub(crate) fn stop_on_signal(told: watch::Sender<bool>, line: &'static str) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    tokio::spawn(async move {
        for ends in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if ends {
                std::process::exit(130);
            }
            let _ = told.send(true);
            output::say(line);
        }
    });
}
