//! Serves the requests of one connection.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use fathom_http3::error::{Code, Kind};
use fathom_http3::qpack::Fields;
use fathom_http3::server::{self, Event, RequestStream};
use fathom_http3::stream::{ReceiveStream, SendStream};
use fathom_http3::{Error, transport};
use fathom_plugin::Observer;
use fathom_stacks::{Connecting, Connection, Endpoint, Incoming, ReadOrder};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{HeaderMap, StatusCode, Version};
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::ServerContext;
use super::activity::RequestActivity;
use super::admission::AdmissionGuard;
use super::memory_budget::ConnectionBudget;
use super::priorities::{Priorities, ResponsePriority};
use super::request_body::{Http3Body, body_error};
use super::response::{ConnectionContext, DeliveryOutcome, ResponseError, ResponseWriter, answer};
use crate::handshake_error::HandshakeError;
use crate::http3::{self, NO_ERROR};
use crate::metrics::ControllerLabels;
use crate::request::{self, RequestBodyError, SiteRequest};
use crate::stop::stopped;

/// H3_EXCESSIVE_LOAD (RFC 9114 §8.1).
pub(super) const EXCESSIVE_LOAD: u32 = Code::H3_EXCESSIVE_LOAD.0 as u32;
/// Minimum duration of the silence after which a connection has nothing left to send. A peer may
/// delay an acknowledgement by 25 ms.
pub(super) const QUIET: Duration = Duration::from_millis(100);
/// Returns the maximum time to wait for the silence: sixteen round trips, within these bounds. The
/// wait needs a limit because the server answers PINGs, so a connection whose client sends PINGs is
/// never silent.
pub(super) fn longest_drain(rtt: Duration) -> Duration {
    (rtt * 16).clamp(Duration::from_secs(2), Duration::from_secs(10))
}
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
) -> Result<(), Error> {
    let limits = &context.server.limits;
    let config = http3::config(limits.header_bytes, limits.request_bytes());
    let mut http = server::Connection::new(connection.http(ReadOrder::Ordered), config);
    // Limit the open requests. A client that cancels requests may open new ones at once, and
    // cancelled requests must not accumulate.
    let most = (limits.streams as usize).max(1);
    let (activity, priorities) = (RequestActivity::new(), Priorities::default());
    // Run all requests in this task. A separate task for each request would take a tenth of the CPU
    // time of a small response.
    let mut open = FuturesUnordered::new();
    let mut shutting_down = false;
    let mut stopped = pin!(stopped(&mut stop));
    let mut unused = pin!(sleep_until(activity.unused_from(limits.request_timeout)));
    let over = loop {
        tokio::select! {
            event = poll_fn(|cx| http.poll_event(cx)), if open.len() < most => match event {
                Ok(Some(Event::Request(stream))) => {
                    // This request may arrive in 0-RTT before the handshake is complete. The client
                    // then has a ticket of this server, which is valid only once.
                    context.connected();
                    open.push(request(stream, &priorities, context, &activity));
                }
                Ok(Some(Event::PriorityUpdate { stream, priority })) => {
                    priorities.update(stream, priority);
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
            () = stopped.as_mut(), if !shutting_down => {
                shutting_down = true;
                if let Err(e) = http.shutdown(1) {
                    break Err(e);
                }
            }
            () = unused.as_mut(), if !shutting_down => {
                let from = activity.unused_from(limits.request_timeout);
                if from > Instant::now() {
                    unused.as_mut().reset(from);
                } else {
                    context.server.metrics.no_request();
                    shutting_down = true;
                    if let Err(e) = http.shutdown(1) {
                        break Err(e);
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
async fn request<C: transport::Connection>(
    mut stream: RequestStream<C>,
    priorities: &Priorities,
    context: &ConnectionContext,
    activity: &RequestActivity,
) {
    // Most headers have already arrived, and need no timer.
    let header = match poll_fn(|cx| Poll::Ready(stream.poll_head(cx))).await {
        Poll::Ready(header) => header,
        Poll::Pending => {
            let patience = context.server.limits.header_timeout;
            let Ok(header) = tokio::time::timeout(patience, stream.head()).await else {
                context.server.metrics.slow_header();
                // The server did no work for the request, so the client may send it again.
                return stream.reset(Code::H3_REQUEST_REJECTED);
            };
            header
        }
    };
    let started = std::time::Instant::now();
    let head = match header.and_then(|_| stream.request()) {
        Ok(head) => head.into_parts().0,
        Err(error) => {
            let (send, receive) = stream.split();
            return refuse(send, receive, &error, context).await;
        }
    };
    let _answering = activity.request();
    let priority = priorities.of(stream.id(), stream.fields().get(b"priority"));
    let (send, mut receive) = stream.split();
    let mut body_fault = None;
    let (body, unread) = if context.server.site.is_proxied(head.uri.path()) {
        (Http3Body::new(receive).boxed_unsync(), None)
    } else {
        // Check the received part of an unread body, because it may violate the protocol. Most
        // requests have no body.
        let begun = begin_reading(&mut receive);
        if let Poll::Ready(Err(error)) = &begun
            && error.protocol().is_some()
        {
            match body_error(error) {
                RequestBodyError::Length => body_fault = Some(RequestBodyError::Length),
                _ => return refuse(send, receive, error, context).await,
            }
        }
        let unread = matches!(begun, Poll::Pending | Poll::Ready(Ok(false))).then_some(receive);
        (request::empty(), unread)
    };
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
    let mut response = StreamResponse { send, priority };
    response.prioritise();
    if answer(&mut response, started, request, context).await != DeliveryOutcome::Acknowledged {
        // Data that nobody reads are released.
        response.send.reset(Code::H3_INTERNAL_ERROR);
    }
    if let Some(mut unread) = unread {
        finish_reading(&mut unread).await;
    }
}

/// Refuses a request whose header is invalid. A header that is too large gets status 431. Any other
/// request is reset with the code that RFC 9114 specifies.
async fn refuse<C: transport::Connection>(
    mut send: SendStream<C>,
    mut receive: ReceiveStream<C>,
    error: &Error,
    context: &ConnectionContext,
) {
    tracing::debug!(label = ?context.label(), "request: {error}");
    let limits = &context.server.limits;
    let code = match error.protocol() {
        Some(error) if error.kind == Kind::FieldsTooLarge => {
            context.server.metrics.fields_too_large();
            let written = tokio::time::timeout(
                limits.header_timeout,
                fields_too_large(&mut send, limits.header_bytes),
            )
            .await;
            if matches!(written, Ok(Ok(()))) {
                return;
            }
            error.code
        }
        Some(error) if error.ends_connection() => return,
        Some(error) => error.code,
        // The client gave up the request (RFC 9114 §4.1).
        None => Code::H3_REQUEST_INCOMPLETE,
    };
    if code == Code::H3_MESSAGE_ERROR {
        context.server.metrics.malformed();
    }
    send.reset(code);
    receive.stop(code);
}

/// Answers a request with 431 (RFC 6585 §5) because its fields take more than this many bytes.
async fn fields_too_large<C: transport::Connection>(
    send: &mut SendStream<C>,
    limit: u64,
) -> Result<(), Error> {
    let text =
        format!("the header fields take more than {limit} bytes; send fewer or shorter ones\n");
    let fields = [
        (":status", "431"),
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", &text.len().to_string()),
    ];
    send.send_message(&fields, text.clone().into()).await
}

/// Number of bytes of an unread body that are checked before the response. Reading more would give
/// the client credit to send more.
const LOOKED_AT: usize = 256;

/// Reads the beginning of a request's body, as far as it has arrived. Returns whether this part is
/// the whole body.
fn begin_reading<C: transport::Connection>(
    stream: &mut ReceiveStream<C>,
) -> Poll<Result<bool, Error>> {
    let (mut cx, mut read) = (Context::from_waker(Waker::noop()), 0);
    while let Some(data) = ready!(stream.poll_data(&mut cx))? {
        read += data.len();
        if read >= LOOKED_AT {
            return Poll::Ready(Ok(false));
        }
    }
    Poll::Ready(Ok(true))
}

/// Reads the end of a request, as far as it has arrived. Stops the rest with H3_NO_ERROR
/// (RFC 9114 §4.1), because h2load counts a request as failed if it is stopped with code 0.
async fn finish_reading<C: transport::Connection>(stream: &mut ReceiveStream<C>) {
    let over =
        poll_fn(|cx| Poll::Ready(matches!(stream.poll_data(cx), Poll::Ready(Ok(None))))).await;
    if !over {
        stream.stop(Code::H3_NO_ERROR);
    }
}

/// Header of a response.
struct ResponseHead<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
}

impl Fields for ResponseHead<'_> {
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        take(b":status", self.status.as_str().as_bytes()) && self.headers.all(take)
    }
}

/// A response over HTTP/3. Dropping it before its end resets the stream.
struct StreamResponse<'a, C: transport::Connection> {
    send: SendStream<C>,
    priority: ResponsePriority<'a>,
}

impl<C: transport::Connection> StreamResponse<'_, C> {
    /// Applies a priority that has changed.
    fn prioritise(&mut self) {
        if let Some(priority) = self.priority.changed() {
            self.send.set_priority(priority);
        }
    }

    /// Applies a priority that has changed, and wakes this task when the priority changes.
    fn wait(&mut self, cx: &Context<'_>) {
        self.prioritise();
        self.priority.wake(cx.waker());
    }

    /// Writes the rest of an operation that the client does not take at once.
    async fn flush(&mut self) -> Result<(), ResponseError> {
        poll_fn(|cx| {
            self.wait(cx);
            self.send.poll_flush(cx)
        })
        .await
        .map_err(ResponseError::from)
    }
}

/// Polls an operation once. If it is pending, the rest of its data stays in the stream.
async fn begin(
    operation: impl Future<Output = Result<(), Error>>,
) -> Result<Poll<()>, ResponseError> {
    let mut operation = pin!(operation);
    match poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx))).await {
        Poll::Ready(written) => Ok(Poll::Ready(written?)),
        Poll::Pending => Ok(Poll::Pending),
    }
}

