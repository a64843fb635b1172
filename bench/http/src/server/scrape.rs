//! Serves the metrics over HTTP/1.1.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

use super::SetupError;
use crate::metrics::Metrics;

/// Maximum number of simultaneous scrapes. A further scrape replaces the oldest one, because a
/// scrape takes only milliseconds. Clients that send nothing therefore block nobody.
const AT_ONCE: usize = 32;
/// Time limit for the header of a request.
const HEADER: Duration = Duration::from_secs(2);
/// Time limit for a whole scrape.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listener for Prometheus.
#[derive(Debug)]
pub struct Scrape {
    listener: TcpListener,
    metrics: Arc<Metrics>,
}

impl Scrape {
    /// Starts to listen.
    ///
    /// # Errors
    /// Returns an error if the address is taken or does not belong to this host.
    pub async fn bind(address: SocketAddr, metrics: Arc<Metrics>) -> Result<Self, SetupError> {
        let listener =
            TcpListener::bind(address).await.map_err(|e| SetupError::Listen(address, e))?;
        Ok(Self { listener, metrics })
    }

    /// Returns the address on which the listener listens.
    ///
    /// # Errors
    /// Returns an error if the system does not report the address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers scrapes while it is polled.
    pub async fn serve(self) {
        let mut scrapes = JoinSet::new();
        let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            // Either the client disconnected, or the system is temporarily out of file descriptors.
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            while scrapes.try_join_next().is_some() {}
            oldest.retain(|scrape| !scrape.is_finished());
            if oldest.len() >= AT_ONCE
                && let Some(scrape) = oldest.pop_front()
            {
                scrape.abort();
            }
            let metrics = Arc::clone(&self.metrics);
            oldest.push_back(scrapes.spawn(async move {
                let service = service_fn(|request| {
                    let answer = answer(&request, &metrics);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service);
                let _ = tokio::time::timeout(PATIENCE, connection).await;
            }));
        }
    }
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let (status, content_type, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (
            StatusCode::OK,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            metrics.text(),
        ),
        _ => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "GET /metrics\n".into()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
