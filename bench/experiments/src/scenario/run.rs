//! Sets up a scenario, runs it, and checks its counters.

mod collect;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_cc::{Invalid, Time};
use fathom_metrics::{Delivery, WindowTrace, verify};
use fathom_netsim::backend::{self, Backend, RouterLink};
use fathom_netsim::hash::StableHash;
use fathom_netsim::link::Link;
use fathom_netsim::path::Impairer;
use fathom_netsim::sim::{Ended, Executor, Group, GroupId, Hop, LinkId, Path, SimHandle, Tap};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::background::PacketLevelGroups;
use super::chain::{Access, AccessQueues};
use super::cost::{Cost, thread_cpu_time};
use super::max_window;
use super::outcome::Outcome;
use super::recorder::{Record, Recorded};
use super::responses::SharedSpool;
use super::seeds::{GroupSeeds, Seeds};
use super::state::Progress;
use super::state::{ControllerGroup, RunState};
use super::traffic::{Clients, Endpoints, IdlePool, Servers, TICK, drifts};
use super::workload::largest;
use super::{
    ComputedLoad, Connections, Resume, Resumption, RunError, SMALLEST_STOCK_DATAGRAM, Scenario,
    ScenarioError, Shaping, Stop, Traffic, load,
};
use crate::http::Identity;
use crate::stack::{self, ClientClock, Controller, EndpointSettings, Stack};

/// Ratio of a run's duration to its expected duration at which the run has collapsed.
const PATIENCE: u32 = 20;

/// Returns the final value of `progress`: responses, or milliseconds of virtual time if the run
/// ends at a time.
pub(crate) fn goal(scenario: &Scenario) -> u64 {
    match scenario.stop {
        Stop::Responses(n) => n,
        Stop::At(end) => end.as_millis() as u64,
    }
}

/// Returns the total number of requests of the counted groups, if this number is fixed and
/// sufficient for the wanted responses.
fn requests(scenario: &Scenario) -> Option<u64> {
    let counted = scenario.traffic.iter().filter(|traffic| traffic.counted);
    let requests: Option<u64> = counted.map(|traffic| traffic.workload.requests()).sum();
    requests.filter(|requests| *requests >= goal(scenario))
}

/// Runs a scenario on the calling thread. `progress` counts completed responses, or milliseconds of
/// virtual time if the run ends at a time.
///
/// # Errors
/// Returns an error if the run cannot be set up, does not end, or fails its own checks.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    progress: &Progress,
) -> Result<(Outcome, Cost), ScenarioError> {
    let control = RunControl { progress: Arc::clone(progress), ..RunControl::default() };
    run_with(scenario, seed, &control)
}

/// Data shared between a run and its caller.
#[derive(Clone, Default)]
pub(crate) struct RunControl {
    /// Progress of the run; counts up to [`goal`].
    pub(crate) progress: Progress,
    /// Interrupts the run when set to `true`.
    pub(crate) interrupt: Arc<AtomicBool>,
    /// Storage for every response; `None` if responses are not kept.
    pub(crate) responses: Option<SharedSpool>,
}

/// Runs a scenario as [`run`] does, until it is interrupted.
pub(crate) fn run_with(
    scenario: &Scenario,
    seed: u64,
    control: &RunControl,
) -> Result<(Outcome, Cost), ScenarioError> {
    let cpu = thread_cpu_time();
    let mut run = Run::set_up(scenario, seed, control)?;
    run.go()?;
    let outcome = run.collect();
    let parts = || run.groups.iter().flat_map(|g| &g.parts);
    let (packets, connections, at_once) = (
        run.sim().net_stats().sent,
        parts().map(|p| p.stats().connections).sum(),
        parts().map(|p| p.stats().senders.totals().at_once).sum(),
    );
    drop(run);
    let cost = Cost {
        cpu_seconds: (thread_cpu_time() - cpu).as_secs_f64(),
        packets,
        connections,
        at_once,
    };
    Ok((outcome, cost))
}

/// Computes the loads of a run with this seed, in the same way as the run itself.
///
/// # Errors
/// Returns an error if no rate offers such a load.
pub(crate) fn check_loads(scenario: &Scenario, seed: u64) -> Result<(), ScenarioError> {
    for (traffic, number) in scenario.traffic.iter().zip(0..) {
        let requests = Seeds(seed).group(number).requests;
        load::rate(scenario, traffic, requests, bytes_on_the_wire)?;
    }
    Ok(())
}

