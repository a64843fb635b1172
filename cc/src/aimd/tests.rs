use super::*;
use crate::capabilities::Capabilities;
use crate::event::{Acked, Rtt};
use std::time::Duration;

const MSS: u64 = 1_200;

fn aimd() -> Aimd {
    Aimd::new(&Start { now: Time::from_millis(10), datagram: 1_200, provided: Capabilities::NONE })
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn loss(now: u64, sent: u64) -> CongestionEvent {
    CongestionEvent {
        now: ms(now),
        sent: ms(sent),
        cause: Cause::Loss { bytes: MSS, persistent: false },
    }
}

fn persistent(now: u64, sent: u64) -> CongestionEvent {
    CongestionEvent {
        now: ms(now),
        sent: ms(sent),
        cause: Cause::Loss { bytes: MSS, persistent: true },
    }
}

fn mark(now: u64, sent: u64) -> CongestionEvent {
    CongestionEvent { now: ms(now), sent: ms(sent), cause: Cause::Mark }
}

fn ack(aimd: &mut Aimd, now: u64, sent: u64, bytes: u64, app_limited: bool) -> u64 {
    let rtt = Duration::from_millis(20);
    aimd.on_ack(&AckEvent {
        now: ms(now),
        packets: &[Acked { sent: ms(sent), bytes }],
        in_flight: 0,
        rtt: Rtt::first(rtt),
        one_way: None,
        ecn: None,
        app_limited,
    })
}

/// Returns a window of `window` bytes in avoidance.
fn avoiding(window: u64) -> Aimd {
    let mut a = aimd();
    a.state.window = window;
    a.state.threshold = Some(window);
    a
}

#[test]
fn initial_window_depends_on_the_datagram_size() {
    // RFC 9002 §7.2: ten datagrams, at most 14720 bytes or two datagrams, whichever is larger.
    for (datagram, bytes) in
        [(250, 2_500), (1_200, 12_000), (1_472, 14_720), (1_500, 14_720), (9_000, 18_000)]
    {
        assert_eq!(initial_window(datagram), bytes, "datagram {datagram}");
    }
    assert_eq!(minimum_window(1_200), 2_400);
}

#[test]
fn slow_start_stops_exactly_at_the_threshold() {
    assert_eq!(slow_start_step(10_000, None, 3_000), 3_000);
    assert_eq!(slow_start_step(10_000, Some(12_000), 3_000), 2_000);
    assert_eq!(slow_start_step(12_000, Some(12_000), 3_000), 0);
    let mut a = aimd();
    a.state.threshold = Some(13_000);
    assert_eq!(a.grow_slow_start(3_000), 2_000);
    assert_eq!(a.window(), 13_000);
}

#[test]
fn additive_growth_over_a_round_is_exact() {
    for chunk in [1, 7, 1_199, 1_200, 2_400, 11_111] {
        let mut a = avoiding(100_000);
        let mut left = 100_000;
        while left > 0 {
            let bytes = chunk.min(left);
            a.grow_additive(Ratio::ONE, bytes);
            left -= bytes;
        }
        assert_eq!(a.window(), 101_200, "acknowledged {chunk} bytes at a time");
        a.grow_additive(Ratio::ONE, 101_200);
        assert_eq!(a.window(), 102_400);
    }
}

#[test]
fn additive_growth_keeps_fractions_of_packets() {
    let mut a = avoiding(120_000);
    for _ in 0..100 {
        a.grow_additive(Ratio::new(7, 4), MSS);
    }
    assert_eq!(a.window(), 120_000 + 7 * MSS / 4);
}

#[test]
fn proportional_growth_adds_a_share_of_acknowledged_bytes() {
    let mut a = avoiding(100_000);
    for _ in 0..100_000 {
        a.grow_proportional(Ratio::percent(10), 1);
    }
    assert_eq!(a.window(), 110_000);
    a.grow_proportional(Ratio::HALF, 110_000);
    assert_eq!(a.window(), 165_000);
}

#[test]
fn window_cut_keeps_the_minimum_and_ends_slow_start() {
    let mut a = aimd();
    a.cut(Ratio::percent(90));
    assert_eq!((a.window(), a.threshold()), (10_800, Some(10_800)));
    assert_eq!(a.phase(), Phase::Avoidance);
    for _ in 0..50 {
        a.cut(Ratio::HALF);
    }
    assert_eq!(a.window(), 2_400);
    assert_eq!(a.metrics().early_reductions, 51);
}

#[test]
fn early_cut_keeps_the_threshold_on_request() {
    for (threshold, after, grown) in [
        (Threshold::Cut, Some(10 * MSS), 10 * MSS + MSS / 10),
        (Threshold::Keep, Some(20 * MSS), 11 * MSS),
    ] {
        let mut a = avoiding(20 * MSS);
        a.cut_early(Ratio::HALF, threshold);
        assert_eq!((a.window(), a.threshold(), a.metrics().early_reductions), (10 * MSS, after, 1));
        a.grow_as_reno(MSS);
        assert_eq!(a.window(), grown, "{threshold:?}");
    }
    // Before the first loss, there is no threshold to keep.
    let mut a = aimd();
    a.cut_early(Ratio::HALF, Threshold::Keep);
    assert_eq!((a.window(), a.threshold(), a.in_slow_start()), (5 * MSS, None, true));
    // The undo of a loss restores the threshold as it was before the loss.
    let mut a = avoiding(20 * MSS);
    a.on_congestion_event(&loss(30, 20), Ratio::HALF);
    a.cut_early(Ratio::HALF, Threshold::Keep);
    assert_eq!((a.window(), a.threshold()), (5 * MSS, Some(10 * MSS)));
    assert!(a.on_spurious_congestion_event());
    assert_eq!((a.window(), a.threshold()), (10 * MSS, Some(20 * MSS)));
}

#[test]
fn window_cut_by_bytes_keeps_the_minimum_and_is_not_undone() {
    let mut a = avoiding(100_000);
    a.cut_by(MSS);
    assert_eq!((a.window(), a.threshold()), (98_800, Some(98_800)));
    a.on_congestion_event(&loss(100, 80), Ratio::HALF);
    a.cut_by(MSS);
    assert_eq!(a.window(), 48_200);
    a.on_spurious_congestion_event();
    assert_eq!((a.window(), a.threshold()), (97_600, Some(97_600)));
    a.cut_by(u64::MAX);
    assert_eq!((a.window(), a.metrics().early_reductions), (2_400, 3));
}

#[test]
fn window_is_reduced_once_per_recovery_period() {
    let mut a = aimd();
    assert!(a.on_congestion_event(&loss(100, 80), Ratio::HALF));
    assert_eq!((a.window(), a.phase()), (6_000, Phase::Recovery));
    assert!(
        !a.on_congestion_event(&loss(101, 100), Ratio::HALF),
        "sent at the instant of the reaction"
    );
    assert_eq!(ack(&mut a, 105, 90, MSS, false), 0, "sent before the reaction");
    assert_eq!(a.phase(), Phase::Recovery);
    assert_eq!(ack(&mut a, 125, 105, MSS, false), MSS);
    assert_eq!(a.phase(), Phase::Avoidance);
    assert!(!a.on_congestion_event(&mark(126, 99), Ratio::HALF), "news about the old flight");
    assert!(a.on_congestion_event(&mark(127, 106), Ratio::HALF));
    assert_eq!((a.window(), a.metrics().reductions), (3_000, 2));
}

#[test]
fn persistent_congestion_collapses_window_even_in_recovery() {
    let mut a = avoiding(100_000);
    a.on_congestion_event(&loss(100, 80), Ratio::HALF);
    assert!(a.on_congestion_event(&persistent(300, 99), Ratio::HALF));
    assert_eq!((a.window(), a.threshold(), a.phase()), (2_400, Some(50_000), Phase::SlowStart));
    // RFC 9002 §B.8: the recovery period is over, so packets sent before count again.
    assert_eq!(ack(&mut a, 310, 99, MSS, false), MSS);
}

#[test]
fn application_limit_stops_growth_but_not_recovery() {
    let mut a = aimd();
    a.on_congestion_event(&loss(100, 80), Ratio::HALF);
    assert_eq!(ack(&mut a, 130, 110, MSS, true), 0);
    assert!(!a.in_recovery());
}

#[test]
fn undo_restores_the_window_and_never_lowers_it() {
    let mut a = avoiding(100_000);
    a.on_congestion_event(&loss(100, 80), Ratio::HALF);
    a.on_spurious_congestion_event();
    assert_eq!((a.window(), a.threshold(), a.in_recovery()), (100_000, Some(100_000), false));
    a.on_spurious_congestion_event();
    assert_eq!(a.window(), 100_000, "nothing left to undo");

    a.on_congestion_event(&loss(200, 180), Ratio::HALF);
    a.grow_proportional(Ratio::ONE, 50_000);
    assert!(a.on_spurious_congestion_event(), "back at the old window, not beyond");
    assert_eq!((a.window(), a.threshold()), (100_000, Some(100_000)));
}

#[test]
fn undo_has_no_effect_once_the_window_has_outgrown_the_loss() {
    let mut a = avoiding(100_000);
    a.on_congestion_event(&loss(200, 180), Ratio::HALF);
    a.grow_proportional(Ratio::ONE, 50_001);
    assert!(!a.on_spurious_congestion_event());
    assert_eq!((a.window(), a.threshold(), a.phase()), (100_001, Some(50_000), Phase::Recovery));

    // The loss ended the first slow start, at 12 000 bytes. A late undo must not begin another slow
    // start.
    let mut a = aimd();
    a.on_congestion_event(&loss(100, 80), Ratio::HALF);
    ack(&mut a, 130, 110, MSS, false);
    a.grow_additive(Ratio::new(6, 1), 6_000);
    assert_eq!((a.window(), a.phase()), (13_200, Phase::Avoidance));
    assert!(!a.on_spurious_congestion_event());
    assert_eq!((a.window(), a.threshold(), a.phase()), (13_200, Some(6_000), Phase::Avoidance));
    assert!(!a.on_spurious_congestion_event(), "once");
}

#[test]
fn undoing_an_empty_reduction_restores_all_state() {
    let mut a = aimd();
    a.on_congestion_event(&loss(100, 80), Ratio::ONE);
    assert_eq!((a.window(), a.threshold()), (12_000, Some(12_000)));
    assert!(a.on_spurious_congestion_event());
    assert_eq!((a.window(), a.threshold(), a.phase()), (12_000, None, Phase::SlowStart));
}

#[test]
fn early_cut_survives_the_undo_of_a_loss() {
    let mut a = avoiding(100_000);
    a.on_congestion_event(&loss(100, 80), Ratio::HALF);
    a.cut(Ratio::percent(90));
    assert_eq!(a.window(), 45_000);
    a.on_spurious_congestion_event();
    assert_eq!((a.window(), a.threshold()), (90_000, Some(90_000)));
}

#[test]
fn ecn_mark_is_never_undone_as_spurious() {
    let mut a = avoiding(100_000);
    a.on_congestion_event(&mark(100, 80), Ratio::HALF);
    a.on_spurious_congestion_event();
    assert_eq!(a.window(), 50_000);
    a.on_congestion_event(&loss(200, 180), Ratio::HALF);
    a.on_congestion_event(&mark(201, 181), Ratio::HALF);
    a.on_spurious_congestion_event();
    assert_eq!(a.window(), 25_000, "the mark confirmed the reduction");
}

#[test]
fn datagram_size_changes_apply_at_once() {
    let mut a = aimd();
    a.on_datagram(1_400);
    assert_eq!(a.window(), 14_000, "still the initial window");
    ack(&mut a, 20, 10, MSS, true);
    a.on_datagram(9_000);
    assert_eq!(a.window(), 18_000, "raised to the minimum");
    a.on_datagram(1_200);
    assert_eq!(a.window(), 18_000, "bytes stay");
}

#[test]
fn new_path_resets_the_window_and_ignores_old_packets() {
    let mut a = avoiding(100_000);
    a.on_congestion_event(&loss(100, 80), Ratio::HALF);
    a.on_moved(ms(200));
    assert_eq!((a.window(), a.threshold(), a.phase()), (12_000, None, Phase::SlowStart));
    assert_eq!(ack(&mut a, 210, 199, MSS, false), 0);
    assert!(!a.on_congestion_event(&persistent(220, 199), Ratio::HALF));
    a.on_spurious_congestion_event();
    assert_eq!(a.window(), 12_000);
    assert_eq!(ack(&mut a, 230, 200, MSS, false), MSS);
}

#[test]
fn window_never_exceeds_the_ceiling() {
    let mut a = aimd();
    a.grow_slow_start(u64::MAX);
    assert_eq!(a.window(), MAX_WINDOW);
    a.grow_additive(Ratio::new(u32::MAX, 1), u64::MAX);
    a.grow_proportional(Ratio::new(u32::MAX, 1), u64::MAX);
    assert_eq!(a.window(), MAX_WINDOW);
}

/// Returns a window with Rapid Start, which has grown to `window` bytes.
fn rapid(window: u64) -> Aimd {
    let startup = Startup { rapid_start: rapid_start::Use::On, ..Startup::default() };
    let mut a = aimd().with_startup(startup);
    a.state.window = window;
    a
}

#[test]
fn rapid_start_triples_the_window_per_round() {
    let mut a = rapid(12_000);
    let acked = ack(&mut a, 30, 10, 12_000, false);
    assert_eq!(a.grow_slow_start(acked), 0);
    assert_eq!(a.window(), 36_000);
    // Without growth in HyStart++'s Conservative Slow Start.
    a.growth = Growth::Conservative;
    a.grow_slow_start(4_000);
    assert_eq!(a.window(), 37_000);
}

#[test]
fn rapid_start_converges_on_beta_times_the_delivered_bytes() {
    // 300 packets in flight, of which the path and its queue hold 100: the others are lost.
    let mut a = rapid(300 * MSS);
    let half = Ratio::new(1, 2);
    let lost = |now: u64, packets: u64| CongestionEvent {
        cause: Cause::Loss { bytes: packets * MSS, persistent: false },
        ..loss(now, 20)
    };
    assert!(a.on_congestion_event(&lost(40, 2), half));
    // 5/6 of 300 packets, and 5/6 of the two lost ones.
    assert_eq!(a.window() / MSS, 250 - 2);
    for n in 0..99 {
        ack(&mut a, 41 + n / 10, 20, MSS, false);
        assert!(!a.on_congestion_event(&lost(41 + n / 10, 2), half));
        assert!(a.in_recovery() && a.threshold() == Some(a.window()));
    }
    let packets = a.window() as f64 / MSS as f64;
    assert!((49.0..53.0).contains(&packets), "half of 100 packets: {packets}");
    // The recovery is over. The next loss halves the window.
    ack(&mut a, 60, 50, MSS, false);
    let before = a.window();
    assert!(a.on_congestion_event(&loss(80, 70), half));
    assert_eq!(a.window(), before / 2);
}

#[test]
fn rapid_start_does_not_converge_below_a_third_of_the_reduced_window() {
    let mut a = rapid(300 * MSS);
    let half = Ratio::new(1, 2);
    a.on_congestion_event(&loss(40, 20), half);
    for _ in 0..10 {
        let cause = Cause::Loss { bytes: 100 * MSS, persistent: false };
        a.on_congestion_event(&CongestionEvent { cause, ..loss(41, 20) }, half);
    }
    assert_eq!(a.window(), 50 * MSS);
    assert!(a.on_spurious_congestion_event());
    assert_eq!((a.window(), a.threshold()), (300 * MSS, None));
}
