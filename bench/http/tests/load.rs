//! Loads against a server in the same process.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fathom_http::identity::Identity;
use fathom_http::limits::Limits;
use fathom_http::load::{
    self, Arrival, FailureKind, LoadConfig, LoadError, LoadReport, Origin, Outputs, PoolSize,
    Progress, STREAM_WINDOW, Spacing, Timestamps, Traffic, Trust,
};
use fathom_http::metrics::Metrics;
use fathom_http::probe;
use fathom_http::server::{Server, Settings};
use fathom_http::site::Site;
use fathom_http::udp;
use fathom_qlog::LogFolder;
use fathom_stacks::Stack;
use http::Uri;
use http::uri::Authority;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{VarInt, WriteError};
use tokio::sync::{mpsc, watch};

/// Time limit that only a test that hangs reaches, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

struct Running {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

fn serve(stack: Stack, controller: &str, limits: Limits) -> Running {
    serve_as(Identity::self_signed(&[]).unwrap(), stack, controller, limits)
}

fn serve_as(identity: Identity, stack: Stack, controller: &str, limits: Limits) -> Running {
    serve_site(identity, stack, controller, limits, Site::new(None, limits).unwrap())
}

fn serve_site(
    identity: Identity,
    stack: Stack,
    controller: &str,
    limits: Limits,
    site: Site,
) -> Running {
    serve_offering(Timestamps::Any, (identity, stack, controller), limits, site, None)
}

fn serve_offering(
    timestamps: Timestamps,
    (identity, stack, controller): (Identity, Stack, &str),
    limits: Limits,
    site: Site,
    logs: Option<&Arc<LogFolder>>,
) -> Running {
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        stack,
        shares: controller.parse().unwrap(),
        identity,
        site,
        limits,
        metrics: Arc::default(),
        timestamps,
        tcp: None,
        sockets: None,
    };
    let metrics = Arc::clone(&settings.metrics);
    let mut server = Server::bind(settings).unwrap();
    if let Some(logs) = logs {
        server = server.logging(Arc::clone(logs));
    }
    let (address, (stop, stopped)) = (server.address(), watch::channel(false));
    let task = tokio::spawn(server.serve(stopped, Duration::from_secs(1)));
    Running { address, metrics, stop, task }
}

fn origin(address: SocketAddr) -> Origin {
    Origin::new(Authority::from_static("localhost"), address)
}

fn config(address: SocketAddr, traffic: Traffic) -> LoadConfig {
    LoadConfig {
        stack: Stack::Quinn,
        origin: origin(address),
        traffic,
        warm_up: Duration::ZERO,
        duration: None,
        requests: None,
        timeout: PATIENCE,
        timestamps: Timestamps::Lean,
        trust: Trust::Insecure,
        zero_rtt: false,
        check_digests: false,
        headers: http::HeaderMap::new(),
        stream_window: STREAM_WINDOW,
    }
}

fn closed(address: SocketAddr, connections: usize, streams: usize, paths: &[&str]) -> Traffic {
    let urls = paths.iter().map(|path| origin(address).url(path).unwrap()).collect();
    Traffic::Closed(PoolSize { connections, streams }, urls)
}

fn at_rate(address: SocketAddr, rate: f64, path: &str, kept: Option<PoolSize>) -> Traffic {
    let urls: Vec<Uri> = vec![origin(address).url(path).unwrap()];
    Traffic::Open(Box::new(load::at_rate(rate, Spacing::Even, 1, urls)), kept)
}

async fn run(config: LoadConfig) -> Result<LoadReport, LoadError> {
    let (_stop, stopped) = watch::channel(false);
    load::run(config, Outputs::default(), stopped, |_| {}).await
}

