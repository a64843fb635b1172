//! Connections to the upstream server: made when they are needed, kept for the next request, and never more than there are slots.
//!
//! hyper's pooling client looks connections up by the request's authority. Here that is the client's, any number of names, and all of them
//! go to one server: so connections are kept by hand.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::body::BoundedBody;
use super::upstream::{Scheme, Upstream};

/// Bytes that a connection buffers, each way.
const BUFFER: usize = 64 << 10;
/// Flow control windows of an HTTP/2 connection: what its streams may bring before they are read. Each stream's is its part of the memory
/// that a proxied response may take.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// A request to the upstream server.
pub(super) type UpstreamRequest = http::Request<BoundedBody>;

/// Why there is no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// No connection: nothing was sent.
    Connect(String),
    /// The connection broke while the request was on it. The flag says whether it had been used before: then the server may have closed
    /// it while the request was on its way.
    Broken(hyper::Error, bool),
}

/// A connection that can take a request.
enum Connection {
    Http1(http1::SendRequest<BoundedBody>, bool),
    Http2(http2::SendRequest<BoundedBody>, bool),
}

/// Connections to one server.
pub(super) struct Pool {
    upstream: Upstream,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    /// Idle connections at most.
    most_idle: usize,
    /// The one used last is the last.
    idle: Mutex<Vec<(Instant, http1::SendRequest<BoundedBody>)>>,
    /// The last connection over TLS was for HTTP/1.1: the next ones are made side by side, as none can be shared.
    chose_http1: AtomicBool,
    /// The connection that all requests share, where the server speaks HTTP/2.
    shared: tokio::sync::Mutex<Option<http2::SendRequest<BoundedBody>>>,
    open: Gauge,
}

/// Counts an open connection.
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

impl Pool {
    pub(super) fn new(
        upstream: Upstream,
        tls: Option<Arc<ClientConfig>>,
        connect_timeout: Duration,
        idle_timeout: Duration,
        most_idle: usize,
        open: Gauge,
    ) -> Arc<Self> {
        let tls = tls.zip(upstream.server_name()).map(|(config, name)| (TlsConnector::from(config), name));
        Arc::new(Self {
            upstream,
            tls,
            connect_timeout,
            idle_timeout,
            most_idle,
            idle: Mutex::default(),
            chose_http1: AtomicBool::new(false),
            shared: tokio::sync::Mutex::default(),
            open,
        })
    }

    /// Sends a request, on a connection that is there or a new one; `again` makes the same request anew where that is harmless. A request of
    /// which nothing was sent is sent on another connection.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: UpstreamRequest,
        again: Option<&(dyn Fn() -> UpstreamRequest + Send + Sync)>,
    ) -> Result<http::Response<Incoming>, SendError> {
        let mut request = request;
        let mut fresh = false;
        loop {
            let connection = self.connection(fresh).await.map_err(SendError::Connect)?;
            let (sent, used) = match connection {
                Connection::Http1(mut sender, used) => {
                    let sent = sender.try_send_request(request).await;
                    if sent.is_ok() {
                        self.keep(sender);
                    }
                    (sent, used)
                }
                Connection::Http2(mut sender, used) => {
                    set_version(&mut request, self.tls.is_some());
                    (sender.try_send_request(request).await, used)
                }
            };
            match sent {
                Ok(response) => return Ok(response),
                Err(failed) => request = another_try(failed, used, fresh, again)?,
            }
            fresh = true;
        }
    }

    /// A connection that is free; `fresh`: none that was there before.
    async fn connection(self: &Arc<Self>, fresh: bool) -> Result<Connection, String> {
        let scheme = self.upstream.scheme();
        if scheme == Scheme::H2c || scheme == Scheme::Https && !self.chose_http1.load(Ordering::Relaxed) {
            // Held while one is made: others wait for it instead of making their own.
            let mut shared = self.shared.lock().await;
            match shared.as_ref() {
                Some(sender) if !fresh && !sender.is_closed() => return Ok(Connection::Http2(sender.clone(), true)),
                Some(sender) if fresh && sender.is_closed() => *shared = None,
                _ => {}
            }
            let connection = self.connect().await?;
            match &connection {
                Connection::Http2(sender, _) => *shared = Some(sender.clone()),
                Connection::Http1(..) => self.chose_http1.store(true, Ordering::Relaxed),
            }
            return Ok(connection);
        }
        match self.idle(fresh) {
            Some(sender) => Ok(Connection::Http1(sender, true)),
            None => {
                let connection = self.connect().await?;
                if let Connection::Http2(..) = &connection {
                    self.chose_http1.store(false, Ordering::Relaxed);
                }
                Ok(connection)
            }
        }
    }

    /// The idle connection used last.
    fn idle(&self, fresh: bool) -> Option<http1::SendRequest<BoundedBody>> {
        let mut idle = self.idle.lock();
        idle.retain(|(since, sender)| !sender.is_closed() && since.elapsed() < self.idle_timeout);
        if fresh { None } else { idle.pop().map(|(_, sender)| sender) }
    }

    /// Keeps a connection for the next request, once its response was read.
    fn keep(self: &Arc<Self>, mut sender: http1::SendRequest<BoundedBody>) {
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            if sender.ready().await.is_err() {
                return;
            }
            let mut idle = pool.idle.lock();
            if idle.len() >= pool.most_idle {
                idle.remove(0);
            }
            idle.push((Instant::now(), sender));
        });
    }

    async fn connect(&self) -> Result<Connection, String> {
        let made = tokio::time::timeout(self.connect_timeout, self.connect_patiently()).await;
        made.map_err(|_| format!("no connection within {:?}", self.connect_timeout))?
    }

    async fn connect_patiently(&self) -> Result<Connection, String> {
        let text = |e: io::Error| e.to_string();
        let stream = TcpStream::connect(self.upstream.address()).await.map_err(text)?;
        // Heads and small bodies are written in one piece: nothing is gained by waiting for more.
        stream.set_nodelay(true).map_err(text)?;
        let Some((tls, name)) = &self.tls else {
            return self.speak(stream, self.upstream.scheme() == Scheme::H2c).await.map_err(|e| e.to_string());
        };
        let stream = tls.connect(name.clone(), stream).await.map_err(text)?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        self.speak(stream, http2).await.map_err(|e| e.to_string())
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
        let (sender, connection) = http1::Builder::new().max_buf_size(BUFFER).handshake(stream).await?;
        tokio::spawn(async move {
            let _open = open;
            let _ = connection.await;
        });
        Ok(Connection::Http1(sender, false))
    }
}

/// HTTP/2's requests name their scheme and have no `host` beside `:authority`.
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

/// The request for another connection, where it may be sent again.
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
        // The server closed a connection that it had answered on before: not what it thinks of this request.
        (None, Some(again)) if used && !error.is_parse() => Ok(again()),
        _ => Err(SendError::Broken(error, used)),
    }
}
