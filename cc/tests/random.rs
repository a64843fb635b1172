//! Invariants that must hold after any sequence of events, plausible or not. A failing case prints
//! a seed that proptest can replay.

use fathom_cc::aimd::MAX_WINDOW;
use fathom_cc::catalogue::{self, Algorithm, CATALOGUE, Values};
use fathom_cc::testing::script::{self, start};
use fathom_cc::{
    AckEvent, Acked, Cause, CongestionEvent, Controller, EcnDelta, OneWayDelay, Pacing, PathChange,
    Phase, Rtt, Sent, Time,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use std::time::Duration;

/// Returns any controller of the catalogue with any options, alone or in a wrapper.
fn spec() -> impl Strategy<Value = String> {
    let plain = || {
        CATALOGUE
            .iter()
            .filter(|entry| entry.wraps.is_none())
            .map(|entry| configured(entry).boxed())
    };
    let wrappers = CATALOGUE.iter().filter(|entry| entry.wraps.is_some());
    let wrapped = wrappers.map(|entry| {
        (configured(entry), proptest::option::of(Union::new(plain())))
            .prop_map(|(outer, inner)| {
                inner.map_or(outer.clone(), |inner| format!("{outer}/{inner}"))
            })
            .boxed()
    });
    Union::new(plain().chain(wrapped))
}

/// Returns `entry` with each option given or not. Integers are from the whole range or its ends.
fn configured(entry: &'static Algorithm) -> impl Strategy<Value = String> {
    let options: Vec<_> =
        entry.options.iter().map(|option| proptest::option::of(value(&option.values))).collect();
    options.prop_map(|chosen| {
        let given = entry
            .options
            .iter()
            .zip(chosen)
            .filter_map(|(o, value)| Some(format!("{}={}", o.name, value?)));
        let given: Vec<String> = given.collect();
        if given.is_empty() {
            entry.name.to_owned()
        } else {
            format!("{}:{}", entry.name, given.join(","))
        }
    })
}

fn value(values: &Values) -> BoxedStrategy<String> {
    let ends = proptest::sample::select(script::values(values));
    match *values {
        Values::Integer { min, max } => {
            prop_oneof![ends, (min..=max).prop_map(|n| n.to_string())].boxed()
        }
        _ => ends.boxed(),
    }
}

/// Configurations of Sync-TCP that must not outgrow Reno.
const LIMITED: &[&str] = &[
    "sync",
    "sync:signal=either,reset=both",
    "sync:recovery=steer,cut=round",
    "sync:slow-start=reno",
];

#[derive(Clone, Debug)]
enum Op {
    Sent(u64, u64),
    AckEvent {
        now: u64,
        packets: Vec<(u64, u64)>,
        rtt: u64,
        one_way: Option<i64>,
        app_limited: bool,
    },
    CongestionEvent {
        now: u64,
        sent: u64,
        cause: Cause,
    },
    Undo(u64),
    Path(u64, PathChange),
}

/// Returns mostly plausible numbers of nanoseconds or bytes, sometimes arbitrary ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..5_000_000_000_u64, 3 => 0..20_000_u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn delay() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 0..50_000_000_i64, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        2 => (number(), any::<bool>()).prop_map(|(bytes, persistent)| Cause::Loss { bytes, persistent }),
        1 => Just(Cause::Mark),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let acks = (
        number(),
        vec((number(), number()), 1..6),
        number(),
        proptest::option::of(delay()),
        any::<bool>(),
    );
    let path = prop_oneof![any::<u16>().prop_map(PathChange::Datagram), Just(PathChange::Moved)];
    prop_oneof![
        3 => (number(), number()).prop_map(|(now, bytes)| Op::Sent(now, bytes)),
        12 => acks.prop_map(|(now, packets, rtt, one_way, app_limited)| Op::AckEvent { now, packets, rtt, one_way, app_limited }),
        2 => (number(), number(), cause()).prop_map(|(now, sent, cause)| Op::CongestionEvent { now, sent, cause }),
        1 => number().prop_map(Op::Undo),
        1 => (number(), path).prop_map(|(now, change)| Op::Path(now, change)),
    ]
}

fn apply(controller: &mut dyn Controller, op: &Op) {
    let at = Time::from_nanos;
    match op {
        Op::Sent(now, bytes) => controller.on_sent(&Sent { now: at(*now), bytes: *bytes }),
        Op::AckEvent { now, packets, rtt, one_way, app_limited } => {
            let packets: Vec<Acked> = packets
                .iter()
                .map(|(sent, bytes)| Acked { sent: at(*sent), bytes: *bytes })
                .collect();
            let rtt = Duration::from_nanos(*rtt);
            controller.on_ack(&AckEvent {
                now: at(*now),
                packets: &packets,
                in_flight: *now,
                rtt: Rtt::first(rtt),
                one_way: one_way.map(OneWayDelay::from_nanos),
                ecn: Some(EcnDelta::default()),
                app_limited: *app_limited,
            });
        }
        Op::CongestionEvent { now, sent, cause } => {
            controller.on_congestion_event(&CongestionEvent {
                now: at(*now),
                sent: at(*sent),
                cause: *cause,
            });
        }
        Op::Undo(now) => controller.on_spurious_congestion_event(at(*now)),
        Op::Path(now, change) => controller.on_path(at(*now), *change),
    }
}

