//! Contract tests: the properties on which a stack may rely with any controller.
//! [`contract_tests!`](crate::contract_tests) generates the tests. If the source of a controller
//! requires a different behaviour, the controller's entry says so ([`Algorithm::contract`]).

use std::sync::Once;
use std::time::Duration;

use super::script::{self, ALL_SIGNALS, MSS, Script, start, variants};
use super::{Bottleneck, Event, Log, RecordingConfig};
use crate::aimd::initial_window;
use crate::catalogue::{self, Algorithm};
use crate::{
    Capabilities, Cause, ControllerConfig as _, Pacing, PathChange, Phase, Rate, Start, Time,
};

/// The controllers under test, identified by name.
pub type Entries = &'static [Algorithm];

/// Returns `entries`, after adding them to the catalogue if any of them is unknown.
///
/// # Panics
/// Panics if the catalogue rejects them.
pub fn known(entries: Entries) -> Entries {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if entries.iter().any(|entry| catalogue::find(entry.name).is_err()) {
            catalogue::extend(entries).unwrap_or_else(|e| panic!("{e}"));
        }
    });
    entries
}

/// Generates a `#[test]` for each property of [`testing::contract`](crate::testing::contract), for
/// the given controllers (`&'static [Algorithm]`). Give all controllers in one call, because the
/// catalogue can be extended only once.
#[macro_export]
macro_rules! contract_tests {
    ($entries:expr) => {
        $crate::contract_tests! { $entries;
            initial_window_follows_rfc_9002,
            slow_start_doubles_window_per_round_without_queueing,
            losses_cut_the_window_once_per_round,
            ecn_mark_reduces_the_window_as_a_loss_does,
            window_does_not_grow_in_recovery,
            avoidance_adds_one_datagram_per_round_without_queueing,
            persistent_congestion_reduces_window_to_two_datagrams,
            window_never_falls_below_two_datagrams,
            app_limited_window_does_not_grow,
            queueing_never_makes_an_app_limited_window_grow,
            queueing_never_makes_the_window_grow_in_recovery,
            window_grows_again_after_a_loss_on_a_calm_path,
            metrics_match_send_params,
            undo_that_comes_too_late_changes_nothing,
            datagram_size_changes_are_adopted,
            new_path_restarts_the_controller,
            spurious_loss_is_undone,
            cloned_controllers_are_independent,
            missing_signal_is_reported_with_a_hint,
            clock_offset_does_not_change_the_window_curve,
            recording_does_not_change_the_controller_and_is_bounded,
        }
    };
    ($entries:expr; $($property:ident,)+) => {
        $(
            #[test]
            fn $property() {
                $crate::testing::contract::$property($crate::testing::contract::known($entries));
            }
        )+
    };
}

/// Runs `test` on each entry with a fresh controller, and prints the controller's name for use in
/// failures.
fn each(entries: Entries, test: impl Fn(&Algorithm, Script)) {
    for entry in entries {
        println!("controller {}", entry.name);
        test(entry, Script::new(entry.name));
    }
}

/// Runs `test` on every variant of every controller.
fn each_variant(entries: Entries, test: impl Fn(&str, Script)) {
    for spec in entries.iter().flat_map(variants) {
        println!("controller {spec}");
        test(&spec, Script::new(&spec));
    }
}

/// Returns whether the window never grows with these options, according to the controller's own
/// rule.
fn still(spec: &str) -> bool {
    catalogue::all().any(|entry| {
        entry.contract.still.iter().any(|options| spec == format!("{}:{options}", entry.name))
    })
}

/// Returns whether the window may grow while the application is the limit, according to the
/// controller's own rule.
fn grows_app_limited(spec: &str) -> bool {
    let names = || spec.split('/').filter_map(|part| part.split(':').next());
    catalogue::all()
        .any(|entry| entry.contract.grows_app_limited && names().any(|name| name == entry.name))
}

/// Returns the queueing delay of frame `n` in microseconds: up to 20 ms and back to zero over 40
/// frames.
fn wave(n: u64) -> u64 {
    let phase = n % 40;
    1_000 * phase.min(40 - phase)
}

/// Delivers one ACK frame, 10 ms after the last one. Its one-way delay and its RTT both contain
/// this queueing delay.
fn ack_queued(s: &mut Script, queued_us: u64) {
    s.now += Duration::from_millis(9);
    s.rtt = script::RTT + Duration::from_micros(queued_us);
    s.ack(queued_us as i64);
}

