//! One connection: timers, packets, its end.

use std::sync::Arc;
use std::time::Duration;

use fathom_stacks::ConnectionStats;
use parking_lot::Mutex;
use quiche::h3;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::coalesced::packets_after_handshake;
use super::quic::{FAR_FUTURE, Quic};
use super::request_streams::RequestStreams;
use super::socket::{Packet, SendBatch, Socket};
use crate::metrics::{ControllerLabels, Metrics};
use crate::server::admission::AdmissionGuard;
use crate::server::connection::{EXCESSIVE_LOAD, HANDSHAKE, QUIET, longest_drain};
use crate::server::response::ConnectionContext;
use crate::server::{NO_ERROR, stopped};

/// Packets read before anything is sent.
const AT_ONCE: usize = 32;

/// A connection that a client has begun.
pub(super) struct NewConnection {
    pub(super) quic: Quic,
    /// Its controller is one of Fathom's.
    pub(super) fathom_controller: bool,
    pub(super) context: Arc<ConnectionContext>,
    pub(super) inbox: mpsc::Receiver<Packet>,
    pub(super) admission_guard: AdmissionGuard,
    pub(super) socket: Arc<Socket>,
    pub(super) http: Arc<h3::Config>,
    /// No new requests from here on.
    pub(super) stop: watch::Receiver<bool>,
    /// It is closed, whatever is open.
    pub(super) closed: watch::Receiver<bool>,
}

/// Runs one connection to its end.
pub(super) async fn run(new: NewConnection) {
    let context = Arc::clone(&new.context);
    let log = context.log.as_ref().filter(|_| !new.fathom_controller);
    let stats = Mutex::new(ConnectionStats::default());
    let NewConnection { stop, closed, .. } = &new;
    let signals = (stop.clone(), closed.clone());
    let record = ConnectionRecord {
        metrics: &context.server.metrics,
        label: context.label(),
        stats: &stats,
        sampled: log.is_some(),
        open: false,
    };
    let served = Connection::new(new, record).drive(signals);
    let now = || *stats.lock();
    match log {
        // Native controllers report nothing by themselves.
        Some(log) => {
            tokio::select! {
                () = served => {}
                never = log.sample(now) => match never {},
            }
            log.record_changes(&now());
        }
        None => served.await,
    }
}

/// Records a connection's statistics, even if its task is dropped.
struct ConnectionRecord<'a> {
    metrics: &'a Metrics,
    label: &'a ControllerLabels,
    stats: &'a Mutex<ConnectionStats>,
    /// Somebody looks at `stats` before the end.
    sampled: bool,
    open: bool,
}

impl Drop for ConnectionRecord<'_> {
    fn drop(&mut self) {
        if self.open {
            self.metrics.closed(self.label, &self.stats.lock());
        } else {
            self.metrics.failed(self.label);
        }
    }
}

struct Connection<'a> {
    quic: Quic,
    fathom_controller: bool,
    /// The window of the stack's own controller fell so often, and where it was.
    reductions: u64,
    window: usize,
    http: Option<h3::Connection>,
    settings: Arc<h3::Config>,
    streams: RequestStreams,
    inbox: mpsc::Receiver<Packet>,
    socket: Arc<Socket>,
    send_batch: SendBatch,
    context: Arc<ConnectionContext>,
    admission_guard: AdmissionGuard,
    /// When the handshake must be over, while it lasts.
    handshake: Option<Instant>,
    /// When it last had a request, and the number of requests until then.
    last_used: (Instant, u64),
    record: ConnectionRecord<'a>,
    /// No new requests are taken.
    shutting_down: bool,
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
        self.update_stats();
    }
}

impl<'a> Connection<'a> {
    fn new(new: NewConnection, record: ConnectionRecord<'a>) -> Self {
        let send_batch = SendBatch::new(&new.socket);
        Self {
            quic: new.quic,
            fathom_controller: new.fathom_controller,
            reductions: 0,
            window: 0,
            http: None,
            settings: new.http,
            streams: RequestStreams::new(Arc::clone(&new.context)),
            inbox: new.inbox,
            socket: new.socket,
            send_batch,
            context: new.context,
            admission_guard: new.admission_guard,
            handshake: Some(Instant::now() + HANDSHAKE),
            last_used: (Instant::now(), 0),
            record,
            shutting_down: false,
            timeouts: 0,
            quiet: None,
        }
    }

