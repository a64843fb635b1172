//! A reverse proxy: forwards requests to an upstream server over HTTP/1.1 or HTTP/2, and streams
//! bodies both ways.
//!
//! | file | contents |
//! |---|---|
//! | `upstream.rs` | the upstream server's URL |
//! | `headers.rs` | editing of header fields as they pass through |
//! | `body.rs` | limits of request bodies |
//! | `framing.rs` | length of a response according to its header |
//! | `upstream_body.rs` | a response's body |
//! | `slots.rs` | limits of concurrent requests, in total and per client |
//! | `pool.rs` | connections to the upstream server |
//! | `error_text.rs` | the text of an error, with its causes |

mod body;
mod error_text;
mod framing;
mod headers;
mod pool;
mod slots;
mod upstream;
pub(crate) mod upstream_body;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, RETRY_AFTER, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use rustls::ClientConfig;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use crate::limits::ClientPrefix;
use crate::metrics::{UpstreamMetrics, UpstreamOutcome};
use crate::request::{self, RequestBodyError, SiteRequest};
use crate::response::{self, Body, SiteResponse, plain};
use crate::trust::{Trust, TrustError};
use body::{BodyProgress, BoundedBody};
use error_text::one_line;
use framing::framing;
use headers::{content_length, to_client, to_upstream};
use pool::{Pool, SendError, UpstreamRequest};
use slots::Slots;
use upstream::Scheme;
pub use upstream::Upstream;
use upstream_body::Answered;
pub(crate) use upstream_body::Piece;
pub use upstream_body::{BodyDefect, Eviction, UpstreamBody, UpstreamBodyError};

/// Minimum time that a client gets for a body, however little the client sends.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of interim responses (1xx) to a request. Honest servers send fewer, and Go's
/// `net/http` accepts five.
const MOST_INTERIM: usize = 32;
/// Message to clients about an invalid response.
const INVALID: &str = "the upstream server sent no valid response";

/// Settings of a proxy.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// Upstream server to which requests are forwarded.
    pub upstream: Upstream,
    /// TLS configuration for an `https` upstream; see [`Self::trust`].
    tls: Option<Arc<ClientConfig>>,
    /// Maximum number of simultaneous requests at the upstream server, and therefore of connections
    /// to it. A client prefix may have as many requests as slots are free, but at most a quarter of
    /// all slots.
    pub requests: usize,
    /// Time limit for making a connection to the upstream server, and for the wait for a free slot.
    pub connect_timeout: Duration,
    /// Time limit for the upstream server's header, and for the gap between two pieces of its body.
    pub timeout: Duration,
    /// Time for which an idle connection is kept.
    pub idle_timeout: Duration,
    /// Largest request body, in bytes.
    pub max_body: u64,
    /// Length of the address prefix that counts as one client.
    pub client_prefix: ClientPrefix,
    /// Time that a request waits for a slot before a client that holds more than an equal share
    /// must give one back.
    pub grace: Duration,
    /// Time for which a slot stays occupied if the client aborts its request while the upstream
    /// server is working on it.
    pub cooldown: Duration,
    /// Period over which the client of a response must take 500 bytes per second while fewer than a
    /// fourth of the slots are free. Only time spent waiting for the client counts.
    pub pace: Duration,
}

impl ProxySettings {
    /// Returns the defaults for this upstream server.
    pub fn new(upstream: Upstream) -> Self {
        Self {
            upstream,
            tls: None,
            requests: 512,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(60),
            // This time is shorter than the defaults of servers (nginx 75 s, Apache 5 s). The side
            // that closes an idle connection first loses no request.
            idle_timeout: Duration::from_secs(4),
            max_body: 100 << 20,
            client_prefix: ClientPrefix::default(),
            grace: Duration::from_secs(1),
            cooldown: Duration::from_secs(1),
            pace: Duration::from_secs(5),
        }
    }

