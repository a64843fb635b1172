//! noq under the names that the other modules use. The module `quinn` compiles the same sources with
//! quinn.

use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use noq::StoppedError;
pub(crate) use noq::{
    Connection, ConnectionError, ReadError, RecvStream, SendStream, StreamId, VarInt, WriteError,
};

/// Reads available data, or registers the task's waker with noq.
///
/// noq keeps the state of a read in the stream rather than in the future. A new future for each
/// poll therefore loses no data and needs no box.
pub(crate) fn poll_read(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, ReadError>> {
    pin!(stream.read_chunk(usize::MAX)).poll(cx)
}

/// Passes on some of `chunks`. noq copies only chunks of up to 1,452 bytes. Chunks that noq has
/// taken are empty afterwards. As with reads, dropping the future loses no state.
pub(crate) fn poll_write(
    stream: &mut SendStream,
    cx: &mut Context<'_>,
    chunks: &mut [Bytes],
) -> Poll<Result<(), WriteError>> {
    let mut left = chunks;
    ready!(pin!(stream.write_many_chunks(&mut left)).poll(cx))?;
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
