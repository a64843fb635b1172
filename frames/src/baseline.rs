//! The transit time of an empty path, measured with two clocks that drift apart. A Kalman filter
//! tracks it.
//!
//! Model, in microseconds and seconds: ```text transit = level + share * queue + noise        queue
//! = RTT - smallest RTT level'  = skew                                 the clocks drift apart ```
//! The RTT is measured with one clock, so it does not drift. The filter uses this to separate drift
//! from queueing. `share` is the forward part of the queueing (1 if all is on the data path, 0 if
//! all is on the ACK path). It is unknown at first and changes slowly. A sample without queueing
//! (queue = 0) shows the level. A sample with queueing hardly moves the level, because the noise
//! grows with the queue. A queue that lasts for minutes is absorbed by `share`, so drift stays
//! visible even then.

use fathom_units::Time;

/// Standard deviation of the relative clock drift before any observation, in us/s. Twice this is
/// the highest rate that Sync-TCP §5.3 quotes (500 us/s).
const SKEW_SPREAD: f64 = 250.0;
/// Largest relative drift between any two clocks, in us/s. Both clocks then have the highest rate,
/// in opposite directions.
const SKEW_LIMIT: f64 = 1_000.0;
/// Random walk of the skew, in us/s per square root of a second (temperature, clock discipline).
const SKEW_WANDER: f64 = 1.0;
/// Uncertainty of the forward share of the queueing before any observation: the share is one half,
/// plus or minus one half.
const SHARE_SPREAD: f64 = 0.5;
/// Random walk of the share, per square root of a second.
const SHARE_WANDER: f64 = 0.01;
/// Timestamping noise of a sample without queueing, in us.
const NOISE: f64 = 100.0;
/// Additional noise per unit of queue, because the share fluctuates faster than the filter follows.
const NOISE_PER_QUEUE: f64 = 0.125;
/// Time in seconds within which samples share their noise. Many ACKs in one round trip give hardly
/// more information than one ACK.
const NOISE_MEMORY: f64 = 0.02;
/// Length in seconds of a pause after which the correlations between the errors are forgotten.
const PAUSE: f64 = 60.0;

const LEVEL: usize = 0;
const SKEW: usize = 1;
const SHARE: usize = 2;

/// The filter's state at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline {
    at: Time,
    /// Level in us, relative to an origin that the caller moves with [`Baseline::shift`].
    level: f64,
    /// Skew in us/s.
    skew: f64,
    share: f64,
    /// Covariance of (level, skew, share).
    cov: [[f64; 3]; 3],
}

impl Baseline {
    /// Creates a baseline with a first level at `now`, known within `uncertain` microseconds.
    pub(crate) fn new(now: Time, level: f64, uncertain: f64) -> Self {
        // `hypot` is not used here, because its last bit differs between libraries, and a run must
        // be repeatable anywhere.
        let spread = [(NOISE * NOISE + uncertain * uncertain).sqrt(), SKEW_SPREAD, SHARE_SPREAD];
        Self { at: now, level, skew: 0.0, share: 0.5, cov: diagonal(spread.map(|s| s * s)) }
    }

    /// Returns the skew in us/s.
    pub(crate) const fn skew(&self) -> f64 {
        self.skew
    }

    /// Returns the level expected at `now`, in us.
    pub(crate) fn level_at(&self, now: Time) -> f64 {
        self.level + self.skew * self.elapsed(now)
    }

    /// Returns how far the clocks may have drifted apart since the last observation, in us. This is
    /// two standard deviations.
    pub(crate) fn unseen_drift(&self, now: Time) -> f64 {
        2.0 * self.cov[SKEW][SKEW].max(0.0).sqrt() * self.elapsed(now)
    }

    /// Moves the origin of all levels by `by` us.
    pub(crate) fn shift(&mut self, by: f64) {
        self.level -= by;
    }

    /// Replaces the level by a new one that is known within `uncertain` us. The skew is not
    /// changed.
    pub(crate) fn relevel(&mut self, now: Time, level: f64, uncertain: f64) {
        self.predict(now);
        self.level = level;
        for i in 0..3 {
            self.cov[LEVEL][i] = 0.0;
            self.cov[i][LEVEL] = 0.0;
        }
        self.cov[LEVEL][LEVEL] = NOISE * NOISE + uncertain * uncertain;
    }

    /// Updates the filter with a transit time that was measured while the round trip contained
    /// `queue` us of queueing.
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

    /// Keeps the level within limits that hold whatever the state of the filter is.
    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        self.level = self.level.clamp(low, high);
    }

    /// Advances the state to `now`.
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

/// Adds `dt` seconds of random walk to a variance, up to the initial uncertainty.
fn widen(variance: &mut f64, wander: f64, spread: f64, dt: f64) {
    *variance = variance.max((*variance + wander * wander * dt).min(spread * spread));
}

const fn diagonal([a, b, c]: [f64; 3]) -> [[f64; 3]; 3] {
    [[a, 0.0, 0.0], [0.0, b, 0.0], [0.0, 0.0, c]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds 100 samples per second for `seconds`. `path` returns transit and queue for a time in
    /// seconds.
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
    fn clock_offset_and_skew_of_a_quiet_path_are_learned() {
        let base = run(10, |t| (7_000.0 + 500.0 * t, 0.0));
        assert!((base.skew() - 500.0).abs() < 10.0, "{base:?}");
        assert!((base.level_at(Time::from_millis(10_000)) - 12_000.0).abs() < 20.0, "{base:?}");
    }

    #[test]
    fn share_of_queueing_in_each_direction_is_learned() {
        let wave = |t: f64| 20_000.0 * (1.0 + (3.0 * t).sin());
        assert!(run(20, |t| (wave(t), wave(t))).share > 0.95);
        assert!(run(20, |t| (0.0, wave(t))).share < 0.05);
    }

    #[test]
    fn long_pause_and_extreme_delays_keep_estimates_finite() {
        let mut base = run(1, |_| (0.0, 0.0));
        for i in 1..1_000u64 {
            base.observe(Time::from_nanos(i.pow(6)), 4e9 * (i % 3) as f64, 1e16 * (i % 2) as f64);
            assert!(base.level.is_finite() && base.skew.is_finite() && base.share.is_finite());
            assert!((0..3).all(|j| base.cov[j][j] > 0.0), "{i} {base:?}");
        }
    }
}
