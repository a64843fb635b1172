//! noq's sockets in the simulation; its runtime and timers are in `runtime.rs`.

#[path = "runtime.rs"]
mod runtime;

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

use noq as stack;
use noq::udp::{RecvMeta, Transmit};

use self::runtime::{codepoint, of_codepoint};
use crate::sim::{SEGMENTS, SimSocket};

/// A socket as an endpoint holds it.
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
        let count = self.receive(bufs.len().min(meta.len()), cx.waker(), |at, bytes, received| {
            let len = received.len.min(bufs[at].len());
            bufs[at][..len].copy_from_slice(&bytes[..len]);
            let mut m = RecvMeta::default();
            (m.len, m.stride, m.addr, m.dst_ip) = (len, len, received.from, received.to);
            m.ecn = received.ecn.map(codepoint);
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
        let ecn = t.ecn.map(of_codepoint);
        Poll::Ready(self.send(t.destination, t.src_ip, ecn, t.contents, t.segment_size))
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        NonZeroUsize::new(SEGMENTS).unwrap_or(NonZeroUsize::MIN)
    }
}
