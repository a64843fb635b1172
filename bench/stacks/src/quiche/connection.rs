//! A connection: its handle. `driver.rs` has the task that reads, sends and keeps its timers.

// Its place is said, since `bench/stacks/stock` compiles this file, too.
#[path = "connection/driver.rs"]
mod driver;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quinn::VarInt;
use tokio::sync::{Notify, oneshot};

use self::driver::Driver;
use super::native::Quic;
use super::router::{Route, Router, wait};
use super::send_batch::SendBatch;
use super::stream::{RecvStream, SendStream};
use super::{ConnectionRng, monitor};
use crate::native::{NativeMonitor, NativeWatch};
use crate::settings::Sessions;
use crate::traits::{Close, CloseKind, Closer, ConnectionStats, Monitor};

/// Both halves of a bidirectional stream.
type Halves = (SendStream, RecvStream);

/// Streams that go both ways, and streams that go one way, as bit 1 of their numbers (RFC 9000 §2.1).
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

/// What tasks wait for on a connection's streams.
#[derive(Default)]
pub(super) struct Streams {
    /// Tasks that wait for something to read.
    pub(super) readers: BTreeMap<u64, Waker>,
    /// Streams whose sending half somebody has, and the tasks that wait for room.
    pub(super) writers: BTreeMap<u64, Option<Waker>>,
    /// Who waits until a stream's data are acknowledged.
    deliveries: BTreeMap<u64, DeliveryWait>,
    /// Streams of the peer that nobody has accepted, by [`Dir`], and whether they began in 0-RTT.
    incoming: [VecDeque<(u64, bool)>; 2],
    /// The first of the peer's streams that has brought nothing, nor any after it; those before it that have not.
    next: [u64; 2],
    skipped: BTreeSet<u64>,
    /// Streams opened from here.
    opened: [u64; 2],
    /// Somebody waits until a stream may be opened, by [`Dir`].
    credit_wanted: [bool; 2],
}

/// Somebody waits until a stream's data are acknowledged.
struct DeliveryWait {
    /// All of it was handed over.
    finished: bool,
    waiting: Vec<oneshot::Sender<Result<Option<VarInt>, Close>>>,
}

impl Streams {
    /// A stream of the peer has something to read: whether for the first time.
    fn is_new(&mut self, stream: u64) -> bool {
        let (next, number) = (&mut self.next[Dir::of(stream) as usize], stream >> 2);
        if number < *next {
            return self.skipped.remove(&stream);
        }
        // No more than the peer may have open.
        self.skipped.extend((*next..number).map(|skipped| skipped << 2 | stream & 3));
        *next = number + 1;
        true
    }

    /// The end of the stream is written.
    pub(super) fn on_finished(&mut self, stream: u64) {
        if let Some(wait) = self.deliveries.get_mut(&stream) {
            wait.finished = true;
        }
    }
}

/// The window of quiche's own controller, which it says nothing of by itself.
pub(super) struct NativeWindow {
    pub(super) watch: NativeWatch,
    bytes: u64,
}

/// Which end of a connection this is.
pub(super) enum Role {
    Server,
    /// Where its session ticket goes.
    Client(Option<Arc<Sessions>>),
}

/// What is behind a connection's lock.
pub(super) struct State {
    pub(super) quic: Quic,
    rng: ConnectionRng,
    server: bool,
    /// Where the session ticket goes, until there is one.
    sessions: Option<Arc<Sessions>>,
    /// Wakes the [`Driver`].
    driver: Option<Waker>,
    send_batch: SendBatch,
    pub(super) streams: Streams,
    native: Option<NativeWindow>,
    /// Follows what limits the sender, whosever the controller is.
    send_watch: Option<NativeWatch>,
    /// Probe timeouts of the path in use, when they were last looked at.
    timeouts: usize,
    established: bool,
    /// A client may send in 0-RTT.
    early: bool,
    /// The driver has let readers go first.
    yielded: bool,
    /// How it was closed.
    pub(super) over: Option<Close>,
    /// Bytes of datagrams that wait to be sent at most.
    datagrams_kept: usize,
}

