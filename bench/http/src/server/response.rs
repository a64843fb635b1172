//! A response, from its request to the acknowledgement of its last byte, on any stack.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_plugin::Observer;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::ServerContext;
use super::memory_budget::{Charge, ConnectionBudget, OVERHEAD, ResponseBudget};
use crate::access_log::{AccessLog, AccessRecord};
use crate::authority;
use crate::connection_log::ConnectionLog;
use crate::digest::{self, CONTENT_DIGEST, Digest};
use crate::metrics::{ControllerLabels, ResponseMetrics, ResponseTimes, SlowReader};
use crate::proxy::{Piece, UpstreamBody, UpstreamBodyError};
use crate::request::SiteRequest;
use crate::response::{Body, SiteResponse, plain};
use crate::site::{ServedFile, Site};

/// Maximum number of bytes handed to a stream at once.
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
/// Maximum size in bytes of a last piece that is charged until the whole response is acknowledged.
/// noq copies pieces that are smaller than a packet and releases the original at once.
const SMALL: u64 = 2 << 10;
/// Size below which pieces of an upstream server's body are copied out of their buffer.
const COPIED: usize = 16 << 10;
/// Status of a request whose client disconnected before there was a response, as logged by nginx.
const CLIENT_GONE: u16 = 499;

/// Maximum number of interim responses that wait for the client. Further ones are dropped.
const INTERIM: usize = 4;
/// Time limit for a client to take an interim response. A client that needs longer counts as
/// stalled.
const INTERIM_PATIENCE: Duration = Duration::from_secs(10);

/// Writer of a response to a stream. Each step completes when QUIC has accepted the data, as far as
/// flow control and the send buffer permit, or with an error if the client no longer takes the
/// response.
pub(super) trait ResponseWriter: Send {
    /// Writes a header: the final header, or the header of an interim response (1xx) that precedes
    /// it.
    fn head(
        &mut self,
        status: StatusCode,
        headers: HeaderMap,
    ) -> impl Future<Output = Result<(), ResponseError>> + Send;
    /// Writes a part of the body.
    fn data(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), ResponseError>> + Send;
    /// Ends the response with these trailers, if there are any.
    fn finish(
        &mut self,
        trailers: Option<HeaderMap>,
    ) -> impl Future<Output = Result<(), ResponseError>> + Send;
    /// Writes a whole response without trailers, in one piece if the writer can.
    fn whole(
        &mut self,
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<(), ResponseError>> + Send {
        async move {
            self.head(status, headers).await?;
            if !body.is_empty() {
                self.data(body).await?;
            }
            self.finish(None).await
        }
    }
    /// Waits until the client has acknowledged the whole response. Returns an error if the client
    /// no longer takes the response. Must not be polled after it was ready.
    fn poll_delivered(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ResponseError>>;
}

/// Reason why a response was not delivered.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseError {
    /// The client stopped the stream, or the connection is over.
    #[error(transparent)]
    Http3(#[from] fathom_http3::Error),
    /// The client acknowledged the end of the stream before the response was complete.
    #[error("the stream has ended")]
    StreamOver,
    /// The client's TCP connection is closed.
    #[error("the client closed the connection")]
    ClientGone,
    /// A final header was written twice.
    #[error("a second final header")]
    SecondHeader,
    /// The client took no interim response in time.
    #[error("the client accepts no interim response")]
    InterimTimeout,
    /// The client reads too slowly.
    #[error(transparent)]
    SlowReader(#[from] SlowReader),
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The file became shorter than the announced length.
    #[error("the file became shorter while it was sent")]
    FileTruncated,
    /// The upstream server's body ended early.
    #[error(transparent)]
    Upstream(#[from] UpstreamBodyError),
}

/// Returns the error of a delivery that ended while the response was being written.
fn early(delivered: Result<(), ResponseError>) -> ResponseError {
    delivered.err().unwrap_or(ResponseError::StreamOver)
}

/// Waits for `work`, which does not use the writer. If a client disconnects or cancels the request,
/// the response can end at any point, even before its beginning.
///
/// # Errors
/// Returns an error if the client no longer takes the response.
async fn while_wanted<T>(
    writer: &mut impl ResponseWriter,
    work: impl Future<Output = T>,
) -> Result<T, ResponseError> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(done));
        }
        writer.poll_delivered(cx).map(|over| Err(early(over)))
    })
    .await
}

