mod common;
use common::{ALL_SIGNALS, MSS};
use fathom_cc::catalogue::recipe;
use fathom_cc::testing::*;
use fathom_cc::{Rate, Start, Time};
use std::time::Duration;
#[test]
fn explore() {
    for (rev, per_ack) in [(20u64, 2usize), (20,1), (60,2)] {
    for spec in ["reno","sync","sync:cut=round","sync:slow-start=reno","sync:slow-start=reno,cut=round","sync:floor=5ms","sync:signal=rtt"] {
        let p = Bottleneck { rate: Rate::from_bits_per_sec(10_000_000), forward: Duration::from_millis(20), reverse: Duration::from_millis(rev), queue: 50_000, datagram: MSS as u16, per_ack, clock_offset: -5 };
        let mut c = recipe(spec).unwrap().start(&Start{now:Time::ZERO,datagram:1200,offers:ALL_SIGNALS}).unwrap();
        let cu = p.run(&mut *c, Duration::from_secs(30));
        println!("{rev} {per_ack} {spec:35} use {:.3} q {:?} max {:?} lost {} early {} red {} {:?}", cu.delivered as f64/37.5e6, cu.mean_queued(Time::from_millis(5000)), cu.points.iter().map(|p|p.queued).max(), cu.lost, c.snapshot().early_reductions, c.snapshot().reductions, cu.window_range(Time::from_millis(5000)));
    }}
}
