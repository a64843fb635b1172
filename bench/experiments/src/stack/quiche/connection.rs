//! One quiche connection in virtual time: its state, and the task that sends and keeps its timers.
//!
//! quiche does no I/O. Datagrams are fed to it as the socket has them ([`Connection::receive`]); then its task ([`Driver`]) hears what
//! they brought, goes on writing, sends, and sleeps until its timer. Whatever quiche does sees the virtual time and the connection's rng.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use fathom_cc::Time;
use fathom_netsim::sim::{Ecn, SimHandle, SimSocket, Sleep};
use fathom_stacks::NativeWatch;
use parking_lot::{Mutex, MutexGuard};
use quiche::fathom::simulation::{ConnectionRng, run_at};
use quiche::h3;

use super::endpoint::{Cid, Endpoint};
use crate::stack::LARGEST_DATAGRAM;

/// Lets quiche send bodies without copying them.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers;

impl quiche::BufFactory for Buffers {
    type Buf = Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(buf: &[u8]) -> Bytes {
        Bytes::copy_from_slice(buf)
    }

    fn dgram_buf_from_slice(buf: &[u8]) -> Vec<u8> {
        buf.to_vec()
    }
}

/// The code of a connection that cannot go on (RFC 9000 §20.1).
const INTERNAL_ERROR: u64 = 1;

pub(super) type Quic = quiche::Connection<Buffers>;

/// What one side does with HTTP/3.
pub(super) trait Side: Send + 'static {
    /// HTTP/3 is open.
    fn opened(&mut self) {}
    /// An event of a stream.
    fn on_readable(&mut self, quic: &mut Quic, http: &mut h3::Connection, stream: u64, event: h3::Event, now: Time);
    /// All events were heard: there may be room to write.
    fn write(&mut self, _: &mut Quic, _: &mut h3::Connection) {}
    /// The connection is closing or closed. Comes once.
    fn over(&mut self, why: String);
}

/// A datagram that leaves later.
struct UnsentPacket {
    data: Vec<u8>,
    info: quiche::SendInfo,
    ecn: Option<Ecn>,
}

/// A connection and what belongs to it.
pub(super) struct Connection<S> {
    pub(super) quic: Quic,
    pub(super) http: Option<h3::Connection>,
    pub(super) side: S,
    pub(super) over: bool,
    rng: ConnectionRng,
    /// The identifiers it is reached by.
    pub(super) cids: Vec<Cid>,
    /// Wakes its [`Driver`].
    waker: Option<Waker>,
    unsent: Option<UnsentPacket>,
    /// Follows quiche's own controller.
    watched: Option<NativeWatch>,
}

pub(super) type Shared<S> = Arc<Mutex<Connection<S>>>;

pub(super) fn lock<S>(shared: &Shared<S>) -> MutexGuard<'_, Connection<S>> {
    shared.lock()
}

impl<S: Side> Connection<S> {
    pub(super) fn new(
        quic: Quic,
        rng: ConnectionRng,
        cids: Vec<Cid>,
        side: S,
        watched: Option<NativeWatch>,
    ) -> Shared<S> {
        let connection = Self { quic, http: None, side, over: false, rng, cids, waker: None, unsent: None, watched };
        Arc::new(Mutex::new(connection))
    }

    /// Does something with the connection at the current simulated time, and has its driver look at what came of it.
    pub(super) fn with<T>(&mut self, sim: &SimHandle, work: impl FnOnce(&mut Self) -> T) -> T {
        let mut rng = self.rng;
        let done = run_at(sim.instant(), &mut rng, || work(self));
        self.rng = rng;
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
        done
    }

    /// A datagram arrived; `bytes` are decrypted in place.
    pub(super) fn receive(&mut self, sim: &SimHandle, bytes: &mut [u8], info: quiche::RecvInfo, ecn: Option<Ecn>) {
        self.with(sim, |c| {
            c.watching(|c| {
                c.quic.set_received_ecn(field(ecn));
                // What cannot be read is dropped; a violation closes the connection, which sending tells the peer.
                let _ = c.quic.recv(bytes, info);
            });
            c.report();
        });
    }

    /// Counts a reduction when the window of quiche's own controller falls in `work`.
    fn watching(&mut self, work: impl FnOnce(&mut Self)) {
        let before = self.watched.is_some().then(|| window(&self.quic)).flatten();
        work(self);
        if let (Some(watched), Some(before)) = (&self.watched, before) {
            watched.reduced(before, window(&self.quic).unwrap_or(before));
        }
    }

    fn report(&self) {
        if let Some(watched) = self.watched.as_ref().filter(|watched| watched.observer.is_some()) {
            watched.record(window(&self.quic).unwrap_or(0), None);
        }
    }

