//! Runs one test case with one client and one server.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_netsim::relay::{Relay, RelaySpec, RelayStats};
use parking_lot::Mutex;

use super::check::{Evidence, TestResult, check};
use super::error::RunError;
use super::implementation::{Implementation, Role};
use super::process::{ExitReason, Process};
use super::test_case::TestCase;
use super::test_dir::TestDir;
use super::trace::{Capture, Secrets, Trace};
use crate::endpoint::{Facts, TestName, facts};

/// Time limit for a server to start listening. Some peers must first compile or load.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for a relay. It is longer than any test.
const RELAY_TIMEOUT: Duration = Duration::from_secs(600);
/// Interval at which conditions are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A test case with the implementations that run it.
#[derive(Clone, Debug)]
pub struct TestRun {
    /// The client.
    pub client: Implementation,
    /// The server.
    pub server: Implementation,
    /// The test case.
    pub test_case: TestCase,
}

impl TestRun {
    /// Returns the name of the run, `client-server-test`, which is also the name of its log
    /// directory.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.client.name(), self.server.name(), self.test_case)
    }
}

/// Options that all tests of a run share.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Parent of the tests' log directories.
    pub log_dir: PathBuf,
    /// Whether to keep the logs of tests that passed.
    pub keep: bool,
    /// Seed for test files, loss and corruption.
    pub seed: u64,
    /// Flag that interrupts the run.
    pub stop: Arc<AtomicBool>,
}

/// Record of a test run.
#[derive(Debug)]
pub struct TestRecord {
    /// Result of the test.
    pub result: TestResult,
    /// Duration of the test.
    pub duration: Duration,
    /// Log directory; `None` if it was not kept.
    pub logs: Option<PathBuf>,
    /// Packets that passed the relay; `None` if the test did not run.
    pub trace: Option<Trace>,
}

impl TestRecord {
    /// Returns the record of a test that did not run.
    pub fn not_run(result: TestResult) -> Self {
        Self { result, duration: Duration::ZERO, logs: None, trace: None }
    }
}

// Tests run in real time.
#[allow(clippy::disallowed_methods)]
/// Runs a test, unless an implementation is unavailable or does not support it.
pub fn run_test(run: &TestRun, config: &RunConfig) -> TestRecord {
    for (implementation, role) in [(&run.client, Role::Client), (&run.server, Role::Server)] {
        if let Some(why) = implementation.unavailable() {
            return TestRecord::not_run(TestResult::Skipped(format!(
                "{}: {why}",
                implementation.name()
            )));
        }
        if !implementation.supports(role, run.test_case.test_name()) {
            let why = format!(
                "{} does not support {} as {}",
                implementation.name(),
                run.test_case.test_name(),
                role
            );
            return TestRecord::not_run(TestResult::Unsupported(why));
        }
    }
    let started = Instant::now();
    let root = config.log_dir.join(run.name());
    let (result, trace) = match execute(run, config, &root) {
        Ok(evidence) => {
            let result = check(run.test_case, &evidence);
            let written = evidence.capture.write_pcap(&root.join("relay.pcap"));
            if let Err(e) =
                written.and_then(|()| fs::write(root.join("relay.txt"), &evidence.trace.log))
            {
                tracing::warn!("cannot write the capture: {e}");
            }
            (result, Some(evidence.trace))
        }
        Err(error) if config.stop.load(Ordering::Relaxed) => {
            (TestResult::Skipped(error.to_string()), None)
        }
        Err(error) => (TestResult::Failed(vec![error.to_string()]), None),
    };
    let keep = config.keep || !matches!(result, TestResult::Passed | TestResult::Unsupported(_));
    if !keep {
        let _ = fs::remove_dir_all(&root);
    }
    TestRecord { result, duration: started.elapsed(), logs: keep.then_some(root), trace }
}

