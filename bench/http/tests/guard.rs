//! Clients try to exhaust a server's connections, files, descriptors or time. Tests that such
//! clients are limited and that other clients are served meanwhile.

use crate::common;

use std::io::{self, Write};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use common::{Running, settings, start, start_logging, start_with};
use fathom_http::descriptors::Descriptors;
use fathom_http::limits::Limits;
use fathom_http::server::Scrape;
use fathom_http::site::Site;
use fathom_qlog::{CongestionStateChange, Event, LogFolder, LogLimits, TraceHeader, VantagePoint};
use fathom_stacks::Stack;
use http::{Request, StatusCode};
use quinn::{Connection, ReadError, TransportConfig, VarInt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Waits for a future, with a time limit that also suits a loaded machine.
async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), what).await.expect("in time")
}

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;
type RequestStream = h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

fn get(path: &str) -> Request<()> {
    Request::get(format!("https://localhost{path}")).body(()).unwrap()
}

/// Returns a connection on which this path was requested.
async fn asker(running: &Running, path: &str) -> (Sender, RequestStream) {
    let connection = within(running.connect()).await.unwrap();
    let (mut driver, mut sender) =
        h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
    tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    let mut request = sender.send_request(get(path)).await.unwrap();
    let _ = request.finish().await;
    (sender, request)
}

/// Returns a metric's counter without labels.
fn count(running: &Running, name: &str) -> u64 {
    let text = running.metrics.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
}