/// State that the responses of a connection share.
pub(super) struct ConnectionContext {
    pub(super) server: Arc<ServerContext>,
    share: usize,
    /// The client's address at the start of the connection.
    pub(super) client: SocketAddr,
    /// The connection's qlog.
    pub(super) log: Option<Arc<ConnectionLog>>,
    metrics: ResponseMetrics,
    /// Part of the server's memory that the connection's responses hold.
    pub(super) memory: Arc<ConnectionBudget>,
}

impl ConnectionContext {
    /// Returns the context of a connection with the controller of this index. After a call of
    /// [`Self::connected`], the connection is logged under `id`.
    pub(super) fn new(
        server: Arc<ServerContext>,
        share: usize,
        client: SocketAddr,
        id: String,
    ) -> Self {
        let label = &server.labels[share];
        let log = server.logs.as_ref().map(|_| Arc::new(ConnectionLog::deferred(id, label)));
        let metrics = server.metrics.response_metrics(label);
        let memory = server.budget.connection();
        Self { server, share, client, log, metrics, memory }
    }

    /// Returns the context of a TCP connection, which has no qlog. The last label is the one for
    /// TCP.
    pub(super) fn of_tcp(server: Arc<ServerContext>, client: SocketAddr) -> Self {
        let share = server.labels.len() - 1;
        let metrics = server.metrics.response_metrics(&server.labels[share]);
        let memory = server.budget.connection();
        Self { server, share, client, log: None, metrics, memory }
    }

    /// Begins the log, unless it has already begun. The client has shown that it receives packets
    /// at its address.
    pub(super) fn connected(&self) {
        if let (Some(log), Some(logs)) = (&self.log, &self.server.logs) {
            log.begin(logs);
        }
    }

    /// Returns the labels of the connection's controller.
    pub(super) fn label(&self) -> &ControllerLabels {
        &self.server.labels[self.share]
    }

    /// Returns the observer of the connection's controller.
    pub(super) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.log.clone().map(|log| log as Arc<dyn Observer>)
    }
}

/// Delivery state of a response at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// The client has acknowledged the whole response.
    Acknowledged,
    /// QUIC took the whole response, but the client did not acknowledge all of it.
    HandedOver,
    /// QUIC did not take the whole response.
    Cut,
}

