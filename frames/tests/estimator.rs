//! Tests of the estimator on simulated paths with clock drift, clock wraps, clock steps, queues in
//! either direction, and misreports.

use crate::common;

use std::time::Duration;

use common::Noise;
use fathom_frames::sync_timestamp::stamp;
use fathom_frames::{Echo, Estimator, Sample, Timestamp};
use fathom_units::Time;
use proptest::prelude::*;

/// A path with two clocks. All times are in microseconds; `t` is the time when our packet leaves.
struct Path {
    /// Time on the peer's clock when ours shows zero.
    offset: i64,
    /// Rate by which the peer's clock runs faster than ours, in us/s.
    skew: f64,
    /// Propagation delay in each direction.
    one_way: f64,
    /// Queueing delay in the forward direction and in the reverse direction.
    forward: fn(f64) -> f64,
    reverse: fn(f64) -> f64,
    /// Largest time for which the peer delays its ACK; the peer reports it in steps of 8 us.
    hold: f64,
    /// Largest random delay added in each direction.
    jitter: f64,
    /// Time between two of our packets.
    gap: f64,
    noise: Noise,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            offset: 123_456_789,
            skew: 0.0,
            one_way: 20_000.0,
            forward: |_| 0.0,
            reverse: |_| 0.0,
            hold: 0.0,
            jitter: 50.0,
            gap: 2_000.0,
            noise: Noise::new(1),
        }
    }
}

/// One answer of the peer, with the values for both modes, and the true queueing.
struct Answer {
    now: Time,
    sent: Time,
    stamped: u32,
    ack_delay: Duration,
    echo: Echo,
    queued: f64,
}

impl Path {
    fn answer(&mut self, t: f64) -> Answer {
        let clock = |t: f64| (self.offset + (t + self.skew * 1e-6 * t) as i64) as u32;
        let queued = (self.forward)(t);
        let arrives = t + self.one_way + queued + self.noise.up_to(self.jitter);
        let held = self.noise.up_to(self.hold);
        let leaves = arrives + held;
        let now = leaves + self.one_way + (self.reverse)(t) + self.noise.up_to(self.jitter);
        let at = |t: f64| Time::from_nanos((t * 1e3) as u64);
        let sent = stamp(at(t));
        let echo = Echo { sent, transit: clock(arrives).wrapping_sub(sent) };
        let ack_delay = Duration::from_micros(held as u64 / 8 * 8);
        Answer { now: at(now), sent: at(t), stamped: clock(leaves), ack_delay, echo, queued }
    }
}

impl Answer {
    fn lean(&self, packet: u64, min_rtt: Duration) -> Sample {
        Sample::lean(self.now, packet, self.stamped, self.ack_delay, self.sent, min_rtt)
    }
}

/// Result of one answer, in us, except `t`, which is in seconds.
#[derive(Debug)]
struct Reading {
    t: f64,
    output: Option<f64>,
    queued: f64,
    room: f64,
    min_rtt: f64,
}

/// Runs `path` from `start` for `seconds`. `lie` changes the samples on their way.
fn run(
    path: &mut Path,
    start: f64,
    seconds: f64,
    mut lie: impl FnMut(f64, &mut Sample),
) -> (Estimator, Vec<Reading>) {
    let mut estimator = Estimator::default();
    let mut min_rtt = Duration::MAX;
    let mut readings = Vec::new();
    let mut newest = Time::ZERO;
    for packet in 0..(seconds * 1e6 / path.gap) as u64 {
        let t = packet as f64 * path.gap;
        let answer = path.answer(start + t);
        if answer.now < newest {
            continue;
        }
        newest = answer.now;
        min_rtt = min_rtt.min(answer.now.since(answer.sent));
        let mut sample = answer.lean(packet, min_rtt);
        lie(t, &mut sample);
        let output = estimator.sample(answer.now, &sample).map(|d| d.as_nanos() as f64 * 1e-3);
        let room = (sample.rtt - min_rtt).as_secs_f64() * 1e6;
        readings.push(Reading {
            t: t * 1e-6,
            output,
            queued: answer.queued,
            room,
            min_rtt: min_rtt.as_secs_f64() * 1e6,
        });
    }
    (estimator, readings)
}

