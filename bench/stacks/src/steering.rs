//! Several sockets at one address, each with an endpoint of its own. The kernel delivers a packet to
//! the endpoint of its connection, even if the client's address changes.
//!
//! The first byte of a connection ID, modulo the number of endpoints, is the index of the endpoint
//! that issued it. A client's first packets have an ID that the client made up. They go to one
//! endpoint by the same rule, and the client's later packets have an ID of that endpoint.

use std::io;
use std::net::UdpSocket;
use std::num::NonZeroU8;

/// Index of an endpoint among the endpoints at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    index: u8,
    size: NonZeroU8,
}

impl Place {
    /// Returns the places of this number of endpoints.
    pub fn all(size: NonZeroU8) -> impl ExactSizeIterator<Item = Self> {
        (0..size.get()).map(move |index| Self { index, size })
    }

    /// Returns whether the endpoint at this place gets the packets with this connection ID.
    pub fn owns(self, id: &[u8]) -> bool {
        id.first().is_some_and(|first| *first % self.size == self.index)
    }
}

/// Makes the kernel choose among `size` sockets at one address (SO_REUSEPORT) by the connection ID
/// of a packet. `socket` is any of them, and their order is the order in which they were bound.
///
/// # Errors
/// Returns an error if the system has no such choice. Only Linux has it.
pub fn steer(socket: &UdpSocket, size: NonZeroU8) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return linux::steer(socket, size);
    #[cfg(not(target_os = "linux"))]
    return Err(io::ErrorKind::Unsupported.into());
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::UdpSocket;
    use std::num::NonZeroU8;

    use nix::libc::{
        BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_JA, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_MOD, BPF_RET,
        sock_filter, sock_fprog,
    };
    use nix::sys::socket::{setsockopt, sockopt::AttachReusePortCbpf};

    /// Bit of a packet's first byte that marks a long header, and the offsets of the first byte of
    /// the destination connection ID (RFC 8999 §5.1, §5.2).
    const LONG_HEADER: u32 = 0x80;
    const IN_LONG_HEADER: u32 = 6;
    const IN_SHORT_HEADER: u32 = 1;

    /// Attaches a program of the classic packet filter (bpf(4) of BSD), which sees the UDP payload.
    /// A packet that is too short goes to the first socket.
    pub(super) fn steer(socket: &UdpSocket, size: NonZeroU8) -> io::Result<()> {
        let step = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
        let load = BPF_LD | BPF_B | BPF_ABS;
        let mut program = [
            step(load, 0, 0, 0),
            step(BPF_JMP | BPF_JSET | BPF_K, 0, 2, LONG_HEADER),
            step(load, 0, 0, IN_LONG_HEADER),
            step(BPF_JMP | BPF_JA, 0, 0, 1),
            step(load, 0, 0, IN_SHORT_HEADER),
            step(BPF_ALU | BPF_MOD | BPF_K, 0, 0, size.get().into()),
            step(BPF_RET | BPF_A, 0, 0, 0),
        ];
        let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        Ok(setsockopt(socket, AttachReusePortCbpf, &program)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_id_belongs_to_one_place() {
        for size in [1, 2, 3, 64, 255] {
            let places: Vec<_> = Place::all(NonZeroU8::new(size).unwrap()).collect();
            for first in 0..=255 {
                let owners = places.iter().filter(|place| place.owns(&[first, 1])).count();
                assert_eq!(owners, 1, "{first} of {size}");
            }
            assert!(places.iter().all(|place| !place.owns(&[])));
        }
    }
}
