//! The receiving half of a stream.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::error::Code;
use h3::quic::{self, StreamErrorIncoming, StreamId};

use super::stack::{self, ReadError};
use super::{error, stream_id};

/// A receiving stream.
///
/// Data come as the stack received them, without a copy; what is not requested stays under QUIC's flow control.
///
/// The end of the stream is reported for as long as it is requested: a stream that was reset never turns into one that
/// ended well, and one stopped from here answers with an error, not with a body cut short.
///
/// Dropped before its end, the stream is stopped with a code that HTTP/3 has a meaning for: `H3_REQUEST_CANCELLED` if
/// the stream was opened from this side, so that the data are a response nobody wants any more (RFC 9114 §4.1.1), and
/// `H3_NO_ERROR` otherwise (RFC 9114 §4.1).
#[derive(Debug)]
pub struct RecvStream {
    stream: stack::RecvStream,
    state: State,
    /// The error code for the peer if the stream is dropped before its end.
    abandoned: Code,
}

#[derive(Debug)]
enum State {
    Open,
    /// All data were read.
    Finished,
    /// The peer reset the stream, with this code.
    Reset(stack::VarInt),
    /// Stopped from this side.
    Stopped,
}

impl RecvStream {
    /// The half of a stream that was opened from this side.
    pub(crate) fn opened(stream: stack::RecvStream) -> Self {
        Self { stream, state: State::Open, abandoned: Code::H3_REQUEST_CANCELLED }
    }

    /// A stream, or the half of one, that the peer opened.
    pub(crate) fn accepted(stream: stack::RecvStream) -> Self {
        Self { stream, state: State::Open, abandoned: Code::H3_NO_ERROR }
    }

    fn stop(&mut self, code: u64) {
        // The stack refuses only when nothing is left to stop.
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
