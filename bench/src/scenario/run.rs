//! Sets a scenario up, runs it, checks its books.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathom_cc::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::background::LightGroups;
use super::chain::Access;
use super::outcome::{FlowOutcome, GroupOutcome, LinkOutcome, Outcome, RttOutcome};
use super::recorder::{Record, Recorded};
use super::source::Source;
use super::traffic::{Clients, Endpoints, Servers, TICK, drifts};
use super::watch::{Part, Shared, Tally, WarmUp};
use super::{SMALLEST_STOCK_DATAGRAM, Scenario, Stop, Traffic, Workload, load};
use crate::experiment::{CellError, Cost, PlanError, Progress, thread_cpu_time};
use crate::http::Identity;
use crate::link::{Counted, Link, LinkStats};
use crate::measure::{Delivery, Fairness, GroupBytes, WINDOWS, WindowTrace, fair_by_packets, round, verify};
use crate::stack::{self, Control, Setting};
use crate::world::{Ended, Executor, Group, GroupId, Hop, LinkId, Path, Tap, Virtual, WIRE_OVERHEAD};

/// A run that takes this much longer than its arrivals has collapsed.
const PATIENCE: u32 = 20;

/// Why a scenario has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario asks for something that cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The run failed.
    #[error(transparent)]
    Cell(#[from] CellError),
}

/// What `progress` counts up to: responses, or milliseconds of virtual time where the run ends at a time.
pub fn goal(scenario: &Scenario) -> u64 {
    match scenario.stop {
        Stop::Responses(n) => n,
        Stop::At(end) => end.as_millis() as u64,
    }
}

/// Runs a scenario on the calling thread. `progress` counts up to [`goal`].
///
/// # Errors
/// The run could not be set up, did not end, or failed its own checks.
pub fn run(scenario: &Scenario, seed: u64, progress: &Progress) -> Result<(Outcome, Cost), RunError> {
    let cpu = thread_cpu_time();
    let mut run = Run::set_up(scenario, seed, progress)?;
    run.go()?;
    let outcome = run.collect();
    let cost = Cost {
        cpu_seconds: (thread_cpu_time() - cpu).as_secs_f64(),
        packets: run.world().net_stats().sent,
        connections: run.groups.iter().flat_map(|g| &g.parts).map(|p| p.tally().connections).sum(),
        at_once: run.groups.iter().flat_map(|g| &g.parts).map(|p| p.tally().senders.totals().at_once).sum(),
    };
    Ok((outcome, cost))
}

/// Bytes that a scenario of one link puts on it, in both directions.
pub(super) fn bytes_on_the_wire(scenario: &Scenario) -> Result<u64, RunError> {
    let mut run = Run::set_up(scenario, 1, &Progress::default())?;
    run.go()?;
    Ok(run.links.iter().map(|(_, link)| run.world().link_stats(*link).bytes).sum())
}

/// A scenario in the virtual world.
struct Run<'a> {
    scenario: &'a Scenario,
    executor: Executor,
    shared: Arc<Shared>,
    /// Router links, with their names.
    links: Vec<(String, LinkId)>,
    access: Vec<LinkId>,
    groups: Vec<Built>,
    light: LightGroups,
    /// When the last request should have started, for runs that end with a number of responses.
    span: Duration,
}

/// A group of traffic in the virtual world.
struct Built {
    parts: Vec<Arc<Part>>,
    /// The traced response's size, or the traced flow's number.
    traced: u64,
    /// When the first flow's packets arrived, where that is kept.
    delivery: Option<Arc<Mutex<Delivery>>>,
}

