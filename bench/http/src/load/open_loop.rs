//! Open loop: requests start at scheduled times, whether or not earlier requests have completed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_stacks::Endpoint;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::arrivals::Arrival;
use super::clock::now;
use super::context::{LoadContext, timed_out};
use super::pacer::Pacer;
use super::pool::StreamPool;
use super::request::{Failure, Request};
use super::session::Session;
use crate::stop::stopped;

/// Minimum time that a connection stays open to receive tickets for 0-RTT. If two round trips take
/// longer, the connection stays open for two round trips.
const LINGER: Duration = Duration::from_millis(5);

/// Scheduled arrivals and the connections for them.
pub(super) struct OpenLoopConfig<I> {
    pub(super) arrivals: I,
    /// Number of persistent connections and of concurrent requests on each. `None`: each request
    /// opens its own connection.
    pub(super) kept: Option<(usize, usize)>,
}

/// Runs until all requests are over or `stop` becomes true.
pub(super) async fn run<E: Endpoint>(
    context: Arc<LoadContext<E>>,
    open: OpenLoopConfig<impl Iterator<Item = Arrival> + Send + 'static>,
    mut stop: watch::Receiver<bool>,
) {
    let pool =
        open.kept.map(|(connections, streams)| Arc::new(StreamPool::new(connections, streams)));
    let requests = Arc::new(Mutex::new(JoinSet::new()));
    let (runtime, tasks, stats) =
        (tokio::runtime::Handle::current(), Arc::clone(&requests), Arc::clone(&context.stats));
    let mut pacer = Pacer::start(stats.began, open.arrivals, move |arrival, due| {
        let mut tasks = tasks.lock();
        // Drop finished tasks whenever a new request arrives.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(request(Arc::clone(&context), pool.clone(), arrival, due), &runtime);
    });
    let all_started = tokio::select! {
        () = pacer.done() => true,
        () = stopped(&mut stop) => false,
    };
    drop(pacer);
    let mut open = std::mem::take(&mut *requests.lock());
    if all_started {
        tokio::select! {
            () = async { while open.join_next().await.is_some() {} } => return,
            () = stopped(&mut stop) => {}
        }
    }
    stats.end_at(now());
    open.shutdown().await;
}

async fn request<E: Endpoint>(
    context: Arc<LoadContext<E>>,
    pool: Option<Arc<StreamPool<E>>>,
    arrival: Arrival,
    due: Instant,
) {
    let start = now();
    context.stats.record_start(due, Some(start.saturating_duration_since(due)));
    let mut request = Request::new(due, start, arrival.url);
    let mut own = None;
    let limit = context.options.timeout;
    let result = match &pool {
        Some(pool) => tokio::time::timeout(limit, borrowed(&context, pool, &mut request)).await,
        None => tokio::time::timeout(limit, context.fresh(&mut request, &mut own)).await,
    };
    let result = result.unwrap_or_else(|_| Err(timed_out(&request, limit)));
    context.stats.record_end(&request, now(), result);
    if let Some(session) = own.filter(|_| context.options.zero_rtt) {
        linger(&session).await;
    }
}

/// Waits for the tickets that a server sends at the end of its handshake.
pub(super) async fn linger<E: Endpoint>(session: &Session<E>) {
    tokio::time::sleep(LINGER.max(session.rtt() * 2)).await;
}

async fn borrowed<E: Endpoint>(
    context: &LoadContext<E>,
    pool: &StreamPool<E>,
    request: &mut Request,
) -> Result<(), Failure> {
    let permit = match pool.try_acquire_stream() {
        Some(permit) => Some(permit),
        None => {
            context.stats.record_wait(request.intended);
            pool.acquire_stream().await
        }
    };
    let permit = permit.ok_or(Failure::NoConnection)?;
    request.start = now();
    let session = pool.connections.session(permit.slot, context).await?;
    request.connection = session.id;
    let mut sender = session.sender();
    session.send_request(&mut sender, &request.url, &mut request.progress).await
}
