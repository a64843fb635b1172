//! quinn under the names that the shared modules use.

use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quinn::StoppedError;
pub(crate) use quinn::{
    Connection, ConnectionError, ReadError, RecvStream, SendStream, StreamId, VarInt, WriteError,
};

/// Reads available data, or registers the task's waker with quinn.
///
/// quinn keeps the state of a read in the stream rather than in the future. A new future for each
/// poll therefore loses no data and needs no box.
pub(crate) fn poll_read(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, ReadError>> {
    let chunk = ready!(pin!(stream.read_chunk(usize::MAX, true)).poll(cx));
    Poll::Ready(chunk.map(|chunk| chunk.map(|chunk| chunk.bytes)))
}

/// Passes on some of `chunks` without a copy. Chunks that quinn has taken are empty afterwards. As
/// with reads, dropping the future loses no state.
pub(crate) fn poll_write(
    stream: &mut SendStream,
    cx: &mut Context<'_>,
    chunks: &mut [Bytes],
) -> Poll<Result<(), WriteError>> {
    ready!(pin!(stream.write_chunks(chunks)).poll(cx))?;
    Poll::Ready(Ok(()))
}

/// Returns the connection's error if the connection ended before it was known whether a stream's
/// data had arrived.
pub(crate) fn lost(error: StoppedError) -> Option<ConnectionError> {
    match error {
        StoppedError::ConnectionLost(error) => Some(error),
        StoppedError::ZeroRttRejected => None,
    }
}
