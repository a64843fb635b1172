//! One client, one server, one test.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fathom_bench::relay::{Relay, RelaySpec, RelayStats};

use super::judge::{Evidence, Verdict, judge};
use super::party::{Party, Side};
use super::process::{Exit, Process};
use super::stage::Stage;
use super::trial::Trial;
use super::wire::{Capture, Secrets, Wire};
use crate::endpoint::{Case, Facts, facts};

/// How long a server may take until it listens. Peers compile or load for a while.
const LISTENS: Duration = Duration::from_secs(20);
/// Beyond what client and server may take: no relay works longer.
const RELAY: Duration = Duration::from_secs(600);
/// How often something is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Who does what.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The one that connects.
    pub client: Party,
    /// The one that accepts.
    pub server: Party,
    /// Test.
    pub trial: Trial,
}

impl Cell {
    /// In one word.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.client.name(), self.server.name(), self.trial.name())
    }
}

/// Where cells are played.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Each cell gets a folder in here.
    pub folder: PathBuf,
    /// Folders of cells that passed stay, too.
    pub keep: bool,
    /// Seeds files and lots.
    pub seed: u64,
    /// Set when everything is to end.
    pub stop: Arc<AtomicBool>,
}

/// What became of a cell.
#[derive(Debug)]
pub struct Tried {
    /// Verdict.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
    /// Where its logs are, where they were kept.
    pub logs: Option<PathBuf>,
    /// What passed the relay, where it was played.
    pub wire: Option<Wire>,
}

impl Tried {
    /// A cell that was not played.
    pub fn unplayed(verdict: Verdict) -> Self {
        Self { verdict, took: Duration::ZERO, logs: None, wire: None }
    }
}

// Cells are played in real time.
#[allow(clippy::disallowed_methods)]
/// Plays a cell, unless a side does not take part.
pub fn play(cell: &Cell, ground: &Ground) -> Tried {
    for (party, side) in [(&cell.client, Side::Client), (&cell.server, Side::Server)] {
        if let Some(why) = party.missing() {
            return Tried::unplayed(Verdict::Skipped(format!("{}: {why}", party.name())));
        }
        if !party.claims(side, cell.trial.case()) {
            let why = format!("{} does not claim {} as {}", party.name(), cell.trial.case(), side.name());
            return Tried::unplayed(Verdict::Unsupported(why));
        }
    }
    let begun = Instant::now();
    let root = ground.folder.join(cell.name());
    let (verdict, wire) = match act(cell, ground, &root) {
        Ok(evidence) => {
            let verdict = judge(cell.trial, &evidence);
            let written = evidence.capture.write_pcap(&root.join("relay.pcap"));
            if let Err(e) = written.and_then(|()| fs::write(root.join("relay.txt"), &evidence.wire.log)) {
                tracing::warn!("what passed the relay: {e}");
            }
            (verdict, Some(evidence.wire))
        }
        Err(why) if ground.stop.load(Ordering::Relaxed) => (Verdict::Skipped(why), None),
        Err(why) => (Verdict::Failed(vec![why]), None),
    };
    let keep = ground.keep || !matches!(verdict, Verdict::Passed | Verdict::Unsupported(_));
    if !keep {
        let _ = fs::remove_dir_all(&root);
    }
    Tried { verdict, took: begun.elapsed(), logs: keep.then_some(root), wire }
}

/// Plays it, and says what was seen.
fn act(cell: &Cell, ground: &Ground, root: &Path) -> Result<Evidence, String> {
    let stopped = || if ground.stop.load(Ordering::Relaxed) { Err("stopped".to_owned()) } else { Ok(()) };
    stopped()?;
    let failed = |what: &str, e: io::Error| format!("{what}: {e}");
    if root.exists() {
        fs::remove_dir_all(root).map_err(|e| failed("an old folder", e))?;
    }
    let (sizes, name_length) = cell.trial.files();
    let stage = Stage::new(root, &sizes, name_length, ground.seed).map_err(|e| failed("files", e))?;
    let case = cell.trial.case();
    let pair = Pair::start(&cell.client, &cell.server, case, &stage, cell.trial.link(ground.seed), None, &ground.stop)?;
    let (client, server, relayed) = match pair {
        Start::Refused(exit) => (None, exit, None),
        Start::Up(mut pair) => {
            let client =
                pair.client(&stage, &ground.stop, cell.trial.patience()).map_err(|e| failed("the client", e))?;
            let (server, relayed) = pair.end();
            (Some(client), server, Some(relayed))
        }
    };
    stopped()?;
    let (capture, stats) = relayed.unwrap_or_default();
    let told = |side: &str, party: &Party| {
        let text = fs::read(stage.folder(side).join(facts::FILE)).ok().filter(|_| party.is_ours());
        text.and_then(|text| serde_json::from_slice::<Facts>(&text).ok())
    };
    Ok(Evidence {
        client,
        server,
        server_is_ours: cell.server.is_ours(),
        downloads: stage.check_downloads(),
        wire: Wire::read(&capture, &secrets(&stage)),
        stats,
        client_facts: told("client", &cell.client),
        server_facts: told("server", &cell.server),
        capture,
    })
}

