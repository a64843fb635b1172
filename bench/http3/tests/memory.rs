//! A QUIC connection in memory, with limits on streams and buffers.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use fathom_http3::priority::Priority;
use fathom_http3::transport::{self, Accepted, ConnectionError, DatagramError, StreamError};

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// One direction of a stream.
#[derive(Default)]
pub(crate) struct Pipe {
    chunks: VecDeque<Bytes>,
    buffered: usize,
    pub(crate) finished: bool,
    pub(crate) reset: Option<u64>,
    pub(crate) stopped: Option<u64>,
    /// Number of writes that took bytes.
    pub(crate) writes: usize,
    pub(crate) priority: Option<Priority>,
}

struct State {
    /// Pipes by stream and sending side.
    pipes: HashMap<(u64, Side), Pipe>,
    /// Streams that the side has not accepted.
    arrived: HashMap<(Side, bool), VecDeque<u64>>,
    /// Streams that the side has opened, and may open, by direction (true: unidirectional).
    opened: HashMap<(Side, bool), u64>,
    permitted: HashMap<(Side, bool), u64>,
    datagrams: HashMap<Side, VecDeque<Bytes>>,
    closed: Option<(Side, u64, Bytes)>,
    /// Largest number of bytes in a pipe.
    capacity: usize,
    wakers: Vec<Waker>,
}

impl State {
    fn pipe(&mut self, id: u64, sender: Side) -> &mut Pipe {
        self.pipes.entry((id, sender)).or_default()
    }

    /// Returns the error of a connection that is closed, as `side` sees it.
    fn over(&self, side: Side) -> Option<ConnectionError> {
        let (by, code, reason) = self.closed.clone()?;
        Some(if by == side {
            ConnectionError::Local
        } else {
            ConnectionError::Application { code, reason }
        })
    }
}

/// A connection as one side sees it.
#[derive(Clone)]
pub(crate) struct Connection {
    state: Arc<Mutex<State>>,
    side: Side,
}

/// Returns the server's and the client's end of a connection.
pub(crate) fn pair() -> (Connection, Connection) {
    let state = Arc::new(Mutex::new(State {
        pipes: HashMap::new(),
        arrived: HashMap::new(),
        opened: HashMap::new(),
        permitted: HashMap::new(),
        datagrams: HashMap::new(),
        closed: None,
        capacity: 1 << 16,
        wakers: Vec::new(),
    }));
    let end = |side| Connection { state: Arc::clone(&state), side };
    (end(Side::Server), end(Side::Client))
}

impl Connection {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes everyone who waits.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Sets the number of unidirectional streams that this side may open.
    pub(crate) fn permit_unidirectional(&self, streams: u64) {
        self.change(|state| state.permitted.insert((self.side, true), streams));
    }

    /// Sets the number of bytes that each direction of a stream holds.
    pub(crate) fn set_capacity(&self, bytes: usize) {
        self.change(|state| state.capacity = bytes);
    }

    /// Returns the code with which the other side closed the connection.
    pub(crate) fn close_code(&self) -> Option<u64> {
        self.lock().closed.as_ref().filter(|close| close.0 != self.side).map(|close| close.1)
    }

    /// Inspects what the other side sends on a stream.
    pub(crate) fn inspect<T>(&self, id: u64, see: impl FnOnce(&Pipe) -> T) -> T {
        see(self.lock().pipe(id, self.side.other()))
    }

    /// Returns the code with which the other side stopped a stream of this side.
    pub(crate) fn stop_code(&self, id: u64) -> Option<u64> {
        self.lock().pipe(id, self.side).stopped
    }

    /// Opens a stream without HTTP/3.
    pub(crate) async fn open(&self) -> (SendStream, ReceiveStream) {
        self.halves(poll_fn(|cx| self.poll_open(cx, false)).await.expect("an open connection"))
    }

    /// Opens a unidirectional stream without HTTP/3.
    pub(crate) async fn open_unidirectional(&self) -> SendStream {
        self.halves(poll_fn(|cx| self.poll_open(cx, true)).await.expect("an open connection")).0
    }

    /// Accepts a stream without HTTP/3.
    pub(crate) async fn accept(&self) -> (SendStream, ReceiveStream) {
        self.halves(poll_fn(|cx| self.poll_accept(cx, false)).await.expect("an open connection"))
    }

    /// Accepts a unidirectional stream without HTTP/3.
    pub(crate) async fn accept_unidirectional(&self) -> ReceiveStream {
        self.halves(poll_fn(|cx| self.poll_accept(cx, true)).await.expect("an open connection")).1
    }

    fn halves(&self, id: u64) -> (SendStream, ReceiveStream) {
        let connection = self.clone();
        (SendStream { connection: connection.clone(), id }, ReceiveStream { connection, id })
    }

