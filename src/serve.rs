//! `fathom serve`: an HTTP/3 server with selectable congestion controllers.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::catalogue::{self, SpecError};
use fathom_cc::units::{parse_duration, parse_nonzero_duration};
use fathom_http::access_log::{AccessLog, AccessLogFormat, AccessLogTarget};
use fathom_http::controller_shares::ControllerShares;
use fathom_http::descriptors::Descriptors;
use fathom_http::event_loops;
use fathom_http::identity::Identity;
use fathom_http::limits::{ClientPrefix, Limits};
use fathom_http::metrics::Metrics;
use fathom_http::served_identity::{IdentityFiles, ServedIdentity};
use fathom_http::server::{Scrape, Server, Settings, TcpSettings};
use fathom_http::site::Site;
use fathom_http::timestamps::Timestamps;
use fathom_qlog::{LogFolder, LogLimits};
use fathom_stacks::{Controller, ControllerSpec, Stack};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::proxy_args::ProxyArgs;
use crate::{Failure, allocator, numbers, output, service_manager};

/// Serve files, synthetic bodies or an upstream server over HTTP/3 with selectable congestion
/// controllers.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom serve --root public
  fathom serve --listen [::]:4433 --stack noq --controller cubic=90,sync:signal=either=10 --metrics 127.0.0.1:9090
  fathom serve --root public --qlog logs; fathom analyze loss-delay logs/*.sqlog
  fathom serve --cert fullchain.pem --key privkey.pem --root /srv/www
  fathom serve --cert fullchain.pem --key privkey.pem --listen [::]:443 --proxy http://127.0.0.1:8080

Paths: files under --root; /bytes/N is a body of N zeros, /delay/MS/bytes/N the
same after MS milliseconds. Without --cert a self-signed certificate for
localhost is generated; the printed hash makes Chromium accept it.
SSLKEYLOGFILE names a file for TLS secrets, as in browsers. The first Ctrl-C
stops accepting requests and lets open responses finish, the second exits at
once.

A controller that requires one-way delays, such as sync, refuses clients
without the timestamp extension; sync:signal=either serves browsers too.
'fathom controllers' lists all controllers.")]
pub(crate) struct Args {
    /// Address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4433", value_parser = numbers::address)]
    listen: SocketAddr,
    /// Also listen for HTTP/1.1 and HTTP/2 over TCP on the same port, and announce HTTP/3 there
    /// (Alt-Svc). This is the default with --cert.
    #[arg(long, conflicts_with = "no_tcp")]
    tcp: bool,
    /// Listen for HTTP/3 only, even with --cert.
    #[arg(long)]
    no_tcp: bool,
    /// Port that Alt-Svc announces, if clients reach HTTP/3 on another port than the one in
    /// --listen.
    #[arg(long, value_name = "PORT", conflicts_with = "no_tcp", value_parser = numbers::whole::<u16>(1..=65_535))]
    alt_svc_port: Option<u16>,
    /// Directory of files to serve.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// QUIC stack: quinn or noq; quiche in a build with --features quiche.
    #[arg(long, default_value_t)]
    stack: Stack,
    /// Number of threads for HTTP/3. Each has an event loop and a UDP socket at the same address,
    /// and a connection stays on one thread. [default: one per core]
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    threads: Option<NonZeroU8>,
    /// Congestion controller, or several with weights that divide the connections, such as
    /// sync=50,native:cubic=50.
    #[arg(long, value_name = "SHARES", default_value = "cubic")]
    controller: ControllerShares,
    /// Timestamp extension for one-way delays: any (SYNC_TIMESTAMP with ACK frames, or TIMESTAMP if
    /// the client supports no other), lean (SYNC_TIMESTAMP with ACK frames), paper (SYNC_TIMESTAMP
    /// on every packet), timestamp (TIMESTAMP only), receive (ACK_RECEIVE_TIMESTAMPS only) or off.
    /// Not for native controllers.
    #[arg(long, value_name = "MODE", default_value_t)]
    timestamps: Timestamps,
    /// Certificate chain in PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Address of the Prometheus endpoint: GET /metrics over HTTP/1.1.
    #[arg(long, value_name = "ADDR", value_parser = numbers::address)]
    metrics: Option<SocketAddr>,
    /// Append a line for each request to this file, or print it to standard output (-). SIGUSR1
    /// opens the file again, for rotation.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Format of the access log: combined (Combined Log Format with four more fields) or json (one
    /// object per line).
    #[arg(long, value_name = "FORMAT", requires = "access_log", default_value_t, value_parser = access_log_format)]
    access_log_format: AccessLogFormat,
    /// Directory for qlog files: one per connection (.sqlog), with events of its controller and its
    /// responses.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Maximum number of qlog files; further connections are not logged.
    #[arg(long, value_name = "N", requires = "qlog", default_value_t = LogLimits::default().files, value_parser = numbers::whole::<u64>(1..=1_000_000_000))]
    qlog_files: u64,
    /// Maximum size of all qlog files in megabytes; at this size, open logs are truncated.
    #[arg(long, value_name = "MB", requires = "qlog", default_value_t = LogLimits::default().bytes / 1_000_000, value_parser = numbers::whole::<u64>(1..=1_000_000_000))]
    qlog_mb: u64,
    /// Time that open responses have to finish after the first Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    grace: Duration,
    /// Maximum number of concurrent connections; further connections are refused.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = numbers::whole::<usize>(1..=10_000_000))]
    max_connections: usize,
    /// Memory for unacknowledged response data of all connections, in MiB. Connections of slow
    /// clients are closed before this memory is exhausted.
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().unacknowledged >> 20, value_parser = numbers::whole::<u64>(1..=1 << 20))]
    response_memory: u64,
    /// Maximum number of concurrent connections per client prefix; further connections are refused.
    /// The default is a fiftieth of --max-connections, and no limit for loopback and private
    /// addresses. Raise this limit behind a proxy with a public address, because all clients then
    /// share that address.
    #[arg(long, value_name = "N", value_parser = numbers::whole::<usize>(1..=10_000_000))]
    max_per_client: Option<usize>,
    /// Prefix lengths of IPv4 and IPv6 addresses that identify a client.
    #[arg(long, value_name = "V4,V6", default_value_t)]
    client_prefix: ClientPrefix,
    /// Number of new connections per second above which clients must validate their address with a
    /// Retry packet, which costs one round trip. With 0, clients must always validate.
    #[arg(long, value_name = "N", default_value_t = Limits::default().unvalidated_per_second, value_parser = numbers::whole::<u32>(0..=1_000_000))]
    retry_above: u32,
    /// Idle timeout of a connection (max_idle_timeout).
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_nonzero_duration)]
    idle: Duration,
    /// Timeout for a complete request header, from the opening of its stream.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_nonzero_duration)]
    header_timeout: Duration,
    /// Close a connection that has sent no complete request for this long, whatever else it sends.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_nonzero_duration)]
    request_timeout: Duration,
    /// Accept 0-RTT requests from returning clients, which saves a round trip. Session tickets are
    /// single-use to prevent replay. Not available on quiche.
    #[arg(long)]
    zero_rtt: bool,
    #[command(flatten)]
    proxy: ProxyArgs,
}

fn access_log_format(s: &str) -> Result<AccessLogFormat, Invalid> {
    s.parse().map_err(|_| {
        Invalid::value(s, "is not a format of the access log").hint("write combined or json")
    })
}

/// Rejects unknown controllers.
///
/// # Errors
/// Returns an error for an unknown controller. If the name is that of a native controller, the
/// error says how to write the name.
fn check_names(args: &Args) -> Result<(), Failure> {
    let stack = args.stack;
    for spec in args.controller.controllers() {
        let ControllerSpec::Fathom(spec) = spec else { continue };
        if matches!(catalogue::parse(spec), Err(SpecError::UnknownController { .. })) {
            Controller::read(spec, stack)
                .map_err(|e| Failure::input(format!("--controller: {e}")))?;
        }
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Do this before anything is opened, because it may execute the program again.
    allocator::give_memory_back();
    check_names(args)?;
    let settings = settings(args)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::run)?;
    let served = runtime.block_on(serve(args, settings));
    // Do not wait for blocking tasks, because a read from a stalled disk would delay the end.
    runtime.shutdown_background();
    served
}

impl Args {
    fn limits(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            connections_per_client: self.max_per_client,
            client_prefix: self.client_prefix,
            unvalidated_per_second: self.retry_above,
            idle_timeout: self.idle,
            header_timeout: self.header_timeout,
            request_timeout: self.request_timeout,
            early_data: self.zero_rtt,
            unacknowledged: self.response_memory << 20,
            ..Limits::default()
        }
    }

    /// Returns the files of `--cert` and `--key`.
    fn identity_files(&self) -> Option<(&Path, &Path)> {
        self.cert.as_deref().zip(self.key.as_deref())
    }

    /// Returns the certificate and key from the files, or a generated certificate and key.
    fn identity(&self) -> Result<Identity, Failure> {
        let identity = match self.identity_files() {
            Some((cert, key)) => Identity::read(cert, key),
            None => Identity::self_signed(&[self.listen.ip()]),
        };
        identity.map_err(Failure::input)
    }

    /// Returns the settings for TCP, or `None` if the server uses only QUIC. `bound` tells whether
    /// a service manager has passed a TCP listener.
    fn tcp(&self, bound: bool, descriptors: Descriptors) -> Option<TcpSettings> {
        // With a certificate, also listen on TCP, because browsers discover HTTP/3 only through
        // Alt-Svc. A server without a certificate is for laboratories and uses only the given port.
        let wanted = self.tcp || self.alt_svc_port.is_some() || bound || self.cert.is_some();
        (wanted && !self.no_tcp).then(|| TcpSettings {
            alt_svc_port: self.alt_svc_port,
            connections: Some(self.max_connections.min(descriptors.tcp.max(1))),
        })
    }

    /// Opens the folder for qlog files, if `--qlog` is given.
    fn open_logs(&self, descriptors: Descriptors) -> Result<Option<Arc<LogFolder>>, Failure> {
        let Some(dir) = self.qlog.as_deref() else { return Ok(None) };
        let bytes = self.qlog_mb.saturating_mul(1_000_000);
        // There is one log file per connection, as far as there are descriptors.
        let open = descriptors.logs.min(self.max_connections);
        let limits = LogLimits { files: self.qlog_files, bytes, open };
        Ok(Some(Arc::new(LogFolder::open_bounded(dir, limits).map_err(Failure::input)?)))
    }

    /// Opens the access log, if `--access-log` is given.
    fn open_access_log(&self, metrics: &Metrics) -> Result<Option<Arc<AccessLog>>, Failure> {
        let Some(path) = self.access_log.as_deref() else { return Ok(None) };
        let stdout = path == Path::new("-");
        let target =
            if stdout { AccessLogTarget::Stdout } else { AccessLogTarget::File(path.to_owned()) };
        let log = AccessLog::open(target, self.access_log_format, metrics.access_log());
        log.map(Some).map_err(|e| {
            Failure::input(format!(
                "access log '{}': {e}; name a file in a folder you can write to",
                path.display()
            ))
        })
    }
}

/// Opens the sockets, files and logs that the arguments name.
fn settings(args: &Args) -> Result<Settings, Failure> {
    let limits = args.limits();
    let sockets = service_manager::sockets()?;
    Descriptors::raise_limit();
    let threads = args.threads.unwrap_or_else(event_loops::cores);
    let descriptors = Descriptors::of_process(threads);
    let metrics = Arc::new(Metrics::new());
    let site = Site::new(args.root.as_deref(), limits)
        .map_err(Failure::input)?
        .with_descriptors(descriptors);
    let site = args.proxy.add_to(site, args.root.is_some(), &limits, descriptors, &metrics)?;
    let bound = sockets.as_ref().is_some_and(|sockets| sockets.tcp.is_some());
    Ok(Settings {
        listen: args.listen,
        stack: args.stack,
        threads,
        shares: args.controller.clone(),
        identity: args.identity()?,
        site,
        limits,
        timestamps: args.timestamps,
        tcp: args.tcp(bound, descriptors),
        sockets,
        logs: args.open_logs(descriptors)?,
        access_log: args.open_access_log(&metrics)?,
        metrics,
    })
}

/// Serves until a signal stops the server.
async fn serve(args: &Args, settings: Settings) -> Result<(), Failure> {
    let (logs, access_log) = (settings.logs.clone(), settings.access_log.clone());
    let metrics = Arc::clone(&settings.metrics);
    let (tcp, key_hash) = (settings.tcp.is_some(), settings.identity.key_hash());
    let server = Server::bind(settings).map_err(Failure::input)?;
    if let Some(log) = access_log.clone() {
        on_signal(SignalKind::user_defined1(), move || log.reopen());
    }
    if let Some((cert, key)) = args.identity_files() {
        let files = IdentityFiles::new(cert, key);
        watch_identity(files, server.identity(), Arc::clone(&metrics));
    }
    let (stop_sender, stop) = watch::channel(false);
    stop_on_signal(
        stop_sender,
        "stopping: open responses may finish; press Ctrl-C again to end at once",
    );
    announce(args, server.address(), tcp, key_hash);
    if let Some(at) = args.metrics {
        let scrape = Scrape::bind(at, metrics).await.map_err(Failure::input)?;
        let address = scrape.address().map_err(Failure::run)?;
        output::say(format!("metrics at http://{address}/metrics"));
        tokio::spawn(scrape.serve());
    }
    service_manager::ready();
    serve_and_report(server, stop, args.grace).await;
    if let Some(log) = &access_log {
        log.finish();
    }
    if let Some(logs) = &logs {
        report_logs(&logs.finish());
    }
    Ok(())
}

/// Serves until `stop` becomes true. Reports this to the service manager.
async fn serve_and_report(server: Server, stop: watch::Receiver<bool>, grace: Duration) {
    let mut stopping = stop.clone();
    let mut serving = pin!(server.serve(stop, grace));
    let is_over = tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => false,
        () = &mut serving => true,
    };
    // Report this in the same task, because the server may end before another task runs.
    if *stopping.borrow() {
        service_manager::stopping();
    }
    if !is_over {
        serving.await;
    }
}

/// Prints the addresses on which the server listens, and how to make a browser accept a generated
/// certificate.
fn announce(args: &Args, address: SocketAddr, tcp: bool, key_hash: Option<String>) {
    let also = if tcp { ", and HTTP/1.1 and HTTP/2 over TCP" } else { "" };
    output::say(format!(
        "serving https://{address}/ on {} with {}{also}; stop with Ctrl-C",
        args.stack, args.controller
    ));
    if let Some(hash) = key_hash {
        output::say(format!(
            "generated a self-signed certificate; Chromium accepts it with --origin-to-force-quic-on={} \
             --ignore-certificate-errors-spki-list={hash}{}",
            origins(address),
            resolver_rule(address)
        ));
    }
}

/// Returns the option with which Chromium finds a server on 127.0.0.1 under the name localhost.
/// Without it, Chromium 156 tries only ::1 if QUIC is forced.
fn resolver_rule(address: SocketAddr) -> &'static str {
    if address.ip() == Ipv4Addr::LOCALHOST {
        " \"--host-resolver-rules=MAP localhost 127.0.0.1\""
    } else {
        ""
    }
}

/// Returns the origins by which a browser on this host reaches a server with a self-signed
/// certificate, separated by commas. Chromium forces QUIC for an origin only if the origin has
/// exactly the name in the URL.
fn origins(address: SocketAddr) -> String {
    let port = address.port();
    let loopback = match address {
        SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], port)),
        SocketAddr::V6(_) => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port)),
    };
    match address.ip() {
        ip if ip.is_unspecified() => format!("localhost:{port},{loopback}"),
        ip if ip.is_loopback() => format!("localhost:{port},{address}"),
        _ => address.to_string(),
    }
}

/// Calls `action` at each signal of this kind.
fn on_signal(kind: SignalKind, action: impl Fn() + Send + 'static) {
    let Ok(mut signals) = signal(kind) else { return };
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            action();
        }
    });
}

/// Loads the certificate and key again when their files change, and on SIGHUP.
fn watch_identity(files: IdentityFiles, identity: ServedIdentity, metrics: Arc<Metrics>) {
    let now = Arc::new(Notify::new());
    let hangup = Arc::clone(&now);
    on_signal(SignalKind::hangup(), move || hangup.notify_one());
    tokio::spawn(async move {
        let report = |loaded: Result<(), _>| {
            metrics.certificate_reloaded(loaded.is_ok());
            match loaded {
                Ok(()) => output::say(format!(
                    "certificate reloaded from '{}'",
                    files.certificates().display()
                )),
                Err(e) => output::say(format!("the previous certificate stays in use: {e}")),
            }
        };
        files.watch(&identity, &now, report).await
    });
}

/// Prints the totals of the qlog files.
fn report_logs(counts: &fathom_qlog::LogCounts) {
    let fathom_qlog::LogCounts { files, events, dropped, refused, failed, .. } = counts;
    output::say(format!(
        "qlog: {files} files with {events} events; {dropped} events dropped, {failed} files could \
         not be written"
    ));
    if *refused > 0 {
        output::say(format!(
            "qlog: {refused} connections were not logged because of --qlog-files, --qlog-mb or the limit of open files"
        ));
    }
}

/// Makes the first SIGINT or SIGTERM print `line` and request a graceful stop, and makes the second
/// one exit at once. The handlers are installed before this function returns, so a process that has
/// printed its address can be stopped.
pub(crate) fn stop_on_signal(stop_sender: watch::Sender<bool>, line: &'static str) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
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
            // Print the line first, because the program may end at any time after the request.
            output::say(line);
            let _ = stop_sender.send(true);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_origins_include_every_name_of_the_server() {
        for (address, names) in [
            ("127.0.0.1:4433", "localhost:4433,127.0.0.1:4433"),
            ("[::1]:4433", "localhost:4433,[::1]:4433"),
            ("0.0.0.0:443", "localhost:443,127.0.0.1:443"),
            ("[::]:443", "localhost:443,[::1]:443"),
            ("192.0.2.1:4433", "192.0.2.1:4433"),
        ] {
            assert_eq!(origins(address.parse().unwrap()), names);
        }
    }
}
