//! The interface to both quiche crates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use boring::ssl::SslContextBuilder;
use fathom_plugin::{Observer, Report};

use super::super::Setup;

/// Length of our connection IDs.
pub(super) const CID: usize = 8;

/// A datagram to send.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) bytes: Vec<u8>,
    pub(super) to: SocketAddr,
    pub(super) ecn: u8,
    /// When to send it.
    pub(super) at: Instant,
}

/// Parameters of a new connection at a server.
pub(super) struct NewConnection<'a> {
    /// Our connection ID.
    pub(super) id: &'a [u8],
    /// After a Retry: the original destination connection ID and the Retry's source connection ID.
    pub(super) retried: Option<(&'a [u8], &'a [u8])>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

/// Status of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionStatus {
    pub(super) established: bool,
    /// Whether 0-RTT can be sent or received.
    pub(super) early: bool,
    pub(super) closed: bool,
    pub(super) timed_out: bool,
    pub(super) resumed: bool,
    pub(super) protocol: Option<String>,
    /// Who closed it, whether with a transport error, the code, the reason.
    pub(super) error: Option<(&'static str, bool, u64, Vec<u8>)>,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) report: Option<Report>,
}

/// Why a stream operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamError {
    /// No data or no flow-control credit now; try again later.
    Blocked,
    /// The stream or connection is closed.
    Closed,
}

/// An HTTP/3 event on a stream.
#[derive(Clone, Debug)]
pub(super) enum Http3Event {
    /// Header fields arrived.
    Headers(Vec<(Vec<u8>, Vec<u8>)>),
    /// A part of the body arrived.
    Data,
    /// The stream is finished.
    Finished,
    /// The peer reset the stream.
    Reset,
}

/// A quiche connection.
pub(super) trait QuicheConnection: Sized {
    /// quiche's `Config`.
    type Config;

    /// Creates a configuration; `verifies` enables verification of the server's certificate.
    fn config(setup: &Setup, context: SslContextBuilder, verifies: bool) -> Result<Self::Config, String>;
    /// Starts a connection to the server `name`; `ends` are the local and the peer's address.
    fn connect(
        config: &mut Self::Config,
        name: &str,
        id: &[u8],
        ends: (SocketAddr, SocketAddr),
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, String>;
    /// Accepts a connection.
    fn accept(config: &mut Self::Config, new: &NewConnection<'_>, observer: Option<Arc<dyn Observer>>) -> Option<Self>;

    /// Processes a datagram. Invalid packets are dropped; a protocol violation closes the connection, and the next packet reports it.
    fn on_datagram(&mut self, bytes: &mut [u8], from: SocketAddr, to: SocketAddr, ecn: u8);
    /// The next datagram to send.
    fn poll_transmit(&mut self) -> Option<Datagram>;
    /// When to call [`QuicheConnection::on_timeout`].
    fn next_timeout(&self) -> Option<Instant>;
    /// Processes expired timers.
    fn on_timeout(&mut self);
    /// The connection's status.
    fn status(&self) -> ConnectionStatus;
    /// Closes the connection with an application error code.
    fn close(&mut self, code: u64);
    /// Issues new connection IDs to the peer and returns them.
    fn issue_connection_ids(&mut self) -> Vec<Vec<u8>>;

    /// The session ticket, once there is one.
    fn session_ticket(&self) -> Option<Vec<u8>>;
    /// Resumes a session; called before the first packet.
    fn resume(&mut self, session_ticket: &[u8]) -> Result<(), String>;

    /// Streams with data to read.
    fn readable(&mut self) -> Vec<u64>;
    /// Reads from a stream; returns the length and whether the stream is finished.
    fn read(&mut self, stream: u64, into: &mut [u8]) -> Result<(usize, bool), StreamError>;
    /// Writes to a stream; returns the length written.
    fn write(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, StreamError>;
    /// Resets a stream.
    fn reset(&mut self, stream: u64, code: u64);
    /// Whether the peer's limit permits another stream.
    fn can_open_stream(&self) -> bool;

    /// Starts HTTP/3.
    fn start_http3(&mut self) -> Result<(), String>;
    /// The next HTTP/3 event and its stream.
    fn poll_http3(&mut self) -> Option<(u64, Http3Event)>;
    /// Sends the header fields of a response on `stream`, or of a new request; returns the stream.
    fn send_headers(&mut self, stream: Option<u64>, fields: &[(&[u8], &[u8])]) -> Result<u64, StreamError>;
    /// Sends a part of a body; returns the length sent.
    fn send_body(&mut self, stream: u64, bytes: &[u8], last: bool) -> Result<usize, StreamError>;
    /// Reads a part of a body; returns the length.
    fn recv_body(&mut self, stream: u64, into: &mut [u8]) -> Result<usize, StreamError>;
}
