//! noq under the names that the shared sources (`cc/plugin/per_stack`) use, and code that only noq
//! needs.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use fathom_plugin::CloseError;
pub(crate) use noq::congestion::ControllerFactory;
pub(crate) use noq::udp::{EcnCodepoint, Transmit};
pub(crate) use noq::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, ConnectError, Connecting, ConnectionError, Endpoint,
    Incoming, Runtime, ServerConfig, TransportConfig, crypto,
};
use noq_proto::PathId;
use noq_proto::coding::Encodable;
pub(crate) use noq_proto::transport_parameters::TransportParameters;
pub(crate) use noq_proto::{Side, TransportError, TransportErrorCode};

pub(crate) use crate::Noq as ThisStack;
use crate::crypto::Packet;
pub(crate) use crate::handshake_data::to_noq as handshake_data;
use crate::shaping_socket::{Shaper, Wrapped};

// ---- crypto ----

/// Type in which the stack passes a connection ID.
pub(crate) type Cid<'a> = noq_proto::ConnectionId;
/// Receiver type of a crypto configuration's methods.
pub(crate) type Receiver<'a, T> = &'a T;

/// Returns a path's number, which noq exposes only in its wire form.
fn number(path: PathId) -> u32 {
    if path == PathId::ZERO {
        return 0;
    }
    let mut bytes = [0; 8];
    path.encode(&mut &mut bytes[..]);
    fathom_frames::varint::decode(&bytes)
        .and_then(|(number, _)| u32::try_from(number).ok())
        .unwrap_or(u32::MAX)
}

impl crypto::PacketKey for Packet {
    fn encrypt(&self, path: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        self.0.encrypt(number(path), packet, buf, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), crypto::CryptoError> {
        self.0.decrypt(number(path), packet, header, payload).map_err(|_| crypto::CryptoError)
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

/// Creates noq's error, which contains the TLS error.
pub(crate) fn transport_error(code: TransportErrorCode, error: CloseError) -> TransportError {
    let mut transport_error = TransportError::new(code, error.reason);
    transport_error.crypto = error.tls.map(|e| Arc::new(e) as _);
    transport_error
}

// ---- wiring ----

/// noq sends on several paths at once.
pub(crate) const MULTIPATH: bool = true;

/// Turns off multipath, and NAT traversal, which needs it.
pub(crate) fn disable_multipath(transport: &mut TransportConfig) {
    transport.max_remote_nat_traversal_addresses(0).max_concurrent_multipath_paths(0);
}

// ---- socket ----

/// Pointer type for sockets.
pub(crate) type Pointer<T> = Box<T>;

impl AsyncUdpSocket for Wrapped {
    fn create_sender(&self) -> Pin<Box<dyn noq::UdpSender>> {
        Box::pin(Sender { inner: self.inner.create_sender(), shaper: self.shaper.clone() })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [noq::udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Sender of one connection. Sends one datagram per call, because datagrams may be trimmed by
/// different lengths and leave at different times.
struct Sender {
    inner: Pin<Box<dyn noq::UdpSender>>,
    shaper: Shaper,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShapingSocket({:?})", self.inner)
    }
}

impl noq::UdpSender for Sender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match self.shaper.shape(transmit) {
            Some(shaped) => self.inner.as_mut().poll_send(&shaped, cx),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// Sends delayed datagrams.
pub(crate) struct ReleaseSender(Pin<Box<dyn noq::UdpSender>>);

impl ReleaseSender {
    pub(crate) fn new(socket: &Pointer<dyn AsyncUdpSocket>) -> Self {
        Self(socket.create_sender())
    }

    /// Sends a datagram; pending until the socket accepts it.
    pub(crate) fn poll_send(
        &mut self,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_send(transmit, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_numbers_are_read_whole() {
        for id in [0, 1, 63, 64, 16_383, 16_384, 1 << 30, u32::MAX] {
            assert_eq!(number(PathId::from(id)), id);
        }
    }
}
