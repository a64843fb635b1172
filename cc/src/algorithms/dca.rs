//! TCP/DCA (Martin, Nilsson, Rhee: "The Incremental Deployability of RTT-Based Congestion Avoidance
//! for High Speed TCP Internet Connections").
//!
//! Reno that also cuts the window when round-trip times grow. After Reno's own growth, the
//! controller compares the mean of the last two RTT samples with the last twenty samples. If this
//! mean exceeds the mean of the twenty plus their standard deviation, a share of the window is
//! taken away, at most once per congestion epoch (DCA §3.3, DCA §4.3). The reaction to losses and
//! marks is exactly Reno's.
//!
//! Means and deviation are exact: they are sums of whole nanoseconds over a fixed ring, compared
//! without division or square root ([`delay_event`]).
//!
//! # Departures
//! The paper does not define these points. Each has an option if the choice could
//! matter.
//! - **Reduction** (`reduction=0.5`): the paper names three levels. Its analysis takes away half of
//!   the window and gives two reasons (DCA §3.3): ECN also requires half, and a deep cut is more
//!   likely to avoid the loss. DCA §4.3 only explores the smaller levels.
//! - **Baseline** (`epoch=average`): an epoch "begins when the RTT increases and terminates when
//!   the RTT returns to some baseline level" (DCA §3.3). Here, an epoch begins with the reaction.
//!   It ends when sampledRTT(x) is not above windowAVG(w), the longer-term average against which
//!   DCA §3.2.1 measures rises. Because this level moves, a persistent queue becomes part of it,
//!   and the sender reacts only to delay above "the base level of queueing that exists"
//!   (DCA §4.4). `start` freezes windowAVG(w) at the reaction, which is literally the level from
//!   which the RTT rose. A queue or a route that stays longer then silences the detector.
//! - **Samples** (`samples=delayed`): only ACKs of more than one segment give a sample, as the
//!   paper filters delayed acknowledgements (DCA §3.1). A QUIC peer that acknowledges every packet
//!   gives no samples, and the controller is then Reno. `all` takes every frame.
//! - **Newest packet only**: a frame gives no sample if its newest packet was sent before a packet
//!   that was acknowledged earlier. A TCP ACK is never such a frame (DCA §3.1: the highest segment
//!   acknowledged).
//! - **Recovery**: no samples (DCA §3.1). The frame that ends recovery gives a sample, because QUIC
//!   never confuses a retransmission with its original.
//! - **Warm-up**: no decision is made before there are w samples. The paper does not mention this.
//! - **Standard deviation** of the w samples themselves (divided by w, not by w - 1).
//! - **Threshold** (`threshold=cut`): a cut also sets the slow-start threshold, because the cut is
//!   "equivalent to the TCP reaction of a loss event" (DCA §3.3). DCA §4.3 names only the window;
//!   with `keep`, slow start undoes the cut within a round trip if the window is then below the
//!   threshold.
//! - **Floor** (`floor=0ms`): the delay event requires a rise of one standard deviation and no
//!   more. On a path without noise, the deviation is zero, so even the third packet sent in answer
//!   to an ACK counts as congestion. The floor is the smallest rise of sampledRTT(x) over
//!   windowAVG(w) that counts, in addition to the standard deviation.
//! - **Reset**: samples leave the ring only as new samples arrive. Only a change of path removes
//!   all samples at once.
//! - **Windows below two datagrams** do not exist (RFC 9002 §7.2). RTTs count up to 18 min
//!   ([`MAX_RTT`]).

use std::time::Duration;

use crate::aimd::{Aimd, Threshold};
use crate::algorithm::{Algorithm, Page};
use crate::controller::ControllerMetrics;
use crate::event::AckEvent;
use crate::options::{Values, option_values};
use crate::rule::rule_options;
use crate::rule::{RuleConfig, WindowRule};
use crate::units::{Ratio, Time};

/// Largest `x` and `w`: the largest number that the paper mentions (DCA §3.2.1).
pub const MAX_SAMPLES: u32 = 200;
/// Longest RTT that is distinguished, 2^40 ns. The sums and squares of 200 such RTTs fit into 128
/// bits.
pub const MAX_RTT: Duration = Duration::from_nanos(1 << 40);
/// Largest value of `floor`.
pub const MAX_FLOOR: Duration = Duration::from_secs(10);

option_values! {
    /// Share of the window that a reaction takes away: congestionReductionLevel (DCA §4.3).
    pub enum Reduction {
        /// 50 %.
        Half = "0.5",
        /// 25 %.
        Quarter = "0.25",
        /// 12.5 %.
        Eighth = "0.125",
    }
}

impl Reduction {
    /// Returns the fraction of the window that remains after the reaction.
    pub const fn leaves(self) -> Ratio {
        match self {
            Self::Half => Ratio::HALF,
            Self::Quarter => Ratio::new(3, 4),
            Self::Eighth => Ratio::new(7, 8),
        }
    }
}

