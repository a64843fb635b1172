//! The kernel's UDP sockets, with ECN, as whatever works in real time uses them.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

/// Kernel buffers requested, in bytes: a burst must not be lost before it is read.
const SOCKET_BUFFER: usize = 4 << 20;

/// A UDP socket that does not block.
#[derive(Debug)]
pub struct Udp {
    io: UdpSocket,
    state: UdpSocketState,
}

impl Udp {
    /// Takes a socket over.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(io: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&io).into())?;
        // Less is not an error: the kernel gives what it allows.
        let _ = state.set_recv_buffer_size((&io).into(), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size((&io).into(), SOCKET_BUFFER);
        Ok(Self { io, state })
    }

    /// The socket, to wait for.
    pub const fn io(&self) -> &UdpSocket {
        &self.io
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// The system's: it has no room, or nobody listens.
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

    /// Takes what came, and says into how many of the buffers, `N` at most: each gets one datagram, or several of one size from one sender
    /// ([`RecvMeta::stride`]). None when there is nothing, or a message of the kernel's about an earlier datagram, such as that nobody
    /// listens there.
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
