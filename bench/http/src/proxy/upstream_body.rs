//! Body of an upstream server's response, while it is forwarded to a client.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Version};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until, timeout};

use super::body::{self, BodyProgress, Pace};
use super::error_text::one_line;
use super::pool::Tail;
use super::slots::Slot;
use crate::metrics::{UpstreamMetrics, UpstreamOutcome};

/// Reason why a slot was taken back before its request was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Eviction {
    /// The client held more than its share, and other clients were waiting.
    #[error("the client uses more than its share of the proxy slots while other clients wait")]
    Share,
    /// The client read too slowly while slots were scarce.
    #[error("the client reads too slowly while many requests wait")]
    Slow,
}

/// Reason why an upstream server's body ended early.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamBodyError {
    /// The body is incomplete or invalid.
    #[error("the upstream server's body broke off: {0}")]
    Broken(BodyDefect),
    /// The upstream server sent nothing for too long.
    #[error("the upstream server sent nothing for too long")]
    TimedOut,
    /// The request lost its slot.
    #[error(transparent)]
    Evicted(#[from] Eviction),
}

/// Defect of an upstream server's body.
#[derive(Debug, thiserror::Error)]
pub enum BodyDefect {
    /// The body has more bytes than its header declares.
    #[error("the body is longer than its content-length")]
    TooLong,
    /// The body has fewer bytes than its header declares.
    #[error("the body is shorter than its content-length")]
    TooShort,
    /// The response has content, but its header allows none.
    #[error("the body has more content than its header allows")]
    Unexpected,
    /// The HTTP/2 stream was reset without an error.
    #[error("the stream of the body was reset")]
    Reset,
    /// The connection failed, or the server sent data after its response.
    #[error("{}", one_line(.0))]
    Connection(hyper::Error),
}

/// Resources that an answered request still holds.
pub(super) struct Answered {
    pub(super) slot: Slot,
    pub(super) tail: Tail,
    /// Progress of the request's body, if it has one.
    pub(super) request: Option<Arc<BodyProgress>>,
    pub(super) metrics: UpstreamMetrics,
    /// Longest allowed wait for a piece of the response.
    pub(super) patience: Duration,
    /// Period over which the client must take 500 bytes per second while slots are scarce. Only
    /// time spent waiting for the client counts.
    pub(super) pace: Duration,
}

/// Body from an upstream server, with the slot of its request.
pub struct UpstreamBody {
    body: Incoming,
    of: Answered,
    pace: Pace,
    /// Number of bytes still to come according to `content-length`.
    left: Option<u64>,
    /// End of the body, if it was read in advance.
    end: Option<Piece>,
    http2: bool,
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
    /// Returns the body of a response. `length` is its length, if the header says it.
    pub(super) fn new(body: Incoming, version: Version, length: Option<u64>, of: Answered) -> Self {
        let pace = Pace::new(of.pace);
        of.slot.streams();
        Self { body, of, pace, left: length, end: None, http2: version == Version::HTTP_2 }
    }

    /// Returns the next piece of the body. If the length is known, the last bytes are returned only
    /// after the end has been read. A client that counts the bytes takes the response for complete
    /// once it has the last ones.
    ///
    /// # Errors
    /// Returns an error if the body broke off, has a different length than declared, or brought no
    /// data for too long.
    pub(crate) async fn next(&mut self) -> Result<Piece, UpstreamBodyError> {
        if let Some(end) = self.end.take() {
            // Further calls return the end once more.
            self.end = Some(Piece::End);
            return Ok(end);
        }
        let piece = self.read().await?;
        let (Some(left), Piece::Data(data)) = (self.left, &piece) else { return self.ended(piece) };
        let Some(left) = left.checked_sub(data.len() as u64) else {
            return Err(self.broken(BodyDefect::TooLong));
        };
        self.left = Some(left);
        if left == 0 {
            self.end = Some(self.read_end().await?);
        }
        Ok(piece)
    }

