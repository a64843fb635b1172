//! plumb: CUBIC that keeps the queue short as long as the queue is its own.
//!
//! A controller that yields to every queue starves beside CUBIC, and one that never yields keeps
//! buffers full. plumb asks the queue. It grows as CUBIC until the queueing delay stays above a
//! target. Then it reduces its window to what the path holds without a queue, and watches for two
//! round trips. If the queue disappears, it was plumb's own, and the window grows again. If the
//! queue stays although plumb yields again and again, a competitor keeps it, and plumb is plain
//! CUBIC for a while before it asks again.
//!
//! ```text
//! q      = RTT - smallest RTT;   low = least q of the last two round trips (at least 100 ms)
//! target = max(15 ms, 3 packets at the highest rate, 2 x the usual spread of q in a round trip)
//! OPEN       grow as CUBIC
//!            low > target: TEST     (in slow start: the least q of this round trip decides)
//! TEST       saved = W;  W = .9 W base / (base + low), in slow start .5;  wait two round trips
//!            queue gone:                W_max = saved, OPEN
//!            else, impatient:           slow start returns to the largest saved, CONTESTED
//!            else                       W_max = saved, OPEN
//! CONTESTED  grow as CUBIC for 30 to 50 round trips, then TEST as soon as the queue is nearly as
//!            long as ever in this time, or after a loss; OPEN after two tests in a row in which
//!            the queue disappeared
//! loss       CUBIC's reduction. In TEST: slow start returns to .7 saved; OPEN or CONTESTED as before
//! ```
//!
//! "Impatient" means that the queue has been above the target in twenty round trips in a row and
//! for two seconds. If the last loss came with a queue below 25 ms, the buffer is short, and the
//! target is 25 ms.
//!
//! Flows of plumb on one link measure the same queue, so they test at the same time, and the queue
//! disappears for all of them. For this reason the delay of a sliding window decides, not the end
//! of a flow's own round trip.
//!
//! # Departures
//! The algorithm is Fathom's. CUBIC's departures apply to its growth and its reductions.

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::cubic::{BETA, Cubic, CubicConfig};
use crate::event::{AckEvent, CongestionEvent, Sent};
use crate::options::Values;
use crate::round::RoundTrip;
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::sliding::Sliding;
use crate::units::{Ratio, Time};

/// Queueing delay up to which p95 of a queue is short, and up to which a buffer is short: 25 ms is
/// what issue 19 of this project asks for.
pub const SHORT: Duration = Duration::from_millis(25);
/// Share of the window without a queue that a test leaves. Less than one, so that the queue
/// disappears although the smallest RTT and the queue are not known exactly.
pub const TESTED: Ratio = Ratio::new(9, 10);
/// The same for the test that ends slow start. A flow that joins others has seen only RTTs with
/// their queue. It learns the RTT without a queue if it yields more.
pub const FIRST_TESTED: Ratio = Ratio::new(1, 2);
/// Round trips of a test: after the first one, all delays are those of packets sent in the test.
pub const TEST_ROUNDS: u32 = 2;
/// Part of the queue before a test that may remain if the queue counts as gone.
pub const REMAINS: u32 = 6;
/// Smallest window of a test in datagrams, with which losses can still be detected by later packets.
pub const LEAST: u64 = 4;
/// Queueing delay that is never a queue: jitter of hosts.
pub const NOTHING: Duration = Duration::from_millis(2);
/// Round trips in a row, and time, with a queue above the target, after which plumb no longer
/// yields. Own flows that join need some of both until they know the RTT without a queue.
pub const PATIENCE: (u32, Duration) = (20, Duration::from_secs(2));
/// Least and largest number of round trips as CUBIC after a failed test. A range, so that tests of
/// flows that failed together are not in step with CUBIC's period.
pub const CONTEST: (u32, u32) = (30, 50);
/// Round trips after which a contested flow tests although the queue is not at its longest.
pub const LONGEST_CONTEST: u32 = 100;
/// Tests in a row in which the queue has to disappear before plumb believes that a competitor left.
pub const WINS: u32 = 2;
/// Packets at the highest rate that are not a queue.
pub const FEW_PACKETS: f64 = 3.0;
/// Multiple of the spread of delays within a round trip that the target exceeds. Media access and
/// jitter spread delays; a queue hardly changes within a round trip.
pub const SPREADS: u32 = 2;
/// Least time over which the smallest delay is taken.
pub const LEAST_SPAN: Duration = Duration::from_millis(100);
/// Delays that a round trip of slow start needs before it may end slow start.
pub const FEW_SAMPLES: u32 = 4;
/// Part of the highest rate that remains after each round trip.
pub const RATE_DECAY: f64 = 0.99;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "plumb",
    summary: "plumb: CUBIC that yields to a queue of its own, and not to one that others keep \
        (experimental)",
    source: "Fathom",
    contract: Contract { loss: BETA, one_per_round: false, ..Contract::AS_RENO },
    page: PAGE,
    ..Algorithm::of_rule::<PlumbConfig>()
};

