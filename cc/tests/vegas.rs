//! Tests of Vegas with real events, in rounds of 50 ms or longer. The expected windows are in
//! packets and computed by hand from W (RTT - 50) / RTT (ns-2) and W (RTT - 50) / 50 (Linux).

use crate::rounds;

use fathom_cc::{PathChange, Phase};
use rounds::{INITIAL, MSS, Rounds};
use std::time::Duration;

/// Returns an ns-2 sender in avoidance with 35 packets after the fifth round. The fifth round has
/// not been evaluated yet.
fn avoiding() -> Rounds {
    let mut r = Rounds::new("vegas");
    // The window grows, holds, grows, holds. 40 * 2 / 52 = 1.54 is rounded to 2 > gamma, so the
    // window becomes 7/8 of 40.
    assert_eq!(r.rounds(&[50, 50, 50, 52, 50]), [20, 20, 40, 40, 35]);
    assert_eq!((r.controller.metrics().phase, r.early()), (Phase::Avoidance, 1));
    r
}

#[test]
fn ns2_vegas_doubles_every_other_round_until_gamma() {
    avoiding();
    let mut r = Rounds::new("vegas:gamma=2");
    // 2 > 2 is false, so slow start continues. 80 * 2 / 52 = 3.08.
    assert_eq!(r.rounds(&[50, 50, 50, 52, 50, 52, 50]), [20, 20, 40, 40, 80, 80, 70]);
}

#[test]
fn vegas_ignores_the_queue_of_a_doubling_round() {
    let mut r = Rounds::new("vegas");
    // The queue of the doubling round does not end slow start, although a queue in the following
    // round would.
    assert_eq!(r.rounds(&[50, 50, 60, 50, 50]), [20, 20, 40, 40, 80]);
}

#[test]
fn vegas_keeps_the_queue_between_alpha_and_beta() {
    let mut r = avoiding();
    let steps = [
        (52, 36), // The last round had 50 ms: nothing waits, one packet more over this round.
        (55, 36), // 36 * 2 / 52 = 1.38, 1: hold.
        (56, 36), // 36 * 5 / 55 = 3.27, 3: hold.
        (60, 35), // 36 * 6 / 56 = 3.86, 4: one packet less, at once.
        (60, 34), // 35 * 10 / 60 = 5.83, 6.
        (50, 33), // 34 * 10 / 60 = 5.67, 6.
        (50, 34), // Nothing waits.
        (50, 35),
    ];
    for (round, (rtt, window)) in steps.into_iter().enumerate() {
        assert_eq!(r.rounds(&[rtt]), [window], "round {round}");
    }
    assert_eq!(r.early(), 4);
    assert_eq!(r.controller.metrics().queueing, Some(Duration::ZERO));
}

#[test]
fn vegas_reduction_takes_effect_in_the_next_round() {
    let mut r = avoiding();
    r.round(90);
    let before = r.window();
    assert_eq!(r.frame(Duration::from_millis(90), 2), -(MSS as i64));
    assert_eq!(r.frame(Duration::from_millis(90), 2), 0);
    assert_eq!(r.window(), before - MSS);
    assert_eq!(r.controller.metrics().queueing, Some(Duration::from_millis(40)));
}

#[test]
fn vegas_uses_the_mean_rtt_of_a_round() {
    // 36 packets in frames of two, alternately with 50 ms and `second` ms. With 54 ms the mean is
    // 52: 36 * 2 / 52 = 1.38: hold. With the largest RTT it would be 36 * 4 / 54 = 2.7.
    for (second, grows) in [(50, true), (54, false)] {
        let mut r = avoiding();
        r.round(50);
        for _ in 0..9 {
            r.frame(Duration::from_millis(50), 2);
            r.frame(Duration::from_millis(second), 2);
        }
        let before = r.packets();
        let mean = (50 + second) / 2;
        assert_eq!(r.controller.metrics().queueing, Some(Duration::ZERO));
        r.now += Duration::from_millis(100);
        r.round(50);
        assert_eq!(r.controller.metrics().queueing, Some(Duration::from_millis(mean - 50)));
        assert_eq!(r.packets(), before + u64::from(grows));
    }
}

#[test]
fn vegas_thresholds_are_configurable() {
    let mut r = Rounds::new("vegas:alpha=4,beta=6");
    assert_eq!(r.rounds(&[50, 50, 50, 52, 55, 57, 62, 62]), [20, 20, 40, 40, 35, 36, 36, 35]);
    // 35 * 5 / 55 = 3.18 < 4: grow. 36 * 7 / 57 = 4.4: hold. 36 * 12 / 62 = 6.97 > 6.
}

#[test]
fn vegas_window_never_falls_below_two_packets() {
    let mut r = Rounds::new("vegas:alpha=0,beta=1");
    for _ in 0..60 {
        r.round(if r.now.as_nanos() < 1_100_000_000 { 50 } else { 400 });
    }
    assert_eq!(r.packets(), 2);
}

