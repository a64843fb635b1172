//! noq under the names that the other modules use: they are written once, and `cc/quinn/h3` builds them on quinn.

use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use noq::StoppedError;
pub(crate) use noq::{
    Connection, ConnectionError, ReadError, RecvStream, SendStream, StreamId, VarInt, WriteError,
};

/// Reads what is there, or leaves the task's waker with noq.
///
/// noq keeps the state of a read in the stream, not in the future, so a future per poll loses nothing and needs no box.
pub(crate) fn poll_read(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, ReadError>> {
    pin!(stream.read_chunk(usize::MAX)).poll(cx)
}

/// Hands over some of `chunks` without a copy of those that noq keeps whole (its own bound is 1,452 bytes); what it took is empty then.
/// As with reads, no state is lost with the future.
pub(crate) fn poll_write(
    stream: &mut SendStream,
    cx: &mut Context<'_>,
    chunks: &mut [Bytes],
) -> Poll<Result<(), WriteError>> {
    let mut left = chunks;
    ready!(pin!(stream.write_many_chunks(&mut left)).poll(cx))?;
    Poll::Ready(Ok(()))
}

/// Why it can no longer be known whether a stream's data arrived.
pub(crate) fn lost(error: StoppedError) -> Option<ConnectionError> {
    match error {
        StoppedError::ConnectionLost(error) => Some(error),
        StoppedError::ZeroRttRejected => None,
    }
}
