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
//! q      = delay - delay without a queue (the least of the last minute)
//! low    = least q of the last two round trips (at least 100 ms)
//! target = max(15 ms, 3 packets at the highest rate, 2 x the usual spread of q in a round trip)
//! tested = target + RTT / packets in the window
//! OPEN       grow as CUBIC; while neither low nor the RTTs show a queue above target / 8, and W is
//!            at least that of the last loss, also by W/16 per round trip
//!            low > tested: TEST     (in slow start: least q of this round trip > tested / 3)
//! TEST       saved = W;  W = .9 W x (RTT - low) / RTT, .5 in slow start and after the delay
//!            without a queue has expired;  wait two round trips
//!            queue gone:                W_max = saved, OPEN
//!            else, impatient:           slow start returns to the largest saved, CONTESTED
//!            else                       W_max = saved, OPEN
//! CONTESTED  grow as CUBIC for 30 to 50 round trips, then TEST as soon as the queue is nearly as
//!            long as ever in this time, or after a loss; OPEN after two tests in a row in which
//!            the queue disappeared
//! loss       CUBIC's reduction. In TEST: slow start returns to .7 saved; OPEN or CONTESTED as before
//! ```
//!
//! "Impatient" means that the queue has been above the target in twenty round trips and for two
//! seconds, and never below half of the target in this time. A flow whose window is too small for a
//! test then becomes contested without one. If the last loss came with a queue
//! below 25 ms, the buffer is short, and the target is 25 ms.
//!
//! Flows of plumb on one link measure the same queue, so they test at about the same time, and the
//! queue disappears for all of them. For this reason the delay of a sliding window decides, not the
//! end of a flow's own round trip. The last term of `tested` lets the flow with the highest rate
//! test first, so that shares become equal. Swift's target has such a term, too (Kumar et al.,
//! SIGCOMM 2020: flow-based scaling).
//!
//! The delay is the one-way delay if the peer reports it, so that a queue on the way back does not
//! count. If reports end, plumb is CUBIC. What a peer reports can only make plumb grow as CUBIC:
//! growth beyond CUBIC's needs RTTs without a queue, by the sender's own clock. A peer that delays
//! acknowledgements so that all RTTs are equal can hide the queue, but only above the window of the
//! last loss.
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
use crate::signal::{Delays, Signal, capabilities_by_signal};
use crate::sliding::Sliding;
use crate::units::{OneWayDelay, Ratio, Time};

