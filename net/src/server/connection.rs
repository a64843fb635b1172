//! The requests of one connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h3::error::Code;
use h3::quic::{RecvStream, SendStream};
use h3::server::{RequestResolver, RequestStream};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::door::Door;
use super::reply::{Asked, Common, Reply, answer};
use super::{Context, Counted, stopped};
use crate::digest::{self, CONTENT_DIGEST};
use crate::guarded::Guarded;
use crate::metrics::Controller;

/// H3_NO_ERROR (RFC 9114 §8.1).
pub(crate) const NO_ERROR: u32 = 0x100;
/// The shortest silence after which a connection has nothing left to send: a peer may wait 25 ms with an acknowledgement.
pub(super) const QUIET: Duration = Duration::from_millis(100);
/// A handshake that takes longer has failed.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves one client from its first packet to its last.
pub(super) async fn run<D: Door>(
    door: &D,
    incoming: D::Incoming,
    share: usize,
    context: &Arc<Context>,
    stop: watch::Receiver<bool>,
    handshake: Counted,
) {
    let common = Arc::new(Common::new(Arc::clone(context), share, D::id(&incoming)));
    let label = common.label();
    let taken = door.take(incoming, share, common.observer());
    let (connection, rest) = match tokio::time::timeout(HANDSHAKE, taken).await {
        Ok(Ok(connection)) => connection,
        failed => {
            tracing::debug!(
                ?label,
                "handshake: {}",
                failed.map_or_else(|_| "timed out".into(), |r| r.err().unwrap_or_default())
            );
            context.metrics.failed(label);
            return;
        }
    };
    context.metrics.opened(label);
    // Counted as closed whatever becomes of this task.
    let _closed = Closed::<D> { connection: &connection, context, label };
    let over = async {
        if let Some(rest) = rest
            && tokio::time::timeout(HANDSHAKE, rest).await.is_err()
        {
            context.metrics.failed(label);
            D::end(&connection, NO_ERROR);
        }
        drop(handshake);
    };
    let native = label.controller.starts_with("native:");
    let served = async {
        let served = requests::<D>(&connection, &common, stop);
        match common.tap.as_ref().filter(|_| native) {
            // The stack's own controllers tell nothing by themselves.
            Some(tap) => {
                let served = tokio::select! {
                    served = served => served,
                    never = tap.sample(|| D::report(&connection)) => match never {},
                };
                tap.look(&D::report(&connection));
                served
            }
            None => served.await,
        }
    };
    let (served, ()) = tokio::join!(served, over);
    if let Err(e) = served {
        tracing::debug!(?label, "connection: {e}");
    }
    D::end(&connection, NO_ERROR);
}

struct Closed<'a, D: Door> {
    connection: &'a D::Connection,
    context: &'a Context,
    label: &'a Controller,
}

impl<D: Door> Drop for Closed<'_, D> {
    fn drop(&mut self) {
        self.context.metrics.closed(self.label, &D::report(self.connection));
    }
}

async fn requests<D: Door>(
    connection: &D::Connection,
    common: &Arc<Common>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), h3::error::ConnectionError> {
    let limits = &common.context.limits;
    let mut builder = h3::server::builder();
    builder.max_field_section_size(limits.header_bytes).send_grease(false);
    let transport = Guarded::new(D::transport(connection), limits.request_bytes());
    // A client that lets no stream be opened never gets there.
    let Ok(begun) = tokio::time::timeout(HANDSHAKE, builder.build(transport)).await else { return Ok(()) };
    let mut http = begun?;
    let mut open = JoinSet::new();
    let mut going = false;
    loop {
        tokio::select! {
            accepted = http.accept() => match accepted? {
                Some(resolver) => {
                    let common = Arc::clone(common);
                    open.spawn(async move { request(resolver, &common).await });
                }
                None => break,
            },
            Some(_) = open.join_next(), if !open.is_empty() => {}
            // GOAWAY (RFC 9114 §5.2): what is open is still answered, and a request that is on its way.
            () = stopped(&mut stop), if !going => {
                going = true;
                http.shutdown(1).await?;
            }
        }
        if going && open.is_empty() {
            break;
        }
    }
    while open.join_next().await.is_some() {}
    if going {
        drained::<D>(connection).await;
    }
    Ok(())
}

/// Waits until a connection has nothing left to send: what is not acknowledged would be sent again within a probe timeout. Closed before,
/// its peer loses what it has not got; and quinn 0.11, while congestion control holds data back, does not even say that it closes.
async fn drained<D: Door>(connection: &D::Connection) {
    loop {
        let before = D::report(connection);
        tokio::time::sleep(QUIET.max(before.rtt.unwrap_or_default() * 4)).await;
        if D::report(connection).sent == before.sent {
            return;
        }
    }
}

// Response times are of real time.
#[allow(clippy::disallowed_methods)]
async fn request<C: h3::quic::Connection<Bytes, BidiStream: Send>>(
    resolver: RequestResolver<C, Bytes>,
    common: &Common,
) {
    let started = Instant::now();
    let Ok((request, mut stream)) = resolver.resolve_request().await else { return };
    let digest = digest::is_wanted(request.headers());
    let asked = Asked { method: request.method(), path: request.uri().path(), digest };
    if !answer(&mut stream, started, asked, common).await {
        // Dropped, it would end as if it were whole.
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
    }
    settle(&mut stream).await;
}

/// Takes the end of a request, as far as it has come. `h3-quinn` stops a stream that is dropped before with code 0, which h2load counts as a
/// failed request: what is not wanted any more is stopped with H3_NO_ERROR (RFC 9114 §4.1).
async fn settle<S: RecvStream>(stream: &mut RequestStream<S, Bytes>) {
    let over = poll_fn(|cx| Poll::Ready(matches!(stream.poll_recv_data(cx), Poll::Ready(Ok(None))))).await;
    if !over {
        stream.stop_sending(Code::H3_NO_ERROR);
    }
}

impl<S: SendStream<Bytes> + Send> Reply for RequestStream<S, Bytes> {
    async fn head(&mut self, status: StatusCode, length: u64, content_type: &str) -> Result<(), String> {
        let head = Response::builder()
            .status(status)
            .header("content-length", length)
            .header("content-type", content_type)
            .body(())
            .map_err(|e| e.to_string())?;
        self.send_response(head).await.map_err(|e| e.to_string())
    }

    async fn data(&mut self, bytes: Bytes) -> Result<(), String> {
        self.send_data(bytes).await.map_err(|e| e.to_string())
    }

    async fn finish(&mut self, digest: Option<String>) -> Result<(), String> {
        if let Some(digest) = digest {
            let value = HeaderValue::try_from(digest).map_err(|e| e.to_string())?;
            let trailers = HeaderMap::from_iter([(CONTENT_DIGEST, value)]);
            self.send_trailers(trailers).await.map_err(|e| e.to_string())?;
        }
        Self::finish(self).await.map_err(|e| e.to_string())
    }
}
