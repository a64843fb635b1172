//! Receivers misreport delays to obtain more than their share. No receiver may be faster than a
//! Reno flow in its place.
//!
//! The misreporting receiver knows the bottleneck's queue at every moment, which no real receiver
//! does. It shares the link with an honest Reno flow.

use std::sync::OnceLock;

use fathom_experiments::scenario::{Progress, ScenarioSpec, run};
use fathom_experiments::stack::{ClockMisreport, MISREPORTS, Stack};

/// Bytes that the misreporting receiver downloads: about 16 s at its share of the link.
const BODY: u64 = 10_000_000;
/// Number of runs over which gains are averaged. The honest flow begins at a different time in each
/// run.
const SEEDS: u64 = 3;
/// Largest gain that a misreport may have: 5 %.
const GAIN: f64 = 1.05;

/// Returns the seconds that the first flow needs beside a Reno flow.
fn seconds(controller: &str, misreport: Option<ClockMisreport>, seed: u64) -> f64 {
    seconds_on(Stack::Quinn, controller, misreport, seed)
}

fn seconds_on(stack: Stack, controller: &str, misreport: Option<ClockMisreport>, seed: u64) -> f64 {
    let text = format!(
        "
        stop = '2 responses'
        stack = '{stack}'
        [network]
        topology = 'dumbbell'
        link = '10Mbps'
        delay = '20ms'
        queue = 'droptail:60p'
        [[traffic]]
        name = 'first'
        from = 'left'
        to = 'right'
        workload = 'flows:1x{BODY}B'
        controller = '{controller}'
        max-window = 'stack'
        access = {{ queues = 'none' }}
        acks-queue = false
        [[traffic]]
        name = 'honest'
        from = 'left'
        to = 'right'
        workload = 'flows:1x{}B after {}ms'
        controller = 'reno'
        max-window = 'stack'
        access = {{ queues = 'none' }}
        acks-queue = false
        ",
        2 * BODY,
        300 * seed
    );
    let mut scenario =
        ScenarioSpec::from_toml(&text).and_then(|spec| spec.check()).expect("a scenario");
    scenario.traffic[0].misreport = misreport;
    let outcome = run(&scenario, seed, &Progress::default());
    let (outcome, _) = outcome.unwrap_or_else(|e| panic!("{controller}, seed {seed}: {e}"));
    let first = &outcome.groups["first"];
    let seconds = first.times.as_ref().map_or(f64::INFINITY, |times| times.mean_ms / 1e3);
    assert!(first.body_bytes == BODY && seconds < 200.0, "{controller}, seed {seed}: {first:?}");
    seconds
}

fn mean(controller: &str, misreport: Option<ClockMisreport>) -> f64 {
    (1..=SEEDS).map(|seed| seconds(controller, misreport, seed)).sum::<f64>() / SEEDS as f64
}

/// Returns, for each misreport, the speed of the flow as a multiple of Reno's speed.
fn gains(controller: &str) -> Vec<(&'static str, f64)> {
    static RENO: OnceLock<f64> = OnceLock::new();
    let reno = *RENO.get_or_init(|| mean("reno", None));
    let of = |(name, misreport): (&'static str, ClockMisreport)| {
        (name, reno / mean(controller, Some(misreport)))
    };
    let honest = reno / mean(controller, None);
    println!("{controller}: Reno takes {reno:.1} s; honest: {honest:.3}");
    MISREPORTS.into_iter().map(of).inspect(|(name, gain)| println!("  {name}: {gain:.3}")).collect()
}

fn none_gains(controller: &str) {
    for (name, gain) in gains(controller) {
        assert!(gain <= GAIN, "{controller}, '{name}': {gain:.3} times as fast as Reno");
    }
}

#[test]
fn misreporting_receivers_gain_nothing_over_reno_from_sync() {
    none_gains("sync");
}

#[test]
fn misreporting_receivers_gain_nothing_with_signal_either() {
    none_gains("sync:signal=either");
}

#[test]
fn misreporting_receivers_gain_nothing_on_other_stacks() {
    #[cfg(feature = "quiche")]
    let stacks = [Stack::Noq, Stack::Quiche];
    #[cfg(not(feature = "quiche"))]
    let stacks = [Stack::Noq];
    for stack in stacks {
        let reno = seconds_on(stack, "reno", None, 1);
        println!(
            "{stack:?}: Reno takes {reno:.1} s; honest: {:.3}",
            reno / seconds_on(stack, "sync", None, 1)
        );
        for (name, misreport) in [MISREPORTS[0], MISREPORTS[1], MISREPORTS[3]] {
            let gain = reno / seconds_on(stack, "sync", Some(misreport), 1);
            println!("  {name}: {gain:.3}");
            assert!(gain <= GAIN, "{stack:?}, '{name}': {gain:.3} times as fast as Reno");
        }
    }
}

#[test]
fn misreported_delays_reach_the_sender() {
    // Without this check, the tests above would prove nothing: each misreport must change the
    // controller's behaviour.
    let truth = seconds("sync", None, 1);
    let changed = MISREPORTS
        .iter()
        .filter(|(_, misreport)| seconds("sync", Some(*misreport), 1).to_bits() != truth.to_bits())
        .count();
    assert_eq!(changed, MISREPORTS.len(), "misreports that change nothing");
}

#[test]
fn sync_trust_limit_bounds_gain_of_misreporting_receivers() {
    let (name, misreport) = MISREPORTS[0];
    let gain = mean("reno", None) / mean("sync:trust=full", Some(misreport));
    println!("sync:trust=full, {name}: {gain:.3}");
    assert!(gain > 1.2, "'{name}' gains {gain:.3} where its word counts in everything");
}
