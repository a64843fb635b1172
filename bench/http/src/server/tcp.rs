//! HTTP/1.1 and HTTP/2 over TLS and TCP. They offer the same site to clients that do not know
//! HTTP/3 yet or cannot reach it. Every response advertises HTTP/3 (`Alt-Svc`, RFC 7838), so that
//! browsers switch to it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::ALT_SVC;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::RequestActivity;
use super::admission::{AdmissionControl, AdmissionDecision, AdmissionGuard};
use super::response::{ConnectionContext, DeliveryOutcome, ResponseError, ResponseWriter, answer};
use super::tcp_handshakes::{Handshakes, UnderWay};
use super::{ServerContext, SetupError, TcpSettings, WINDOW};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::request::{RequestBodyError, SiteRequest};
use crate::served_identity::ServedIdentity;
use crate::stop::stopped;

/// Time for which browsers remember the HTTP/3 endpoint, in seconds: a day, as on most sites.
const MAX_AGE: u32 = 86_400;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1_024;
/// Time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Interval of PINGs to a quiet HTTP/2 client, and time limit for the client's answer.
const PING: Duration = Duration::from_secs(20);
/// Bytes of a response that a connection buffers in addition to the kernel's buffer.
const BUFFER: usize = 64 << 10;
/// Time for a connection to notice that a response broke off. After this time, the connection is
/// closed.
const BREAK_OFF: Duration = Duration::from_secs(5);

/// Binds a listener. If `address` is the IPv6 wildcard, the listener serves both families.
pub(super) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6()
        && let Err(e) = socket.set_only_v6(false)
    {
        tracing::debug!("no IPv4 at {address}: {e}");
    }
    // Connections of a previous server process may not be closed yet.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A TCP listener that is not serving yet.
pub(super) struct TcpServer {
    listener: TcpListener,
    tls: TlsAcceptor,
    alt_svc: HeaderValue,
    admission: Arc<AdmissionControl>,
    limits: Limits,
    /// Whether request bodies are read.
    bodies: bool,
}

