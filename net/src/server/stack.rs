//! The interface of a server QUIC stack.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use fathom_plugin::{Observer, Report};

use super::response_stream::ResponseStream;
use crate::metrics::ConnectionStats;
use crate::udp::SocketBuffers;

/// The rest of a handshake whose connection already serves 0-RTT. Resolves to whether the connection is still open.
pub(crate) type HandshakeCompletion = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A server QUIC stack: a listening endpoint and its connections.
pub(crate) trait ServerStack: Send + Sync + 'static {
    /// An incoming connection attempt.
    type Incoming: Send + 'static;
    /// A connection in use.
    type Connection: Send + Sync + 'static;
    /// The connection as the `h3` crate takes it.
    type Transport: h3::quic::Connection<
            Bytes,
            BidiStream: ResponseStream + Send + 'static,
            OpenStreams: Send,
            SendStream: Send,
            RecvStream: Send,
        > + Send
        + 'static;

    /// Where it listens.
    fn address(&self) -> io::Result<SocketAddr>;
    /// The socket buffers that the system granted.
    fn buffers(&self) -> SocketBuffers;
    /// The next connection attempt; `None` once the endpoint is closed.
    fn accept(&self) -> impl Future<Output = Option<Self::Incoming>> + Send;
    /// The client's address.
    fn remote_address(incoming: &Self::Incoming) -> SocketAddr;
    /// Whether the client's address is validated.
    fn remote_address_validated(incoming: &Self::Incoming) -> bool;
    /// Its original destination connection ID in hexadecimal.
    fn original_dcid(incoming: &Self::Incoming) -> String;
    /// Refuses it.
    fn refuse(incoming: Self::Incoming);
    /// Sends a Retry to validate the client's address.
    fn retry(incoming: Self::Incoming);
    /// Completes the handshake with the controller of this number. If 0-RTT is enabled, returns early, with the rest of the handshake.
    /// The observer gets the connection's events, unless its controller is native.
    fn accept_connection(
        &self,
        incoming: Self::Incoming,
        share: usize,
        observer: Option<Arc<dyn Observer>>,
    ) -> impl Future<Output = Result<(Self::Connection, Option<HandshakeCompletion>), String>> + Send;
    /// The connection for HTTP/3.
    fn transport(connection: &Self::Connection) -> Self::Transport;
    /// Closes one with this error code.
    fn close_connection(connection: &Self::Connection, code: u32);
    /// Its statistics.
    fn stats(connection: &Self::Connection) -> ConnectionStats;
    /// Closes all.
    fn close(&self);
    /// Waits until closed connections are drained.
    fn wait_idle(&self) -> impl Future<Output = ()> + Send;
}

/// Adds what a connection monitor reports to the stack's statistics.
pub(crate) fn with_monitor_report(ended: ConnectionStats, report: Option<Report>) -> ConnectionStats {
    let Some(report) = report else { return ended };
    let (one_way, in_use) = (report.negotiated, report.in_use);
    match report.controller {
        Some(c) => {
            let (early, reductions) = (c.early_reductions, c.reductions);
            ConnectionStats { queueing: c.queueing, early, reductions, one_way, in_use, ..ended }
        }
        None => ConnectionStats { one_way, in_use, ..ended },
    }
}