/// Returns the bytes that a scenario of one link puts on this link, in both directions.
fn bytes_on_the_wire(scenario: &Scenario) -> Result<u64, ScenarioError> {
    let mut run = Run::set_up(scenario, 1, &RunControl::default())?;
    run.go()?;
    Ok(run.links.iter().map(|(_, link)| run.sim().link_stats(*link).bytes).sum())
}

/// A scenario that is being set up in the simulation.
struct Run<'a> {
    scenario: &'a Scenario,
    executor: Executor,
    state: Arc<RunState>,
    /// Router links, with their names.
    links: Vec<(String, LinkId)>,
    /// Router links in the form in which the netem backend sets them up in the kernel.
    router: Vec<RouterLink>,
    /// Access links, each with its maximum number of packets.
    access: Vec<(LinkId, Option<usize>)>,
    groups: Vec<BuiltGroup>,
    packet_level: PacketLevelGroups,
    /// Time that the slowest group needs for its requests and transfers; zero if the run ends at a
    /// time.
    span: Duration,
}

/// The access link of a host, if it has a queue, and its delay.
type HostLink = (Option<LinkId>, Duration);

/// A group of traffic in the simulation.
struct BuiltGroup {
    parts: Vec<Arc<ControllerGroup>>,
    /// Size of the traced response, or 0 if a flow is traced.
    traced: u64,
    /// Arrivals of the first flow's packets, if arrivals are kept.
    delivery: Option<Arc<Mutex<Delivery>>>,
    /// Hash over the first requests.
    requests: Arc<Mutex<StableHash>>,
    /// Load that the web traffic offers.
    load: Option<ComputedLoad>,
}

/// A group of traffic while its endpoints are made.
struct GroupSetUp<'a> {
    number: u16,
    traffic: &'a Traffic,
    identity: &'a Identity,
    seeds: GroupSeeds,
    /// Whether the RTT series of the first flow is kept.
    wants_rtt: bool,
    /// Paths of the group's hosts, down and up.
    hosts: Vec<(Path, Path)>,
    /// First link of the chain that bodies cross.
    first_link: LinkId,
}

impl<'a> Run<'a> {
    fn set_up(
        scenario: &'a Scenario,
        seed: u64,
        control: &RunControl,
    ) -> Result<Self, ScenarioError> {
        let seeds = Seeds(seed);
        let mut executor = Executor::new();
        executor.interrupt_on(Arc::clone(&control.interrupt));
        let sim = executor.sim();
        let state = Arc::new(RunState {
            sim: sim.clone(),
            wanted: match scenario.stop {
                Stop::Responses(n) => Some(n),
                Stop::At(_) => None,
            },
            requests: requests(scenario),
            progress: Arc::clone(&control.progress),
            responses: control.responses.clone(),
            counted: Mutex::default(),
            since: Time::ZERO + scenario.warm_up,
            at_warm_up: Mutex::default(),
        });
        let mut run = Self {
            packet_level: PacketLevelGroups::new(&sim, seeds.background()),
            scenario,
            executor,
            state,
            links: Vec::new(),
            router: Vec::new(),
            access: Vec::new(),
            groups: Vec::new(),
            span: Duration::ZERO,
        };
        run.add_links(seeds);
        run.add_background()?;
        let sealed = Arc::default();
        let recording = !scenario.keep.latency.is_empty();
        let identity = if recording { Identity::recording(&sealed) } else { Identity::generate() }
            .map_err(RunError::from)?;
        for (number, traffic) in scenario.traffic.iter().enumerate() {
            let delivery = scenario
                .keep
                .latency
                .contains(&traffic.name)
                .then(|| Delivery::new(Arc::clone(&sealed)));
            run.add_group(number, traffic, &identity, delivery, seeds)?;
        }
        run.watch_time(sim);
        backend::attach(&mut run.executor, scenario.backend, &run.router)
            .map_err(RunError::from)?;
        Ok(run)
    }

    fn sim(&self) -> SimHandle {
        self.state.sim.clone()
    }