fn honest(path: &mut Path, seconds: f64) -> (Estimator, Vec<Reading>) {
    run(path, 1e6, seconds, |_, _| ())
}

/// Returns the largest error of the output from `after` seconds on, in us.
fn worst(readings: &[Reading], after: f64) -> f64 {
    let errors =
        readings.iter().filter(|r| r.t >= after).filter_map(|r| Some((r.output? - r.queued).abs()));
    errors.fold(0.0, f64::max)
}

#[test]
fn constant_queue_gives_constant_estimate_with_any_drift() {
    let queues: [fn(f64) -> f64; 3] = [
        |_| 0.0,
        |t| if t > 3e6 { 20_000.0 } else { 0.0 },
        // There is hardly any time to learn the drift on a quiet path.
        |t| if t > 1.5e6 { 20_000.0 } else { 0.0 },
    ];
    for (forward, skew) in queues.into_iter().flat_map(|q| [-500.0, 78.0, 500.0].map(|s| (q, s))) {
        let (estimator, readings) = honest(&mut Path { skew, forward, ..Path::default() }, 120.0);
        assert!(worst(&readings, 0.5) < 400.0, "skew {skew}: {} us off", worst(&readings, 0.5));
        let counters = estimator.counters();
        assert_eq!((counters.steps, counters.dropped_bound), (0, 0), "skew {skew}");
        assert!((counters.skew_ppb as f64 - skew * 1e3).abs() < 10e3, "skew {skew}: {counters:?}");
    }
}

#[test]
fn clock_drift_is_learned_although_the_queue_never_empties() {
    for skew in [-500.0, 500.0] {
        let forward = |t: f64| if t < 3e6 { 0.0 } else { 20_000.0 + t % 4e6 / 100.0 };
        let (_, readings) = honest(&mut Path { skew, forward, ..Path::default() }, 120.0);
        assert!(worst(&readings, 0.5) < 400.0, "skew {skew}: {} us off", worst(&readings, 0.5));
    }
}

#[test]
fn ack_delay_with_clock_drift_changes_the_estimate_little() {
    for skew in [-500.0, 500.0] {
        let forward = |t: f64| if t > 3e6 { 20_000.0 } else { 0.0 };
        let (estimator, readings) =
            honest(&mut Path { skew, forward, hold: 25_000.0, ..Path::default() }, 120.0);
        assert!(worst(&readings, 0.5) < 400.0, "skew {skew}: {} us off", worst(&readings, 0.5));
        assert_eq!(estimator.counters().steps, 0);
    }
}

#[test]
fn delay_ramp_counts_as_queueing_and_not_as_drift() {
    for skew in [-500.0, 0.0, 500.0] {
        let forward = |t: f64| if t < 10e6 { 0.0 } else { t % 60e6 / 1_000.0 };
        let (_, readings) = honest(&mut Path { skew, forward, ..Path::default() }, 120.0);
        assert!(worst(&readings, 0.5) < 300.0, "skew {skew}: {} us off", worst(&readings, 0.5));
        assert!(readings.iter().any(|r| r.queued > 55_000.0 && r.output.is_some()));
    }
}

#[test]
fn reverse_path_hardly_affects_the_forward_estimate() {
    for skew in [-500.0, 0.0, 500.0] {
        let reverse = |t: f64| if t > 3e6 { 50_000.0 } else { 0.0 };
        let (_, readings) = honest(&mut Path { skew, reverse, ..Path::default() }, 120.0);
        assert!(worst(&readings, 0.5) < 500.0, "skew {skew}: {} us off", worst(&readings, 0.5));
    }
}

