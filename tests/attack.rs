//! A server on the open Internet is attacked in all these ways at once: junk Initials, clients that
//! begin a handshake and fall silent, incomplete headers, and clients that never read responses.
//! Other attackers send requests and frames that violate HTTP/3, and scrapers never complete a
//! request. The server has 1,024 descriptors and logs every connection. Meanwhile other clients
//! request files as before, and must hardly notice.
//!
//! The attacks are slow enough to leave CPU time on this machine. Otherwise the test would measure
//! a shortage of CPU instead of the server's bounds. A short course runs with the other tests and
//! checks only results that do not depend on time. `make soak` runs the long course, which also
//! checks response times and memory, and prints the figures.

#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fathom_http::trust::Trust;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, TransportConfig, VarInt};

/// Duration and intensity of an attack.
struct Course {
    /// Seconds without an attack (`quiet`), before and after it, and seconds of the attack.
    quiet: u64,
    attack: u64,
    /// Connections of clients with incomplete headers; each has a hundred of them.
    half: usize,
    /// Connections of clients that never read; each has a hundred responses.
    stalled: usize,
    /// Clients that send one malformed request after the other.
    malformed: usize,
    /// Whether response times and memory are checked.
    judged: bool,
    name: &'static str,
}

const SHORT: Course = Course {
    quiet: 2,
    attack: 8,
    half: 20,
    stalled: 10,
    malformed: 8,
    judged: false,
    name: "cargo test --test fathom-tests attack::",
};
const LONG: Course = Course {
    quiet: 20,
    attack: 60,
    half: 100,
    stalled: 20,
    malformed: 16,
    judged: true,
    name: "make soak",
};

/// Junk Initials per second (19 Mbps): four times the number that may begin without a Retry.
const JUNK: u64 = 2_000;
/// Genuine Initials per second, from clients that then fall silent.
const SILENT: u64 = 20;
/// Requests per second of the measured clients.
pub(crate) const RATE: u32 = 40;
/// Largest 99th percentile of response times under attack, as a multiple of the quiet one.
const SLOWER: f64 = 3.0;
/// Largest resident set of the server in MB.
const MEMORY: f64 = 300.0;
/// Streams that are open on a connection (`STREAMS`), and the time between two openings (`PAUSE`).
/// When all are open, the first is older than servers wait.
const STREAMS: usize = 100;
const PAUSE: Duration = Duration::from_millis(120);

/// A server process, which is ended on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: SocketAddr,
    /// Kept open, because the server may write more, and its writes must not fail.
    stderr: BufReader<ChildStderr>,
}

impl Server {
    /// Ends the server and returns its remaining text on standard error.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut text = String::new();
        let _ = self.stderr.read_to_string(&mut text);
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(stack: &str, folder: &Path) -> Server {
    let (www, logs) = (folder.join("www"), folder.join("logs"));
    let mut args: Vec<&OsStr> =
        ["--controller", "sync:signal=either=50,native:cubic=50", "--root"].map(OsStr::new).into();
    args.extend([www.as_os_str(), OsStr::new("--qlog"), logs.as_os_str()]);
    serve_with(stack, &args)
}

/// Starts a server with a limit of 1,024 descriptors, which may run out.
pub(crate) fn serve_with(stack: &str, args: &[&OsStr]) -> Server {
    let limited = "ulimit -n 1024; exec \"$0\" \"$@\"";
    let mut child = Command::new("sh")
        .args([
            "-c",
            limited,
            env!("CARGO_BIN_EXE_fathom"),
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--stack",
            stack,
        ])
        .args(["--metrics", "127.0.0.1:0"])
        .args(args)
        .stderr(Stdio::piped())
        .spawn()
        .expect("fathom runs");
    let mut stderr = BufReader::new(child.stderr.take().expect("standard error"));
    let mut word = |before: &str| loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).expect("text") > 0, "no '{before}'");
        if let Some((_, rest)) = line.split_once(before) {
            break rest.split(['/', ' ']).next().expect("a word").parse().expect("an address");
        }
    };
    let (address, metrics) = (word("https://"), word("metrics at http://"));
    Server { child, address, metrics, stderr }
}

