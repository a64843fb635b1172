//! The HTTP/3 connection, and the handle that opens streams on it.

use std::fmt;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use futures_util::stream;
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};

use super::waiting::{Answers, Waiting};
use super::{BidiStream, RecvStream, SendStream, error, stack};

/// Both halves of a bidirectional stream, as the stack returns them.
type Halves = (stack::SendStream, stack::RecvStream);

/// An HTTP/3 connection on a connection of the stack.
///
/// Pass it to `h3::client::new` or `h3::server::builder().build`. Keep a clone of the stack's
/// connection for features that HTTP/3 does not use, such as statistics or the peer's address.
pub struct Connection {
    opener: OpenStreams,
    accept_bidi: Waiting<Halves>,
    accept_uni: Waiting<stack::RecvStream>,
}

/// Handle that opens streams on a connection.
///
/// Each clone of the handle waits independently.
pub struct OpenStreams {
    connection: stack::Connection,
    bidi: Waiting<Halves>,
    uni: Waiting<stack::SendStream>,
}

impl Connection {
    /// Wraps a connection whose handshake is complete, or one that sends 0-RTT data.
    pub fn new(connection: stack::Connection) -> Self {
        Self {
            opener: OpenStreams::new(connection),
            accept_bidi: Waiting::new(),
            accept_uni: Waiting::new(),
        }
    }

    /// Returns the underlying connection of the stack.
    pub(crate) fn stack(&self) -> &stack::Connection {
        &self.opener.connection
    }
}

impl From<stack::Connection> for Connection {
    fn from(connection: stack::Connection) -> Self {
        Self::new(connection)
    }
}

impl OpenStreams {
    fn new(connection: stack::Connection) -> Self {
        Self { connection, bidi: Waiting::new(), uni: Waiting::new() }
    }
}

impl Clone for OpenStreams {
    fn clone(&self) -> Self {
        Self::new(self.connection.clone())
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        let uni = ready!(
            self.accept_uni.poll(cx, connection.accept_uni(), || accept_uni(connection.clone()))
        );
        Poll::Ready(uni.map(RecvStream::accepted).map_err(error::connection))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        let bidi = ready!(
            self.accept_bidi.poll(cx, connection.accept_bi(), || accept_bidi(connection.clone()))
        );
        Poll::Ready(bidi.map(BidiStream::accepted).map_err(error::connection))
    }

    fn opener(&self) -> OpenStreams {
        self.opener.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.opener, code, reason);
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        let connection = &self.connection;
        let bidi =
            ready!(self.bidi.poll(cx, connection.open_bi(), || open_bidi(connection.clone())));
        Poll::Ready(bidi.map(BidiStream::opened).map_err(error::connection_on_stream))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let connection = &self.connection;
        let uni = ready!(self.uni.poll(cx, connection.open_uni(), || open_uni(connection.clone())));
        Poll::Ready(uni.map(SendStream::new).map_err(error::connection_on_stream))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(error::code(code.value()), reason);
    }
}

fn accept_bidi(connection: stack::Connection) -> Answers<Halves> {
    Box::pin(stream::unfold(connection, async |c| Some((c.accept_bi().await, c))))
}

fn accept_uni(connection: stack::Connection) -> Answers<stack::RecvStream> {
    Box::pin(stream::unfold(connection, async |c| Some((c.accept_uni().await, c))))
}

fn open_bidi(connection: stack::Connection) -> Answers<Halves> {
    Box::pin(stream::unfold(connection, async |c| Some((c.open_bi().await, c))))
}

fn open_uni(connection: stack::Connection) -> Answers<stack::SendStream> {
    Box::pin(stream::unfold(connection, async |c| Some((c.open_uni().await, c))))
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.stack().stable_id()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OpenStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStreams")
            .field("id", &self.connection.stable_id())
            .finish_non_exhaustive()
    }
}
