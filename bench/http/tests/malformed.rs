//! Hand-written requests and frames that violate RFC 9114 or RFC 9204. On every stack, each
//! violation ends with the error that the RFC specifies, and the next request is served. Other
//! requests are unusual but violate nothing.

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Running, settings, start, start_with, within};
use fathom_http::limits::Limits;
use fathom_http::proxy::{Proxy, ProxySettings};
use fathom_http::site::Site;
use fathom_stacks::Stack;
use quinn::{Connection, ConnectionError, ReadError, ReadToEndError, SendStream};
use tokio::net::TcpListener;

/// Codes of RFC 9114 §8.1 and RFC 9204 §6.
mod code {
    pub(crate) const STREAM_CREATION: u64 = 0x103;
    pub(crate) const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    pub(crate) const FRAME_UNEXPECTED: u64 = 0x105;
    pub(crate) const FRAME: u64 = 0x106;
    pub(crate) const EXCESSIVE_LOAD: u64 = 0x107;
    pub(crate) const ID: u64 = 0x108;
    pub(crate) const SETTINGS: u64 = 0x109;
    pub(crate) const MISSING_SETTINGS: u64 = 0x10a;
    pub(crate) const REQUEST_INCOMPLETE: u64 = 0x10d;
    pub(crate) const MESSAGE: u64 = 0x10e;
    pub(crate) const DECOMPRESSION_FAILED: u64 = 0x200;
    pub(crate) const ENCODER_STREAM: u64 = 0x201;
    pub(crate) const DECODER_STREAM: u64 = 0x202;
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Status(u16),
    /// The stream is reset with this code.
    Reset(u64),
    /// The connection is closed with this code.
    Closed(u64),
    Other(String),
}

fn varint(value: usize) -> Vec<u8> {
    match value {
        0..64 => vec![value as u8],
        64..16_384 => (value as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => (value as u32 | 0x8000_0000).to_be_bytes().to_vec(),
    }
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &varint(payload.len()), payload].concat()
}

/// Returns an integer of QPACK with a prefix of this many bits, after these flags
/// (RFC 9204 §4.1.1).
fn integer(prefix: u32, flags: u8, value: usize) -> Vec<u8> {
    let mask = (1 << prefix) - 1;
    if value < mask {
        return vec![flags | value as u8];
    }
    let (mut bytes, mut rest) = (vec![flags | mask as u8], value - mask);
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// Returns a HEADERS frame of literal fields (RFC 9204 §4.5.6).
fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        section.extend([integer(3, 0x20, name.len()), name.as_bytes().to_vec()].concat());
        section.extend([integer(7, 0, value.len()), value.as_bytes().to_vec()].concat());
    }
    frame(1, &section)
}

const HEAD: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/bytes/10")];

fn get(more: &[(&str, &str)]) -> Vec<u8> {
    headers(&[&HEAD[..], more].concat())
}

fn without(name: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fields: Vec<_> =
        HEAD.iter().copied().filter(|field| field.0 != name).chain(more.iter().copied()).collect();
    headers(&fields)
}