impl State {
    /// Has the driver look at what was done.
    pub(super) fn wake_driver(&mut self) {
        self.driver.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn close(&mut self, code: u64, reason: &[u8]) {
        // Whatever closed the connection before was first.
        let _ = self.quic.close(true, code, reason);
        self.wake_driver();
    }
}

/// A connection as its handles and its driver share it.
pub(super) struct Shared {
    state: Mutex<State>,
    router: Arc<Router>,
    monitor: Option<Monitor>,
    native: Option<Arc<NativeMonitor>>,
    /// The handshake is complete, or the connection over.
    settled: Notify,
    /// Streams may be opened.
    credit: Notify,
    /// Streams have come, by [`Dir`].
    incoming: [Notify; 2],
    /// Datagrams have come.
    datagrams: Notify,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Does something with the connection at its time and with its random numbers.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let mut rng = state.rng;
        let done = self.router.clock.run(&mut rng, || work(&mut state));
        state.rng = rng;
        done
    }
}

/// Closes the connection when nobody has it any more.
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.with(|state| state.close(0, b""));
    }
}

/// A connection. A handle: clones are the same connection, which is closed when the last of them and of its streams is dropped.
#[derive(Clone)]
pub struct Connection(Arc<Handle>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.stable_id()).finish()
    }
}