/// The TLS secrets that both sides logged.
pub(super) fn secrets(stage: &Stage) -> Secrets {
    let mut secrets = Secrets::default();
    for side in ["client", "server"] {
        secrets.add(&fs::read_to_string(stage.folder(side).join("keys.log")).unwrap_or_default());
    }
    secrets
}

/// How a pair began.
pub(super) enum Start<'a> {
    Up(Box<Pair<'a>>),
    /// The server does not do this.
    Refused(Exit),
}

/// A server, and the relay before it; perhaps another pair that shares the link.
pub(super) struct Pair<'a> {
    client: &'a Party,
    server: Process,
    address: SocketAddr,
    relay: SocketAddr,
    case: Case,
    work: Arc<Work>,
    thread: Option<std::thread::JoinHandle<RelayStats>>,
    /// The other pair's client, then its server.
    beside: Option<[Process; 2]>,
}

/// What a relay's thread shares.
#[derive(Default)]
struct Work {
    stop: AtomicBool,
    capture: Mutex<Capture>,
}

/// What a relay saw and did.
type Relayed = (Capture, RelayStats);

/// A flow that is at work before the client begins.
pub(super) struct Beside<'a> {
    party: &'a Party,
    stage: Stage,
}

impl<'a> Beside<'a> {
    /// How long it works before the client begins.
    const AHEAD: Duration = Duration::from_secs(1);
    /// What it fetches: more than the link carries in the time that a client has.
    const BYTES: u64 = 1 << 30;

    pub(super) fn new(party: &'a Party, root: &Path) -> io::Result<Self> {
        Ok(Self { party, stage: Stage::new(root, &[], 0, 0)? })
    }

    fn serve(&self, stop: &AtomicBool) -> Result<(Process, SocketAddr), String> {
        match serve(self.party, Case::Transfer, &self.stage, stop)? {
            Ok(up) => Ok(up),
            Err(exit) => Err(format!("the other flow's server: {exit}")),
        }
    }

    fn fetch(&self, relay: SocketAddr) -> Result<Process, String> {
        let url = format!("https://localhost:{}/bytes/{}", relay.port(), Self::BYTES);
        let process = connect(self.party, Case::Transfer, &self.stage, &url);
        let process = process.map_err(|e| format!("the other flow's client: {e}"))?;
        std::thread::sleep(Self::AHEAD);
        Ok(process)
    }
}

/// Starts a server, and waits until it listens; `Err`: it refuses.
fn serve(
    party: &Party,
    case: Case,
    stage: &Stage,
    stop: &AtomicBool,
) -> Result<Result<(Process, SocketAddr), Exit>, String> {
    let address = free_port().map_err(|e| format!("a free port: {e}"))?;
    let mut command = party.command();
    environment(&mut command, Side::Server, case, stage);
    command.env("PORT", address.port().to_string()).env("IP", address.ip().to_string());
    let mut process = Process::start(command, &stage.folder("server").join("output.txt"))
        .map_err(|e| format!("the server {}: {e}", party.name()))?;
    if listens(&mut process, address.port(), stop) {
        return Ok(Ok((process, address)));
    }
    match process.ended() {
        Some(exit @ Exit::Code(127)) => Ok(Err(exit)),
        Some(exit) => Err(format!("the server ended before it listened: {exit}")),
        None => Err(format!("the server does not listen at {address} after {} s", LISTENS.as_secs())),
    }
}

fn connect(party: &Party, case: Case, stage: &Stage, requests: &str) -> io::Result<Process> {
    let mut command = party.command();
    environment(&mut command, Side::Client, case, stage);
    command.env("REQUESTS", requests);
    Process::start(command, &stage.folder("client").join("output.txt"))
}

