//! The task that drives a connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fathom_netsim::runtime::Timer;

use super::super::coalesced::packets_after_handshake;
use super::super::native::Quic;
use super::super::router::{Packet, Route};
use super::super::{StreamDelivery, send_state, set_received_ecn, stack, stream_delivery};
use super::{Dir, Shared, State, close_of, window};

/// Task that reads and sends packets and keeps the timers of a connection until the connection is
/// closed.
pub(super) struct Driver {
    /// The connection; `None` once it is over. The task then waits for packets that are still in
    /// transit.
    pub(super) shared: Option<Arc<Shared>>,
    pub(super) route: Route,
    pub(super) timer: Pin<Box<dyn Timer>>,
}

/// Condition under which a driver continues.
enum Next {
    /// The driver continues when a packet arrives, when a task wakes it, or at this time.
    Wait(Option<Instant>),
    /// The driver continues at its next turn, because it has more to do.
    Turn,
    /// The driver lets tasks with data to read run first. An answer that they send at once then
    /// leaves together with the acknowledgement, in one packet instead of two. In the laboratory,
    /// these tasks still run after the acknowledgement.
    Yield,
    /// The draining period is over, so the driver ends.
    Drained(Option<Instant>),
}

impl State {
    /// Runs `work` and counts a reduction if the window of the stack's own controller falls.
    fn watching(&mut self, work: impl FnOnce(&mut Quic)) {
        work(&mut self.quic);
        if let Some(native) = &mut self.native {
            let before = std::mem::replace(&mut native.bytes, window(&self.quic));
            native.watch.reduced(before, native.bytes);
            native.watch.record(native.bytes, None);
        }
    }

    pub(super) fn receive(&mut self, Packet { mut bytes, path }: Packet) {
        let server = self.server;
        self.watching(|quic| {
            set_received_ecn(quic, path.ecn);
            // On a server, quiche discards the handshake keys once the handshake is over.
            let packets = if server && quic.is_established() {
                packets_after_handshake(&mut bytes)
            } else {
                &mut bytes[..]
            };
            if !packets.is_empty() {
                // quiche drops packets that it cannot read. A protocol violation closes the
                // connection, and the next send tells the peer.
                let _ = quic.recv(packets, stack::RecvInfo { from: path.from, to: path.to });
            }
        });
    }

    fn run_timers(&mut self, now: Instant) {
        if self.quic.timeout_instant().is_none_or(|due| due > now) {
            return;
        }
        self.watching(Quic::on_timeout);
        // Data that are unacknowledged after a timeout may have been in packets that were too
        // large. The MTU of a path can become smaller, and quiche does not check this.
        let timeouts =
            self.quic.path_stats().find(|path| path.active).map_or(0, |path| path.total_pto_count);
        if std::mem::replace(&mut self.timeouts, timeouts) != timeouts {
            self.quic.revalidate_pmtu();
        }
    }

    /// Tells tasks about the effects of packets and timers. Returns whether one of these tasks has
    /// data to read.
    fn notify(&mut self, shared: &Shared) -> bool {
        let mut has_readers = false;
        if !self.established && self.quic.is_established() {
            self.established = true;
            shared.settled.notify_waiters();
            shared.credit.notify_waiters();
            self.streams.openers.wake();
        }
        if let Some(sessions) = &self.sessions
            && let Some(ticket) = self.quic.session()
        {
            sessions.keep(ticket);
            self.sessions = None;
        }
        let Self { quic, streams, .. } = self;
        // Do this before any other query of a stream. After such a query, quiche forgets a stream
        // that is over.
        for (stream, wait) in &mut streams.deliveries {
            if wait.result.is_some() {
                continue;
            }
            let result = match stream_delivery(quic, *stream) {
                // If quiche has forgotten the stream, the peer had not stopped it. Either all data
                // were acknowledged, or this end reset the stream.
                StreamDelivery::Acknowledged | StreamDelivery::Forgotten if wait.finished => None,
                StreamDelivery::Reset | StreamDelivery::Forgotten => Some(0),
                _ => continue,
            };
            wait.result = Some(result);
            wait.task.take().into_iter().for_each(Waker::wake);
        }
        while let Some(stream) = quic.stream_readable_next() {
            let peers = stream & 1 != u64::from(self.server);
            if let Some(reader) = streams.readers.remove(&stream) {
                has_readers = true;
                reader.wake();
            } else if peers && streams.is_new(stream) {
                has_readers = true;
                streams.incoming[Dir::of(stream) as usize].push_back((stream, !self.established));
                shared.incoming.notify_waiters();
                streams.accepting[Dir::of(stream) as usize]
                    .take()
                    .into_iter()
                    .for_each(Waker::wake);
            }
        }
        while let Some(stream) = quic.stream_writable_next() {
            match streams.writers.get_mut(&stream) {
                Some(writer) => writer.take().into_iter().for_each(Waker::wake),
                // quiche keeps a stream that the peer has stopped until the stream is queried.
                None => drop(quic.stream_capacity(stream)),
            }
        }
        for (wanted, left) in streams
            .credit_wanted
            .iter_mut()
            .zip([quic.peer_streams_left_bidi(), quic.peer_streams_left_uni()])
        {
            if *wanted && left > 0 {
                *wanted = false;
                shared.credit.notify_waiters();
                streams.openers.wake();
            }
        }
        if quic.dgram_recv_queue_len() > 0 {
            shared.datagrams.notify_waiters();
            streams.datagrams.take().into_iter().for_each(Waker::wake);
        }
        // Discard path events. They are not needed, and quiche keeps one for each port change of a
        // client.
        while quic.path_event_next().is_some() {}
        has_readers
    }