/// Queueing delay up to which p95 of a queue is short, and up to which a buffer is short: 25 ms is
/// what issue 19 of this project asks for.
pub const SHORT: Duration = Duration::from_millis(25);
/// Share of the window without a queue that a test leaves. Less than one, so that the queue
/// disappears although the smallest RTT and the queue are not known exactly.
pub const TESTED: Ratio = Ratio::new(9, 10);
/// The same for the test that ends slow start, and after the delay without a queue has expired. A
/// flow that joins others has seen only delays with their queue. It learns the delay without a
/// queue if it yields more.
pub const FIRST_TESTED: Ratio = Ratio::new(1, 2);
/// Round trips of a test: after the first one, all delays are those of packets sent in the test.
pub const TEST_ROUNDS: u32 = 2;
/// Part of the queue before a test that may remain if the queue counts as gone.
pub const REMAINS: u32 = 6;
/// Smallest window of a test in datagrams, with which losses can still be detected by later packets.
pub const LEAST: u64 = 4;
/// Queueing delay that is never a queue: jitter of hosts.
pub const NOTHING: Duration = Duration::from_millis(2);
/// Round trips, and time, with a queue above the target, after which plumb no longer
/// yields. Own flows that join need some of both until they know the RTT without a queue.
pub const PATIENCE: (u32, Duration) = (20, Duration::from_secs(2));
/// Least and largest number of round trips as CUBIC after a failed test. A range, so that tests of
/// flows that failed together are not in step with CUBIC's period.
pub const CONTEST: (u32, u32) = (30, 50);
/// Round trips after which a contested flow tests although the queue is not at its longest.
pub const LONGEST_CONTEST: u32 = 100;
/// Tests in a row in which the queue has to disappear before plumb believes that a competitor left.
pub const WINS: u32 = 2;
/// Part of the target that ends slow start, as a divisor. A third of 15 ms is the rise of delay that
/// ends slow start in HyStart++ if the RTT is 40 ms (RFC 9406 §4.3). Later exits lose packets of web
/// traffic; with a quarter, sixteen flows that start together take each other for competitors.
pub const START: u32 = 3;
/// Part of the target, as a divisor, up to which the queue is calm, so that impatience ends.
/// Beside CUBIC with a buffer of .6 to 1 times the path, the queue is below the target after each
/// loss, but not as low.
pub const CALM: u32 = 2;
/// Part of the target, as a divisor, up to which the path has room for faster growth.
pub const EMPTY: u32 = 8;
/// Growth per round trip while the path has room: this part of the window, as a divisor. Only above
/// the window of the last loss, so that a peer that hides the queue hardly gains. With an
/// eighth, own flows no longer share fairly; with a twelfth, eight flows do not.
pub const GROWTH: u64 = 16;
/// Packets at the highest rate that are not a queue.
pub const FEW_PACKETS: f64 = 3.0;
/// Multiple of the spread of delays within a round trip that the target exceeds. Media access and
/// jitter spread delays; a queue hardly changes within a round trip.
pub const SPREADS: u32 = 2;
/// Least time over which the smallest delay is taken.
pub const LEAST_SPAN: Duration = Duration::from_millis(100);
/// Time over which the smallest delay of the path is taken, and its parts. Longer than a contest
/// with CUBIC keeps the queue from emptying, short enough for a path that becomes longer.
pub const BASE_SPAN: Duration = Duration::from_secs(60);
const BASE_PARTS: usize = 6;
/// Delays that a round trip of slow start needs before it may end slow start.
pub const FEW_SAMPLES: u32 = 4;
/// Time without a delay after which the queue is unknown, and plumb is CUBIC.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(1);
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
        /// delay to use: RTT, one-way, or (either) RTT until the peer reports one-way delays
        signal: Signal = "either" in Values::Choice(Signal::NAMES),
    }
}

impl RuleConfig for PlumbConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Plumb;

    fn rule(&self, window: &Aimd, now: Time) -> Plumb {
        Plumb {
            target: self.target,
            cubic: CubicConfig::default().rule(window, now),
            queue: Queue::new(self.signal, now),
            mode: Mode::Open,
            impatience: Impatience::default(),
            wins: 0,
            held: 0,
            lost: 0,
            buffer_is_short: false,
            contests: 0,
        }
    }

    capabilities_by_signal!("plumb");
}

/// Delays of one round trip.
#[derive(Clone, Copy, Debug)]
struct Measured {
    start: Time,
    low: Option<OneWayDelay>,
    /// Sum of the queueing delays.
    sum: Duration,
    samples: u32,
    bytes: u64,
}

impl Measured {
    const fn new(start: Time) -> Self {
        Self { start, low: None, sum: Duration::ZERO, samples: 0, bytes: 0 }
    }
}

/// Estimates of the queue, from the delays of ACK frames.
#[derive(Clone, Debug)]
struct Queue {
    delays: Delays,
    /// Delays and RTTs of the last [`BASE_SPAN`]. The smallest ones are those without a queue.
    all: Sliding<OneWayDelay, BASE_PARTS>,
    rtts: Sliding<Duration, BASE_PARTS>,
    /// Smoothed RTT.
    smoothed: Duration,
    /// Time of the last delay.
    heard: Option<Time>,
    /// Whether the smallest delay has expired, and a longer one has taken its place.
    expired: bool,
    round: RoundTrip,
    /// The present round trip.
    measured: Measured,
    /// Delays of the last two round trips.
    recent: Sliding<OneWayDelay, 4>,
    /// RTTs of the last two round trips, and of the last one.
    recent_rtts: Sliding<Duration, 4>,
    latest_rtts: Sliding<Duration, 4>,
    /// Average over round trips of the mean delay above the smallest one.
    spread: Duration,
    /// Highest rate of a round trip in bytes per second, which decays.
    rate: f64,
}

