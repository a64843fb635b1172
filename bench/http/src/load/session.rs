//! One HTTP/3 connection of the client, and the requests on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Buf;
use fathom_stacks::Endpoint;
use http::Uri;
use tokio::task::AbortHandle;

use super::client::Connection;
use super::clock::now;
use super::load_stats::LoadStats;
use super::request::{Failure, FailureKind, ResponseProgress};
use crate::digest::{self, Digest};
use crate::http3::NO_ERROR;
use crate::http3::{self, Closer};

/// Sender of requests.
pub(super) type RequestSender<E> =
    http3::RequestSender<<<E as Endpoint>::Connection as fathom_stacks::Connection>::H3Opener>;

/// Driver of the HTTP/3 connection: settings, GOAWAY.
pub(super) type Http3Driver<E> =
    http3::Http3Driver<<<E as Endpoint>::Connection as fathom_stacks::Connection>::H3>;

/// An HTTP/3 connection. Dropping it closes the connection and records its statistics.
pub(super) struct Session<E: Endpoint> {
    pub(super) id: u64,
    /// The open connection; `None` once it is given back to the caller.
    connection: Option<Connection<E>>,
    /// Handle that closes the connection and stores the reason.
    closer: Closer,
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
    headers: http::HeaderMap,
    /// Whether bodies are checked against the server's digests.
    check_digests: bool,
}

impl RequestFields {
    pub(super) fn new(mut headers: http::HeaderMap, check_digests: bool) -> Self {
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

    /// Starts HTTP/3 on a connection like [`Session::start`], but does not drive the connection
    /// before [`Session::drive`] is called.
    pub(super) async fn prepare(
        connection: Connection<E>,
        id: u64,
        stats: Arc<LoadStats>,
        fields: Arc<RequestFields>,
    ) -> Result<(Self, Http3Driver<E>), Failure> {
        let closer = connection.closer();
        match http3::client(connection.h3(), closer.clone()).await {
            Ok((http3, sender)) => {
                let spent = AtomicBool::new(false);
                Ok((
                    Self {
                        id,
                        connection: Some(connection),
                        closer,
                        sender,
                        driver: None,
                        spent,
                        stats,
                        fields,
                    },
                    http3,
                ))
            }
            Err(e) => {
                connection.close(NO_ERROR);
                stats.record_connection(&connection.stats());
                Err(Failure::Setup(e))
            }
        }
    }

    /// Starts the task that drives the connection: settings, GOAWAY.
    pub(super) fn drive(&mut self, mut http3: Http3Driver<E>) {
        let driver = tokio::spawn(async move {
            std::future::poll_fn(|cx| http3.poll_close(cx)).await;
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
        let mut answered = send_request::<E>(sender, url, &self.fields, progress).await;
        // `h3` may notice that the connection is closed before the reason is known.
        if let (Err(failure), Some(error)) = (&answered, self.closer.why())
            && failure.kind() == FailureKind::Reset
        {
            answered = Err(error.clone().into());
        }
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

async fn send_request<E: Endpoint>(
    sender: &mut RequestSender<E>,
    url: &Uri,
    fields: &RequestFields,
    progress: &mut ResponseProgress,
) -> Result<(), Failure> {
    let mut request = http::Request::new(());
    *request.uri_mut() = url.clone();
    // An empty map allocates no memory.
    request.headers_mut().clone_from(&fields.headers);
    let mut digest = fields.check_digests.then(Digest::default);
    let mut stream = sender.send_request(request).await?;
    // A server that has read enough of a request may stop the rest (RFC 9114 §4.1). The response
    // shows any other error.
    let _ = stream.finish().await;
    let head = stream.recv_response().await?;
    progress.first_byte = Some(now());
    progress.status = Some(head.status().as_u16());
    while let Some(mut data) = stream.recv_data().await? {
        progress.bytes += data.remaining() as u64;
        if let Some(digest) = &mut digest {
            while data.has_remaining() {
                let piece = data.chunk();
                digest.add(piece);
                data.advance(piece.len());
            }
        }
        // Without this yield, a response with endless data would keep all other tasks from running,
        // even the request's timeout.
        tokio::task::coop::consume_budget().await;
    }
    let promised = head.headers().get(http::header::CONTENT_LENGTH);
    let promised =
        promised.map(|length| length.to_str().ok().and_then(|length| length.parse::<u64>().ok()));
    // Read up to the end of the stream. Dropping the stream earlier would send STOP_SENDING.
    let trailers = stream.recv_trailers().await?;
    progress.last_byte = Some(now());
    if head.status().is_client_error() || head.status().is_server_error() {
        return Err(Failure::Status(head.status()));
    }
    match promised {
        Some(Some(declared)) if declared != progress.bytes => {
            return Err(Failure::Length { received: progress.bytes, declared });
        }
        Some(None) => return Err(Failure::InvalidLength),
        _ => {}
    }
    let Some(digest) = digest else { return Ok(()) };
    // A server that knows the whole body in advance may send the digest in the header.
    let digests =
        trailers.as_ref().filter(|trailers| trailers.contains_key(digest::CONTENT_DIGEST));
    Ok(digest.check(digests.unwrap_or(head.headers()))?)
}
