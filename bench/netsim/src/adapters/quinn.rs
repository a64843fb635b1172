//! The simulation as quinn sees it: its runtime, its timers, its sockets.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};

use crate::sim::{Ecn, SEGMENTS, SimHandle, SimSocket, Sleep};

impl quinn::Runtime for SimHandle {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn quinn::AsyncTimer>> {
        Box::pin(Sleep::new(self.clone(), self.nanos_of(at)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn_boxed(future);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the simulation has no operating-system sockets"))
    }

    fn now(&self) -> Instant {
        self.instant()
    }
}

impl quinn::AsyncTimer for Sleep {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        Sleep::reset(&self, at);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }
}

impl quinn::AsyncUdpSocket for SimSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn quinn::UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, t: &Transmit<'_>) -> io::Result<()> {
        let ecn = t.ecn.map(|ecn| match ecn {
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        });
        self.send(t.destination, t.src_ip, ecn, t.contents, t.segment_size)
    }

    fn poll_recv(
        &self,
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

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// The virtual network has no send buffer to fill: queues are in its links.
#[derive(Debug)]
struct AlwaysWritable;

impl quinn::UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
