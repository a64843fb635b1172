//! The HTTP/3 server. It responds to these requests:
//!
//! - `GET /bytes/N`: a body of N bytes. With `?at=T`, the response begins no earlier than T
//!   nanoseconds of virtual time. With `adaptive=R` in the query, the body is the frame of a live stream of at
//!   most R bits per second, whose encoder adapts to the sender: it has up to N bytes.
//! - `POST /bytes/N`: the same response, after the whole request body has arrived.
//! - `GET /live?...`: an empty response, followed by the frames of a live stream in datagrams.

use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::Pin;
use std::str::from_utf8;
use std::task::Poll;

use bytes::Bytes;
use fathom_cc::{Rate, Time};
use fathom_http3::server::{Connection, Event, RequestStream};
use fathom_http3::{Error, transport};
use fathom_traffic::media::adapted;
use futures_util::Stream;
use futures_util::stream::FuturesUnordered;

use super::live::query_number;
use super::{LiveRequest, Priority, config, priority, zeros};

/// Serves the requests of one connection until the client closes it.
///
/// - `think` delays a response: by the server's delay, or until the time in the request, if any.
/// - `live` sends the frames of a live stream as datagrams, after the response to their request.
/// - `available` returns the rate at which a live source may produce data now, if it is known.
/// - `writing` is called with `true` when the server begins to hand a body to the stack, and with
///   `false` when the stack has taken all of the body or has failed.
///
/// Failures end the connection without an error, because the client sees them too.
pub async fn serve<C, F, L>(
    connection: C,
    think: impl Fn(Option<Time>) -> F,
    live: impl Fn(LiveRequest) -> L,
    available: impl Fn() -> Option<Rate>,
    writing: impl Fn(bool),
) where
    C: transport::Connection,
    F: Future<Output = ()>,
    L: Future<Output = ()>,
{
    let mut http = Connection::new(connection, config());
    // Runs the requests of a connection concurrently, so that its streams compete for bandwidth.
    let mut open = FuturesUnordered::new();
    let mut accepts = true;
    poll_fn(|cx| {
        while accepts {
            match http.poll_event(cx) {
                Poll::Ready(Ok(Some(Event::Request(request)))) => {
                    open.push(answer(request, &think, &live, &available, &writing));
                }
                Poll::Ready(Ok(Some(Event::PriorityUpdate { .. }))) => {}
                Poll::Ready(Ok(None) | Err(_)) => accepts = false,
                Poll::Pending => break,
            }
        }
        while let Poll::Ready(Some(_)) = Pin::new(&mut open).poll_next(cx) {}
        if accepts || !open.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Contents of a request's header.
struct Header {
    /// Number of bytes of the body that the client requests.
    bytes: Option<u64>,
    live: Option<LiveRequest>,
    /// Time before which the response must not begin, if the request has one.
    not_before: Option<Time>,
    /// Largest rate of the adaptive encoder that makes the body; `None` for other bodies.
    adaptive: Option<Rate>,
    priority: Option<Priority>,
    uploads: bool,
}

impl Header {
    fn read<C: transport::Connection>(request: &RequestStream<C>) -> Self {
        let fields = request.fields();
        let whole = fields.get(b":path").and_then(|path| from_utf8(path).ok()).unwrap_or_default();
        let (path, query) = whole.split_once('?').unwrap_or((whole, ""));
        Self {
            bytes: path.strip_prefix("/bytes/").and_then(|bytes| bytes.parse().ok()),
            live: LiveRequest::read(whole),
            not_before: query_number(query, "at").map(Time::from_nanos),
            adaptive: query_number(query, "adaptive").map(Rate::from_bits_per_sec),
            priority: fields.get(b"priority").and_then(priority::read),
            uploads: fields.get(b":method") == Some(b"POST"),
        }
    }
}

/// Answers one request. A client may leave at any time; this is not an error of the server.
async fn answer<C, F, L>(
    mut request: RequestStream<C>,
    think: impl Fn(Option<Time>) -> F,
    live: impl Fn(LiveRequest) -> L,
    available: impl Fn() -> Option<Rate>,
    writing: impl Fn(bool),
) -> Result<(), Error>
where
    C: transport::Connection,
    F: Future<Output = ()>,
    L: Future<Output = ()>,
{
    request.head().await?;
    let Header { bytes, live: wanted, not_before, adaptive, priority, uploads } =
        Header::read(&request);
    if let Some(priority) = priority {
        request.sender().set_priority(priority);
    }
    if uploads {
        // Fails if the length of the body differs from `content-length`.
        while request.receiver().data().await?.is_some() {}
    }
    if let Some(wanted) = wanted {
        request.respond(&[(":status", "200")], Bytes::new()).await?;
        live(wanted).await;
        return Ok(());
    }
    think(not_before).await;
    let Some(bytes) = bytes else {
        return request.respond(&[(":status", "404")], Bytes::new()).await;
    };
    let encoder = adaptive.and_then(|largest| Some((largest, available()?)));
    let bytes = encoder.map_or(bytes, |(largest, room)| adapted(bytes, largest, room));
    let mut digits = [0; 20];
    let mut unused = &mut digits[..];
    // Every number has at most 20 digits.
    let _ = write!(unused, "{bytes}");
    let unused = unused.len();
    let fields: [(&[u8], &[u8]); 3] = [
        (b":status", b"200"),
        (b"content-length", &digits[..20 - unused]),
        (b"content-type", b"application/octet-stream"),
    ];
    let handed_over = Writing::begin(writing);
    let (first, mut left) = zeros(bytes);
    if left == 0 {
        return request.respond(&fields, first).await;
    }
    let response = request.sender();
    response.send_head(&fields).await?;
    response.send_data(first).await?;
    while left > 0 {
        let body;
        (body, left) = zeros(left);
        response.send_data(body).await?;
    }
    drop(handed_over);
    response.finish().await
}

/// Guard of a body: calls its function with `true` when the server begins to hand over the body,
/// and with `false` on drop.
struct Writing<F: Fn(bool)>(F);

impl<F: Fn(bool)> Writing<F> {
    fn begin(told: F) -> Self {
        told(true);
        Self(told)
    }
}

impl<F: Fn(bool)> Drop for Writing<F> {
    fn drop(&mut self) {
        (self.0)(false);
    }
}
