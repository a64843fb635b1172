//! The HTTP/3 client: requests for synthetic bodies on one connection, every body checked.

use std::future::poll_fn;

use bytes::{Buf, Bytes};
use fathom_cc::Time;
use fathom_netsim::sim::SimHandle;
use futures_util::future::try_join_all;
use h3::quic::{Connection, OpenStreams};
use http::Request;

use super::HttpError;

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
        let (mut driver, sender) = h3::client::builder().send_grease(false).build(transport).await?;
        sim.spawn(async move {
            poll_fn(|cx| driver.poll_close(cx)).await;
        });
        Ok(Self { sender, sim })
    }

    /// Asks for `bytes` bytes in `streams` requests at once; the first failure ends it.
    ///
    /// # Errors
    /// As [`Requests::get`].
    pub async fn get_at_once(&mut self, bytes: u64, request_bytes: u64, streams: u32) -> Result<Fetched, HttpError>
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

    /// Asks for `bytes` bytes with a request of about `request_bytes`, and checks what comes.
    ///
    /// # Errors
    /// Anything but a complete 200 response of that length.
    pub async fn get(&mut self, bytes: u64, request_bytes: u64) -> Result<Fetched, HttpError> {
        let mut request = Request::get(format!("https://lab.test/bytes/{bytes}"));
        if let Some(digits) = padding(request_bytes) {
            request = request.header("cookie", "0".repeat(digits as usize));
        }
        let mut stream = self.sender.send_request(request.body(())?).await?;
        stream.finish().await?;
        let head = stream.recv_response().await?;
        let first_byte = self.sim.time();
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
        Ok(Fetched { first_byte, last_byte: self.sim.time(), bytes })
    }
}
