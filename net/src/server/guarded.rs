//! HTTP/3's transport with bounds on what a peer's streams may bring.
//!
//! `h3` collects every frame whole before it looks at it, whatever length the frame has, and gives flow control its credit back while it
//! does. Nothing here wants a request's body: what a stream brings altogether can be bounded.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};

/// Bytes that a unidirectional stream may bring in all its time: settings, and the priorities of some fifty thousand requests.
const UNIDIRECTIONAL: u64 = 1 << 20;

/// A connection, or what opens its streams, whose incoming streams are bounded.
pub(super) struct Guarded<C> {
    inner: C,
    /// Bytes that a request stream may bring.
    request: u64,
}

impl<C> Guarded<C> {
    /// `header_bytes` is the most that a request's header fields may take; twice as much may come, for frames that nobody knows.
    pub(super) fn new(inner: C, header_bytes: u64) -> Self {
        Self { inner, request: header_bytes.saturating_mul(2) }
    }
}

impl<C: OpenStreams<Bytes, BidiStream: RecvStream>> OpenStreams<Bytes> for Guarded<C> {
    type BidiStream = Bounded<C::BidiStream>;
    type SendStream = C::SendStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        Poll::Ready(Ok(Bounded::new(ready!(self.inner.poll_open_bidi(cx))?, self.request)))
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.inner.close(code, reason);
    }
}

impl<C: Connection<Bytes, BidiStream: RecvStream>> Connection<Bytes> for Guarded<C> {
    type RecvStream = Bounded<C::RecvStream>;
    type OpenStreams = Guarded<C::OpenStreams>;

    fn poll_accept_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        Poll::Ready(Ok(Bounded::new(ready!(self.inner.poll_accept_recv(cx))?, UNIDIRECTIONAL)))
    }

    fn poll_accept_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        Poll::Ready(Ok(Bounded::new(ready!(self.inner.poll_accept_bidi(cx))?, self.request)))
    }

    fn opener(&self) -> Self::OpenStreams {
        Guarded { inner: self.inner.opener(), request: self.request }
    }
}

/// A stream that brings no more than so many bytes.
pub(super) struct Bounded<S> {
    inner: S,
    id: StreamId,
    left: u64,
    /// The last read is still waiting. `h3-quinn` has then lent its stream to the read: whatever is asked of it, it panics.
    reading: bool,
}

impl<S: RecvStream> Bounded<S> {
    fn new(inner: S, left: u64) -> Self {
        Self { id: inner.recv_id(), inner, left, reading: false }
    }
}

impl<S: RecvStream> RecvStream for Bounded<S> {
    type Buf = S::Buf;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<S::Buf>, StreamErrorIncoming>> {
        let read = self.inner.poll_data(cx);
        self.reading = read.is_pending();
        let data = ready!(read)?;
        let bytes = data.as_ref().map_or(0, |data| data.remaining() as u64);
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Poll::Ready(Ok(data))
            }
            None => {
                self.inner.stop_sending(Code::H3_EXCESSIVE_LOAD.value());
                Poll::Ready(Err(StreamErrorIncoming::Unknown("the stream brings more than its bound".into())))
            }
        }
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that is being read is stopped when it is dropped.
        if !self.reading {
            self.inner.stop_sending(error_code);
        }
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

impl<S: SendStream<Bytes>> SendStream<Bytes> for Bounded<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.inner.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}

impl<S: BidiStream<Bytes>> BidiStream<Bytes> for Bounded<S> {
    type SendStream = S::SendStream;
    type RecvStream = Bounded<S::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let Self { inner, id, left, reading } = self;
        let (send, inner) = inner.split();
        (send, Bounded { inner, id, left, reading })
    }
}
