//! `fathom link`: the lab's link as a relay in real time.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use fathom_cc::units::parse_nonzero_duration;
use fathom_netsim::path::PathEvent;
use fathom_netsim::relay::{LineStats, Relay, RelaySpec, RelayStats};
use serde_json::json;

use crate::path_args::{self, PathArgs};
use crate::{Failure, numbers, output, signals};

/// How often the line on a terminal is drawn anew.
const REFRESH: Duration = Duration::from_millis(500);

/// Emulate a link between clients and a server. Needs no privileges and no kernel modules: clients send to --listen instead of to the server.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 10Mbps --delay 20ms --queue droptail:136p
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 50Mbps --up-rate 5Mbps --delay 15ms
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --loss 1% --reorder 2% --event blackout:2s@10s

  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --path lte
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 20Mbps --rtt 40ms --event rate:2Mbps@10s

An option without 'up-' holds for both directions; one with 'up-' changes the
way from clients to the server. The options are those of 'fathom compare'; here
events may also be rebind@30s and rebind@handshake, and --rtt is one time. Counts are printed at the
end: Ctrl-C, or --for.")]
pub(crate) struct Args {
    /// Address that clients send to.
    #[arg(long, value_name = "ADDR", value_parser = numbers::address)]
    listen: SocketAddr,
    /// The server: address or name, with port.
    #[arg(long, value_name = "ADDR")]
    to: String,
    /// Queue in front of the link, as in 'fathom compare'. [default: droptail, one bandwidth-delay product, 136p at least]
    #[arg(long, value_name = "QUEUE", help_heading = "Path")]
    queue: Option<String>,
    #[command(flatten)]
    path: PathArgs,
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
    let path = args.path.spec(args.queue.as_ref());
    let events = path.events().map_err(path_args::wrong)?;
    let path = path.check().map_err(path_args::wrong)?;
    if path.rtt.0 != path.rtt.1 {
        return Err(Failure::input("--rtt: the relay gives all clients one RTT; write one time, such as 30ms"));
    }
    let rebinds = |event: &PathEvent| matches!(event, PathEvent::Rebind { .. } | PathEvent::RebindAfterHandshake);
    let events = events.into_iter().filter(rebinds).collect();
    let spec = RelaySpec { down: path.down, up: path.up, events, seed: args.seed };
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
    let of = |l: &LineStats| format!("{} ({} lost, {} dropped)", l.forwarded, l.impairments.lost, l.dropped);
    format!("to clients {}, to the server {}, {} clients", of(&stats.down), of(&stats.up), stats.clients)
}

/// A count's name, and what it is of a line.
type Count = (&'static str, fn(&LineStats) -> u64);

const COUNTS: [Count; 13] = [
    ("arrived", |l| l.impairments.arrived),
    ("lost", |l| l.impairments.lost),
    ("policed", |l| l.impairments.policed),
    ("cut_off", |l| l.impairments.cut_off),
    ("dropped", |l| l.dropped),
    ("marked", |l| l.marked),
    ("bleached", |l| l.impairments.bleached),
    ("reordered", |l| l.impairments.reordered),
    ("displaced", |l| l.impairments.displaced),
    ("duplicated", |l| l.impairments.duplicated),
    ("corrupted", |l| l.impairments.corrupted),
    ("forwarded", |l| l.forwarded),
    ("bytes", |l| l.bytes),
];

fn table(stats: &RelayStats) -> String {
    let mut text = format!("{:12}{:>14}{:>14}\n", "datagrams", "to clients", "to server");
    for (name, of) in COUNTS {
        text += &format!("{:12}{:>14}{:>14}\n", name.replace('_', " "), of(&stats.down), of(&stats.up));
    }
    text += &format!(
        "{} clients; {} cut off by events; {} dropped by the relay itself\n",
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
