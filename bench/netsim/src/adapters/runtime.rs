//! The simulation as the runtime of a stack with quinn's interface, including sending and receiving
//! on its sockets. This file is compiled once per stack, with the types named by `super`.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::stack::udp::{EcnCodepoint, RecvMeta, Transmit};
use super::{Socket, stack};
use crate::ecn::Ecn;
use crate::sim::{SimHandle, SimSocket, Sleep};

impl stack::Runtime for SimHandle {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn stack::AsyncTimer>> {
        Box::pin(Sleep::new(self.clone(), self.time_of(at)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn_boxed(future);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Socket> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the simulation has no operating-system sockets",
        ))
    }

    fn now(&self) -> Instant {
        self.instant()
    }
}

impl stack::AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        Sleep::reset(&self, at);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }
}

/// Sends the datagrams of a stack's transmit.
pub(super) fn send(socket: &SimSocket, t: &Transmit<'_>) {
    let ecn = t.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
    socket.send(t.destination, t.src_ip, ecn, t.contents, t.segment_size);
}

/// Copies as many pending datagrams into the stack's buffers as fit.
pub(super) fn receive(
    socket: &SimSocket,
    cx: &Context<'_>,
    bufs: &mut [IoSliceMut<'_>],
    meta: &mut [RecvMeta],
) -> Poll<io::Result<usize>> {
    let count = socket.receive(bufs.len().min(meta.len()), cx.waker(), |at, bytes, received| {
        let len = received.len.min(bufs[at].len());
        bufs[at][..len].copy_from_slice(&bytes[..len]);
        let mut m = RecvMeta::default();
        (m.len, m.stride, m.addr, m.dst_ip) = (len, len, received.from, received.to);
        m.ecn = received.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn.bits()));
        meta[at] = m;
    });
    count.map_or(Poll::Pending, |count| Poll::Ready(Ok(count)))
}