    /// Sets the certificates to which an `https` upstream's certificate must chain. Other upstreams
    /// need none.
    ///
    /// # Errors
    /// Returns an error if there are no certificates to trust.
    pub fn trust(&mut self, trust: &Trust) -> Result<(), TrustError> {
        if self.upstream.uses_tls() {
            let mut tls =
                trust.tls_config(b"h2", Arc::new(rustls::crypto::ring::default_provider()))?;
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

/// Reason why a request got no response from the upstream server.
struct Refusal {
    status: StatusCode,
    outcome: UpstreamOutcome,
    /// Message to the client.
    line: &'static str,
    /// Additional message to the operator.
    why: String,
}

impl Refusal {
    fn new(
        status: StatusCode,
        outcome: UpstreamOutcome,
        line: &'static str,
        why: impl fmt::Display,
    ) -> Self {
        Self { status, outcome, line, why: why.to_string() }
    }

    /// Returns the refusal for an invalid response of the upstream server.
    fn invalid(why: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, UpstreamOutcome::Broken, INVALID, why)
    }

    /// Returns the refusal for an upstream server that sends too many interim responses.
    fn endless_interim() -> Self {
        Self::invalid("the upstream server sends endless interim responses")
    }

    /// Returns the refusal for an upstream server that sent no header in time.
    fn timed_out(limit: Duration) -> Self {
        let line = "the upstream server did not respond in time";
        let why = format!("no response header within {limit:?}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, UpstreamOutcome::Timeout, line, why)
    }

    /// Returns the refusal for a request that gets no slot or loses it.
    fn busy(why: impl fmt::Display) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(
            status,
            UpstreamOutcome::Busy,
            "too many requests are waiting for the upstream server",
            why,
        )
    }

    fn of_body(error: &RequestBodyError) -> Self {
        let (status, line) = match error {
            RequestBodyError::TooLarge(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "the request body is too large")
            }
            RequestBodyError::Slow => {
                (StatusCode::REQUEST_TIMEOUT, "the request body arrived too slowly")
            }
            RequestBodyError::Length | RequestBodyError::Broken(_) => {
                (StatusCode::BAD_REQUEST, "the request body is incomplete")
            }
        };
        Self::new(status, UpstreamOutcome::Request, line, error)
    }

    fn response(self) -> SiteResponse {
        let mut response = plain(self.status, &format!("{}\n", self.line));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers.insert(RETRY_AFTER, HeaderValue::from_static(response::RETRY_AFTER));
        }
        response
    }
}

impl Proxy {
    /// Returns a proxy for the upstream server of `settings`, without connecting to it yet.
    pub fn new(settings: ProxySettings, metrics: UpstreamMetrics) -> Self {
        let tls = settings.tls.clone().filter(|_| settings.upstream.uses_tls());
        let pool = Pool::new(
            settings.upstream.clone(),
            tls,
            settings.connect_timeout,
            settings.idle_timeout,
            settings.requests,
            metrics.connections(),
        );
        let slots = Slots::new(settings.requests, settings.grace, settings.cooldown);
        Self { settings: Arc::new(settings), pool, slots, metrics }
    }

