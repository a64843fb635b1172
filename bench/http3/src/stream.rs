//! The two halves of a request's stream, at both ends.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;

use crate::error::{Code, ProtocolError};
use crate::fields::{self, Head};
use crate::frame;
use crate::message::{Event, Message, Read};
use crate::priority::Priority;
use crate::qpack::{Decoded, FieldSection, Fields};
use crate::shared::{Error, Inbox, Shared};
use crate::transport::{Connection, ReceiveStream as _, SendStream as _};
use crate::wakers::Slot;
use crate::wakers::lock;

/// The sending half of a request's stream. Dropping it before [`finish`](Self::finish) resets the
/// stream, so that a cut message never looks complete.
///
/// Cancelling an operation loses no data: the rest of its frame stays in the stream, and the next
/// operation sends it first.
pub struct SendStream<C: Connection> {
    stream: C::SendStream,
    shared: Arc<Shared<C>>,
    /// Bytes to write before anything else.
    pending: [Bytes; 2],
    state: SendState,
    /// Place of the task that waits, at the client's end.
    slot: Slot,
    /// Code of a reset when the stream is dropped.
    pub(crate) drop_code: Code,
}

#[derive(Clone, Debug)]
enum SendState {
    Open,
    Finished,
    Failed(Box<Error>),
}

impl<C: Connection> SendStream<C> {
    #[inline]
    pub(crate) fn new(stream: C::SendStream, shared: Arc<Shared<C>>, drop_code: Code) -> Self {
        let pending = [Bytes::new(), Bytes::new()];
        Self { stream, shared, pending, state: SendState::Open, slot: Slot::default(), drop_code }
    }

    /// Returns the ID of the stream.
    pub fn id(&self) -> u64 {
        self.stream.id()
    }

    /// Sets the priority with which the stack sends the stream.
    pub fn set_priority(&mut self, priority: Priority) {
        self.stream.set_priority(priority);
    }

    /// Sends a header.
    ///
    /// # Errors
    /// Returns an error if the peer has stopped the stream or the connection is over.
    pub async fn send_head<F: Fields + ?Sized>(&mut self, fields: &F) -> Result<(), Error> {
        self.flush_rest().await?;
        self.pending[0] = self.shared.encoder().frame(fields, None);
        self.flush().await
    }

    /// Sends a header, a whole body and the end of the stream, with one write.
    ///
    /// # Errors
    /// Returns the errors of [`Self::send_head`].
    pub async fn send_message<F: Fields + ?Sized>(
        &mut self,
        fields: &F,
        body: Bytes,
    ) -> Result<(), Error> {
        self.flush_rest().await?;
        let data = Some(body.len()).filter(|length| *length > 0);
        self.pending = [self.shared.encoder().frame(fields, data), body];
        self.flush().await?;
        self.end()
    }

    /// Sends a part of the body, without a copy.
    ///
    /// # Errors
    /// Returns the errors of [`Self::send_head`].
    pub async fn send_data(&mut self, data: Bytes) -> Result<(), Error> {
        self.flush_rest().await?;
        if !data.is_empty() {
            self.pending = [frame::data_header(data.len()), data];
        }
        self.flush().await
    }

    /// Sends trailers. The stream must be finished afterwards.
    ///
    /// # Errors
    /// Returns the errors of [`Self::send_head`].
    pub async fn send_trailers<F: Fields + ?Sized>(&mut self, fields: &F) -> Result<(), Error> {
        self.send_head(fields).await
    }

    /// Sends the end of the stream.
    ///
    /// # Errors
    /// Returns the errors of [`Self::send_head`].
    pub async fn finish(&mut self) -> Result<(), Error> {
        self.flush().await?;
        self.end()
    }