#[test]
fn vegas_grows_like_reno_after_a_loss_until_the_first_verdict() {
    let mut r = avoiding();
    // 36 * 5 / 55 = 3.27: the window holds when the loss comes.
    assert_eq!(r.rounds(&[55, 55]), [36, 36]);
    r.lose(false);
    assert_eq!(r.packets(), 18);
    // 18 * 10 / 60 = 3, but there is no verdict yet. Then 19 * 10 / 60 = 3.17: hold. 19 * 20 / 70 =
    // 5.4: one packet less.
    assert_eq!(r.rounds(&[60, 70, 70]), [19, 19, 18]);
}

#[test]
fn vegas_slow_start_after_a_collapse_stops_at_the_threshold() {
    let mut r = Rounds::new("vegas");
    assert_eq!(r.rounds(&[50, 50, 50]), [20, 20, 40]);
    r.lose(true);
    assert_eq!((r.packets(), r.controller.metrics().threshold), (2, Some(20 * MSS)));
    assert_eq!(r.rounds(&[50; 9]), [4, 4, 8, 8, 16, 16, 20, 21, 22]);
}

#[test]
fn vegas_base_rtt_is_the_minimum_of_the_path() {
    let mut r = Rounds::new("vegas");
    assert_eq!(r.rounds(&[90, 50, 50]), [20, 20, 40]);
    let mut moved = avoiding();
    moved.controller.on_path(moved.now, PathChange::Moved);
    assert_eq!(moved.rounds(&[80, 80, 80]), [20, 20, 40], "80 ms are the base of the new path");
}

#[test]
fn vegas_base_rtt_can_be_reset_after_a_lone_packet() {
    for (per_ack, grows) in [(1, true), (2, false)] {
        let mut r = Rounds::new("vegas:base=lone");
        r.rounds(&[50, 50]);
        r.lose(false);
        // Nothing else is in flight with the packets of a frame, so a frame of one packet is a
        // round of one packet.
        r.per_ack = per_ack;
        let windows = r.rounds(&[100; 4]);
        assert_eq!(windows[3] > windows[1], grows, "{windows:?}");
    }
}

#[test]
fn linux_vegas_doubles_every_round_until_the_path_is_full() {
    let mut r = Rounds::new("vegas:params=linux");
    // The ACK that ends a round gives the last sample of that round, and the smallest sample
    // counts. So 52 ms take effect one round later.
    assert_eq!(r.rounds(&[50, 50, 52]), [20, 40, 80]);
    r.round(60);
    // 80 * 2 / 50 = 3.2, rounded to 3 > 1. 96 000 * 50 / 52 = 92 307 bytes, plus one packet.
    assert_eq!((r.window(), r.controller.metrics().phase), (93_507, Phase::Avoidance));
    let steps = [
        (60, 92_307), // 77.9 * 10 / 50 = 15.6 > 4: one less.
        (53, 92_307), // 76.9 * 3 / 50 = 4.6, 4: hold.
        (51, 93_507), // 76.9 * 1 / 50 = 1.5, 1 < 2: one more, at once.
        (50, 94_707), // Nothing waits.
    ];
    for (rtt, window) in steps {
        r.round(rtt);
        assert_eq!(r.window(), window, "{rtt} ms");
    }
    assert_eq!(r.early(), 2);
}

#[test]
fn linux_vegas_slow_start_may_end_without_a_cut() {
    let mut r = Rounds::new("vegas:params=linux,gamma=0");
    // 20 * 3 / 50 = 1.2, rounded to 1 > 0; 20 * 50 / 53 + 1 = 19.9 packets.
    r.round(50);
    r.round(53);
    assert_eq!(r.packets(), 40);
    r.round(53);
    // 40 * 3 / 50 = 2.4; 48 000 * 50 / 53 + 1 200 = 46 483.
    assert_eq!(r.window(), 46_483);
    // 10 * 6 / 50 = 1.2, rounded to 1 > 0; 10 * 50 / 56 + 1 = 9.93 packets. With 55 ms: 1 > 0, but
    // 10.09 packets, so no cut.
    for (rtt, window) in [(56, 11_914), (55, 12_000)] {
        let mut r = Rounds::new("vegas:params=linux,gamma=0");
        r.app_limited = true;
        r.round(50);
        r.round(rtt);
        r.round(rtt);
        let metrics = r.controller.metrics();
        assert_eq!((metrics.window, metrics.threshold), (window, Some(window)), "{rtt} ms");
        assert_eq!(metrics.early_reductions, u64::from(window < INITIAL * MSS));
    }
}

#[test]
fn linux_vegas_grows_like_reno_after_fewer_than_three_samples() {
    let mut r = Rounds::new("vegas:params=linux");
    r.lose(false);
    r.lose(false);
    assert_eq!(r.window(), 3_000);
    // Two packets, one frame per round: the first frame begins a round, and the second ends it with
    // two samples.
    r.round(50);
    assert_eq!(r.window(), 3_000, "no verdict yet: avoidance holds");
    r.round(50);
    assert_eq!(
        r.window(),
        3_960,
        "2 400 of 3 000 bytes acknowledged: so much of a packet, not a whole one"
    );
}
