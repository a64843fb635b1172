//! `fathom link`: the lab's link as a relay in real time.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use fathom_cc::Rate;
use fathom_cc::units::{parse_duration, parse_nonzero_duration, parse_part};
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::relay::{Fault, LineSpec, LineStats, Relay, RelaySpec, RelayStats};
use serde_json::json;

use crate::{Failure, numbers, output, signals};

/// How often the line on a terminal is drawn anew.
const REFRESH: Duration = Duration::from_millis(500);

/// Emulate a link between clients and a server. Needs no privileges and no kernel modules: clients send to --listen instead of to the server.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 10Mbps --delay 20ms --queue droptail:136p
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 50Mbps --up-rate 5Mbps --delay 15ms
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --loss 1% --reorder 2% --fault blackout:2s@10s

An option without 'up-' holds for both directions; one with 'up-' changes the
way from clients to the server. Counts are printed at the end: Ctrl-C, or --for.")]
pub(crate) struct Args {
    /// Address that clients send to.
    #[arg(long, value_name = "ADDR", value_parser = numbers::address)]
    listen: SocketAddr,
    /// The server: address or name, with port.
    #[arg(long, value_name = "ADDR")]
    to: String,
    #[command(flatten)]
    both: Both,
    #[command(flatten)]
    up: Up,
    /// An event at a set time: blackout:2s@10s, mtu:1250@20s (bytes of UDP payload), rebind@30s, rebind@handshake. May be given several times.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,
    /// Ends after this time; without it, on Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_nonzero_duration)]
    lasts: Option<Duration>,
    /// Write the counts as JSON; '-' is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Both directions.
#[derive(clap::Args)]
#[group(skip)]
struct Both {
    /// Rate of the link, such as 10Mbps. Without it, datagrams do not wait for each other.
    #[arg(long)]
    rate: Option<Rate>,
    /// Propagation delay.
    #[arg(long, value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Random extra delay of each datagram, at most this; the order stays.
    #[arg(long, value_parser = parse_duration)]
    jitter: Option<Duration>,
    /// Queue in front of the link, as in 'fathom compare'. [default: droptail:136p]
    #[arg(long)]
    queue: Option<QueueSpec>,
    /// Fraction of datagrams that is lost, such as 1%.
    #[arg(long, value_parser = parse_part)]
    loss: Option<f64>,
    /// Fraction that skips the delay and arrives before others.
    #[arg(long, value_parser = parse_part)]
    reorder: Option<f64>,
    /// Fraction that is duplicated.
    #[arg(long, value_parser = parse_part)]
    duplicate: Option<f64>,
    /// Fraction that is corrupted: one bit is flipped.
    #[arg(long, value_parser = parse_part)]
    corrupt: Option<f64>,
}

/// Clients to server, where it differs.
#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Clients to server")]
struct Up {
    /// As --rate.
    #[arg(long)]
    up_rate: Option<Rate>,
    /// As --delay.
    #[arg(long, value_parser = parse_duration)]
    up_delay: Option<Duration>,
    /// As --jitter.
    #[arg(long, value_parser = parse_duration)]
    up_jitter: Option<Duration>,
    /// As --queue.
    #[arg(long)]
    up_queue: Option<QueueSpec>,
    /// As --loss.
    #[arg(long, value_parser = parse_part)]
    up_loss: Option<f64>,
    /// As --reorder.
    #[arg(long, value_parser = parse_part)]
    up_reorder: Option<f64>,
    /// As --duplicate.
    #[arg(long, value_parser = parse_part)]
    up_duplicate: Option<f64>,
    /// As --corrupt.
    #[arg(long, value_parser = parse_part)]
    up_corrupt: Option<f64>,
}

/// Sync-TCP §4.1: 136 packets, twice the largest window.
const QUEUE: QueueSpec = QueueSpec::droptail_packets(136);

fn line(both: &Both, up: Option<&Up>) -> Result<LineSpec, Failure> {
    let rate = up.and_then(|up| up.up_rate).or(both.rate);
    let queue = up.and_then(|up| up.up_queue).or(both.queue);
    if let (None, Some(queue)) = (rate, queue) {
        return Err(Failure::input(format!(
            "a queue ({queue}) needs a link that fills it; add --rate, such as --rate 10Mbps"
        )));
    }
    if rate.is_some_and(|rate| rate.bits_per_sec() < 10_000) {
        return Err(Failure::input("the rate is below 10kbps, a packet a second; write a larger one"));
    }
    Ok(LineSpec {
        link: rate.map(|rate| (rate, queue.unwrap_or(QUEUE))),
        delay: up.and_then(|up| up.up_delay).or(both.delay).unwrap_or_default(),
        jitter: up.and_then(|up| up.up_jitter).or(both.jitter).unwrap_or_default(),
        loss: up.and_then(|up| up.up_loss).or(both.loss).unwrap_or_default(),
        reorder: up.and_then(|up| up.up_reorder).or(both.reorder).unwrap_or_default(),
        duplicate: up.and_then(|up| up.up_duplicate).or(both.duplicate).unwrap_or_default(),
        corrupt: up.and_then(|up| up.up_corrupt).or(both.corrupt).unwrap_or_default(),
        in_a_row: None,
    })
}

fn resolve(name: &str) -> Result<SocketAddr, Failure> {
    let found = name.to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Failure::input(format!("'{name}' has no address; write one such as 127.0.0.1:4433"))),
        Err(e) => {
            Err(Failure::input(format!("'{name}' is no address: {e}; write host and port, such as 127.0.0.1:4433")))
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    output::check(&[("--json", args.json.as_deref())])?;
    let spec = RelaySpec {
        down: line(&args.both, None)?,
        up: line(&args.both, Some(&args.up))?,
        faults: args.fault.clone(),
        seed: args.seed,
    };
    let to = resolve(&args.to)?;
    let stop = signals::stop()?;
    let mut relay = Relay::bind(args.listen, to, spec).map_err(Failure::input)?;
    let address = relay.address().map_err(Failure::run)?;
    output::say(format!("relaying {address} to {to}; Ctrl-C ends it"));
    let terminal = std::io::stderr().is_terminal();
    let mut drawn = Duration::ZERO;
    let done = relay.run(&stop, args.lasts, |now, stats| {
        if terminal && now >= drawn + REFRESH {
            drawn = now;
            output::redraw(Some(&format!("{:.0} s: {}", now.as_secs_f64(), brief(stats))));
        }
    });
    if terminal {
        output::redraw(None);
    }
    done.map_err(Failure::run)?;
    let stats = relay.stats();
    match &args.json {
        Some(file) => output::write(file, &format!("{:#}\n", as_json(&stats))),
        None => output::print(&table(&stats)),
    }
}

fn brief(stats: &RelayStats) -> String {
    let of = |l: &LineStats| format!("{} ({} lost, {} dropped)", l.forwarded, l.lost, l.dropped);
    format!("to clients {}, to the server {}, {} clients", of(&stats.down), of(&stats.up), stats.clients)
}

/// A count's name, and what it is of a line.
type Count = (&'static str, fn(&LineStats) -> u64);

const COUNTS: [Count; 9] = [
    ("arrived", |l| l.arrived),
    ("lost", |l| l.lost),
    ("dropped", |l| l.dropped),
    ("marked", |l| l.marked),
    ("reordered", |l| l.reordered),
    ("duplicated", |l| l.duplicated),
    ("corrupted", |l| l.corrupted),
    ("forwarded", |l| l.forwarded),
    ("bytes", |l| l.bytes),
];

fn table(stats: &RelayStats) -> String {
    let mut text = format!("{:12}{:>14}{:>14}\n", "datagrams", "to clients", "to server");
    for (name, of) in COUNTS {
        text += &format!("{name:12}{:>14}{:>14}\n", of(&stats.down), of(&stats.up));
    }
    text += &format!(
        "{} clients; {} cut off by faults; {} dropped by the relay itself\n",
        stats.clients, stats.cut_off, stats.overrun
    );
    if stats.not_rebound > 0 {
        text += &format!("{} times a client kept its port: the system had no socket left\n", stats.not_rebound);
    }
    text
}

fn as_json(stats: &RelayStats) -> serde_json::Value {
    let line = |l: &LineStats| {
        let counts = COUNTS.iter().map(|(name, of)| ((*name).to_owned(), json!(of(l))));
        serde_json::Value::Object(counts.collect())
    };
    json!({
        "to_clients": line(&stats.down),
        "to_server": line(&stats.up),
        "clients": stats.clients,
        "cut_off": stats.cut_off,
        "overrun": stats.overrun,
        "not_rebound": stats.not_rebound,
    })
}
