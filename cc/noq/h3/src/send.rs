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
/// Holds one frame at most: what QUIC's flow control does not let through yet stays in it, and is written by whatever
/// is polled next, be it `poll_ready`, `poll_finish` or `poll_send`. No poll loses data when it is cancelled.
///
/// A STOP_SENDING of the peer is answered as soon as a write sees it, with the peer's own code (RFC 9000 §3.5).
///
/// Dropped between two frames, the stream ends as if finished, as the stack's own streams do. Dropped with part of a frame
/// unsent, it is reset with `H3_REQUEST_CANCELLED`: an end in the middle of a frame would be an error of the whole
/// connection (RFC 9114 §7.1), or pass for the end of the body.
pub struct SendStream<B: Buf> {
    wire: Wire,
    /// The frame of which something is left to send.
    writing: Option<WriteBuf<B>>,
}

/// The stack's stream, and what became of it.
struct Wire {
    stream: stack::SendStream,
    state: State,
}

#[derive(Debug)]
enum State {
    Open,
    Finished,
    /// Nothing goes out any more, for this reason. A reset from this side is a `ClosedStream`.
    Failed(WriteError),
}

/// A frame was given to a stream that still holds the one before.
///
/// It comes of a send that was cancelled, and arrives as [`StreamErrorIncoming::Unknown`]: an error of this stream
/// only. The stream still holds the rest of its frame. `finish` sends it, if h3 has no grease frame to put before the
/// end; as a rule, reset the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotReady;

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the frame before is not sent yet")
    }
}

impl std::error::Error for NotReady {}

impl Wire {
    /// Writes some of `data`, and advances it by as much. Only empty data write nothing.
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

    /// Writes all of `chunks`, which are empty then.
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
            // Fails only if there is nothing left to reset.
            let _ = self.stream.reset(code);
        }
        self.state = State::Failed(error.clone());
        error::write(error)
    }

    /// The reason why nothing goes out any more, if there is one.
    fn check(&self) -> Result<(), StreamErrorIncoming> {
        match &self.state {
            State::Open => Ok(()),
            State::Finished => Err(error::write(WriteError::ClosedStream)),
            State::Failed(error) => Err(error::write(error.clone())),
        }
    }

    fn finish(&mut self) -> Result<(), StreamErrorIncoming> {
        // A finish that was polled again is no mistake.
        if !matches!(self.state, State::Finished) {
            self.check()?;
            self.stream.finish().map_err(|closed| error::write(closed.into()))?;
            self.state = State::Finished;
        }
        Ok(())
    }

    fn reset(&mut self, code: VarInt) {
        // Also after the finish: until everything is acknowledged, a reset gives up what is on its way.
        if matches!(self.state, State::Open | State::Finished) && self.stream.reset(code).is_ok() {
            self.state = State::Failed(WriteError::ClosedStream);
        }
    }
}

impl<B: Buf> SendStream<B> {
    pub(crate) fn new(stream: stack::SendStream) -> Self {
        Self { wire: Wire { stream, state: State::Open }, writing: None }
    }

    /// Writes `chunks` behind what was sent before, as they are: a caller that frames by itself spares a copy, and with
    /// [`Bytes::from_owner`] learns when the stack lets go of them. They are empty when all is written. To be polled again until then: cut
    /// short in the middle of a frame, the stream has to be reset.
    pub fn poll_write_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_flush(cx))?;
        self.wire.poll_write_chunks(cx, chunks)
    }

    /// Ends well when the peer has acknowledged all data of the stream and its end; with an error as soon as the peer has stopped the stream
    /// or the connection is over. It may be requested at any time, and outlives the stream. A stream that is reset from here is acknowledged
    /// when its reset is.
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

    /// Sends what is left of the frame.
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
            // Not a connection error: the other requests have no part in it.
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