    fn add_links(&mut self, seeds: Seeds) {
        if let Some(most) = self.scenario.gso {
            self.sim().bundle_datagrams(most as usize, BUNDLED_WITHIN);
        }
        let (chain, keep) = (&self.scenario.chain, &self.scenario.keep);
        for (number, (from, to, name)) in chain.directed().enumerate() {
            let spec = &chain.links[from.min(to)];
            let queue = if from < to { &spec.queue } else { &spec.back_queue };
            // Each queue and each impairment has its own random numbers.
            let direction = chain.direction(from > to);
            let capacity = direction.and_then(|d| d.link.as_ref()).map(|(capacity, _)| {
                let seed = seeds.impairments(2 * number as u64);
                (capacity.nominal(), capacity.of_seed(seed))
            });
            let (rate, capacity) = capacity.unwrap_or((spec.rate, spec.rate.into()));
            let mut link = Link::new(capacity, queue.build(rate, seeds.queue(number as u64)));
            if keep.queue.contains(&name) {
                link = link.with_series();
            }
            if keep.shares.as_ref() == Some(&name) {
                link = link.with_shares();
            }
            if keep.delays.contains(&name) {
                link = link.with_log();
            }
            if keep.bytes.contains(&name) {
                link = link.with_bytes();
            }
            if keep.drops.contains(&name) {
                link = link.with_drops();
            }
            let id = self.state.sim.add_link(link);
            if let Some(d) = direction.filter(|d| !d.impairments.is_none()) {
                let seed = seeds.impairments(2 * number as u64 + 1);
                self.state.sim.impair(id, Impairer::new(d.impairments.clone(), d.delay, seed));
            }
            self.links.push((name, id));
            // On a path, the kernel provides only the link and its queue. The laboratory adds the
            // delay and the impairments.
            let delay = if direction.is_some() { Duration::ZERO } else { spec.delay };
            self.router.push(RouterLink { link: id, rate, queue: *queue, delay });
        }
    }

    /// Returns a link of the chain between the routers with these numbers.
    fn between(&self, from: usize, to: usize) -> Hop {
        let left = from.min(to);
        let (_, link) = self.links[2 * left + usize::from(from > to)];
        let delay = match (self.scenario.chain.direction(from > to), self.scenario.backend) {
            (Some(direction), _) => direction.delay,
            // The kernel's links also delay packets.
            (None, Backend::Netem) => Duration::ZERO,
            (None, Backend::Virtual | Backend::Loopback) => self.scenario.chain.links[left].delay,
        };
        Hop { delay, link }
    }

    /// Returns the paths of a group's hosts, down and up, and adds access links for each host.
    fn hosts(&mut self, traffic: &Traffic, seed: u64) -> Vec<(Path, Path)> {
        let sim = self.sim();
        let Access { hosts, rate, delay: (low, high), queue, queues } = traffic.access;
        let (outbound, inbound) = (queues != AccessQueues::None, queues == AccessQueues::Both);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut sample_delay = || low + (high - low).mul_f64(rng.random::<f64>());
        let mut paths = Vec::new();
        for _ in 0..hosts.unwrap_or_else(|| traffic.workload.flows().unwrap_or(1)) {
            let mut add = |simulated: bool| {
                simulated.then(|| {
                    let link = sim.add_link(Link::new(rate, queue.build(rate, 0)));
                    self.access.push((link, queue.packet_limit(rate)));
                    link
                })
            };
            let [server_out, client_in, client_out, server_in] =
                [outbound, inbound, outbound, inbound].map(&mut add);
            let (server_side, client_side) = (sample_delay(), sample_delay());
            let down = self.path(
                traffic.from,
                traffic.to,
                (server_out, server_side),
                (client_in, client_side),
            );
            let up = self.path(
                traffic.to,
                traffic.from,
                (client_out, client_side),
                (server_in, server_side),
            );
            let up = if traffic.acks_queue {
                up
            } else {
                Path {
                    tail: up.tail + up.hops.iter().map(|hop| hop.delay).sum::<Duration>(),
                    hops: Vec::new(),
                }
            };
            paths.push((down, up));
        }
        paths
    }

    /// Returns the path from a host behind router `from` to a host behind router `to`. In the
    /// simulation, a link's delay comes after the link, so each hop begins with the delay of the
    /// previous link.
    fn path(&self, from: usize, to: usize, first: HostLink, last: HostLink) -> Path {
        let mut path = self.links_of(from, to);
        if let Some(hop) = path.hops.first_mut() {
            hop.delay = first.1;
        }
        if let Some(link) = first.0 {
            path.hops.insert(0, Hop { delay: Duration::ZERO, link });
        }
        if let Some(link) = last.0 {
            path.hops.push(Hop { delay: std::mem::take(&mut path.tail), link });
        }
        path.tail += last.1;
        path
    }