/// Returns requests with methods that the site and the upstream server support, and their expected
/// outcomes with either.
fn requests() -> Vec<(&'static str, Vec<u8>, End)> {
    let (ok, reset, closed) = (End::Status(200), End::Reset, End::Closed);
    let large = "x".repeat(20_000);
    let huge = "x".repeat(60_000);
    let after = |frames: &[Vec<u8>]| [get(&[]), frames.concat()].concat();
    let section = |section: &[u8]| frame(1, section);
    vec![
        ("a plain request", get(&[]), ok.clone()),
        ("te: trailers", get(&[("te", "trailers")]), ok.clone()),
        ("host as :authority", get(&[("host", "localhost")]), ok.clone()),
        ("host and no :authority", without(":authority", &[("host", "localhost")]), ok.clone()),
        (
            "an unknown frame before and behind",
            [frame(0x21, b"a"), get(&[]), frame(0x21, b"b")].concat(),
            ok.clone(),
        ),
        (
            "a frame of WebTransport, which nobody negotiated",
            after(&[frame(0x3f, b"ab")]),
            ok.clone(),
        ),
        ("an empty DATA frame", after(&[frame(0, b"")]), ok.clone()),
        ("trailers", after(&[headers(&[("a", "b")])]), ok.clone()),
        ("connection", get(&[("connection", "close")]), reset(code::MESSAGE)),
        ("keep-alive", get(&[("keep-alive", "timeout=5")]), reset(code::MESSAGE)),
        ("proxy-connection", get(&[("proxy-connection", "close")]), reset(code::MESSAGE)),
        ("transfer-encoding", get(&[("transfer-encoding", "chunked")]), reset(code::MESSAGE)),
        ("upgrade", get(&[("upgrade", "websocket")]), reset(code::MESSAGE)),
        ("te: gzip", get(&[("te", "gzip")]), reset(code::MESSAGE)),
        (":path twice", get(&[(":path", "/")]), reset(code::MESSAGE)),
        (":method twice", get(&[(":method", "GET")]), reset(code::MESSAGE)),
        (":authority twice", get(&[(":authority", "localhost")]), reset(code::MESSAGE)),
        (":status", get(&[(":status", "200")]), reset(code::MESSAGE)),
        (":protocol", get(&[(":protocol", "websocket")]), reset(code::MESSAGE)),
        (":foo", get(&[(":foo", "a")]), reset(code::MESSAGE)),
        (
            "a late :path",
            without(":path", &[("a", "b"), (":path", "/bytes/10")]),
            reset(code::MESSAGE),
        ),
        ("an upper-case name", get(&[("X-Upper", "a")]), reset(code::MESSAGE)),
        ("a name with a space", get(&[("a b", "c")]), reset(code::MESSAGE)),
        ("a value with CRLF", get(&[("a", "b\r\nc: d")]), reset(code::MESSAGE)),
        ("a value with NUL", get(&[("a", "b\0c")]), reset(code::MESSAGE)),
        ("another host", get(&[("host", "other")]), reset(code::MESSAGE)),
        (
            "user information",
            without(":authority", &[("host", "me@localhost")]),
            reset(code::MESSAGE),
        ),
        ("an empty :path", without(":path", &[(":path", "")]), reset(code::MESSAGE)),
        ("a :path with a fragment", without(":path", &[(":path", "/a#b")]), reset(code::MESSAGE)),
        ("no :path", without(":path", &[]), reset(code::MESSAGE)),
        ("no :method", without(":method", &[]), reset(code::MESSAGE)),
        ("no :scheme", without(":scheme", &[]), reset(code::MESSAGE)),
        ("no :authority", without(":authority", &[]), reset(code::MESSAGE)),
        ("no fields", headers(&[]), reset(code::MESSAGE)),
        ("nothing", Vec::new(), reset(code::REQUEST_INCOMPLETE)),
        ("no header but an unknown frame", frame(0x21, b"a"), reset(code::REQUEST_INCOMPLETE)),
        (
            "content-length: 0 and a body",
            [get(&[("content-length", "0")]), frame(0, b"a")].concat(),
            End::Status(400),
        ),
        ("content-length: 3 and no body", get(&[("content-length", "3")]), End::Status(400)),
        (
            "content-length: 3 and 4 bytes",
            [get(&[("content-length", "3")]), frame(0, b"abcd")].concat(),
            End::Status(400),
        ),
        ("content-length that is not a number", get(&[("content-length", "x")]), End::Status(400)),
        (
            "two content-lengths",
            get(&[("content-length", "3"), ("content-length", "4")]),
            End::Status(400),
        ),
        ("large fields", get(&[("a", &large)]), End::Status(431)),
        ("larger fields than are read", get(&[("a", &huge)]), End::Status(431)),
        (
            "a frame larger than is read",
            [frame(0x21, &[0; 40_000]), get(&[])].concat(),
            reset(code::EXCESSIVE_LOAD),
        ),
        ("DATA first", [frame(0, b"a"), get(&[])].concat(), closed(code::FRAME_UNEXPECTED)),
        ("SETTINGS on a request stream", after(&[frame(4, b"")]), closed(code::FRAME_UNEXPECTED)),
        ("a frame type of HTTP/2", after(&[frame(2, b"")]), closed(code::FRAME_UNEXPECTED)),
        ("PUSH_PROMISE", after(&[frame(5, b"\0")]), closed(code::FRAME_UNEXPECTED)),
        ("DATA cut off at once", after(&[vec![0, 32]]), closed(code::FRAME)),
        ("DATA cut off later", after(&[vec![0, 32, 1, 2, 3]]), closed(code::FRAME)),
        ("a DATA frame without a length", after(&[vec![0]]), closed(code::FRAME)),
        ("HEADERS cut off", get(&[])[..20].to_vec(), closed(code::FRAME)),
        ("an unknown frame cut off", after(&[vec![0x21, 5, 0]]), closed(code::FRAME)),
        (
            "an entry that the static table has not",
            section(b"\0\0\xff\x24"),
            closed(code::DECOMPRESSION_FAILED),
        ),
        ("the dynamic table", section(b"\0\0\x80"), closed(code::DECOMPRESSION_FAILED)),
        ("a required insert count", section(b"\x02\0\xd1\xd7"), closed(code::DECOMPRESSION_FAILED)),
        (
            "a string that is cut off",
            section(b"\0\0\x50\x09local"),
            closed(code::DECOMPRESSION_FAILED),
        ),
        ("invalid Huffman padding", section(b"\0\0\x50\x81\0"), closed(code::DECOMPRESSION_FAILED)),
        ("an empty HEADERS frame", section(b""), closed(code::DECOMPRESSION_FAILED)),
    ]
}