impl<'a> Run<'a> {
    fn set_up(scenario: &'a Scenario, seed: u64, progress: &Progress) -> Result<Self, RunError> {
        let executor = Executor::new();
        let world = executor.world();
        let shared = Arc::new(Shared {
            world: world.clone(),
            wanted: match scenario.stop {
                Stop::Responses(n) => Some(n),
                Stop::At(_) => None,
            },
            progress: Arc::clone(progress),
            counted: Mutex::default(),
            at_warm_up: Mutex::default(),
        });
        let mut run = Self {
            light: LightGroups::new(&world, mix(&[seed, 4])),
            scenario,
            executor,
            shared,
            links: Vec::new(),
            access: Vec::new(),
            groups: Vec::new(),
            span: Duration::ZERO,
        };
        run.add_links(seed);
        run.add_background()?;
        let sealed = Arc::default();
        let noting = !scenario.keep.latency.is_empty();
        let identity =
            if noting { Identity::noting(&sealed) } else { Identity::generate() }.map_err(CellError::from)?;
        for (number, traffic) in scenario.traffic.iter().enumerate() {
            let delivery = scenario.keep.latency.contains(&traffic.name).then(|| Delivery::new(Arc::clone(&sealed)));
            run.add_group(number, traffic, &identity, delivery, seed)?;
        }
        run.watch_time(world);
        Ok(run)
    }

    fn world(&self) -> Virtual {
        self.shared.world.clone()
    }

    fn add_links(&mut self, seed: u64) {
        let (chain, keep) = (&self.scenario.chain, &self.scenario.keep);
        for (number, (from, to, name)) in chain.directed().enumerate() {
            let spec = &chain.links[from.min(to)];
            let queue = if from < to { &spec.queue } else { &spec.back_queue };
            // Each queue draws its own lots.
            let mut link = Link::new(spec.rate, queue.build(spec.rate, mix(&[seed, 1, number as u64])));
            if keep.queue.contains(&name) {
                link = link.with_series();
            }
            if keep.shares.as_ref() == Some(&name) {
                link = link.with_shares();
            }
            let id = self.shared.world.add_link(link);
            self.links.push((name, id));
        }
    }

    /// A link of the row, by the numbers of its ends.
    fn between(&self, from: usize, to: usize) -> Hop {
        let left = from.min(to);
        let (_, link) = self.links[2 * left + usize::from(from > to)];
        Hop { delay: self.scenario.chain.links[left].delay, link }
    }

    /// Paths of a group's hosts, down and up, each with access links of its own.
    fn hosts(&mut self, traffic: &Traffic, seed: u64) -> Vec<(Path, Path)> {
        let world = self.world();
        let Access { hosts, rate, delay: (low, high), queue } = traffic.access;
        let mut lots = Pcg64Mcg::seed_from_u64(seed);
        let mut drawn = || low + (high - low).mul_f64(lots.random::<f64>());
        let mut paths = Vec::new();
        for _ in 0..hosts.unwrap_or_else(|| traffic.workload.flows().unwrap_or(1)) {
            let [server_out, client_in, client_out, server_in] =
                [(); 4].map(|()| world.add_link(Link::new(rate, queue.build(rate, 0))));
            self.access.extend([server_out, client_in, client_out, server_in]);
            let (server_side, client_side) = (drawn(), drawn());
            let down = self.path(traffic.from, traffic.to, (server_out, server_side), (client_in, client_side));
            let up = self.path(traffic.to, traffic.from, (client_out, client_side), (server_in, server_side));
            paths.push((down, up));
        }
        paths
    }

    /// From a host behind router `from` to one behind router `to`. A link's delay comes after it, so each hop begins with that of the
    /// link before.
    fn path(&self, from: usize, to: usize, first: (LinkId, Duration), last: (LinkId, Duration)) -> Path {
        let mut path = self.links_of(from, to);
        if let Some(hop) = path.hops.first_mut() {
            hop.delay = first.1;
        }
        path.hops.insert(0, Hop { delay: Duration::ZERO, link: first.0 });
        path.hops.push(Hop { delay: path.tail, link: last.0 });
        Path { tail: last.1, ..path }
    }

