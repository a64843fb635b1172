//! A connection as HTTP/3 uses it, for a stack with quinn's interface: streams with priorities
//! (RFC 9218) that are read in stream order or in arrival order (`unordered.rs`).
//!
//! This file is compiled once per such stack, like `endpoint.rs`.

#[path = "unordered.rs"]
mod unordered;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fathom_http3::priority::Priority;
use fathom_http3::transport::{self, Accepted, ConnectionError, DatagramError, StreamError};
use futures_util::stream::{self, Stream};

use self::unordered::RecvStream;
use super::{poll_write_chunks, stack};
use crate::traits::ReadOrder;

/// Results of a repeated wait.
type Waits<T> = Pin<Box<dyn Stream<Item = Result<T, stack::ConnectionError>> + Send + Sync>>;
/// Result of one wait.
type Wait<T> = Pin<Box<dyn Future<Output = Result<T, stack::ConnectionError>> + Send + Sync>>;
/// Code with which the peer stopped a stream, or `None` if all data are acknowledged.
type Stopped =
    Pin<Box<dyn Future<Output = Result<Option<stack::VarInt>, stack::StoppedError>> + Send + Sync>>;
type Halves = (stack::SendStream, stack::RecvStream);

/// A connection as HTTP/3 uses it. Clones refer to the same connection.
#[derive(Clone, Debug)]
pub struct Connection {
    connection: stack::Connection,
    order: ReadOrder,
}

impl Connection {
    pub(crate) const fn new(connection: stack::Connection, order: ReadOrder) -> Self {
        Self { connection, order }
    }
}

fn connection_error(error: stack::ConnectionError) -> ConnectionError {
    match error {
        stack::ConnectionError::ApplicationClosed(close) => ConnectionError::Application {
            code: close.error_code.into_inner(),
            reason: close.reason,
        },
        stack::ConnectionError::TimedOut => ConnectionError::TimedOut,
        stack::ConnectionError::LocallyClosed => ConnectionError::Local,
        error => ConnectionError::Transport(Arc::new(error)),
    }
}

/// Returns an error code in the stack's type.
fn code(code: u64) -> stack::VarInt {
    stack::VarInt::from_u64(code).unwrap_or(stack::VarInt::MAX)
}

impl transport::Connection for Connection {
    type SendStream = SendStream;
    type ReceiveStream = ReceiveStream;
    type Incoming = Incoming;
    type Opener = Opener;

    fn incoming(&self) -> Incoming {
        let connection = || self.connection.clone();
        Incoming {
            bidirectional: Box::pin(stream::unfold(connection(), |connection| async {
                Some((connection.accept_bi().await, connection))
            })),
            unidirectional: Box::pin(stream::unfold(connection(), |connection| async {
                Some((connection.accept_uni().await, connection))
            })),
            datagrams: None,
            connection: self.clone(),
        }
    }

    fn opener(&self) -> Opener {
        Opener { connection: self.clone(), bidirectional: None, unidirectional: None }
    }

    fn close(&self, error: u64, reason: &[u8]) {
        self.connection.close(code(error), reason);
    }

    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        use stack::SendDatagramError;
        self.connection.send_datagram(data).map_err(|error| match error {
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled => {
                DatagramError::Unsupported
            }
            SendDatagramError::TooLarge => DatagramError::TooLarge,
            SendDatagramError::ConnectionLost(_) => DatagramError::Closed,
        })
    }

    fn max_datagram_size(&self) -> Option<usize> {
        self.connection.max_datagram_size()
    }
}

/// Receiver of the streams and datagrams of a connection.
pub struct Incoming {
    connection: Connection,
    bidirectional: Waits<Halves>,
    unidirectional: Waits<stack::RecvStream>,
    /// `None` until the first wait, because most connections have no datagrams.
    datagrams: Option<Waits<Bytes>>,
}

/// Polls a stream that never ends.
fn poll_next<T>(waits: &mut Waits<T>, cx: &mut Context<'_>) -> Poll<Result<T, ConnectionError>> {
    match ready!(waits.as_mut().poll_next(cx)) {
        Some(result) => Poll::Ready(result.map_err(connection_error)),
        None => Poll::Pending,
    }
}

impl transport::Incoming<Connection> for Incoming {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Connection>> {
        let order = self.connection.order;
        poll_next(&mut self.bidirectional, cx).map_ok(|both| halves(both, order))
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReceiveStream, ConnectionError>> {
        let order = self.connection.order;
        poll_next(&mut self.unidirectional, cx).map_ok(|stream| ReceiveStream::new(stream, order))
    }

    fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        let datagrams = self.datagrams.get_or_insert_with(|| {
            let connection = self.connection.connection.clone();
            Box::pin(stream::unfold(connection, |connection| async {
                Some((connection.read_datagram().await, connection))
            }))
        });
        poll_next(datagrams, cx)
    }
}

/// Opener of streams.
pub struct Opener {
    connection: Connection,
    /// Waits that began before, because the peer's limit permitted no stream.
    bidirectional: Option<Wait<Halves>>,
    unidirectional: Option<Wait<stack::SendStream>>,
}

/// Polls a wait that began before, or begins one. Only a wait that is pending is boxed.
fn poll_open<T>(
    waiting: &mut Option<Wait<T>>,
    cx: &mut Context<'_>,
    begin: impl Future<Output = Result<T, stack::ConnectionError>>,
    later: impl FnOnce() -> Wait<T>,
) -> Poll<Result<T, ConnectionError>> {
    if waiting.is_none()
        && let Poll::Ready(opened) = pin!(begin).poll(cx)
    {
        return Poll::Ready(opened.map_err(connection_error));
    }
    let opened = ready!(waiting.get_or_insert_with(later).as_mut().poll(cx));
    *waiting = None;
    Poll::Ready(opened.map_err(connection_error))
}