impl Queue {
    fn new(signal: Signal, now: Time) -> Self {
        Self {
            delays: Delays::new(signal),
            all: Sliding::default(),
            rtts: Sliding::default(),
            smoothed: Duration::ZERO,
            heard: None,
            expired: false,
            round: RoundTrip::default(),
            measured: Measured::new(now),
            recent: Sliding::default(),
            recent_rtts: Sliding::default(),
            latest_rtts: Sliding::default(),
            spread: Duration::ZERO,
            rate: 0.0,
        }
    }

    /// Returns how far a delay is above the smallest one.
    fn above(&self, delay: OneWayDelay) -> Duration {
        self.all.min().map_or(Duration::ZERO, |least| delay.above(least))
    }

    /// Returns a delay that is at most as far above the smallest one as the RTT of the same
    /// acknowledgement is. The first one-way delays of a connection are up to 2 ms too low, because
    /// their estimator has just begun. Without this limit, the flow would see a queue that is
    /// longer than that of other flows, and yield to them.
    fn limited(&self, delay: OneWayDelay, rtt: Duration) -> OneWayDelay {
        let Some((least, empty)) = self.all.min().zip(self.rtts.min()) else { return delay };
        let queue = delay.above(least).min(rtt.saturating_sub(empty));
        let nanos = i64::try_from(queue.as_nanos()).unwrap_or(i64::MAX);
        OneWayDelay::from_nanos(least.as_nanos().saturating_add(nanos))
    }

    /// Records the delay of an ACK frame. Returns whether it is the first one-way delay after RTTs.
    fn record(&mut self, acks: &AckEvent<'_>) -> bool {
        let (now, smoothed) = (acks.now, acks.rtt.smoothed);
        self.measured.bytes = self.measured.bytes.saturating_add(acks.bytes());
        self.smoothed = smoothed;
        // The peer's delay of the acknowledgement stays in, because the peer could make it up.
        let rtt = acks.rtt.latest.saturating_add(acks.rtt.ack_delay);
        let two_rounds = smoothed.saturating_mul(2).max(LEAST_SPAN) / 4;
        self.rtts.record(now, BASE_SPAN / BASE_PARTS as u32, rtt);
        self.recent_rtts.record(now, two_rounds, rtt);
        self.latest_rtts.record(now, smoothed / 4, rtt);
        let Some(sample) = self.delays.sample(acks) else { return false };
        if sample.restarts {
            // RTTs cannot be compared with one-way delays.
            (self.all, self.recent) = (Sliding::default(), Sliding::default());
            self.expired = false;
            self.restart(now);
        }
        let before = self.all.min();
        self.all.record(now, BASE_SPAN / BASE_PARTS as u32, sample.delay);
        self.expired |= before.zip(self.all.min()).is_some_and(|(was, is)| is.above(was) > NOTHING);
        let delay = match self.delays.are_one_way() {
            true => self.limited(sample.delay, rtt),
            false => sample.delay,
        };
        self.recent.record(now, two_rounds, delay);
        let queue = self.above(delay);
        let measured = &mut self.measured;
        measured.low = Some(measured.low.map_or(delay, |low| low.min(delay)));
        measured.sum = measured.sum.saturating_add(queue);
        measured.samples = measured.samples.saturating_add(1);
        self.heard = Some(now);
        sample.restarts
    }

