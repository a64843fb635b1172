//! Connections to the upstream server. They are made on demand and kept for later requests, and
//! there are never more connections than slots.
//!
//! hyper's pooling client looks connections up by the request's authority. In this proxy, the
//! client chooses the authority, which can be any name, while all requests go to one server.
//! Therefore, this module manages the connections itself. Requests queue for a connection, which
//! may be new or returned by another request. A connection attempt is completed even if the request
//! that started it is gone. The next request then uses the connection, so clients that cancel their
//! requests at once do not waste a connection each.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::body::BoundedBody;
use super::upstream::{Scheme, Upstream};

/// Bytes that a connection buffers in each direction.
const BUFFER: usize = 64 << 10;
/// Size of the kernel's buffers of an HTTP/1.1 connection, in each direction. While a client
/// does not read, response data wait in these buffers and at the upstream server. By default, Linux
/// would let the buffers grow to 6 MiB (`tcp_rmem`) for each of about a hundred connections. Linux
/// doubles the given number (socket(7)).
const KERNEL_BUFFER: usize = 128 << 10;
/// Flow control windows of an HTTP/2 connection: bytes that may arrive on its streams before they
/// are read. A stream's window corresponds to its part of the memory for proxied responses.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Time limit for a connection to show that a response on it is over. This takes little time,
/// because the connection's task runs on this machine and waits for nothing.
const SETTLE: Duration = Duration::from_secs(1);

/// A request to the upstream server.
pub(super) type UpstreamRequest = http::Request<BoundedBody>;

/// Reason why a request got no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// There was no connection, so nothing was sent.
    Connect(ConnectError),
    /// The connection broke while it carried the request. The flag is true if the connection had
    /// been used before. In this case, the server may have closed it while the request was in
    /// transit.
    Broken(hyper::Error, bool),
}

/// Reason why there is no connection. It can be cloned, so that each waiting request gets it.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// TCP or TLS failed.
    #[error(transparent)]
    Transport(Arc<io::Error>),
    /// HTTP failed.
    #[error(transparent)]
    Http(Arc<hyper::Error>),
    /// The attempt took longer than this limit.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// The task that connects has ended.
    #[error("the connection attempt was abandoned")]
    Abandoned,
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Transport(Arc::new(error))
    }
}

impl From<hyper::Error> for ConnectError {
    fn from(error: hyper::Error) -> Self {
        Self::Http(Arc::new(error))
    }
}

/// A connection that carries one request after another.
struct Http1 {
    sender: http1::SendRequest<BoundedBody>,
    /// Future that resolves when the connection is over. The result is an error if the server sent
    /// data that no request had asked for.
    over: oneshot::Receiver<Option<hyper::Error>>,
}

/// A connection that can take a request. The flag is true for an existing connection, which the
/// server may have closed in the meantime.
enum Connection {
    Http1(Http1, bool),
    Http2(http2::SendRequest<BoundedBody>, bool),
}

type Waiting = oneshot::Sender<Result<Connection, ConnectError>>;

/// The connections, and the requests that wait for a connection.
#[derive(Default)]
struct State {
    /// Idle connections, with the one used last at the end.
    idle: Vec<(Instant, Http1)>,
    /// Connection that all requests share; `None` unless the server supports HTTP/2.
    shared: Option<http2::SendRequest<BoundedBody>>,
    /// Whether the last connection over TLS was for HTTP/1.1. The next connections are then made in
    /// parallel, because none can be shared.
    chose_http1: bool,
    waiting: VecDeque<Waiting>,
    /// Number of connection attempts in progress.
    connecting: usize,
}

/// Connections to one server.
pub(super) struct Pool {
    upstream: Upstream,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    /// Maximum number of idle connections.
    most_idle: usize,
    state: Mutex<State>,
    open: Gauge,
}

/// Counter guard of an open connection.
struct Open(Gauge);

impl Open {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Connection of a response that is not over. If this value is dropped early, the connection is
/// kept if the response can be read to its end at once. Otherwise, the connection is closed.
pub(super) struct Tail {
    http1: Option<Http1>,
    pool: Arc<Pool>,
}

impl Tail {
    /// Ends the response and returns the connection to the pool. `sent` tells whether the request
    /// is over as well. If it is, excess data of the server are detected here unless they arrive
    /// later.
    ///
    /// # Errors
    /// Returns an error if the server sent more data than its response.
    pub(super) async fn end(&mut self, sent: bool) -> Result<(), hyper::Error> {
        let Some(mut http1) = self.http1.take() else { return Ok(()) };
        if !sent {
            self.pool.keep(http1);
            return Ok(());
        }
        match tokio::time::timeout(SETTLE, http1.sender.ready()).await {
            Ok(Ok(())) => self.pool.offer(http1),
            Ok(Err(_)) => {
                if let Ok(Ok(Some(excess))) = tokio::time::timeout(SETTLE, http1.over).await {
                    return Err(excess);
                }
            }
            Err(_) => self.pool.keep(http1),
        }
        Ok(())
    }