/// Returns the rate window / (RTT + added delay), in bytes per second. A controller can lower this
/// rate by the window or by the delay.
fn rate(s: &Script) -> f64 {
    let hold = match s.controller.send_params().pacing {
        Pacing::Delay(hold) => hold,
        Pacing::Window | Pacing::Rate(_) => Duration::ZERO,
    };
    s.window() as f64 / (s.rtt + hold).as_secs_f64()
}

/// Checks that the initial window is that of RFC 9002.
pub fn initial_window_follows_rfc_9002(entries: Entries) {
    each(entries, |_, s| {
        assert_eq!(s.window(), initial_window(MSS));
        assert_eq!(s.controller.metrics().phase, Phase::SlowStart);
    });
}

/// Checks that slow start doubles the window per round trip without queueing.
pub fn slow_start_doubles_window_per_round_without_queueing(entries: Entries) {
    each(entries, |entry, mut s| {
        if !entry.contract.doubles {
            return;
        }
        s.acks(10, 0);
        assert_eq!(s.window(), 20 * MSS);
    });
}

/// Checks that losses cut the window once per round trip.
pub fn losses_cut_the_window_once_per_round(entries: Entries) {
    each(entries, |entry, mut s| {
        let loss = entry.contract.loss;
        let before = s.window();
        s.lose();
        s.lose();
        s.congestion_event(Cause::Mark);
        assert_eq!((s.window(), s.controller.metrics().phase), (loss.of(before), Phase::Recovery));
        s.next_round();
        s.ack(0);
        assert_ne!(s.controller.metrics().phase, Phase::Recovery);
        let (before, least) = (rate(&s), entry.contract.least);
        s.lose();
        let share = rate(&s) / before;
        let expected = f64::from(loss.num()) / f64::from(loss.den());
        assert!((share - expected).abs() < 1e-3, "{share} of the rate left");
        assert!(s.window() >= least(MSS));
    });
}

/// Checks that a mark reduces the window as a loss does, or as the controller's source says.
pub fn ecn_mark_reduces_the_window_as_a_loss_does(entries: Entries) {
    each(entries, |entry, mut marked| {
        let before = marked.window();
        let mut lost = Script::new(entry.name);
        marked.congestion_event(Cause::Mark);
        lost.lose();
        let expected = entry.contract.mark.map_or(lost.window(), |kept| kept.of(before));
        assert_eq!(marked.window(), expected);
    });
}

/// Checks that the window does not grow in recovery.
pub fn window_does_not_grow_in_recovery(entries: Entries) {
    each(entries, |_, mut s| {
        s.lose();
        let old = s.now;
        let before = s.window();
        for _ in 0..8 {
            s.ack_sent(old, 0);
        }
        assert_eq!(s.window(), before);
    });
}

