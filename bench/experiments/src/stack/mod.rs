//! QUIC stacks under the laboratory's HTTP/3: the traits that experiments use, and their
//! implementations for each stack.
//!
//! `pair.rs` makes both ends on any QUIC stack, `tcp.rs` makes both ends of TCP. An experiment
//! provides the settings of both ends (`EndpointSettings`) and two sockets of the simulation. It
//! gets an `EndpointPair`, which opens and accepts connections.

#[cfg(feature = "quiche")]
mod boring;
mod misreport;
mod pair;
mod senders;
mod tcp;
mod tickets;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fathom_cc::Time;
use fathom_http3::transport;
use fathom_netsim::sim::{LinkId, SimHandle, SimSocket};
use fathom_plugin::{Clock, Extension, Observer};
#[cfg(feature = "quiche")]
use fathom_stacks::BoringTls;
pub use fathom_stacks::{Controller, ControllerError, ControllerSpec, SetupError, Stack};
use fathom_stacks::{Endpoint, ReadOrder, Tls, UNLIMITED, UseOfStack};

pub(crate) use self::misreport::misreport;
pub use self::misreport::{ClockMisreport, MISREPORTS};
pub(crate) use self::senders::{ReportSender, SenderReport, Senders};
pub(crate) use self::tickets::issue_tickets;
use crate::flow_control::MaxWindow;
use crate::http::{Ask, Fetched, HttpError, Identity, LiveRequest, Lost, Requests};
use crate::tcp::TcpSettings;

/// UDP payload of a full packet in bytes. With [`fathom_netsim::sim::WIRE_OVERHEAD`], the packet
/// has the paper's 1420 bytes (Sync-TCP §4.4).
pub const DATAGRAM: u16 = 1392;
/// Bytes of a packet that are not stream data: 1 + 8 + 2 bytes of short header, 16 bytes of tag,
/// and about 8 bytes of STREAM frame header. This number converts the paper's window in packets
/// into flow control in bytes.
const PACKET_OVERHEAD: u64 = 35;
/// Send buffer in bytes of a sender without a limit: 20 times the data of 400 ms at 1 Gbps, so that
/// data behind a packet that is lost several times do not fill the buffer. Synthetic bodies are not
/// copied. 1 GiB of them takes 0.5 MB of memory, so even an endless body needs little memory.
const UNLIMITED_BUFFER: u64 = 1 << 30;
/// Number of packets of a stream that a receiver may hold out of order. With more packets, quinn or
/// noq may close the connection, because they allow 1,024 pieces.
const IN_ORDER: u32 = 1_000;
/// Default idle timeout of a connection. The longest base round trip is over 9 s in the paper and
/// over 12 s in the model.
pub(crate) const IDLE: Duration = Duration::from_secs(120);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// Settings of both ends of a run's connections.
#[derive(Clone)]
pub(crate) struct EndpointSettings<'a> {
    pub(crate) sim: &'a SimHandle,
    pub(crate) identity: &'a Identity,
    pub(crate) control: &'a Controller,
    /// Extension that carries one-way delays.
    pub(crate) extension: Extension,
    /// Whether endpoints send through a shaping socket.
    pub(crate) shaping: bool,
    /// Largest window of a sender, which the receiver's flow control enforces.
    pub(crate) max_window: MaxWindow,
    /// Flow control window in bytes of a sender without a limit.
    pub(crate) beyond_the_path: u64,
    /// Number of streams that share a connection's window evenly, at least 1.
    pub(crate) streams: u32,
    /// UDP payload of a full packet in bytes, at least 1200. For TCP, the size of the IP packet
    /// less 28 bytes, without a minimum.
    pub(crate) datagram: u16,
    /// Whether packets begin with 1200 bytes and grow to `datagram` once the path has carried that
    /// size.
    pub(crate) mtu_discovery: bool,
    /// Settings of TCP; unused on QUIC stacks.
    pub(crate) tcp: TcpSettings,
    /// Maximum number of bytes of DATAGRAM frames (RFC 9221) that a sender buffers; beyond this
    /// number, it drops the oldest frames. `None` if connections carry no DATAGRAM frames.
    pub(crate) datagrams: Option<usize>,
    /// Whether every connection makes only one request.
    pub(crate) one_request: bool,
    /// Whether bodies travel from clients to servers, so that the senders of interest are the
    /// clients.
    pub(crate) uploads: bool,
    /// Idle timeout of a connection.
    pub(crate) idle: Duration,
    /// Clock of the client's timestamps.
    pub(crate) clock: ClientClock,
    /// Seed of all random numbers in the endpoints. The seeds of the client and the server differ
    /// in one byte.
    pub(crate) seed: [u8; 32],
}

