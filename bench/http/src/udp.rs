//! UDP sockets with large buffers.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU8;

use fathom_stacks::steering;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Size of the receive buffer and of the send buffer that is requested from the system, in bytes.
/// The kernel counts about 800 bytes for the smallest datagram. Between two reads, a busy server
/// receives a request and a few acknowledgements from each client. A buffer of this size holds the
/// datagrams of 10,000 clients (docs/serve-measured.md). A datagram that arrives at a full buffer
/// is lost, and its sender takes the loss for a sign of congestion.
pub const BUFFER_SIZE: usize = 16 << 20;

/// Buffer sizes in bytes that the system granted to a socket, in terms of the requested bytes.
/// Linux reserves twice as much, for the data that it stores in addition to the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketBuffers {
    /// Size of the buffer for datagrams that have arrived but were not read yet.
    pub receive: usize,
    /// Size of the buffer for datagrams that were not sent yet.
    pub send: usize,
}

impl SocketBuffers {
    /// Warns about small buffers. The warning names the setting that limits them.
    pub(crate) fn warn_if_small(self) {
        for (granted, what, setting) in
            [(self.receive, "receive", "rmem_max"), (self.send, "send", "wmem_max")]
        {
            if granted < BUFFER_SIZE {
                tracing::warn!(
                    "the socket's {what} buffer is {} KiB instead of {} KiB, so packets are lost \
                     when many clients are active; raise net.core.{setting}",
                    granted >> 10,
                    BUFFER_SIZE >> 10
                );
            }
        }
    }
}

/// Binds a socket and requests buffers of [`BUFFER_SIZE`] bytes. If `address` is the IPv6 wildcard,
/// the socket serves both families.
///
/// # Errors
/// Returns an error if the address is taken or does not belong to this host. A small buffer is not
/// an error.
pub fn bind(address: SocketAddr) -> io::Result<(UdpSocket, SocketBuffers)> {
    let socket = open(address)?;
    socket.bind(&address.into())?;
    let buffers = enlarge(&socket, BUFFER_SIZE);
    Ok((socket.into(), buffers))
}

/// Returns an unbound socket for this address.
fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6()
        && let Err(e) = socket.set_only_v6(false)
    {
        tracing::debug!("no IPv4 at {address}: {e}");
    }
    Ok(socket)
}

/// Binds further sockets to the address of `first`, with the same buffers. Packets are divided among
/// all sockets by connection ID ([`steering`]). The address is taken for other programs as before,
/// because `first` was bound alone.
///
/// # Errors
/// Returns an error if the system does not share the address, or cannot divide packets by
/// connection ID. Such an error is usual if another user bound `first`.
pub(crate) fn bind_beside(first: &UdpSocket, size: NonZeroU8) -> io::Result<Vec<UdpSocket>> {
    let address = first.local_addr()?;
    SockRef::from(first).set_reuse_port(true)?;
    let others = (1..size.get()).map(|_| {
        let socket = open(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        enlarge(&socket, BUFFER_SIZE);
        Ok(socket.into())
    });
    let others = others.collect::<io::Result<_>>()?;
    steering::steer(first, size)?;
    Ok(others)
}

/// Requests buffers of [`BUFFER_SIZE`] bytes for a socket that is already bound.
pub fn adopt(socket: UdpSocket) -> (UdpSocket, SocketBuffers) {
    let socket = Socket::from(socket);
    let buffers = enlarge(&socket, BUFFER_SIZE);
    (socket.into(), buffers)
}

/// Requests buffers of this many bytes. First tries without privileges, up to `net.core.rmem_max`
/// and `wmem_max`, and then as an administrator.
fn enlarge(socket: &Socket, bytes: usize) -> SocketBuffers {
    let receive = enlarge_buffer(
        bytes,
        || socket.set_recv_buffer_size(bytes),
        || force_receive(socket, bytes),
        || socket.recv_buffer_size(),
    );
    let send = enlarge_buffer(
        bytes,
        || socket.set_send_buffer_size(bytes),
        || force_send(socket, bytes),
        || socket.send_buffer_size(),
    );
    SocketBuffers { receive, send }
}

/// Enlarges a buffer and returns the granted size. If the calls fail, the result is the system's
/// default size.
fn enlarge_buffer(
    requested: usize,
    request: impl Fn() -> io::Result<()>,
    force: impl Fn() -> io::Result<()>,
    read: impl Fn() -> io::Result<usize>,
) -> usize {
    let granted = || read().unwrap_or(0) / FACTOR;
    let _ = request();
    if granted() < requested {
        let _ = force();
    }
    granted()
}

/// Ratio of the reported to the requested size. Linux reports twice the requested size (socket(7)).
const FACTOR: usize = if cfg!(target_os = "linux") { 2 } else { 1 };

/// Sets the receive buffer beyond the system's limit, which requires CAP_NET_ADMIN.
#[cfg(target_os = "linux")]
fn force_receive(socket: &Socket, bytes: usize) -> io::Result<()> {
    Ok(sockopt::set_socket_recv_buffer_size_force(socket, bytes)?)
}

/// Sets the send buffer beyond the system's limit, which requires CAP_NET_ADMIN.
#[cfg(target_os = "linux")]
fn force_send(socket: &Socket, bytes: usize) -> io::Result<()> {
    Ok(sockopt::set_socket_send_buffer_size_force(socket, bytes)?)
}

#[cfg(not(target_os = "linux"))]
fn force_receive(_: &Socket, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn force_send(_: &Socket, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the buffer size that any process is granted here.
    fn bound(name: &str) -> usize {
        let text =
            std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    #[test]
    fn udp_socket_reports_the_buffer_sizes_granted() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok((socket, buffers)) = bind(address.parse().unwrap()) else {
                assert!(address.starts_with('['), "every system has IPv4");
                continue;
            };
            assert!(
                buffers.receive >= BUFFER_SIZE.min(bound("rmem_max")),
                "{address}: {buffers:?}"
            );
            assert!(buffers.send >= BUFFER_SIZE.min(bound("wmem_max")), "{address}: {buffers:?}");
            let read = socket2::SockRef::from(&socket).recv_buffer_size().unwrap();
            assert_eq!(read / FACTOR, buffers.receive, "{address}");
        }
    }

    #[test]
    fn binding_an_address_in_use_is_an_error() {
        let (socket, _) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(bind(socket.local_addr().unwrap()).is_err());
    }
}
