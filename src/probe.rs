//! `fathom probe`: probes how servers react to the timestamp transport parameters.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Invalid;
use fathom_cc::units::parse_nonzero_duration;
use fathom_http::load::{self, Origin};
use fathom_http::probe::{
    ConnectionReport, ExtensionSupport, ProbeError, ProbeOptions, ProbeReport, probe,
};
use http::Uri;
use http::uri::Authority;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::client_args::ClientArgs;
use crate::{Failure, numbers, output};

/// Public test endpoints. Other people operate them, so probe them sparingly.
const PUBLIC: &str = "cloudflare-quic.com quic.nginx.org quic.aiortc.org www.litespeedtech.com http3-test.litespeedtech.com nghttp2.org:4433 \
test.privateoctopus.com:4433 h2o.examp1e.net www.haproxy.org interop.seemann.io www.google.com facebook.com fb.mvfst.net \
docs.trafficserver.apache.org quic.rocks f5quic.com";

/// Probe servers for timestamp extensions, ECN support and ACK behaviour.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom probe www.example.org
  fathom probe localhost:4433 -k --json -
  fathom probe example.com --resolve example.com:443:127.0.0.1 --cacert root.pem
  fathom probe --public --json endpoints.json

Each server gets one connection that offers the transport parameters of
SYNC_TIMESTAMP and TIMESTAMP. On this connection, the client sends a few GET
requests, one after the other, and reads only the beginning of large bodies. If the
connection fails, a second connection without the parameters shows whether the
parameters are the cause. Several servers are probed concurrently, each with
one connection at a time.

Exit code 0: every server was reached and none refuses the parameters; 1: a
server was not reached, or refuses the parameters.")]
pub(crate) struct Args {
    /// Servers: HOST, HOST:PORT or https://HOST:PORT/PATH.
    #[arg(value_name = "HOST", required_unless_present = "public")]
    hosts: Vec<String>,
    /// Also probe the public endpoints that interop testers use. These servers belong to others, so
    /// do not probe them in a loop.
    #[arg(long)]
    public: bool,
    /// GET requests per connection, 1 to 20.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = numbers::whole::<u32>(1..=20))]
    requests: u32,
    /// Timeout of a connection with all its requests.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_nonzero_duration)]
    timeout: Duration,
    /// Servers probed concurrently, 1 to 16.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = numbers::whole::<u8>(1..=16))]
    jobs: u8,
    #[command(flatten)]
    client: ClientArgs,
    /// Write the results as JSON; '-' is standard output, instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A server: the name as given, the URL, and the address or the reason why there is none.
struct Host {
    written: String,
    url: Uri,
    found: Result<Origin, Invalid>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    output::check(&[("--json", args.json.as_deref())])?;
    let listed = PUBLIC.split_whitespace().filter(|_| args.public).map(str::to_owned);
    let mut hosts: Vec<Host> = Vec::new();
    for written in args.hosts.iter().cloned().chain(listed) {
        if hosts.iter().all(|host| host.written != written) {
            hosts.push(host(written, &args.client)?);
        }
    }
    let servers: Vec<Authority> =
        hosts.iter().filter_map(|host| host.url.authority().cloned()).collect();
    args.client.check(&servers)?;
    let options = ProbeOptions {
        trust: args.client.trust(),
        requests: args.requests,
        timeout: args.timeout,
        ..ProbeOptions::default()
    };
    let answers = probe_all(&hosts, &options, args.jobs)?;
    let all: Vec<(&Host, &ProbeReport)> = hosts.iter().zip(&answers).collect();
    let to_stdout = args.json.as_deref() == Some(std::path::Path::new("-"));
    output::first_failure([
        if to_stdout { Ok(()) } else { output::print(&table(&all)) },
        output::write_json(
            args.json.as_deref(),
            &json!({ "hosts": all.iter().map(|(host, answer)| as_json(host, answer)).collect::<Vec<_>>() }),
        ),
    ])?;
    let errors: Vec<&ProbeError> =
        answers.iter().filter_map(|answer| answer.verdict.error()).collect();
    match errors.len() {
        0 => Ok(()),
        n => {
            let all = answers.len();
            let hint = if errors.iter().any(|error| error.is_untrusted_certificate()) {
                "; if a certificate is not trusted, name its root certificate with --ca, or accept \
                 any certificate with --insecure"
            } else {
                ""
            };
            Err(Failure::run(format!(
                "{n} of {all} servers were not reached or refuse the transport parameters{hint}"
            )))
        }
    }
}

fn host(written: String, client: &ClientArgs) -> Result<Host, Failure> {
    let text =
        if written.contains("://") { written.clone() } else { format!("https://{written}/") };
    let (authority, mut urls) = load::urls(&[text]).map_err(Failure::input)?;
    let url = urls.pop().ok_or_else(|| Failure::input("there is no URL; write one"))?;
    let found = client.address(&authority).map(|address| Origin::new(authority, address));
    Ok(Host { written, url, found })
}

fn probe_all(
    hosts: &[Host],
    options: &ProbeOptions,
    jobs: u8,
) -> Result<Vec<ProbeReport>, Failure> {
    let bar = output::bar(ProgressBar::new(hosts.len() as u64));
    let permits = Arc::new(Semaphore::new(jobs.into()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::run)?;
    let answers = runtime.block_on(async {
        let mut tasks = Vec::new();
        for host in hosts {
            let (permits, bar, options, url) =
                (Arc::clone(&permits), bar.clone(), options.clone(), host.url.clone());
            let found = host.found.clone();
            tasks.push(tokio::spawn(async move {
                let _permit = permits.acquire().await;
                let answer = match found {
                    Ok(origin) => probe(&origin, &url, &options).await,
                    Err(error) => Ok(ProbeReport {
                        verdict: ExtensionSupport::Unreachable(error.into()),
                        visit: None,
                    }),
                };
                bar.inc(1);
                answer
            }));
        }
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.map_err(Failure::run)?.map_err(Failure::input)?);
        }
        Ok(answers)
    });
    bar.finish_and_clear();
    answers
}

