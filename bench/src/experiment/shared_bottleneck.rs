//! Flows of several stacks and controllers on one shared bottleneck, in one run in virtual time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathom_cc::{Rate, Time};
use fathom_plugin::Observer;

use super::compare::CompareError;
use super::plan::{PlanError, Timestamps};
use super::run::{RunError, seed};
use crate::http::{Fetched, HttpError, Identity};
use crate::measure::verify;
use crate::stack::{
    self, BoxFuture, ClientClock, ClockMisreport, Control, DATAGRAM, EndpointSettings, Host, Sender, Stack,
};
use fathom_netsim::link::{Link, LinkStats};
use fathom_netsim::queue::QueueSpec;
use fathom_netsim::sim::{Executor, Group, Hop, Path};

/// Flows at most: each has endpoints of its own, with a byte of the seed to tell them apart.
const MOST: usize = 256;

/// One flow: a download on a connection of its own.
#[derive(Clone, Debug)]
pub struct CompetingFlow {
    /// Stack of both ends.
    pub stack: Stack,
    /// Controller of both ends.
    pub controller: Control,
    /// When it begins.
    pub start: Duration,
    /// Length of the body.
    pub bytes: u64,
    /// How its client misreports time to get more than its share; `None`: it does not.
    pub misreport: Option<ClockMisreport>,
}

/// Flows on a shared bottleneck.
#[derive(Clone, Debug)]
pub struct SharedBottleneck {
    /// The flows.
    pub flows: Vec<CompetingFlow>,
    /// Rate of the bottleneck, which all bodies cross.
    pub link: Rate,
    /// Its queue.
    pub queue: QueueSpec,
    /// Fixed delay of each direction.
    pub delay: Duration,
    /// Seed of everything random.
    pub seed: u64,
    /// Virtual time at which it ends at the latest.
    pub limit: Duration,
}

/// The result of [`shared_bottleneck`].
#[derive(Debug)]
pub struct SharedBottleneckResult {
    /// What each flow got, in the order of the flows; a flow that the limit cut short has none.
    pub flows: Vec<Option<Result<Fetched, HttpError>>>,
    /// Counts of the bottleneck.
    pub bottleneck: LinkStats,
    /// When each packet entered the bottleneck, and how long its queue and its own transmission took.
    pub delays: Vec<(Time, Duration)>,
    /// Hash over every step of every packet: two runs are the same exactly when it is equal.
    pub trace_hash: u64,
}

/// Observes nothing; servers answer at once.
struct NullHost;

impl Host for NullHost {
    fn observer(&self, _: Option<u32>) -> Option<Arc<dyn Observer>> {
        None
    }
    fn began(&self, _: Arc<dyn Sender>) -> u64 {
        0
    }
    fn ended(&self, _: u64) {}
    fn think(&self, _: Option<u32>) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs the flows on the calling thread.
///
/// # Errors
/// A flow cannot be set up, or the run failed its own checks.
pub fn shared_bottleneck(setup: &SharedBottleneck) -> Result<SharedBottleneckResult, CompareError> {
    if setup.flows.len() > MOST {
        return Err(PlanError(format!("{} contenders; name up to {MOST}", setup.flows.len())).into());
    }
    let mut executor = Executor::new();
    let sim = executor.sim();
    let identity = Identity::generate().map_err(RunError::from)?;
    let link = sim.add_link(Link::new(setup.link, setup.queue.build(setup.link, setup.seed)).with_log());
    let flows: Arc<Mutex<Vec<_>>> = Arc::new(Mutex::new(setup.flows.iter().map(|_| None).collect()));
    for (number, competing) in setup.flows.iter().enumerate() {
        let (client, server) = (sim.client_socket(), sim.server_socket());
        let group = sim.add_group(Group {
            client: client.id(),
            server: server.id(),
            down: Path { hops: vec![Hop { delay: Duration::ZERO, link }], tail: setup.delay },
            up: Path { hops: Vec::new(), tail: setup.delay },
        });
        let settings = EndpointSettings {
            sim: &sim,
            identity: &identity,
            control: &competing.controller,
            extension: Timestamps::Lean.extension(),
            shaping: competing.controller.needs_shaping(),
            max_window: None,
            streams: 1,
            datagram: DATAGRAM,
            clock: competing
                .misreport
                .map_or(ClientClock::Drifts(0), |misreport| ClientClock::Misreports(misreport, link)),
            seed: seed(setup.seed, number as u8),
        };
        let ends = stack::ends(competing.stack, &settings, client, server, Arc::new(NullHost));
        let ends = ends.map_err(RunError::from)?;
        sim.spawn(ends.accept);
        let (here, flows) = (sim.clone(), Arc::clone(&flows));
        let (start, bytes) = (Time::ZERO + competing.start, competing.bytes);
        sim.spawn(async move {
            here.sleep_until(start).await;
            let flow = here.add_flow(group);
            let fetched = async {
                let mut client = ends.connector.open(flow).await?;
                let fetched = client.get(bytes, 0).await;
                client.close();
                fetched
            };
            let fetched = fetched.await;
            let mut flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
            flows[number] = Some(fetched);
            if flows.iter().all(Option::is_some) {
                here.stop();
            }
        });
    }
    executor.run(Time::ZERO + setup.limit);
    let bottleneck = sim.link_stats(link);
    let counters =
        ("bottleneck".to_owned(), bottleneck.clone(), setup.queue.packet_limit(setup.link), sim.queue_length(link));
    let errors = verify(&sim.net_stats(), &[counters]);
    if !errors.is_empty() {
        return Err(RunError::FailedChecks { controller: "shared bottleneck".into(), errors: errors.join("; ") }.into());
    }
    let flows = std::mem::take(&mut *flows.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(SharedBottleneckResult { flows, bottleneck, delays: sim.link_log(link), trace_hash: sim.trace_hash() })
}
