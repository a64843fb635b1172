//! SDC against numbers worked out by hand from the box in SDC §2.2: RTT 100 ms, datagrams of 1200 bytes.

mod common;

use common::{MSS, Script};
use fathom_cc::{Cause, Pace, PathChange, Phase};
use std::time::Duration;

fn hold(s: &Script) -> f64 {
    match s.controller.advice().pace {
        Pace::Hold(d) => d.as_secs_f64() * 1e3,
        Pace::Window => 0.0,
        Pace::Rate(_) => panic!("SDC gives no rate"),
    }
}

fn close(s: &Script, expected_ms: f64) {
    assert!((hold(s) - expected_ms).abs() < 0.001, "{} ms, not {expected_ms}", hold(s));
}

/// Ten packets halved to five: the small-window phase, no delay yet.
fn small(spec: &str) -> Script {
    let mut s = Script::new(spec);
    s.ack(0);
    s.lose();
    s.next_round();
    assert_eq!(s.window(), 11 * MSS / 2);
    close(&s, 0.0);
    s
}

#[test]
fn a_large_window_without_delay_is_renos() {
    let (mut s, mut reno) = (Script::new("sdc"), Script::new("reno"));
    for script in [&mut s, &mut reno] {
        script.acks(20, 0);
        script.lose();
        script.next_round();
        script.acks(40, 0);
    }
    assert_eq!(s.window(), reno.window());
    close(&s, 0.0);
}

#[test]
fn congestion_in_a_small_window_adds_delay_and_leaves_the_window() {
    let mut s = small("sdc");
    let window = s.window();
    s.lose();
    assert_eq!(s.window(), window);
    close(&s, 100.0); // 2 * 100 - 100
    assert_eq!(s.controller.snapshot().hold, Some(Duration::from_millis(100)));
    assert_eq!(s.controller.snapshot().phase, Phase::Recovery);
}

#[test]
fn the_delay_shrinks_by_a_tenth_of_the_round_trip_per_packet_and_grows_from_the_smoothed_one() {
    let mut s = small("sdc");
    s.lose();
    s.next_round();
    s.ack(0);
    close(&s, 80.0); // 0.9 * (100 + 100) - 100
    s.ack(0);
    close(&s, 62.0); // 0.9 * (100 + 80) - 100
    // SRTT: 100, then 7/8 * 100 + 200/8 = 112.5, then 7/8 * 112.5 + 180/8 = 120.9375.
    s.next_round();
    s.lose();
    close(&s, 141.875); // 2 * 120.9375 - 100
}

#[test]
fn without_delay_in_the_smoothed_round_trip_it_never_exceeds_one_round_trip() {
    let mut s = small("sdc:srtt=network");
    for _ in 0..5 {
        s.lose();
        close(&s, 100.0);
        s.next_round();
        s.ack(0);
        s.next_round();
    }
}

#[test]
fn losses_of_one_round_count_once_and_marks_with_every_ack() {
    for (spec, second) in [("sdc", 125.0), ("sdc:react=round", 80.0)] {
        let mut s = small(spec);
        s.setback(Cause::Mark);
        close(&s, 100.0);
        let sent = s.now;
        s.ack_sent(sent, 0);
        close(&s, 80.0);
        // A mark on a packet of the same round.
        s.controller.on_setback(&fathom_cc::Setback { now: s.now, sent, cause: Cause::Mark });
        close(&s, second); // 2 * 112.5 - 100
        s.controller.on_setback(&fathom_cc::Setback {
            now: s.now,
            sent,
            cause: Cause::Loss { bytes: MSS, persistent: false },
        });
        close(&s, second);
    }
}

#[test]
fn the_window_grows_by_one_packet_per_round_in_the_small_phase_and_stands_while_a_large_one_is_delayed() {
    let mut s = small("sdc");
    let window = s.window();
    s.bytes = window;
    s.ack(0);
    assert_eq!(s.window(), window + MSS);
    s.bytes = MSS;
    while s.window() < 8 * MSS {
        s.lose();
        s.next_round();
        s.ack(0);
    }
    s.lose();
    s.next_round();
    let (window, delay) = (s.window(), hold(&s));
    assert!(window >= 8 * MSS && delay > 0.0);
    s.ack(0);
    assert_eq!(s.window(), window);
    let packets = window as f64 / MSS as f64;
    let square = packets * packets;
    close(&s, square / (square + 1.0) * (100.0 + delay) - 100.0);
    for _ in 0..2_000 {
        s.ack(0);
    }
    close(&s, 0.0);
    assert!(s.window() > window, "grows again without delay");
}

#[test]
fn the_factor_shrinks_the_delay_itself() {
    let mut s = Script::new("sdc:shrink=factor,factor=0.1,threshold=2");
    s.ack(0);
    s.lose();
    close(&s, 0.0);
    s = Script::new("sdc:shrink=factor,factor=0.1,threshold=64");
    s.ack(0);
    s.lose();
    close(&s, 100.0);
    s.next_round();
    s.ack(0);
    close(&s, 80.0); // below the threshold the small-window rule holds
    s.bytes = 80 * MSS;
    s.acks(60, 0);
    assert!(s.window() >= 64 * MSS);
    s.bytes = MSS;
    s.next_round();
    s.lose();
    assert!(s.window() < 64 * MSS, "without delay a large window is halved");
}

#[test]
fn an_undone_loss_takes_its_delay_back_and_another_path_starts_without() {
    let mut s = small("sdc");
    s.lose();
    close(&s, 100.0);
    s.controller.on_undo(s.now);
    close(&s, 0.0);
    s.next_round();
    s.lose();
    s.controller.on_path(s.now, PathChange::Moved);
    close(&s, 0.0);
}

#[test]
fn ecn_can_be_required() {
    use fathom_cc::{Signals, Start, catalogue::recipe};
    let no_ecn = Start { offers: Signals { pacing: true, ..Signals::NONE }, ..common::start() };
    assert!(recipe("sdc").expect("known").start(&no_ecn).is_ok());
    let error = recipe("sdc:signal=ecn").expect("known").start(&no_ecn).expect_err("no ECN").to_string();
    assert!(error.contains("ECN") && error.contains("sdc:signal=either"), "{error}");
}