    /// Discards the connection, because it is not certain where a response on it ends.
    pub(super) fn discard(&mut self) {
        self.http1 = None;
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        if let Some(http1) = self.http1.take() {
            self.pool.keep(http1);
        }
    }
}

impl Pool {
    pub(super) fn new(
        upstream: Upstream,
        tls: Option<Arc<ClientConfig>>,
        connect_timeout: Duration,
        idle_timeout: Duration,
        most_idle: usize,
        open: Gauge,
    ) -> Arc<Self> {
        let tls = tls
            .zip(upstream.server_name())
            .map(|(config, name)| (TlsConnector::from(config), name));
        Arc::new(Self {
            upstream,
            tls,
            connect_timeout,
            idle_timeout,
            most_idle,
            state: Mutex::default(),
            open,
        })
    }

    /// Sends a request on an existing or a new connection. A request is sent on another connection
    /// if none of its bytes was sent. `again` creates the same request once more if a repetition is
    /// harmless. Calls `sending` before a connection gets the request.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: UpstreamRequest,
        again: Option<&(dyn Fn() -> UpstreamRequest + Send + Sync)>,
        sending: impl Fn() + Send,
    ) -> Result<(Response<Incoming>, Tail), SendError> {
        let mut fresh = false;
        loop {
            let connection = self.connection(fresh).await.map_err(SendError::Connect)?;
            sending();
            let (sent, used, http1) = match connection {
                Connection::Http1(mut http1, used) => {
                    let sent = http1.sender.try_send_request(request).await;
                    (sent, used, Some(http1))
                }
                Connection::Http2(mut sender, used) => {
                    set_version(&mut request, self.tls.is_some());
                    (sender.try_send_request(request).await, used, None)
                }
            };
            match sent {
                Ok(response) => return Ok((response, Tail { http1, pool: Arc::clone(self) })),
                Err(failed) => request = another_try(failed, used, fresh, again)?,
            }
            fresh = true;
        }
    }

    /// Returns a free connection. With `fresh`, returns a new one.
    async fn connection(self: &Arc<Self>, fresh: bool) -> Result<Connection, ConnectError> {
        let (to, connection) = oneshot::channel();
        if fresh {
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                let made = pool.connect().await;
                pool.made(made, Some(to));
            });
            return connection.await.unwrap_or(Err(ConnectError::Abandoned));
        }
        {
            let mut state = self.state.lock();
            if let Some(sender) = state.shared.as_ref().filter(|sender| !sender.is_closed()) {
                return Ok(Connection::Http2(sender.clone(), true));
            }
            state.shared = None;
            state.idle.retain(|(since, http1)| {
                !http1.sender.is_closed() && since.elapsed() < self.idle_timeout
            });
            if let Some((_, http1)) = state.idle.pop() {
                return Ok(Connection::Http1(http1, true));
            }
            state.waiting.push_back(to);
            self.connect_for(&mut state);
        }
        connection.await.unwrap_or(Err(ConnectError::Abandoned))
    }

    /// Starts connections for the waiting requests. Starts one connection for each request, or a
    /// single one for all requests while it may be shared.
    fn connect_for(self: &Arc<Self>, state: &mut State) {
        state.waiting.retain(|waiting| !waiting.is_closed());
        let side_by_side = match self.upstream.scheme() {
            Scheme::Http => true,
            Scheme::Https => state.chose_http1,
            Scheme::H2c => false,
        };
        let wanted = if side_by_side { state.waiting.len() } else { state.waiting.len().min(1) };
        while state.connecting < wanted {
            state.connecting += 1;
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                let made = pool.connect().await;
                pool.state.lock().connecting -= 1;
                pool.made(made, None);
            });
        }
    }

    /// Hands a new connection to `to` or to a waiting request. Keeps the connection if no request
    /// waits.
    fn made(self: &Arc<Self>, made: Result<Connection, ConnectError>, to: Option<Waiting>) {
        let mut state = self.state.lock();
        if let Some(to) = to {
            state.waiting.push_front(to);
        }
        match made {
            Ok(Connection::Http2(sender, _)) => {
                state.chose_http1 = false;
                state.shared = Some(sender.clone());
                for (n, waiting) in state.waiting.drain(..).enumerate() {
                    let _ = waiting.send(Ok(Connection::Http2(sender.clone(), n > 0)));
                }
            }
            Ok(Connection::Http1(http1, _)) => {
                state.chose_http1 = true;
                self.give(&mut state, http1, false);
                self.connect_for(&mut state);
            }
            Err(why) => {
                // No request waits for more than one attempt.
                let shared = state.connecting == 0;
                let mut told = false;
                while let Some(waiting) = state.waiting.pop_front() {
                    told |= waiting.send(Err(why.clone())).is_ok();
                    if told && !shared {
                        break;
                    }
                }
            }
        }
    }

    /// Hands a free connection to the request that has waited longest. Keeps the connection if no
    /// request waits.
    fn give(&self, state: &mut State, http1: Http1, used: bool) {
        let mut offered = Ok(Connection::Http1(http1, used));
        while let Some(waiting) = state.waiting.pop_front() {
            match waiting.send(offered) {
                Ok(()) => return,
                Err(back) => offered = back,
            }
        }
        if let Ok(Connection::Http1(http1, _)) = offered {
            if state.idle.len() >= self.most_idle.max(1) {
                state.idle.remove(0);
            }
            state.idle.push((Instant::now(), http1));
        }
    }

    fn offer(&self, http1: Http1) {
        self.give(&mut self.state.lock(), http1, true);
    }

    /// Keeps a connection for the next request once the response on it has been read.
    fn keep(self: &Arc<Self>, mut http1: Http1) {
        let pool = Arc::clone(self);
        // Without a runtime, the connections no longer exist.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if http1.sender.ready().await.is_ok() {
                    pool.offer(http1);
                }
            });
        }
    }

    async fn connect(&self) -> Result<Connection, ConnectError> {
        tokio::time::timeout(self.connect_timeout, self.connect_patiently())
            .await
            .unwrap_or(Err(ConnectError::TimedOut(self.connect_timeout)))
    }

    async fn connect_patiently(&self) -> Result<Connection, ConnectError> {
        let stream = TcpStream::connect(self.upstream.address()).await?;
        // Headers and small bodies are written in one piece, so waiting for more data gains
        // nothing.
        stream.set_nodelay(true)?;
        let Some((tls, name)) = &self.tls else {
            let http2 = self.upstream.scheme() == Scheme::H2c;
            bound_kernel_buffers(&stream, http2);
            return Ok(self.speak(stream, http2).await?);
        };
        let stream = tls.connect(name.clone(), stream).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        bound_kernel_buffers(stream.get_ref().0, http2);
        Ok(self.speak(stream, http2).await?)
    }

    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        http2: bool,
    ) -> hyper::Result<Connection> {
        let (stream, open) = (TokioIo::new(stream), Open::new(&self.open));
        if http2 {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_send_buf_size(BUFFER)
                .max_header_list_size(BUFFER as u32)
                .keep_alive_interval(Duration::from_secs(20))
                .handshake(stream)
                .await?;
            tokio::spawn(async move {
                let _open = open;
                let _ = connection.await;
            });
            return Ok(Connection::Http2(sender, false));
        }
        let (sender, connection) =
            http1::Builder::new().max_buf_size(BUFFER).handshake(stream).await?;
        let (tell, over) = oneshot::channel();
        tokio::spawn(async move {
            let _open = open;
            let _ = tell.send(connection.await.err().filter(is_excess));
        });
        Ok(Connection::Http1(Http1 { sender, over }, false))
    }
}

