//! The interface to QUIC stacks on rustls.

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

/// Resolves to whether the server accepted 0-RTT, once the handshake completes.
pub(crate) type ZeroRttAccepted = Pin<Box<dyn Future<Output = bool> + Send>>;
/// Observer of a connection, which writes its qlog.
pub(crate) type ConnectionObserver = Option<Arc<dyn Observer>>;

/// A client or server endpoint of a stack: its socket and configuration.
pub(crate) trait QuicEndpoint: Send + Sync + Sized + 'static {
    /// A connection attempt at a server.
    type Incoming: Send + 'static;
    /// A connection in its handshake.
    type Connecting: Send + 'static;
    /// A connection.
    type Connection: QuicConnection;

    /// Creates a client endpoint.
    fn client(setup: &Setup, tls: Arc<rustls::ClientConfig>) -> Result<Self, String>;
    /// Creates a server endpoint that listens at the setup's address.
    fn server(setup: &Setup, tls: Arc<rustls::ServerConfig>) -> Result<Self, String>;
    /// Starts a connection. `rtt` is the initial round-trip time, known from an earlier connection.
    fn connect(
        &self,
        to: SocketAddr,
        name: &str,
        rtt: Option<Duration>,
        observer: ConnectionObserver,
    ) -> Result<Self::Connecting, String>;
    /// Waits for the next connection attempt; `None` once the endpoint is closed.
    fn accept(&self) -> impl Future<Output = Option<Self::Incoming>> + Send;
    /// The client's address, the original destination connection ID, and whether a Retry may be sent.
    fn incoming_info(incoming: &Self::Incoming) -> (SocketAddr, String, bool);
    /// Answers with a Retry packet.
    fn retry(incoming: Self::Incoming);
    /// Accepts the attempt and starts the handshake.
    fn begin_handshake(
        &self,
        incoming: Self::Incoming,
        observer: ConnectionObserver,
    ) -> Result<Self::Connecting, Close>;
    /// The connection before the handshake completes, if 0-RTT or 0.5-RTT is possible.
    fn into_0rtt(connecting: Self::Connecting) -> Result<(Self::Connection, ZeroRttAccepted), Self::Connecting>;
    /// Waits for the handshake to complete.
    fn handshake(connecting: Self::Connecting) -> impl Future<Output = Result<Self::Connection, Close>> + Send;
    /// Closes all connections.
    fn close(&self);
    /// Waits until all closed connections have drained.
    fn wait_idle(&self) -> impl Future<Output = ()> + Send;
}

/// A connection.
pub(crate) trait QuicConnection: Clone + Send + Sync + 'static {
    /// Sending half of a stream.
    type Send: AsyncWrite + Unpin + Send + 'static;
    /// Receiving half of a stream.
    type Recv: AsyncRead + Unpin + Send + 'static;
    /// The connection as the `h3` crate's transport.
    type H3Transport: h3::quic::Connection<
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

    /// Opens a bidirectional stream once the peer's limit permits. The flag says whether it starts in 0-RTT.
    fn open_bi(&self) -> impl Future<Output = io::Result<(Self::Send, Self::Recv, bool)>> + Send;
    /// Waits for the peer's next bidirectional stream. The flag says whether it started in 0-RTT; `None` once the connection is closed.
    fn accept_bi(&self) -> impl Future<Output = Option<(Self::Send, Self::Recv, bool)>> + Send;
    /// Resets a stream (RESET_STREAM).
    fn reset(stream: &mut Self::Send, code: u32);
    /// The connection as a transport for HTTP/3.
    fn h3_transport(&self) -> Self::H3Transport;
    /// Closes the connection with an application error code.
    fn close(&self, code: u32);
    /// Why the connection closed; `None` while it is open.
    fn close_reason(&self) -> Option<Close>;
    /// Waits until the connection is closed.
    fn closed(&self) -> impl Future<Output = Close> + Send;
    /// Initiates a key update.
    fn update_keys(&self);
    /// Whether the handshake is confirmed; only then may a client update keys (RFC 9001 §6).
    fn handshake_confirmed(&self) -> bool;
    /// Smoothed round-trip time.
    fn rtt(&self) -> Option<Duration>;
    /// Records what the stack and the plugin report.
    fn record_facts(&self, facts: &mut facts::Connection);
}
