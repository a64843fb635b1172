//! QUIC stacks under the lab's HTTP/3: what an experiment needs of one, and each stack's way to give it.
//!
//! `pair.rs` makes both ends on any stack, `tcp.rs` makes those of TCP. An experiment says what both ends run (its `EndpointSettings`), gives
//! two sockets of the simulation, and gets something that opens connections and something that accepts them.

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
use fathom_netsim::sim::{LinkId, SimHandle, SimSocket};
use fathom_plugin::{Clock, Extension, Observer};
#[cfg(feature = "quiche")]
use fathom_stacks::quiche;
pub use fathom_stacks::{Controller, SetupError, Stack, native_name};
use fathom_stacks::{ReadOrder, UNLIMITED, noq, quinn};
use h3::error::Code;

pub(crate) use self::misreport::misreport;
pub use self::misreport::{ClockMisreport, MISREPORTS};
pub(crate) use self::senders::{ReportSender, SenderReport, Senders};
pub(crate) use self::tickets::issue_tickets;
use crate::http::{Ask, Fetched, HttpError, Identity, LiveRequest, Requests};
use crate::scenario::{MaxWindow, TcpSettings};

/// UDP payload of a full packet: with [`fathom_netsim::sim::WIRE_OVERHEAD`] the paper's 1420 bytes (Sync-TCP §4.4).
pub const DATAGRAM: u16 = 1392;
/// Bytes of a packet that are no stream data, for turning the paper's window in packets into flow control in bytes: 1 + 8 + 2 bytes of
/// short header, 16 of tag, about 8 of STREAM frame header.
const PACKET_OVERHEAD: u64 = 35;
/// What a sender without a limit keeps at most in bytes: twenty times 1 Gbps over 400 ms, so that data which wait for a
/// packet lost several times do not hold it up either. Synthetic bodies are not copied: 1 GiB of them takes 0.5 MB, which
/// bounds the memory of a body that never ends.
const UNLIMITED_BUFFER: u64 = 1 << 30;
/// Packets of a stream that its receiver may hold out of order before quinn or noq may close the connection: they allow
/// 1,024 pieces.
const IN_ORDER: u32 = 1_000;
/// Longest silence before a connection is given up, where a group does not say. The paper's longest base round trip is over 9 s, the model's over 12 s.
pub(crate) const IDLE: Duration = Duration::from_secs(120);

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// What both ends of the connections of a run are made from.
#[derive(Clone)]
pub(crate) struct EndpointSettings<'a> {
    pub(crate) sim: &'a SimHandle,
    pub(crate) identity: &'a Identity,
    pub(crate) control: &'a Controller,
    /// How one-way delays travel.
    pub(crate) extension: Extension,
    /// Endpoints send through a shaping socket.
    pub(crate) shaping: bool,
    /// Largest window of a sender, by the receiver's flow control.
    pub(crate) max_window: MaxWindow,
    /// Bytes of a window without a limit.
    pub(crate) beyond_the_path: u64,
    /// Streams that share a connection's window evenly, 1 or more.
    pub(crate) streams: u32,
    /// UDP payload of a full packet in bytes, 1200 or more; of TCP what follows 28 bytes of its header.
    pub(crate) datagram: u16,
    /// Packets begin with 1200 bytes, and grow to `datagram` when the path has carried that.
    pub(crate) mtu_discovery: bool,
    /// How TCP sends, where it is TCP.
    pub(crate) tcp: TcpSettings,
    /// Connections carry DATAGRAM frames (RFC 9221), of which a sender keeps so many bytes at most: the last.
    pub(crate) datagrams: Option<usize>,
    /// Every connection makes one request.
    pub(crate) one_request: bool,
    /// Bodies travel from clients to servers: the senders of interest are the clients.
    pub(crate) uploads: bool,
    /// Connections carry many requests at once: over the transport whose streams cost least, and have priorities (RFC 9218).
    pub(crate) concurrent: bool,
    /// Longest silence before a connection is given up.
    pub(crate) idle: Duration,
    /// What the client stamps with.
    pub(crate) clock: ClientClock,
    /// Seed of everything random in the endpoints; client and server differ by one byte.
    pub(crate) seed: [u8; 32],
}

