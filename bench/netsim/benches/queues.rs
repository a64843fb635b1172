//! Cost of one verdict of each queue discipline, on a queue that is never empty.
//!
//! Run with `cargo bench -p fathom-netsim --bench queues`. One iteration is 1000 arrivals: divide
//! its time by 1000, or read the throughput (elements are verdicts).

#![allow(missing_docs, reason = "criterion's macro makes an undocumented function")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fathom_netsim::queue::{AnyQueue, Arrival, QueueSpec};
use fathom_netsim::{Rate, Time};

const ARRIVALS: u64 = 1_000;
/// Nanoseconds between arrivals: 1 Gbps in packets of 1420 bytes.
const GAP: u64 = 11_360;
const RATE: Rate = Rate::from_bits_per_sec(1_000_000_000);

const QUEUES: &[&str] = &[
    "droptail:1000p",
    "droptail:2MB",
    "red",
    "red:wait=on,mark=p",
    "adaptive-red",
    "gentle-ared",
    "avq",
    "codel",
    "pie",
];

/// Returns arrival `n`. The queue rises and falls between 1 and about 100 packets (a wait of about
/// 10 to 1000 µs), a few times per iteration.
fn arrival(n: u64) -> Arrival {
    let queued = 1 + (n % 200).min(200 - n % 200);
    Arrival {
        now: Time::from_nanos(n * GAP),
        bytes: 1_420,
        ecn_capable: true,
        queued_packets: queued as usize,
        queued_bytes: 1_420 * queued,
        free_at: Time::from_nanos((n + queued) * GAP),
    }
}

fn verdicts(c: &mut Criterion) {
    let mut group = c.benchmark_group("admit");
    group.throughput(Throughput::Elements(ARRIVALS));
    for text in QUEUES {
        let spec: QueueSpec = text.parse().expect("a queue");
        let AnyQueue::Fifo(mut queue) = spec.build(RATE, 1) else {
            unreachable!("{text} schedules")
        };
        let mut n = 0;
        group.bench_function(*text, |b| {
            b.iter(|| {
                for _ in 0..ARRIVALS {
                    n += 1;
                    black_box(queue.admit(black_box(&arrival(n))));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, verdicts);
criterion_main!(benches);
