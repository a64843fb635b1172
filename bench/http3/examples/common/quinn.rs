//! Adapter for quinn.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fathom_http3::priority::Priority;
use fathom_http3::transport::{self, Accepted, ConnectionError, DatagramError, StreamError};
use futures_util::stream::{self, Stream};
use quinn::VarInt;

/// Results of a repeated wait.
type Waits<T> = Pin<Box<dyn Stream<Item = T> + Send + Sync>>;
/// Result of one wait.
type Wait<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;
type Halves = (quinn::SendStream, quinn::RecvStream);

/// A connection of quinn.
#[derive(Clone)]
pub(crate) struct Connection(pub(crate) quinn::Connection);

fn connection_error(error: quinn::ConnectionError) -> ConnectionError {
    match error {
        quinn::ConnectionError::ApplicationClosed(close) => ConnectionError::Application {
            code: close.error_code.into_inner(),
            reason: close.reason,
        },
        quinn::ConnectionError::TimedOut => ConnectionError::TimedOut,
        quinn::ConnectionError::LocallyClosed => ConnectionError::Local,
        error => ConnectionError::Transport(Arc::new(error)),
    }
}

fn code(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

impl transport::Connection for Connection {
    type SendStream = SendStream;
    type ReceiveStream = ReceiveStream;
    type Incoming = Incoming;
    type Opener = Opener;

    fn incoming(&self) -> Incoming {
        let connection = || self.0.clone();
        Incoming {
            bidirectional: Box::pin(stream::unfold(connection(), |connection| async {
                Some((connection.accept_bi().await, connection))
            })),
            unidirectional: Box::pin(stream::unfold(connection(), |connection| async {
                Some((connection.accept_uni().await, connection))
            })),
            datagrams: Box::pin(stream::unfold(connection(), |connection| async {
                Some((connection.read_datagram().await, connection))
            })),
        }
    }

    fn opener(&self) -> Opener {
        Opener { connection: self.0.clone(), bidirectional: None, unidirectional: None }
    }

    fn close(&self, error: u64, reason: &[u8]) {
        self.0.close(code(error), reason);
    }

    fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        self.0.send_datagram(data).map_err(|error| match error {
            quinn::SendDatagramError::TooLarge => DatagramError::TooLarge,
            quinn::SendDatagramError::ConnectionLost(_) => DatagramError::Closed,
            _ => DatagramError::Unsupported,
        })
    }

    fn max_datagram_size(&self) -> Option<usize> {
        self.0.max_datagram_size()
    }
}

pub(crate) struct Incoming {
    bidirectional: Waits<Result<Halves, quinn::ConnectionError>>,
    unidirectional: Waits<Result<quinn::RecvStream, quinn::ConnectionError>>,
    datagrams: Waits<Result<Bytes, quinn::ConnectionError>>,
}

/// Polls a stream that never ends.
fn poll_next<T>(
    waits: &mut Waits<Result<T, quinn::ConnectionError>>,
    cx: &mut Context<'_>,
) -> Poll<Result<T, ConnectionError>> {
    match ready!(waits.as_mut().poll_next(cx)) {
        Some(result) => Poll::Ready(result.map_err(connection_error)),
        None => Poll::Pending,
    }
}

impl transport::Incoming<Connection> for Incoming {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Connection>> {
        poll_next(&mut self.bidirectional, cx).map_ok(halves)
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReceiveStream, ConnectionError>> {
        poll_next(&mut self.unidirectional, cx).map_ok(ReceiveStream)
    }

