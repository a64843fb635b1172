//! quinn under the names that the shared sources (`cc/plugin/per_stack`) use, and code that only
//! quinn needs.

use std::any::Any;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use fathom_plugin::CloseError;
pub(crate) use quinn::congestion::ControllerFactory;
pub(crate) use quinn::udp::{EcnCodepoint, Transmit};
pub(crate) use quinn::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, ConnectError, Connecting, ConnectionError, Endpoint,
    Incoming, Runtime, ServerConfig, TransportConfig, crypto,
};
pub(crate) use quinn_proto::transport_parameters::TransportParameters;
pub(crate) use quinn_proto::{Side, TransportError, TransportErrorCode};

pub(crate) use crate::Quinn as ThisStack;
use crate::crypto::Packet;
use crate::shaping_socket::Wrapped;

// ---- crypto ----

/// Type in which the stack passes a connection ID.
pub(crate) type Cid<'a> = &'a quinn_proto::ConnectionId;
/// Receiver type of a crypto configuration's methods.
pub(crate) type Receiver<'a, T> = Arc<T>;

impl crypto::PacketKey for Packet {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.0.encrypt(0, packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), crypto::CryptoError> {
        self.0.decrypt(0, packet, header, payload).map_err(|_| crypto::CryptoError)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

/// Creates quinn's error, which has no field for the TLS error.
pub(crate) fn transport_error(code: TransportErrorCode, error: CloseError) -> TransportError {
    TransportError { code, frame: None, reason: error.reason }
}

/// Converts to the type that quinn's own sessions give to applications.
pub(crate) fn handshake_data(data: fathom_plugin::HandshakeData) -> Box<dyn Any> {
    Box::new(crypto::rustls::HandshakeData {
        protocol: data.protocol,
        server_name: data.server_name,
    })
}

// ---- wiring ----

/// quinn sends on one path at a time.
pub(crate) const MULTIPATH: bool = false;

pub(crate) const fn disable_multipath(_: &mut TransportConfig) {}

// ---- socket ----

/// Pointer type for sockets.
pub(crate) type Pointer<T> = Arc<T>;

impl AsyncUdpSocket for Wrapped {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn quinn::UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.shaper.shape(transmit).map_or(Ok(()), |shaped| self.inner.try_send(&shaped))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [quinn::udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        // Datagrams may be trimmed by different lengths and leave at different times.
        1
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Sends delayed datagrams.
pub(crate) struct ReleaseSender {
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn quinn::UdpPoller>>,
}

impl ReleaseSender {
    pub(crate) fn new(socket: &Pointer<dyn AsyncUdpSocket>) -> Self {
        Self { poller: Arc::clone(socket).create_io_poller(), socket: Arc::clone(socket) }
    }

    /// Sends a datagram; pending until the socket accepts it.
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
