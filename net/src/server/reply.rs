//! A response, from its request to its last byte, on any stack.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::io::AsyncReadExt;

use super::Context;
use crate::digest::Digest;
use crate::logs::Tap;
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
pub(super) async fn answer(
    reply: &mut impl Reply,
    started: Instant,
    asked: Asked<'_>,
    share: usize,
    context: &Context,
    tap: Option<&Tap>,
) -> bool {
    let label = &context.labels[share];
    let answer = context.site.answer(asked.method, asked.path).await;
    let status = answer.status.as_u16();
    // An answer to HEAD has no content, and nothing to tell of it.
    let digest = (asked.digest && asked.method != Method::HEAD).then(Digest::default);
    let mut sent = Sent { started, first_byte: None, bytes: 0, digest };
    match send(reply, answer, context.limits.stall, &mut sent).await {
        Ok(()) => {
            let whole = started.elapsed();
            let first_byte = sent.first_byte.unwrap_or(whole);
            context.metrics.answered(label, status, sent.bytes, first_byte, whole);
            if let Some(tap) = tap {
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

async fn send(reply: &mut impl Reply, answer: Answer, stall: Duration, sent: &mut Sent) -> Result<(), String> {
    if !answer.wait.is_zero() {
        tokio::time::sleep(answer.wait).await;
    }
    in_time(stall, reply.head(answer.status, answer.length, &answer.content_type)).await?;
    let mut left = answer.length;
    match answer.body {
        Body::Empty => {}
        Body::Text(text) => {
            sent.digest(text.as_bytes());
            sent.more(text.len());
            in_time(stall, reply.data(Bytes::from(text))).await?;
        }
        Body::Zeros => {
            while left > 0 {
                let n = left.min(CHUNK as u64);
                let piece = &ZEROS[..n as usize];
                sent.digest(piece);
                in_time(stall, reply.data(Bytes::from_static(piece))).await?;
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
                in_time(stall, reply.data(chunk.freeze())).await?;
                sent.more(n);
                left -= n as u64;
            }
        }
    }
    let digest = sent.digest.take().map(Digest::value);
    in_time(stall, reply.finish(digest)).await
}

/// One step of a response: a peer that takes nothing for so long is given up.
async fn in_time(stall: Duration, step: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    match tokio::time::timeout(stall, step).await {
        Ok(done) => done,
        Err(_) => Err(format!("the client took nothing for {} s", stall.as_secs())),
    }
}
