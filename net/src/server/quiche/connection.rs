//! One connection: timers, packets, its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quiche::h3;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::coalesced::behind_handshake;
use super::entry::Packet;
use super::socket::{Outbox, Socket};
use super::streams::Streams;
use super::{LONG, Quic, stopped};
use crate::metrics::{Controller, Ended, Metrics};
use crate::server::NO_ERROR;
use crate::server::admission::Place;
use crate::server::connection::{EXCESSIVE_LOAD, HANDSHAKE, QUIET, longest_drain};
use crate::server::door::with_probe;
use crate::server::reply::Common;

/// Packets read before anything is sent.
const AT_ONCE: usize = 32;

/// A connection that a client has begun.
pub(super) struct Begun {
    pub(super) quic: Quic,
    /// Its controller is one of Fathom's.
    pub(super) ours: bool,
    pub(super) common: Arc<Common>,
    pub(super) inbox: mpsc::Receiver<Packet>,
    pub(super) place: Place,
    pub(super) socket: Arc<Socket>,
    pub(super) http: Arc<h3::Config>,
    /// No new requests from here on.
    pub(super) stop: watch::Receiver<bool>,
    /// It is closed, whatever is open.
    pub(super) closed: watch::Receiver<bool>,
}

/// Serves one client from its first packet to its last.
pub(super) async fn run(begun: Begun) {
    let common = Arc::clone(&begun.common);
    let tap = common.tap.as_ref().filter(|_| !begun.ours);
    let seen = Mutex::new(Ended::default());
    let Begun { stop, closed, .. } = &begun;
    let signals = (stop.clone(), closed.clone());
    let books = Books {
        metrics: &common.context.metrics,
        label: common.label(),
        seen: &seen,
        sampled: tap.is_some(),
        open: false,
    };
    let served = Connection::new(begun, books).drive(signals);
    let now = || *seen.lock().unwrap_or_else(PoisonError::into_inner);
    match tap {
        // The stack's own controllers tell nothing by themselves.
        Some(tap) => {
            tokio::select! {
                () = served => {}
                never = tap.sample(now) => match never {},
            }
            tap.look(&now());
        }
        None => served.await,
    }
}

/// What is counted of a connection, whatever becomes of its task.
struct Books<'a> {
    metrics: &'a Metrics,
    label: &'a Controller,
    seen: &'a Mutex<Ended>,
    /// Somebody looks at `seen` before the end.
    sampled: bool,
    open: bool,
}

impl Drop for Books<'_> {
    fn drop(&mut self) {
        if self.open {
            self.metrics.closed(self.label, &self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        } else {
            self.metrics.failed(self.label);
        }
    }
}

struct Connection<'a> {
    quic: Quic,
    ours: bool,
    /// The window of the stack's own controller fell so often, and where it was.
    reductions: u64,
    window: usize,
    http: Option<h3::Connection>,
    settings: Arc<h3::Config>,
    streams: Streams,
    inbox: mpsc::Receiver<Packet>,
    socket: Arc<Socket>,
    outbox: Outbox,
    common: Arc<Common>,
    place: Place,
    /// When the handshake must be over, while it lasts.
    handshake: Option<Instant>,
    /// When it was last of use: what its client sends besides requests shows nothing. And the requests that had come then.
    used: (Instant, u64),
    books: Books<'a>,
    /// No new requests are taken.
    going: bool,
    /// Probe timeouts of the path in use, when they were last looked at.
    timeouts: usize,
    /// While there is nothing to answer.
    quiet: Option<Quiet>,
}

/// The wait for silence before a connection ends.
#[derive(Clone, Copy)]
struct Quiet {
    /// Packets sent so far.
    sent: usize,
    /// When to see whether there were more.
    at: Instant,
    /// When the connection ends whatever was sent.
    longest: Instant,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

impl<'a> Connection<'a> {
    fn new(begun: Begun, books: Books<'a>) -> Self {
        let outbox = Outbox::new(&begun.socket);
        Self {
            quic: begun.quic,
            ours: begun.ours,
            reductions: 0,
            window: 0,
            http: None,
            settings: begun.http,
            streams: Streams::new(Arc::clone(&begun.common)),
            inbox: begun.inbox,
            socket: begun.socket,
            outbox,
            common: begun.common,
            place: begun.place,
            handshake: Some(Instant::now() + HANDSHAKE),
            used: (Instant::now(), 0),
            books,
            going: false,
            timeouts: 0,
            quiet: None,
        }
    }

    /// Does what is due, and waits for more, until the connection is over.
    async fn drive(mut self, (mut stop, mut closed): (watch::Receiver<bool>, watch::Receiver<bool>)) {
        let mut closing = false;
        loop {
            let Some(next) = self.due().await else { break };
            tokio::select! {
                packet = self.inbox.recv() => match packet {
                    Some(packet) => self.receive(packet),
                    None => break,
                },
                () = self.streams.progress() => {}
                () = sleep_until(next) => {}
                () = stopped(&mut stop), if !self.going => self.going = true,
                () = stopped(&mut closed), if !closing => {
                    closing = true;
                    self.close(NO_ERROR);
                }
            }
        }
        self.streams.over();
    }

