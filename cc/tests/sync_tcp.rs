//! Tests of Sync-TCP with real events: the warm-up, every row of Algorithm 2, and every option.

use fathom_cc::testing::script::{MSS, RTT, Script};
use fathom_cc::{Cause, PathChange, Phase};
use std::time::Duration;

const MSS_I: i64 = MSS as i64;
/// Sync-TCP with the growth of Algorithm 2, without a limit on the trust in the peer.
const PAPER: &str = "sync:trust=full";

/// Returns a sender in avoidance with a window of 60 000 bytes, before any delay was seen.
fn avoiding(spec: &str) -> Script {
    let mut s = Script::new(spec);
    s.one_way = false;
    let rtt = s.rtt;
    s.bytes = 108_000;
    s.ack(0);
    s.lose();
    s.next_round();
    s.bytes = MSS;
    s.one_way = true;
    s.rtt = rtt;
    assert_eq!((s.window(), s.controller.metrics().phase), (60_000, Phase::Recovery));
    s
}

/// Delivers `low` ACKs without delay and then `high` ACKs with 8 ms, so that the average rises.
/// Returns the change of the window by the last ACK.
fn rise(s: &mut Script, low: usize, high: usize) -> i64 {
    s.acks(low, 0);
    s.acks(high, 8_000)
}

/// Brings the average near the maximum (8 ms) and then lets it fall for `count` ACKs with `then`
/// microseconds. Returns the change of the window by the last ACK.
fn fall(s: &mut Script, count: usize, then: i64) -> i64 {
    s.acks(1, 0);
    s.acks(41, 8_000);
    s.acks(count, then)
}

#[test]
fn sync_behaves_like_reno_until_the_ninth_ack() {
    let mut s = Script::new("sync");
    let mut reno = Script::new("reno");
    for queued in [0, 9_000, 1_000, 7_000, 2_000, 8_000, 3_000, 6_000] {
        assert_eq!(s.ack(queued), MSS_I);
        assert_eq!(reno.ack(queued), MSS_I);
    }
    assert_eq!(s.controller.metrics().phase, Phase::SlowStart);
    assert!(s.ack(9_000) < 0, "the ninth brings the first verdict");
    assert_eq!(reno.ack(9_000), MSS_I);
}

#[test]
fn sync_decides_at_every_third_ack() {
    let mut s = avoiding("sync");
    s.acks(1, 0);
    let changes: Vec<i64> = (2..=18).map(|_| s.ack(8_000)).collect();
    let cuts: Vec<usize> = changes
        .iter()
        .enumerate()
        .filter(|(_, change)| **change < 0)
        .map(|(at, _)| at + 2)
        .collect();
    assert_eq!(cuts, [9, 12, 15, 18]);
}

#[test]
fn sync_rising_delay_of_0_to_25_percent_adds_a_segment_per_rtt() {
    let mut s = avoiding("sync");
    rise(&mut s, 7, 2);
    let before = s.window();
    let per_ack = MSS_I * MSS_I / before as i64;
    for _ in 0..2 {
        let change = s.ack(8_000);
        assert!((change - per_ack).abs() <= 1, "{change} against {per_ack}");
    }
}

#[test]
fn sync_rising_delay_of_25_to_50_percent_cuts_by_10_percent() {
    let mut s = avoiding("sync");
    let before = s.window() + 8 * 24;
    assert!(rise(&mut s, 5, 4) < 0);
    assert!(s.window().abs_diff(before * 9 / 10) < 30, "{}", s.window());
}

#[test]
fn sync_rising_delay_of_50_to_75_percent_cuts_by_25_percent() {
    let mut s = avoiding("sync");
    let before = s.window() + 8 * 24;
    assert!(rise(&mut s, 1, 8) < 0);
    assert!(s.window().abs_diff(before * 3 / 4) < 30, "{}", s.window());
}

#[test]
fn sync_rising_delay_of_75_to_100_percent_cuts_by_half() {
    let mut s = avoiding("sync");
    rise(&mut s, 1, 10);
    let before = s.window();
    assert!(s.ack(8_000) < 0);
    assert_eq!(s.window(), before / 2);
}