const HEADS: [&str; 8] =
    ["server", "parameters", "TIMESTAMP", "ECN", "ACK frames", "handshake", "HTTP", ""];

fn table(all: &[(&Host, &ProbeReport)]) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    for (host, answer) in all {
        let mut row = HEADS.map(|_| "-".to_owned());
        row[0].clone_from(&host.written);
        row[1] = answer.verdict.to_string();
        row[7] =
            answer.verdict.error().map_or(String::new(), |error| output::plain(&error.to_string()));
        if let Some(visit) = &answer.visit {
            row[2] = visit.enable_timestamp.map_or("-".into(), |t| t.value().to_string());
            row[3] = visit.ecn.map_or("none".into(), |ecn| {
                format!("{} marked, {} CE", ecn.ect0 + ecn.ect1, ecn.ce)
            });
            row[4] = format!("{}, up to {:.0} ms late", visit.acks, ms(visit.longest_ack_delay));
            row[5] = format!("{:.0} ms", ms(visit.handshake));
            row[6] = format!("{}, {} B{}", visit.status, visit.bytes, server(visit));
        }
        rows.push(row);
    }
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let line = |row: &[String; HEADS.len()]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn server(visit: &ConnectionReport) -> String {
    visit.server.as_ref().map_or(String::new(), |server| format!(" ({server})"))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn as_json(host: &Host, answer: &ProbeReport) -> Value {
    let mut all = json!({
        "host": host.written,
        "url": host.url.to_string(),
        "address": host.found.as_ref().ok().map(|origin| origin.address().to_string()),
        "verdict": match &answer.verdict {
            ExtensionSupport::Speaks(_) => "speaks",
            ExtensionSupport::Ignores => "ignores",
            ExtensionSupport::Refuses(_) => "refuses",
            ExtensionSupport::Unreachable(_) => "unreachable",
        },
        "why": answer.verdict.error().map(ToString::to_string),
        "in_use": match &answer.verdict {
            ExtensionSupport::Speaks(frame) => frame.name(),
            _ => "none",
        },
    });
    if let Some(visit) = &answer.visit {
        all["connection"] = json!({
            "handshake_ms": ms(visit.handshake),
            "rtt_ms": ms(visit.rtt),
            "status": visit.status,
            "bytes": visit.bytes,
            "server": visit.server,
            "cipher_suite": visit.suite.map(|suite| format!("{suite:#06x}")),
            "sync_timestamp": visit.sync_timestamp.is_some(),
            "enable_timestamp": visit.enable_timestamp.map(|enabled| enabled.value()),
            "stamps_received": visit.stamps,
            "ecn": visit.ecn.map(|ecn| json!({ "ect0": ecn.ect0, "ect1": ecn.ect1, "ce": ecn.ce })),
            "ack_frames": visit.acks,
            "longest_ack_delay_ms": ms(visit.longest_ack_delay),
            "packets_sent": visit.sent,
            "packets_lost": visit.lost,
        });
    }
    all
}
