//! The window on paths that are its own, and on those that it shares.

use super::*;
use crate::capabilities::Capabilities;
use crate::event::{Acked, Cause, Rtt, Start};

const DATAGRAM: u64 = 1_200;
/// Round trip without a queue, and longest queueing delay, in seconds.
const BASE: f64 = 0.04;
const BUFFER: f64 = 0.08;

/// A link that one flow of plumb, or the flow and others, keep busy.
struct Path {
    rule: Plumb,
    /// Round trip without a queue in seconds.
    base: f64,
    /// Part of the queueing delay that the peer reports as its one-way delay, if it does.
    reports: Option<f64>,
    window: Aimd,
    now: f64,
    /// Window of the last round trip in bytes.
    sent: f64,
    /// Whether the application is the limit.
    limited: bool,
}

impl Path {
    fn new() -> Self {
        Self::with(PlumbConfig::default())
    }

    fn with(config: PlumbConfig) -> Self {
        let start =
            Start { now: Time::ZERO, datagram: DATAGRAM as u16, provided: Capabilities::NONE };
        let window = Aimd::new(&start);
        let rule = config.rule(&window, Time::ZERO);
        Self {
            rule,
            base: BASE,
            reports: None,
            window,
            now: 0.0,
            sent: window_of(10.0),
            limited: false,
        }
    }

    /// One round trip in which `queue`, given the window of the previous one, is the queueing
    /// delay in seconds. The buffer holds [`BUFFER`]. Returns the delay.
    fn round(&mut self, queue: impl Fn(f64) -> f64) -> f64 {
        let delay = queue(self.sent).min(BUFFER);
        if delay == BUFFER {
            self.lose();
        }
        let rtt = self.base + delay;
        self.sent = self.window.window() as f64;
        let frames = (self.sent / DATAGRAM as f64 / 2.0).ceil().max(2.0);
        for _ in 0..frames as u32 {
            self.now += rtt / frames;
            let time = |s: f64| Time::from_nanos((s.max(0.0) * 1e9) as u64);
            let packets = [Acked { sent: time(self.now - rtt), bytes: DATAGRAM }; 2];
            let one_way =
                self.reports.map(|part| OneWayDelay::from_nanos((part * delay * 1e9) as i64));
            let latest = Duration::from_secs_f64(rtt);
            let acks = AckEvent {
                now: time(self.now),
                packets: &packets,
                in_flight: 0,
                rtt: Rtt::first(latest),
                one_way,
                ecn: None,
                app_limited: self.limited,
            };
            let acked = self.window.on_ack(&acks);
            self.rule.on_ack(&mut self.window, &acks, acked);
        }
        delay
    }

    /// Loses the newest packet.
    fn lose(&mut self) {
        self.congest(Cause::Loss { bytes: DATAGRAM, persistent: false });
    }

    fn congest(&mut self, cause: Cause) {
        let now = Time::from_nanos((self.now * 1e9) as u64);
        let event = CongestionEvent { now, sent: now, cause };
        self.rule.on_congestion_event(&mut self.window, &event);
    }

    fn packets(&self) -> f64 {
        self.window.window() as f64 / DATAGRAM as f64
    }
}

fn window_of(packets: f64) -> f64 {
    packets * DATAGRAM as f64
}

/// Queueing delay in seconds of a lone flow with this window on a path that holds 70 packets.
fn alone(window: f64) -> f64 {
    (window / window_of(70.0) - 1.0).max(0.0) * BASE
}

#[test]
fn lone_flow_keeps_the_queue_near_the_target_and_the_path_full() {
    let mut path = Path::new();
    (0..300).for_each(|_| _ = path.round(alone));
    let (mut longest, mut idle) = (0.0_f64, 0);
    for _ in 0..1_000 {
        longest = longest.max(path.round(alone));
        idle += u32::from(path.packets() < 60.0);
    }
    assert!(longest < 0.025, "{longest} s");
    assert!(idle < 30, "{idle} of 1000 round trips with a window far below the path's");
    assert!(path.window.metrics().early_reductions > 5);
}

#[test]
fn flow_yields_for_two_seconds_and_then_competes() {
    let mut path = Path::new();
    (0..200).for_each(|_| _ = path.round(alone));
    let before = path.packets();
    let came = path.now;
    let mut least = f64::MAX;
    while path.now < came + 5.0 {
        path.round(|_| 0.05);
        least = least.min(path.packets());
        if (came + 0.5..came + 1.5).contains(&path.now) {
            assert!(path.packets() < before / 2.0, "{} packets", path.packets());
        }
    }
    assert!(least <= 4.0, "{least} packets");
    assert!(path.packets() >= 0.9 * before, "{} of {before} packets", path.packets());
    // The competitor leaves. After two tests, the queue is short again.
    (0..300).for_each(|_| _ = path.round(alone));
    let longest = (0..200).map(|_| path.round(alone)).fold(0.0, f64::max);
    assert!(longest < 0.025, "{longest} s after the competitor has left");
}