    /// Adds the background traffic. Packet-level flows connect to the routers directly.
    fn add_background(&mut self) -> Result<(), ScenarioError> {
        let sim = self.sim();
        for group in &self.scenario.background {
            let (down, up) =
                (self.links_of(group.from, group.to), self.links_of(group.to, group.from));
            let added = self.packet_level.add(&sim, group, down, up);
            added.map_err(|e| {
                Invalid::because(e.to_string()).in_field(format!("background '{}'", group.name))
            })?;
        }
        Ok(())
    }

    /// Returns the path between two routers, without hosts.
    fn links_of(&self, from: usize, to: usize) -> Path {
        let step = |at: usize| if from < to { at + 1 } else { at - 1 };
        let mut path = Path::default();
        let mut at = from;
        while at != to {
            let hop = self.between(at, step(at));
            path.hops.push(Hop { delay: path.tail, link: hop.link });
            path.tail = hop.delay;
            at = step(at);
        }
        path
    }

    /// Adds the endpoints and clients of a group.
    fn add_group(
        &mut self,
        number: usize,
        traffic: &Traffic,
        identity: &Identity,
        delivery: Option<Delivery>,
        seeds: Seeds,
    ) -> Result<(), ScenarioError> {
        let sim = self.sim();
        let keep = &self.scenario.keep;
        let seeds = seeds.group(number as u64);
        // The seed of the requests does not depend on stacks and controllers.
        let (rate, load) = load::rate(self.scenario, traffic, seeds.requests, bytes_on_the_wire)?;
        let workload = traffic.workload.model();
        let source = workload
            .source(rate, seeds.requests)
            .map_err(|error| ScenarioError::Rate { traffic: traffic.name.clone(), error })?;
        let traced = match (keep.window.contains(&traffic.name), workload.traces_largest()) {
            (false, _) => None,
            (true, false) => Some((0, 0)),
            (true, true) => largest(&source, self.half(rate)),
        };
        self.span = self.span.max(self.span_of(traffic, rate));
        let group = GroupSetUp {
            number: number as u16,
            traffic,
            identity,
            seeds,
            wants_rtt: keep.rtt.contains(&traffic.name),
            hosts: self.hosts(traffic, seeds.hosts()),
            first_link: self.links_of(traffic.from, traffic.to).hops[0].link,
        };
        let mut parts = Vec::new();
        let mut up_to = 0.0;
        for (place, (part, controller)) in traffic.mix.iter().enumerate() {
            up_to += part;
            parts.push((up_to, self.endpoints(&group, place, controller)?));
        }
        let delivery = delivery.map(|delivery| Arc::new(Mutex::new(delivery)));
        let built = BuiltGroup {
            parts: parts.iter().map(|(_, e)| Arc::clone(&e.part)).collect(),
            traced: traced.map_or(0, |(_, bytes)| bytes),
            delivery: delivery.clone(),
            requests: Arc::default(),
            load,
        };
        let clients = Clients {
            parts: parts.into(),
            seed: seeds.requests,
            own_delays: self.scenario.chain.path.is_none(),
            streams: traffic.streams,
            patience: traffic.patience,
            traced: traced.map(|(number, _)| number),
            watched: group.wants_rtt.then_some(0),
            tap: delivery.map(|delivery| delivery as Arc<Mutex<dyn Tap>>),
            hashed: self.state.wanted.map_or(0, |wanted| source.hashed(wanted)),
            workload: traffic.workload,
            since: Time::ZERO + self.scenario.warm_up,
            requests: Arc::clone(&built.requests),
        };
        sim.spawn(clients.run(source));
        self.groups.push(built);
        Ok(())
    }

