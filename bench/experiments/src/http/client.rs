//! The HTTP/3 client. It requests synthetic bodies on one connection and checks the length of every
//! body.

use std::borrow::Cow;
use std::future::poll_fn;
use std::ops::RangeInclusive;

use bytes::Bytes;
use fathom_cc::{Rate, Time};
use fathom_http3::client::{Connection, RequestSender, RequestStream};
use fathom_http3::qpack::Fields;
use fathom_http3::transport;
use fathom_netsim::sim::SimHandle;
use futures_util::future::try_join_all;

use super::{HttpError, LiveRequest, NO_ERROR, Priority, config, priority, zeros};

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
    /// Largest rate of a live stream whose encoder adapts to the sender; `None` for other bodies.
    /// The body then has up to `bytes` bytes.
    pub adaptive: Option<Rate>,
    /// Value of the `priority` header (RFC 9218); `None` if the request has no such header.
    pub priority: Option<Priority>,
}

/// The request side of an open HTTP/3 connection.
pub struct Requests<C: transport::Connection> {
    sender: RequestSender<C>,
    sim: SimHandle,
}

impl<C: transport::Connection> Clone for Requests<C> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), sim: self.sim.clone() }
    }
}

/// Largest size of a request without its padding, in bytes: method, scheme, authority and path,
/// encoded with QPACK's static table, and the headers of the HEADERS frame and the STREAM frame. Most
/// requests need up to 13 bytes less. These bytes do not change the number of packets.
const REQUEST_BASE: u64 = 40;

/// Returns the length of the cookie that pads a request to `request_bytes`, or `None` if it needs no
/// padding.
fn padding(request_bytes: u64) -> Option<u64> {
    // The length of a HEADERS frame of 16 KiB takes four bytes.
    request_bytes.checked_sub(REQUEST_BASE + u64::from(request_bytes > 16 << 10))
}

/// Returns a cookie of this length. Cookies of up to 4,096 bytes need no allocation. QPACK's
/// Huffman code has 8 bits for `X`, so the cookie is sent without the code, which saves the time to
/// encode and decode it.
fn cookie(length: u64) -> Cow<'static, [u8]> {
    static COOKIE: [u8; 4_096] = [b'X'; 4_096];
    let length = length as usize;
    match COOKIE.get(..length) {
        Some(cookie) => Cow::Borrowed(cookie),
        None => Cow::Owned(vec![b'X'; length]),
    }
}

/// Header of a request.
struct Header<'a> {
    method: &'static str,
    path: &'a str,
    priority: Option<&'static str>,
    content_length: Option<&'a str>,
    cookie: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    const fn get(path: &'a str) -> Self {
        Self { method: "GET", path, priority: None, content_length: None, cookie: None }
    }
}

impl Fields for Header<'_> {
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        take(b":method", self.method.as_bytes())
            && take(b":scheme", b"https")
            && take(b":authority", b"lab.test")
            && take(b":path", self.path.as_bytes())
            && self.priority.is_none_or(|value| take(b"priority", value.as_bytes()))
            && self.content_length.is_none_or(|value| take(b"content-length", value.as_bytes()))
            && self.cookie.is_none_or(|value| take(b"cookie", value))
    }
}

impl<C: transport::Connection> Requests<C> {
    /// Opens HTTP/3 on a connection.
    pub fn open(connection: C, sim: SimHandle) -> Self {
        let (mut connection, sender) = Connection::new(connection, config());
        sim.spawn(async move {
            // The requests report why the connection ended.
            poll_fn(|cx| connection.poll_close(cx)).await;
        });
        Self { sender, sim }
    }