    /// Ends the connection. Tells all waiting tasks.
    fn end(&mut self, shared: &Shared) {
        let close = close_of(&self.quic);
        let streams = &mut self.streams;
        // Results that nobody has taken yet stay.
        streams.deliveries.retain(|_, wait| {
            wait.task.take().into_iter().for_each(Waker::wake);
            wait.result.is_some()
        });
        std::mem::take(&mut streams.readers).into_values().for_each(Waker::wake);
        streams.writers.values_mut().filter_map(Option::take).for_each(Waker::wake);
        streams.accepting.iter_mut().filter_map(Option::take).for_each(Waker::wake);
        streams.datagrams.take().into_iter().for_each(Waker::wake);
        streams.openers.wake();
        self.over = Some(close);
        let Shared { settled, credit, incoming, datagrams, .. } = shared;
        for notify in [settled, credit, incoming, datagrams] {
            notify.notify_waiters();
        }
    }

    /// Does all work that is due: packets, timers, events, sending.
    fn drive(&mut self, cx: &mut Context<'_>, shared: &Shared, route: &Route) -> Next {
        let now = shared.router.clock.runtime.now();
        if let (Some(watch), Some((in_flight, waits))) = (&self.send_watch, send_state(&self.quic))
        {
            watch.send_state(in_flight, waits || self.send_batch.is_held());
        }
        let (packets, more, close) = route.inbox.take(cx);
        packets.into_iter().for_each(|packet| self.receive(packet));
        if let Some(code) = close {
            let _ = self.quic.close(true, code.into(), b"");
        }
        self.run_timers(now);
        let has_readers = self.notify(shared);
        if has_readers && !self.yielded && !shared.router.clock.simulated {
            self.yielded = true;
            return Next::Yield;
        }
        self.yielded = false;
        let Self { quic, send_batch, .. } = self;
        let sent = send_batch.poll_send(cx, quic, &shared.router, now);
        if !self.early && quic.is_in_early_data() {
            // quiche knows this once it has written the ClientHello.
            self.early = true;
            shared.credit.notify_waiters();
            self.streams.openers.wake();
        }
        if let Some(native) = &mut self.native {
            // The window in bytes also changes with the packet size. Such a change must not count
            // as a reduction.
            native.bytes = window(&self.quic);
        }
        // If the close may not be sent because the client's address is not validated, do not wait
        // for it.
        let unsent_close = matches!(sent, Poll::Ready(None)) && self.quic.local_error().is_some();
        if self.quic.is_closed() || self.quic.is_draining() || unsent_close {
            self.end(shared);
            let due = self.quic.timeout_instant().filter(|_| self.quic.is_draining());
            return Next::Drained(due.map(|due| due.min(now + LONGEST_DRAINING)));
        }
        match sent {
            _ if more => Next::Turn,
            Poll::Pending => Next::Wait(self.quic.timeout_instant()),
            Poll::Ready(Some(at)) if at <= now => Next::Turn,
            Poll::Ready(held) => {
                Next::Wait(self.quic.timeout_instant().into_iter().chain(held).min())
            }
        }
    }
}

/// Longest draining period. A connection drains for three probe timeouts (RFC 9000 §10.2), and
/// the peer can make probe timeouts arbitrarily long.
const LONGEST_DRAINING: Duration = Duration::from_secs(3);

/// Number of turns of a driver before other tasks get their turns.
const TURNS: usize = 4;

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { shared, route, timer } = &mut *self;
        if let Some(driven) = shared.clone() {
            let mut state = driven.state();
            state.driver = None;
            let mut turns = 0;
            loop {
                let mut rng = state.rng;
                let next = driven.router.clock.run(&mut rng, || state.drive(cx, &driven, route));
                state.rng = rng;
                match next {
                    Next::Turn if turns < TURNS => turns += 1,
                    Next::Turn | Next::Yield => {
                        cx.waker().wake_by_ref();
                        break;
                    }
                    Next::Wait(due) => {
                        let Some(due) = due else { break };
                        timer.as_mut().reset(due);
                        if timer.as_mut().poll_expired(cx).is_pending() {
                            break;
                        }
                        if turns == TURNS {
                            cx.waker().wake_by_ref();
                            break;
                        }
                        turns += 1;
                    }
                    Next::Drained(due) => {
                        drop(state);
                        *shared = None;
                        route.inbox.end();
                        let Some(due) = due else { return Poll::Ready(()) };
                        timer.as_mut().reset(due);
                        return timer.as_mut().poll_expired(cx);
                    }
                }
            }
            state.driver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        timer.as_mut().poll_expired(cx)
    }
}

/// Also tells waiting tasks if the driver ends before its connection, because of a panic or with
/// its runtime.
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            self.route.inbox.end();
            shared.state().end(&shared);
        }
    }
}
