//! tokio as a runtime, with the kernel's sockets. Supports batches in one system call (GSO, GRO)
//! and ECN.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use quinn_udp::{EcnCodepoint, UdpSocketState};
use tokio::io::Interest;
use tokio::time::Sleep;

use super::{RECEIVE_BATCH, RecvMeta, Runtime, Timer, Transmit, UdpSocket, WaitWritable};
use crate::ecn::Ecn;

/// The tokio runtime of the current thread.
#[derive(Clone, Copy, Debug)]
pub struct TokioRuntime;

impl Runtime for TokioRuntime {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn Timer>> {
        Box::pin(tokio::time::sleep_until(at.into()))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(task);
    }
}

impl Timer for Sleep {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        Self::reset(self, at.into());
    }

    fn poll_expired(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx)
    }
}

/// A UDP socket of the system.
#[derive(Debug)]
pub struct TokioSocket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
}

impl TokioSocket {
    /// Takes over a socket. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the system refuses the options that batches and ECN need.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        // This also makes the socket non-blocking, as tokio requires.
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { io: tokio::net::UdpSocket::from_std(socket)?, state })
    }
}

impl UdpSocket for TokioSocket {
    fn local_address(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    fn try_send(&self, batch: &Transmit<'_>) -> io::Result<()> {
        let transmit = quinn_udp::Transmit {
            destination: batch.to,
            ecn: batch.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn.bits())),
            contents: batch.contents,
            segment_size: batch.segment,
            src_ip: batch.from,
        };
        let send = || self.state.send((&self.io).into(), &transmit);
        self.io.try_io(Interest::WRITABLE, send)
    }

    fn wait_writable(self: Arc<Self>) -> Box<dyn WaitWritable> {
        let wait = move || {
            let socket = Arc::clone(&self);
            async move { socket.io.writable().await }
        };
        Box::new(Waiting { wait, current: Box::pin(None) })
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let room = buffers.len().min(metas.len()).min(RECEIVE_BATCH);
        let mut received = [quinn_udp::RecvMeta::default(); RECEIVE_BATCH];
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let mut receive =
                || self.state.recv((&self.io).into(), &mut buffers[..room], &mut received[..room]);
            // After an error, which may concern an earlier datagram, the socket is still usable.
            // tokio waits again if no datagram has arrived.
            let Ok(count) = self.io.try_io(Interest::READABLE, &mut receive) else { continue };
            for (meta, received) in metas.iter_mut().zip(&received[..count]) {
                *meta = describe(received);
            }
            return Poll::Ready(Ok(count));
        }
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }
}

fn describe(received: &quinn_udp::RecvMeta) -> RecvMeta {
    RecvMeta {
        len: received.len,
        segment: received.stride,
        ecn: received.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8)),
        from: received.addr,
        to: received.dst_ip,
    }
}

/// A task's wait for room. `wait` starts a wait, and `current` is the wait in progress. All waits
/// use the same allocation.
struct Waiting<W, F> {
    wait: W,
    current: Pin<Box<Option<F>>>,
}

impl<W, F> WaitWritable for Waiting<W, F>
where
    W: Fn() -> F + Send,
    F: Future<Output = io::Result<()>> + Send,
{
    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.current.is_none() {
            self.current.set(Some((self.wait)()));
        }
        let Some(current) = self.current.as_mut().as_pin_mut() else { return Poll::Pending };
        let writable = ready!(current.poll(cx));
        self.current.set(None);
        Poll::Ready(writable)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Tests batches, ECN and addresses between two sockets of this host.
    #[test]
    fn batch_of_datagrams_arrives_with_its_ecn_field() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket =
                || TokioSocket::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
            let (from, to) = (Arc::new(socket()), socket());
            let count = from.max_transmit_segments().min(3);
            let contents = vec![7; 100 * count];
            let mut writable = Arc::clone(&from).wait_writable();
            let batch = Transmit {
                to: to.local_address().unwrap(),
                from: None,
                ecn: Some(Ecn::Ect1),
                contents: &contents,
                segment: Some(100),
            };
            poll_fn(|cx| writable.poll_writable(cx)).await.unwrap();
            from.try_send(&batch).unwrap();
            let mut arrived = 0;
            while arrived < contents.len() {
                let mut storage = [[0; 1 << 16]; 2];
                let mut buffers = storage.each_mut().map(|buffer| IoSliceMut::new(buffer));
                let mut metas = [RecvMeta::default(); 2];
                let filled = poll_fn(|cx| to.poll_receive(cx, &mut buffers, &mut metas)).await;
                for meta in &metas[..filled.unwrap()] {
                    assert_eq!((meta.ecn, meta.segment), (Some(Ecn::Ect1), 100));
                    assert_eq!(meta.from, from.local_address().unwrap());
                    arrived += meta.len;
                }
            }
        });
    }
}
