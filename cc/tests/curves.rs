//! Window curves over a simulated bottleneck, each with bounds.
//!
//! `FATHOM_CURVES=ascii cargo test -p fathom-cc --test curves -- --nocapture` draws them; `FATHOM_CURVES=csv` prints their points.

mod common;

use common::{ALL_SIGNALS, MSS};
use fathom_cc::catalogue::recipe;
use fathom_cc::testing::{Bottleneck, Curve, Null};
use fathom_cc::{Rate, Start, Time};
use std::time::Duration;

/// 10 Mbps, 40 ms, a queue of one bandwidth-delay product: 50 kB each.
const PATH: Bottleneck = Bottleneck {
    rate: Rate::from_bits_per_sec(10_000_000),
    forward: Duration::from_millis(20),
    reverse: Duration::from_millis(20),
    queue: 50_000,
    datagram: MSS as u16,
    per_ack: 2,
    clock_offset: -123_456_789,
};
const LENGTH: Duration = Duration::from_secs(30);
/// Where slow start is long over.
const SETTLED: Time = Time::from_millis(5_000);

fn curve(spec: &str, path: Bottleneck) -> Curve {
    let start = Start { now: Time::ZERO, datagram: path.datagram, offers: ALL_SIGNALS };
    let mut controller = recipe(spec).expect(spec).start(&start).expect(spec);
    let curve = path.run(&mut *controller, LENGTH);
    match std::env::var("FATHOM_CURVES").as_deref() {
        Ok("ascii") => println!("{spec}: {}\n{}", figures(&curve), curve.to_ascii(110, 16)),
        Ok("csv") => println!("# {spec}\n{}", curve.to_csv()),
        _ => println!("{spec}: {}", figures(&curve)),
    }
    curve
}

fn figures(curve: &Curve) -> String {
    let range = curve.window_range(SETTLED);
    format!("use {:.3}, queued {:?}, lost {}, window {range:?}", share(curve), curve.mean_queued(SETTLED), curve.lost)
}

/// Share of the link's capacity delivered.
fn share(curve: &Curve) -> f64 {
    curve.delivered as f64 / (PATH.rate.bytes_per_sec() as f64 * LENGTH.as_secs_f64())
}

#[test]
fn a_fixed_window_fills_the_link_to_its_share() {
    let half = PATH.run(&mut Null { window: 25_000 }, LENGTH);
    assert!((0.42..0.50).contains(&share(&half)), "{}", figures(&half));
    let full = Bottleneck { queue: 100_000, ..PATH }.run(&mut Null { window: 75_000 }, LENGTH);
    assert!(share(&full) > 0.98 && full.lost == 0, "{}", figures(&full));
    let queued = full.mean_queued(SETTLED).as_secs_f64();
    assert!((0.015..0.022).contains(&queued), "25 kB wait 20 ms: {}", figures(&full));
}

#[test]
fn reno_saws_between_half_and_full() {
    let reno = curve("reno", PATH);
    let (low, high) = reno.window_range(SETTLED).expect("points");
    assert!(share(&reno) > 0.95, "{}", figures(&reno));
    assert!((95_000..108_000).contains(&high) && (47_000..55_000).contains(&low), "{}", figures(&reno));
}

#[test]
fn sync_keeps_the_queue_shorter_than_reno_and_loses_less() {
    let (reno, sync) = (curve("reno", PATH), curve("sync", PATH));
    assert!(sync.mean_queued(SETTLED) < reno.mean_queued(SETTLED), "{} / {}", figures(&sync), figures(&reno));
    assert!(sync.lost <= reno.lost);
    assert!(share(&sync) > 0.75, "{}", figures(&sync));
    curve("sync:cut=round", PATH);
    curve("sync:slow-start=reno", PATH);
}

#[test]
fn noise_in_the_return_path_hurts_rtt_mode_only() {
    // One-way delays carry nothing of the return path; RTTs do. Here it only adds a constant, which neither may notice.
    let far = Bottleneck { reverse: Duration::from_millis(60), ..PATH };
    for spec in ["sync", "sync:signal=rtt"] {
        assert!(share(&curve(spec, far)) > 0.5, "{spec}");
    }
}

#[test]
fn the_drawings_have_the_asked_size() {
    let curve = PATH.run(&mut Null { window: 75_000 }, Duration::from_secs(1));
    let drawing = curve.to_ascii(60, 8);
    assert_eq!(drawing.lines().count(), 9);
    assert!(drawing.lines().all(|line| line.len() <= 11 + 60 + 8));
    assert_eq!(curve.to_csv().lines().count(), curve.points.len() + 1);
}
