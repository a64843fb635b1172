//! Body of a request to the upstream server: its limits and its progress.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use super::headers::remove_hop_by_hop;
use crate::request::{RequestBody, RequestBodyError};

/// Minimum rate of a client that sends a body, in bytes per second. The same limit applies to
/// clients that read responses.
const LEAST_RATE: f64 = 500.0;

/// State of a body, observed while another task reads the body.
#[derive(Debug)]
pub(super) struct BodyProgress {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Time when the upstream server took the last piece.
    last: Instant,
    error: Option<RequestBodyError>,
    /// Whether the upstream server has taken the whole body.
    over: bool,
}

impl BodyProgress {
    fn new(over: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { last: Instant::now(), error: None, over }) })
    }

    /// Returns whether the upstream server has taken the whole body.
    pub(super) fn is_over(&self) -> bool {
        self.state.lock().over
    }

    /// Returns the time of the last progress.
    pub(super) fn last(&self) -> Instant {
        self.state.lock().last
    }

    /// Returns the reason why the body broke off, if it did.
    pub(super) fn error(&self) -> Option<RequestBodyError> {
        self.state.lock().error.clone()
    }
}

/// Pace of a client during waits for it. In each period of `patience` spent waiting, the client
/// must transfer data at [`LEAST_RATE`].
#[derive(Debug)]
pub(super) struct Pace {
    patience: Duration,
    /// Time spent waiting in the current period, and bytes transferred in this period.
    waited: Duration,
    bytes: u64,
    since: Option<Instant>,
}

impl Pace {
    pub(super) const fn new(patience: Duration) -> Self {
        Self { patience, waited: Duration::ZERO, bytes: 0, since: None }
    }

    /// Starts a wait, unless one has already started. Returns the end of the period.
    pub(super) fn wait(&mut self, now: Instant) -> Instant {
        *self.since.get_or_insert(now) + self.patience.saturating_sub(self.waited)
    }

    /// Ends the wait, during which this many bytes arrived.
    pub(super) fn brought(&mut self, now: Instant, bytes: u64) {
        if let Some(since) = self.since.take() {
            self.waited += now.saturating_duration_since(since);
        }
        self.bytes += bytes;
    }

    /// Ends the period. Returns whether the client was too slow in this period.
    pub(super) fn is_slow(&mut self) -> bool {
        let slow = (self.bytes as f64) < LEAST_RATE * self.patience.as_secs_f64();
        *self = Self::new(self.patience);
        slow
    }
}

/// A request body with its limits.
pub(super) struct BoundedBody {
    inner: RequestBody,
    /// Number of bytes that may still arrive.
    left: u64,
    bound: u64,
    /// Number of bytes still to come according to `content-length`.
    declared: Option<u64>,
    pace: Pace,
    alarm: Pin<Box<Sleep>>,
    /// First frame of the body. It is read in advance to find out whether the body is empty.
    peeked: Option<Frame<Bytes>>,
    ended: bool,
    progress: Arc<BodyProgress>,
}

impl BoundedBody {
    pub(super) fn new(
        inner: RequestBody,
        bound: u64,
        declared: Option<u64>,
        patience: Duration,
    ) -> Self {
        let ended = inner.is_end_stream();
        Self {
            inner,
            left: bound,
            bound,
            declared,
            pace: Pace::new(patience),
            alarm: Box::pin(sleep_until(Instant::now() + patience)),
            peeked: None,
            ended,
            progress: BodyProgress::new(ended || declared == Some(0)),
        }
    }

    pub(super) fn progress(&self) -> Arc<BodyProgress> {
        Arc::clone(&self.progress)
    }

    /// Returns whether the body is empty. Waits for its first frame or its end.
    pub(super) async fn is_empty(&mut self) -> Result<bool, RequestBodyError> {
        if self.peeked.is_none() && !self.ended {
            let first = std::future::poll_fn(|cx| self.poll_within(cx)).await;
            self.peeked = first.transpose()?;
        }
        Ok(self.peeked.is_none())
    }

    fn fail(
        &mut self,
        error: RequestBodyError,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        self.ended = true;
        self.progress.state.lock().error = Some(error.clone());
        Poll::Ready(Some(Err(error)))
    }

