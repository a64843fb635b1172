//! A reverse proxy: requests go on to an upstream server over HTTP/1.1 or HTTP/2, bodies stream both ways.
//!
//! | file | contents |
//! |---|---|
//! | `upstream.rs` | the upstream server's URL |
//! | `headers.rs` | header fields on their way through |
//! | `body.rs` | bounds of request bodies |
//! | `slots.rs` | requests at once, of all clients and of each |
//! | `pool.rs` | connections to the upstream server |

mod body;
mod headers;
mod pool;
mod slots;
mod upstream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, RETRY_AFTER, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use crate::limits::ClientPrefix;
use crate::load::{LoadError, Trust};
use crate::metrics::{UpstreamMetrics, UpstreamOutcome};
use crate::request::{self, RequestBodyError, SiteRequest};
use crate::site::{Body, SiteResponse, plain};
use body::{BodyProgress, BoundedBody};
use headers::{content_length, to_client, to_upstream};
use pool::{Pool, SendError, UpstreamRequest};
use slots::{Slot, Slots};
use upstream::Scheme;
pub use upstream::Upstream;

/// The least time a client gets for a body, however little it sends.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Settings of a proxy.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Where requests go.
    pub upstream: Upstream,
    /// TLS for an `https` upstream: see [`Self::trust`].
    tls: Option<Arc<ClientConfig>>,
    /// Requests with the upstream server at once, and so connections to it. A client prefix may have a quarter.
    pub requests: usize,
    /// Time for a connection to the upstream server, and for a free slot.
    pub connect_timeout: Duration,
    /// Time until the upstream server's header, and between two pieces of its body.
    pub timeout: Duration,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Bytes of a request body.
    pub max_body: u64,
    /// How much of an address is one client's.
    pub client_prefix: ClientPrefix,
}

impl ProxySettings {
    /// The defaults for this upstream server.
    pub fn new(upstream: Upstream) -> Self {
        Self {
            upstream,
            tls: None,
            requests: 512,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(60),
            // Shorter than what servers allow by default (nginx 75 s, Apache 5 s): who closes first sees no request lost.
            idle_timeout: Duration::from_secs(4),
            max_body: 100 << 20,
            client_prefix: ClientPrefix::default(),
        }
    }

    /// Whom an `https` upstream's certificate must chain to. Others need none.
    ///
    /// # Errors
    /// There are no certificates to trust.
    pub fn trust(&mut self, trust: &Trust) -> Result<(), LoadError> {
        if self.upstream.scheme() == Scheme::Https {
            let mut tls = trust.tls_config(b"h2", Arc::new(rustls::crypto::ring::default_provider()))?;
            tls.alpn_protocols.push(b"http/1.1".to_vec());
            self.tls = Some(Arc::new(tls));
        }
        Ok(())
    }
}

/// A proxy for one upstream server.
#[derive(Clone)]
pub struct Proxy {
    settings: Arc<ProxySettings>,
    pool: Arc<Pool>,
    slots: Arc<Slots>,
    metrics: UpstreamMetrics,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// An upstream server's answer, body and all.
pub struct UpstreamBody {
    body: Incoming,
    patience: Duration,
    metrics: UpstreamMetrics,
    over: bool,
    _slot: Slot,
}

impl fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamBody").finish_non_exhaustive()
    }
}

/// A part of an upstream server's body.
pub(crate) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

impl UpstreamBody {
    /// The next piece of it.
    ///
    /// # Errors
    /// It broke off, or nothing came for too long.
    pub(crate) async fn next(&mut self) -> Result<Piece, String> {
        if self.over {
            return Ok(Piece::End);
        }
        let Ok(next) = timeout(self.patience, self.body.frame()).await else {
            self.metrics.count(UpstreamOutcome::BodyTimeout);
            return Err("the upstream server sent nothing for too long".into());
        };
        let frame = match next {
            None => {
                self.over = true;
                return Ok(Piece::End);
            }
            Some(Err(e)) => {
                self.metrics.count(UpstreamOutcome::BodyBroken);
                return Err(format!("the upstream server's body broke off: {}", one_line(&e)));
            }
            Some(Ok(frame)) => frame,
        };
        Ok(match frame.into_data() {
            Ok(data) => Piece::Data(data),
            Err(frame) => match frame.into_trailers() {
                Ok(fields) => Piece::Trailers(body::trailers(fields)),
                Err(_) => Piece::Data(Bytes::new()),
            },
        })
    }
}

