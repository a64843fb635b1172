//! Tests of gHSTCP with real events: two modes by the trend of the round-trip times, and one
//! decision per round trip.

use fathom_cc::PathChange;
use fathom_cc::testing::script::{MSS, Script};
use std::time::Duration;

const SPECS: [&str; 3] = ["gentle", "gentle:trend=t-test", "gentle:trend=mann-kendall"];
/// a(100) of the formula in RFC 3649 §7 is 1.80: the growth of a round at slightly more than a
/// hundred packets in HSTCP mode.
const HIGHSPEED: std::ops::Range<f64> = 1.7..2.1;
/// One packet, with a tolerance for up to two datagrams of growth since the round of
/// [`fathom_cc::aimd`] began.
const RENO: std::ops::Range<f64> = 0.97..1.06;

/// ACK frames of a round: fewer than the milliseconds of its round-trip time, so that no second
/// round begins in it.
const FRAMES: u64 = 95;

/// Returns a sender in avoidance at a hundred packets.
fn avoiding(spec: &str) -> Script {
    let mut s = Script::new(spec);
    s.lose();
    s.collapse();
    s.next_round();
    while s.window() < 100 * MSS {
        s.bytes = s.window().min(100 * MSS - s.window()).max(MSS);
        s.ack(0);
    }
    s.bytes = MSS;
    // Run one round trip of level samples.
    round(&mut s, |_| 0);
    s
}

/// Runs one round trip: packets sent within it are acknowledged 1 ms apart, the n-th with an RTT of
/// 100 ms plus `rise(n)` microseconds. Returns the growth in packets, scaled as if exactly one
/// window had been acknowledged.
fn round(s: &mut Script, rise: impl Fn(u64) -> u64) -> f64 {
    // The first frame is for a packet sent after the round began.
    s.now += Duration::from_millis(200);
    let (before, base) = (s.window(), Duration::from_millis(100));
    for n in 0..FRAMES {
        s.rtt = base + Duration::from_micros(rise(n));
        s.ack(0);
    }
    (s.window() - before) as f64 / MSS as f64 * before as f64 / (FRAMES * MSS) as f64
}

#[test]
fn ghstcp_grows_like_reno_in_the_round_after_rising_rtts() {
    for spec in SPECS {
        let mut s = avoiding(spec);
        let level = round(&mut s, |_| 0);
        assert!(HIGHSPEED.contains(&level), "{spec}: {level}");
        let rising = round(&mut s, |n| 50 * n);
        assert!(HIGHSPEED.contains(&rising), "{spec}: not decided yet, {rising}");
        let after = round(&mut s, |n| 5_000 - 50 * n.min(100));
        assert!(RENO.contains(&after), "{spec}: {after}");
        let back = round(&mut s, |_| 0);
        assert!(HIGHSPEED.contains(&back), "{spec}: falling round trips end it, {back}");
    }
}

#[test]
fn ghstcp_reacts_to_faint_rises_only_without_significance_test() {
    // An alternation of 1 ms between packets and a rise of 2 us per packet: r is 0.13. The 5 %
    // point with 95 samples is 0.170.
    let zigzag = |n: u64| 2 * n + 1_000 * (n % 2);
    let growth = ["gentle", "gentle:trend=t-test"].map(|spec| {
        let mut s = avoiding(spec);
        round(&mut s, zigzag);
        round(&mut s, |_| 0)
    });
    assert!(RENO.contains(&growth[0]) && HIGHSPEED.contains(&growth[1]), "{growth:?}");
}

#[test]
fn mann_kendall_test_ignores_the_size_of_rtt_differences() {
    // Two late outliers raise r but not the number of rising pairs. An early outlier hides a rise
    // from r but not from the pairs.
    let mut s = avoiding("gentle:trend=mann-kendall");
    round(&mut s, |n| if n >= FRAMES - 2 { 30_000 } else { 0 });
    let outlier = round(&mut s, |n| if n == 0 { 30_000 } else { 10 * n });
    assert!(HIGHSPEED.contains(&outlier), "two late outliers: {outlier}");
    let slope = round(&mut s, |_| 0);
    assert!(RENO.contains(&slope), "a rise after one early outlier: {slope}");

    let mut r = avoiding("gentle");
    round(&mut r, |n| if n >= FRAMES - 2 { 30_000 } else { 0 });
    let outlier = round(&mut r, |n| if n == 0 { 30_000 } else { 10 * n });
    assert!(RENO.contains(&outlier), "{outlier}");
    let slope = round(&mut r, |_| 0);
    assert!(HIGHSPEED.contains(&slope), "{slope}");
}

#[test]
fn ghstcp_small_windows_and_losses_follow_highspeed() {
    for spec in SPECS {
        let (mut s, mut fast) = (avoiding(spec), Script::new("highspeed"));
        round(&mut s, |n| 50 * n);
        round(&mut s, |n| 50 * n);
        fast.bytes = s.window() - fast.window();
        fast.ack(0);
        assert_eq!(fast.window(), s.window());
        s.lose();
        fast.lose();
        assert_eq!(s.window(), fast.window(), "{spec}");
    }
    let (mut s, mut reno) = (Script::new("gentle"), Script::new("reno"));
    for script in [&mut s, &mut reno] {
        script.lose();
        script.next_round();
    }
    for _ in 0..300 {
        assert_eq!(s.ack(0), reno.ack(0));
    }
}

#[test]
fn ghstcp_starts_a_new_path_in_highspeed_mode() {
    let mut s = avoiding("gentle");
    round(&mut s, |n| 50 * n);
    s.ack(0);
    s.controller.on_path(s.now, PathChange::Moved);
    let mut fresh = Script::new("gentle");
    fresh.now = s.now;
    s.rtt = fresh.rtt;
    for script in [&mut s, &mut fresh] {
        script.next_round();
        script.bytes = 200 * MSS;
        script.ack(0);
        script.lose();
        script.bytes = MSS;
        script.next_round();
    }
    for _ in 0..300 {
        assert_eq!(s.ack(0), fresh.ack(0));
    }
}