    /// Returns the endpoints of the connections with the controller at this position in the mix of
    /// the group.
    fn endpoints(
        &self,
        group: &GroupSetUp<'_>,
        place: usize,
        controller: &Controller,
    ) -> Result<Endpoints, ScenarioError> {
        let (sim, traffic) = (self.sim(), group.traffic);
        let part = Arc::new(ControllerGroup {
            state: Arc::clone(&self.state),
            number: group.number,
            kind: traffic.workload.model().response_kind(),
            counts: traffic.counted,
            record: Arc::new(Record::new(group.wants_rtt)),
            stats: Mutex::default(),
            at_warm_up: Mutex::default(),
            traced: Mutex::default(),
            window: Arc::new(WindowTrace::default()),
            receive_window: receive_window(traffic),
            traced_end: Mutex::default(),
        });
        let recorded =
            recorded(controller, &part.record, traffic.datagram, smallest_datagram(traffic.stack));
        let Resumption { resume, .. } = traffic.workload.resumption();
        let mut ends_of = Vec::new();
        for (nth, drift) in drifts(traffic.drift).into_iter().enumerate() {
            let resumes = resume != Resume::None;
            let resuming = resumes.then(|| group.identity.resuming(resume == Resume::ZeroRtt));
            let identity = resuming.as_ref().unwrap_or(group.identity);
            let clock = match traffic.misreport {
                Some(misreport) => ClientClock::Misreports(misreport, group.first_link),
                None => ClientClock::Drifts(drift),
            };
            let seed = group.seeds.endpoints(place, nth);
            let settings = self.settings(traffic, (&sim, identity, &recorded), clock, seed);
            // Tickets are issued before the run, and without a recorder around the controller, so
            // that they do not count.
            let before = EndpointSettings { control: controller, ..settings.clone() };
            stack::issue_tickets(traffic.stack, &before).map_err(RunError::from)?;
            let (client, server) = (sim.client_socket(), sim.server_socket());
            let paths = group.hosts.iter().cloned().map(|(down, up)| {
                sim.add_group(Group { client: client.id(), server: server.id(), down, up })
            });
            let paths: Vec<GroupId> = paths.collect();
            let servers = Arc::new(Servers(Arc::clone(&part)));
            let ends = stack::ends(traffic.stack, &settings, client, server, servers);
            let ends = ends.map_err(RunError::from)?;
            sim.spawn(ends.accept);
            ends_of.push((ends.connector, paths));
        }
        let idle = (traffic.connections == Connections::Persistent).then(IdlePool::default);
        Ok(Endpoints { part, ends: ends_of, idle })
    }