#[test]
fn clock_wraparound_does_not_affect_the_estimate() {
    let readings = |start: f64, offset: i64| {
        let mut path = Path { offset, forward: |t| t % 1e6 / 50.0, ..Path::default() };
        run(&mut path, start, 20.0, |_, _| ()).1
    };
    // Our clock wraps after 5 s and the peer's after 7 s. In the other run neither does.
    let wrap = (1u64 << 32) as f64;
    let (wrapping, plain) = (readings(wrap - 5e6, -2_000_000), readings(wrap % 1e6, 0));
    assert_eq!(wrapping.len(), plain.len());
    for (a, b) in wrapping.iter().zip(&plain) {
        assert!(a.output.zip(b.output).is_some_and(|(a, b)| (a - b).abs() < 2.0), "{a:?} {b:?}");
    }
}

#[test]
fn delay_estimate_recovers_from_a_clock_step() {
    for step in [-3_600_000_000i64, -1_000_000, -30_000, 30_000, 1_000_000, 3_600_000_000] {
        // The queue is at 20 ms when the clock is set, and empties a second later.
        let mut path = Path {
            forward: |t| if (5e6..7e6).contains(&t) { 20_000.0 } else { 0.0 },
            ..Path::default()
        };
        let set = |t: f64, s: &mut Sample| {
            s.transit = s.transit.wrapping_add(if t > 5e6 { step as u32 } else { 0 })
        };
        let (estimator, readings) = run(&mut path, 1e6, 20.0, set);
        let counters = estimator.counters();
        assert_eq!((counters.steps, counters.dropped_bound), (1, 3), "step {step}");
        assert!(worst(&readings, 0.0) < 500.0, "step {step}: {} us off", worst(&readings, 0.0));
    }
}

#[test]
fn queue_that_empties_late_lowers_the_baseline_at_once() {
    let mut path = Path { forward: |t| if t < 3e6 { 30_000.0 } else { 0.0 }, ..Path::default() };
    let (estimator, readings) = honest(&mut path, 10.0);
    assert!(worst(&readings, 2.1) < 300.0, "{} us off", worst(&readings, 2.1));
    assert_eq!(estimator.counters().steps, 0);
}

#[test]
fn delay_samples_longer_than_the_rtt_are_dropped() {
    for claim in [-40_000i32, 5_000, 40_000] {
        // Every other sample is wrong, so the wrong ones do not come in a row.
        let lie = |t: f64, s: &mut Sample| {
            if t > 2e6 && s.packet.is_multiple_of(2) {
                s.transit = s.transit.wrapping_add(claim as u32);
            }
        };
        let (estimator, readings) = run(&mut Path::default(), 1e6, 10.0, lie);
        let counters = estimator.counters();
        assert_eq!((counters.dropped_bound, counters.steps), (2_000 - 1, 0), "claim {claim}");
        assert!(worst(&readings, 0.0) < 300.0, "claim {claim}: {} us off", worst(&readings, 0.0));
    }
}

#[test]
fn constant_misreport_of_delays_counts_as_a_clock_step() {
    for claim in [-40_000i32, 40_000] {
        let lie = |t: f64, s: &mut Sample| {
            if (2e6..6e6).contains(&t) {
                s.transit = s.transit.wrapping_add(claim as u32);
            }
        };
        let (estimator, readings) = run(&mut Path::default(), 1e6, 10.0, lie);
        assert_eq!(estimator.counters().steps, 2, "claim {claim}");
        assert!(worst(&readings, 0.0) < 300.0, "claim {claim}: {} us off", worst(&readings, 0.0));
    }
}

#[test]
fn impossible_ack_delay_is_dropped() {
    let lie =
        |t: f64, s: &mut Sample| s.ack_delay = Duration::from_secs(if t == 0.0 { 1 } else { 0 });
    let (estimator, readings) = run(&mut Path::default(), 1e6, 1.0, lie);
    assert_eq!(readings[0].output, None);
    assert_eq!(estimator.counters().dropped_bound, 1);
}