    /// Returns whether there has been a delay lately.
    fn is_known(&self, now: Time) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) <= LONGEST_SILENCE)
    }

    /// Returns the longest queueing delay that the RTTs of the last round trip allow.
    fn at_most(&self) -> Duration {
        self.latest_rtts
            .max()
            .zip(self.rtts.min())
            .map_or(Duration::ZERO, |(most, least)| most.saturating_sub(least))
    }

    /// Returns the queueing delay, in both directions, of the smallest RTT of the last two round
    /// trips.
    fn standing_in_rtt(&self) -> Duration {
        self.recent_rtts
            .min()
            .zip(self.rtts.min())
            .map_or(Duration::ZERO, |(low, least)| low.saturating_sub(least))
    }

    /// Returns the least queueing delay of a round trip, if it had any delay.
    fn low(&self, measured: &Measured) -> Option<Duration> {
        measured.low.map(|low| self.above(low))
    }

    /// Ends the round trip if this ACK frame does, and returns its delays. `steady` tells whether
    /// the spread of the delays is the path's, not that of a queue that grows or shrinks.
    fn end_round(&mut self, acks: &AckEvent<'_>, steady: bool) -> Option<Measured> {
        if !self.round.on_ack(acks) {
            return None;
        }
        let ended = std::mem::replace(&mut self.measured, Measured::new(acks.now));
        self.rate = (self.rate * RATE_DECAY).max(rate(&ended, acks.now, acks.rtt.smoothed));
        if let Some(low) = self.low(&ended).filter(|_| steady) {
            let mean = ended.sum / ended.samples.max(1);
            self.spread =
                self.spread.saturating_mul(7).saturating_add(mean.saturating_sub(low)) / 8;
        }
        Some(ended)
    }

    /// Begins a round trip now, because the window changes.
    fn restart(&mut self, now: Time) {
        self.round.begin(now);
        self.measured = Measured::new(now);
    }

    /// Returns the time that some full packets take at the highest rate; at most 10 s.
    fn time_of(&self, packets: f64, datagram: u64) -> Duration {
        let nanos = packets * datagram as f64 * 1e9 / self.rate.max(1.0);
        Duration::from_nanos(nanos.min(10e9) as u64)
    }

    /// Returns the window in bytes that would leave no queue on a path of its own if `window` keeps
    /// a queue of `low`.
    fn without(&self, window: u64, low: Duration) -> u64 {
        let least = self.rtts.min().unwrap_or_default().saturating_add(low);
        // A queue on the way back is part of the RTT that the window fills.
        let whole = if self.delays.are_one_way() { least.max(self.smoothed) } else { least };
        let share = whole.saturating_sub(low).as_secs_f64() / whole.as_secs_f64().max(1e-9);
        (window as f64 * share) as u64
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
    /// Queueing delay before the test, and the delay without a queue as known then.
    queue: Duration,
    base: Option<OneWayDelay>,
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
    /// Largest window in bytes before a test since the queue was calm.
    held: u64,
    /// Window in bytes before the last loss, until the queue disappears in a test.
    lost: u64,
    /// Whether the last loss came with a queue below [`SHORT`].
    buffer_is_short: bool,
    /// Number of contests, which spreads their length.
    contests: u32,
}

impl Plumb {
    /// Returns the queueing delay above which there is a queue.
    fn target(&self, window: &Aimd) -> Duration {
        let target = if self.buffer_is_short { self.target.max(SHORT) } else { self.target };
        target
            .max(self.queue.time_of(FEW_PACKETS, window.datagram()))
            .max(self.queue.spread.saturating_mul(SPREADS))
    }

    /// Returns the queueing delay above which this flow tests the queue: the target and the time
    /// between two of its packets. So the flow with the highest rate tests first.
    fn tested(&self, target: Duration, window: &Aimd) -> Duration {
        let round = u64::try_from(self.queue.smoothed.as_nanos()).unwrap_or(u64::MAX);
        let between = round.saturating_mul(window.datagram()) / window.window().max(1);
        target.saturating_add(Duration::from_nanos(between))
    }

    /// Returns the queueing delay up to which the queue is calm: part of the target, or what the
    /// smallest window of a test keeps in the queue of a thin path.
    fn calm(&self, target: Duration, window: &Aimd) -> Duration {
        (target / CALM).max(self.queue.time_of(LEAST as f64, window.datagram()))
    }