/// Returns whether a connection ended because the server sent data that no request had asked for.
/// hyper has no predicate for this error. It is the only remaining kind of error without a cause.
fn is_excess(e: &hyper::Error) -> bool {
    let other = e.is_parse()
        || e.is_user()
        || e.is_canceled()
        || e.is_closed()
        || e.is_incomplete_message();
    std::error::Error::source(e).is_none()
        && !other
        && !e.is_body_write_aborted()
        && !e.is_timeout()
}

/// Limits the kernel's buffers, except for HTTP/2. All HTTP/2 requests share a connection, whose
/// windows limit the data.
fn bound_kernel_buffers(stream: &TcpStream, http2: bool) {
    if !http2 {
        let socket = SockRef::from(stream);
        // If the system refuses, the system's own limits apply.
        let _ = socket.set_recv_buffer_size(KERNEL_BUFFER);
        let _ = socket.set_send_buffer_size(KERNEL_BUFFER);
    }
}
/// Converts a request to HTTP/2. In HTTP/2, requests have a scheme and no `host` field next to
/// `:authority`.
fn set_version(request: &mut UpstreamRequest, tls: bool) {
    *request.version_mut() = http::Version::HTTP_2;
    let host = request.headers_mut().remove(http::header::HOST);
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    let authority = host.and_then(|host| http::uri::Authority::try_from(host.as_bytes()).ok());
    if parts.authority.is_none() {
        parts.authority = authority;
    }
    parts.scheme = Some(if tls { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP });
    *request.uri_mut() = http::Uri::from_parts(parts).unwrap_or_default();
    // HTTP/2 has its own framing.
    request.headers_mut().remove(http::header::TRANSFER_ENCODING);
}

/// Returns the request for another connection; `None` if it must not be sent again.
fn another_try(
    mut failed: TrySendError<UpstreamRequest>,
    used: bool,
    fresh: bool,
    again: Option<&(dyn Fn() -> UpstreamRequest + Send + Sync)>,
) -> Result<UpstreamRequest, SendError> {
    let unsent = failed.take_message();
    let error = failed.into_error();
    if fresh || error.is_user() {
        return Err(SendError::Broken(error, used));
    }
    match (unsent, again) {
        (Some(request), _) => Ok(request),
        // The server closed a connection that had worked before, so this request is not the cause.
        (None, Some(again)) if used && !error.is_parse() => Ok(again()),
        _ => Err(SendError::Broken(error, used)),
    }
}
