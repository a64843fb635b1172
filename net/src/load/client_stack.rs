//! The interface of a client QUIC stack.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use h3::quic::BidiStream;

use crate::metrics::ConnectionStats;

/// Resolves to whether the server accepted 0-RTT, once the handshake is complete.
pub(super) type EarlyDataAccepted = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A client QUIC stack with its sockets, for connections to one server.
pub(super) trait ClientStack: Send + Sync + Sized + 'static {
    /// A connection in its handshake.
    type Connecting: Future<Output = Result<Self::Connection, String>> + Send;
    /// A connection in use.
    type Connection: Send + Sync + 'static;
    /// The connection as the `h3` crate takes it.
    type Transport: h3::quic::Connection<
            Bytes,
            BidiStream = Self::Stream,
            OpenStreams = Self::Opener,
            SendStream: Send,
            RecvStream: Send,
        > + Send
        + 'static;
    /// Its streams.
    type Stream: BidiStream<Bytes> + Send + 'static;
    /// Opens streams.
    type Opener: h3::quic::OpenStreams<Bytes, BidiStream = Self::Stream> + Clone + Send + Sync + 'static;

    /// Starts a connection.
    fn connect(&self) -> Result<Self::Connecting, String>;
    /// The connection before its handshake is complete, if a ticket allows 0-RTT.
    fn into_0rtt(connecting: Self::Connecting) -> Result<(Self::Connection, EarlyDataAccepted), Self::Connecting>;
    /// The connection for HTTP/3.
    fn transport(connection: &Self::Connection) -> Self::Transport;
    /// Whether it is still open.
    fn is_open(connection: &Self::Connection) -> bool;
    /// Closes one with this error code.
    fn close_connection(connection: &Self::Connection, code: u32);
    /// Its statistics.
    fn stats(connection: &Self::Connection) -> ConnectionStats;
    /// Waits until closed connections are drained.
    fn wait_idle(&self) -> impl Future<Output = ()> + Send;
}
