//! A response, from its request to the acknowledgement of its last byte, on any stack.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_plugin::Observer;
use fathom_stacks::Delivery;
use http::{Method, StatusCode};
use tokio::io::AsyncReadExt;

use super::ServerContext;
use super::memory_budget::{Charge, ConnectionBudget, ResponseBudget};
use crate::connection_log::ConnectionLog;
use crate::digest::Digest;
use crate::metrics::{ControllerLabels, ResponseMetrics, ResponseTimes};
use crate::site::{Body, ServedFile, SiteResponse};

/// Bytes handed to a stream at once.
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
/// The end of a body, if it is no larger, counts until the whole response is acknowledged: noq copies what is smaller than a packet, and lets
/// go of the original at once.
const SMALL: u64 = 2 << 10;

/// Writes a response to a stream. Each step completes when QUIC has accepted the data, limited by flow control and the send buffer.
pub(super) trait ResponseWriter: Send {
    /// The header.
    fn head(
        &mut self,
        status: StatusCode,
        length: u64,
        content_type: &str,
    ) -> impl Future<Output = Result<(), String>> + Send;
    /// A part of the body.
    fn data(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), String>> + Send;
    /// There is no more but, where it was requested, the body's digest: the value of `content-digest`, among the trailers.
    fn finish(&mut self, digest: Option<String>) -> impl Future<Output = Result<(), String>> + Send;
    /// All of it, of a response whose body is at hand.
    fn whole(
        &mut self,
        status: StatusCode,
        content_type: &str,
        body: Bytes,
        digest: Option<String>,
    ) -> impl Future<Output = Result<(), String>> + Send {
        async move {
            self.head(status, body.len() as u64, content_type).await?;
            if !body.is_empty() {
                self.data(body).await?;
            }
            self.finish(digest).await
        }
    }
}

/// State that the responses of a connection share.
pub(super) struct ConnectionContext {
    pub(super) server: Arc<ServerContext>,
    share: usize,
    /// The connection's qlog.
    pub(super) log: Option<Arc<ConnectionLog>>,
    metrics: ResponseMetrics,
    /// What its responses hold of the server's memory.
    pub(super) memory: Arc<ConnectionBudget>,
}

impl ConnectionContext {
    /// Of a connection with the controller of this number. It is logged under `id`, from [`Self::connected`] on.
    pub(super) fn new(server: Arc<ServerContext>, share: usize, id: String) -> Self {
        let label = &server.labels[share];
        let log = server.logs.as_ref().map(|_| Arc::new(ConnectionLog::deferred(id, label)));
        let metrics = server.metrics.response_metrics(label);
        let memory = server.budget.connection();
        Self { server, share, log, metrics, memory }
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

/// The parts of a request that matter for its response.
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a Method,
    /// As it came, without a query.
    pub(super) path: &'a str,
    /// The body's digest is wanted.
    pub(super) digest: bool,
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
    delivery: Delivery,
    started: Instant,
    request: RequestHead<'_>,
    context: &ConnectionContext,
) -> DeliveryOutcome {
    let server = &context.server;
    let answer = server.site.answer(request.method, request.path).await;
    // An answer to HEAD has no content, and nothing to tell of it.
    let digest = (request.digest && request.method != Method::HEAD).then(Digest::default);
    let status = answer.status.as_u16();
    let mut sent = ResponseProgress {
        context,
        status,
        started,
        first_byte: None,
        handed_over: None,
        bytes: 0,
        digest,
        open: true,
    };
    let end = with_progress_checks(&context.memory, send_all(writer, delivery, answer, &mut sent)).await;
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

/// How far a response has come. Dropped before it is acknowledged, it is abandoned.
struct ResponseProgress<'a> {
    context: &'a ConnectionContext,
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
        self.open = false;
    }
}

impl Drop for ResponseProgress<'_> {
    fn drop(&mut self) {
        if self.open {
            self.context.server.metrics.abandoned(self.context.label(), self.bytes);
            if let Some(log) = &self.context.log {
                log.response_abandoned(self.status, self.bytes, self.handed_over);
            }
        }
    }
}

/// Runs `work`, and aborts it if the client reads too slowly.
async fn with_progress_checks(
    memory: &ConnectionBudget,
    work: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    let mut work = pin!(work);
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
    let wait = answer.wait;
    let work = async {
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        send(writer, answer, sent).await
    };
    // A client that goes away, or does not want it any more, ends a response at any point of it, also one that has not begun.
    let held = tokio::select! {
        biased;
        sent = work => sent?,
        over = &mut delivery => return Err(over.err().unwrap_or_else(|| "the stream is over".into())),
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
    let budget = sent.context.memory.response();
    let (status, content_type) = (answer.status, &answer.content_type);
    let at_hand = match &answer.body {
        Body::Text(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Body::Zeros if answer.length <= CHUNK as u64 => Some(Bytes::from_static(&ZEROS[..answer.length as usize])),
        _ => None,
    };
    if let Some(body) = at_hand
        && let Some(charge) = budget.charge_all(body.len() as u64)
    {
        sent.digest(&body);
        let (bytes, digest) = (body.len(), sent.digest.take().map(Digest::value));
        writer.whole(status, content_type, body, digest).await?;
        sent.more(bytes);
        return Ok(HeldMemory { _budget: budget, _charge: Some(charge) });
    }
    writer.head(status, answer.length, content_type).await?;
    let mut source = match answer.body {
        Body::Empty => None,
        Body::Zeros => Some(Source::Zeros),
        Body::Text(text) => Some(Source::Text(text.into())),
        Body::File(file) => Some(Source::File(file.take(answer.length))),
    };
    let (mut left, mut last) = (answer.length, None);
    while let Some(source) = &mut source
        && left > 0
    {
        let mut charge = budget.charge(left.min(CHUNK as u64)).await;
        let piece = source.next(charge.bytes() as usize).await?;
        charge.shrink_to(piece.len() as u64);
        sent.digest(&piece);
        left -= piece.len() as u64;
        let length = piece.len();
        if left == 0 && charge.bytes() <= SMALL {
            last = Some(charge);
            writer.data(piece).await?;
        } else {
            writer.data(charge.of(piece)).await?;
        }
        sent.more(length);
    }
    let digest = sent.digest.take().map(Digest::value);
    writer.finish(digest).await?;
    Ok(HeldMemory { _budget: budget, _charge: last })
}

/// Source of a body.
enum Source {
    Zeros,
    Text(Bytes),
    File(tokio::io::Take<ServedFile>),
}

impl Source {
    /// At most so many bytes of it, and at least one.
    async fn next(&mut self, most: usize) -> Result<Bytes, String> {
        match self {
            Self::Zeros => Ok(Bytes::from_static(&ZEROS[..most.min(CHUNK)])),
            Self::Text(text) => Ok(text.split_to(most.min(text.len()))),
            Self::File(file) => {
                let mut piece = bytes::BytesMut::with_capacity(most);
                file.read_buf(&mut piece).await.map_err(|e| e.to_string())?;
                // The length was promised: what is there is no whole response.
                if piece.is_empty() {
                    Err("the file became shorter while it was sent".into())
                } else {
                    Ok(piece.freeze())
                }
            }
        }
    }
}
