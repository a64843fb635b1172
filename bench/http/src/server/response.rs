//! A response, from its request to the acknowledgement of its last byte, on any stack.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_plugin::Observer;
use fathom_stacks::Delivery;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::ServerContext;
use super::memory_budget::{Charge, ConnectionBudget, OVERHEAD, ResponseBudget};
use crate::access_log::{AccessLog, AccessRecord};
use crate::authority;
use crate::connection_log::ConnectionLog;
use crate::digest::{self, CONTENT_DIGEST, Digest};
use crate::metrics::{ControllerLabels, ResponseMetrics, ResponseTimes};
use crate::proxy::{Piece, UpstreamBody};
use crate::request::SiteRequest;
use crate::site::{Body, ServedFile, Site, SiteResponse, plain};

/// Bytes handed to a stream at once.
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
/// The end of a body, if it is no larger, counts until the whole response is acknowledged: noq copies what is smaller than a packet, and lets
/// go of the original at once.
const SMALL: u64 = 2 << 10;
/// Pieces of an upstream server's body that are smaller are copied out of the buffer they came in.
const COPIED: usize = 16 << 10;
/// The status of a request whose client went away before there was a response, as nginx logs it.
const CLIENT_GONE: u16 = 499;

/// Interim responses that wait for the client; what finds no room is left out.
const INTERIM: usize = 4;
/// A client that does not take an interim response within this time takes nothing.
const INTERIM_PATIENCE: Duration = Duration::from_secs(10);

/// Writes a response to a stream. Each step completes when QUIC has accepted the data, limited by flow control and the send buffer.
pub(super) trait ResponseWriter: Send {
    /// A header: the response's, or that of an interim response (1xx) before it.
    fn head(
        &mut self,
        status: StatusCode,
        headers: HeaderMap,
    ) -> impl Future<Output = Result<(), String>> + Send;
    /// A part of the body.
    fn data(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), String>> + Send;
    /// There is no more but these trailers, where there are any.
    fn finish(
        &mut self,
        trailers: Option<HeaderMap>,
    ) -> impl Future<Output = Result<(), String>> + Send;
}

/// State that the responses of a connection share.
pub(super) struct ConnectionContext {
    pub(super) server: Arc<ServerContext>,
    share: usize,
    /// The client's address, as the connection began.
    pub(super) client: SocketAddr,
    /// The connection's qlog.
    pub(super) log: Option<Arc<ConnectionLog>>,
    metrics: ResponseMetrics,
    /// What its responses hold of the server's memory.
    pub(super) memory: Arc<ConnectionBudget>,
}

impl ConnectionContext {
    /// Of a connection with the controller of this number. It is logged under `id`, from [`Self::connected`] on.
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

    /// Of a connection over TCP, which has no qlog: the last of the labels is TCP's.
    pub(super) fn of_tcp(server: Arc<ServerContext>, client: SocketAddr) -> Self {
        let share = server.labels.len() - 1;
        let metrics = server.metrics.response_metrics(&server.labels[share]);
        let memory = server.budget.connection();
        Self { server, share, client, log: None, metrics, memory }
    }

    /// The client has shown that it receives at its address: the log begins, unless it has.
    pub(super) fn connected(&self) {
        if let (Some(log), Some(logs)) = (&self.log, &self.server.logs) {
            log.begin(logs);
        }
    }

    /// The connection's controller.
    pub(super) fn label(&self) -> &ControllerLabels {
        &self.server.labels[self.share]
    }

    /// The observer of the connection's controller.
    pub(super) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.log.clone().map(|log| log as Arc<dyn Observer>)
    }
}

/// How far a response was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// The client has acknowledged all of it.
    Acknowledged,
    /// QUIC took all of it, and the client did not acknowledge all.
    HandedOver,
    /// QUIC did not take all of it.
    Cut,
}

