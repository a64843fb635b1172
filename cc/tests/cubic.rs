//! Tests of CUBIC with real events. They cover the curve, Reno's window, fast convergence, excluded
//! time, undo, and timeouts.

use fathom_cc::testing::script::{MSS, Script};
use fathom_cc::{Cause, PathChange, Phase};
use std::time::Duration;

/// Returns a sender after a loss at a window of `packets` and after recovery, so the next ACK frame
/// starts the epoch.
fn after_loss(spec: &str, packets: u64) -> Script {
    let mut s = Script::new(spec);
    s.bytes = packets * MSS - s.window();
    s.ack(0);
    assert_eq!(s.window(), packets * MSS);
    s.lose();
    s.next_round();
    s.bytes = MSS;
    s
}

fn packets(s: &Script) -> f64 {
    s.window() as f64 / MSS as f64
}

fn near(value: f64, expected: f64, within: f64) {
    assert!((value - expected).abs() <= within, "{value} against {expected}");
}

/// Returns a sender as from [`after_loss`] at a thousand packets, with frames of ten packets: ten
/// thousand packets per second. Reno's window then grows by about five packets per second and stays
/// below the curve.
fn fast(spec: &str) -> Script {
    let mut s = after_loss(spec, 1_000);
    s.bytes = 10 * MSS;
    s
}

#[test]
fn cubic_window_follows_the_curve() {
    // W_max 1000: K = cbrt(300 / 0.4) = 9.0856 s, W_cubic(t) = 0.4 (t - K)^3 + 1000. The frames
    // move the window towards W_cubic(t + RTT) with a time constant of one window, 70 to 110 ms.
    let mut s = fast("cubic");
    assert_eq!(s.window(), 700 * MSS);
    let mut passed = 0;
    for (t, w) in
        [(2_000, 857.7), (5_000, 972.7), (9_086, 1_000.0), (12_000, 1_009.9), (15_000, 1_082.8)]
    {
        s.acks(t - passed, 0);
        passed = t;
        near(packets(&s), w, 3.0);
    }
    assert_eq!(s.controller.metrics().phase, Phase::Avoidance);
}

#[test]
fn cubic_growth_per_round_trip_is_at_most_half_the_window() {
    // After 20 s, W_cubic is far above the window. One hundred frames of a hundredth of the window
    // each would multiply the window by at most 1.005 each.
    let mut s = after_loss("cubic", 20);
    s.ack(0);
    s.now += Duration::from_secs(20);
    let before = s.window();
    s.bytes = before / 100;
    let change = s.ack(0);
    near(change as f64, before as f64 / 200.0, 2.0);
}

#[test]
fn cubic_grows_small_windows_like_reno() {
    // W_max 10, cwnd 7, one packet per millisecond: W_est obeys d(W²/2)/dn = alpha, so W² = 49 +
    // 2 * 0.5294 n up to 10 (n = 48.2), and then with alpha 1 W² = 100 + 2 (n - 48.2). W_cubic
    // stays at 7.
    let mut s = after_loss("cubic", 10);
    s.acks(40, 0);
    near(packets(&s), (49.0_f64 + 2.0 * 0.5294 * 40.0).sqrt(), 0.1);
    s.acks(108, 0);
    near(packets(&s), (100.0_f64 + 2.0 * (148.0 - 48.2)).sqrt(), 0.1);
}

#[test]
fn second_loss_below_w_max_lowers_the_cubic_plateau() {
    // W_max 1000, second loss at 700, cwnd 490. With fast convergence: W_max = 595, K =
    // cbrt(105 / 0.4) = 6.403. Without it: 700 and cbrt(210 / 0.4) = 8.067.
    for (spec, expected) in
        [("cubic", [560.9, 595.0]), ("cubic:fast-convergence=off", [610.7, 698.1])]
    {
        let mut s = fast(spec);
        s.ack(0);
        s.lose();
        near(packets(&s), 490.0, 0.5);
        s.next_round();
        s.acks(2_000, 0);
        near(packets(&s), expected[0], 3.0);
        s.acks(4_400, 0);
        near(packets(&s), expected[1], 3.0);
    }
}

#[test]
fn cubic_excludes_app_limited_and_idle_time() {
    let run = |pause: &dyn Fn(&mut Script)| {
        let mut s = after_loss("cubic", 100);
        s.acks(500, 0);
        pause(&mut s);
        s.acks(500, 0);
        s.window()
    };
    let plain = run(&|_| {});
    let limited = run(&|s| {
        s.app_limited = true;
        for _ in 0..50 {
            s.now += Duration::from_millis(99);
            assert_eq!(s.ack(0), 0);
        }
        s.app_limited = false;
    });
    assert_eq!(limited, plain, "five seconds without data to send");
    let silent = run(&|s| {
        s.now += Duration::from_secs(5);
        s.send();
    });
    assert_eq!(silent, plain, "five seconds with nothing in flight");
    let counted = run(&|s| s.now += Duration::from_secs(5));
    assert!(counted > plain + 10 * MSS, "time with packets on the way counts");
}

