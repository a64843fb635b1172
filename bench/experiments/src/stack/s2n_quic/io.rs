//! The simulation as s2n-quic's I/O: its event loop runs as a task of the simulation, on this clock, this timer and these datagrams.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fathom_netsim::sim::{Ecn, SimHandle, SimSocket, Sleep};
use s2n_quic::provider::io::Provider;
use s2n_quic::provider::mtu;
use s2n_quic_core::endpoint::Endpoint;
use s2n_quic_core::event::EndpointPublisher;
use s2n_quic_core::inet::ExplicitCongestionNotification as Codepoint;
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::io::event_loop::{EventLoop, Stats};
use s2n_quic_core::io::rx::{self, Rx};
use s2n_quic_core::io::tx::{self, Message, PayloadBuffer, Tx};
use s2n_quic_core::path::{LocalAddress, MtuError, RemoteAddress, Tuple};
use s2n_quic_core::time::clock::{ClockWithTimer, NoopClock, Timer};
use s2n_quic_core::time::{Clock, Timestamp};

/// Datagrams taken from the socket at once.
const BATCH: usize = 16;
/// Datagrams that the event loop may send at once: the simulation takes any number.
const ROOM: usize = 1 << 16;
/// What s2n-quic takes off an MTU: the headers of IPv6 (the simulation's addresses) and UDP.
const HEADERS: u16 = 40 + 8;

/// Runs an endpoint in the simulation.
pub(super) struct Io {
    sim: SimHandle,
    socket: SimSocket,
    mtu: mtu::Config,
    datagram: usize,
}

impl Io {
    /// `datagram`: UDP payload of a full packet, which the path carries: nothing is probed for.
    pub(super) fn new(sim: SimHandle, socket: SimSocket, datagram: u16) -> Result<Self, MtuError> {
        let size = datagram.saturating_add(HEADERS);
        let mtu = mtu::Config::builder().with_max_mtu(size)?.with_base_mtu(size)?.with_initial_mtu(size)?.build()?;
        Ok(Self { sim, socket, mtu, datagram: datagram.into() })
    }
}

impl Provider for Io {
    type PathHandle = Tuple;
    type Error = Infallible;

    fn start<E: Endpoint<PathHandle = Tuple>>(self, mut endpoint: E) -> Result<SocketAddress, Infallible> {
        let Self { sim, socket, mtu, datagram } = self;
        endpoint.set_mtu_config(mtu);
        let address = socket.address().into();
        let incoming = Incoming { socket: socket.clone(), datagrams: Vec::with_capacity(BATCH), bytes: Vec::new() };
        let event_loop = EventLoop {
            endpoint,
            clock: SimClock(sim.clone()),
            rx: incoming,
            tx: Outgoing { socket, buffer: vec![0; datagram] },
            cooldown: Default::default(),
            stats: NoStats,
        };
        sim.spawn(event_loop.start(address));
        Ok(address)
    }
}

/// The simulation's time, in s2n-quic's microseconds.
struct SimClock(SimHandle);

impl Clock for SimClock {
    fn get_time(&self) -> Timestamp {
        start() + Duration::from_nanos(self.0.time().as_nanos())
    }
}

impl ClockWithTimer for SimClock {
    type Timer = SimTimer;

    fn timer(&self) -> SimTimer {
        SimTimer { sleep: self.0.sleep_until(self.0.time()), base: self.0.base(), at: None }
    }
}

/// The timestamp of the simulation's beginning: the only one that s2n-quic gives without `unsafe`.
fn start() -> Timestamp {
    NoopClock.get_time()
}

struct SimTimer {
    sleep: Sleep,
    base: std::time::Instant,
    /// What it waits for.
    at: Option<Timestamp>,
}

impl Timer for SimTimer {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.at.is_none() || Pin::new(&mut self.sleep).poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.at = None;
        Poll::Ready(())
    }

    fn update(&mut self, at: Timestamp) {
        if self.at != Some(at) {
            self.at = Some(at);
            self.sleep.reset(self.base + at.saturating_duration_since(start()));
        }
    }
}

