//! A server's connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::control::{Role, write_goaway};
use crate::convert;
use crate::datagram::Datagram;
use crate::driver::Driver;
use crate::error::Code;
use crate::fields::Head;
use crate::message::Message;
use crate::priority::Priority;
use crate::qpack::{FieldSection, Fields};
use crate::settings::Settings;
use crate::shared::{Config, Error, Shared};
use crate::stream::{ReceiveStream, SendStream};
use crate::transport::{self, Incoming as _, ReceiveStream as _, SendStream as _};

/// A server's connection. Dropping it closes the connection of the stack, so keep it until the last
/// response is delivered.
pub struct Connection<C: transport::Connection> {
    driver: Driver<C>,
    /// ID after the last accepted stream.
    next: u64,
    /// ID in the last GOAWAY that was sent.
    goaway: Option<u64>,
}

/// Something that a client sent.
pub enum Event<C: transport::Connection> {
    /// A request, of which possibly nothing has arrived.
    Request(RequestStream<C>),
    /// A client changed the priority of a response (RFC 9218 §7.2).
    PriorityUpdate {
        /// Stream of the request, which may not have arrived.
        stream: u64,
        /// New priority.
        priority: Priority,
    },
}

impl<C: transport::Connection> Connection<C> {
    /// Starts HTTP/3 on a connection. SETTINGS is sent as soon as the client permits a stream, and
    /// requests are accepted before.
    pub fn new(connection: C, config: Config) -> Self {
        let shared = Arc::new(Shared::new(connection, config, Role::Server));
        Self { driver: Driver::new(shared, Role::Client), next: 0, goaway: None }
    }

    /// Waits for the next event. Drives the unidirectional streams of the connection, so poll it
    /// while requests are open, too, and before them: if the stack's buffer is full of responses,
    /// control frames then get the first bytes that become free. Returns `None` when the client
    /// closes the connection with H3_NO_ERROR.
    ///
    /// # Errors
    /// Returns the reason why the connection is over.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Event<C>>, Error>> {
        if let Err(error) = self.driver.poll(cx) {
            return Poll::Ready(graceful(error));
        }
        if let Some((stream, priority)) = self.driver.next_update() {
            return Poll::Ready(Ok(Some(Event::PriorityUpdate { stream, priority })));
        }
        loop {
            let (mut send, mut receive) = match self.driver.incoming.poll_bidirectional(cx) {
                Poll::Ready(Ok(halves)) => halves,
                Poll::Ready(Err(error)) => {
                    let error = self.driver.shared.connection_error(error);
                    return Poll::Ready(graceful(error));
                }
                Poll::Pending => return Poll::Pending,
            };
            let id = send.id();
            if self.goaway.is_some_and(|goaway| id >= goaway) {
                send.reset(Code::H3_REQUEST_REJECTED.0);
                receive.stop(Code::H3_REQUEST_REJECTED.0);
                continue;
            }
            self.next = self.next.max(id + 4);
            self.driver.on_request();
            let shared = &self.driver.shared;
            return Poll::Ready(Ok(Some(Event::Request(RequestStream::new(
                send, receive, shared,
            )))));
        }
    }

    /// Waits for the next request, like [`Self::poll_event`], and ignores changed priorities.
    ///
    /// # Errors
    /// Returns the reason why the connection is over.
    pub async fn accept(&mut self) -> Result<Option<RequestStream<C>>, Error> {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await? {
                Some(Event::Request(request)) => return Ok(Some(request)),
                Some(Event::PriorityUpdate { .. }) => {}
                None => return Ok(None),
            }
        }
    }

    /// Sends GOAWAY (RFC 9114 §5.2). This many more requests are accepted, because they may be on
    /// their way; later ones are rejected. The client may send them again elsewhere.
    ///
    /// # Errors
    /// Returns the reason why the connection is over.
    pub fn shutdown(&mut self, more: u64) -> Result<(), Error> {
        let id = self.next.saturating_add(more.saturating_mul(4)).min(crate::varint::MAX - 3);
        // The ID must not grow.
        let id = self.goaway.map_or(id, |before| id.min(before));
        self.goaway = Some(id);
        self.driver.send_control(|to| write_goaway(id, to))
    }

    /// Returns the client's settings, once they have arrived.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.driver.shared.settings.get()
    }

    /// Returns the connection of the stack.
    pub fn transport(&self) -> &C {
        &self.driver.shared.connection
    }

    /// Waits for an HTTP datagram (RFC 9297).
    ///
    /// # Errors
    /// Returns the reason why the connection is over.
    pub fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Datagram, Error>> {
        self.driver.poll_datagram(cx)
    }
}

