//! The receiving half of a stream.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::error::Code;
use h3::quic::{self, StreamErrorIncoming, StreamId};

use super::stack::{self, ReadError};
use super::{error, stream_id};

/// A receiving stream.
///
/// Returns data as the stack received them, without a copy. Unread data remain subject to QUIC's
/// flow control.
///
/// Repeated reads report the same end of the stream. A stream that was reset never appears to be
/// complete. A stream that this side stopped returns an error rather than a truncated body.
///
/// If the stream is dropped before its end, it is stopped with an HTTP/3 error code. The code is
/// `H3_REQUEST_CANCELLED` if this side opened the stream, because the data are then a response that
/// is no longer wanted (RFC 9114 §4.1.1). Otherwise it is `H3_NO_ERROR` (RFC 9114 §4.1).
#[derive(Debug)]
pub struct RecvStream {
    stream: stack::RecvStream,
    state: State,
    /// Error code that is sent to the peer if the stream is dropped before its end.
    abandoned: Code,
}

#[derive(Debug)]
enum State {
    Open,
    /// All data have been read.
    Finished,
    /// The peer reset the stream, with this code.
    Reset(stack::VarInt),
    /// This side stopped the stream.
    Stopped,
}

impl RecvStream {
    /// Wraps the receiving half of a stream that this side opened.
    pub(crate) fn opened(stream: stack::RecvStream) -> Self {
        Self { stream, state: State::Open, abandoned: Code::H3_REQUEST_CANCELLED }
    }

    /// Wraps a stream that the peer opened, or its receiving half.
    pub(crate) fn accepted(stream: stack::RecvStream) -> Self {
        Self { stream, state: State::Open, abandoned: Code::H3_NO_ERROR }
    }

    fn stop(&mut self, code: u64) {
        // The stack refuses only if there is nothing left to stop.
        if matches!(self.state, State::Open) && self.stream.stop(error::code(code)).is_ok() {
            self.state = State::Stopped;
        }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let read = match self.state {
            State::Open => ready!(stack::poll_read(&mut self.stream, cx)),
            State::Finished => Ok(None),
            State::Reset(code) => Err(ReadError::Reset(code)),
            State::Stopped => Err(ReadError::ClosedStream),
        };
        match read {
            Ok(None) => self.state = State::Finished,
            Err(ReadError::Reset(code)) => self.state = State::Reset(code),
            Ok(Some(_)) | Err(_) => {}
        }
        Poll::Ready(read.map_err(error::read))
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.stop(error_code);
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.stream.id())
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.stop(self.abandoned.value());
    }
}
