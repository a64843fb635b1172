//! Socket of an endpoint. It assigns packets to connections, and replies to packets without a
//! connection.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use fathom_netsim::runtime::{RECEIVE_BATCH, RecvMeta, Runtime, Transmit, UdpSocket};
use fathom_netsim::sim::Ecn;
use parking_lot::{Mutex, MutexGuard};
use ring::hmac;
use tokio::sync::Notify;

use super::stack::{self, ConnectionId, Header};
use super::stateless::{RetryTokens, refusal, version_negotiation};
use super::{ConnectionRng, run_at};
use crate::steering::Place;

/// Size in bytes of the largest packet that can be received, and of the buffer for a packet to
/// send.
pub(super) const LARGEST: usize = 1500;
/// Length in bytes of the connection IDs that this endpoint issues. The value is quinn's.
const CID_LEN: usize = 8;
/// Minimum size in bytes of a client's first datagram (RFC 9000 §14.1), and minimum length of the
/// connection ID that the client makes up (§7.2).
const MIN_INITIAL_DATAGRAM: usize = 1_200;
const MIN_INITIAL_DCID: usize = 8;
/// Maximum total size in bytes of a series of datagrams that the kernel delivers as one.
const MAX_GRO_BYTES: usize = 64 << 10;
/// Number of socket reads before other tasks get their turn.
const ROUNDS: usize = 8;
/// Maximum number of packets queued for a connection. Further packets are dropped, as in a router.
const QUEUE: usize = 128;
/// Maximum number of packets queued for an attempt that is not accepted yet. A ClientHello takes
/// two or three packets.
const FIRST_QUEUE: usize = 8;
/// Maximum number of packets that a connection reads before it sends a packet.
const AT_ONCE: usize = 32;
/// Maximum number of send buffers that are kept for later connections.
const BUFFERS: usize = 16;
/// Maximum number of connection attempts queued for acceptance. Further attempts are dropped, and
/// their clients retry.
const BACKLOG: usize = 1_024;
/// Maximum number of queued attempts at which clients that have proved their address are still
/// accepted. It is larger than [`BACKLOG`], so that other clients do not crowd these clients out.
const VALIDATED_BACKLOG: usize = 2 * BACKLOG;

/// Source and destination of a packet, and its ECN field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketPath {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) ecn: u8,
}

/// A packet that is being delivered to its connection.
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) path: PacketPath,
}

/// Packets and events queued for a connection.
#[derive(Default)]
pub(super) struct Inbox(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    packets: VecDeque<Packet>,
    /// Application error code with which the endpoint closes its connections.
    close: Option<u32>,
    /// Whether the connection attempt was accepted.
    begun: bool,
    /// Whether the connection is over. If so, further packets are dropped.
    over: bool,
    waker: Option<Waker>,
}

impl Queue {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Inbox {
    fn push(&self, packet: &[u8], path: PacketPath) {
        let mut queue = self.0.lock();
        let most = if queue.begun { QUEUE } else { FIRST_QUEUE };
        if queue.packets.len() < most && !queue.over {
            queue.packets.push_back(Packet { bytes: packet.to_vec(), path });
            queue.wake();
        }
    }

    /// Returns some packets, whether there are more, and the code with which to close the
    /// connection. If there are no more packets, the task of `cx` is woken when a packet arrives.
    pub(super) fn take(&self, cx: &Context<'_>) -> (VecDeque<Packet>, bool, Option<u32>) {
        let mut queue = self.0.lock();
        let rest = queue.packets.len().min(AT_ONCE);
        let rest = queue.packets.split_off(rest);
        let more = !rest.is_empty();
        // Return the allocation together with the packets, because most connections are idle most
        // of the time.
        let packets = std::mem::replace(&mut queue.packets, rest);
        if !more && !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            queue.waker = Some(cx.waker().clone());
        }
        (packets, more, queue.close.take())
    }

    /// Marks the attempt as accepted and returns the connection's first packet, if one has arrived.
    pub(super) fn begin(&self) -> Option<Packet> {
        let mut queue = self.0.lock();
        queue.begun = true;
        queue.packets.pop_front()
    }

    /// Drops all queued packets, and all packets that arrive later.
    pub(super) fn end(&self) {
        let mut queue = self.0.lock();
        (queue.over, queue.packets, queue.waker) = (true, VecDeque::new(), None);
    }

    fn close(&self, code: u32) {
        let mut queue = self.0.lock();
        queue.close = Some(code);
        queue.wake();
    }
}

/// A connection ID as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cid {
    bytes: [u8; stack::MAX_CONN_ID_LEN],
    len: u8,
}