option_values! {
    /// ACK frames that give an RTT sample.
    pub enum Samples {
        /// Frames that newly acknowledge more than one packet (DCA §3.1).
        Delayed = "delayed",
        /// All frames.
        All = "all",
    }
}

option_values! {
    /// Baseline to which RTTs must return before the next reaction.
    pub enum Epoch {
        /// The current windowAVG(w).
        Average = "average",
        /// windowAVG(w) at the time of the reaction.
        Start = "start",
    }
}

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "dca",
    summary: "TCP/DCA: Reno that also cuts the window when the last RTTs exceed the recent mean by \
        the deviation",
    source: "DCA §4.3",
    page: PAGE,
    ..Algorithm::of_rule::<DcaConfig>()
};

rule_options! {
    /// The configuration `dca`. The default is the paper.
    pub struct DcaConfig {
        /// share of the window that a reaction takes away
        reduction: Reduction,
        /// number of newest RTT samples whose mean is compared: sampledRTT(x)
        x: u32 = "2" in Values::Integer { min: 1, max: MAX_SAMPLES },
        /// number of RTT samples in the baseline: windowAVG(w)
        w: u32 = "20" in Values::Integer { min: 1, max: MAX_SAMPLES },
        /// ACK frames that give a sample: only frames that acknowledge more than one packet, or all
        /// frames
        samples: Samples,
        /// baseline that ends a congestion epoch: the current windowAVG(w), or windowAVG(w) at the
        /// start of the epoch
        epoch: Epoch,
        /// slow-start threshold at a cut because of delay: the reduced window, or as before
        threshold: Threshold,
        /// smallest rise of sampledRTT(x) over windowAVG(w) that counts, in addition to one
        /// standard deviation
        floor: Duration = "0ms" in Values::Duration { min: Duration::ZERO, max: MAX_FLOOR },
    }
}

impl RuleConfig for DcaConfig {
    const ALGORITHM: &'static Algorithm = &ALGORITHM;
    type Rule = Dca;

    fn rule(&self, _window: &Aimd, now: Time) -> Dca {
        Dca { config: *self, ring: Ring::new(self.x, self.w), epoch: None, newest: now }
    }
}

/// A mean before the division: `total` nanoseconds over `count` samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mean {
    /// Sum of the samples in nanoseconds.
    pub total: u128,
    /// Number of samples, not zero.
    pub count: u32,
}

impl Mean {
    /// Returns how far this mean is above `other`, in nanoseconds multiplied by both counts; zero
    /// if it is below.
    fn above(self, other: Self) -> u128 {
        (self.total * u128::from(other.count)).saturating_sub(other.total * u128::from(self.count))
    }

    /// Returns whether this mean is at least `floor` above `other`.
    fn reaches(self, other: Self, floor: Duration) -> bool {
        self.above(other)
            >= floor.min(MAX_RTT).as_nanos() * u128::from(self.count) * u128::from(other.count)
    }
}

/// Returns whether sampledRTT(x) > windowAVG(w) + std (DCA §3.2.1). `squares` is the sum of the
/// squares of the w samples.
///
/// With the sums s over x samples and S over w samples, std^2 = squares/w - (S/w)^2. Multiplying
/// both sides by x w and squaring them gives w s - x S > 0 and (w s - x S)^2 > x^2 (w squares -
/// S^2).
pub fn delay_event(sampled: Mean, window: Mean, squares: u128) -> bool {
    let above = sampled.above(window);
    let x = u128::from(sampled.count);
    let variance = (u128::from(window.count) * squares).saturating_sub(window.total * window.total);
    above > 0 && above * above > x * x * variance
}

/// The last samples and their sums.
#[derive(Clone, Debug)]
struct Ring {
    samples: [u64; MAX_SAMPLES as usize],
    /// Index of the next sample.
    next: usize,
    /// Number of samples taken so far, up to [`MAX_SAMPLES`].
    filled: u32,
    sampled: Mean,
    window: Mean,
    squares: u128,
}

impl Ring {
    fn new(x: u32, w: u32) -> Self {
        Self {
            samples: [0; MAX_SAMPLES as usize],
            next: 0,
            filled: 0,
            sampled: Mean { total: 0, count: x },
            window: Mean { total: 0, count: w },
            squares: 0,
        }
    }

    /// Returns the sample that drops out of a mean over the last `count` samples. The result is
    /// zero until the mean has all its samples, because the ring begins with zeros.
    fn leaving(&self, count: u32) -> u128 {
        let at = (self.next + self.samples.len() - count as usize) % self.samples.len();
        u128::from(self.samples[at])
    }

