//! Drives the unidirectional streams of a connection, at both ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;

use crate::control::{ControlEvent, Role};
use crate::datagram::Datagram;
use crate::error::{Code, ProtocolError};
use crate::priority::Priority;
use crate::shared::{Error, Shared};
use crate::transport::{
    Connection, ConnectionError, Incoming, Opener, ReceiveStream, SendStream, StreamError,
};
use crate::unidirectional::{CONTROL, DECODER, PeerStream, PeerStreams, Read};
use crate::wakers::lock;

/// Largest number of priority updates that wait for the server.
const UPDATES: usize = 256;

/// A unidirectional stream of this end. It opens when the peer permits a stream, which nothing
/// waits for.
struct Outgoing<S> {
    kind: u64,
    stream: Option<S>,
    /// Bytes to write, in at most one piece.
    pending: [Bytes; 1],
    queued: Vec<u8>,
}

impl<S: SendStream> Outgoing<S> {
    fn new(kind: u64) -> Self {
        Self { kind, stream: None, pending: [Bytes::new()], queued: Vec::new() }
    }

    fn poll<C: Connection<SendStream = S>>(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared<C>,
        opener: &mut C::Opener,
    ) -> Result<(), Error> {
        loop {
            if self.pending[0].is_empty() {
                if self.queued.is_empty() {
                    return Ok(());
                }
                if self.stream.is_none() {
                    match opener.poll_unidirectional(cx) {
                        Poll::Ready(Ok(stream)) => self.stream = Some(stream),
                        Poll::Ready(Err(error)) => return Err(shared.connection_error(error)),
                        Poll::Pending => return Ok(()),
                    }
                    self.queued.insert(0, self.kind as u8);
                }
                self.pending[0] = std::mem::take(&mut self.queued).into();
            }
            let Some(stream) = &mut self.stream else { return Ok(()) };
            match stream.poll_write(cx, &mut self.pending) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(StreamError::Peer(_))) => {
                    let reason = "a critical stream was stopped";
                    return Err(critical(reason).into());
                }
                Poll::Ready(Err(error)) => return Err(shared.stream_error(error)),
                Poll::Pending => return Ok(()),
            }
        }
    }
}

fn critical(reason: &'static str) -> ProtocolError {
    ProtocolError::connection(Code::H3_CLOSED_CRITICAL_STREAM, reason)
}

/// Driver of the unidirectional streams of a connection.
pub(crate) struct Driver<C: Connection> {
    pub(crate) shared: Arc<Shared<C>>,
    pub(crate) incoming: C::Incoming,
    opener: C::Opener,
    /// Wakes the driver, and records that it has something to do.
    waker: Waker,
    streams: Vec<(C::ReceiveStream, PeerStream)>,
    peer_streams: PeerStreams,
    control: Outgoing<C::SendStream>,
    decoder: Outgoing<C::SendStream>,
    updates: VecDeque<(u64, Priority)>,
    /// Whether the end of HTTP/3 ends the connection.
    closes: bool,
}

impl<C: Connection> Driver<C> {
    /// Returns the driver of a connection whose peer has this role.
    pub(crate) fn new(shared: Arc<Shared<C>>, peer: Role) -> Self {
        let mut control = Outgoing::new(CONTROL);
        shared.config.settings().write_frame(shared.config.grease, &mut control.queued);
        std::task::Wake::wake_by_ref(&shared.driver);
        Self {
            incoming: shared.connection.incoming(),
            opener: shared.connection.opener(),
            waker: Arc::clone(&shared.driver).into(),
            streams: Vec::new(),
            peer_streams: PeerStreams::new(peer, shared.config.unidirectional_bytes),
            control,
            decoder: Outgoing::new(DECODER),
            updates: VecDeque::new(),
            closes: true,
            shared,
        }
    }

