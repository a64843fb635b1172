//! The HTTP/3 server: `GET /bytes/N` answers with N bytes.

use std::future::Future;
use std::pin::pin;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use h3::quic::{BidiStream, Connection};
use h3::server::RequestStream;
use http::{Request, Response, StatusCode};

use super::HttpError;

/// Bytes handed to the stream at once: as many as stacks buffer for a fresh stream anyway.
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// Serves the requests of one connection until the client closes it. `think` is waited for before each answer (the server's delay).
///
/// # Errors
/// The HTTP/3 connection could not be set up; later failures end the connection quietly, as the client sees them too.
pub async fn serve<C, F>(transport: C, think: impl Fn() -> F) -> Result<(), HttpError>
where
    C: Connection<Bytes>,
    C::BidiStream: BidiStream<Bytes>,
    F: Future<Output = ()>,
{
    let mut http = h3::server::builder().send_grease(false).build(transport).await?;
    // Requests of one connection are answered at once, as its streams compete for what leaves.
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
        let think = &think;
        open.push(async move {
            let Ok((request, mut stream)) = resolver.resolve_request().await else { return };
            think().await;
            // A client that goes away in the middle is its own affair.
            let _ = answer(&request, &mut stream).await;
        });
    }
    while open.next().await.is_some() {}
    Ok(())
}

async fn answer<S: BidiStream<Bytes>>(
    request: &Request<()>,
    stream: &mut RequestStream<S, Bytes>,
) -> Result<(), HttpError> {
    let Some(bytes) = request.uri().path().strip_prefix("/bytes/").and_then(|n| n.parse::<u64>().ok()) else {
        stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        stream.finish().await?;
        return Ok(());
    };
    let head = Response::builder()
        .header("content-length", bytes)
        .header("content-type", "application/octet-stream")
        .body(())?;
    stream.send_response(head).await?;
    let mut left = bytes;
    while left > 0 {
        let n = left.min(CHUNK as u64);
        stream.send_data(Bytes::from_static(&ZEROS[..n as usize])).await?;
        left -= n;
    }
    stream.finish().await?;
    Ok(())
}
