//! Offered load: which rate of new connections fills the wanted part of a link.
//!
//! The paper runs its network at ten times the rate, where nothing queues, until the links carry the wanted bits (Sync-TCP §4.2). On such
//! a network a response costs the same bytes in every run, whatever else happens: so two downloads of different size tell what a
//! connection costs by itself and what each byte of a body costs, and the sizes of the requests that will be made tell the rest. Load
//! counts both directions of a connection: with traffic both ways, a link carries the bodies of one and the acknowledgements of the other.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use fathom_cc::Rate;
use fathom_metrics::round;
use fathom_netsim::backend::Backend;
use parking_lot::Mutex;

use super::chain::{Chain, ChainLink, DEEP};
use super::source::{Request, Source};
use super::{
    ComputedLoad, Connections, PlanError, Scenario, ScenarioError, Seeding, Shaping, Stop, TcpSettings, Timestamps,
    Traffic, WebLoad, Workload,
};
use crate::stack::{Controller, Stack};

/// Bodies whose costs are measured, in bytes.
const SMALL: u64 = 1_000;
const LARGE: u64 = 1_001_000;
/// Rates are refined this often: the sizes of a model depend on the rate a little.
const ROUNDS: usize = 4;
/// The largest number of requests whose sizes are looked at, and of page views, which have dozens of objects.
const MOST: usize = 1_000_000;
const MOST_VIEWS: usize = 20_000;
/// Headers of a response with their frames, bytes.
const HEADERS: u64 = 60;

/// Bytes on the wire, both directions, of a connection and of each byte of its body.
#[derive(Clone, Copy, Debug)]
struct Costs {
    connection: f64,
    byte: f64,
}

/// Runs a scenario of one link, and says how many bytes it put on it.
pub(super) type BytesOnTheWire = fn(&Scenario) -> Result<u64, ScenarioError>;

/// New connections per second of a group's web traffic, and the load that they offer where it is a load that is requested.
///
/// # Errors
/// No such rate is in the model's range, or a stack failed.
pub(super) fn rate(
    scenario: &Scenario,
    traffic: &Traffic,
    seed: u64,
    on_the_wire: BytesOnTheWire,
) -> Result<(f64, Option<ComputedLoad>), ScenarioError> {
    let (part, of) = match traffic.workload {
        Workload::Bulk { .. } | Workload::Uploads { .. } | Workload::Media { .. } => return Ok((0.0, None)),
        Workload::Web { load: WebLoad::Connections(rate), .. }
        | Workload::Pages { load: WebLoad::Connections(rate), .. } => return Ok((rate, None)),
        Workload::Web { load: WebLoad::Computed { part, of }, .. }
        | Workload::Pages { load: WebLoad::Computed { part, of }, .. } => (part, of),
    };
    let wanted = part * of.bits_per_sec() as f64 / 8.0;
    let costs = costs(scenario.timestamps, traffic, on_the_wire)?;
    // With web traffic in both directions the model's mean response is near 8 kB; a page has megabytes.
    let first = if matches!(traffic.workload, Workload::Pages { .. }) { 4e6 } else { 8_000.0 };
    let mut rate = wanted / (costs.connection + first * costs.byte);
    for _ in 0..ROUNDS {
        rate *= wanted / offered(scenario, traffic, seed, rate, costs)?;
    }
    let reached = offered(scenario, traffic, seed, rate, costs)? * 8.0 / of.bits_per_sec() as f64;
    let load = ComputedLoad {
        connections_per_second: round(rate, 3),
        of_bps: of.bits_per_sec(),
        wanted_percent: round(100.0 * part, 3),
        computed_percent: round(100.0 * reached, 3),
    };
    Ok((rate, Some(load)))
}