impl EndpointSettings<'_> {
    /// Flow control window of a stream in bytes; `None`: the stack's default. Stacks do not write to streams in turn
    /// once their send buffer is full: where streams are many so that none has too many gaps, each must have its own bound.
    fn stream_window(&self) -> Option<u64> {
        match self.max_window {
            MaxWindow::Unlimited => Some(self.beyond_the_path.min(UNLIMITED)),
            MaxWindow::Stack => None,
            MaxWindow::Packets(packets) => {
                Some(u64::from(packets.div_ceil(self.streams)) * self.packet())
            }
        }
    }

    /// Flow control window of a connection in bytes; `None`: the stack's default. A limit is one of streams.
    fn window(&self) -> Option<u64> {
        (self.max_window != MaxWindow::Stack).then_some(UNLIMITED)
    }

    /// Bytes that a connection keeps at most; `None`: the stack's default. Under a limit twice what may be under way:
    /// what is written and cannot leave is only memory.
    fn send_window(&self) -> Option<u64> {
        match self.max_window {
            MaxWindow::Unlimited => Some(UNLIMITED_BUFFER),
            MaxWindow::Stack => None,
            MaxWindow::Packets(packets) => Some(u64::from(packets) * self.packet() * 2),
        }
    }

    /// The order in which streams are read.
    fn read_order(&self) -> ReadOrder {
        let ordered = match self.max_window {
            MaxWindow::Unlimited => false,
            MaxWindow::Stack => true,
            MaxWindow::Packets(packets) => packets.div_ceil(self.streams) <= IN_ORDER,
        };
        if ordered { ReadOrder::Ordered } else { ReadOrder::Unordered }
    }

    /// Stream bytes of a full packet.
    fn packet(&self) -> u64 {
        u64::from(self.datagram) - PACKET_OVERHEAD
    }

    /// The clock behind one side's timestamps.
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

    /// Where bodies come from.
    fn sender(&self) -> Side {
        if self.uploads { Side::Client } else { Side::Server }
    }

    /// The seed of one side's endpoint.
    fn seed_of(&self, side: Side) -> [u8; 32] {
        let mut seed = self.seed;
        seed[9] = u8::from(side == Side::Server);
        seed
    }
}

/// A client's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientClock {
    /// It runs away from the server's by so many microseconds per second.
    Drifts(i32),
    /// Its owner wants to be sent more than is due, and knows the queue of this link.
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

/// A host's clock in a simulation.
#[derive(Clone, Debug)]
pub struct HostClock {
    /// Whose time it shows.
    pub sim: SimHandle,
    /// What it shows when a connection begins, in nanoseconds.
    pub offset: u64,
    /// By how much it runs too fast, in microseconds per second.
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

/// A future that a stack hands out.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Opens connections to the server of a flow.
pub(crate) trait Connector: Send + Sync {
    /// Handshake and HTTP/3 set-up. The client holds a session ticket where `ticket`; it is of use where the endpoints resume sessions. With
    /// early data it is open at once, and the first requests travel with the handshake.
    fn open(
        &self,
        flow: u32,
        ticket: bool,
    ) -> BoxFuture<'static, Result<Box<dyn Client>, HttpError>>;
}

/// An open HTTP/3 connection.
pub(crate) trait Client: Send {
    /// As [`crate::http::Requests::get`].
    fn get(&mut self, bytes: u64, request_bytes: u64) -> BoxFuture<'_, Result<Fetched, HttpError>>;
    /// The same body over several streams at once, where the stack limits what one stream may have in disorder; else over one.
    fn get_at_once(
        &mut self,
        bytes: u64,
        request_bytes: u64,
        _streams: u32,
    ) -> BoxFuture<'_, Result<Fetched, HttpError>> {
        self.get(bytes, request_bytes)
    }
    /// As [`crate::http::Requests::fetch`]: a request beside others.
    fn fetch(&self, ask: Ask) -> BoxFuture<'static, Result<Fetched, HttpError>>;
    /// As [`crate::http::Requests::live`]: for endpoints with datagrams.
    fn live(&self, request: LiveRequest) -> BoxFuture<'static, Result<(), HttpError>>;
    /// The next datagram; `None` once the connection is closed, or where endpoints have none.
    fn read_datagram(&self) -> BoxFuture<'static, Option<Bytes>>;
    /// Returns why the connection was lost, in the stack's words; `None` if it is open, was closed
    /// by HTTP/3, or the stack does not tell.
    fn lost(&self) -> Option<String> {
        None
    }
    /// Closes it.
    fn close(self: Box<Self>);
}