/// Contents of the client's unidirectional streams. The flag tells whether the stream ends.
type Streams = Vec<(Vec<u8>, bool)>;

fn unidirectional() -> Vec<(&'static str, Streams, Option<u64>)> {
    let control = |frames: &[u8]| vec![([b"\0\x04\0", frames].concat(), false)];
    let beside =
        |bytes: &[u8], ends: bool| vec![(b"\0\x04\0".to_vec(), false), (bytes.to_vec(), ends)];
    vec![
        ("priorities and an unknown frame", control(b"\x80\x0f\x07\x00\x04\x00u=1\x21\x00"), None),
        ("MAX_PUSH_ID that grows", control(b"\x0d\x01\x05\x0d\x01\x06"), None),
        ("an unknown stream that ends", beside(b"\x21abc", true), None),
        ("a stream that ends before its type", beside(b"", true), None),
        (
            "QPACK's streams, without a table",
            [beside(b"\x02\x20", false), vec![(b"\x03\x44".to_vec(), false)]].concat(),
            None,
        ),
        ("no SETTINGS", vec![(b"\0\x21\0".to_vec(), false)], Some(code::MISSING_SETTINGS)),
        ("two SETTINGS", control(b"\x04\0"), Some(code::FRAME_UNEXPECTED)),
        (
            "a setting of HTTP/2",
            vec![(b"\0\x04\x02\x02\x01".to_vec(), false)],
            Some(code::SETTINGS),
        ),
        (
            "a setting twice",
            vec![(b"\0\x04\x04\x06\x01\x06\x01".to_vec(), false)],
            Some(code::SETTINGS),
        ),
        ("a setting cut off", vec![(b"\0\x04\x01\x06".to_vec(), false)], Some(code::FRAME)),
        ("DATA on the control stream", control(b"\0\x01a"), Some(code::FRAME_UNEXPECTED)),
        ("HEADERS on the control stream", control(b"\x01\x01a"), Some(code::FRAME_UNEXPECTED)),
        ("an empty GOAWAY", control(b"\x07\0"), Some(code::FRAME)),
        ("a GOAWAY that grows", control(b"\x07\x01\x04\x07\x01\x08"), Some(code::ID)),
        ("MAX_PUSH_ID that shrinks", control(b"\x0d\x01\x05\x0d\x01\x04"), Some(code::ID)),
        ("CANCEL_PUSH", control(b"\x03\x01\0"), Some(code::ID)),
        (
            "an end of the control stream",
            vec![(b"\0\x04\0".to_vec(), true)],
            Some(code::CLOSED_CRITICAL_STREAM),
        ),
        ("two control streams", beside(b"\0\x04\0", false), Some(code::STREAM_CREATION)),
        (
            "two encoder streams",
            [beside(b"\x02", false), vec![(vec![2], false)]].concat(),
            Some(code::STREAM_CREATION),
        ),
        ("a push stream", beside(b"\x01\0", false), Some(code::STREAM_CREATION)),
        ("an end of the encoder stream", beside(b"\x02", true), Some(code::CLOSED_CRITICAL_STREAM)),
        ("an end of the decoder stream", beside(b"\x03", true), Some(code::CLOSED_CRITICAL_STREAM)),
        ("an insertion", beside(b"\x02\xc0\x01a", false), Some(code::ENCODER_STREAM)),
        ("a capacity", beside(b"\x02\x3f\xbd\x01", false), Some(code::ENCODER_STREAM)),
        ("a section acknowledgement", beside(b"\x03\x80", false), Some(code::DECODER_STREAM)),
        ("an insert count increment", beside(b"\x03\x01", false), Some(code::DECODER_STREAM)),
    ]
}

