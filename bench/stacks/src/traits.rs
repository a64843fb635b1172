//! Traits of an endpoint, a connection attempt and a connection.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fathom_cc::Rate;
use fathom_netsim::sim::{SimHandle, SimSocket};
use fathom_plugin::{ConnectionMonitor, InUse, Observer, Report};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::native::NativeMonitor;
use crate::settings::{EndpointSettings, SetupError};
use crate::steering::Place;

/// Future that resolves once the handshake is complete. On clients, its output tells whether the
/// server accepted 0-RTT.
pub type EarlyDataAccepted = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Reason why a connection does not begin.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The endpoint is a server.
    #[error("a server endpoint cannot open connections")]
    IsServer,
    /// The endpoint is a client.
    #[error("a client endpoint cannot accept connections")]
    IsClient,
    /// The first packet closed the connection.
    #[error(transparent)]
    Closed(#[from] Close),
    /// The stack refused to begin the connection, for this reason in its own words.
    #[error(transparent)]
    Stack(Box<dyn Error + Send + Sync>),
}

impl ConnectError {
    /// Returns an error in the stack's own words.
    pub fn stack(reason: impl Error + Send + Sync + 'static) -> Self {
        Self::Stack(Box::new(reason))
    }
}

/// Reason why a datagram is not sent.
#[derive(Debug, thiserror::Error)]
pub enum DatagramError {
    /// One of the ends does not support datagrams.
    #[error("one of the two endpoints does not support datagrams")]
    Unsupported,
    /// The datagram is too large for a packet or for the peer.
    #[error("the datagram is too large")]
    TooLarge,
    /// The queue of datagrams is full.
    #[error("the queue of datagrams is full")]
    QueueFull,
    /// The connection is closed.
    #[error(transparent)]
    Closed(#[from] Close),
}

/// Order in which HTTP/3 reads the data of streams from the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// Stream order, as most applications read. quinn and noq buffer data that are received after a
    /// gap. They close a connection if it has more than 1,024 such chunks in one stream (noq: 2,048
    /// packets).
    Ordered,
    /// Arrival order. This crate puts the data in order. The number of chunks has no limit, and
    /// only flow control limits their memory.
    Unordered,
}

/// A socket and the connections over it, of a client or a server.
pub trait Endpoint: Send + Sync + Sized + 'static {
    /// TLS configuration.
    type Tls;
    /// A client's connection attempt.
    type Incoming: Incoming;
    /// A connection in its handshake.
    type Connecting: Connecting<Connection = Self::Connection>;
    /// A connection.
    type Connection: Connection;

    /// Creates an endpoint on a system socket. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a controller, the TLS configuration or the socket cannot be used.
    fn on_tokio(
        socket: UdpSocket,
        settings: EndpointSettings<Self::Tls>,
    ) -> Result<Self, SetupError>;

    /// Creates another endpoint at the same address, with the same TLS configuration, controllers
    /// and settings, at another [place](EndpointSettings::place). Tickets and tokens of one endpoint
    /// are valid at the other. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be used, or if this endpoint has a shaping socket.
    fn sibling(&self, socket: UdpSocket, place: Place) -> Result<Self, SetupError>;

    /// Creates an endpoint on a socket of the simulation.
    ///
    /// # Errors
    /// Returns an error if a controller or the TLS configuration cannot be used.
    fn in_simulation(
        socket: SimSocket,
        sim: &SimHandle,
        settings: EndpointSettings<Self::Tls>,
    ) -> Result<Self, SetupError>;

    /// Returns the address to which the socket is bound.
    ///
    /// # Errors
    /// Returns an error if the system does not report the address.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// Opens a connection. `initial_rtt` is a round-trip time known from an earlier connection. The
    /// observer sees every event of the controller.
    ///
    /// # Errors
    /// Returns an error if the connection cannot be opened.
    fn connect(
        &self,
        to: SocketAddr,
        server_name: &str,
        initial_rtt: Option<Duration>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self::Connecting, ConnectError>;

    /// Returns the next connection attempt, or `None` once the endpoint is closed.
    fn accept(&self) -> impl Future<Output = Option<Self::Incoming>> + Send;

    /// Accepts an attempt under the controller with this index.
    ///
    /// # Errors
    /// Returns an error if the first packet was invalid, so that there is no connection.
    fn begin(
        &self,
        incoming: Self::Incoming,
        controller: usize,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self::Connecting, ConnectError>;

    /// Closes every connection with this application error code.
    fn close(&self, code: u32);

    /// Waits until closed connections are drained.
    fn wait_idle(&self) -> impl Future<Output = ()> + Send;
}

/// A client's connection attempt.
pub trait Incoming: Send + Sized + 'static {
    /// Returns the client's address.
    fn remote_address(&self) -> SocketAddr;
    /// Returns the address to which the client sent, if the socket has several addresses.
    fn local_ip(&self) -> Option<IpAddr>;
    /// Returns whether the client has proved its address.
    fn remote_address_validated(&self) -> bool;
    /// Returns whether a Retry may be sent, because none was sent before.
    fn may_retry(&self) -> bool;
    /// Returns the original destination connection ID in hexadecimal.
    fn original_dcid(&self) -> String;
    /// Refuses the attempt.
    fn refuse(self);
    /// Sends a Retry to validate the client's address. Does nothing if no Retry may be sent,
    /// because the client has then already proved its address.
    fn retry(self);
}