    fn poll_accept(&self, cx: &Context<'_>, uni: bool) -> Poll<Result<u64, ConnectionError>> {
        let mut state = self.lock();
        if let Some(id) = state.arrived.entry((self.side, uni)).or_default().pop_front() {
            return Poll::Ready(Ok(id));
        }
        match state.over(self.side) {
            Some(error) => Poll::Ready(Err(error)),
            None => {
                state.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_open(&self, cx: &Context<'_>, uni: bool) -> Poll<Result<u64, ConnectionError>> {
        let mut state = self.lock();
        if let Some(error) = state.over(self.side) {
            return Poll::Ready(Err(error));
        }
        let permitted = *state.permitted.get(&(self.side, uni)).unwrap_or(&100);
        let opened = state.opened.entry((self.side, uni)).or_default();
        if *opened >= permitted {
            state.wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        *opened += 1;
        // RFC 9000 §2.1.
        let id = (*opened - 1) * 4 + u64::from(uni) * 2 + u64::from(self.side == Side::Server);
        drop(state);
        let key = (self.side.other(), uni);
        self.change(|state| state.arrived.entry(key).or_default().push_back(id));
        Poll::Ready(Ok(id))
    }
}

impl transport::Connection for Connection {
    type SendStream = SendStream;
    type ReceiveStream = ReceiveStream;
    type Incoming = Self;
    type Opener = Self;

    fn incoming(&self) -> Self {
        self.clone()
    }

    fn opener(&self) -> Self {
        self.clone()
    }

    fn close(&self, code: u64, reason: &[u8]) {
        let close = (self.side, code, Bytes::copy_from_slice(reason));
        self.change(|state| _ = state.closed.get_or_insert(close));
    }

    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        let to = self.side.other();
        self.change(|state| state.datagrams.entry(to).or_default().push_back(data));
        Ok(())
    }

    fn max_datagram_size(&self) -> Option<usize> {
        Some(1_200)
    }
}

impl transport::Incoming<Self> for Connection {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Self>> {
        self.poll_accept(cx, false).map_ok(|id| self.halves(id))
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReceiveStream, ConnectionError>> {
        self.poll_accept(cx, true).map_ok(|id| self.halves(id).1)
    }

    fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        let mut state = self.lock();
        match state.datagrams.entry(self.side).or_default().pop_front() {
            Some(datagram) => Poll::Ready(Ok(datagram)),
            None => {
                state.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl transport::Opener<Self> for Connection {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Self>> {
        self.poll_open(cx, false).map_ok(|id| self.halves(id))
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, ConnectionError>> {
        self.poll_open(cx, true).map_ok(|id| self.halves(id).0)
    }
}

/// The sending half of a stream. Like those of quinn, it finishes the stream when it is dropped.
pub(crate) struct SendStream {
    connection: Connection,
    id: u64,
}

impl SendStream {
    fn pipe<T>(&self, change: impl FnOnce(&mut Pipe) -> T) -> T {
        self.connection.change(|state| change(state.pipe(self.id, self.connection.side)))
    }

    /// Writes bytes at once.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        self.pipe(|pipe| {
            pipe.buffered += bytes.len();
            pipe.chunks.push_back(bytes);
        });
    }
}

impl transport::SendStream for SendStream {
    fn id(&self) -> u64 {
        self.id
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamError>> {
        let side = self.connection.side;
        let waker = cx.waker();
        let (written, wakers) = {
            let mut state = self.connection.lock();
            if let Some(error) = state.over(side) {
                return Poll::Ready(Err(error.into()));
            }
            let capacity = state.capacity;
            let pipe = state.pipe(self.id, side);
            if let Some(code) = pipe.stopped {
                return Poll::Ready(Err(StreamError::Peer(code)));
            }
            if pipe.finished || pipe.reset.is_some() {
                return Poll::Ready(Err(StreamError::Closed));
            }
            let mut written = 0;
            for chunk in chunks {
                let length = chunk.len().min(capacity.saturating_sub(pipe.buffered));
                if length > 0 {
                    pipe.chunks.push_back(chunk.split_to(length));
                    pipe.buffered += length;
                    written += length;
                }
            }
            if written == 0 {
                state.wakers.push(waker.clone());
                return Poll::Pending;
            }
            pipe.writes += 1;
            (written, std::mem::take(&mut state.wakers))
        };
        assert!(written > 0);
        wakers.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    fn finish(&mut self) -> Result<(), StreamError> {
        self.pipe(|pipe| match pipe.stopped {
            Some(code) => Err(StreamError::Peer(code)),
            None => {
                pipe.finished = true;
                Ok(())
            }
        })
    }

    fn reset(&mut self, code: u64) {
        self.pipe(|pipe| _ = pipe.reset.get_or_insert(code));
    }

    fn set_priority(&mut self, priority: Priority) {
        self.pipe(|pipe| pipe.priority = Some(priority));
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionError>> {
        let mut state = self.connection.lock();
        let pipe = state.pipe(self.id, self.connection.side);
        if pipe.stopped.is_some() || (pipe.finished && pipe.chunks.is_empty()) {
            return Poll::Ready(Ok(pipe.stopped));
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.pipe(|pipe| pipe.finished = true);
    }
}

/// The receiving half of a stream.
pub(crate) struct ReceiveStream {
    connection: Connection,
    id: u64,
}

impl transport::ReceiveStream for ReceiveStream {
    fn id(&self) -> u64 {
        self.id
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        let side = self.connection.side;
        let mut state = self.connection.lock();
        let pipe = state.pipe(self.id, side.other());
        if let Some(code) = pipe.reset {
            return Poll::Ready(Err(StreamError::Peer(code)));
        }
        if let Some(chunk) = pipe.chunks.pop_front() {
            pipe.buffered -= chunk.len();
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(Some(chunk)));
        }
        if pipe.finished {
            return Poll::Ready(Ok(None));
        }
        if let Some(error) = state.over(side) {
            return Poll::Ready(Err(error.into()));
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }

    fn stop(&mut self, code: u64) {
        let sender = self.connection.side.other();
        self.connection.change(|state| {
            _ = state.pipe(self.id, sender).stopped.get_or_insert(code);
        });
    }
}