/// A connection with a control stream.
struct Client {
    connection: Connection,
    _control: SendStream,
}

impl Client {
    async fn new(running: &Running) -> Self {
        let connection = within(running.connect()).await.expect("a connection");
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(b"\0\x04\0").await.unwrap();
        Self { connection, _control: control }
    }

    /// Sends these bytes and the end of the stream.
    async fn ask(&self, request: &[u8]) -> End {
        let Ok((mut send, mut receive)) = self.connection.open_bi().await else {
            return self.closed().await;
        };
        // The server may have stopped the stream already.
        let _ = send.write_all(request).await;
        let _ = send.finish();
        match within(receive.read_to_end(100_000)).await {
            Ok(answer) => status(&answer),
            Err(ReadToEndError::Read(ReadError::Reset(code))) => End::Reset(code.into_inner()),
            Err(ReadToEndError::Read(ReadError::ConnectionLost(_))) => self.closed().await,
            Err(other) => End::Other(other.to_string()),
        }
    }

    async fn closed(&self) -> End {
        match within(self.connection.closed()).await {
            ConnectionError::ApplicationClosed(close) => End::Closed(close.error_code.into_inner()),
            other => End::Other(other.to_string()),
        }
    }
}

/// Returns the status of a response. It comes from QPACK's static table (RFC 9204 Appendix A), or
/// from a literal value for entry 24 of the table.
fn status(answer: &[u8]) -> End {
    let section = match answer {
        [1, length, rest @ ..] if *length < 64 => &rest[2..],
        [1, _, _, rest @ ..] => &rest[2..],
        _ => return End::Other(format!("{answer:?}")),
    };
    match section {
        // 200 and 400 have entries. h3 Huffman-codes other literals, but none of them occurs here.
        [0xd9, ..] => End::Status(200),
        [0xff, 0x04, ..] => End::Status(400),
        [0x5f, 0x09, 0x03, digits @ ..] => End::Status(
            digits[..3].iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')),
        ),
        other => End::Other(format!("{other:?}")),
    }
}

/// Number of panics of this process outside the tests.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.location().is_some_and(|at| at.file().contains("tests/")) {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(info);
        }));
    });
}

/// Starts an upstream server over HTTP/1.1 that answers every request with 200 once its whole body
/// has arrived.
async fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service =
                hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async {
                    let body = http_body_util::BodyExt::collect(request.into_body()).await?;
                    Ok::<_, hyper::Error>(http::Response::new(http_body_util::Full::new(
                        body.to_bytes(),
                    )))
                });
            let stream = hyper_util::rt::TokioIo::new(stream);
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(stream, service),
            );
        }
    });
    url
}

