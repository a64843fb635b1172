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
//! mark       CUBIC's reduction. In TEST: OPEN or CONTESTED as before
//! ```
//!
//! "Impatient" means that the queue has been above the target in twenty round trips and for two
//! seconds in total, and never below half of the target in between. Round trips in which the
//! application is the limit do not count. A flow whose window is too small for a
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

mod queue;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::aimd::Aimd;
use crate::algorithm::{Algorithm, Contract, Page};
use crate::cubic::{BETA, Cubic, CubicConfig};
use crate::event::{AckEvent, CongestionEvent, Sent};
use crate::options::{Values, option_values};
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::signal::{Signal, capabilities_by_signal};
use crate::units::{OneWayDelay, Ratio, Time};

pub use queue::{BASE_SPAN, LEAST_SPAN, LONGEST_SILENCE, RATE_DECAY};
use queue::{Measured, Queue, rate};

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
/// Round trips with a queue above the target, and their total time, after which plumb no longer
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
/// Delays that a round trip of slow start needs before it may end slow start.
pub const FEW_SAMPLES: u32 = 4;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "plumb",
    summary: "plumb: CUBIC that yields to a queue of its own, and not to one that others keep \
        (experimental)",
    source: "Fathom",
    contract: Contract { loss: BETA, one_per_round: false, ..Contract::AS_RENO },
    page: PAGE,
    ..Algorithm::of_rule::<PlumbConfig>()
};

option_values! {
    /// Mechanism to leave out, to measure its effect.
    pub enum Without {
        /// All mechanisms are in use.
        Nothing = "nothing",
        /// Only losses and marks end slow start.
        Exit = "exit",
        /// A queue is never tested, except at the end of slow start.
        Tests = "tests",
        /// A queue that others keep is tested for ever.
        Contest = "contest",
        /// Growth is CUBIC's, also while the path has no queue.
        Growth = "growth",
        /// Flows test at the same queue, whatever their rate is.
        Order = "order",
    }
}

rule_options! {
    /// The configuration `plumb`.
    pub struct PlumbConfig {
        /// queueing delay above which the window is reduced
        target: Duration = "15ms" in Values::Duration { min: Duration::from_millis(1), max: Duration::from_secs(1) },
        /// delay to use: RTT, one-way, or (either) RTT until the peer reports one-way delays
        signal: Signal = "either" in Values::Choice(Signal::NAMES),
        /// mechanism to leave out, to measure its effect: the delay exit of slow start, tests of the
        /// queue, contests, faster growth, or the order of tests by rate
        without: Without = "nothing" in Values::Choice(Without::NAMES),
    }
}

impl RuleConfig for PlumbConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Plumb;

    fn rule(&self, window: &Aimd, now: Time) -> Plumb {
        Plumb {
            target: self.target,
            without: self.without,
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

/// Returns whether no congestion has ended slow start yet.
fn is_first_slow_start(window: &Aimd) -> bool {
    window.in_slow_start() && window.metrics().threshold.is_none()
}

/// How long the queue has been above the target.
#[derive(Clone, Copy, Debug, Default)]
struct Impatience {
    rounds: u32,
    time: Duration,
}

impl Impatience {
    /// Adds a round trip.
    fn add(&mut self, lasted: Duration) {
        self.rounds = self.rounds.saturating_add(1);
        self.time = self.time.saturating_add(lasted);
    }

    fn is_over(&self) -> bool {
        let (rounds, time) = PATIENCE;
        self.rounds >= rounds && self.time >= time
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
    without: Without,
    cubic: Cubic,
    queue: Queue,
    mode: Mode,
    impatience: Impatience,
    /// Tests in a row in which the queue disappeared.
    wins: u32,
    /// Largest window in bytes before a test since the queue was calm.
    held: u64,
    /// Window in bytes before the last loss, until the queue disappears in a test. If the loss came
    /// in slow start, this is what the path holds.
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
        if self.without == Without::Order {
            return target;
        }
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
    /// loss, and neither delays (`standing`) nor RTTs of the last two round trips show a queue. Jitter
    /// makes the limit longer, but not beyond a quarter of the configured target.
    fn has_room(&self, window: &Aimd, target: Duration, standing: Duration) -> bool {
        let most = (target / EMPTY).min(self.target / 4);
        window.window() >= self.lost
            && !self.queue.expired
            && standing.max(self.queue.standing_in_rtt()) <= most
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
        if self.without == if first { Without::Exit } else { Without::Tests } {
            return;
        }
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
    fn end_test(&mut self, window: &mut Aimd, test: Test, low: Duration) {
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
        } else if test.contested || self.is_impatient() {
            let before = if test.contested { test.saved } else { test.saved.max(self.held) };
            self.compete(window, before);
        } else {
            self.wins = 0;
            self.held = self.held.max(test.saved);
            self.open(test.saved);
        }
    }

    fn is_impatient(&self) -> bool {
        self.impatience.is_over() && self.without != Without::Contest
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
            self.impatience.add(now.since(measured.start));
        }
        let is_impatient = self.is_impatient();
        match &mut self.mode {
            Mode::Open if self.held > 0 && is_impatient => {
                self.compete(window, self.held);
            }
            Mode::Open => {}
            Mode::Test(test) if test.rounds > 1 => test.rounds -= 1,
            Mode::Test(test) => {
                let test = *test;
                self.end_test(window, test, low);
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
            let before = window.window();
            self.test(window, before, standing, false, acks.now);
        }
        let still = matches!(self.mode, Mode::Test(_));
        self.cubic.on_ack(window, acks, if still { 0 } else { acked });
        let may_grow = open && !still && !window.in_slow_start();
        if may_grow && self.without != Without::Growth && self.has_room(window, target, standing) {
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
            self.queue.forget(event.now);
            return self.cubic.on_congestion_event(window, event);
        }
        if !window.begins_recovery(event) {
            return self.cubic.on_congestion_event(window, event);
        }
        let queue = self.queue.at_most();
        let before = window.window();
        self.lost = match self.mode {
            Mode::Test(test) => test.saved,
            // Slow start has sent more than the path holds.
            _ if window.in_slow_start() => self.queue.without(before, queue),
            _ => before,
        };
        self.held = BETA.of(self.held);
        self.cubic.on_congestion_event(window, event);
        match self.mode {
            // The test ends. After a loss, slow start returns to what CUBIC keeps of the window
            // before it. A mark says that the window of the test is too large.
            Mode::Test(test) => {
                let kept = BETA.of(test.saved).max(window.window());
                if event.is_loss() {
                    window.restore_to(kept);
                }
                self.open(test.saved);
                if test.contested {
                    self.wins = 0;
                    self.contest();
                } else {
                    self.held = self.held.max(kept);
                }
            }
            Mode::Contested(Contest { rounds: 0, .. })
                if event.is_loss()
                    && queue > self.target(window)
                    && self.queue.is_known(event.now) =>
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
            // The window is larger than that of the test, and CUBIC's curve is that of before.
            self.mode = Mode::Open;
            if test.contested {
                self.contest();
            }
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