    /// Light flows hang on the routers themselves.
    fn add_background(&mut self) -> Result<(), RunError> {
        let world = self.world();
        for group in &self.scenario.background {
            let (down, up) = (self.links_of(group.from, group.to), self.links_of(group.to, group.from));
            let added = self.light.add(&world, group, down, up);
            added.map_err(|e| PlanError(format!("background '{}': {e}", group.name)))?;
        }
        Ok(())
    }

    /// The links between two routers, without hosts.
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

    fn add_group(
        &mut self,
        number: usize,
        traffic: &Traffic,
        identity: &Identity,
        delivery: Option<Delivery>,
        seed: u64,
    ) -> Result<(), RunError> {
        let world = self.world();
        let keep = &self.scenario.keep;
        let group_seed = mix(&[seed, 3, number as u64]);
        // The same sequence of requests whoever answers them.
        let rate = load::rate(self.scenario, traffic, group_seed)?;
        let source = Source::new(traffic.workload, rate, group_seed)
            .map_err(|e| PlanError(format!("traffic '{}': workload: {e}", traffic.name)))?;
        let traced = match (keep.window.contains(&traffic.name), traffic.workload) {
            (false, _) => None,
            (true, Workload::Bulk { .. }) => Some((0, 0)),
            (true, Workload::Web { .. }) => source.largest(self.half(rate)),
        };
        if let (Stop::Responses(n), Workload::Web { .. }) = (self.scenario.stop, traffic.workload) {
            self.span = self.span.max(Duration::from_secs_f64(n as f64 / rate));
        }
        let wants_rtt = keep.rtt.contains(&traffic.name);
        let hosts = self.hosts(traffic, mix(&[group_seed, 2]));
        let mut parts = Vec::new();
        let mut up_to = 0.0;
        for (place, (part, control)) in traffic.mix.iter().enumerate() {
            up_to += part;
            let shared = Arc::clone(&self.shared);
            let part = Arc::new(Part {
                shared,
                counts: traffic.counted,
                record: Arc::new(Record::new(wants_rtt)),
                tally: Mutex::default(),
                traced: Mutex::default(),
                window: Arc::new(WindowTrace::default()),
                traced_end: Mutex::default(),
            });
            let control = recorded(control, &part.record, traffic.datagram);
            let mut ends_of = Vec::new();
            for (nth, drift) in drifts(traffic.drift).into_iter().enumerate() {
                let setting = Setting {
                    world: &world,
                    identity,
                    control: &control,
                    offer: self.scenario.timestamps.offer(),
                    outlet: control.uses_outlet(),
                    max_window: traffic.max_window,
                    datagram: traffic.datagram.max(SMALLEST_STOCK_DATAGRAM),
                    drift,
                    seed: endpoint_seed(mix(&[group_seed, place as u64, nth as u64])),
                };
                let (client, server) = (world.client_socket(), world.server_socket());
                let paths = hosts
                    .iter()
                    .cloned()
                    .map(|(down, up)| world.add_group(Group { client: client.id(), server: server.id(), down, up }));
                let paths: Vec<GroupId> = paths.collect();
                let servers = Arc::new(Servers(Arc::clone(&part)));
                let ends = stack::ends(self.scenario.stack, &setting, client, server, servers);
                let ends = ends.map_err(CellError::from)?;
                world.spawn(ends.accept);
                ends_of.push((ends.opener, paths));
            }
            parts.push((up_to, Endpoints { part, ends: ends_of }));
        }
        let delivery = delivery.map(|delivery| Arc::new(Mutex::new(delivery)));
        let built = Built {
            parts: parts.iter().map(|(_, e)| Arc::clone(&e.part)).collect(),
            traced: traced.map_or(0, |(_, bytes)| bytes),
            delivery: delivery.clone(),
        };
        let clients = Clients {
            parts: parts.into(),
            seed: group_seed,
            streams: traffic.streams,
            traced: traced.map(|(number, _)| number),
            watched: wants_rtt.then_some(0),
            tap: delivery.map(|delivery| delivery as Arc<Mutex<dyn Tap>>),
        };
        world.spawn(clients.run(source));
        self.groups.push(built);
        Ok(())
    }

