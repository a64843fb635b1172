//! Socket that sends datagrams with the controller's size and send delay.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::stack::{
    AsyncTimer, AsyncUdpSocket, EcnCodepoint, Pointer, ReleaseSender, Runtime, Transmit,
};
use crate::shaping_socket::{DelayQueue, DelayedDatagram, DelayedSends, TrailerRegistry, Trimmed};

/// Wraps an endpoint's socket so that controllers may set the datagram size
/// ([`fathom_cc::SendParams::datagram`]) and delay packets ([`fathom_cc::Pacing::Delay`]), which
/// the stack alone does not support. The module of [`TrailerRegistry`] describes how this works, and
/// its limits.
///
/// Create plug-ins with [`named_with_shaping`](crate::Plugin::named_with_shaping) and
/// [`ShapingSocket::registry`], and the endpoint with [`ShapingSocket::socket`]. Such an endpoint
/// cannot send several datagrams per system call (GSO).
pub struct ShapingSocket(Wrapped);

impl ShapingSocket {
    /// Wraps `socket`. `runtime` is the runtime of the endpoint.
    pub fn new(socket: Pointer<dyn AsyncUdpSocket>, runtime: &Arc<dyn Runtime>) -> Self {
        Self::with_registry(&Arc::new(TrailerRegistry::new(runtime.now())), socket, runtime)
    }

    /// Wraps another socket for the plug-ins of the same registry: the socket of a second endpoint,
    /// or the socket to which an endpoint's `rebind_abstract` moves. An endpoint that moves to a
    /// socket without a shaping socket loses a few packets of each connection and then continues
    /// without shaping.
    pub fn with_registry(
        registry: &Arc<TrailerRegistry>,
        socket: Pointer<dyn AsyncUdpSocket>,
        runtime: &Arc<dyn Runtime>,
    ) -> Self {
        let (delayed, delayed_sends) = DelayQueue::new();
        runtime.spawn(Box::pin(ReleaseTask {
            sender: ReleaseSender::new(&socket),
            timer: runtime.new_timer(runtime.now()),
            runtime: Arc::clone(runtime),
            delayed_sends,
        }));
        Self(Wrapped { inner: socket, shaper: Shaper { registry: Arc::clone(registry), delayed } })
    }

    /// Binds a UDP socket and wraps it.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound or the runtime refuses the socket.
    pub fn bind(address: SocketAddr, runtime: &Arc<dyn Runtime>) -> io::Result<Self> {
        let socket = runtime.wrap_udp_socket(std::net::UdpSocket::bind(address)?)?;
        Ok(Self::new(socket, runtime))
    }

    /// Returns the registry, for [`named_with_shaping`](crate::Plugin::named_with_shaping).
    pub fn registry(&self) -> &Arc<TrailerRegistry> {
        &self.0.shaper.registry
    }

    /// Returns the socket, for `new_with_abstract_socket` of the stack's endpoint.
    pub fn socket(self) -> Pointer<dyn AsyncUdpSocket> {
        Pointer::new(self.0)
    }
}

impl fmt::Debug for ShapingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The wrapped socket. Its [`AsyncUdpSocket`] implementation is in the stack's `socket`, because
/// stacks send in different ways.
pub(super) struct Wrapped {
    pub(super) inner: Pointer<dyn AsyncUdpSocket>,
    pub(super) shaper: Shaper,
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShapingSocket({:?})", self.inner)
    }
}

/// State that trims and delays datagrams.
#[derive(Clone)]
pub(super) struct Shaper {
    registry: Arc<TrailerRegistry>,
    delayed: DelayQueue<SendMeta>,
}

impl Shaper {
    /// Returns the part of a datagram to send now, which may be the whole datagram. Returns `None`
    /// if the datagram is delayed.
    pub(super) fn shape<'a>(&self, transmit: &Transmit<'a>) -> Option<Transmit<'a>> {
        let Some(Trimmed { datagram, release }) = self.registry.read(transmit.contents) else {
            return Some(transmit.clone());
        };
        let meta = SendMeta {
            destination: transmit.destination,
            ecn: transmit.ecn,
            src_ip: transmit.src_ip,
        };
        let kept_back = release.is_some_and(|at| self.delayed.push(at, datagram, meta));
        (!kept_back).then(|| meta.transmit(datagram))
    }
}

/// Information on how to send a delayed datagram.
#[derive(Clone, Copy, Debug)]
struct SendMeta {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
}

impl SendMeta {
    fn transmit<'a>(&self, contents: &'a [u8]) -> Transmit<'a> {
        Transmit {
            destination: self.destination,
            ecn: self.ecn,
            contents,
            segment_size: None,
            src_ip: self.src_ip,
        }
    }
}

/// Task that sends the delayed datagrams. It ends when no datagram is left and the shaping socket
/// no longer exists.
struct ReleaseTask {
    sender: ReleaseSender,
    timer: Pin<Box<dyn AsyncTimer>>,
    runtime: Arc<dyn Runtime>,
    delayed_sends: DelayedSends<SendMeta>,
}

impl Future for ReleaseTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { sender, timer, runtime, delayed_sends } = &mut *self;
        let wait = |until, cx: &mut Context<'_>| {
            timer.as_mut().reset(until);
            timer.as_mut().poll(cx)
        };
        delayed_sends.poll(cx, || runtime.now(), wait, |delayed, cx| send(sender, delayed, cx))
    }
}

/// Sends a delayed datagram. Returns `Pending` until the socket accepts the datagram. After an
/// error, the datagram is lost, as it might be in the network.
fn send(
    sender: &mut ReleaseSender,
    delayed: &DelayedDatagram<SendMeta>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    sender.poll_send(&delayed.meta.transmit(&delayed.bytes), cx).map(|sent| {
        if let Err(e) = sent {
            tracing::debug!("a delayed datagram was lost: {e}");
        }
    })
}