    #[inline]
    fn end(&mut self) -> Result<(), Error> {
        match self.stream.finish() {
            Ok(()) => {
                self.state = SendState::Finished;
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Writes the rest of an operation that was cancelled, which is rare.
    #[inline]
    async fn flush_rest(&mut self) -> Result<(), Error> {
        if self.pending.iter().all(Bytes::is_empty) { Ok(()) } else { self.flush().await }
    }

    #[inline]
    async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Writes the rest of the last operation.
    ///
    /// # Errors
    /// Returns the errors of [`Self::send_head`].
    #[inline]
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match &self.state {
            SendState::Open => {}
            SendState::Finished => return Poll::Ready(Err(Error::Closed)),
            SendState::Failed(error) => return Poll::Ready(Err((**error).clone())),
        }
        while !self.pending.iter().all(Bytes::is_empty) {
            match self.stream.poll_write(cx, &mut self.pending) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.fail(error))),
                Poll::Pending => return self.wait(cx),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until the stream is writable. Fails if a GOAWAY has rejected the request.
    #[cold]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.shared.is_client() {
            // Register first, so that no GOAWAY is missed.
            self.shared.waiting.register(&mut self.slot, cx.waker());
            if self.shared.is_rejected(self.stream.id()) {
                self.reset(Code::H3_REQUEST_CANCELLED);
                self.state = SendState::Failed(Box::new(Error::GoAway));
                return Poll::Ready(Err(Error::GoAway));
            }
        }
        Poll::Pending
    }

    #[cold]
    fn fail(&mut self, error: crate::transport::StreamError) -> Error {
        if let crate::transport::StreamError::Peer(code) = error {
            // A stopped stream is reset with the code of the peer (RFC 9000 §3.5).
            self.stream.reset(code);
        }
        let error = self.shared.stream_error(error);
        self.pending = [Bytes::new(), Bytes::new()];
        self.state = SendState::Failed(Box::new(error.clone()));
        error
    }

    /// Resets the stream. The peer no longer gets data that it has not received.
    pub fn reset(&mut self, code: Code) {
        if !matches!(self.state, SendState::Failed(_)) {
            self.stream.reset(code.0);
            self.pending = [Bytes::new(), Bytes::new()];
            self.state = SendState::Failed(Box::new(Error::Closed));
        }
    }

    /// Waits until the peer has acknowledged all data and the end. Returns the peer's code if it
    /// stops the stream before.
    ///
    /// # Errors
    /// Returns an error if the connection is over before.
    pub fn poll_delivered(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Code>, Error>> {
        let stopped = ready!(self.stream.poll_stopped(cx));
        Poll::Ready(
            stopped.map(|code| code.map(Code)).map_err(|error| self.shared.connection_error(error)),
        )
    }
}

impl<C: Connection> Drop for SendStream<C> {
    #[inline]
    fn drop(&mut self) {
        self.shared.waiting.remove(&mut self.slot);
        if matches!(self.state, SendState::Open) {
            let code = if std::thread::panicking() {
                Code::H3_INTERNAL_ERROR
            } else {
                self.shared.take_malformed(self.stream.id()).unwrap_or(self.drop_code)
            };
            self.stream.reset(code.0);
        }
    }
}

/// The receiving half of a request's stream. Dropping it before the end has arrived stops the
/// stream.
pub struct ReceiveStream<C: Connection> {
    stream: C::ReceiveStream,
    shared: Arc<Shared<C>>,
    /// `None` only while the stream is dropped.
    inbox: Option<Box<Inbox>>,
    state: ReceiveState,
    /// Place of the task that waits for the header, at the client's end.
    slot: Slot,
    /// Code with which the stream is stopped when it is dropped.
    drop_code: Code,
}

#[derive(Clone, Debug)]
enum ReceiveState {
    Head,
    Body,
    Ended,
    Failed(Box<Error>),
}

impl<C: Connection> ReceiveStream<C> {
    #[inline]
    pub(crate) fn new(
        stream: C::ReceiveStream,
        shared: Arc<Shared<C>>,
        message: Message,
        drop_code: Code,
    ) -> Self {
        Self {
            stream,
            inbox: Some(shared.take_inbox(message)),
            state: ReceiveState::Head,
            slot: Slot::default(),
            drop_code,
            shared,
        }
    }

