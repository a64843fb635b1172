//! Tests of every option of a path, in virtual time and in the relay: the same packets arrive at
//! the same times, and the option's counter counts them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fathom_units::Time;
use parking_lot::Mutex;

use super::{Incoming, Line, LineStats};
use crate::ecn::Ecn;
use crate::link::Link;
use crate::path::{DirectedPath, Impairer, ImpairmentCounts, PathSpec};
use crate::sim::{Agent, Arrived, Executor, Group, Path, WIRE_OVERHEAD, Wire};

const SEED: u64 = 5;
/// Number of datagrams, which are sent one per millisecond, and their payload in bytes. Together
/// they take 9.8 Mbps including headers.
const DATAGRAMS: u32 = 2_000;
const PAYLOAD: u32 = 1_200;

/// Arriving datagrams: time, number and ECN field of each.
type Arrivals = Vec<(Time, u32, u8)>;

#[derive(Debug, PartialEq)]
struct Run {
    arrivals: Arrivals,
    counts: ImpairmentCounts,
    dropped: u64,
    marked: u64,
}

impl Run {
    fn new(mut arrivals: Arrivals, counts: ImpairmentCounts, dropped: u64, marked: u64) -> Self {
        arrivals.sort_unstable();
        Self { arrivals, counts, dropped, marked }
    }

    /// Returns the delay of each datagram that arrives, in milliseconds.
    fn delays(&self) -> impl Iterator<Item = f64> {
        self.arrivals.iter().map(|(at, number, _)| at.as_nanos() as f64 / 1e6 - f64::from(*number))
    }

    fn mean_delay(&self) -> f64 {
        self.delays().sum::<f64>() / self.arrivals.len() as f64
    }
}

fn ecn_bits(ecn: Option<Ecn>) -> u8 {
    ecn.map_or(0, Ecn::bits)
}

/// Runs the relay's line with calls at the times at which the relay would make them.
fn in_relay(path: &DirectedPath) -> Run {
    let mut line = Line::new(path.clone(), SEED);
    let mut arrivals = Vec::new();
    let mut note = |number: u32, copies: super::Copies| {
        // A corrupted datagram fails the checks of its receiver. In virtual time, an agent's
        // corrupted packet is dropped at once.
        let whole = copies.into_iter().flatten().filter(|copy| copy.flip.is_none());
        arrivals.extend(whole.map(|copy| (copy.at, number, ecn_bits(copy.ecn))));
    };
    for number in 0..DATAGRAMS {
        let now = Time::from_millis(number.into());
        let incoming = Incoming { number, payload: PAYLOAD, flow: 0, ecn: Some(Ecn::Ect0) };
        while let Some(next) = line.next_departure().filter(|next| *next <= now) {
            while let Some((number, copies)) = line.depart(next) {
                note(number, copies);
            }
        }
        if line.schedules() {
            line.enqueue(now, incoming);
        } else if let Some(copies) = line.arrive(now, incoming) {
            note(number, copies);
        }
        while let Some((number, copies)) = line.depart(now) {
            note(number, copies);
        }
    }
    while let Some(next) = line.next_departure() {
        while let Some((number, copies)) = line.depart(next) {
            note(number, copies);
        }
    }
    let LineStats { impairments, dropped, marked, .. } = line.stats();
    Run::new(arrivals, impairments, dropped, marked)
}