    /// Returns the next frame, or an error if the client takes too long for it.
    fn poll_within(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = Pin::new(&mut self.inner).poll_frame(cx) else {
            let until = self.pace.wait(Instant::now());
            if self.alarm.deadline() != until {
                self.alarm.as_mut().reset(until);
            }
            ready!(self.alarm.as_mut().poll(cx));
            if self.pace.is_slow() {
                return self.fail(RequestBodyError::Slow);
            }
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        match next {
            None => {
                self.ended = true;
                if self.declared.is_some_and(|left| left > 0) {
                    return self.fail(RequestBodyError::Length);
                }
                self.progress.state.lock().over = true;
                Poll::Ready(None)
            }
            Some(Err(error)) => self.fail(error),
            Some(Ok(frame)) => self.take(frame),
        }
    }

    fn take(
        &mut self,
        frame: Frame<Bytes>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let mut frame = frame;
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        self.pace.brought(Instant::now(), length);
        if frame.is_data() {
            let Some(left) = self.left.checked_sub(length) else {
                return self.fail(RequestBodyError::TooLarge(self.bound));
            };
            if let Some(declared) = &mut self.declared {
                // A server that trusts the declared length would take additional bytes as the start
                // of another request.
                let Some(left) = declared.checked_sub(length) else {
                    return self.fail(RequestBodyError::Length);
                };
                *declared = left;
            }
            self.left = left;
        } else if let Some(trailers) = frame.trailers_mut() {
            remove_hop_by_hop(trailers);
        }
        let mut state = self.progress.state.lock();
        state.last = Instant::now();
        // hyper reads no further than the declared length.
        state.over = self.declared == Some(0) || frame.is_trailers();
        drop(state);
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Body for BoundedBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let this = self.get_mut();
        match this.peeked.take() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => this.poll_within(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.peeked.is_none() && (self.ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        // The frame that was read in advance still has to be returned.
        let peeked =
            self.peeked.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        self.declared.map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + peeked))
    }
}

/// Returns the trailers of an upstream server's body without hop-by-hop fields.
pub(super) fn trailers(mut fields: HeaderMap) -> HeaderMap {
    remove_hop_by_hop(&mut fields);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    use http_body_util::{BodyExt, StreamBody};
    use tokio::sync::mpsc;

    type Piece = Result<Frame<Bytes>, RequestBodyError>;

    /// Returns a body and the sender of its pieces.
    fn written() -> (mpsc::UnboundedSender<Piece>, RequestBody) {
        let (send, mut receive) = mpsc::unbounded_channel();
        let stream = futures_util::stream::poll_fn(move |cx| receive.poll_recv(cx));
        (send, StreamBody::new(stream).boxed_unsync())
    }

    fn data(length: usize) -> Piece {
        Ok(Frame::data(Bytes::from(vec![7; length])))
    }

    async fn all(mut body: BoundedBody) -> Result<usize, RequestBodyError> {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn request_body_must_match_its_limit_and_declared_length() {
        for (bound, declared, pieces, wanted) in [
            (10, None, &[4, 6][..], Ok(10)),
            (10, None, &[4, 7], Err(RequestBodyError::TooLarge(10))),
            (10, Some(9), &[4, 5], Ok(9)),
            (10, Some(9), &[4], Err(RequestBodyError::Length)),
            (10, Some(9), &[4, 6], Err(RequestBodyError::Length)),
            (10, Some(0), &[], Ok(0)),
        ] {
            let (send, body) = written();
            pieces.iter().for_each(|length| send.send(data(*length)).unwrap());
            drop(send);
            let body = BoundedBody::new(body, bound, declared, LONG);
            let progress = body.progress();
            assert_eq!(all(body).await, wanted);
            assert_eq!(progress.error(), wanted.err());
        }
    }

    #[test]
    fn only_time_spent_waiting_for_the_client_counts_as_slow() {
        let mut now = Instant::now();
        let second = Duration::from_secs(1);
        for (bytes, slow) in [(6_000, false), (4_000, true)] {
            let mut pace = Pace::new(30 * second);
            for _ in 0..2 {
                assert_eq!(pace.wait(now), now + 30 * second - pace.waited);
                now += 10 * second;
                pace.brought(now, bytes);
                // The proxy does not wait for the client during this time, so the time does not
                // count.
                now += 60 * second;
            }
            assert_eq!(pace.waited, 20 * second);
            assert_eq!(pace.wait(now), now + 10 * second);
            pace.brought(now, bytes);
            assert_eq!(pace.is_slow(), slow, "{bytes}");
            assert_eq!((pace.waited, pace.bytes), (Duration::ZERO, 0));
        }
    }

    #[tokio::test]
    async fn request_body_that_arrives_too_slowly_is_aborted() {
        let (send, body) = written();
        let body = BoundedBody::new(body, u64::MAX, None, Duration::from_millis(200));
        tokio::spawn(async move {
            while send.send(data(1)).is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert_eq!(all(body).await, Err(RequestBodyError::Slow));
    }

    #[tokio::test]
    async fn checking_for_an_empty_body_loses_no_data() {
        let (send, body) = written();
        send.send(data(5)).unwrap();
        drop(send);
        let mut body = BoundedBody::new(body, 10, Some(5), LONG);
        assert_eq!(body.is_empty().await, Ok(false));
        assert_eq!((body.is_end_stream(), body.size_hint().exact()), (false, Some(5)));
        assert_eq!(all(body).await, Ok(5));
        let (send, body) = written();
        drop(send);
        let mut body = BoundedBody::new(body, 10, None, LONG);
        assert_eq!(body.is_empty().await, Ok(true));
        assert!(body.is_end_stream());
    }
}