/// An open connection of any stack under the `h3` crate.
struct OpenConnection<O: h3::quic::OpenStreams<Bytes>> {
    opener: O,
    requests: Requests<O>,
    /// Reads datagrams.
    datagrams: Option<ReadDatagram>,
    why_lost: WhyLost,
}

/// Returns why a connection was lost: see [`Client::lost`].
type WhyLost = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Replaces the error of a request by the reason for which its connection was lost, if it was: the
/// `h3` crate may know no more than that there is none.
fn explained(error: HttpError, why_lost: &WhyLost) -> HttpError {
    why_lost().map_or(error, HttpError::Connection)
}

/// What reads a connection's next datagram.
type ReadDatagram = Box<dyn Fn() -> BoxFuture<'static, Option<Bytes>> + Send>;

impl<O> Client for OpenConnection<O>
where
    O: h3::quic::OpenStreams<Bytes> + Clone + Send + 'static,
    O::BidiStream: Send,
{
    fn fetch(&self, ask: Ask) -> BoxFuture<'static, Result<Fetched, HttpError>> {
        let (fetched, why_lost) = (self.requests.fetch(ask), Arc::clone(&self.why_lost));
        Box::pin(async move { fetched.await.map_err(|e| explained(e, &why_lost)) })
    }

    fn live(&self, request: LiveRequest) -> BoxFuture<'static, Result<(), HttpError>> {
        let (over, why_lost) = (self.requests.live(request), Arc::clone(&self.why_lost));
        Box::pin(async move { over.await.map_err(|e| explained(e, &why_lost)) })
    }

    fn lost(&self) -> Option<String> {
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

    fn close(mut self: Box<Self>) {
        self.opener.close(Code::H3_NO_ERROR, b"");
    }
}

/// The experiment's side of its servers.
pub(crate) trait Host: Send + Sync + 'static {
    /// Who follows the sender of this flow's connection.
    fn observer(&self, flow: Option<u32>) -> Option<Arc<dyn Observer>>;
    /// A connection was accepted; the number to end it by.
    fn began(&self, sender: Arc<dyn ReportSender>) -> u64;
    /// It ended.
    fn ended(&self, id: u64);
    /// The handshake of this flow's connection is complete at its sender.
    fn established(&self, flow: Option<u32>);
    /// The sender's application begins to hand a body to the stack, or the stack has taken all of it.
    fn writing(&self, flow: Option<u32>, begins: bool);
    /// Waits for the server's delay before an answer, and until the time that its request names.
    fn think(&self, flow: Option<u32>, not_before: Option<Time>) -> BoxFuture<'_, ()>;
}

/// Both ends of one direction of a run.
pub(crate) struct EndpointPair {
    pub(crate) connector: Arc<dyn Connector>,
    /// Accepts and serves connections for as long as it is polled.
    pub(crate) accept: BoxFuture<'static, ()>,
}

/// Makes both ends on `stack`.
pub(crate) fn ends(
    stack: Stack,
    settings: &EndpointSettings<'_>,
    client: SimSocket,
    server: SimSocket,
    host: Arc<dyn Host>,
) -> Result<EndpointPair, SetupError> {
    match stack {
        Stack::Quinn => {
            pair::ends(settings, client, server, host, pair::rustls, |socket, runtime, settings| {
                quinn::Endpoint::new(Arc::new(socket), runtime, settings)
            })
        }
        Stack::Noq => {
            pair::ends(settings, client, server, host, pair::rustls, |socket, runtime, settings| {
                noq::Endpoint::new(Box::new(socket), runtime, settings)
            })
        }
        #[cfg(feature = "quiche")]
        Stack::Quiche => pair::ends(
            settings,
            client,
            server,
            host,
            boring::boring,
            |socket, runtime, settings| quiche::Endpoint::new(Arc::new(socket), runtime, settings),
        ),
        Stack::Tcp => tcp::ends(settings, host),
        _ => Err(SetupError::Stack(stack)),
    }
}
