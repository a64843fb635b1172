//! Upstream servers whose responses are contradictory or break off. Over every version of HTTP, a
//! client sees an error or gets a complete response. No response is cut without an indication
//! (RFC 9112 §6.3, §8).

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes};
use fathom_http::limits::Limits;
use fathom_http::proxy::{Proxy, ProxySettings};
use fathom_http::server::{Settings, TcpSettings};
use fathom_stacks::Stack;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Served, client_tls};
use crate::common::{settings, start_with, within};

/// Expected result for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// A status of 5xx or an error, and nothing that looks complete.
    Visible,
    /// This status and this body.
    Whole(u16, &'static str),
}
use Wanted::{Visible, Whole};

/// Way in which an upstream server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The connection stays open for the next request.
    Open,
    /// FIN.
    Close,
    /// RST.
    Reset,
}
use End::{Close, Open, Reset};

const GET: Method = Method::GET;
const HEAD: Method = Method::HEAD;

/// Returns responses of an HTTP/1.1 server, and their expected results.
fn http1_cases() -> Vec<(Method, String, End, Wanted)> {
    let response = |fields: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}");
    let status =
        |line: &str, fields: &str, body: &str| format!("HTTP/1.1 {line}\r\n{fields}\r\n{body}");
    let chunked = "transfer-encoding: chunked\r\n";
    let hello = "5\r\nhello\r\n0\r\n\r\n";
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    vec![
        (GET, response("content-length: 5\r\n", "hello"), Open, Whole(200, "hello")),
        (GET, response(chunked, hello), Open, Whole(200, "hello")),
        (GET, response("", "hello"), Close, Whole(200, "hello")),
        (
            GET,
            response("content-length: 5\r\ncontent-length: 5\r\n", "hello"),
            Open,
            Whole(200, "hello"),
        ),
        (GET, response("content-length: 5, 5\r\n", "hello"), Open, Whole(200, "hello")),
        (GET, response(&format!("content-length: 3\r\n{chunked}"), hello), Open, Visible),
        (GET, response(&format!("{chunked}content-length: 3\r\n"), hello), Open, Visible),
        (GET, response(&format!("{chunked}content-length: 9\r\n"), hello), Open, Visible),
        (GET, response("content-length: 5\r\ncontent-length: 3\r\n", "hello"), Open, Visible),
        (GET, response("content-length: 5, 3\r\n", "hello"), Open, Visible),
        (GET, response("content-length: -5\r\n", "hello"), Close, Visible),
        (GET, response("content-length: +5\r\n", "hello"), Close, Visible),
        (GET, response("content-length: 0x5\r\n", "hello"), Close, Visible),
        (GET, response("content-length: 5 5\r\n", "hello"), Close, Visible),
        (GET, response("content-length: \r\n", "hello"), Close, Visible),
        (GET, response("content-length: 99999999999999999999999\r\n", "hello"), Close, Visible),
        (GET, response("transfer-encoding: gzip, chunked\r\n", hello), Open, Visible),
        (GET, response("transfer-encoding: gzip\r\n", "hello"), Close, Visible),
        (GET, response("transfer-encoding: chunked, chunked\r\n", hello), Open, Visible),
        (GET, response("transfer-encoding: identity\r\n", "hello"), Close, Visible),
        (GET, response(&format!("{chunked}{chunked}"), hello), Open, Visible),
        (GET, format!("HTTP/1.0 200 OK\r\n{chunked}\r\n{hello}"), Close, Visible),
        // These bodies are shorter or longer than declared.
        (GET, response("content-length: 9\r\n", "hello"), Close, Visible),
        (GET, response("content-length: 9\r\n", "hello"), Reset, Visible),
        (GET, response("content-length: 9\r\n", ""), Close, Visible),
        (GET, response("content-length: 3\r\n", "hello"), Open, Visible),
        (
            GET,
            response(
                "content-length: 3\r\n",
                "helHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
            ),
            Open,
            Visible,
        ),
        (GET, response("content-length: 0\r\n", "hello"), Open, Visible),
        (GET, response(chunked, "5\r\nhello\r\n0\r\n\r\nmore"), Open, Visible),
        // These responses are cut at various points.
        (GET, response(chunked, "5\r\nhello\r\n"), Close, Visible),
        (GET, response(chunked, "5\r\nhello\r\n0\r\n"), Close, Visible),
        (GET, response(chunked, "5\r\nhel"), Close, Visible),
        (GET, response(chunked, "5\r\nhello\r\n"), Reset, Visible),
        (GET, response(chunked, ""), Close, Visible),
        (GET, response(chunked, "x\r\nhello\r\n0\r\n\r\n"), Close, Visible),
        (GET, response(chunked, "-5\r\nhello\r\n0\r\n\r\n"), Close, Visible),
        (GET, response(chunked, "5\r\nhello!!\r\n0\r\n\r\n"), Close, Visible),
        (GET, response(chunked, "fffffffffffffffff\r\nhello\r\n0\r\n\r\n"), Close, Visible),
        (GET, response("", "hello"), Reset, Visible),
        (GET, "HTTP/1.1 200 OK\r\ncontent-le".into(), Close, Visible),
        (GET, String::new(), Close, Visible),
        // These responses must not have content, but some is sent.
        (HEAD, response("content-length: 5\r\n", ""), Open, Whole(200, "")),
        (HEAD, response(chunked, ""), Open, Whole(200, "")),
        (HEAD, response("content-length: 5\r\n", "hello"), Open, Visible),
        (HEAD, response(&format!("content-length: 5\r\n{chunked}"), ""), Open, Visible),
        (GET, status("204 No Content", "", ""), Open, Whole(204, "")),
        (GET, status("204 No Content", "content-length: 5\r\n", ""), Open, Whole(204, "")),
        (GET, status("204 No Content", "content-length: 5\r\n", "hello"), Open, Visible),
        (GET, status("304 Not Modified", "content-length: 5\r\n", ""), Open, Whole(304, "")),
        (GET, status("304 Not Modified", chunked, hello), Open, Visible),
        // These servers send a few interim responses, or an endless series.
        (
            GET,
            interim.repeat(3) + &response("content-length: 5\r\n", "hello"),
            Open,
            Whole(200, "hello"),
        ),
        (GET, interim.repeat(5_000) + &response("content-length: 5\r\n", "hello"), Open, Visible),
        (
            GET,
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello"
                .into(),
            Open,
            Visible,
        ),
        (GET, "what?\r\n\r\n".into(), Close, Visible),
    ]
}

