//! Handle to a connection. `driver.rs` has the task that reads and sends packets and keeps the
//! timers of the connection.

// The path is explicit because `bench/stacks/stock` also compiles this file.
#[path = "connection/driver.rs"]
mod driver;

use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use self::driver::Driver;
use super::native::Quic;
use super::router::{Route, Router, wait};
use super::send_batch::SendBatch;
use super::{ConnectionRng, monitor, stack};
use crate::native::{NativeMonitor, NativeWatch};
use crate::settings::Sessions;
use crate::traits::{Close, CloseKind, Closer, ConnectionStats, DatagramError, Monitor};

/// Direction of streams: bidirectional or unidirectional. It is bit 1 of the stream number
/// (RFC 9000 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dir {
    Bi = 0,
    Uni = 1,
}

impl Dir {
    const fn of(stream: u64) -> Self {
        if stream & 2 == 0 { Self::Bi } else { Self::Uni }
    }
}

/// Tasks that wait on a connection's streams.
#[derive(Default)]
pub(super) struct Streams {
    /// Tasks that wait for data to read.
    pub(super) readers: BTreeMap<u64, Waker>,
    /// Streams whose sending half is still in use, and the tasks that wait for room in them.
    pub(super) writers: BTreeMap<u64, Option<Waker>>,
    /// Tasks that wait until a stream's data are acknowledged.
    deliveries: BTreeMap<u64, DeliveryWait>,
    /// Streams of the peer that have not been accepted yet, by [`Dir`], and whether they began in
    /// 0-RTT.
    incoming: [VecDeque<(u64, bool)>; 2],
    /// HTTP/3's task that waits for the peer's streams, by [`Dir`], and for datagrams.
    pub(super) accepting: [Option<Waker>; 2],
    pub(super) datagrams: Option<Waker>,
    /// HTTP/3's tasks that wait until they may open a stream.
    pub(super) openers: Openers,
    /// Number of the first stream of the peer, by direction, such that neither this stream nor a
    /// later one has brought data. `skipped` holds the earlier streams that have brought no data
    /// yet.
    next: [u64; 2],
    skipped: BTreeSet<u64>,
    /// Number of streams opened by this end, by [`Dir`].
    opened: [u64; 2],
    /// Whether a task waits until it may open a stream, by [`Dir`].
    credit_wanted: [bool; 2],
}

/// A task that waits until one stream's data are acknowledged.
struct DeliveryWait {
    /// Whether all data were handed over to quiche.
    finished: bool,
    task: Option<Waker>,
    /// Result that the task has not taken yet.
    result: Option<Option<u64>>,
}

/// Tasks that wait until they may open a stream, by opener, in the order of their arrival.
#[derive(Default)]
pub(super) struct Openers {
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

impl Openers {
    /// Returns the number of another opener.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait(&mut self, opener: u64, task: &Waker) {
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == opener) {
            Some((_, waker)) => waker.clone_from(task),
            None => self.waiting.push((opener, task.clone())),
        }
    }

    pub(super) fn remove(&mut self, opener: u64) {
        self.waiting.retain(|(waiting, _)| *waiting != opener);
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(|(_, task)| task.wake());
    }
}

impl Streams {
    /// Returns whether a peer stream with data to read is new.
    fn is_new(&mut self, stream: u64) -> bool {
        let (next, number) = (&mut self.next[Dir::of(stream) as usize], stream >> 2);
        if number < *next {
            return self.skipped.remove(&stream);
        }
        // The limit on the peer's streams also limits how many of them are skipped.
        self.skipped.extend((*next..number).map(|skipped| skipped << 2 | stream & 3));
        *next = number + 1;
        true
    }

    /// Records that the end of the stream is written.
    pub(super) fn on_finished(&mut self, stream: u64) {
        if let Some(wait) = self.deliveries.get_mut(&stream) {
            wait.finished = true;
        }
    }
}

