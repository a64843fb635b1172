//! What a stack must do to be served through.

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

/// A handshake that goes on, until it is over or the connection is. Whether the connection is still there.
pub(crate) type HandshakeCompletion = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A listening endpoint of a stack, and its connections.
pub(crate) trait ServerStack: Send + Sync + 'static {
    /// A connection that a client has begun.
    type Incoming: Send + 'static;
    /// A connection in use.
    type Connection: Send + Sync + 'static;
    /// What the `h3` crate takes.
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
    /// What the system granted its socket.
    fn buffers(&self) -> SocketBuffers;
    /// The next client; `None` once the endpoint is closed.
    fn accept(&self) -> impl Future<Output = Option<Self::Incoming>> + Send;
    /// The client's address.
    fn remote_address(incoming: &Self::Incoming) -> SocketAddr;
    /// The client has shown that it receives there.
    fn remote_address_validated(incoming: &Self::Incoming) -> bool;
    /// Its original destination connection ID in hexadecimal.
    fn original_dcid(incoming: &Self::Incoming) -> String;
    /// Turns it away.
    fn refuse(incoming: Self::Incoming);
    /// Asks it to prove its address.
    fn retry(incoming: Self::Incoming);
    /// Completes the handshake with the controller of this number; or, where 0-RTT is taken, begins it: then the rest of it is there
    /// too. The observer hears of the connection, unless its controller is the stack's own.
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
    /// What its sender did.
    fn stats(connection: &Self::Connection) -> ConnectionStats;
    /// Closes all.
    fn close(&self);
    /// Waits until peers of closed connections have heard of it.
    fn wait_idle(&self) -> impl Future<Output = ()> + Send;
}

/// The same with what a plug-in's probe adds.
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
