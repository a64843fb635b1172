//! The sending and receiving halves of a stream, and how a connection opens and accepts streams.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use super::native::Quic;
use super::stack;
use super::stack::{Error, Shutdown};
use crate::traits::Close;

/// Maximum number of bytes in one read.
const MAX_READ: usize = 64 << 10;

/// Reason why a stream cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The peer reset the stream.
    #[error("stream reset by peer: error {0}")]
    Reset(u64),
    /// The connection is closed.
    #[error("connection lost: {0}")]
    ConnectionLost(Close),
    /// This end stopped the stream, or quiche no longer knows the stream.
    #[error("closed stream")]
    ClosedStream,
}

/// Reason why a stream cannot be written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The peer stopped the stream.
    #[error("sending stopped by peer: error {0}")]
    Stopped(u64),
    /// The connection is closed.
    #[error("connection lost: {0}")]
    ConnectionLost(Close),
    /// The stream was finished or reset.
    #[error("closed stream")]
    ClosedStream,
    /// The server did not accept data that were sent in 0-RTT. quiche sends these data again by
    /// itself.
    #[error("0-RTT rejected")]
    ZeroRttRejected,
}

/// Error of an operation on a stream that was already finished, stopped or reset.
#[derive(Clone, Copy, Debug)]
pub struct ClosedStream;

impl From<ClosedStream> for WriteError {
    fn from(_: ClosedStream) -> Self {
        Self::ClosedStream
    }
}

impl From<ReadError> for io::Error {
    fn from(e: ReadError) -> Self {
        let kind = match e {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::ConnectionLost(_) | ReadError::ClosedStream => io::ErrorKind::NotConnected,
        };
        Self::new(kind, e)
    }
}

impl From<WriteError> for io::Error {
    fn from(e: WriteError) -> Self {
        let kind = match e {
            WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::NotConnected,
        };
        Self::new(kind, e)
    }
}

/// The sending half of a stream. Dropping it finishes the stream.
pub struct SendStream {
    connection: Connection,
    id: u64,
    /// Whether the end was written, or the stream was reset.
    closed: bool,
    /// Code with which the peer stopped the stream; `None` if it did not.
    stopped: Option<u64>,
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SendStream {
    pub(super) fn new(connection: Connection, id: u64) -> Self {
        connection.shared().state().streams.writers.insert(id, None);
        Self { connection, id, closed: false, stopped: None }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Writes to quiche, or registers the task's waker until there is room.
    fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        write: impl FnOnce(&mut Quic, u64) -> stack::Result<T>,
    ) -> Poll<Result<T, WriteError>> {
        if let Some(code) = self.stopped {
            return Poll::Ready(Err(WriteError::Stopped(code)));
        }
        if self.closed {
            return Poll::Ready(Err(WriteError::ClosedStream));
        }
        let id = self.id;
        self.connection.shared().with(|state| {
            if let Some(close) = &state.over {
                return Poll::Ready(Err(WriteError::ConnectionLost(close.clone())));
            }
            match write(&mut state.quic, id) {
                Ok(written) => {
                    state.wake_driver();
                    Poll::Ready(Ok(written))
                }
                // quiche also returns `Done` for a stream that it has forgotten.
                Err(Error::Done) if state.quic.stream_capacity(id).is_ok() => {
                    state.streams.writers.insert(id, Some(cx.waker().clone()));
                    Poll::Pending
                }
                Err(Error::StreamStopped(by)) => {
                    self.stopped = Some(by);
                    Poll::Ready(Err(WriteError::Stopped(by)))
                }
                Err(_) => Poll::Ready(Err(WriteError::ClosedStream)),
            }
        })
    }

    /// Writes some of `data`.
    pub(super) fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        self.poll(cx, |quic, id| quic.stream_send(id, data, false))
    }

