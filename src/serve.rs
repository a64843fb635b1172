//! `fathom serve`: an HTTP/3 server whose controllers are chosen by name.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::units::parse_duration;
use fathom_net::identity::Identity;
use fathom_net::limits::Limits;
use fathom_net::metrics::Metrics;
use fathom_net::server::{Scrape, Server, Settings, Stack};
use fathom_net::shares::Shares;
use fathom_net::site::Site;
use fathom_net::timestamps::Timestamps;
use fathom_qlog::Folder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::{Failure, output};

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
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433")]
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
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Folder for qlog: one file per connection (.sqlog), of its controller and its responses.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// How long open responses may go on after the first Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// Connections at once; more are refused.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// A connection on which nothing happens for so long ends.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    idle: Duration,
    /// Take requests in 0-RTT from clients that come again: a round trip less; each ticket serves once, so nothing is replayed. Not on quiche.
    #[arg(long)]
    zero_rtt: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let limits =
        Limits { connections: args.max_connections, idle: args.idle, early_data: args.zero_rtt, ..Limits::default() };
    let site = Site::new(args.root.as_deref(), limits).map_err(Failure::input)?;
    let identity = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Identity::read(cert, key),
        _ => Identity::self_signed(&[args.listen.ip()]),
    };
    let identity = identity.map_err(Failure::input)?;
    let hash = identity.key_hash();
    let logs = args.qlog.as_deref().map(Folder::open).transpose().map_err(Failure::input)?.map(Arc::new);
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
        let (told, stop) = watch::channel(false);
        tokio::spawn(stop_on_signal(told, "ending; again to end at once"));
        server.serve(stop, args.grace).await;
        if let Some(logs) = &logs {
            told_of(&logs.finish());
        }
        Ok(())
    })
}

/// What became of the logs.
fn told_of(counts: &fathom_qlog::Counts) {
    let fathom_qlog::Counts { files, events, dropped, failed } = counts;
    output::say(format!("qlog: {files} files with {events} events; {dropped} events dropped, {failed} files failed"));
}

/// The first signal ends the work in good order and says this, the second at once.
pub(crate) async fn stop_on_signal(told: watch::Sender<bool>, line: &'static str) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
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
}
