//! A socket through which datagrams of the controller's size and hold leave.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fathom_plug::{DelayLine, Gate, Held};
use noq::udp::{EcnCodepoint, RecvMeta, Transmit};
use noq::{AsyncTimer, AsyncUdpSocket, Runtime, UdpSender};

/// Wraps an endpoint's socket, so that controllers may set the datagram size ([`fathom_cc::Advice::datagram`]) and keep packets back
/// ([`fathom_cc::Pace::Hold`]), where noq alone knows only a rate. How it works, and its limits: [`fathom_plug::Gate`]'s module.
///
/// Make plugs with [`fathom_plug::Plug::named_through`] and [`Outlet::gate`], and the endpoint with [`Outlet::socket`]. Several
/// datagrams per system call (GSO) are given up on such an endpoint.
pub struct Outlet {
    gate: Arc<Gate>,
    socket: Wrapped,
}

impl Outlet {
    /// Wraps `socket`; `runtime` is the endpoint's.
    pub fn new(socket: Box<dyn AsyncUdpSocket>, runtime: &Arc<dyn Runtime>) -> Self {
        let line = Arc::new(Line { state: Mutex::default(), runtime: Arc::clone(runtime) });
        runtime.spawn(Box::pin(Release {
            sender: socket.create_sender(),
            timer: runtime.new_timer(runtime.now()),
            line: Arc::downgrade(&line),
        }));
        let gate = Arc::new(Gate::new());
        Self { gate: Arc::clone(&gate), socket: Wrapped { inner: socket, gate, line: Alive(Some(line)) } }
    }

    /// Binds a UDP socket and wraps it.
    ///
    /// # Errors
    /// The address cannot be bound, or the runtime refuses the socket.
    pub fn bind(address: SocketAddr, runtime: &Arc<dyn Runtime>) -> io::Result<Self> {
        let socket = runtime.wrap_udp_socket(std::net::UdpSocket::bind(address)?)?;
        Ok(Self::new(socket, runtime))
    }

    /// For [`fathom_plug::Plug::named_through`].
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// For [`noq::Endpoint::new_with_abstract_socket`].
    pub fn socket(self) -> Box<dyn AsyncUdpSocket> {
        Box::new(self.socket)
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet({:?})", self.socket.inner)
    }
}

/// How to send a datagram that was kept back.
#[derive(Clone, Copy, Debug)]
struct How {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
}

struct Line {
    state: Mutex<LineState>,
    runtime: Arc<dyn Runtime>,
}

#[derive(Default)]
struct LineState {
    held: DelayLine<How>,
    waker: Option<Waker>,
}

impl Line {
    fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False when there is no room.
    fn push(&self, hold: Duration, t: &Transmit<'_>, datagram: &[u8]) -> bool {
        let how = How { destination: t.destination, ecn: t.ecn, src_ip: t.src_ip };
        let release = self.runtime.now() + hold;
        let mut state = self.state();
        let first = state.held.next().is_none_or(|next| release < next);
        let kept = state.held.push(release, datagram, how);
        let waker = state.waker.take_if(|_| first && kept);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        kept
    }
}

/// Ends the releasing task when the last user is gone.
#[derive(Clone)]
struct Alive(Option<Arc<Line>>);

impl Alive {
    /// False when there is no room.
    fn push(&self, hold: Duration, t: &Transmit<'_>, datagram: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|line| line.push(hold, t, datagram))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let waker = self.0.as_ref().and_then(|line| line.state().waker.take());
        // Gone first, so that the task finds nobody.
        self.0 = None;
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Wrapped {
    inner: Box<dyn AsyncUdpSocket>,
    gate: Arc<Gate>,
    line: Alive,
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet({:?})", self.inner)
    }
}

impl AsyncUdpSocket for Wrapped {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Sender { inner: self.inner.create_sender(), gate: Arc::clone(&self.gate), line: self.line.clone() })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// A connection's way to the socket. It sends one datagram per call: each may be cut by another length and leave at another time.
struct Sender {
    inner: Pin<Box<dyn UdpSender>>,
    gate: Arc<Gate>,
    line: Alive,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet({:?})", self.inner)
    }
}

impl UdpSender for Sender {
    fn poll_send(mut self: Pin<&mut Self>, t: &Transmit<'_>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let cut = match self.gate.read(t.contents) {
            None => return self.inner.as_mut().poll_send(t, cx),
            Some((datagram, hold)) if !hold.is_zero() && self.line.push(hold, t, datagram) => {
                return Poll::Ready(Ok(()));
            }
            Some((datagram, _)) => Transmit {
                destination: t.destination,
                ecn: t.ecn,
                contents: datagram,
                segment_size: None,
                src_ip: t.src_ip,
            },
        };
        self.inner.as_mut().poll_send(&cut, cx)
    }
}

/// The task that sends what was kept back; it ends with the outlet.
struct Release {
    sender: Pin<Box<dyn UdpSender>>,
    timer: Pin<Box<dyn AsyncTimer>>,
    line: Weak<Line>,
}

impl Future for Release {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(line) = self.line.upgrade() else { return Poll::Ready(()) };
        loop {
            let now: Instant = line.runtime.now();
            let due = {
                let mut state = line.state();
                let due = state.held.pop_due(now);
                if due.is_none() {
                    state.waker = Some(cx.waker().clone());
                }
                due.ok_or_else(|| state.held.next())
            };
            match due {
                Ok(held) => match self.send(&held, cx) {
                    Poll::Ready(()) => line.state().held.recycle(held.bytes),
                    Poll::Pending => {
                        line.state().held.put_back(held);
                        return Poll::Pending;
                    }
                },
                Err(Some(next)) => {
                    self.timer.as_mut().reset(next);
                    if self.timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
                Err(None) if Arc::strong_count(&line) == 1 => return Poll::Ready(()),
                Err(None) => return Poll::Pending,
            }
        }
    }
}

impl Release {
    /// Pending until the socket takes it; an error loses the datagram, as the network might.
    fn send(&mut self, held: &Held<How>, cx: &mut Context<'_>) -> Poll<()> {
        let transmit = Transmit {
            destination: held.how.destination,
            ecn: held.how.ecn,
            contents: &held.bytes,
            segment_size: None,
            src_ip: held.how.src_ip,
        };
        match self.sender.as_mut().poll_send(&transmit, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(sent) => {
                if let Err(e) = sent {
                    tracing::debug!("a datagram kept back was lost: {e}");
                }
                Poll::Ready(())
            }
        }
    }
}