impl EndpointSettings<'_> {
    /// Returns the flow control window of a stream in bytes; `None` for the stack's default. Each
    /// stream needs its own limit, because stacks do not write to streams in turn once the send
    /// buffer is full. Without it, one of several streams could take the whole window and get too
    /// many gaps.
    fn stream_window(&self) -> Option<u64> {
        match self.max_window {
            MaxWindow::Unlimited => Some(self.beyond_the_path.min(UNLIMITED)),
            MaxWindow::Stack => None,
            MaxWindow::Packets(packets) => {
                Some(u64::from(packets.div_ceil(self.streams)) * self.packet())
            }
        }
    }

    /// Returns the flow control window of a connection in bytes; `None` for the stack's default.
    /// Limits apply to streams, not to the connection.
    fn window(&self) -> Option<u64> {
        (self.max_window != MaxWindow::Stack).then_some(UNLIMITED)
    }

    /// Returns the maximum number of bytes that a connection buffers for sending; `None` for the
    /// stack's default. If the window has a limit, the number is twice this limit. More buffered
    /// data could not be sent and would only take memory.
    fn send_window(&self) -> Option<u64> {
        match self.max_window {
            MaxWindow::Unlimited => Some(UNLIMITED_BUFFER),
            MaxWindow::Stack => None,
            MaxWindow::Packets(packets) => Some(u64::from(packets) * self.packet() * 2),
        }
    }

    /// Returns the order in which streams are read.
    fn read_order(&self) -> ReadOrder {
        let ordered = match self.max_window {
            MaxWindow::Unlimited => false,
            MaxWindow::Stack => true,
            MaxWindow::Packets(packets) => packets.div_ceil(self.streams) <= IN_ORDER,
        };
        if ordered { ReadOrder::Ordered } else { ReadOrder::Unordered }
    }

    /// Returns the stream bytes of a full packet.
    fn packet(&self) -> u64 {
        u64::from(self.datagram) - PACKET_OVERHEAD
    }

    /// Returns the clock of one side's timestamps.
    fn clock(&self, side: Side) -> Arc<dyn Clock> {
        let sim = self.sim.clone();
        match (side, self.clock) {
            (Side::Server, _) => Arc::new(HostClock { sim, offset: 0, drift: 0 }),
            (Side::Client, ClientClock::Drifts(drift)) => {
                Arc::new(HostClock { sim, offset: 0, drift: drift.into() })
            }
            (Side::Client, ClientClock::Misreports(misreport, link)) => {
                Arc::new(MisreportingClock { sim, misreport, link })
            }
        }
    }

    /// Returns the side that sends bodies.
    fn sender(&self) -> Side {
        if self.uploads { Side::Client } else { Side::Server }
    }

    /// Returns the seed of one side's endpoint.
    fn seed_of(&self, side: Side) -> [u8; 32] {
        let mut seed = self.seed;
        seed[9] = u8::from(side == Side::Server);
        seed
    }
}

/// A client's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientClock {
    /// The clock runs fast by this many microseconds per second, compared with the server's clock.
    Drifts(i32),
    /// The clock misreports time so that the server sends more. The client knows the queue of this
    /// link.
    Misreports(ClockMisreport, LinkId),
}

struct MisreportingClock {
    sim: SimHandle,
    misreport: ClockMisreport,
    link: LinkId,
}

impl Clock for MisreportingClock {
    fn now(&self) -> std::time::Instant {
        self.sim.instant()
    }

