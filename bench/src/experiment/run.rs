//! One run: one controller, one network, one sequence of requests. On the virtual backend its result is a pure function of these.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fathom_cc::{Rate, Time};

use super::clients::{Clients, IdlePool, open_loop};
use super::plan::{Checked, Connections, Shaping, Workload};
use super::result::{Cost, RunResult, SharesOverTime};
use super::servers::Servers;
use super::state::{Progress, RunState};
use super::topology::{Dumbbell, Sockets, access_limit};
use super::traffic::Traffic;
use crate::http::{Identity, IdentityError};
use crate::measure::{WindowTrace, round, verify};
use crate::stack::{self, ClientClock, Control, DATAGRAM, EndpointSettings, SetupError, Stack};
use fathom_netsim::backend;
use fathom_netsim::backend::BackendError;
use fathom_netsim::backend::{Backend, Punctuality};
use fathom_netsim::sim::{Ended, Executor, SimHandle};

/// A run that takes this much longer than its arrivals has collapsed.
const PATIENCE: u32 = 20;

/// One run to be made.
pub struct RunSpec<'a> {
    pub(crate) plan: &'a Checked,
    /// What reports call it.
    pub(crate) label: String,
    /// Controller of both ends of every connection.
    pub(crate) controller: Control,
    /// Stack of both ends.
    pub(crate) stack: Stack,
    /// Rate of all links.
    pub(crate) link: Rate,
    /// Forward and reverse requests.
    pub(crate) traffic: [Arc<Traffic>; 2],
    /// Responses at which the run ends.
    pub(crate) responses: u64,
    /// Where it runs.
    pub(crate) backend: Backend,
    /// Ends the run when it is set.
    pub(crate) interrupt: Arc<AtomicBool>,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No TLS identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The backend is not available.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The stack could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The run did not end in time.
    #[error(
        "{controller}: only {done} of {wanted} responses were complete after {seconds} virtual seconds, {failed} requests had failed; \
         lower the load or the number of responses"
    )]
    Collapsed {
        /// The controller.
        controller: String,
        /// Responses completed.
        done: u64,
        /// Requests that failed.
        failed: u64,
        /// Responses wanted.
        wanted: u64,
        /// Virtual seconds.
        seconds: f64,
    },
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The run's counters are inconsistent: a bug in the lab, not in the plan.
    #[error("{controller}: the run failed its own checks, please report this: {errors}")]
    FailedChecks {
        /// The controller.
        controller: String,
        /// What is wrong.
        errors: String,
    },
}

/// Runs a run on the calling thread.
///
/// # Errors
/// The run could not be set up, did not end, or failed its own checks.
pub fn run(run_spec: &RunSpec<'_>, progress: Progress) -> Result<(RunResult, Cost), RunError> {
    let cpu = thread_cpu_time();
    let mut executor = Executor::new();
    let sim = executor.sim();
    let state = Arc::new(RunState {
        sim: sim.clone(),
        wanted: run_spec.responses,
        progress,
        stats: Mutex::default(),
        delays: Mutex::default(),
        traced_flow: Mutex::new(None),
        window: Arc::new(WindowTrace::default()),
        finite: run_spec.plan.workload != Workload::PackMime,
    });
    let network = set_up(run_spec, &state)?;
    backend::attach(&mut executor, run_spec.backend, &network.router)?;
    executor.interrupt_on(Arc::clone(&run_spec.interrupt));
    let limit = time_limit(run_spec);
    let ended = executor.run(limit);
    let (done, failed) = {
        let stats = state.stats();
        (stats.responses.count(), stats.failed)
    };
    if ended == Ended::Interrupted {
        return Err(RunError::Interrupted);
    }
    if ended != Ended::Stopped {
        return Err(RunError::Collapsed {
            controller: run_spec.label.clone(),
            done,
            failed,
            wanted: run_spec.responses,
            seconds: sim.time().as_secs_f64(),
        });
    }
    check(run_spec, &sim, &network)?;
    let result = collect(run_spec, &state, &network, executor.punctuality());
    let packets = sim.net_stats().sent;
    let (connections, at_once) = {
        let mut stats = state.stats();
        (stats.connections, stats.senders.totals().at_once)
    };
    drop(executor);
    let cost = Cost { cpu_seconds: (thread_cpu_time() - cpu).as_secs_f64(), packets, connections, at_once };
    Ok((result, cost))
}

/// Sockets, endpoints, links, and the tasks of both directions.
fn set_up(run_spec: &RunSpec<'_>, state: &Arc<RunState>) -> Result<Dumbbell, RunError> {
    let sim = &state.sim;
    let identity = Identity::generate()?;
    let mut sockets = Vec::new();
    let mut both = Vec::new();
    for direction in 0..2u8 {
        let (client, server) = (sim.client_socket(), sim.server_socket());
        sockets.push(Sockets { client: client.id(), server: server.id() });
        let settings = EndpointSettings {
            sim,
            identity: &identity,
            control: &run_spec.controller,
            extension: run_spec.plan.timestamps.extension(),
            shaping: run_spec.plan.shaping == Shaping::Auto && run_spec.controller.needs_shaping(),
            max_window: run_spec.plan.max_window,
            streams: 1,
            datagram: DATAGRAM,
            clock: ClientClock::Drifts(0),
            seed: seed(run_spec.plan.seed, direction),
        };
        let host = Arc::new(Servers { state: Arc::clone(state), forward: direction == 0 });
        both.push(stack::ends(run_spec.stack, &settings, client, server, host)?);
    }
    let ends = [sockets[0], sockets[1]];
    // Of few and long flows; thousands of short ones have no shares worth a look.
    let shares = run_spec.plan.workload != Workload::PackMime;
    let network =
        Dumbbell::build(sim, run_spec.backend, run_spec.link, &run_spec.plan.queue, run_spec.plan.seed, ends, shares);
    for (direction, ends) in both.into_iter().enumerate() {
        sim.spawn(ends.accept);
        let clients = Clients {
            state: Arc::clone(state),
            connector: ends.connector,
            groups: network.groups[direction].clone(),
            forward: direction == 0,
            idle: (run_spec.plan.connections == Connections::Persistent).then(IdlePool::default),
        };
        let traffic = Arc::clone(&run_spec.traffic[direction]);
        let traced = (direction == 0).then(|| traffic.largest(run_spec.responses.div_ceil(2))).flatten();
        sim.spawn(open_loop(clients, traffic, traced));
    }
    Ok(network)
}