/// Starts a server of raw HTTP/1.1 for one case.
async fn http1_upstream(says: String, end: End) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let says = says.clone();
            tokio::spawn(async move {
                // No client sends another request before it has its response.
                while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(says.as_bytes()).await;
                    if end != Open {
                        finish(stream, end).await;
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Ends a connection on which everything was sent.
async fn finish(mut stream: TcpStream, end: End) {
    match end {
        Open | Close => {
            let _ = stream.shutdown().await;
            while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
        }
        Reset => {
            // Wait until the data were read, because the peer would otherwise discard them at the
            // reset.
            tokio::time::sleep(Duration::from_millis(50)).await;
            #[allow(deprecated)]
            let _ = stream.set_linger(Some(Duration::ZERO));
        }
    }
}

/// A frame of HTTP/2 (RFC 9113 §4.1) on the request's stream.
#[derive(Clone, Debug)]
struct H2Frame(u8, u8, Vec<u8>);

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Returns HEADERS with this status and these fields, as literals (RFC 7541 §6.2.2).
fn head(status: &str, fields: &[(&str, &str)], end: u8) -> H2Frame {
    let mut block = vec![0x08, 3];
    block.extend_from_slice(status.as_bytes());
    for (name, value) in fields {
        for text in [name, value] {
            if text == name {
                block.push(0);
            }
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    H2Frame(1, END_HEADERS | end, block)
}

fn data(text: &str, end: u8) -> H2Frame {
    H2Frame(0, end, text.as_bytes().to_vec())
}

/// Returns responses of an HTTP/2 server, and their expected results.
fn http2_cases() -> Vec<(Method, Vec<H2Frame>, End, Wanted)> {
    let length = |n: &'static str| [("content-length", n)];
    let reset = H2Frame(3, 0, vec![0, 0, 0, 2]);
    let no_error = H2Frame(3, 0, vec![0, 0, 0, 0]);
    let interim = head("103", &[("link", "</a>")], 0);
    let flood = |many: usize| {
        [vec![interim.clone(); many], vec![head("200", &[], 0), data("hello", END_STREAM)]].concat()
    };
    vec![
        (
            GET,
            vec![head("200", &length("5"), 0), data("hello", END_STREAM)],
            Open,
            Whole(200, "hello"),
        ),
        (
            GET,
            vec![head("200", &length("5"), 0), data("hello", 0), data("", END_STREAM)],
            Open,
            Whole(200, "hello"),
        ),
        (GET, vec![head("200", &[], 0), data("hello", END_STREAM)], Open, Whole(200, "hello")),
        (GET, vec![head("200", &[], END_STREAM)], Open, Whole(200, "")),
        (GET, vec![head("200", &length("3"), 0), data("hello", END_STREAM)], Open, Visible),
        (
            GET,
            vec![head("200", &length("3"), 0), data("hel", 0), data("lo", END_STREAM)],
            Open,
            Visible,
        ),
        (GET, vec![head("200", &length("9"), 0), data("hello", END_STREAM)], Open, Visible),
        (GET, vec![head("200", &length("9"), END_STREAM)], Open, Visible),
        (GET, vec![head("200", &length("0"), 0), data("hello", END_STREAM)], Open, Visible),
        (GET, vec![head("200", &length("-5"), 0), data("hello", END_STREAM)], Open, Visible),
        (GET, vec![head("200", &length("5, 3"), 0), data("hello", END_STREAM)], Open, Visible),
        (
            GET,
            vec![
                head("200", &[("content-length", "5"), ("content-length", "3")], 0),
                data("hello", END_STREAM),
            ],
            Open,
            Visible,
        ),
        (
            GET,
            vec![head("200", &[("transfer-encoding", "chunked")], 0), data("hello", END_STREAM)],
            Open,
            Visible,
        ),
        (GET, vec![head("200", &length("5"), 0), data("hel", 0)], Close, Visible),
        (GET, vec![head("200", &length("5"), 0), data("hello", 0)], Close, Visible),
        (GET, vec![head("200", &[], 0), data("hello", 0)], Close, Visible),
        (GET, vec![head("200", &[], 0), data("hello", 0)], Reset, Visible),
        (GET, vec![head("200", &[], 0), data("hello", 0), reset.clone()], Open, Visible),
        (GET, vec![head("200", &length("5"), 0), data("hello", 0), reset], Open, Visible),
        (GET, vec![head("200", &[], 0), data("hello", 0), no_error], Open, Visible),
        (HEAD, vec![head("200", &length("5"), END_STREAM)], Open, Whole(200, "")),
        (HEAD, vec![head("200", &length("5"), 0), data("hello", END_STREAM)], Open, Visible),
        (GET, vec![head("204", &[], END_STREAM)], Open, Whole(204, "")),
        (GET, vec![head("204", &[], 0), data("hello", END_STREAM)], Open, Visible),
        (GET, vec![head("304", &length("5"), END_STREAM)], Open, Whole(304, "")),
        (GET, vec![head("304", &[], 0), data("hello", END_STREAM)], Open, Visible),
        (GET, flood(3), Open, Whole(200, "hello")),
        (GET, vec![data("hello", END_STREAM)], Open, Visible),
        (GET, vec![], Close, Visible),
    ]
}

/// Starts a server of raw HTTP/2 without TLS for one case.
async fn http2_upstream(says: Vec<H2Frame>, end: End) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let frame = |H2Frame(kind, flags, payload): &H2Frame, stream: u32| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[*kind, *flags], &stream.to_be_bytes(), payload].concat()
    };
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let says = says.clone();
            tokio::spawn(async move {
                let mut preface = [0; 24];
                stream.read_exact(&mut preface).await?;
                stream.write_all(&frame(&H2Frame(4, 0, Vec::new()), 0)).await?;
                loop {
                    let mut head = [0; 9];
                    stream.read_exact(&mut head).await?;
                    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                    stream.read_exact(&mut vec![0; length as usize]).await?;
                    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    match (head[3], head[4]) {
                        // Acknowledge SETTINGS.
                        (4, 0) => stream.write_all(&frame(&H2Frame(4, 1, Vec::new()), 0)).await?,
                        (1, _) => {
                            let all: Vec<u8> =
                                says.iter().flat_map(|says| frame(says, id)).collect();
                            stream.write_all(&all).await?;
                            if end != Open {
                                finish(stream, end).await;
                                return Ok::<(), std::io::Error>(());
                            }
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    address
}

/// Response that a client got; `None` if the client noticed an error.
type Got = Option<(u16, Vec<u8>)>;

fn serve(stack: Stack, url: &str, tcp: bool) -> Served {
    let mut settings = Settings {
        tcp: tcp.then(TcpSettings::default),
        ..settings(stack, "native:cubic", None, Limits::default())
    };
    let mut proxied = ProxySettings::new(url.parse().unwrap());
    // Time limit that only a response that hangs reaches.
    proxied.timeout = Duration::from_secs(20);
    settings.site = settings.site.with_proxy(Proxy::new(proxied, settings.metrics.upstream()), "/");
    let tls = client_tls(&settings.identity);
    Served { running: start_with(settings, Duration::from_secs(5)), tls }
}

impl Served {
    async fn over_tcp(&self, method: &Method, protocol: &[u8]) -> Got {
        let stream = TokioIo::new(self.connect(protocol).await);
        let request = |uri: &str| {
            let request =
                Request::builder().method(method.clone()).uri(uri).header("host", "localhost");
            request.body(Empty::<Bytes>::new()).unwrap()
        };
        let response = if protocol == b"h2" {
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request("https://localhost/x")).await
        } else {
            let (mut sender, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request("/x")).await
        };
        let response = response.ok()?;
        let (status, length) = (response.status().as_u16(), length(response.headers()));
        let body = response.into_body().collect().await.ok()?.to_bytes().to_vec();
        assert!(
            *method == HEAD || status == 304 || length.is_none_or(|length| length == body.len()),
            "{length:?}"
        );
        Some((status, body))
    }

    async fn over_quic(&self, method: &Method) -> Got {
        let connection = self.running.connect().await.unwrap();
        let (mut driver, mut sender) =
            h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
        tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        let request =
            Request::builder().method(method.clone()).uri("https://localhost/x").body(()).unwrap();
        let mut stream = sender.send_request(request).await.unwrap();
        let _ = stream.finish().await;
        let mut response = stream.recv_response().await.ok()?;
        while response.status().is_informational() {
            response = stream.recv_response().await.ok()?;
        }
        let mut body = Vec::new();
        while let Some(mut data) = stream.recv_data().await.ok()? {
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        // A client that counts the bytes itself also notices a wrong length.
        let bodiless = *method == HEAD || response.status() == StatusCode::NOT_MODIFIED;
        let whole =
            bodiless || length(response.headers()).is_none_or(|length| length == body.len());
        whole.then_some((response.status().as_u16(), body))
    }
}

fn length(headers: &http::HeaderMap) -> Option<usize> {
    headers.get("content-length").map(|value| value.to_str().unwrap().parse().unwrap())
}

/// Returns a description of a wrong result, or `None` if the result is right.
fn fault(got: &Got, wanted: Wanted, what: &str) -> Option<String> {
    let right = match (wanted, got) {
        (Visible, None) => true,
        (Visible, Some((status, _))) => *status >= 500,
        (Whole(..), None) => false,
        (Whole(status, body), Some((got, bytes))) => *got == status && bytes == body.as_bytes(),
    };
    let shown = got.as_ref().map(|(status, body)| (status, String::from_utf8_lossy(body)));
    (!right).then(|| format!("{what}: wanted {wanted:?}, got {shown:?}"))
}

/// Requests from this upstream server with every client. Returns the wrong results.
async fn ask(url: &str, method: &Method, wanted: Wanted, what: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (n, stack) in Stack::ALL.iter().copied().enumerate() {
        let served = serve(stack, url, n == 0);
        let got = within(served.over_quic(method)).await;
        wrong.extend(fault(&got, wanted, &format!("HTTP/3 on {stack}: {what}")));
        // HTTP over TCP is the same beside every stack, so test HTTP over TCP only once.
        for protocol in [&b"http/1.1"[..], b"h2"].into_iter().filter(|_| n == 0) {
            let got = within(served.over_tcp(method, protocol)).await;
            let name = String::from_utf8_lossy(protocol);
            wrong.extend(fault(&got, wanted, &format!("{name}: {what}")));
        }
        served.running.end().await;
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_notice_contradictory_http1_upstream_responses() {
    let mut wrong = Vec::new();
    for (method, says, end, wanted) in http1_cases() {
        let shown: String = says.escape_debug().take(150).collect();
        let address = http1_upstream(says, end).await;
        wrong.extend(
            ask(
                &format!("http://{address}"),
                &method,
                wanted,
                &format!("{method} {shown} {end:?}"),
            )
            .await,
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_notice_contradictory_http2_upstream_responses() {
    let mut wrong = Vec::new();
    for (method, says, end, wanted) in http2_cases() {
        let shown: String = format!("{says:?}").chars().take(150).collect();
        let address = http2_upstream(says, end).await;
        wrong.extend(
            ask(&format!("h2c://{address}"), &method, wanted, &format!("{method} {shown} {end:?}"))
                .await,
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
