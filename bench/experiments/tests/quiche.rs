//! Tests of quiche in virtual time: packets on the path have the sizes and times that controllers
//! request, and controllers receive correct signals. `shaping.rs` and `one_way.rs` test this for
//! quinn and noq. quiche needs no shaping socket.
#![cfg(feature = "quiche")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_cc::catalogue;
use fathom_cc::testing::{Event, Log, RecordingConfig};
use fathom_cc::{
    AckEvent, Capabilities, CongestionEvent, Controller, ControllerConfig, ControllerMetrics,
    Missing, Pacing, PathChange, Phase, SendParams, Sent, Start, Time,
};
use fathom_experiments::compare::{Plan, compare};
use fathom_experiments::scenario::{Outcome, Progress, ScenarioSpec, run};
use fathom_experiments::stack::{self, Stack};

const ONE_WAY: Duration = Duration::from_millis(20);
/// Full datagrams of the laboratory, in bytes of UDP payload.
const FULL: u16 = 1_392;

/// A fixed window, packet size and hold.
#[derive(Clone, Debug)]
struct Fixed {
    window: u64,
    size: u16,
    hold: Duration,
}

impl Controller for Fixed {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_ack(&mut self, _: &AckEvent<'_>) {}
    fn on_congestion_event(&mut self, _: &CongestionEvent) {}
    fn on_spurious_congestion_event(&mut self, _: Time) {}
    fn on_path(&mut self, _: Time, _: PathChange) {}
    fn send_params(&self) -> SendParams {
        let pace = if self.hold.is_zero() { Pacing::Window } else { Pacing::Delay(self.hold) };
        SendParams { datagram: Some(self.size), pacing: pace, ..SendParams::window(self.window) }
    }
    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics {
            window: self.window,
            threshold: None,
            phase: Phase::Avoidance,
            queueing: None,
            hold: Some(self.hold),
            datagram: Some(self.size),
            media_rate: None,
            reductions: 0,
            early_reductions: 0,
        }
    }
    fn boxed(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl ControllerConfig for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn spec(&self) -> String {
        self.name().into()
    }
    fn required(&self) -> Capabilities {
        Capabilities { datagram: true, pacing: true, ..Capabilities::NONE }
    }
    fn start(&self, _: &Start) -> Result<Box<dyn Controller>, Missing> {
        Ok(Box::new(self.clone()))
    }
}

/// Gives Reno to the first connection, which is the client's, and the tested controller to the
/// second connection, which is the server's.
#[derive(Debug)]
struct Served {
    inner: RecordingConfig,
    began: AtomicBool,
}

impl ControllerConfig for Served {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn spec(&self) -> String {
        self.inner.spec()
    }
    fn required(&self) -> Capabilities {
        self.inner.required()
    }
    fn start(&self, start: &Start) -> Result<Box<dyn Controller>, Missing> {
        if self.began.swap(true, Ordering::Relaxed) {
            return self.inner.start(start);
        }
        catalogue::parse("reno").expect("a controller").start(start)
    }
}

/// Link that carries the data.
const LINK: &str = "left-right";

/// Runs one download of `bytes`. Returns the events that the server's controller received, and the
/// outcome.
fn download(controller_config: Arc<dyn ControllerConfig>, mbps: u64, bytes: u64) -> (Log, Outcome) {
    let log = Log::new(1_000_000);
    let served = Served {
        inner: RecordingConfig::new(controller_config, log.clone()),
        began: AtomicBool::new(false),
    };
    let text = format!(
        "
        stop = '1 responses'
        stack = 'quiche'
        [network]
        topology = 'dumbbell'
        link = '{mbps}Mbps'
        delay = '{}ms'
        queue = 'droptail:10000p'
        [keep]
        delays = ['{LINK}']
        [[traffic]]
        name = 'flow'
        from = 'left'
        to = 'right'
        workload = 'flows:1x{bytes}B'
        controller = 'reno'
        access = {{ queues = 'none' }}
        ",
        ONE_WAY.as_millis()
    );
    let mut scenario =
        ScenarioSpec::from_toml(&text).and_then(|spec| spec.check()).expect("a scenario");
    scenario.traffic[0].mix = vec![(1.0, stack::Controller::Fathom(Arc::new(served)))];
    let (outcome, _) = run(&scenario, 1, &Progress::default()).expect("a run");
    (log, outcome)
}

/// Returns the seconds until the body was complete.
fn took(r: &Outcome) -> f64 {
    r.groups["flow"].times.as_ref().expect("a body").mean_ms / 1e3
}

fn fixed(window: u64, size: u16, hold_ms: u64) -> Arc<dyn ControllerConfig> {
    Arc::new(Fixed { window, size, hold: Duration::from_millis(hold_ms) })
}

#[test]
fn send_delay_slows_quiche_but_not_its_rtt_samples() {
    let mut times = Vec::new();
    for hold in [0, 20, 60] {
        let (log, r) = download(fixed(24_000, FULL, hold), 100, 600_000);
        let rtts: Vec<_> = log
            .records()
            .iter()
            .filter_map(
                |r| if let Event::AckEvent { rtt, .. } = r.event { Some(rtt) } else { None },
            )
            .collect();
        let last = rtts.last().expect("acknowledgements");
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        // The delay is 20 ms in each direction.
        assert!((40.0..41.5).contains(&ms(last.min)), "{hold}: {last:?}");
        assert!((40.0..48.0).contains(&ms(last.smoothed)), "{hold}: {last:?}");
        assert_eq!(r.links[LINK].dropped, 0, "{hold}");
        times.push(took(&r));
        // The sender sends at most one window per 40 + `hold` ms.
        let least = 600_000.0 / 24_000.0 * (40 + hold) as f64 / 1e3 * 0.8;
        assert!(
            (least..2.0 * least + 0.3).contains(&took(&r)),
            "{hold}: {} s, at least {least}",
            took(&r)
        );
    }
    assert!(times[0] < times[1] && times[1] < times[2], "{times:?}");
}

#[test]
fn quiche_sends_one_window_of_small_packets_per_rtt() {
    for size in [FULL, 500, 250] {
        let (_, r) = download(fixed(30_000, size, 0), 100, 1_500_000);
        // The sender sends 30 kB per 40 ms. The header, tag and STREAM header of each packet (about
        // 45 bytes) are not data.
        let expected = 1_500_000.0 / 30_000.0 * 0.040 / (1.0 - 45.0 / f64::from(size));
        assert!(
            (0.8 * expected..1.25 * expected + 0.2).contains(&took(&r)),
            "{size}: {} s, not {expected}",
            took(&r)
        );
        let link = &r.links[LINK];
        let mean =
            link.throughput_bps * r.seconds / 8.0 / (link.arrived - link.dropped) as f64 - 28.0;
        assert!(
            (0.9 * f64::from(size)..1.02 * f64::from(size)).contains(&mean),
            "{size}: {mean} bytes on average"
        );
    }
}

#[test]
fn quiche_exceeds_the_window_by_less_than_a_packet() {
    for (size, hold) in [(FULL, 0), (250, 0), (FULL, 10)] {
        let (log, _) = download(fixed(36_000, size, hold), 100, 800_000);
        let mut bytes = 0;
        let mut peaks = Vec::new();
        for record in log.records() {
            match record.event {
                Event::Sent(sent) => bytes += sent.bytes,
                Event::AckEvent { in_flight, .. } => {
                    peaks.push(bytes);
                    bytes = in_flight;
                }
                _ => {}
            }
        }
        peaks.sort_unstable();
        let (median, most) = (peaks[peaks.len() / 2], peaks[peaks.len() - 1]);
        assert!(most <= 36_000 + u64::from(FULL), "{size} {hold}: {most} bytes in flight");
        // Paced packets are spread over the round trip and the hold, so less than a window is in
        // flight.
        let least =
            if hold == 0 { 36_000 - 4 * u64::from(FULL) } else { 36_000 * 40 / 50 * 8 / 10 };
        assert!(median > least, "{size} {hold}: median {median}");
    }
}

#[test]
fn one_way_delay_of_quiche_tracks_the_queue() {
    // Only the receive window limits slow start, so a deep queue builds up.
    let (log, r) = download(catalogue::parse("reno").expect("a controller"), 10, 3_000_000);
    let mut truth: HashMap<u64, Vec<Duration>> = HashMap::new();
    for packet in &r.links[LINK].delays {
        truth.entry(packet.at_nanos).or_default().push(Duration::from_nanos(packet.delay_nanos));
    }
    // The server's clock began with its first packet.
    let start = r.links[LINK].delays[0].at_nanos;
    let mut left: HashMap<Time, usize> = HashMap::new();
    let mut pairs = Vec::new();
    for record in log.records() {
        let Event::AckEvent { packets, one_way, .. } = record.event else { continue };
        for p in &packets {
            *left.entry(p.sent).or_default() += 1;
        }
        let Some((sent, one_way)) = packets.iter().map(|p| p.sent).max().zip(one_way) else {
            continue;
        };
        let entered = start + sent.as_nanos();
        if let Some(delay) = truth.get(&entered).and_then(|delays| delays.get(left[&sent] - 1)) {
            pairs.push((one_way, *delay));
        }
    }
    assert!(pairs.len() > 100, "{} samples", pairs.len());
    let base = pairs.iter().map(|p| p.0).min().expect("samples");
    let least = pairs.iter().map(|p| p.1).min().expect("samples");
    let deepest = pairs.iter().map(|p| p.1).max().expect("samples");
    assert!(deepest > Duration::from_millis(200), "the queue never grew: {deepest:?}");
    let mut errors: Vec<f64> = pairs
        .iter()
        .map(|(reported, truth)| {
            (reported.above(base).as_secs_f64() - (*truth - least).as_secs_f64()).abs() * 1e6
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let p95 = errors[errors.len() * 95 / 100];
    println!(
        "{} samples, error mean {mean:.0} us, p95 {p95:.0} us, queue up to {deepest:?}",
        errors.len()
    );
    assert!(mean < 700.0 && p95 < 1_500.0, "mean {mean} us, p95 {p95} us");
}

/// A header block that does not fit in the rest of the initial window waits for room, and no
/// request fails because of it. With each of these queues, at least one block has to wait (the
/// load is computed with quinn's costs).
#[test]
fn large_requests_on_quiche_wait_for_window_room() {
    for queue in ["droptail:136p", "droptail:10p"] {
        let plan = Plan {
            controllers: vec!["reno".into()],
            stacks: vec![Stack::Quinn, Stack::Quiche],
            queue: queue.into(),
            load: "110%".into(),
            responses: 300,
            seeds: 1,
            ..Plan::default()
        };
        let comparison = compare(&plan, &|_| {}).expect("a comparison");
        let failed: Vec<u64> = comparison.runs.iter().map(|run| run.group().failed).collect();
        assert_eq!(failed, [0, 0], "{queue}");
    }
}
