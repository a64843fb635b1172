//! Serves the requests of one connection.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use fathom_plugin::Observer;
use fathom_stacks::{Connecting, Connection, Endpoint, Incoming, RequestStream as ResponseStream};
use futures_util::stream::{FuturesUnordered, StreamExt};
use h3::error::{Code, StreamError};
use h3::quic::{BidiStream, RecvStream, SendStream};
use h3::server::{RequestResolver, RequestStream};
use http::{HeaderMap, StatusCode, Version};
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::ServerContext;
use super::activity::RequestActivity;
use super::admission::AdmissionGuard;
use super::memory_budget::ConnectionBudget;
use super::request_body::H3Body;
use super::response::{ConnectionContext, DeliveryOutcome, ResponseError, ResponseWriter, answer};
use super::response_stream::{SharedStream, SharedStreamConnection, StreamRegistry};
use crate::handshake_error::HandshakeError;
use crate::http3::{Closer, GuardedConnection, NO_ERROR, Peer, PeerError, SectionLimits};
use crate::metrics::ControllerLabels;
use crate::request::{self, RequestBodyError, SiteRequest};
use crate::stop::stopped;

/// H3_EXCESSIVE_LOAD (RFC 9114 §8.1).
pub(super) const EXCESSIVE_LOAD: u32 = 0x107;
/// Minimum duration of the silence after which a connection has nothing left to send. A peer may
/// delay an acknowledgement by 25 ms.
pub(super) const QUIET: Duration = Duration::from_millis(100);
/// Returns the maximum time to wait for the silence: sixteen round trips, within these bounds. The
/// wait needs a limit because the server answers PINGs, so a connection whose client sends PINGs is
/// never silent.
pub(super) fn longest_drain(rtt: Duration) -> Duration {
    (rtt * 16).clamp(Duration::from_secs(2), Duration::from_secs(10))
}
/// Time limit for the client to accept a GOAWAY.
const GOAWAY: Duration = Duration::from_secs(2);
/// Time limit for a handshake. If a client's first packets are lost, its probe timeouts come 1, 3,
/// 7 and 15 s after them (RFC 9002 §6.2.2), or 3, 9 and 21 s after them once the client has
/// measured a round-trip time of 1 s. On a path that loses 6 % of all packets, one handshake in a
/// thousand takes more than 10 s.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(30);

/// Serves one client from its first packet to its last.
pub(super) async fn run<E: Endpoint>(
    endpoint: &E,
    incoming: E::Incoming,
    share: usize,
    server: &Arc<ServerContext>,
    stop: watch::Receiver<bool>,
    mut admission_guard: AdmissionGuard,
) {
    let context = Arc::new(ConnectionContext::new(
        Arc::clone(server),
        share,
        incoming.remote_address(),
        incoming.original_dcid(),
    ));
    let label = context.label();
    let taken = accept(endpoint, incoming, share, context.observer(), server.limits.early_data);
    let taken = tokio::time::timeout(HANDSHAKE, taken).await;
    let (connection, handshake_rest) =
        match taken.unwrap_or(Err(HandshakeError::TimedOut(HANDSHAKE))) {
            Ok(connection) => connection,
            Err(why) => {
                tracing::debug!(?label, "handshake: {why}");
                server.metrics.failed(label);
                return;
            }
        };
    server.metrics.opened(label);
    // Count the connection as closed, however this task ends.
    let _closed = Closed::<E> { connection: &connection, server, label };
    let mut connected = || {
        admission_guard.connected();
        context.connected();
        if let Some(log) = &context.log {
            log.timestamps_negotiated(connection.stats().in_use);
        }
    };
    if handshake_rest.is_none() {
        connected();
    }
    let over = async {
        let Some(handshake_rest) = handshake_rest else { return };
        match tokio::time::timeout(HANDSHAKE, handshake_rest).await {
            Ok(true) => connected(),
            Ok(false) => {}
            Err(_) => {
                server.metrics.failed(label);
                connection.close(NO_ERROR);
            }
        }
    };
    let native = server.shares.is_native(share);
    let served = async {
        let served = requests::<E>(&connection, &context, stop);
        match context.log.as_ref().filter(|_| native) {
            // Native controllers do not report events, so sample them.
            Some(log) => {
                let served = tokio::select! {
                    served = served => served,
                    never = log.sample(|| connection.stats()) => match never {},
                };
                log.record_changes(&connection.stats());
                served
            }
            None => served.await,
        }
    };
    let (served, ()) = tokio::join!(served, over);
    if let Err(e) = served {
        tracing::debug!(?label, "connection: {e}");
    }
    connection.close(NO_ERROR);
}