/// Answers a request whose header arrived at `started`. Counts and logs the request whatever its
/// outcome.
pub(super) async fn answer(
    writer: &mut impl ResponseWriter,
    started: Instant,
    request: SiteRequest,
    context: &ConnectionContext,
) -> DeliveryOutcome {
    let site = &context.server.site;
    // A response to HEAD has no content and therefore no digest.
    let head = request.method == Method::HEAD;
    let digest = (!head && digest::is_wanted(&request.headers)).then(Digest::default);
    let access_log = context.server.access_log.as_ref();
    let record =
        access_log.map(|log| (Arc::clone(log), AccessRecord::new(&request, context.label())));
    let mut sent = ResponseProgress {
        context,
        record,
        status: CLIENT_GONE,
        started,
        first_byte: None,
        handed_over: None,
        bytes: 0,
        digest,
        open: true,
    };
    let malformed =
        authority::check(&request.method, &request.uri, request.version, &request.headers).err();
    let mut answer = if let Some((status, line)) = malformed {
        plain(status, &format!("{line}\n"))
    } else if let Err(line) = request.check_length() {
        plain(StatusCode::BAD_REQUEST, &format!("{line}\n"))
    } else if site.is_proxied(request.uri.path()) {
        // Box the future, so that other responses need no room for the proxy's state.
        match Box::pin(forward(writer, request, site)).await {
            Ok(answer) => answer,
            Err(why) => {
                tracing::debug!(label = ?context.label(), "request: {why}");
                return DeliveryOutcome::Cut;
            }
        }
    } else {
        site.answer(&request.method, request.uri.path(), &request.headers).await
    };
    if head {
        // A refusal has a line of text.
        answer.body = Body::Empty;
    }
    if matches!(answer.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        // A response without content has no digest.
        sent.digest = None;
    }
    sent.status = answer.status.as_u16();
    let end =
        with_progress_checks(&context.memory, pin!(send_all(writer, answer, &mut sent))).await;
    if let Err(why) = &end {
        tracing::debug!(label = ?context.label(), "response: {why}");
    }
    match (end, sent.handed_over) {
        (Ok(()), Some(handed_over)) => {
            sent.acknowledged(handed_over);
            DeliveryOutcome::Acknowledged
        }
        (_, Some(_)) => DeliveryOutcome::HandedOver,
        (_, None) => DeliveryOutcome::Cut,
    }
}

/// Forwards a request to the upstream server and passes on its interim responses. Ends if the
/// client disconnects.
async fn forward(
    writer: &mut impl ResponseWriter,
    request: SiteRequest,
    site: &Site,
) -> Result<SiteResponse, ResponseError> {
    let (send, mut interim) = mpsc::channel(INTERIM);
    let mut forwarding = pin!(site.forward(request, send));
    loop {
        let response = tokio::select! {
            // Interim responses that arrived together with the final one must precede it.
            biased;
            Some(response) = interim.recv() => response,
            answer = &mut forwarding => return Ok(answer),
            over = poll_fn(|cx| writer.poll_delivered(cx)) => return Err(early(over)),
        };
        let (head, ()) = response.into_parts();
        let written =
            tokio::time::timeout(INTERIM_PATIENCE, writer.head(head.status, head.headers)).await;
        written.map_err(|_| ResponseError::InterimTimeout)??;
    }
}

/// Progress of a response. If it is dropped before the acknowledgement, the response counts as
/// abandoned.
struct ResponseProgress<'a> {
    context: &'a ConnectionContext,
    /// Access log and record of the request; `None` if requests are not logged.
    record: Option<(Arc<AccessLog>, AccessRecord)>,
    status: u16,
    started: Instant,
    /// Time at which QUIC took the first byte. For a body in one piece, this is the time at which
    /// QUIC took all of it.
    first_byte: Option<Duration>,
    /// Time at which QUIC had taken the last byte.
    handed_over: Option<Duration>,
    bytes: u64,
    /// Digest of the body, if the client wants one.
    digest: Option<Digest>,
    open: bool,
}

impl ResponseProgress<'_> {
    fn digest(&mut self, piece: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.add(piece);
        }
    }

    // Response times are in real time.
    #[allow(clippy::disallowed_methods)]
    fn passed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the trailers of the response: these fields, and the digest of the body if the client
    /// requested it.
    fn trailers(&mut self, own: Option<HeaderMap>) -> Option<HeaderMap> {
        let digest =
            self.digest.take().and_then(|digest| HeaderValue::try_from(digest.value()).ok());
        let Some(digest) = digest else { return own };
        let mut trailers = own.unwrap_or_default();
        trailers.insert(CONTENT_DIGEST, digest);
        Some(trailers)
    }

    fn more(&mut self, bytes: usize) {
        let passed = self.passed();
        self.first_byte.get_or_insert(passed);
        self.bytes += bytes as u64;
    }

    fn acknowledged(&mut self, handed_over: Duration) {
        let first_byte = self.first_byte.unwrap_or(handed_over);
        let times = ResponseTimes { first_byte, handed_over, acknowledged: self.passed() };
        self.context.metrics.record(self.status, self.bytes, &times);
        if let Some(log) = &self.context.log {
            log.response_acknowledged(self.status, self.bytes, &times);
        }
        self.log_access(true);
        self.open = false;
    }

    fn log_access(&mut self, complete: bool) {
        if let Some((log, record)) = self.record.take() {
            log.write(record.with_outcome(self.status, self.bytes, self.passed(), complete));
        }
    }
}

