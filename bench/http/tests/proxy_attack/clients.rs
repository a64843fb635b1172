//! Tests with clients that try to exhaust an upstream server's slots and connections, or that
//! request paths that must not be proxied.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use fathom_http::limits::Limits;
use fathom_http::proxy::{Proxy, ProxySettings};
use fathom_http::server::TcpSettings;
use fathom_stacks::Stack;
use h3::error::StreamError;
use http::{Request, StatusCode};
use quinn::{Connection, TransportConfig, VarInt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Served, client_tls};
use crate::common::{Running, settings, start_with, within};

/// An upstream server over HTTP/1.1 that answers `/LENGTH` with this many bytes. Records the number
/// of connections and the headers of requests.
struct Upstream {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<parking_lot::Mutex<Vec<String>>>,
}

/// Starts an upstream server that sends each response after `delay`.
async fn upstream(delay: Duration) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (connections, heads) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let upstream = Upstream { address: listener.local_addr().unwrap(), connections, heads };
    let (connections, heads) = (Arc::clone(&upstream.connections), Arc::clone(&upstream.heads));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections.fetch_add(1, Ordering::Relaxed);
            let heads = Arc::clone(&heads);
            tokio::spawn(async move {
                let mut read = Vec::new();
                loop {
                    let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else {
                        if stream.read_buf(&mut read).await? == 0 {
                            return Ok::<(), std::io::Error>(());
                        }
                        continue;
                    };
                    let head = String::from_utf8_lossy(&read[..end]).into_owned();
                    read.drain(..end + 4);
                    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    let length: usize = target.trim_start_matches('/').parse().unwrap_or(2);
                    heads.lock().push(head);
                    tokio::time::sleep(delay).await;
                    stream
                        .write_all(
                            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n")
                                .as_bytes(),
                        )
                        .await?;
                    stream.write_all(&vec![7; length]).await?;
                }
            });
        }
    });
    upstream
}

fn proxied(
    stack: Stack,
    upstream: &Upstream,
    prefix: &str,
    change: impl FnOnce(&mut ProxySettings),
) -> Served {
    let mut settings = settings(stack, "native:cubic", None, Limits::default());
    settings.tcp = Some(TcpSettings::default());
    let mut proxied = ProxySettings::new(format!("http://{}", upstream.address).parse().unwrap());
    change(&mut proxied);
    settings.site =
        settings.site.with_proxy(Proxy::new(proxied, settings.metrics.upstream()), prefix);
    let tls = client_tls(&settings.identity);
    Served { running: start_with(settings, Duration::from_secs(5)), tls }
}

/// Connects from this address of the host. The client accepts `window` bytes of each stream before
/// it reads.
async fn connect(running: &Running, from: Ipv4Addr, window: u32) -> Connection {
    let mut endpoint = quinn::Endpoint::client((IpAddr::from(from), 0).into()).unwrap();
    let mut config = running.client.clone();
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(window));
    config.transport_config(Arc::new(transport));
    endpoint.set_default_client_config(config);
    within(endpoint.connect(running.address, "localhost").unwrap()).await.unwrap()
}

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

async fn http3(connection: &Connection) -> Sender {
    let (mut driver, sender) =
        h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
    tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    sender
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("https://localhost{path}")).body(()).unwrap()
}

/// Returns the status of a response and the length of its body.
async fn fetch(sender: &mut Sender, path: &str) -> Result<(StatusCode, usize), StreamError> {
    let mut stream = sender.send_request(get(path)).await?;
    let _ = stream.finish().await;
    let status = stream.recv_response().await?.status();
    let mut length = 0;
    while let Some(data) = stream.recv_data().await? {
        length += data.remaining();
    }
    Ok((status, length))
}

fn count(running: &Running, line: &str) -> u64 {
    running
        .metrics
        .text()
        .lines()
        .find_map(|text| text.strip_prefix(line)?.trim().parse().ok())
        .unwrap_or(0)
}

