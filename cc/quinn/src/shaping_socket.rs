//! A socket through which datagrams of the controller's size and send delay leave.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fathom_plugin::{DelayQueue, DelayedDatagram, DelayedSends, TrailerRegistry, Trimmed};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

/// Wraps an endpoint's socket, so that controllers may set the datagram size ([`fathom_cc::SendParams::datagram`]) and keep packets back
/// ([`fathom_cc::Pacing::Delay`]), which quinn does not. How it works, and its limits: [`fathom_plugin::TrailerRegistry`]'s module.
///
/// Make plug-ins with [`fathom_plugin::Plugin::named_with_shaping`] and [`ShapingSocket::registry`], and the endpoint with [`ShapingSocket::socket`]. Several
/// datagrams per system call (GSO) are given up on such an endpoint.
#[derive(Clone)]
pub struct ShapingSocket(Arc<Wrapped>);

impl ShapingSocket {
    /// Wraps `socket`; `runtime` is the endpoint's.
    pub fn new(socket: Arc<dyn AsyncUdpSocket>, runtime: &Arc<dyn Runtime>) -> Self {
        Self::with_registry(&Arc::new(TrailerRegistry::new(runtime.now())), socket, runtime)
    }

    /// Wraps another socket for the plug-ins of the same registry: that of a second endpoint, or the one to which
    /// [`quinn::Endpoint::rebind_abstract`] moves. An endpoint that moves to a socket without a shaping socket loses a few packets of each
    /// connection and runs on without.
    pub fn with_registry(
        registry: &Arc<TrailerRegistry>,
        socket: Arc<dyn AsyncUdpSocket>,
        runtime: &Arc<dyn Runtime>,
    ) -> Self {
        let (held, delayed_sends) = DelayQueue::new();
        runtime.spawn(Box::pin(ReleaseTask {
            poller: Arc::clone(&socket).create_io_poller(),
            timer: runtime.new_timer(runtime.now()),
            runtime: Arc::clone(runtime),
            socket: Arc::clone(&socket),
            delayed_sends,
        }));
        Self(Arc::new(Wrapped { inner: socket, registry: Arc::clone(registry), held }))
    }

    /// Binds a UDP socket and wraps it.
    ///
    /// # Errors
    /// The address cannot be bound, or the runtime refuses the socket.
    pub fn bind(address: SocketAddr, runtime: &Arc<dyn Runtime>) -> io::Result<Self> {
        let socket = runtime.wrap_udp_socket(std::net::UdpSocket::bind(address)?)?;
        Ok(Self::new(socket, runtime))
    }

    /// For [`fathom_plugin::Plugin::named_with_shaping`].
    pub fn registry(&self) -> &Arc<TrailerRegistry> {
        &self.0.registry
    }

    /// For [`quinn::Endpoint::new_with_abstract_socket`].
    pub fn socket(&self) -> Arc<dyn AsyncUdpSocket> {
        Arc::clone(&self.0) as Arc<dyn AsyncUdpSocket>
    }
}

impl fmt::Debug for ShapingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShapingSocket({:?})", self.0.inner)
    }
}

/// How to send a datagram that was kept back.
#[derive(Clone, Copy, Debug)]
struct SendMeta {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
}

impl SendMeta {
    fn transmit<'a>(&self, contents: &'a [u8]) -> Transmit<'a> {
        Transmit { destination: self.destination, ecn: self.ecn, contents, segment_size: None, src_ip: self.src_ip }
    }
}

struct Wrapped {
    inner: Arc<dyn AsyncUdpSocket>,
    registry: Arc<TrailerRegistry>,
    held: DelayQueue<SendMeta>,
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShapingSocket({:?})", self.inner)
    }
}

impl AsyncUdpSocket for Wrapped {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, t: &Transmit<'_>) -> io::Result<()> {
        let Some(Trimmed { datagram, release }) = self.registry.read(t.contents) else { return self.inner.try_send(t) };
        let meta = SendMeta { destination: t.destination, ecn: t.ecn, src_ip: t.src_ip };
        match release {
            Some(at) if self.held.push(at, datagram, meta) => Ok(()),
            _ => self.inner.try_send(&meta.transmit(datagram)),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        // Each datagram may be trimmed by another length and leave at another time.
        1
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// The task that sends what was kept back; it ends when that is done and the shaping socket is gone.
struct ReleaseTask {
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
    timer: Pin<Box<dyn AsyncTimer>>,
    runtime: Arc<dyn Runtime>,
    delayed_sends: DelayedSends<SendMeta>,
}

impl Future for ReleaseTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { socket, poller, timer, runtime, delayed_sends } = &mut *self;
        let wait = |until, cx: &mut Context<'_>| {
            timer.as_mut().reset(until);
            timer.as_mut().poll(cx)
        };
        delayed_sends.poll(cx, || runtime.now(), wait, |held, cx| send(&**socket, poller.as_mut(), held, cx))
    }
}

/// Pending until the socket takes it; an error loses the datagram, as the network might.
fn send(
    socket: &dyn AsyncUdpSocket,
    mut poller: Pin<&mut dyn UdpPoller>,
    held: &DelayedDatagram<SendMeta>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        let writable = std::task::ready!(poller.as_mut().poll_writable(cx));
        match writable.and_then(|()| socket.try_send(&held.meta.transmit(&held.bytes))) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => {
                tracing::debug!("a datagram kept back was lost: {e}");
                return Poll::Ready(());
            }
            Ok(()) => return Poll::Ready(()),
        }
    }
}
