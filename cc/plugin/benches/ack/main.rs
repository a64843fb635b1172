//! Cost that the plug-in adds to one ACK frame: two packets are sent, and a packet with an ACK
//! frame for two older ones is read and given to the controller, Reno.
//!
//! `cargo bench -p fathom-plugin --bench ack`. A run is 1,000 ACK frames; read the throughput
//! (elements are ACK frames). To count instructions instead of nanoseconds, run the binary under
//! callgrind with `--test NAME`, which makes one run, and
//! `--toggle-collect='ack::connection::Connection::run'`. Sealing and opening are not included: the
//! packets are already in the clear.

#![allow(missing_docs, reason = "criterion's macro makes an undocumented function")]

mod connection;

use std::time::Duration;

use connection::{Connection, ROUND_TRIP};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fathom_plugin::Offer;

const FRAMES: u64 = 1_000;

fn ack(c: &mut Criterion) {
    let mut group = c.benchmark_group("one ACK frame");
    group.throughput(Throughput::Elements(FRAMES)).warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    for (name, offer, shaping_socket) in [
        ("plain", None, false),
        ("lean", Some(Offer::Lean), false),
        ("lean, shaping socket", Some(Offer::Lean), true),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched(
                || Connection::new(offer, shaping_socket),
                |mut connection| connection.run(ROUND_TRIP + FRAMES),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, ack);
criterion_main!(benches);