/// Runs the processes and collects the evidence.
fn execute(run: &TestRun, config: &RunConfig, root: &Path) -> Result<Evidence, RunError> {
    let stopped =
        || if config.stop.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) };
    stopped()?;
    if root.exists() {
        fs::remove_dir_all(root).map_err(RunError::OldLogs)?;
    }
    let (sizes, name_length) = run.test_case.files();
    let test_dir =
        TestDir::new(root, &sizes, name_length, config.seed).map_err(RunError::TestFiles)?;
    let test_name = run.test_case.test_name();
    let testbed = Testbed::start(
        &run.client,
        &run.server,
        test_name,
        &test_dir,
        run.test_case.link(config.seed),
        None,
        &config.stop,
    )?;
    let (client, server, relayed) = match testbed {
        Started::Unsupported(exit) => (None, exit, None),
        Started::Ready(mut testbed) => {
            let client = testbed.run_client(&test_dir, &config.stop, run.test_case.timeout())?;
            let (server, relayed) = testbed.stop();
            (Some(client), server, Some(relayed))
        }
    };
    stopped()?;
    let (capture, stats) = relayed.unwrap_or_default();
    let read_facts = |role: &str, implementation: &Implementation| {
        let text = fs::read(test_dir.folder(role).join(facts::FILE))
            .ok()
            .filter(|_| implementation.is_ours());
        text.and_then(|text| serde_json::from_slice::<Facts>(&text).ok())
    };
    Ok(Evidence {
        client,
        server,
        server_is_ours: run.server.is_ours(),
        downloads: test_dir.check_downloads(),
        trace: Trace::read(&capture, &secrets(&test_dir)),
        stats,
        client_facts: read_facts("client", &run.client),
        server_facts: read_facts("server", &run.server),
        capture,
    })
}

/// Returns the TLS secrets that client and server logged.
pub(super) fn secrets(test_dir: &TestDir) -> Secrets {
    let mut secrets = Secrets::default();
    for role in ["client", "server"] {
        secrets
            .add(&fs::read_to_string(test_dir.folder(role).join("keys.log")).unwrap_or_default());
    }
    secrets
}

/// Outcome of starting a testbed.
pub(super) enum Started<'a> {
    Ready(Box<Testbed<'a>>),
    /// The server exited with code 127, because it does not support the test.
    Unsupported(ExitReason),
}

/// A running server behind the relay, optionally with cross traffic through the same link.
pub(super) struct Testbed<'a> {
    client: &'a Implementation,
    server: Process,
    address: SocketAddr,
    relay: SocketAddr,
    test_name: TestName,
    shared: Arc<RelayState>,
    thread: Option<std::thread::JoinHandle<RelayStats>>,
    /// Client and server of the cross traffic.
    cross_traffic: Option<[Process; 2]>,
}

/// State shared with the relay's thread.
#[derive(Default)]
struct RelayState {
    stop: AtomicBool,
    capture: Mutex<Capture>,
}

/// Capture and counters that the relay returns.
type RelayOutput = (Capture, RelayStats);

/// A competing flow that starts before the client.
pub(super) struct CrossTraffic<'a> {
    implementation: &'a Implementation,
    test_dir: TestDir,
}

impl<'a> CrossTraffic<'a> {
    /// Time from the start of the cross traffic to the start of the client.
    const HEAD_START: Duration = Duration::from_secs(1);
    /// Size of the cross traffic's download in bytes. It is more than the link carries within the
    /// client's time limit.
    const BYTES: u64 = 1 << 30;

    pub(super) fn new(implementation: &'a Implementation, root: &Path) -> io::Result<Self> {
        Ok(Self { implementation, test_dir: TestDir::new(root, &[], 0, 0)? })
    }

    fn start_server(&self, stop: &AtomicBool) -> Result<(Process, SocketAddr), RunError> {
        match start_server(self.implementation, TestName::Transfer, &self.test_dir, stop)? {
            Ok(up) => Ok(up),
            Err(exit) => Err(RunError::Exit { process: "the cross traffic's server", exit }),
        }
    }

