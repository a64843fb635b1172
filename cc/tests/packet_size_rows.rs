//! Adaptive packet size, scripted: datagrams of 1200 bytes, eight in the window.

mod common;

use common::{MSS, Script};
use fathom_cc::{Cause, PathChange};

fn size(s: &Script) -> u16 {
    s.controller.advice().datagram.expect("steered")
}

#[test]
fn the_datagram_shrinks_with_the_window_at_once() {
    let mut s = Script::new("packet-size");
    assert_eq!((s.window(), size(&s)), (12_000, 1_200));
    s.lose(); // 6000 bytes: eight of 750
    assert_eq!((s.window(), size(&s)), (6_000, 750));
    s.next_round();
    s.lose(); // 3000: eight of 375 at most, so 250
    assert_eq!((s.window(), size(&s)), (3_000, 250));
    s.next_round();
    s.lose();
    assert_eq!((s.window(), size(&s)), (1_500, 250), "the smallest there is");
}

#[test]
fn it_grows_back_one_step_after_four_roomy_rounds() {
    let mut s = Script::new("packet-size");
    s.lose();
    assert_eq!(size(&s), 750);
    s.next_round();
    // Eight of 1000 are 8000 bytes. Avoidance adds 750 per window: 6000, 6750, 7500, 8250.
    let mut rounds = 0;
    while size(&s) == 750 {
        s.next_round();
        s.bytes = s.window();
        s.ack(0);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(size(&s), 1_000);
    // Three rounds to hold 8000 bytes, the round that is then under way, and four whole ones.
    assert!((7..=9).contains(&rounds), "{rounds}");
}

#[test]
fn the_wrapped_controller_grows_by_the_size_in_use_or_by_full_datagrams() {
    for (spec, added) in [("packet-size", 750), ("packet-size:increase=full", MSS)] {
        let mut s = Script::new(spec);
        s.lose();
        s.next_round();
        let before = s.window();
        s.bytes = before;
        s.ack(0);
        assert_eq!(s.window(), before + added, "{spec}");
    }
}

#[test]
fn it_wraps_any_controller_and_hands_its_needs_on() {
    let recipe = fathom_cc::catalogue::recipe("packet-size:packets=4/sync:cut=round").expect("known");
    assert_eq!(recipe.spec(), "packet-size:packets=4/sync:cut=round");
    assert!(recipe.needs().datagram && recipe.needs().one_way);
    let mut s = Script::new("packet-size/sync");
    s.lose();
    assert_eq!(size(&s), 750);
    for wrong in ["reno/sync", "packet-size/packet-size", "packet-size/", "packet-size/nothing"] {
        let error = fathom_cc::catalogue::recipe(wrong).expect_err(wrong).to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_path_with_smaller_datagrams_bounds_the_size() {
    let mut s = Script::new("packet-size");
    s.controller.on_path(s.now, PathChange::Datagram(600));
    assert_eq!(size(&s), 600);
    s.setback(Cause::Mark);
    s.next_round();
    s.setback(Cause::Mark);
    assert!(size(&s) <= 500);
    s.controller.on_path(s.now, PathChange::Moved);
    assert_eq!(size(&s), 600);
}