/// Answers a request whose header came at `started`; counts and logs it, whatever becomes of it.
pub(super) async fn answer(
    writer: &mut impl ResponseWriter,
    mut delivery: Delivery,
    started: Instant,
    request: SiteRequest,
    context: &ConnectionContext,
) -> DeliveryOutcome {
    let site = &context.server.site;
    // An answer to HEAD has no content, and nothing to tell of it.
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
        // Apart: other responses need no room for what a proxy keeps.
        match Box::pin(forward(writer, &mut delivery, request, site)).await {
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
        // Refusals have a line of text.
        answer.body = Body::Empty;
    }
    if matches!(answer.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        // Without content there is no digest of it.
        sent.digest = None;
    }
    sent.status = answer.status.as_u16();
    let end =
        with_progress_checks(&context.memory, pin!(send_all(writer, delivery, answer, &mut sent)))
            .await;
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

/// Asks the upstream server, and hands its interim responses on meanwhile. A client that goes away ends it.
async fn forward(
    writer: &mut impl ResponseWriter,
    delivery: &mut Delivery,
    request: SiteRequest,
    site: &Site,
) -> Result<SiteResponse, String> {
    let (send, mut interim) = mpsc::channel(INTERIM);
    let mut forwarding = pin!(site.forward(request, send));
    loop {
        let response = tokio::select! {
            // What came with the answer came before it.
            biased;
            Some(response) = interim.recv() => response,
            answer = &mut forwarding => return Ok(answer),
            over = &mut *delivery => return Err(over.err().unwrap_or_else(|| "the stream is over".into())),
        };
        let (head, ()) = response.into_parts();
        let written =
            tokio::time::timeout(INTERIM_PATIENCE, writer.head(head.status, head.headers)).await;
        written.map_err(|_| "the client takes no interim response")??;
    }
}

/// How far a response has come. Dropped before it is acknowledged, it is abandoned.
struct ResponseProgress<'a> {
    context: &'a ConnectionContext,
    /// What the access log is to have of it.
    record: Option<(Arc<AccessLog>, AccessRecord)>,
    status: u16,
    started: Instant,
    /// Of a body that is at hand: when all of it was taken, as it is handed over as one.
    first_byte: Option<Duration>,
    /// When QUIC had taken the last byte.
    handed_over: Option<Duration>,
    bytes: u64,
    /// Where the client wants one.
    digest: Option<Digest>,
    open: bool,
}

impl ResponseProgress<'_> {
    fn digest(&mut self, piece: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.add(piece);
        }
    }

    // Response times are of real time.
    #[allow(clippy::disallowed_methods)]
    fn passed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Trailers of the response: these, and the body's digest where it was requested.
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

/// Runs `work`, and aborts it if the client reads too slowly.
async fn with_progress_checks(
    memory: &ConnectionBudget,
    mut work: Pin<&mut impl Future<Output = Result<(), String>>>,
) -> Result<(), String> {
    loop {
        match tokio::time::timeout(memory.tick(), work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => memory.check(tokio::time::Instant::now()).map_err(|why| why.to_string())?,
        }
    }
}

/// Waits, sends, and waits until all of it is acknowledged.
async fn send_all(
    writer: &mut impl ResponseWriter,
    mut delivery: Delivery,
    answer: SiteResponse,
    sent: &mut ResponseProgress<'_>,
) -> Result<(), String> {
    let held = {
        // Pinned where it is made: a future that is moved takes its room twice.
        let work = pin!(async {
            if !answer.wait.is_zero() {
                tokio::time::sleep(answer.wait).await;
            }
            send(writer, answer, sent).await
        });
        // A client that goes away, or does not want it any more, ends a response at any point of it, also one that has not begun.
        tokio::select! {
            biased;
            sent = work => sent?,
            over = &mut delivery => return Err(over.err().unwrap_or_else(|| "the stream is over".into())),
        }
    };
    sent.handed_over = Some(sent.passed());
    delivery.await?;
    drop(held);
    Ok(())
}

