//! Sockets that mark what they receive, as a router on the way would: every tenth read of 1-RTT packets.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Counts what was marked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    reads: Arc<AtomicU64>,
    /// Datagrams marked.
    pub(crate) datagrams: Arc<AtomicU64>,
}

impl Marks {
    /// Whether this read, of `len` bytes in datagrams of `stride`, is to be marked.
    fn next(&self, first_byte: u8, len: usize, stride: usize) -> bool {
        // Long headers are those of the handshake.
        let one_rtt = first_byte & 0x80 == 0;
        let marks = one_rtt && self.reads.fetch_add(1, Ordering::Relaxed) % 10 == 9;
        if marks {
            self.datagrams.fetch_add(len.div_ceil(stride.max(1)) as u64, Ordering::Relaxed);
        }
        marks
    }
}

fn bound(to: SocketAddr) -> UdpSocket {
    UdpSocket::bind(to).expect("a socket")
}

#[derive(Debug)]
struct Marking<S> {
    inner: S,
    marks: Marks,
}

/// Marks what a read gave: both stacks describe it in the same words.
macro_rules! mark {
    ($self:ident, $udp:path, $read:expr, $bufs:ident, $meta:ident) => {{
        use $udp as udp;
        let read = $read;
        if let Poll::Ready(Ok(count)) = &read {
            for (buf, meta) in $bufs.iter().zip($meta.iter_mut()).take(*count) {
                if $self.marks.next(buf[0], meta.len, meta.stride) && meta.ecn == Some(udp::EcnCodepoint::Ect0) {
                    meta.ecn = Some(udp::EcnCodepoint::Ce);
                }
            }
        }
        read
    }};
}

impl quinn::AsyncUdpSocket for Marking<Arc<dyn quinn::AsyncUdpSocket>> {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn quinn::UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &quinn::udp::Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [quinn::udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        mark!(self, quinn::udp, self.inner.poll_recv(cx, bufs, meta), bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }
}

impl noq::AsyncUdpSocket for Marking<Box<dyn noq::AsyncUdpSocket>> {
    fn create_sender(&self) -> Pin<Box<dyn noq::UdpSender>> {
        self.inner.create_sender()
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [noq::udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        mark!(self, noq::udp, self.inner.poll_recv(cx, bufs, meta), bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> std::num::NonZeroUsize {
        self.inner.max_receive_segments()
    }
}

pub(crate) fn on_quinn(config: quinn::ServerConfig, to: SocketAddr, marks: Marks) -> quinn::Endpoint {
    use quinn::Runtime as _;
    let runtime = Arc::new(quinn::TokioRuntime);
    let socket = Marking { inner: runtime.wrap_udp_socket(bound(to)).expect("wrapped"), marks };
    quinn::Endpoint::new_with_abstract_socket(quinn::EndpointConfig::default(), Some(config), Arc::new(socket), runtime)
        .expect("an endpoint")
}

pub(crate) fn on_noq(config: noq::ServerConfig, to: SocketAddr, marks: Marks) -> noq::Endpoint {
    use noq::Runtime as _;
    let runtime = Arc::new(noq::TokioRuntime);
    let socket = Marking { inner: runtime.wrap_udp_socket(bound(to)).expect("wrapped"), marks };
    noq::Endpoint::new_with_abstract_socket(noq::EndpointConfig::default(), Some(config), Box::new(socket), runtime)
        .expect("an endpoint")
}
