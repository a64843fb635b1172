//! quinn under the names that the sources in `per_stack/` use, and code that only quinn needs.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pub(crate) use quinn::congestion::ControllerFactory;
pub(crate) use quinn::udp::{EcnCodepoint, Transmit};
pub(crate) use quinn::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, ConnectError, Connecting, ConnectionError, Endpoint,
    Incoming, Runtime, ServerConfig, TransportConfig, crypto,
};
pub(crate) use quinn_proto::transport_parameters::TransportParameters;
pub(crate) use quinn_proto::{Side, TransportError, TransportErrorCode};

pub(crate) use super::Quinn as ThisStack;
use crate::close_error::CloseError;
use crate::session::HandshakeData;

/// Type in which the stack passes a connection ID.
pub(crate) type Cid<'a> = &'a quinn_proto::ConnectionId;
/// Receiver type of a crypto configuration's methods.
pub(crate) type Receiver<'a, T> = Arc<T>;

/// Creates quinn's error, which has no field for the TLS error.
pub(crate) fn transport_error(code: TransportErrorCode, error: CloseError) -> TransportError {
    TransportError { code, frame: None, reason: error.reason }
}

/// Converts to the type that quinn's own sessions give to applications.
pub(crate) fn handshake_data(data: HandshakeData) -> Box<dyn Any> {
    Box::new(crypto::rustls::HandshakeData {
        protocol: data.protocol,
        server_name: data.server_name,
    })
}

/// Whether the stack can send on several paths at once. quinn cannot.
pub(crate) const MULTIPATH: bool = false;

pub(crate) const fn disable_multipath(_: &mut TransportConfig) {}

/// Pointer type for sockets.
pub(crate) type Pointer<T> = Arc<T>;

/// Sends delayed datagrams.
pub(crate) struct ReleaseSender {
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn quinn::UdpPoller>>,
}

impl ReleaseSender {
    pub(crate) fn new(socket: &Pointer<dyn AsyncUdpSocket>) -> Self {
        Self { poller: Arc::clone(socket).create_io_poller(), socket: Arc::clone(socket) }
    }

    /// Sends a datagram. Returns `Pending` until the socket accepts it.
    pub(crate) fn poll_send(
        &mut self,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let writable = ready!(self.poller.as_mut().poll_writable(cx));
            match writable.and_then(|()| self.socket.try_send(transmit)) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}