    fn push(&mut self, rtt: Duration) {
        let nanos = u64::try_from(rtt.min(MAX_RTT).as_nanos()).unwrap_or(u64::MAX);
        let (sample, old) = (u128::from(nanos), self.leaving(self.window.count));
        self.sampled.total = self.sampled.total + sample - self.leaving(self.sampled.count);
        self.window.total = self.window.total + sample - old;
        self.squares = self.squares + sample * sample - old * old;
        self.samples[self.next] = nanos;
        self.next = (self.next + 1) % self.samples.len();
        self.filled = (self.filled + 1).min(MAX_SAMPLES);
    }

    /// Returns whether both means have all their samples.
    fn ready(&self) -> bool {
        self.filled >= self.sampled.count.max(self.window.count)
    }
}

/// The rule of TCP/DCA.
#[derive(Clone, Debug)]
pub struct Dca {
    config: DcaConfig,
    ring: Ring,
    /// windowAVG(w) at the reaction that began the current congestion epoch; `None` outside an
    /// epoch.
    epoch: Option<Mean>,
    /// Send time of the newest packet acknowledged so far. Initially, the time at which the path
    /// began.
    newest: Time,
}

impl Dca {
    /// Returns the tcpRTT sample of this ACK frame, if it gives one (DCA §3.1).
    fn sample(&mut self, window: &Aimd, acks: &AckEvent<'_>) -> Option<Duration> {
        let sent = acks.newest_sent().filter(|sent| *sent >= self.newest)?;
        self.newest = sent;
        let counts = acks.packets.len() > 1 || self.config.samples == Samples::All;
        (counts && !window.in_recovery()).then_some(acks.rtt.latest)
    }

    /// Reacts to a delay event once per congestion epoch.
    fn judge(&mut self, window: &mut Aimd) {
        let Ring { sampled, window: average, squares, .. } = self.ring;
        if let Some(start) = self.epoch {
            let baseline = match self.config.epoch {
                Epoch::Average => average,
                Epoch::Start => start,
            };
            if sampled.above(baseline) == 0 {
                self.epoch = None;
            }
        }
        let event =
            delay_event(sampled, average, squares) && sampled.reaches(average, self.config.floor);
        if self.epoch.is_none() && event {
            self.epoch = Some(average);
            window.cut_early(self.config.reduction.leaves(), self.config.threshold);
        }
    }
}

impl WindowRule for Dca {
    fn on_ack(&mut self, window: &mut Aimd, acks: &AckEvent<'_>, acked: u64) {
        window.grow_as_reno(acked);
        if let Some(rtt) = self.sample(window, acks) {
            self.ring.push(rtt);
            if self.ring.ready() {
                self.judge(window);
            }
        }
    }

    /// Adds `queueing`: sampledRTT(x) minus windowAVG(w), or zero if that is negative.
    fn metrics(&self, window: ControllerMetrics) -> ControllerMetrics {
        let Ring { sampled, window: average, .. } = self.ring;
        let above = sampled.above(average) / u128::from(sampled.count * average.count);
        let above = Duration::from_nanos(u64::try_from(above).unwrap_or(u64::MAX));
        ControllerMetrics { queueing: self.ring.ready().then_some(above), ..window }
    }
}