rule_options! {
    /// The configuration `plumb`.
    pub struct PlumbConfig {
        /// queueing delay above which the window is reduced
        target: Duration = "15ms" in Values::Duration { min: Duration::from_millis(1), max: Duration::from_secs(1) },
    }
}

impl RuleConfig for PlumbConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Plumb;

    fn rule(&self, window: &Aimd, now: Time) -> Plumb {
        Plumb {
            target: self.target,
            cubic: CubicConfig::default().rule(window, now),
            queue: Queue::new(now),
            mode: Mode::Open,
            impatience: Impatience::default(),
            wins: 0,
            held: 0,
            buffer_is_short: false,
            contests: 0,
        }
    }
}

/// Delays of one round trip.
#[derive(Clone, Copy, Debug)]
struct Measured {
    start: Time,
    low: Duration,
    sum: Duration,
    samples: u32,
    bytes: u64,
}

impl Measured {
    const fn new(start: Time) -> Self {
        Self { start, low: Duration::MAX, sum: Duration::ZERO, samples: 0, bytes: 0 }
    }
}

/// Estimates of the queue, from the delays of ACK frames.
#[derive(Clone, Debug)]
struct Queue {
    /// Smallest RTT.
    base: Duration,
    round: RoundTrip,
    /// The present round trip.
    measured: Measured,
    /// Queueing delays of the last two round trips, and of the last round trip.
    recent: Sliding<Duration, 4>,
    latest: Sliding<Duration, 4>,
    /// Average over round trips of the mean delay above the smallest one.
    spread: Duration,
    /// Highest rate of a round trip in bytes per second, which decays.
    rate: f64,
}

impl Queue {
    fn new(now: Time) -> Self {
        Self {
            base: Duration::ZERO,
            round: RoundTrip::default(),
            measured: Measured::new(now),
            recent: Sliding::default(),
            latest: Sliding::default(),
            spread: Duration::ZERO,
            rate: 0.0,
        }
    }

    /// Records the delay of an ACK frame.
    fn record(&mut self, acks: &AckEvent<'_>) {
        self.base = acks.rtt.min;
        let delay = acks.rtt.latest.saturating_sub(self.base);
        let rtt = acks.rtt.smoothed;
        self.recent.record(acks.now, (2 * rtt).max(LEAST_SPAN) / 4, delay);
        self.latest.record(acks.now, rtt / 4, delay);
        let measured = &mut self.measured;
        measured.low = measured.low.min(delay);
        measured.sum = measured.sum.saturating_add(delay);
        measured.samples = measured.samples.saturating_add(1);
        measured.bytes = measured.bytes.saturating_add(acks.bytes());
    }

    /// Ends the round trip if this ACK frame does, and returns its delays. `steady` tells whether
    /// the spread of the delays is the path's, not that of a queue that grows or shrinks.
    fn end_round(&mut self, acks: &AckEvent<'_>, steady: bool) -> Option<Measured> {
        if !self.round.on_ack(acks) {
            return None;
        }
        let ended = std::mem::replace(&mut self.measured, Measured::new(acks.now));
        self.rate = (self.rate * RATE_DECAY).max(rate(&ended, acks.now, acks.rtt.smoothed));
        if steady {
            let mean = ended.sum / ended.samples.max(1);
            self.spread = (7 * self.spread + mean.saturating_sub(ended.low)) / 8;
        }
        Some(ended)
    }

    /// Forgets the delays, which are those of another window or path.
    fn forget(&mut self, now: Time) {
        (self.recent, self.latest) = (Sliding::default(), Sliding::default());
        self.restart(now);
    }

    /// Begins a round trip now, because the window changes.
    fn restart(&mut self, now: Time) {
        self.round.begin(now);
        self.measured = Measured::new(now);
    }

    /// Returns the time that some full packets take at the highest rate; at most 10 s.
    fn time_of(&self, packets: f64, datagram: u64) -> Duration {
        Duration::from_secs_f64((packets * datagram as f64 / self.rate.max(1.0)).min(10.0))
    }

