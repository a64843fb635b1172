//! The runtime of a stack that does no I/O itself: clock, timers, tasks and UDP sockets.
//!
//! | file | contents |
//! |---|---|
//! | `sim.rs` | the simulation |
//! | `tokio.rs` | tokio, with the kernel's sockets; feature `tokio-sockets` |
//!
//! quinn and noq have their own traits for this purpose. `crate::adapters` implements them.

mod sim;
#[cfg(feature = "tokio-sockets")]
mod tokio;

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

#[cfg(feature = "tokio-sockets")]
pub use self::tokio::{TokioRuntime, TokioSocket};
use crate::ecn::Ecn;

/// Largest number of buffers that one call of [`UdpSocket::poll_receive`] fills.
pub const RECEIVE_BATCH: usize = 8;

/// Clock, timers and tasks of a stack.
pub trait Runtime: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Instant;

    /// Returns a timer that expires at `at`.
    fn timer(&self, at: Instant) -> Pin<Box<dyn Timer>>;

    /// Starts a task.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

/// A timer for which one task waits.
pub trait Timer: Send {
    /// Moves the deadline. A task that waits for the timer continues to wait.
    fn reset(self: Pin<&mut Self>, at: Instant);

    /// Returns `Ready` once the deadline has passed. Before that, arranges that the task of `cx` is
    /// woken at the deadline.
    fn poll_expired(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
}

/// A UDP socket that sends and receives datagrams in batches, with ECN.
pub trait UdpSocket: Send + Sync + 'static {
    /// Returns the address to which the socket is bound.
    ///
    /// # Errors
    /// Returns an error if the system does not report the address.
    fn local_address(&self) -> io::Result<SocketAddr>;

    /// Sends a batch of datagrams in one call.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if the socket has no room. After any other error, the
    /// batch is lost.
    fn try_send(&self, batch: &Transmit<'_>) -> io::Result<()>;

    /// Returns a handle with which one task waits for room in the send buffer.
    fn wait_writable(self: Arc<Self>) -> Box<dyn WaitWritable>;

    /// Fills buffers with datagrams that have arrived, at most [`RECEIVE_BATCH`] of them, and
    /// describes each buffer in `metas`. Returns the number of filled buffers. If no datagram has
    /// arrived, the task of `cx` is woken by the next one.
    ///
    /// # Errors
    /// Returns an error that the system reports about an earlier datagram.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>>;

    /// Returns the largest number of datagrams in one [`Transmit`] (GSO).
    fn max_transmit_segments(&self) -> usize;

    /// Returns the largest number of datagrams in one buffer (GRO).
    fn max_receive_segments(&self) -> usize {
        1
    }
}

/// A wait for room in a socket's send buffer, for one task.
pub trait WaitWritable: Send {
    /// Returns `Ready` when the socket may have room.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be used any more.
    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Datagrams of one size to one address.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Address of the receiver.
    pub to: SocketAddr,
    /// Address from which the datagrams are sent, if the socket has several addresses.
    pub from: Option<IpAddr>,
    /// ECN field.
    pub ecn: Option<Ecn>,
    /// UDP payloads, one after another.
    pub contents: &'a [u8],
    /// Size in bytes of each payload except the last one, which may be smaller. `None` for a single
    /// datagram.
    pub segment: Option<usize>,
}

/// Description of a filled receive buffer. All datagrams in the buffer have the same sender.
#[derive(Clone, Copy, Debug)]
pub struct RecvMeta {
    /// Bytes in the buffer.
    pub len: usize,
    /// Size in bytes of each UDP payload except the last one, which may be smaller.
    pub segment: usize,
    /// ECN field on arrival.
    pub ecn: Option<Ecn>,
    /// Address of the sender.
    pub from: SocketAddr,
    /// Address to which the datagrams were sent, if the socket has several addresses.
    pub to: Option<IpAddr>,
}

impl Default for RecvMeta {
    fn default() -> Self {
        let from = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        Self { len: 0, segment: 0, ecn: None, from, to: None }
    }
}
