//! A contest: flows of several stacks and controllers on one bottleneck, in one virtual run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathom_cc::{Rate, Time};
use fathom_quinn::Observer;

use super::cell::{CellError, seed};
use super::compare::CompareError;
use super::plan::{PlanError, Timestamps};
use crate::http::{Fetched, HttpError, Identity};
use crate::link::{Link, LinkStats, QueueSpec};
use crate::measure::verify;
use crate::stack::{self, Boxed, ClientClock, Control, DATAGRAM, Host, Lie, Sender, Setting, Stack};
use crate::world::{Executor, Group, Hop, Path};

/// Flows at most: each has endpoints of its own, with a byte of the seed to tell them apart.
const MOST: usize = 256;

/// One flow: a download on a connection of its own.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Stack of both ends.
    pub stack: Stack,
    /// Controller of both ends.
    pub controller: Control,
    /// When it begins.
    pub start: Duration,
    /// Length of the body.
    pub bytes: u64,
    /// What its client tells of the time to get more than its share. `None`: the truth.
    pub lie: Option<Lie>,
}

/// Who contends for what.
#[derive(Clone, Debug)]
pub struct Contest {
    /// The flows.
    pub contenders: Vec<Contender>,
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

/// How a contest went.
#[derive(Debug)]
pub struct ContestResult {
    /// What each flow got, in the order of the contenders; a flow that the limit cut short has none.
    pub flows: Vec<Option<Result<Fetched, HttpError>>>,
    /// Counts of the bottleneck.
    pub bottleneck: LinkStats,
    /// When each packet entered the bottleneck, and how long its queue and its own transmission took.
    pub delays: Vec<(Time, Duration)>,
    /// Hash over every step of every packet: two contests are the same exactly when it is equal.
    pub trace_hash: u64,
}

/// Nobody watches, and servers answer at once.
struct Quiet;

impl Host for Quiet {
    fn observer(&self, _: Option<u32>) -> Option<Arc<dyn Observer>> {
        None
    }
    fn began(&self, _: Arc<dyn Sender>) -> u64 {
        0
    }
    fn ended(&self, _: u64) {}
    fn think(&self, _: Option<u32>) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs a contest on the calling thread.
///
/// # Errors
/// A contender cannot be set up, or the run failed its own checks.
pub fn contest(contest: &Contest) -> Result<ContestResult, CompareError> {
    if contest.contenders.len() > MOST {
        return Err(PlanError(format!("{} contenders; name up to {MOST}", contest.contenders.len())).into());
    }
    let mut executor = Executor::new();
    let world = executor.world();
    let identity = Identity::generate().map_err(CellError::from)?;
    let link = world.add_link(Link::new(contest.link, contest.queue.build(contest.link, contest.seed)).with_log());
    let flows: Arc<Mutex<Vec<_>>> = Arc::new(Mutex::new(contest.contenders.iter().map(|_| None).collect()));
    for (number, contender) in contest.contenders.iter().enumerate() {
        let (client, server) = (world.client_socket(), world.server_socket());
        let group = world.add_group(Group {
            client: client.id(),
            server: server.id(),
            down: Path { hops: vec![Hop { delay: Duration::ZERO, link }], tail: contest.delay },
            up: Path { hops: Vec::new(), tail: contest.delay },
        });
        let setting = Setting {
            world: &world,
            identity: &identity,
            control: &contender.controller,
            extension: Timestamps::Lean.extension(),
            outlet: contender.controller.uses_outlet(),
            max_window: None,
            streams: 1,
            datagram: DATAGRAM,
            clock: contender.lie.map_or(ClientClock::Drifts(0), |lie| ClientClock::Lies(lie, link)),
            seed: seed(contest.seed, number as u8),
        };
        let ends = stack::ends(contender.stack, &setting, client, server, Arc::new(Quiet));
        let ends = ends.map_err(CellError::from)?;
        world.spawn(ends.accept);
        let (here, flows) = (world.clone(), Arc::clone(&flows));
        let (start, bytes) = (Time::ZERO + contender.start, contender.bytes);
        world.spawn(async move {
            here.sleep_until(start).await;
            let flow = here.add_flow(group, Duration::ZERO, Duration::ZERO);
            let fetched = async {
                let mut client = ends.opener.open(flow).await?;
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
    executor.run(Time::ZERO + contest.limit);
    let bottleneck = world.link_stats(link);
    let books = (
        "bottleneck".to_owned(),
        bottleneck.clone(),
        contest.queue.packet_limit(contest.link),
        world.queue_length(link),
    );
    let faults = verify(&world.net_stats(), &[books]);
    if !faults.is_empty() {
        return Err(CellError::Unsound { controller: "contest".into(), faults: faults.join("; ") }.into());
    }
    let flows = std::mem::take(&mut *flows.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(ContestResult { flows, bottleneck, delays: world.link_log(link), trace_hash: world.trace_hash() })
}