    /// Writes some of `chunks` without a copy. Chunks that quiche has taken are empty afterwards.
    /// Returns `Pending` only if nothing was written.
    pub(super) fn poll_write_chunks(
        &mut self,
        cx: &Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), WriteError>> {
        self.poll(cx, |quic, id| {
            let mut any = false;
            for chunk in chunks.iter_mut().filter(|chunk| !chunk.is_empty()) {
                match quic.stream_send_zc(id, chunk.clone(), false) {
                    Ok((written, rest)) => {
                        any = true;
                        *chunk = rest.unwrap_or_else(|| chunk.slice(written..));
                        if !chunk.is_empty() {
                            break;
                        }
                    }
                    Err(Error::Done) if any => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    /// Sets the order in which quiche sends the stream: the urgency from 0 (sent first) to 127, and
    /// whether the stream shares with others of its urgency.
    pub(super) fn set_priority(&self, urgency: u8, incremental: bool) {
        let id = self.id;
        // This fails only if the stream no longer exists.
        let _ = self
            .connection
            .shared()
            .with(|state| state.quic.stream_priority(id, urgency, incremental));
    }

    /// Returns `None` when the peer has acknowledged all data and the end, or a code if the stream
    /// was stopped or reset.
    pub(super) fn poll_delivery(&self, cx: &Context<'_>) -> Poll<Result<Option<u64>, Close>> {
        self.connection.poll_delivery(cx, self.id, self.closed)
    }

    /// Ends the wait of [`Self::poll_delivery`].
    pub(super) fn end_delivery(&self) {
        self.connection.end_delivery(self.id);
    }

    /// Writes the end of the stream.
    pub(super) fn finish(&mut self) -> Result<(), ClosedStream> {
        if self.closed || self.stopped.is_some() {
            return Err(ClosedStream);
        }
        let id = self.id;
        self.closed = self.connection.shared().with(|state| {
            let finished = state.quic.stream_send(id, b"", true).is_ok();
            if finished {
                state.streams.on_finished(id);
            }
            state.wake_driver();
            finished
        });
        if self.closed { Ok(()) } else { Err(ClosedStream) }
    }

    /// Resets the stream. The peer then gets no more data of the stream. This is also possible
    /// after the end was written.
    pub(super) fn reset(&mut self, code: u64) -> Result<(), ClosedStream> {
        let id = self.id;
        self.closed = true;
        self.connection.shared().with(|state| {
            let reset = state.quic.stream_shutdown(id, Shutdown::Write, code);
            state.wake_driver();
            reset.map_err(|_| ClosedStream)
        })
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let (id, closed) = (self.id, self.closed || self.stopped.is_some());
        self.connection.shared().with(|state| {
            state.streams.writers.remove(&id);
            if closed {
                // quiche keeps a stream that the peer has stopped until the stream is queried.
                let _ = state.quic.stream_capacity(id);
            } else if state.quic.stream_send(id, b"", true).is_ok() {
                state.streams.on_finished(id);
            }
            state.wake_driver();
        });
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(self, cx, data).map_err(Into::into)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish().map_err(|closed| WriteError::from(closed).into()))
    }
}

/// The receiving half of a stream. Dropping it before its end stops the stream.
pub struct RecvStream {
    connection: Connection,
    id: u64,
    /// Result of all further reads: the end of the stream, or the reason why it cannot be read.
    ended: Option<Result<(), ReadError>>,
    /// Data that were read but did not fit into the caller's buffer.
    rest: Bytes,
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl RecvStream {
    pub(super) const fn new(connection: Connection, id: u64) -> Self {
        Self { connection, id, ended: None, rest: Bytes::new() }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Reads available data or registers the task's waker. Returns `None` at the end of the stream.
    pub(super) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        if let Some(ended) = &self.ended {
            return Poll::Ready(ended.clone().map(|()| None));
        }
        let id = self.id;
        let read = self.connection.shared().with(|state| {
            let mut chunk = BytesMut::with_capacity(state.quic.stream_readable_len(id, MAX_READ))
                .limit(MAX_READ);
            match state.quic.stream_recv_buf(id, &mut chunk) {
                Ok((_, last)) => {
                    // The read may have released flow control credit, which must be sent to the
                    // peer.
                    state.wake_driver();
                    Poll::Ready(Ok((chunk.into_inner().freeze(), last)))
                }
                Err(Error::Done) => match &state.over {
                    Some(close) => Poll::Ready(Err(ReadError::ConnectionLost(close.clone()))),
                    None => {
                        state.streams.readers.insert(id, cx.waker().clone());
                        Poll::Pending
                    }
                },
                Err(Error::StreamReset(by)) => {
                    state.wake_driver();
                    Poll::Ready(Err(ReadError::Reset(by)))
                }
                Err(_) => Poll::Ready(Err(ReadError::ClosedStream)),
            }
        });
        Poll::Ready(match ready!(read) {
            Ok((chunk, last)) => {
                if last {
                    self.ended = Some(Ok(()));
                }
                Ok(Some(chunk).filter(|chunk| !(last && chunk.is_empty())))
            }
            Err(e) => {
                self.ended = Some(Err(e.clone()));
                Err(e)
            }
        })
    }

    /// Tells the peer that this end wants no more data.
    pub(super) fn stop(&mut self, code: u64) -> Result<(), ClosedStream> {
        if self.ended.is_some() {
            return Err(ClosedStream);
        }
        self.ended = Some(Err(ReadError::ClosedStream));
        let id = self.id;
        self.connection.shared().with(|state| {
            let _ = state.quic.stream_shutdown(id, Shutdown::Read, code);
            state.wake_driver();
        });
        Ok(())
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let _ = self.stop(0);
        let waker: Option<Waker> =
            self.connection.shared().state().streams.readers.remove(&self.id);
        drop(waker);
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.poll_chunk(cx))? {
                Some(chunk) => self.rest = chunk,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest.split_to(length));
        Poll::Ready(Ok(()))
    }
}

/// Both halves of a bidirectional stream, and whether it starts in 0-RTT.
type Halves = (SendStream, RecvStream, bool);

impl Connection {
    pub(super) async fn open_stream(&self) -> Result<Halves, Close> {
        self.open().await.map(|stream| self.halves(stream))
    }

    pub(super) async fn accept_stream(&self) -> Result<Halves, Close> {
        self.accept().await.map(|stream| self.halves(stream))
    }

    fn halves(&self, (id, early): (u64, bool)) -> Halves {
        (SendStream::new(self.clone(), id), RecvStream::new(self.clone(), id), early)
    }
}
