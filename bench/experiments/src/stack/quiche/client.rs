//! The client: opens connections, sends requests, counts the bytes received.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use fathom_cc::Time;
use fathom_netsim::sim::server_address;
use parking_lot::Mutex;
use quiche::fathom::simulation::run_at;
use quiche::h3::{self, NameValue};

use super::Setup;
use super::connection::{Connection, Quic, Shared, Side, lock};
use super::endpoint::Endpoint;
use crate::http::{Fetched, HttpError, NO_ERROR, padding};
use crate::stack::{BoxFuture, Client, Connector};

/// Digits of a request's cookie at most. quiche writes a header block whole or not at all, so it must fit a window; larger requests bring
/// the rest as a body.
const COOKIE: u64 = 12_800;

/// Digits of the cookie of a request that had to wait for room: 500 bytes.
const SMALL_COOKIE: u64 = 800;

/// A response on its way.
#[derive(Debug)]
struct Response {
    stream: u64,
    status: Option<u16>,
    first_byte: Time,
    bytes: u64,
    /// When it was complete, or why it will not be.
    end: Option<Result<Time, String>>,
    /// Bytes of the request's body left to write.
    body: u64,
}

/// A request to be sent: bytes of the response it asks for, digits of its cookie, bytes of its body.
#[derive(Clone, Copy, Debug)]
struct Request {
    bytes: u64,
    digits: u64,
    body: u64,
}

impl Request {
    fn new(bytes: u64, request_bytes: u64) -> Self {
        let digits = padding(request_bytes).unwrap_or(0);
        Self { bytes, digits: digits.min(COOKIE), body: digits.saturating_sub(COOKIE) * 5 / 8 }
    }

    /// The same with a header block that fits any window: after persistent congestion a window is two packets, and does not grow while
    /// nothing can be sent.
    fn smaller(self) -> Self {
        let digits = self.digits.min(SMALL_COOKIE);
        Self { digits, body: self.body + (self.digits - digits) * 5 / 8, ..self }
    }

    /// The stream it was sent on.
    fn send(self, quic: &mut Quic, http: &mut h3::Connection) -> Result<u64, h3::Error> {
        let path = format!("/bytes/{}", self.bytes);
        let header = h3::HeaderRef::new;
        let all = [
            header(b":method", b"GET"),
            header(b":scheme", b"https"),
            header(b":authority", b"lab.test"),
            header(b":path", path.as_bytes()),
            header(b"cookie", &DIGITS[..self.digits as usize]),
        ];
        let headers = &all[..if self.digits > 0 { 5 } else { 4 }];
        http.send_request(quic, headers, self.body == 0)
    }
}

/// The client's side of a connection.
#[derive(Default)]
pub(super) struct ClientRequests {
    open: bool,
    /// A request that waits for room: what was lost or not yet acknowledged of the handshake takes some of the first window.
    waiting: Option<Request>,
    response: Option<Response>,
    over: Option<String>,
    waker: Option<Waker>,
}

impl ClientRequests {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Sends a request, or keeps it until there is room.
    fn ask(&mut self, quic: &mut Quic, http: &mut h3::Connection, request: Request) {
        match request.send(quic, http) {
            Ok(stream) => {
                let body = request.body;
                let first_byte = Time::ZERO;
                self.response = Some(Response { stream, status: None, first_byte, bytes: 0, end: None, body });
            }
            Err(h3::Error::StreamBlocked) => self.waiting = Some(request.smaller()),
            Err(e) => {
                self.over = Some(format!("request: {e}"));
                self.wake();
            }
        }
    }

    fn failed(&self) -> Option<HttpError> {
        self.over.clone().map(HttpError::Connection)
    }
}

impl Side for ClientRequests {
    fn opened(&mut self) {
        self.open = true;
        self.wake();
    }

    fn on_readable(&mut self, quic: &mut Quic, http: &mut h3::Connection, stream: u64, event: h3::Event, now: Time) {
        let Some(response) = self.response.as_mut().filter(|response| response.stream == stream) else { return };
        match event {
            h3::Event::Headers { list, .. } if response.status.is_none() => {
                let status = list.iter().find(|header| header.name() == b":status");
                let status = status.and_then(|header| std::str::from_utf8(header.value()).ok()?.parse().ok());
                (response.status, response.first_byte) = (Some(status.unwrap_or(0)), now);
            }
            h3::Event::Data => {
                let mut scratch = [0; 4096];
                while let Ok(read) = http.recv_body(quic, stream, &mut scratch) {
                    response.bytes += read as u64;
                }
            }
            h3::Event::Finished => response.end = Some(Ok(now)),
            h3::Event::Reset(code) => response.end = Some(Err(format!("the stream was reset with {code:#x}"))),
            _ => {}
        }
        if response.end.is_some() {
            self.wake();
        }
    }

