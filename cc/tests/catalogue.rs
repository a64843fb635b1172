//! Tests of specs: a parsed spec is written back unchanged, and an error is one line with a hint.

use fathom_cc::catalogue::{self, CATALOGUE, SpecError, split};
use fathom_cc::hystart;
use fathom_cc::signal::Signal;
use fathom_cc::sync_tcp::{Cut, MAX_FLOOR, Recovery, Reset, SlowStart, SyncTcpConfig};
use fathom_cc::testing::script::values;
use fathom_cc::{Capabilities, ControllerConfig};
use proptest::prelude::*;
use std::time::Duration;

fn error(spec: &str) -> String {
    let message = catalogue::parse(spec).expect_err(spec).to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn every_algorithm_is_fully_documented() {
    for entry in CATALOGUE {
        let config = catalogue::parse(entry.name).expect(entry.name);
        assert_eq!(config.name(), entry.name);
        assert_eq!(config.spec(), entry.name, "all options at their defaults");
        assert_eq!(config.required(), entry.required);
        assert!(!entry.summary.is_empty() && !entry.source.is_empty());
        assert!(
            entry.aliases.iter().all(|alias| CATALOGUE.iter().all(|other| other.name != *alias))
        );
        assert!(entry.wraps.is_none_or(|inner| catalogue::parse(inner).is_ok()));
        for option in entry.options {
            assert!(option.values.allow(option.default), "{}:{} default", entry.name, option.name);
            assert!(!option.about.is_empty());
        }
    }
}

#[test]
fn every_controller_option_value_round_trips() {
    for entry in CATALOGUE {
        for option in entry.options {
            for word in values(&option.values) {
                let spec = format!("{}:{}={word}", entry.name, option.name);
                let expected =
                    if word == option.default { entry.name.to_owned() } else { spec.clone() };
                assert_eq!(catalogue::parse(&spec).expect(&spec).spec(), expected);
            }
        }
    }
}

#[test]
fn controller_spec_errors_suggest_a_fix() {
    let known = CATALOGUE.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
    assert_eq!(error(""), format!("no controller is named; choose one of: {known}"));
    assert_eq!(
        error("snyc"),
        format!("unknown controller 'snyc' (did you mean 'sync'?); known: {known}")
    );
    assert_eq!(error("quicksilver"), format!("unknown controller 'quicksilver'; known: {known}"));
    assert_eq!(
        error("sync:flor=1ms"),
        "'sync' has no option 'flor' (did you mean 'floor'?); options: signal, floor, slow-start, recovery, reset, cut, threshold, trust, hystart, search, rapid-start"
    );
    assert_eq!(
        error("reno:floor=1ms"),
        "'reno' has no option 'floor'; options: hystart, search, rapid-start"
    );
    assert_eq!(
        error("sync:floor=1min"),
        "'1min' is not a value of option 'floor' of 'sync'; the option takes 0ns to 10s"
    );
    assert_eq!(
        error("sync:signal=echo"),
        "'echo' is not a value of option 'signal' of 'sync'; the option takes one-way | rtt | either"
    );
    assert_eq!(
        error("sync:cut=round,cut=round"),
        "option 'cut' of 'sync' is given twice; give it once"
    );
    assert_eq!(
        error("sync:floor"),
        "option 'floor' of 'sync' has no value; write option=value; options: signal, floor, slow-start, recovery, reset, cut, threshold, trust, hystart, search, rapid-start"
    );
    assert_eq!(
        error("sync:"),
        "'sync' has an empty option; write sync:option=value, or leave ':' and ',' out"
    );
    assert!(matches!(catalogue::parse("sync:cut=round,"), Err(SpecError::NoValue { .. })));
    error("a\nb");
    error("sync:\n=\n");
}

#[test]
fn ghstcp_is_an_alias_of_gentle() {
    let config = catalogue::parse("ghstcp:trend=t-test").expect("an alias");
    assert_eq!(config.name(), "gentle");
    assert_eq!(config.spec(), "gentle:trend=t-test");
    assert_eq!(
        catalogue::parse("packet-size/ghstcp").expect("an alias").spec(),
        "packet-size/gentle"
    );
    assert!(CATALOGUE.iter().all(|algorithm| algorithm.name != "ghstcp"));
}

#[test]
fn sync_signal_option_sets_required_capabilities() {
    let one_way = Capabilities { one_way: true, ..Capabilities::NONE };
    for (spec, required, optional) in [
        ("sync", one_way, one_way),
        ("sync:signal=rtt", Capabilities::NONE, Capabilities::NONE),
        ("sync:signal=either", Capabilities::NONE, one_way),
    ] {
        let config = catalogue::parse(spec).expect(spec);
        assert_eq!((config.required(), config.optional()), (required, optional), "{spec}");
    }
}

fn any_sync() -> impl Strategy<Value = SyncTcpConfig> {
    let of = |n: usize| 0..n;
    (
        of(Signal::ALL.len()),
        0..=MAX_FLOOR.as_nanos() as u64,
        of(SlowStart::ALL.len()),
        of(Recovery::ALL.len()),
        of(Reset::ALL.len()),
        of(Cut::ALL.len()),
        of(hystart::Use::ALL.len()),
    )
        .prop_map(|(signal, floor, slow_start, recovery, reset, cut, hystart)| {
            SyncTcpConfig::default()
                .signal(Signal::ALL[signal])
                .floor(Duration::from_nanos(floor))
                .slow_start(SlowStart::ALL[slow_start])
                .recovery(Recovery::ALL[recovery])
                .reset(Reset::ALL[reset])
                .cut(Cut::ALL[cut])
                .hystart(hystart::Use::ALL[hystart])
        })
}

proptest! {
    #[test]
    fn controller_specs_round_trip(original in any_sync()) {
        let spec = original.spec();
        let read = catalogue::parse(&spec).expect(&spec);
        prop_assert_eq!(format!("{read:?}"), format!("{original:?}"));
        prop_assert_eq!(read.spec(), spec);
    }

    #[test]
    fn any_controller_text_parses_or_gives_a_one_line_error(text in "\\PC{0,30}|(sync|reno|synk):[a-z=,.0-9:-]{0,30}|(?s).{0,20}") {
        if let Err(e) = catalogue::parse(&text) {
            prop_assert_eq!(e.to_string().lines().count(), 1);
        }
    }
}

#[test]
fn controller_list_splits_without_breaking_option_lists() {
    assert_eq!(
        split("reno,sync:floor=1ms,signal=rtt,sync"),
        ["reno", "sync:floor=1ms,signal=rtt", "sync"]
    );
    // A server's list of controllers also has weights.
    assert_eq!(
        split("sync:floor=1ms=30,packet-size/reno=70"),
        ["sync:floor=1ms=30", "packet-size/reno=70"]
    );
}
