//! One HTTP/3 connection of the client, and the requests on it.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fathom_http3::client;
use fathom_http3::convert;
use fathom_http3::fields::ContentLength;
use fathom_http3::qpack::Fields;
use fathom_stacks::Endpoint;
use http::{HeaderMap, StatusCode, Uri};
use tokio::task::AbortHandle;

use super::client::Connection;
use super::clock::now;
use super::load_stats::LoadStats;
use super::request::{Failure, ResponseProgress};
use crate::digest::{self, Digest};
use crate::http3::{self, NO_ERROR};
use crate::limits::RESPONSE_BYTES;

/// Transport of HTTP/3.
type Http<E> = <<E as Endpoint>::Connection as fathom_stacks::Connection>::Http;

/// Sender of requests.
pub(super) type RequestSender<E> = client::RequestSender<Http<E>>;

/// Driver of the HTTP/3 connection: settings, GOAWAY.
pub(super) type Http3Driver<E> = client::Connection<Http<E>>;

/// An HTTP/3 connection. Dropping it closes the connection and records its statistics.
pub(super) struct Session<E: Endpoint> {
    pub(super) id: u64,
    /// The open connection; `None` once it is given back to the caller.
    connection: Option<Connection<E>>,
    sender: RequestSender<E>,
    driver: Option<AbortHandle>,
    /// Whether the server has sent GOAWAY.
    spent: AtomicBool,
    stats: Arc<LoadStats>,
    fields: Arc<RequestFields>,
}

/// Header fields of every request in addition to its URL.
#[derive(Debug)]
pub(super) struct RequestFields {
    headers: HeaderMap,
    /// Whether bodies are checked against the server's digests.
    check_digests: bool,
}

impl RequestFields {
    pub(super) fn new(mut headers: HeaderMap, check_digests: bool) -> Self {
        if check_digests {
            headers.insert(digest::WANT_CONTENT_DIGEST, digest::WANTED);
        }
        Self { headers, check_digests }
    }
}

impl<E: Endpoint> Session<E> {
    /// Starts HTTP/3 on a connection.
    pub(super) async fn start(
        connection: Connection<E>,
        id: u64,
        stats: Arc<LoadStats>,
        fields: Arc<RequestFields>,
    ) -> Result<Self, Failure> {
        let (mut session, http3) = Self::prepare(connection, id, stats, fields).await?;
        session.drive(http3);
        Ok(session)
    }

    /// Starts HTTP/3 on a connection like [`Session::start`], but only sends the settings, and does
    /// not drive the connection before [`Session::drive`] is called.
    pub(super) async fn prepare(
        connection: Connection<E>,
        id: u64,
        stats: Arc<LoadStats>,
        fields: Arc<RequestFields>,
    ) -> Result<(Self, Http3Driver<E>), Failure> {
        let config = http3::config(RESPONSE_BYTES, RESPONSE_BYTES);
        let (mut http3, sender) = client::Connection::new(connection.http(), config);
        if let Poll::Ready(error) = poll_fn(|cx| Poll::Ready(http3.poll_close(cx))).await {
            connection.close(NO_ERROR);
            stats.record_connection(&connection.stats());
            return Err(Failure::Setup(error));
        }
        let spent = AtomicBool::new(false);
        let connection = Some(connection);
        Ok((Self { id, connection, sender, driver: None, spent, stats, fields }, http3))
    }

    /// Starts the task that drives the connection: settings, GOAWAY.
    pub(super) fn drive(&mut self, mut http3: Http3Driver<E>) {
        let Some(connection) = &self.connection else { return };
        let driver = connection.event_loop().spawn(async move {
            poll_fn(|cx| http3.poll_close(cx)).await;
        });
        self.driver = Some(driver.abort_handle());
    }

    /// Returns the sender of requests on this connection.
    pub(super) fn sender(&self) -> RequestSender<E> {
        self.sender.clone()
    }

    /// Returns whether the connection takes requests.
    pub(super) fn usable(&self) -> bool {
        !self.spent.load(Ordering::Relaxed)
            && self.connection.as_ref().is_some_and(Connection::is_open)
    }

    /// Returns the smoothed round-trip time.
    pub(super) fn rtt(&self) -> Duration {
        self.connection.as_ref().and_then(|connection| connection.stats().rtt).unwrap_or_default()
    }

    /// Returns the connection without closing it, for a session that was never driven.
    pub(super) fn give_back(mut self) -> Option<Connection<E>> {
        self.connection.take()
    }

    /// Sends a request and receives its response.
    pub(super) async fn send_request(
        &self,
        sender: &mut RequestSender<E>,
        url: &Uri,
        progress: &mut ResponseProgress,
    ) -> Result<(), Failure> {
        let answered = send_request::<E>(sender, url, &self.fields, progress).await;
        if matches!(answered, Err(Failure::GoAway)) {
            self.spent.store(true, Ordering::Relaxed);
        }
        answered
    }
}

impl<E: Endpoint> Drop for Session<E> {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            let report = connection.stats();
            connection.close(NO_ERROR);
            self.stats.record_connection(&report);
        }
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

/// Header of a request.
struct RequestHead<'a> {
    url: &'a Uri,
    headers: &'a HeaderMap,
}

impl Fields for RequestHead<'_> {
    fn all(&self, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> bool {
        let Self { url, headers } = self;
        let authority = url.authority().map_or("", http::uri::Authority::as_str);
        let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        take(b":method", b"GET")
            && take(b":scheme", url.scheme_str().unwrap_or("https").as_bytes())
            && take(b":authority", authority.as_bytes())
            && take(b":path", path.as_bytes())
            && headers.all(take)
    }
}

async fn send_request<E: Endpoint>(
    sender: &mut RequestSender<E>,
    url: &Uri,
    fields: &RequestFields,
    progress: &mut ResponseProgress,
) -> Result<(), Failure> {
    let mut digest = fields.check_digests.then(Digest::default);
    let head = RequestHead { url, headers: &fields.headers };
    let mut stream = sender.send(&head, Bytes::new()).await?;
    let found = stream.head().await?;
    progress.first_byte = Some(now());
    progress.status = Some(found.status);
    // Read up to the end of the stream. Dropping the stream earlier would send STOP_SENDING.
    let read = loop {
        let data = match stream.data().await {
            Ok(Some(data)) => data,
            Ok(None) => break Ok(()),
            Err(error) => break Err(Failure::from(error)),
        };
        progress.bytes += data.len() as u64;
        if let Some(digest) = &mut digest {
            digest.add(&data);
        }
        // Without this yield, a response with endless data would keep all other tasks from running,
        // even the request's timeout.
        tokio::task::coop::consume_budget().await;
    };
    let status = StatusCode::from_u16(found.status).unwrap_or_default();
    let is_error = status.is_client_error() || status.is_server_error();
    match read {
        // The status tells more than the wrong length.
        Ok(()) | Err(Failure::ContentLength(_)) => progress.last_byte = Some(now()),
        Err(_) => {}
    }
    if !is_error || progress.last_byte.is_none() {
        read?;
    }
    if is_error {
        return Err(Failure::Status(status));
    }
    if found.content_length == ContentLength::Invalid {
        return Err(Failure::InvalidLength);
    }
    let Some(digest) = digest else { return Ok(()) };
    // A server that knows the whole body in advance may send the digest in the header.
    let (trailers, name) = (stream.receiver().trailers(), digest::CONTENT_DIGEST);
    let digests = match trailers.get(name.as_str().as_bytes()) {
        Some(_) => convert::headers(trailers)?,
        None => convert::headers(stream.fields())?,
    };
    Ok(digest.check(&digests)?)
}
