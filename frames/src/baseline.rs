//! The transit time of an empty path on two clocks that drift apart, tracked by a Kalman filter.
//!
//! Model, in microseconds and seconds:
//! ```text
//! transit = level + share * queue + noise        queue = RTT - smallest RTT
//! level'  = skew                                 the clocks drift apart
//! ```
//! The RTT needs one clock only, so it does not drift: that is what tells drift from queueing. `share` is the forward part of the
//! queueing (1: all on the data path, 0: all on the ACK path), not known beforehand and wandering. A quiet sample (queue = 0)
//! shows the level; a loaded one hardly moves it, because the noise grows with the queue; and a queue that stands for minutes
//! settles in `share`, so drift stays visible even then.

use fathom_units::Time;

/// Relative clock drift before anything is known, one standard deviation, in us/s. Twice this is the highest rate that Sync-TCP
/// §5.3 quotes (500 us/s).
const SKEW_SPREAD: f64 = 250.0;
/// No pair of clocks drifts faster, in us/s: both at the highest rate, in opposite directions.
const SKEW_LIMIT: f64 = 1_000.0;
/// How far the skew wanders, in us/s per square root of a second (temperature, clock discipline).
const SKEW_WANDER: f64 = 1.0;
/// Share of the queueing that is forward, before anything is known: one half, give or take one half.
const SHARE_SPREAD: f64 = 0.5;
/// How far the share wanders, per square root of a second.
const SHARE_WANDER: f64 = 0.01;
/// Timestamping noise of a quiet sample, in us.
const NOISE: f64 = 100.0;
/// Additional noise per unit of queue: the share fluctuates faster than the filter follows.
const NOISE_PER_QUEUE: f64 = 0.125;
/// Samples closer than this, in seconds, share their noise: many ACKs in one round trip say hardly more than one.
const NOISE_MEMORY: f64 = 0.02;
/// After a longer pause, in seconds, what the errors had to do with each other is forgotten.
const PAUSE: f64 = 60.0;

const LEVEL: usize = 0;
const SKEW: usize = 1;
const SHARE: usize = 2;

/// The filter's state at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline {
    at: Time,
    /// us, relative to an origin that the caller moves with [`Baseline::shift`].
    level: f64,
    /// us/s
    skew: f64,
    share: f64,
    /// Covariance of (level, skew, share).
    cov: [[f64; 3]; 3],
}

impl Baseline {
    /// A first level at `now`, `uncertain` microseconds give or take.
    pub(crate) fn new(now: Time, level: f64, uncertain: f64) -> Self {
        // Not `hypot`: libraries differ in its last bit, and a run must repeat anywhere.
        let spread = [(NOISE * NOISE + uncertain * uncertain).sqrt(), SKEW_SPREAD, SHARE_SPREAD];
        Self { at: now, level, skew: 0.0, share: 0.5, cov: diagonal(spread.map(|s| s * s)) }
    }

    /// us/s
    pub(crate) const fn skew(&self) -> f64 {
        self.skew
    }

    /// The level expected at `now`, in us.
    pub(crate) fn level_at(&self, now: Time) -> f64 {
        self.level + self.skew * self.elapsed(now)
    }

    /// How far the clocks may have drifted unseen since the last observation, in us: two standard deviations.
    pub(crate) fn unseen_drift(&self, now: Time) -> f64 {
        2.0 * self.cov[SKEW][SKEW].max(0.0).sqrt() * self.elapsed(now)
    }

    /// Moves the origin of all levels by `by` us.
    pub(crate) fn shift(&mut self, by: f64) {
        self.level -= by;
    }

    /// Forgets the level for a new one, known within `uncertain` us; the skew stays.
    pub(crate) fn relevel(&mut self, now: Time, level: f64, uncertain: f64) {
        self.predict(now);
        self.level = level;
        for i in 0..3 {
            self.cov[LEVEL][i] = 0.0;
            self.cov[i][LEVEL] = 0.0;
        }
        self.cov[LEVEL][LEVEL] = NOISE * NOISE + uncertain * uncertain;
    }