/// Window of quiche's own controller. It is polled because quiche does not report changes.
pub(super) struct NativeWindow {
    pub(super) watch: NativeWatch,
    bytes: u64,
}

/// Side of a connection.
pub(super) enum Role {
    Server,
    /// A client, with the store for the client's session ticket.
    Client(Option<Arc<Sessions>>),
}

/// State of a connection behind its lock.
pub(super) struct State {
    pub(super) quic: Quic,
    rng: ConnectionRng,
    server: bool,
    /// Store for the session ticket; `None` once a ticket is stored.
    sessions: Option<Arc<Sessions>>,
    /// Waker of the [`Driver`].
    driver: Option<Waker>,
    send_batch: SendBatch,
    pub(super) streams: Streams,
    native: Option<NativeWindow>,
    /// Observer of the send state, whatever the controller is.
    send_watch: Option<NativeWatch>,
    /// Number of probe timeouts on the active path when it was last checked.
    timeouts: usize,
    established: bool,
    /// Whether a client may send in 0-RTT.
    early: bool,
    /// Whether the driver has already let readers run first.
    yielded: bool,
    /// Reason and code with which the connection was closed.
    pub(super) over: Option<Close>,
    /// Maximum number of bytes in queued datagrams.
    datagrams_kept: usize,
}

impl State {
    /// Wakes the driver to process changes.
    pub(super) fn wake_driver(&mut self) {
        self.driver.take().into_iter().for_each(Waker::wake);
    }

    /// Opens a stream, if the peer's limit permits. Returns its number, and whether it starts in
    /// 0-RTT.
    fn open(&mut self, dir: Dir) -> Option<Result<(u64, bool), Close>> {
        if let Some(close) = &self.over {
            return Some(Err(close.clone()));
        }
        let early = !self.quic.is_established();
        let opened = &mut self.streams.opened[dir as usize];
        let stream = *opened << 2 | (dir as u64) << 1 | u64::from(self.server);
        if early && !self.server && !self.quic.is_in_early_data() {
            return None;
        }
        // quiche creates a stream at the first write to it.
        if self.quic.stream_send(stream, b"", false).is_err() {
            self.streams.credit_wanted[dir as usize] = true;
            return None;
        }
        *opened += 1;
        Some(Ok((stream, early)))
    }

    fn read_datagram(&mut self) -> Option<Bytes> {
        let mut datagram = vec![0; self.quic.dgram_recv_front_len()?];
        // The buffer has the length that quiche reported.
        self.quic.dgram_recv(&mut datagram).ok()?;
        Some(datagram.into())
    }

    pub(super) fn close(&mut self, code: u64, reason: &[u8]) {
        // If the connection is already closed, the earlier close applies.
        let _ = self.quic.close(true, code, reason);
        self.wake_driver();
    }
}

/// State that a connection's handles and its driver share.
pub(super) struct Shared {
    state: Mutex<State>,
    router: Arc<Router>,
    monitor: Option<Monitor>,
    native: Option<Arc<NativeMonitor>>,
    /// Signals that the handshake is complete or the connection is over.
    settled: Notify,
    /// Signals that streams may be opened.
    credit: Notify,
    /// Signals that bidirectional streams have arrived.
    incoming: Notify,
    /// Signals that datagrams have arrived.
    datagrams: Notify,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Runs `work` on the connection with its clock and its random numbers.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let mut rng = state.rng;
        let done = self.router.clock.run(&mut rng, || work(&mut state));
        state.rng = rng;
        done
    }
}

/// Guard of a connection's handles. Dropping the last user closes the connection.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.with(|state| state.close(0, b""));
    }
}

/// A handle to a connection. Clones refer to the same connection, which is closed when the last
/// handle and the last of its streams are dropped.
#[derive(Clone)]
pub struct Connection(Arc<Handle>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.stable_id()).finish()
    }
}

