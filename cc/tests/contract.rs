//! One suite over every controller of the catalogue: what a stack may rely on, whichever it runs.

mod common;

use common::{ALL_SIGNALS, MSS, Script, start};
use fathom_cc::aimd::initial_window;
use fathom_cc::catalogue::{CATALOGUE, Entry, recipe};
use fathom_cc::testing::{Bottleneck, Event, Log, RecordingRecipe};
use fathom_cc::{Cause, PathChange, Phase, Rate, Ratio, Signals, Start};
use std::time::Duration;

/// Where a controller's own rule differs from NewReno's; its module says why.
struct Ways {
    /// What a loss leaves of the initial window.
    loss: Ratio,
    /// Slow start doubles per round trip without queueing.
    doubles: bool,
    /// Avoidance adds exactly one datagram per round trip without queueing.
    one_per_round: bool,
    /// A loss always cuts; otherwise the controller may slow down by other means at small windows.
    always_cuts: bool,
    /// After persistent congestion the window doubles per round trip.
    collapses_to_slow_start: bool,
}

/// A new controller that differs from NewReno adds its line here.
fn ways(name: &str) -> Ways {
    let reno = Ways {
        loss: Ratio::HALF,
        doubles: true,
        one_per_round: true,
        always_cuts: true,
        collapses_to_slow_start: true,
    };
    match name {
        // SDC §2.2: below eight packets the delay grows, the window stays, and grows by one packet per round trip.
        "sdc" => Ways { always_cuts: false, collapses_to_slow_start: false, ..reno },
        // Below eight datagrams in the window the datagram shrinks, and with it what is added per round trip.
        "packet-size" => Ways { one_per_round: false, always_cuts: false, ..reno },
        // CUBIC leaves 0.7 and grows by the time since the loss (RFC 9438 §4).
        "cubic" => Ways { loss: Ratio::new(7, 10), one_per_round: false, ..reno },
        // It doubles every other round trip only, so that the rounds between show what the queue does (Vegas-CAM, DCA §4.4).
        "vegas" => Ways { doubles: false, ..reno },
        _ => reno,
    }
}

/// Runs `test` on each entry with a fresh controller; the name is printed when it fails.
fn each(test: impl Fn(&Entry, Script)) {
    for entry in CATALOGUE {
        println!("controller {}", entry.name);
        test(entry, Script::new(entry.name));
    }
}

#[test]
fn the_initial_window_is_that_of_the_rfc() {
    each(|_, s| {
        assert_eq!(s.window(), initial_window(MSS));
        assert_eq!(s.controller.snapshot().phase, Phase::SlowStart);
    });
}

#[test]
fn slow_start_doubles_per_round_without_queueing() {
    each(|entry, mut s| {
        if !ways(entry.name).doubles {
            return;
        }
        s.acks(10, 0);
        assert_eq!(s.window(), 20 * MSS);
    });
}

#[test]
fn a_loss_cuts_once_per_round() {
    each(|entry, mut s| {
        let Ways { loss, always_cuts, .. } = ways(entry.name);
        let before = s.window();
        s.lose();
        s.lose();
        s.setback(Cause::Mark);
        assert_eq!((s.window(), s.controller.snapshot().phase), (loss.of(before), Phase::Recovery));
        s.next_round();
        s.ack(0);
        assert_ne!(s.controller.snapshot().phase, Phase::Recovery);
        let before = s.window();
        s.lose();
        if always_cuts {
            assert_eq!(s.window(), loss.of(before));
        }
    });
}

#[test]
fn a_mark_reduces_as_a_loss_does() {
    each(|entry, mut marked| {
        let mut lost = Script::new(entry.name);
        marked.setback(Cause::Mark);
        lost.lose();
        assert_eq!(marked.window(), lost.window());
    });
}

#[test]
fn recovery_does_not_grow() {
    each(|_, mut s| {
        s.lose();
        let old = s.now;
        let before = s.window();
        for _ in 0..8 {
            s.ack_sent(old, 0);
        }
        assert_eq!(s.window(), before);
    });
}

#[test]
fn avoidance_adds_one_datagram_per_round_without_queueing() {
    each(|entry, mut s| {
        if !ways(entry.name).one_per_round {
            return;
        }
        s.acks(10, 0);
        s.lose();
        s.next_round();
        let before = s.window();
        s.acks((before / MSS) as usize, 0);
        assert_eq!(s.window(), before + MSS);
    });
}

#[test]
fn persistent_congestion_collapses_to_two_datagrams() {
    each(|entry, mut s| {
        s.acks(30, 0);
        s.lose();
        s.collapse();
        assert_eq!((s.window(), s.controller.snapshot().phase), (2 * MSS, Phase::SlowStart));
        s.next_round();
        s.ack(0);
        if ways(entry.name).collapses_to_slow_start {
            assert_eq!(s.window(), 3 * MSS, "slow start again");
        }
    });
}

#[test]
fn the_window_never_falls_below_two_datagrams() {
    each(|entry, mut s| {
        for _ in 0..40 {
            s.lose();
            s.now += Duration::from_millis(1);
        }
        assert!(s.window() >= 2 * s.controller.advice().datagram.map_or(MSS, u64::from));
        assert!(s.window() == 2 * MSS || !ways(entry.name).always_cuts);
    });
}

