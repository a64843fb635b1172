//! Tests of TCP/DUAL with real events, in rounds. The expected windows are computed by hand.

use crate::rounds;

use fathom_cc::{PathChange, Phase};
use rounds::{INITIAL, MSS, Rounds};
use std::time::Duration;

const START: u64 = INITIAL * MSS;

/// Returns a sender whose window does not grow, so that every change is a cut.
fn still(spec: &str) -> Rounds {
    let mut r = Rounds::new(spec);
    r.app_limited = true;
    r
}

/// Runs rounds with these RTTs in ms. Returns the number of cuts.
fn feed(r: &mut Rounds, rtts_ms: &[u64]) -> u64 {
    let before = r.early();
    rtts_ms.iter().for_each(|rtt| r.round(*rtt));
    r.early() - before
}

#[test]
fn dual_cuts_window_by_an_eighth_every_second_rtt_above_middle() {
    let mut r = still("dual");
    let steps = [
        (50, START),           // Begins the first round.
        (50, START),           // Ends it.
        (90, START * 7 / 8),   // Ends the second: 90 > (50 + 90) / 2.
        (90, START * 7 / 8),   // Ends the first of two: no decision.
        (70, START * 7 / 8),   // 70 is the middle, not above it.
        (71, START * 7 / 8),   // No decision.
        (71, START * 49 / 64), // 71 > 70.
        (90, START * 49 / 64), // No decision.
        (69, START * 49 / 64), // Below.
    ];
    for (round, (rtt, window)) in steps.into_iter().enumerate() {
        r.round(rtt);
        assert_eq!(r.window(), window, "round {round}");
    }
    let metrics = r.controller.metrics();
    assert_eq!((metrics.early_reductions, metrics.reductions), (2, 0));
    assert_eq!(metrics.queueing, Some(Duration::from_millis(19)));
    assert_eq!(metrics.phase, Phase::Avoidance, "a cut ends slow start");
}

#[test]
fn dual_growth_matches_reno() {
    let (mut dual, mut reno) = (Rounds::new("dual"), Rounds::new("reno"));
    for r in [&mut dual, &mut reno] {
        assert_eq!(r.rounds(&[50, 50, 50]), [20, 40, 80]);
        r.lose(false);
        assert_eq!(r.rounds(&[50, 50, 50, 50]), [41, 42, 43, 44]);
    }
}

#[test]
fn dual_grows_below_the_middle_delay_and_cuts_above_it() {
    let mut r = Rounds::new("dual");
    assert_eq!(r.rounds(&[50, 90]), [20, 40]);
    r.lose(false);
    // The window is 20 packets. The first round begins here, and the decision comes two rounds
    // later: 66 ms are below 70 ms.
    assert_eq!(r.rounds(&[66, 66, 66, 66]), [21, 22, 23, 24]);
    r.round(80);
    // The first of twelve frames adds 2/24 of a packet, 100 bytes, and then takes one eighth of
    // 28 900 bytes away, which leaves 25 287 bytes. The other 26 400 bytes are a whole window,
    // which adds a packet, and 1 113 bytes of the next window.
    let rest = 1_200 + 1_200 * (26_400 - 25_287) / 26_487;
    assert_eq!((r.window(), r.early()), (25_287 + rest, 1));
}

#[test]
fn one_long_delay_raises_middle_of_dual_range_until_reset() {
    for (spec, persistent, cuts) in [
        ("dual", true, 0),
        ("dual:reset=timeout", false, 0),
        ("dual:reset=timeout", true, 1),
        ("dual:reset=loss", false, 1),
        ("dual:reset=loss", true, 1),
    ] {
        let mut r = still(spec);
        feed(&mut r, &[50, 250]);
        r.lose(persistent);
        // The middle of 50 and 250 is 150. The middle of 50 and 90 is 70.
        assert_eq!(feed(&mut r, &[50, 90, 90]), cuts, "{spec}, persistent {persistent}");
    }
}

#[test]
fn dual_makes_no_decision_in_recovery_and_restarts_its_count() {
    let mut r = still("dual");
    assert_eq!(feed(&mut r, &[50, 90]), 0);
    let flight = r.now;
    r.lose(false);
    assert_eq!(r.window(), START / 2);
    for _ in 0..3 {
        r.frame_sent(flight, Duration::from_millis(90), 2);
    }
    assert_eq!((r.early(), r.controller.metrics().phase), (0, Phase::Recovery));
    assert_eq!(feed(&mut r, &[90, 90]), 0);
    assert_eq!(feed(&mut r, &[90]), 1);
    assert_eq!(r.window(), START / 2 * 7 / 8);
}

#[test]
fn new_path_clears_the_dual_delay_range() {
    let mut r = still("dual");
    feed(&mut r, &[50, 90]);
    r.controller.on_path(r.now, PathChange::Moved);
    assert_eq!(r.controller.metrics().queueing, None);
    assert_eq!(feed(&mut r, &[90, 90, 90, 90, 90]), 0, "all the same: no range");
    assert_eq!(r.controller.metrics().queueing, Some(Duration::ZERO));
}
