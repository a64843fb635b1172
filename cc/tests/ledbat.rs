//! Tests of LEDBAT and LEDBAT++ with scripted acknowledgements. The expected windows are computed by
//! hand.

use std::time::Duration;

use fathom_cc::Phase;
use fathom_cc::testing::script::{MSS, Script};

/// Returns a connection in avoidance with a window of ten packets, which has seen an empty queue.
fn settled(spec: &str) -> Script {
    let mut s = Script::new(spec);
    s.acks(10, 0);
    s.lose();
    // All packets acknowledged from now on were sent after the loss, even with a long queue.
    s.now += Duration::from_secs(1);
    s.ack(0);
    s
}

/// Acknowledges one window, packet by packet, with this queueing delay in ms as one-way delay and
/// RTT. Returns the change in packets.
fn round(s: &mut Script, queued_ms: u64) -> f64 {
    let before = s.window();
    s.rtt = Duration::from_millis(100 + queued_ms);
    for _ in 0..before / MSS {
        s.ack(queued_ms as i64 * 1_000);
    }
    (s.window() as f64 - before as f64) / MSS as f64
}

/// Waits until the filter has only delays of this queue.
fn fill(s: &mut Script, queued_ms: u64) {
    s.app_limited = true;
    s.rtt = Duration::from_millis(100 + queued_ms);
    s.bytes = 1;
    s.acks(4, queued_ms as i64 * 1_000);
    (s.app_limited, s.bytes) = (false, MSS);
}

#[test]
fn ledbat_steps_are_proportional_to_the_distance_from_target() {
    for (queued, packets) in [(0, 1.0), (50, 0.5), (100, 0.0), (150, -0.5), (300, -2.0)] {
        let mut s = settled("ledbat");
        fill(&mut s, queued);
        let changed = round(&mut s, queued);
        // The window changes during the round, by which each step divides.
        assert!((changed - packets).abs() < 0.15 * packets.abs() + 0.01, "{queued} ms: {changed}");
    }
    let mut half = settled("ledbat:gain=0.5");
    let changed = round(&mut half, 0);
    assert!((0.45..0.51).contains(&changed), "{changed}");
}

#[test]
fn ledbat_slow_start_ends_at_nine_tenths_of_the_target() {
    let mut s = Script::new("ledbat");
    s.acks(4, 0);
    fill(&mut s, 90);
    s.ack(90_000);
    assert_eq!(s.controller.metrics().phase, Phase::SlowStart);
    fill(&mut s, 91);
    s.ack(91_000);
    assert_eq!(s.controller.metrics().phase, Phase::Avoidance);
}

#[test]
fn ledbat_ignores_a_single_long_delay() {
    let mut s = settled("ledbat");
    let calm = s.ack(0);
    assert!(s.ack(400_000) >= calm - 1, "the smallest of four delays counts");
    assert_eq!(s.controller.metrics().queueing, Some(Duration::ZERO));
}

#[test]
fn ledbat_pp_halves_the_window_per_round_at_twice_the_target() {
    let mut s = settled("ledbat-pp:slowdowns=off");
    fill(&mut s, 0);
    // The gain is 1/2 at 100 ms.
    let changed = round(&mut s, 0);
    assert!((0.45..0.51).contains(&changed), "{changed}");
    fill(&mut s, 120);
    let before = s.window() as f64;
    round(&mut s, 120);
    let left = s.window() as f64 / before;
    assert!((0.45..0.62).contains(&left), "{left} of the window left");
}

#[test]
fn ledbat_pp_spends_a_tenth_of_the_time_in_slowdowns() {
    let mut s = settled("ledbat-pp");
    // A slowdown begins when the window falls to two packets. It ends when the window is back.
    let (mut slow, mut before, mut total) = (0_u32, None, 0_u32);
    for _ in 0..200_000 {
        s.now += Duration::from_millis(1);
        s.ack(0);
        let window = s.window();
        if before.is_none() && window == 2 * MSS {
            before = s.controller.metrics().threshold;
        }
        if before.is_some_and(|size| window >= size) {
            before = None;
        }
        total += 1;
        slow += u32::from(before.is_some());
    }
    let share = f64::from(slow) / f64::from(total);
    assert!((0.07..=0.115).contains(&share), "{share} of the time in slowdowns");
}

#[test]
fn ledbat_pp_slows_down_only_after_two_busy_rounds() {
    let mut s = settled("ledbat-pp");
    s.app_limited = true;
    let before = s.window();
    for _ in 0..5_000 {
        s.ack(0);
        assert_eq!(s.window(), before);
    }
    s.app_limited = false;
    s.acks(190, 0);
    assert!(s.window() > before);
    s.acks(20, 0);
    assert_eq!(s.window(), 2 * MSS);
}

#[test]
fn loss_in_a_slowdown_halves_the_size_to_restore() {
    let mut s = settled("ledbat-pp");
    while s.window() > 2 * MSS {
        s.ack(0);
    }
    let size = s.controller.metrics().threshold.expect("a size to restore");
    s.lose();
    assert_eq!((s.window(), s.controller.metrics().threshold), (2 * MSS, Some(size / 2)));
    s.now += Duration::from_secs(1);
    s.acks(200, 0);
    assert!(s.window() >= size / 2, "{} of {size} bytes", s.window());
}

#[test]
fn spurious_loss_leaves_ledbat_pp_its_exit_from_slow_start() {
    let mut s = Script::new("ledbat-pp");
    s.acks(10, 0);
    s.lose();
    s.ack(0);
    s.controller.on_spurious_congestion_event(s.now);
    assert_eq!(s.controller.metrics().phase, Phase::SlowStart);
    s.now += Duration::from_secs(1);
    fill(&mut s, 46);
    s.ack(46_000);
    assert_ne!(s.controller.metrics().phase, Phase::SlowStart);
}

#[test]
fn one_way_delays_lack_the_queue_on_the_way_back() {
    for controller in ["ledbat:target=60ms", "ledbat-pp:slowdowns=off"] {
        let growth = |signal: &str| {
            let mut s = settled(&format!("{controller},signal={signal}"));
            s.rtt = Duration::from_millis(400);
            (0..20).map(|_| s.ack(0)).sum::<i64>()
        };
        let (one_way, rtt) = (growth("one-way"), growth("rtt"));
        assert!(one_way > 0 && rtt < 0, "{controller}: {one_way} and {rtt} bytes");
    }
}