    /// Returns the ID of the stream.
    pub fn id(&self) -> u64 {
        self.stream.id()
    }

    /// Returns the fields of the header, once [`Self::poll_head`] has returned it.
    pub fn fields(&self) -> &FieldSection {
        self.inbox.as_ref().map_or(const { &FieldSection::new() }, |inbox| &inbox.head)
    }

    /// Returns the trailers, once [`Self::poll_data`] has returned the end of the body. They are
    /// empty if the message has none.
    pub fn trailers(&self) -> &FieldSection {
        self.inbox.as_ref().map_or(const { &FieldSection::new() }, |inbox| &inbox.trailers)
    }

    /// Returns whether the whole message was read.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, ReceiveState::Ended)
    }

    /// Waits for the next part of the message, and for its end (`None`). The other methods are made
    /// of this one.
    ///
    /// # Errors
    /// Returns an error if the peer violates the protocol, resets the stream, or if the connection
    /// is over. After an error of the stream, the stream is stopped.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Event>, Error>> {
        let Some(inbox) = &mut self.inbox else { return Poll::Ready(Err(Error::Closed)) };
        let Inbox { reader, rest, head, trailers } = &mut **inbox;
        let section = match &self.state {
            ReceiveState::Head => head,
            ReceiveState::Body => trailers,
            ReceiveState::Ended => return Poll::Ready(Ok(None)),
            ReceiveState::Failed(error) => return Poll::Ready(Err((**error).clone())),
        };
        loop {
            let shared = &self.shared;
            let limits = shared.config.message.section;
            let next = if shared.has_table() {
                let id = self.stream.id();
                let mut decoder = lock(&shared.decoder);
                let next = reader.next(rest, section, |kind, payload, section| {
                    Ok(match decoder.decode(id, payload, limits, section)? {
                        Decoded::Whole => Read::Fields(fields::check(kind, section)?),
                        Decoded::Blocked(required) => Read::Blocked(required),
                    })
                });
                if !decoder.instructions().is_empty() {
                    std::task::Wake::wake_by_ref(&shared.driver);
                }
                if let Ok(Some(Event::Blocked(_))) = next {
                    // Register first, so that the end of the connection is not missed.
                    shared.wait_for_table(cx.waker());
                    let over = shared.over();
                    drop(decoder);
                    return match over {
                        Some(error) => Poll::Ready(Err(self.fail(error))),
                        None => Poll::Pending,
                    };
                }
                next
            } else {
                reader.next(rest, section, |kind, payload, section| {
                    lock(&shared.repeated).read(kind, payload, limits, section)
                })
            };
            match next {
                Ok(Some(event)) => {
                    if matches!(event, Event::Head(_)) {
                        self.state = ReceiveState::Body;
                        shared.waiting.remove(&mut self.slot);
                    }
                    return Poll::Ready(Ok(Some(event)));
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(self.violated(error))),
            }
            let chunk = match self.stream.poll_chunk(cx) {
                Poll::Ready(chunk) => chunk,
                Poll::Pending => return self.wait(cx),
            };
            match chunk {
                Ok(Some(chunk)) => *rest = chunk,
                Ok(None) => {
                    return Poll::Ready(match reader.end() {
                        Ok(()) => {
                            self.state = ReceiveState::Ended;
                            Ok(None)
                        }
                        Err(error) => Err(self.violated(error)),
                    });
                }
                Err(error) => {
                    let error = self.shared.stream_error(error);
                    return Poll::Ready(Err(self.fail(error)));
                }
            }
        }
    }

    /// Waits for the stream. Fails if a GOAWAY has rejected the request, which then gets no header.
    #[inline]
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Event>, Error>> {
        if matches!(self.state, ReceiveState::Head) && self.shared.is_client() {
            // Register first, so that no GOAWAY is missed.
            self.shared.waiting.register(&mut self.slot, cx.waker());
            if self.shared.is_rejected(self.stream.id()) {
                self.stream.stop(Code::H3_REQUEST_CANCELLED.0);
                return Poll::Ready(Err(self.fail(Error::GoAway)));
            }
        }
        Poll::Pending
    }

    /// Waits for the header, which is then in [`Self::fields`]. Interim responses are skipped.
    ///
    /// # Errors
    /// Returns the errors of [`Self::poll_event`].
    #[inline]
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Error>> {
        loop {
            match ready!(self.poll_event(cx))? {
                Some(Event::Head(head)) => return Poll::Ready(Ok(head)),
                Some(Event::Interim(_)) => {}
                // The header comes first, and only once.
                _ => return Poll::Ready(Err(Error::Closed)),
            }
        }
    }

    /// Waits for a part of the body, which is not a copy, or for the end of the message (`None`).
    ///
    /// # Errors
    /// Returns the errors of [`Self::poll_event`].
    #[inline]
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        loop {
            match ready!(self.poll_event(cx))? {
                Some(Event::Data(data)) => return Poll::Ready(Ok(Some(data))),
                None => return Poll::Ready(Ok(None)),
                Some(_) => {}
            }
        }
    }

    /// Waits for the header, like [`Self::poll_head`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::poll_event`].
    #[inline]
    pub async fn head(&mut self) -> Result<Head, Error> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    /// Waits for a part of the body, like [`Self::poll_data`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::poll_event`].
    #[inline]
    pub async fn data(&mut self) -> Result<Option<Bytes>, Error> {
        poll_fn(|cx| self.poll_data(cx)).await
    }

    /// Ends reading for a violation of the protocol.
    #[cold]
    fn violated(&mut self, error: ProtocolError) -> Error {
        if error.ends_connection() {
            self.shared.fail(&error);
        } else {
            self.stream.stop(error.code.0);
            self.shared.set_malformed(self.stream.id(), error.code);
        }
        self.fail(error.into())
    }

    fn fail(&mut self, error: Error) -> Error {
        if let Some(inbox) = &mut self.inbox {
            inbox.rest = Bytes::new();
        }
        self.cancel_section();
        self.state = ReceiveState::Failed(Box::new(error.clone()));
        error
    }

    /// Returns whether everything has arrived and only the end was not read. Stopping such a stream
    /// would cost a frame, and packets if the peer resets the stream for it.
    #[inline]
    fn end_arrived(&mut self) -> bool {
        let read = self.inbox.as_ref().is_some_and(|inbox| inbox.rest.is_empty());
        let mut cx = Context::from_waker(Waker::noop());
        read && matches!(self.state, ReceiveState::Body)
            && matches!(self.stream.poll_chunk(&mut cx), Poll::Ready(Ok(None)))
    }

    /// Tells the peer's encoder that sections of this stream are not read (RFC 9204 §2.2.2.2).
    fn cancel_section(&self) {
        if self.shared.has_table() {
            lock(&self.shared.decoder).cancel(self.stream.id());
            std::task::Wake::wake_by_ref(&self.shared.driver);
        }
    }

    /// Asks the peer to stop sending. The rest of the message is not read.
    pub fn stop(&mut self, code: Code) {
        if matches!(self.state, ReceiveState::Head | ReceiveState::Body) {
            self.stream.stop(code.0);
            self.fail(Error::Closed);
        }
    }
}

impl<C: Connection> Drop for ReceiveStream<C> {
    #[inline]
    fn drop(&mut self) {
        self.shared.waiting.remove(&mut self.slot);
        if matches!(self.state, ReceiveState::Head | ReceiveState::Body) {
            if !self.end_arrived() {
                self.stream.stop(self.drop_code.0);
            }
            self.cancel_section();
        }
        if let Some(inbox) = self.inbox.take() {
            self.shared.return_inbox(inbox);
        }
    }
}
