//! Closed loop: a fixed number of requests is in flight, and each request starts when its
//! predecessor ends.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fathom_stacks::Endpoint;
use http::Uri;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::clock::now;
use super::context::{LoadContext, timed_out};
use super::pool::ConnectionPool;
use super::request::{Failure, FailureKind, Request};
use crate::stop::stopped;

/// Wait after a request that broke off. It prevents a busy loop if the server is down.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Maximum number of simultaneous handshakes. A thousand simultaneous first packets would overflow
/// socket buffers, and the run would measure this overflow.
const HANDSHAKES: usize = 64;

/// Requests to send.
pub(super) struct ClosedLoopConfig {
    pub(super) connections: usize,
    pub(super) streams: usize,
    pub(super) urls: Vec<Uri>,
    /// Maximum number of measured requests.
    pub(super) requests: Option<u64>,
}

struct ClosedLoop<E: Endpoint> {
    context: Arc<LoadContext<E>>,
    pool: ConnectionPool<E>,
    urls: Vec<Uri>,
    turn: AtomicUsize,
    left: Option<AtomicU64>,
    until: Option<std::time::Instant>,
}

impl<E: Endpoint> ClosedLoop<E> {
    /// Returns the next request, which starts now; `None` if no request is left.
    fn next(&self) -> Option<Request> {
        let start = now();
        if self.until.is_some_and(|until| start >= until) {
            return None;
        }
        if let Some(left) = self.left.as_ref().filter(|_| self.context.stats.is_measured(start)) {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .ok()?;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.context.stats.record_start(start, None);
        Some(Request::new(start, start, self.urls[turn % self.urls.len()].clone()))
    }

    /// Records a finished request. Returns whether it broke off.
    fn done(&self, request: &Request, result: Result<(), Failure>) -> bool {
        use FailureKind::{Connect, Protocol, Reset};
        let broke_off =
            matches!(&result, Err(failure) if matches!(failure.kind(), Connect | Reset | Protocol));
        self.context.stats.record_end(request, now(), result);
        broke_off
    }
}

/// Runs until all requests are over or `stop` becomes true.
pub(super) async fn run<E: Endpoint>(
    context: Arc<LoadContext<E>>,
    config: ClosedLoopConfig,
    mut stop: watch::Receiver<bool>,
) {
    let ClosedLoopConfig { connections, streams, urls, requests } = config;
    let until = context.stats.until();
    let (pool, left) = (ConnectionPool::new(connections, HANDSHAKES), requests.map(AtomicU64::new));
    let closed_loop =
        Arc::new(ClosedLoop { context, pool, urls, turn: AtomicUsize::new(0), left, until });
    let mut workers = JoinSet::new();
    for worker in 0..connections * streams {
        let slot = worker % connections;
        let event_loop = closed_loop.context.client.event_loop(slot);
        workers.spawn_on(work(Arc::clone(&closed_loop), slot), event_loop);
    }
    tokio::select! {
        () = async { while workers.join_next().await.is_some() {} } => {}
        () = stopped(&mut stop) => {
            closed_loop.context.stats.end_at(now());
            workers.shutdown().await;
        }
    }
}

async fn work<E: Endpoint>(closed_loop: Arc<ClosedLoop<E>>, slot: usize) {
    let limit = closed_loop.context.options.timeout;
    loop {
        // Connect before a request starts, because the times of a closed loop exclude connection
        // setup.
        let session = match closed_loop.pool.session(slot, &closed_loop.context).await {
            Ok(session) => session,
            Err(failure) => {
                let Some(request) = closed_loop.next() else { return };
                if closed_loop.done(&request, Err(failure)) {
                    tokio::time::sleep(BACK_OFF).await;
                }
                continue;
            }
        };
        let mut sender = session.sender();
        while session.usable() {
            let Some(mut request) = closed_loop.next() else { return };
            request.connection = session.id;
            let result = {
                // Pin the future where it is created, because a moved future would be copied for
                // each request.
                let sent =
                    pin!(session.send_request(&mut sender, &request.url, &mut request.progress));
                tokio::time::timeout(limit, sent).await
            };
            let result = result.unwrap_or_else(|_| Err(timed_out(&request, limit)));
            if closed_loop.done(&request, result) {
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}
