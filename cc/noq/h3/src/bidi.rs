//! A stream with both halves.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};

use super::{RecvStream, SendStream, stack};

/// A bidirectional stream. `split` returns its halves.
#[derive(Debug)]
pub struct BidiStream<B: Buf> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    /// Wraps a stream that this side opened.
    pub(crate) fn opened((send, recv): (stack::SendStream, stack::RecvStream)) -> Self {
        Self { send: SendStream::new(send), recv: RecvStream::opened(recv) }
    }

    /// Wraps a stream that the peer opened.
    pub(crate) fn accepted((send, recv): (stack::SendStream, stack::RecvStream)) -> Self {
        Self { send: SendStream::new(send), recv: RecvStream::accepted(recv) }
    }
}

impl<B: Buf> BidiStream<B> {
    /// Completes under the same conditions as [`SendStream::acknowledged`].
    pub fn acknowledged(
        &self,
    ) -> impl Future<Output = Result<(), StreamErrorIncoming>> + Send + Sync + use<B> {
        self.send.acknowledged()
    }

    /// Writes like [`SendStream::poll_write_chunks`].
    pub fn poll_write_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_write_chunks(cx, chunks)
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        (self.send, self.recv)
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
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

impl<B: Buf> quic::SendStreamUnframed<B> for BidiStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.send.poll_send(cx, buf)
    }
}
