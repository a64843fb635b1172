//! gARED, gentle Adaptive RED (gHSTCP §4.3). It extends
//! [`AdaptiveRed`](super::adaptive_red::AdaptiveRed) by considering whether the average rises or
//! falls.
//!
//! On fast long paths with few flows, Adaptive RED continues to raise `maxp` while the average is
//! already falling back to its target. The average oscillates, because the effect of the last
//! change is seen a round trip late. gARED raises `maxp` only while the average is above the target
//! range and rising. It lowers `maxp` only while the average is below the target range, above `min`
//! and falling. Below `min`, no packet is dropped, so a smaller `maxp` would have no effect. `maxp`
//! has no lower bound, because on a fast link a suitable probability is far below 0.01.
//!
//! The steps, the target range, the upper bound and the automatic parameters are the same as in
//! Adaptive RED.
//!
//! Departures:
//! - The paper does not define the period over which the average rises or falls. Here, the trend is
//!   taken from one arrival to the next, at the point where Adaptive RED applies its rule. The
//!   other reading, from one check to the next half a second later, was tried. With a much too
//!   large `maxp`, the average is above `min` only for short times. The other reading misses these
//!   times and never lowers `maxp`.
//! - `maxp` always stays a normal number above zero, so that it can rise again.

use std::fmt;

use fathom_units::{Invalid, Rate};

use super::adaptive_red::{Allowed, MOST, Steered};
use super::automatic_red::AutomaticRed;
use super::discipline::{Admission, AnyQueue, Arrival, Discipline, Kind, Queue};
use super::red::Red;

/// A gARED queue.
#[derive(Debug)]
pub struct GentleAred {
    steered: Steered,
    /// Average queue at the previous arrival.
    earlier: f64,
}

impl GentleAred {
    /// Returns an empty queue for a link of this rate.
    pub fn new(spec: &AutomaticRed, rate: Rate, seed: u64) -> Self {
        Self { steered: Steered::new(spec.build(rate, seed)), earlier: 0.0 }
    }

    /// Returns the RED queue whose `maxp` this queue adjusts.
    pub fn red(&self) -> &Red {
        &self.steered.red
    }
}

impl Queue for GentleAred {
    fn admit(&mut self, a: &Arrival) -> Admission {
        self.steered.red.weigh(a);
        let (average, min) = (self.red().average(), self.red().spec().min);
        let up = average > self.earlier;
        let down = average < self.earlier && average > min;
        self.steered.step(a.now, Allowed { up, down, least: f64::MIN_POSITIVE });
        self.earlier = average;
        self.steered.red.decide(a)
    }
}

/// gARED as users write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GentleAredSpec(AutomaticRed);

impl Discipline for GentleAredSpec {
    const KIND: Kind = Kind {
        name: "gentle-ared",
        short: Some("gared"),
        example: "target=5ms,packet=1420B,min=5p,max=15p,w=0.00114,limit=441p,maxp=0.1,ecn=on,wait=on,mark=avg,slope=present,pass=2p",
        module: None,
    };

    fn read(options: &str) -> Result<Self, Invalid> {
        AutomaticRed::read(&Self::KIND, options, f64::MIN_POSITIVE..=MOST).map(Self)
    }

    fn build(&self, rate: Rate, seed: u64) -> AnyQueue {
        AnyQueue::fifo(GentleAred::new(&self.0, rate, seed))
    }

    fn packet_limit(&self, rate: Rate) -> Option<usize> {
        Some(self.0.red(rate).limit)
    }
}