impl Connection {
    /// Runs a quiche connection on its route, from its first packet on. Queues at most
    /// `datagrams_kept` bytes of datagrams.
    pub(super) fn start(
        quic: Quic,
        rng: ConnectionRng,
        role: Role,
        native: Option<(NativeWatch, bool)>,
        router: &Arc<Router>,
        route: Route,
        datagrams_kept: usize,
    ) -> Result<Self, Close> {
        let monitor = match &native {
            Some((watch, watched)) => watched.then(|| Monitor::Native(Arc::clone(&watch.monitor))),
            None => monitor(&quic).map(Monitor::Fathom),
        };
        let counts = native.as_ref().map(|(watch, _)| Arc::clone(&watch.monitor));
        let (server, sessions) = match role {
            Role::Server => (true, None),
            Role::Client(sessions) => (false, sessions),
        };
        let state = State {
            native: native.map(|(watch, _)| NativeWindow { watch, bytes: window(&quic) }),
            quic,
            rng,
            server,
            sessions,
            driver: None,
            send_batch: SendBatch::new(router),
            send_watch: None,
            streams: Streams::default(),
            timeouts: 0,
            established: false,
            early: false,
            yielded: false,
            over: None,
            datagrams_kept,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            router: Arc::clone(router),
            monitor,
            native: counts,
            settled: Notify::new(),
            credit: Notify::new(),
            incoming: Notify::new(),
            datagrams: Notify::new(),
        });
        if let Some(first) = route.inbox.begin() {
            shared.with(|state| {
                state.receive(first);
                if state.quic.is_closed() { Err(close_of(&state.quic)) } else { Ok(()) }
            })?;
        }
        let runtime = &router.clock.runtime;
        let timer = runtime.timer(runtime.now());
        runtime.spawn(Box::pin(Driver { shared: Some(Arc::clone(&shared)), route, timer }));
        Ok(Self(Arc::new(Handle(shared))))
    }

    /// Starts reports of the send state to `watch`.
    pub(super) fn watch_sending(&self, watch: NativeWatch) {
        let mut state = self.shared().state();
        if state.native.is_some() {
            watch.record(window(&state.quic), None);
        }
        state.send_watch = Some(watch);
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0.0
    }

    pub(super) fn monitor(&self) -> Option<&Monitor> {
        self.shared().monitor.as_ref()
    }

    pub(super) fn resumed(&self) -> Option<bool> {
        let state = self.shared().state();
        state.established.then(|| state.quic.is_resumed())
    }

    /// Returns whether the server accepted the client's 0-RTT data. Always true on servers.
    pub(super) fn early_data_accepted(&self) -> bool {
        /// Value of BoringSSL's `ssl_early_data_accepted`.
        const ACCEPTED: u32 = 2;
        let state = self.shared().state();
        state.server || state.quic.early_data_reason() == ACCEPTED
    }

    fn stable_id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Waits until the handshake is complete.
    pub(super) async fn established(&self) -> Result<(), Close> {
        let shared = self.shared();
        wait(&shared.settled, || {
            let state = shared.state();
            if state.established { Some(Ok(())) } else { state.over.clone().map(Err) }
        })
        .await
    }

    /// Waits until the connection is closed.
    pub(super) async fn closed(&self) -> Close {
        wait(&self.shared().settled, || self.shared().state().over.clone()).await
    }

    /// Closes the connection with this application error code.
    pub(super) fn close(&self, code: u64, reason: &[u8]) {
        self.shared().with(|state| state.close(code, reason));
    }

    /// Opens a bidirectional stream once the peer's limit permits. Returns the number of the
    /// stream, and whether it starts in 0-RTT.
    pub(super) async fn open(&self) -> Result<(u64, bool), Close> {
        let shared = self.shared();
        wait(&shared.credit, || shared.with(|state| state.open(Dir::Bi))).await
    }

    /// Opens a stream once the peer's limit permits, for an opener with this number.
    pub(super) fn poll_open(
        &self,
        cx: &Context<'_>,
        opener: u64,
        dir: Dir,
    ) -> Poll<Result<u64, Close>> {
        self.shared().with(|state| match state.open(dir) {
            Some(opened) => Poll::Ready(opened.map(|(stream, _)| stream)),
            None => {
                state.streams.openers.wait(opener, cx.waker());
                Poll::Pending
            }
        })
    }

    /// Returns the number of bytes of datagrams that can be queued without dropping others.
    pub(super) fn datagram_room(&self) -> usize {
        let state = self.shared().state();
        state.datagrams_kept.saturating_sub(state.quic.dgram_send_queue_byte_size())
    }

    /// Queues a datagram. If the queue would exceed its limit, drops the oldest datagrams first,
    /// because quiche would otherwise refuse the newest one.
    pub(super) fn send_datagram(&self, data: &[u8]) -> Result<(), DatagramError> {
        self.shared().with(|state| {
            if let Some(close) = &state.over {
                return Err(close.clone().into());
            }
            let over = (state.quic.dgram_send_queue_byte_size() + data.len())
                .saturating_sub(state.datagrams_kept);
            if over > 0 {
                let freed = Cell::new(0);
                state.quic.dgram_purge_outgoing(|old| {
                    let purged = freed.get() < over;
                    freed.set(freed.get() + if purged { old.len() } else { 0 });
                    purged
                });
            }
            state.quic.dgram_send(data).map_err(|e| match e {
                stack::Error::BufferTooShort => DatagramError::TooLarge,
                stack::Error::Done => DatagramError::QueueFull,
                _ => DatagramError::Unsupported,
            })?;
            state.wake_driver();
            Ok(())
        })
    }

    /// Returns the next datagram, or `None` once the connection is closed.
    pub(super) async fn read_datagram(&self) -> Option<Bytes> {
        let shared = self.shared();
        wait(&shared.datagrams, || {
            let mut state = shared.state();
            match state.read_datagram() {
                Some(datagram) => Some(Some(datagram)),
                None => state.over.as_ref().map(|_| None),
            }
        })
        .await
    }

    /// Returns the next datagram, to one task only.
    pub(super) fn poll_datagram(&self, cx: &Context<'_>) -> Poll<Result<Bytes, Close>> {
        let mut state = self.shared().state();
        match (state.read_datagram(), &state.over) {
            (Some(datagram), _) => Poll::Ready(Ok(datagram)),
            (None, Some(close)) => Poll::Ready(Err(close.clone())),
            (None, None) => {
                register(&mut state.streams.datagrams, cx);
                Poll::Pending
            }
        }
    }

    /// Returns the peer's next bidirectional stream, and whether it began in 0-RTT.
    pub(super) async fn accept(&self) -> Result<(u64, bool), Close> {
        let shared = self.shared();
        wait(&shared.incoming, || {
            let mut state = shared.state();
            match state.streams.incoming[Dir::Bi as usize].pop_front() {
                Some(stream) => Some(Ok(stream)),
                None => state.over.clone().map(Err),
            }
        })
        .await
    }

    /// Returns the peer's next stream, to one task only.
    pub(super) fn poll_accept(&self, cx: &Context<'_>, dir: Dir) -> Poll<Result<u64, Close>> {
        let mut state = self.shared().state();
        match (state.streams.incoming[dir as usize].pop_front(), &state.over) {
            (Some((stream, _)), _) => Poll::Ready(Ok(stream)),
            (None, Some(close)) => Poll::Ready(Err(close.clone())),
            (None, None) => {
                register(&mut state.streams.accepting[dir as usize], cx);
                Poll::Pending
            }
        }
    }

    /// Returns `None` when the peer has acknowledged all data of the stream and its end, or a code
    /// if the stream was stopped or reset. Returns the result to one task, and only once. The task
    /// must call [`Self::end_delivery`] if it ends before.
    pub(super) fn poll_delivery(
        &self,
        cx: &Context<'_>,
        stream: u64,
        finished: bool,
    ) -> Poll<Result<Option<u64>, Close>> {
        let mut state = self.shared().state();
        let State { streams, over, .. } = &mut *state;
        match streams.deliveries.entry(stream) {
            Entry::Occupied(wait) if wait.get().result.is_some() => {
                return Poll::Ready(Ok(wait.remove().result.flatten()));
            }
            _ if over.is_some() => return Poll::Ready(Err(over.clone().unwrap_or_else(ended))),
            Entry::Occupied(mut wait) => register(&mut wait.get_mut().task, cx),
            Entry::Vacant(vacant) => {
                let task = Some(cx.waker().clone());
                vacant.insert(DeliveryWait { finished, task, result: None });
                // The peer may already have acknowledged all data.
                state.wake_driver();
            }
        }
        Poll::Pending
    }

    /// Ends the wait for a delivery.
    pub(super) fn end_delivery(&self, stream: u64) {
        self.shared().state().streams.deliveries.remove(&stream);
    }

    pub(super) fn stats(&self) -> ConnectionStats {
        let shared = self.shared();
        let state = shared.state();
        let (quic, stats) = (&state.quic, state.quic.stats());
        let path = quic.path_stats().find(|path| path.active);
        let own = ConnectionStats {
            // Without a sample, the RTT is only quiche's initial estimate.
            rtt: path.as_ref().filter(|path| path.min_rtt.is_some()).map(|path| path.rtt),
            window: path.map_or(0, |path| path.cwnd as u64),
            sent: stats.sent as u64,
            sent_bytes: stats.sent_bytes,
            received_bytes: stats.recv_bytes,
            lost: stats.lost as u64,
            spurious: Some(stats.spurious_lost as u64),
            reductions: shared.native.as_ref().map_or(0, |monitor| monitor.reductions()),
            ..ConnectionStats::default()
        };
        let report = monitor(quic).map(|monitor| monitor.report());
        own.with_report(report)
    }

    pub(super) fn protocol(&self) -> Option<String> {
        let state = self.shared().state();
        let protocol = state.quic.application_proto();
        (!protocol.is_empty()).then(|| String::from_utf8_lossy(protocol).into_owned())
    }
}