#[test]
fn queue_on_the_way_back_is_no_reason_to_yield() {
    // An upload keeps 50 ms of queue on the way back, or the same queue is on the way forward.
    let reductions = |reported| {
        let mut path = Path::new();
        path.reports = Some(reported);
        (0..3).for_each(|_| _ = path.round(|_| 0.0));
        path.lose();
        (0..60).for_each(|_| _ = path.round(|_| 0.05));
        path.window.metrics().early_reductions
    };
    assert_eq!(reductions(0.0), 0);
    assert!(reductions(1.0) > 0);
}

#[test]
fn test_ends_a_second_after_the_last_report() {
    let mut path = Path::with(PlumbConfig { signal: Signal::OneWay, ..Default::default() });
    path.reports = Some(1.0);
    for _ in 0..1_000 {
        if matches!(path.rule.mode, Mode::Test(_)) {
            break;
        }
        path.round(alone);
    }
    path.reports = None;
    let silent = path.now;
    while path.now < silent + 0.5 {
        path.round(|_| 0.0);
    }
    assert!(matches!(path.rule.mode, Mode::Test(_)), "the test waits for a report");
    while path.now < silent + 1.5 {
        path.round(|_| 0.0);
    }
    assert!(matches!(path.rule.mode, Mode::Open), "CUBIC without reports");
}

#[test]
fn peer_that_denies_the_queue_gains_nothing_over_cubic() {
    let mut path = Path::new();
    // The first round trip has no queue. So 10 ms of queue are known, and small.
    path.round(|_| 0.0);
    path.lose();
    path.reports = Some(0.0);
    let start = path.packets();
    let began = path.now;
    (0..40).for_each(|_| _ = path.round(|_| 0.01));
    // CUBIC's fastest growth here is as Reno's: one packet per round trip.
    let most = start + 1.1 * (path.now - began) / (BASE + 0.01);
    assert!(path.packets() <= most, "{} packets of {most}", path.packets());
    // With room by the sender's own clock, growth is faster.
    let start = path.packets();
    (0..20).for_each(|_| _ = path.round(|_| 0.0));
    assert!(path.packets() > 2.0 * start, "{} packets after {start}", path.packets());
}

#[test]
fn longer_path_is_known_after_a_minute() {
    let mut path = Path::new();
    (0..300).for_each(|_| _ = path.round(alone));
    path.base = 0.12;
    let longer = |window: f64| (window / window_of(210.0) - 1.0).max(0.0) * 0.12;
    let changed = path.now;
    while path.now < changed + 100.0 {
        path.round(longer);
    }
    let longest = (0..200).map(|_| path.round(longer)).fold(0.0, f64::max);
    assert!(longest < 0.04, "{longest} s");
}

/// Returns a path in a test, and the window before it in bytes.
fn in_a_test() -> (Path, u64) {
    let mut path = Path::new();
    (0..50).for_each(|_| _ = path.round(alone));
    for _ in 0..1_000 {
        if matches!(path.rule.mode, Mode::Test(_)) {
            break;
        }
        path.round(alone);
    }
    let Mode::Test(Test { saved, .. }) = path.rule.mode else { unreachable!() };
    (path, saved)
}

#[test]
fn loss_in_a_test_reduces_the_window_and_slow_start_returns() {
    let (mut path, saved) = in_a_test();
    let before = path.window.window();
    path.lose();
    assert!(path.window.window() < before, "a loss never raises the window");
    assert_eq!(path.rule.lost, saved, "faster growth begins above the window before the test");
    (0..6).for_each(|_| _ = path.round(|_| 0.0));
    assert!(path.window.window() >= BETA.of(saved), "slow start returns to what CUBIC keeps");
}

#[test]
fn mark_in_a_test_reduces_the_window_for_good() {
    let (mut path, _) = in_a_test();
    let before = path.window.window();
    path.congest(Cause::Mark);
    assert!(matches!(path.rule.mode, Mode::Open) && path.window.window() < before);
    assert!(!path.window.in_slow_start(), "nothing but CUBIC's growth follows");
}

/// A receiver that delays acknowledgements so that all RTTs are equal shows no queue.
#[test]
fn window_that_was_lost_in_slow_start_limits_faster_growth() {
    let mut path = Path::new();
    while path.packets() < 500.0 {
        path.round(|_| 0.0);
    }
    let before = path.packets();
    path.lose();
    let start = path.packets();
    (0..10).for_each(|_| _ = path.round(|_| 0.0));
    // By a sixteenth per round trip, it would grow by 80 %. CUBIC approaches the window of the loss.
    assert!(path.packets() < before && path.packets() < 1.3 * start, "{} packets", path.packets());
}

/// A competitor keeps the queue. The application sends for half a second, and pauses.
#[test]
fn pauses_of_the_application_do_not_end_impatience() {
    let mut path = Path::new();
    (0..100).for_each(|_| _ = path.round(alone));
    let mut pauses = 0;
    while !matches!(path.rule.mode, Mode::Contested(_)) {
        assert!(pauses < 20, "still yielding");
        path.limited = !path.limited;
        pauses += u32::from(path.limited);
        let until = path.now + if path.limited { 0.3 } else { 0.5 };
        while path.now < until {
            path.round(|_| 0.05);
        }
    }
    assert!(pauses >= 3, "{pauses} pauses");
}