    fn start_client(&self, relay: SocketAddr) -> Result<Process, RunError> {
        let url = format!("https://localhost:{}/bytes/{}", relay.port(), Self::BYTES);
        let process = start_client(self.implementation, TestName::Transfer, &self.test_dir, &url);
        let process = process.map_err(not_started("the cross traffic's client"))?;
        std::thread::sleep(Self::HEAD_START);
        Ok(process)
    }
}

/// Starts a server and waits until it listens. The inner `Err` means that the server does not
/// support the test.
fn start_server(
    implementation: &Implementation,
    test_name: TestName,
    test_dir: &TestDir,
    stop: &AtomicBool,
) -> Result<Result<(Process, SocketAddr), ExitReason>, RunError> {
    let address = free_port().map_err(RunError::NoFreePort)?;
    let mut command = implementation.command();
    set_environment(&mut command, Role::Server, test_name, test_dir);
    command.env("PORT", address.port().to_string()).env("IP", address.ip().to_string());
    let mut process = Process::start(command, &test_dir.folder("server").join("output.txt"))
        .map_err(not_started(format!("the server {}", implementation.name())))?;
    if wait_until_listening(&mut process, address.port(), stop) {
        return Ok(Ok((process, address)));
    }
    match process.try_wait() {
        Some(exit @ ExitReason::Code(127)) => Ok(Err(exit)),
        Some(exit) => Err(RunError::ServerExited(exit)),
        None => Err(RunError::NotListening { address, limit: LISTEN_TIMEOUT }),
    }
}

/// Returns a function that creates the error for a process that cannot be started.
fn not_started(process: impl Into<String>) -> impl FnOnce(io::Error) -> RunError {
    |why| RunError::Start { process: process.into(), why }
}

fn start_client(
    implementation: &Implementation,
    test_name: TestName,
    test_dir: &TestDir,
    requests: &str,
) -> io::Result<Process> {
    let mut command = implementation.command();
    set_environment(&mut command, Role::Client, test_name, test_dir);
    command.env("REQUESTS", requests);
    Process::start(command, &test_dir.folder("client").join("output.txt"))
}

impl<'a> Testbed<'a> {
    /// Starts the server, the relay and the cross traffic, if any.
    pub(super) fn start(
        client: &'a Implementation,
        server: &Implementation,
        test_name: TestName,
        test_dir: &TestDir,
        link: RelaySpec,
        cross_traffic: Option<&CrossTraffic<'_>>,
        stop: &AtomicBool,
    ) -> Result<Started<'a>, RunError> {
        let (server, address) = match start_server(server, test_name, test_dir, stop)? {
            Ok(up) => up,
            Err(exit) => return Ok(Started::Unsupported(exit)),
        };
        let others =
            cross_traffic.map(|cross_traffic| cross_traffic.start_server(stop)).transpose()?;
        let shared = Arc::new(RelayState::default());
        let tapped = Arc::clone(&shared);
        let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let mut relay = Relay::bind(local, address, link)?
            .tapped(move |passing| tapped.capture.lock().record(passing));
        if let Some((_, other)) = &others {
            relay = relay.also(local, *other)?;
        }
        let at = |number| relay.address_of(number).map_err(RunError::RelayAddress);
        let (first, second) = (at(0)?, others.as_ref().map(|_| at(1)).transpose()?);
        let running = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            if let Err(e) = relay.run(&running.stop, Some(RELAY_TIMEOUT), |_, _| {}) {
                tracing::warn!("relay: {e}");
            }
            relay.stats()
        });
        let mut testbed = Self {
            client,
            server,
            address,
            relay: first,
            test_name,
            shared,
            thread: Some(thread),
            cross_traffic: None,
        };
        if let (Some(cross_traffic), Some((server, _)), Some(at)) = (cross_traffic, others, second)
        {
            testbed.cross_traffic = Some([cross_traffic.start_client(at)?, server]);
        }
        Ok(Started::Ready(Box::new(testbed)))
    }

    /// Returns the address of the server.
    pub(super) const fn server_address(&self) -> SocketAddr {
        self.address
    }

    /// Returns whether the cross traffic is still running, or `None` if there is none.
    pub(super) fn cross_traffic_is_running(&mut self) -> Option<bool> {
        self.cross_traffic
            .as_mut()
            .map(|both| both.iter_mut().all(|process| process.try_wait().is_none()))
    }

    /// Runs the client until it exits or times out.
    pub(super) fn run_client(
        &mut self,
        test_dir: &TestDir,
        stop: &AtomicBool,
        timeout: Duration,
    ) -> Result<ExitReason, RunError> {
        let urls = test_dir
            .files
            .iter()
            .map(|file| format!("https://localhost:{}/{}", self.relay.port(), file.name));
        let urls = urls.collect::<Vec<_>>().join(" ");
        let client = start_client(self.client, self.test_name, test_dir, &urls);
        Ok(client.map_err(not_started("the client"))?.wait(timeout, stop))
    }

    /// Waits for the last packets, then stops the server and the relay.
    pub(super) fn stop(&mut self) -> (ExitReason, RelayOutput) {
        std::thread::sleep(DRAIN);
        // A server must run until the runner stops it.
        let gone = self.server.try_wait().map(|_| ExitReason::Premature);
        if let Some(both) = &mut self.cross_traffic {
            for process in both {
                process.terminate();
            }
        }
        let exit = gone.unwrap_or_else(|| self.server.terminate());
        let stats = self.stop_relay();
        let capture = std::mem::take(&mut *self.shared.capture.lock());
        (exit, (capture, stats.unwrap_or_default()))
    }

    fn stop_relay(&mut self) -> Option<RelayStats> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