impl Cid {
    fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; stack::MAX_CONN_ID_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { bytes, len: id.len() as u8 })
    }

    /// Returns the destination connection ID of a packet (RFC 8999 §5).
    fn addressed(packet: &[u8]) -> Option<Self> {
        let long = packet.first()? & 0x80 != 0;
        Self::new(if long {
            packet.get(6..6 + usize::from(*packet.get(5)?))?
        } else {
            packet.get(1..1 + CID_LEN)?
        })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(super) fn id(&self) -> ConnectionId<'_> {
        ConnectionId::from_ref(self.as_slice())
    }
}

/// Clock of an endpoint's runtime. If the endpoint has a seed, quiche uses only this clock and the
/// connection's random numbers.
#[derive(Clone)]
pub(super) struct Clock {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) simulated: bool,
}

impl Clock {
    pub(super) fn run<T>(&self, rng: &mut ConnectionRng, work: impl FnOnce() -> T) -> T {
        if self.simulated { run_at(self.runtime.now(), rng, work) } else { work() }
    }
}

/// A socket and its connections.
pub(super) struct Router {
    pub(super) socket: Arc<dyn UdpSocket>,
    pub(super) local: SocketAddr,
    pub(super) clock: Clock,
    server: bool,
    /// Place of the endpoint, if it is one of several endpoints at one address.
    place: Option<Place>,
    /// Key from which connection IDs and random numbers are derived.
    key: hmac::Key,
    connections: AtomicU64,
    tokens: RetryTokens,
    began: Instant,
    routes: Mutex<Routes>,
    /// Signals that a connection attempt has arrived, or that no more will arrive.
    arrived: Notify,
    /// Signals that the last connection is over.
    idle: Notify,
    /// Spare send buffers. A connection has a buffer only while it holds data, because most
    /// connections are idle most of the time.
    buffers: Mutex<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct Routes {
    by_id: HashMap<Cid, Arc<Inbox>>,
    open: usize,
    incoming: VecDeque<Incoming>,
    /// Whether further attempts are dropped.
    closed: bool,
    /// Whether the endpoint was dropped.
    dropped: bool,
    /// Waker of the [`Receiver`].
    waker: Option<Waker>,
}

/// Routes of a connection. Dropping this value removes them.
pub(super) struct Route {
    router: Arc<Router>,
    ids: [Cid; 2],
    pub(super) inbox: Arc<Inbox>,
}

impl Route {
    pub(super) fn router(&self) -> &Router {
        &self.router
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut routes = self.router.routes.lock();
        for id in &self.ids {
            routes.by_id.remove(id);
        }
        routes.open -= 1;
        if routes.open == 0 {
            self.router.idle.notify_waiters();
            routes.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// A client's connection attempt.
pub struct Incoming {
    pub(super) header: Header<'static>,
    /// Destination connection ID of the client's first packet; `None` unless a Retry token proves
    /// it.
    pub(super) original: Option<Vec<u8>>,
    pub(super) id: Cid,
    pub(super) rng: ConnectionRng,
    pub(super) path: PacketPath,
    pub(super) route: Route,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("from", &self.path.from).finish_non_exhaustive()
    }
}

impl Router {
    /// Creates a router and spawns its receiving task.
    pub(super) fn new(
        socket: Arc<dyn UdpSocket>,
        runtime: Arc<dyn Runtime>,
        server: bool,
        seed: Option<[u8; 32]>,
        place: Option<Place>,
    ) -> std::io::Result<Arc<Self>> {
        let unseeded = || std::io::Error::other("the operating system provides no random numbers");
        let random = ring::rand::SystemRandom::new();
        let (key, token_key) = match seed {
            Some(seed) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &seed);
                let token_key = hmac::sign(&key, b"tokens");
                (key, hmac::Key::new(hmac::HMAC_SHA256, token_key.as_ref()))
            }
            None => {
                let key =
                    || hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(|_| unseeded());
                (key()?, key()?)
            }
        };
        let router = Arc::new(Self {
            local: socket.local_address()?,
            began: runtime.now(),
            clock: Clock { runtime: Arc::clone(&runtime), simulated: seed.is_some() },
            server,
            place,
            key,
            connections: AtomicU64::new(0),
            tokens: RetryTokens::new(token_key),
            routes: Mutex::default(),
            arrived: Notify::new(),
            idle: Notify::new(),
            buffers: Mutex::default(),
            socket,
        });
        runtime.spawn(Box::pin(Receiver::new(Arc::clone(&router))));
        Ok(router)
    }

    /// Returns a send buffer of at least this many bytes.
    pub(super) fn buffer(&self, bytes: usize) -> Vec<u8> {
        self.buffers.lock().pop().unwrap_or_else(|| vec![0; bytes])
    }