/// Returns a process's resident set in MB (proc(5), `VmRSS`), and its number of open descriptors.
fn resident(process: u32) -> (f64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    let kb = line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or_default();
    (kb / 1e3, std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count))
}

/// Returns the metrics by name, summed over their labels; `None` if no complete response arrives
/// within five seconds.
pub(crate) fn scrape(at: SocketAddr) -> Option<BTreeMap<String, f64>> {
    let patience = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&at, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let name = name.split('{').next().unwrap_or(name);
        *sums.entry(name.to_owned()).or_default() += value.parse::<f64>().unwrap_or_default();
    }
    text.ends_with("# EOF\n").then_some(sums)
}

/// Results of a client's requests.
pub(crate) struct Served {
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) statuses: String,
    pub(crate) failures: String,
    p50: f64,
    pub(crate) p99: f64,
}

/// Makes requests for `seconds` as visitors do: half of them on new connections, half on persistent
/// ones.
pub(crate) fn request_for(address: SocketAddr, seconds: u64) -> [Served; 2] {
    let ways: [&[&str]; 2] = [&["--connections", "fresh"], &["-c", "4", "-m", "4"]];
    let children = ways.map(|how| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command.args([
            "load",
            "https://localhost/page.html",
            "https://localhost/image.bin",
            "--insecure",
            "--json",
            "-",
        ]);
        command.args([
            "--connect-to",
            &address.to_string(),
            "--rate",
            &(RATE / 2).to_string(),
            "--spacing",
            "even",
        ]);
        command.args(["-d", &format!("{seconds}s"), "--timeout", "60s"]).args(how);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("fathom runs")
    });
    children.map(|child| {
        let out = child.wait_with_output().expect("an end");
        let found: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
        let time = |which: &str| found["times"]["response"][which].as_f64().unwrap_or(f64::NAN);
        Served {
            completed: number(&found["requests"]["completed"]),
            failed: number(&found["requests"]["failed"]),
            statuses: found["statuses"].to_string(),
            failures: found["failures"].to_string(),
            p50: time("p50"),
            p99: time("p99"),
        }
    })
}

/// Returns the configuration of a client that keeps its connections alive and accepts `window`
/// bytes of a stream before it reads.
pub(crate) fn client(window: u32) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = Trust::Insecure.tls_config(b"h3", provider).expect("a TLS configuration");
    let mut config =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("a QUIC suite")));
    let mut transport = TransportConfig::default();
    transport
        .keep_alive_interval(Some(Duration::from_secs(2)))
        .stream_receive_window(VarInt::from_u32(window));
    config.transport_config(Arc::new(transport));
    config
}

/// Returns first packets of clients whose server never answered.
async fn first_packets(count: usize) -> Vec<Bytes> {
    let nobody = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint =
        Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("an endpoint");
    let (at, config) = (nobody.local_addr().expect("an address"), client(1));
    let mut packets = Vec::new();
    for _ in 0..count {
        let connecting =
            endpoint.connect_with(config.clone(), at, "localhost").expect("an attempt");
        let mut packet = vec![0; 2_000];
        let length = nobody.recv(&mut packet).await.expect("a packet");
        packet.truncate(length);
        packets.push(packet.into());
        drop(connecting);
        while nobody.try_recv(&mut [0; 2_000]).is_ok() {}
    }
    packets
}