fn failures(outcome: &LoadReport, kind: FailureKind) -> u64 {
    outcome.counts.failures[kind as usize].0
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// `fathom load` runs on quinn and noq; a server runs on quiche too.
#[tokio::test(flavor = "multi_thread")]
async fn stacks_measure_delays_by_receive_timestamps_with_each_other() {
    for server_stack in Stack::ALL.iter().copied() {
        for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
            let limits = Limits::default();
            let dir = tempfile::tempdir().unwrap();
            let folder = Arc::new(LogFolder::open(dir.path()).unwrap());
            let server = serve_offering(
                Timestamps::Receive,
                (Identity::self_signed(&[]).unwrap(), server_stack, "sync"),
                limits,
                Site::new(None, limits).unwrap(),
                Some(&folder),
            );
            let traffic = closed(server.address, 3, 4, &["/bytes/1000", "/bytes/200000"]);
            let timestamps = Timestamps::Receive;
            let outcome = run(LoadConfig {
                stack,
                timestamps,
                requests: Some(100),
                ..config(server.address, traffic)
            })
            .await;
            let outcome = outcome.unwrap();
            assert_eq!(
                (outcome.counts.completed, outcome.counts.failed()),
                (100, 0),
                "{stack} of {server_stack}"
            );
            let connections = &outcome.connections;
            let found =
                (connections.one_way, connections.by_receive_timestamps, connections.by_timestamp);
            assert_eq!(found, (3, 3, 0), "{stack} of {server_stack}");
            assert!(
                connections.queueing.count() > 0,
                "{stack} of {server_stack}: the server's frames gave no delay"
            );
            // Connections are counted when they end.
            let end = async {
                while !server.metrics.text().contains("extension=\"receive\"") {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, end).await.expect("counted");
            server.stop.send(true).unwrap();
            tokio::time::timeout(PATIENCE, server.task).await.expect("ended").unwrap();
            folder.finish();
            let files = std::fs::read_dir(dir.path()).unwrap();
            let logs: Vec<_> =
                files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
            let event = "\"fathom:timestamps_negotiated\",\"data\":{\"frame\":\"receive\"}";
            assert!(
                logs.iter().all(|log| log.matches(event).count() == 1),
                "{stack} of {server_stack}: {logs:?}"
            );
            // A connection may be established too late to carry requests.
            assert!(
                logs.iter().any(|log| log.contains("fathom:one_way_delay")),
                "{stack} of {server_stack}: {logs:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_loop_counts_each_request_once_on_both_stacks() {
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for timestamps in [
            Timestamps::Any,
            Timestamps::Lean,
            Timestamps::Paper,
            Timestamps::Timestamp,
            Timestamps::Receive,
            Timestamps::Off,
        ] {
            let server = serve(stack, "sync:signal=either", Limits::default());
            let traffic =
                closed(server.address, 3, 4, &["/bytes/1000", "/bytes/20000", "/nothing"]);
            let outcome = run(LoadConfig {
                stack,
                timestamps,
                requests: Some(300),
                ..config(server.address, traffic)
            })
            .await;
            let outcome = outcome.unwrap();
            let counts = &outcome.counts;
            assert_eq!(
                (counts.started, counts.completed, counts.failed(), counts.unfinished),
                (300, 200, 100, 0)
            );
            assert_eq!(
                counts.statuses.iter().map(|(s, n)| (*s, *n)).collect::<Vec<_>>(),
                [(200, 200), (404, 100)]
            );
            assert_eq!(failures(&outcome, FailureKind::Status), 100);
            assert_eq!((counts.bytes_in_time, outcome.phases.service.count()), (2_100_000, 200));
            assert_eq!((outcome.connections.opened, outcome.phases.connect.count()), (3, 3));
            // By default a server offers no receive timestamps.
            let none = [Timestamps::Off, Timestamps::Receive].contains(&timestamps);
            let expected = if none { 0 } else { 3 };
            assert_eq!(outcome.connections.one_way, expected, "{stack} {timestamps}");
            assert!(
                outcome.connections.queueing.count() == expected || timestamps != Timestamps::Paper
            );
            let by_timestamp = if timestamps == Timestamps::Timestamp { 3 } else { 0 };
            assert_eq!(outcome.connections.by_timestamp, by_timestamp, "{stack} {timestamps}");
            let text = server.metrics.text();
            let used = match timestamps {
                _ if none => "none",
                Timestamps::Timestamp => "timestamp",
                _ => "sync",
            };
            // Connections are counted when they end.
            let end = async {
                while !server.metrics.text().contains(&format!("extension=\"{used}\"")) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(PATIENCE, end).await.expect(&text);
            assert!(
                outcome.rate() > 0.0 && outcome.connections.rtt.count() == 3 && !outcome.open_loop
            );
            server.stop.send(true).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_connections_all_get_responses() {
    const MANY: usize = 2_000;
    for stack in Stack::ALL.iter().copied() {
        // Long enough for a slow machine.
        let slow = Duration::from_secs(600);
        let server =
            serve(stack, "sync:signal=either", Limits { idle_timeout: slow, ..Limits::default() });
        let traffic = closed(server.address, MANY, 1, &["/bytes/10000"]);
        let stack = if stack.on_rustls() { stack } else { Stack::Quinn };
        let config = LoadConfig {
            stack,
            timeout: slow,
            requests: Some(2 * MANY as u64),
            ..config(server.address, traffic)
        };
        let outcome = run(config).await.unwrap();
        let counts = &outcome.counts;
        assert_eq!(
            (counts.completed, counts.failed(), counts.unfinished),
            (2 * MANY as u64, 0, 0),
            "{counts:?}"
        );
        // Fewer connections if the requests are over before the last handshakes.
        assert!(outcome.connections.opened <= MANY as u64);
        server.stop.send(true).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn servers_request_large_socket_buffers() {
    let bound = |name: &str| -> usize {
        std::fs::read_to_string(format!("/proc/sys/net/core/{name}"))
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    };
    // The last ones use a shaping socket, because the stacks cannot do this themselves.
    let all = Stack::ALL.iter().map(|stack| (*stack, "reno"));
    for (stack, controller) in all.chain([(Stack::Quinn, "sdc"), (Stack::Noq, "packet-size")]) {
        let limits = Limits::default();
        let settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            stack,
            shares: controller.parse().unwrap(),
            identity: Identity::self_signed(&[]).unwrap(),
            site: Site::new(None, limits).unwrap(),
            limits,
            metrics: Arc::default(),
            timestamps: Timestamps::Any,
            tcp: None,
            sockets: None,
        };
        let buffers = Server::bind(settings).unwrap().buffers();
        assert!(
            buffers.receive >= udp::BUFFER_SIZE.min(bound("rmem_max")),
            "{stack} {controller}: {buffers:?}"
        );
        assert!(
            buffers.send >= udp::BUFFER_SIZE.min(bound("wmem_max")),
            "{stack} {controller}: {buffers:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_verified_by_digest() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(folder.path().join("file"), &bytes).unwrap();
    for stack in Stack::ALL.iter().copied() {
        let limits = Limits::default();
        let site = Site::new(Some(folder.path()), limits).unwrap();
        let server = serve_site(
            Identity::self_signed(&[]).unwrap(),
            stack,
            "sync:signal=either",
            limits,
            site,
        );
        let traffic =
            closed(server.address, 2, 2, &["/file", "/bytes/100000", "/bytes/0", "/nothing"]);
        // The load generator does not run on quiche.
        let stack = if stack.on_rustls() { stack } else { Stack::Quinn };
        let config = LoadConfig {
            stack,
            check_digests: true,
            requests: Some(80),
            ..config(server.address, traffic)
        };
        let outcome = run(config).await.unwrap();
        assert_eq!(
            (outcome.counts.completed, failures(&outcome, FailureKind::Status)),
            (60, 20),
            "{:?}",
            outcome.counts
        );
        assert_eq!(failures(&outcome, FailureKind::Digest), 0);
        server.stop.send(true).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_keeps_its_schedule_on_all_connections() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    for (stack, kept) in [
        (Stack::Quinn, None),
        (Stack::Noq, None),
        (Stack::Quinn, Some(PoolSize { connections: 4, streams: 1 })),
        (Stack::Noq, Some(PoolSize { connections: 2, streams: 8 })),
    ] {
        let traffic = at_rate(server.address, 100.0, "/bytes/500", kept);
        let (warm_up, duration) = (Duration::from_millis(200), Some(Duration::from_millis(400)));
        let outcome =
            run(LoadConfig { stack, warm_up, duration, ..config(server.address, traffic) })
                .await
                .unwrap();
        let counts = &outcome.counts;
        assert_eq!((counts.started, counts.completed), (40, 40), "{stack} {kept:?}: {counts:?}");
        let made = outcome.connections.opened;
        // Includes connections of the warm-up.
        assert!(
            kept.map_or(made == 59, |kept| made <= kept.connections as u64),
            "{stack} {kept:?}: {made}"
        );
        assert!(outcome.open_loop && outcome.phases.lag.count() == 40);
        // On a busy machine, some end too late to count.
        assert!(
            counts.in_time <= 40 && (outcome.rate() - counts.in_time as f64 / 0.4).abs() < 1e-6,
            "{counts:?}"
        );
        assert_eq!(outcome.window, Duration::from_millis(400));
    }
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_holds_the_server_back_is_counted() {
    let server = serve(Stack::Quinn, "cubic", Limits::default());
    for (stream_window, path, blocked) in
        [(16 << 10, "/bytes/4000000", 2), (STREAM_WINDOW, "/bytes/1000", 0)]
    {
        let traffic = closed(server.address, 2, 1, &[path]);
        let config =
            LoadConfig { requests: Some(4), stream_window, ..config(server.address, traffic) };
        let outcome = run(config).await.unwrap();
        assert_eq!(
            (outcome.counts.completed, outcome.connections.server_blocked),
            (4, blocked),
            "{path}"
        );
    }
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_connection_counts_as_response_time() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let kept = Some(PoolSize { connections: 1, streams: 1 });
    let traffic = at_rate(server.address, 50.0, "/delay/100/bytes/1", kept);
    let outcome =
        run(LoadConfig { requests: Some(10), ..config(server.address, traffic) }).await.unwrap();
    let (service, response) = (&outcome.phases.service, &outcome.phases.response);
    // In sequence, the requests take 1 s, although they were scheduled within 200 ms.
    assert!(response.max().unwrap() >= Duration::from_millis(750), "{:?}", response.max());
    // Waiting is not part of the service time. If requests wait for each other, the sum of all
    // service times is at most the longest wait plus one service time.
    let (service, longest) = (service.quantile(0.5).unwrap(), response.max().unwrap());
    assert!(service < longest / 2, "{service:?} of {longest:?}");
    // Requests arrive every 20 ms, or late and in bursts, and take 100 ms each.
    assert!(outcome.counts.waited >= 5, "{:?}", outcome.counts);
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_and_interval_log_are_written_during_the_run() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let url = |path: &str| origin(server.address).url(path).unwrap();
    let at = Duration::from_millis;
    let arrivals = [(0, "/bytes/10"), (400, "/bytes/7?a=1,2"), (1_300, "/nothing")]
        .map(|(ms, path)| Arrival { at: at(ms), url: url(path) });
    let traffic = Traffic::Open(Box::new(arrivals.into_iter()), None);
    let (rows, intervals) = (Memory::default(), Memory::default());
    let outputs = Outputs {
        rows: Some(Box::new(rows.clone())),
        intervals: Some(Box::new(intervals.clone())),
    };
    let (_stop, stopped) = watch::channel(false);
    let mut seen = Vec::new();
    let outcome =
        load::run(config(server.address, traffic), outputs, stopped, |p: &Progress| seen.push(*p))
            .await
            .unwrap();
    assert_eq!(outcome.rows_lost, 0);
    let text = rows.text();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.splitn(10, ',').collect()).collect();
    assert_eq!((lines.len(), lines[0].join(",")), (4, load::COLUMNS.to_owned()), "{text}");
    assert_eq!(
        (lines[1][0], lines[1][6], lines[1][7], lines[1][9]),
        ("0.000000", "10", "200", "/bytes/10")
    );
    assert_eq!((lines[2][0], lines[2][9]), ("0.400000", "\"/bytes/7?a=1,2\""));
    assert_eq!((lines[3][7], lines[3][8] != lines[1][8]), ("status", true));
    let number = |row: usize, column: usize| lines[row][column].parse::<f64>().unwrap();
    for row in 1..4 {
        let [connect, first, service, response] = [2, 3, 4, 5].map(|column| number(row, column));
        assert!(
            0.0 < connect && connect < first && first <= service && service <= response,
            "{text}"
        );
        assert!(number(row, 0) <= number(row, 1));
    }
    let log = intervals.text();
    assert!(log.lines().filter(|l| l.starts_with("Tag=response,")).count() >= 2, "{log}");
    assert!(
        log.starts_with("#[Histogram log format version 1.3]") && log.contains("#[StartTime: ")
    );
    assert!(
        seen.len() >= 2 && seen.last().unwrap().done == 3 && seen.last().unwrap().failed == 1,
        "{seen:?}"
    );
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_and_resets_are_counted_by_kind() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    // The handshake must complete within this time.
    let timeout = Duration::from_secs(2);
    let traffic = closed(server.address, 1, 2, &["/delay/60000/bytes/1"]);
    let outcome = run(LoadConfig { requests: Some(4), timeout, ..config(server.address, traffic) })
        .await
        .unwrap();
    assert_eq!(
        (failures(&outcome, FailureKind::Timeout), outcome.counts.completed),
        (4, 0),
        "{:?}",
        outcome.counts
    );
    // The server stops in the middle of the run.
    let traffic =
        at_rate(server.address, 20.0, "/bytes/10", Some(PoolSize { connections: 1, streams: 1 }));
    let config = LoadConfig {
        timeout,
        duration: Some(Duration::from_secs(2)),
        ..config(server.address, traffic)
    };
    let (_stop, stopped) = watch::channel(false);
    let gone = |progress: &Progress| {
        if progress.done >= 5 {
            server.stop.send_replace(true);
        }
    };
    let outcome = load::run(config, Outputs::default(), stopped, gone).await.unwrap();
    server.task.await.unwrap();
    let failed = [FailureKind::Connect, FailureKind::Reset].map(|kind| failures(&outcome, kind));
    assert!(outcome.counts.completed >= 5 && failed[0] >= 1, "{:?}", outcome.counts);
    assert_eq!(outcome.counts.completed + outcome.counts.failed(), 39);
    assert!(outcome.counts.failures[0].1.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_reports_its_results() {
    let server = serve(Stack::Quinn, "reno", Limits::default());
    for (traffic, done) in [
        // Four of the eight requests are answered; the others occupy all streams.
        (closed(server.address, 2, 2, &["/bytes/100", "/delay/60000/bytes/1"]), 4),
        (at_rate(server.address, 100.0, "/delay/60000/bytes/1", None), 0),
    ] {
        let (stop, stopped) = watch::channel(false);
        let config = LoadConfig {
            duration: Some(Duration::from_secs(600)),
            ..config(server.address, traffic)
        };
        let end = |progress: &Progress| {
            if progress.open >= 4 && progress.done == done {
                stop.send_replace(true);
            }
        };
        let outcome = load::run(config, Outputs::default(), stopped, end).await.unwrap();
        let counts = &outcome.counts;
        assert!(counts.unfinished >= 4 && counts.completed == done, "{counts:?}");
        assert!(
            outcome.window < Duration::from_secs(300) && !outcome.window.is_zero(),
            "{:?}",
            outcome.window
        );
    }
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_named() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = nobody.local_addr().unwrap();
    let traffic = closed(at, 1, 1, &["/"]);
    let error = run(LoadConfig { timeout: Duration::from_millis(200), ..config(at, traffic) })
        .await
        .unwrap_err();
    let line = error.to_string();
    assert!(
        matches!(error, LoadError::Unreachable(..)) && line.contains(&at.to_string()),
        "{line}"
    );
    // A certificate that no trusted root has signed.
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let roots = tempfile::NamedTempFile::new().unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(roots.path(), other.cert.pem()).unwrap();
    let trust = Trust::File(roots.path().to_owned());
    let line =
        run(LoadConfig { trust, ..config(server.address, closed(server.address, 1, 1, &["/"])) })
            .await;
    let line = line.unwrap_err().to_string();
    assert!(line.contains("certificate") && !line.contains('\n'), "{line}");
    let trust = Trust::File("/nowhere.pem".into());
    let line =
        run(LoadConfig { trust, ..config(server.address, closed(server.address, 1, 1, &["/"])) })
            .await;
    assert!(line.unwrap_err().to_string().contains("/nowhere.pem"));
    let zero_rtt = run(LoadConfig {
        zero_rtt: true,
        ..config(server.address, closed(server.address, 1, 1, &["/"]))
    })
    .await;
    assert!(zero_rtt.unwrap_err().to_string().contains("--connections fresh"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_checked_against_the_named_roots() {
    let folder = tempfile::tempdir().unwrap();
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let server =
        serve_as(Identity::read(&cert, &key).unwrap(), Stack::Noq, "reno", Limits::default());
    let (traffic, trust) = (closed(server.address, 1, 1, &["/bytes/3"]), Trust::File(cert));
    let outcome = run(LoadConfig { trust, requests: Some(2), ..config(server.address, traffic) })
        .await
        .unwrap();
    assert_eq!(outcome.counts.completed, 2);
    server.stop.send(true).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_zero_rtt_saves_a_round_trip() {
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for (serving, controller) in
            [(Stack::Quinn, "sync:signal=either"), (Stack::Noq, "native:cubic")]
        {
            let server =
                serve(serving, controller, Limits { early_data: true, ..Limits::default() });
            let traffic = at_rate(server.address, 50.0, "/bytes/5000", None);
            let config = LoadConfig {
                stack,
                zero_rtt: true,
                requests: Some(50),
                ..config(server.address, traffic)
            };
            let outcome = run(config).await.unwrap();
            assert_eq!(outcome.counts.completed, 50, "{stack} at {serving}: {:?}", outcome.counts);
            let of = &outcome.connections;
            // On a busy machine, a ticket may arrive too late.
            assert_eq!(
                (of.early_accepted + of.early_without, of.early_rejected),
                (50, 0),
                "{stack} at {serving}"
            );
            assert!(of.early_accepted > 0, "{stack} at {serving}: {of:?}");
            assert!(
                server.metrics.text().contains("status=\"200\"} 50"),
                "{}",
                server.metrics.text()
            );
            server.stop.send(true).unwrap();
        }
    }
    // A server that accepts no 0-RTT.
    let server = serve(Stack::Quinn, "reno", Limits::default());
    let traffic = at_rate(server.address, 50.0, "/bytes/5000", None);
    let config =
        LoadConfig { zero_rtt: true, requests: Some(10), ..config(server.address, traffic) };
    let outcome = run(config).await.unwrap();
    assert_eq!((outcome.counts.completed, outcome.connections.early_without), (10, 10));
    server.stop.send(true).unwrap();
}

/// Session store of a server that issues tickets but recognises none.
#[derive(Debug)]
struct Forgetful;

impl rustls::server::StoresServerSessions for Forgetful {
    fn put(&self, _: Vec<u8>, _: Vec<u8>) -> bool {
        true
    }

    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Starts a server that answers with five bytes and `promised` as the content-length. The server
/// offers 0-RTT but rejects it.
fn odd_server(promised: &'static str) -> SocketAddr {
    let identity = Identity::self_signed(&[]).unwrap();
    let mut tls = (*identity.server_with_early_data().unwrap()).clone();
    tls.session_storage = Arc::new(Forgetful);
    let crypto = QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(async move {
                let connection = h3_quinn::Connection::new(incoming.await.ok()?);
                let mut http =
                    h3::server::Connection::<_, bytes::Bytes>::new(connection).await.ok()?;
                while let Some(resolver) = http.accept().await.ok()? {
                    let (_, mut stream) = resolver.resolve_request().await.ok()?;
                    let head = http::Response::builder()
                        .header("content-length", promised)
                        .body(())
                        .unwrap();
                    stream.send_response(head).await.ok()?;
                    stream.send_data(bytes::Bytes::from_static(b"12345")).await.ok()?;
                    stream.finish().await.ok()?;
                }
                Some(())
            });
        }
    });
    address
}

/// A frame length of 2^40 as a varint.
const ENDLESS: u64 = 0xc0 << 56 | 1 << 40;
/// Status 200 in a HEADERS frame: field 25 of QPACK's static table.
const OK: &[u8] = b"\x01\x03\x00\x00\xd9";

/// Bytes that arrive before a busy client reads: 16 MiB, the credit returned for up to 1 MiB of a
/// control stream, and some margin.
const WINDOW: u64 = 20 << 20;

/// Stream on which the server writes.
#[derive(Clone, Copy)]
enum On {
    Answer,
    Control,
}

/// Starts a server that writes `begin` once and then `more` repeatedly. The channel reports how
/// many bytes it wrote, and the error that stopped it.
fn endless_server(
    on: On,
    begin: Vec<u8>,
    more: Vec<u8>,
) -> (SocketAddr, mpsc::UnboundedReceiver<(u64, WriteError)>) {
    let crypto = QuicServerConfig::try_from(
        (*Identity::self_signed(&[]).unwrap().server().unwrap()).clone(),
    )
    .unwrap();
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    // Limits the unsent part of the written data.
    Arc::get_mut(&mut config.transport).unwrap().send_window(64 << 10);
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    let (end, ends) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let (begin, more, end) = (begin.clone(), more.clone(), end.clone());
            tokio::spawn(async move {
                let connection = incoming.await.ok()?;
                let mut control = connection.open_uni().await.ok()?;
                control.write_all(b"\x00\x04\x00").await.ok()?;
                let (mut answer, _request) = connection.accept_bi().await.ok()?;
                let stream = match on {
                    On::Answer => &mut answer,
                    On::Control => &mut control,
                };
                stream.write_all(&begin).await.ok()?;
                let mut written = 0;
                loop {
                    match stream.write_all(&more).await {
                        Ok(()) => written += more.len() as u64,
                        Err(why) => return end.send((written, why)).ok(),
                    }
                }
            });
        }
    });
    (address, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_frame_of_a_server_is_not_buffered() {
    let (endless, zeros) = (ENDLESS.to_be_bytes(), vec![0; 4096]);
    let excessive = WriteError::Stopped(VarInt::from_u32(0x107));
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for begin in [
            // HEADERS; a reserved frame (RFC 9114 §7.2.8); a reserved frame after a header;
            // trailers.
            [b"\x01", &endless[..]].concat(),
            [b"\x21", &endless[..]].concat(),
            [OK, b"\x21", &endless].concat(),
            [OK, b"\x00\x01a\x01", &endless].concat(),
        ] {
            let (address, mut ends) = endless_server(On::Answer, begin, zeros.clone());
            let config = config(address, closed(address, 1, 1, &["/"]));
            let outcome = run(LoadConfig { stack, requests: Some(1), ..config }).await.unwrap();
            let (failed, why) = &outcome.counts.failures[FailureKind::Reset as usize];
            assert_eq!(*failed, 1, "{stack}: {:?}", outcome.counts);
            assert!(why.as_ref().unwrap().contains("more than its bound"), "{stack}: {why:?}");
            let (written, why) = ends.recv().await.unwrap();
            assert_eq!(why, excessive, "{stack}");
            assert!(written < WINDOW, "{stack}: {written}");
        }
        // On the control stream, such a frame ends the connection.
        let (address, mut ends) =
            endless_server(On::Control, [b"\x21", &endless[..]].concat(), zeros.clone());
        let config = config(address, closed(address, 1, 1, &["/"]));
        let outcome = run(LoadConfig { stack, requests: Some(1), ..config }).await.unwrap();
        assert_eq!(failures(&outcome, FailureKind::Reset), 1, "{stack}: {:?}", outcome.counts);
        let (written, _) = ends.recv().await.unwrap();
        assert!(written < WINDOW, "{stack}: {written}");
    }
    let (address, mut ends) = endless_server(On::Answer, [b"\x01", &endless[..]].concat(), zeros);
    let options = probe::ProbeOptions { trust: Trust::Insecure, ..Default::default() };
    let (origin, url) = (origin(address), origin(address).url("/").unwrap());
    let answer = probe::probe(&origin, &url, &options).await.unwrap();
    assert!(
        matches!(&answer.verdict, probe::ExtensionSupport::Unreachable(why) if why.contains("bound")),
        "{answer:?}"
    );
    assert!(ends.recv().await.unwrap().0 < WINDOW);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_small_frames_is_flow_controlled() {
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        let (address, mut ends) =
            endless_server(On::Answer, OK.to_vec(), b"\x00\x01a".repeat(1_000));
        let traffic = closed(address, 1, 1, &["/"]);
        let timeout = Duration::from_secs(2);
        let outcome =
            run(LoadConfig { stack, timeout, requests: Some(1), ..config(address, traffic) })
                .await
                .unwrap();
        // The request times out. noq 1.4 gives up earlier: it counts 2,048 unread packets as gaps,
        // as quinn once did (quinn-rs/quinn#2809).
        assert_eq!(outcome.counts.failed(), 1, "{stack}: {:?}", outcome.counts);
        let (written, _) = ends.recv().await.unwrap();
        let read = outcome.counts.bytes * 3;
        // `h3` alone would buffer hundreds of megabytes and give credit for them.
        assert!(written < read + WINDOW, "{stack}: {written}, of which {read} were read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_lost_in_0rtt_is_sent_again() {
    let address = odd_server("5");
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        let traffic = at_rate(address, 50.0, "/", None);
        let outcome = run(LoadConfig {
            stack,
            zero_rtt: true,
            requests: Some(10),
            ..config(address, traffic)
        })
        .await
        .unwrap();
        let of = &outcome.connections;
        assert_eq!(
            (outcome.counts.completed, of.early_rejected, of.early_accepted),
            (10, 10, 0),
            "{stack} {outcome:?}"
        );
        assert_eq!((of.opened, outcome.phases.connect.count()), (10, 10));
    }
}

#[cfg(feature = "quiche")]
#[tokio::test]
async fn quiche_is_rejected_as_a_client() {
    let address = "127.0.0.1:9".parse().unwrap();
    let config =
        LoadConfig { stack: Stack::Quiche, ..config(address, closed(address, 1, 1, &["/"])) };
    assert!(run(config).await.unwrap_err().to_string().contains("quinn or noq"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_wrong_length_is_a_failure() {
    let address = odd_server("7");
    let outcome =
        run(LoadConfig { requests: Some(3), ..config(address, closed(address, 1, 1, &["/"])) })
            .await
            .unwrap();
    assert_eq!(
        (failures(&outcome, FailureKind::Body), outcome.counts.bytes),
        (3, 15),
        "{:?}",
        outcome.counts
    );
}

/// Starts a server that answers every request with these bytes and the end of the stream.
fn fixed_server(answer: Vec<u8>) -> SocketAddr {
    let crypto = QuicServerConfig::try_from(
        (*Identity::self_signed(&[]).unwrap().server().unwrap()).clone(),
    )
    .unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let connection = incoming.await.ok()?;
                let mut control = connection.open_uni().await.ok()?;
                control.write_all(b"\x00\x04\x00").await.ok()?;
                while let Ok((mut send, _request)) = connection.accept_bi().await {
                    send.write_all(&answer).await.ok()?;
                    send.finish().ok()?;
                }
                Some(())
            });
        }
    });
    address
}

/// Returns a HEADERS frame of entries of QPACK's static table and literal fields (RFC 9204 §4.5).
fn head(status: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = [b"\0\0", status].concat();
    for (name, value) in fields {
        // Names have less than 7 + 128 bytes, values less than 127.
        section.extend_from_slice(&[0x27, u8::try_from(name.len() - 7).unwrap()]);
        section.extend_from_slice(name.as_bytes());
        section.push(u8::try_from(value.len()).unwrap());
        section.extend_from_slice(value.as_bytes());
    }
    [&[1, u8::try_from(section.len()).unwrap()], &section[..]].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_responses_are_whole_or_fail_with_a_reason() {
    let ok = |frames: &[u8]| [OK, frames].concat();
    let early_hints = head(b"\xd8", &[]);
    for stack in Stack::ALL.iter().copied().filter(|stack| stack.on_rustls()) {
        for (what, answer, bytes) in [
            ("empty DATA frames", ok(b"\0\0\0\x01a\0\0\0\x01b\0\0"), 2),
            ("an interim response", [&early_hints[..], &early_hints, OK, b"\0\x02ab"].concat(), 2),
            ("trailers", ok(b"\0\x02ab\x01\x02\0\0"), 2),
        ] {
            let address = fixed_server(answer);
            let config = config(address, closed(address, 1, 1, &["/"]));
            let outcome = run(LoadConfig { stack, requests: Some(5), ..config }).await.unwrap();
            assert_eq!(
                (outcome.counts.completed, outcome.counts.bytes),
                (5, 5 * bytes),
                "{stack}, {what}"
            );
        }
        for (what, answer, reason) in [
            ("DATA cut off at once", ok(b"\0\x20"), "H3_FRAME_ERROR"),
            ("DATA cut off later", ok(b"\0\x20abc"), "H3_FRAME_ERROR"),
            ("HEADERS cut off", b"\x01\x20\0\0".to_vec(), "H3_FRAME_ERROR"),
            ("no header", Vec::new(), "without a header"),
            ("a header and another", [OK, OK].concat(), "':status' is in the trailers"),
            ("two statuses", head(b"\xd9\xd9", &[]), "':status' comes twice"),
            ("no status", head(b"", &[]), "':status' is missing"),
            ("a path", head(b"\xd9\xc1", &[]), "':path'"),
            ("a field of HTTP/1.1", head(b"\xd9", &[("connection", "close")]), "'connection'"),
            ("chunked", head(b"\xd9", &[("transfer-encoding", "chunked")]), "'transfer-encoding'"),
            ("an upper-case name", head(b"\xd9", &[("X-Upper-Case", "a")]), "X-Upper-Case"),
            ("a push promise", ok(b"\x05\x03\0\0\0"), "H3_ID_ERROR"),
            ("an undecodable header", b"\x01\x03\0\0\x80".to_vec(), "QPACK_DECOMPRESSION_FAILED"),
        ] {
            let address = fixed_server(answer);
            let config = config(address, closed(address, 1, 1, &["/"]));
            let outcome = run(LoadConfig { stack, requests: Some(3), ..config }).await.unwrap();
            let (failed, why) = &outcome.counts.failures[FailureKind::Protocol as usize];
            assert_eq!(*failed, 3, "{stack}, {what}: {:?}", outcome.counts);
            assert!(why.as_ref().unwrap().contains(reason), "{stack}, {what}: {why:?}");
        }
    }
}