    /// Returns the window in bytes that would leave no queue on a path of its own if `window` keeps
    /// a queue of `low`.
    fn without(&self, window: u64, low: Duration) -> u64 {
        let base = self.base.as_secs_f64();
        (window as f64 * base / (base + low.as_secs_f64()).max(1e-9)) as u64
    }
}

/// Returns the rate of a round trip in bytes per second. A round trip that is shorter than `rtt`
/// counts as long, because ACK frames can arrive in a burst.
fn rate(measured: &Measured, now: Time, rtt: Duration) -> f64 {
    measured.bytes as f64 / now.since(measured.start).max(rtt).as_secs_f64().max(1e-6)
}

/// Returns whether no congestion has ended slow start yet.
fn is_first_slow_start(window: &Aimd) -> bool {
    window.in_slow_start() && window.metrics().threshold.is_none()
}

/// How long the queue has been above the target.
#[derive(Clone, Copy, Debug, Default)]
struct Impatience {
    rounds: u32,
    since: Option<Time>,
}

impl Impatience {
    fn is_over(&self, now: Time) -> bool {
        let (rounds, time) = PATIENCE;
        self.rounds >= rounds && self.since.is_some_and(|since| now.since(since) >= time)
    }
}

#[derive(Clone, Copy, Debug)]
struct Test {
    /// Round trips to go.
    rounds: u32,
    /// Window before the test in bytes.
    saved: u64,
    /// Queueing delay before the test.
    queue: Duration,
    contested: bool,
}

#[derive(Clone, Copy, Debug)]
struct Contest {
    /// Round trips before the next test.
    rounds: u32,
    /// Round trips since then.
    ready: u32,
    /// Longest queueing delay in which a whole round trip of this contest was.
    longest: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Open,
    Test(Test),
    Contested(Contest),
}

/// The rule of plumb.
#[derive(Clone, Debug)]
pub struct Plumb {
    target: Duration,
    cubic: Cubic,
    queue: Queue,
    mode: Mode,
    impatience: Impatience,
    /// Tests in a row in which the queue disappeared.
    wins: u32,
    /// Largest window in bytes before a test since the queue was below the target.
    held: u64,
    /// Whether the last loss came with a queue below [`SHORT`].
    buffer_is_short: bool,
    /// Number of contests, which spreads their length.
    contests: u32,
}

impl Plumb {
    /// Returns the queueing delay above which the queue is tested.
    fn target(&self, datagram: u64) -> Duration {
        let target = if self.buffer_is_short { self.target.max(SHORT) } else { self.target };
        target.max(self.queue.time_of(FEW_PACKETS, datagram)).max(SPREADS * self.queue.spread)
    }

    /// Reduces the window to see whether the queue disappears. `before` is the window in bytes that
    /// kept the queue. A window that is already as small stays, and there is no test.
    fn test(
        &mut self,
        window: &mut Aimd,
        before: u64,
        queue: Duration,
        contested: bool,
        now: Time,
    ) {
        let first = is_first_slow_start(window);
        let without = self.queue.without(before, queue);
        let part = if first { FIRST_TESTED } else { TESTED };
        let left = part.of(without).max(LEAST * window.datagram());
        if left >= window.window() {
            return;
        }
        window.cut_by(window.window() - left);
        // Slow start has sent more than the path holds.
        let saved = if first { without.max(left) } else { before };
        self.mode = Mode::Test(Test { rounds: TEST_ROUNDS, saved, queue, contested });
        self.queue.restart(now);
    }

    /// Grows from now on towards `window` and beyond, as CUBIC after a loss with this window.
    fn open(&mut self, window: u64) {
        self.cubic.aim(window);
        self.mode = Mode::Open;
    }

    fn contest(&mut self) {
        let (least, most) = CONTEST;
        // A multiplier that reaches all lengths.
        self.contests = self.contests.wrapping_add(1);
        let rounds = least + self.contests.wrapping_mul(13) % (most - least + 1);
        self.mode = Mode::Contested(Contest { rounds, ready: 0, longest: Duration::ZERO });
    }

    /// Judges a test by the least queueing delay of its last round trip.
    fn end_test(&mut self, window: &mut Aimd, test: Test, low: Duration, now: Time) {
        let most = (test.queue / REMAINS)
            .max(NOTHING)
            .max(self.queue.time_of(FEW_PACKETS - 1.0, window.datagram()));
        if low <= most {
            self.wins += 1;
            self.held = 0;
            self.impatience = Impatience::default();
            self.open(test.saved);
            if test.contested && self.wins < WINS {
                self.contest();
            }
        } else if test.contested || self.impatience.is_over(now) {
            // Slow start restores the window, and stops at a loss.
            let window_before = if test.contested { test.saved } else { test.saved.max(self.held) };
            window.restore_to(window_before);
            (self.wins, self.held) = (0, 0);
            self.open(window_before);
            self.contest();
        } else {
            self.wins = 0;
            self.held = self.held.max(test.saved);
            self.open(test.saved);
        }
    }