#[test]
fn echo_of_another_packet_is_ignored() {
    let (a, b) = (Path::default().answer(1e6), Path::default().answer(0.0));
    assert!(Sample::echoed(a.now, 1, a.echo, Duration::ZERO, a.sent, Duration::MAX).is_some());
    assert_eq!(Sample::echoed(a.now, 1, b.echo, Duration::ZERO, a.sent, Duration::MAX), None);
}

#[test]
fn sample_of_an_older_packet_is_dropped() {
    let mut path = Path::default();
    let mut estimator = Estimator::default();
    for (packet, used) in [(5, true), (4, false), (5, false), (6, true)] {
        let answer = path.answer(1e6 + packet as f64 * 1e3);
        assert_eq!(
            estimator.sample(answer.now, &answer.lean(packet, Duration::MAX)).is_some(),
            used
        );
    }
    assert_eq!(estimator.counters().dropped_reordered, 2);
}

#[test]
fn lean_and_paper_estimates_agree() {
    let forward = |t: f64| 10_000.0 * (1.0 + (t * 2e-6).sin());
    let mut path = Path { skew: 200.0, forward, hold: 25_000.0, ..Path::default() };
    let (mut lean, mut paper) = (Estimator::default(), Estimator::default());
    let mut newest = Time::ZERO;
    for packet in 0..15_000 {
        let a = path.answer(1e6 + packet as f64 * 2e3);
        if a.now < newest {
            continue;
        }
        newest = a.now;
        let one = lean.sample(a.now, &a.lean(packet, Duration::MAX));
        let echoed = Sample::echoed(a.now, packet, a.echo, a.ack_delay, a.sent, Duration::MAX)
            .expect("matches");
        let other = paper.sample(a.now, &echoed);
        let Some((one, other)) = one.zip(other) else { continue };
        let apart = (one.as_nanos() - other.as_nanos()).abs();
        assert!(apart < 30_000, "packet {packet}: {apart} ns apart");
    }
    assert!(lean.counters().samples > 4_000 && paper.counters().samples > 4_000);
}

/// TIMESTAMP uses the same clock in coarser units.
#[test]
fn timestamp_frames_agree_with_lean_stamps_up_to_their_unit() {
    let forward = |t: f64| 10_000.0 * (1.0 + (t * 2e-6).sin());
    for exponent in [0, 3, 8] {
        let mut path = Path { skew: 200.0, forward, hold: 20_000.0, ..Path::default() };
        let (mut lean, mut coarse) = (Estimator::default(), Estimator::default());
        let mut newest = Time::ZERO;
        for packet in 0..15_000 {
            let a = path.answer(1e6 + packet as f64 * 2e3);
            if a.now < newest {
                continue;
            }
            newest = a.now;
            let stamped = Timestamp::new(u64::from(a.stamped), exponent).micros(exponent);
            let sample = Sample::lean(a.now, packet, stamped, a.ack_delay, a.sent, Duration::MAX);
            let one = lean.sample(a.now, &a.lean(packet, Duration::MAX));
            let Some((one, other)) = one.zip(coarse.sample(a.now, &sample)) else { continue };
            let apart = (one.as_nanos() - other.as_nanos()).abs();
            assert!(
                apart < (50 + (1 << exponent)) * 1_000,
                "packet {packet}, exponent {exponent}: {apart} ns apart"
            );
        }
        assert!(coarse.counters().samples > 4_000, "{:?}", coarse.counters());
        assert_eq!(coarse.counters().steps, 0);
    }
}

