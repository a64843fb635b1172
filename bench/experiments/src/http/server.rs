//! The HTTP/3 server. It responds to these requests:
//!
//! - `GET /bytes/N`: a body of N bytes. With `?at=T`, the response begins no earlier than T
//!   nanoseconds of virtual time.
//! - `POST /bytes/N`: the same response, after the whole request body has arrived.
//! - `GET /live?...`: an empty response, followed by the frames of a live stream in datagrams.

use std::future::Future;
use std::pin::pin;

use bytes::{Buf, Bytes};
use fathom_cc::Time;
use fathom_stacks::ZEROS;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use h3::quic::{BidiStream, Connection};
use h3::server::RequestStream;
use http::{Method, Request, Response, StatusCode};

use super::{HttpError, LiveRequest, Priority};

/// Serves the requests of one connection until the client closes it.
///
/// - `think` delays a response: by the server's delay, or until the time in the request, if any.
/// - `live` sends the frames of a live stream as datagrams, after the response to their request.
/// - `prioritise` gets the number and priority of a stream whose request has a priority, before
///   anything is sent on the stream.
/// - `writing` is called with `true` when the server begins to hand a body to the stack, and with
///   `false` when the stack has taken all of the body or has failed.
///
/// # Errors
/// Returns an error if HTTP/3 cannot be set up on the connection. Later failures end the connection
/// without an error, because the client sees them too.
pub async fn serve<C, F, L>(
    transport: C,
    think: impl Fn(Option<Time>) -> F,
    live: impl Fn(LiveRequest) -> L,
    prioritise: impl Fn(u64, Priority),
    writing: impl Fn(bool),
) -> Result<(), HttpError>
where
    C: Connection<Bytes>,
    C::BidiStream: BidiStream<Bytes>,
    F: Future<Output = ()>,
    L: Future<Output = ()>,
{
    let mut http = h3::server::builder().send_grease(false).build(transport).await?;
    // Runs the requests of a connection concurrently, so that its streams compete for bandwidth.
    let mut open = FuturesUnordered::new();
    loop {
        let accepted = {
            let next = pin!(http.accept());
            if open.is_empty() {
                next.await
            } else {
                match select(next, open.next()).await {
                    Either::Left((accepted, _)) => accepted,
                    Either::Right(_) => continue,
                }
            }
        };
        let Ok(Some(resolver)) = accepted else { break };
        let (think, live, prioritise, writing) = (&think, &live, &prioritise, &writing);
        open.push(async move {
            let Ok((request, mut stream)) = resolver.resolve_request().await else { return };
            if let Some(priority) = request.headers().get("priority").and_then(Priority::read) {
                prioritise(stream.id().into_inner(), priority);
            }
            if request.method() == Method::POST && receive(&request, &mut stream).await.is_err() {
                return;
            }
            if let Some(wanted) = LiveRequest::read(request.uri()) {
                if answer_empty(&mut stream).await.is_ok() {
                    live(wanted).await;
                }
                return;
            }
            think(not_before(&request)).await;
            // A client may leave during a response; this is not an error of the server.
            let _ = answer(&request, &mut stream, writing).await;
        });
    }
    while open.next().await.is_some() {}
    Ok(())
}

/// Returns the time before which the response must not begin, if the request has one.
fn not_before(request: &Request<()>) -> Option<Time> {
    let nanos = request.uri().query()?.strip_prefix("at=")?;
    nanos.parse().ok().map(Time::from_nanos)
}

/// Reads the request body. Fails if its length differs from `content-length`.
async fn receive<S: BidiStream<Bytes>>(
    request: &Request<()>,
    stream: &mut RequestStream<S, Bytes>,
) -> Result<(), HttpError> {
    let length = request
        .headers()
        .get("content-length")
        .and_then(|length| length.to_str().ok()?.parse().ok());
    let mut got = 0;
    while let Some(chunk) = stream.recv_data().await? {
        got += chunk.remaining() as u64;
    }
    match length {
        Some(wanted) if wanted != got => Err(HttpError::Length { got, wanted }),
        _ => Ok(()),
    }
}

/// Responds with status 200 and no body.
async fn answer_empty<S: BidiStream<Bytes>>(
    stream: &mut RequestStream<S, Bytes>,
) -> Result<(), HttpError> {
    stream.send_response(Response::builder().status(StatusCode::OK).body(())?).await?;
    stream.finish().await?;
    Ok(())
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

async fn answer<S: BidiStream<Bytes>>(
    request: &Request<()>,
    stream: &mut RequestStream<S, Bytes>,
    writing: impl Fn(bool),
) -> Result<(), HttpError> {
    let Some(bytes) =
        request.uri().path().strip_prefix("/bytes/").and_then(|n| n.parse::<u64>().ok())
    else {
        stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        stream.finish().await?;
        return Ok(());
    };
    let head = Response::builder()
        .header("content-length", bytes)
        .header("content-type", "application/octet-stream")
        .body(())?;
    stream.send_response(head).await?;
    let handed_over = Writing::begin(writing);
    let mut left = bytes;
    while left > 0 {
        let n = left.min(ZEROS.len() as u64);
        stream.send_data(Bytes::from_static(&ZEROS[..n as usize])).await?;
        left -= n;
    }
    drop(handed_over);
    stream.finish().await?;
    Ok(())
}
