//! Adaptive RED (Floyd, Gummadi, Shenker: "Adaptive RED: an algorithm for increasing the robustness
//! of RED's active queue management", 2001; Sync-TCP §2.2.3): gentle RED that adjusts `maxp` until
//! the average queue stays midway between its thresholds.
//!
//! The target range is `min + 0.4 (max-min)` to `min + 0.6 (max-min)`. At an arrival half a second
//! or more after the last change:
//! - if the average is above the target range and `maxp < 0.5`: `maxp += min(0.01, maxp/4)`;
//! - if the average is below the target range and `maxp > 0.01`: `maxp *= 0.9`.
//!
//! Reason for these numbers: at constant load, `maxp (avg - min)` is constant. A step up reduces
//! `avg - min` by at most a fifth, and a step down increases it by a ninth. The distance from `min`
//! to the upper end of the target range is 1.5 times the distance to the lower end, so no step
//! jumps over the target range.
//!
//! Departures:
//! - `maxp` stays within 0.01 and 0.5. In ns-2, the last step may exceed these bounds.
//! - ns-2.35 uses a lower bound than 0.01 on fast links. Here, the bound is always the one of the
//!   note.
//! - ns-2.35 computes the gentle slope from the initial `maxp`. Here the slope starts at the
//!   present `maxp`, so the probability has no step. `slope=initial` selects ns-2's rule.

use std::fmt;
use std::time::Duration;

use fathom_units::{Invalid, Rate, Time};

use super::automatic_red::AutomaticRed;
use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
use super::red::{Red, red_qdisc};
use super::tc::Qdisc;

/// Minimum time between two changes.
const BETWEEN: Duration = Duration::from_millis(500);
/// Lower bound of `maxp`.
pub(super) const LEAST: f64 = 0.01;
/// Upper bound of `maxp`.
pub(super) const MOST: f64 = 0.5;

/// Returns `maxp` raised by one step.
fn raised(max_p: f64) -> f64 {
    (max_p + (max_p / 4.0).min(0.01)).min(MOST)
}

/// Returns `maxp` lowered by one step.
fn lowered(max_p: f64) -> f64 {
    0.9 * max_p
}

/// Position of the average queue relative to the target range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Below,
    Within,
    Above,
}

/// Returns the position of the average of `red` relative to the target range between its
/// thresholds.
fn side(red: &Red) -> Side {
    let (min, width) = (red.spec().min, red.spec().max - red.spec().min);
    match red.average() {
        average if average > min + 0.6 * width => Side::Above,
        average if average < min + 0.4 * width => Side::Below,
        _ => Side::Within,
    }
}

/// A RED queue with a variable `maxp`, shared by Adaptive RED and gARED.
#[derive(Debug)]
pub(super) struct Steered {
    pub(super) red: Red,
    /// Time at which `maxp` last changed.
    changed: Time,
}

impl Steered {
    pub(super) fn new(red: Red) -> Self {
        Self { red, changed: Time::ZERO }
    }

    /// Moves `maxp` one step towards the target range. Does nothing if steps in this direction are
    /// not allowed or the last change is less than half a second ago.
    pub(super) fn step(&mut self, now: Time, allowed: Allowed) {
        if now < self.changed + BETWEEN {
            return;
        }
        let max_p = self.red.spec().max_p;
        let next = match side(&self.red) {
            Side::Above if allowed.up && max_p < MOST => raised(max_p),
            Side::Below if allowed.down && max_p > allowed.least => {
                lowered(max_p).max(allowed.least)
            }
            _ => return,
        };
        self.red.set_max_p(next);
        self.changed = now;
    }
}

/// Steps of `maxp` that are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    pub(super) up: bool,
    pub(super) down: bool,
    /// Lower bound of `maxp`.
    pub(super) least: f64,
}

/// An Adaptive RED queue.
#[derive(Debug)]
pub struct AdaptiveRed(Steered);

impl AdaptiveRed {
    /// Returns an empty queue for a link of this rate.
    pub fn new(spec: &AutomaticRed, rate: Rate, seed: u64) -> Self {
        Self(Steered::new(spec.build(rate, seed)))
    }

    /// Returns the RED queue whose `maxp` this queue adjusts.
    pub fn red(&self) -> &Red {
        &self.0.red
    }
}

impl Queue for AdaptiveRed {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.0.red.weigh(a);
        self.0.step(a.now, Allowed { up: true, down: true, least: LEAST });
        self.0.red.decide(a)
    }
}

/// Adaptive RED as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveRedSpec(AutomaticRed);