    /// Returns whether the window may grow faster than CUBIC's: it is as large as before the last
    /// loss, and neither delays nor RTTs of the last two round trips show a queue. Jitter makes the
    /// limit longer, but not beyond a quarter of the configured target.
    fn has_room(&self, window: &Aimd, target: Duration) -> bool {
        let (most, queue) = ((target / EMPTY).min(self.target / 4), &self.queue);
        let low = queue.recent.min().map(|low| queue.above(low));
        window.window() >= self.lost
            && !queue.expired
            && low.is_some_and(|low| low <= most)
            && queue.standing_in_rtt() <= most
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
        let part = if first || self.queue.expired { FIRST_TESTED } else { TESTED };
        let left = part.of(without).max(LEAST * window.datagram());
        if left >= window.window() {
            return;
        }
        window.cut_by(window.window() - left);
        // Slow start has sent more than the path holds.
        let saved = if first { without.max(left) } else { before };
        let base = self.queue.all.min();
        self.mode = Mode::Test(Test { rounds: TEST_ROUNDS, saved, queue, base, contested });
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
        self.queue.expired = false;
        let fell = test.base.zip(self.queue.all.min()).map(|(was, is)| was.above(is));
        if test.contested && fell.is_some_and(|fell| fell > NOTHING) {
            // The queue before the test was longer than known.
            return self.abandon(test);
        }
        let most = (test.queue / REMAINS)
            .max(NOTHING)
            .max(self.queue.time_of(FEW_PACKETS - 1.0, window.datagram()));
        if low <= most {
            self.wins += 1;
            (self.held, self.lost) = (0, 0);
            self.impatience = Impatience::default();
            self.open(test.saved);
            if test.contested && self.wins < WINS {
                self.contest();
            }
        } else if test.contested || self.impatience.is_over(now) {
            let before = if test.contested { test.saved } else { test.saved.max(self.held) };
            self.compete(window, before);
        } else {
            self.wins = 0;
            self.held = self.held.max(test.saved);
            self.open(test.saved);
        }
    }

    /// Ends a test without a result.
    fn abandon(&mut self, test: Test) {
        self.open(test.saved);
        if test.contested {
            self.contest();
        }
    }

    /// Restores a window of `before` bytes by slow start, which stops at a loss, and competes.
    fn compete(&mut self, window: &mut Aimd, before: u64) {
        window.restore_to(before);
        self.open(before);
        (self.wins, self.held) = (0, 0);
        self.contest();
    }

