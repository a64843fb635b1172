//! Offered load: computes the rate of new connections that fills the wanted fraction of a link.
//!
//! The paper runs its network at ten times the rate, without queues, until the links carry the
//! wanted number of bits (Sync-TCP §4.2). On such a network, a response of a given size always
//! takes the same number of bytes on the wire. Two downloads of different sizes therefore reveal
//! two costs: the bytes per connection, and the bytes per byte of a body. These costs and the
//! request sizes of a run give the load. The load counts both directions of a connection. With
//! traffic in both directions, a link carries the bodies of one group and the acknowledgements of
//! the other.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fathom_cc::{Invalid, Rate, Time};
use fathom_metrics::round;
use fathom_netsim::backend::Backend;
use fathom_traffic::Object;
use parking_lot::Mutex;

use super::chain::{Chain, ChainLink, DEEP};
use super::workload::{Request, Source};
use super::{
    Bulk, ComputedLoad, Connections, MaxWindow, ResponseKind, Scenario, ScenarioError, Shaping,
    Stop, TcpSettings, Timestamps, Traffic, WebLoad, Workload,
};
use crate::stack::{Controller, Stack};

/// Sizes of the bodies whose costs are measured, in bytes.
const SMALL: u64 = 1_000;
const LARGE: u64 = 1_001_000;
/// Number of refinements of a rate. Refinements are needed because the response sizes of a model
/// depend slightly on the rate.
const ROUNDS: usize = 4;
/// Number of attempts for pages, whose load changes in steps. The attempt nearest to the wanted
/// load is taken.
const PAGE_ROUNDS: usize = 12;
/// Maximum number of requests whose sizes are added up. It also limits page views, which have
/// dozens of objects each.
const MOST: usize = 1_000_000;
const MOST_VIEWS: usize = 20_000;
/// Bytes of a response's headers with their frames.
const HEADERS: u64 = 60;

/// Bytes on the wire, in both directions, of a connection and of each byte of its body.
#[derive(Clone, Copy, Debug)]
struct Costs {
    connection: f64,
    byte: f64,
}

/// Function that runs a scenario with one link and returns the bytes that crossed this link.
pub(super) type BytesOnTheWire = fn(&Scenario) -> Result<u64, ScenarioError>;

/// Returns the rate of a group's web traffic in new connections per second. If the scenario
/// requests a load, also returns the load that these connections offer.
///
/// # Errors
/// Returns an error if no such rate is within the model's range, or if a stack fails.
pub(super) fn rate(
    scenario: &Scenario,
    traffic: &Traffic,
    seed: u64,
    on_the_wire: BytesOnTheWire,
) -> Result<(f64, Option<ComputedLoad>), ScenarioError> {
    let (part, of) = match traffic.workload.model().load() {
        None => return Ok((0.0, None)),
        Some(WebLoad::Connections(rate)) => return Ok((rate, None)),
        Some(WebLoad::Computed { part, of }) => (part, of),
    };
    let wanted = part * of.bits_per_sec() as f64 / 8.0;
    let costs = costs(scenario.timestamps, traffic, on_the_wire)?;
    // Find the rate once, so that all controllers are compared with the same requests.
    let key = format!(
        "{:?} {:?} {seed} {:x} {:x}",
        traffic.workload,
        scenario.stop,
        costs.connection.to_bits(),
        costs.byte.to_bits()
    );
    let found = FOUND.lock().entry(key).or_default().clone();
    let mut found = found.lock();
    let (rate, reached) = match *found {
        Some(found) => found,
        None => *found.insert(rate_for(scenario, traffic, seed, wanted, costs)?),
    };
    let reached = reached * 8.0 / of.bits_per_sec() as f64;
    let load = ComputedLoad {
        connections_per_second: round(rate, 3),
        of_bps: of.bits_per_sec(),
        wanted_percent: round(100.0 * part, 3),
        computed_percent: round(100.0 * reached, 3),
    };
    Ok((rate, Some(load)))
}

/// A rate of connections, with the bytes per second that they offer; empty until both are known.
type FoundRate = Arc<Mutex<Option<(f64, f64)>>>;

/// Rates found so far, by all values that a rate depends on. Threads that need the same rate wait
/// for the one that computes it.
static FOUND: LazyLock<Mutex<HashMap<String, FoundRate>>> = LazyLock::new(Mutex::default);

/// Returns the rate in new connections per second whose offered bytes per second are nearest to
/// `wanted`, and these bytes per second.
fn rate_for(
    scenario: &Scenario,
    traffic: &Traffic,
    seed: u64,
    wanted: f64,
    costs: Costs,
) -> Result<(f64, f64), ScenarioError> {
    // Mean response size in bytes for the first estimate. With web traffic in both directions, the
    // model's mean response has about 8 kB; a page has megabytes.
    let pages = traffic.workload.model().response_kind() == ResponseKind::Page;
    let first = if pages { 4e6 } else { 8_000.0 };
    let mut rate = wanted / (costs.connection + first * costs.byte);
    let offer = |rate: f64| offered(scenario, traffic, seed, rate, costs);
    if pages {
        return nearest(rate, wanted, offer);
    }
    for _ in 0..ROUNDS {
        rate *= wanted / offer(rate)?;
    }
    Ok((rate, offer(rate)?))
}