impl Discipline for AdaptiveRedSpec {
    const KIND: Kind = Kind {
        name: "adaptive-red",
        short: Some("ared"),
        example: "target=5ms,packet=1420B,min=5p,max=15p,w=0.00114,limit=441p,maxp=0.1,ecn=on,wait=on,mark=avg,slope=present,pass=2p",
        module: Some("sch_red"),
    };

    fn read(options: &str) -> Result<Self, Invalid> {
        AutomaticRed::read(&Self::KIND, options, LEAST..=MOST).map(Self)
    }

    fn build(&self, rate: Rate, seed: u64) -> AnyQueue {
        AnyQueue::fifo(AdaptiveRed::new(&self.0, rate, seed))
    }

    fn packet_limit(&self, rate: Rate) -> Option<usize> {
        Some(self.0.red(rate).limit)
    }

    fn qdisc(&self, rate: Rate) -> Option<Qdisc> {
        Some(red_qdisc(rate, &self.0.red(rate), self.0.packet, true))
    }
}

impl fmt::Display for AdaptiveRedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(Self::KIND.name, f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Load, SECOND, Shared, Sources, arrival, at, moments};
    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(10_000_000);

    fn queue(max_p: f64) -> AdaptiveRed {
        // A weight of 1: the average is the present queue. The target range is 9 to 11 packets.
        AdaptiveRed::new(
            &AutomaticRed { weight: Some(1.0), max_p, ..AutomaticRed::default() },
            RATE,
            3,
        )
    }

    /// Returns maxp after an arrival at each of these milliseconds that finds `queued` packets.
    fn max_p_after(mut queue: AdaptiveRed, queued: usize, at_ms: &[u64]) -> f64 {
        for ms in at_ms {
            queue.admit(&arrival(Time::from_millis(*ms), queued));
        }
        queue.red().spec().max_p
    }

    #[test]
    fn adaptive_red_changes_max_p_by_the_steps_of_the_paper() {
        for (queued, from, to) in [
            (12, 0.1, 0.11),
            (12, 0.02, 0.025), // a quarter is less than 0.01
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
    fn adaptive_red_changes_max_p_at_most_every_half_second() {
        assert_eq!(max_p_after(queue(0.1), 12, &[499]), 0.1);
        let max_p = max_p_after(queue(0.1), 12, &[500, 600, 999]);
        assert!((max_p - 0.11).abs() < 1e-12, "{max_p}");
        let max_p = max_p_after(queue(0.1), 12, &[500, 600, 999, 1_000]);
        assert!((max_p - 0.12).abs() < 1e-12, "{max_p}");
    }

    /// Returns the average every 0.1 s for 300 s after 100 s, of a queue under this many flows, and
    /// the final maxp.
    fn averages(flows: usize) -> (Vec<f64>, f64) {
        let load = Load { rate: RATE, packet: 1_420, flows, round_trips: [40, 120], ecn: true };
        let queue = Shared::new(AdaptiveRed::new(&AutomaticRed::default(), RATE, 5));
        let mut sources = Sources::new(load, queue.clone());
        sources.run(at(0), at(100), SECOND, |_, _| {});
        let mut averages = Vec::new();
        sources.run(at(100), at(400), SECOND / 10, |_, _| {
            averages.push(queue.with(|q| q.red().average()))
        });
        (averages, queue.with(|q| q.red().spec().max_p))
    }

    // A window of W packets needs one mark in 2/3 W^2 packets. With n flows, 10 Mbps, 80 ms and
    // 10 packets queued, W = 80/n. In the middle of the target range the probability is maxp/2, so
    // maxp = 3 n^2/6400, which is within 0.01 and 0.5 for 5 to 32 flows.

    #[test]
    fn adaptive_red_average_stays_on_target_if_max_p_can_reach_it() {
        for flows in [5, 10, 20] {
            let (averages, max_p) = averages(flows);
            let on_target = averages.iter().filter(|q| (9.0..=11.0).contains(*q)).count();
            assert!(
                2 * on_target > averages.len(),
                "{flows} flows: {on_target} of {} samples",
                averages.len()
            );
            let (mean, _) = moments(&averages);
            assert!((9.0..=11.0).contains(&mean), "{flows} flows: {mean}");
            assert!(max_p > LEAST && max_p < MOST, "{flows} flows: {max_p}");
        }
    }

    #[test]
    fn adaptive_red_misses_its_target_at_the_bounds_of_max_p() {
        let (few, max_p) = averages(2);
        assert!(moments(&few).0 < 9.0 && max_p < 1.1 * LEAST, "{} {max_p}", moments(&few).0);
        let (many, max_p) = averages(40);
        assert!(moments(&many).0 > 11.0 && max_p > MOST / 1.1, "{} {max_p}", moments(&many).0);
    }
}
