//! Tests of the server as a reverse proxy on every stack. Checks the requests that the upstream
//! server gets and the responses that clients get.

use crate::common;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};
use common::{Running, settings, start_with, within};
use fathom_http::identity::Identity;
use fathom_http::limits::Limits;
use fathom_http::proxy::{Proxy, ProxySettings};
use fathom_http::trust::Trust;
use fathom_stacks::Stack;
use h3::error::StreamError;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Returns byte `n` of the body of `seed`. Any two bodies differ everywhere.
fn byte(seed: usize, n: usize) -> u8 {
    (n.wrapping_mul(31) ^ (n >> 8).wrapping_mul(17) ^ seed.wrapping_mul(101)) as u8
}

fn body(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|n| byte(seed, n)).collect()
}

fn full(bytes: impl Into<Bytes>) -> BoxBody<Bytes, Infallible> {
    Full::new(bytes.into()).boxed()
}

/// Returns the upstream server's response: `/data/SEED/LENGTH`, `/echo` (the body, as it arrives),
/// `/head` (the request's fields), `/trailers`, `/empty`, `/never`.
async fn upstream_answer(
    request: Request<Incoming>,
    aborted: Arc<AtomicUsize>,
) -> Result<Answer, Infallible> {
    let path = request.uri().path().to_owned();
    let head = request.method() == Method::HEAD;
    let mut response = Response::new(full(""));
    if let Some(rest) = path.strip_prefix("/data/") {
        let (seed, length) = rest.split_once('/').unwrap();
        if head {
            // Set the length by hand: hyper's HTTP/2 would send a body.
            response.headers_mut().insert("content-length", length.parse().unwrap());
        } else {
            *response.body_mut() = full(body(seed.parse().unwrap(), length.parse().unwrap()));
        }
    } else if path == "/echo" {
        let mut incoming = request.into_body();
        let (send, mut receive) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
        tokio::spawn(async move {
            while let Some(frame) = incoming.frame().await {
                let Ok(frame) = frame else {
                    aborted.fetch_add(1, Ordering::Relaxed);
                    return;
                };
                if send.send(Ok(frame)).await.is_err() {
                    aborted.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        });
        *response.body_mut() =
            BodyExt::boxed(StreamBody::new(futures_util::stream::poll_fn(move |cx| {
                receive.poll_recv(cx)
            })));
        response.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    } else if path == "/head" {
        let mut text = format!("{} {} {:?}\n", request.method(), request.uri(), request.version());
        for (name, value) in request.headers() {
            text += &format!("{name}: {}\n", value.to_str().unwrap());
        }
        let headers = response.headers_mut();
        for (name, value) in [
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("alt-svc", "h3=\":1\""),
            ("set-cookie", "a=1"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        headers.append("set-cookie", "b=2".parse().unwrap());
        *response.body_mut() = full(text);
    } else if path == "/trailers" {
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
        let frames = [Ok(Frame::data(Bytes::from_static(b"abc"))), Ok(Frame::trailers(trailers))];
        *response.body_mut() = BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)));
        response.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    } else if path == "/empty" {
        *response.status_mut() = StatusCode::NO_CONTENT;
    } else if path == "/never" {
        std::future::pending::<()>().await;
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}

/// Starts an upstream server over HTTP/1.1, or over HTTP/2 with prior knowledge. The counter counts
/// request bodies that broke off.
async fn upstream(http2: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, aborted) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&aborted);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let aborted = Arc::clone(&counted);
            let service = service_fn(move |request| upstream_answer(request, Arc::clone(&aborted)));
            tokio::spawn(async move {
                let stream = TokioIo::new(stream);
                if http2 {
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(stream, service)
                        .await;
                } else {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(stream, service)
                        .await;
                }
            });
        }
    });
    (address, aborted)
}

/// Starts a server of raw bytes: it sends `says` on every connection after the first bytes of a
/// request.
async fn raw_upstream(says: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(says).await;
            });
        }
    });
    address
}