    /// Sends and receives on the unidirectional streams. Registers the waker for them.
    ///
    /// # Errors
    /// Returns the error for which the connection ends.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Result<(), Error> {
        if self.shared.driver.take(cx.waker()) { self.drive() } else { Ok(()) }
    }

    /// Does the work of [`Self::poll`] without a task to wake.
    pub(crate) fn drive(&mut self) -> Result<(), Error> {
        let driven = self.try_drive();
        if let Err(Error::Protocol(error)) = &driven {
            self.shared.fail(error);
        }
        if let Err(error) = &driven {
            self.shared.end(error.clone());
        }
        driven
    }

    fn try_drive(&mut self) -> Result<(), Error> {
        if let Some(error) = self.shared.failed() {
            return Err(error.clone().into());
        }
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        while let Poll::Ready(accepted) = self.incoming.poll_unidirectional(&mut cx) {
            let stream = accepted.map_err(|error| self.shared.connection_error(error))?;
            self.read_one(&mut cx, stream, PeerStream::new())?;
            if self.streams.len() > self.shared.config.unidirectional_streams {
                let reason = "too many unidirectional streams";
                return Err(ProtocolError::connection(Code::H3_EXCESSIVE_LOAD, reason).into());
            }
        }
        for (stream, state) in std::mem::take(&mut self.streams) {
            self.read_one(&mut cx, stream, state)?;
        }
        if self.shared.has_table() {
            let mut decoder = lock(&self.shared.decoder);
            self.decoder.queued.append(decoder.instructions());
        }
        self.control.poll(&mut cx, &self.shared, &mut self.opener)?;
        self.decoder.poll(&mut cx, &self.shared, &mut self.opener)
    }

    /// Reads a stream as far as it has arrived, and keeps it unless it is over.
    fn read_one(
        &mut self,
        cx: &mut Context<'_>,
        mut stream: C::ReceiveStream,
        mut state: PeerStream,
    ) -> Result<(), Error> {
        let Self { shared, peer_streams, updates, .. } = self;
        loop {
            let data = match stream.poll_chunk(cx) {
                Poll::Ready(Ok(Some(data))) => data,
                Poll::Pending => {
                    self.streams.push((stream, state));
                    return Ok(());
                }
                Poll::Ready(Err(StreamError::Connection(error))) => {
                    return Err(shared.connection_error(error));
                }
                // The end, or a reset.
                Poll::Ready(_) => return Ok(peer_streams.end(&state)?),
            };
            let mut decoder = lock(&shared.decoder);
            let read =
                peer_streams.receive(&mut state, data, &mut decoder, |event| match event {
                    // Sent once, which the parser checks.
                    ControlEvent::Settings(settings) => _ = shared.settings.set(settings),
                    ControlEvent::GoAway(id) => shared.set_goaway(id),
                    ControlEvent::PriorityUpdate { stream, priority } => {
                        // Only the last update of a stream matters (RFC 9218 §7).
                        updates.retain(|(before, _)| *before != stream);
                        if updates.len() >= UPDATES {
                            updates.pop_front();
                        }
                        updates.push_back((stream, priority));
                    }
                    ControlEvent::MaxPushId(_) => {}
                })?;
            drop(decoder);
            if shared.has_table() {
                for task in std::mem::take(&mut *lock(&shared.blocked)) {
                    task.wake();
                }
            }
            if read == Read::Stop {
                stream.stop(Code::H3_STREAM_CREATION_ERROR.0);
                return Ok(());
            }
        }
    }

    /// Permits more bytes of the unidirectional streams, because a request arrived.
    #[inline]
    pub(crate) fn on_request(&mut self) {
        self.peer_streams.replenish(256);
    }

    /// Waits for an HTTP datagram. An invalid one ends the connection.
    pub(crate) fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Datagram, Error>> {
        let frame = ready!(self.incoming.poll_datagram(cx));
        let frame = frame.map_err(|error| self.shared.connection_error(error))?;
        Poll::Ready(Datagram::read(frame).map_err(|error| {
            self.shared.fail(&error);
            error.into()
        }))
    }

    /// Returns the oldest priority update.
    #[inline]
    pub(crate) fn next_update(&mut self) -> Option<(u64, Priority)> {
        self.updates.pop_front()
    }

    /// Ends HTTP/3 and returns the connection without closing it.
    pub(crate) fn into_transport(mut self) -> C {
        self.closes = false;
        self.shared.connection.clone()
    }

    /// Queues bytes on the control stream and sends as many as possible at once.
    pub(crate) fn send_control(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        write(&mut self.control.queued);
        self.drive()
    }
}

impl<C: Connection> Drop for Driver<C> {
    /// Closes the connection, because the control stream must not end before.
    fn drop(&mut self) {
        if !self.closes {
            return;
        }
        self.shared.connection.close(Code::H3_NO_ERROR.0, b"");
        self.shared.end(ConnectionError::Local.into());
    }
}
