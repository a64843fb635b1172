//! Tests that HTTP/1.1 and HTTP/2 serve the same site as HTTP/3, and advertise the address of
//! HTTP/3.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use common::{PATIENCE, Running, settings, start_with, within};
use fathom_http::identity::Identity;
use fathom_http::limits::Limits;
use fathom_http::server::{Settings, TcpSettings};
use fathom_http::site::Site;
use fathom_stacks::Stack;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type Body = Empty<Bytes>;

/// A server with TCP, and the client's TLS configuration for it.
struct Served {
    running: Running,
    tls: rustls::ClientConfig,
}

fn tls(identity: &Identity) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.certificate().unwrap().clone()).unwrap();
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn serve(limits: Limits, change: impl FnOnce(&mut Settings)) -> Served {
    let mut settings = Settings {
        tcp: Some(TcpSettings::default()),
        ..settings(Stack::Quinn, "native:cubic", None, limits)
    };
    change(&mut settings);
    let tls = tls(&settings.identity);
    Served { running: start_with(settings, Duration::from_secs(5)), tls }
}

impl Served {
    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut tls = self.tls.clone();
        tls.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.running.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        stream
    }

    async fn http1(&self) -> http1::SendRequest<Body> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(self.connect(b"http/1.1").await)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn http2(&self) -> http2::SendRequest<Body> {
        let stream = TokioIo::new(self.connect(b"h2").await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn get(path: &str) -> Request<Body> {
    let uri = format!("https://localhost{path}");
    Request::get(uri)
        .header("host", "localhost")
        .header("want-content-digest", "sha-256=10")
        .header("te", "trailers")
        .body(Body::new())
        .unwrap()
}

fn get1(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost").body(Body::new()).unwrap()
}

async fn whole(response: Response<Incoming>) -> (StatusCode, Vec<u8>) {
    let status = response.status();
    (status, within(response.into_body().collect()).await.unwrap().to_bytes().to_vec())
}

#[tokio::test]
async fn http1_and_http2_serve_the_site_and_advertise_http3() {
    let folder = tempfile::tempdir().unwrap();
    let page: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(folder.path().join("page.html"), &page).unwrap();
    let served = serve(Limits::default(), |settings| {
        settings.site = Site::new(Some(folder.path()), Limits::default()).unwrap()
    });
    let alt_svc = format!("h3=\":{}\"; ma=86400", served.running.address.port());
    let (mut one, mut two) = (served.http1().await, served.http2().await);
    for _ in 0..3 {
        for (path, status, wanted) in [
            ("/page.html", StatusCode::OK, &page[..]),
            ("/nothing", StatusCode::NOT_FOUND, b"not found\n"),
            ("/bytes/0", StatusCode::OK, b""),
        ] {
            within(one.ready()).await.unwrap();
            let response = within(one.send_request(get1(path))).await.unwrap();
            assert_eq!(response.headers()["alt-svc"], alt_svc);
            assert!(whole(response).await == (status, wanted.to_vec()), "HTTP/1.1 {path}");
            let response = within(two.send_request(get(path))).await.unwrap();
            assert_eq!(response.headers()["alt-svc"], alt_svc);
            assert!(whole(response).await == (status, wanted.to_vec()), "HTTP/2 {path}");
        }
    }
    for method in [Method::HEAD, Method::POST] {
        let mut request = get1("/bytes/1000");
        *request.method_mut() = method.clone();
        within(one.ready()).await.unwrap();
        let response = within(one.send_request(request)).await.unwrap();
        let status =
            if method == Method::HEAD { StatusCode::OK } else { StatusCode::METHOD_NOT_ALLOWED };
        assert_eq!(response.status(), status);
        assert!(method == Method::POST || response.headers()["content-length"] == "1000");
    }
    // HTTP/3 on the same port serves the same site.
    assert!(served.running.get("/page.html").await.2 == page);
    // All responses count as complete, including those without a body.
    let line = "fathom_responses_total{stack=\"tcp\",controller=\"kernel\",status=\"200\"} 13\n";
    within(async {
        while !served.running.metrics.text().contains(line) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    drop((one, two));
    served.running.end().await;
}

/// The parts of a response that must be the same over every version of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    /// Fields that describe content, in order.
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: StatusCode, headers: &http::HeaderMap, body: Vec<u8>) -> Self {
        let names = [
            "accept-ranges",
            "allow",
            "content-length",
            "content-range",
            "content-type",
            "etag",
            "last-modified",
        ];
        let value =
            |name: &str| Some((name.to_owned(), headers.get(name)?.to_str().unwrap().to_owned()));
        Self {
            status: status.as_u16(),
            fields: names.into_iter().filter_map(value).collect(),
            body,
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == name).map(|field| field.1.as_str())
    }
}

/// Requests a path over HTTP/1.1, HTTP/2 and HTTP/3. Checks that the responses are equal, and
/// returns one.
async fn ask(served: &Served, method: Method, path: &str, fields: &[(&str, &str)]) -> Answer {
    let request = |target: String| {
        let request = Request::builder().method(&method).uri(target).header("host", "localhost");
        fields.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let absolute = if path == "*" {
        "https://localhost/".to_owned()
    } else {
        format!("https://localhost{path}")
    };
    let response = within(
        served.http1().await.send_request(request(path.to_owned()).body(Body::new()).unwrap()),
    )
    .await
    .unwrap();
    let headers = response.headers().clone();
    let (status, body) = whole(response).await;
    let one = Answer::new(status, &headers, body);
    let response = within(
        served.http2().await.send_request(request(absolute.clone()).body(Body::new()).unwrap()),
    )
    .await
    .unwrap();
    let headers = response.headers().clone();
    let (status, body) = whole(response).await;
    assert_eq!(Answer::new(status, &headers, body), one, "HTTP/2, {method} {path} {fields:?}");
    let connection = served.running.connect().await.unwrap();
    let (mut driver, mut sender) =
        h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
    let drive = tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    let mut stream =
        within(sender.send_request(request(absolute).body(()).unwrap())).await.unwrap();
    let _ = stream.finish().await;
    let head = within(stream.recv_response()).await.unwrap();
    let mut body = Vec::new();
    while let Some(mut data) = within(stream.recv_data()).await.unwrap() {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    assert_eq!(
        Answer::new(head.status(), head.headers(), body),
        one,
        "HTTP/3, {method} {path} {fields:?}"
    );
    drop(sender);
    drive.abort();
    one
}

#[tokio::test]
async fn every_http_version_answers_ranges_and_methods_alike() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.mp4"), "0123456789").unwrap();
    let served = serve(Limits::default(), |settings| {
        settings.site = Site::new(Some(folder.path()), Limits::default()).unwrap()
    });
    let all = ask(&served, Method::GET, "/a.mp4", &[]).await;
    assert_eq!(
        (all.status, &all.body[..], all.field("content-type")),
        (200, &b"0123456789"[..], Some("video/mp4"))
    );
    let (etag, modified) = (all.field("etag").unwrap(), all.field("last-modified").unwrap());
    let head = ask(&served, Method::HEAD, "/a.mp4", &[]).await;
    assert_eq!(
        (head.status, &head.fields, head.body.len()),
        (200, &all.fields, 0),
        "HEAD has the fields of GET"
    );
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (fields, status, body, range) in [
        (&[("range", "bytes=0-1")][..], 206, "01", Some("bytes 0-1/10")),
        (&[("range", "bytes=7-")], 206, "789", Some("bytes 7-9/10")),
        (&[("range", "bytes=-3")], 206, "789", Some("bytes 7-9/10")),
        (&[("range", "bytes=0-0,9-9")], 200, "0123456789", None),
        (&[("range", "bytes=9-0")], 200, "0123456789", None),
        (&[("range", "bytes=0-1"), ("if-range", etag)], 206, "01", Some("bytes 0-1/10")),
        (&[("range", "bytes=0-1"), ("if-range", modified)], 206, "01", Some("bytes 0-1/10")),
        (&[("range", "bytes=0-1"), ("if-range", "\"other\"")], 200, "0123456789", None),
        (&[("if-none-match", etag)], 304, "", None),
        (&[("if-none-match", "\"other\"")], 200, "0123456789", None),
        (&[("if-modified-since", modified)], 304, "", None),
        (&[("if-modified-since", long_ago)], 200, "0123456789", None),
        (
            &[("if-none-match", "\"other\""), ("if-modified-since", modified)],
            200,
            "0123456789",
            None,
        ),
        (&[("if-none-match", etag), ("want-content-digest", "sha-256=10")], 304, "", None),
        (&[("if-match", etag), ("if-unmodified-since", long_ago)], 200, "0123456789", None),
    ] {
        let answer = ask(&served, Method::GET, "/a.mp4", fields).await;
        assert_eq!(
            (answer.status, std::str::from_utf8(&answer.body)),
            (status, Ok(body)),
            "{fields:?}"
        );
        assert_eq!(
            (answer.field("content-range"), answer.field("etag")),
            (range, Some(etag)),
            "{fields:?}"
        );
        let length = (status != 304).then(|| body.len().to_string());
        assert_eq!(answer.field("content-length"), length.as_deref(), "{fields:?}");
    }
    let beyond = ask(&served, Method::GET, "/a.mp4", &[("range", "bytes=10-")]).await;
    assert_eq!((beyond.status, beyond.field("content-range")), (416, Some("bytes */10")));
    for fields in [[("if-match", "\"other\"")], [("if-unmodified-since", long_ago)]] {
        assert_eq!(ask(&served, Method::GET, "/a.mp4", &fields).await.status, 412, "{fields:?}");
    }
    let part = ask(&served, Method::GET, "/bytes/1000000", &[("range", "bytes=500000-")]).await;
    assert_eq!((part.status, part.body.len()), (206, 500_000));
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::TRACE] {
        let answer = ask(&served, method.clone(), "/a.mp4", &[]).await;
        assert_eq!(
            (answer.status, answer.field("allow")),
            (405, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
    for path in ["/a.mp4", "*"] {
        let answer = ask(&served, Method::OPTIONS, path, &[]).await;
        assert_eq!(
            (answer.status, answer.field("allow"), answer.body.len()),
            (204, Some("GET, HEAD, OPTIONS"), 0)
        );
    }
    served.running.end().await;
}

#[tokio::test]
async fn too_large_header_fields_over_tcp_get_status_431() {
    let served = serve(Limits::default(), |_| {});
    let large = "x".repeat(20_000);
    let with = |request: Request<Body>| {
        let mut request = request;
        request.headers_mut().insert("x-large", large.parse().unwrap());
        request
    };
    let response = within(served.http1().await.send_request(with(get1("/bytes/1")))).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let response = within(served.http2().await.send_request(with(get("/bytes/1")))).await.unwrap();
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    served.running.end().await;
}

#[tokio::test]
async fn alt_svc_names_the_port_that_clients_reach() {
    let served = serve(Limits::default(), |settings| {
        settings.tcp = Some(TcpSettings { alt_svc_port: Some(443), connections: None })
    });
    let response = within(served.http1().await.send_request(get1("/bytes/1"))).await.unwrap();
    assert_eq!(response.headers()["alt-svc"], "h3=\":443\"; ma=86400");
    served.running.end().await;
}

#[tokio::test]
async fn idle_and_incomplete_tcp_connections_are_closed() {
    let limits = Limits {
        header_timeout: Duration::from_millis(200),
        request_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let served = serve(limits, |_| {});
    // A header without an end.
    let mut stream = served.connect(b"http/1.1").await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    // HTTP/2 without a request.
    let mut stream = served.connect(b"h2").await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let _ = within(stream.read_to_end(&mut rest)).await;
    served.running.end().await;
}

#[tokio::test]
async fn tcp_client_that_reads_nothing_is_dropped() {
    let limits = Limits { stall_timeout: Duration::from_millis(300), ..Limits::default() };
    let served = serve(limits, |_| {});
    for protocol in [&b"http/1.1"[..], b"h2"] {
        let stalled = served.connect(protocol).await;
        let mut stream = stalled;
        if protocol == b"h2" {
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            let driver = tokio::spawn(connection);
            let response = within(sender.send_request(get("/bytes/100000000"))).await.unwrap();
            // The client grants no more credit for the body, until the connection is closed.
            let _ = within(driver).await;
            drop(response);
        } else {
            stream.write_all(b"GET /bytes/1000000000 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let until = tokio::time::Instant::now() + PATIENCE;
            while !served
                .running
                .metrics
                .text()
                .contains("fathom_connections_open{stack=\"tcp\",controller=\"kernel\"} 0")
            {
                assert!(tokio::time::Instant::now() < until);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    served.running.end().await;
}

/// A thousand connections that send nothing, half a handshake, noise, or half a request. Later
/// clients are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_tcp_connections_leave_room_for_other_clients() {
    let limits = Limits { header_timeout: Duration::from_secs(2), ..Limits::default() };
    // All connections come from one address, which may take all places. Many addresses with a part
    // each could also take all places.
    let served = serve(limits, |settings| {
        settings.tcp = Some(TcpSettings { alt_svc_port: None, connections: Some(200) })
    });
    let mut held = Vec::new();
    // The clients send only the record header of a ClientHello, a record of unknown type, or HTTP
    // without TLS.
    let said: [&[u8]; 4] =
        [b"", b"\x16\x03\x01\x02\x00\x01", &[0xa5; 600], b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"];
    for n in 0..1_000 {
        let mut stream = within(TcpStream::connect(served.running.address)).await.unwrap();
        let _ = stream.write_all(said[n % said.len()]).await;
        held.push(stream);
    }
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = served.connect(b"http/1.1").await;
        stream.write_all(b"GET /bytes/1 HTTP/1.1\r\nhost: x\r\nx-").await.unwrap();
        slow.push(stream);
    }
    for _ in 0..10 {
        let response =
            within(served.http1().await.send_request(get1("/bytes/1000"))).await.unwrap();
        assert_eq!(whole(response).await.1.len(), 1_000);
        let response = within(served.http2().await.send_request(get("/bytes/1000"))).await.unwrap();
        assert_eq!(whole(response).await.1.len(), 1_000);
        assert_eq!(within(served.running.get("/bytes/1000")).await.2.len(), 1_000);
    }
    // Incomplete requests end at their time limit.
    for mut stream in slow {
        let _ = within(stream.read_to_end(&mut Vec::new())).await;
    }
    drop(held);
    served.running.end().await;
}
