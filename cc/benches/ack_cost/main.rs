//! Cost of one ACK frame of two packets: every controller of the catalogue, and the options that cost more, beside quinn's NewReno and
//! CUBIC.
//!
//! A run is 1 000 ACK frames and one loss; divide its time by 1 000, or read the throughput (elements are ACK frames). One-way delay
//! and RTT rise and fall by 20 ms, for all of them: quinn's controllers want an `RttEstimator`, which only a connection makes, so a
//! connection in memory makes one for each delay.

#![allow(missing_docs, reason = "criterion's macro makes an undocumented function")]

mod quinn_rtt;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use fathom_cc::catalogue::{self, CATALOGUE};
use fathom_cc::{AckEvent, Acked, Capabilities, Cause, CongestionEvent, Controller, OneWayDelay, Rtt, Start, Time};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{self, ControllerFactory, CubicConfig, NewRenoConfig};

const FRAMES: u64 = 1_000;
const MSS: u64 = 1_200;
const RTT: Duration = Duration::from_millis(40);
/// Time between two ACK frames: 10 Mbps in packets of [`MSS`], two per frame.
const GAP: Duration = Duration::from_micros(1_920);

/// Frames from one empty queue to the next.
const PERIOD: u64 = 400;
/// Beside the defaults of the catalogue: options that take more work.
const COSTLIER: &[&str] = &[
    "sync:cut=round,floor=1ms",
    "dca:samples=all,w=200",
    "vegas:params=linux",
    "gentle:trend=t-test",
    "gentle:trend=mann-kendall",
    "packet-size/cubic",
    "cubic:hystart=on",
];
/// SDC with a threshold that keeps its delay for more packets than a run has.
const HELD: &str = "sdc:threshold=64";

/// Queueing delay of frame `n`: a triangle between 0 and 20 ms, so that every row of the tables is met.
fn queued(n: u64) -> Duration {
    let phase = n % PERIOD;
    Duration::from_micros(100 * phase.min(PERIOD - phase))
}

fn run_ours(mut controller: Box<dyn Controller>) -> u64 {
    let mut now = Time::from_millis(1_000);
    let mut smoothed = RTT;
    for n in 0..FRAMES {
        now += GAP;
        let latest = RTT + queued(n);
        smoothed = (smoothed * 7 + latest) / 8;
        acknowledge(&mut *controller, now, latest, smoothed);
        black_box(controller.send_params());
    }
    controller.on_congestion_event(&CongestionEvent {
        now,
        sent: now,
        cause: Cause::Loss { bytes: MSS, persistent: false },
    });
    controller.send_params().window
}

fn acknowledge(controller: &mut dyn Controller, now: Time, latest: Duration, smoothed: Duration) {
    let sent = now - latest;
    controller.on_ack(&AckEvent {
        now,
        packets: &[Acked { sent, bytes: MSS }, Acked { sent, bytes: MSS }],
        in_flight: 20 * MSS,
        rtt: Rtt { latest, smoothed, min: RTT, ack_delay: Duration::ZERO },
        one_way: Some(OneWayDelay::from_nanos((latest - RTT).as_nanos() as i64)),
        ecn: None,
        app_limited: false,
    });
}

fn run_quinn(mut controller: Box<dyn congestion::Controller>, origin: Instant, rtts: &[RttEstimator]) -> u64 {
    let mut now = origin + Duration::from_secs(1);
    for n in 0..FRAMES {
        now += GAP;
        let sent = now - RTT - queued(n);
        let rtt = &rtts[(n % PERIOD) as usize];
        controller.on_ack(now, sent, MSS, false, rtt);
        controller.on_ack(now, sent, MSS, false, rtt);
        controller.on_end_acks(now, 20 * MSS, false, Some(2 * n));
        black_box(controller.window());
    }
    controller.on_congestion_event(now, now, false, MSS);
    controller.window()
}

/// A controller out of its first slow start.
fn fresh(spec: &str) -> Box<dyn Controller> {
    let provided = Capabilities { one_way: true, ecn: true, pacing: true, datagram: true };
    let start = Start { now: Time::ZERO, datagram: MSS as u16, provided };
    let mut controller = catalogue::parse(spec).expect(spec).start(&start).expect(spec);
    controller.on_congestion_event(&CongestionEvent { now: Time::ZERO, sent: Time::ZERO, cause: Cause::Mark });
    controller
}

/// [`HELD`] above its threshold, with seconds of delay: marks raised it all the way up.
fn held() -> Box<dyn Controller> {
    let mut controller = fresh(HELD);
    let mut now = Time::from_millis(100);
    while controller.send_params().window < 64 * MSS {
        now += RTT;
        acknowledge(&mut *controller, now, RTT, RTT);
        controller.on_congestion_event(&CongestionEvent { now: now - RTT, sent: now - RTT, cause: Cause::Mark });
    }
    for _ in 0..100 {
        now += RTT;
        acknowledge(&mut *controller, now, RTT, RTT);
        controller.on_congestion_event(&CongestionEvent { now: now - RTT, sent: now - RTT, cause: Cause::Mark });
    }
    let mut after = controller.boxed();
    (0..FRAMES).for_each(|n| acknowledge(&mut *after, now + GAP, RTT + queued(n), RTT));
    assert!(after.metrics().hold > Some(Duration::ZERO), "it holds through a run: {after:?}");
    controller
}

fn ours(group: &mut BenchmarkGroup<'_, WallTime>) {
    let defaults = CATALOGUE.iter().map(|entry| (entry.name.to_owned(), fresh(entry.name)));
    let costlier = COSTLIER.iter().map(|spec| ((*spec).to_owned(), fresh(spec)));
    let held = std::iter::once((format!("{HELD} while it holds"), held()));
    for (name, controller) in defaults.chain(costlier).chain(held) {
        group.bench_function(format!("fathom {name}"), |b| {
            b.iter_batched(|| controller.boxed(), run_ours, BatchSize::SmallInput);
        });
    }
}

fn quinns(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (origin, rtts) = quinn_rtt::estimators((0..PERIOD).map(queued));
    let spread = || rtts.iter().map(RttEstimator::get);
    assert!(spread().max() > spread().min().map(|min| min + Duration::from_millis(15)), "RTTs rise and fall");
    let factories: [(&str, Arc<dyn ControllerFactory>); 2] =
        [("quinn new-reno", Arc::new(NewRenoConfig::default())), ("quinn cubic", Arc::new(CubicConfig::default()))];
    for (name, factory) in factories {
        let mut fresh = factory.build(origin, MSS as u16);
        fresh.on_congestion_event(origin, origin + Duration::from_nanos(1), false, MSS);
        group.bench_function(name, |b| {
            b.iter_batched(
                || fresh.clone_box(),
                |controller| run_quinn(controller, origin, &rtts),
                BatchSize::SmallInput,
            );
        });
    }
}

fn on_ack(c: &mut Criterion) {
    let mut group = c.benchmark_group("ack frame of 2 packets");
    group.throughput(Throughput::Elements(FRAMES)).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    ours(&mut group);
    quinns(&mut group);
    group.finish();
}

criterion_group!(benches, on_ack);
criterion_main!(benches);
