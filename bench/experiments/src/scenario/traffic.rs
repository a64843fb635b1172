//! The clients and servers of one group of traffic.

mod datagrams;
mod media;
mod pages;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fathom_cc::Time;
use fathom_metrics::Completed;
use fathom_netsim::hash::{StableHash, mix};
use fathom_netsim::sim::{FlowCounts, GroupId, SimHandle, Tap};
use fathom_plugin::Observer;
use fathom_traffic::WebRequest;
use futures_util::future::{Either, select};
use parking_lot::Mutex;

use super::state::ControllerGroup;
use super::workload::{Request, Source, note};
use super::{Resume, Resumption, Workload};
use crate::http::{Ask, Fetched, HttpError};
use crate::stack::{BoxFuture, Client, Connector, Host, ReportSender};

/// The clients of a group.
#[derive(Clone)]
pub(super) struct Clients {
    /// Endpoints of the connections, by controller, each with the cumulative fraction of
    /// connections up to and including those of this controller.
    pub(super) parts: Arc<[(f64, Endpoints)]>,
    pub(super) seed: u64,
    /// Whether connections have the model's delays in addition to those of their path.
    pub(super) own_delays: bool,
    /// Number of parallel streams that carry a body.
    pub(super) streams: u32,
    /// Time that a user waits for a response; `None` for no limit.
    pub(super) patience: Option<Duration>,
    /// Number of the request whose sender's window is traced.
    pub(super) traced: Option<usize>,
    /// Number of the request whose flow's drops are recorded.
    pub(super) watched: Option<usize>,
    /// Recorder of the first flow's datagrams, if they are kept.
    pub(super) tap: Option<Arc<Mutex<dyn Tap>>>,
    /// Number of first requests to hash.
    pub(super) hashed: u64,
    pub(super) workload: Workload,
    /// End of the warm-up. Page views that begin earlier are not counted.
    pub(super) since: Time,
    pub(super) requests: Arc<Mutex<StableHash>>,
}

/// Endpoints of the connections with one controller.
pub(super) struct Endpoints {
    pub(super) part: Arc<ControllerGroup>,
    /// Connectors of the endpoints, each with the paths of the group's hosts, which connections
    /// take in turn. There is one entry for each drift of a clock, and each connection takes a
    /// random entry.
    pub(super) ends: Vec<(Arc<dyn Connector>, Vec<GroupId>)>,
    /// Idle connections; `None` if every request has a connection of its own.
    pub(super) idle: Option<IdlePool>,
}

impl Clients {
    /// Starts every request at its time. Arrivals never wait for completions.
    pub(super) async fn run(self, source: Source) {
        let Some((_, first)) = self.parts.first() else { return };
        let sim = first.part.state.sim.clone();
        for (index, request) in source.enumerate() {
            sim.sleep_until(request.start()).await;
            if (index as u64) < self.hashed {
                note(&mut self.requests.lock(), &request);
            }
            let clients = self.clone();
            match request {
                Request::Web(request) => {
                    sim.spawn(async move { clients.fetch(&request, index, false).await });
                }
                Request::Upload(request) => {
                    sim.spawn(async move { clients.fetch(&request, index, true).await });
                }
                Request::Visit(visit, browsing) => {
                    sim.spawn(async move { clients.visit(visit, index, browsing).await });
                }
                Request::Media(stream, deadline, transport) => {
                    sim.spawn(
                        async move { clients.watch(stream, index, deadline, transport).await },
                    );
                }
            }
        }
    }

    /// Returns the endpoints of the connections with this number.
    fn endpoints(&self, index: usize) -> Option<&Endpoints> {
        let drawn = fraction(&[self.seed, index as u64, 0]);
        let chosen =
            self.parts.iter().find(|(up_to, _)| drawn < *up_to).or_else(|| self.parts.last());
        chosen.map(|(_, endpoints)| endpoints)
    }

    async fn fetch(&self, request: &WebRequest, index: usize, upload: bool) {
        let Some(endpoints) = self.endpoints(index) else { return };
        endpoints.part.begins(request.start);
        let outcome = self.get(endpoints, request, index, upload).await;
        endpoints.part.record_outcome(request.start, outcome);
    }