/// Rest of a handshake whose connection already serves 0-RTT. Resolves to whether the connection is
/// still open.
type HandshakeCompletion = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Completes the handshake under the controller with this index. With `early_data`, returns before
/// the handshake is complete, together with its rest.
async fn accept<E: Endpoint>(
    endpoint: &E,
    incoming: E::Incoming,
    share: usize,
    observer: Option<Arc<dyn Observer>>,
    early_data: bool,
) -> Result<(E::Connection, Option<HandshakeCompletion>), HandshakeError> {
    let mut connecting =
        endpoint.begin(incoming, share, observer).map_err(HandshakeError::not_started)?;
    if early_data {
        // A server can always serve before the handshake is complete. The client's 0-RTT data are
        // then available at once.
        match connecting.into_0rtt() {
            Ok((connection, over)) => {
                let ours = connection.clone();
                // On a server, the output of `over` has no meaning.
                let completion = async move {
                    over.await;
                    ours.close_reason().is_none()
                };
                return Ok((connection, Some(Box::pin(completion))));
            }
            Err(failed) => connecting = failed,
        }
    }
    Ok((connecting.await?, None))
}

struct Closed<'a, E: Endpoint> {
    connection: &'a E::Connection,
    server: &'a ServerContext,
    label: &'a ControllerLabels,
}

impl<E: Endpoint> Drop for Closed<'_, E> {
    fn drop(&mut self) {
        self.server.metrics.closed(self.label, &self.connection.stats());
    }
}

async fn requests<E: Endpoint>(
    connection: &E::Connection,
    context: &Arc<ConnectionContext>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), h3::error::ConnectionError> {
    let limits = &context.server.limits;
    let mut builder = h3::server::builder();
    builder.max_field_section_size(limits.header_bytes).send_grease(false);
    let (transport, streams) = SharedStreamConnection::new(connection.acknowledged_h3());
    let sections = SectionLimits { stream: limits.request_bytes(), section: limits.header_bytes };
    let transport =
        GuardedConnection::new(transport, Peer::Client, sections, Closer::new(connection));
    // If a client permitted no stream, the setup would never complete.
    let Ok(begun) = tokio::time::timeout(HANDSHAKE, builder.build(transport)).await else {
        return Ok(());
    };
    let mut http = begun?;
    // Limit the open requests. A client that cancels requests may open new ones at once, and
    // cancelled requests must not accumulate.
    let most = (limits.streams as usize).max(1);
    let activity = RequestActivity::new();
    // Run all requests in this task. A separate task for each request would take a tenth of the CPU
    // time of a small response.
    let mut open = FuturesUnordered::new();
    let mut shutting_down = false;
    let mut unused = pin!(sleep_until(activity.unused_from(limits.request_timeout)));
    let over = loop {
        tokio::select! {
            accepted = http.accept(), if open.len() < most => match accepted {
                Ok(Some(resolver)) => {
                    // This request may arrive in 0-RTT before the handshake is complete. The client
                    // then has a ticket of this server, which is valid only once.
                    context.connected();
                    open.push(request(resolver, &streams, context, &activity));
                }
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            },
            () = some_are_over(&mut open, most, shutting_down, &context.memory) => if context.memory.is_evicted() {
                connection.close(EXCESSIVE_LOAD);
                break Ok(());
            },
            // Send GOAWAY (RFC 9114 §5.2). Open requests are still answered, and so is one request
            // that is already on its way.
            () = stopped(&mut stop), if !shutting_down => {
                shutting_down = true;
                if let Some(over) = announced(http.shutdown(1)).await {
                    break over;
                }
            }
            () = unused.as_mut(), if !shutting_down => {
                let from = activity.unused_from(limits.request_timeout);
                if from > Instant::now() {
                    unused.as_mut().reset(from);
                } else {
                    context.server.metrics.no_request();
                    shutting_down = true;
                    if let Some(over) = announced(http.shutdown(1)).await {
                        break over;
                    }
                }
            }
        }
        if shutting_down && open.is_empty() {
            break Ok(());
        }
    };
    // If the connection is over, the requests end at once. Responses that the client had already
    // acknowledged are still counted.
    while poll_fn(|cx| poll_open(&mut open, cx)).await {}
    if shutting_down && over.is_ok() {
        drained::<E>(connection).await;
    }
    over
}