    /// Returns the settings of a group's endpoints.
    fn settings<'e>(
        &self,
        traffic: &Traffic,
        (sim, identity, control): (&'e SimHandle, &'e Identity, &'e Controller),
        clock: ClientClock,
        seed: [u8; 32],
    ) -> EndpointSettings<'e> {
        let (scenario, workload) = (self.scenario, traffic.workload.model());
        let has_mtu_event = scenario.shrinking_mtu().is_some();
        EndpointSettings {
            sim,
            identity,
            control,
            extension: scenario.timestamps.extension(),
            shaping: scenario.shaping == Shaping::Auto && control.needs_shaping(traffic.stack),
            max_window: traffic.max_window,
            beyond_the_path: max_window::beyond_the_path(scenario, traffic),
            streams: traffic.streams,
            datagram: traffic.datagram.max(smallest_datagram(traffic.stack)),
            mtu_discovery: scenario.mtu_discovery
                || (has_mtu_event && traffic.stack.needs_mtu_discovery()),
            tcp: traffic.tcp,
            uploads: workload.goes_up(),
            datagrams: workload.datagram_buffer(),
            one_request: traffic.connections == Connections::Fresh,
            idle: traffic.idle,
            clock,
            seed,
        }
    }

    /// Returns half the number of responses that a group will get. The traced response is one of
    /// the first half, so that it has time to complete.
    fn half(&self, rate: f64) -> u64 {
        match self.scenario.stop {
            Stop::Responses(n) => n.div_ceil(2),
            Stop::At(end) => (rate * end.as_secs_f64() / 2.0) as u64,
        }
    }

    /// Returns the time in which the requests of a group arrive. For downloads and uploads, the
    /// time includes the transfers on an idle path. Returns zero if the run ends at a time or if
    /// downloads have no size.
    fn span_of(&self, traffic: &Traffic, rate: f64) -> Duration {
        let Stop::Responses(responses) = self.scenario.stop else { return Duration::ZERO };
        let transfer = |bytes: u64| {
            let links = &self.scenario.chain.links
                [traffic.from.min(traffic.to)..traffic.from.max(traffic.to)];
            links.iter().map(|link| link.rate.time_for(bytes)).max().unwrap_or_default()
        };
        traffic.workload.model().span(responses, rate, &transfer)
    }

    /// Spawns tasks that record the counts at the end of the warm-up and update the time for
    /// progress bars.
    fn watch_time(&self, sim: SimHandle) {
        if !self.scenario.warm_up.is_zero() {
            let (state, warm_up) = (Arc::clone(&self.state), Time::ZERO + self.scenario.warm_up);
            let links: Vec<LinkId> = self.links.iter().map(|(_, link)| *link).collect();
            let parts: Vec<Arc<ControllerGroup>> =
                self.groups.iter().flat_map(|g| g.parts.iter().cloned()).collect();
            let background = self.packet_level.reporter();
            sim.count_from(warm_up);
            self.sim().spawn(async move {
                state.sim.sleep_until(warm_up).await;
                let mut noted = state.at_warm_up.lock();
                noted.links =
                    links.iter().map(|link| (*link, state.sim.link_stats(*link))).collect();
                let impaired = |link: &LinkId| Some((*link, state.sim.impairment_counts(*link)?));
                noted.impairments = links.iter().filter_map(impaired).collect();
                noted.background = background();
                for part in parts {
                    *part.at_warm_up.lock() = part.counters();
                }
            });
        }
        if let Stop::At(_) = self.scenario.stop {
            let progress = Arc::clone(&self.state.progress);
            self.sim().spawn(async move {
                loop {
                    sim.sleep_until(sim.time() + TICK).await;
                    let millis = sim.time().as_nanos() / 1_000_000;
                    progress.store(millis, Ordering::Relaxed);
                }
            });
        }
    }

    fn go(&mut self) -> Result<(), ScenarioError> {
        let (limit, expected) = match self.scenario.stop {
            Stop::At(end) => (Time::ZERO + end, Ended::TimeLimit),
            Stop::Responses(_) => {
                let span = self.span.saturating_add(Duration::from_secs(60));
                (Time::ZERO + span.saturating_mul(PATIENCE), Ended::Stopped)
            }
        };
        let ended = self.executor.run(limit);
        if ended == Ended::Interrupted {
            return Err(RunError::Interrupted.into());
        }
        if ended != expected {
            let counted = *self.state.counted.lock();
            return Err(RunError::Collapsed {
                controller: self.names(),
                event: self.scenario.shrinking_mtu(),
                done: counted.completed,
                failed: counted.failed,
                wanted: goal(self.scenario),
                seconds: self.sim().time().as_secs_f64(),
            }
            .into());
        }
        self.check()
    }

    /// Returns the names of the controllers, for errors.
    fn names(&self) -> String {
        let controls = self.scenario.traffic.iter().flat_map(|t| &t.mix);
        let mut names: Vec<String> = controls.map(|(_, controller)| controller.spec()).collect();
        names.sort();
        names.dedup();
        names.join(" + ")
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let sim = self.sim();
        // The kernel enforces its own limits, and the laboratory sees its packets with a short
        // delay.
        let ours = self.scenario.backend != Backend::Netem;
        let router_links = self.links.iter().zip(&self.router).map(|((name, link), spec)| {
            (name.clone(), *link, spec.queue.packet_limit(spec.rate).filter(|_| ours))
        });
        let access_links = self
            .access
            .iter()
            .enumerate()
            .map(|(i, (link, limit))| (format!("access link {i}"), *link, *limit));
        let counters: Vec<_> = router_links
            .chain(access_links)
            .map(|(name, link, limit)| (name, sim.link_stats(link), limit, sim.queue_length(link)))
            .collect();
        let errors = verify(&sim.net_stats(), &counters);
        if errors.is_empty() {
            return Ok(());
        }
        Err(RunError::FailedChecks { controller: self.names(), errors: errors.join("; ") }.into())
    }
}

/// Maximum time for which a datagram waits for others of its bundle. Linux's TCP bundles the data
/// that it sends within 1 ms (`tcp_tso_autosize`).
const BUNDLED_WITHIN: Duration = Duration::from_millis(1);

/// Returns the smallest maximum datagram size, in bytes, with which a stack can be set up.
fn smallest_datagram(stack: Stack) -> u16 {
    if stack == Stack::Tcp { 0 } else { SMALLEST_STOCK_DATAGRAM }
}

/// Returns the maximum number of bytes that a receiver accepts; `None` unless the stack is TCP and
/// has a limit.
fn receive_window(traffic: &Traffic) -> Option<u64> {
    let packets = traffic.max_window.packets().filter(|_| traffic.stack == Stack::Tcp)?;
    let segment = traffic.tcp.sender(traffic.datagram, Some(packets), false, false).smss();
    Some(u64::from(packets) * u64::from(segment))
}

/// Wraps the controller in a recorder. The recorder also sets datagram sizes below the minimum that
/// stacks choose by themselves.
fn recorded(
    controller: &Controller,
    record: &Arc<Record>,
    datagram: u16,
    smallest: u16,
) -> Controller {
    match controller {
        Controller::Fathom(controller_config) => Controller::Fathom(Arc::new(Recorded {
            inner: Arc::clone(controller_config),
            record: Arc::clone(record),
            datagram: (datagram < smallest).then_some(datagram),
        })),
        Controller::Native(name) => Controller::Native(name),
    }
}