/// What a response holds until all of it is acknowledged.
struct HeldMemory {
    _budget: Arc<ResponseBudget>,
    _charge: Option<Charge>,
}

/// Hands all of a response to QUIC.
async fn send(
    writer: &mut impl ResponseWriter,
    answer: SiteResponse,
    sent: &mut ResponseProgress<'_>,
) -> Result<HeldMemory, String> {
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
        writer.head(status, headers).await?;
        if !body.is_empty() {
            writer.data(body).await?;
        }
        writer.finish(sent.trailers(None)).await?;
        sent.more(bytes);
        return Ok(HeldMemory { _budget: budget, _charge: Some(charge) });
    }
    writer.head(status, headers).await?;
    let mut last = None;
    while source.left() > 0 {
        let mut charge = budget.charge(source.left().min(CHUNK as u64)).await;
        let piece = source.next(charge.bytes() as usize).await?;
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

/// Hands an upstream server's response to QUIC. It is read ahead of the client as far as memory goes, so that a small one is with the
/// upstream server no longer than that server needs. While that server sends nothing, the client owes nothing: what is beside the body
/// counts from its end on. Until then the proxy's limit of requests bounds it.
async fn send_upstream(
    writer: &mut impl ResponseWriter,
    status: StatusCode,
    headers: HeaderMap,
    mut body: Box<UpstreamBody>,
    sent: &mut ResponseProgress<'_>,
) -> Result<HeldMemory, String> {
    let beside: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.contains_key(CONTENT_DIGEST) {
        // The upstream server's own, which the client can check all the way.
        sent.digest = None;
    }
    let pieces = sent.context.memory.response(0);
    // Of no length, since each piece in it is charged.
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
                // A small part of a buffer would keep all of the buffer.
                let piece =
                    if piece.len() < COPIED { Bytes::copy_from_slice(&piece) } else { piece };
                let _ = queue.send((piece, charge));
            }
        };
        // The upstream server may have another request now.
        drop((body, queue));
        Ok::<_, String>(trailers)
    };
    let write = async {
        writer.head(status, headers).await?;
        while let Some((piece, charge)) = queued.recv().await {
            sent.digest(&piece);
            let length = piece.len();
            writer.data(charge.of(piece)).await?;
            sent.more(length);
        }
        Ok::<(), String>(())
    };
    let (trailers, ()) = tokio::try_join!(read, write)?;
    let budget = sent.context.memory.response(OVERHEAD + beside as u64);
    writer.finish(sent.trailers(trailers)).await?;
    Ok(HeldMemory { _budget: budget, _charge: None })
}

/// Source of a body that is here.
enum Source {
    Zeros(u64),
    Text(Bytes),
    File(u64, ServedFile),
}

impl Source {
    /// Bytes that are still to come.
    const fn left(&self) -> u64 {
        match self {
            Self::Zeros(left) | Self::File(left, _) => *left,
            Self::Text(text) => text.len() as u64,
        }
    }

    /// At most so many bytes of it, and at least one.
    async fn next(&mut self, most: usize) -> Result<Bytes, String> {
        match self {
            Self::Zeros(left) => {
                let length = most.min(CHUNK);
                *left -= length as u64;
                Ok(Bytes::from_static(&ZEROS[..length]))
            }
            Self::Text(text) => Ok(text.split_to(most.min(text.len()))),
            Self::File(left, file) => {
                let mut piece = bytes::BytesMut::with_capacity(most);
                (&mut *file)
                    .take(most as u64)
                    .read_buf(&mut piece)
                    .await
                    .map_err(|e| e.to_string())?;
                // The length was promised: what is there is no whole response.
                if piece.is_empty() {
                    return Err("the file became shorter while it was sent".into());
                }
                *left -= piece.len() as u64;
                Ok(piece.freeze())
            }
        }
    }
}