    /// Makes one request, on a new connection or on an idle one.
    async fn get(
        &self,
        endpoints: &Endpoints,
        request: &WebRequest,
        index: usize,
        upload: bool,
    ) -> Result<Completed, HttpError> {
        let part = &endpoints.part;
        let kept = endpoints.idle.as_ref().and_then(|idle| idle.take(part));
        let (mut client, flow) = match kept {
            Some((client, flow)) => {
                add_needs(part, flow, request.response_bytes, request.request_bytes);
                (client, flow)
            }
            None => self.open(endpoints, request, index, 0).await?,
        };
        let sim = &part.state.sim;
        let fetched = match before(
            sim,
            self.gives_up(request),
            send(&mut *client, request, self.streams, upload),
        )
        .await
        {
            Ok(fetched) => fetched,
            Err(e) => {
                match e {
                    HttpError::Abandoned => client.close(),
                    _ => drop(client),
                }
                part.closed(flow);
                return Err(e);
            }
        };
        let completed = Completed {
            bytes: if upload { request.request_bytes } else { fetched.bytes },
            took: fetched.last_byte.since(request.start),
            first_byte: fetched.first_byte.since(request.start),
        };
        let counts = match &endpoints.idle {
            Some(idle) => idle.put(part, client, flow, fetched.last_byte),
            None => {
                client.close();
                part.closed(flow)
            }
        };
        if self.traced == Some(index) {
            part.traced_completed(&completed, counts);
        }
        Ok(completed)
    }

    /// Returns the time at which the user stops waiting for a response.
    fn gives_up(&self, request: &WebRequest) -> Option<Time> {
        self.patience.map(|patience| request.start + patience)
    }

    /// Returns whether the client of the `nth` connection with this number holds a session ticket.
    fn holds_ticket(&self, index: usize, nth: u32) -> bool {
        let Resumption { resume, tickets } = self.workload.resumption();
        resume != Resume::None && fraction(&[self.seed, index as u64, 2, nth.into()]) < tickets
    }

    /// Opens the `nth` connection of the request or client with this number.
    async fn open(
        &self,
        endpoints: &Endpoints,
        request: &WebRequest,
        index: usize,
        nth: u32,
    ) -> Result<(Box<dyn Client>, u32), HttpError> {
        let part = &endpoints.part;
        let (connector, hosts) = &endpoints.ends
            [(mix(&[self.seed, index as u64, 1]) % endpoints.ends.len() as u64) as usize];
        let sim = &part.state.sim;
        let delays = |own| if self.own_delays { own } else { Duration::ZERO };
        let (client, server) = (delays(request.client_rtt), delays(request.server_rtt));
        let flow = sim.add_flow_with_delays(hosts[index % hosts.len()], client, server);
        if self.workload.goes_up() {
            sim.count_client(flow);
        }
        part.opened(flow, request.server_delay);
        add_needs(part, flow, request.response_bytes, request.request_bytes);
        if self.traced == Some(index) {
            *part.traced.lock() = Some(flow);
        }
        if self.watched == Some(index) {
            sim.watch_drops(flow);
        }
        if let (0, Some(tap)) = (index, &self.tap) {
            sim.tap(flow, Arc::clone(tap));
        }
        let opened = before(
            sim,
            self.gives_up(request),
            connector.open(flow, self.holds_ticket(index, nth)),
        )
        .await;
        opened.map(|client| (client, flow)).inspect_err(|_| {
            part.closed(flow);
        })
    }
}

/// Returns a number of at least 0 and less than 1 that depends only on these words.
fn fraction(words: &[u64]) -> f64 {
    (mix(words) >> 11) as f64 / (1u64 << 53) as f64
}

/// Bytes of a response or a request in addition to its body: HTTP/3 header, frames and settings,
/// and the QUIC frames of a connection.
const HTTP_BYTES: u64 = 100;

/// Announces a response and a request of these sizes on a flow, for links that keep bytes by
/// purpose.
fn add_needs(part: &ControllerGroup, flow: u32, response_bytes: u64, request_bytes: u64) {
    let with_head = |bytes: u64| bytes.saturating_add(HTTP_BYTES);
    part.state.sim.add_needs(flow, with_head(response_bytes), with_head(request_bytes));
}

