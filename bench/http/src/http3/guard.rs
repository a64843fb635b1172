//! Connections and streams whose incoming bytes are checked before `h3` gets them.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming, StreamId, WriteBuf,
};

use super::PeerError;
use super::closer::Closer;
use super::message::{MessageFrames, Peer, SectionLimits};
use super::unidirectional::{ControlStream, UnidirectionalStreams};

/// Rules for the checks of a connection's streams.
#[derive(Clone, Debug)]
struct Rules {
    peer: Peer,
    limits: SectionLimits,
    closer: Closer,
}

/// Opener of a connection's streams, whose incoming bytes are checked.
#[derive(Clone)]
pub(crate) struct GuardedOpener<O> {
    inner: O,
    rules: Rules,
}

/// A connection whose incoming bytes are checked.
pub(crate) struct GuardedConnection<C: Connection<Bytes>> {
    inner: C,
    rules: Rules,
    unidirectional: UnidirectionalStreams<C::RecvStream>,
}

impl<C: Connection<Bytes>> GuardedConnection<C> {
    /// Returns a connection that checks the bytes from `peer` on `inner`. `closer` closes `inner`.
    pub(crate) fn new(inner: C, peer: Peer, limits: SectionLimits, closer: Closer) -> Self {
        let unidirectional = UnidirectionalStreams::new(peer, closer.clone());
        Self { inner, rules: Rules { peer, limits, closer }, unidirectional }
    }
}

impl<O: OpenStreams<Bytes>> OpenStreams<Bytes> for GuardedOpener<O> {
    type BidiStream = GuardedStream<O::BidiStream>;
    type SendStream = O::SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        Poll::Ready(Ok(GuardedStream::new(ready!(self.inner.poll_open_bidi(cx))?, &self.rules)))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.inner.close(code, reason);
    }
}

impl<C: Connection<Bytes>> OpenStreams<Bytes> for GuardedConnection<C> {
    type BidiStream = GuardedStream<C::BidiStream>;
    type SendStream = C::SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        Poll::Ready(Ok(GuardedStream::new(ready!(self.inner.poll_open_bidi(cx))?, &self.rules)))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.inner.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.inner.close(code, reason);
    }
}

impl<C: Connection<Bytes>> Connection<Bytes> for GuardedConnection<C> {
    type RecvStream = ControlStream<C::RecvStream>;
    type OpenStreams = GuardedOpener<C::OpenStreams>;

    /// Gives `h3` the control stream. This module itself reads all other streams whenever `h3` asks
    /// for a stream.
    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        while let Poll::Ready(stream) = self.inner.poll_accept_recv(cx) {
            self.unidirectional.push(stream?);
        }
        Poll::Ready(ready!(self.unidirectional.poll(cx)).map_err(|error| {
            self.rules.closer.close(&error);
            error.into()
        }))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        Poll::Ready(Ok(GuardedStream::new(ready!(self.inner.poll_accept_bidi(cx))?, &self.rules)))
    }

    fn opener(&self) -> Self::OpenStreams {
        GuardedOpener { inner: self.inner.opener(), rules: self.rules.clone() }
    }
}

/// A request stream whose incoming frames are checked.
pub(crate) struct GuardedStream<S> {
    inner: S,
    id: StreamId,
    frames: MessageFrames,
    closer: Closer,
    /// Received data that have not been handed over.
    rest: Bytes,
    /// Whether the last read is pending. In this state, `h3-quinn` has moved its stream into the
    /// read and panics on any other call.
    reading: bool,
    /// Error after which nothing more is read.
    failed: Option<PeerError>,
}

impl<S: RecvStream> GuardedStream<S> {
    fn new(inner: S, rules: &Rules) -> Self {
        Self {
            id: inner.recv_id(),
            inner,
            frames: MessageFrames::new(rules.peer, rules.limits),
            closer: rules.closer.clone(),
            rest: Bytes::new(),
            reading: false,
            failed: None,
        }
    }

    /// Ends reading with an error. Must not be called while a read is pending.
    fn fail(&mut self, error: PeerError) -> StreamErrorIncoming {
        self.rest.clear();
        if error.ends_connection() {
            self.closer.close(&error);
        } else {
            self.inner.stop_sending(error.code().value());
        }
        self.failed = Some(error.clone());
        error.into()
    }
}

impl<S: RecvStream> RecvStream for GuardedStream<S> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.clone().into()));
        }
        loop {
            match self.frames.next(&mut self.rest) {
                Ok(Some(piece)) => return Poll::Ready(Ok(Some(piece))),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            }
            let read = self.inner.poll_data(cx);
            self.reading = read.is_pending();
            let Some(mut data) = ready!(read)? else {
                let ended = self.frames.end();
                return Poll::Ready(ended.map(|()| None).map_err(|error| self.fail(error)));
            };
            // All stacks here deliver `Bytes`, so this call copies nothing.
            self.rest = data.copy_to_bytes(data.remaining());
        }
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream with a pending read is stopped when it is dropped.
        if !self.reading {
            self.inner.stop_sending(error_code);
        }
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

impl<S: SendStream<Bytes>> SendStream<Bytes> for GuardedStream<S> {
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

impl<S: BidiStream<Bytes>> BidiStream<Bytes> for GuardedStream<S> {
    type SendStream = S::SendStream;
    type RecvStream = GuardedStream<S::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let Self { inner, id, frames, closer, rest, reading, failed } = self;
        let (send, recv) = inner.split();
        (send, GuardedStream { inner: recv, id, frames, closer, rest, reading, failed })
    }
}
