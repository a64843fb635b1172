//! Estimates of the queue: delays and RTTs of the last round trips and of the last minute.

use std::time::Duration;

use super::NOTHING;
use crate::event::AckEvent;
use crate::round::RoundTrip;
use crate::signal::{Delays, Signal};
use crate::sliding::Sliding;
use crate::units::{OneWayDelay, Time};

/// Least time over which the smallest delay is taken.
pub const LEAST_SPAN: Duration = Duration::from_millis(100);
/// Time over which the smallest delay of the path is taken, and its parts. Longer than a contest
/// with CUBIC keeps the queue from emptying, short enough for a path that becomes longer.
pub const BASE_SPAN: Duration = Duration::from_secs(60);
const BASE_PARTS: usize = 6;
/// Time without a delay after which the queue is unknown, and plumb is CUBIC.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(1);
/// Part of the highest rate that remains after each round trip.
pub const RATE_DECAY: f64 = 0.99;

/// Delays of one round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) start: Time,
    pub(super) low: Option<OneWayDelay>,
    /// Sum of the queueing delays.
    sum: Duration,
    pub(super) samples: u32,
    bytes: u64,
}

impl Measured {
    pub(super) const fn new(start: Time) -> Self {
        Self { start, low: None, sum: Duration::ZERO, samples: 0, bytes: 0 }
    }
}

/// Estimates of the queue, from the delays of ACK frames.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    delays: Delays,
    /// Delays and RTTs of the last [`BASE_SPAN`]. The smallest ones are those without a queue.
    pub(super) all: Sliding<OneWayDelay, BASE_PARTS>,
    rtts: Sliding<Duration, BASE_PARTS>,
    /// Smoothed RTT.
    pub(super) smoothed: Duration,
    /// Time of the last delay.
    heard: Option<Time>,
    /// Whether the smallest delay has expired, and a longer one has taken its place.
    pub(super) expired: bool,
    round: RoundTrip,
    /// The present round trip.
    pub(super) measured: Measured,
    /// Delays of the last two round trips.
    pub(super) recent: Sliding<OneWayDelay, 4>,
    /// RTTs of the last two round trips, and of the last one.
    recent_rtts: Sliding<Duration, 4>,
    latest_rtts: Sliding<Duration, 4>,
    /// Queueing delays of the last round trip.
    latest: Sliding<Duration, 4>,
    /// Average over round trips of the mean delay above the smallest one.
    pub(super) spread: Duration,
    /// Highest rate of a round trip in bytes per second, which decays.
    pub(super) rate: f64,
}

impl Queue {
    pub(super) fn new(signal: Signal, now: Time) -> Self {
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
            latest: Sliding::default(),
            spread: Duration::ZERO,
            rate: 0.0,
        }
    }

    /// Forgets everything but the signal in use.
    pub(super) fn forget(&mut self, now: Time) {
        *self = Self { delays: self.delays, ..Self::new(Signal::Either, now) };
    }

    /// Returns how far a delay is above the smallest one.
    pub(super) fn above(&self, delay: OneWayDelay) -> Duration {
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
    pub(super) fn record(&mut self, acks: &AckEvent<'_>) -> bool {
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
            self.latest = Sliding::default();
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
        self.latest.record(now, smoothed / 4, queue);
        let measured = &mut self.measured;
        measured.low = Some(measured.low.map_or(delay, |low| low.min(delay)));
        measured.sum = measured.sum.saturating_add(queue);
        measured.samples = measured.samples.saturating_add(1);
        self.heard = Some(now);
        sample.restarts
    }

    /// Returns whether there has been a delay lately.
    pub(super) fn is_known(&self, now: Time) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) <= LONGEST_SILENCE)
    }

    /// Returns the longest queueing delay of the last round trip. A queue on the way back does not
    /// count if delays are one-way.
    pub(super) fn at_most(&self) -> Duration {
        if self.delays.are_one_way() {
            return self.latest.max().unwrap_or_default();
        }
        self.latest_rtts
            .max()
            .zip(self.rtts.min())
            .map_or(Duration::ZERO, |(most, least)| most.saturating_sub(least))
    }

    /// Returns the queueing delay, in both directions, of the smallest RTT of the last two round
    /// trips.
    pub(super) fn standing_in_rtt(&self) -> Duration {
        self.recent_rtts
            .min()
            .zip(self.rtts.min())
            .map_or(Duration::ZERO, |(low, least)| low.saturating_sub(least))
    }

    /// Returns the least queueing delay of a round trip, if it had any delay.
    pub(super) fn low(&self, measured: &Measured) -> Option<Duration> {
        measured.low.map(|low| self.above(low))
    }

    /// Ends the round trip if this ACK frame does, and returns its delays. `steady` tells whether
    /// the spread of the delays is the path's, not that of a queue that grows or shrinks.
    pub(super) fn end_round(&mut self, acks: &AckEvent<'_>, steady: bool) -> Option<Measured> {
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
    pub(super) fn restart(&mut self, now: Time) {
        self.round.begin(now);
        self.measured = Measured::new(now);
    }

    /// Returns the time that some full packets take at the highest rate; at most 10 s.
    pub(super) fn time_of(&self, packets: f64, datagram: u64) -> Duration {
        let nanos = packets * datagram as f64 * 1e9 / self.rate.max(1.0);
        Duration::from_nanos(nanos.min(10e9) as u64)
    }

    /// Returns the window in bytes that would leave no queue on a path of its own if `window` keeps
    /// a queue of `low`.
    pub(super) fn without(&self, window: u64, low: Duration) -> u64 {
        let least = self.rtts.min().unwrap_or_default().saturating_add(low);
        // A queue on the way back is part of the RTT that the window fills.
        let whole = if self.delays.are_one_way() { least.max(self.smoothed) } else { least };
        let share = whole.saturating_sub(low).as_secs_f64() / whole.as_secs_f64().max(1e-9);
        (window as f64 * share) as u64
    }
}

/// Returns the rate of a round trip in bytes per second. A round trip that is shorter than `rtt`
/// counts as long, because ACK frames can arrive in a burst.
pub(super) fn rate(measured: &Measured, now: Time, rtt: Duration) -> f64 {
    measured.bytes as f64 / now.since(measured.start).max(rtt).as_secs_f64().max(1e-6)
}
