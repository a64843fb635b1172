//! The clients of a run: an open loop of requests, each on a connection of its own or on an idle one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathom_cc::Time;

use super::state::RunState;
use super::topology::CLOUDS;
use super::traffic::Traffic;
use crate::http::HttpError;
use crate::measure::Completed;
use crate::stack::{Client, Connector};
use crate::workload::WebRequest;
use fathom_netsim::sim::GroupId;

/// A persistent connection unused for this long is closed by its client.
const KEEP: Duration = Duration::from_secs(15);

/// The clients of one direction.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) state: Arc<RunState>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) groups: Vec<GroupId>,
    pub(super) forward: bool,
    /// `None`: every request has a connection of its own.
    pub(super) idle: Option<IdlePool>,
}

/// Starts every request at its time: arrivals never wait for completions.
pub(super) async fn open_loop(clients: Clients, traffic: Arc<Traffic>, traced: Option<usize>) {
    let sim = clients.state.sim.clone();
    let mut index = 0;
    while let Some(request) = traffic.get(index) {
        sim.sleep_until(request.start).await;
        clients.state.record_request(&request, clients.forward, index);
        let task = clients.clone();
        let (cloud, traced) = (index % CLOUDS, traced == Some(index));
        sim.spawn(async move {
            let outcome = task.fetch(&request, cloud, traced).await;
            if task.forward {
                task.state.record_outcome(outcome);
            }
        });
        index += 1;
    }
}

impl Clients {
    /// One request, on a connection of its own or on an idle one.
    async fn fetch(&self, request: &WebRequest, cloud: usize, traced: bool) -> Result<Completed, HttpError> {
        let kept = self.idle.as_ref().and_then(|idle| idle.take(self.state.sim.time()));
        let mut client = match kept {
            Some(client) => client,
            None => self.open(request, cloud, traced).await?,
        };
        let fetched = client.get(request.response_bytes, request.request_bytes).await?;
        let took = fetched.last_byte.since(request.start);
        match &self.idle {
            Some(idle) => idle.put(client, fetched.last_byte),
            None => client.close(),
        }
        Ok(Completed { bytes: fetched.bytes, took })
    }

    async fn open(&self, request: &WebRequest, cloud: usize, traced: bool) -> Result<Box<dyn Client>, HttpError> {
        let state = &self.state;
        let flow = state.sim.add_flow_with_delays(self.groups[cloud], request.client_rtt, request.server_rtt);
        state.stats().connections += 1;
        if !request.server_delay.is_zero() {
            state.delays.lock().unwrap_or_else(PoisonError::into_inner).insert(flow, request.server_delay);
        }
        if traced {
            *state.traced_flow.lock().unwrap_or_else(PoisonError::into_inner) = Some(flow);
        }
        self.connector.open(flow).await
    }
}

/// Idle persistent connections, with the time each was last used.
#[derive(Clone, Default)]
pub(super) struct IdlePool(Arc<Mutex<Vec<Idle>>>);

/// An idle connection and when it was last used.
type Idle = (Box<dyn Client>, Time);

impl IdlePool {
    fn put(&self, client: Box<dyn Client>, used: Time) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((client, used));
    }

    /// The most recently used one, so that a burst's connections can age; those too old are closed.
    fn take(&self, now: Time) -> Option<Box<dyn Client>> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = idle.partition_point(|(_, used)| now.since(*used) > KEEP);
        idle.drain(..old).for_each(|(client, _)| client.close());
        idle.pop().map(|(client, _)| client)
    }
}