#[test]
fn sync_falling_delay_of_0_to_25_percent_adds_half_the_acked() {
    let mut s = avoiding(PAPER);
    s.bytes = MSS;
    fall(&mut s, 24, 0);
    assert_eq!(s.ack(0), MSS_I / 2);
    assert_eq!(s.ack(0), MSS_I / 2);
}

#[test]
fn sync_falling_delay_of_25_to_50_percent_adds_a_quarter() {
    let mut s = avoiding(PAPER);
    fall(&mut s, 9, 0);
    assert_eq!(s.ack(0), MSS_I / 4);
}

#[test]
fn sync_falling_delay_of_50_to_75_percent_adds_a_tenth() {
    let mut s = avoiding(PAPER);
    fall(&mut s, 6, 1_000);
    assert_eq!(s.ack(1_000), MSS_I / 10);
}

#[test]
fn sync_falling_delay_of_75_to_100_percent_changes_nothing() {
    let mut s = avoiding("sync");
    fall(&mut s, 9, 6_400);
    assert_eq!(s.acks(2, 6_400), 0);
}

#[test]
fn sync_growth_of_50_percent_adds_half_the_window_per_round() {
    let mut s = avoiding(PAPER);
    fall(&mut s, 60, 0);
    let before = s.window();
    // Deliver ten ACK frames that each acknowledge a tenth of the window. The average still
    // decreases a little, so the trend stays decreasing.
    s.bytes = before / 10;
    for _ in 0..10 {
        s.ack(0);
    }
    assert!(s.window().abs_diff(before + before / 2) <= 10, "{before} -> {}", s.window());
}

#[test]
fn sync_with_limited_trust_grows_back_to_reno_after_early_cuts() {
    let (mut limited, mut full, mut reno) = (avoiding("sync"), avoiding(PAPER), avoiding("reno"));
    for s in [&mut limited, &mut full] {
        // Two cuts, and then no queue for a long time.
        s.acks(1, 0);
        s.acks(11, 8_000);
        assert!(s.window() < 60_000 / 2);
        s.acks(120, 0);
    }
    reno.acks(132, 0);
    assert!(full.window() > reno.window() + 10 * MSS, "{} beside {}", full.window(), reno.window());
    // Reno grows by one datagram per window of acknowledged bytes, and the window is taken at the
    // beginning of a round. Therefore the two windows may differ by a datagram.
    assert!(
        limited.window().abs_diff(reno.window()) <= MSS,
        "{} beside {}",
        limited.window(),
        reno.window()
    );
    // At the next loss both windows are alike.
    limited.lose();
    reno.lose();
    assert!(
        limited.window().abs_diff(reno.window()) <= MSS / 2,
        "{} beside {}",
        limited.window(),
        reno.window()
    );
}

#[test]
fn loss_lowers_the_sync_growth_limit_to_the_current_window() {
    let mut s = avoiding("sync");
    s.acks(1, 0);
    s.acks(11, 8_000);
    s.lose();
    let left = s.window();
    s.next_round();
    s.acks(60, 0);
    let rounds = 60 * MSS / left + 1;
    assert!(s.window() > left && s.window() <= left + rounds * MSS, "{left} -> {}", s.window());
}

#[test]
fn sync_verdict_expires_after_idle_time_without_delays() {
    for (spec, grows) in [("sync", true), (PAPER, false)] {
        let mut s = avoiding(spec);
        assert!(rise(&mut s, 1, 8) < 0, "a cut, after which the window holds");
        s.one_way = false;
        s.acks(900, 0);
        assert_eq!(s.ack(0), 0, "{spec}: 900 ms");
        s.acks(100, 0);
        assert_eq!(s.ack(0) > 0, grows, "{spec}: more than a second");
    }
}

#[test]
fn equal_medians_leave_the_sync_window_to_reno() {
    let (mut s, mut reno) = (avoiding("sync"), avoiding("reno"));
    for _ in 0..300 {
        assert_eq!(s.ack(0), reno.ack(0));
    }
    let (mut s, mut reno) = (Script::new("sync"), Script::new("reno"));
    for _ in 0..50 {
        assert_eq!((s.ack(0), reno.ack(0)), (MSS_I, MSS_I), "slow start goes on");
    }
}