async fn proxying(stack: Stack) -> Running {
    let mut settings = settings(stack, "native:cubic", None, Limits::default());
    let upstream = ProxySettings::new(upstream().await.parse().unwrap());
    let proxy = Proxy::new(upstream, settings.metrics.upstream());
    settings.site = Site::new(None, Limits::default()).unwrap().with_proxy(proxy, "/");
    start_with(settings, std::time::Duration::from_secs(5))
}

async fn every_request_ends_as_it_must(running: &Running, stack: Stack, how: &str) {
    let mut client = Client::new(running).await;
    let mut wrong = Vec::new();
    for (what, request, wanted) in requests() {
        let end = client.ask(&request).await;
        if end != wanted {
            wrong.push(format!("{what}: {end:?}, not {wanted:?}"));
        }
        if !matches!(end, End::Status(_) | End::Reset(_)) {
            client = Client::new(running).await;
        }
        // Use the same connection unless it is closed.
        let next = client.ask(&get(&[])).await;
        if next != End::Status(200) {
            wrong.push(format!("after {what}: {next:?}"));
            client = Client::new(running).await;
        }
    }
    assert!(wrong.is_empty(), "{stack}, {how}:\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn malformed_requests_get_the_error_codes_of_rfc_9114() {
    count_panics();
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        every_request_ends_as_it_must(&running, stack, "the site").await;
        let text = running.metrics.text();
        assert!(text.contains("fathom_requests_fields_too_large_total 2\n"), "{stack}: {text}");
        assert!(!text.contains("fathom_requests_malformed_total 0\n"), "{stack}: {text}");
        running.end().await;
        let running = proxying(stack).await;
        every_request_ends_as_it_must(&running, stack, "a proxy").await;
        running.end().await;
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn unidirectional_streams_are_checked() {
    count_panics();
    for stack in Stack::ALL.iter().copied() {
        let running = start(stack, "native:cubic", None, Limits::default());
        let mut wrong = Vec::new();
        for (what, streams, wanted) in unidirectional() {
            let connection = within(running.connect()).await.unwrap();
            let mut open = Vec::new();
            for (bytes, ends) in streams {
                let Ok(mut stream) = connection.open_uni().await else { break };
                // Write byte by byte, so that the server must reassemble frames.
                for byte in bytes {
                    let _ = stream.write_all(&[byte]).await;
                }
                if ends {
                    let _ = stream.finish();
                }
                open.push(stream);
            }
            let client = Client { connection, _control: open.pop().unwrap() };
            let end = match wanted {
                None => client.ask(&get(&[])).await,
                Some(_) => client.closed().await,
            };
            let wanted = wanted.map_or(End::Status(200), End::Closed);
            if end != wanted {
                wrong.push(format!("{what}: {end:?}, not {wanted:?}"));
            }
        }
        assert!(wrong.is_empty(), "{stack}:\n{}", wrong.join("\n"));
        assert_eq!(within(running.get("/bytes/10")).await.2.len(), 10);
        running.end().await;
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn proxied_body_with_empty_data_frames_arrives_whole() {
    for stack in Stack::ALL.iter().copied() {
        let running = proxying(stack).await;
        let client = Client::new(&running).await;
        let head =
            headers(&[(":method", "POST"), HEAD[1], HEAD[2], HEAD[3], ("content-length", "4")]);
        let frames =
            [frame(0, b""), frame(0, b"ab"), frame(0, b""), frame(0, b"cd"), frame(0, b"")]
                .concat();
        let (mut send, mut receive) = client.connection.open_bi().await.unwrap();
        send.write_all(&[head, frames].concat()).await.unwrap();
        send.finish().unwrap();
        let answer = within(receive.read_to_end(10_000)).await.unwrap();
        assert!(answer.ends_with(b"abcd"), "{stack}: {answer:?}");
        assert_eq!(client.ask(&get(&[])).await, End::Status(200), "{stack}");
        running.end().await;
    }
}
