//! Sockets for both stacks that record the datagrams that they send, and may mark the datagrams
//! that they receive.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::marking::{Marks, mark};

/// Record of the datagrams that a socket sent.
#[derive(Clone, Debug, Default)]
pub struct Sizes(Arc<Mutex<Vec<(bool, usize)>>>, Arc<AtomicBool>);

impl Sizes {
    /// Drops all datagrams, or stops dropping them.
    pub fn black_out(&self, vanish: bool) {
        self.1.store(vanish, Ordering::Relaxed);
    }

    fn vanish(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    fn record(&self, contents: &[u8], segment: Option<usize>) {
        let mut sizes = self.0.lock();
        for datagram in contents.chunks(segment.unwrap_or(contents.len()).max(1)) {
            // Packets with long headers belong to the handshake.
            sizes.push((datagram[0] & 0x80 == 0, datagram.len()));
        }
    }

    /// Returns the sizes of the datagrams that begin with a 1-RTT packet, in order.
    pub fn one_rtt(&self) -> Vec<usize> {
        self.0.lock().iter().filter(|(one_rtt, _)| *one_rtt).map(|(_, len)| *len).collect()
    }

    /// Returns the number of datagrams so far.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }
}

#[derive(Debug)]
pub(crate) struct RecordingSocket<S> {
    inner: S,
    sizes: Sizes,
    /// Marks set on received datagrams.
    marks: Option<Marks>,
}

impl<S> RecordingSocket<S> {
    pub(crate) fn new(inner: S, sizes: Sizes, marks: Option<Marks>) -> Self {
        Self { inner, sizes, marks }
    }
}

impl quinn::AsyncUdpSocket for RecordingSocket<Arc<dyn quinn::AsyncUdpSocket>> {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn quinn::UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &quinn::udp::Transmit<'_>) -> io::Result<()> {
        if !self.sizes.vanish() {
            self.inner.try_send(transmit)?;
        }
        self.sizes.record(transmit.contents, transmit.segment_size);
        Ok(())
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

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl noq::AsyncUdpSocket for RecordingSocket<Box<dyn noq::AsyncUdpSocket>> {
    fn create_sender(&self) -> Pin<Box<dyn noq::UdpSender>> {
        Box::pin(RecordingSocket::new(self.inner.create_sender(), self.sizes.clone(), None))
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

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl noq::UdpSender for RecordingSocket<Pin<Box<dyn noq::UdpSender>>> {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &noq::udp::Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let vanish = self.sizes.vanish();
        let sent =
            if vanish { Poll::Ready(Ok(())) } else { self.inner.as_mut().poll_send(transmit, cx) };
        if let Poll::Ready(Ok(())) = sent {
            self.sizes.record(transmit.contents, transmit.segment_size);
        }
        sent
    }

    fn max_transmit_segments(&self) -> std::num::NonZeroUsize {
        self.inner.max_transmit_segments()
    }
}