    /// Everything that is due: timers, events, writing, sending. When to come again; `None`: never, the connection is closed.
    fn drive(&mut self, sim: &SimHandle, socket: &SimSocket, http: &h3::Config) -> Option<Instant> {
        let now = sim.instant();
        if self.quic.timeout_instant().is_some_and(|due| due <= now) {
            self.watching(|c| c.quic.on_timeout());
        }
        if self.http.is_none() && self.quic.is_established() {
            self.http = h3::Connection::with_transport(&mut self.quic, http).ok();
            self.side.opened();
        }
        self.on_readable(sim.time());
        self.send(now, socket);
        if !self.over && (self.quic.is_closed() || self.quic.is_draining()) {
            self.over = true;
            self.side.over(self.why());
        }
        if self.quic.is_closed() {
            return None;
        }
        let release = self.unsent.as_ref().map(|unsent| unsent.info.at);
        self.quic.timeout_instant().into_iter().chain(release).min()
    }

    fn on_readable(&mut self, now: Time) {
        let Some(http) = &mut self.http else { return };
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, event)) => self.side.on_readable(&mut self.quic, http, stream, event, now),
                Err(h3::Error::Done) => break,
                // quiche has closed the connection with this error.
                Err(_) => return,
            }
        }
        self.side.write(&mut self.quic, http);
    }

    fn send(&mut self, now: Instant, socket: &SimSocket) {
        if let Some(unsent) = self.unsent.take_if(|unsent| unsent.info.at <= now) {
            hand_over(socket, &unsent.data, unsent.info, unsent.ecn);
        }
        let mut buffer = [0; LARGEST_DATAGRAM as usize];
        while self.unsent.is_none() {
            match self.quic.send(&mut buffer) {
                Ok((len, info)) => {
                    let ecn = ecn_to_send(&self.quic);
                    if info.at > now {
                        self.unsent = Some(UnsentPacket { data: buffer[..len].to_vec(), info, ecn });
                    } else {
                        hand_over(socket, &buffer[..len], info, ecn);
                    }
                }
                Err(quiche::Error::Done) => break,
                Err(e) => {
                    let reason = e.to_string();
                    if self.quic.close(false, INTERNAL_ERROR, reason.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        }
    }

    /// Why the connection ended, in a few words.
    fn why(&self) -> String {
        let told = |by: &str, e: &quiche::ConnectionError| {
            format!("{by} closed with {:#x} {}", e.error_code, String::from_utf8_lossy(&e.reason))
        };
        match (self.quic.peer_error(), self.quic.local_error()) {
            (Some(e), _) => told("the peer", e),
            (None, Some(e)) => told("this side", e),
            (None, None) if self.quic.is_timed_out() => "timed out".into(),
            (None, None) => "ended".into(),
        }
    }
}

/// The network takes every packet that belongs to a flow, and these do.
fn hand_over(socket: &SimSocket, data: &[u8], info: quiche::SendInfo, ecn: Option<Ecn>) {
    let _ = socket.send_for_quiche(data, &info, ecn);
}

fn window(quic: &Quic) -> Option<u64> {
    quic.path_stats().next().map(|path| path.cwnd as u64)
}

/// The ECN field of an IP header (RFC 3168 §5).
fn field(ecn: Option<Ecn>) -> u8 {
    match ecn {
        None => 0,
        Some(Ecn::Ect1) => 1,
        Some(Ecn::Ect0) => 2,
        Some(Ecn::Ce) => 3,
    }
}

fn ecn_to_send(quic: &Quic) -> Option<Ecn> {
    match quic.ecn_to_send() {
        1 => Some(Ecn::Ect1),
        2 => Some(Ecn::Ect0),
        3 => Some(Ecn::Ce),
        _ => None,
    }
}

/// Sends for a connection and keeps its timers, until it is closed.
pub(super) struct Driver<S> {
    connection: Shared<S>,
    endpoint: Arc<Endpoint<S>>,
    timer: Sleep,
}

impl<S: Side> Driver<S> {
    pub(super) fn new(connection: Shared<S>, endpoint: Arc<Endpoint<S>>) -> Self {
        let timer = endpoint.sim.sleep_until(endpoint.sim.time());
        Self { connection, endpoint, timer }
    }
}

impl<S: Side> Future for Driver<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Endpoint { sim, socket, http, .. } = &*this.endpoint;
        let mut connection = lock(&this.connection);
        // While it drives itself it need not wake itself.
        let waker = connection.waker.take().filter(|waker| waker.will_wake(cx.waker()));
        loop {
            let Some(next) = connection.with(sim, |c| c.drive(sim, socket, http)) else {
                this.endpoint.forget(&connection.cids);
                return Poll::Ready(());
            };
            this.timer.reset(next);
            if Pin::new(&mut this.timer).poll(cx).is_pending() {
                break;
            }
        }
        connection.waker = Some(waker.unwrap_or_else(|| cx.waker().clone()));
        Poll::Pending
    }
}