    /// Timers, events, responses, packets. When to come again; `None`: never.
    async fn due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if self.quic.timeout_instant().is_some_and(|due| due <= now.into_std()) {
            self.watching(Quic::on_timeout);
            self.doubt_size();
        }
        self.shake_hands(now);
        if let Some(http) = &mut self.http {
            self.streams.hear(&mut self.quic, http, now);
            self.going |= self.streams.are_many();
            self.streams.write(&mut self.quic, http, self.going);
            if self.streams.are_too_many() || self.streams.are_ousted() {
                self.close(EXCESSIVE_LOAD);
            }
        }
        let unused = self.unused(now);
        if self.going {
            self.end_when_quiet(now);
        }
        let held = self.outbox.send(&mut self.quic, &self.socket, now.into_std()).await;
        // With packets of another size a window changes that nothing has happened to.
        self.look_at_window();
        if self.books.sampled {
            self.note();
        }
        // A close that may not be sent, for the client has not shown its address, is none to wait for.
        let untold = held.is_none() && self.quic.local_error().is_some();
        if self.quic.is_closed() || self.quic.is_draining() || untold {
            return None;
        }
        let timers = self.quic.timeout_instant().into_iter().chain(held).map(Instant::from_std);
        let own = self
            .handshake
            .into_iter()
            .chain(self.quiet.map(|quiet| quiet.at.min(quiet.longest)))
            .chain(unused)
            .chain(self.streams.due());
        Some(timers.chain(own).min().unwrap_or(now + LONG))
    }

    /// Takes a packet, and others that are there.
    fn receive(&mut self, packet: Packet) {
        let mut packet = Some(packet);
        for _ in 0..AT_ONCE {
            let Some(Packet { mut bytes, way }) = packet.take().or_else(|| self.inbox.try_recv().ok()) else { return };
            self.watching(|quic| {
                quic.set_received_ecn(way.ecn);
                // What cannot be read is dropped; a violation closes the connection, which sending tells the peer.
                let packets = if quic.is_established() { behind_handshake(&mut bytes) } else { &mut bytes[..] };
                if !packets.is_empty() {
                    let _ = quic.recv(packets, quiche::RecvInfo { from: way.from, to: way.to });
                }
            });
        }
    }

    /// What was not acknowledged for so long may have been too large: a path's MTU may fall, and quiche does not look by itself.
    fn doubt_size(&mut self) {
        let timeouts = self.quic.path_stats().find(|path| path.active).map_or(0, |path| path.total_pto_count);
        if std::mem::replace(&mut self.timeouts, timeouts) != timeouts {
            self.quic.revalidate_pmtu();
        }
    }

    fn look_at_window(&mut self) {
        if !self.ours {
            self.window = self.quic.path_stats().find(|path| path.active).map_or(0, |path| path.cwnd);
        }
    }

    /// Counts a reduction when the window of the stack's own controller falls in `work`.
    fn watching(&mut self, work: impl FnOnce(&mut Quic)) {
        work(&mut self.quic);
        let before = self.window;
        self.look_at_window();
        self.reductions += u64::from(self.window < before);
    }

    /// Opens HTTP/3 once the handshake is over; gives up one that takes too long.
    fn shake_hands(&mut self, now: Instant) {
        let Some(end) = self.handshake else { return };
        if self.quic.is_established() {
            self.books.metrics.opened(self.books.label);
            self.books.open = true;
            self.handshake = None;
            self.place.connected();
            self.common.connected();
            self.used.0 = now;
            self.http = h3::Connection::with_transport(&mut self.quic, &self.settings).ok();
            if self.http.is_none() {
                self.close(NO_ERROR);
            }
        } else if end <= now {
            self.close(NO_ERROR);
        }
    }

    /// Takes leave of a client that has asked for nothing for too long. When it will have, if it goes on.
    fn unused(&mut self, now: Instant) -> Option<Instant> {
        if self.going || self.http.is_none() {
            return None;
        }
        let requests = self.streams.requests();
        if self.streams.are_answered() && requests == self.used.1 {
            let end = self.used.0.checked_add(self.common.context.limits.request)?;
            if end > now {
                return Some(end);
            }
            self.books.metrics.requestless();
            self.going = true;
            // GOAWAY is written at once.
            return Some(now);
        }
        self.used = (now, requests);
        now.checked_add(self.common.context.limits.request)
    }

    /// Ends the connection when there is nothing left to answer or to send: what is not acknowledged would be sent again within a probe
    /// timeout, and is lost if the connection is closed before.
    fn end_when_quiet(&mut self, now: Instant) {
        if !self.streams.is_idle() || self.http.is_none() {
            self.quiet = None;
            return;
        }
        let sent = self.quic.stats().sent;
        let rtt = self.quic.path_stats().map(|path| path.rtt).max().unwrap_or(Duration::ZERO);
        let at = now + QUIET.max(rtt * 4);
        match self.quiet {
            Some(quiet) if now >= quiet.longest => self.close(NO_ERROR),
            Some(quiet) if now < quiet.at => {}
            Some(quiet) if quiet.sent == sent => self.close(NO_ERROR),
            Some(quiet) => self.quiet = Some(Quiet { sent, at, ..quiet }),
            None => self.quiet = Some(Quiet { sent, at, longest: now + longest_drain(rtt) }),
        }
    }

    fn close(&mut self, code: u32) {
        // HTTP/3's codes are for clients that speak it. Whatever closed the connection before was first.
        let http = self.http.is_some();
        let _ = self.quic.close(http, if http { code.into() } else { 0 }, b"");
    }

    fn note(&self) {
        let report = self.quic.fathom().map(|probe| probe.report());
        let ended = Ended { reductions: self.reductions, ..crate::stats::quiche(&self.quic) };
        *self.books.seen.lock().unwrap_or_else(PoisonError::into_inner) = with_probe(ended, report);
    }
}
