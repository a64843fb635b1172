//! Tests of TCP/DCA with real events: the detector's warm-up, the congestion epoch, the choice of
//! samples, and every option.

use crate::rounds;

use fathom_cc::{PathChange, Phase};
use rounds::{INITIAL, MSS, Rounds};
use std::time::Duration;

const START: u64 = INITIAL * MSS;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a sender whose window does not grow, so that every change is a cut.
fn still(spec: &str) -> Rounds {
    let mut r = Rounds::new(spec);
    r.app_limited = true;
    r
}

/// Delivers frames of two packets with these RTTs in ms. Returns the number of cuts.
fn feed(r: &mut Rounds, rtts_ms: impl IntoIterator<Item = u64>) -> u64 {
    let before = r.early();
    for rtt in rtts_ms {
        r.frame(ms(rtt), 2);
    }
    r.early() - before
}

/// Returns a sender after twenty samples of 50 ms.
fn calm(spec: &str) -> Rounds {
    let mut r = still(spec);
    assert_eq!(feed(&mut r, [50; 20]), 0);
    r
}

#[test]
fn dca_delay_rise_cuts_the_window_by_the_reduction_level() {
    // 19 samples of 50 ms and one of 52 ms: the mean of the last two, 51, exceeds 50.1 + 0.436.
    for (spec, left) in [
        ("dca", START / 2),
        ("dca:reduction=0.25", START * 3 / 4),
        ("dca:reduction=0.125", START * 7 / 8),
    ] {
        let mut r = calm(spec);
        assert_eq!(feed(&mut r, [52]), 1, "{spec}");
        let metrics = r.controller.metrics();
        assert_eq!((metrics.window, metrics.threshold), (left, Some(left)), "{spec}");
        assert_eq!((metrics.phase, metrics.reductions), (Phase::Avoidance, 0), "{spec}");
        assert_eq!(metrics.queueing, Some(Duration::from_micros(900)), "51 - 50.1 ms");
    }
}

#[test]
fn dca_makes_no_decision_before_its_sample_window_is_full() {
    let mut r = still("dca");
    assert_eq!(feed(&mut r, [50; 18]), 0);
    assert_eq!(feed(&mut r, [52]), 0, "the nineteenth");
    assert_eq!(r.controller.metrics().queueing, None);
    assert_eq!(feed(&mut r, [54]), 1, "the twentieth");
}

#[test]
fn dca_applies_growth_before_the_cut() {
    // DCA §4.3: "after the normal TCP cwnd adjustment". 21 frames of two packets in slow start,
    // then the window is halved.
    let mut r = Rounds::new("dca");
    assert_eq!(feed(&mut r, [50; 20]), 0);
    assert_eq!(feed(&mut r, [52]), 1);
    assert_eq!(r.packets(), (INITIAL + 42) / 2);
    // From here on, avoidance adds one packet per window.
    feed(&mut r, [52; 13]);
    assert_eq!(r.packets(), 27);
}

#[test]
fn dca_cuts_once_per_epoch_which_ends_at_a_steady_delay() {
    for (plateau, cuts) in [(19, 0), (20, 1)] {
        let mut r = calm("dca");
        assert_eq!(feed(&mut r, 51..=80), 1, "a ramp of thirty samples is one epoch");
        // With 80 ms in all twenty places, the average has reached the last two samples. With one
        // older sample, it is still below them.
        assert_eq!(feed(&mut r, vec![80; plateau - 1]), 0);
        assert_eq!(feed(&mut r, [90]), cuts, "{plateau} samples of 80 ms");
    }
}

#[test]
fn dca_epoch_ends_when_the_delay_returns_to_the_baseline() {
    let mut r = calm("dca");
    assert_eq!(feed(&mut r, [52]), 1);
    // The mean of 52 and 50 is still above 50.1.
    assert_eq!(feed(&mut r, [50, 52]), 0);
    let mut r = calm("dca");
    assert_eq!(feed(&mut r, [52]), 1);
    // 50 and 50 are below the average. After that, 51 > 50.2 + 0.6.
    assert_eq!(feed(&mut r, [50, 50, 52]), 1);
    assert_eq!(r.window(), START / 4);
}

