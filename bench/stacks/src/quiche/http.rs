//! A connection as HTTP/3 uses it.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fathom_http3::priority::Priority;
use fathom_http3::transport::{self, Accepted, ConnectionError, DatagramError, StreamError};

use super::connection::{Connection, Dir};
use super::stream::{self, ReadError, RecvStream, WriteError};
use crate::traits::{self, Close, CloseKind, Closer};

fn connection_error(close: Close) -> ConnectionError {
    match (close.by, close.kind, close.code) {
        (Closer::Peer, CloseKind::Application, Some(code)) => {
            ConnectionError::Application { code, reason: close.reason }
        }
        (Closer::Us, CloseKind::Application, _) => ConnectionError::Local,
        (_, CloseKind::Timeout, _) => ConnectionError::TimedOut,
        // The code of a transport close comes from another space (RFC 9000 §20.1) and must not be
        // taken for an HTTP/3 code.
        _ => ConnectionError::Transport(Arc::new(close)),
    }
}

/// Returns a code as a QUIC integer.
fn code(code: u64) -> u64 {
    code.min((1 << 62) - 1)
}

impl transport::Connection for Connection {
    type SendStream = SendStream;
    type ReceiveStream = RecvStream;
    type Incoming = Incoming;
    type Opener = Opener;

    fn incoming(&self) -> Incoming {
        Incoming(self.clone())
    }

    fn opener(&self) -> Opener {
        let number = self.shared().state().streams.openers.number();
        Opener { connection: self.clone(), number }
    }

    fn close(&self, error: u64, reason: &[u8]) {
        Self::close(self, code(error), reason);
    }

    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        match Self::send_datagram(self, &data) {
            Ok(()) | Err(traits::DatagramError::QueueFull) => Ok(()),
            Err(traits::DatagramError::TooLarge) => Err(DatagramError::TooLarge),
            Err(traits::DatagramError::Closed(_)) => Err(DatagramError::Closed),
            Err(traits::DatagramError::Unsupported) => Err(DatagramError::Unsupported),
        }
    }

    fn max_datagram_size(&self) -> Option<usize> {
        self.shared().state().quic.dgram_max_writable_len()
    }
}

/// Receiver of the streams and datagrams of a connection.
pub struct Incoming(Connection);

impl transport::Incoming<Connection> for Incoming {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Connection>> {
        let accepted = ready!(self.0.poll_accept(cx, Dir::Bi));
        Poll::Ready(accepted.map(|id| halves(&self.0, id)).map_err(connection_error))
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionError>> {
        let accepted = ready!(self.0.poll_accept(cx, Dir::Uni));
        let stream = accepted.map(|id| RecvStream::new(self.0.clone(), id));
        Poll::Ready(stream.map_err(connection_error))
    }

    fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        self.0.poll_datagram(cx).map_err(connection_error)
    }
}

/// Opener of streams.
pub struct Opener {
    connection: Connection,
    /// Number of this opener among those of the connection.
    number: u64,
}

impl transport::Opener<Connection> for Opener {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Connection>> {
        let opened = ready!(self.connection.poll_open(cx, self.number, Dir::Bi));
        Poll::Ready(opened.map(|id| halves(&self.connection, id)).map_err(connection_error))
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, ConnectionError>> {
        let opened = ready!(self.connection.poll_open(cx, self.number, Dir::Uni));
        let stream = opened.map(|id| {
            let stream = SendStream::new(&self.connection, id);
            // Before all responses. HTTP/3 uses these streams only for control and for QPACK.
            stream.stream.set_priority(0, false);
            stream
        });
        Poll::Ready(stream.map_err(connection_error))
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.connection.shared().state().streams.openers.remove(self.number);
    }
}

fn halves(connection: &Connection, id: u64) -> (SendStream, RecvStream) {
    (SendStream::new(connection, id), RecvStream::new(connection.clone(), id))
}

/// The sending half of a stream.
pub struct SendStream {
    stream: stream::SendStream,
    /// Whether a task waits until the data are acknowledged.
    waits: bool,
}

impl SendStream {
    fn new(connection: &Connection, id: u64) -> Self {
        Self { stream: stream::SendStream::new(connection.clone(), id), waits: false }
    }
}

impl transport::SendStream for SendStream {
    fn id(&self) -> u64 {
        self.stream.id()
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamError>> {
        Poll::Ready(match ready!(self.stream.poll_write_chunks(cx, chunks)) {
            Ok(()) => Ok(()),
            Err(WriteError::Stopped(code)) => Err(StreamError::Peer(code)),
            Err(WriteError::ConnectionLost(close)) => Err(connection_error(close).into()),
            Err(WriteError::ClosedStream) => Err(StreamError::Closed),
            Err(WriteError::ZeroRttRejected) => Err(StreamError::ZeroRttRejected),
        })
    }

    fn finish(&mut self) -> Result<(), StreamError> {
        self.stream.finish().map_err(|_| StreamError::Closed)
    }

    fn reset(&mut self, error: u64) {
        // This fails only if nothing is left to reset.
        let _ = self.stream.reset(code(error));
    }

    /// Sets quiche's urgency, which is at least 1, because the unidirectional streams have 0. A
    /// stream without a priority has 127.
    fn set_priority(&mut self, priority: Priority) {
        self.stream.set_priority(priority.urgency.min(7) + 1, priority.incremental);
    }

    /// The code of a stopped stream is always 0, because the derived quiche does not report the
    /// code with the state of a delivery.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionError>> {
        let delivered = self.stream.poll_delivery(cx);
        self.waits = delivered.is_pending();
        delivered.map_err(connection_error)
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if self.waits {
            self.stream.end_delivery();
        }
    }
}

impl transport::ReceiveStream for RecvStream {
    fn id(&self) -> u64 {
        Self::id(self)
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        Poll::Ready(match ready!(Self::poll_chunk(self, cx)) {
            Ok(chunk) => Ok(chunk),
            Err(ReadError::Reset(code)) => Err(StreamError::Peer(code)),
            Err(ReadError::ConnectionLost(close)) => Err(connection_error(close).into()),
            Err(ReadError::ClosedStream) => Err(StreamError::Closed),
        })
    }

    fn stop(&mut self, error: u64) {
        // This fails only after the end.
        let _ = Self::stop(self, code(error));
    }
}
