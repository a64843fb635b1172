//! Request streams that `h3` and the response share. `h3` owns its streams. However, a response
//! must learn when its data are acknowledged, and it writes bodies without copying them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::error::Code;
use h3::quic::{
    BidiStream, Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream,
    StreamErrorIncoming, StreamId, WriteBuf,
};
use parking_lot::{Mutex, MutexGuard};

use fathom_stacks::{Delivery, RequestStream as ResponseStream};

/// Locks a mutex whose data stay consistent if a thread panics.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock()
}

/// A stream shared by `h3`, a response and the reader of a request's body. No user holds the lock
/// for longer than a poll.
pub(crate) struct SharedStream<S>(Arc<Mutex<S>>);

impl<S> Clone for SharedStream<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Both halves share one stream. After one half is dropped, the other half still has the whole
/// stream.
impl<S: ResponseStream> BidiStream<Bytes> for SharedStream<S> {
    type SendStream = Self;
    type RecvStream = Self;

    fn split(self) -> (Self, Self) {
        (Self(Arc::clone(&self.0)), self)
    }
}

impl<S: ResponseStream> SharedStream<S> {
    pub(super) fn delivery(&self) -> Delivery {
        lock(&self.0).delivery()
    }

    /// Answers a request with 431 (RFC 6585 §5) because its fields take more than this many
    /// bytes.
    pub(super) async fn fields_too_large(&mut self, limit: u64) -> Result<(), StreamErrorIncoming> {
        // This response takes less than a hundred bytes, whatever the limit is.
        let text =
            format!("the header fields take more than {limit} bytes; send fewer or shorter ones\n");
        let header = too_large_header(text.len());
        let mut chunks = [header.into(), data_header(text.len()), text.into()];
        std::future::poll_fn(|cx| lock(&self.0).poll_write_chunks(cx, &mut chunks)).await?;
        std::future::poll_fn(|cx| lock(&self.0).poll_finish(cx)).await
    }

    /// Sends a part of a body, as a DATA frame (RFC 9114 §7.2.1).
    pub(super) async fn data(&self, body: Bytes) -> Result<(), StreamErrorIncoming> {
        let mut chunks = [data_header(body.len()), body];
        std::future::poll_fn(|cx| lock(&self.0).poll_write_chunks(cx, &mut chunks)).await
    }
}

/// Returns the HEADERS frame of a 431 response with a content type and a two-digit length. It
/// consists of literals and references to QPACK's static table (RFC 9204 §4.5).
fn too_large_header(length: usize) -> Vec<u8> {
    // Static entry 24 (:status) with a value, entry 54 (content-type), entry 4 (content-length)
    // with a value.
    let fields =
        [b"\x00\x00\x5f\x09\x03431\xf6\x54\x02", format!("{length:02}").as_bytes()].concat();
    [&[1, fields.len() as u8], &fields[..]].concat()
}

/// Returns the type and length of a DATA frame. The length takes four bytes (RFC 9000 §16),
/// because pieces of a body are much smaller than 2^30 bytes.
fn data_header(length: usize) -> Bytes {
    let [a, b, c, d] = (length as u32 | 0x8000_0000).to_be_bytes();
    Bytes::copy_from_slice(&[0, a, b, c, d])
}

/// Streams of a connection by ID, while `h3` holds them.
pub(crate) struct StreamRegistry<S>(Arc<Mutex<HashMap<StreamId, Weak<Mutex<S>>>>>);

impl<S> Clone for StreamRegistry<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: RecvStream> StreamRegistry<S> {
    /// Returns the stream with this ID, for the response to its request.
    pub(super) fn take(&self, id: StreamId) -> Option<SharedStream<S>> {
        lock(&self.0).remove(&id)?.upgrade().map(SharedStream)
    }

    fn share(&self, stream: S) -> SharedStream<S> {
        let (id, stream) = (stream.recv_id(), Arc::new(Mutex::new(stream)));
        let mut streams = lock(&self.0);
        if streams.len() == streams.capacity() {
            // Remove streams on which no request arrived.
            streams.retain(|_, stream| stream.strong_count() > 0);
        }
        streams.insert(id, Arc::downgrade(&stream));
        SharedStream(stream)
    }
}

/// A client's connection whose streams are shared.
pub(crate) struct SharedStreamConnection<C: OpenStreams<Bytes>> {
    inner: C,
    streams: StreamRegistry<C::BidiStream>,
}

impl<C: OpenStreams<Bytes>> SharedStreamConnection<C> {
    pub(super) fn new(inner: C) -> (Self, StreamRegistry<C::BidiStream>) {
        let streams = StreamRegistry(Arc::default());
        (Self { inner, streams: streams.clone() }, streams)
    }
}

impl<C: OpenStreams<Bytes, BidiStream: ResponseStream>> OpenStreams<Bytes>
    for SharedStreamConnection<C>
{
    type BidiStream = SharedStream<C::BidiStream>;
    type SendStream = C::SendStream;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let stream = ready!(self.inner.poll_open_bidi(cx))?;
        Poll::Ready(Ok(self.streams.share(stream)))
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

impl<C: Connection<Bytes, BidiStream: ResponseStream>> Connection<Bytes>
    for SharedStreamConnection<C>
{
    type RecvStream = C::RecvStream;
    type OpenStreams = SharedStreamConnection<C::OpenStreams>;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        self.inner.poll_accept_recv(cx)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let stream = ready!(self.inner.poll_accept_bidi(cx))?;
        Poll::Ready(Ok(self.streams.share(stream)))
    }

    fn opener(&self) -> Self::OpenStreams {
        SharedStreamConnection { inner: self.inner.opener(), streams: self.streams.clone() }
    }
}

impl<S: ResponseStream> RecvStream for SharedStream<S> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        lock(&self.0).poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        lock(&self.0).stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        lock(&self.0).recv_id()
    }
}

impl<S: ResponseStream> SendStream<Bytes> for SharedStream<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        lock(&self.0).poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        lock(&self.0).send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        lock(&self.0).poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        lock(&self.0).reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        lock(&self.0).send_id()
    }
}
