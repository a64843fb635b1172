//! Tests of SDC against numbers computed by hand from the box in SDC §2.2, for an RTT of 100 ms and
//! datagrams of 1200 bytes.

use fathom_cc::testing::script::{self, MSS, Script};
use fathom_cc::{AckEvent, Acked, Cause, CongestionEvent, Pacing, PathChange, Phase, Rtt, Time};
use std::time::Duration;

fn hold(s: &Script) -> f64 {
    match s.controller.send_params().pacing {
        Pacing::Delay(d) => d.as_secs_f64() * 1e3,
        Pacing::Window => 0.0,
        Pacing::Rate(_) => panic!("SDC gives no rate"),
    }
}

fn close(s: &Script, expected_ms: f64) {
    assert!((hold(s) - expected_ms).abs() < 0.001, "{} ms, not {expected_ms}", hold(s));
}

/// Returns a sender with a window halved from eleven packets: the small-window phase, without delay
/// yet.
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
fn sdc_with_a_large_window_and_no_delay_matches_reno() {
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
fn sdc_congestion_with_a_small_window_only_adds_send_delay() {
    let mut s = small("sdc");
    let window = s.window();
    s.lose();
    assert_eq!(s.window(), window);
    close(&s, 100.0); // 2 * 100 - 100
    assert_eq!(s.controller.metrics().hold, Some(Duration::from_millis(100)));
    assert_eq!(s.controller.metrics().phase, Phase::Recovery);
}

#[test]
fn sdc_delay_shrinks_by_a_tenth_per_packet() {
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
fn sdc_option_srtt_network_bounds_send_delay_to_one_rtt() {
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
fn sdc_counts_losses_once_per_round_and_marks_with_every_ack() {
    // The first mark: 2 * 100 - 100. Packets that left before the mark experienced no delay, so
    // SRTT is still 100 at the second mark. This mark sets D to 100 again and does not add to D.
    for (spec, second) in [("sdc", 100.0), ("sdc:react=round", 80.0)] {
        let mut s = small(spec);
        s.congestion_event(Cause::Mark);
        close(&s, 100.0);
        let sent = s.now;
        s.ack_sent(sent, 0);
        close(&s, 80.0);
        // The next mark is on a packet of the same round.
        s.controller.on_congestion_event(&CongestionEvent { now: s.now, sent, cause: Cause::Mark });
        close(&s, second);
        s.controller.on_congestion_event(&CongestionEvent {
            now: s.now,
            sent,
            cause: Cause::Loss { bytes: MSS, persistent: false },
        });
        close(&s, second);
    }
}

#[test]
fn sdc_grows_small_windows_by_one_packet_per_round() {
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
fn sdc_factor_scales_the_send_delay() {
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
fn spurious_loss_or_new_path_removes_the_sdc_delay() {
    let mut s = small("sdc");
    s.lose();
    close(&s, 100.0);
    s.controller.on_spurious_congestion_event(s.now);
    close(&s, 0.0);
    s.next_round();
    s.lose();
    s.controller.on_path(s.now, PathChange::Moved);
    close(&s, 0.0);
}

#[test]
fn sdc_can_require_ecn() {
    use fathom_cc::{Capabilities, Start, catalogue};
    let no_ecn =
        Start { provided: Capabilities { pacing: true, ..Capabilities::NONE }, ..script::start() };
    assert!(catalogue::parse("sdc").expect("known").start(&no_ecn).is_ok());
    let error = catalogue::parse("sdc:signal=ecn")
        .expect("known")
        .start(&no_ecn)
        .expect_err("no ECN")
        .to_string();
    assert!(error.contains("ECN") && error.contains("sdc:signal=either"), "{error}");
}

/// Delivers an ACK frame for packets of [`MSS`] bytes that left at `sent`.
fn frame(s: &mut Script, sent: Time, rtt: Duration, packets: usize) {
    s.now += Duration::from_millis(1);
    s.controller.on_ack(&AckEvent {
        now: s.now,
        packets: &vec![Acked { sent, bytes: MSS }; packets],
        in_flight: 8 * MSS,
        rtt: Rtt::first(rtt),
        one_way: None,
        ecn: None,
        app_limited: false,
    });
}

#[test]
fn marks_double_the_sdc_rtt_once_per_flight() {
    let mut s = small("sdc");
    // SRTT is 100 after a loss. A flight of five packets follows, each of them marked.
    let flight = s.now;
    for _ in 0..5 {
        frame(&mut s, flight, script::RTT, 1);
        s.congestion_event(Cause::Mark);
        close(&s, 100.0); // RTT + D = 200, twice SRTT
    }
    // The next flight experienced 100 ms. Its first ACK gives 0.9 * (100 + 100) - 100 = 80 and SRTT
    // 112.5; the mark gives 2 * 112.5 - 100.
    s.next_round();
    let flight = s.now - Duration::from_millis(1);
    frame(&mut s, flight, script::RTT, 1);
    close(&s, 80.0);
    s.controller.on_congestion_event(&CongestionEvent {
        now: s.now,
        sent: flight,
        cause: Cause::Mark,
    });
    close(&s, 125.0);
    // The second ACK of the flight: 0.9 * 225 - 100 = 102.5. Its packet experienced the D before
    // this rise, 80: SRTT 7/8 * 112.5 + 180/8 = 120.9375.
    frame(&mut s, flight, script::RTT, 1);
    close(&s, 102.5);
    s.controller.on_congestion_event(&CongestionEvent {
        now: s.now,
        sent: flight,
        cause: Cause::Mark,
    });
    close(&s, 141.875);
}

#[test]
fn sdc_counts_an_rtt_jump_once_per_ack_frame() {
    let mut s = small("sdc");
    s.lose();
    s.next_round();
    let sent = s.now;
    // 0.9 * (120 + 100) - 100 = 98 for the first packet. RTT_old is 120 for the second packet:
    // 0.9 * (120 + 98) - 120 = 76.2.
    frame(&mut s, sent, Duration::from_millis(120), 2);
    close(&s, 76.2);
}

#[test]
fn rtt_changes_without_congestion_add_no_send_delay() {
    let mut s = small("sdc");
    for rtt in [100, 300, 50, 900, 20] {
        s.next_round();
        let sent = s.now;
        frame(&mut s, sent, Duration::from_millis(rtt), 1);
        close(&s, 0.0);
    }
    // If there is a delay, a jump by 250 ms may raise it, but the way back takes more off:
    // 0.9 * (0.9 * D + 220) - 255 is less than D.
    s.lose();
    let first = hold(&s);
    assert!(first > 0.0);
    for n in 0..200 {
        s.next_round();
        let sent = s.now;
        frame(&mut s, sent, Duration::from_millis(if n % 2 == 0 { 300 } else { 50 }), 1);
        assert!(hold(&s) <= first + 220.0, "{} ms after {n}", hold(&s));
    }
    close(&s, 0.0);
}

#[test]
fn idle_time_adds_no_sdc_delay_and_lets_it_decay() {
    let mut s = small("sdc");
    s.lose();
    s.now += Duration::from_secs(3_600);
    close(&s, 100.0);
    s.app_limited = true;
    let window = s.window();
    // With one packet per hour, RTT + D falls by a tenth with each packet: 180, 162, 145.8, 131.2,
    // 118.1, 106.3, 95.7.
    for expected in [80.0, 62.0, 45.8, 31.22, 18.098, 6.2882, 0.0] {
        s.now += Duration::from_secs(3_600);
        s.ack(0);
        close(&s, expected);
    }
    assert_eq!(s.window(), window);
}

/// Runs `packets` packets in the large-window phase with a delay, and loses one in `gap` packets.
/// Returns D in ms at the end.
fn under_losses(gap: usize, packets: usize) -> f64 {
    let mut s = small("sdc");
    while s.window() < 8 * MSS {
        s.lose();
        s.next_round();
        s.ack(0);
    }
    s.lose();
    s.next_round();
    assert!(hold(&s) > 50.0);
    for n in 1..=packets {
        s.ack(0);
        if n % gap == 0 {
            s.lose();
            s.next_round();
        }
    }
    hold(&s)
}

#[test]
fn sdc_tolerates_random_losses_of_up_to_2_percent() {
    // With W = 8, an ACK multiplies RTT + D by 64/65. A loss sets it to twice SRTT, which lags by
    // about 7 ACKs: 2 (65/64)^7 = 2.23. Recovering from that takes ln 2.23 / ln (65/64) = 51.7
    // ACKs.
    assert_eq!(under_losses(70, 7_000), 0.0);
    assert_eq!(under_losses(40, 7_000), 10_000.0, "to the largest delay there is");
}

#[test]
fn sdc_ignores_signals_of_another_path() {
    for threshold in ["", ":threshold=64"] {
        let mut s = Script::new(&format!("sdc{threshold}"));
        s.ack(0);
        let old = s.now;
        s.now += Duration::from_millis(5);
        s.controller.on_path(s.now, PathChange::Moved);
        s.next_round();
        s.ack(0);
        s.controller.on_congestion_event(&CongestionEvent {
            now: s.now,
            sent: old,
            cause: Cause::Mark,
        });
        close(&s, 0.0);
    }
}

#[test]
fn persistent_congestion_keeps_the_sdc_send_delay() {
    let mut s = small("sdc");
    s.collapse();
    assert_eq!(s.window(), 2 * MSS);
    close(&s, 0.0);
    let mut s = small("sdc");
    s.lose();
    s.next_round();
    s.ack(0);
    s.ack(0);
    close(&s, 62.0);
    let window = s.window();
    s.next_round();
    s.collapse();
    assert_eq!((s.window(), s.controller.metrics().threshold), (2 * MSS, Some(window / 2)));
    close(&s, 62.0);
}
