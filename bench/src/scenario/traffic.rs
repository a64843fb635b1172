//! The clients and servers of one group of traffic.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathom_plugin::Observer;

use super::source::Source;
use super::state::ControllerGroup;
use crate::http::HttpError;
use crate::measure::Completed;
use crate::stack::{BoxFuture, Connector, Host, Sender};
use crate::workload::WebRequest;
use fathom_netsim::hash::mix;
use fathom_netsim::sim::{GroupId, Tap};

/// The clients of a group.
#[derive(Clone)]
pub(super) struct Clients {
    /// Connections with one controller each, and the part of all connections up to and including them.
    pub(super) parts: Arc<[(f64, Endpoints)]>,
    pub(super) seed: u64,
    /// Streams that a body travels over at once.
    pub(super) streams: u32,
    /// Number of the request whose sender's window is traced.
    pub(super) traced: Option<usize>,
    /// Number of the flow whose drops are noted.
    pub(super) watched: Option<usize>,
    /// Who is shown the first flow's datagrams.
    pub(super) tap: Option<Arc<Mutex<dyn Tap>>>,
}

/// The endpoints behind connections of one controller.
pub(super) struct Endpoints {
    pub(super) part: Arc<ControllerGroup>,
    /// What opens connections and the paths of the group's hosts, which connections take in turn. One such pair for each drift of
    /// clocks; each connection takes a random one.
    pub(super) ends: Vec<(Arc<dyn Connector>, Vec<GroupId>)>,
}

impl Clients {
    /// Starts every request at its time: arrivals never wait for completions.
    pub(super) async fn run(self, source: Source) {
        let Some((_, first)) = self.parts.first() else { return };
        let sim = first.part.state.sim.clone();
        for (index, request) in source.enumerate() {
            sim.sleep_until(request.start).await;
            let clients = self.clone();
            sim.spawn(async move { clients.fetch(&request, index).await });
        }
    }

    async fn fetch(&self, request: &WebRequest, index: usize) {
        let drawn = (mix(&[self.seed, index as u64, 0]) >> 11) as f64 / (1u64 << 53) as f64;
        let chosen = self.parts.iter().find(|(up_to, _)| drawn < *up_to).or_else(|| self.parts.last());
        let Some((_, endpoints)) = chosen else { return };
        let part = &endpoints.part;
        let (connector, hosts) =
            &endpoints.ends[(mix(&[self.seed, index as u64, 1]) % endpoints.ends.len() as u64) as usize];
        let sim = &part.state.sim;
        let flow = sim.add_flow_with_delays(hosts[index % hosts.len()], request.client_rtt, request.server_rtt);
        part.opened(flow);
        if self.traced == Some(index) {
            *part.traced.lock().unwrap_or_else(PoisonError::into_inner) = Some(flow);
        }
        if self.watched == Some(index) {
            sim.watch_drops(flow);
        }
        if let (0, Some(tap)) = (index, &self.tap) {
            sim.tap(flow, Arc::clone(tap));
        }
        let outcome = get(&**connector, flow, request, self.streams).await;
        let counts = part.closed(flow);
        if let (Ok(completed), true) = (&outcome, self.traced == Some(index)) {
            part.traced_completed(completed, counts);
        }
        part.record_outcome(outcome);
    }
}

async fn get(connector: &dyn Connector, flow: u32, request: &WebRequest, streams: u32) -> Result<Completed, HttpError> {
    let mut client = connector.open(flow).await?;
    let (body, head) = (request.response_bytes, request.request_bytes);
    let fetched = match streams {
        1 => client.get(body, head).await?,
        several => client.get_at_once(body, head, several).await?,
    };
    client.close();
    Ok(Completed { bytes: fetched.bytes, took: fetched.last_byte.since(request.start) })
}

/// The servers of a part.
pub(super) struct Servers(pub(super) Arc<ControllerGroup>);

impl Host for Servers {
    fn observer(&self, flow: Option<u32>) -> Option<Arc<dyn Observer>> {
        let mut traced = self.0.traced.lock().unwrap_or_else(PoisonError::into_inner);
        // Once: later connections may come to have the same number.
        let follow = traced.take_if(|traced| Some(*traced) == flow).is_some();
        follow.then(|| Arc::clone(&self.0.window) as Arc<dyn Observer>)
    }

    fn began(&self, sender: Arc<dyn Sender>) -> u64 {
        self.0.stats().senders.began(sender)
    }

    fn ended(&self, id: u64) {
        self.0.stats().senders.ended(id);
    }

    fn think(&self, _: Option<u32>) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Drifts that a group's clocks have: so many, evenly from 0 to the largest.
const DRIFTS: i32 = 32;

/// The drifts of a group's clients in microseconds per second.
pub(super) fn drifts(largest: u32) -> Vec<i32> {
    match i32::try_from(largest).unwrap_or(i32::MAX) {
        0 => vec![0],
        largest => (0..DRIFTS).map(|n| (2 * n + 1) * largest / (2 * DRIFTS)).collect(),
    }
}

/// Waits between two looks at the clock for progress bars.
pub(super) const TICK: Duration = Duration::from_millis(100);