/// Bytes per second that connections at this rate offer.
fn offered(scenario: &Scenario, traffic: &Traffic, seed: u64, rate: f64, costs: Costs) -> Result<f64, ScenarioError> {
    let (Workload::Web { period, .. } | Workload::Pages { period, .. }) = traffic.workload else { return Ok(0.0) };
    let count = match scenario.stop {
        Stop::Responses(n) => n as usize,
        Stop::At(end) => {
            let active = period.until.map_or(end, |until| until.min(end)).saturating_sub(period.from);
            (rate * active.as_secs_f64()) as usize
        }
    };
    let source = Source::new(traffic.workload, rate, seed)
        .map_err(|e| PlanError(format!("traffic '{}': workload: {e}", traffic.name)))?;
    if let Source::Pages { .. } = source {
        return Ok(rate * view_bytes(source, count.clamp(1, MOST_VIEWS), costs));
    }
    let (mut n, mut bytes, mut last) = (0u64, 0.0, 0.0);
    for request in source.take(count.clamp(1, MOST)) {
        let Request::Web(request) = request else { continue };
        n += 1;
        bytes += costs.connection + costs.byte * request.response_bytes as f64 + request.request_bytes as f64;
        last = request.start.as_secs_f64() - period.from.as_secs_f64();
    }
    // What the requests of a run offer over the time in which they come; the model's own gaps vary, too.
    let span = if last > 0.0 { last } else { n as f64 / rate };
    Ok(bytes / span)
}

/// Mean bytes on the wire of a page view, over about the first `count` of them.
fn view_bytes(visits: Source, count: usize, costs: Costs) -> f64 {
    let (mut views, mut bytes) = (0u64, 0.0);
    for request in visits {
        let Request::Visit(visit) = request else { continue };
        bytes += costs.connection;
        for number in visit.first..visit.views {
            let page = visit.view(number);
            views += 1;
            bytes += page
                .objects
                .iter()
                .map(|o| (o.bytes + HEADERS) as f64 * costs.byte + o.request_bytes as f64)
                .sum::<f64>();
        }
        if views >= count as u64 {
            break;
        }
    }
    bytes / views.max(1) as f64
}

type Key = (Stack, Timestamps, u16, Option<u32>, Option<TcpSettings>);

/// Two downloads on a network that does not queue. Measured once per process: nothing in it is random.
fn costs(timestamps: Timestamps, traffic: &Traffic, on_the_wire: BytesOnTheWire) -> Result<Costs, ScenarioError> {
    static KNOWN: LazyLock<Mutex<HashMap<Key, Costs>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock();
    let of_tcp = (traffic.stack == Stack::Tcp).then_some(traffic.tcp);
    let key = (traffic.stack, timestamps, traffic.datagram, traffic.max_window, of_tcp);
    if let Some(costs) = known().get(&key) {
        return Ok(*costs);
    }
    let wire = |bytes: u64| -> Result<f64, ScenarioError> {
        let link = ChainLink {
            rate: Rate::from_bits_per_sec(1_000_000_000),
            delay: Duration::from_millis(10),
            queue: DEEP,
            back_queue: DEEP,
        };
        let reference = Controller::reference(traffic.stack).map_err(PlanError)?;
        let download = Traffic {
            name: "calibration".into(),
            from: 0,
            to: 1,
            access: Chain::dumbbell(link).access,
            mix: vec![(1.0, reference)],
            workload: Workload::Bulk { flows: 1, bytes: Some(bytes), spread: Duration::ZERO, after: Duration::ZERO },
            connections: Connections::Fresh,
            acks_queue: true,
            counted: true,
            drift: 0,
            misreport: None,
            streams: 1,
            patience: None,
            ..traffic.clone()
        };
        let scenario = Scenario {
            chain: Chain::dumbbell(link),
            traffic: vec![download],
            background: Vec::new(),
            stop: Stop::Responses(1),
            warm_up: Duration::ZERO,
            backend: Backend::Virtual,
            timestamps,
            shaping: Shaping::Auto,
            seeding: Seeding::Mixed,
            keep: super::KeepSpec::default(),
        };
        Ok(on_the_wire(&scenario)? as f64)
    };
    let (small, large) = (wire(SMALL)?, wire(LARGE)?);
    let byte = (large - small) / (LARGE - SMALL) as f64;
    let costs = Costs { connection: small - SMALL as f64 * byte, byte };
    known().insert(key, costs);
    Ok(costs)
}
