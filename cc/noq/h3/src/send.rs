//! The sending half of a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};

use super::stack::{self, VarInt, WriteError};
use super::{error, stream_id};

/// A sending stream.
///
/// The stream holds at most one frame. If QUIC's flow control does not yet permit a part of the
/// frame, this part stays in the stream. The next poll of `poll_ready`, `poll_finish` or
/// `poll_send` writes it. Cancelling a poll loses no data.
///
/// As soon as a write detects a STOP_SENDING from the peer, the stream is reset with the peer's own
/// code (RFC 9000 §3.5).
///
/// If the stream is dropped between two frames, it ends as if it were finished, like the stack's
/// own streams. If it is dropped with part of a frame unsent, it is reset with
/// `H3_REQUEST_CANCELLED`. An end in the middle of a frame would be an error of the whole
/// connection (RFC 9114 §7.1), or would be taken for the end of the body.
pub struct SendStream<B: Buf> {
    wire: Wire,
    /// The frame that has not been completely sent; `None` between frames.
    writing: Option<WriteBuf<B>>,
}

/// A stream of the stack, and whether it is open, finished or failed.
struct Wire {
    stream: stack::SendStream,
    state: State,
}

#[derive(Debug)]
enum State {
    Open,
    Finished,
    /// The stream no longer sends, for this reason. After a reset from this side, the reason is
    /// `ClosedStream`.
    Failed(WriteError),
}

/// Error for a frame that was passed to a stream that still holds the previous frame.
///
/// This error occurs after a send was cancelled. It arrives as [`StreamErrorIncoming::Unknown`] and
/// affects only this stream, which still holds the rest of its frame. `finish` sends this rest,
/// unless `h3` has a grease frame to send before the end. Usually, reset the stream instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotReady;

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the frame before is not sent yet")
    }
}

impl std::error::Error for NotReady {}

impl Wire {
    /// Writes some of `data` and advances `data` by the written bytes. Writes nothing only if
    /// `data` is empty.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut impl Buf,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        if !data.has_remaining() {
            return Poll::Ready(Ok(0));
        }
        self.check()?;
        match ready!(Pin::new(&mut self.stream).poll_write(cx, data.chunk())) {
            Ok(bytes) => {
                data.advance(bytes);
                Poll::Ready(Ok(bytes))
            }
            Err(error) => Poll::Ready(Err(self.failed(error))),
        }
    }

    /// Writes all of `chunks`, which are empty afterwards.
    fn poll_write_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        self.check()?;
        while chunks.iter().any(|chunk| !chunk.is_empty()) {
            if let Err(error) = ready!(stack::poll_write(&mut self.stream, cx, chunks)) {
                return Poll::Ready(Err(self.failed(error)));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn failed(&mut self, error: WriteError) -> StreamErrorIncoming {
        if let WriteError::Stopped(code) = error {
            // This fails only if nothing is left to reset.
            let _ = self.stream.reset(code);
        }
        self.state = State::Failed(error.clone());
        error::write(error)
    }

    /// Returns an error if the stream no longer sends.
    fn check(&self) -> Result<(), StreamErrorIncoming> {
        match &self.state {
            State::Open => Ok(()),
            State::Finished => Err(error::write(WriteError::ClosedStream)),
            State::Failed(error) => Err(error::write(error.clone())),
        }
    }

    fn finish(&mut self) -> Result<(), StreamErrorIncoming> {
        // Polling a finish repeatedly is allowed.
        if !matches!(self.state, State::Finished) {
            self.check()?;
            self.stream.finish().map_err(|closed| error::write(closed.into()))?;
            self.state = State::Finished;
        }
        Ok(())
    }

    fn reset(&mut self, code: VarInt) {
        // A reset after the finish is also allowed. Until all data are acknowledged, it abandons
        // the data in flight.
        if matches!(self.state, State::Open | State::Finished) && self.stream.reset(code).is_ok() {
            self.state = State::Failed(WriteError::ClosedStream);
        }
    }
}

impl<B: Buf> SendStream<B> {
    pub(crate) fn new(stream: stack::SendStream) -> Self {
        Self { wire: Wire { stream, state: State::Open }, writing: None }
    }

    /// Writes `chunks` unchanged after the data sent before. A caller that frames its data itself
    /// saves a copy. With [`Bytes::from_owner`], it also learns when the stack releases the data.
    /// The chunks are empty when all data are written. Until then, poll again. If writing stops in
    /// the middle of a frame, the stream must be reset.
    pub fn poll_write_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_flush(cx))?;
        self.wire.poll_write_chunks(cx, chunks)
    }

    /// Completes with `Ok` when the peer has acknowledged all data of the stream and its end.
    /// Completes with an error as soon as the peer stops the stream or the connection ends. This
    /// function may be called at any time, and the future may outlive the stream. A stream that
    /// this side resets counts as acknowledged when the reset is acknowledged.
    pub fn acknowledged(
        &self,
    ) -> impl Future<Output = Result<(), StreamErrorIncoming>> + Send + Sync + use<B> {
        let stopped = self.wire.stream.stopped();
        async move {
            match stopped.await {
                Ok(None) => Ok(()),
                Ok(Some(code)) => Err(error::write(WriteError::Stopped(code))),
                Err(why) => Err(stack::lost(why).map_or_else(
                    || error::write(WriteError::ZeroRttRejected),
                    error::connection_on_stream,
                )),
            }
        }
    }

    /// Sends the remaining part of the frame.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if let Some(frame) = &mut self.writing {
            while frame.has_remaining() {
                ready!(self.wire.poll_write(cx, frame))?;
            }
            self.writing = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.poll_flush(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.wire.check()?;
        if self.writing.is_some() {
            // This is not a connection error, because it must not affect the other requests.
            return Err(StreamErrorIncoming::Unknown(Box::new(NotReady)));
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_flush(cx))?;
        Poll::Ready(self.wire.finish())
    }

    fn reset(&mut self, reset_code: u64) {
        self.writing = None;
        self.wire.reset(error::code(reset_code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.wire.stream.id())
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        ready!(self.poll_flush(cx))?;
        self.wire.poll_write(cx, buf)
    }
}

impl<B: Buf> Drop for SendStream<B> {
    fn drop(&mut self) {
        if self.writing.as_ref().is_some_and(Buf::has_remaining) {
            self.wire.reset(error::code(Code::H3_REQUEST_CANCELLED.value()));
        }
    }
}

impl<B: Buf> fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream")
            .field("id", &self.wire.stream.id())
            .field("state", &self.wire.state)
            .field("unsent", &self.writing.as_ref().map_or(0, Buf::remaining))
            .finish()
    }
}
