//! The HTTP/3 client. It requests synthetic bodies on one connection and checks the length of every
//! body.

use std::future::poll_fn;

use bytes::{Buf, Bytes};
use fathom_cc::Time;
use fathom_netsim::sim::SimHandle;
use fathom_stacks::ZEROS;
use futures_util::future::try_join_all;
use h3::quic::{Connection, OpenStreams, RecvStream};
use http::{HeaderValue, Request};

use super::{HttpError, LiveRequest, Priority};

/// A complete response.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// Time at which the header of the response arrived.
    pub first_byte: Time,
    /// Time at which the last byte of the body arrived.
    pub last_byte: Time,
    /// Length of the body in bytes.
    pub bytes: u64,
}

/// A request that may share its connection with others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// Size of the response body in bytes.
    pub bytes: u64,
    /// Approximate size of the request header in bytes.
    pub request_bytes: u64,
    /// Size of the request body in bytes; 0 if there is no request body.
    pub upload: u64,
    /// Time before which the server does not respond; `None` if it responds at once.
    pub not_before: Option<Time>,
    /// Value of the `priority` header (RFC 9218); `None` if the request has no such header.
    pub priority: Option<Priority>,
}

/// The request side of an open HTTP/3 connection.
pub struct Requests<O: OpenStreams<Bytes>> {
    sender: h3::client::SendRequest<O, Bytes>,
    sim: SimHandle,
}

/// Approximate bytes of a request without its padding: method, scheme, authority and path, encoded
/// with QPACK's static table, and the frame header. A few bytes more or less do not change the
/// number of packets.
const REQUEST_BASE: u64 = 40;

/// Returns the number of cookie digits that pad a request to `request_bytes`, or `None` if it needs
/// no padding. QPACK's Huffman code encodes a digit in 5 bits, so 8 digits fill 5 bytes.
fn padding(request_bytes: u64) -> Option<u64> {
    request_bytes.checked_sub(REQUEST_BASE).map(|bytes| bytes * 8 / 5)
}

/// Returns a cookie of this many digits. Cookies of up to 4,096 digits need no allocation.
fn cookie(digits: u64) -> HeaderValue {
    static COOKIE: [u8; 4_096] = [b'0'; 4_096];
    let digits = digits as usize;
    match COOKIE.get(..digits).and_then(|digits| std::str::from_utf8(digits).ok()) {
        Some(digits) => HeaderValue::from_static(digits),
        None => HeaderValue::from_bytes(&vec![b'0'; digits]).expect("digits"),
    }
}

impl<O: OpenStreams<Bytes>> Requests<O> {
    /// Opens HTTP/3 on a connection whose handshake is complete.
    ///
    /// # Errors
    /// Returns an error if HTTP/3 cannot be set up on the connection.
    pub async fn open<C>(transport: C, sim: SimHandle) -> Result<Self, HttpError>
    where
        C: Connection<Bytes, OpenStreams = O> + Send + 'static,
        C::SendStream: Send,
        C::RecvStream: Send,
        C::BidiStream: Send,
        O: Send + 'static,
    {
        let (mut driver, sender) =
            h3::client::builder().send_grease(false).build(transport).await?;
        sim.spawn(async move {
            poll_fn(|cx| driver.poll_close(cx)).await;
        });
        Ok(Self { sender, sim })
    }

    /// Requests `bytes` bytes in equal parts, one per stream, on `streams` parallel streams. The
    /// first failure ends all streams.
    ///
    /// # Errors
    /// Returns the errors of [`Requests::get`].
    pub async fn get_at_once(
        &mut self,
        bytes: u64,
        request_bytes: u64,
        streams: u32,
    ) -> Result<Fetched, HttpError>
    where
        O: Clone,
    {
        let part = bytes.div_ceil(u64::from(streams.max(1)));
        let parts = (0..streams.max(1)).map(|_| {
            let mut one = Self { sender: self.sender.clone(), sim: self.sim.clone() };
            async move { one.get(part, request_bytes).await }
        });
        let fetched = try_join_all(parts).await?;
        let first_byte = fetched.iter().map(|f| f.first_byte).min().unwrap_or(self.sim.time());
        let last_byte = fetched.iter().map(|f| f.last_byte).max().unwrap_or(self.sim.time());
        Ok(Fetched { first_byte, last_byte, bytes: fetched.iter().map(|f| f.bytes).sum() })
    }