    fn end_round(&mut self, window: &mut Aimd, measured: Measured, limited: bool, now: Time) {
        let (low, target) = (measured.low, self.target(window.datagram()));
        if limited {
            // A sender without data tells nothing about the queue.
            self.impatience = Impatience::default();
            if let Mode::Test(test) = self.mode {
                self.open(test.saved);
                if test.contested {
                    self.contest();
                }
            }
            return;
        }
        if low > target {
            self.impatience.rounds = self.impatience.rounds.saturating_add(1);
            self.impatience.since.get_or_insert(now);
        } else {
            self.impatience = Impatience::default();
            self.held = 0;
        }
        match &mut self.mode {
            Mode::Open => {}
            Mode::Test(test) if test.rounds > 1 => test.rounds -= 1,
            Mode::Test(test) => {
                let test = *test;
                self.end_test(window, test, low, now);
            }
            Mode::Contested(contest) => {
                contest.longest = contest.longest.max(low);
                if contest.rounds > 0 {
                    contest.rounds -= 1;
                    return;
                }
                contest.ready += 1;
                let (ready, longest) = (contest.ready, contest.longest);
                let nearly_full = 10 * low >= 9 * longest || ready > LONGEST_CONTEST;
                if low > target && nearly_full && !window.in_recovery() {
                    let before = window.window();
                    self.test(window, before, low, true, now);
                } else if low <= target && ready > CONTEST.0 {
                    // There was no queue to test.
                    self.wins += 1;
                    self.mode = Mode::Open;
                    if self.wins < WINS {
                        self.contest();
                    }
                }
            }
        }
    }

    /// Returns the queueing delay that asks for a test now: in slow start the least of this round
    /// trip, later the least of the last two.
    fn standing(&self, slow_start: bool) -> Duration {
        let measured = &self.queue.measured;
        match slow_start {
            true if measured.samples >= FEW_SAMPLES => measured.low,
            true => Duration::ZERO,
            false => self.queue.recent.min().unwrap_or_default(),
        }
    }
}

impl WindowRule for Plumb {
    fn on_sent(&mut self, sent: &Sent) {
        self.cubic.on_sent(sent);
    }

    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        self.queue.record(acks);
        let slow_start = is_first_slow_start(window);
        if slow_start {
            // Before the first round trip ends, the present one is all that is known.
            self.queue.rate =
                self.queue.rate.max(rate(&self.queue.measured, acks.now, acks.rtt.smoothed));
        }
        let standing = self.standing(slow_start);
        let target = self.target(window.datagram());
        let open = matches!(self.mode, Mode::Open);
        if open && standing > target && !window.in_recovery() && !acks.app_limited {
            self.impatience.since.get_or_insert(acks.now);
            let before = window.window();
            self.test(window, before, standing, false, acks.now);
        }
        let still = matches!(self.mode, Mode::Test(_));
        self.cubic.on_ack(window, acks, if still { 0 } else { acked });
        let steady = matches!(self.mode, Mode::Open) && !slow_start && !window.in_recovery();
        if let Some(measured) = self.queue.end_round(acks, steady) {
            self.end_round(window, measured, acks.app_limited, acks.now);
        }
    }

    fn on_congestion_event(&mut self, window: &mut Aimd, event: &CongestionEvent) {
        if event.is_persistent() && window.concerns(event) {
            // Nothing that was known about the path holds any more.
            (self.mode, self.impatience) = (Mode::Open, Impatience::default());
            (self.wins, self.held) = (0, 0);
            self.queue.forget(event.now);
            return self.cubic.on_congestion_event(window, event);
        }
        if !window.begins_recovery(event) {
            return self.cubic.on_congestion_event(window, event);
        }
        let queue = self.queue.latest.max().unwrap_or_default();
        let before = window.window();
        self.held = BETA.of(self.held);
        self.cubic.on_congestion_event(window, event);
        match self.mode {
            // The test ends. Slow start returns to what CUBIC keeps of the window before it.
            Mode::Test(test) => {
                let kept = BETA.of(test.saved).max(window.window());
                window.restore_to(kept);
                self.open(test.saved);
                if test.contested {
                    self.wins = 0;
                    self.contest();
                } else {
                    self.held = self.held.max(kept);
                }
            }
            Mode::Contested(Contest { rounds: 0, .. })
                if event.is_loss() && queue > self.target(window.datagram()) =>
            {
                let kept = window.window();
                self.test(window, before, queue, true, event.now);
                if let Mode::Test(test) = &mut self.mode {
                    test.saved = kept;
                }
            }
            _ if event.is_loss() => self.buffer_is_short = queue <= SHORT,
            _ => {}
        }
    }

    fn on_spurious_congestion_event(&mut self, restored: bool) {
        self.cubic.on_spurious_congestion_event(restored);
    }

    fn on_datagram(&mut self, bytes: u16) {
        self.cubic.on_datagram(bytes);
    }
}