    fn end_round(&mut self, window: &mut Aimd, measured: Measured, limited: bool, now: Time) {
        if limited {
            // A sender without data tells nothing about the queue.
            self.impatience = Impatience::default();
            if let Mode::Test(test) = self.mode {
                self.abandon(test);
            }
            return;
        }
        let Some(low) = self.queue.low(&measured) else {
            // Slow senders do not hear a one-way delay in every round trip. A test waits for one.
            if let Mode::Test(test) = &mut self.mode {
                test.rounds = test.rounds.saturating_sub(1);
                if !self.queue.is_known(now) {
                    let test = *test;
                    self.abandon(test);
                }
            }
            return;
        };
        let target = self.target(window);
        let tested = self.tested(target, window);
        if low <= self.calm(target, window) {
            self.impatience = Impatience::default();
            self.held = 0;
        } else if low > target {
            self.impatience.rounds = self.impatience.rounds.saturating_add(1);
            self.impatience.since.get_or_insert(now);
        }
        match &mut self.mode {
            Mode::Open if self.held > 0 && self.impatience.is_over(now) => {
                self.compete(window, self.held);
            }
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
                if low > tested && nearly_full && !window.in_recovery() {
                    let before = window.window();
                    self.test(window, before, low, true, now);
                } else if low <= tested && ready > CONTEST.0 {
                    // There was no queue to test.
                    self.wins += 1;
                    self.impatience = Impatience::default();
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
            true if measured.samples >= FEW_SAMPLES => self.queue.low(measured).unwrap_or_default(),
            true => Duration::ZERO,
            false => self.queue.recent.min().map_or(Duration::ZERO, |low| self.queue.above(low)),
        }
    }
}

impl WindowRule for Plumb {
    fn on_sent(&mut self, sent: &Sent) {
        self.cubic.on_sent(sent);
    }

    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        if self.queue.record(acks) {
            match self.mode {
                Mode::Open => {}
                Mode::Test(test) => self.abandon(test),
                Mode::Contested(_) => self.contest(),
            }
        }
        let slow_start = is_first_slow_start(window);
        if slow_start {
            // Before the first round trip ends, the present one is all that is known.
            self.queue.rate =
                self.queue.rate.max(rate(&self.queue.measured, acks.now, acks.rtt.smoothed));
        }
        let standing = self.standing(slow_start);
        let target = self.target(window);
        let tested = self.tested(target, window) / if slow_start { START } else { 1 };
        let open = matches!(self.mode, Mode::Open) && self.queue.is_known(acks.now);
        if open && standing > tested && !window.in_recovery() && !acks.app_limited {
            self.impatience.since.get_or_insert(acks.now);
            let before = window.window();
            self.test(window, before, standing, false, acks.now);
        }
        let still = matches!(self.mode, Mode::Test(_));
        self.cubic.on_ack(window, acks, if still { 0 } else { acked });
        if open && !still && !window.in_slow_start() && self.has_room(window, target) {
            window.grow_by(acked / GROWTH);
        }
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
            (self.lost, self.buffer_is_short) = (0, false);
            let delays = self.queue.delays;
            self.queue = Queue { delays, ..Queue::new(Signal::Either, event.now) };
            return self.cubic.on_congestion_event(window, event);
        }
        if !window.begins_recovery(event) {
            return self.cubic.on_congestion_event(window, event);
        }
        let queue = self.queue.at_most();
        let before = window.window();
        // Slow start has sent more than the path holds.
        self.lost = if window.in_slow_start() { 0 } else { before };
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
                if event.is_loss() && queue > self.target(window) =>
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
        if let Mode::Test(test) = self.mode
            && restored
        {
            // The window is larger than that of the test.
            self.abandon(test);
        }
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
of plumb test at about the same time, because they measure the same queue. While the path has no
queue at all, a window that is at least that of the last loss grows by a sixteenth per round trip. If
the peer reports one-way delays, plumb uses these, so that a queue on the way back does not count.",
    departures: "The algorithm has no other source. Growth and reductions are those of this
implementation of CUBIC. The rules were chosen from about 75 variants with the scenarios of
`bench/plumb/develop.py`, seeds 1 to 3, on quinn.",
    figure: "plumb and the scripted queue",
    to_see: "The queue follows a script and not the window, as if others kept it. plumb tests it
until its window is four packets. After two seconds it no longer yields: slow start restores its
window, which then grows as CUBIC's. The short spike is not a standing queue.",
    weakness: "Many flows with small windows (16 flows at 20 or at 100 Mbps) take each other for
competitors, and fill the buffer as CUBIC does. On paths whose rate varies, such as Wi-Fi and LTE,
plumb uses a little less of the link than CUBIC, and with 20 ms of jitter a fifth less. When a
competitor starts, plumb yields for two seconds. After the path has become longer, plumb is CUBIC for
a minute. If reports of one-way delays end, it is CUBIC, too.",
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
        /// Round trip without a queue in seconds.
        base: f64,
        /// Part of the queueing delay that the peer reports as its one-way delay, if it does.
        reports: Option<f64>,
        window: Aimd,
        now: f64,
        /// Window of the last round trip in bytes.
        sent: f64,
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
            Self { rule, base: BASE, reports: None, window, now: 0.0, sent: window_of(10.0) }
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
                let min = Duration::from_secs_f64(self.base.min(BASE));
                let one_way =
                    self.reports.map(|part| OneWayDelay::from_nanos((part * delay * 1e9) as i64));
                let latest = Duration::from_secs_f64(rtt);
                let acks = AckEvent {
                    now: time(self.now),
                    packets: &packets,
                    in_flight: 0,
                    rtt: Rtt { latest, min, smoothed: latest, ..Rtt::first(latest) },
                    one_way,
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

    #[test]
    fn loss_in_a_test_reduces_the_window_and_slow_start_returns() {
        let mut path = Path::new();
        (0..50).for_each(|_| _ = path.round(alone));
        for _ in 0..1_000 {
            if matches!(path.rule.mode, Mode::Test(_)) {
                break;
            }
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