    /// Makes a request in parallel with others and checks the response.
    ///
    /// # Errors
    /// Returns the errors of [`Requests::get`].
    pub fn fetch(
        &self,
        ask: Ask,
    ) -> impl Future<Output = Result<Fetched, HttpError>> + Send + use<O>
    where
        O: Clone + Send + 'static,
        O::BidiStream: Send,
    {
        let mut one = Self { sender: self.sender.clone(), sim: self.sim.clone() };
        async move { one.fetch_one(ask).await }
    }

    /// Requests the frames of a live stream as datagrams. Completes with the response, which has no
    /// body.
    ///
    /// # Errors
    /// Returns the errors of [`Requests::get`].
    pub fn live(
        &self,
        request: LiveRequest,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + use<O>
    where
        O: Clone + Send + 'static,
        O::BidiStream: Send,
    {
        let mut sender = self.sender.clone();
        let sim = self.sim.clone();
        async move {
            let request = Request::get(format!("https://lab.test{}", request.path())).body(())?;
            let mut stream = sender.send_request(request).await?;
            stream.finish().await?;
            response(&sim, stream, 0).await.map(drop)
        }
    }

    async fn fetch_one(&mut self, ask: Ask) -> Result<Fetched, HttpError> {
        let uri = match ask.not_before {
            Some(at) => format!("https://lab.test/bytes/{}?at={}", ask.bytes, at.as_nanos()),
            None => format!("https://lab.test/bytes/{}", ask.bytes),
        };
        let mut request = if ask.upload > 0 { Request::post(uri) } else { Request::get(uri) };
        if let Some(priority) = ask.priority {
            request = request.header("priority", priority.header());
        }
        if ask.upload > 0 {
            request = request.header("content-length", ask.upload);
        }
        if let Some(digits) = padding(ask.request_bytes) {
            request = request.header("cookie", cookie(digits));
        }
        let mut stream = self.sender.send_request(request.body(())?).await?;
        let mut left = ask.upload;
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            stream.send_data(Bytes::from_static(&ZEROS[..n as usize])).await?;
            left -= n;
        }
        stream.finish().await?;
        response(&self.sim, stream, ask.bytes).await
    }

    /// Requests `bytes` bytes with a request of about `request_bytes`, and checks the response.
    ///
    /// # Errors
    /// Returns an error unless a complete response with status 200 and a body of `bytes`
    /// bytes arrives.
    pub async fn get(&mut self, bytes: u64, request_bytes: u64) -> Result<Fetched, HttpError> {
        let mut request = Request::get(format!("https://lab.test/bytes/{bytes}"));
        if let Some(digits) = padding(request_bytes) {
            request = request.header("cookie", cookie(digits));
        }
        let mut stream = self.sender.send_request(request.body(())?).await?;
        stream.finish().await?;
        response(&self.sim, stream, bytes).await
    }
}

/// Waits for a complete response with a body of `bytes` bytes.
async fn response<S: RecvStream>(
    sim: &SimHandle,
    mut stream: h3::client::RequestStream<S, Bytes>,
    bytes: u64,
) -> Result<Fetched, HttpError> {
    let head = stream.recv_response().await?;
    let first_byte = sim.time();
    if head.status() != http::StatusCode::OK {
        return Err(HttpError::Status(head.status().as_u16()));
    }
    let mut got = 0;
    while let Some(chunk) = stream.recv_data().await? {
        got += chunk.remaining() as u64;
    }
    if got != bytes {
        return Err(HttpError::Length { got, wanted: bytes });
    }
    Ok(Fetched { first_byte, last_byte: sim.time(), bytes })
}