    fn stamp(&self, since_start: u64) -> u64 {
        (self.misreport)(since_start, self.sim.queueing_delay(self.link).as_nanos() as u64)
    }
}

/// Clock of a simulated host.
#[derive(Clone, Debug)]
pub struct HostClock {
    /// Simulation whose time the clock follows.
    pub sim: SimHandle,
    /// Time on the clock when a connection begins, in nanoseconds.
    pub offset: u64,
    /// Drift in microseconds per second; positive if the clock runs fast.
    pub drift: i64,
}

impl Clock for HostClock {
    fn now(&self) -> std::time::Instant {
        self.sim.instant()
    }

    fn stamp(&self, since_start: u64) -> u64 {
        let drift = i128::from(since_start) * i128::from(self.drift) / 1_000_000;
        self.offset
            .saturating_add(since_start)
            .saturating_add_signed(i64::try_from(drift).unwrap_or(0))
    }
}

/// A future that a stack returns.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens connections to the server of a flow.
pub(crate) trait Connector: Send + Sync {
    /// Opens a connection: the handshake and the setup of HTTP/3. `ticket` tells whether the client
    /// holds a session ticket, which has an effect only if the endpoints resume sessions. With
    /// early data, the connection is open at once, and the first requests travel with the
    /// handshake.
    fn open(
        &self,
        flow: u32,
        ticket: bool,
    ) -> BoxFuture<'static, Result<Box<dyn Client>, HttpError>>;
}

/// An open HTTP/3 connection.
pub(crate) trait Client: Send {
    /// Fetches a body on one stream. See [`crate::http::Requests::get`].
    fn get(&mut self, bytes: u64, request_bytes: u64) -> BoxFuture<'_, Result<Fetched, HttpError>>;
    /// Fetches a body over several parallel streams. See [`crate::http::Requests::get_at_once`].
    /// TCP has a single stream and uses [`Client::get`].
    fn get_at_once(
        &mut self,
        bytes: u64,
        request_bytes: u64,
        _streams: u32,
    ) -> BoxFuture<'_, Result<Fetched, HttpError>> {
        self.get(bytes, request_bytes)
    }
    /// Makes a request in parallel with other requests. See [`crate::http::Requests::fetch`].
    fn fetch(&self, ask: Ask) -> BoxFuture<'static, Result<Fetched, HttpError>>;
    /// Requests a live stream. See [`crate::http::Requests::live`]. The endpoints must support
    /// datagrams.
    fn live(&self, request: LiveRequest) -> BoxFuture<'static, Result<(), HttpError>>;
    /// Returns the next datagram, or `None` if the connection is closed or the endpoints have no
    /// datagrams.
    fn read_datagram(&self) -> BoxFuture<'static, Option<Bytes>>;
    /// Returns why the connection was lost, in the stack's words. Returns `None` if the connection
    /// is open, if HTTP/3 closed it, or if the stack gives no reason.
    fn lost(&self) -> Option<Lost> {
        None
    }
    /// Closes the connection.
    fn close(self: Box<Self>);
}

/// An open connection of any stack. Dropping it closes the connection.
struct OpenConnection<C: transport::Connection> {
    requests: Requests<C>,
    /// Function that reads datagrams; `None` if the endpoints have no datagrams.
    datagrams: Option<ReadDatagram>,
    why_lost: WhyLost,
}

/// Function that returns why a connection was lost. See [`Client::lost`].
type WhyLost = Arc<dyn Fn() -> Option<Lost> + Send + Sync>;

/// Replaces the error of a request by the reason why the connection was lost, if it was lost.
fn explained(error: HttpError, why_lost: &WhyLost) -> HttpError {
    why_lost().map_or(error, HttpError::Connection)
}

/// Function that reads the next datagram of a connection.
type ReadDatagram = Box<dyn Fn() -> BoxFuture<'static, Option<Bytes>> + Send>;