/// Returns a datagram that looks like a client's first packet but whose protected part is noise.
fn junk(number: u32) -> Vec<u8> {
    let mut packet = vec![0xa5; 1_200];
    packet[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
    packet[6..14].copy_from_slice(&(u64::from(number) << 20 | 0xf00d).to_be_bytes());
    // The packet has no source connection ID, no token, and 1,182 more bytes.
    packet[14..18].copy_from_slice(&[0, 0, 0x44, 0x9e]);
    packet
}

#[tokio::test]
async fn junk_initials_create_no_logs_and_cause_retries() {
    for stack in Stack::ALL {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(LogFolder::open(dir.path()).unwrap());
        let limits = Limits { unvalidated_per_second: 20, ..Limits::default() };
        let running = start_logging(*stack, "reno", None, limits, Some(&folder));
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut number = 0;
        within(async {
            // A hundred attempts come faster than the limit of new connections allows, however slow
            // the machine is.
            while count(&running, "fathom_retries_total") == 0 {
                for _ in 0..100 {
                    number += 1;
                    socket.send_to(&junk(number), running.address).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        assert_eq!(within(running.get("/bytes/1000")).await.2.len(), 1_000, "{stack}");
        running.end().await;
        let counts = folder.finish();
        assert_eq!(
            (counts.files, std::fs::read_dir(dir.path()).unwrap().count()),
            (1, 1),
            "{stack}: of {number}"
        );
    }
}

/// A file whose writes block until it is released.
struct Held(mpsc::Receiver<()>);

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_log_disk_delays_no_request() {
    for stack in Stack::ALL {
        let (release, held) = mpsc::channel();
        let mut held = Some(held);
        let bounds = LogLimits { open: 100, ..LogLimits::default() };
        let folder = LogFolder::with(bounds, move |_| {
            Ok(held.take().map_or_else(
                || Box::new(io::sink()) as Box<dyn Write + Send>,
                |held| Box::new(Held(held)),
            ))
        });
        let folder = Arc::new(folder.unwrap());
        // Release the file before dropping the folder, which waits for its disk, however this test
        // ends.
        let release = release;
        // Fill the queue beyond its limit.
        let began = std::time::UNIX_EPOCH;
        let log = folder.begin(TraceHeader {
            id: "full".into(),
            vantage: VantagePoint::Server,
            title: String::new(),
            began,
        });
        while folder.counts().dropped < 1_000 {
            log.event(
                Duration::ZERO,
                Event::State(CongestionStateChange { old: None, new: "recovery" }),
            );
        }
        let running = start_logging(*stack, "reno", None, Limits::default(), Some(&folder));
        for _ in 0..30 {
            assert_eq!(within(running.get("/bytes/100000")).await.2.len(), 100_000, "{stack}");
        }
        running.end().await;
        assert_eq!(folder.counts().files, 1, "{stack}: the disk was stalled all the time");
        drop((log, release));
        let folder = Arc::clone(&folder);
        let counts = within(tokio::task::spawn_blocking(move || folder.finish())).await.unwrap();
        assert_eq!((counts.files, counts.refused), (31, 0), "{stack}");
    }
}

/// The first four bytes of a HEADERS frame with 25 bytes of payload.
const HALF: &[u8] = b"\x01\x19\x00\x00\xd1\xd7";
/// H3_REQUEST_REJECTED (RFC 9114 §8.1).
const REQUEST_REJECTED: VarInt = VarInt::from_u32(0x10b);

/// Returns a connection that its client keeps alive, with this many incomplete requests.
async fn half_requests(
    running: &Running,
    many: usize,
) -> (Connection, Vec<(quinn::SendStream, quinn::RecvStream)>) {
    let connection = within(running.connect()).await.expect("a connection");
    let mut control = connection.open_uni().await.unwrap();
    control.write_all(b"\x00\x04\x00").await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..many {
        let (mut request, response) = within(connection.open_bi()).await.unwrap();
        request.write_all(HALF).await.unwrap();
        streams.push((request, response));
    }
    // The control stream must not end.
    std::mem::forget(control);
    (connection, streams)
}

#[tokio::test]
async fn incomplete_requests_and_keepalive_connections_time_out() {
    let one = |stack: Stack| async move {
        let limits = Limits {
            header_timeout: Duration::from_millis(700),
            request_timeout: Duration::from_secs(5),
            ..Limits::default()
        };
        let mut running = start(stack, "reno", None, limits);
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(Duration::from_millis(20)));
        running.client.transport_config(Arc::new(transport));
        let (connection, streams) = half_requests(&running, 100).await;
        let idle = within(running.connect()).await.unwrap();
        assert_eq!(within(running.get("/bytes/1000")).await.2.len(), 1_000, "{stack}");
        for (_request, mut response) in streams {
            let why = within(response.read_chunk(1, true)).await.unwrap_err();
            assert!(
                matches!(why, ReadError::Reset(code) if code == REQUEST_REJECTED),
                "{stack}: {why}"
            );
        }
        assert_eq!(count(&running, "fathom_slow_headers_total"), 100, "{stack}");
        within(connection.closed()).await;
        within(idle.closed()).await;
        assert!(count(&running, "fathom_connections_without_request_total") >= 2, "{stack}");
        running.end().await;
    };
    let all = Stack::ALL.iter().map(|stack| tokio::spawn(one(*stack))).collect::<Vec<_>>();
    for stack in all {
        stack.await.unwrap();
    }
}

#[tokio::test]
async fn connection_with_active_requests_outlives_request_timeout() {
    let one = |stack: Stack| async move {
        let limits = Limits { request_timeout: Duration::from_secs(2), ..Limits::default() };
        let running = start(stack, "reno", None, limits);
        // Each response takes longer than the limit, and one follows the other.
        let (mut sender, mut request) = asker(&running, "/delay/5000/bytes/10").await;
        assert_eq!(
            within(request.recv_response()).await.unwrap().status(),
            StatusCode::OK,
            "{stack}"
        );
        let mut request = sender.send_request(get("/delay/5000/bytes/10")).await.unwrap();
        let _ = request.finish().await;
        assert_eq!(
            within(request.recv_response()).await.unwrap().status(),
            StatusCode::OK,
            "{stack}"
        );
        running.end().await;
    };
    let all = Stack::ALL.iter().map(|stack| tokio::spawn(one(*stack))).collect::<Vec<_>>();
    for stack in all {
        stack.await.unwrap();
    }
}

#[tokio::test]
async fn client_gets_no_more_than_its_share_of_connections() {
    for stack in Stack::ALL {
        let limits = Limits { connections_per_client: Some(5), ..Limits::default() };
        let running = start(*stack, "reno", None, limits);
        let mut open = Vec::new();
        for _ in 0..5 {
            open.push(within(running.connect_from("127.0.0.66")).await.unwrap());
        }
        let why = within(running.connect_from("127.0.0.66")).await.unwrap_err();
        assert!(why.to_string().contains("refused"), "{stack}: {why}");
        assert_eq!(within(running.get("/bytes/1000")).await.2.len(), 1_000, "{stack}");
        assert_eq!(count(&running, "fathom_connections_refused_client_total"), 1, "{stack}");
        open.pop().unwrap().close(0u32.into(), b"");
        // The place becomes free once the server notices the close.
        within(async {
            while let Err(why) = running.connect_from("127.0.0.66").await {
                assert!(why.to_string().contains("refused"), "{stack}: {why}");
            }
        })
        .await;
        running.end().await;
    }
}

#[tokio::test]
async fn new_clients_are_refused_during_shutdown() {
    for stack in Stack::ALL {
        // The open response would take longer than this test.
        let settings = settings(
            *stack,
            "reno",
            None,
            Limits { max_delay: Duration::from_secs(600), ..Limits::default() },
        );
        let running = start_with(settings, Duration::from_secs(600));
        let (mut sender, slow) = asker(&running, "/delay/600000/bytes/1").await;
        // The slow request has arrived if a later one is answered.
        let mut later = sender.send_request(get("/bytes/1")).await.unwrap();
        within(later.recv_response()).await.unwrap();
        running.stop.send(true).unwrap();
        // Until the server sees the signal, it may accept a connection, which then ends before its
        // first request.
        let why = within(async {
            loop {
                if let Err(why) = running.connect().await {
                    break why;
                }
            }
        })
        .await;
        assert!(why.to_string().contains("refused"), "{stack}: {why}");
        assert!(!running.task.is_finished(), "{stack}: what was open goes on");
        running.task.abort();
        drop(slow);
    }
}

#[tokio::test]
async fn shortage_of_file_descriptors_gives_503_instead_of_404() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("here"), "hello").unwrap();
    let path = root.path().to_owned();
    let one = move |stack: Stack| {
        let path = path.clone();
        async move {
            let mut settings = settings(stack, "reno", None, Limits::default());
            let none = Descriptors { files: 0, reads: 0, logs: 0, tcp: 0, upstream: 0 };
            settings.site =
                Site::new(Some(&path), Limits::default()).unwrap().with_descriptors(none);
            let running = start_with(settings, Duration::from_secs(5));
            let (_sender, mut request) = asker(&running, "/here").await;
            let head = within(request.recv_response()).await.unwrap();
            assert_eq!(head.status(), StatusCode::SERVICE_UNAVAILABLE, "{stack}");
            assert_eq!(head.headers()["retry-after"], "1", "{stack}");
            running.end().await;
        }
    };
    let all = Stack::ALL.iter().map(|stack| tokio::spawn(one(*stack))).collect::<Vec<_>>();
    for stack in all {
        stack.await.unwrap();
    }
}

#[tokio::test]
async fn unread_responses_hold_no_file_descriptors() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("large"), vec![7; 3 << 20]).unwrap();
    std::fs::write(root.path().join("here"), "hello").unwrap();
    for stack in Stack::ALL {
        let mut settings = settings(*stack, "reno", None, Limits::default());
        let few = Descriptors { files: 3, reads: 2, logs: 0, tcp: 0, upstream: 0 };
        settings.site =
            Site::new(Some(root.path()), Limits::default()).unwrap().with_descriptors(few);
        let running = start_with(settings, Duration::from_secs(5));
        // Requested, but not read.
        let (mut sender, first) = asker(&running, "/large").await;
        let mut unread = vec![first];
        for _ in 1..40 {
            let mut request = sender.send_request(get("/large")).await.unwrap();
            let _ = request.finish().await;
            assert_eq!(
                within(request.recv_response()).await.unwrap().status(),
                StatusCode::OK,
                "{stack}"
            );
            unread.push(request);
        }
        for _ in 0..20 {
            let (status, _, body) = within(running.get("/here")).await;
            assert_eq!((status, body.len()), (StatusCode::OK, 5), "{stack}");
        }
        let (status, _, body) = within(running.get("/large")).await;
        assert_eq!((status, body.len()), (StatusCode::OK, 3 << 20), "{stack}");
        drop(unread);
        running.end().await;
    }
}

#[tokio::test]
async fn slow_metrics_scrapers_do_not_block_other_scrapers() {
    let running = start(Stack::Quinn, "reno", None, Limits::default());
    let scrape =
        Scrape::bind("127.0.0.1:0".parse().unwrap(), Arc::clone(&running.metrics)).await.unwrap();
    let at = scrape.address().unwrap();
    tokio::spawn(scrape.serve());
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nx: ").await.unwrap();
        slow.push(stream);
    }
    let scraped = async {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    // The scrape replaces the oldest slow scrape instead of waiting for all of them.
    assert!(within(scraped).await.ends_with("# EOF\n"));
    running.end().await;
}
