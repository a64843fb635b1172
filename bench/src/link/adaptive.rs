//! Adaptive RED (Floyd, Gummadi, Shenker: "Adaptive RED: an algorithm for increasing the robustness of RED's active queue management",
//! 2001; Sync-TCP §2.2.3): gentle RED that moves `maxp` until the average queue stays in the middle between its thresholds.
//!
//! The target is `min + .4 (max-min)` to `min + .6 (max-min)`. At an arrival, half a second or more after the last change:
//! - the average is above the target and `maxp < .5`: `maxp += min(.01, maxp/4)`;
//! - it is below the target and `maxp > .01`: `maxp *= .9`.
//!
//! Why these numbers: `maxp` may at most rise by a quarter at once, so the average at the same load falls by at most a fifth of the way
//! to `min` and does not leap from above the target to below it; `.9` keeps the fall as slow.
//!
//! Departures:
//! - `maxp` stays within .01 and .5. In ns-2 the last step may pass the bound.
//! - ns-2.35 lowers the bound of .01 on fast links. This is the note's.
//! - ns-2.35 draws the gentle slope from the first `maxp`. Here it starts from the present one, so the probability has no step.

use fathom_cc::Rate;

use super::Arrival;
use super::automatic::AutomaticRed;
use super::options::Usage;
use super::queue::{Admission, Queue};
use super::red::Red;

pub(super) const USAGE: Usage = Usage {
    kind: "adaptive-red",
    example: "target=5ms,packet=1420B,min=5p,max=15p,w=0.00114,limit=441p,maxp=0.1,ecn=on,wait=on,mark=avg",
};

/// Nanoseconds between two changes at least.
pub(super) const BETWEEN: u64 = 500_000_000;
/// Bounds of `maxp`.
pub(super) const LEAST: f64 = 0.01;
/// Upper bound of `maxp`.
pub(super) const MOST: f64 = 0.5;

/// `maxp` one step up.
pub(super) fn raised(max_p: f64) -> f64 {
    (max_p + (max_p / 4.0).min(0.01)).min(MOST)
}

/// `maxp` one step down.
pub(super) fn lowered(max_p: f64) -> f64 {
    0.9 * max_p
}

/// Where an average queue stands to the target between two thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Below,
    Within,
    Above,
}

/// The side of the target between the thresholds of `red` on which its average is.
pub(super) fn side(red: &Red) -> Side {
    let (min, width) = (red.spec().min, red.spec().max - red.spec().min);
    match red.average() {
        average if average > min + 0.6 * width => Side::Above,
        average if average < min + 0.4 * width => Side::Below,
        _ => Side::Within,
    }
}

/// An Adaptive RED queue.
#[derive(Debug)]
pub struct AdaptiveRed {
    red: Red,
    /// When `maxp` last changed.
    changed: u64,
}

impl AdaptiveRed {
    /// An empty queue in front of a link of this rate.
    pub fn new(spec: &AutomaticRed, rate: Rate, seed: u64) -> Self {
        Self { red: spec.build(rate, seed), changed: 0 }
    }

    /// The RED queue it steers.
    pub fn red(&self) -> &Red {
        &self.red
    }

    fn adapt(&mut self, now: u64) {
        if now.saturating_sub(self.changed) < BETWEEN {
            return;
        }
        let max_p = self.red.spec().max_p;
        let next = match side(&self.red) {
            Side::Above if max_p < MOST => raised(max_p),
            Side::Below if max_p > LEAST => lowered(max_p).max(LEAST),
            _ => return,
        };
        self.red.set_max_p(next);
        self.changed = now;
    }
}

impl Queue for AdaptiveRed {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.red.weigh(a);
        self.adapt(a.now);
        self.red.judge(a)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::arrival;
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(10_000_000);

    fn queue(max_p: f64) -> AdaptiveRed {
        // A weight of one: the average is the queue of the moment. Target 9 to 11 packets.
        AdaptiveRed::new(&AutomaticRed { weight: Some(1.0), max_p, ..AutomaticRed::default() }, RATE, 3)
    }

    /// maxp after an arrival at each of these milliseconds that finds `queued` packets.
    fn max_p_after(mut queue: AdaptiveRed, queued: usize, at_ms: &[u64]) -> f64 {
        for ms in at_ms {
            queue.admit(&arrival(ms * 1_000_000, queued));
        }
        queue.red().spec().max_p
    }

    #[test]
    fn max_p_moves_by_the_papers_steps() {
        for (queued, from, to) in [
            (12, 0.1, 0.11),
            (12, 0.02, 0.025), // a quarter is less than .01
            (12, 0.495, 0.5),
            (12, 0.5, 0.5),
            (8, 0.1, 0.09),
            (8, 0.0105, 0.01),
            (8, 0.01, 0.01),
            (9, 0.1, 0.1),
            (11, 0.1, 0.1),
        ] {
            let max_p = max_p_after(queue(from), queued, &[500]);
            assert!((max_p - to).abs() < 1e-12, "{queued} packets, {from}: {max_p} for {to}");
        }
    }

    #[test]
    fn half_a_second_passes_between_changes() {
        assert_eq!(max_p_after(queue(0.1), 12, &[499]), 0.1);
        let max_p = max_p_after(queue(0.1), 12, &[500, 600, 999]);
        assert!((max_p - 0.11).abs() < 1e-12, "{max_p}");
        let max_p = max_p_after(queue(0.1), 12, &[500, 600, 999, 1_000]);
        assert!((max_p - 0.12).abs() < 1e-12, "{max_p}");
    }
}