/// Returns the rate whose offered load is nearest to `wanted`, and this load. The load of pages
/// rises in steps, as large pages enter and leave the run.
fn nearest(
    first: f64,
    wanted: f64,
    offer: impl Fn(f64) -> Result<f64, ScenarioError>,
) -> Result<(f64, f64), ScenarioError> {
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut rate = first;
    let mut best = (first, f64::INFINITY);
    for _ in 0..PAGE_ROUNDS {
        let reached = offer(rate)?;
        if (reached - wanted).abs() < (best.1 - wanted).abs() {
            best = (rate, reached);
        }
        if reached < wanted {
            low = f64::max(low, rate);
        } else {
            high = f64::min(high, rate);
        }
        let step = rate * wanted / reached.max(wanted / 16.0);
        // The step may lead out of the interval between the two known rates.
        rate = if low < step && step < high {
            step
        } else {
            (low.max(high / 16.0) * high.min(low.max(first) * 16.0)).sqrt()
        };
    }
    Ok(best)
}

/// Returns the bytes per second that connections at this rate offer.
fn offered(
    scenario: &Scenario,
    traffic: &Traffic,
    seed: u64,
    rate: f64,
    costs: Costs,
) -> Result<f64, ScenarioError> {
    let workload = traffic.workload.model();
    let period = workload.period();
    let count = match scenario.stop {
        Stop::Responses(n) => n as usize,
        Stop::At(end) => {
            let active =
                period.until.map_or(end, |until| until.min(end)).saturating_sub(period.from);
            (rate * active.as_secs_f64()) as usize
        }
    };
    let source = workload
        .source(rate, seed)
        .map_err(|error| ScenarioError::Rate { traffic: traffic.name.clone(), error })?;
    if workload.response_kind() == ResponseKind::Page {
        let span = Duration::from_secs_f64(count.clamp(1, MOST_VIEWS) as f64 / rate);
        return Ok(view_bytes(source, period.from, span, costs) / span.as_secs_f64());
    }
    let (mut n, mut bytes, mut last) = (0u64, 0.0, 0.0);
    for request in source.take(count.clamp(1, MOST)) {
        let Request::Web(request) = request else { continue };
        n += 1;
        bytes += costs.connection
            + costs.byte * request.response_bytes as f64
            + request.request_bytes as f64;
        last = request.start.as_secs_f64() - period.from.as_secs_f64();
    }
    // Divides by the time in which the requests arrive, because the gaps of the model vary, too.
    let span = if last > 0.0 { last } else { n as f64 / rate };
    Ok(bytes / span)
}

/// Returns the bytes on the wire of the page views that begin within `span`, if loading takes no
/// time. The first visit begins at `from` or later.
fn view_bytes(visits: Source, from: Duration, span: Duration, costs: Costs) -> f64 {
    let end = Time::ZERO + from + span;
    let mut bytes = 0.0;
    let visits = visits.map_while(|request| match request {
        Request::Visit(visit, _) if visit.start < end => Some(visit),
        _ => None,
    });
    for visit in visits {
        bytes += costs.connection;
        let mut at = visit.start;
        for number in visit.first..visit.views {
            let page = visit.view(number);
            let of = |o: &Object| (o.bytes + HEADERS) as f64 * costs.byte + o.request_bytes as f64;
            bytes += page.objects.iter().map(of).sum::<f64>();
            at += page.reading;
            if at >= end {
                break;
            }
        }
    }
    bytes
}

type Key = (Stack, Timestamps, u16, MaxWindow, Option<TcpSettings>);

/// Measures the costs by two downloads on a network without queues. One measurement per process
/// suffices, because nothing in these downloads is random.
fn costs(
    timestamps: Timestamps,
    traffic: &Traffic,
    on_the_wire: BytesOnTheWire,
) -> Result<Costs, ScenarioError> {
    static KNOWN: LazyLock<Mutex<HashMap<Key, Costs>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock();
    let stack = traffic.load_stack;
    let of_tcp = (stack == Stack::Tcp).then_some(traffic.tcp);
    let key = (stack, timestamps, traffic.datagram, traffic.max_window, of_tcp);
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
        let reference = Controller::reference(stack).map_err(Invalid::from)?;
        let download = Traffic {
            name: "download".into(),
            stack,
            from: 0,
            to: 1,
            access: Chain::dumbbell(link).access,
            mix: vec![(1.0, reference)],
            workload: Workload::Bulk(Bulk {
                flows: 1,
                bytes: Some(bytes),
                spread: Duration::ZERO,
                after: Duration::ZERO,
            }),
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
            mtu_discovery: false,
            gso: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_the_request_rate_nearest_the_wanted_load() {
        // The load rises with the rate in steps of 0.1, and jumps by 5 at a rate of 3.
        let offer =
            |rate: f64| Ok((rate * 10.0).floor() / 10.0 + if rate > 3.0 { 5.0 } else { 0.0 });
        for (first, wanted, off) in
            [(1.0, 2.5, 0.1), (50.0, 2.5, 0.1), (1.0, 5.0, 2.1), (0.01, 9.0, 0.15)]
        {
            let (rate, reached) = nearest(first, wanted, offer).unwrap();
            assert_eq!(reached, offer(rate).unwrap());
            assert!((reached - wanted).abs() <= off, "{rate} offers {reached} of {wanted}");
        }
    }
}
