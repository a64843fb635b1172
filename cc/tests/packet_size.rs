//! Scripted tests of adaptive packet size. Datagrams have up to 1200 bytes, and the window holds
//! eight of them.

use fathom_cc::testing::script::{self, MSS, Script};
use fathom_cc::{Cause, PathChange};
use std::time::Duration;

fn size(s: &Script) -> u16 {
    s.controller.send_params().datagram.expect("steered")
}

#[test]
fn datagram_size_shrinks_at_once_with_the_window() {
    let mut s = Script::new("packet-size");
    assert_eq!((s.window(), size(&s)), (12_000, 1_200));
    s.lose(); // 6000 bytes: eight datagrams of 750
    assert_eq!((s.window(), size(&s)), (6_000, 750));
    s.next_round();
    s.lose(); // 3000 bytes: eight datagrams of 375 at most, so 250
    assert_eq!((s.window(), size(&s)), (3_000, 250));
    s.next_round();
    s.lose();
    assert_eq!((s.window(), size(&s)), (1_500, 250), "the smallest there is");
}

#[test]
fn datagram_size_grows_one_step_after_four_rounds_with_room() {
    let mut s = Script::new("packet-size");
    s.lose();
    assert_eq!(size(&s), 750);
    s.next_round();
    // Eight datagrams of 1000 bytes are 8000 bytes. Avoidance adds 750 bytes per window: 6000,
    // 6750, 7500, 8250.
    let mut rounds = 0;
    while size(&s) == 750 {
        s.next_round();
        s.bytes = s.window();
        s.ack(0);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(size(&s), 1_000);
    // Three rounds until the window holds 8000 bytes, the current round, and four whole rounds.
    assert!((7..=9).contains(&rounds), "{rounds}");
}

#[test]
fn packet_size_increase_option_sets_growth_of_inner_controller() {
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
fn packet_size_wraps_any_controller_and_passes_on_its_needs() {
    let config =
        fathom_cc::catalogue::parse("packet-size:packets=4/sync:cut=round").expect("known");
    assert_eq!(config.spec(), "packet-size:packets=4/sync:cut=round");
    assert!(config.required().datagram && config.required().one_way);
    let mut s = Script::new("packet-size/sync");
    s.lose();
    assert_eq!(size(&s), 750);
    for wrong in ["reno/sync", "packet-size/packet-size", "packet-size/", "packet-size/nothing"] {
        let error = fathom_cc::catalogue::parse(wrong).expect_err(wrong).to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn path_mtu_bounds_the_datagram_size() {
    let mut s = Script::new("packet-size");
    s.controller.on_path(s.now, PathChange::Datagram(600));
    assert_eq!(size(&s), 600);
    s.congestion_event(Cause::Mark);
    s.next_round();
    s.congestion_event(Cause::Mark);
    assert!(size(&s) <= 500);
    s.controller.on_path(s.now, PathChange::Moved);
    assert_eq!(size(&s), 600);
}

#[test]
fn packet_size_full_increase_does_not_change_inner_controller() {
    // The wrapped controller always counts in datagrams of the path, so the current size changes
    // nothing in it. The windows are the same as without the wrapper.
    for inner in ["cubic", "reno", "highspeed", "dual"] {
        let (mut s, mut plain) =
            (Script::new(&format!("packet-size:increase=full/{inner}")), Script::new(inner));
        let mut sizes = std::collections::BTreeSet::new();
        for script in [&mut s, &mut plain] {
            script.lose();
        }
        for _ in 0..600 {
            for script in [&mut s, &mut plain] {
                script.bytes = 777;
                script.ack(0);
                script.now += Duration::from_millis(15);
            }
            assert_eq!(s.window(), plain.window(), "{inner}");
            sizes.insert(size(&s));
        }
        assert!(sizes.len() >= 2, "{inner}: {sizes:?}");
    }
}

#[test]
fn datagram_size_grows_only_after_whole_rounds_with_room() {
    let mut s = Script::new("packet-size:increase=full");
    s.lose(); // 6000 bytes: 750
    // In the middle of a round trip, the window becomes large enough for eight datagrams of
    // 1000 bytes: 8400 bytes after two windows.
    s.next_round();
    for window in [6_000, 7_200] {
        s.bytes = window;
        s.ack(0);
    }
    assert_eq!((s.window(), size(&s)), (8_400, 750));
    // This round trip did not have enough room from its start; the following four have. The window
    // does not grow in any of them.
    s.app_limited = true;
    let mut rounds = 0;
    while size(&s) == 750 {
        s.next_round();
        s.ack(0);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(rounds, 5);
    // The next size, 1200 bytes, needs a window of 9600 bytes for another four whole round trips.
    s.app_limited = false;
    s.bytes = 8_400;
    s.ack(0);
    assert_eq!((s.window(), size(&s)), (9_600, 1_000));
    s.app_limited = true;
    s.bytes = MSS;
    for n in 0..5 {
        assert_eq!(size(&s), 1_000, "after {n} round trips");
        s.next_round();
        s.ack(0);
    }
    assert_eq!(size(&s), 1_200);
}

#[test]
fn round_that_ends_with_a_cut_does_not_grow_datagram_size() {
    // `dual` cuts with the ACK that ends every second round trip, here from 8400 to 7350 bytes.
    // Eight datagrams of 1000 bytes are 8000 bytes.
    let mut s = Script::new("packet-size:patience=1,increase=full/dual");
    s.lose();
    s.next_round();
    for window in [6_000, 7_200] {
        s.bytes = window;
        s.ack(0);
    }
    assert_eq!((s.window(), size(&s)), (8_400, 750));
    s.app_limited = true;
    s.bytes = MSS;
    let early = |s: &Script| s.controller.metrics().early_reductions;
    // The current round trip ends, but the window was too small at its start. In the next round
    // trip the window is large enough from the start, but this round trip ends with the cut.
    s.next_round();
    s.ack(0);
    assert_eq!((size(&s), early(&s)), (750, 0));
    s.rtt = Duration::from_millis(400);
    s.next_round();
    s.ack(0);
    assert_eq!((s.window(), size(&s), early(&s)), (7_350, 750, 1));
}

#[test]
fn missing_capabilities_are_reported_by_their_controller() {
    use fathom_cc::{Capabilities, catalogue};
    let lacking = |offers: Capabilities| {
        catalogue::parse("packet-size/sync").expect("known").check(offers).expect_err("lacking")
    };
    let all = script::ALL_SIGNALS;
    let error = lacking(Capabilities { one_way: false, ..all });
    assert_eq!(error.controller, "sync");
    assert!(error.to_string().contains("sync:signal=rtt"), "{error}");
    assert_eq!(lacking(Capabilities { datagram: false, ..all }).controller, "packet-size");
    assert_eq!(lacking(Capabilities::NONE).controller, "packet-size");
    assert!(catalogue::parse("packet-size/sync").expect("known").check(all).is_ok());
}

#[test]
fn larger_mtu_does_not_change_a_small_window() {
    for inner in ["", "/cubic"] {
        let mut s = Script::new(&format!("packet-size{inner}"));
        for _ in 0..20 {
            s.lose();
            s.next_round();
        }
        assert_eq!((s.window(), size(&s)), (500, 250));
        s.controller.on_path(s.now, PathChange::Datagram(9_000));
        assert_eq!((s.window(), size(&s)), (500, 250), "packet-size{inner}");
    }
}

#[test]
fn only_a_spurious_loss_restores_the_datagram_size() {
    let mut s = Script::new("packet-size");
    s.lose();
    assert_eq!((s.window(), size(&s)), (6_000, 750));
    s.controller.on_spurious_congestion_event(s.now);
    assert_eq!((s.window(), size(&s)), (12_000, 1_200));
    s.next_round();
    s.lose();
    s.next_round();
    s.congestion_event(Cause::Mark);
    assert_eq!((s.window(), size(&s)), (3_000, 250));
    s.controller.on_spurious_congestion_event(s.now);
    assert_eq!(
        (s.window(), size(&s)),
        (3_000, 250),
        "a mark is never spurious, nor is what came before it"
    );
}