    /// Runs timers and I/O until the connection is closed.
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
                () = stopped(&mut stop), if !self.shutting_down => self.shutting_down = true,
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
            self.count_reductions(Quic::on_timeout);
            self.revalidate_pmtu();
        }
        self.check_handshake(now);
        if let Some(http) = &mut self.http {
            self.streams.process_events(&mut self.quic, http, now);
            self.shutting_down |= self.streams.should_shut_down();
            self.streams.write(&mut self.quic, http, self.shutting_down);
            if self.streams.are_excessive() || self.streams.are_evicted() {
                self.close(EXCESSIVE_LOAD);
            }
        }
        let unused = self.unused(now);
        if self.shutting_down {
            self.end_when_quiet(now);
        }
        let held = self.send_batch.send(&mut self.quic, &self.socket, now.into_std()).await;
        // With packets of another size a window changes that nothing has happened to.
        self.look_at_window();
        if self.record.sampled {
            self.update_stats();
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
        Some(timers.chain(own).min().unwrap_or(now + FAR_FUTURE))
    }

    /// Takes a packet, and others that are there.
    fn receive(&mut self, packet: Packet) {
        let mut packet = Some(packet);
        for _ in 0..AT_ONCE {
            let Some(Packet { mut bytes, path }) = packet.take().or_else(|| self.inbox.try_recv().ok()) else { return };
            self.count_reductions(|quic| {
                quic.set_received_ecn(path.ecn);
                // What cannot be read is dropped; a violation closes the connection, which sending tells the peer.
                let packets = if quic.is_established() { packets_after_handshake(&mut bytes) } else { &mut bytes[..] };
                if !packets.is_empty() {
                    let _ = quic.recv(packets, quiche::RecvInfo { from: path.from, to: path.to });
                    // Nobody asks for them, and quiche keeps as many as a client that changes its port makes.
                    while quic.path_event_next().is_some() {}
                }
            });
        }
    }

    /// What was not acknowledged for so long may have been too large: a path's MTU may fall, and quiche does not look by itself.
    fn revalidate_pmtu(&mut self) {
        let timeouts = self.quic.path_stats().find(|path| path.active).map_or(0, |path| path.total_pto_count);
        if std::mem::replace(&mut self.timeouts, timeouts) != timeouts {
            self.quic.revalidate_pmtu();
        }
    }

    fn look_at_window(&mut self) {
        if !self.fathom_controller {
            self.window = self.quic.path_stats().find(|path| path.active).map_or(0, |path| path.cwnd);
        }
    }

    /// Counts a reduction when the window of the stack's own controller falls in `work`.
    fn count_reductions(&mut self, work: impl FnOnce(&mut Quic)) {
        work(&mut self.quic);
        let before = self.window;
        self.look_at_window();
        self.reductions += u64::from(self.window < before);
    }

    /// Opens HTTP/3 once the handshake is over; gives up one that takes too long.
    fn check_handshake(&mut self, now: Instant) {
        let Some(end) = self.handshake else { return };
        if self.quic.is_established() {
            self.record.metrics.opened(self.record.label);
            self.record.open = true;
            self.handshake = None;
            self.admission_guard.connected();
            self.context.connected();
            self.last_used.0 = now;
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
        if self.shutting_down || self.http.is_none() {
            return None;
        }
        let requests = self.streams.requests();
        if self.streams.are_answered() && requests == self.last_used.1 {
            let end = self.last_used.0.checked_add(self.context.server.limits.request_timeout)?;
            if end > now {
                return Some(end);
            }
            self.record.metrics.no_request();
            self.shutting_down = true;
            // GOAWAY is written at once.
            return Some(now);
        }
        self.last_used = (now, requests);
        now.checked_add(self.context.server.limits.request_timeout)
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

    fn update_stats(&self) {
        let report = self.quic.fathom().map(|monitor| monitor.report());
        let ended = ConnectionStats { reductions: self.reductions, ..own_stats(&self.quic) };
        *self.record.stats.lock() = ended.with_report(report);
    }
}

/// quiche's counts; it does not count reductions.
fn own_stats<F: quiche::BufFactory>(connection: &quiche::Connection<F>) -> ConnectionStats {
    let stats = connection.stats();
    let path = connection.path_stats().find(|path| path.active);
    ConnectionStats {
        // Without a sample it is a guess.
        rtt: path.as_ref().filter(|path| path.min_rtt.is_some()).map(|path| path.rtt),
        window: path.map_or(0, |path| path.cwnd as u64),
        sent: stats.sent as u64,
        sent_bytes: stats.sent_bytes,
        lost: stats.lost as u64,
        ..ConnectionStats::default()
    }
}
