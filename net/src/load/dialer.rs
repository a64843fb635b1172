//! What a stack must do to be asked through.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use h3::quic::BidiStream;

use crate::metrics::Ended;

/// Whether the server took what was sent in 0-RTT; known once the handshake is over.
pub(super) type Early = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Sockets of a client on a stack, and its connections to one server.
pub(super) trait Dialer: Send + Sync + Sized + 'static {
    /// A connection in its handshake.
    type Connecting: Future<Output = Result<Self::Connection, String>> + Send;
    /// A connection in use.
    type Connection: Send + Sync + 'static;
    /// What the `h3` crate takes.
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
    /// What opens them.
    type Opener: h3::quic::OpenStreams<Bytes, BidiStream = Self::Stream> + Clone + Send + Sync + 'static;

    /// Begins a connection.
    fn dial(&self) -> Result<Self::Connecting, String>;
    /// The connection before its handshake is over, where a ticket allows 0-RTT.
    fn early(connecting: Self::Connecting) -> Result<(Self::Connection, Early), Self::Connecting>;
    /// The connection for HTTP/3.
    fn transport(connection: &Self::Connection) -> Self::Transport;
    /// It has not ended.
    fn alive(connection: &Self::Connection) -> bool;
    /// Closes one with this error code.
    fn end(connection: &Self::Connection, code: u32);
    /// What its sender did.
    fn report(connection: &Self::Connection) -> Ended;
    /// Waits until the server has heard of closed connections.
    fn idle(&self) -> impl Future<Output = ()> + Send;
}
