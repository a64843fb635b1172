//! The HTTP/3 client: requests for synthetic bodies on one connection, every body checked.

use std::future::poll_fn;

use bytes::{Buf, Bytes};
use fathom_cc::Time;
use fathom_netsim::sim::SimHandle;
use fathom_stacks::ZEROS;
use futures_util::future::try_join_all;
use h3::quic::{Connection, OpenStreams, RecvStream};
use http::{HeaderValue, Request};

use super::{HttpError, LiveRequest, Priority};

/// What one request brought.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// When the response's header arrived.
    pub first_byte: Time,
    /// When the last byte of the body arrived.
    pub last_byte: Time,
    /// Length of the body.
    pub bytes: u64,
}

/// A request among others on its connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// Bytes of the response's body.
    pub bytes: u64,
    /// Bytes of the request's header, about.
    pub request_bytes: u64,
    /// Bytes of the request's body; 0: it has none.
    pub upload: u64,
    /// The server answers no earlier than this.
    pub not_before: Option<Time>,
    /// What the header `priority` says (RFC 9218).
    pub priority: Option<Priority>,
}

/// The requests of an open HTTP/3 connection.
pub struct Requests<O: OpenStreams<Bytes>> {
    sender: h3::client::SendRequest<O, Bytes>,
    sim: SimHandle,
}

/// Bytes of a request besides its padding: method, scheme, authority and path as QPACK's static table encodes them, and the frame
/// header; a few bytes either way are below what any packet boundary shows.
const REQUEST_BASE: u64 = 40;

/// Digits of a cookie that fill a request up to `request_bytes`, if it needs any: they take 5 bits each in QPACK's Huffman code, so 8 of
/// them fill 5 bytes.
fn padding(request_bytes: u64) -> Option<u64> {
    request_bytes.checked_sub(REQUEST_BASE).map(|bytes| bytes * 8 / 5)
}

/// A cookie of so many digits; those of usual lengths cost no memory.
fn cookie(digits: u64) -> HeaderValue {
    static COOKIE: [u8; 4_096] = [b'0'; 4_096];
    let digits = digits as usize;
    match COOKIE.get(..digits).and_then(|digits| std::str::from_utf8(digits).ok()) {
        Some(digits) => HeaderValue::from_static(digits),
        None => HeaderValue::from_bytes(&vec![b'0'; digits]).expect("digits"),
    }
}

impl<O: OpenStreams<Bytes>> Requests<O> {
    /// Opens HTTP/3 on a connection whose handshake is done.
    ///
    /// # Errors
    /// The HTTP/3 connection could not be set up.
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

    /// Asks for `bytes` bytes in `streams` requests at once; the first failure ends it.
    ///
    /// # Errors
    /// As [`Requests::get`].
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

    /// Makes a request beside others, and checks what comes.
    ///
    /// # Errors
    /// As [`Requests::get`].
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

    /// Asks for a stream's frames as datagrams; ends with the response, which has no body.
    ///
    /// # Errors
    /// As [`Requests::get`].
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

    /// Asks for `bytes` bytes with a request of about `request_bytes`, and checks what comes.
    ///
    /// # Errors
    /// Anything but a complete 200 response of that length.
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

/// Waits for all of a response.
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