/// Datagrams that arrived.
struct Incoming {
    socket: SimSocket,
    /// What came with each, and its length.
    datagrams: Vec<(Header<Tuple>, usize)>,
    /// Their contents, one after the other.
    bytes: Vec<u8>,
}

impl Rx for Incoming {
    type PathHandle = Tuple;
    type Queue = Self;
    type Error = Infallible;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        let Self { socket, datagrams, bytes } = self;
        let here = socket.address();
        let taken = socket.receive(BATCH, cx.waker(), |_, contents, received| {
            let local = SocketAddr::new(received.to.unwrap_or(here.ip()), here.port());
            let path = Tuple {
                remote_address: RemoteAddress(received.from.into()),
                local_address: LocalAddress(local.into()),
            };
            let ecn = match received.ecn {
                None => Codepoint::NotEct,
                Some(Ecn::Ect0) => Codepoint::Ect0,
                Some(Ecn::Ect1) => Codepoint::Ect1,
                Some(Ecn::Ce) => Codepoint::Ce,
            };
            datagrams.push((Header { path, ecn }, contents.len()));
            bytes.extend_from_slice(contents);
        });
        taken.map_or(Poll::Pending, |_| Poll::Ready(Ok(())))
    }

    fn queue<F: FnOnce(&mut Self)>(&mut self, f: F) {
        f(self);
    }

    fn handle_error<P: EndpointPublisher>(self, error: Infallible, _: &mut P) {
        match error {}
    }
}

impl rx::Queue for Incoming {
    type Handle = Tuple;

    fn for_each<F: FnMut(Header<Tuple>, &mut [u8])>(&mut self, mut on_packet: F) {
        let mut rest = self.bytes.as_mut_slice();
        for (header, len) in self.datagrams.drain(..) {
            let (contents, next) = rest.split_at_mut(len);
            on_packet(header, contents);
            rest = next;
        }
        self.bytes.clear();
    }

    fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }
}

/// Sends datagrams at once: the virtual network has no send buffer to fill.
struct Outgoing {
    socket: SimSocket,
    buffer: Vec<u8>,
}

impl Tx for Outgoing {
    type PathHandle = Tuple;
    type Queue = Self;
    type Error = Infallible;

    /// There was always room, so nobody waits to hear that there is again.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn queue<F: FnOnce(&mut Self)>(&mut self, f: F) {
        f(self);
    }

    fn handle_error<P: EndpointPublisher>(self, error: Infallible, _: &mut P) {
        match error {}
    }
}

impl tx::Queue for Outgoing {
    type Handle = Tuple;
    const SUPPORTS_ECN: bool = true;

    fn push<M: Message<Handle = Tuple>>(&mut self, mut message: M) -> Result<tx::Outcome, tx::Error> {
        let Tuple { remote_address, local_address } = *message.path_handle();
        let ecn = match message.ecn() {
            Codepoint::NotEct => None,
            Codepoint::Ect0 => Some(Ecn::Ect0),
            Codepoint::Ect1 => Some(Ecn::Ect1),
            Codepoint::Ce => Some(Ecn::Ce),
        };
        let len = message.write_payload(PayloadBuffer::new(&mut self.buffer), 0)?;
        let (to, from): (SocketAddr, SocketAddr) = (remote_address.into(), local_address.into());
        // A path that does not lead into the simulated network loses it, as elsewhere a network does.
        let _ = self.socket.send(to, Some(from.ip()), ecn, &self.buffer[..len], None);
        Ok(tx::Outcome { len, index: 0 })
    }

    fn capacity(&self) -> usize {
        ROOM
    }
}

/// The simulation counts its packets itself.
struct NoStats;

impl Stats for NoStats {
    fn publish<P: EndpointPublisher>(&mut self, _: &mut P) {}
}