impl transport::Opener<Connection> for Opener {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Connection>> {
        let Connection { connection, order } = &self.connection;
        let opened = poll_open(&mut self.bidirectional, cx, connection.open_bi(), || {
            let connection = connection.clone();
            Box::pin(async move { connection.open_bi().await })
        });
        opened.map_ok(|both| halves(both, *order))
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, ConnectionError>> {
        let connection = &self.connection.connection;
        let opened = poll_open(&mut self.unidirectional, cx, connection.open_uni(), || {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        });
        opened.map_ok(|stream| {
            // This fails only on a closed stream.
            let _ = stream.set_priority(UNIDIRECTIONAL);
            SendStream::new(stream)
        })
    }
}

fn halves((send, receive): Halves, order: ReadOrder) -> (SendStream, ReceiveStream) {
    (SendStream::new(send), ReceiveStream::new(receive, order))
}

/// The sending half of a stream.
pub struct SendStream {
    stream: stack::SendStream,
    stopped: Option<Stopped>,
}

impl SendStream {
    const fn new(stream: stack::SendStream) -> Self {
        Self { stream, stopped: None }
    }
}

impl transport::SendStream for SendStream {
    fn id(&self) -> u64 {
        self.stream.id().into()
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamError>> {
        Poll::Ready(match ready!(poll_write_chunks(&mut self.stream, cx, chunks)) {
            Ok(()) => Ok(()),
            Err(stack::WriteError::Stopped(code)) => Err(StreamError::Peer(code.into_inner())),
            Err(stack::WriteError::ConnectionLost(error)) => Err(connection_error(error).into()),
            Err(stack::WriteError::ClosedStream) => Err(StreamError::Closed),
            Err(stack::WriteError::ZeroRttRejected) => Err(StreamError::ZeroRttRejected),
        })
    }

    fn finish(&mut self) -> Result<(), StreamError> {
        self.stream.finish().map_err(|_| StreamError::Closed)
    }

    fn reset(&mut self, error: u64) {
        // This fails only if nothing is left to reset.
        let _ = self.stream.reset(code(error));
    }

    fn set_priority(&mut self, priority: Priority) {
        // This fails only on a closed stream, which sends nothing more.
        let _ = self.stream.set_priority(level(self.stream.id().into(), priority));
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionError>> {
        let stream = &self.stream;
        let stopped = self.stopped.get_or_insert_with(|| Box::pin(stream.stopped()));
        Poll::Ready(match ready!(stopped.as_mut().poll(cx)) {
            Ok(code) => Ok(code.map(stack::VarInt::into_inner)),
            Err(stack::StoppedError::ConnectionLost(error)) => Err(connection_error(error)),
            Err(error) => Err(ConnectionError::Transport(Arc::new(error))),
        })
    }
}

/// Number of priority levels of one urgency.
const STREAMS: i32 = 1 << 24;

/// Priority level of unidirectional streams, above those of all responses. HTTP/3 uses them only
/// for control and for QPACK.
const UNIDIRECTIONAL: i32 = 8 * STREAMS;

/// Returns the priority level of a request stream. The stack sends the highest level first and
/// shares between equal levels. Within one urgency, non-incremental responses come first, in stream
/// order. Incremental responses share the remaining bandwidth (RFC 9218 §10).
fn level(stream: u64, priority: Priority) -> i32 {
    let order = i32::try_from(stream / 4).unwrap_or(i32::MAX).min(STREAMS - 2);
    i32::from(7 - priority.urgency.min(7)) * STREAMS
        + if priority.incremental { 0 } else { STREAMS - 1 - order }
}

/// The receiving half of a stream.
pub struct ReceiveStream(RecvStream);

impl ReceiveStream {
    fn new(stream: stack::RecvStream, order: ReadOrder) -> Self {
        Self(RecvStream::new(stream, order))
    }
}

impl transport::ReceiveStream for ReceiveStream {
    fn id(&self) -> u64 {
        self.0.id().into()
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        Poll::Ready(match ready!(unordered::poll_read(&mut self.0, cx)) {
            Ok(chunk) => Ok(chunk),
            Err(stack::ReadError::Reset(code)) => Err(StreamError::Peer(code.into_inner())),
            Err(stack::ReadError::ConnectionLost(error)) => Err(connection_error(error).into()),
            Err(stack::ReadError::ZeroRttRejected) => Err(StreamError::ZeroRttRejected),
            Err(_) => Err(StreamError::Closed),
        })
    }

    fn stop(&mut self, error: u64) {
        // This fails only after the end.
        let _ = self.0.stop(code(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_served_by_urgency_and_then_in_order_of_ids() {
        let level = |stream, urgency, incremental| level(stream, Priority { urgency, incremental });
        let order = [
            UNIDIRECTIONAL,
            level(0, 0, false),
            level(400, 0, false),
            level(404, 0, false),
            level(0, 0, true),
            level(8, 1, false),
            level(u64::MAX >> 2, 1, false),
            level(4, 1, true),
            level(0, 7, false),
            level(0, 7, true),
        ];
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
        assert_eq!(level(4, 3, true), level(400, 3, true), "incremental ones share");
    }
}