/// Runs requests until the end of one matters to the connection: the connection can accept requests
/// again, has nothing left to do, or must be closed.
async fn some_are_over(
    open: &mut FuturesUnordered<impl Future<Output = ()>>,
    most: usize,
    shutting_down: bool,
    memory: &ConnectionBudget,
) {
    poll_fn(|cx| {
        loop {
            let was_full = open.len() >= most;
            if !ready!(poll_open(open, cx)) {
                // A new request wakes the connection.
                return Poll::Pending;
            }
            if was_full || (shutting_down && open.is_empty()) || memory.is_evicted() {
                return Poll::Ready(());
            }
        }
    })
    .await;
}

/// Runs requests until one is over. Returns `false` if no request is open. If a request panics,
/// only that request ends: its stream is reset, and the set drops the request.
fn poll_open(
    open: &mut FuturesUnordered<impl Future<Output = ()>>,
    cx: &mut Context<'_>,
) -> Poll<bool> {
    match catch_unwind(AssertUnwindSafe(|| open.poll_next_unpin(cx))) {
        Ok(over) => over.map(|over| over.is_some()),
        Err(_) => {
            tracing::error!(
                "a request panicked, which is a bug of this server; its stream was reset"
            );
            Poll::Ready(true)
        }
    }
}

/// Sends GOAWAY. If sending fails or the client does not accept the GOAWAY, returns how the
/// connection ends.
async fn announced<E>(shutdown: impl Future<Output = Result<(), E>>) -> Option<Result<(), E>> {
    match tokio::time::timeout(GOAWAY, shutdown).await {
        Ok(Ok(())) => None,
        Ok(Err(e)) => Some(Err(e)),
        Err(_) => Some(Ok(())),
    }
}

/// Waits until a connection has nothing left to send. Unacknowledged data would be sent again
/// within a probe timeout, so silence means that none are left. If the connection were closed
/// earlier, the peer would lose data that it has not received. quinn 0.11 would not even send the
/// close while congestion control holds data back.
async fn drained<E: Endpoint>(connection: &E::Connection) {
    let quiet = async {
        loop {
            let before = connection.stats();
            tokio::time::sleep(QUIET.max(before.rtt.unwrap_or_default() * 4)).await;
            if connection.stats().sent == before.sent {
                return;
            }
        }
    };
    let longest = longest_drain(connection.stats().rtt.unwrap_or_default());
    let _ = tokio::time::timeout(longest, quiet).await;
}

