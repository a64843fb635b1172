//! Closed loop: so many requests are open at any time, and each ends before the next begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Uri;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::books::{Failure, Kind, Request};
use super::clock::now;
use super::dialer::Dialer;
use super::shared::{Shared, timed_out};
use super::slots::Slots;
use crate::server::stopped;

/// After a request that broke off, the next waits so long: a server that is down is not worth a busy loop.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Handshakes at once: a thousand first packets in one moment are more than sockets hold, and would measure that.
const HANDSHAKES: usize = 64;

/// What is asked for, and how often.
pub(super) struct Closed {
    pub(super) connections: usize,
    pub(super) streams: usize,
    pub(super) urls: Vec<Uri>,
    /// Requests that are measured, at most.
    pub(super) requests: Option<u64>,
}

struct Turns<D: Dialer> {
    shared: Arc<Shared<D>>,
    slots: Slots<D>,
    urls: Vec<Uri>,
    turn: AtomicUsize,
    left: Option<AtomicU64>,
    until: Option<std::time::Instant>,
}

impl<D: Dialer> Turns<D> {
    /// The next request, beginning now, if there is one more.
    fn next(&self) -> Option<Request> {
        let start = now();
        if self.until.is_some_and(|until| start >= until) {
            return None;
        }
        if let Some(left) = self.left.as_ref().filter(|_| self.shared.books.measures(start)) {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).ok()?;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.shared.books.begin(start, None);
        Some(Request::new(start, start, self.urls[turn % self.urls.len()].clone()))
    }

    /// Counts it; whether it broke off.
    fn done(&self, request: &Request, result: Result<(), Failure>) -> bool {
        let broke_off = matches!(&result, Err(failure) if matches!(failure.kind, Kind::Connect | Kind::Reset));
        self.shared.books.done(request, now(), result);
        broke_off
    }
}

/// Runs until all requests are over, or it is stopped.
pub(super) async fn run<D: Dialer>(shared: Arc<Shared<D>>, closed: Closed, mut stop: watch::Receiver<bool>) {
    let Closed { connections, streams, urls, requests } = closed;
    let until = shared.books.until();
    let (slots, left) = (Slots::new(connections, HANDSHAKES), requests.map(AtomicU64::new));
    let turns = Arc::new(Turns { shared, slots, urls, turn: AtomicUsize::new(0), left, until });
    let mut workers = JoinSet::new();
    for worker in 0..connections * streams {
        workers.spawn(work(Arc::clone(&turns), worker % connections));
    }
    tokio::select! {
        () = async { while workers.join_next().await.is_some() {} } => {}
        () = stopped(&mut stop) => {
            turns.shared.books.cut(now());
            workers.shutdown().await;
        }
    }
}

async fn work<D: Dialer>(turns: Arc<Turns<D>>, slot: usize) {
    let limit = turns.shared.manner.timeout;
    loop {
        // Made before a request begins: closed-loop times are of requests on connections that are there.
        let session = match turns.slots.session(slot, &turns.shared).await {
            Ok(session) => session,
            Err(failure) => {
                let Some(request) = turns.next() else { return };
                if turns.done(&request, Err(failure)) {
                    tokio::time::sleep(BACK_OFF).await;
                }
                continue;
            }
        };
        let mut sender = session.sender();
        while session.usable() {
            let Some(mut request) = turns.next() else { return };
            request.connection = session.id;
            let asked = session.ask(&mut sender, &request.url, &mut request.seen);
            let result = tokio::time::timeout(limit, asked).await;
            let result = result.unwrap_or_else(|_| Err(timed_out(&request, limit)));
            if turns.done(&request, result) {
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}