/// Time for packets in transit to reach the server after the client has exited.
const DRAIN: Duration = Duration::from_millis(200);

impl Drop for Testbed<'_> {
    fn drop(&mut self) {
        self.stop_relay();
    }
}

/// Sets the environment variables for a client or a server.
fn set_environment(
    command: &mut std::process::Command,
    role: Role,
    test_name: TestName,
    test_dir: &TestDir,
) {
    let logs = test_dir.folder(role.as_ref());
    let qlog = logs.join("qlog");
    // Some implementations expect the directory to exist.
    let _ = fs::create_dir_all(&qlog);
    command
        .current_dir(&logs)
        .env("ROLE", role.as_ref())
        .env("TESTCASE", test_name.as_ref())
        .env("WWW", test_dir.folder("www"))
        .env("DOWNLOADS", test_dir.folder("downloads"))
        .env("CERTS", test_dir.folder("certs"))
        .env("SSLKEYLOGFILE", logs.join("keys.log"))
        .env("QLOGDIR", qlog)
        .env("LOGS", logs);
}

/// Returns a UDP port that is free now.
fn free_port() -> io::Result<SocketAddr> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Waits until the port is bound. Returns false if the server exits, the time runs out, or `stop`
/// is set.
// Servers start in real time.
#[allow(clippy::disallowed_methods)]
fn wait_until_listening(server: &mut Process, port: u16, stop: &AtomicBool) -> bool {
    let started = Instant::now();
    while started.elapsed() < LISTEN_TIMEOUT && !stop.load(Ordering::Relaxed) {
        if is_bound(port) {
            return true;
        }
        if server.try_wait().is_some() {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    false
}

/// Returns whether a local UDP socket is bound to the port (proc(5), `/proc/net/udp`).
fn is_bound(port: u16) -> bool {
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .any(|file| fs::read_to_string(file).is_ok_and(|list| has_local_port(&list, port)))
}

fn has_local_port(list: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    list.lines().skip(1).any(|line| {
        line.split_ascii_whitespace().nth(1).is_some_and(|local| local.ends_with(&suffix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_ports_count_as_bound() {
        let list = "  sl  local_address rem_address   st\n   1: 0100007F:1F90 00000000:0000 07\n   2: 0100007F:0035 0100007F:1F91 07\n";
        assert!(has_local_port(list, 8080) && has_local_port(list, 53));
        assert!(!has_local_port(list, 8081) && !has_local_port(list, 0));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(is_bound(socket.local_addr().unwrap().port()));
    }
}
