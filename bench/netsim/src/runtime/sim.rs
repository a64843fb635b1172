//! The simulation as a runtime.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::{RecvMeta, Runtime, Timer, Transmit, UdpSocket, WaitWritable};
use crate::sim::{SEGMENTS, SimHandle, SimSocket, Sleep};

impl Runtime for SimHandle {
    fn now(&self) -> Instant {
        self.instant()
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn Timer>> {
        Box::pin(Sleep::new(self.clone(), self.time_of(at)))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn_boxed(task);
    }
}

impl Timer for Sleep {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        Self::reset(&self, at);
    }

    fn poll_expired(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx)
    }
}

impl UdpSocket for SimSocket {
    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.address())
    }

    fn try_send(&self, batch: &Transmit<'_>) -> io::Result<()> {
        self.send(batch.to, batch.from, batch.ecn, batch.contents, batch.segment);
        Ok(())
    }

    fn wait_writable(self: Arc<Self>) -> Box<dyn WaitWritable> {
        Box::new(AlwaysWritable)
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let room = buffers.len().min(metas.len());
        let count = self.receive(room, cx.waker(), |at, bytes, received| {
            let len = received.len.min(buffers[at].len());
            buffers[at][..len].copy_from_slice(&bytes[..len]);
            let (ecn, from, to) = (received.ecn, received.from, received.to);
            metas[at] = RecvMeta { len, segment: len, ecn, from, to };
        });
        count.map_or(Poll::Pending, |count| Poll::Ready(Ok(count)))
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS
    }
}

/// A wait that is always over, because the virtual network has no send buffer: its queues are in
/// the links.
struct AlwaysWritable;

impl WaitWritable for AlwaysWritable {
    fn poll_writable(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
