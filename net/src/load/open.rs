//! Open loop: requests begin at their times, whatever became of those before them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::arrivals::Arrival;
use super::books::{Failure, Kind, Request};
use super::clock::now;
use super::dialer::Dialer;
use super::pacer::Pacer;
use super::session::Session;
use super::shared::{Shared, timed_out};
use super::slots::Pool;
use crate::server::stopped;

/// A connection on which 0-RTT is wanted stays for two round trips, at least so long: then its tickets are here.
const LINGER: Duration = Duration::from_millis(5);

/// When requests begin, and on what.
pub(super) struct Open<I> {
    pub(super) arrivals: I,
    /// Connections that are kept and requests at once on each; `None`: each request makes its own.
    pub(super) kept: Option<(usize, usize)>,
}

/// Runs until all requests are over, or it is stopped.
pub(super) async fn run<D: Dialer>(
    shared: Arc<Shared<D>>,
    open: Open<impl Iterator<Item = Arrival> + Send + 'static>,
    mut stop: watch::Receiver<bool>,
) {
    let pool = open.kept.map(|(connections, streams)| Arc::new(Pool::new(connections, streams)));
    let requests = Arc::new(Mutex::new(JoinSet::new()));
    let (runtime, tasks, books) = (tokio::runtime::Handle::current(), Arc::clone(&requests), Arc::clone(&shared.books));
    let mut pacer = Pacer::start(books.began, open.arrivals, move |arrival, due| {
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are over are let go as new ones come.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(request(Arc::clone(&shared), pool.clone(), arrival, due), &runtime);
    });
    let going = tokio::select! {
        () = pacer.done() => true,
        () = stopped(&mut stop) => false,
    };
    drop(pacer);
    let mut open = std::mem::take(&mut *requests.lock().unwrap_or_else(PoisonError::into_inner));
    if going {
        tokio::select! {
            () = async { while open.join_next().await.is_some() {} } => return,
            () = stopped(&mut stop) => {}
        }
    }
    books.cut(now());
    open.shutdown().await;
}

async fn request<D: Dialer>(shared: Arc<Shared<D>>, pool: Option<Arc<Pool<D>>>, arrival: Arrival, due: Instant) {
    let start = now();
    shared.books.begin(due, Some(start.saturating_duration_since(due)));
    let mut request = Request::new(due, start, arrival.url);
    let mut own = None;
    let limit = shared.manner.timeout;
    let result = match &pool {
        Some(pool) => tokio::time::timeout(limit, borrowed(&shared, pool, &mut request)).await,
        None => tokio::time::timeout(limit, shared.fresh(&mut request, &mut own)).await,
    };
    let result = result.unwrap_or_else(|_| Err(timed_out(&request, limit)));
    shared.books.done(&request, now(), result);
    if let Some(session) = own.filter(|_| shared.manner.zero_rtt) {
        linger(&session).await;
    }
}

/// Waits for the tickets that a server sends when its handshake is over.
pub(super) async fn linger<D: Dialer>(session: &Session<D>) {
    tokio::time::sleep(LINGER.max(session.rtt() * 2)).await;
}

async fn borrowed<D: Dialer>(shared: &Shared<D>, pool: &Pool<D>, request: &mut Request) -> Result<(), Failure> {
    let place = match pool.try_place() {
        Some(place) => Some(place),
        None => {
            shared.books.waits(request.intended);
            pool.wait().await
        }
    };
    let place = place.ok_or_else(|| Failure::new(Kind::Connect, "there is no connection"))?;
    request.start = now();
    let session = pool.slots.session(place.slot, shared).await?;
    request.connection = session.id;
    let mut sender = session.sender();
    session.ask(&mut sender, &request.url, &mut request.seen).await
}
