//! noq's traits for sockets and their senders.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::shaping_socket::{Shaper, Wrapped};
use super::stack::{AsyncUdpSocket, Transmit};

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

/// Sender of one connection. It sends one datagram per call, because datagrams may be trimmed by
/// different lengths and may leave at different times.
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
