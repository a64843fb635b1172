//! Transport for the `h3` crate. It uses the sources of `h3-noq` (`cc/noq/h3`) with the types of
//! `stream.rs` and `connection.rs`.

#[path = "../../../../cc/noq/h3/src/bidi.rs"]
mod bidi;
#[path = "../../../../cc/noq/h3/src/connection.rs"]
#[allow(dead_code)] // `stack`, which the published crates expose to their users.
mod connection;
#[path = "../../../../cc/noq/h3/src/recv.rs"]
mod recv;
#[path = "../../../../cc/noq/h3/src/send.rs"]
mod send;
#[path = "../../../../cc/noq/h3/src/waiting.rs"]
mod waiting;

pub use self::bidi::BidiStream;
pub use self::connection::{Connection, OpenStreams};
pub use self::recv::RecvStream;
pub use self::send::{NotReady, SendStream};

/// Returns the stream number in h3's type.
fn stream_id(id: u64) -> h3::quic::StreamId {
    h3::quic::StreamId::try_from(id).expect("a stream number of 62 bits")
}

/// This stack's types, under the names that the shared modules use.
mod stack {
    use std::task::{Context, Poll, ready};

    use bytes::Bytes;

    /// An error code in the form that quiche takes.
    pub(crate) type VarInt = u64;

    pub(crate) use super::super::connection::Connection;
    pub(crate) use super::super::stream::{ReadError, RecvStream, SendStream, WriteError};
    pub(crate) use crate::traits::Close as ConnectionError;

    pub(crate) fn poll_read(
        stream: &mut RecvStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        stream.poll_chunk(cx)
    }

    /// Writes some of `chunks` without a copy. Chunks that quiche has taken are empty afterwards.
    pub(crate) fn poll_write(
        stream: &mut SendStream,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), WriteError>> {
        for chunk in chunks.iter_mut().filter(|chunk| !chunk.is_empty()) {
            ready!(stream.poll_write_chunk(cx, chunk))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn lost(close: ConnectionError) -> Option<ConnectionError> {
        Some(close)
    }
}

/// Converts the stack's errors to those of [`h3::quic`]. Keeps codes that have a meaning in HTTP/3.
mod error {
    use std::sync::Arc;

    use h3::error::Code;
    use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};

    use super::stack::{ConnectionError, ReadError, WriteError};
    use crate::traits::{CloseKind, Closer};

    pub(crate) fn connection(close: ConnectionError) -> ConnectionErrorIncoming {
        match (close.by, close.kind, close.code) {
            (Closer::Peer, CloseKind::Application, Some(error_code)) => {
                ConnectionErrorIncoming::ApplicationClose { error_code }
            }
            (_, CloseKind::Timeout, _) => ConnectionErrorIncoming::Timeout,
            // The code of a transport close comes from another space (RFC 9000 §20.1) and must
            // not be taken for an HTTP/3 code.
            _ => ConnectionErrorIncoming::Undefined(Arc::new(close)),
        }
    }

    pub(crate) fn connection_on_stream(close: ConnectionError) -> StreamErrorIncoming {
        StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection(close) }
    }

    pub(crate) fn read(error: ReadError) -> StreamErrorIncoming {
        match error {
            ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code },
            ReadError::ConnectionLost(close) => connection_on_stream(close),
            ReadError::ClosedStream => StreamErrorIncoming::Unknown(Box::new(error)),
        }
    }

    pub(crate) fn write(error: WriteError) -> StreamErrorIncoming {
        match error {
            WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code },
            WriteError::ConnectionLost(close) => connection_on_stream(close),
            WriteError::ClosedStream | WriteError::ZeroRttRejected => {
                StreamErrorIncoming::Unknown(Box::new(error))
            }
        }
    }

    /// Returns a code as a QUIC integer of 62 bits, or `H3_INTERNAL_ERROR` if the code is larger.
    pub(crate) fn code(code: u64) -> u64 {
        if code < 1 << 62 { code } else { Code::H3_INTERNAL_ERROR.value() }
    }
}