#[test]
fn sync_window_stays_after_a_cut_until_the_next_verdict() {
    let mut s = avoiding("sync");
    assert!(rise(&mut s, 1, 8) < 0);
    assert_eq!((s.ack(0), s.ack(0)), (0, 0));
}

#[test]
fn sync_treats_delays_below_the_floor_as_level() {
    let (mut below, mut at) = (avoiding("sync:floor=8.001ms"), avoiding("sync:floor=8ms"));
    assert!(rise(&mut below, 1, 8) > 0);
    assert!(rise(&mut at, 1, 8) < 0);
    assert!(below.acks(1, 8_500) > 0);
    assert!(below.acks(2, 8_500) < 0, "the floor is reached: the next verdict counts");
}

#[test]
fn sync_ignores_acks_without_a_one_way_delay() {
    let mut s = avoiding("sync");
    s.acks(1, 0);
    for _ in 0..30 {
        s.one_way = false;
        assert!(s.ack(8_000) >= 0);
    }
    s.one_way = true;
    assert!(s.acks(7, 8_000) >= 0);
    assert!(s.ack(8_000) < 0, "the ninth sample");
}

/// Delivers RTTs of 100 ms and then 108 ms, while one-way delays, if any, stay level. Returns the
/// sender and the number of cuts.
fn rise_in_rtt(spec: &str, one_way: bool) -> (Script, u64) {
    let mut s = avoiding(spec);
    s.one_way = one_way;
    s.ack(0);
    s.rtt = RTT + Duration::from_millis(8);
    s.acks(12, 0);
    let cuts = s.controller.metrics().early_reductions;
    (s, cuts)
}

#[test]
fn sync_signal_rtt_uses_rtts_and_ignores_one_way_delays() {
    assert!(
        rise_in_rtt("sync:signal=rtt", true).1 > 0,
        "queueing on the reverse path alone causes cuts"
    );
    assert_eq!(rise_in_rtt("sync", true).1, 0, "one-way delays do not see the reverse path");
    let mut s = avoiding("sync:signal=rtt");
    assert!(rise(&mut s, 1, 8) > 0);
}

#[test]
fn sync_signal_either_uses_rtts_until_first_one_way_delay() {
    assert_eq!(rise_in_rtt("sync:signal=either", true).1, 0);
    let (mut s, cuts) = rise_in_rtt("sync:signal=either", false);
    assert!(cuts > 0);
    s.one_way = true;
    assert!(s.ack(0) > 0, "a fresh baseline: Reno until nine new samples");
    assert_eq!(s.controller.metrics().queueing, Some(Duration::ZERO));
    assert!(
        (0..11).all(|_| s.ack(0) > 0),
        "the RTT rose by 8 ms; no trace of it in the new baseline"
    );
    s.one_way = false;
    s.rtt += Duration::from_millis(50);
    s.acks(20, 0);
    assert_eq!(s.controller.metrics().queueing, Some(Duration::ZERO), "RTTs count no longer");
    s.one_way = true;
    s.acks(9, 8_000);
    assert!(s.controller.metrics().early_reductions > cuts, "one-way delays do");
}

#[test]
fn sync_slow_start_steer_obeys_verdicts_and_reno_ignores_them() {
    let (mut steer, mut reno) = (Script::new("sync"), Script::new("sync:slow-start=reno"));
    assert!(rise(&mut steer, 7, 2) < MSS_I, "one segment per RTT");
    assert_eq!(rise(&mut reno, 7, 2), MSS_I);
    assert_eq!(steer.controller.metrics().phase, Phase::Avoidance);
    assert_eq!(reno.controller.metrics().phase, Phase::SlowStart);
    assert!(steer.acks(3, 8_000) < 0);
    assert_eq!(reno.acks(30, 8_000), MSS_I, "no cut in slow start");
    reno.lose();
    reno.next_round();
    assert!(rise(&mut reno, 20, 10) <= 0, "slow start is over: verdicts count");
    assert!(reno.controller.metrics().early_reductions > 0);
}