// Response times are in real time.
#[allow(clippy::disallowed_methods)]
async fn request<C, S>(
    mut resolver: RequestResolver<C, Bytes>,
    streams: &StreamRegistry<S>,
    context: &ConnectionContext,
    activity: &RequestActivity,
) where
    C: h3::quic::Connection<Bytes>,
    C::BidiStream: BidiStream<Bytes, SendStream: Send, RecvStream: Send + 'static> + Send,
    S: ResponseStream + Send,
{
    // Hold the stream until the outcome is known, because a dropped stream ends as if its response
    // were complete.
    let Some(mut shared) = streams.take(resolver.frame_stream.id()) else { return };
    let _reset = ResetOnPanic(shared.clone());
    let header = poll_fn(|cx| resolver.frame_stream.poll_next(cx));
    let patience = context.server.limits.header_timeout;
    let Ok(header) = tokio::time::timeout(patience, header).await else {
        context.server.metrics.slow_header();
        // The server did no work for the request, so the client may send it again.
        resolver.frame_stream.reset(Code::H3_REQUEST_REJECTED.value());
        return;
    };
    let started = std::time::Instant::now();
    let resolved = match resolver.accept_with_frame(header) {
        Ok(resolved) => resolved.resolve().await,
        Err(error) => Err(error),
    };
    let (request, stream) = match resolved {
        Ok(resolved) => resolved,
        Err(error) => return refuse(&mut shared, &error, context).await,
    };
    let _answering = activity.request();
    let delivery = shared.delivery();
    let (mut stream, received) = stream.split();
    let (head, ()) = request.into_parts();
    let (body, mut unread) = if context.server.site.is_proxied(head.uri.path()) {
        (H3Body::new(received).boxed_unsync(), None)
    } else {
        (request::empty(), Some(received))
    };
    // Check the received part of an unread body, because it may violate the protocol. Most requests
    // have no body.
    let begun = unread.as_mut().map_or(Poll::Pending, begin_reading);
    let body_fault = match &begun {
        Poll::Ready(Err(error)) => match PeerError::of(error) {
            Some(PeerError::Length { .. }) => Some(RequestBodyError::Length),
            Some(_) => return refuse(&mut shared, error, context).await,
            None => None,
        },
        _ => None,
    };
    if !matches!(begun, Poll::Pending | Poll::Ready(Ok(false))) {
        unread = None;
    }
    let http::request::Parts { method, uri, headers, .. } = head;
    let request = SiteRequest {
        method,
        uri,
        version: Version::HTTP_3,
        headers,
        client: context.client,
        body,
        body_fault,
    };
    let mut response = StreamResponse { stream: &mut stream, shared };
    if answer(&mut response, delivery, started, request, context).await
        != DeliveryOutcome::Acknowledged
    {
        // A dropped stream would end as if its response were complete. Stopping the stream also
        // releases data that nobody reads.
        stream.stop_stream(Code::H3_INTERNAL_ERROR);
    }
    if let Some(mut unread) = unread {
        finish_reading(&mut unread).await;
    }
}

/// Resets a stream if its request panics.
struct ResetOnPanic<S: ResponseStream>(SharedStream<S>);

impl<S: ResponseStream> Drop for ResetOnPanic<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.reset(Code::H3_INTERNAL_ERROR.value());
        }
    }
}

/// Refuses a request whose header is invalid. A header that is too large gets status 431. Any other
/// request is reset with the code that RFC 9114 specifies.
async fn refuse<S: ResponseStream>(
    shared: &mut SharedStream<S>,
    error: &StreamError,
    context: &ConnectionContext,
) {
    tracing::debug!(label = ?context.label(), "request: {error}");
    let limits = &context.server.limits;
    let code = match PeerError::of(error) {
        Some(PeerError::FieldsTooLarge(_)) => {
            context.server.metrics.fields_too_large();
            let written = tokio::time::timeout(
                limits.header_timeout,
                shared.fields_too_large(limits.header_bytes),
            )
            .await;
            if matches!(written, Ok(Ok(()))) {
                return;
            }
            Code::H3_EXCESSIVE_LOAD
        }
        Some(error) if error.ends_connection() => return,
        Some(error) => error.code(),
        None => match error {
            // This is an error that `h3` found.
            StreamError::StreamError { code, .. } => *code,
            // The client gave up the request (RFC 9114 §4.1).
            _ => Code::H3_REQUEST_INCOMPLETE,
        },
    };
    if code == Code::H3_MESSAGE_ERROR {
        context.server.metrics.malformed();
    }
    shared.reset(code.value());
    shared.stop_sending(code.value());
}