const PAGE: Page = Page {
    about: "TCP/DCA (Martin, Nilsson, Rhee) is Reno with a detector of rising delay. DCA compares the mean of
the last 2 RTT samples with the mean of the last 20 samples. If the difference is larger than the
standard deviation of the 20 samples, DCA halves the window, at most once per congestion epoch. The
detector computes with whole nanoseconds and without rounding.",
    departures: r#"By default a cut halves the window, because the paper's analysis does so and
gives reasons. A congestion epoch ends when the delay returns to "some baseline level", which the
paper does not define. Here the baseline is the moving average of the RTT. This choice fits the
paper's remark that DCA reacts to queueing above the queue that is always present. DCA does not cut
before w samples have arrived. A cut also sets the slow-start threshold, unless `threshold=keep` is
set.

By default, only an ACK of more than one packet gives an RTT sample. If the peer acknowledges every
packet separately, DCA gets no samples and behaves as Reno."#,
    figure: "DCA and the scripted queue",
    to_see: "DCA cuts once when the delay begins to rise. DCA does not cut again while the delay
rises further or stays at 40 ms, because this delay becomes the new baseline. DCA cuts once more at
the spike. Between the two cuts DCA grows as Reno does, however long the queue is, because it reacts
to changes of the delay and not to its level.",
    weakness: "DCA leaves most of the link idle if it is alone on a path without random delay. The
detector compares a rise with the deviation of the last samples. Without random delay, the deviation
is zero. Then any rise causes a cut, even a rise caused by the growth of DCA's own window. DCA uses
15 % of the link with `reduction=0.5`, 29 % with `reduction=0.25` and 53 % with `reduction=0.125`.

The paper has the same order of the three reductions, but smaller differences. A `floor` above the
queueing delay of one packet increases the throughput. With `floor=1.5ms`, DCA uses 71 % of the
link, with almost no queue. With `floor=2ms` or more, DCA never reacts to delay and behaves as Reno.

The paper itself finds that DCA loses throughput if it is a small part of the traffic: 37 % on one
path and 13 % on the other. The reason is that most rises in delay do not precede a loss. If
more than w consecutive samples have the same delay, the moving average becomes equal to the newest
samples. The epoch then ends, so one rise may cause more than one cut.",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(x: u32, w: u32, millis: impl IntoIterator<Item = u64>) -> Ring {
        let mut ring = Ring::new(x, w);
        millis.into_iter().for_each(|ms| ring.push(Duration::from_millis(ms)));
        ring
    }

    fn event(ring: &Ring) -> bool {
        delay_event(ring.sampled, ring.window, ring.squares)
    }

    #[test]
    fn dca_event_detection_matches_hand_calculation() {
        // The samples 2 4 4 4 5 5 7 9 have mean 5 and deviation 2. The mean of the last two: 8 > 7.
        assert!(event(&ring(2, 8, [2, 4, 4, 4, 5, 5, 7, 9])));
        // The mean of the last two, 5 and 9, is exactly mean + deviation, so it is not above it.
        assert!(!event(&ring(2, 8, [2, 4, 4, 4, 5, 7, 5, 9])));
        assert!(!event(&ring(1, 8, [2, 4, 4, 4, 5, 5, 9, 7])), "7 is 5 + 2");
        assert!(event(&ring(1, 8, [2, 4, 4, 4, 5, 5, 7, 9])));
        assert!(!event(&ring(2, 8, [9, 7, 5, 5, 4, 4, 4, 2])), "far below");
        assert!(!event(&ring(2, 8, [5; 8])), "no rise, no deviation");
    }

    #[test]
    fn one_late_rtt_sample_of_twenty_is_a_dca_event() {
        // 19 samples of 50 and one of 52: mean of the last two 51, mean of all 50.1, deviation 2
        // sqrt(19) / 20 = 0.436.
        let mut rtts = vec![50; 19];
        rtts.push(52);
        assert!(event(&ring(2, 20, rtts.iter().copied())));
        // A rise of one nanosecond is enough, because nothing is rounded.
        let mut r = ring(2, 20, [50; 19]);
        r.push(Duration::from_nanos(50_000_001));
        assert!(event(&r));
    }

    #[test]
    fn dca_ring_sums_match_the_last_samples() {
        let rtts: Vec<u64> = (0..1_000_u64).map(|n| n * n * 7_919 % 300).collect();
        for (x, w) in [(2, 20), (1, 1), (20, 2), (5, 200), (200, 200)] {
            let mut r = Ring::new(x, w);
            for n in 0..rtts.len() {
                r.push(Duration::from_millis(rtts[n]));
                let last = |count: u32| {
                    rtts[..=n]
                        .iter()
                        .rev()
                        .take(count as usize)
                        .map(|ms| u128::from(ms * 1_000_000))
                };
                assert_eq!(r.sampled.total, last(x).sum::<u128>(), "x {x} after {n}");
                assert_eq!(r.window.total, last(w).sum::<u128>(), "w {w} after {n}");
                assert_eq!(r.squares, last(w).map(|ns| ns * ns).sum::<u128>());
                assert_eq!(r.ready(), n + 1 >= x.max(w) as usize);
            }
        }
    }

    #[test]
    fn dca_event_detection_agrees_with_floating_point() {
        let rtts: Vec<f64> = (0..2_000_u64).map(|n| (40 + n * n * 104_729 % 61) as f64).collect();
        let mut r = Ring::new(2, 20);
        let mut seen = [0; 2];
        for (n, ms) in rtts.iter().enumerate() {
            r.push(Duration::from_millis(*ms as u64));
            if n < 19 {
                continue;
            }
            let window = &rtts[n - 19..=n];
            let mean = window.iter().sum::<f64>() / 20.0;
            let std = (window.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 20.0).sqrt();
            let margin = (rtts[n] + rtts[n - 1]) / 2.0 - mean - std;
            if margin.abs() > 1e-6 {
                assert_eq!(event(&r), margin > 0.0, "after {n}: {margin}");
                seen[usize::from(margin > 0.0)] += 1;
            }
        }
        assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    }

    #[test]
    fn dca_does_not_overflow_on_the_longest_rtts() {
        let mut r = Ring::new(200, 200);
        for n in 0..400_u32 {
            r.push(if n % 2 == 0 { Duration::MAX } else { Duration::ZERO });
            event(&r);
        }
        assert_eq!(r.window.total, 100 * MAX_RTT.as_nanos());
        assert!(!event(&r));
    }
}
