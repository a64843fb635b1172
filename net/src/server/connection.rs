//! The requests of one connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_plug::Observer;
use h3::error::Code;
use h3::quic::BidiStream;
use h3::server::{RequestResolver, RequestStream};
use http::{HeaderMap, HeaderValue, Method, Response};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::door::Door;
use super::{Context, Counted, stopped};
use crate::digest::{self, Digest};
use crate::logs::Tap;
use crate::metrics::Controller;
use crate::site::{Answer, Body};

/// H3_NO_ERROR (RFC 9114 §8.1).
pub(crate) const NO_ERROR: u32 = 0x100;
/// Bytes handed to a stream at once.
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
/// The shortest silence after which a connection has nothing left to send: a peer may wait 25 ms with an acknowledgement.
const QUIET: Duration = Duration::from_millis(100);
/// A handshake that takes longer has failed.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves one client from its first packet to its last.
pub(super) async fn run<D: Door>(
    door: &D,
    incoming: D::Incoming,
    share: usize,
    context: &Arc<Context>,
    stop: watch::Receiver<bool>,
    handshake: Counted,
) {
    let label = &context.labels[share];
    let tap = context.logs.as_ref().map(|logs| Arc::new(Tap::begin(logs, D::id(&incoming), label)));
    let observer = tap.clone().map(|tap| tap as Arc<dyn Observer>);
    let (connection, rest) = match tokio::time::timeout(HANDSHAKE, door.take(incoming, share, observer)).await {
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
        let served = requests::<D>(&connection, share, context, stop, tap.clone());
        match tap.filter(|_| native) {
            // The stack's own controllers tell nothing by themselves.
            Some(tap) => tokio::select! {
                served = served => served,
                never = tap.sample(|| D::report(&connection)) => match never {},
            },
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
    share: usize,
    context: &Arc<Context>,
    mut stop: watch::Receiver<bool>,
    tap: Option<Arc<Tap>>,
) -> Result<(), h3::error::ConnectionError> {
    let mut builder = h3::server::builder();
    builder.max_field_section_size(context.limits.header_bytes).send_grease(false);
    let mut http = builder.build(D::transport(connection)).await?;
    let mut open = JoinSet::new();
    let mut going = false;
    loop {
        tokio::select! {
            accepted = http.accept() => match accepted? {
                Some(resolver) => {
                    let (context, tap) = (Arc::clone(context), tap.clone());
                    open.spawn(async move { request(resolver, share, &context, tap.as_deref()).await });
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
async fn request<C: h3::quic::Connection<Bytes, BidiStream: BidiStream<Bytes> + Send>>(
    resolver: RequestResolver<C, Bytes>,
    share: usize,
    context: &Context,
    tap: Option<&Tap>,
) {
    let started = Instant::now();
    let label = &context.labels[share];
    let Ok((request, mut stream)) = resolver.resolve_request().await else { return };
    let answer = context.site.answer(request.method(), request.uri().path()).await;
    let status = answer.status.as_u16();
    // An answer to HEAD has no content, and nothing to tell of it.
    let wanted = request.method() != Method::HEAD && digest::is_wanted(request.headers());
    let digest = wanted.then(Digest::default);
    let mut sent = Sent { started, first_byte: None, bytes: 0, digest };
    let done = send(&mut stream, answer, context.limits.stall, &mut sent).await;
    settle(&mut stream).await;
    match done {
        Ok(()) => {
            let whole = started.elapsed();
            let first_byte = sent.first_byte.unwrap_or(whole);
            context.metrics.answered(label, status, sent.bytes, first_byte, whole);
            if let Some(tap) = tap {
                tap.answered(status, sent.bytes, first_byte, whole);
            }
        }
        Err(why) => {
            tracing::debug!(?label, "response: {why}");
            context.metrics.abandoned(label, sent.bytes);
        }
    }
}

/// Takes the end of a request, as far as it has come. `h3-quinn` stops a stream that is dropped before with code 0, which h2load counts as a
/// failed request: what is not wanted any more is stopped with H3_NO_ERROR (RFC 9114 §4.1).
async fn settle<S: BidiStream<Bytes>>(stream: &mut RequestStream<S, Bytes>) {
    let over = poll_fn(|cx| Poll::Ready(matches!(stream.poll_recv_data(cx), Poll::Ready(Ok(None))))).await;
    if !over {
        stream.stop_sending(Code::H3_NO_ERROR);
    }
}

/// How far a response has come.
struct Sent {
    started: Instant,
    first_byte: Option<Duration>,
    bytes: u64,
    /// Where the client wants one.
    digest: Option<Digest>,
}

impl Sent {
    #[allow(clippy::disallowed_methods)]
    fn more(&mut self, bytes: usize) {
        self.first_byte.get_or_insert_with(|| self.started.elapsed());
        self.bytes += bytes as u64;
    }

    fn digest(&mut self, piece: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.add(piece);
        }
    }
}

async fn send<S: BidiStream<Bytes>>(
    stream: &mut RequestStream<S, Bytes>,
    answer: Answer,
    stall: Duration,
    sent: &mut Sent,
) -> Result<(), String> {
    if !answer.wait.is_zero() {
        tokio::time::sleep(answer.wait).await;
    }
    let head = Response::builder()
        .status(answer.status)
        .header("content-length", answer.length)
        .header("content-type", &answer.content_type)
        .body(())
        .map_err(|e| e.to_string())?;
    in_time(stall, stream.send_response(head)).await?;
    let mut left = answer.length;
    match answer.body {
        Body::Empty => {}
        Body::Text(text) => {
            sent.digest(text.as_bytes());
            sent.more(text.len());
            in_time(stall, stream.send_data(Bytes::from(text))).await?;
        }
        Body::Zeros => {
            while left > 0 {
                let n = left.min(CHUNK as u64);
                let piece = &ZEROS[..n as usize];
                sent.digest(piece);
                in_time(stall, stream.send_data(Bytes::from_static(piece))).await?;
                sent.more(n as usize);
                left -= n;
            }
        }
        Body::File(file) => {
            let mut file = file.take(left);
            while left > 0 {
                let mut chunk = bytes::BytesMut::with_capacity(CHUNK);
                let n = file.read_buf(&mut chunk).await.map_err(|e| e.to_string())?;
                if n == 0 {
                    // The length was promised: what is there is no whole response.
                    return Err("the file became shorter while it was sent".into());
                }
                sent.digest(&chunk);
                in_time(stall, stream.send_data(chunk.freeze())).await?;
                sent.more(n);
                left -= n as u64;
            }
        }
    }
    if let Some(digest) = sent.digest.take() {
        let value = HeaderValue::try_from(digest.value()).map_err(|e| e.to_string())?;
        let trailers = HeaderMap::from_iter([(digest::CONTENT_DIGEST, value)]);
        in_time(stall, stream.send_trailers(trailers)).await?;
    }
    in_time(stall, stream.finish()).await
}

/// One step of a response: a peer that takes nothing for so long is given up.
async fn in_time<E: std::fmt::Display>(
    stall: Duration,
    step: impl Future<Output = Result<(), E>>,
) -> Result<(), String> {
    match tokio::time::timeout(stall, step).await {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(_) => Err(format!("the client took nothing for {} s", stall.as_secs())),
    }
}