    fn write(&mut self, quic: &mut Quic, http: &mut h3::Connection) {
        if let Some(request) = self.waiting.take() {
            self.ask(quic, http, request);
        }
        if let Some(response) = self.response.as_mut().filter(|response| response.body > 0) {
            response.body = super::write_zeros(quic, http, response.stream, response.body).unwrap_or(0);
        }
    }

    fn over(&mut self, why: String) {
        self.over = Some(why);
        self.wake();
    }
}

pub(super) struct QuicheConnector {
    pub(super) endpoint: Arc<Endpoint<ClientRequests>>,
    pub(super) config: Mutex<quiche::Config>,
    pub(super) setup: Setup,
}

impl QuicheConnector {
    fn begin(&self, flow: u32) -> Result<Shared<ClientRequests>, HttpError> {
        let endpoint = &self.endpoint;
        let (cid, mut rng) = endpoint.next();
        let mut config = self.config.lock();
        self.setup.apply(&mut config, None);
        let (here, there) = (endpoint.socket.address(), server_address(flow));
        let quic = run_at(endpoint.sim.instant(), &mut rng, || {
            quiche::connect_with_buffer_factory(Some("lab.test"), &cid.id(), here, there, &mut config)
        });
        let quic = quic.map_err(|e| HttpError::Connect(e.to_string()))?;
        let connection = Connection::new(quic, rng, vec![cid], ClientRequests::default(), None);
        endpoint.adopt(&connection);
        Ok(connection)
    }
}

impl Connector for QuicheConnector {
    fn open(&self, flow: u32) -> BoxFuture<'static, Result<Box<dyn Client>, HttpError>> {
        let begun = self.begin(flow);
        let endpoint = Arc::clone(&self.endpoint);
        Box::pin(async move {
            let connection = begun?;
            poll_fn(|cx| {
                let side = &mut lock(&connection).side;
                if let Some(e) = side.failed() {
                    return Poll::Ready(Err(e));
                }
                if side.open {
                    return Poll::Ready(Ok(()));
                }
                side.waker = Some(cx.waker().clone());
                Poll::Pending
            })
            .await?;
            Ok(Box::new(QuicheClient { endpoint, connection }) as Box<dyn Client>)
        })
    }
}

struct QuicheClient {
    endpoint: Arc<Endpoint<ClientRequests>>,
    connection: Shared<ClientRequests>,
}

impl QuicheClient {
    /// Sends a request; its response then waits in the connection.
    fn ask(&self, bytes: u64, request_bytes: u64) -> Result<(), HttpError> {
        let request = Request::new(bytes, request_bytes);
        let mut connection = lock(&self.connection);
        connection.with(&self.endpoint.sim, |c| {
            if let Some(e) = c.side.failed() {
                return Err(e);
            }
            let Some(http) = &mut c.http else { return Err(HttpError::Connection("no HTTP/3".into())) };
            c.side.ask(&mut c.quic, http, request);
            Ok(())
        })
    }

    async fn answer(&self, wanted: u64) -> Result<Fetched, HttpError> {
        let response = poll_fn(|cx| {
            let side = &mut lock(&self.connection).side;
            if side.response.as_ref().is_some_and(|response| response.end.is_some()) {
                return Poll::Ready(Ok(side.response.take()));
            }
            if let Some(e) = side.failed() {
                return Poll::Ready(Err(e));
            }
            side.waker = Some(cx.waker().clone());
            Poll::Pending
        });
        let Some(Response { status, first_byte, bytes, end: Some(end), .. }) = response.await? else {
            return Err(HttpError::Connection("another request took the response".into()));
        };
        let last_byte = end.map_err(HttpError::Connection)?;
        match status {
            Some(200) if bytes == wanted => Ok(Fetched { first_byte, last_byte, bytes }),
            Some(200) => Err(HttpError::Length { got: bytes, wanted }),
            status => Err(HttpError::Status(status.unwrap_or(0))),
        }
    }
}

impl Client for QuicheClient {
    fn get(&mut self, bytes: u64, request_bytes: u64) -> BoxFuture<'_, Result<Fetched, HttpError>> {
        Box::pin(async move {
            self.ask(bytes, request_bytes)?;
            self.answer(bytes).await
        })
    }

    fn close(self: Box<Self>) {
        lock(&self.connection).with(&self.endpoint.sim, |c| {
            let _ = c.quic.close(true, NO_ERROR.into(), b"");
        });
    }
}

/// A cookie of the greatest length.
static DIGITS: [u8; COOKIE as usize] = [b'0'; COOKIE as usize];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_request_brings_as_many_bytes() {
        for bytes in [60, 400, 1_000, 5_000, 9_000, 40_000] {
            let request = Request::new(1, bytes);
            let smaller = request.smaller();
            let brings = |r: Request| r.digits * 5 / 8 + r.body;
            assert!(smaller.digits <= SMALL_COOKIE, "{smaller:?}");
            assert!(brings(smaller).abs_diff(brings(request)) <= 1, "{request:?}, {smaller:?}");
        }
    }
}
