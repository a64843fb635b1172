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
fn sync_by_the_letter_keeps_the_queue_short_and_pays_in_throughput() {
    // A cut per verdict is several per round trip here: a lone flow leaves much of the link idle. The paper's links carry many.
    let (reno, sync) = (curve("reno", PATH), curve("sync", PATH));
    assert_eq!(sync.lost, 0);
    assert!(sync.mean_queued(SETTLED) < reno.mean_queued(SETTLED) / 4, "{} / {}", figures(&sync), figures(&reno));
    assert!((0.50..0.70).contains(&share(&sync)), "{}", figures(&sync));
}

#[test]
fn sync_with_one_cut_per_round_trip_fills_the_link_below_renos_queue() {
    let (reno, sync) = (curve("reno", PATH), curve("sync:cut=round", PATH));
    assert_eq!(sync.lost, 0);
    assert!(sync.mean_queued(SETTLED) < reno.mean_queued(SETTLED) * 3 / 4, "{} / {}", figures(&sync), figures(&reno));
    assert!(share(&sync) > 0.95, "{}", figures(&sync));
}

#[test]
fn slow_start_left_to_reno_finds_the_depth_of_the_queue() {
    let (steer, reno) = (curve("sync", PATH), curve("sync:slow-start=reno", PATH));
    let deepest = |c: &Curve| c.points.iter().map(|p| p.queued).max().unwrap_or_default();
    assert!(deepest(&steer) < Duration::from_millis(15), "{}", figures(&steer));
    assert!(deepest(&reno) > Duration::from_millis(35), "50 kB are 40 ms: {}", figures(&reno));
    assert!((0.72..0.88).contains(&share(&reno)), "{}", figures(&reno));
}

#[test]
fn over_a_steady_return_path_round_trips_say_the_same() {
    // One ACK per packet: no acknowledgement delay either.
    let path = Bottleneck { per_ack: 1, ..PATH };
    assert!(curve("sync", path).points == curve("sync:signal=rtt", path).points);
}

#[test]
fn the_drawings_have_the_asked_size() {
    let curve = PATH.run(&mut Null { window: 75_000 }, Duration::from_secs(1));
    let drawing = curve.to_ascii(60, 8);
    assert_eq!(drawing.lines().count(), 9);
    assert!(drawing.lines().all(|line| line.len() <= 11 + 60 + 8));
    assert_eq!(curve.to_csv().lines().count(), curve.points.len() + 1);
}

#[test]
fn sdc_holds_eight_packets_where_the_path_holds_two() {
    // 500 kbps over 40 ms carry 2.5 kB: two packets. The queue holds three more, so eight fit only when they are delayed.
    let narrow = Bottleneck { rate: Rate::from_bits_per_sec(500_000), queue: 3 * MSS, ..PATH };
    let sdc = curve("sdc", narrow);
    let reno = curve("reno", narrow);
    let used = |c: &Curve| c.delivered as f64 / (narrow.rate.bytes_per_sec() as f64 * LENGTH.as_secs_f64());
    let (low, _) = sdc.window_range(SETTLED).expect("points");
    assert!(low >= 4 * MSS, "{}", figures(&sdc));
    assert!(used(&sdc) > 0.7, "{} {}", used(&sdc), figures(&sdc));
    assert!(used(&reno) > 0.7, "{} {}", used(&reno), figures(&reno));
}

#[test]
fn packet_size_keeps_eight_in_a_small_window() {
    let narrow = Bottleneck { rate: Rate::from_bits_per_sec(500_000), queue: 3 * MSS, ..PATH };
    let mut controller = recipe("packet-size")
        .expect("known")
        .start(&Start { now: Time::ZERO, datagram: MSS as u16, offers: ALL_SIGNALS })
        .expect("all offered");
    narrow.run(&mut *controller, LENGTH);
    let advice = controller.advice();
    let size = advice.datagram.expect("steered");
    assert!(size < 1_200, "{advice:?}");
    assert!(advice.window >= 8 * u64::from(size) || size == 250, "{advice:?}");
}