impl Connection {
    /// Runs a connection of quiche's on its route, from its first packet on. Of datagrams it keeps so many bytes.
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
            incoming: [Notify::new(), Notify::new()],
            datagrams: Notify::new(),
        });
        if let Some(first) = route.inbox.begin() {
            shared.with(|state| {
                state.receive(first);
                if state.quic.is_closed() { Err(close_of(&state.quic)) } else { Ok(()) }
            })?;
        }
        let runtime = &router.clock.runtime;
        let timer = runtime.new_timer(runtime.now());
        runtime.spawn(Box::pin(Driver { shared: Some(Arc::clone(&shared)), route, timer }));
        Ok(Self(Arc::new(Handle(shared))))
    }

    /// Has what limits the sender followed.
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

    /// What a client sent in 0-RTT was taken; on servers, the handshake is complete.
    pub(super) fn early_data_accepted(&self) -> bool {
        /// BoringSSL's `ssl_early_data_accepted`.
        const ACCEPTED: u32 = 2;
        let state = self.shared().state();
        state.server || state.quic.early_data_reason() == ACCEPTED
    }

    pub(super) fn stable_id(&self) -> usize {
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

    /// Waits until it is closed.
    pub(super) async fn closed(&self) -> Close {
        wait(&self.shared().settled, || self.shared().state().over.clone()).await
    }

    /// Closes the connection with this application error code.
    pub(super) fn close(&self, code: VarInt, reason: &[u8]) {
        self.shared().with(|state| state.close(code.into_inner(), reason));
    }

    /// Opens a stream once the peer's limit permits; whether it starts in 0-RTT.
    async fn open(&self, dir: Dir) -> Result<(u64, bool), Close> {
        let shared = self.shared();
        wait(&shared.credit, || {
            shared.with(|state| {
                if let Some(close) = &state.over {
                    return Some(Err(close.clone()));
                }
                let early = !state.quic.is_established();
                let opened = &mut state.streams.opened[dir as usize];
                let stream = *opened << 2 | (dir as u64) << 1 | u64::from(state.server);
                if early && !state.server && !state.quic.is_in_early_data() {
                    return None;
                }
                // quiche begins a stream with the first write to it.
                if state.quic.stream_send(stream, b"", false).is_err() {
                    state.streams.credit_wanted[dir as usize] = true;
                    return None;
                }
                *opened += 1;
                Some(Ok((stream, early)))
            })
        })
        .await
    }

    pub(super) async fn open_stream(&self) -> Result<(SendStream, RecvStream, bool), Close> {
        let (id, early) = self.open(Dir::Bi).await?;
        let recv = RecvStream::new(self.clone(), id);
        Ok((SendStream::new(self.clone(), id), recv, early))
    }

    pub(super) async fn open_bi(&self) -> Result<Halves, Close> {
        self.open_stream().await.map(|(send, recv, _)| (send, recv))
    }

    pub(super) async fn open_uni(&self) -> Result<SendStream, Close> {
        self.open(Dir::Uni).await.map(|(id, _)| SendStream::new(self.clone(), id))
    }

    /// Sends a datagram. Where more waits than the sender is to keep, the oldest give way: quiche would refuse the newest.
    pub(super) fn send_datagram(&self, data: &[u8]) -> Result<(), String> {
        self.shared().with(|state| {
            if state.over.is_some() {
                return Err("the connection is closed".into());
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
            state.quic.dgram_send(data).map_err(|e| e.to_string())?;
            state.wake_driver();
            Ok(())
        })
    }

    /// The next datagram; `None` once the connection is closed.
    pub(super) async fn read_datagram(&self) -> Option<Bytes> {
        let shared = self.shared();
        wait(&shared.datagrams, || {
            let mut state = shared.state();
            let Some(length) = state.quic.dgram_recv_front_len() else {
                return state.over.as_ref().map(|_| None);
            };
            let mut datagram = vec![0; length];
            // It is as long as it was said to be.
            let read = state.quic.dgram_recv(&mut datagram).ok();
            read.map(|_| Some(datagram.into()))
        })
        .await
    }

    /// The peer's next stream.
    async fn accept(&self, dir: Dir) -> Result<(u64, bool), Close> {
        let shared = self.shared();
        wait(&shared.incoming[dir as usize], || {
            let mut state = shared.state();
            match state.streams.incoming[dir as usize].pop_front() {
                Some(stream) => Some(Ok(stream)),
                None => state.over.clone().map(Err),
            }
        })
        .await
    }

    pub(super) async fn accept_stream(&self) -> Result<(SendStream, RecvStream, bool), Close> {
        let (id, early) = self.accept(Dir::Bi).await?;
        Ok((SendStream::new(self.clone(), id), RecvStream::new(self.clone(), id), early))
    }

    pub(super) async fn accept_bi(&self) -> Result<Halves, Close> {
        self.accept_stream().await.map(|(send, recv, _)| (send, recv))
    }

    pub(super) async fn accept_uni(&self) -> Result<RecvStream, Close> {
        self.accept(Dir::Uni).await.map(|(id, _)| RecvStream::new(self.clone(), id))
    }

    /// Ends with `None` when the peer has acknowledged all data of the stream and its end, with a code when it was stopped or reset.
    pub(super) fn delivery(
        &self,
        stream: u64,
        finished: bool,
    ) -> impl Future<Output = Result<Option<VarInt>, Close>> + Send + Sync + use<> {
        let (sender, told) = oneshot::channel();
        let mut state = self.shared().state();
        if let Some(close) = &state.over {
            let _ = sender.send(Err(close.clone()));
        } else {
            let wait = state.streams.deliveries.entry(stream);
            let wait = wait.or_insert_with(|| DeliveryWait { finished, waiting: Vec::new() });
            wait.waiting.push(sender);
            // It may be over already.
            state.wake_driver();
        }
        async move { told.await.unwrap_or_else(|_| Err(ended())) }
    }

    pub(super) fn stats(&self) -> ConnectionStats {
        let shared = self.shared();
        let state = shared.state();
        let (quic, stats) = (&state.quic, state.quic.stats());
        let path = quic.path_stats().find(|path| path.active);
        let own = ConnectionStats {
            // Without a sample it is a guess.
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

fn window(quic: &Quic) -> u64 {
    quic.path_stats().find(|path| path.active).map_or(0, |path| path.cwnd as u64)
}

/// How a connection was closed.
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

/// Without a word of either side.
fn ended() -> Close {
    Close {
        by: Closer::Peer,
        kind: CloseKind::Reset,
        code: None,
        reason: Bytes::new(),
        text: "ended".into(),
    }
}
