//! `fathom link`: the laboratory's link as a relay in real time.

mod control;
mod report;

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use fathom_cc::units::parse_nonzero_duration;
use fathom_netsim::path::PathEvent;
use fathom_netsim::relay::{Relay, RelaySpec};

use crate::path_args::{self, PathArgs};
use crate::{Failure, numbers, output, signals};

/// Time between two updates of the line on a terminal.
const REFRESH: Duration = Duration::from_millis(500);

/// Emulate a link between clients and a server. Needs no privileges and no kernel modules: clients
/// send to --listen instead of to the server.
#[derive(clap::Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 10Mbps --delay 20ms --queue droptail:136p
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 50Mbps --up-rate 5Mbps --delay 15ms
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --loss 1% --reorder 2% --event blackout:2s@10s

  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --path lte
  fathom link --listen 127.0.0.1:4434 --to 127.0.0.1:4433 --rate 20Mbps --rtt 40ms --event rate:2Mbps@10s

An option without 'up-' applies to both directions. An option with 'up-' applies
only to the direction from clients to the server. The options are those of
'fathom compare', but events may also be rebind@30s and rebind@handshake, and --rtt
takes only one time. The link prints its counts when it ends, on Ctrl-C or after
--for. With --control, the path can be changed while the link runs:
  fathom link ctl /tmp/link.sock 'rate 2Mbps' 'loss 1%'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Address that clients send to.
    #[arg(long, value_name = "ADDR", value_parser = numbers::address, required = true)]
    listen: Option<SocketAddr>,
    /// Address or name of the server, with port.
    #[arg(long, value_name = "ADDR", required = true)]
    to: Option<String>,
    /// Queue in front of the link, as in 'fathom compare'. [default: droptail with one
    /// bandwidth-delay product, at least 136p]
    #[arg(long, value_name = "QUEUE", help_heading = "Path")]
    queue: Option<String>,
    #[command(flatten)]
    path: PathArgs,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::seed)]
    seed: u64,
    /// End after this time; without this option, end on Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_nonzero_duration)]
    lasts: Option<Duration>,
    /// Write the counts as JSON; '-' is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Accept commands on a Unix socket at this path, which only its owner can open: 'rate 5Mbps',
    /// 'loss 2%', 'blackout 3s', 'status'.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Send commands to a link that runs with --control.
    Ctl(control::SendArgs),
}

fn resolve(name: &str) -> Result<SocketAddr, Failure> {
    let found = name.to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Failure::input(format!(
            "'{name}' has no address; write one such as 127.0.0.1:4433"
        ))),
        Err(e) => Err(Failure::input(format!(
            "'{name}' is not an address: {e}; write host and port, such as 127.0.0.1:4433"
        ))),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match (&args.command, args.listen, &args.to) {
        (Some(Command::Ctl(args)), ..) => control::send(args),
        (None, Some(listen), Some(to)) => relay(args, listen, to),
        (None, ..) => Err(Failure::input("--listen and --to are needed; see 'fathom link --help'")),
    }
}

fn relay(args: &Args, listen: SocketAddr, to: &str) -> Result<(), Failure> {
    output::check(&[("--json", args.json.as_deref())])?;
    let said = args.path.spec(args.queue.as_ref()).expanded().map_err(path_args::wrong)?;
    let events = said.events().map_err(path_args::wrong)?;
    let path = said.check().map_err(path_args::wrong)?;
    if path.rtt.0 != path.rtt.1 {
        return Err(Failure::input(
            "--rtt: the relay gives all clients the same RTT; write one time, such as 30ms",
        ));
    }
    let rebinds = |event: &PathEvent| {
        matches!(event, PathEvent::Rebind { .. } | PathEvent::RebindAfterHandshake)
    };
    let events = events.into_iter().filter(rebinds).collect();
    let spec = RelaySpec { down: path.down, up: path.up, events, seed: args.seed };
    let to = resolve(to)?;
    let stop = signals::stop()?;
    let mut relay = Relay::bind(listen, to, spec).map_err(Failure::input)?;
    // The socket is removed when the link ends.
    let mut _socket = None;
    if let Some(path) = &args.control {
        let (socket, requests) = control::listen(path)?;
        relay = relay.controlled(&said, requests);
        _socket = Some(socket);
    }
    let address = relay.address().map_err(Failure::run)?;
    output::say(format!("relaying {address} to {to}; Ctrl-C ends it"));
    let terminal = std::io::stderr().is_terminal();
    let mut drawn = Duration::ZERO;
    let done = relay.run(&stop, args.lasts, |now, stats| {
        if terminal && now >= drawn + REFRESH {
            drawn = now;
            output::redraw(Some(&format!("{:.0} s: {}", now.as_secs_f64(), report::brief(stats))));
        }
    });
    if terminal {
        output::redraw(None);
    }
    done.map_err(Failure::run)?;
    let stats = relay.stats();
    match &args.json {
        Some(file) => {
            if !stats.limits().is_empty() {
                output::say(report::verdict(&stats).trim_end());
            }
            output::write(file, &format!("{:#}\n", report::json(&stats)))
        }
        None => output::print(&report::table(&stats)),
    }
}