/// Seed of the endpoints of one direction.
pub(super) fn seed(seed: u64, direction: u8) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8] = direction;
    bytes
}

/// Last moment a run may reach: its arrivals' span many times over.
fn time_limit(run_spec: &RunSpec<'_>) -> Time {
    let last = (0..run_spec.responses as usize).rev().find_map(|i| run_spec.traffic[0].get(i));
    let (span, bytes) = last.map_or((Duration::ZERO, 0), |r| (r.start.since(Time::ZERO), r.response_bytes));
    let transfer = run_spec.link.time_for(bytes.saturating_mul(run_spec.responses.min(1_000)));
    Time::ZERO + (span + transfer + Duration::from_secs(60)) * PATIENCE
}

fn check(run_spec: &RunSpec<'_>, sim: &SimHandle, network: &Dumbbell) -> Result<(), RunError> {
    // The kernel keeps its own limit, and what it has sent is seen a moment later.
    let limit = run_spec.plan.queue.packet_limit(run_spec.link).filter(|_| run_spec.backend != Backend::Netem);
    let named = |name: &str, i: usize, link, limit| {
        (format!("{name} {i}"), sim.link_stats(link), limit, sim.queue_length(link))
    };
    let links: Vec<_> = (network.bottleneck.iter().enumerate().map(|(i, l)| named("bottleneck", i, *l, limit)))
        .chain(network.access.iter().enumerate().map(|(i, l)| named("access link", i, *l, access_limit(run_spec.link))))
        .collect();
    let errors = verify(&sim.net_stats(), &links);
    if errors.is_empty() {
        return Ok(());
    }
    Err(RunError::FailedChecks { controller: run_spec.label.clone(), errors: errors.join("; ") })
}

fn collect(
    run_spec: &RunSpec<'_>,
    state: &RunState,
    network: &Dumbbell,
    punctuality: Option<Punctuality>,
) -> RunResult {
    let sim = &state.sim;
    let seconds = sim.time().as_secs_f64().max(1e-9);
    let [forward, reverse] = network.bottleneck.map(|l| sim.link_stats(l));
    let bps = |bytes: u64| round(bytes as f64 * 8.0 / seconds, 0);
    let percent = |part: f64, whole: f64| round(if whole > 0.0 { 100.0 * part / whole } else { 0.0 }, 4);
    let mut stats = state.stats();
    // Those still sending count too, and among them are the largest.
    let senders = stats.senders.totals();
    let responses = &stats.responses;
    let series = forward.queue_series.clone().unwrap_or_default();
    let width = series.width();
    let traced = run_spec.traffic[0].largest(run_spec.responses.div_ceil(2)).and_then(|i| run_spec.traffic[0].get(i));
    RunResult {
        label: run_spec.label.clone(),
        controller: run_spec.controller.spec(),
        stack: run_spec.stack,
        backend: run_spec.backend,
        link: run_spec.link.to_string(),
        seconds: round(seconds, 6),
        responses: responses.count(),
        failed: stats.failed,
        drops_percent: percent(forward.dropped as f64, forward.arrived as f64),
        arrived: forward.arrived,
        dropped: forward.dropped,
        marks_percent: percent(forward.marked as f64, forward.arrived as f64),
        mean_queue: round(forward.mean_queue, 3),
        max_queue: forward.max_queue,
        utilisation_percent: percent(forward.busy, seconds),
        throughput_bps: bps(forward.bytes),
        reverse_throughput_bps: bps(reverse.bytes),
        goodput_bps: bps(responses.bytes()),
        mean_size: round(responses.mean_size(), 1),
        goodput_per_response_kbps: round(responses.goodput_kbps(), 3),
        times: responses.all(),
        times_large: responses.large(),
        one_way_percent: percent(senders.one_way_negotiated as f64, senders.began as f64),
        early_reductions: senders.early_reductions,
        loss_reductions: senders.reductions,
        bin_seconds: width,
        queue_mean: series.bins().iter().map(|b| round(b.sum / width, 2)).collect(),
        queue_max: series.bins().iter().map(|b| b.max).collect(),
        traced_bytes: traced.map_or(0, |r| r.response_bytes),
        window: state.window.points(),
        shares: forward.shares.as_ref().and_then(SharesOverTime::of),
        punctuality,
        request_hash: format!("{:016x}", stats.requests.value()),
        trace_hash: format!("{:016x}", sim.trace_hash()),
    }
}

/// CPU time of this thread: a run runs on one thread, whatever else the machine does.
pub(crate) fn thread_cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32)
}