/// Checks that avoidance adds one datagram per round trip without queueing.
pub fn avoidance_adds_one_datagram_per_round_without_queueing(entries: Entries) {
    each(entries, |entry, mut s| {
        if !entry.contract.one_per_round {
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

/// Checks that persistent congestion reduces the window to two datagrams.
pub fn persistent_congestion_reduces_window_to_two_datagrams(entries: Entries) {
    each(entries, |entry, mut s| {
        s.acks(30, 0);
        s.lose();
        s.collapse();
        assert_eq!((s.window(), s.controller.metrics().phase), (2 * MSS, Phase::SlowStart));
        s.next_round();
        s.ack(0);
        assert_eq!(s.window(), entry.contract.after_collapse.of(MSS));
    });
}

/// Checks that the window never falls below two datagrams.
pub fn window_never_falls_below_two_datagrams(entries: Entries) {
    each(entries, |entry, mut s| {
        for _ in 0..40 {
            s.lose();
            s.now += Duration::from_millis(1);
        }
        assert!(s.window() >= 2 * s.controller.send_params().datagram.map_or(MSS, u64::from));
        assert_eq!(s.window(), (entry.contract.least)(MSS));
    });
}

/// Checks that the window of an application-limited sender does not grow.
pub fn app_limited_window_does_not_grow(entries: Entries) {
    each(entries, |entry, mut s| {
        if entry.contract.grows_app_limited {
            return;
        }
        s.app_limited = true;
        s.acks(40, 0);
        assert_eq!(s.window(), initial_window(MSS));
        s.lose();
        s.next_round();
        s.acks(40, 0);
        assert_eq!(s.window(), entry.contract.loss.of(initial_window(MSS)));
    });
}

/// Checks that the window of an application-limited sender never grows while the queue rises and
/// falls.
pub fn queueing_never_makes_an_app_limited_window_grow(entries: Entries) {
    each_variant(entries, |spec, mut s| {
        if grows_app_limited(spec) {
            return;
        }
        // The phases are, in order: the first slow start, avoidance, slow start again after a
        // collapse, and avoidance again.
        for step in 0..4 {
            s.app_limited = true;
            for n in 0..130 {
                let before = s.window();
                ack_queued(&mut s, wave(n));
                assert!(
                    s.window() <= before,
                    "{before} to {} in step {step}, frame {n}",
                    s.window()
                );
            }
            s.app_limited = false;
            for n in 0..130 {
                ack_queued(&mut s, wave(n));
            }
            if step % 2 == 0 {
                s.lose()
            } else {
                s.collapse()
            }
            s.next_round();
        }
    });
}

/// Checks that the window never grows in recovery while the queue rises and falls.
pub fn queueing_never_makes_the_window_grow_in_recovery(entries: Entries) {
    each_variant(entries, |_, mut s| {
        for n in 0..50 {
            ack_queued(&mut s, wave(n));
        }
        s.lose();
        let old = s.now;
        for n in 0..50 {
            let before = s.window();
            s.rtt = script::RTT + Duration::from_micros(wave(n));
            s.ack_sent(old, wave(n) as i64);
            assert!(s.window() <= before, "{before} to {}, frame {n}", s.window());
            assert_eq!(s.controller.metrics().phase, Phase::Recovery);
        }
    });
}

/// Checks that the window grows again after a loss if the path is calm.
pub fn window_grows_again_after_a_loss_on_a_calm_path(entries: Entries) {
    each_variant(entries, |spec, mut s| {
        if still(spec) {
            return;
        }
        s.acks(20, 0);
        s.lose();
        s.next_round();
        let before = s.window();
        // A delay that the sender adds must disappear before the window grows.
        for _ in 0..3_000 {
            s.now += Duration::from_millis(9);
            s.ack(0);
        }
        assert!(s.window() >= before + 5 * MSS, "{before} to {}", s.window());
    });
}

/// Checks that the metrics match the send parameters.
pub fn metrics_match_send_params(entries: Entries) {
    each_variant(entries, |_, mut s| {
        for step in 0..200 {
            let (params, metrics) = (s.controller.send_params(), s.controller.metrics());
            let hold = match params.pacing {
                Pacing::Delay(hold) => hold,
                Pacing::Window | Pacing::Rate(_) => Duration::ZERO,
            };
            assert_eq!((metrics.window, metrics.datagram), (params.window, params.datagram));
            assert_eq!(metrics.hold.unwrap_or_default(), hold);
            ack_queued(&mut s, wave(step));
            if step % 23 == 0 {
                s.lose();
            }
        }
    });
}

/// Checks that an undo that comes too late changes nothing.
pub fn undo_that_comes_too_late_changes_nothing(entries: Entries) {
    each_variant(entries, |spec, mut s| {
        if still(spec) {
            return;
        }
        let before = s.window();
        s.lose();
        s.next_round();
        for _ in 0..4_000 {
            s.now += Duration::from_millis(9);
            s.ack(0);
        }
        assert!(s.window() > before);
        let now = s.controller.metrics();
        s.controller.on_spurious_congestion_event(s.now);
        let undone = s.controller.metrics();
        assert_eq!(
            (undone.window, undone.threshold, undone.phase),
            (now.window, now.threshold, now.phase)
        );
    });
}

/// Checks that the controller adopts a new datagram size.
pub fn datagram_size_changes_are_adopted(entries: Entries) {
    each(entries, |entry, mut s| {
        s.controller.on_path(s.now, PathChange::Datagram(1_400));
        assert_eq!(s.window(), initial_window(1_400));
        for _ in 0..20 {
            s.lose();
            s.now += Duration::from_millis(1);
        }
        assert_eq!(s.window(), (entry.contract.least)(1_400));
        s.controller.on_path(s.now, PathChange::Datagram(9_000));
        assert_eq!(s.window(), (entry.contract.least_on)(9_000));
    });
}

/// Checks that the controller starts over on another path.
pub fn new_path_restarts_the_controller(entries: Entries) {
    each(entries, |_, mut s| {
        s.acks(30, 4_000);
        s.lose();
        s.controller.on_path(s.now, PathChange::Moved);
        let metrics = s.controller.metrics();
        assert_eq!((metrics.window, metrics.threshold), (initial_window(MSS), None));
        assert_eq!((metrics.phase, metrics.queueing), (Phase::SlowStart, None));
    });
}

/// Checks that a spurious loss is undone.
pub fn spurious_loss_is_undone(entries: Entries) {
    each(entries, |_, mut s| {
        s.acks(5, 0);
        let before = (s.window(), s.controller.metrics().threshold);
        s.lose();
        s.controller.on_spurious_congestion_event(s.now);
        assert_eq!((s.window(), s.controller.metrics().threshold), before);
    });
}

/// Checks that a copy of a controller is independent of the original.
pub fn cloned_controllers_are_independent(entries: Entries) {
    each(entries, |_, mut s| {
        let copy = s.controller.boxed();
        let before = copy.send_params();
        // Some controllers ignore single losses.
        s.collapse();
        assert_eq!(copy.send_params(), before);
        assert_ne!(s.controller.send_params(), before);
    });
}

/// Checks that a missing signal is reported with its name and a hint.
pub fn missing_signal_is_reported_with_a_hint(entries: Entries) {
    for entry in entries {
        let config = catalogue::parse(entry.name).expect(entry.name);
        let bare = Start { provided: Capabilities::NONE, ..start() };
        match config.start(&bare) {
            Ok(_) => {
                assert!(entry.required.is_none(), "{} started without what it needs", entry.name)
            }
            Err(missing) => {
                assert_eq!((missing.controller, missing.signals), (entry.name, entry.required));
                for name in entry.required.names() {
                    assert!(missing.to_string().contains(name), "{missing}");
                }
                assert!(missing.to_string().contains(missing.hint) && !missing.hint.is_empty());
            }
        }
        assert!(config.start(&Start { provided: ALL_SIGNALS, ..start() }).is_ok());
    }
}

/// Checks that the same path gives the same curve whatever the clock offset is.
pub fn clock_offset_does_not_change_the_window_curve(entries: Entries) {
    let path = Bottleneck {
        rate: Rate::from_bits_per_sec(10_000_000),
        forward: Duration::from_millis(20),
        reverse: Duration::from_millis(20),
        queue: 50_000,
        datagram: MSS as u16,
        per_ack: 2,
        clock_offset: 0,
    };
    each(entries, |entry, _| {
        let run = |clock_offset| {
            let mut controller = catalogue::parse(entry.name)
                .expect(entry.name)
                .start(&start_at_zero())
                .expect(entry.name);
            Bottleneck { clock_offset, ..path }
                .run(&mut *controller, Duration::from_secs(5))
                .to_csv()
        };
        assert!(run(0) == run(0));
        assert!(run(0) == run(-1_000_000_000_000), "an offset of clocks changed something");
    });
}

fn start_at_zero() -> Start {
    Start { now: Time::ZERO, ..start() }
}

/// Checks that recording does not change a controller and that the log stays bounded.
pub fn recording_does_not_change_the_controller_and_is_bounded(entries: Entries) {
    each(entries, |entry, mut plain| {
        let log = Log::new(5);
        let recorded =
            RecordingConfig::new(catalogue::parse(entry.name).expect(entry.name), log.clone());
        assert_eq!((recorded.name(), recorded.required()), (entry.name, entry.required));
        let mut s = Script::new(entry.name);
        s.controller = recorded.start(&start()).expect(entry.name);
        for script in [&mut plain, &mut s] {
            script.acks(20, 3_000);
            script.send();
            script.lose();
            script.controller.on_spurious_congestion_event(script.now);
            script.controller.on_path(script.now, PathChange::Moved);
        }
        assert_eq!(s.controller.metrics(), plain.controller.metrics());
        let records = log.records();
        assert_eq!(records.len(), 5);
        assert!(
            matches!(records[0].event, Event::AckEvent { ref packets, .. } if packets.len() == 1)
        );
        assert!(matches!(records[1].event, Event::Sent(_)));
        assert!(matches!(records[2].event, Event::CongestionEvent(_)));
        assert!(matches!(records[3].event, Event::Undo(_)));
        assert!(matches!(records[4].event, Event::Path(_, PathChange::Moved)));
        assert_eq!(records[4].params, plain.controller.send_params());
    });
}