#[test]
fn sync_recovery_hold_ignores_cuts_and_steer_applies_them() {
    for (spec, cuts) in [("sync", 0), ("sync:recovery=steer", 1)] {
        let mut s = Script::new(spec);
        s.ack(0);
        let before = s.now - RTT;
        s.lose();
        for _ in 0..8 {
            s.ack_sent(before, 8_000);
        }
        let metrics = s.controller.metrics();
        assert_eq!((metrics.phase, metrics.early_reductions), (Phase::Recovery, cuts), "{spec}");
    }
}

#[test]
fn sync_cut_round_allows_one_cut_per_round_trip() {
    for (spec, cuts) in [("sync", 5), ("sync:cut=round", 1)] {
        let mut s = avoiding(spec);
        s.acks(1, 0);
        s.acks(20, 8_000);
        assert_eq!(
            s.controller.metrics().early_reductions,
            cuts,
            "{spec}: packets sent before the first cut"
        );
    }
    let mut s = avoiding("sync:cut=round");
    s.acks(1, 0);
    s.acks(8, 8_000);
    let cut = s.now;
    s.next_round();
    for _ in 0..3 {
        s.ack_sent(cut, 8_000);
    }
    assert_eq!(s.controller.metrics().early_reductions, 1, "sent at the instant of the cut");
    s.acks(3, 8_000);
    assert_eq!(s.controller.metrics().early_reductions, 2);
}

#[test]
fn losses_and_marks_halve_the_sync_window_as_in_reno() {
    for cause in [Cause::Loss { bytes: MSS, persistent: false }, Cause::Mark] {
        let mut s = avoiding("sync");
        s.acks(1, 0);
        s.acks(5, 8_000);
        let before = s.window();
        s.congestion_event(cause);
        assert_eq!(s.window(), before / 2);
        s.next_round();
        s.acks(2, 8_000);
        assert!(s.ack(8_000) < 0, "the ninth sample counts from the first one");
    }
}

#[test]
fn early_sync_cut_does_not_restart_slow_start() {
    let mut s = avoiding("sync");
    rise(&mut s, 1, 8);
    let metrics = s.controller.metrics();
    assert_eq!((metrics.phase, metrics.threshold), (Phase::Avoidance, Some(metrics.window)));
}

/// Returns whether `event` makes the controller forget all delays.
fn forgets(spec: &str, event: impl FnOnce(&mut Script)) -> bool {
    let mut s = Script::new(spec);
    s.acks(12, 8_000);
    event(&mut s);
    s.controller.metrics().queueing.is_none()
}

#[test]
fn idle_time_timeout_or_new_path_resets_sync_detection() {
    let idle = |s: &mut Script| {
        s.now += Duration::from_millis(1_001);
        s.send();
    };
    let pause = |s: &mut Script| {
        s.now += Duration::from_millis(999);
        s.send();
    };
    let moved = |s: &mut Script| s.controller.on_path(s.now, PathChange::Moved);
    for (spec, on_idle, on_timeout) in [
        ("sync", false, false),
        ("sync:reset=idle", true, false),
        ("sync:reset=timeout", false, true),
        ("sync:reset=both", true, true),
    ] {
        assert_eq!(forgets(spec, idle), on_idle, "{spec}");
        assert_eq!(forgets(spec, Script::collapse), on_timeout, "{spec}");
        assert!(!forgets(spec, pause), "{spec}");
        assert!(!forgets(spec, Script::lose), "{spec}");
        assert!(forgets(spec, moved), "{spec}");
        assert!(
            !forgets(spec, |s| s.controller.on_path(s.now, PathChange::Datagram(1_400))),
            "{spec}"
        );
    }
}

#[test]
fn app_limited_sync_window_is_cut_but_never_grows() {
    let mut s = avoiding("sync");
    s.app_limited = true;
    fall(&mut s, 30, 0);
    assert!(s.controller.metrics().early_reductions > 0);
    assert_eq!(s.acks(9, 0), 0);
}
