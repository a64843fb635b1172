//! Round-trip times and the retransmission timeout of TCP (RFC 6298).

use std::time::Duration;

use fathom_cc::Rtt;

use crate::rtt::RttEstimator;

/// Timeout for the first data after a lost SYN (RFC 6298 §5, rule 5.7).
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Bounds of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RtoOptions {
    /// Timeout before the first sample; 1 s by default (RFC 6298 §2, rule 2.1).
    pub initial: Duration,
    /// Minimum timeout; 1 s by default (RFC 6298 §2, rule 2.4). Linux and ns-2 use 200 ms.
    pub floor: Duration,
    /// Whether the floor is the least addition to the smoothed RTT instead, as in Linux
    /// (`tcp_rtt_estimator`).
    pub above_rtt: bool,
    /// Maximum timeout, also with backoff; 64 s by default. The RFC requires at least 60 s
    /// (RFC 6298 §2, rule 2.5).
    pub ceiling: Duration,
}

impl Default for RtoOptions {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { initial: second, floor: second, above_rtt: false, ceiling: second * 64 }
    }
}

/// Estimator of the retransmission timeout of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoEstimator {
    options: RtoOptions,
    /// RTT estimator without acknowledgement delays. QUIC's average, variation and granularity then
    /// equal TCP's (RFC 9002 §5.3, RFC 6298 §2 and §4).
    rtt: RttEstimator,
    rto: Duration,
}

impl RtoEstimator {
    /// Creates an estimator without samples.
    pub const fn new(options: RtoOptions) -> Self {
        Self { options, rtt: RttEstimator::new(Duration::ZERO), rto: options.initial }
    }

    /// Adds a sample, which ends any backoff.
    pub fn sample(&mut self, latest: Duration) {
        self.rtt.sample(latest, Duration::ZERO);
        let base = if self.options.above_rtt { self.rtt.rtt().smoothed } else { Duration::ZERO };
        let rto = self.rtt.probe_timeout(0);
        self.rto = rto.max(base + self.options.floor).min(self.options.ceiling);
    }

    /// Doubles the timeout after it has expired, up to the ceiling (RFC 6298 §5, rule 5.5).
    pub fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(self.options.ceiling);
    }

    /// Sets the timeout for the first data after a lost SYN (RFC 6298 §5, rule 5.7).
    pub fn begin_after_lost_syn(&mut self) {
        if !self.is_sampled() {
            self.rto = AFTER_LOST_SYN.max(self.options.floor).min(self.options.ceiling);
        }
    }

    /// Returns the retransmission timeout.
    pub const fn rto(&self) -> Duration {
        self.rto
    }

    /// Returns the RTT as reported to controllers. Before the first sample, this is the initial
    /// timeout, which takes the role of the initial RTT of the QUIC-like sender.
    pub const fn rtt(&self) -> Rtt {
        if self.is_sampled() { self.rtt.rtt() } else { Rtt::first(self.options.initial) }
    }

    /// Returns whether the estimator has a sample.
    pub const fn is_sampled(&self) -> bool {
        self.rtt.is_sampled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn with_floor(floor: u64) -> RtoEstimator {
        RtoEstimator::new(RtoOptions { floor: ms(floor), ..RtoOptions::default() })
    }

    /// RFC 6298 §2, rules 2.1 to 2.3.
    #[test]
    fn tcp_timeout_is_srtt_plus_four_rttvar() {
        let mut rto = with_floor(0);
        assert_eq!(rto.rto(), ms(1_000));
        rto.sample(ms(80));
        assert_eq!(rto.rto(), ms(80 + 4 * 40));
        rto.sample(ms(96));
        // The variation is (3 * 40 + 16) / 4 = 34, with the old average. Then the average becomes
        // (7 * 80 + 96) / 8 = 82.
        assert_eq!((rto.rtt().smoothed, rto.rto()), (ms(82), ms(82 + 4 * 34)));
        assert_eq!((rto.rtt().latest, rto.rtt().min), (ms(96), ms(80)));
    }

    /// RFC 6298 §2, rules 2.4 and 2.5.
    #[test]
    fn tcp_timeout_stays_between_floor_and_ceiling() {
        for (floor, expected) in [(1_000, 1_000), (200, 200), (0, 30)] {
            let mut rto = with_floor(floor);
            rto.sample(ms(10));
            assert_eq!(rto.rto(), ms(expected));
        }
        let mut rto = RtoEstimator::new(RtoOptions::default());
        rto.sample(ms(100_000));
        assert_eq!(rto.rto(), ms(64_000));
    }

    /// Linux adds at least 200 ms to the smoothed RTT.
    #[test]
    fn floor_above_the_rtt_is_added_to_it() {
        let above = RtoOptions { floor: ms(200), above_rtt: true, ..RtoOptions::default() };
        for (options, expected) in [(above, 280), (RtoOptions { above_rtt: false, ..above }, 200)] {
            let mut rto = RtoEstimator::new(options);
            (0..50).for_each(|_| rto.sample(ms(80)));
            assert_eq!(rto.rto(), ms(expected));
        }
    }

    /// RFC 6298 §5, rules 5.5 and 5.7; the next sample ends the backoff (note at the end of §5).
    #[test]
    fn tcp_timeout_doubles_until_the_next_sample() {
        let mut rto = RtoEstimator::new(RtoOptions::default());
        let course: Vec<u64> = (0..8)
            .map(|_| {
                rto.back_off();
                rto.rto().as_secs()
            })
            .collect();
        assert_eq!(course, [2, 4, 8, 16, 32, 64, 64, 64]);
        rto.begin_after_lost_syn();
        assert_eq!(rto.rto(), ms(3_000));
        rto.sample(ms(100));
        assert_eq!(rto.rto(), ms(1_000));
    }
}
