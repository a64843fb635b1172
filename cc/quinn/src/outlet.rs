//! A socket through which datagrams of the controller's size and hold leave.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use fathom_plug::{DelayLine, Gate, Held};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

/// Wraps an endpoint's socket, so that controllers may set the datagram size ([`fathom_cc::Advice::datagram`]) and keep packets back
/// ([`fathom_cc::Pace::Hold`]), which quinn does not. How it works, and its limits: [`fathom_plug::Gate`]'s module.
///
/// Make plugs with [`fathom_plug::Plug::named_through`] and [`Outlet::gate`], and the endpoint with [`Outlet::socket`]. Several
/// datagrams per system call (GSO) are given up on such an endpoint.
#[derive(Clone)]
pub struct Outlet(Arc<Wrapped>);

impl Outlet {
    /// Wraps `socket`; `runtime` is the endpoint's.
    pub fn new(socket: Arc<dyn AsyncUdpSocket>, runtime: &Arc<dyn Runtime>) -> Self {
        let line = Arc::new(Line { state: Mutex::default(), runtime: Arc::clone(runtime) });
        runtime.spawn(Box::pin(Release {
            poller: Arc::clone(&socket).create_io_poller(),
            timer: runtime.new_timer(runtime.now()),
            socket: Arc::clone(&socket),
            line: Arc::downgrade(&line),
        }));
        Self(Arc::new(Wrapped { inner: socket, gate: Arc::new(Gate::new()), line: Alive(Some(line)) }))
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
        &self.0.gate
    }

    /// For [`quinn::Endpoint::new_with_abstract_socket`].
    pub fn socket(&self) -> Arc<dyn AsyncUdpSocket> {
        Arc::clone(&self.0) as Arc<dyn AsyncUdpSocket>
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet({:?})", self.0.inner)
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
    inner: Arc<dyn AsyncUdpSocket>,
    gate: Arc<Gate>,
    line: Alive,
}

impl fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet({:?})", self.inner)
    }
}

impl AsyncUdpSocket for Wrapped {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, t: &Transmit<'_>) -> io::Result<()> {
        match self.gate.read(t.contents) {
            None => self.inner.try_send(t),
            Some((datagram, hold)) if !hold.is_zero() && self.line.push(hold, t, datagram) => Ok(()),
            Some((datagram, _)) => self.inner.try_send(&Transmit {
                destination: t.destination,
                ecn: t.ecn,
                contents: datagram,
                segment_size: None,
                src_ip: t.src_ip,
            }),
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
        // Each datagram may be cut by another length and leave at another time.
        1
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// The task that sends what was kept back; it ends with the outlet.
struct Release {
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
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
        loop {
            if self.poller.as_mut().poll_writable(cx).is_pending() {
                return Poll::Pending;
            }
            match self.socket.try_send(&transmit) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => {
                    tracing::debug!("a datagram kept back was lost: {e}");
                    return Poll::Ready(());
                }
                Ok(()) => return Poll::Ready(()),
            }
        }
    }
}