#[test]
fn dca_epoch_start_option_ends_the_epoch_only_at_the_old_level() {
    let mut r = calm("dca:epoch=start");
    assert_eq!(feed(&mut r, 51..=80), 1);
    assert_eq!(feed(&mut r, [80; 200]), 0);
    assert_eq!(feed(&mut r, [90, 100, 80]), 0);
    // windowAVG(20) was 50.05 ms at the reaction.
    assert_eq!(feed(&mut r, [51; 30]), 0);
    assert_eq!(feed(&mut r, [50, 50]), 0);
    assert_eq!(feed(&mut r, [60]), 1);
}

#[test]
fn dca_options_x_and_w_set_the_averaging_windows() {
    // Three samples of 50 and one of 54: 54 > 51 + 1.73, but 52 is not.
    for (spec, cuts) in [("dca:x=1,w=4", 1), ("dca:x=2,w=4", 0)] {
        let mut r = still(spec);
        assert_eq!(feed(&mut r, [50, 50, 50, 54]), cuts, "{spec}");
    }
    // A window of 200 is full at the 200th sample.
    let mut r = still("dca:w=200");
    assert_eq!(feed(&mut r, [50; 198]), 0);
    assert_eq!(feed(&mut r, [60, 60]), 1);
}

#[test]
fn dca_frames_of_one_packet_give_no_sample_unless_configured() {
    for (spec, cuts) in [("dca", 0), ("dca:samples=all", 1)] {
        let mut r = still(spec);
        for rtt in [50; 20].into_iter().chain([60, 70, 80]) {
            r.frame(ms(rtt), 1);
        }
        assert_eq!(r.early(), cuts, "{spec}");
    }
}

#[test]
fn dca_takes_no_samples_in_recovery() {
    let mut r = calm("dca");
    let flight = r.now;
    r.lose(false);
    for _ in 0..5 {
        r.frame_sent(flight, ms(90), 2);
    }
    assert_eq!((r.early(), r.controller.metrics().phase), (0, Phase::Recovery));
    assert_eq!(feed(&mut r, [50]), 0, "recovery is over; none of the 90 ms is in the window");
    assert_eq!(feed(&mut r, [52]), 1);
}

#[test]
fn dca_takes_no_sample_from_acks_of_older_packets() {
    let mut r = calm("dca");
    let late = r.now - ms(60);
    assert_eq!(r.frame_sent(late, ms(90), 2), 0);
    assert_eq!(feed(&mut r, [50]), 0);
}

#[test]
fn new_path_clears_the_dca_samples() {
    let mut r = calm("dca");
    assert_eq!(feed(&mut r, [52]), 1);
    r.controller.on_path(r.now, PathChange::Moved);
    let base = r.now;
    for n in 0..20_u64 {
        assert_eq!(r.frame_sent(base + ms(n), ms(80), 2), 0);
    }
    assert_eq!(r.frame_sent(base + ms(20), ms(82), 2), -(START as i64) / 2, "and the epoch");
}

#[test]
fn dca_ignores_a_delay_rise_below_the_floor() {
    // 19 samples of 50 ms and one of 52 ms: the mean of the last two is 51 - 50.1 = 0.9 ms above
    // the average.
    for (spec, cuts) in [("dca:floor=0.9ms", 1), ("dca:floor=900001ns", 0), ("dca:floor=10s", 0)] {
        let mut r = calm(spec);
        assert_eq!(feed(&mut r, [52]), cuts, "{spec}");
    }
    // The standard deviation must be exceeded too. The last two samples are 5 and 9; all samples
    // have mean 5 and deviation 2.
    let mut r = still("dca:x=2,w=8,floor=1ms");
    assert_eq!(feed(&mut r, [2, 4, 4, 4, 5, 7, 5, 9]), 0);
    assert_eq!(feed(&mut still("dca:x=2,w=8,floor=3ms"), [2, 4, 4, 4, 5, 5, 7, 9]), 1, "8 - 5");
}