fn proxy(stack: Stack, url: &str, change: impl FnOnce(&mut ProxySettings)) -> Running {
    let mut settings = settings(stack, "native:cubic", None, Limits::default());
    let mut proxied = ProxySettings::new(url.parse().unwrap());
    change(&mut proxied);
    settings.site = settings.site.with_proxy(Proxy::new(proxied, settings.metrics.upstream()), "/");
    start_with(settings, Duration::from_secs(5))
}

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// Returns HTTP/3 on a separate connection, which is driven until it is closed.
async fn http(running: &Running) -> (quinn::Connection, Sender) {
    let connection = running.connect().await.expect("a connection");
    let (mut driver, sender) =
        h3::client::new(h3_quinn::Connection::new(connection.clone())).await.unwrap();
    tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    (connection, sender)
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Got {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Sends a request. Its body is sent while the response is read.
async fn ask(sender: &mut Sender, request: Request<()>, body: Vec<u8>) -> Result<Got, StreamError> {
    let (mut send, mut receive) = sender.send_request(request).await?.split();
    let sending = async {
        for piece in body.chunks(10_000) {
            if send.send_data(Bytes::copy_from_slice(piece)).await.is_err() {
                // A server that has answered may refuse the rest of the body.
                return;
            }
        }
        let _ = send.finish().await;
    };
    let receiving = async {
        let head = receive.recv_response().await?;
        let (mut body, mut trailers) = (Vec::new(), None);
        while let Some(mut data) = receive.recv_data().await? {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        if let Some(fields) = receive.recv_trailers().await? {
            trailers = Some(fields);
        }
        Ok(Got { status: head.status(), headers: head.headers().clone(), body, trailers })
    };
    within(async { tokio::join!(sending, receiving).1 }).await
}

fn get(path: &str) -> Request<()> {
    Request::get(format!("https://example.org{path}")).body(()).unwrap()
}

fn with_method(method: Method, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("https://example.org{path}")).body(()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_streams_bodies_both_ways_on_every_stack() {
    for http2 in [false, true] {
        let (address, _) = upstream(http2).await;
        let url = format!("{}://{address}", if http2 { "h2c" } else { "http" });
        for stack in Stack::ALL.iter().copied() {
            let running = proxy(stack, &url, |_| {});
            let (_connection, mut sender) = http(&running).await;
            for (seed, length) in [(1, 0), (2, 1), (3, 100_000), (4, 3_000_000)] {
                let got = ask(&mut sender, get(&format!("/data/{seed}/{length}")), Vec::new())
                    .await
                    .unwrap();
                assert_eq!(got.status, StatusCode::OK);
                // The HTTP/2 server omits the field if the body is empty.
                assert!(length == 0 || got.headers["content-length"] == length.to_string());
                assert!(got.body == body(seed, length), "{stack} {url} {length}");
                // The body is longer than every window on the path, so it arrives only if data flow
                // in both directions.
                let sent = body(seed, length);
                for declared in [false, true] {
                    let mut request = with_method(Method::POST, "/echo");
                    if declared {
                        request.headers_mut().insert("content-length", length.into());
                    }
                    let got = ask(&mut sender, request, sent.clone()).await.unwrap();
                    assert!(
                        got.status == StatusCode::OK && got.body == sent,
                        "{stack} {url} {length} {declared}"
                    );
                }
            }
            // This request is a GET with a body and without a content-length.
            let got = ask(&mut sender, get("/echo"), body(9, 5_000)).await.unwrap();
            assert!(got.body == body(9, 5_000), "{stack} {url}");
            let head = ask(&mut sender, with_method(Method::HEAD, "/data/1/12345"), Vec::new())
                .await
                .unwrap();
            assert_eq!(
                (head.headers["content-length"].to_str().unwrap(), head.body.len()),
                ("12345", 0)
            );
            let empty = ask(&mut sender, get("/empty"), Vec::new()).await.unwrap();
            assert_eq!((empty.status, empty.body.len()), (StatusCode::NO_CONTENT, 0));
            assert_eq!(
                ask(&mut sender, get("/nothing"), Vec::new()).await.unwrap().status,
                StatusCode::NOT_FOUND
            );
            drop(sender);
            running.end().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_fields_and_trailers_pass_through_the_proxy() {
    for http2 in [false, true] {
        let (address, _) = upstream(http2).await;
        let url = format!("{}://{address}", if http2 { "h2c" } else { "http" });
        for stack in Stack::ALL.iter().copied() {
            let running = proxy(stack, &url, |_| {});
            let (_connection, mut sender) = http(&running).await;
            let mut request = get("/head?a=b%20c");
            for (name, value) in
                [("x-forwarded-for", "8.8.8.8"), ("cookie", "c=1"), ("te", "trailers")]
            {
                request.headers_mut().insert(name, value.parse().unwrap());
            }
            let got = ask(&mut sender, request, Vec::new()).await.unwrap();
            let text = got.text();
            let target = if http2 {
                "http://example.org/head?a=b%20c HTTP/2.0"
            } else {
                "/head?a=b%20c HTTP/1.1"
            };
            assert!(text.starts_with(&format!("GET {target}\n")), "{text}");
            for line in [
                "x-forwarded-for: 127.0.0.1",
                "x-forwarded-host: example.org",
                "x-forwarded-proto: https",
                "forwarded: for=127.0.0.1;host=\"example.org\";proto=https",
                "via: 3 fathom",
                "cookie: c=1",
            ] {
                assert!(text.contains(&format!("{line}\n")), "{stack}: {line} is not in\n{text}");
            }
            assert_eq!(text.contains("\nhost: example.org\n"), !http2, "{text}");
            assert_eq!(text.contains("te: trailers\n"), http2, "{text}");
            assert!(!text.contains("8.8.8.8") && !text.contains("transfer-encoding"), "{text}");
            assert!(
                !got.headers.contains_key("keep-alive") && !got.headers.contains_key("alt-svc")
            );
            assert_eq!(got.headers["x-mine"], "1");
            assert_eq!(
                got.headers.get_all("set-cookie").iter().collect::<Vec<_>>(),
                ["a=1", "b=2"]
            );
            assert_eq!(got.headers["via"], if http2 { "2 fathom" } else { "1.1 fathom" });
            let mut request = get("/trailers");
            // HTTP/1.1 servers send trailers only to clients that accept them.
            request.headers_mut().insert("te", "trailers".parse().unwrap());
            let got = ask(&mut sender, request, Vec::new()).await.unwrap();
            assert_eq!(got.body, b"abc");
            if http2 {
                assert_eq!(got.trailers.unwrap()["x-sum"], "7", "{stack}");
            }
            drop(sender);
            running.end().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstream_failures_become_error_statuses() {
    // A socket that does not listen refuses connections, and keeps its port from other programs.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = silent.local_addr().unwrap();
    let (address, _) = upstream(false).await;
    let nonsense = raw_upstream(b"what?\r\n\r\n").await;
    let closed = raw_upstream(b"").await;
    for stack in Stack::ALL.iter().copied() {
        for (address, path, status, reason) in [
            (nobody, "/", StatusCode::BAD_GATEWAY, "the upstream server cannot be reached\n"),
            (
                nonsense,
                "/",
                StatusCode::BAD_GATEWAY,
                "the upstream server sent no valid response\n",
            ),
            (closed, "/", StatusCode::BAD_GATEWAY, "the upstream server sent no valid response\n"),
            (
                address,
                "/never",
                StatusCode::GATEWAY_TIMEOUT,
                "the upstream server did not respond in time\n",
            ),
        ] {
            let running = proxy(stack, &format!("http://{address}"), |settings| {
                settings.timeout = Duration::from_millis(300)
            });
            let (_connection, mut sender) = http(&running).await;
            let got = ask(&mut sender, get(path), Vec::new()).await.unwrap();
            assert_eq!((got.status, got.text()), (status, reason), "{stack}");
            drop(sender);
            running.end().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_upstream_response_is_reset() {
    let short = raw_upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc").await;
    let chunked =
        raw_upstream(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
    for stack in Stack::ALL.iter().copied() {
        for address in [short, chunked] {
            let running = proxy(stack, &format!("http://{address}"), |_| {});
            let (_connection, mut sender) = http(&running).await;
            let error = ask(&mut sender, get("/"), Vec::new()).await.err();
            assert!(error.is_some(), "{stack}: it passed for whole");
            drop(sender);
            running.end().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_limits_the_size_of_request_bodies() {
    let (address, aborted) = upstream(false).await;
    for stack in Stack::ALL.iter().copied() {
        let running =
            proxy(stack, &format!("http://{address}"), |settings| settings.max_body = 100_000);
        let (_connection, mut sender) = http(&running).await;
        let post = |length: Option<usize>| {
            let mut request = with_method(Method::POST, "/echo");
            if let Some(length) = length {
                request.headers_mut().insert("content-length", length.into());
            }
            request
        };
        let declared = ask(&mut sender, post(Some(100_001)), body(1, 100_001)).await.unwrap();
        assert_eq!(declared.status, StatusCode::PAYLOAD_TOO_LARGE, "{stack}");
        assert_eq!(
            ask(&mut sender, post(Some(100_000)), body(1, 100_000)).await.unwrap().body.len(),
            100_000
        );
        // The upstream server has answered before the body exceeds the limit, so the response
        // breaks off.
        let before = aborted.load(Ordering::Relaxed);
        if let Ok(got) = ask(&mut sender, post(None), body(1, 1_000_000)).await {
            assert_eq!(got.status, StatusCode::PAYLOAD_TOO_LARGE, "{stack}");
        }
        within(async {
            while aborted.load(Ordering::Relaxed) == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        // A body that is longer or shorter than declared is never passed on as complete.
        for (said, sent) in [(10, 20), (20, 10), (0, 10)] {
            if let Ok(got) = ask(&mut sender, post(Some(said)), body(1, sent)).await {
                assert!(
                    got.status.is_client_error(),
                    "{stack}: {said} said, {sent} sent, {}",
                    got.status
                );
            }
        }
        for (name, value) in [("content-length", "x"), ("transfer-encoding", "chunked")] {
            let mut request = with_method(Method::POST, "/echo");
            request.headers_mut().insert(name, value.parse().unwrap());
            if let Ok(got) = ask(&mut sender, request, Vec::new()).await {
                assert_eq!(got.status, StatusCode::BAD_REQUEST, "{stack} {name}");
            }
        }
        drop(sender);
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_disconnects_frees_its_proxy_slot() {
    for http2 in [false, true] {
        let (address, aborted) = upstream(http2).await;
        let url = format!("{}://{address}", if http2 { "h2c" } else { "http" });
        for stack in Stack::ALL.iter().copied() {
            let running = proxy(stack, &url, |settings| settings.requests = 4);
            for _ in 0..3 {
                let (connection, mut sender) = http(&running).await;
                let before = aborted.load(Ordering::Relaxed);
                // The first request uploads a body, and the second request would wait for a
                // response. A client may have one of the four slots, so the second request waits.
                let mut upload =
                    sender.send_request(with_method(Method::POST, "/echo")).await.unwrap();
                upload.send_data(Bytes::from_static(b"abc")).await.unwrap();
                let _ = within(upload.recv_response()).await.unwrap();
                let _waiting = sender.send_request(get("/never")).await.unwrap();
                connection.close(0u32.into(), b"");
                within(async {
                    while aborted.load(Ordering::Relaxed) == before {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                })
                .await;
            }
            let (_connection, mut sender) = http(&running).await;
            assert_eq!(
                ask(&mut sender, get("/data/1/10"), Vec::new()).await.unwrap().body,
                body(1, 10),
                "{stack}"
            );
            drop(sender);
            running.end().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_of_an_https_upstream_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&cert, signed.cert.pem()).unwrap();
    std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
    let identity = Identity::read(&cert, &key).unwrap();
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let tls = identity
            .tls_config(protocol, Arc::new(rustls::crypto::ring::default_provider()))
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let service = service_fn(|request| upstream_answer(request, Arc::default()));
                tokio::spawn(async move {
                    let stream = TokioIo::new(stream);
                    if protocol == b"h2" {
                        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        let _ = server.serve_connection(stream, service).await;
                    } else {
                        let _ = hyper::server::conn::http1::Builder::new()
                            .serve_connection(stream, service)
                            .await;
                    }
                });
            }
        });
        let url = format!("https://localhost:{port}");
        let running = proxy(Stack::Quinn, &url, |settings| {
            settings.trust(&Trust::File(cert.clone())).unwrap()
        });
        let (_connection, mut sender) = http(&running).await;
        for seed in 0..5 {
            let got =
                ask(&mut sender, get(&format!("/data/{seed}/100000")), Vec::new()).await.unwrap();
            assert!(got.status == StatusCode::OK && got.body == body(seed, 100_000));
        }
        let head = ask(&mut sender, get("/head"), Vec::new()).await.unwrap();
        assert!(
            head.text().contains(if protocol == b"h2" { "HTTP/2.0\n" } else { "HTTP/1.1\n" }),
            "{}",
            head.text()
        );
        drop(sender);
        running.end().await;
        // The name in this URL differs from the certificate's name.
        let url = format!("https://127.0.0.1:{port}");
        let running = proxy(Stack::Quinn, &url, |settings| {
            settings.trust(&Trust::File(cert.clone())).unwrap()
        });
        let (_connection, mut sender) = http(&running).await;
        assert_eq!(
            ask(&mut sender, get("/data/1/1"), Vec::new()).await.unwrap().status,
            StatusCode::BAD_GATEWAY
        );
        drop(sender);
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_passes_on_responses_after_interim_responses() {
    let says = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let address = raw_upstream(says).await;
    for stack in Stack::ALL.iter().copied() {
        let running = proxy(stack, &format!("http://{address}"), |_| {});
        let (_connection, mut sender) = http(&running).await;
        let mut stream = sender.send_request(get("/")).await.unwrap();
        stream.finish().await.unwrap();
        let first = within(stream.recv_response()).await.unwrap();
        assert_eq!(
            (first.status().as_u16(), first.headers()["link"].to_str().unwrap()),
            (103, "</a.css>"),
            "{stack}"
        );
        let second = within(stream.recv_response()).await.unwrap();
        assert_eq!(second.status(), StatusCode::OK, "{stack}");
        drop((stream, sender));
        running.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_proxied_requests_get_the_right_bytes() {
    let (address, _) = upstream(false).await;
    for stack in Stack::ALL.iter().copied() {
        let running = Arc::new(proxy(stack, &format!("http://{address}"), |_| {}));
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..10 {
            let running = Arc::clone(&running);
            clients.spawn(async move {
                let (_connection, mut sender) = http(&running).await;
                for n in 0..100 {
                    let seed = client * 1_000 + n;
                    let length = seed * 7 % 20_000;
                    let got = ask(&mut sender, get(&format!("/data/{seed}/{length}")), Vec::new())
                        .await
                        .unwrap();
                    assert!(
                        got.status == StatusCode::OK && got.body == body(seed, length),
                        "{seed}"
                    );
                }
            });
        }
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
        Arc::into_inner(running).unwrap().end().await;
    }
}