impl fmt::Display for GentleAredSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(Self::KIND.name, f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::adaptive_red::AdaptiveRed;
    use super::super::testing::{Load, SECOND, Shared, Sources, arrival, at, moments};
    use fathom_units::Time;

    use super::*;

    const RATE: Rate = Rate::from_bits_per_sec(10_000_000);

    /// Returns maxp after arrivals at these milliseconds that find these queues. The average equals
    /// the present queue, and the target range is 9 to 11 packets.
    fn max_p_at(start: f64, arrivals: &[(u64, usize)]) -> f64 {
        let spec = AutomaticRed { weight: Some(1.0), max_p: start, ..AutomaticRed::default() };
        let mut queue = GentleAred::new(&spec, RATE, 3);
        for (ms, queued) in arrivals {
            queue.admit(&arrival(Time::from_millis(*ms), *queued));
        }
        queue.red().spec().max_p
    }

    /// Returns maxp as `max_p_at` does, for arrivals half a second apart.
    fn max_p_after(start: f64, queues: &[usize]) -> f64 {
        let arrivals: Vec<_> = (1..).map(|n| 500 * n).zip(queues.iter().copied()).collect();
        max_p_at(start, &arrivals)
    }

    #[test]
    fn gared_changes_max_p_only_while_average_leaves_the_target() {
        for (queues, to) in [
            (&[12][..], 0.11),
            (&[12, 13], 0.12),
            (&[13, 12], 0.11),         // above the target, but falling
            (&[10, 8], 0.09),          // below and falling
            (&[10, 8, 7], 0.081),      // still falling
            (&[10, 7, 8], 0.09),       // below, but rising
            (&[10, 8, 5], 0.09),       // not above min
            (&[10, 10, 9, 11], 0.1),   // within
            (&[12, 12, 12, 12], 0.11), // steady
        ] {
            let max_p = max_p_after(0.1, queues);
            assert!((max_p - to).abs() < 1e-12, "{queues:?}: {max_p} for {to}");
        }
    }

    #[test]
    fn gared_max_p_has_an_upper_but_no_lower_bound() {
        assert_eq!(max_p_after(0.495, &[12]), 0.5);
        // 0.01 * 0.9^2
        assert!((max_p_after(0.01, &[10, 8, 7]) - 0.0081).abs() < 1e-12);
    }

    #[test]
    fn gared_compares_adjacent_averages_and_limits_step_rate() {
        // The average is higher than at the last change, but falling.
        assert!((max_p_at(0.1, &[(500, 12), (900, 14), (1_000, 13)]) - 0.11).abs() < 1e-12);
        // A step is allowed again later than half a second after the last one.
        assert!(
            (max_p_at(0.1, &[(500, 12), (900, 14), (1_000, 13), (1_001, 14)]) - 0.12).abs() < 1e-12
        );
        assert!((max_p_at(0.1, &[(500, 12), (900, 14), (999, 15)]) - 0.11).abs() < 1e-12);
    }

    /// Returns the mean and the deviation of the queue and the mean of RED's average, over 200 s
    /// after the first 300 s, and the final maxp.
    fn run<Q: Queue + 'static>(load: Load, queue: Q, red: fn(&Q) -> &Red) -> [f64; 4] {
        let queue = Shared::new(queue);
        let mut sources = Sources::new(load, queue.clone());
        sources.run(at(0), at(300), SECOND, |_, _| {});
        let (mut queues, mut averages) = (Vec::new(), Vec::new());
        sources.run(at(300), at(500), SECOND / 50, |link, now| {
            queues.push(link.queue_length(now) as f64);
            averages.push(queue.with(|q| red(q).average()));
        });
        let (mean, deviation) = moments(&queues);
        [mean, deviation, moments(&averages).0, queue.with(|q| red(q).spec().max_p)]
    }

    // The paper's case at a tenth of its rate: 10 flows and 1500-byte packets (the paper has
    // 2.5 Gbps and a min of 2500 packets). A window of W needs one drop in 2/3 W^2 packets: at
    // 100 ms and 500 packets queued, W = (2083 + 500)/10, so maxp/2 = 2.2e-5. Adaptive RED's lower
    // bound is 0.01, so its average never gets near its target range of 450 to 550 packets.
    //
    // The queue of gARED is steadier relative to its mean. Its absolute deviation is smaller than
    // that of Adaptive RED only at 100 ms. At 25 ms, Adaptive RED's queue is half as long and
    // therefore has the smaller deviation.

    #[test]
    fn gared_queue_of_a_fast_long_path_is_steady_and_on_target() {
        let rate = Rate::from_bits_per_sec(250_000_000);
        let spec = AutomaticRed {
            packet: 1_500,
            min: Some(250.0),
            limit: Some(1_000),
            ..AutomaticRed::default()
        };
        for (ms, plain_too) in [(25, false), (100, true)] {
            let round_trips = [ms, ms * 11 / 10];
            let load = Load { rate, packet: 1_500, flows: 10, round_trips, ecn: false };
            let adaptive = run(load, AdaptiveRed::new(&spec, rate, 5), AdaptiveRed::red);
            let gentle = run(load, GentleAred::new(&spec, rate, 5), GentleAred::red);
            let what =
                format!("{ms} ms: [mean, deviation, average, maxp] {adaptive:?}, {gentle:?}");
            assert!(adaptive[2] < 450.0 && adaptive[3] < 0.011, "{what}");
            assert!((450.0..550.0).contains(&gentle[2]) && gentle[3] < 0.01, "{what}");
            assert!(gentle[1] / gentle[0] < adaptive[1] / adaptive[0], "{what}");
            assert!(!plain_too || gentle[1] < adaptive[1], "{what}");
        }
    }
}
