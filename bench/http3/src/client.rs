//! A client's connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::control::{Role, write_priority_update};
use crate::convert;
use crate::datagram::Datagram;
use crate::driver::Driver;
use crate::error::{Code, ProtocolError};
use crate::fields::Head;
use crate::message::{Message, Method};
use crate::priority::Priority;
use crate::qpack::{FieldSection, Fields};
use crate::settings::Settings;
use crate::shared::{Config, Error, Shared};
use crate::stream::{ReceiveStream, SendStream};
use crate::transport::{self, Incoming as _, Opener as _, SendStream as _};

/// A client's connection: its settings, GOAWAY, and the end. Dropping it closes the connection of
/// the stack.
pub struct Connection<C: transport::Connection> {
    driver: Driver<C>,
}

impl<C: transport::Connection> Connection<C> {
    /// Starts HTTP/3 on a connection. Requests may be sent at once, before the settings of the
    /// server arrive.
    pub fn new(connection: C, config: Config) -> (Self, RequestSender<C>) {
        // Only servers announce extended CONNECT.
        let config = Config { extended_connect: false, ..config };
        let shared = Arc::new(Shared::new(connection, config, Role::Client));
        let sender = RequestSender::new(Arc::clone(&shared));
        let mut driver = Driver::new(shared, Role::Server);
        // The control stream precedes the first request and shares its packet. The first poll
        // reports an error again.
        let _ = driver.drive();
        (Self { driver }, sender)
    }

    /// Drives the connection until it is over. Must be polled while requests are open.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        if let Err(error) = self.driver.poll(cx) {
            return Poll::Ready(error);
        }
        match self.driver.incoming.poll_bidirectional(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(_)) => {
                // RFC 9114 §6.1.
                let reason = "a server opened a bidirectional stream";
                let error = ProtocolError::connection(Code::H3_STREAM_CREATION_ERROR, reason);
                self.driver.shared.fail(&error);
                Poll::Ready(error.into())
            }
            Poll::Ready(Err(error)) => Poll::Ready(self.driver.shared.connection_error(error)),
        }
    }

    /// Changes the priority of a response (RFC 9218 §7.2).
    ///
    /// # Errors
    /// Returns the reason why the connection is over.
    pub fn update_priority(&mut self, stream: u64, priority: Priority) -> Result<(), Error> {
        self.driver.send_control(|to| write_priority_update(stream, priority, to))
    }

    /// Returns the connection of the stack without closing it. HTTP/3 may then be started on it
    /// again, but only if the server has rejected 0-RTT and so has seen none of this connection's
    /// streams.
    pub fn into_transport(self) -> C {
        self.driver.into_transport()
    }

    /// Returns the server's settings, once they have arrived.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.driver.shared.settings.get()
    }

    /// Waits for an HTTP datagram (RFC 9297).
    ///
    /// # Errors
    /// Returns the reason why the connection is over.
    pub fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Datagram, Error>> {
        self.driver.poll_datagram(cx)
    }
}

/// Sender of requests on a connection. Clones send on the same connection.
pub struct RequestSender<C: transport::Connection> {
    shared: Arc<Shared<C>>,
    opener: C::Opener,
}

impl<C: transport::Connection> Clone for RequestSender<C> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }
}

impl<C: transport::Connection> RequestSender<C> {
    fn new(shared: Arc<Shared<C>>) -> Self {
        Self { opener: shared.connection.opener(), shared }
    }

    /// Sends a header. The caller then sends the body and the end.
    ///
    /// # Errors
    /// Returns [`Error::GoAway`] if the server accepts no more requests, or the reason why the
    /// connection is over. A GOAWAY that arrives later fails the operations of the requests that
    /// the server does not process.
    pub async fn open<F: Fields + ?Sized>(
        &mut self,
        fields: &F,
    ) -> Result<RequestStream<C>, Error> {
        let mut stream = self.stream(fields).await?;
        stream.send.send_head(fields).await?;
        Ok(stream)
    }

