//! The server: accepts connections, answers `GET /bytes/N` with N bytes, one request of a connection after the other.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use fathom_cc::Time;
use fathom_netsim::sim::{Received, flow_of};
use fathom_plugin::Observer;
use fathom_stacks::{Monitor, NativeMonitor, NativeWatch};
use parking_lot::Mutex;
use quiche::fathom::simulation::run_at;
use quiche::h3::{self, NameValue};

use super::Setup;
use super::connection::{Connection, Quic, Shared, Side, lock};
use super::endpoint::{Cid, Endpoint};
use crate::stack::Host;

/// A request: its stream, and the length of the body it asks for; `None`: there is nothing of that name.
#[derive(Clone, Copy, Debug)]
struct Request {
    stream: u64,
    bytes: Option<u64>,
}

/// An answer being written.
#[derive(Clone, Copy, Debug)]
struct Answer {
    request: Request,
    begun: bool,
    left: u64,
}

/// The server's side of a connection.
#[derive(Default)]
pub(super) struct ServerResponses {
    /// Requests whose end has not come. No more than the streams a client may have open, as those that wait.
    arriving: Vec<Request>,
    waiting: VecDeque<Request>,
    answer: Option<Answer>,
    over: bool,
    waker: Option<Waker>,
}

impl ServerResponses {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Side for ServerResponses {
    fn on_readable(&mut self, quic: &mut Quic, http: &mut h3::Connection, stream: u64, event: h3::Event, _: Time) {
        let position = self.arriving.iter().position(|request| request.stream == stream);
        match (event, position) {
            (h3::Event::Headers { list, .. }, None) => {
                let path = list.iter().find(|header| header.name() == b":path");
                let path = path.and_then(|header| std::str::from_utf8(header.value()).ok());
                let bytes = path.and_then(|path| path.strip_prefix("/bytes/")?.parse().ok());
                self.arriving.push(Request { stream, bytes });
            }
            (h3::Event::Data, _) => {
                let mut scratch = [0; 4096];
                while http.recv_body(quic, stream, &mut scratch).is_ok() {}
            }
            (h3::Event::Finished, Some(position)) => {
                self.waiting.push_back(self.arriving.swap_remove(position));
                self.wake();
            }
            (h3::Event::Reset(_), Some(position)) => {
                self.arriving.swap_remove(position);
            }
            _ => {}
        }
    }

    fn write(&mut self, quic: &mut Quic, http: &mut h3::Connection) {
        let Some(answer) = &mut self.answer else { return };
        if !answer.begun {
            match head(quic, http, answer.request) {
                Err(h3::Error::StreamBlocked) => return,
                Err(_) => answer.left = 0,
                Ok(()) => answer.begun = true,
            }
        }
        if answer.left > 0 {
            // A client that goes away in the middle is its own affair.
            answer.left = super::write_zeros(quic, http, answer.request.stream, answer.left).unwrap_or(0);
        }
        if answer.left == 0 {
            self.answer = None;
            self.wake();
        }
    }

    fn over(&mut self, _: String) {
        self.over = true;
        self.wake();
    }
}

/// Writes a response's header, and its end where no body follows.
fn head(quic: &mut Quic, http: &mut h3::Connection, request: Request) -> Result<(), h3::Error> {
    let Some(bytes) = request.bytes else {
        return http.send_response(quic, request.stream, &[h3::HeaderRef::new(b":status", b"404")], true);
    };
    let length = bytes.to_string();
    let headers = [
        h3::HeaderRef::new(b":status", b"200"),
        h3::HeaderRef::new(b"content-length", length.as_bytes()),
        h3::HeaderRef::new(b"content-type", b"application/octet-stream"),
    ];
    http.send_response(quic, request.stream, &headers, bytes == 0)
}

/// What accepts connections.
pub(super) struct Acceptor {
    pub(super) endpoint: Arc<Endpoint<ServerResponses>>,
    pub(super) config: Mutex<quiche::Config>,
    pub(super) setup: Setup,
    pub(super) host: Arc<dyn Host>,
}

impl Acceptor {
    /// Accepts and serves connections for as long as it is polled.
    pub(super) async fn run(self) {
        let endpoint = Arc::clone(&self.endpoint);
        endpoint.receive(|cid, packet, received| self.accept(cid, packet, received)).await;
    }

    /// A connection for a client's first packet.
    fn accept(&self, addressed: Cid, packet: &mut [u8], received: &Received) -> Option<Shared<ServerResponses>> {
        let endpoint = &self.endpoint;
        let header = quiche::Header::from_slice(packet, 0).ok()?;
        if header.ty != quiche::Type::Initial || !quiche::version_is_supported(header.version) || !endpoint.has_room() {
            return None;
        }
        let ip = received.to?;
        let flow = flow_of(ip);
        let (cid, mut rng) = endpoint.next();
        let observer = self.host.observer(flow);
        let mut config = self.config.lock();
        self.setup.apply(&mut config, observer.clone());
        let here = (ip, endpoint.socket.address().port()).into();
        let quic = run_at(endpoint.sim.instant(), &mut rng, || {
            quiche::accept_with_buf_factory(&cid.id(), None, here, received.from, &mut config)
        });
        let quic: Quic = quic.ok()?;
        let (sender, watched) = self.sender(&quic, observer);
        let connection = Connection::new(quic, rng, vec![cid, addressed], ServerResponses::default(), watched);
        endpoint.adopt(&connection);
        let id = self.host.began(sender);
        let (endpoint, host) = (Arc::clone(endpoint), Arc::clone(&self.host));
        let served = Arc::clone(&connection);
        endpoint.sim.clone().spawn(async move {
            serve(&endpoint, &served, &*host, flow).await;
            host.ended(id);
        });
        Some(connection)
    }

    /// Reports the state of the connection's controller.
    fn sender(&self, quic: &Quic, observer: Option<Arc<dyn Observer>>) -> (Monitor, Option<NativeWatch>) {
        if let Some(monitor) = quic.fathom() {
            return (Monitor::Fathom(monitor), None);
        }
        let (sim, monitor) = (self.endpoint.sim.clone(), Arc::new(NativeMonitor::default()));
        let clock = Arc::new(move || sim.time());
        let watch = NativeWatch { clock, observer, monitor: Arc::clone(&monitor) };
        (Monitor::Native(monitor), Some(watch))
    }
}

/// Serves the requests of one connection until it closes.
async fn serve(
    endpoint: &Endpoint<ServerResponses>,
    connection: &Shared<ServerResponses>,
    host: &dyn Host,
    flow: Option<u32>,
) {
    loop {
        let request = poll_fn(|cx| {
            let side = &mut lock(connection).side;
            if side.over {
                return Poll::Ready(None);
            }
            if side.answer.is_none()
                && let Some(request) = side.waiting.pop_front()
            {
                return Poll::Ready(Some(request));
            }
            side.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        let Some(request) = request.await else { return };
        host.think(flow).await;
        let answer = Answer { request, begun: false, left: request.bytes.unwrap_or(0) };
        // Its driver writes it.
        lock(connection).with(&endpoint.sim, |c| c.side.answer = Some(answer));
    }
}