    /// Reads to the end of a response that has no content.
    ///
    /// # Errors
    /// Returns the errors of [`Self::next`]. Also returns an error if the response has content.
    pub(super) async fn read_end(&mut self) -> Result<Piece, UpstreamBodyError> {
        loop {
            match self.read().await? {
                Piece::Data(data) if data.is_empty() => {}
                Piece::Data(_) => return Err(self.broken(BodyDefect::Unexpected)),
                end => return Ok(end),
            }
        }
    }

    fn ended(&mut self, piece: Piece) -> Result<Piece, UpstreamBodyError> {
        if !matches!(piece, Piece::Data(_)) && self.left.is_some_and(|left| left > 0) {
            return Err(self.broken(BodyDefect::TooShort));
        }
        Ok(piece)
    }

    fn broken(&mut self, defect: BodyDefect) -> UpstreamBodyError {
        self.of.slot.settled();
        self.of.tail.discard();
        self.of.metrics.count(UpstreamOutcome::BodyBroken);
        UpstreamBodyError::Broken(defect)
    }

    fn evicted(&mut self, why: Eviction) -> UpstreamBodyError {
        self.of.slot.settled();
        self.of.metrics.count(UpstreamOutcome::Evicted);
        why.into()
    }

    /// Waits until the client has room for these bytes.
    ///
    /// # Errors
    /// Returns an error if the client takes too little while slots are scarce, or if it holds more
    /// than its share of the slots.
    pub(crate) async fn until_client_takes<T>(
        &mut self,
        room: impl Future<Output = T>,
    ) -> Result<T, UpstreamBodyError> {
        let mut room = pin!(room);
        loop {
            let until = self.pace.wait(Instant::now());
            tokio::select! {
                biased;
                done = room.as_mut() => return Ok(done),
                () = self.of.slot.evicted() => return Err(self.evicted(Eviction::Share)),
                () = sleep_until(until) => {
                    if self.pace.is_slow() && self.of.slot.is_scarce() {
                        return Err(self.evicted(Eviction::Slow));
                    }
                }
            }
        }
    }

    /// Records that the client has taken this many more bytes.
    pub(crate) fn taken(&mut self, bytes: u64) {
        self.pace.brought(Instant::now(), bytes);
        self.of.slot.moved(bytes);
    }

    async fn read(&mut self) -> Result<Piece, UpstreamBodyError> {
        let next = tokio::select! {
            biased;
            next = timeout(self.of.patience, self.body.frame()) => next,
            () = self.of.slot.evicted() => return Err(self.evicted(Eviction::Share)),
        };
        let Ok(next) = next else {
            self.of.slot.settled();
            self.of.metrics.count(UpstreamOutcome::BodyTimeout);
            return Err(UpstreamBodyError::TimedOut);
        };
        let frame = match next {
            // hyper treats a stream that is reset without an error as complete (RFC 9113 §8.1),
            // because such a reset is normal for requests.
            None if self.http2 && !self.body.is_end_stream() => {
                return Err(self.broken(BodyDefect::Reset));
            }
            None => return self.complete(Piece::End).await,
            Some(Err(e)) => return Err(self.broken(BodyDefect::Connection(e))),
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(data) => Ok(Piece::Data(data)),
            Err(frame) => match frame.into_trailers() {
                Ok(fields) => self.complete(Piece::Trailers(body::trailers(fields))).await,
                Err(_) => Ok(Piece::Data(Bytes::new())),
            },
        }
    }

    async fn complete(&mut self, end: Piece) -> Result<Piece, UpstreamBodyError> {
        let sent = self.of.request.as_ref().is_none_or(|request| request.is_over());
        match self.of.tail.end(sent).await {
            Ok(()) => self.of.slot.settled(),
            Err(excess) => return Err(self.broken(BodyDefect::Connection(excess))),
        }
        Ok(end)
    }
}