/// Returns a packet that looks like a client's first packet but has noise in place of the protected
/// part.
fn junk(number: u64) -> Vec<u8> {
    let mut packet = vec![0xa5; 1_200];
    packet[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
    packet[6..14].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    // The packet has no source connection ID, no token, and 1,182 bytes to follow.
    packet[14..18].copy_from_slice(&[0, 0, 0x44, 0x9e]);
    packet
}

/// Counts of the attacks.
#[derive(Default)]
pub(crate) struct Done {
    junk: AtomicU64,
    silent: AtomicU64,
    half: AtomicU64,
    pub(crate) stalled: AtomicU64,
    malformed: AtomicU64,
    scrapes: AtomicU64,
}

fn add(to: &AtomicU64, n: u64) {
    to.fetch_add(n, Ordering::Relaxed);
}

/// Sends datagrams that begin connections, from an address that only they use.
async fn begin(server: SocketAddr, silent: Vec<Bytes>, done: Arc<Done>) {
    const TICK: u64 = 20;
    let sockets: Vec<UdpSocket> = (0..64)
        .map(|_| UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).expect("a free port"))
        .collect();
    let mut ticks = tokio::time::interval(Duration::from_millis(TICK));
    let mut silent = silent.into_iter();
    let mut number = 0;
    loop {
        ticks.tick().await;
        for _ in 0..JUNK * TICK / 1_000 {
            number += 1;
            let socket = &sockets[number as usize % sockets.len()];
            add(&done.junk, u64::from(socket.send_to(&junk(number), server).is_ok()));
        }
        if number % (JUNK / SILENT) < JUNK * TICK / 1_000
            && let Some(packet) = silent.next()
        {
            let socket = &sockets[number as usize % sockets.len()];
            add(&done.silent, u64::from(socket.send_to(&packet, server).is_ok()));
        }
    }
}

/// Returns the HEADERS of `GET https://localhost` with this path: static fields 17 and 23 of QPACK,
/// and literals (RFC 9204 §4.5).
pub(crate) fn request(path: &str) -> Vec<u8> {
    let mut fields = b"\x00\x00\xd1\xd7\x50\x09localhost\x51".to_vec();
    fields.push(u8::try_from(path.len()).expect("a short path"));
    fields.extend_from_slice(path.as_bytes());
    [&[1, u8::try_from(fields.len()).expect("few fields")], &fields[..]].concat()
}

