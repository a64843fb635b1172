//! One HTTP/3 connection of the client, and requests on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Buf;
use http::Uri;
use tokio::task::AbortHandle;

use super::books::{Books, Failure, Kind, Seen};
use super::clock::now;
use super::dialer::Dialer;
use crate::digest::{self, Digest};
use crate::guarded;
use crate::server::NO_ERROR;

/// What requests are sent on.
pub(super) type Sender<D> = guarded::Sender<<D as Dialer>::Opener>;

/// The part of HTTP/3 that takes what the server sends by itself.
pub(super) type Idle<D> = guarded::Idle<<D as Dialer>::Transport>;

/// A connection with HTTP/3 on it. Where it ends, it is closed, and its books are.
pub(super) struct Session<D: Dialer> {
    pub(super) id: u64,
    /// `None` once it is given back.
    connection: Option<D::Connection>,
    sender: Sender<D>,
    driver: Option<AbortHandle>,
    /// The server takes no more requests on it.
    spent: AtomicBool,
    books: Arc<Books>,
    /// Bodies are checked against the digests that the server tells.
    check_digests: bool,
}

impl<D: Dialer> Session<D> {
    /// Begins HTTP/3 on a connection.
    pub(super) async fn start(
        connection: D::Connection,
        id: u64,
        books: Arc<Books>,
        check_digests: bool,
    ) -> Result<Self, Failure> {
        let (mut session, idle) = Self::prepare(connection, id, books, check_digests).await?;
        session.drive(idle);
        Ok(session)
    }

    /// As [`Session::start`], but for what the server sends by itself: that is left alone until [`Session::drive`].
    pub(super) async fn prepare(
        connection: D::Connection,
        id: u64,
        books: Arc<Books>,
        check_digests: bool,
    ) -> Result<(Self, Idle<D>), Failure> {
        match guarded::client(D::transport(&connection)).await {
            Ok((idle, sender)) => {
                let spent = AtomicBool::new(false);
                Ok((Self { id, connection: Some(connection), sender, driver: None, spent, books, check_digests }, idle))
            }
            Err(e) => {
                D::end(&connection, NO_ERROR);
                books.closed(&D::report(&connection));
                Err(Failure::new(Kind::Connect, e))
            }
        }
    }

    /// Takes what the server sends by itself: settings, and that it is about to leave.
    pub(super) fn drive(&mut self, mut idle: Idle<D>) {
        let driver = tokio::spawn(async move {
            std::future::poll_fn(|cx| idle.poll_close(cx)).await;
        });
        self.driver = Some(driver.abort_handle());
    }

    /// For requests on it.
    pub(super) fn sender(&self) -> Sender<D> {
        self.sender.clone()
    }

    /// It takes requests.
    pub(super) fn usable(&self) -> bool {
        !self.spent.load(Ordering::Relaxed) && self.connection.as_ref().is_some_and(D::alive)
    }

    /// Smoothed round-trip time.
    pub(super) fn rtt(&self) -> Duration {
        self.connection.as_ref().and_then(|connection| D::report(connection).rtt).unwrap_or_default()
    }

    /// Gives the connection back as it is, where this was never driven: so nothing closes it.
    pub(super) fn give_back(mut self) -> Option<D::Connection> {
        self.connection.take()
    }

    /// Sends a request and takes its response.
    pub(super) async fn ask(&self, sender: &mut Sender<D>, url: &Uri, seen: &mut Seen) -> Result<(), Failure> {
        let answered = ask::<D>(sender, url, self.check_digests, seen).await;
        if matches!(&answered, Err(failure) if failure.why == GOING) {
            self.spent.store(true, Ordering::Relaxed);
        }
        answered
    }
}

/// What is said of a server that is about to leave (GOAWAY, RFC 9114 §5.2).
const GOING: &str = "the server takes no more requests on the connection";

impl<D: Dialer> Drop for Session<D> {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            let report = D::report(connection);
            D::end(connection, NO_ERROR);
            self.books.closed(&report);
        }
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

async fn ask<D: Dialer>(sender: &mut Sender<D>, url: &Uri, check_digest: bool, seen: &mut Seen) -> Result<(), Failure> {
    // Whether the variant may be named without its braces is up to a feature of h3's, which other crates of a build choose.
    #[allow(clippy::unneeded_struct_pattern)]
    let reset = |e: h3::error::StreamError| match e {
        h3::error::StreamError::RemoteClosing { .. } => Failure::new(Kind::Reset, GOING),
        e => Failure::new(Kind::Reset, e),
    };
    let mut request = http::Request::new(());
    *request.uri_mut() = url.clone();
    if check_digest {
        request.headers_mut().insert(digest::WANT_CONTENT_DIGEST, digest::WANTED);
    }
    let mut digest = check_digest.then(Digest::default);
    let mut stream = sender.send_request(request).await.map_err(reset)?;
    // A server that has read enough may stop the rest (RFC 9114 §4.1); what else went wrong, the response tells.
    let _ = stream.finish().await;
    let head = stream.recv_response().await.map_err(reset)?;
    seen.first_byte = Some(now());
    seen.status = Some(head.status().as_u16());
    while let Some(mut data) = stream.recv_data().await.map_err(reset)? {
        seen.bytes += data.remaining() as u64;
        if let Some(digest) = &mut digest {
            while data.has_remaining() {
                let piece = data.chunk();
                digest.add(piece);
                data.advance(piece.len());
            }
        }
        // While there is always more, nobody else would have a turn: not even the request's timeout.
        tokio::task::coop::consume_budget().await;
    }
    let promised = head.headers().get(http::header::CONTENT_LENGTH);
    let promised = promised.map(|length| length.to_str().ok().and_then(|length| length.parse::<u64>().ok()));
    // `h3` takes an empty DATA frame for the body's end. Behind the last one the stream's own end is still to come: dropped before, it would
    // be stopped. In the middle of a body more of it would end the connection.
    let whole = promised.flatten().is_none_or(|length| length == seen.bytes);
    let trailers = if check_digest || whole { stream.recv_trailers().await.map_err(reset)? } else { None };
    seen.last_byte = Some(now());
    if head.status().is_client_error() || head.status().is_server_error() {
        return Err(Failure::new(Kind::Status, head.status()));
    }
    match promised {
        Some(Some(length)) if length != seen.bytes => {
            return Err(Failure::new(Kind::Body, format!("{} bytes of {length}", seen.bytes)));
        }
        Some(None) => return Err(Failure::new(Kind::Body, "content-length is no number")),
        _ => {}
    }
    let Some(digest) = digest else { return Ok(()) };
    // Where a server knows the whole body beforehand, it tells the digest before it.
    let told = trailers.as_ref().filter(|trailers| trailers.contains_key(digest::CONTENT_DIGEST));
    digest.check(told.unwrap_or(head.headers())).map_err(|why| Failure::new(Kind::Digest, why))
}