/// An error and what caused it, in a line.
fn one_line(e: &(dyn std::error::Error + 'static)) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(e) = cause {
        text = format!("{text}: {e}");
        cause = e.source();
    }
    text.replace('\n', "; ")
}

/// Why a request got no answer of the upstream server.
struct Refusal {
    status: StatusCode,
    outcome: UpstreamOutcome,
    /// What clients are told.
    line: &'static str,
    /// What the operator is told besides.
    why: String,
}

impl Refusal {
    fn new(status: StatusCode, outcome: UpstreamOutcome, line: &'static str, why: impl fmt::Display) -> Self {
        Self { status, outcome, line, why: why.to_string() }
    }

    fn of_body(error: &RequestBodyError) -> Self {
        let (status, line) = match error {
            RequestBodyError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "the request body is too large"),
            RequestBodyError::Slow => (StatusCode::REQUEST_TIMEOUT, "the request body came too slowly"),
            RequestBodyError::Length | RequestBodyError::Broken(_) => {
                (StatusCode::BAD_REQUEST, "the request body is incomplete")
            }
        };
        Self::new(status, UpstreamOutcome::Request, line, error)
    }

    fn response(self) -> SiteResponse {
        let mut response = plain(self.status, &format!("{}\n", self.line));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers.insert(RETRY_AFTER, HeaderValue::from_static(crate::site::RETRY_AFTER));
        }
        response
    }
}

impl Proxy {
    /// To the upstream server of `settings`. Nothing is connected yet.
    pub fn new(settings: ProxySettings, metrics: UpstreamMetrics) -> Self {
        let tls = settings.tls.clone().filter(|_| settings.upstream.scheme() == Scheme::Https);
        let pool = Pool::new(
            settings.upstream.clone(),
            tls,
            settings.connect_timeout,
            settings.idle_timeout,
            settings.requests,
            metrics.connections(),
        );
        let slots = Slots::new(settings.requests);
        Self { settings: Arc::new(settings), pool, slots, metrics }
    }

    /// Forwards a request. Interim responses of the upstream server (1xx) go to `interim`.
    pub async fn forward(&self, request: SiteRequest, interim: mpsc::Sender<Response<()>>) -> SiteResponse {
        let started = Instant::now();
        match self.try_forward(request, interim).await {
            Ok(response) => {
                self.metrics.count(UpstreamOutcome::Answered);
                self.metrics.answered_after(started.elapsed());
                response
            }
            Err(refusal) => {
                self.metrics.count(refusal.outcome);
                if refusal.outcome != UpstreamOutcome::Request {
                    let (upstream, line, why) = (&self.settings.upstream, refusal.line, &refusal.why);
                    tracing::warn!("{upstream}: {line}: {why}");
                }
                refusal.response()
            }
        }
    }

