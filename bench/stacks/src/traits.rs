//! What an endpoint, a connection attempt, a connection and its HTTP/3 streams can do.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fathom_plugin::{ConnectionMonitor, InUse, Observer, Report};
use h3::quic::{RecvStream, SendStream, StreamErrorIncoming};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::native::NativeMonitor;

/// Resolves to whether the server accepted 0-RTT, once the handshake is complete; on servers, once it is.
pub type EarlyDataAccepted = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Resolves when the peer has acknowledged all data of a stream and its end, or with the reason why it cannot any more: it has stopped the
/// stream, or the connection is closed.
pub type Delivery = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Sets the priority of a stream by its number, before anything is sent on it: urgency from 0, the first, to 7, and whether it is of use
/// in parts (RFC 9218 §4). What is urgent is sent first.
pub type SetPriority = Arc<dyn Fn(u64, u8, bool) + Send + Sync>;

/// The order in which HTTP/3 takes the data of streams from the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// In that of the stream, as most applications read. quinn and noq keep what came behind a loss,
    /// and close a connection that has more than 1,024 such pieces in one stream (noq: 2,048 packets).
    Ordered,
    /// As they come, and put in order here: the number of pieces has no bound, nor has the memory
    /// that they take but flow control.
    Unordered,
}

/// A socket, and the connections over it: a client or a server.
pub trait Endpoint: Send + Sync + Sized + 'static {
    /// A client's connection attempt.
    type Incoming: Incoming;
    /// A connection in its handshake.
    type Connecting: Connecting<Connection = Self::Connection>;
    /// A connection.
    type Connection: Connection;

    /// Where its socket is bound.
    ///
    /// # Errors
    /// The system's.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// Opens a connection. `initial_rtt` is known from an earlier connection; the observer hears of everything the controller does.
    ///
    /// # Errors
    /// One line that says why it cannot.
    fn connect(
        &self,
        to: SocketAddr,
        server_name: &str,
        initial_rtt: Option<Duration>,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self::Connecting, String>;

    /// The next connection attempt; `None` once the endpoint is closed.
    fn accept(&self) -> impl Future<Output = Option<Self::Incoming>> + Send;

    /// Accepts an attempt under the controller of this number.
    ///
    /// # Errors
    /// Its first packet was invalid: there is no connection.
    fn begin(
        &self,
        incoming: Self::Incoming,
        controller: usize,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self::Connecting, String>;

    /// Closes every connection with this application error code.
    fn close(&self, code: u32);

    /// Waits until closed connections are drained.
    fn wait_idle(&self) -> impl Future<Output = ()> + Send;
}

/// A client's connection attempt.
pub trait Incoming: Send + Sized + 'static {
    /// The client's address.
    fn remote_address(&self) -> SocketAddr;
    /// The address the client sent to, where the socket has several.
    fn local_ip(&self) -> Option<IpAddr>;
    /// The client has proved its address.
    fn remote_address_validated(&self) -> bool;
    /// A Retry may be sent: none was before.
    fn may_retry(&self) -> bool;
    /// Its original destination connection ID in hexadecimal.
    fn original_dcid(&self) -> String;
    /// Refuses it.
    fn refuse(self);
    /// Sends a Retry to validate the client's address. One that needs none has proved it.
    fn retry(self);
}

/// A connection in its handshake; the future ends with it.
pub trait Connecting:
    Future<Output = Result<Self::Connection, Close>> + Unpin + Send + Sized + 'static
{
    /// What it becomes.
    type Connection;
    /// The connection before its handshake is complete: a client's, if a ticket allows 0-RTT; a server's always.
    ///
    /// # Errors
    /// It is not possible; the handshake goes on.
    fn into_0rtt(self) -> Result<(Self::Connection, EarlyDataAccepted), Self>;
    /// What its controller reports.
    fn monitor(&self) -> Option<&Monitor>;
}

/// What a connection's controller reports.
#[derive(Clone, Debug)]
pub enum Monitor {
    /// One of ours.
    Fathom(ConnectionMonitor),
    /// The stack's own.
    Native(Arc<NativeMonitor>),
}

impl Monitor {
    /// The plug-in's report, where the controller is ours.
    pub fn report(&self) -> Option<Report> {
        match self {
            Self::Fathom(monitor) => Some(monitor.report()),
            Self::Native(_) => None,
        }
    }
}

