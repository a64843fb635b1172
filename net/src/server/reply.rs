//! A response, from its request to its last byte, on any stack.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fathom_plug::Observer;
use http::{Method, StatusCode};
use tokio::io::AsyncReadExt;

use super::Context;
use crate::digest::Digest;
use crate::logs::Tap;
use crate::metrics::{Answers, Controller};
use crate::site::{Answer, Body};

/// Bytes handed to a stream at once.
const CHUNK: usize = 64 * 1024;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// A stream for a response. Each step is over when QUIC has taken it, flow and congestion control included.
pub(super) trait Reply: Send {
    /// The header.
    fn head(
        &mut self,
        status: StatusCode,
        length: u64,
        content_type: &str,
    ) -> impl Future<Output = Result<(), String>> + Send;
    /// A part of the body.
    fn data(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), String>> + Send;
    /// There is no more but, where it was asked for, the body's digest: the value of `content-digest`, among the trailers.
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

/// What the responses of a connection have in common.
pub(super) struct Common {
    pub(super) context: Arc<Context>,
    share: usize,
    /// Where the connection is logged.
    pub(super) tap: Option<Arc<Tap>>,
    answers: Answers,
    progress: Progress,
}

impl Common {
    /// Of a connection with the controller of this number. It is logged under `id`.
    pub(super) fn new(context: Arc<Context>, share: usize, id: String) -> Self {
        let label = &context.labels[share];
        let tap = context.logs.as_ref().map(|logs| Arc::new(Tap::begin(logs, id, label)));
        let answers = context.metrics.answers(label);
        Self { context, share, tap, answers, progress: Progress::default() }
    }

    /// The connection's controller.
    pub(super) fn label(&self) -> &Controller {
        &self.context.labels[self.share]
    }

    /// What hears of the connection from a controller of Fathom's.
    pub(super) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.tap.clone().map(|tap| tap as Arc<dyn Observer>)
    }
}

/// How often a connection's client has taken a part of any response. They share its link: one may wait long for its turn.
#[derive(Default)]
struct Progress(AtomicU64);

impl Progress {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request.
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    /// As it came, without a query.
    pub(super) path: &'a str,
    /// The body's digest is wanted.
    pub(super) digest: bool,
}

/// Answers a request whose header came at `started`; counts and logs it. Whether the client took all of it.
// Response times are of real time.
#[allow(clippy::disallowed_methods)]
pub(super) async fn answer(reply: &mut impl Reply, started: Instant, asked: Asked<'_>, common: &Common) -> bool {
    let (context, label) = (&common.context, common.label());
    let answer = context.site.answer(asked.method, asked.path).await;
    let status = answer.status.as_u16();
    // An answer to HEAD has no content, and nothing to tell of it.
    let digest = (asked.digest && asked.method != Method::HEAD).then(Digest::default);
    let mut sent = Sent { started, first_byte: None, bytes: 0, digest };
    let patience = Patience { stall: context.limits.stall, progress: &common.progress };
    match send(reply, answer, &patience, &mut sent).await {
        Ok(()) => {
            let whole = started.elapsed();
            let first_byte = sent.first_byte.unwrap_or(whole);
            common.answers.add(status, sent.bytes, first_byte, whole);
            if let Some(tap) = &common.tap {
                tap.answered(status, sent.bytes, first_byte, whole);
            }
            true
        }
        Err(why) => {
            tracing::debug!(?label, "response: {why}");
            context.metrics.abandoned(label, sent.bytes);
            false
        }
    }
}

/// How far a response has come.
struct Sent {
    started: Instant,
    /// Of a body that is at hand: when all of it was taken, as it is handed over as one.
    first_byte: Option<Duration>,
    bytes: u64,
    /// Where the client wants one.
    digest: Option<Digest>,
}

impl Sent {
    fn digest(&mut self, piece: &[u8]) {
        if let Some(digest) = &mut self.digest {
            digest.add(piece);
        }
    }

    #[allow(clippy::disallowed_methods)]
    fn more(&mut self, bytes: usize) {
        self.first_byte.get_or_insert_with(|| self.started.elapsed());
        self.bytes += bytes as u64;
    }
}

async fn send(reply: &mut impl Reply, answer: Answer, patience: &Patience<'_>, sent: &mut Sent) -> Result<(), String> {
    if !answer.wait.is_zero() {
        tokio::time::sleep(answer.wait).await;
    }
    let (status, content_type) = (answer.status, &answer.content_type);
    let body = match answer.body {
        Body::Text(text) => Ok(Bytes::from(text)),
        Body::Zeros if answer.length <= CHUNK as u64 => Ok(Bytes::from_static(&ZEROS[..answer.length as usize])),
        body => Err(body),
    };
    let body = match body {
        Ok(body) => {
            sent.digest(&body);
            let (bytes, digest) = (body.len(), sent.digest.take().map(Digest::value));
            patience.with(reply.whole(status, content_type, body, digest)).await?;
            sent.more(bytes);
            return Ok(());
        }
        Err(body) => body,
    };
    patience.with(reply.head(status, answer.length, content_type)).await?;
    let mut left = answer.length;
    match body {
        Body::Empty | Body::Text(_) => {}
        Body::Zeros => {
            while left > 0 {
                let n = left.min(CHUNK as u64);
                let piece = &ZEROS[..n as usize];
                sent.digest(piece);
                patience.with(reply.data(Bytes::from_static(piece))).await?;
                sent.more(n as usize);
                left -= n;
            }
        }
        Body::File(file) => {
            let mut file = file.take(left);
            while left > 0 {
                let mut chunk = bytes::BytesMut::with_capacity(CHUNK);
                let n = file.read_buf(&mut chunk).await.map_err(|e| e.to_string())?;
                if n == 0 {
                    // The length was promised: what is there is no whole response.
                    return Err("the file became shorter while it was sent".into());
                }
                sent.digest(&chunk);
                patience.with(reply.data(chunk.freeze())).await?;
                sent.more(n);
                left -= n as u64;
            }
        }
    }
    let digest = sent.digest.take().map(Digest::value);
    patience.with(reply.finish(digest)).await
}

/// A client that takes nothing for `stall`, of this response or another, is given up.
struct Patience<'a> {
    stall: Duration,
    progress: &'a Progress,
}

impl Patience<'_> {
    /// One step of a response.
    async fn with(&self, step: impl Future<Output = Result<(), String>>) -> Result<(), String> {
        let mut step = pin!(step);
        loop {
            let before = self.progress.count();
            match tokio::time::timeout(self.stall, step.as_mut()).await {
                Ok(done) => {
                    self.progress.step();
                    return done;
                }
                Err(_) if self.progress.count() != before => {}
                Err(_) => return Err(format!("the client took nothing for {} s", self.stall.as_secs())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_millis(600);

    async fn slow() -> Result<(), String> {
        tokio::time::sleep(STALL * 3 / 2).await;
        Ok(())
    }

    #[tokio::test]
    async fn a_response_waits_while_others_of_its_connection_get_on() {
        let progress = Progress::default();
        let patience = Patience { stall: STALL, progress: &progress };
        assert!(patience.with(slow()).await.is_err(), "nothing was taken");
        let others = async {
            for _ in 0..6 {
                tokio::time::sleep(STALL / 4).await;
                progress.step();
            }
        };
        let (step, ()) = tokio::join!(patience.with(slow()), others);
        assert_eq!(step, Ok(()));
    }
}
