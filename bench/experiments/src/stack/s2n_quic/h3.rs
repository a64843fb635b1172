//! The transport of the `h3` crate on s2n-quic's streams, for the laboratory's bodies. The streams have polls of their own for nearly all.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use s2n_quic::application;
use s2n_quic::connection::{self, BidirectionalStreamAcceptor, Handle, ReceiveStreamAcceptor};
use s2n_quic::stream::{self, BidirectionalStream, ReceiveStream};

/// A connection for HTTP/3.
pub(super) struct Connection {
    opener: OpenStreams,
    bidi: BidirectionalStreamAcceptor,
    uni: ReceiveStreamAcceptor,
}

/// Opens streams on a connection.
#[derive(Clone)]
pub(super) struct OpenStreams(Handle);

impl Connection {
    /// Takes a connection whose handshake is done.
    pub(super) fn new(connection: s2n_quic::Connection) -> Self {
        let (handle, streams) = connection.split();
        let (bidi, uni) = streams.split();
        Self { opener: OpenStreams(handle), bidi, uni }
    }
}

impl quic::Connection<Bytes> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        Poll::Ready(accepted(ready!(self.uni.poll_accept_receive_stream(cx))).map(RecvStream))
    }

    fn poll_accept_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        Poll::Ready(accepted(ready!(self.bidi.poll_accept_bidirectional_stream(cx))).map(BidiStream::new))
    }

    fn opener(&self) -> OpenStreams {
        self.opener.clone()
    }
}

impl quic::OpenStreams<Bytes> for Connection {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::close(&mut self.opener, code, reason);
    }
}

impl quic::OpenStreams<Bytes> for OpenStreams {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        let opened = ready!(self.0.poll_open_bidirectional_stream(cx));
        Poll::Ready(opened.map(BidiStream::new).map_err(on_connection))
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        let opened = ready!(self.0.poll_open_send_stream(cx));
        Poll::Ready(opened.map(SendStream::new).map_err(on_connection))
    }

    /// s2n-quic sends no reason with a code.
    fn close(&mut self, code: Code, _: &[u8]) {
        self.0.close(self::code(code.value()));
    }
}

/// A receiving stream.
pub(super) struct RecvStream(ReceiveStream);

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.0.poll_receive(cx).map_err(on_stream)
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that is over needs no stop.
        let _ = self.0.stop_sending(code(error_code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.0.id())
    }
}

/// A sending stream. Holds one frame at most, and sends it when it is polled next, whatever for.
pub(super) struct SendStream {
    stream: stream::SendStream,
    /// The frame of which something is left to hand over.
    frame: Option<WriteBuf<Bytes>>,
    /// Its piece that is being handed over.
    piece: Bytes,
}

impl SendStream {
    fn new(stream: stream::SendStream) -> Self {
        Self { stream, frame: None, piece: Bytes::new() }
    }
}

impl quic::SendStream<Bytes> for SendStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        loop {
            if !self.piece.is_empty() {
                ready!(self.stream.poll_send(&mut self.piece, cx)).map_err(on_stream)?;
            }
            match &mut self.frame {
                Some(frame) if frame.has_remaining() => self.piece = frame.copy_to_bytes(frame.chunk().len()),
                _ => break,
            }
        }
        self.frame = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.frame.is_some() || !self.piece.is_empty() {
            return Err(StreamErrorIncoming::Unknown("the frame before is not sent yet".into()));
        }
        self.frame = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        Poll::Ready(self.stream.finish().map_err(on_stream))
    }

    fn reset(&mut self, reset_code: u64) {
        // A stream that is over needs no reset.
        let _ = self.stream.reset(code(reset_code));
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

/// A stream with both halves.
pub(super) struct BidiStream {
    send: SendStream,
    recv: RecvStream,
}

impl BidiStream {
    fn new(stream: BidirectionalStream) -> Self {
        let (recv, send) = stream.split();
        Self { send: SendStream::new(send), recv: RecvStream(recv) }
    }
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream, RecvStream) {
        (self.send, self.recv)
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl quic::SendStream<Bytes> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

/// The peer's next stream; none comes any more once the connection is closed without an error.
fn accepted<T>(stream: connection::Result<Option<T>>) -> Result<T, ConnectionErrorIncoming> {
    let closed = || ConnectionErrorIncoming::ApplicationClose { error_code: Code::H3_NO_ERROR.value() };
    stream.map_err(ended)?.ok_or_else(closed)
}

/// Why a connection ended.
fn ended(error: connection::Error) -> ConnectionErrorIncoming {
    match error {
        connection::Error::Application { error, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: *error }
        }
        connection::Error::IdleTimerExpired { .. } => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn on_connection(error: connection::Error) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: ended(error) }
}

fn on_stream(error: stream::Error) -> StreamErrorIncoming {
    match error {
        stream::Error::StreamReset { error, .. } => StreamErrorIncoming::StreamTerminated { error_code: *error },
        stream::Error::ConnectionError { error, .. } => on_connection(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

/// A code as QUIC carries it. Only a mistake of the caller makes one of more than 62 bits; it travels as 0.
fn code(code: u64) -> application::Error {
    application::Error::new(code).unwrap_or(application::Error::UNKNOWN)
}

/// The stack's stream number as h3's.
fn id(id: u64) -> StreamId {
    StreamId::try_from(id).expect("a stream number of 62 bits")
}
