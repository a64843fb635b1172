//! Services that HTTP/3 needs from a QUIC stack.
//!
//! A stack implements [`Connection`] for a handle, [`Incoming`] and [`Opener`] for the two sides
//! that wait for streams, and [`SendStream`] and [`ReceiveStream`] for the halves of streams. All
//! methods are polls or return at once. None of the traits needs a lock, a boxed future or a
//! dynamic call for an operation.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::priority::Priority;

/// Reason why a connection is over.
#[derive(Clone, Debug)]
pub enum ConnectionError {
    /// The peer closed the connection with an application code, which is one of HTTP/3.
    Application {
        /// Code (RFC 9114 §8.1).
        code: u64,
        /// Reason phrase.
        reason: Bytes,
    },
    /// The connection was idle for too long, or got no answer.
    TimedOut,
    /// This end closed the connection.
    Local,
    /// An error of the transport, at either end. Its codes are not those of HTTP/3
    /// (RFC 9000 §20.1).
    Transport(Arc<dyn Error + Send + Sync>),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application { code, reason } => {
                write!(f, "closed by the peer: {}", crate::error::Code(*code))?;
                if reason.is_empty() { Ok(()) } else { write!(f, " ({})", reason.escape_ascii()) }
            }
            Self::TimedOut => f.write_str("timed out"),
            Self::Local => f.write_str("closed by this end"),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl Error for ConnectionError {}

/// Reason why a stream cannot be used.
#[derive(Clone, Debug)]
pub enum StreamError {
    /// The peer reset or stopped the stream with this application code.
    Peer(u64),
    /// The connection is over.
    Connection(ConnectionError),
    /// This end finished, reset or stopped the stream before.
    Closed,
    /// The server rejected the 0-RTT data of the stream.
    ZeroRttRejected,
}

impl From<ConnectionError> for StreamError {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

/// Reason why a datagram is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatagramError {
    /// One of the ends does not support datagrams.
    #[error("one of the ends does not support datagrams")]
    Unsupported,
    /// The datagram is larger than a packet or than the peer permits.
    #[error("the datagram is too large")]
    TooLarge,
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
}

/// A handle to a connection. Clones refer to the same connection.
pub trait Connection: Clone + Send + Sync + 'static {
    /// Sending half of a stream.
    type SendStream: SendStream;
    /// Receiving half of a stream.
    type ReceiveStream: ReceiveStream;
    /// Receiver of the peer's streams and datagrams.
    type Incoming: Incoming<Self>;
    /// Opener of streams.
    type Opener: Opener<Self>;

    /// Returns the receiver of streams. Called once for each connection.
    fn incoming(&self) -> Self::Incoming;
    /// Returns an opener of streams, which waits independently of others.
    fn opener(&self) -> Self::Opener;
    /// Closes the connection with an application error code, which is less than 2^62.
    fn close(&self, code: u64, reason: &[u8]);
    /// Sends the payload of a DATAGRAM frame (RFC 9221), or drops it.
    ///
    /// # Errors
    /// Returns an error if the datagram cannot be sent.
    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError>;
    /// Returns the largest payload of a DATAGRAM frame in bytes, or `None` if one of the ends does
    /// not support datagrams.
    fn max_datagram_size(&self) -> Option<usize>;
}

/// Receiver of the streams and datagrams that the peer sends.
pub trait Incoming<C: Connection>: Send + 'static {
    /// Waits for a bidirectional stream.
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<C>>;
    /// Waits for a unidirectional stream.
    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<C::ReceiveStream, ConnectionError>>;
    /// Waits for the payload of a DATAGRAM frame.
    fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>>;
}

/// A bidirectional stream, or the reason why there is none.
pub type Accepted<C> =
    Result<(<C as Connection>::SendStream, <C as Connection>::ReceiveStream), ConnectionError>;

/// Opener of streams. Waits until the peer's limit permits a stream.
pub trait Opener<C: Connection>: Send + Sync + 'static {
    /// Opens a bidirectional stream.
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<C>>;
    /// Opens a unidirectional stream. HTTP/3 uses such streams only for control and for QPACK, so
    /// the stack should send their data before those of requests, whatever the priorities of these
    /// are.
    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<C::SendStream, ConnectionError>>;
}

/// The sending half of a stream. HTTP/3 finishes or resets every stream before it drops it.
pub trait SendStream: Send + 'static {
    /// Returns the ID of the stream (RFC 9000 §2.1).
    fn id(&self) -> u64;
    /// Writes as much of `chunks` as possible and removes it from them, without a copy if the stack
    /// permits. Returns ready if at least one byte was written, or if there was none. Registers the
    /// waker otherwise.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamError>>;
    /// Writes the end of the stream.
    ///
    /// # Errors
    /// Returns an error if the peer has stopped the stream or the connection is over.
    fn finish(&mut self) -> Result<(), StreamError>;
    /// Resets the stream with an application error code. Does nothing if it is reset or completely
    /// acknowledged.
    fn reset(&mut self, code: u64);
    /// Sets the priority with which the stack sends the stream.
    fn set_priority(&mut self, priority: Priority);
    /// Waits until the peer has acknowledged all data and the end (`None`), or has stopped the
    /// stream with a code.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionError>>;
}

/// The receiving half of a stream.
pub trait ReceiveStream: Send + 'static {
    /// Returns the ID of the stream (RFC 9000 §2.1).
    fn id(&self) -> u64;
    /// Returns received data in order, or `None` at the end of the stream. Chunks are not empty.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>>;
    /// Asks the peer to stop sending, with an application error code. Does nothing after the end.
    fn stop(&mut self, code: u64);
}