/// Opens one connection after the other, and on each as many streams as allowed. Each stream sends
/// `head` and is never read.
pub(crate) async fn streams(
    server: SocketAddr,
    from: Ipv4Addr,
    config: ClientConfig,
    head: Vec<u8>,
    done: Arc<Done>,
    counted: fn(&Done) -> &AtomicU64,
) {
    let endpoint = Endpoint::client((from, 0).into()).expect("an endpoint");
    loop {
        let connected =
            async { endpoint.connect_with(config.clone(), server, "localhost").ok()?.await.ok() };
        let Some(connection) = connected.await else {
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        let mut open = VecDeque::new();
        let pour = async {
            let mut control = connection.open_uni().await?;
            control.write_all(b"\x00\x04\x00").await?;
            loop {
                let (mut send, receive) = connection.open_bi().await?;
                send.write_all(&head).await?;
                add(counted(&done), 1);
                open.push_back((send, receive));
                if open.len() >= STREAMS
                    && let Some((mut oldest, _)) = open.pop_front()
                {
                    // In most cases the server has abandoned the stream. A FIN would be an error
                    // that ends the connection (RFC 9114 §7.1).
                    let _ = oldest.reset(VarInt::from_u32(0));
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let _: Result<(), Box<dyn std::error::Error + Send + Sync>> = pour.await;
        connection.close(VarInt::from_u32(0), b"");
    }
}

/// Returns the HEADERS of a request for a page, with these bytes of QPACK after its fields.
fn request_with(fields: &[u8]) -> Vec<u8> {
    let whole = request("/page.html");
    let section = [&whole[2..], fields].concat();
    let length = u16::try_from(section.len()).expect("a short section") | 0x4000;
    [&[1][..], &length.to_be_bytes(), &section].concat()
}

/// Returns requests that each violate RFC 9114 or RFC 9204 in one way, and some that are only
/// unusual.
fn malformed_requests() -> Vec<Vec<u8>> {
    let whole = request("/page.html");
    let after = |frames: &[u8]| [&whole[..], frames].concat();
    let huge = [&b"\x21a\x7f\xad\x7e"[..], &[b'x'; 16_300]].concat();
    vec![
        // Some requests have DATA that is cut off, empty, without a header, or after trailers.
        // Others have a frame of the control stream, of HTTP/2 or of WebTransport.
        after(b"\0\x20"),
        after(b"\0\x20abc"),
        after(b"\0\0\0\0\0\x01a\0\0"),
        b"\0\x01a".to_vec(),
        after(b"\x01\x02\0\0\0\x01a"),
        after(b"\x04\0"),
        after(b"\x02\0"),
        after(b"\x40\x41\x01a"),
        // A header that is cut off, is empty, or refers to missing entries.
        whole[..whole.len() / 2].to_vec(),
        b"\x01\0".to_vec(),
        request_with(b"\xff\x7f"),
        request_with(b"\x80"),
        request_with(b"\x10"),
        request_with(b"\x50\x82\0\0"),
        // Fields: :path twice, :status, te: gzip, an upper-case name, an invalid content-length,
        // and more bytes than are accepted. The last request is empty.
        request_with(b"\xc1"),
        request_with(b"\xd9"),
        request_with(b"\x22te\x04gzip"),
        request_with(b"\x21A\x01a"),
        request_with(b"\x54\x03abc"),
        request_with(&huge),
        Vec::new(),
    ]
}

/// Sends one malformed request after the other, each to its end, and opens a new connection
/// whenever the server has closed the previous one.
async fn malformed(server: SocketAddr, from: Ipv4Addr, config: ClientConfig, done: Arc<Done>) {
    let endpoint = Endpoint::client((from, 0).into()).expect("an endpoint");
    // Unidirectional streams that end a connection, except the last one, a valid control stream.
    let streams: [&[u8]; 6] = [
        b"\x02\xc0\x01a",
        b"\x03\x80",
        b"\x01\0",
        b"\0\x21\0",
        b"\0\x04\0\x0d\x01\x05\x0d\x01\x04",
        b"\0\x04\0",
    ];
    let (requests, mut turn) = (malformed_requests(), 0_usize);
    loop {
        let connected =
            async { endpoint.connect_with(config.clone(), server, "localhost").ok()?.await.ok() };
        let Some(connection) = connected.await else {
            tokio::time::sleep(Duration::from_millis(500)).await;
            continue;
        };
        turn += 1;
        let pour = async {
            let mut stream = connection.open_uni().await?;
            // Five of six connections have a valid control stream, and send requests until one ends
            // the connection.
            stream.write_all(streams[if turn % 6 == 0 { turn / 6 % 5 } else { 5 }]).await?;
            for request in requests.iter().cycle().skip(turn * 7).take(requests.len()) {
                let (mut send, mut receive) = connection.open_bi().await?;
                let _ = send.write_all(request).await;
                let _ = send.finish();
                add(&done.malformed, 1);
                let _ = tokio::time::timeout(Duration::from_secs(2), receive.read_to_end(100_000))
                    .await;
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        };
        let _: Result<(), Box<dyn std::error::Error + Send + Sync>> = pour.await;
        connection.close(VarInt::from_u32(0), b"");
    }
}

/// Opens connections of scrapers that begin a request and then hold the connection.
async fn scrapers(at: SocketAddr, done: Arc<Done>) {
    let mut held = VecDeque::new();
    loop {
        if let Ok(mut stream) = tokio::net::TcpStream::connect(at).await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut stream, b"GET /metrics HTTP/1.1\r\nx: ")
                    .await;
            add(&done.scrapes, 1);
            held.push_back(stream);
        }
        if held.len() > 200 {
            held.pop_front();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts all attacks on one thread, and returns the runtime that ends them.
fn attack(
    server: SocketAddr,
    metrics: SocketAddr,
    course: &Course,
    done: &Arc<Done>,
) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a thread");
    let silent = runtime.block_on(first_packets((course.attack * SILENT) as usize));
    runtime.spawn(begin(server, silent, Arc::clone(done)));
    runtime.spawn(scrapers(metrics, Arc::clone(done)));
    // Each kind of attack uses four addresses.
    let host = |kind: u8, n: usize| Ipv4Addr::new(127, 0, kind, n as u8 % 4 + 1);
    let whole = request("/page.html");
    for n in 0..course.half {
        let half = whole[..whole.len() / 2].to_vec();
        runtime.spawn(streams(
            server,
            host(3, n),
            client(1 << 20),
            half,
            Arc::clone(done),
            |done| &done.half,
        ));
    }
    for n in 0..course.stalled {
        let large = request(["/large.bin", "/bytes/1000000000"][n % 2]);
        runtime.spawn(streams(server, host(4, n), client(100), large, Arc::clone(done), |done| {
            &done.stalled
        }));
    }
    for n in 0..course.malformed {
        runtime.spawn(malformed(server, host(5, n), client(1 << 20), Arc::clone(done)));
    }
    runtime
}

/// Violations of the bounds (`wrong`), and measurements (`text`).
#[derive(Default)]
struct Report {
    text: String,
    wrong: Vec<String>,
}

impl Report {
    fn say(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{line}");
    }

    fn want(&mut self, holds: bool, what: impl std::fmt::Display) {
        if !holds {
            self.wrong.push(what.to_string());
        }
    }

    fn served(&mut self, course: &Course, quiet: &[[Served; 2]; 2], attacked: &[Served; 2]) {
        for ((n, name), attacked) in ["fresh", "kept"].iter().enumerate().zip(attacked) {
            let [before, after] = [&quiet[0][n], &quiet[1][n]];
            let quiet = if after.p99 > before.p99 { after } else { before };
            let slower = attacked.p99 / quiet.p99;
            self.say(format_args!(
                "  {name}: {} of {} requests whole, {}; p50 {:.2} ms (quiet {:.2}), p99 {:.2} ms (quiet {:.2}), {slower:.2} times",
                attacked.completed,
                attacked.completed + attacked.failed,
                attacked.statuses,
                attacked.p50 * 1e3,
                quiet.p50 * 1e3,
                attacked.p99 * 1e3,
                quiet.p99 * 1e3,
            ));
            let failed = before.failed + after.failed;
            self.want(
                quiet.completed > 0 && failed == 0,
                format!(
                    "{name}: {failed} failed without an attack: {}; {}",
                    before.failures, after.failures
                ),
            );
            let all_ok = attacked.statuses.contains("\"200\"") && !attacked.statuses.contains(',');
            self.want(
                attacked.failed == 0 && all_ok,
                format!(
                    "{name}: {} failed, {}; {}",
                    attacked.failed, attacked.statuses, attacked.failures
                ),
            );
            self.want(
                !course.judged || slower <= SLOWER,
                format!("{name}: p99 is {slower:.2} times the quiet one"),
            );
        }
    }

    fn server(&mut self, course: &Course, samples: &[Sample]) {
        let most = |of: fn(&Sample) -> f64| samples.iter().map(of).fold(0.0, f64::max);
        let (memory, descriptors) = (most(|s| s.memory), most(|s| s.descriptors as f64));
        let first = samples.first().map_or(0.0, |s| s.memory);
        self.say(format_args!(
            "  server: {memory:.1} MB at most ({first:.1} before), {descriptors} descriptors of 1024"
        ));
        self.want(!course.judged || memory < MEMORY, format!("the server took {memory:.1} MB"));
        let unanswered = samples.iter().filter(|s| s.scraped.is_none()).count();
        self.say(format_args!(
            "  metrics: {unanswered} of {} scrapes unanswered after 5 s",
            samples.len()
        ));
        self.want(unanswered == 0, "/metrics fell silent");
    }

    /// Checks the server's own counts, and the number of its log files.
    fn counts(&mut self, scraped: &BTreeMap<String, f64>, files: usize) {
        let counted = |name: &str| scraped.get(name).copied().unwrap_or_default();
        let connections = counted("fathom_connections_total");
        self.say(format_args!(
            "  {connections} connections, {} handshakes failed, {} retries, {} refused; {} slow headers; {} responses abandoned; {files} log files",
            counted("fathom_handshakes_failed_total"),
            counted("fathom_retries_total"),
            counted("fathom_connections_refused_total") + counted("fathom_connections_refused_client_total"),
            counted("fathom_slow_headers_total"),
            counted("fathom_responses_abandoned_total"),
        ));
        // The last scrape may be older than the latest connections.
        self.want(
            files as f64 <= connections + 50.0,
            format!("{files} log files of {connections} connections whose handshake was completed"),
        );
        let malformed = counted("fathom_requests_malformed_total");
        let too_large = counted("fathom_requests_fields_too_large_total");
        self.say(format_args!(
            "  {malformed} requests reset as malformed, {too_large} answered with 431"
        ));
        self.want(malformed > 0.0 && too_large > 0.0, "no request was malformed or too large");
    }
}

struct Sample {
    memory: f64,
    descriptors: usize,
    scraped: Option<BTreeMap<String, f64>>,
}

/// Samples the server's memory, descriptors and metrics until `over` is set.
fn watch(server: &Server, over: &AtomicBool) -> Vec<Sample> {
    let mut samples = Vec::new();
    loop {
        let (memory, descriptors) = resident(server.child.id());
        samples.push(Sample { memory, descriptors, scraped: scrape(server.metrics) });
        if over.load(Ordering::Relaxed) {
            return samples;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn withstand(stack: &str, course: &Course) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("www");
    std::fs::create_dir(&root).expect("a folder");
    for (name, size) in [("page.html", 10_000), ("image.bin", 200_000), ("large.bin", 20_000_000)] {
        std::fs::write(root.join(name), vec![7; size]).expect("written");
    }
    let server = serve(stack, folder.path());
    // Memory for one-time work, such as the tables of the first connection, must not be counted.
    request_for(server.address, 1);
    let quiet = request_for(server.address, course.quiet);
    let done = Arc::new(Done::default());
    let over = AtomicBool::new(false);
    let (attacked, samples) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&server, &over));
        let attack = attack(server.address, server.metrics, course, &done);
        let attacked = request_for(server.address, course.attack);
        attack.shutdown_background();
        over.store(true, Ordering::Relaxed);
        (attacked, watcher.join().expect("samples"))
    });
    let files = std::fs::read_dir(folder.path().join("logs")).expect("the logs").count();
    // Other load on the machine varies, so the quiet times are the slower ones of before and after.
    let quiet = [quiet, request_for(server.address, course.quiet)];

    let mut report = Report::default();
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    report.say(format_args!(
        "{stack}, {} s: {} junk Initials ({JUNK}/s), {} clients that say no more, {} half requests on {} connections, {} unread \
         responses on {}, {} malformed requests, {} scrapers that say nothing",
        course.attack,
        of(&done.junk),
        of(&done.silent),
        of(&done.half),
        course.half,
        of(&done.stalled),
        course.stalled,
        of(&done.malformed),
        of(&done.scrapes),
    ));
    report.served(course, &quiet, &attacked);
    report.server(course, &samples);
    let last = samples.iter().rev().find_map(|s| s.scraped.as_ref()).cloned().unwrap_or_default();
    report.counts(&last, files);
    let words = server.end();
    report.want(!words.contains("panicked"), format!("the server panicked: {words}"));
    println!("{}", report.text);
    assert!(
        report.wrong.is_empty(),
        "{}\n{}run again: {}",
        report.wrong.join("\n"),
        report.text,
        course.name
    );
}

#[test]
fn quinn_server_survives_a_short_attack() {
    withstand("quinn", &SHORT);
}

#[test]
fn noq_server_survives_a_short_attack() {
    withstand("noq", &SHORT);
}

#[cfg(feature = "quiche")]
#[test]
fn quiche_server_survives_a_short_attack() {
    withstand("quiche", &SHORT);
}

#[test]
#[ignore = "takes a minute: make soak"]
fn quinn_server_survives_a_minute_of_attack() {
    withstand("quinn", &LONG);
}

#[test]
#[ignore = "takes a minute: make soak"]
fn noq_server_survives_a_minute_of_attack() {
    withstand("noq", &LONG);
}

#[cfg(feature = "quiche")]
#[test]
#[ignore = "takes a minute: make soak"]
fn quiche_server_survives_a_minute_of_attack() {
    withstand("quiche", &LONG);
}