    /// Sends a whole request with one write.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub async fn send<F: Fields + ?Sized>(
        &mut self,
        fields: &F,
        body: Bytes,
    ) -> Result<RequestStream<C>, Error> {
        let mut stream = self.stream(fields).await?;
        stream.send.send_message(fields, body).await?;
        Ok(stream)
    }

    async fn stream<F: Fields + ?Sized>(&mut self, fields: &F) -> Result<RequestStream<C>, Error> {
        if self.shared.goaway().is_some() {
            return Err(Error::GoAway);
        }
        let opened = poll_fn(|cx| self.opener.poll_bidirectional(cx)).await;
        let (mut send, receive) = opened.map_err(|error| self.shared.connection_error(error))?;
        // The GOAWAY may have arrived since.
        if self.shared.goaway().is_some() {
            send.reset(Code::H3_REQUEST_CANCELLED.0);
            return Err(Error::GoAway);
        }
        let mut to = Method::Other;
        fields.all(|name, value| {
            if name == b":method" {
                to = match value {
                    b"CONNECT" => Method::Connect,
                    b"HEAD" => Method::Head,
                    _ => Method::Other,
                };
            }
            name != b":method"
        });
        let shared = &self.shared;
        let cancelled = Code::H3_REQUEST_CANCELLED;
        let message = Message::Response { to };
        Ok(RequestStream {
            send: SendStream::new(send, Arc::clone(shared), cancelled),
            receive: ReceiveStream::new(receive, Arc::clone(shared), message, cancelled),
        })
    }

    /// Returns whether the server accepts requests: it has not sent GOAWAY.
    pub fn is_open(&self) -> bool {
        self.shared.goaway().is_none() && self.shared.failed().is_none()
    }

    /// Returns the server's settings, once they have arrived.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.shared.settings.get()
    }

    /// Returns the violation of the protocol for which this end closed the connection.
    pub fn violation(&self) -> Option<&ProtocolError> {
        self.shared.failed()
    }

    /// Returns the connection of the stack.
    pub fn transport(&self) -> &C {
        &self.shared.connection
    }
}

/// A request and its response.
pub struct RequestStream<C: transport::Connection> {
    send: SendStream<C>,
    receive: ReceiveStream<C>,
}

impl<C: transport::Connection> RequestStream<C> {
    /// Returns the ID of the stream.
    pub fn id(&self) -> u64 {
        self.send.id()
    }

    /// Waits for the header of the response. Its fields are then in [`Self::fields`].
    ///
    /// # Errors
    /// Returns the errors of [`ReceiveStream::poll_event`].
    pub async fn head(&mut self) -> Result<Head, Error> {
        self.receive.head().await
    }

    /// Returns the fields of the header.
    pub fn fields(&self) -> &FieldSection {
        self.receive.fields()
    }

    /// Returns the header as a response of the `http` crate, which allocates memory.
    ///
    /// # Errors
    /// Returns an error of the stream if a field is invalid.
    pub fn response(&self) -> Result<http::Response<()>, Error> {
        Ok(convert::response(self.fields())?)
    }

    /// Waits for a part of the body, or for the end of the response (`None`).
    ///
    /// # Errors
    /// Returns the errors of [`ReceiveStream::poll_event`].
    pub async fn data(&mut self) -> Result<Option<Bytes>, Error> {
        self.receive.data().await
    }

    /// Returns the half that sends the request.
    pub fn sender(&mut self) -> &mut SendStream<C> {
        &mut self.send
    }

    /// Returns the half that receives the response.
    pub fn receiver(&mut self) -> &mut ReceiveStream<C> {
        &mut self.receive
    }

    /// Returns both halves.
    pub fn split(self) -> (SendStream<C>, ReceiveStream<C>) {
        (self.send, self.receive)
    }
}