impl Drop for ResponseProgress<'_> {
    fn drop(&mut self) {
        if self.open {
            self.context.server.metrics.abandoned(self.context.label(), self.bytes);
            if let Some(log) = &self.context.log {
                log.response_abandoned(self.status, self.bytes, self.handed_over);
            }
            self.log_access(false);
        }
    }
}

/// Runs `work` and aborts it if the client reads too slowly.
async fn with_progress_checks(
    memory: &ConnectionBudget,
    mut work: Pin<&mut impl Future<Output = Result<(), ResponseError>>>,
) -> Result<(), ResponseError> {
    loop {
        match tokio::time::timeout(memory.tick(), work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => memory.check(tokio::time::Instant::now())?,
        }
    }
}

/// Waits for the delay of the response, sends the response, and waits until the client has
/// acknowledged it completely.
async fn send_all(
    writer: &mut impl ResponseWriter,
    answer: SiteResponse,
    sent: &mut ResponseProgress<'_>,
) -> Result<(), ResponseError> {
    if !answer.wait.is_zero() {
        while_wanted(writer, tokio::time::sleep(answer.wait)).await?;
    }
    let _held = send(writer, answer, sent).await?;
    sent.handed_over = Some(sent.passed());
    poll_fn(|cx| writer.poll_delivered(cx)).await
}

/// Memory that a response holds until it is completely acknowledged.
struct HeldMemory {
    _budget: Arc<ResponseBudget>,
    _charge: Option<Charge>,
}

/// Hands a whole response to QUIC.
async fn send(
    writer: &mut impl ResponseWriter,
    answer: SiteResponse,
    sent: &mut ResponseProgress<'_>,
) -> Result<HeldMemory, ResponseError> {
    let SiteResponse { status, headers, body, .. } = answer;
    let memory = &sent.context.memory;
    let mut source = match body {
        Body::Upstream(body) => {
            return Box::pin(send_upstream(writer, status, headers, body, sent)).await;
        }
        Body::Empty => Source::Text(Bytes::new()),
        Body::Zeros(length) if length <= CHUNK as u64 => {
            Source::Text(Bytes::from_static(&ZEROS[..length as usize]))
        }
        Body::Zeros(length) => Source::Zeros(length),
        Body::Text(text) => Source::Text(text.into()),
        Body::File(file) => Source::File(file.length(), file),
    };
    let budget = memory.response(OVERHEAD);
    if let Source::Text(body) = &mut source
        && let Some(charge) = budget.charge_all(body.len() as u64)
    {
        let body = std::mem::take(body);
        sent.digest(&body);
        let bytes = body.len();
        match sent.trailers(None) {
            None => writer.whole(status, headers, body).await?,
            trailers => {
                writer.head(status, headers).await?;
                if !body.is_empty() {
                    writer.data(body).await?;
                }
                writer.finish(trailers).await?;
            }
        }
        sent.more(bytes);
        return Ok(HeldMemory { _budget: budget, _charge: Some(charge) });
    }
    writer.head(status, headers).await?;
    let mut last = None;
    while source.left() > 0 {
        let wanted = source.left().min(CHUNK as u64);
        let mut charge = while_wanted(writer, budget.charge(wanted)).await?;
        let piece = while_wanted(writer, source.next(charge.bytes() as usize)).await??;
        charge.shrink_to(piece.len() as u64);
        sent.digest(&piece);
        let length = piece.len();
        if source.left() == 0 && charge.bytes() <= SMALL {
            last = Some(charge);
            writer.data(piece).await?;
        } else {
            writer.data(charge.of(piece)).await?;
        }
        sent.more(length);
    }
    writer.finish(sent.trailers(None)).await?;
    Ok(HeldMemory { _budget: budget, _charge: last })
}