/// A connection. A handle: clones are the same connection.
pub trait Connection: Clone + Send + Sync + 'static {
    /// Sending half of a stream.
    type Send: AsyncWrite + Unpin + Send + 'static;
    /// Receiving half of a stream.
    type Recv: AsyncRead + Unpin + Send + 'static;
    /// The connection as the `h3` crate takes it.
    type H3: h3::quic::Connection<
            Bytes,
            BidiStream = Self::H3Stream,
            OpenStreams = Self::H3Opener,
            SendStream: Send,
            RecvStream: Send,
        > + Send
        + 'static;
    /// Its request streams.
    type H3Stream: h3::quic::BidiStream<Bytes> + Send + 'static;
    /// Opens streams.
    type H3Opener: h3::quic::OpenStreams<Bytes, BidiStream = Self::H3Stream>
        + Clone
        + Send
        + Sync
        + 'static;

    /// The connection as the `h3` crate takes it, with streams that tell when their data are acknowledged.
    type AcknowledgedH3: h3::quic::Connection<
            Bytes,
            BidiStream: RequestStream + Send + 'static,
            OpenStreams: Send,
            SendStream: Send,
            RecvStream: Send,
        > + Send
        + 'static;

    /// Request streams that have priorities.
    type PrioritisedStream: h3::quic::BidiStream<Bytes> + Send + 'static;
    /// The connection with them.
    type PrioritisedH3: h3::quic::Connection<
            Bytes,
            BidiStream = Self::PrioritisedStream,
            OpenStreams: h3::quic::OpenStreams<Bytes, BidiStream = Self::PrioritisedStream>
                             + Clone
                             + Send
                             + 'static,
            SendStream: Send,
            RecvStream: Send,
        > + Send
        + 'static;

    /// The connection for HTTP/3, through the transport that most applications of the stack use.
    fn h3(&self) -> Self::H3;
    /// The connection for an HTTP/3 server that must know when its responses have arrived.
    fn acknowledged_h3(&self) -> Self::AcknowledgedH3;
    /// The connection for an HTTP/3 server that sends what is urgent first, and what says how urgent a stream is. It sends
    /// synthetic bodies without a copy, and reads streams in this order.
    fn prioritised_h3(&self, order: ReadOrder) -> (Self::PrioritisedH3, SetPriority);
    /// Opens a bidirectional stream once the peer's limit permits. The flag says whether it starts in 0-RTT.
    fn open_bi(&self) -> impl Future<Output = io::Result<(Self::Send, Self::Recv, bool)>> + Send;
    /// The peer's next bidirectional stream; `None` once the connection is closed. The flag says whether it started in 0-RTT.
    fn accept_bi(&self) -> impl Future<Output = Option<(Self::Send, Self::Recv, bool)>> + Send;
    /// Sends a DATAGRAM frame (RFC 9221), once the window permits. Older ones that still wait give way where too much does.
    ///
    /// # Errors
    /// It is too large, either end has no datagrams, or the connection is closed.
    fn send_datagram(&self, data: Bytes) -> Result<(), String>;
    /// Bytes of the largest datagram; `None`: either end has none.
    fn max_datagram_size(&self) -> Option<usize>;
    /// The next datagram; `None` once the connection is closed.
    fn read_datagram(&self) -> impl Future<Output = Option<Bytes>> + Send;
    /// Resets a stream (RESET_STREAM). A finished one needs no reset.
    fn reset(stream: &mut Self::Send, code: u32);
    /// Closes the connection with this application error code.
    fn close(&self, code: u32);
    /// How it was closed; `None` while it is open.
    fn close_reason(&self) -> Option<Close>;
    /// Waits until it is closed.
    fn closed(&self) -> impl Future<Output = Close> + Send;
    /// Begins a key update.
    fn update_keys(&self);
    /// The handshake is confirmed; only then may a client update keys (RFC 9001 §6).
    fn handshake_confirmed(&self) -> bool;
    /// The application protocol that was negotiated.
    fn protocol(&self) -> Option<String>;
    /// TLS resumed a session; `None` where only the plug-in's report knows.
    fn resumed(&self) -> Option<bool> {
        None
    }
    /// What its controller reports.
    fn monitor(&self) -> Option<&Monitor>;
    /// Its counts.
    fn stats(&self) -> ConnectionStats;
}

/// What a stream of HTTP/3 can do beyond `h3`'s traits.
pub trait RequestStream: SendStream<Bytes> + RecvStream<Buf = Bytes> {
    /// Resolves when all data is acknowledged.
    fn delivery(&self) -> Delivery;
    /// Writes all of `chunks` as they are; they are empty then.
    fn poll_write_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamErrorIncoming>>;
}

/// How a connection was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// Who closed it.
    pub by: Closer,
    /// In which way.
    pub kind: CloseKind,
    /// Error code, where there is one.
    pub code: Option<u64>,
    /// Reason phrase.
    pub reason: Bytes,
    /// All of it as the stack puts it.
    pub text: String,
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Close {}

/// Who closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// This end.
    Us,
    /// The other end.
    Peer,
    /// Neither: it timed out.
    Nobody,
}

/// The way in which a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseKind {
    /// A transport error code.
    Transport,
    /// An application error code.
    Application,
    /// Idle, or without an answer.
    Timeout,
    /// A stateless reset.
    Reset,
    /// Another.
    Other,
}

/// Counts of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConnectionStats {
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Mean forward queueing delay, where one-way delays were measured.
    pub queueing: Option<Duration>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, in UDP payloads.
    pub sent_bytes: u64,
    /// Bytes received, in UDP payloads.
    pub received_bytes: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets of them that were acknowledged later; `None` where the stack does not count them.
    pub spurious: Option<u64>,
    /// DATA_BLOCKED and STREAM_DATA_BLOCKED frames received (RFC 9000 §19.12, §19.13): times that the peer says our windows keep it from
    /// sending. 0 on quiche, which is not asked; noq sends none.
    pub peer_blocked: u64,
    /// Window reductions for delay.
    pub early: u64,
    /// Window reductions for loss or marks.
    pub reductions: u64,
    /// One-way delays were negotiated.
    pub one_way: bool,
    /// The frame that carries one-way delays, in one direction at least.
    pub in_use: InUse,
}

impl ConnectionStats {
    /// With what the plug-in reports, where the controller is ours.
    #[must_use]
    pub fn with_report(self, report: Option<Report>) -> Self {
        let Some(report) = report else { return self };
        let (one_way, in_use) = (report.negotiated, report.in_use);
        match report.controller {
            Some(c) => {
                let (early, reductions) = (c.early_reductions, c.reductions);
                Self { queueing: c.queueing, early, reductions, one_way, in_use, ..self }
            }
            None => Self { one_way, in_use, ..self },
        }
    }
}