impl<C: transport::Connection> ResponseWriter for StreamResponse<'_, C> {
    async fn head(&mut self, status: StatusCode, headers: HeaderMap) -> Result<(), ResponseError> {
        let head = ResponseHead { status, headers: &headers };
        match begin(self.send.send_head(&head)).await? {
            Poll::Ready(()) => Ok(()),
            Poll::Pending => self.flush().await,
        }
    }

    async fn data(&mut self, bytes: Bytes) -> Result<(), ResponseError> {
        match begin(self.send.send_data(bytes)).await? {
            Poll::Ready(()) => Ok(()),
            Poll::Pending => self.flush().await,
        }
    }

    async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), ResponseError> {
        if let Some(trailers) = trailers {
            self.send.send_trailers(&trailers).await?;
        }
        Ok(self.send.finish().await?)
    }

    async fn whole(
        &mut self,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(), ResponseError> {
        let head = ResponseHead { status, headers: &headers };
        match begin(self.send.send_message(&head, body)).await? {
            Poll::Ready(()) => Ok(()),
            Poll::Pending => {
                self.flush().await?;
                self.finish(None).await
            }
        }
    }

    fn poll_delivered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ResponseError>> {
        self.wait(cx);
        Poll::Ready(match ready!(self.send.poll_delivered(cx))? {
            None => Ok(()),
            Some(code) => Err(Error::Peer(code).into()),
        })
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
        type Http = <fathom_stacks::quinn::Connection as Connection>::Http;
        let size = size_of_returned(
            |stream: RequestStream<Http>,
             priorities: &'static Priorities,
             context: &'static ConnectionContext,
             activity: &'static RequestActivity| {
                request(stream, priorities, context, activity)
            },
        );
        assert!(size < 10 << 10, "{size} bytes");
    }
}