/// Returns the result of `future`, or [`HttpError::Abandoned`] if `end` comes first.
async fn before<T>(
    sim: &SimHandle,
    end: Option<Time>,
    future: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    let Some(end) = end else { return future.await };
    match select(pin!(future), pin!(sim.sleep_until(end))).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(HttpError::Abandoned),
    }
}

async fn send(
    client: &mut dyn Client,
    request: &WebRequest,
    streams: u32,
    upload: bool,
) -> Result<Fetched, HttpError> {
    if upload {
        let ask =
            Ask { bytes: request.response_bytes, upload: request.request_bytes, ..Ask::default() };
        return client.fetch(ask).await;
    }
    let (body, head) = (request.response_bytes, request.request_bytes);
    match streams {
        1 => client.get(body, head).await,
        several => client.get_at_once(body, head, several).await,
    }
}

/// Idle time after which a client closes a persistent connection.
const KEEP: Duration = Duration::from_secs(15);

/// Idle persistent connections.
#[derive(Default)]
pub(super) struct IdlePool(Mutex<Vec<Idle>>);

/// An idle connection, its flow, and the time of its last use.
type Idle = (Box<dyn Client>, u32, Time);

impl IdlePool {
    /// Keeps a connection. Returns the datagram counts of its flow so far.
    fn put(
        &self,
        part: &ControllerGroup,
        client: Box<dyn Client>,
        flow: u32,
        used: Time,
    ) -> FlowCounts {
        self.0.lock().push((client, flow, used));
        part.state.sim.flow_counts(flow)
    }

    /// Returns the most recently used connection, so that the additional connections of a burst
    /// become idle. Closes connections that were idle for too long.
    fn take(&self, part: &ControllerGroup) -> Option<(Box<dyn Client>, u32)> {
        let now = part.state.sim.time();
        let mut idle = self.0.lock();
        let old = idle.partition_point(|(_, _, used)| now.since(*used) > KEEP);
        for (client, flow, _) in idle.drain(..old) {
            client.close();
            part.closed(flow);
        }
        idle.pop().map(|(client, flow, _)| (client, flow))
    }
}

/// The servers of connections with one controller.
pub(super) struct Servers(pub(super) Arc<ControllerGroup>);

impl Host for Servers {
    fn observer(&self, flow: Option<u32>) -> Option<Arc<dyn Observer>> {
        let mut traced = self.0.traced.lock();
        // Trace the flow only once, because later connections may get the same number.
        let follow = traced.take_if(|traced| Some(*traced) == flow).is_some();
        let trace = follow.then(|| Arc::clone(&self.0.window));
        let Some(flow) = flow else { return trace.map(|trace| trace as Arc<dyn Observer>) };
        Some(self.0.watch(flow, trace))
    }

    fn established(&self, flow: Option<u32>) {
        self.0.with_watch(flow, |watch, now| watch.established(now));
    }

    fn writing(&self, flow: Option<u32>, begins: bool) {
        self.0.with_watch(flow, |watch, now| watch.writing(now, begins));
    }

    fn began(&self, sender: Arc<dyn ReportSender>) -> u64 {
        self.0.stats().senders.began(sender)
    }

    fn ended(&self, id: u64) {
        self.0.stats().senders.ended(id);
    }

    fn think(&self, flow: Option<u32>, not_before: Option<Time>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let sim = &self.0.state.sim;
            if let Some(at) = not_before {
                return sim.sleep_until(at).await;
            }
            let delay = flow.and_then(|flow| self.0.stats().delays.get(&flow).copied());
            if let Some(delay) = delay {
                sim.sleep_until(sim.time() + delay).await;
            }
        })
    }
}

/// Number of clock drifts in a group.
const DRIFTS: i32 = 32;

/// Returns the drifts of a group's clients in microseconds per second, evenly spread from 0 to
/// `largest`.
pub(super) fn drifts(largest: u32) -> Vec<i32> {
    match i32::try_from(largest).unwrap_or(i32::MAX) {
        0 => vec![0],
        largest => (0..DRIFTS).map(|n| (2 * n + 1) * largest / (2 * DRIFTS)).collect(),
    }
}

/// Interval at which the time for progress bars is updated.
pub(super) const TICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
