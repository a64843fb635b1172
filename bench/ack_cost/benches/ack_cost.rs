//! Cost of one ACK frame of two packets, for every controller of the catalogue, for options that
//! cost more, and for quinn's NewReno and CUBIC.
//!
//! A run is 1 000 ACK frames and one loss. Divide its time by 1 000, or read the throughput
//! (elements are ACK frames). One-way delay and RTT rise and fall by 20 ms in all runs.

#![allow(missing_docs, reason = "criterion's macro makes an undocumented function")]

use std::sync::Arc;
use std::time::Duration;

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use fathom_ack_cost::QuinnLoad;
use fathom_cc::catalogue::{self, CATALOGUE};
use fathom_cc::testing::ack_load::{
    self, FRAMES, GAP, MSS, RTT, acknowledge, acknowledge_all, queued,
};
use fathom_cc::{Cause, CongestionEvent, Controller, Time};
use quinn_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};

/// Options that need more work than the defaults of the catalogue.
const COSTLIER: &[&str] = &[
    "sync:cut=round,floor=1ms",
    "dca:samples=all,w=200",
    "vegas:params=linux",
    "gentle:trend=t-test",
    "gentle:trend=mann-kendall",
    "packet-size/cubic",
    "cubic:hystart=on",
];
/// SDC with a threshold so high that its delay lasts for more packets than a run has.
const HELD: &str = "sdc:threshold=64";

fn run_ours(mut controller: Box<dyn Controller>) -> u64 {
    acknowledge_all(&mut *controller)
}

/// Returns a controller that has left its first slow start.
fn fresh(spec: &str) -> Box<dyn Controller> {
    ack_load::fresh(&*catalogue::parse(spec).expect(spec)).expect(spec)
}

/// Returns [`HELD`] above its threshold, with a delay of seconds that marks have raised.
fn held() -> Box<dyn Controller> {
    let mut controller = fresh(HELD);
    let mut now = Time::from_millis(100);
    while controller.send_params().window < 64 * MSS {
        now += RTT;
        acknowledge(&mut *controller, now, RTT, RTT);
        controller.on_congestion_event(&CongestionEvent {
            now: now - RTT,
            sent: now - RTT,
            cause: Cause::Mark,
        });
    }
    for _ in 0..100 {
        now += RTT;
        acknowledge(&mut *controller, now, RTT, RTT);
        controller.on_congestion_event(&CongestionEvent {
            now: now - RTT,
            sent: now - RTT,
            cause: Cause::Mark,
        });
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
    let load = QuinnLoad::new();
    let factories: [(&str, Arc<dyn ControllerFactory + Send + Sync>); 2] = [
        ("quinn new-reno", Arc::new(NewRenoConfig::default())),
        ("quinn cubic", Arc::new(CubicConfig::default())),
    ];
    for (name, factory) in factories {
        let fresh = load.fresh(factory);
        group.bench_function(name, |b| {
            b.iter_batched(
                || fresh.clone_box(),
                |controller| load.run(controller),
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