/// A connection in its handshake. The future resolves when the handshake ends.
pub trait Connecting:
    Future<Output = Result<Self::Connection, Close>> + Unpin + Send + Sized + 'static
{
    /// The connection after the handshake.
    type Connection;
    /// Returns the connection before its handshake is complete. A client can do this if a ticket
    /// allows 0-RTT, and a server always can.
    ///
    /// # Errors
    /// Returns `self` if this is not possible. The handshake then continues.
    fn into_0rtt(self) -> Result<(Self::Connection, EarlyDataAccepted), Self>;
    /// Returns the reports of the connection's controller.
    fn monitor(&self) -> Option<&Monitor>;
}

/// Reports of a connection's controller.
#[derive(Clone, Debug)]
pub enum Monitor {
    /// Reports of one of our controllers.
    Fathom(ConnectionMonitor),
    /// Reports of the stack's own controller.
    Native(Arc<NativeMonitor>),
}

impl Monitor {
    /// Returns the plug-in's report, if the controller is ours.
    pub fn report(&self) -> Option<Report> {
        match self {
            Self::Fathom(monitor) => Some(monitor.report()),
            Self::Native(_) => None,
        }
    }
}

/// A handle to a connection. Clones refer to the same connection.
pub trait Connection: Clone + Send + Sync + 'static {
    /// Sending half of a stream.
    type Send: AsyncWrite + Unpin + Send + 'static;
    /// Receiving half of a stream.
    type Recv: AsyncRead + Unpin + Send + 'static;
    /// The connection as HTTP/3 uses it.
    type Http: fathom_http3::transport::Connection;

    /// Returns the connection for HTTP/3, whose streams are read in this order.
    fn http(&self, order: ReadOrder) -> Self::Http;
    /// Opens a bidirectional stream once the peer's limit permits. The flag is true if the stream
    /// starts in 0-RTT.
    fn open_bi(&self) -> impl Future<Output = io::Result<(Self::Send, Self::Recv, bool)>> + Send;
    /// Returns the peer's next bidirectional stream, or `None` once the connection is closed. The
    /// flag is true if the stream started in 0-RTT.
    fn accept_bi(&self) -> impl Future<Output = Option<(Self::Send, Self::Recv, bool)>> + Send;
    /// Queues a DATAGRAM frame (RFC 9221), to be sent once the window permits. If the queue is
    /// full, the oldest datagrams are dropped.
    ///
    /// # Errors
    /// Returns an error if the datagram is not queued.
    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError>;
    /// Returns the number of bytes of datagrams that can be queued without dropping others.
    fn datagram_room(&self) -> usize;
    /// Returns the size of the largest datagram in bytes, or `None` if either end does not support
    /// datagrams.
    fn max_datagram_size(&self) -> Option<usize>;
    /// Returns the next datagram, or `None` once the connection is closed.
    fn read_datagram(&self) -> impl Future<Output = Option<Bytes>> + Send;
    /// Resets a stream (RESET_STREAM). A finished stream needs no reset.
    fn reset(stream: &mut Self::Send, code: u32);
    /// Closes the connection with this application error code.
    fn close(&self, code: u32);
    /// Returns how the connection was closed, or `None` while it is open.
    fn close_reason(&self) -> Option<Close>;
    /// Waits until the connection is closed.
    fn closed(&self) -> impl Future<Output = Close> + Send;
    /// Starts a key update.
    fn update_keys(&self);
    /// Returns whether the handshake is confirmed. A client may update keys only after confirmation
    /// (RFC 9001 §6).
    fn handshake_confirmed(&self) -> bool;
    /// Returns the negotiated application protocol.
    fn protocol(&self) -> Option<String>;
    /// Returns whether TLS resumed a session. Returns `None` if the stack does not know; the
    /// plug-in's report may then have the answer.
    fn resumed(&self) -> Option<bool> {
        None
    }
    /// Returns the reports of the connection's controller.
    fn monitor(&self) -> Option<&Monitor>;
    /// Returns the connection's counts.
    fn stats(&self) -> ConnectionStats;
}