/// Returns the end of a connection that the peer closed without an error.
fn graceful<T>(error: Error) -> Result<Option<T>, Error> {
    match error {
        Error::Connection(transport::ConnectionError::Application { code, .. })
            if Code(code) == Code::H3_NO_ERROR =>
        {
            Ok(None)
        }
        error => Err(error),
    }
}

/// A request and its response.
pub struct RequestStream<C: transport::Connection> {
    send: SendStream<C>,
    receive: ReceiveStream<C>,
}

impl<C: transport::Connection> RequestStream<C> {
    fn new(send: C::SendStream, receive: C::ReceiveStream, shared: &Arc<Shared<C>>) -> Self {
        let message = Message::Request { extended_connect: shared.config.extended_connect };
        // A server may stop a request that it does not need (RFC 9114 §4.1).
        let receive = ReceiveStream::new(receive, Arc::clone(shared), message, Code::H3_NO_ERROR);
        // Until the header arrives, the request was not processed.
        let send = SendStream::new(send, Arc::clone(shared), Code::H3_REQUEST_REJECTED);
        Self { send, receive }
    }

    /// Returns the ID of the stream.
    pub fn id(&self) -> u64 {
        self.send.id()
    }

    /// Waits for the header. Its fields are then in [`Self::fields`]. After an error, the stream may
    /// still send a response, for example with status 431 if the kind of the error is
    /// [`FieldsTooLarge`](crate::error::Kind::FieldsTooLarge). Dropping the stream resets it with
    /// the code of the error.
    ///
    /// # Errors
    /// Returns the errors of [`ReceiveStream::poll_event`].
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Error>> {
        let head = self.receive.poll_head(cx);
        if head.is_ready() {
            self.send.drop_code = Code::H3_REQUEST_CANCELLED;
        }
        head
    }

    /// Waits for the header, like [`Self::poll_head`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::poll_head`].
    pub async fn head(&mut self) -> Result<Head, Error> {
        poll_fn(|cx| self.poll_head(cx)).await
    }

    /// Returns the fields of the header.
    pub fn fields(&self) -> &FieldSection {
        self.receive.fields()
    }

    /// Returns the header as a request of the `http` crate, which allocates memory.
    ///
    /// # Errors
    /// Returns an error of the stream if the URI is invalid.
    pub fn request(&self) -> Result<http::Request<()>, Error> {
        Ok(convert::request(self.fields())?)
    }

    /// Sends a header, a whole body and the end of the stream, with one write.
    ///
    /// # Errors
    /// Returns the errors of [`SendStream::send_head`].
    pub async fn respond<F: Fields + ?Sized>(
        &mut self,
        fields: &F,
        body: Bytes,
    ) -> Result<(), Error> {
        self.send.send_message(fields, body).await
    }

    /// Returns the half that sends the response.
    pub fn sender(&mut self) -> &mut SendStream<C> {
        &mut self.send
    }

    /// Returns the half that receives the request.
    pub fn receiver(&mut self) -> &mut ReceiveStream<C> {
        &mut self.receive
    }

    /// Returns both halves. After a violation of the protocol, dropping the sending half resets the
    /// stream with the code of the error.
    pub fn split(mut self) -> (SendStream<C>, ReceiveStream<C>) {
        // The request may be processed from now on, so the client must not send it again.
        self.send.drop_code = Code::H3_REQUEST_CANCELLED;
        (self.send, self.receive)
    }

    /// Ends the stream in both directions.
    pub fn reset(&mut self, code: Code) {
        self.send.reset(code);
        self.receive.stop(code);
    }
}
