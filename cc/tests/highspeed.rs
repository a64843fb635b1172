//! Tests of HighSpeed TCP with real events.

use fathom_cc::Phase;
use fathom_cc::testing::script::{MSS, Script};

/// Returns a sender in avoidance with a window of at least `packets`, after the recovery from the
/// loss that ended slow start.
fn avoiding(spec: &str, packets: u64) -> Script {
    let mut s = Script::new(spec);
    s.lose();
    s.collapse();
    s.next_round();
    // Slow start up to the threshold of five packets, then rounds of growth until the window is
    // reached.
    while s.window() < packets * MSS {
        s.bytes = s.window();
        s.ack(0);
    }
    s.bytes = MSS;
    s
}

/// Acknowledges one window, one packet at a time. Returns the growth in packets.
fn round(s: &mut Script) -> f64 {
    let before = s.window();
    s.acks((before / MSS) as usize, 0);
    (s.window() - before) as f64 / MSS as f64
}

#[test]
fn highspeed_growth_per_rtt_matches_rfc_3649() {
    // Rows of RFC 3649 §B: from window w on, the growth is `a` datagrams per round trip, up to the
    // next row.
    for (w, a, next) in
        [(118, 2.0, 221), (663, 6.0, 851), (2_076, 12.0, 2_378), (5_036, 20.0, 5_497)]
    {
        let mut s = avoiding("highspeed", w);
        assert!(s.window() < next * MSS);
        let grown = round(&mut s);
        assert!((a - 0.05..a + 1.05).contains(&grown), "{grown} at {w}");
    }
}

#[test]
fn highspeed_window_reduction_on_loss_matches_rfc_3649() {
    for (w, b) in [(118, 0.44), (663, 0.35), (2_076, 0.29), (10_661, 0.21)] {
        let mut s = avoiding("highspeed", w);
        let before = s.window() as f64;
        s.lose();
        let lost = 1.0 - s.window() as f64 / before;
        assert!((lost - b).abs() < 0.008, "{lost} at {w}");
        assert_eq!(s.controller.metrics().phase, Phase::Recovery);
    }
}

#[test]
fn highspeed_matches_reno_up_to_38_datagrams() {
    let (mut s, mut reno) = (Script::new("highspeed"), Script::new("reno"));
    for script in [&mut s, &mut reno] {
        script.lose();
        script.next_round();
    }
    let mut rounds = 0;
    while reno.window() < 38 * MSS {
        for _ in 0..7 {
            assert_eq!(s.ack(0), reno.ack(0));
        }
        rounds += 1;
        if rounds == 60 {
            s.lose();
            reno.lose();
            assert_eq!(s.window(), reno.window());
            s.next_round();
            reno.next_round();
        }
    }
    // Far above 38 datagrams the two windows differ.
    s.acks(4_000, 0);
    reno.acks(4_000, 0);
    assert!(s.window() > reno.window() + 5 * MSS);
}

#[test]
fn highspeed_slow_start_matches_reno_at_any_window() {
    let mut s = Script::new("highspeed");
    s.bytes = 1_000 * MSS;
    assert_eq!(s.ack(0), 1_000 * MSS as i64);
}

#[test]
fn highspeed_undoes_a_spurious_loss() {
    let mut s = avoiding("highspeed", 1_000);
    let before = s.window();
    s.lose();
    s.controller.on_spurious_congestion_event(s.now);
    assert_eq!(s.window(), before);
}
