//! noq's sockets in the simulation. `runtime.rs` contains the runtime and the timers.

#[path = "runtime.rs"]
mod runtime;

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

use noq as stack;
use noq::udp::{RecvMeta, Transmit};

use self::runtime::{receive, send};
use crate::sim::{SEGMENTS, SimSocket};

/// Socket type of an endpoint.
type Socket = Box<dyn noq::AsyncUdpSocket>;

impl noq::AsyncUdpSocket for SimSocket {
    fn create_sender(&self) -> Pin<Box<dyn noq::UdpSender>> {
        Box::pin(self.clone())
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        receive(self, cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address())
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl noq::UdpSender for SimSocket {
    fn poll_send(
        self: Pin<&mut Self>,
        t: &Transmit<'_>,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        send(&self, t);
        Poll::Ready(Ok(()))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(SEGMENTS).unwrap_or(NonZeroUsize::MIN)
    }
}
