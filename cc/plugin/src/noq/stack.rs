//! noq under the names that the sources in `per_stack/` use, and code that only noq needs.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(crate) use noq::congestion::ControllerFactory;
pub(crate) use noq::udp::{EcnCodepoint, Transmit};
pub(crate) use noq::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, ConnectError, Connecting, ConnectionError, Endpoint,
    Incoming, Runtime, ServerConfig, TransportConfig, crypto,
};
pub(crate) use noq_proto::transport_parameters::TransportParameters;
pub(crate) use noq_proto::{Side, TransportError, TransportErrorCode};

pub(crate) use super::Noq as ThisStack;
pub(crate) use super::handshake_data::to_noq as handshake_data;
use crate::close_error::CloseError;

/// Type in which the stack passes a connection ID.
pub(crate) type Cid<'a> = noq_proto::ConnectionId;
/// Receiver type of a crypto configuration's methods.
pub(crate) type Receiver<'a, T> = &'a T;

/// Creates noq's error, which contains the TLS error.
pub(crate) fn transport_error(code: TransportErrorCode, error: CloseError) -> TransportError {
    let mut transport_error = TransportError::new(code, error.reason);
    transport_error.crypto = error.tls.map(|e| Arc::new(e) as _);
    transport_error
}

/// Whether the stack can send on several paths at once. noq can.
pub(crate) const MULTIPATH: bool = true;

/// Turns off multipath, and NAT traversal, which needs multipath.
pub(crate) fn disable_multipath(transport: &mut TransportConfig) {
    transport.max_remote_nat_traversal_addresses(0).max_concurrent_multipath_paths(0);
}

/// Pointer type for sockets.
pub(crate) type Pointer<T> = Box<T>;

/// Sends delayed datagrams.
pub(crate) struct ReleaseSender(Pin<Box<dyn noq::UdpSender>>);

impl ReleaseSender {
    pub(crate) fn new(socket: &Pointer<dyn AsyncUdpSocket>) -> Self {
        Self(socket.create_sender())
    }

    /// Sends a datagram. Returns `Pending` until the socket accepts it.
    pub(crate) fn poll_send(
        &mut self,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_send(transmit, cx)
    }
}