/// Close of a connection, with the side that closed it and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// Side that closed the connection.
    pub by: Closer,
    /// Kind of close.
    pub kind: CloseKind,
    /// Error code, if there is one.
    pub code: Option<u64>,
    /// Reason phrase.
    pub reason: Bytes,
    /// Complete text as the stack words it.
    pub text: String,
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Close {}

/// Side that closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// This end.
    Us,
    /// The other end.
    Peer,
    /// Neither side, because the connection timed out.
    Nobody,
}

/// Kind of a connection's close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseKind {
    /// A transport error code.
    Transport,
    /// An application error code.
    Application,
    /// The connection was idle or got no answer.
    Timeout,
    /// A stateless reset.
    Reset,
    /// Another kind.
    Other,
}

/// Counters and current values of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionStats {
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Mean forward queueing delay, if one-way delays were measured.
    pub queueing: Option<Duration>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Rate at which a live source should produce data, if the controller is for live media.
    pub media_rate: Option<Rate>,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, in UDP payloads.
    pub sent_bytes: u64,
    /// Bytes received, in UDP payloads.
    pub received_bytes: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets declared lost but acknowledged later; `None` if the stack does not count them.
    pub spurious: Option<u64>,
    /// DATA_BLOCKED and STREAM_DATA_BLOCKED frames received (RFC 9000 §19.12, §19.13): how often
    /// the peer reported that our receive windows kept it from sending. The count is always 0 on
    /// quiche, because this crate does not query quiche for it. noq sends no such frames.
    pub peer_blocked: u64,
    /// Number of window reductions for delay.
    pub early: u64,
    /// Number of window reductions for loss or marks.
    pub reductions: u64,
    /// Whether one-way delays were negotiated.
    pub one_way: bool,
    /// Frame that carries one-way delays, in one direction at least.
    pub in_use: InUse,
}

impl ConnectionStats {
    /// Returns these counts with the plug-in's report added, if the controller is ours.
    #[must_use]
    pub fn with_report(self, report: Option<Report>) -> Self {
        let Some(report) = report else { return self };
        let (one_way, in_use) = (report.negotiated, report.in_use);
        match report.controller {
            Some(c) => {
                let (early, reductions) = (c.early_reductions, c.reductions);
                let (queueing, media_rate) = (c.queueing, c.media_rate);
                Self { queueing, media_rate, early, reductions, one_way, in_use, ..self }
            }
            None => Self { one_way, in_use, ..self },
        }
    }
}