    /// Half of the responses that a group will be asked for: the traced one is among them, so that it has time to complete.
    fn half(&self, rate: f64) -> u64 {
        match self.scenario.stop {
            Stop::Responses(n) => n.div_ceil(2),
            Stop::At(end) => (rate * end.as_secs_f64() / 2.0) as u64,
        }
    }

    /// Notes the counts at the end of the warm-up, and the time for progress bars.
    fn watch_time(&self, world: Virtual) {
        if !self.scenario.warm_up.is_zero() {
            let (shared, warm_up) = (Arc::clone(&self.shared), Time::ZERO + self.scenario.warm_up);
            let links: Vec<LinkId> = self.links.iter().map(|(_, link)| *link).collect();
            let parts: Vec<Arc<Part>> = self.groups.iter().flat_map(|g| g.parts.iter().cloned()).collect();
            self.world().spawn(async move {
                shared.world.sleep_until(warm_up).await;
                let mut noted = shared.at_warm_up.lock().unwrap_or_else(PoisonError::into_inner);
                noted.links = links.into_iter().map(|link| (link, shared.world.link_stats(link))).collect();
                let flows = parts.iter().flat_map(|p| p.tally().open.clone());
                noted.flows = flows.map(|flow| (flow, shared.world.flow_counts(flow))).collect();
            });
        }
        if let Stop::At(_) = self.scenario.stop {
            let progress = Arc::clone(&self.shared.progress);
            self.world().spawn(async move {
                loop {
                    world.sleep_until(world.time() + TICK).await;
                    let millis = world.time().as_nanos() / 1_000_000;
                    progress.store(millis, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    }

    fn go(&mut self) -> Result<(), RunError> {
        let (limit, expected) = match self.scenario.stop {
            Stop::At(end) => (Time::ZERO + end, Ended::TimeLimit),
            Stop::Responses(_) => (Time::ZERO + (self.span + Duration::from_secs(60)) * PATIENCE, Ended::Stopped),
        };
        let ended = self.executor.run(limit);
        if ended != expected {
            return Err(CellError::Collapsed {
                controller: self.names(),
                done: *self.shared.counted.lock().unwrap_or_else(PoisonError::into_inner),
                wanted: goal(self.scenario),
                seconds: self.world().time().as_secs_f64(),
            }
            .into());
        }
        self.check()
    }

    /// The controllers, for errors.
    fn names(&self) -> String {
        let controls = self.scenario.traffic.iter().flat_map(|t| &t.mix);
        let mut names: Vec<String> = controls.map(|(_, control)| control.spec()).collect();
        names.sort();
        names.dedup();
        names.join(" + ")
    }

    fn check(&self) -> Result<(), RunError> {
        let world = self.world();
        let router_links = self.links.iter().map(|(name, link)| (name.clone(), *link));
        let access_links = self.access.iter().enumerate().map(|(i, link)| (format!("access link {i}"), *link));
        let books: Vec<_> = router_links
            .chain(access_links)
            .map(|(name, link)| (name, world.link_stats(link), None, world.queue_length(link)))
            .collect();
        let faults = verify(&world.net_stats(), &books);
        if faults.is_empty() {
            return Ok(());
        }
        Err(CellError::Unsound { controller: self.names(), faults: faults.join("; ") }.into())
    }

    fn collect(&self) -> Outcome {
        let world = self.world();
        let warm_up = self.shared.at_warm_up.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = world.time().as_secs_f64();
        let counted = (seconds - self.scenario.warm_up.as_secs_f64()).max(1e-9);
        let links = self.links.iter().map(|(name, link)| {
            let stats = world.link_stats(*link);
            (name.clone(), link_outcome(&stats, warm_up.links.get(link), seconds, counted))
        });
        let mut groups = std::collections::BTreeMap::new();
        for (traffic, built) in self.scenario.traffic.iter().zip(&self.groups) {
            let of = |parts: &[&Arc<Part>]| group_outcome(&world, traffic, parts, &warm_up, counted, built.traced);
            let mut whole = of(&built.parts.iter().collect::<Vec<_>>());
            whole.latency = built
                .delivery
                .as_deref()
                .map(|delivery| delivery.lock().unwrap_or_else(PoisonError::into_inner).latencies().distribution());
            groups.insert(traffic.name.clone(), whole);
            if built.parts.len() > 1 {
                let parts = traffic.mix.iter().zip(&built.parts);
                groups.extend(parts.map(|((_, c), part)| (format!("{}/{}", traffic.name, c.spec()), of(&[part]))));
            }
        }
        Outcome {
            seconds: round(seconds, 6),
            links: links.collect(),
            groups,
            background: self.light.outcomes(seconds),
            fairness: self.fairness(),
            trace_hash: format!("{:016x}", world.trace_hash()),
        }
    }
}

/// Flows whose shares are asked for: the name of their group, the size of their packets on the wire, their numbers.
type Sharing = (String, u32, Vec<u32>);

fn sharing(traffic: &Traffic, built: &Built) -> Option<Sharing> {
    let flows = built.parts.iter().flat_map(|part| part.tally().open.clone()).collect();
    let size = u32::from(traffic.datagram) + WIRE_OVERHEAD;
    matches!(traffic.workload, Workload::Bulk { .. }).then(|| (traffic.name.clone(), size, flows))
}

impl Run<'_> {
    /// How the flows that are still there shared the link of `keep.shares`, from the end of the warm-up on.
    fn fairness(&self) -> Option<Fairness> {
        let name = self.scenario.keep.shares.as_ref()?;
        let (_, link) = self.links.iter().find(|(link, _)| link == name)?;
        let chain = &self.scenario.chain;
        let (from, to, _) = chain.directed().find(|(_, _, link)| link == name)?;
        let shares = self.world().link_stats(*link).shares?;
        let groups: Vec<Sharing> = (self.scenario.traffic.iter().zip(&self.groups))
            .filter_map(|(traffic, built)| sharing(traffic, built))
            .collect();
        let counts: Vec<(usize, u32)> = groups.iter().map(|(_, size, flows)| (flows.len(), *size)).collect();
        let fair = fair_by_packets(chain.links[from.min(to)].rate.bits_per_sec() as f64 / 8.0, &counts);
        let tenth = |d: Duration| d.as_millis() as usize / 100;
        let tenths = tenth(self.scenario.warm_up)..tenth(self.world().time().since(Time::ZERO));
        let counted = Counted::Wire { overhead: WIRE_OVERHEAD };
        let groups = groups.into_iter().zip(fair).map(|((name, _, flows), fair)| {
            let flows = flows.into_iter().map(|flow| shares.tenths(flow as usize, tenths.clone(), counted));
            Some(GroupBytes { name, fair, flows: flows.collect::<Option<_>>()? })
        });
        Fairness::of(&groups.collect::<Option<Vec<_>>>()?, &WINDOWS)
    }
}

fn link_outcome(now: &LinkStats, before: Option<&LinkStats>, seconds: f64, counted: f64) -> LinkOutcome {
    let since = |of: fn(&LinkStats) -> u64| of(now) - before.map_or(0, of);
    let (arrived, dropped) = (since(|l| l.arrived), since(|l| l.dropped));
    let busy = now.busy - before.map_or(0.0, |l| l.busy);
    // The mean is a mean over all time: what the time before contributed is taken off.
    let queue = now.mean_queue * seconds - before.map_or(0.0, |l| l.mean_queue * (seconds - counted));
    let percent = |part: f64, whole: f64| round(if whole > 0.0 { 100.0 * part / whole } else { 0.0 }, 4);
    let series = now.queue_series.as_ref();
    let width = series.map_or(0.0, crate::link::Series::width);
    LinkOutcome {
        arrived,
        dropped,
        marked: since(|l| l.marked),
        drops_percent: percent(dropped as f64, arrived as f64),
        mean_queue: round(queue / counted, 3),
        max_queue: now.max_queue,
        utilisation_percent: percent(busy, counted),
        throughput_bps: round(since(|l| l.bytes) as f64 * 8.0 / counted, 0),
        bin_seconds: width,
        queue_mean: series.map_or_else(Vec::new, |s| s.bins().iter().map(|b| round(b.sum / width, 2)).collect()),
        queue_max: series.map_or_else(Vec::new, |s| s.bins().iter().map(|b| b.max).collect()),
    }
}

/// The outcome of the connections of some parts of a group.
fn group_outcome(
    world: &Virtual,
    traffic: &Traffic,
    parts: &[&Arc<Part>],
    warm_up: &WarmUp,
    counted: f64,
    traced: u64,
) -> GroupOutcome {
    let mut outcome = GroupOutcome { traced, ..GroupOutcome::default() };
    let mut responses = crate::measure::Responses::default();
    let mut delivered = 0;
    let long = matches!(traffic.workload, Workload::Bulk { .. });
    for part in parts {
        let mut tally = part.tally();
        let senders = tally.senders.totals();
        let Tally { responses: own, failed, connections, over, open, .. } = &*tally;
        responses.merge(own);
        outcome.failed += failed;
        outcome.connections += connections;
        outcome.hears_one_way += senders.hears_one_way;
        outcome.early_reductions += senders.early_reductions;
        outcome.loss_reductions += senders.reductions;
        outcome.probe_timeouts += part.record.probe_timeouts();
        outcome.silences += part.record.silences();
        let (backoffs, time) = part.record.backoffs();
        outcome.backoffs += backoffs;
        outcome.backoff_seconds += time.as_secs_f64();
        outcome.sent += over.sent;
        outcome.lost += over.dropped;
        delivered += over.delivered;
        for flow in open {
            let counts = world.flow_counts(*flow);
            let before = warm_up.flows.get(flow).copied().unwrap_or_default();
            let got = counts.delivered - before.delivered;
            outcome.sent += counts.sent;
            outcome.lost += counts.dropped;
            delivered += got;
            if long {
                outcome.flows.push(FlowOutcome {
                    throughput_bps: round(got as f64 * 8.0 / counted, 0),
                    sent: counts.sent,
                    lost: counts.dropped,
                });
            }
        }
        if let Some(rtt) = part.record.rtt() {
            outcome.rtt = open.first().map(|flow| RttOutcome::new(&rtt, &world.drops(*flow)));
        }
        let window = part.window.points();
        if !window.is_empty() {
            outcome.window = window;
            outcome.traced_end = *part.traced_end.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
    outcome.backoff_seconds = round(outcome.backoff_seconds, 6);
    outcome.responses = responses.count();
    outcome.body_bytes = responses.bytes();
    outcome.mean_size = round(responses.mean_size(), 1);
    outcome.goodput_per_response_kbps = round(responses.goodput_kbps(), 3);
    outcome.times = (responses.count() > 0).then(|| responses.all());
    outcome.times_large = (responses.large().count > 0).then(|| responses.large());
    outcome.throughput_bps = round(delivered as f64 * 8.0 / counted, 0);
    outcome
}

/// The controller, recorded, and told of smaller datagrams than stacks send by themselves.
fn recorded(control: &Control, record: &Arc<Record>, datagram: u16) -> Control {
    match control {
        Control::Ours(recipe) => Control::Ours(Arc::new(Recorded {
            inner: Arc::clone(recipe),
            record: Arc::clone(record),
            datagram: (datagram < SMALLEST_STOCK_DATAGRAM).then_some(datagram),
        })),
        Control::Native(name) => Control::Native(name),
    }
}

/// Words into one that looks drawn by lot (the finaliser of SplitMix64; Steele, Lea, Flood: OOPSLA 2014).
pub(super) fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, word| {
        let x = hash.wrapping_add(*word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

fn endpoint_seed(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}