    /// Forwards a request. Interim responses of the upstream server (1xx) go to `interim`.
    pub async fn forward(
        &self,
        request: SiteRequest,
        interim: mpsc::Sender<Response<()>>,
    ) -> SiteResponse {
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
                    let (upstream, line, why) =
                        (&self.settings.upstream, refusal.line, &refusal.why);
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
        let declared = self.check(&request)?;
        let method = request.method.clone();
        let client = self.settings.client_prefix.of(request.client.ip());
        let (head, mut body) = self.request(request, declared)?;
        let empty =
            is_empty(&mut body, &method, declared).await.map_err(|e| Refusal::of_body(&e))?;
        let slot = timeout(self.settings.connect_timeout, self.slots.take(client)).await;
        let slot = slot.ok().flatten().ok_or_else(|| {
            Refusal::busy("raise --proxy-requests, or find out why the upstream server is slow")
        })?;
        let progress = body.progress();
        let floods = Arc::new(InterimCount::default());
        let anew = |body: BoundedBody| {
            let mut request = head.clone().map(|()| body);
            let (interim, floods) = (interim.clone(), Arc::clone(&floods));
            hyper::ext::on_informational(&mut request, move |response| {
                floods.add();
                forward_interim(&interim, response.status(), response.headers());
            });
            request
        };
        let nothing = || BoundedBody::new(request::empty(), 0, None, BODY_PATIENCE);
        let idempotent = rarely_has_body(&method) || method == Method::PUT;
        let again: &(dyn Fn() -> UpstreamRequest + Send + Sync) = &|| anew(nothing());
        let mut first = if empty { anew(nothing()) } else { anew(body) };
        if !empty && declared.is_none() {
            // hyper assumes that a GET without a length has no body.
            first.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let sending =
            self.pool.send(first, Some(again).filter(|_| empty && idempotent), || slot.begun());
        let patience = self.settings.timeout;
        let answered = tokio::select! {
            biased;
            sent = sending => sent.map_err(|error| refused(error, &progress)),
            () = floods.too_many() => Err(Refusal::endless_interim()),
            () = silence(&progress, patience) => Err(Refusal::timed_out(patience)),
            () = slot.evicted() => Err(Refusal::busy(Eviction::Share)),
        };
        let (response, tail) = answered.inspect_err(|_| slot.settled())?;
        if floods.is_too_many() {
            slot.settled();
            return Err(Refusal::endless_interim());
        }
        let (metrics, pace) = (self.metrics.clone(), self.settings.pace);
        let request = Some(progress).filter(|_| !empty);
        self.response(response, &method, Answered { slot, tail, request, metrics, patience, pace })
            .await
    }

    /// Checks that a request can be forwarded. Returns the length of its body, if it is declared.
    fn check(&self, request: &SiteRequest) -> Result<Option<u64>, Refusal> {
        if request.method == Method::CONNECT {
            let (status, line) = (StatusCode::NOT_IMPLEMENTED, "CONNECT is not supported");
            return Err(Refusal::new(status, UpstreamOutcome::Request, line, ""));
        }
        let bad = |line| Refusal::new(StatusCode::BAD_REQUEST, UpstreamOutcome::Request, line, "");
        if request.version == Version::HTTP_3 && request.headers.contains_key(TRANSFER_ENCODING) {
            return Err(bad("HTTP/3 has no transfer-encoding"));
        }
        let declared = content_length(&request.headers).map_err(bad)?;
        if declared.is_some_and(|length| length > self.settings.max_body) {
            return Err(Refusal::of_body(&RequestBodyError::TooLarge(self.settings.max_body)));
        }
        Ok(declared)
    }

    /// Returns the request for the upstream server, and its body.
    fn request(
        &self,
        request: SiteRequest,
        declared: Option<u64>,
    ) -> Result<(Request<()>, BoundedBody), Refusal> {
        let authority =
            request.authority().map_or_else(|| self.settings.upstream.authority(), str::to_owned);
        let SiteRequest { method, uri, version, mut headers, client, body, .. } = request;
        let trailers =
            headers.get_all(TE).iter().any(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
        to_upstream(&mut headers, version, client, &authority);
        if trailers && self.settings.upstream.scheme() != Scheme::Http {
            // gRPC requires this value, and HTTP/2 permits no other (RFC 9113 §8.2.2).
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        // The target `*` means the whole server. Only OPTIONS may use it.
        let path = if path.starts_with('/') || (path == "*" && method == Method::OPTIONS) {
            path
        } else {
            "/"
        };
        let target: Uri = path.parse().map_err(|e| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                UpstreamOutcome::Request,
                "the path is invalid",
                e,
            )
        })?;
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

    async fn response(
        &self,
        response: Response<Incoming>,
        method: &Method,
        mut answered: Answered,
    ) -> Result<SiteResponse, Refusal> {
        let (mut head, body) = response.into_parts();
        let framing = framing(method, head.status, head.version, &mut head.headers);
        let framing = framing.map_err(|why| {
            answered.tail.discard();
            answered.slot.settled();
            Refusal::invalid(format!("the response has {why}"))
        })?;
        to_client(&mut head.headers, head.version);
        head.headers.remove(HOST);
        let length = content_length(&head.headers).ok().flatten();
        let empty = framing.empty || body.is_end_stream();
        let mut body = UpstreamBody::new(body, head.version, framing.length, answered);
        let body = if empty {
            body.read_end().await.map_err(Refusal::invalid)?;
            Body::Empty
        } else {
            Body::Upstream(Box::new(body))
        };
        Ok(SiteResponse {
            status: head.status,
            headers: head.headers,
            wait: Duration::ZERO,
            body,
            length,
        })
    }
}

/// Returns whether requests with this method usually have no body.
fn rarely_has_body(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE | Method::TRACE)
}

/// Returns whether a request has no body. If requests like this one rarely have a body, waits for
/// the first frame of the body or its end.
async fn is_empty(
    body: &mut BoundedBody,
    method: &Method,
    declared: Option<u64>,
) -> Result<bool, RequestBodyError> {
    match declared {
        // A body that was declared empty must be empty.
        Some(0) => body.is_empty().await,
        Some(_) => Ok(false),
        None if rarely_has_body(method) => body.is_empty().await,
        None => Ok(body.is_end_stream()),
    }
}

/// Counter of the interim responses to a request.
#[derive(Debug, Default)]
struct InterimCount {
    count: AtomicUsize,
    told: Notify,
}

impl InterimCount {
    fn add(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST_INTERIM {
            self.told.notify_one();
        }
    }

    fn is_too_many(&self) -> bool {
        self.count.load(Ordering::Relaxed) > MOST_INTERIM
    }

    async fn too_many(&self) {
        while !self.is_too_many() {
            self.told.notified().await;
        }
    }
}

/// Forwards an interim response if there is room for it. Never waits.
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

/// Resolves when, for this long, the upstream server has neither taken any part of the request's
/// body nor answered.
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
        (SendError::Connect(why), None) => Refusal::new(
            gateway,
            UpstreamOutcome::Connect,
            "the upstream server cannot be reached",
            why,
        ),
        (SendError::Broken(e, used), None) => {
            let why =
                format!("{}{}", one_line(&e), if used { ", on a reused connection" } else { "" });
            Refusal::invalid(why)
        }
    }
}