    /// Takes a send buffer back.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS {
            buffers.push(buffer);
        }
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock()
    }

    fn now(&self) -> Duration {
        self.clock.runtime.now().saturating_duration_since(self.began)
    }

    /// Returns an unused connection ID, and the random numbers of its connection.
    fn unused(&self, routes: &Routes) -> (Cid, ConnectionRng) {
        loop {
            let number = self.connections.fetch_add(1, Ordering::Relaxed);
            let tag = hmac::sign(&self.key, &number.to_le_bytes());
            let (id, rest) = tag.as_ref().split_at(CID_LEN);
            let seed = rest.first_chunk().map_or(number, |bytes| u64::from_le_bytes(*bytes));
            if self.place.is_none_or(|place| place.owns(id))
                && let Some(id) = Cid::new(id).filter(|id| !routes.by_id.contains_key(id))
            {
                return (id, ConnectionRng::new(seed));
            }
        }
    }

    /// Routes the packets of a new connection. They are addressed to the connection's own ID, or to
    /// the ID that its client made up.
    pub(super) fn open(self: &Arc<Self>, asked: Option<&[u8]>) -> (Cid, ConnectionRng, Route) {
        let mut routes = self.routes();
        let (id, rng) = self.unused(&routes);
        let asked = asked.and_then(Cid::new).unwrap_or(id);
        let inbox = Arc::<Inbox>::default();
        for id in [id, asked] {
            routes.by_id.insert(id, Arc::clone(&inbox));
        }
        routes.open += 1;
        (id, rng, Route { router: Arc::clone(self), ids: [id, asked], inbox })
    }

    /// Returns the next connection attempt, or `None` once the endpoint is closed.
    pub(super) async fn accept(&self) -> Option<Incoming> {
        wait(&self.arrived, || {
            let mut routes = self.routes();
            if routes.closed { Some(None) } else { routes.incoming.pop_front().map(Some) }
        })
        .await
    }

    /// Drops waiting attempts, and all attempts that arrive later.
    fn refuse_attempts(&self) {
        let waiting = {
            let mut routes = self.routes();
            routes.closed = true;
            std::mem::take(&mut routes.incoming)
        };
        // Drop the attempts without the lock, because their routes take the lock.
        drop(waiting);
        self.arrived.notify_waiters();
    }

    /// Closes all connections and refuses further attempts.
    pub(super) fn close(&self, code: u32) {
        self.refuse_attempts();
        self.routes().by_id.values().for_each(|inbox| inbox.close(code));
    }

    /// Marks the endpoint as dropped. The receiving task ends with the last connection.
    pub(super) fn abandon(&self) {
        self.refuse_attempts();
        let waker = {
            let mut routes = self.routes();
            routes.dropped = true;
            routes.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits until no connection is left.
    pub(super) async fn wait_idle(&self) {
        wait(&self.idle, || (self.routes().open == 0).then_some(())).await;
    }

    /// Delivers a packet to its connection, or starts a new connection.
    fn route(self: &Arc<Self>, packet: &mut [u8], path: PacketPath) {
        let Some(id) = Cid::addressed(packet) else {
            // The packet may have another version of QUIC, whose connection IDs may be longer.
            if self.server {
                self.negotiate_version(packet, path);
            }
            return;
        };
        let known = self.routes().by_id.get(&id).cloned();
        match known {
            Some(inbox) => inbox.push(packet, path),
            None if self.server => drop(self.begin(packet, path)),
            None => {}
        }
    }

    /// Handles a packet that belongs to no connection. Returns `None` if it did not queue an
    /// attempt.
    fn begin(self: &Arc<Self>, packet: &mut [u8], path: PacketPath) -> Option<()> {
        let long = packet.first()? & 0x80 != 0;
        if !long || packet.len() < MIN_INITIAL_DATAGRAM {
            return None;
        }
        if self.negotiate_version(packet, path) {
            return None;
        }
        let mut header = Header::from_slice(packet, CID_LEN).ok()?;
        if header.ty != stack::Type::Initial || header.dcid.len() < MIN_INITIAL_DCID {
            return None;
        }
        let token = header.token.take().unwrap_or_default();
        let original =
            self.tokens.check(self.now(), &token, path.from, &header.dcid).map(<[u8]>::to_vec);
        let most = if original.is_some() { VALIDATED_BACKLOG } else { BACKLOG };
        let is_taken = |routes: &Routes| !routes.closed && routes.incoming.len() < most;
        if !is_taken(&self.routes()) {
            return None;
        }
        let (id, rng, route) = self.open(Some(&header.dcid));
        route.inbox.push(packet, path);
        let incoming = Incoming { header, original, id, rng, path, route };
        {
            // The router may have been closed in the meantime. Drop a refused attempt without the
            // lock, because its route takes the lock.
            let mut routes = self.routes();
            if !is_taken(&routes) {
                drop(routes);
                return None;
            }
            routes.incoming.push_back(incoming);
        }
        self.arrived.notify_waiters();
        Some(())
    }

    /// Answers a packet with a version that quiche does not support, if the packet is long enough.
    /// Returns whether the packet has such a version.
    fn negotiate_version(&self, packet: &[u8], path: PacketPath) -> bool {
        let Some(version) = packet.first_chunk().and_then(|[first, version @ ..]: &[u8; 5]| {
            (first & 0x80 != 0).then_some(u32::from_be_bytes(*version))
        }) else {
            return false;
        };
        if stack::version_is_supported(version) {
            return false;
        }
        // Version 0 marks a Version Negotiation packet, which gets no answer.
        if version != 0
            && packet.len() >= MIN_INITIAL_DATAGRAM
            && let Some(answer) = version_negotiation(packet)
        {
            self.reply(path, &answer);
        }
        true
    }

    /// Replies to the sender of a packet that arrived on this path. If the kernel has no room, the
    /// reply is lost.
    fn reply(&self, path: PacketPath, packet: &[u8]) {
        let back = PacketPath { from: path.to, to: path.from, ecn: 0 };
        let _ = self.socket.try_send(&self.transmit(back, packet.len(), packet));
    }

    /// Refuses an attempt.
    pub(super) fn refuse(&self, header: &Header<'_>, path: PacketPath) {
        if let Some(packet) = refusal(&header.dcid, &header.scid) {
            self.reply(path, &packet);
        }
    }

    /// Sends a Retry.
    pub(super) fn retry(&self, header: &Header<'_>, path: PacketPath) {
        let (given, _) = self.unused(&self.routes());
        let token = self.tokens.make(self.now(), path.from, &header.dcid, given.as_slice());
        let mut answer = [0; LARGEST];
        if let Ok(len) = stack::retry(
            &header.scid,
            &header.dcid,
            &given.id(),
            &token,
            header.version,
            &mut answer,
        ) {
            self.reply(path, &answer[..len]);
        }
    }

    /// Returns a transmit of packets. Each packet has `segment` bytes, except the last one.
    pub(super) fn transmit<'a>(
        &self,
        path: PacketPath,
        segment: usize,
        contents: &'a [u8],
    ) -> Transmit<'a> {
        // If the socket has several addresses, answer from the address to which the client sent.
        // For other sockets, the kernel would only look up a route for each packet. The sockets of a
        // simulation have an address for each flow.
        let has_several = self.clock.simulated || self.local.ip().is_unspecified();
        let from = (self.server && has_several)
            .then_some(path.from.ip())
            .filter(|ip| !ip.is_unspecified());
        Transmit {
            to: path.to,
            from,
            ecn: Ecn::from_bits(path.ecn),
            contents,
            segment: (contents.len() > segment).then_some(segment),
        }
    }
}