impl TcpServer {
    pub(super) fn new(
        listener: std::net::TcpListener,
        settings: &TcpSettings,
        identity: &ServedIdentity,
        address: SocketAddr,
        limits: &Limits,
        bodies: bool,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, SetupError> {
        let error = |e| SetupError::Tcp(address, e);
        listener.set_nonblocking(true).map_err(error)?;
        let listener = TcpListener::from_std(listener).map_err(error)?;
        let mut limits = *limits;
        limits.connections = settings.connections.unwrap_or(limits.connections);
        let port = settings.alt_svc_port.unwrap_or(address.port());
        let alt_svc = format!("h3=\":{port}\"; ma={MAX_AGE}");
        let alt_svc = HeaderValue::try_from(alt_svc).map_err(|e| error(io::Error::other(e)))?;
        let admission = AdmissionControl::new(limits, Arc::clone(metrics));
        Ok(Self {
            listener,
            tls: TlsAcceptor::from(identity.tcp()?),
            alt_svc,
            admission,
            limits,
            bodies,
        })
    }

    /// Serves until `stop` becomes true. Then waits at most `grace` for open requests to finish.
    pub(super) async fn serve(
        self,
        context: Arc<ServerContext>,
        mut stop: watch::Receiver<bool>,
        grace: Duration,
    ) {
        let this = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut handshakes = Handshakes::new(this.limits.connections);
        loop {
            tokio::select! {
                accepted = this.listener.accept() => {
                    let Ok((stream, from)) = accepted else {
                        // Either the client disconnected, or the system is temporarily out of file
                        // descriptors.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    // TCP's handshake has validated the address. A refused connection is closed.
                    let AdmissionDecision::Accept(guard) = this.admission.decide(from, true, Instant::now()) else {
                        continue;
                    };
                    let client = this.limits.client_prefix.of(from.ip());
                    let (this, context, stop) = (Arc::clone(&this), Arc::clone(&context), stop.clone());
                    let under_way = UnderWay::default();
                    let place = (guard, Arc::clone(&under_way));
                    let task =
                        connections.spawn(async move { this.connection(stream, from, &context, stop, place).await });
                    handshakes.add(client, task, &under_way);
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                () = stopped(&mut stop) => break,
            }
        }
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(grace, all).await;
        connections.abort_all();
    }

    async fn connection(
        &self,
        stream: TcpStream,
        from: SocketAddr,
        server: &Arc<ServerContext>,
        stop: watch::Receiver<bool>,
        (mut guard, under_way): (AdmissionGuard, UnderWay),
    ) {
        let context = Arc::new(ConnectionContext::of_tcp(Arc::clone(server), from));
        let label = context.label();
        // Headers and small bodies are written in one piece, so waiting for more data gains
        // nothing.
        let _ = stream.set_nodelay(true);
        bound_kernel_buffer(&stream);
        let stream = match timeout(HANDSHAKE, self.tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            failed => {
                let why = failed.map_or_else(
                    |_| "timed out".into(),
                    |r| r.err().map_or_else(String::new, |e| e.to_string()),
                );
                tracing::debug!("TLS handshake of {from}: {why}");
                server.metrics.failed(label);
                return;
            }
        };
        drop(under_way);
        guard.connected();
        server.metrics.opened(label);
        let _closed = Closed(&context);
        if let Err(e) = self.requests(stream, &context, stop).await {
            tracing::debug!("TCP connection of {from}: {e}");
        }
    }

    async fn requests(
        &self,
        stream: TlsStream<TcpStream>,
        context: &Arc<ConnectionContext>,
        stop: watch::Receiver<bool>,
    ) -> hyper::Result<()> {
        let Limits { header_bytes, header_timeout, streams, .. } = self.limits;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let (stream, activity, broken) =
            (TokioIo::new(stream), Arc::new(RequestActivity::new()), Arc::new(Notify::new()));
        let service = service_fn(|request| {
            respond(
                request,
                Arc::clone(context),
                Arc::clone(&activity),
                Arc::clone(&broken),
                self.alt_svc.clone(),
            )
        });
        let header_bytes = usize::try_from(header_bytes).unwrap_or(BUFFER).max(8 << 10);
        if http2 {
            let window = if self.bodies { WINDOW / 2 } else { 64 << 10 };
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(streams)
                .initial_stream_window_size(window)
                .initial_connection_window_size(WINDOW)
                .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
                .max_send_buf_size(BUFFER)
                .keep_alive_interval(PING)
                .keep_alive_timeout(PING)
                .serve_connection(stream, service);
            self.drive(
                connection,
                http2::Connection::graceful_shutdown,
                context,
                &activity,
                &broken,
                stop,
            )
            .await
        } else {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(header_timeout)
                .max_buf_size(header_bytes)
                .serve_connection(stream, service);
            self.drive(
                connection,
                http1::Connection::graceful_shutdown,
                context,
                &activity,
                &broken,
                stop,
            )
            .await
        }
    }

    /// Runs a connection until it ends by itself, the server stops, the connection is without a
    /// request for too long, or its client reads nothing any more.
    async fn drive<C: Future<Output = hyper::Result<()>>>(
        &self,
        connection: C,
        shut_down: impl Fn(Pin<&mut C>),
        context: &ConnectionContext,
        activity: &RequestActivity,
        broken: &Notify,
        mut stop: watch::Receiver<bool>,
    ) -> hyper::Result<()> {
        let mut connection = std::pin::pin!(connection);
        let mut unused =
            std::pin::pin!(sleep_until(activity.unused_from(self.limits.request_timeout)));
        let mut shutting_down = false;
        loop {
            tokio::select! {
                over = connection.as_mut() => return over,
                () = broken.notified() => return Ok(()),
                () = stopped(&mut stop), if !shutting_down => {
                    shutting_down = true;
                    shut_down(connection.as_mut());
                }
                () = unused.as_mut() => {
                    let from = activity.unused_from(self.limits.request_timeout);
                    if from > Instant::now() {
                        unused.as_mut().reset(from);
                    } else if shutting_down {
                        return Ok(());
                    } else {
                        context.server.metrics.no_request();
                        shutting_down = true;
                        shut_down(connection.as_mut());
                        unused.as_mut().reset(Instant::now() + BREAK_OFF);
                    }
                }
            }
        }
    }
}

/// Limits the unsent data in the kernel's send buffer, where they wait for a client that reads
/// slowly. The default is up to 4 MiB (`tcp_wmem`) for each connection.
fn bound_kernel_buffer(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(BUFFER as u32);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

struct Closed<'a>(&'a ConnectionContext);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.server.metrics.closed_tcp(self.0.label());
    }
}

/// A message from a response to the task of its connection.
enum Message {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

/// Answers a request on a separate task. The connection reads the response from the returned body.
// Response times are in real time.
#[allow(clippy::disallowed_methods)]
async fn respond(
    request: Request<Incoming>,
    context: Arc<ConnectionContext>,
    activity: Arc<RequestActivity>,
    broken: Arc<Notify>,
    alt_svc: HeaderValue,
) -> io::Result<Response<PipedBody>> {
    let started = std::time::Instant::now();
    let (head, body) = request.into_parts();
    let (none, http2) = (head.method == Method::HEAD, head.version == Version::HTTP_2);
    let request = SiteRequest {
        method: head.method,
        uri: head.uri,
        version: head.version,
        headers: head.headers,
        client: context.client,
        body: body.map_err(|e| RequestBodyError::Broken(e.to_string())).boxed_unsync(),
        body_fault: None,
    };
    let (head, header) = oneshot::channel();
    let (messages, receiver) = mpsc::channel(1);
    let (delivered, delivery) = oneshot::channel();
    let delivered = Delivered(Some(delivered));
    let (held, gone) = oneshot::channel::<()>();
    let mut writer = PipeWriter { head: Some(head), messages, delivery };
    tokio::spawn(async move {
        let _answering = activity.request();
        let outcome = answer(&mut writer, started, request, &context).await;
        if outcome != DeliveryOutcome::Acknowledged {
            // A body without its end breaks off when the connection next asks for data. If the
            // client takes no data, the connection never asks, so close it after a while.
            drop(writer);
            if timeout(BREAK_OFF, gone).await.is_err() {
                broken.notify_one();
            }
        }
    });
    let (status, headers) = header.await.map_err(|_| io::Error::other("there is no response"))?;
    let length = headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let none = none || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let left = if none { Some(0) } else { length };
    let over = none && http2;
    let mut response =
        Response::new(PipedBody { receiver, length, left, over, delivered, _held: held });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(ALT_SVC, alt_svc);
    Ok(response)
}

/// Sender that tells a response whether the connection has taken the whole response.
struct Delivered(Option<oneshot::Sender<()>>);

impl Delivered {
    fn complete(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(());
        }
    }
}

/// Writer of a response that passes it to the connection's task.
struct PipeWriter {
    head: Option<oneshot::Sender<(StatusCode, HeaderMap)>>,
    messages: mpsc::Sender<Message>,
    /// Resolves once the connection has taken the whole response.
    delivery: oneshot::Receiver<()>,
}

impl ResponseWriter for PipeWriter {
    async fn head(&mut self, status: StatusCode, headers: HeaderMap) -> Result<(), ResponseError> {
        // hyper cannot write interim responses except status 100, which it writes by itself.
        if status.is_informational() {
            return Ok(());
        }
        let head = self.head.take().ok_or(ResponseError::SecondHeader)?;
        head.send((status, headers)).map_err(|_| ResponseError::ClientGone)
    }