    fn poll_datagram(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        poll_next(&mut self.datagrams, cx)
    }
}

pub(crate) struct Opener {
    connection: quinn::Connection,
    /// Waits that began before, because the peer's limit permitted no stream.
    bidirectional: Option<Wait<Result<Halves, quinn::ConnectionError>>>,
    unidirectional: Option<Wait<Result<quinn::SendStream, quinn::ConnectionError>>>,
}

/// Polls a wait that began before, or begins one. Only a wait that is pending is boxed.
fn poll_open<T>(
    waiting: &mut Option<Wait<Result<T, quinn::ConnectionError>>>,
    cx: &mut Context<'_>,
    begin: impl Future<Output = Result<T, quinn::ConnectionError>>,
    later: impl FnOnce() -> Wait<Result<T, quinn::ConnectionError>>,
) -> Poll<Result<T, ConnectionError>> {
    if waiting.is_none() {
        if let Poll::Ready(opened) = pin!(begin).poll(cx) {
            return Poll::Ready(opened.map_err(connection_error));
        }
        *waiting = Some(later());
    }
    let opened = match waiting {
        Some(wait) => ready!(wait.as_mut().poll(cx)),
        None => return Poll::Pending,
    };
    *waiting = None;
    Poll::Ready(opened.map_err(connection_error))
}

impl transport::Opener<Connection> for Opener {
    fn poll_bidirectional(&mut self, cx: &mut Context<'_>) -> Poll<Accepted<Connection>> {
        let connection = &self.connection;
        let opened = poll_open(&mut self.bidirectional, cx, connection.open_bi(), || {
            let connection = connection.clone();
            Box::pin(async move { connection.open_bi().await })
        });
        opened.map_ok(halves)
    }

    fn poll_unidirectional(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream, ConnectionError>> {
        let connection = &self.connection;
        let opened = poll_open(&mut self.unidirectional, cx, connection.open_uni(), || {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        });
        opened.map_ok(|stream| {
            // Above all levels of `SendStream::set_priority`.
            let _ = stream.set_priority(16);
            SendStream::new(stream)
        })
    }
}

fn halves((send, receive): Halves) -> (SendStream, ReceiveStream) {
    (SendStream::new(send), ReceiveStream(receive))
}

pub(crate) struct SendStream {
    stream: quinn::SendStream,
    stopped: Option<Wait<Result<Option<VarInt>, quinn::StoppedError>>>,
}

impl SendStream {
    fn new(stream: quinn::SendStream) -> Self {
        Self { stream, stopped: None }
    }
}

impl transport::SendStream for SendStream {
    fn id(&self) -> u64 {
        self.stream.id().into()
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<(), StreamError>> {
        let written = ready!(pin!(self.stream.write_chunks(chunks)).poll(cx));
        Poll::Ready(match written {
            Ok(_) => Ok(()),
            Err(quinn::WriteError::Stopped(code)) => Err(StreamError::Peer(code.into_inner())),
            Err(quinn::WriteError::ConnectionLost(error)) => Err(connection_error(error).into()),
            Err(quinn::WriteError::ClosedStream) => Err(StreamError::Closed),
            Err(quinn::WriteError::ZeroRttRejected) => Err(StreamError::ZeroRttRejected),
        })
    }

    fn finish(&mut self) -> Result<(), StreamError> {
        self.stream.finish().map_err(|_| StreamError::Closed)
    }

    fn reset(&mut self, error: u64) {
        let _ = self.stream.reset(code(error));
    }

    fn set_priority(&mut self, priority: Priority) {
        let level = i32::from(7 - priority.urgency) * 2 + i32::from(!priority.incremental);
        let _ = self.stream.set_priority(level);
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<u64>, ConnectionError>> {
        let stream = &self.stream;
        let stopped = self.stopped.get_or_insert_with(|| Box::pin(stream.stopped()));
        Poll::Ready(match ready!(stopped.as_mut().poll(cx)) {
            Ok(code) => Ok(code.map(VarInt::into_inner)),
            Err(quinn::StoppedError::ConnectionLost(error)) => Err(connection_error(error)),
            Err(error) => Err(ConnectionError::Transport(Arc::new(error))),
        })
    }
}

pub(crate) struct ReceiveStream(quinn::RecvStream);

impl transport::ReceiveStream for ReceiveStream {
    fn id(&self) -> u64 {
        self.0.id().into()
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        let read = ready!(pin!(self.0.read_chunk(usize::MAX, true)).poll(cx));
        Poll::Ready(match read {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
            Err(quinn::ReadError::Reset(code)) => Err(StreamError::Peer(code.into_inner())),
            Err(quinn::ReadError::ConnectionLost(error)) => Err(connection_error(error).into()),
            Err(quinn::ReadError::ZeroRttRejected) => Err(StreamError::ZeroRttRejected),
            Err(_) => Err(StreamError::Closed),
        })
    }

    fn stop(&mut self, error: u64) {
        let _ = self.0.stop(code(error));
    }
}