proptest! {
    #![proptest_config(common::config())]

    /// With any values in TIMESTAMP frames, in any unit, no output is below zero or above the round
    /// trip.
    #[test]
    fn delays_from_timestamps_are_bounded_by_the_rtt(seed in 1u64.., exponent in 0u8..=20, values in proptest::collection::vec((any::<u64>(), 0..62u32, any::<bool>()), 1..40)) {
        let mut path = Path { forward: |t| t % 3e6 / 100.0, gap: 10_000.0, noise: Noise::new(seed), ..Path::default() };
        let mut values = values.into_iter().cycle();
        let lie = |_: f64, s: &mut Sample| {
            let Some((value, shift, honest)) = values.next() else { return };
            if !honest {
                let claimed = Timestamp { scaled: (value >> 2) >> shift };
                s.transit = s.transit.wrapping_add(claimed.micros(exponent));
            }
        };
        let (_, readings) = run(&mut path, 1e6, 10.0, lie);
        let mut last = 0.0;
        for r in &readings {
            let Some(output) = r.output else { continue };
            let tolerance = (r.min_rtt / 16.0).max(1e3) + 500.0 * (r.t - last) + 20.0;
            last = r.t;
            prop_assert!(output <= r.room + tolerance && output >= -tolerance, "{r:?}");
        }
    }

    /// Whatever the peer reports, no output exceeds the RTT or falls below zero by more than the
    /// tolerance and the possible drift. The possible drift is that of the time in which reports
    /// were dropped.
    #[test]
    fn misreported_delays_are_bounded_by_the_rtt(seed in 1u64.., size in 4.0..32.0f64, often in 0.0..1.0f64) {
        let mut noise = Noise::new(seed);
        let mut path = Path { forward: |t| t % 3e6 / 100.0, gap: 10_000.0, noise: Noise::new(seed), ..Path::default() };
        let lie = |_: f64, s: &mut Sample| {
            if noise.up_to(1.0) < often {
                s.transit = s.transit.wrapping_add(((noise.up_to(2.0) - 1.0) * size.exp2()) as i64 as u32);
                s.ack_delay = Duration::from_micros(noise.up_to(60_000.0) as u64);
            }
        };
        let (_, readings) = run(&mut path, 1e6, 20.0, lie);
        let mut last = 0.0;
        for r in &readings {
            let Some(output) = r.output else { continue };
            // The clocks may drift by 500 us/s without being observed.
            let tolerance = (r.min_rtt / 16.0).max(1e3) + 500.0 * (r.t - last) + 20.0;
            last = r.t;
            prop_assert!(output <= r.room + tolerance, "{r:?}");
            prop_assert!(output >= -tolerance, "{r:?}");
        }
    }

    /// Any samples in any order give a value or `None`.
    #[test]
    fn estimator_accepts_any_samples_without_panic(samples in proptest::collection::vec(any::<(u64, u64, u32, [Duration; 3])>(), 0..200)) {
        let mut estimator = Estimator::default();
        for (now, packet, transit, [rtt, ack_delay, min_rtt]) in samples {
            let sample = Sample { packet, transit, rtt, ack_delay, min_rtt };
            let _ = estimator.sample(Time::from_nanos(now), &sample);
        }
        let counters = estimator.counters();
        prop_assert!(counters.skew_ppb.abs() <= 1_000_000);
    }

    /// Nearby values, so that samples pass more of the rules.
    #[test]
    fn plausible_samples_give_bounded_delays(samples in proptest::collection::vec((0u64..50_000, any::<i16>(), [0u64..100_000, 0..50_000, 0..100_000]), 1..300)) {
        let mut estimator = Estimator::default();
        let mut now = Time::ZERO;
        for (packet, (gap, transit, times)) in samples.into_iter().enumerate() {
            now += Duration::from_micros(gap);
            let [rtt, ack_delay, min_rtt] = times.map(Duration::from_micros);
            let sample = Sample { packet: packet as u64, transit: transit as u32, rtt, ack_delay, min_rtt };
            if let Some(delay) = estimator.sample(now, &sample) {
                prop_assert!(delay.as_nanos().unsigned_abs() < 1_000_000_000);
            }
        }
    }
}