    /// Learns from a transit time seen while the round trip held `queue` us of queueing.
    pub(crate) fn observe(&mut self, now: Time, transit: f64, queue: f64) {
        let apart = self.elapsed(now);
        if apart <= 0.0 {
            return;
        }
        self.predict(now);
        let noise = NOISE.hypot(NOISE_PER_QUEUE * queue);
        let noise = noise * noise * (NOISE_MEMORY / apart).max(1.0);
        let along: [f64; 3] =
            std::array::from_fn(|i| self.cov[i][LEVEL] + queue * self.cov[i][SHARE]);
        let spread = along[LEVEL] + queue * along[SHARE] + noise;
        let gain = along.map(|a| a / spread);
        let surprise = transit - (self.level + queue * self.share);
        self.level += gain[LEVEL] * surprise;
        self.skew = (self.skew + gain[SKEW] * surprise).clamp(-SKEW_LIMIT, SKEW_LIMIT);
        self.share = (self.share + gain[SHARE] * surprise).clamp(0.0, 1.0);
        for (row, a) in self.cov.iter_mut().zip(along) {
            for (cell, g) in row.iter_mut().zip(gain) {
                *cell -= a * g;
            }
        }
    }

    /// Keeps the level within limits that hold whatever the filter believes.
    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        self.level = self.level.clamp(low, high);
    }

    /// Carries the state forward to `now`.
    fn predict(&mut self, now: Time) {
        let dt = self.elapsed(now);
        self.level += self.skew * dt;
        let p = &mut self.cov;
        if dt > PAUSE {
            *p = diagonal([
                p[LEVEL][LEVEL] + dt * dt * p[SKEW][SKEW],
                p[SKEW][SKEW],
                p[SHARE][SHARE],
            ]);
        } else {
            p[LEVEL][LEVEL] += dt * (2.0 * p[LEVEL][SKEW] + dt * p[SKEW][SKEW]);
            p[LEVEL][SKEW] += dt * p[SKEW][SKEW];
            p[LEVEL][SHARE] += dt * p[SKEW][SHARE];
            p[SKEW][LEVEL] = p[LEVEL][SKEW];
            p[SHARE][LEVEL] = p[LEVEL][SHARE];
        }
        widen(&mut p[SKEW][SKEW], SKEW_WANDER, SKEW_SPREAD, dt);
        widen(&mut p[SHARE][SHARE], SHARE_WANDER, SHARE_SPREAD, dt);
        self.at = self.at.max(now);
    }

    fn elapsed(&self, now: Time) -> f64 {
        now.since(self.at).as_secs_f64()
    }
}

/// Adds `dt` seconds of wandering to a variance, up to what was known at the start.
fn widen(variance: &mut f64, wander: f64, spread: f64, dt: f64) {
    *variance = variance.max((*variance + wander * wander * dt).min(spread * spread));
}

const fn diagonal([a, b, c]: [f64; 3]) -> [[f64; 3]; 3] {
    [[a, 0.0, 0.0], [0.0, b, 0.0], [0.0, 0.0, c]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds 100 samples a second for `seconds`; `path` gives transit and queue at a time in seconds.
    fn run(seconds: u64, path: impl Fn(f64) -> (f64, f64)) -> Baseline {
        let mut base = Baseline::new(Time::ZERO, path(0.0).0, path(0.0).1);
        for i in 1..seconds * 100 {
            let now = Time::from_millis(10 * i);
            let (transit, queue) = path(now.as_secs_f64());
            base.observe(now, transit, queue);
        }
        base
    }

    #[test]
    fn learns_level_and_skew_of_a_quiet_path() {
        let base = run(10, |t| (7_000.0 + 500.0 * t, 0.0));
        assert!((base.skew() - 500.0).abs() < 10.0, "{base:?}");
        assert!((base.level_at(Time::from_millis(10_000)) - 12_000.0).abs() < 20.0, "{base:?}");
    }

    #[test]
    fn learns_which_way_the_queue_lies() {
        let wave = |t: f64| 20_000.0 * (1.0 + (3.0 * t).sin());
        assert!(run(20, |t| (wave(t), wave(t))).share > 0.95);
        assert!(run(20, |t| (0.0, wave(t))).share < 0.05);
    }

    #[test]
    fn a_long_pause_and_a_hostile_queue_leave_it_finite() {
        let mut base = run(1, |_| (0.0, 0.0));
        for i in 1..1_000u64 {
            base.observe(Time::from_nanos(i.pow(6)), 4e9 * (i % 3) as f64, 1e16 * (i % 2) as f64);
            assert!(base.level.is_finite() && base.skew.is_finite() && base.share.is_finite());
            assert!((0..3).all(|j| base.cov[j][j] > 0.0), "{i} {base:?}");
        }
    }
}