/// Replaces the waker of a task that waits.
fn register(task: &mut Option<Waker>, cx: &Context<'_>) {
    match task {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *task = Some(cx.waker().clone()),
    }
}

fn window(quic: &Quic) -> u64 {
    quic.path_stats().find(|path| path.active).map_or(0, |path| path.cwnd as u64)
}

/// Returns how a connection was closed.
fn close_of(quic: &Quic) -> Close {
    let (by, error) = match (quic.peer_error(), quic.local_error()) {
        (Some(e), _) => (Closer::Peer, e),
        (None, Some(e)) => (Closer::Us, e),
        (None, None) if quic.is_timed_out() => {
            let (by, kind) = (Closer::Nobody, CloseKind::Timeout);
            return Close { by, kind, code: None, reason: Bytes::new(), text: "timed out".into() };
        }
        (None, None) => return ended(),
    };
    let kind = if error.is_app { CloseKind::Application } else { CloseKind::Transport };
    let reason = Bytes::copy_from_slice(&error.reason);
    let (who, space) = (
        if by == Closer::Us { "this side" } else { "the peer" },
        if error.is_app { "application" } else { "transport" },
    );
    let text = format!(
        "{who} closed it with {space} error {:#x} {}",
        error.error_code,
        String::from_utf8_lossy(&reason)
    );
    Close { by, kind, code: Some(error.error_code), reason, text }
}

/// Returns the close of a connection that ended without an error of either side.
fn ended() -> Close {
    Close {
        by: Closer::Peer,
        kind: CloseKind::Reset,
        code: None,
        reason: Bytes::new(),
        text: "ended".into(),
    }
}