/// Four addresses request large bodies on many connections and read nothing. There are four times
/// as many requests as slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_client_addresses_cannot_hold_all_slots() {
    const SLOTS: usize = 64;
    let large = 2_000_000;
    for stack in Stack::ALL.iter().copied() {
        let upstream = upstream(Duration::ZERO).await;
        let served = proxied(stack, &upstream, "/", |settings| {
            settings.requests = SLOTS;
            settings.grace = Duration::from_millis(200);
            settings.connect_timeout = Duration::from_secs(60);
        });
        let (mut held, mut kept) = (Vec::new(), Vec::new());
        for host in 1..=4 {
            for _ in 0..2 {
                let connection =
                    connect(&served.running, Ipv4Addr::new(127, 0, 9, host), 1_000).await;
                let mut sender = http3(&connection).await;
                for _ in 0..32 {
                    let mut stream = sender.send_request(get(&format!("/{large}"))).await.unwrap();
                    let _ = stream.finish().await;
                    held.push(stream);
                }
                kept.push((connection, sender));
            }
        }
        // Each of the four clients holds its whole part of the slots. A part of the same size stays
        // free.
        within(async {
            while upstream.heads.lock().len() < SLOTS * 3 / 5 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        // Another client is served meanwhile, with many concurrent requests, large and small.
        let connection = connect(&served.running, Ipv4Addr::new(127, 0, 9, 9), 1 << 20).await;
        let sender = http3(&connection).await;
        let mut asked = tokio::task::JoinSet::new();
        for n in 0..40 {
            let (mut sender, length) = (sender.clone(), if n % 2 == 0 { large } else { 3_000 });
            asked.spawn(async move { (length, fetch(&mut sender, &format!("/{length}")).await) });
        }
        while let Some(done) = within(asked.join_next()).await {
            let (length, got) = done.unwrap();
            assert_eq!(got.unwrap(), (StatusCode::OK, length), "{stack}");
        }
        drop((held, kept, sender, connection));
        served.running.end().await;
    }
}

/// There are so many addresses that each already holds an equal part of the slots. The client that
/// reads most slowly then loses its slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_lose_their_slots_while_slots_are_scarce() {
    let upstream = upstream(Duration::ZERO).await;
    let served = proxied(Stack::Quinn, &upstream, "/", |settings| {
        settings.requests = 8;
        settings.pace = Duration::from_millis(300);
        settings.connect_timeout = Duration::from_secs(60);
    });
    let mut held = Vec::new();
    for host in 1..=8 {
        let connection = connect(&served.running, Ipv4Addr::new(127, 0, 8, host), 1_000).await;
        let mut sender = http3(&connection).await;
        let mut stream = sender.send_request(get("/2000000")).await.unwrap();
        let _ = stream.finish().await;
        held.push((connection, sender, stream));
    }
    within(async {
        while upstream.heads.lock().len() < 8 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let connection = connect(&served.running, Ipv4Addr::new(127, 0, 8, 99), 1 << 20).await;
    let mut sender = http3(&connection).await;
    let got = within(fetch(&mut sender, "/2000000")).await.unwrap();
    assert_eq!(got, (StatusCode::OK, 2_000_000));
    assert!(count(&served.running, "fathom_upstream_requests_total{outcome=\"evicted\"}") > 0);
    drop((held, sender, connection));
    served.running.end().await;
}

/// Bodies that fit into memory occupy no slot, even if their clients do not read them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_unread_bodies_hold_no_slot() {
    for stack in Stack::ALL.iter().copied() {
        let upstream = upstream(Duration::ZERO).await;
        let served = proxied(stack, &upstream, "/", |settings| {
            settings.requests = 4;
            // No slot is taken back, and no request times out.
            settings.grace = Duration::from_secs(600);
            settings.pace = Duration::from_secs(600);
            settings.connect_timeout = Duration::from_secs(600);
        });
        let connection = connect(&served.running, Ipv4Addr::LOCALHOST, 1_000).await;
        let mut sender = http3(&connection).await;
        let mut held = Vec::new();
        // The client may have one of the four slots, so each request waits for the previous one.
        for _ in 0..60 {
            let mut stream = sender.send_request(get("/60000")).await.unwrap();
            let _ = stream.finish().await;
            held.push(stream);
        }
        within(async {
            while upstream.heads.lock().len() < 60 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        drop((held, sender, connection));
        served.running.end().await;
    }
}

/// Requests that are cancelled immediately after sending. 1,000 of them once caused 1,000
/// connections without a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storm_of_cancelled_requests_opens_few_connections() {
    const REQUESTS: usize = 1_000;
    for stack in Stack::ALL.iter().copied() {
        // The delay is long enough for the client to cancel before the response, on any machine.
        let upstream = upstream(Duration::from_millis(20)).await;
        let served = proxied(stack, &upstream, "/", |settings| {
            settings.requests = 64;
            // Longer than the test, so that a slow machine makes no more connections than a fast
            // one.
            settings.cooldown = Duration::from_secs(600);
            settings.connect_timeout = Duration::from_secs(60);
        });
        let connection = connect(&served.running, Ipv4Addr::LOCALHOST, 1 << 20).await;
        let mut sender = http3(&connection).await;
        for n in 0..REQUESTS {
            let Ok(mut stream) = sender.send_request(get("/100")).await else {
                panic!("{stack}: closed after {n}")
            };
            let _ = stream.finish().await;
            stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
            if n % 20 == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        // Another client is served meanwhile.
        let other = connect(&served.running, Ipv4Addr::new(127, 0, 0, 2), 1 << 20).await;
        let mut asking = http3(&other).await;
        let got = within(fetch(&mut asking, "/100")).await.unwrap();
        assert_eq!(got, (StatusCode::OK, 100), "{stack}");
        let made = upstream.connections.load(Ordering::Relaxed);
        assert!(made <= 64, "{stack}: {made} connections for {REQUESTS} requests");
        drop((sender, connection, asking, other));
        served.running.end().await;
    }
}

/// Returns the response to an HTTP/1.1 client that sends this.
async fn say(served: &Served, head: &str) -> String {
    let mut stream = served.connect(b"http/1.1").await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    let _ = within(stream.read_to_end(&mut got)).await;
    String::from_utf8_lossy(&got).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_prefix_confines_paths_in_every_spelling() {
    let upstream = upstream(Duration::ZERO).await;
    let served = proxied(Stack::Quinn, &upstream, "/api", |_| {});
    let connection = connect(&served.running, Ipv4Addr::LOCALHOST, 1 << 20).await;
    let mut sender = http3(&connection).await;
    for path in [
        "/api/../secret",
        "/api/%2e%2e/secret",
        "/api/%252e%252e/secret",
        "/api/..%2fsecret",
        "/api/..\\secret",
        "/api/..%5csecret",
        "/api/..;/secret",
        "/api/a/../../secret",
        "/api/%c0%ae%c0%ae/secret",
    ] {
        let answer = say(
            &served,
            &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"),
        )
        .await;
        assert_eq!(status(&answer), 400, "{path}: {answer}");
        if !path.contains('\\') {
            assert_eq!(
                within(fetch(&mut sender, path)).await.unwrap().0,
                StatusCode::BAD_REQUEST,
                "{path}"
            );
        }
    }
    assert_eq!(
        *upstream.heads.lock(),
        Vec::<String>::new(),
        "what the upstream server was asked for"
    );
    for path in ["/api", "/api/a/../b?x=/../..", "/api/a%2fb"] {
        assert_eq!(within(fetch(&mut sender, path)).await.unwrap().0, StatusCode::OK, "{path}");
        assert!(
            upstream.heads.lock().last().unwrap().starts_with(&format!("GET {path} HTTP/1.1\r\n")),
            "{path}"
        );
    }
    drop((sender, connection));
    served.running.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxied_request_needs_one_host_and_a_known_coding() {
    let upstream = upstream(Duration::ZERO).await;
    let served = proxied(Stack::Quinn, &upstream, "/", |_| {});
    for (line, fields, wanted) in [
        ("GET / HTTP/1.1", "host: example.org\r\n", 200),
        ("GET / HTTP/1.0", "", 200),
        ("GET http://example.org/ HTTP/1.1", "host: other\r\n", 200),
        ("OPTIONS * HTTP/1.1", "host: example.org\r\n", 200),
        ("GET / HTTP/1.1", "", 400),
        ("GET / HTTP/1.1", "host:\r\n", 400),
        ("GET / HTTP/1.1", "host: a\r\nhost: b\r\n", 400),
        ("GET / HTTP/1.1", "host: a\r\nhost: a\r\n", 400),
        ("GET / HTTP/1.1", "host: caf\u{e9}\r\n", 400),
        ("GET / HTTP/1.1", "host: a/b?c#d@e\r\n", 400),
        ("GET / HTTP/1.1", "host: user@a\r\n", 400),
        ("GET http://user@a/ HTTP/1.1", "host: a\r\n", 400),
        ("POST / HTTP/1.1", "host: a\r\ntransfer-encoding: gzip, chunked\r\n", 501),
        (
            "POST / HTTP/1.1",
            "host: a\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
            501,
        ),
        ("POST / HTTP/1.1", "host: a\r\ntransfer-encoding: chunked\r\n", 200),
    ] {
        upstream.heads.lock().clear();
        let body = if line.starts_with("POST") { "0\r\n\r\n" } else { "" };
        let answer =
            say(&served, &format!("{line}\r\n{fields}connection: close\r\n\r\n{body}")).await;
        assert_eq!(status(&answer), wanted, "{line} {fields}: {answer}");
        let mut heads = upstream.heads.lock();
        // Ignore the end of a body, which is not a header.
        heads.retain(|head| head.contains("HTTP/1."));
        assert_eq!(heads.len(), usize::from(wanted == 200), "{line} {fields}: {heads:?}");
        if wanted == 200 && (line.contains("example.org") || fields.contains("example.org")) {
            assert!(
                heads[0].contains("\r\nhost: example.org\r\n")
                    || heads[0].ends_with("\r\nhost: example.org"),
                "{heads:?}"
            );
        }
        assert!(
            !line.starts_with("OPTIONS") || heads[0].starts_with("OPTIONS * HTTP/1.1\r\n"),
            "{heads:?}"
        );
    }
    served.running.end().await;
}