    async fn try_forward(
        &self,
        request: SiteRequest,
        interim: mpsc::Sender<Response<()>>,
    ) -> Result<SiteResponse, Refusal> {
        let bad = |line| Refusal::new(StatusCode::BAD_REQUEST, UpstreamOutcome::Request, line, "");
        if request.method == Method::CONNECT {
            let line = "CONNECT is not supported";
            return Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, UpstreamOutcome::Request, line, ""));
        }
        if request.version == Version::HTTP_3 && request.headers.contains_key(TRANSFER_ENCODING) {
            return Err(bad("HTTP/3 has no transfer-encoding"));
        }
        let declared = content_length(&request.headers).map_err(bad)?;
        if declared.is_some_and(|length| length > self.settings.max_body) {
            return Err(Refusal::of_body(&RequestBodyError::TooLarge(self.settings.max_body)));
        }
        let method = request.method.clone();
        let client = self.settings.client_prefix.of(request.client.ip());
        let (head, mut body) = self.request(request, declared)?;
        // GET and its like have no body as a rule. Whether this one has is known with its first frame, or its end.
        let rarely = matches!(method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE | Method::TRACE);
        let empty = match declared {
            Some(length) => length == 0,
            None if rarely => body.is_empty().await.map_err(|e| Refusal::of_body(&e))?,
            None => body.is_end_stream(),
        };
        let busy = |why| {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, UpstreamOutcome::Busy, "too many requests at once", why)
        };
        let slot = timeout(self.settings.connect_timeout, self.slots.take(client)).await;
        let slot = slot.ok().flatten().ok_or_else(|| busy("raise --proxy-requests, or see why it is slow"))?;
        let progress = body.progress();
        let anew = |body: BoundedBody| {
            let mut request = head.clone().map(|()| body);
            let interim = interim.clone();
            hyper::ext::on_informational(&mut request, move |response| {
                forward_interim(&interim, response.status(), response.headers())
            });
            request
        };
        let nothing = || BoundedBody::new(request::empty(), 0, None, BODY_PATIENCE);
        let idempotent = rarely || method == Method::PUT;
        let again: &(dyn Fn() -> UpstreamRequest + Send + Sync) = &|| anew(nothing());
        let mut first = if empty { anew(nothing()) } else { anew(body) };
        if !empty && declared.is_none() {
            // hyper takes a GET without a length for one without a body.
            first.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let sending = self.pool.send(first, Some(again).filter(|_| empty && idempotent));
        let sent = tokio::select! {
            sent = sending => sent,
            () = silence(&progress, self.settings.timeout) => {
                let line = "the upstream server did not answer in time";
                let why = format!("no header within {:?}", self.settings.timeout);
                return Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, UpstreamOutcome::Timeout, line, why));
            }
        };
        let response = sent.map_err(|error| refused(error, &progress))?;
        self.response(response, &method, slot)
    }

    /// What goes to the upstream server.
    fn request(&self, request: SiteRequest, declared: Option<u64>) -> Result<(Request<()>, BoundedBody), Refusal> {
        let authority = request.authority().map_or_else(|| self.settings.upstream.authority(), str::to_owned);
        let SiteRequest { method, uri, version, mut headers, client, body } = request;
        let trailers = headers.get_all(TE).iter().any(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
        to_upstream(&mut headers, version, client, &authority);
        if trailers && self.settings.upstream.scheme() != Scheme::Http {
            // gRPC asks for it; HTTP/2 allows no other (RFC 9113 §8.2.2).
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        // `*`, which OPTIONS may ask for, is no path of a URI.
        let path = if path.starts_with('/') { path } else { "/" };
        let target: Uri = path
            .parse()
            .map_err(|e| Refusal::new(StatusCode::BAD_REQUEST, UpstreamOutcome::Request, "the path is invalid", e))?;
        headers.remove(CONTENT_LENGTH);
        if let Some(length) = declared {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        let mut head = Request::new(());
        *head.method_mut() = method;
        *head.uri_mut() = target;
        *head.headers_mut() = headers;
        Ok((head, BoundedBody::new(body, self.settings.max_body, declared, BODY_PATIENCE)))
    }

    fn response(&self, response: Response<Incoming>, method: &Method, slot: Slot) -> Result<SiteResponse, Refusal> {
        let (mut head, body) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let line = "the upstream server switched protocols, which nobody asked for";
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, UpstreamOutcome::Broken, line, ""));
        }
        to_client(&mut head.headers, head.version);
        head.headers.remove(HOST);
        let length = content_length(&head.headers).ok().flatten();
        let none = *method == Method::HEAD
            || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            || body.is_end_stream();
        let body = if none {
            Body::Empty
        } else {
            let (metrics, patience) = (self.metrics.clone(), self.settings.timeout);
            Body::Upstream(Box::new(UpstreamBody { body, patience, metrics, over: false, _slot: slot }))
        };
        Ok(SiteResponse { status: head.status, headers: head.headers, wait: Duration::ZERO, body, length })
    }
}

/// Hands an interim response on, if there is room for it: nobody waits for one.
fn forward_interim(to: &mpsc::Sender<Response<()>>, status: StatusCode, headers: &HeaderMap) {
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return;
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers.clone();
    headers::remove_hop_by_hop(response.headers_mut());
    let _ = to.try_send(response);
}

/// Resolves when the upstream server has taken nothing of the request's body, and said nothing, for so long.
async fn silence(progress: &BodyProgress, patience: Duration) {
    let begun = Instant::now();
    loop {
        let until = progress.last().max(begun) + patience;
        if until <= Instant::now() {
            return;
        }
        sleep_until(until).await;
    }
}

fn refused(error: SendError, progress: &BodyProgress) -> Refusal {
    let gateway = StatusCode::BAD_GATEWAY;
    match (error, progress.error()) {
        (_, Some(error)) => Refusal::of_body(&error),
        (SendError::Connect(why), None) => {
            Refusal::new(gateway, UpstreamOutcome::Connect, "the upstream server cannot be reached", why)
        }
        (SendError::Broken(e, used), None) => {
            let why = format!("{}{}", one_line(&e), if used { ", on a connection that was kept" } else { "" });
            Refusal::new(gateway, UpstreamOutcome::Broken, "the upstream server gave no valid answer", why)
        }
    }
}