#[test]
fn an_app_limited_sender_does_not_grow() {
    each(|entry, mut s| {
        s.app_limited = true;
        s.acks(40, 0);
        assert_eq!(s.window(), initial_window(MSS));
        s.lose();
        s.next_round();
        s.acks(40, 0);
        assert_eq!(s.window(), ways(entry.name).loss.of(initial_window(MSS)));
    });
}

#[test]
fn datagram_changes_are_honoured() {
    each(|entry, mut s| {
        s.controller.on_path(s.now, PathChange::Datagram(1_400));
        assert_eq!(s.window(), initial_window(1_400));
        for _ in 0..20 {
            s.lose();
            s.now += Duration::from_millis(1);
        }
        assert!(s.window() == 2 * 1_400 || !ways(entry.name).always_cuts);
        s.controller.on_path(s.now, PathChange::Datagram(9_000));
        assert!(s.window() == 2 * 9_000 || (!ways(entry.name).always_cuts && s.window() >= 2 * 9_000));
    });
}

#[test]
fn another_path_starts_over() {
    each(|_, mut s| {
        s.acks(30, 4_000);
        s.lose();
        s.controller.on_path(s.now, PathChange::Moved);
        let snapshot = s.controller.snapshot();
        assert_eq!((snapshot.window, snapshot.threshold), (initial_window(MSS), None));
        assert_eq!((snapshot.phase, snapshot.queueing), (Phase::SlowStart, None));
    });
}

#[test]
fn a_spurious_loss_is_undone() {
    each(|_, mut s| {
        s.acks(5, 0);
        let before = (s.window(), s.controller.snapshot().threshold);
        s.lose();
        s.controller.on_undo(s.now);
        assert_eq!((s.window(), s.controller.snapshot().threshold), before);
    });
}

#[test]
fn copies_go_their_own_way() {
    each(|_, mut s| {
        let copy = s.controller.boxed();
        let before = copy.advice();
        s.lose();
        assert_eq!(copy.advice(), before);
        assert_ne!(s.controller.advice(), before);
    });
}

#[test]
fn a_missing_signal_is_named_with_a_mend() {
    for entry in CATALOGUE {
        let recipe = recipe(entry.name).expect(entry.name);
        let bare = Start { offers: Signals::NONE, ..start() };
        match recipe.start(&bare) {
            Ok(_) => assert!(entry.needs.is_none(), "{} started without what it needs", entry.name),
            Err(missing) => {
                assert_eq!((missing.controller, missing.signals), (entry.name, entry.needs));
                for name in entry.needs.names() {
                    assert!(missing.to_string().contains(name), "{missing}");
                }
                assert!(missing.to_string().contains(missing.mend) && !missing.mend.is_empty());
            }
        }
        assert!(recipe.start(&Start { offers: ALL_SIGNALS, ..start() }).is_ok());
    }
}

#[test]
fn same_path_same_curve_whatever_the_clock_offset() {
    let path = Bottleneck {
        rate: Rate::from_bits_per_sec(10_000_000),
        forward: Duration::from_millis(20),
        reverse: Duration::from_millis(20),
        queue: 50_000,
        datagram: MSS as u16,
        per_ack: 2,
        clock_offset: 0,
    };
    each(|entry, _| {
        let run = |clock_offset| {
            let mut controller = recipe(entry.name).expect(entry.name).start(&start_at_zero()).expect(entry.name);
            Bottleneck { clock_offset, ..path }.run(&mut *controller, Duration::from_secs(5)).to_csv()
        };
        assert!(run(0) == run(0));
        assert!(run(0) == run(-1_000_000_000_000), "an offset of clocks changed something");
    });
}

fn start_at_zero() -> Start {
    Start { now: fathom_cc::Time::ZERO, ..start() }
}

#[test]
fn a_recorded_controller_behaves_as_itself_and_the_log_is_bounded() {
    use fathom_cc::Recipe as _;
    each(|entry, mut plain| {
        let log = Log::new(5);
        let recorded = RecordingRecipe::new(recipe(entry.name).expect(entry.name), log.clone());
        assert_eq!((recorded.name(), recorded.needs()), (entry.name, entry.needs));
        let mut s = Script::new(entry.name);
        s.controller = recorded.start(&start()).expect(entry.name);
        for script in [&mut plain, &mut s] {
            script.acks(20, 3_000);
            script.send();
            script.lose();
            script.controller.on_undo(script.now);
            script.controller.on_path(script.now, PathChange::Moved);
        }
        assert_eq!(s.controller.snapshot(), plain.controller.snapshot());
        let records = log.records();
        assert_eq!(records.len(), 5);
        assert!(matches!(records[0].event, Event::Acks { ref packets, .. } if packets.len() == 1));
        assert!(matches!(records[1].event, Event::Sent(_)));
        assert!(matches!(records[2].event, Event::Setback(_)));
        assert!(matches!(records[3].event, Event::Undo(_)));
        assert!(matches!(records[4].event, Event::Path(_, PathChange::Moved)));
        assert_eq!(records[4].advice, plain.controller.advice());
    });
}
