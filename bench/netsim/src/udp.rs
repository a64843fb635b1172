//! Kernel UDP sockets with ECN, for code that works in real time.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

/// Kernel buffer size to request, in bytes. It is large enough to hold a burst until it is read.
const SOCKET_BUFFER: usize = 4 << 20;

/// A non-blocking UDP socket.
#[derive(Debug)]
pub struct Udp {
    io: UdpSocket,
    state: UdpSocketState,
}

impl Udp {
    /// Takes over a socket.
    ///
    /// # Errors
    /// Returns an error if the system refuses the options of the socket.
    pub fn new(io: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&io).into())?;
        // A smaller buffer is not an error, because the kernel grants only as much as it allows.
        let _ = state.set_recv_buffer_size((&io).into(), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size((&io).into(), SOCKET_BUFFER);
        Ok(Self { io, state })
    }

    /// Returns the socket, so that callers can wait for it.
    pub const fn io(&self) -> &UdpSocket {
        &self.io
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// Returns the system's error, for example because the send buffer is full or no program
    /// listens at `to`.
    pub fn send(
        &self,
        to: SocketAddr,
        ecn: Option<EcnCodepoint>,
        contents: &[u8],
    ) -> io::Result<()> {
        let transmit =
            Transmit { destination: to, ecn, contents, segment_size: None, src_ip: None };
        self.state.try_send((&self.io).into(), &transmit)
    }

    /// Receives pending datagrams and returns how many of the buffers were filled, at most `N`.
    ///
    /// Each filled buffer holds one datagram, or several datagrams of the same size from the same
    /// sender ([`RecvMeta::stride`]). Returns 0 if no datagram is pending. Also returns 0 if the
    /// kernel reports an error of an earlier datagram, for example because no program listens at
    /// its destination.
    pub fn receive<const N: usize>(
        &self,
        buffers: &mut [Vec<u8>],
        metas: &mut [RecvMeta; N],
    ) -> usize {
        debug_assert!(buffers.len() >= N, "a buffer for each");
        let mut buffers = buffers.iter_mut();
        let mut slices: [IoSliceMut<'_>; N] = std::array::from_fn(|_| {
            IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| &mut buffer[..]))
        });
        self.state.recv((&self.io).into(), &mut slices, metas).unwrap_or(0)
    }
}