/// Waits until `look` returns a value. Code that changes the state behind `look` must notify
/// `changed`.
pub(super) async fn wait<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let notified = changed.notified();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}

/// Task that receives packets for all connections of an endpoint.
struct Receiver {
    router: Arc<Router>,
    buffers: Vec<Vec<u8>>,
}

impl Receiver {
    fn new(router: Arc<Router>) -> Self {
        let bytes = (LARGEST * router.socket.max_receive_segments()).min(MAX_GRO_BYTES);
        Self { router, buffers: vec![vec![0; bytes]; RECEIVE_BATCH] }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self { router, buffers } = self;
        let mut metas = [RecvMeta::default(); RECEIVE_BATCH];
        let received = {
            let mut buffers = buffers.iter_mut();
            let mut slices: [IoSliceMut<'_>; RECEIVE_BATCH] = std::array::from_fn(|_| {
                IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| &mut buffer[..]))
            });
            ready!(router.socket.poll_receive(cx, &mut slices, &mut metas))
        };
        // An error is the kernel's report about an earlier datagram.
        for (buffer, meta) in buffers.iter_mut().zip(&metas).take(received.unwrap_or(0)) {
            // quiche knows only one local address of a client, and accepts only packets to this
            // address.
            let ip = meta.to.filter(|_| router.server).unwrap_or(router.local.ip());
            let to = (ip, router.local.port()).into();
            let path = PacketPath { from: meta.from, to, ecn: meta.ecn.map_or(0, Ecn::bits) };
            let length = meta.len.min(buffer.len());
            for packet in buffer[..length].chunks_mut(meta.segment.max(1)) {
                router.route(packet, path);
            }
        }
        Poll::Ready(())
    }
}

/// Tells tasks that wait for attempts that no more will arrive.
impl Drop for Receiver {
    fn drop(&mut self) {
        self.router.refuse_attempts();
    }
}

impl Future for Receiver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut routes = self.router.routes();
            if routes.dropped && routes.open == 0 {
                return Poll::Ready(());
            }
            routes.waker = Some(cx.waker().clone());
        }
        for _ in 0..ROUNDS {
            ready!(self.poll_receive(cx));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