/// Number of bytes of an unread body that are checked before the response. Reading more would give
/// the client credit to send more.
const LOOKED_AT: usize = 256;

/// Reads the beginning of a request's body, as far as it has arrived. Returns whether this part is
/// the whole body.
fn begin_reading<S: RecvStream>(
    stream: &mut RequestStream<S, Bytes>,
) -> Poll<Result<bool, StreamError>> {
    let (mut cx, mut read) = (Context::from_waker(Waker::noop()), 0);
    while let Some(data) = ready!(stream.poll_recv_data(&mut cx))? {
        read += data.remaining();
        if read >= LOOKED_AT {
            return Poll::Ready(Ok(false));
        }
    }
    Poll::Ready(Ok(true))
}

/// Reads the end of a request, as far as it has arrived. Stops the rest with H3_NO_ERROR
/// (RFC 9114 §4.1), because h2load counts a request as failed if it is stopped with code 0.
async fn finish_reading<S: RecvStream>(stream: &mut RequestStream<S, Bytes>) {
    let over =
        poll_fn(|cx| Poll::Ready(matches!(stream.poll_recv_data(cx), Poll::Ready(Ok(None))))).await;
    if !over {
        stream.stop_sending(Code::H3_NO_ERROR);
    }
}

/// A response. Its header and end are written through `h3`. Its body bypasses `h3`.
struct StreamResponse<'a, T, S> {
    stream: &'a mut RequestStream<T, Bytes>,
    shared: SharedStream<S>,
}

impl<T: SendStream<Bytes> + Send, S: ResponseStream + Send> ResponseWriter
    for StreamResponse<'_, T, S>
{
    async fn head(&mut self, status: StatusCode, headers: HeaderMap) -> Result<(), ResponseError> {
        let mut head = http::Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = headers;
        Ok(self.stream.send_response(head).await?)
    }

    async fn data(&mut self, bytes: Bytes) -> Result<(), ResponseError> {
        self.shared.data(bytes).await.map_err(ResponseError::Stream)
    }

    async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), ResponseError> {
        if let Some(trailers) = trailers {
            self.stream.send_trailers(trailers).await?;
        }
        Ok(self.stream.finish().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panicking_request_does_not_affect_other_requests() {
        let metrics = crate::metrics::Metrics::new();
        let budget = super::super::memory_budget::MemoryBudget::new(
            &Default::default(),
            metrics.response_memory(),
        );
        let memory = budget.connection();
        let done = std::cell::Cell::new(0);
        let mut open = FuturesUnordered::new();
        for number in 0..5 {
            let done = &done;
            open.push(async move {
                tokio::task::yield_now().await;
                assert!(number != 2, "one panics");
                done.set(done.get() + 1);
            });
        }
        some_are_over(&mut open, 100, true, &memory).await;
        assert_eq!((done.get(), open.len()), (4, 0));
    }

    /// Returns the size of the value that a function of four arguments returns.
    fn size_of_returned<A, B, C, D, F>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// The state of the proxy once made a request's future 55 KB. The future is copied when it
    /// starts, which was half of a small response's CPU time.
    #[test]
    fn future_of_a_request_stays_small() {
        type H3<E> = <<E as Endpoint>::Connection as Connection>::AcknowledgedH3;
        type Transport =
            GuardedConnection<SharedStreamConnection<H3<fathom_stacks::quinn::Endpoint>>>;
        let size = size_of_returned(
            |resolver: RequestResolver<Transport, Bytes>,
             streams: &'static StreamRegistry<
                <H3<fathom_stacks::quinn::Endpoint> as h3::quic::OpenStreams<Bytes>>::BidiStream,
            >,
             context: &'static ConnectionContext,
             activity: &'static RequestActivity| {
                request(resolver, streams, context, activity)
            },
        );
        assert!(size < 10 << 10, "{size} bytes");
    }
}