/// Checks the invariants after an event. `datagram` is the current size in bytes.
fn check(controller: &dyn Controller, datagram: u64) -> Result<(), TestCaseError> {
    let (params, metrics) = (controller.send_params(), controller.metrics());
    let datagram = params.datagram.map_or(datagram, u64::from);
    prop_assert!(params.window >= 2 * datagram && params.window <= MAX_WINDOW, "{params:?}");
    prop_assert_eq!(params.window, metrics.window);
    match params.pacing {
        Pacing::Window => {}
        Pacing::Rate(rate) => prop_assert!(rate.bits_per_sec() > 0),
        Pacing::Delay(hold) => prop_assert!(hold < Duration::from_secs(3_600)),
    }
    match (metrics.phase, metrics.threshold) {
        (Phase::SlowStart, Some(threshold)) => {
            prop_assert!(metrics.window < threshold, "{metrics:?}")
        }
        (Phase::SlowStart, None) | (Phase::Recovery, Some(_)) | (Phase::Avoidance, _) => {}
        (Phase::Recovery, None) => prop_assert!(false, "recovery without a threshold: {metrics:?}"),
    }
    Ok(())
}

fn seen(controller: &dyn Controller) -> String {
    format!("{:?} {:?}", controller.send_params(), controller.metrics())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn controller_invariants_hold_after_any_events(spec in spec(), ops in vec(op(), 0..120)) {
        let mut controller = catalogue::parse(&spec).expect("known").start(&start()).expect("all offered");
        let mut datagram = u64::from(start().datagram);
        for op in &ops {
            if let Op::Path(_, PathChange::Datagram(bytes)) = op {
                datagram = u64::from(*bytes).max(1);
            }
            let before = controller.metrics();
            apply(&mut *controller, op);
            check(&*controller, datagram)?;
            let after = controller.metrics();
            prop_assert!(after.reductions >= before.reductions && after.early_reductions >= before.early_reductions
                || matches!(op, Op::Path(_, PathChange::Moved)));
        }
    }

    /// Holds whatever a peer reports about delays, and whenever.
    #[test]
    fn sync_never_has_a_larger_window_than_reno(options in 0..LIMITED.len(), ops in vec(op(), 0..300)) {
        let make = |spec: &str| catalogue::parse(spec).expect("known").start(&start()).expect("all offered");
        let (mut sync, mut reno) = (make(LIMITED[options]), make("reno"));
        let mut rounding = 0;
        // Undo events are left out. A spurious loss is undone only if the window has not outgrown
        // the loss since (RFC 9438 §4.9.2). This condition may hold for Sync-TCP's window but not
        // for Reno's.
        for op in ops.iter().filter(|op| !matches!(op, Op::Undo(_))) {
            apply(&mut *sync, op);
            apply(&mut *reno, op);
            // A round adds a datagram to the window with which it began, and the rounds of the
            // smaller window are shorter.
            rounding = match op {
                Op::Path(_, PathChange::Datagram(bytes)) => rounding.max(u64::from(*bytes)),
                _ => rounding.max(u64::from(start().datagram)),
            };
            let (a, b) = (sync.send_params().window, reno.send_params().window);
            prop_assert!(a <= b + rounding, "{a} beside {b}");
        }
    }

    #[test]
    fn equal_events_give_equal_state_and_clones_do_not_interact(
        spec in spec(),
        shared in vec(op(), 0..60),
        only_first in vec(op(), 1..30),
    ) {
        let make = || catalogue::parse(&spec).expect("known").start(&start()).expect("all offered");
        let (mut a, mut b) = (make(), make());
        for op in &shared {
            apply(&mut *a, op);
            apply(&mut *b, op);
        }
        prop_assert_eq!(seen(&*a), seen(&*b));
        let (kept, was) = (a.boxed(), seen(&*a));
        for op in &only_first {
            apply(&mut *a, op);
        }
        prop_assert_eq!(seen(&*kept), was);
        let mut again = kept.boxed();
        for op in &only_first {
            apply(&mut *again, op);
        }
        prop_assert_eq!(seen(&*again), seen(&*a));
    }

    #[test]
    fn undo_restores_a_single_loss_and_never_lowers_the_window(spec in spec(), ops in vec(op(), 0..60), bytes in number()) {
        let mut controller = catalogue::parse(&spec).expect("known").start(&start()).expect("all offered");
        for op in &ops {
            apply(&mut *controller, op);
        }
        let before = controller.metrics();
        controller.on_congestion_event(&CongestionEvent {
            now: Time::from_nanos(u64::MAX),
            sent: Time::from_nanos(u64::MAX),
            cause: Cause::Loss { bytes, persistent: false },
        });
        let reacted = controller.metrics().reductions > before.reductions;
        let reduced = controller.send_params().window;
        controller.on_spurious_congestion_event(Time::from_nanos(u64::MAX));
        prop_assert!(controller.send_params().window >= reduced);
        if reacted {
            prop_assert_eq!((controller.metrics().window, controller.metrics().threshold), (before.window, before.threshold));
        }
    }
}