impl<'a> Pair<'a> {
    /// Starts the server and the relay; `beside`, and what it needs, too.
    pub(super) fn start(
        client: &'a Party,
        server: &Party,
        case: Case,
        stage: &Stage,
        link: RelaySpec,
        beside: Option<&Beside<'_>>,
        stop: &AtomicBool,
    ) -> Result<Start<'a>, String> {
        let (server, address) = match serve(server, case, stage, stop)? {
            Ok(up) => up,
            Err(exit) => return Ok(Start::Refused(exit)),
        };
        let others = beside.map(|beside| beside.serve(stop)).transpose()?;
        let work = Arc::new(Work::default());
        let taps = Arc::clone(&work);
        let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let mut relay = Relay::bind(local, address, link)
            .map_err(|e| e.to_string())?
            .tapped(move |passing| taps.capture.lock().unwrap_or_else(PoisonError::into_inner).note(passing));
        if let Some((_, other)) = &others {
            relay = relay.also(local, *other).map_err(|e| e.to_string())?;
        }
        let at = |number| relay.address_of(number).map_err(|e| e.to_string());
        let (first, second) = (at(0)?, others.as_ref().map(|_| at(1)).transpose()?);
        let works = Arc::clone(&work);
        let thread = std::thread::spawn(move || {
            if let Err(e) = relay.run(&works.stop, Some(RELAY), |_, _| {}) {
                tracing::warn!("relay: {e}");
            }
            relay.stats()
        });
        let mut pair = Self { client, server, address, relay: first, case, work, thread: Some(thread), beside: None };
        if let (Some(beside), Some((server, _)), Some(at)) = (beside, others, second) {
            pair.beside = Some([beside.fetch(at)?, server]);
        }
        Ok(Start::Up(Box::new(pair)))
    }

    /// Where the server is.
    pub(super) const fn server(&self) -> SocketAddr {
        self.address
    }

    /// Whether the other flow, if there is one, still goes on.
    pub(super) fn beside_is_at_work(&mut self) -> Option<bool> {
        self.beside.as_mut().map(|both| both.iter_mut().all(|process| process.ended().is_none()))
    }

    /// Runs the client to its end.
    pub(super) fn client(&mut self, stage: &Stage, stop: &AtomicBool, patience: Duration) -> io::Result<Exit> {
        let urls = stage.files.iter().map(|file| format!("https://localhost:{}/{}", self.relay.port(), file.name));
        let urls = urls.collect::<Vec<_>>().join(" ");
        Ok(connect(self.client, self.case, stage, &urls)?.wait(patience, stop))
    }

    /// Lets the last packets pass, ends the server and the relay.
    pub(super) fn end(&mut self) -> (Exit, Relayed) {
        std::thread::sleep(FAREWELL);
        // It was to run until it is told to end.
        let gone = self.server.ended().map(|_| Exit::TooSoon);
        if let Some(both) = &mut self.beside {
            for process in both {
                process.end();
            }
        }
        let exit = gone.unwrap_or_else(|| self.server.end());
        let stats = self.end_relay();
        let capture = std::mem::take(&mut *self.work.capture.lock().unwrap_or_else(PoisonError::into_inner));
        (exit, (capture, stats.unwrap_or_default()))
    }

    fn end_relay(&mut self) -> Option<RelayStats> {
        self.work.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

/// For what is on its way to the server when the client is done.
const FAREWELL: Duration = Duration::from_millis(200);

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        self.end_relay();
    }
}

/// What both sides are told.
fn environment(command: &mut std::process::Command, side: Side, case: Case, stage: &Stage) {
    let logs = stage.folder(side.name());
    let qlog = logs.join("qlog");
    // Some expect it to be there.
    let _ = fs::create_dir_all(&qlog);
    command
        .current_dir(&logs)
        .env("ROLE", side.name())
        .env("TESTCASE", case.name())
        .env("WWW", stage.folder("www"))
        .env("DOWNLOADS", stage.folder("downloads"))
        .env("CERTS", stage.folder("certs"))
        .env("SSLKEYLOGFILE", logs.join("keys.log"))
        .env("QLOGDIR", qlog)
        .env("LOGS", logs);
}

/// A UDP port that nobody has now.
fn free_port() -> io::Result<SocketAddr> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Waits until somebody listens at this port of this host.
// Servers start in real time.
#[allow(clippy::disallowed_methods)]
fn listens(server: &mut Process, port: u16, stop: &AtomicBool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LISTENS && !stop.load(Ordering::Relaxed) {
        if is_bound(port) {
            return true;
        }
        if server.ended().is_some() {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    false
}

/// The kernel's list of UDP sockets names this port as a local one (proc(5), `/proc/net/udp`).
fn is_bound(port: u16) -> bool {
    ["/proc/net/udp", "/proc/net/udp6"].iter().any(|file| fs::read_to_string(file).is_ok_and(|list| names(&list, port)))
}

fn names(list: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    list.lines().skip(1).any(|line| line.split_ascii_whitespace().nth(1).is_some_and(|local| local.ends_with(&suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_among_local_ones_only() {
        let list = "  sl  local_address rem_address   st\n   1: 0100007F:1F90 00000000:0000 07\n   2: 0100007F:0035 0100007F:1F91 07\n";
        assert!(names(list, 8080) && names(list, 53));
        assert!(!names(list, 8081) && !names(list, 0));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(is_bound(socket.local_addr().unwrap().port()));
    }
}