/// Agent that sends the datagrams and records their arrivals.
struct Ends {
    flow: u32,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Agent for Ends {
    fn on_packet(&mut self, wire: &mut Wire<'_>, packet: Arrived<'_>) {
        let number = u32::from_le_bytes(packet.body.try_into().expect("four bytes"));
        self.arrivals.lock().push((wire.now(), number, ecn_bits(packet.ecn)));
    }

    fn on_timer(&mut self, wire: &mut Wire<'_>, number: u32) {
        wire.send(true, self.flow, Some(Ecn::Ect0), PAYLOAD + WIRE_OVERHEAD, &number.to_le_bytes());
    }
}

/// Runs in virtual time, with a link and impairments as scenarios build them.
fn in_virtual_time(path: &DirectedPath) -> Run {
    let mut executor = Executor::new();
    let sim = executor.sim();
    let (capacity, queue) = path.link.clone().expect("a link");
    let link =
        sim.add_link(Link::new(capacity.of_seed(SEED), queue.build(capacity.nominal(), SEED ^ 1)));
    sim.impair(link, Impairer::new(path.impairments.clone(), path.delay, SEED));
    let (client, server) = (sim.client_socket().id(), sim.server_socket().id());
    let down = Path::over(link, path.delay);
    let group = sim.add_group(Group { client, server, down, up: Path::direct(Duration::ZERO) });
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let agent = sim.add_agent(Box::new(Ends { flow: 0, arrivals: Arc::clone(&arrivals) }));
    assert_eq!(sim.add_agent_flow(agent, 0, group, Duration::ZERO), 0);
    for number in 0..DATAGRAMS {
        sim.call_agent_at(agent, Time::from_millis(number.into()), number);
    }
    executor.run(Time::from_millis(600_000));
    let (stats, counts) = (sim.link_stats(link), sim.impairment_counts(link).expect("impairments"));
    Run::new(std::mem::take(&mut *arrivals.lock()), counts, stats.dropped, stats.marked)
}

/// An option, one of its values, and the required effect on a run, compared with a run without the
/// option.
struct Row {
    option: &'static str,
    value: &'static str,
    does: fn(&Run, &Run) -> bool,
}

const fn row(option: &'static str, value: &'static str, does: fn(&Run, &Run) -> bool) -> Row {
    Row { option, value, does }
}

fn near(count: u64, part: f64) -> bool {
    let n = f64::from(DATAGRAMS);
    // Five deviations of the binomial distribution.
    (count as f64 - n * part).abs() < 5.0 * (n * part * (1.0 - part)).sqrt()
}

fn lost_all_of(run: &Run, count: u64) -> bool {
    run.arrivals.len() as u64 == u64::from(DATAGRAMS) - count
}

/// Every option and every event. Without an option, rates are 20 Mbps and the RTT is 20 ms.
const ROWS: &[Row] = &[
    row("preset", "geo", |run, _| run.mean_delay() > 250.0),
    row("rtt", "60ms", |run, base| (run.mean_delay() - base.mean_delay() - 20.0).abs() < 0.01),
    row("delay", "35ms", |run, base| (run.mean_delay() - base.mean_delay() - 25.0).abs() < 0.01),
    row("rate", "40Mbps", |run, base| {
        (base.mean_delay() - run.mean_delay() - 0.2456).abs() < 0.001
    }),
    row("rate", "5Mbps", |run, _| run.dropped > 500 && lost_all_of(run, run.dropped)),
    row("trace", "model:lte", |run, base| run.arrivals != base.arrivals),
    row("queue", "red", |run, _| run.marked + run.dropped > 0),
    row("queue", "fq-codel", |run, _| {
        run.arrivals.len() as u64 + run.dropped == u64::from(DATAGRAMS)
            && run.dropped + run.marked > 0
    }),
    row("loss", "10%", |run, _| near(run.counts.lost, 0.1) && lost_all_of(run, run.counts.lost)),
    row("loss", "bursts:loss=5%,length=4", |run, _| {
        run.counts.lost > 20 && lost_all_of(run, run.counts.lost)
    }),
    row("jitter", "5ms", |run, base| {
        run.mean_delay() > base.mean_delay() + 2.4 && run.counts.reordered == 0
    }),
    row("jitter", "5ms,reorder", |run, _| run.counts.reordered > 500 && run.counts.displaced == 0),
    row("reorder", "5%", |run, _| {
        near(run.counts.displaced, 0.05) && run.counts.reordered >= run.counts.displaced
    }),
    row("reorder", "5%,distance=3", |run, _| {
        near(run.counts.displaced, 0.05)
            && run.counts.reordered > 0
            && run.counts.reordered <= run.counts.displaced
    }),
    row("duplicate", "5%", |run, _| {
        near(run.counts.duplicated, 0.05)
            && run.arrivals.len() as u64 == u64::from(DATAGRAMS) + run.counts.duplicated
    }),
    row("corrupt", "5%", |run, _| {
        near(run.counts.corrupted, 0.05) && lost_all_of(run, run.counts.corrupted)
    }),
    row("policer", "5Mbps,burst=20kB", |run, _| {
        run.counts.policed > 800 && lost_all_of(run, run.counts.policed)
    }),
    row("ecn", "bleach", |run, _| {
        run.counts.bleached == u64::from(DATAGRAMS) && all_have(run, 0b00)
    }),
    row("ecn", "remark", |run, _| {
        run.counts.remarked == u64::from(DATAGRAMS) && all_have(run, 0b01)
    }),
    row("ecn", "ce", |run, _| run.counts.ce_set == u64::from(DATAGRAMS) && all_have(run, 0b11)),
    row("event", "blackout:200ms@500ms", |run, _| {
        run.counts.cut_off == 200 && lost_all_of(run, 200)
    }),
    row("event", "blackout:10ms@500ms every 100ms", |run, _| {
        run.counts.cut_off == 150 && lost_all_of(run, 150)
    }),
    row("event", "hold:200ms@500ms", |run, base| {
        let together = run.arrivals.iter().filter(|(at, ..)| *at == Time::from_millis(700)).count();
        run.counts.held == 200
            && together == 200
            && lost_all_of(run, 0)
            && run.arrivals != base.arrivals
    }),
    row("event", "mtu:1199@1s", |run, _| run.counts.cut_off == 1_000 && lost_all_of(run, 1_000)),
    row("event", "rate:5Mbps@1s", |run, _| run.dropped > 200 && lost_all_of(run, run.dropped)),
    row("event", "up-rate:5Mbps@1s", |run, base| run == base),
    row("event", "rtt:60ms@1s", |run, base| {
        (run.mean_delay() - base.mean_delay() - 10.0).abs() < 0.1
    }),
];

/// Returns the counts of a run without effects on packets.
fn came() -> ImpairmentCounts {
    let arrived = DATAGRAMS.into();
    ImpairmentCounts { arrived, bursts: arrived, largest_burst: 1, ..ImpairmentCounts::default() }
}

fn all_have(run: &Run, bits: u8) -> bool {
    lost_all_of(run, 0) && run.arrivals.iter().all(|(.., ecn)| *ecn == bits)
}

fn spec(option: &str, value: &str) -> PathSpec {
    let mut spec =
        PathSpec { rate: Some("20Mbps".into()), rtt: Some("20ms".into()), ..PathSpec::default() };
    match option {
        "event" => spec.events.push(value.into()),
        // At this rate, the link is full, so that a queue builds up.
        "queue" | "up-queue" => spec.rate = Some("8Mbps".into()),
        "trace" => spec.rate = None,
        "up-trace" => {}
        "delay" => spec.rtt = None,
        "up-delay" => (spec.rtt, spec.delay) = (None, Some("10ms".into())),
        // A preset has its own rates and RTT.
        "preset" => (spec.rate, spec.rtt) = (None, None),
        _ => {}
    }
    if let Some(field) = spec.field(option) {
        *field = Some(value.into());
    }
    spec
}

/// Returns the run of one direction. First checks that the run is the same in the relay and in
/// virtual time.
fn run(spec: &PathSpec, up: bool) -> Run {
    let path = spec.check().unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    let path = if up { path.up } else { path.down };
    let (relay, virtual_time) = (in_relay(&path), in_virtual_time(&path));
    assert!(relay == virtual_time, "{spec:?} up {up}:\n{}", difference(&relay, &virtual_time));
    relay
}

fn difference(relay: &Run, sim: &Run) -> String {
    let first = relay.arrivals.iter().zip(&sim.arrivals).find(|(a, b)| a != b);
    format!(
        "relay {:?}\nvirtual {:?}\nfirst arrivals {first:?}",
        (relay.counts, relay.dropped, relay.marked),
        (sim.counts, sim.dropped, sim.marked)
    )
}

#[test]
fn every_path_option_acts_alike_in_relay_and_simulation() {
    let base = run(&spec("", ""), false);
    assert!(lost_all_of(&base, 0) && base.counts == came());
    for Row { option, value, does } in ROWS {
        let said = run(&spec(option, value), false);
        assert!(
            does(&said, &base),
            "{option} {value}: {:?}, {} dropped, {} marked, {} ms",
            said.counts,
            said.dropped,
            said.marked,
            said.mean_delay()
        );
        let up = format!("up-{option}");
        if PathSpec::OPTIONS.contains(&up.as_str()) {
            let spec = spec(&up, value);
            let said = run(&spec, true);
            assert!(does(&said, &base), "{up} {value}: {:?}", said.counts);
            // The option must not change the other direction.
            let mut without = spec.clone();
            *without.field(&up).expect("the option") = None;
            assert_eq!(run(&spec, false), run(&without, false), "{up} {value}");
        }
    }
}

#[test]
fn parity_test_covers_every_path_option() {
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.option).collect();
    for option in PathSpec::OPTIONS {
        assert!(rows.contains(option.strip_prefix("up-").unwrap_or(option)), "no row for {option}");
    }
    // Rebindings exist only in the relay, because they do not change how packets are forwarded.
    for event in ["blackout", "hold", "mtu", "rate", "up-rate", "rtt"] {
        let is = |row: &&Row| row.option == "event" && row.value.split(':').next() == Some(event);
        assert!(ROWS.iter().any(|row| is(&row)), "no row for {event}");
    }
}
