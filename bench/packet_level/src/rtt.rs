//! Round-trip times (RFC 9002 §5) and the intervals derived from them (RFC 9002 §6).

use std::time::Duration;

use fathom_cc::Rtt;

/// RTT before the first sample (RFC 9002 §6.2.2).
const INITIAL: Duration = Duration::from_millis(333);
/// Timer granularity (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);
/// Number of probe timeouts that losses must span to mean persistent congestion
/// (RFC 9002 §7.6.1).
const PERSISTENT: u32 = 3;

/// RTT estimator of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    /// Last sample, including the delay of the acknowledgement.
    latest: Duration,
    /// RTT as reported to controllers.
    rtt: Rtt,
    variation: Duration,
    sampled: bool,
    max_ack_delay: Duration,
}

impl RttEstimator {
    /// Creates an estimator without samples. The peer delays acknowledgements by up to
    /// `max_ack_delay`.
    pub const fn new(max_ack_delay: Duration) -> Self {
        let variation = Duration::from_nanos(INITIAL.as_nanos() as u64 / 2);
        Self { latest: INITIAL, rtt: Rtt::first(INITIAL), variation, sampled: false, max_ack_delay }
    }

    /// Adds a sample and the acknowledgement delay that the peer reported with it (RFC 9002 §5.3).
    pub fn sample(&mut self, latest: Duration, ack_delay: Duration) {
        self.latest = latest;
        if !self.sampled {
            self.sampled = true;
            (self.rtt, self.variation) = (Rtt::first(latest), latest / 2);
            return;
        }
        self.rtt = self.rtt.with_sample(latest, ack_delay, self.max_ack_delay);
        let ack_delay = ack_delay.min(self.max_ack_delay);
        let adjusted = if latest >= self.rtt.min + ack_delay { latest - ack_delay } else { latest };
        self.variation = (self.variation * 3 + self.rtt.smoothed.abs_diff(adjusted)) / 4;
        self.rtt.smoothed = (self.rtt.smoothed * 7 + adjusted) / 8;
    }

    /// Restarts the minimum RTT after persistent congestion, because the path may have changed
    /// (RFC 9002 §5.2).
    pub fn forget_min(&mut self) {
        self.rtt.min = self.latest;
    }

    /// Returns whether the estimator has a sample.
    pub const fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Returns the RTT as reported to controllers.
    pub const fn rtt(&self) -> Rtt {
        self.rtt
    }

    /// Returns the time threshold of loss detection: a packet is lost if it was sent at least this
    /// long ago and a later packet was acknowledged. The threshold is 9/8 of the RTT
    /// (RFC 9002 §6.1.2).
    pub fn loss_delay(&self) -> Duration {
        (self.rtt.smoothed.max(self.latest) * 9 / 8).max(GRANULARITY)
    }

    /// Returns the probe timeout after `count` consecutive timeouts (RFC 9002 §6.2.1).
    pub fn probe_timeout(&self, count: u32) -> Duration {
        self.base_timeout().saturating_mul(1 << count.min(16))
    }

    /// Returns the duration beyond which losses mean persistent congestion (RFC 9002 §7.6.1).
    pub fn persistent(&self) -> Duration {
        self.base_timeout() * PERSISTENT
    }

    fn base_timeout(&self) -> Duration {
        self.rtt.smoothed + (self.variation * 4).max(GRANULARITY) + self.max_ack_delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn initial_rtt_is_used_before_the_first_sample() {
        let rtt = RttEstimator::new(ms(25));
        // 333 + 4 * 166.5 + 25
        assert_eq!(rtt.probe_timeout(0), ms(1_024));
        assert_eq!(rtt.probe_timeout(2), ms(4_096));
    }

    #[test]
    fn rtt_smoothing_follows_rfc_9002() {
        let mut rtt = RttEstimator::new(ms(25));
        rtt.sample(ms(80), ms(20));
        // The first sample is taken as it is, regardless of the acknowledgement delay; the
        // variation is half of it.
        assert_eq!(rtt.rtt(), Rtt::first(ms(80)));
        assert_eq!(rtt.probe_timeout(0), ms(80 + 4 * 40 + 25));
        rtt.sample(ms(112), ms(16));
        // The adjusted sample is 96: variation (3 * 40 + 16) / 4 = 34, smoothed (7 * 80 + 96) /
        // 8 = 82.
        assert_eq!(
            rtt.rtt(),
            Rtt { latest: ms(96), smoothed: ms(82), min: ms(80), ack_delay: ms(16) }
        );
        assert_eq!(rtt.probe_timeout(1), ms(2 * (82 + 4 * 34 + 25)));
        assert_eq!(rtt.persistent(), ms(3 * (82 + 4 * 34 + 25)));
        assert_eq!(rtt.loss_delay(), ms(126));
        // A delay that would push the sample below the minimum is not subtracted: smoothed (7 *
        // 82 + 82) / 8.
        rtt.sample(ms(82), ms(10));
        assert_eq!(
            rtt.rtt(),
            Rtt { latest: ms(80), smoothed: ms(82), min: ms(80), ack_delay: ms(2) }
        );
        // Reported delays are limited to the maximum: 107 - 25 = 82.
        rtt.sample(ms(107), ms(500));
        assert_eq!(rtt.rtt().smoothed, ms(82));
    }
}
