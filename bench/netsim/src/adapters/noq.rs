//! The simulation as noq sees it: its runtime, its timers, its sockets.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use noq::udp::{EcnCodepoint, RecvMeta, Transmit};

use crate::sim::{Ecn, SEGMENTS, SimHandle, SimSocket, Sleep};

impl noq::Runtime for SimHandle {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn noq::AsyncTimer>> {
        Box::pin(Sleep::new(self.clone(), self.nanos_of(at)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn_boxed(future);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Box<dyn noq::AsyncUdpSocket>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the simulation has no operating-system sockets"))
    }

    fn now(&self) -> Instant {
        self.instant()
    }
}

impl noq::AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        Sleep::reset(&self, at);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }
}

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
        let count = self.receive(bufs.len().min(meta.len()), cx.waker(), |at, bytes, received| {
            let len = received.len.min(bufs[at].len());
            bufs[at][..len].copy_from_slice(&bytes[..len]);
            let mut m = RecvMeta::default();
            (m.len, m.stride, m.addr, m.dst_ip) = (len, len, received.from, received.to);
            m.ecn = received.ecn.map(|ecn| match ecn {
                Ecn::Ect0 => EcnCodepoint::Ect0,
                Ecn::Ect1 => EcnCodepoint::Ect1,
                Ecn::Ce => EcnCodepoint::Ce,
            });
            meta[at] = m;
        });
        count.map_or(Poll::Pending, |count| Poll::Ready(Ok(count)))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address())
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl noq::UdpSender for SimSocket {
    fn poll_send(self: Pin<&mut Self>, t: &Transmit<'_>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ecn = t.ecn.map(|ecn| match ecn {
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        });
        Poll::Ready(self.send(t.destination, t.src_ip, ecn, t.contents, t.segment_size))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(SEGMENTS).unwrap_or(NonZeroUsize::MIN)
    }
}