impl<C: transport::Connection> Client for OpenConnection<C> {
    fn fetch(&self, ask: Ask) -> BoxFuture<'static, Result<Fetched, HttpError>> {
        let (fetched, why_lost) = (self.requests.fetch(ask), Arc::clone(&self.why_lost));
        Box::pin(async move { fetched.await.map_err(|e| explained(e, &why_lost)) })
    }

    fn live(&self, request: LiveRequest) -> BoxFuture<'static, Result<(), HttpError>> {
        let (over, why_lost) = (self.requests.live(request), Arc::clone(&self.why_lost));
        Box::pin(async move { over.await.map_err(|e| explained(e, &why_lost)) })
    }

    fn lost(&self) -> Option<Lost> {
        (self.why_lost)()
    }

    fn read_datagram(&self) -> BoxFuture<'static, Option<Bytes>> {
        self.datagrams
            .as_ref()
            .map_or_else(|| Box::pin(std::future::ready(None)) as _, |read| read())
    }

    fn get_at_once(
        &mut self,
        bytes: u64,
        request_bytes: u64,
        streams: u32,
    ) -> BoxFuture<'_, Result<Fetched, HttpError>> {
        let (fetched, why_lost) =
            (self.requests.get_at_once(bytes, request_bytes, streams), &self.why_lost);
        Box::pin(async move { fetched.await.map_err(|e| explained(e, why_lost)) })
    }

    fn get(&mut self, bytes: u64, request_bytes: u64) -> BoxFuture<'_, Result<Fetched, HttpError>> {
        let (fetched, why_lost) = (self.requests.get(bytes, request_bytes), &self.why_lost);
        Box::pin(async move { fetched.await.map_err(|e| explained(e, why_lost)) })
    }

    /// Does nothing, because [`Drop`] closes the connection.
    fn close(self: Box<Self>) {}
}

impl<C: transport::Connection> Drop for OpenConnection<C> {
    fn drop(&mut self) {
        self.requests.close();
    }
}

/// The experiment's interface to its servers.
pub(crate) trait Host: Send + Sync + 'static {
    /// Returns the observer of the sender of this flow's connection.
    fn observer(&self, flow: Option<u32>) -> Option<Arc<dyn Observer>>;
    /// Registers a sender when its connection begins. Returns the number by which the sender is
    /// ended later.
    fn began(&self, sender: Arc<dyn ReportSender>) -> u64;
    /// Ends the sender with this number.
    fn ended(&self, id: u64);
    /// Records that the handshake of this flow's connection is complete at its sender.
    fn established(&self, flow: Option<u32>);
    /// Records that the sender's application begins to hand a body to the stack (`begins`), or that
    /// the stack has taken the whole body.
    fn writing(&self, flow: Option<u32>, begins: bool);
    /// Waits before a response: for the server's delay, or until the time in the request, if any.
    fn think(&self, flow: Option<u32>, not_before: Option<Time>) -> BoxFuture<'_, ()>;
}

/// Both ends of a group's connections.
pub(crate) struct EndpointPair {
    pub(crate) connector: Arc<dyn Connector>,
    /// Future that accepts and serves connections while it is polled.
    pub(crate) accept: BoxFuture<'static, ()>,
}

/// Makes both ends of connections on `stack`.
pub(crate) fn ends(
    stack: Stack,
    settings: &EndpointSettings<'_>,
    client: SimSocket,
    server: SimSocket,
    host: Arc<dyn Host>,
) -> Result<EndpointPair, SetupError> {
    stack.with(Ends { settings, client, server, host })
}

/// Makes both ends of connections.
struct Ends<'a, 's> {
    settings: &'a EndpointSettings<'s>,
    client: SimSocket,
    server: SimSocket,
    host: Arc<dyn Host>,
}

impl UseOfStack for Ends<'_, '_> {
    type Output = Result<EndpointPair, SetupError>;

    fn on_rustls<E: Endpoint<Tls = Tls>>(self) -> Self::Output {
        pair::ends::<E>(self, pair::rustls)
    }

    #[cfg(feature = "quiche")]
    fn on_boring<E: Endpoint<Tls = BoringTls>>(self) -> Self::Output {
        pair::ends::<E>(self, boring::boring)
    }

    fn on_tcp(self) -> Self::Output {
        tcp::ends(self.settings, self.host)
    }
}
