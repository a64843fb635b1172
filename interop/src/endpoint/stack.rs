//! What a stack on rustls must do to be an endpoint.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fathom_plugin::Observer;
use h3::quic::BidiStream;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Setup;
use super::facts::{self, Close};

/// Whether the server took what was sent in 0-RTT; known once the handshake is over.
pub(crate) type Early = Pin<Box<dyn Future<Output = bool> + Send>>;
/// Hears of a connection.
pub(crate) type Ear = Option<Arc<dyn Observer>>;

/// A socket of a stack, with its configuration.
pub(crate) trait Stack: Send + Sync + Sized + 'static {
    /// A connection that a client has begun.
    type Incoming: Send + 'static;
    /// A connection in its handshake.
    type Connecting: Send + 'static;
    /// A connection in use.
    type Connection: Connection;

    /// For connections to the setup's server.
    fn client(setup: &Setup, tls: Arc<rustls::ClientConfig>) -> Result<Self, String>;
    /// Listens where the setup says.
    fn server(setup: &Setup, tls: Arc<rustls::ServerConfig>) -> Result<Self, String>;
    /// Begins a connection; `rtt`: what is known of the path from an earlier one.
    fn dial(&self, to: SocketAddr, name: &str, rtt: Option<Duration>, ear: Ear) -> Result<Self::Connecting, String>;
    /// The next client; `None` once the endpoint is closed.
    fn accept(&self) -> impl Future<Output = Option<Self::Incoming>> + Send;
    /// Its address, its original destination connection ID, and whether it may still be asked to prove its address.
    fn of(incoming: &Self::Incoming) -> (SocketAddr, String, bool);
    /// Asks it to.
    fn retry(incoming: Self::Incoming);
    /// Goes on with its handshake.
    fn take(&self, incoming: Self::Incoming, ear: Ear) -> Result<Self::Connecting, Close>;
    /// The connection before its handshake is over, where that is possible.
    fn early(connecting: Self::Connecting) -> Result<(Self::Connection, Early), Self::Connecting>;
    /// The connection after it.
    fn complete(connecting: Self::Connecting) -> impl Future<Output = Result<Self::Connection, Close>> + Send;
    /// Closes all connections.
    fn close(&self);
    /// Waits until peers have heard of closed connections.
    fn idle(&self) -> impl Future<Output = ()> + Send;
}

/// A connection.
pub(crate) trait Connection: Clone + Send + Sync + 'static {
    /// Out.
    type Send: AsyncWrite + Unpin + Send + 'static;
    /// In.
    type Recv: AsyncRead + Unpin + Send + 'static;
    /// What the `h3` crate takes.
    type Transport: h3::quic::Connection<
            Bytes,
            BidiStream: BidiStream<Bytes> + Send + 'static,
            OpenStreams: h3::quic::OpenStreams<Bytes, BidiStream: BidiStream<Bytes> + Send + 'static>
                             + Clone
                             + Send
                             + Sync
                             + 'static,
            SendStream: Send,
            RecvStream: Send,
        > + Send
        + 'static;

    /// Opens a stream, as soon as the peer allows one more; whether it is in 0-RTT.
    fn open(&self) -> impl Future<Output = io::Result<(Self::Send, Self::Recv, bool)>> + Send;
    /// The next stream of the peer's, and whether it came in 0-RTT; `None` once the connection is over.
    fn next(&self) -> impl Future<Output = Option<(Self::Send, Self::Recv, bool)>> + Send;
    /// Gives a stream up.
    fn reset(stream: &mut Self::Send, code: u32);
    /// The connection for HTTP/3.
    fn transport(&self) -> Self::Transport;
    /// Ends it.
    fn close(&self, code: u32);
    /// How it has ended, if it has.
    fn over(&self) -> Option<Close>;
    /// How it has ended, once it has.
    fn closed(&self) -> impl Future<Output = Close> + Send;
    /// Updates the keys.
    fn update_keys(&self);
    /// The server has confirmed the handshake, so that the client may update keys (RFC 9001 §6).
    fn confirmed(&self) -> bool;
    /// Smoothed round-trip time.
    fn rtt(&self) -> Option<Duration>;
    /// Takes in what the stack and the plug-in tell.
    fn tell(&self, facts: &mut facts::Connection);
}
