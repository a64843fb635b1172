//! gARED, gentle Adaptive RED (gHSTCP §4.3): [`AdaptiveRed`](super::AdaptiveRed) that also looks at where the average is going.
//!
//! On fast long paths with few flows, Adaptive RED goes on raising `maxp` while the average already falls back to its target: the answer
//! to the last change is a round trip late, so the average swings. gARED raises `maxp` only while the average is above the target and
//! rising, and lowers it only while the average is below the target, above `min` and falling. Below `min` nothing is dropped, and a
//! smaller `maxp` would change nothing there. `maxp` has no lower bound: on a fast link a fair probability is far below .01.
//!
//! Steps, target, upper bound and automatic parameters are those of Adaptive RED.
//!
//! Departures:
//! - The paper does not say over which time the average rises or falls. Here: from one look to the next, half a second or more apart.
//!   From arrival to arrival the average rises whenever the queue of the moment is above it, which would follow every burst.
//! - `maxp` stays a normal number above zero, so that it can rise again.

use fathom_cc::Rate;

use super::Arrival;
use super::adaptive::{BETWEEN, Side, lowered, raised, side};
use super::automatic::AutomaticRed;
use super::options::Usage;
use super::queue::{Admission, Queue};
use super::red::Red;

pub(super) const USAGE: Usage = Usage {
    kind: "gentle-ared",
    example: "target=5ms,packet=1420B,min=5p,max=15p,w=0.00114,limit=441p,maxp=0.1,ecn=on,wait=on,mark=avg",
};

/// A gARED queue.
#[derive(Debug)]
pub struct GentleAred {
    red: Red,
    /// When the average was last looked at, and what it was.
    looked: u64,
    earlier: f64,
}

impl GentleAred {
    /// An empty queue in front of a link of this rate.
    pub fn new(spec: &AutomaticRed, rate: Rate, seed: u64) -> Self {
        Self { red: spec.build(rate, seed), looked: 0, earlier: 0.0 }
    }

    /// The RED queue it steers.
    pub fn red(&self) -> &Red {
        &self.red
    }

    fn adapt(&mut self, now: u64) {
        if now.saturating_sub(self.looked) < BETWEEN {
            return;
        }
        let (average, max_p) = (self.red.average(), self.red.spec().max_p);
        match side(&self.red) {
            Side::Above if average > self.earlier => self.red.set_max_p(raised(max_p)),
            Side::Below if average < self.earlier && average > self.red.spec().min => {
                self.red.set_max_p(lowered(max_p).max(f64::MIN_POSITIVE));
            }
            _ => {}
        }
        self.looked = now;
        self.earlier = average;
    }
}

impl Queue for GentleAred {
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

    /// maxp after looks, half a second apart, that find these queues; the average is the queue of the moment. Target 9 to 11 packets.
    fn max_p_after(start: f64, queues: &[usize]) -> f64 {
        let spec = AutomaticRed { weight: Some(1.0), max_p: start, ..AutomaticRed::default() };
        let mut queue = GentleAred::new(&spec, RATE, 3);
        for (n, queued) in queues.iter().enumerate() {
            queue.admit(&arrival((n as u64 + 1) * BETWEEN, *queued));
        }
        queue.red().spec().max_p
    }

    #[test]
    fn max_p_follows_the_average_only_on_its_way_from_the_target() {
        for (queues, to) in [
            (&[12][..], 0.11),
            (&[12, 13], 0.12),
            (&[13, 12], 0.11),         // above the target, but on its way back
            (&[10, 8], 0.09),          // below and falling
            (&[10, 8, 7], 0.081),      // further
            (&[10, 7, 8], 0.09),       // below, but on its way back
            (&[10, 8, 5], 0.09),       // not above min
            (&[10, 10, 9, 11], 0.1),   // within
            (&[12, 12, 12, 12], 0.11), // steady
        ] {
            let max_p = max_p_after(0.1, queues);
            assert!((max_p - to).abs() < 1e-12, "{queues:?}: {max_p} for {to}");
        }
    }

    #[test]
    fn max_p_has_an_upper_bound_and_no_lower_one() {
        assert_eq!(max_p_after(0.495, &[12]), 0.5);
        // .01 * .9^2
        assert!((max_p_after(0.01, &[10, 8, 7]) - 0.0081).abs() < 1e-12);
    }
}
