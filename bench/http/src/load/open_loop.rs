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
use super::pool::{StreamPermit, StreamPool};
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
    let (tasks, stats) = (Arc::clone(&requests), Arc::clone(&context.stats));
    let mut turn = 0_usize;
    let mut pacer = Pacer::start(stats.began, open.arrivals, move |arrival, due| {
        let permit = pool.as_ref().and_then(StreamPool::try_acquire_stream);
        // A request runs on the event loop of its connection. If it has to wait for a connection,
        // it may be another loop.
        turn = turn.wrapping_add(1);
        let index = permit.as_ref().map_or(turn, |permit| permit.slot);
        let connections = match (permit, &pool) {
            (Some(permit), _) => Connections::Permitted(permit),
            (None, Some(pool)) => Connections::Busy(Arc::clone(pool)),
            (None, None) => Connections::Fresh(index),
        };
        let mut tasks = tasks.lock();
        // Drop finished tasks whenever a new request arrives.
        while tasks.try_join_next().is_some() {}
        let event_loop = context.client.event_loop(index);
        tasks.spawn_on(request(Arc::clone(&context), connections, arrival, due), event_loop);
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

/// Connection of a request.
enum Connections<E: Endpoint> {
    /// A fresh connection with this index.
    Fresh(usize),
    /// A persistent connection.
    Permitted(StreamPermit<E>),
    /// The persistent connection that is the first to become free.
    Busy(Arc<StreamPool<E>>),
}

async fn request<E: Endpoint>(
    context: Arc<LoadContext<E>>,
    connections: Connections<E>,
    arrival: Arrival,
    due: Instant,
) {
    let start = now();
    context.stats.record_start(due, Some(start.saturating_duration_since(due)));
    let mut request = Request::new(due, start, arrival.url);
    let mut own = None;
    let limit = context.options.timeout;
    let result = match connections {
        Connections::Fresh(index) => {
            tokio::time::timeout(limit, context.fresh(index, &mut request, &mut own)).await
        }
        Connections::Permitted(permit) => {
            tokio::time::timeout(limit, borrowed(&context, permit, &mut request)).await
        }
        Connections::Busy(pool) => {
            let waiting = async {
                context.stats.record_wait(request.intended);
                let permit = pool.acquire_stream().await.ok_or(Failure::NoConnection)?;
                borrowed(&context, permit, &mut request).await
            };
            tokio::time::timeout(limit, waiting).await
        }
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
    permit: StreamPermit<E>,
    request: &mut Request,
) -> Result<(), Failure> {
    request.start = now();
    let session = permit.pool.connections.session(permit.slot, context).await?;
    request.connection = session.id;
    let mut sender = session.sender();
    session.send_request(&mut sender, &request.url, &mut request.progress).await
}