#[test]
fn cubic_epoch_starts_after_recovery() {
    let curve = |recovery: u64| {
        let mut s = after_loss("cubic", 100);
        let old = s.now - s.rtt * 3;
        for _ in 0..recovery {
            assert_eq!(s.ack_sent(old, 0), 0);
        }
        (0..300).map(|_| s.ack(0)).collect::<Vec<_>>()
    };
    assert_eq!(curve(0), curve(800));
}

#[test]
fn undone_loss_restores_the_cubic_curve() {
    let (mut s, mut never) = (after_loss("cubic", 100), after_loss("cubic", 100));
    for script in [&mut s, &mut never] {
        script.acks(3_000, 0);
    }
    s.lose();
    assert!(s.window() < never.window() * 3 / 4);
    s.controller.on_spurious_congestion_event(s.now);
    assert_eq!(
        (s.window(), s.controller.metrics().threshold),
        (never.window(), never.controller.metrics().threshold)
    );
    for _ in 0..4_000 {
        assert_eq!(s.ack(0), never.ack(0));
    }
    // W_max and cwnd_prior are restored too, so the next loss does not count as a loss at a smaller
    // window.
    for script in [&mut s, &mut never] {
        script.lose();
        script.next_round();
        script.acks(2_000, 0);
    }
    assert_eq!(s.window(), never.window());
}

#[test]
fn cubic_undo_ignores_marks_and_keeps_a_larger_window() {
    let (mut s, mut plain) = (after_loss("cubic", 100), after_loss("cubic", 100));
    for script in [&mut s, &mut plain] {
        script.acks(100, 0);
        script.congestion_event(Cause::Mark);
    }
    s.controller.on_spurious_congestion_event(s.now);
    for script in [&mut s, &mut plain] {
        script.next_round();
    }
    for _ in 0..500 {
        assert_eq!(s.ack(0), plain.ack(0));
    }
    // 8 s after the loss the window has outgrown it, so a late undo changes nothing.
    let (mut s, mut plain) = (after_loss("cubic", 100), after_loss("cubic", 100));
    for script in [&mut s, &mut plain] {
        script.acks(8_000, 0);
        assert!(script.window() > 100 * MSS);
    }
    s.controller.on_spurious_congestion_event(s.now);
    for _ in 0..500 {
        assert_eq!(s.ack(0), plain.ack(0));
    }
}

#[test]
fn timeout_restarts_the_cubic_curve_at_the_current_window() {
    let mut s = after_loss("cubic", 100);
    s.acks(10, 0);
    let threshold = s.window() * 7 / 10;
    s.collapse();
    let metrics = s.controller.metrics();
    assert_eq!(
        (metrics.window, metrics.threshold, metrics.phase),
        (2 * MSS, Some(threshold), Phase::SlowStart)
    );
    s.next_round();
    s.bytes = threshold - s.window();
    s.ack(0);
    assert_eq!(s.window(), threshold);
    s.bytes = MSS;
    // K is 0 and W_max is cwnd: flat at first, then plus 0.4 t³. Reno's window, with alpha 0.5294
    // up to the window of the loss, is larger for some seconds.
    let start = packets(&s);
    s.acks(1_000, 0);
    near(packets(&s), (start * start + 2.0 * 0.5294 * 1_000.0).sqrt(), 0.3);
    s.now += Duration::from_secs(4);
    s.acks(300, 0);
    let w = 0.4 * 5.2_f64.powi(3) + start;
    near(packets(&s), w, 3.0);
}

#[test]
fn cubic_curve_starts_flat_after_hystart() {
    let mut s = Script::new("cubic:hystart=on");
    s.acks(10, 0);
    s.rtt += Duration::from_millis(40);
    for _ in 0..8 {
        s.next_round();
        s.acks(10, 0);
    }
    let metrics = s.controller.metrics();
    assert_eq!((metrics.phase, metrics.reductions), (Phase::Avoidance, 0));
    let before = s.window();
    s.acks((before / MSS) as usize, 0);
    // cwnd_prior is the window at the end of slow start, so alpha is 1: one datagram per round.
    near((s.window() - before) as f64, MSS as f64, 60.0);
}

#[test]
fn cubic_epoch_restarts_at_new_datagram_size_and_new_path() {
    let mut s = fast("cubic");
    s.acks(4_000, 0);
    let before = s.window();
    s.controller.on_path(s.now, PathChange::Datagram(3_000));
    assert_eq!(s.window(), before);
    // The rest of the way to 1 200 000 bytes with C * 3000: K = cbrt((1 200 000 - w) / 1200).
    let k = ((1_200_000.0 - before as f64) / 1_200.0).cbrt();
    s.acks(2_000, 0);
    let w = 1_200.0 * (2.0 - k).powi(3) + 1_200_000.0;
    near(s.window() as f64, w, 2_000.0);

    let mut moved = after_loss("cubic", 100);
    moved.controller.on_path(moved.now, PathChange::Moved);
    let mut fresh = Script::new("cubic");
    for script in [&mut moved, &mut fresh] {
        script.next_round();
        script.acks(5, 0);
        script.lose();
        script.next_round();
        script.acks(400, 0);
    }
    assert_eq!(moved.window(), fresh.window());
}
