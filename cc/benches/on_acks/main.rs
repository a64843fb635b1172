//! Cost of one ACK frame of two packets: every controller of the catalogue beside quinn's NewReno and CUBIC.
//!
//! A run is 1 000 ACK frames and one loss; divide its time by 1 000, or read the throughput (elements are ACK frames). quinn's
//! controllers want an `RttEstimator`, which only a connection makes: a handshake in memory gives one.

#![allow(missing_docs, reason = "criterion's macro makes an undocumented function")]

mod quinn_rtt;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use fathom_cc::catalogue::{CATALOGUE, recipe};
use fathom_cc::{Acked, Acks, Cause, Controller, OneWayDelay, Rtt, Setback, Signals, Start, Time};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{self, ControllerFactory, CubicConfig, NewRenoConfig};

const FRAMES: u64 = 1_000;
const MSS: u64 = 1_200;
const RTT: Duration = Duration::from_millis(40);
/// Time between two ACK frames: 10 Mbps in packets of [`MSS`], two per frame.
const GAP: Duration = Duration::from_micros(1_920);

/// Queueing delay of frame `n` in nanoseconds: a triangle between 0 and 20 ms, so that every row of the table is met.
fn queued(n: u64) -> i64 {
    let phase = (n % 400) as i64;
    100_000 * phase.min(400 - phase)
}

fn run_ours(mut controller: Box<dyn Controller>) -> u64 {
    let mut now = Time::ZERO + RTT;
    for n in 0..FRAMES {
        now += GAP;
        let sent = now - RTT;
        controller.on_acks(&Acks {
            now,
            packets: &[Acked { sent, bytes: MSS }, Acked { sent, bytes: MSS }],
            in_flight: 20 * MSS,
            rtt: Rtt { latest: RTT, smoothed: RTT, min: RTT },
            one_way: Some(OneWayDelay::from_nanos(queued(n))),
            ecn: None,
            app_limited: false,
        });
        black_box(controller.advice());
    }
    controller.on_setback(&Setback { now, sent: now, cause: Cause::Loss { bytes: MSS, persistent: false } });
    controller.advice().window
}

fn run_quinn(mut controller: Box<dyn congestion::Controller>, origin: std::time::Instant, rtt: &RttEstimator) -> u64 {
    let mut now = origin + RTT;
    for n in 0..FRAMES {
        now += GAP;
        let sent = now - RTT;
        controller.on_ack(now, sent, MSS, false, rtt);
        controller.on_ack(now, sent, MSS, false, rtt);
        controller.on_end_acks(now, 20 * MSS, false, Some(2 * n));
        black_box(controller.window());
    }
    controller.on_congestion_event(now, now, false, MSS);
    controller.window()
}

fn ours(group: &mut BenchmarkGroup<'_, WallTime>) {
    let offers = Signals { one_way: true, ecn: true, pacing: true, datagram: true };
    let start = Start { now: Time::ZERO, datagram: MSS as u16, offers };
    for entry in CATALOGUE {
        let mut fresh = recipe(entry.name).expect(entry.name).start(&start).expect(entry.name);
        fresh.on_setback(&Setback { now: Time::ZERO, sent: Time::ZERO, cause: Cause::Mark });
        group.bench_function(format!("fathom {}", entry.name), |b| {
            b.iter_batched(|| fresh.boxed(), run_ours, BatchSize::SmallInput);
        });
    }
}

fn quinns(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (origin, rtt) = quinn_rtt::estimator();
    let factories: [(&str, Arc<dyn ControllerFactory>); 2] =
        [("quinn new-reno", Arc::new(NewRenoConfig::default())), ("quinn cubic", Arc::new(CubicConfig::default()))];
    for (name, factory) in factories {
        let mut fresh = factory.build(origin, MSS as u16);
        fresh.on_congestion_event(origin, origin + Duration::from_nanos(1), false, MSS);
        group.bench_function(name, |b| {
            b.iter_batched(
                || fresh.clone_box(),
                |controller| run_quinn(controller, origin, &rtt),
                BatchSize::SmallInput,
            );
        });
    }
}

fn on_acks(c: &mut Criterion) {
    let mut group = c.benchmark_group("ack frame of 2 packets");
    group.throughput(Throughput::Elements(FRAMES)).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    ours(&mut group);
    quinns(&mut group);
    group.finish();
}

criterion_group!(benches, on_acks);
criterion_main!(benches);