    /// Closes the connection.
    pub fn close(&self) {
        transport::Connection::close(self.sender.transport(), NO_ERROR.into(), b"");
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
    ) -> Result<Fetched, HttpError> {
        let part = bytes.div_ceil(u64::from(streams.max(1)));
        let parts = (0..streams.max(1)).map(|_| {
            let mut one = self.clone();
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
    ) -> impl Future<Output = Result<Fetched, HttpError>> + Send + use<C> {
        let mut one = self.clone();
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
    ) -> impl Future<Output = Result<(), HttpError>> + Send + use<C> {
        let mut one = self.clone();
        async move {
            let path = request.path();
            let stream = one.sender.send(&Header::get(&path), Bytes::new()).await?;
            response(&one.sim, stream, 0..=0).await.map(drop)
        }
    }

    async fn fetch_one(&mut self, ask: Ask) -> Result<Fetched, HttpError> {
        let at = ask.not_before.map(|at| format!("at={}", at.as_nanos()));
        let adaptive = ask.adaptive.map(|rate| format!("adaptive={}", rate.bits_per_sec()));
        let query = [at, adaptive].into_iter().flatten().collect::<Vec<_>>().join("&");
        let path = match &*query {
            "" => format!("/bytes/{}", ask.bytes),
            query => format!("/bytes/{}?{query}", ask.bytes),
        };
        let length = (ask.upload > 0).then(|| ask.upload.to_string());
        let cookie = padding(ask.request_bytes).map(cookie);
        let header = Header {
            method: if ask.upload > 0 { "POST" } else { "GET" },
            priority: ask.priority.map(priority::header),
            content_length: length.as_deref(),
            cookie: cookie.as_deref(),
            ..Header::get(&path)
        };
        let stream = match zeros(ask.upload) {
            (body, 0) => self.sender.send(&header, body).await?,
            (first, mut left) => {
                let mut stream = self.sender.open(&header).await?;
                stream.sender().send_data(first).await?;
                while left > 0 {
                    let body;
                    (body, left) = zeros(left);
                    stream.sender().send_data(body).await?;
                }
                stream.sender().finish().await?;
                stream
            }
        };
        let least = if ask.adaptive.is_some() { 1 } else { ask.bytes };
        response(&self.sim, stream, least..=ask.bytes).await
    }

    /// Requests `bytes` bytes with a request of about `request_bytes`, and checks the response.
    ///
    /// # Errors
    /// Returns an error unless a complete response with status 200 and a body of `bytes`
    /// bytes arrives.
    pub async fn get(&mut self, bytes: u64, request_bytes: u64) -> Result<Fetched, HttpError> {
        self.fetch_one(Ask { bytes, request_bytes, ..Ask::default() }).await
    }
}

/// Waits for a complete response whose body has one of these lengths in bytes.
async fn response<C: transport::Connection>(
    sim: &SimHandle,
    mut stream: RequestStream<C>,
    bytes: RangeInclusive<u64>,
) -> Result<Fetched, HttpError> {
    let head = stream.head().await?;
    let first_byte = sim.time();
    if head.status != 200 {
        return Err(HttpError::Status(head.status));
    }
    let mut got = 0;
    while let Some(chunk) = stream.data().await? {
        got += chunk.len() as u64;
    }
    if !bytes.contains(&got) {
        return Err(HttpError::Length { got, wanted: *bytes.end() });
    }
    Ok(Fetched { first_byte, last_byte: sim.time(), bytes: got })
}

#[cfg(test)]
mod tests {
    use fathom_http3::qpack::Cache;

    use super::*;

    #[test]
    fn padded_requests_have_almost_the_wanted_size() {
        /// Type, stream number and length.
        const STREAM_FRAME: u64 = 4;
        for wanted in [40, 41, 100, 366, 1_000, 5_000, 100_000] {
            for path in ["/bytes/1", "/bytes/12345", "/bytes/9876543210"] {
                let cookie = padding(wanted).map(cookie);
                let header = Header { cookie: cookie.as_deref(), ..Header::get(path) };
                let size = Cache::new().frame(&header, None).len() as u64 + STREAM_FRAME;
                assert!((wanted - 13..=wanted).contains(&size), "{path}: {size} of {wanted}");
            }
        }
        assert!(padding(REQUEST_BASE - 1).is_none());
    }
}