    async fn data(&mut self, bytes: Bytes) -> Result<(), ResponseError> {
        self.messages.send(Message::Data(bytes)).await.map_err(|_| ResponseError::ClientGone)
    }

    async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), ResponseError> {
        // A body of known length may be dropped before its end message. In this case, `delivery`
        // tells whether it was complete.
        if let Some(trailers) = trailers {
            let _ = self.messages.send(Message::Trailers(trailers)).await;
        }
        let _ = self.messages.send(Message::End).await;
        Ok(())
    }

    fn poll_delivered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ResponseError>> {
        Pin::new(&mut self.delivery).poll(cx).map_err(|_| ResponseError::ClientGone)
    }
}

/// Body of a response, as read by its connection.
struct PipedBody {
    receiver: mpsc::Receiver<Message>,
    /// Length according to the header. It is also set for a response without a body.
    length: Option<u64>,
    /// Number of bytes that are still to come, if known.
    left: Option<u64>,
    /// Whether the header already ends the stream. After a `content-length`, an empty DATA frame
    /// would be a body that is too short.
    over: bool,
    delivered: Delivered,
    /// Sender that is dropped with the body to signal the body's end.
    _held: oneshot::Sender<()>,
}

impl Body for PipedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match ready!(self.receiver.poll_recv(cx)) {
            Some(Message::Data(bytes)) => {
                if let Some(left) = &mut self.left {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                Some(Ok(Frame::data(bytes)))
            }
            Some(Message::Trailers(fields)) => Some(Ok(Frame::trailers(fields))),
            Some(Message::End) => {
                self.left = Some(0);
                self.receiver.close();
                self.delivered.complete();
                None
            }
            // The end was not announced.
            None if self.delivered.0.is_some() => {
                Some(Err(io::Error::other("the response broke off")))
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for PipedBody {
    fn drop(&mut self) {
        // If the length is known, the connection does not wait for the end message.
        if self.left == Some(0) {
            self.delivered.complete();
        }
    }
}