/// Hands an upstream server's response to QUIC. The response is read from the upstream server as
/// far ahead of the client as memory permits, so that a small response occupies the upstream server
/// only as long as that server needs. While the upstream server sends nothing, the client is not
/// too slow. Therefore, bytes other than the body are charged only after the end of the body.
/// Before that, the proxy's limit of requests bounds these bytes.
async fn send_upstream(
    writer: &mut impl ResponseWriter,
    status: StatusCode,
    headers: HeaderMap,
    mut body: Box<UpstreamBody>,
    sent: &mut ResponseProgress<'_>,
) -> Result<HeldMemory, ResponseError> {
    let beside: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.contains_key(CONTENT_DIGEST) {
        // The upstream server sends its own digest, with which the client can check the body over
        // the whole path.
        sent.digest = None;
    }
    let pieces = sent.context.memory.response(0);
    // The queue is unbounded, because each piece in it is charged.
    let (queue, mut queued) = mpsc::unbounded_channel();
    let read = async move {
        let trailers = loop {
            let mut data = match body.next().await? {
                Piece::Data(data) => data,
                Piece::Trailers(fields) => break Some(fields),
                Piece::End => break None,
            };
            while !data.is_empty() {
                let room = pieces.charge_ahead(data.len().min(CHUNK) as u64);
                let charge = body.until_client_takes(room).await?;
                let piece = data.split_to(charge.bytes() as usize);
                body.taken(charge.bytes());
                // A small part of a buffer would keep the whole buffer in memory.
                let piece =
                    if piece.len() < COPIED { Bytes::copy_from_slice(&piece) } else { piece };
                let _ = queue.send((piece, charge));
            }
        };
        // The upstream server can take another request now.
        drop((body, queue));
        Ok::<_, ResponseError>(trailers)
    };
    let write = async {
        writer.head(status, headers).await?;
        while let Some((piece, charge)) = while_wanted(writer, queued.recv()).await? {
            sent.digest(&piece);
            let length = piece.len();
            writer.data(charge.of(piece)).await?;
            sent.more(length);
        }
        Ok::<(), ResponseError>(())
    };
    let (trailers, ()) = tokio::try_join!(read, write)?;
    let budget = sent.context.memory.response(OVERHEAD + beside as u64);
    writer.finish(sent.trailers(trailers)).await?;
    Ok(HeldMemory { _budget: budget, _charge: None })
}

/// Source of a local body.
enum Source {
    Zeros(u64),
    Text(Bytes),
    File(u64, ServedFile),
}

impl Source {
    /// Returns the number of bytes that are still to come.
    const fn left(&self) -> u64 {
        match self {
            Self::Zeros(left) | Self::File(left, _) => *left,
            Self::Text(text) => text.len() as u64,
        }
    }

    /// Returns the next bytes of the body: at least one, and at most `most`.
    async fn next(&mut self, most: usize) -> Result<Bytes, ResponseError> {
        match self {
            Self::Zeros(left) => {
                let length = most.min(CHUNK);
                *left -= length as u64;
                Ok(Bytes::from_static(&ZEROS[..length]))
            }
            Self::Text(text) => Ok(text.split_to(most.min(text.len()))),
            Self::File(left, file) => {
                let mut piece = bytes::BytesMut::with_capacity(most);
                (&mut *file).take(most as u64).read_buf(&mut piece).await?;
                // The length has already been announced, so a shorter body is not a complete
                // response.
                if piece.is_empty() {
                    return Err(ResponseError::FileTruncated);
                }
                *left -= piece.len() as u64;
                Ok(piece.freeze())
            }
        }
    }
}