const PAGE: Page = Page {
    about: "plumb is Fathom's own controller, and experimental. It grows as CUBIC until the queueing delay
stays above a target for two round trips. Then it tests the queue: it reduces its window to what the
path holds without a queue. If the queue disappears within two round trips, it was plumb's own, and
the window grows again. If the queue stays although plumb yields for two seconds, a competitor keeps
it. plumb then restores its window, and is CUBIC for 30 to 50 round trips before it tests again. Flows
of plumb test at the same time, because they measure the same queue.",
    departures: "The algorithm has no other source. Growth and reductions are those of this
implementation of CUBIC.",
    figure: "plumb and the scripted queue",
    to_see: "The queue follows a script and not the window, as if others kept it. plumb tests it
until its window is four packets. After two seconds it no longer yields: slow start restores its
window, which then grows as CUBIC's. The short spike is not a standing queue.",
    weakness: "Many flows with small windows (16 flows at 20 Mbps) take each other for competitors, and fill
the buffer as CUBIC does. On paths whose delay varies by more than the target, such as Wi-Fi, plumb
uses less of the link than CUBIC. When a competitor starts, plumb yields for two seconds. If the path
becomes longer, plumb is CUBIC from then on.",
};

#[cfg(test)]
mod tests {
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
        window: Aimd,
        now: f64,
        /// Window of the last round trip in bytes.
        sent: f64,
    }

    impl Path {
        fn new() -> Self {
            let start =
                Start { now: Time::ZERO, datagram: DATAGRAM as u16, provided: Capabilities::NONE };
            let window = Aimd::new(&start);
            let rule = PlumbConfig::default().rule(&window, Time::ZERO);
            Self { rule, window, now: 0.0, sent: window_of(10.0) }
        }

        /// One round trip in which `queue`, given the window of the previous one, is the queueing
        /// delay in seconds. The buffer holds [`BUFFER`]. Returns the delay.
        fn round(&mut self, queue: impl Fn(f64) -> f64) -> f64 {
            let delay = queue(self.sent).min(BUFFER);
            if delay == BUFFER {
                self.lose();
            }
            let rtt = BASE + delay;
            self.sent = self.window.window() as f64;
            let frames = (self.sent / DATAGRAM as f64 / 2.0).ceil().max(2.0);
            for _ in 0..frames as u32 {
                self.now += rtt / frames;
                let time = |s: f64| Time::from_nanos((s.max(0.0) * 1e9) as u64);
                let packets = [Acked { sent: time(self.now - rtt), bytes: DATAGRAM }; 2];
                let min = Duration::from_secs_f64(BASE);
                let latest = Duration::from_secs_f64(rtt);
                let acks = AckEvent {
                    now: time(self.now),
                    packets: &packets,
                    in_flight: 0,
                    rtt: Rtt { latest, min, smoothed: latest, ..Rtt::first(latest) },
                    one_way: None,
                    ecn: None,
                    app_limited: false,
                };
                let acked = self.window.on_ack(&acks);
                self.rule.on_ack(&mut self.window, &acks, acked);
            }
            delay
        }

        /// Loses the newest packet.
        fn lose(&mut self) {
            let now = Time::from_nanos((self.now * 1e9) as u64);
            let cause = Cause::Loss { bytes: DATAGRAM, persistent: false };
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
    fn loss_in_a_test_reduces_the_window_and_slow_start_returns() {
        let mut path = Path::new();
        (0..50).for_each(|_| _ = path.round(alone));
        while !matches!(path.rule.mode, Mode::Test(_)) {
            path.round(alone);
        }
        let Mode::Test(Test { saved, .. }) = path.rule.mode else { unreachable!() };
        let before = path.window.window();
        path.lose();
        assert!(path.window.window() < before, "a loss never raises the window");
        (0..6).for_each(|_| _ = path.round(|_| 0.0));
        assert!(path.window.window() >= BETA.of(saved), "slow start returns to what CUBIC keeps");
    }
}
